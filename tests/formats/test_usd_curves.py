"""Free curves in USD: a layer over the file, whose animations have new values."""

import shutil

import numpy as np
import pytest

import supple
from helpers.spring_engine import spring_engine
from supple.errors import FormatError
from supple.formats.save import remove_curves

pytest.importorskip("pxr", reason="USD comes with the extra supple[usd]")
from pxr import Usd, UsdSkel

from helpers.usd_samples import TWO_CLIPS, complaints, played

pytestmark = pytest.mark.filterwarnings("ignore::supple.errors.SuppleWarning")


@pytest.fixture(scope="module", autouse=True)
def springs():
    with spring_engine() as name:
        yield name


def made(character, free, **options):
    return supple.curves(character, engine="springs", free=free, anatomy=None, push=0.3, **options)


@pytest.fixture
def two_clips(tmp_path):
    (tmp_path / "two.usda").write_text(TWO_CLIPS)
    return supple.load(tmp_path / "two.usda")


def codes_of(curves):
    source = curves.character.source
    first = source.time_codes.get(curves.name, [0.0])[0]
    return np.round(first + curves.times * source.time_codes_per_second, 6)


def apart(file, curves):
    baked = curves.baked()
    off = played(file, baked, codes_of(curves)) - baked.frames
    return float(np.linalg.norm(off, axis=2).max() / curves.character.surface.size)


def test_usdskel_and_supple_play_the_simulation(two_clips, tmp_path):
    swinging = {"simulation": {"sag": 0.1}, "settle": 0}
    curves = made(two_clips, ["top.r*"], motion="Stand", **swinging)
    target = tmp_path / "curves.usda"
    figures = supple.save(target, curves, error=5e-4)
    assert apart(target, curves) <= 5e-4
    assert figures["error"] <= 5e-4
    assert np.abs(curves.added).max() > 0.01
    assert "@./two.usda@" in target.read_text()[:4000]
    assert complaints(target) <= complaints(tmp_path / "two.usda")
    again = supple.load(target).motions["Stand"]
    poses = again.at(np.clip(curves.times, again.times[0], again.times[-1]))[0]
    assert np.abs(poses - curves.poses).max() < 5e-3


def test_real_characters_keep_within_the_error(assets, tmp_path):
    file = shutil.copy(assets / "usd_skel" / "RiggedFigure.usdz", tmp_path)
    character = supple.load(file)
    names = [each.name for each in character.rig.parameters]
    arm = [name for name in names if "arm" in name.lower() and name.endswith(("rx", "ry", "rz"))]
    curves = made(character, arm[:6])
    figures = supple.save(tmp_path / "figure.usdc", curves, keys="every")
    assert figures["error"] <= 0.002
    assert figures["channels"] == 2


BULGE = """            uniform token[] skel:blendShapes = ["bulge"]
            rel skel:blendShapeTargets = </Original/Root/Post/bulge>
            def BlendShape "bulge"
            {
                uniform vector3f[] offsets = [(9,0,0), (0,9,0)]
                uniform int[] pointIndices = [5, 6]
            }
            int[] faceVertexCounts"""
WEIGHTS = """def SkelAnimation "Nod"
        {
            uniform token[] blendShapes = ["bulge"]
            float[] blendShapeWeights.timeSamples = { 48: [0.2], 96: [0.6] }"""


def test_weights_of_shapes_are_added_to(tmp_path):
    text = TWO_CLIPS.replace("            int[] faceVertexCounts", BULGE)
    text = text.replace('def SkelAnimation "Nod"\n        {', WEIGHTS)
    (tmp_path / "shape.usda").write_text(text)
    swinging = {"simulation": {"sag": 0.1}, "settle": 0}
    curves = made(supple.load(tmp_path / "shape.usda"), ["bulge"], motion="Nod", **swinging)
    assert np.abs(curves.added).max() > 0.05
    target = tmp_path / "curves.usda"
    supple.save(target, curves, keys="every")
    again = supple.load(target).motions["Nod"]
    assert np.abs(again.at(curves.times)[0] - curves.poses)[:, curves.columns].max() < 1e-5


