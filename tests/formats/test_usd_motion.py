"""Baked motions as layers over USD characters, held against UsdSkel's own baking."""

import shutil
import zipfile

import numpy as np
import pytest

import supple
from supple.errors import SuppleError, SuppleWarning
from supple.formats.save import check_target, save
from supple.formats.usd.write.usd_motion import write_usd
from supple.mesh.surface import SurfaceMesh
from supple.rig.baked_motion import BakedMotion
from supple.rig.character import Character
from supple.rig.deformers.blend_shapes import BlendShapeRig
from supple.rig.motion.motion import Motion
from supple.rig.skeleton.joint_pose import JointPose
from supple.rig.skeleton.joints import Skeleton
from supple.rig.skeleton.skinning import SkinnedRig

pxr = pytest.importorskip("pxr", reason="USD comes with the extra supple[usd]")
from pxr import Usd, UsdGeom, UsdSkel  # noqa: E402

from helpers.usd_samples import TWO_CLIPS, complaints, played  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::supple.errors.SuppleWarning")

ERROR = 0.002


def with_waves(character, *, motion=None, rate=30.0, start=None, end=None):
    """A motion of the character, or rest, with waves of 2 % of its size running over the skin."""
    if motion is None:
        motion = next(iter(character.motions.values()))
    motion = motion if start is None else motion.slice(start, end)
    motion = motion.resample(rate)
    size, places = character.surface.size, character.surface.vertices
    turns = np.random.default_rng(0).normal(size=(3, 3)) * 4 / size
    still = BakedMotion(character, motion, np.empty(0, np.float32), rate)
    frames = [
        still.rig_frame(k) + 0.02 * size * np.sin(places @ turns + 5 * t) * np.sin(3 * t + 0.3)
        for k, t in enumerate(motion.times)
    ]
    return BakedMotion(character, motion, np.array(frames, np.float32), rate)


def codes_of(baked):
    source = baked.character.source
    first = source.time_codes.get(baked.motion.name, [0.0])[0]
    return np.round(first + baked.times * source.time_codes_per_second, 6)


def farthest(frames, baked):
    """As part of the size."""
    return np.linalg.norm(frames - baked.frames, axis=2).max() / baked.character.surface.size


@pytest.mark.parametrize("name", ["dqs.usda", "CesiumMan.usdz"])
def test_blend_shapes_play_the_frames_in_usdskel_and_in_supple(name, assets, tmp_path):
    original = shutil.copy(assets / "usd_skel" / name, tmp_path)
    before = (tmp_path / name).read_bytes()
    baked = with_waves(supple.load(original))
    result = write_usd(tmp_path / "soft.usda", baked, error=ERROR)
    assert (tmp_path / name).read_bytes() == before
    assert f"@./{name}@" in (tmp_path / "soft.usda").read_text()[:4000]
    assert 0 < result["n_shapes"] < baked.n_frames
    assert result["error"] <= ERROR
    frames = played(tmp_path / "soft.usda", baked, codes_of(baked))
    assert farthest(frames, baked) == pytest.approx(result["error"], abs=1e-5)
    assert_seams_closed(tmp_path / "soft.usda", baked)
    assert complaints(tmp_path / "soft.usda") <= complaints(original)
    # The skin without shapes is far away: the test can fail.
    assert farthest(played(original, baked, codes_of(baked)), baked) > 5 * ERROR
    again = supple.load(tmp_path / "soft.usda", flesh=True)
    motion = next(iter(again.motions.values()))
    keys = np.searchsorted(motion.times, baked.times - 1e-6)
    np.testing.assert_allclose(motion.times[keys], baked.times, atol=1e-6)
    for k in (0, 7, baked.n_frames - 1):
        root = motion.roots[keys[k]]
        skin = again.rig(motion.poses[keys[k]]) @ root[:3, :3].T + root[:3, 3]
        assert _far_from(skin, baked.frames[k]) < 1.1 * ERROR * baked.character.surface.size


def assert_seams_closed(file, baked):
    """Points of one vertex move alike, bit for bit."""
    stage = Usd.Stage.Open(str(file))
    for mesh in baked.character.source.meshes:
        vertices, first, lead = np.unique(mesh.welded, return_index=True, return_inverse=True)
        assert len(vertices) > 4
        for prim in stage.GetPrimAtPath(mesh.path).GetChildren():
            shape = UsdSkel.BlendShape(prim)
            moved = shape.GetPointIndicesAttr().Get()
            rows = np.arange(len(mesh.welded)) if moved is None else np.array(moved)
            offsets = np.zeros((len(mesh.welded), 3), np.float32)
            offsets[rows] = shape.GetOffsetsAttr().Get()
            np.testing.assert_array_equal(offsets, offsets[first][lead])


