"""Rig-space models: what is free, what is bone, bounds, and their files."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import supple
from helpers.build_samples import bar_mesh, jointed_arm, motion_of, two_joints
from helpers.rig_space_samples import (
    belly,
    belly_options,
    rig_space_options,
    rising_bar,
    trunk,
    trunk_options,
)
from supple.anatomy.anatomy import anatomy_of
from supple.engines.optional_parts import FreeParameters
from supple.engines.rig_space.build import build, shaped_flesh
from supple.engines.rig_space.free_parameters import entries_by_pattern, free_entries, joint_springs
from supple.engines.rig_space.model import RigSpaceModel
from supple.engines.rig_space.simulator import RigSpaceSimulator
from supple.errors import FormatError, SuppleError, SuppleWarning
from supple.rig.character import Character
from supple.rig.deformers.blend_shapes import BlendShapeRig
from supple.rig.protocol import FunctionRig, Parameter
from supple.rig.skeleton.joint_pose import JointPose
from supple.rig.skeleton.joints import Skeleton
from supple.rig.skeleton.skinning import SkinnedRig


def hound(keyed: str = "hip", names: tuple[str, ...] = ("hip", "spine", "tail1", "tail2", "pole")):
    """Joints in a row along a bar, the last of which moves no skin; a motion turns one of them."""
    surface, _ = bar_mesh((6, 2, 2)).surface()
    parents = [-1, 0, 1, 2, 0]
    places = [[0.0, 0.08, 0.08], [0.3, 0, 0], [0.3, 0, 0], [0.2, 0, 0], [0, 1.0, 0]]
    skeleton = Skeleton(list(names), parents, places)
    ends = np.array([0.1, 0.45, 0.75, 0.95])
    nearest = np.abs(surface.vertices[:, :1] - ends).argmin(axis=1)
    bind = np.linalg.inv(skeleton.rest_world())
    weights = np.ones((len(nearest), 1))
    rig = SkinnedRig(JointPose(skeleton), surface.vertices, nearest[:, None], weights, bind)
    poses = np.zeros((5, len(rig.parameters)))
    poses[:, 3 * names.index(keyed)] = np.linspace(0, 0.4, 5)
    return Character("hound", surface, rig, {"walk": motion_of(poses, "walk")})


def named(character: Character, free="auto") -> set[str]:
    entries = free_entries(character, free)
    return {character.rig.parameters[entry].name.rsplit(".", 1)[0] for entry in entries}


def test_by_itself_a_chain_that_no_motion_keys_is_free_and_poles_are_not():
    assert named(hound()) == {"tail1", "tail2"}


def test_a_keyed_chain_is_not_free_by_itself_and_joins_when_named():
    keyed = hound("tail1")
    with pytest.raises(SuppleError, match="nothing is free; name what to move"):
        free_entries(keyed)
    assert named(keyed, "tail*") == {"tail1", "tail2"}
    assert named(keyed, ["TAIL2"]) == {"tail2"}


def test_shapes_that_no_motion_keys_are_free():
    assert named(belly((6, 4, 4), 6)) == {f"bump{k}" for k in range(6)}
    plain = belly((6, 4, 4), 6)
    keyed = plain.motions["bend"].poses.copy()
    keyed[:, 2] = np.linspace(0, 1, len(keyed))
    moved = replace(plain, motions={"bend": motion_of(keyed, "bend")})
    assert named(moved) == {f"bump{k}" for k in range(6) if k != 1}


def test_gaze_lids_and_jaw_are_not_free_by_themselves_but_cheeks_are():
    plain = belly((6, 4, 4), 6)
    names = ["eyeBlink_L", "eyeLookIn_L", "browDown_L", "jawOpen", "cheekSquint_L", "belly"]
    shapes = [each for each in plain.rig.parameters if each.name.startswith("bump")]
    renamed = dict(zip((each.name for each in shapes), names, strict=True))
    parameters = [replace(p, name=renamed.get(p.name, p.name)) for p in plain.rig.parameters]
    face = replace(plain, rig=FunctionRig(plain.rig, parameters, plain.rig.n_vertices))
    assert named(face) == {"cheekSquint_L", "belly"}
    assert named(face, "eye*") == {"eyeBlink_L", "eyeLookIn_L"}


@pytest.mark.parametrize("name", ["vrc.v_aa", "Fcl_BRW_Angry", "Fcl_MTH_A", "Fcl_HA_Fung1", "aa"])
def test_shapes_of_faces_in_other_vocabularies_are_not_free_by_themselves(name):
    plain = belly((6, 4, 4), 6)
    first = next(each.name for each in plain.rig.parameters if each.name.startswith("bump"))
    parameters = [
        replace(p, name=name if p.name == first else p.name) for p in plain.rig.parameters
    ]
    face = replace(plain, rig=FunctionRig(plain.rig, parameters, plain.rig.n_vertices))
    assert name not in named(face)
    assert len(named(face)) == len(named(plain)) - 1


def test_a_joint_s_name_means_its_angles_and_a_channel_only_that():
    parameters = hound().rig.parameters
    names = [parameters[k].name for k in entries_by_pattern(parameters, "tail1")]
    assert names == ["tail1.rx", "tail1.ry", "tail1.rz"]
    names = [parameters[k].name for k in entries_by_pattern(parameters, "tail*.rz")]
    assert names == ["tail1.rz", "tail2.rz"]
    assert len(entries_by_pattern(parameters, "tail1.r*")) == 3


@pytest.mark.parametrize("pattern", ["trunk*", "trunk.5", "tursk*", "trunk*x"])
def test_a_suggested_pattern_matches_and_differs_from_the_given_one(pattern):
    parameters = [Parameter(f"trunk.{k}.{c}", "m") for k in range(6) for c in ("tx", "ty", "tz")]
    with pytest.raises(SuppleError, match="did you mean") as refused:
        entries_by_pattern(parameters, pattern)
    suggestion = str(refused.value).split('"')[3]
    assert suggestion != pattern
    assert len(entries_by_pattern(parameters, suggestion))


@pytest.mark.parametrize(
    ("free", "said"),
    [
        ("tial1", 'no parameter "tial1"; did you mean "tail1"'),
        ("Tial*", 'did you mean "tail[*]"'),
        ("*fin*", "it has hip"),
        ([], "no parameter is free"),
        ("pole", "move no skin"),
        ([3], "free names must be strings"),
    ],
)
@pytest.mark.filterwarnings("ignore::supple.errors.SuppleWarning")
def test_names_that_are_none_are_refused_in_one_line(free, said):
    with pytest.raises(SuppleError, match=said) as refused:
        free_entries(hound(), free)
    assert "\n" not in str(refused.value)


def test_named_parameters_that_move_nothing_are_left_out_with_a_warning():
    with pytest.warns(SuppleWarning, match='"pole" moves no skin'):
        assert named(hound(), ["tail1", "pole"]) == {"tail1"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"bounds": (1, 0)}, "give the lower first"),
        ({"bounds": {"bump9*": (0, 1)}}, "did you mean"),
        ({"bounds": "wide"}, "give .lower, upper."),
        ({"bones": [10**6]}, "does not exist"),
        ({"bones": [0.5]}, "must be a list"),
        ({"cubature": 0}, "cubature"),
        ({"modes": -1}, "modes"),
        ({"young": -1.0}, "young"),
    ],
)
def test_options_that_cannot_be_are_refused_in_one_line(options, said):
    with pytest.raises(SuppleError, match=said) as refused:
        build(belly((6, 4, 4), 6), **belly_options((6, 4, 4), **options))
    assert "\n" not in str(refused.value)
    with pytest.raises(SuppleError, match="needs a Character"):
        build("rat.glb")  # type: ignore[arg-type]


def test_the_simulator_lists_free_parameters_and_their_values():
    model = build(trunk((6, 2, 2)), **trunk_options((6, 2, 2), modes=2))
    simulator = RigSpaceSimulator(model)
    assert isinstance(simulator, FreeParameters)
    assert simulator.free == tuple(f"wire.{i}.t{axis}" for i in range(2, 6) for axis in "xyz")
    root = np.eye(4)
    root[1, 3] = 0.02
    simulator.step(None, root)
    pose = simulator.parameters
    assert not pose[:6].any()
    assert pose[6:].any()
    skin = model.rig(pose) + root[:3, 3]
    np.testing.assert_allclose(simulator.surface(), skin, atol=1e-6)


def test_keys_of_free_joints_are_kept_and_motion_is_added_to_them():
    character = jointed_arm()
    mesh = bar_mesh()
    model = build(character, free="fore", tets=mesh, bones=[], modes=2)
    motion = character.motions["Swing"]
    simulator = RigSpaceSimulator(model, 1 / 30)
    simulator.reset(*motion.at(0.0))
    added = []
    for i in range(1, 33):
        key, root = motion.at(i / 30)
        simulator.step(key, root)
        added.append(simulator.parameters - key)
    moved = np.abs(added).max(axis=0)
    assert not moved[:3].any()
    assert 1e-4 < moved[3:].max() < 1.0
    for _ in range(240):
        simulator.step(key, root)
    np.testing.assert_allclose(simulator.parameters, key, atol=2e-3)


def test_bones_do_not_follow_shapes():
    model = build(belly((6, 4, 4), 6), **belly_options((6, 4, 4)))
    assert not model.reached[model.held].any()
    flesh = model.flesh()
    flesh.set_key(np.array(model.rig.rest_pose))
    c = np.zeros(flesh.size)
    c[0] = 1.0
    flesh.move(c)
    np.testing.assert_array_equal(flesh.x[model.held], flesh.key[model.held])
    assert np.abs(flesh.x - flesh.key).max() > 0.05


def test_skin_that_a_free_shape_moves_is_flesh_unless_it_is_painted_rigid():
    head = hound(names=("hip", "spine", "neck", "head", "pole"))
    surface, rig = head.surface, head.rig
    cheek = np.zeros((1, len(surface.vertices), 3))
    cheek[0, surface.vertices[:, 0] > 0.9, 1] = 0.02
    whole = replace(head, rig=BlendShapeRig(rig, cheek, names=["cheek"]), motions={})
    before, after = anatomy_of(whole), anatomy_of(shaped_flesh(whole, free_entries(whole)))
    moved = cheek[0].any(axis=1)
    assert before.hard[moved].any()
    assert not after.hard[moved].any()
    np.testing.assert_array_equal(before.share[~moved], after.share[~moved])
    rigid = replace(whole, painted={"rigid": np.ones(len(surface.vertices))})
    assert anatomy_of(shaped_flesh(rigid, free_entries(rigid))).hard.all()
    model = build(whole, tets=800)
    weight = model.condensed.mass[0, 0]
    assert weight > 1e-3 * 0.02**2 * surface.volume() * model.material.density


def test_a_joint_twists_no_more_easily_than_it_bends():
    model = build(hound(), free="tail1", tets=1200)
    twist, *bend = joint_springs(model) * np.diag(model.condensed.stiffness)[:3]
    assert twist >= 0.5 * max(bend) > 0


def test_a_body_of_shapes_without_joints_has_a_core_of_bone():
    surface, _ = bar_mesh((4, 4, 4)).surface()
    skeleton = Skeleton(["all"], [-1], [[0.0, 0, 0]])
    one = np.zeros((len(surface.vertices), 1), int)
    bind = np.eye(4)[None]
    base = SkinnedRig(JointPose(skeleton), surface.vertices, one, one + 1.0, bind)
    bump = np.zeros((1, len(surface.vertices), 3))
    bump[0, :, 1] = 0.05 * (surface.vertices[:, 1] > 0.16)
    character = Character("head", surface, BlendShapeRig(base, bump, ["puff"]))
    model = build(character, tets=bar_mesh((4, 4, 4)), modes=4)
    assert [p.name for p in model.free_parameters] == ["puff"]
    assert 0 < len(model.held) < len(model.mesh.vertices) / 2


def test_a_model_that_was_saved_steps_to_the_same_bits(tmp_path):
    model = build(belly((6, 4, 4), 6), **belly_options((6, 4, 4)))
    model.save(tmp_path / "belly.supple")
    loaded = supple.load_model(tmp_path / "belly.supple")
    assert isinstance(loaded, RigSpaceModel)
    assert repr(loaded) == repr(model)
    poses = []
    for each in (model, loaded):
        simulator = supple.Simulator(each)
        simulator.step(forces={3: [0.0, 5.0, 1.0]})
        simulator.step()
        poses.append(simulator.parameters)
    np.testing.assert_array_equal(*poses)
    again = tmp_path / "again.supple"
    loaded.save(again)
    assert again.read_bytes() == (tmp_path / "belly.supple").read_bytes()


def test_the_same_seed_gives_the_same_bytes(tmp_path):
    for name in ("one", "two"):
        build(rising_bar(), **rig_space_options()).save(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_damaged_files_are_refused_in_one_line(tmp_path):
    path = tmp_path / "bar.supple"
    model = build(rising_bar(), **rig_space_options())
    model.save(path)
    data = path.read_bytes()
    for changed in (data[: len(data) // 2], data[:-9] + b"\0" + data[-8:], b"", b"no model"):
        path.write_bytes(changed)
        with pytest.raises(FormatError) as refused:
            supple.load_model(path)
        assert "\n" not in str(refused.value)
    wrong = replace(model, lower=np.full(1, np.nan))
    wrong.save(path)
    with pytest.raises(FormatError, match="is not finite everywhere"):
        supple.load_model(path)


def test_two_joints_are_free_without_a_motion_only_when_named():
    surface, _ = bar_mesh((6, 2, 2)).surface()
    still = Character("arm", surface, two_joints(surface))
    with pytest.raises(SuppleError, match="nothing is free"):
        free_entries(still)
    assert named(still, "fore") == {"fore"}