def test_a_part_leaves_the_rest_of_the_clip_and_the_played_animation_unchanged(two_clips, tmp_path):
    curves = made(two_clips, ["top.r*"], motion="Nod", start=0.3, end=0.7)
    target = tmp_path / "part.usda"
    figures = supple.save(target, curves)
    assert figures["n_keys"] < figures["n_samples"]
    again = supple.load(target).motions
    assert list(again) == ["Stand", "Nod"]
    before, after = two_clips.motions["Nod"], again["Nod"]
    for time in (0.1, 0.2, 0.8, 0.9):
        gap = np.abs(before.at(time)[0] - after.at(time)[0]).max()
        assert gap < 0.02  # both are splines through samples of a line
    stage = Usd.Stage.Open(str(target))
    skeleton = stage.GetPrimAtPath("/Left/Root/Skel")
    source = UsdSkel.BindingAPI(skeleton).GetInheritedAnimationSource()
    assert str(source.GetPath()) == "/Left/Root/Stand"


def test_a_motion_the_file_has_not_is_a_new_animation_and_is_played(tmp_path, assets):
    file = shutil.copy(assets / "usd_skel" / "dqs.usda", tmp_path)
    character = supple.load(file)
    free = [p.name for p in character.rig.parameters if p.name.endswith(("rx", "ry", "rz"))][-3:]
    curves = made(character, free, motion="wiggle")
    target = tmp_path / "shaken.usda"
    figures = supple.save(target, curves, keys="every")
    assert figures["new"]
    assert figures["animation"] == "shaken"
    assert figures["error"] <= 0.002
    assert apart(target, curves) <= 0.002


def test_an_additive_animation_is_not_played(two_clips, tmp_path):
    curves, target = made(two_clips, ["top.r*"], motion="Nod"), tmp_path / "over.usda"
    supple.save(target, curves, additive=True, keys="every")
    stage = Usd.Stage.Open(str(target))
    found = [p for p in stage.Traverse() if p.IsA(UsdSkel.Animation) and "additive" in p.GetName()]
    assert [p.GetName() for p in found] == ["Nod_additive"]
    animation = UsdSkel.Animation(found[0])
    assert list(animation.GetJointsAttr().Get()) == ["hip/top"]
    turns = [np.array(animation.GetRotationsAttr().Get(float(c)))[0] for c in codes_of(curves)]
    goal = np.stack([curves.turned(curves.joints[0])]).reshape(-1, 4)
    assert np.abs(np.abs(np.sum(np.array(turns) * goal, axis=1)) - 1).max() < 1e-5


def test_a_second_run_replaces_and_removing_gives_the_file_below(two_clips, tmp_path):
    target = tmp_path / "curves.usda"
    supple.save(target, made(two_clips, ["top.r*"]))
    once = target.read_bytes()
    again = supple.load(target, curves=False)
    assert again.source.path.name == "two.usda"
    supple.save(target, made(again, ["top.r*"]))
    assert target.read_bytes() == once
    remove_curves(tmp_path / "back.usda", target)
    assert (tmp_path / "back.usda").read_text() == TWO_CLIPS
    with pytest.raises(FormatError, match="has no curves"):
        remove_curves(tmp_path / "more.usda", tmp_path / "two.usda")
    with pytest.raises(FormatError, match="is unchanged"):
        remove_curves(tmp_path / "back.usdc", target)
    (tmp_path / "deep").mkdir()
    moved = tmp_path / "deep" / "curves.usda"  # whose layer below lies outside of its folder
    moved.write_text(target.read_text().replace("./two.usda", "../two.usda"))
    (tmp_path / "gone.usda").write_text(target.read_text().replace("two.usda", "three.usda"))
    for file in (moved, tmp_path / "gone.usda"):
        with pytest.raises(FormatError, match="is not beside it"):
            supple.load(file, curves=False)


def test_unwritable_curves_are_one_line_errors(two_clips, tmp_path):
    curves = made(two_clips, ["top.r*"])
    with pytest.raises(FormatError, match="USD has no splines"):
        supple.save(tmp_path / "x.usda", curves, keys="spline")
    with pytest.raises(FormatError, match="is the character's own file"):
        supple.save(tmp_path / "two.usda", curves)
    assert not (tmp_path / "x.usda").exists()