def _far_from(points, cloud):
    """Welding may differ: how far the farthest point is from its nearest in the other cloud."""
    from scipy.spatial import cKDTree

    return cKDTree(cloud).query(points)[0].max()


def test_a_point_cache_replaces_skinning_and_is_the_same_bytes_again(assets, tmp_path):
    original = shutil.copy(assets / "usd_skel" / "lbs.usda", tmp_path)
    baked = with_waves(supple.load(original))
    for name in ("one.usdc", "two.usdc"):
        result = write_usd(tmp_path / name, baked, points="cache", normals=True)
        assert result["n_shapes"] == 0
        assert result["error"] < 1e-6
    assert (tmp_path / "one.usdc").read_bytes() == (tmp_path / "two.usdc").read_bytes()
    assert farthest(played(tmp_path / "one.usdc", baked, codes_of(baked)), baked) < 1e-6
    stage = Usd.Stage.Open(str(tmp_path / "one.usdc"))
    mesh = baked.character.source.meshes[-1]
    prim = UsdGeom.Mesh(stage.GetPrimAtPath(mesh.path))
    normals = np.array(prim.GetNormalsAttr().Get(float(codes_of(baked)[5])))
    assert normals.shape == (len(mesh.welded), 3)
    np.testing.assert_allclose(np.linalg.norm(normals, axis=1), 1, atol=1e-5)


def test_shapes_of_the_file_stay_and_their_weights_with_them(assets, tmp_path):
    name = "blendshapesWithNormals.usda"
    original = shutil.copy(assets / "usd_skel" / name, tmp_path)
    character = supple.load(original)
    assert isinstance(character.rig, BlendShapeRig)
    end = next(iter(character.motions.values())).times[-1]
    baked = with_waves(character, start=0.25 * end, end=0.75 * end)
    write_usd(tmp_path / "soft.usdc", baked, error=ERROR, normals=True)
    codes = codes_of(baked)
    assert farthest(played(tmp_path / "soft.usdc", baked, codes), baked) <= ERROR
    stages = [Usd.Stage.Open(str(file)) for file in (original, tmp_path / "soft.usdc")]
    tables = []
    for stage in stages:
        prim = next(prim for prim in stage.Traverse() if prim.IsA(UsdSkel.Animation))
        names = list(UsdSkel.Animation(prim).GetBlendShapesAttr().Get())
        attribute = UsdSkel.Animation(prim).GetBlendShapeWeightsAttr()
        tables.append((names, attribute))
    old, new = tables
    assert new[0][: len(old[0])] == old[0]
    assert len(new[0]) > len(old[0])
    known = character.source.time_codes[baked.motion.name]
    for code in [*known, *(0.5 * (codes[1:] + codes[:-1]))]:
        weights = np.array(new[1].Get(float(code)))
        np.testing.assert_allclose(weights[: len(old[0])], old[1].Get(float(code)), atol=1e-6)
    # Outside the part that was baked nothing is added.
    outside = [np.array(new[1].Get(float(code)))[len(old[0]) :] for code in (known[0], known[-1])]
    np.testing.assert_array_equal(outside, 0)
    shape = next(p for p in stages[1].Traverse() if p.GetName().startswith("supple_soft"))
    assert np.abs(UsdSkel.BlendShape(shape).GetNormalOffsetsAttr().Get()).max() > 1e-3


def test_a_package_holds_the_original_and_its_textures_and_opens_anywhere(assets, tmp_path):
    original = assets / "usd_skel" / "CesiumMan.usdz"
    baked = with_waves(supple.load(original), start=0.0, end=0.4)
    (tmp_path / "elsewhere").mkdir()
    target = tmp_path / "elsewhere" / "soft.usdz"
    result = write_usd(target, baked, error=ERROR)
    assert result["bytes"] == target.stat().st_size
    with zipfile.ZipFile(target) as new, zipfile.ZipFile(original) as old:
        assert new.infolist()[0].filename.endswith(".usdc")
        for entry in old.infolist():
            assert new.read(entry.filename) == old.read(entry.filename)
        for entry in new.infolist():
            assert entry.compress_type == zipfile.ZIP_STORED
            begin = entry.header_offset + 30 + len(entry.filename) + len(entry.extra)
            assert begin % 64 == 0
    assert farthest(played(target, baked, codes_of(baked)), baked) <= ERROR
    assert len(supple.load(target).motions) == 1


def test_a_package_holds_the_layers_and_textures_of_a_folder_and_nothing_beyond(tmp_path):
    own, beyond = tmp_path / "own", tmp_path / "beyond.png"
    (own / "maps").mkdir(parents=True)
    for image in (own / "maps" / "skin.png", own / "unused.png", beyond):
        image.write_bytes(b"\x89PNG")
    (own / "two.usda").write_text(TWO_CLIPS)
    shader = """
def Shader "{0}"
{{
    asset inputs:file = @{1}@
}}
"""
    text = "#usda 1.0\n(\n    metersPerUnit = 0.01\n    subLayers = [@./two.usda@]\n)\n"
    text += shader.format("Skin", "maps/skin.png") + shader.format("Far", "../beyond.png")
    (own / "main.usda").write_text(text)
    baked = with_waves(supple.load(own / "main.usda"), start=0.0, end=0.1)
    write_usd(tmp_path / "soft.usdz", baked, points="cache")
    with zipfile.ZipFile(tmp_path / "soft.usdz") as package:
        names = [entry.filename for entry in package.infolist()]
    assert names == ["soft.usdc", "main.usda", "maps/skin.png", "two.usda"]
    stage = Usd.Stage.Open(str(tmp_path / "soft.usdz"))
    image = stage.GetPrimAtPath("/Skin").GetAttribute("inputs:file").Get()
    assert image.resolvedPath.endswith("soft.usdz[maps/skin.png]")
    assert farthest(played(tmp_path / "soft.usdz", baked, codes_of(baked)), baked) < 1e-6


@pytest.fixture
def two_clips(tmp_path):
    (tmp_path / "two.usda").write_text(TWO_CLIPS)
    return supple.load(tmp_path / "two.usda")


def test_a_clip_that_is_not_bound_is_bound_and_an_instance_becomes_editable(two_clips, tmp_path):
    assert list(two_clips.motions) == ["Stand", "Nod"]
    baked = with_waves(two_clips, motion=two_clips.motions["Nod"])
    result = write_usd(tmp_path / "soft.usda", baked, error=ERROR)
    codes = codes_of(baked)
    assert codes[0] == 48
    assert codes[-1] == 96
    assert result["error"] <= ERROR
    assert farthest(played(tmp_path / "soft.usda", baked, codes), baked) <= ERROR
    stage = Usd.Stage.Open(str(tmp_path / "soft.usda"))
    assert stage.GetTimeCodesPerSecond() == 48
    assert UsdGeom.GetStageUpAxis(stage) == "Z"
    assert (stage.GetStartTimeCode(), stage.GetEndTimeCode()) == (48, 96)


def test_a_motion_the_file_does_not_have_is_played_by_shapes_alone(two_clips, tmp_path):
    rest = two_clips.rig.rest_pose
    turn = rest.copy()
    turn[0] += 0.4
    wiggle = Motion([0, 0.25, 0.5], [rest, turn, rest], name="wiggle")
    baked = with_waves(two_clips, motion=wiggle)
    write_usd(tmp_path / "soft.usda", baked, error=ERROR)
    assert farthest(played(tmp_path / "soft.usda", baked, codes_of(baked)), baked) <= ERROR


def square_based_pyramid():
    """A character from no file, on one joint."""
    points = np.array([[0, 0, 0], [1, 0, 0], [1, 0, 1], [0, 0, 1], [0.5, 1, 0.5]])
    faces = [[0, 1, 2], [0, 2, 3], [0, 4, 1], [1, 4, 2], [2, 4, 3], [3, 4, 0]]
    pose = JointPose(Skeleton(["only"], np.array([-1]), np.zeros((1, 3))))
    rig = SkinnedRig(pose, points, np.zeros((5, 1), int), np.ones((5, 1)), np.eye(4)[None])
    motion = Motion([0, 0.5, 1.0], np.zeros((3, len(rig.rest_pose))), name="still")
    return Character("9 pyramid", SurfaceMesh(points, faces), rig, {"still": motion})


@pytest.mark.parametrize("suffix", [".usda", ".usdz"])
def test_characters_from_elsewhere_become_a_stage_with_points_over_time(suffix, tmp_path):
    baked = with_waves(square_based_pyramid(), start=0.2, end=0.6)
    result = write_usd(tmp_path / f"new{suffix}", baked, normals=True)
    assert result["bytes"] == (tmp_path / f"new{suffix}").stat().st_size
    stage = Usd.Stage.Open(str(tmp_path / f"new{suffix}"))
    mesh = UsdGeom.Mesh(stage.GetDefaultPrim().GetChild("skin"))
    for k, code in enumerate(6 + np.arange(baked.n_frames)):
        np.testing.assert_array_equal(mesh.GetPointsAttr().Get(float(code)), baked.frames[k])
        top = np.array(mesh.GetNormalsAttr().Get(float(code)))[4]
        assert top[1] > 0.8
    assert stage.GetTimeCodesPerSecond() == 30
    assert UsdGeom.GetStageMetersPerUnit(stage) == 1
    np.testing.assert_array_equal(
        np.array(mesh.GetFaceVertexIndicesAttr().Get()).reshape(-1, 3),
        baked.character.surface.triangles,
    )


def refused(path, baked, words, **options):
    before = sorted(path.parent.iterdir()) if path.parent.is_dir() else None
    with pytest.raises(SuppleError, match=words) as raised:
        write_usd(path, baked, **options)
    assert "\n" not in str(raised.value)
    assert before is None or sorted(path.parent.iterdir()) == before


def test_failed_writes_are_one_line_errors_and_leave_nothing(two_clips, tmp_path):
    baked = with_waves(two_clips)
    target = tmp_path / "soft.usda"
    refused(tmp_path / "soft.glb", baked, "soft.glb: .*is not USD")
    refused(target, baked, 'points cannot be "dots"', points="dots")
    refused(tmp_path / "no" / "soft.usda", baked, "there is no folder")
    refused(tmp_path / "two.usda", baked, "is the character's own file")
    frames = baked.frames.copy()
    frames[3, 2] = np.nan
    wrong = BakedMotion(two_clips, baked.motion, frames, 30.0)
    with pytest.raises(SuppleError, match="failed at frame 3, "):
        save(target, wrong)
    assert not target.exists()
    original = tmp_path / "two.usda"
    original.write_text(TWO_CLIPS.replace('def Mesh "Post"', 'def Mesh "Pillar"'))
    refused(target, baked, "changed; load it again")
    original.write_text(TWO_CLIPS[:400])
    refused(target, baked, "two.usda: ")
    original.unlink()
    refused(target, baked, "two.usda, the file below it, is missing")


def test_a_layer_that_leads_out_of_its_folder_warns(two_clips, tmp_path):
    baked = with_waves(two_clips, start=0.0, end=0.1)
    (tmp_path / "deeper").mkdir()
    target = tmp_path / "deeper" / "soft.usda"
    with pytest.warns(SuppleWarning, match=r"refers to \.\./two\.usda, outside its folder"):
        write_usd(target, baked, points="cache")
    assert farthest(played(target, baked, codes_of(baked)), baked) < 1e-6


def test_a_layer_that_the_character_needs_is_not_written_over(two_clips, tmp_path):
    write_usd(tmp_path / "soft.usda", with_waves(two_clips, start=0.0, end=0.1))
    soft = supple.load(tmp_path / "soft.usda", flesh=True)
    baked = with_waves(soft, start=0.0, end=0.1)
    before = (tmp_path / "two.usda").read_bytes()
    (tmp_path / "link.usda").symlink_to("two.usda")
    for target in (tmp_path / "two.usda", tmp_path / "link.usda"):
        refused(target, baked, r"cannot be replaced, as soft\.usda needs it; use another name")
        with pytest.raises(SuppleError, match=r"soft\.usda needs it"):  # before the simulation
            check_target(target, soft)
    assert (tmp_path / "two.usda").read_bytes() == before
    check_target(tmp_path / "softer.usda", soft)


def test_files_named_by_a_character_are_never_overwritten(tmp_path):
    (tmp_path / "two.usda").write_text(TWO_CLIPS)
    text = "#usda 1.0\n( metersPerUnit = 0.01\n subLayers = [@./two.usda@, @./gone.usda@] )\n"
    text += 'def Shader "S"\n{\n    asset inputs:file = @./maps.usdz[skin.png]@\n}\n'
    (tmp_path / "main.usda").write_text(text)
    character = supple.load(tmp_path / "main.usda")
    for name in ("two.usda", "gone.usda", "maps.usdz"):
        with pytest.raises(SuppleError, match=f"{name}: cannot be replaced"):
            check_target(tmp_path / name, character)


@pytest.mark.parametrize("points", ["blend-shapes", "cache"])
def test_another_motion_with_the_name_of_a_clip_leaves_the_clip_alone(points, two_clips, tmp_path):
    nod = two_clips.motions["Nod"]
    baked = with_waves(two_clips, motion=Motion(nod.times, -nod.poses, name="Nod"))
    write_usd(tmp_path / "soft.usda", baked, error=ERROR, points=points)
    codes = np.round(baked.times * 48, 6)
    assert farthest(played(tmp_path / "soft.usda", baked, codes), baked) <= ERROR
    stage = Usd.Stage.Open(str(tmp_path / "soft.usda"))
    own = stage.GetPrimAtPath("/Left/Root/Nod")
    assert not UsdSkel.Animation(own).GetBlendShapesAttr().HasAuthoredValue()


@pytest.mark.parametrize("inside", [True, False])
def test_a_package_of_a_link_calls_the_original_by_one_name(inside, tmp_path):
    real = tmp_path / ("real.usda" if inside else "beyond/real.usda")
    real.parent.mkdir(exist_ok=True)
    real.write_text(TWO_CLIPS)
    (tmp_path / "link.usda").symlink_to(real)
    baked = with_waves(supple.load(tmp_path / "link.usda"), start=0.0, end=0.1)
    write_usd(tmp_path / "soft.usdz", baked, points="cache")
    with zipfile.ZipFile(tmp_path / "soft.usdz") as package:
        assert package.namelist() == ["soft.usdc", "link.usda"]
    assert farthest(played(tmp_path / "soft.usdz", baked, codes_of(baked)), baked) < 1e-6


def test_a_point_cache_of_a_part_of_a_clip_goes_on_with_the_rig_around_it(two_clips, tmp_path):
    nod = two_clips.motions["Nod"]
    baked = with_waves(two_clips, motion=nod, start=0.4, end=0.6)
    write_usd(tmp_path / "soft.usda", baked, points="cache", normals=True)
    whole = BakedMotion(two_clips, nod.resample(48), np.empty(0, np.float32), 48.0)
    still = np.array([whole.rig_frame(k) for k in range(len(whole.times))], np.float32)
    rig = BakedMotion(two_clips, whole.motion, still, 48.0)
    codes = codes_of(rig)
    shown = played(tmp_path / "soft.usda", rig, codes)
    away = np.linalg.norm(shown - still, axis=2).max(axis=1) / two_clips.surface.size
    outside = (codes < codes_of(baked)[0] - 2) | (codes > codes_of(baked)[-1] + 2)
    assert outside.sum() > 20
    assert away[outside].max() < 2e-3  # lines between frames, where the joint turns
    assert away[~outside].max() > 5e-3
    stage = Usd.Stage.Open(str(tmp_path / "soft.usda"))
    mesh = UsdGeom.Mesh(stage.GetPrimAtPath("/Left/Root/Post"))
    for code in (48.0, 96.0):  # a tall box at rest: its sides count for most
        normals = np.array(mesh.GetNormalsAttr().Get(code))
        assert (normals[:4, 2] < -0.1).all()
        assert (normals[4:, 2] > 0.1).all()


def test_every_animation_of_a_file_plays_its_own_flesh_with_the_same_shapes(tmp_path):
    (tmp_path / "two.usda").write_text(TWO_CLIPS)
    character = supple.load(tmp_path / "two.usda")
    bakes = [with_waves(character, motion=each, rate=24) for each in character.motions.values()]
    assert [baked.motion.name for baked in bakes] == ["Stand", "Nod"]
    figures = supple.save(tmp_path / "soft.usda", bakes)
    assert (tmp_path / "two.usda").read_text() == TWO_CLIPS
    assert figures["n_shapes"] > 0
    assert figures["error"] <= ERROR
    # The stage goes on playing what it played; others play when they are bound.
    assert list(supple.load(tmp_path / "soft.usda").motions) == ["Stand", "Nod"]
    for baked in bakes:
        again = shutil.copy(tmp_path / "soft.usda", tmp_path / "played.usda")
        play(again, baked.motion.name)
        assert farthest(played(again, baked, codes_of(baked)), baked) <= ERROR


def play(file, name):
    """Let the skeleton play another of its animations."""
    stage = Usd.Stage.Open(str(file))
    for prim in stage.Traverse():
        if prim.IsA(UsdSkel.Skeleton):
            binding = UsdSkel.BindingAPI.Apply(prim)
            path = prim.GetPath().GetParentPath().AppendChild(name)
            binding.CreateAnimationSourceRel().SetTargets([path])
    stage.GetRootLayer().Save()


def test_points_of_several_motions_go_into_a_file_each(tmp_path):
    (tmp_path / "two.usda").write_text(TWO_CLIPS)
    character = supple.load(tmp_path / "two.usda")
    bakes = [with_waves(character, motion=each, rate=24) for each in character.motions.values()]
    figures = supple.save(tmp_path / "soft.usda", bakes, points="cache")
    assert [path.rpartition("/")[2] for path in figures["paths"]] == [
        "soft_Stand.usda",
        "soft_Nod.usda",
    ]
    for path, baked in zip(figures["paths"], bakes, strict=True):
        assert farthest(played(path, baked, codes_of(baked)), baked) <= ERROR
