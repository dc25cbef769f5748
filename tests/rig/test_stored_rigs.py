"""A stored rig is the rig, to the rounding of a file; a damaged one is an error."""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import supple
from helpers.own_deformer import Shear
from helpers.restored_rig import restored_rig
from supple.errors import SuppleError, SuppleWarning
from supple.mesh.tets import TetMesh
from supple.rig.deformers.bend import Bend
from supple.rig.deformers.blend_shapes import BlendShapeRig
from supple.rig.deformers.chain import RigChain
from supple.rig.deformers.free_form import Lattice
from supple.rig.deformers.pose_blend_shapes import PoseBlendShapeRig
from supple.rig.deformers.pose_space_deformation import PoseSpaceDeformation
from supple.rig.deformers.twist import Twist
from supple.rig.deformers.wire import Wire
from supple.rig.poses.pose_weights import PoseWeights
from supple.rig.protocol import FunctionRig, Parameter, Rig
from supple.rig.skeleton.inverse_kinematics import HandleRig, InverseKinematics
from supple.rig.skeleton.joint_pose import JointPose, PartialJointPose
from supple.rig.skeleton.joints import Skeleton
from supple.rig.skeleton.skinning import SkinnedRig
from supple.rig.stored.packed_arrays import UnpackingBudget, packed_weights, unpacked_weights
from supple.rig.stored.schema import Value
from supple.rig.stored_rigs import (
    KINDS,
    register_deformer,
    restored_rigs,
    rounded_rigs,
    stored_rig,
    stored_rigs,
)
from supple.rig.tets.tet_rig import TetRig, fit_tet_rig
from supple.scenes.bodies.beam import beam

MESH = beam(cells=(8, 2, 2))
SURFACE, _ = MESH.surface()
POINTS = SURFACE.vertices
RNG = np.random.default_rng(1)
TURNS = RNG.standard_normal((3, 4))
SKELETON = Skeleton(
    ["hip", "knee", "toe"],
    [-1, 0, 1],
    [[0, 0.08, 0.08], [0.4, 0.05, 0], [0.4, 0, 0]],
    TURNS * [0.1, 0.1, 0.1, 1] + [0, 0, 0, 2],
    np.array([[1, 1, 1], [1.1, 1, 1], [1, 0.9, 1]]),
)


def skinned(pose: JointPose | None = None, method: str = "linear") -> SkinnedRig:
    weights = np.random.default_rng(2).random((len(POINTS), 3)) ** 4
    weights[::3, 1:] = 0
    joints = np.broadcast_to([2, 0, 1], weights.shape)
    bind = np.linalg.inv(SKELETON.rest_world())
    return SkinnedRig(pose or JointPose(SKELETON), POINTS, joints, weights, bind, method)


def shapes(base: Any) -> BlendShapeRig:
    deltas = 0.05 * np.random.default_rng(3).standard_normal((2, len(POINTS), 3))
    deltas[:, POINTS[:, 0] < 0.5] = 0
    return BlendShapeRig(base, deltas, ["smile", "frown"], rest=[0.25, 0])


def pose_shapes(base: SkinnedRig) -> PoseBlendShapeRig:
    deltas = 0.01 * np.random.default_rng(6).standard_normal((2, 9, len(POINTS), 3))
    deltas[1, :, POINTS[:, 0] < 0.5] = 0
    return PoseBlendShapeRig(base, deltas, [1, 2])


def corrected(base: Rig) -> PoseSpaceDeformation:
    rng = np.random.default_rng(4)
    poses = base.rest_pose + 0.3 * np.arange(3)[:, None] * rng.standard_normal(len(base.rest_pose))
    moved = 0.02 * np.arange(3)[:, None, None] * rng.standard_normal((3, len(POINTS), 3))
    weights = PoseWeights(poses, kind="affine", names=["neutral", "a", "b"])
    return PoseSpaceDeformation(base, poses, moved, weights)


def wire(name: str = "arm.L") -> Wire:
    curve = np.array([[0, 0, 0], [0.3, 0.1, 0], [0.7, 0, 0.1], [1, 0, 0], [1.2, 0.1, 0]])
    return Wire(POINTS, curve, dropoff=0.3, turning=0.7, name=name)


def handle() -> HandleRig:
    base = skinned(JointPose(SKELETON, translating=["hip"]))
    limits: dict[Any, Any] = {"knee": ([-1, -1, -2], [1, 1, 2])}
    chain = InverseKinematics(base.joint_pose, "hip", "knee", offset=[0.3, -0.1, 0], limits=limits)
    return HandleRig(shapes(base), chain, ["toe.rx", "hip.ty", "smile"], name="foot")


def on_tets(rig: Rig, variant: Any) -> TetRig:
    own = np.random.default_rng(3)  # the same whichever tests ran before
    poses = rig.rest_pose + 0.1 * own.standard_normal((1, len(rig.rest_pose)))
    return fit_tet_rig(rig, SURFACE, MESH, poses, variant=variant)


RIGS: dict[str, Callable[[], Rig]] = {
    "linear": skinned,
    "dual quaternion": lambda: skinned(method="dual-quaternion"),
    "moving joints": lambda: skinned(JointPose(SKELETON, ["hip", "toe"], ["knee"])),
    "locked joints": lambda: skinned(PartialJointPose(SKELETON, ["knee.rz", "hip.tx"], ["hip"])),
    "blend shapes": lambda: shapes(skinned()),
    "pose blend shapes": lambda: pose_shapes(skinned()),
    "pose blend shapes on tets": lambda: on_tets(pose_shapes(skinned()), "carried"),
    "chain": lambda: RigChain(Twist(POINTS, axis=[1, 0.2, 0]), wire(), skinned()),
    "chain in a chain": lambda: RigChain(RigChain(wire("a"), wire("b")), wire("a")),
    "bend": lambda: Bend(POINTS, [0.1, 0, 0], [1, 0.1, 0.3], [0, 1, 0.2], low=-0.1, high=0.8),
    "twist": lambda: Twist(POINTS, [0, 0.1, 0], [1, 2, 3], low=0, high=0.9, name="left.arm"),
    "wire": wire,
    "lattice": lambda: Lattice(POINTS, (2, 3, 4), low=[-1, 0, 0], high=[2, 1, 1]),
    "corrections": lambda: corrected(shapes(skinned())),
    "handle": handle,
    "carried": lambda: on_tets(skinned(), "carried"),
    "carried corrections": lambda: on_tets(corrected(skinned()), "auto"),
    "shepard": lambda: on_tets(RigChain(wire()), "shepard"),
    "start only": lambda: on_tets(skinned(), "shepard").start,
}


def some_pose(rig: Rig, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rig.rest_pose + 0.2 * rng.standard_normal(len(rig.rest_pose))


def same_bytes(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> bool:
    return list(a) == list(b) and all(
        a[k].dtype == b[k].dtype and a[k].shape == b[k].shape and a[k].tobytes() == b[k].tobytes()
        for k in a
    )


@pytest.mark.parametrize("name", RIGS)
def test_a_restored_rig_is_the_rig_to_the_rounding_of_a_file(name):
    rig = RIGS[name]()
    header, arrays = stored_rig(rig)
    again = restored_rig(json.loads(json.dumps(header)), arrays)
    assert again.parameters == rig.parameters
    assert again.n_vertices == rig.n_vertices
    subset = np.array([5, 0, rig.n_vertices - 1, 5])
    for seed in range(3):
        pose = rig.rest_pose if seed == 0 else some_pose(rig, seed)
        expected = rig(pose)
        size = np.ptp(expected, axis=0).max()
        assert np.abs(again(pose) - expected).max() < 1e-6 * size
        np.testing.assert_allclose(again(pose, subset), again(pose)[subset], atol=1e-14)
    assert all(array.dtype != np.float64 or array.size < 1000 for array in arrays.values())


@pytest.mark.parametrize("name", RIGS)
def test_storing_what_was_restored_gives_the_same_bytes(name):
    header, arrays = stored_rig(RIGS[name]())
    again = restored_rig(header, arrays)
    twice_header, twice = stored_rig(again)
    assert twice_header == header
    assert same_bytes(twice, arrays)
    pose = some_pose(again, 5)
    assert restored_rig(twice_header, twice)(pose).tobytes() == again(pose).tobytes()


def test_all_kinds_of_parts_have_been_tried():
    tried = {part["kind"] for make in RIGS.values() for part in stored_rig(make())[0]["parts"]}
    assert tried == set(KINDS)


def test_shared_parts_of_rigs_are_stored_once_and_stay_shared():
    surface = corrected(skinned())
    tets = on_tets(surface, "auto")
    header, arrays = stored_rigs({"surface": surface, "tets": tets})
    kinds = [part["kind"] for part in header["parts"]]
    assert kinds.count("skeleton") == kinds.count("corrections") == 1
    assert kinds.count("skinned") == 2  # the skin's and the tets' own
    again = restored_rigs(header, arrays)
    assert again["tets"].start.rig is again["surface"]
    assert again["tets"].start.skinned.joint_pose is again["surface"].base.joint_pose


def test_stored_weights_add_up_to_one_exactly():
    weights = np.random.default_rng(0).random((2000, 6)) ** 8
    weights[:500, :3] = 1 / 3  # ties, and thirds that no binary number is
    weights[:500, 3:] = 0
    weights /= weights.sum(axis=1, keepdims=True)
    packed = packed_weights(sp.csr_array(weights))
    counts, columns, others = packed.values()
    again = unpacked_weights("weights", counts, columns, others, 6, UnpackingBudget(0))
    assert (again.sum(axis=1) == 1).all()
    assert np.abs(again.toarray() - weights).max() <= 4 * 2.0**-24
    assert same_bytes(packed_weights(again), packed)
    rig: Any = restored_rig(*stored_rig(skinned()))
    assert (rig.weights.sum(axis=1) == 1).all()


def black_box(count: int = len(POINTS), name: str = "slide") -> FunctionRig:
    along = np.array([1.0, 0, 0])
    return FunctionRig(lambda pose: POINTS[:count] + pose[0] * along, [Parameter(name, "m")], count)


def test_a_black_box_must_be_given_again():
    tets = on_tets(black_box(), "shepard")
    header, arrays = stored_rigs({"surface": tets.start.rig, "tets": tets})
    assert header["parts"][0]["kind"] == "given"
    with pytest.raises(SuppleError, match=r"its rig, of 1 parameters.* pass the rig as rig="):
        restored_rigs(header, arrays)
    with pytest.raises(SuppleError, match=r'parameter "turn" .* the stored one had "slide"'):
        restored_rigs(header, arrays, black_box(name="turn"))
    with pytest.raises(SuppleError, match=r"the rig passed has 7 vertices; the stored one had"):
        restored_rigs(header, arrays, black_box(7))
    again = restored_rigs(header, arrays, black_box())["tets"]
    np.testing.assert_allclose(again([0.3]), tets([0.3]), atol=1e-6)


def test_a_rig_over_a_black_box_is_one():
    class Own(SkinnedRig):
        """A class of somebody else's may do anything."""

    plain = skinned()
    own = Own(plain.joint_pose, POINTS, plain.joints, plain.weights, plain.inverse_bind)
    header, arrays = stored_rig(corrected(own))
    assert [part["kind"] for part in header["parts"]] == ["given"]
    whole = corrected(own)
    assert restored_rig(header, arrays, whole) is whole
    with pytest.raises(SuppleError, match="two rigs of unknown classes"):
        stored_rigs({"a": black_box(), "b": black_box()})


def damaged(change: Callable[[dict, dict], None], make: Callable[[], Rig] = skinned) -> Any:
    header, arrays = stored_rig(make())
    header, arrays = copy.deepcopy(header), {k: v.copy() for k, v in arrays.items()}
    change(header, arrays)
    return restored_rig(header, arrays)


def set_value(part: int, name: str, value: Any) -> Callable[[dict, dict], None]:
    return lambda header, arrays: header["parts"][part]["values"].__setitem__(name, value)


def set_array(name: str, make: Callable[[np.ndarray], np.ndarray]) -> Callable[[dict, dict], None]:
    return lambda header, arrays: arrays.__setitem__(name, make(arrays[name]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h, a: h.pop("roots"), "no parts and roots"),
        (lambda h, a: h["roots"].update(rig=17), "refers to a missing part"),
        (lambda h, a: h["parts"][2].update(kind="os.system"), "is unknown"),
        (lambda h, a: h["parts"][2].update(kind=["skinned"]), "wrong type"),
        (lambda h, a: h["parts"][2].pop("values"), "no kind, values and parts"),
        (lambda h, a: h["parts"][2]["parts"].update(joint_pose=2), "is not an earlier part"),
        (lambda h, a: h["parts"][2]["parts"].update(joint_pose=0), "is a Skeleton, not a Joint"),
        (lambda h, a: h["parts"][2]["parts"].update(joint_pose=True), "is not an earlier part"),
        (lambda h, a: h["parts"][2]["parts"].update(extra=0), 'unknown field "extra"'),
        (lambda h, a: a.pop("2.vertices"), '"vertices" is missing'),
        (lambda h, a: a.update({"2.more": np.zeros(1)}), 'unknown array "more"'),
        (lambda h, a: a.update({"9.more": np.zeros(1)}), "of a missing part"),
        (lambda h, a: a.update({"../x": np.zeros(1)}), "without a part number"),
        (set_value(2, "method", 5), '"method" is not a string'),
        (set_value(2, "method", "magic"), 'skinning method "magic"'),
        (set_value(0, "names", ["a", "b"]), r"shape \(3, 4\); expected \(2, 4\)"),
        (set_value(0, "names", ["a", "a", "b"]), "two joints are called"),
        (set_value(0, "names", "abc"), "is not a list"),
        (set_array("0.rotations", lambda x: 2 * x), "not of unit length"),
        (set_array("0.rotations", lambda x: x.astype(np.float32)), "is float32"),
        (set_array("0.translations", lambda x: x * np.nan), "not finite everywhere"),
        (set_array("0.translations", lambda x: x + 1e200), "not finite everywhere, or far"),
        (set_array("0.parents", lambda x: x[::-1].copy()), "list parents first"),
        (set_array("2.vertices", lambda x: x[:-1]), "influence_counts"),
        (set_array("2.vertices", lambda x: x * np.inf), "not finite"),
        (set_array("2.influence_columns", lambda x: x + 3), "column 5, but there are 3"),
        (set_array("2.influence_columns", lambda x: x[:-1]), "its counts do not match"),
        (set_array("2.influence_columns", lambda x: x.astype(float)), "is float64"),
        (set_array("2.influence_counts", lambda x: x * 0), "its counts do not match"),
        (set_array("2.influence_weights", lambda x: x + 1), "weights must be positive"),
        (set_array("2.influence_weights", lambda x: -x), "weights must be positive"),
    ],
)
def test_a_damaged_skinned_rig_is_an_error(change, message):
    with np.errstate(all="ignore"), pytest.raises(SuppleError, match=message):
        damaged(change)


def turn_carried(header: dict, arrays: dict) -> None:
    """As if corrections that the carried start turns already were to be turned again."""
    arrays["7.rotations"] = np.tile(np.array([0, 0, 0, 1], np.float32), (1, len(MESH.vertices), 1))


@pytest.mark.parametrize(
    ("make", "change", "message"),
    [
        (
            lambda: corrected(skinned()),
            set_array("4.corrections_mask", lambda x: x[:-1]),
            "mask of",
        ),
        (lambda: corrected(skinned()), set_array("4.corrections_mask", lambda x: 0 * x), "rows, b"),
        (
            lambda: corrected(skinned()),
            set_array("3.poses", lambda x: x[[0, 0, 1]]),
            "are the same",
        ),
        (lambda: corrected(skinned()), set_array("3.scales", lambda x: 0 * x), "must be positive"),
        (wire, set_value(0, "turning", 3.0), "turning 3.0; it must be between"),
        (wire, set_value(0, "turning", float("nan")), "not finite"),
        (wire, set_value(0, "turning", True), "not a number"),
        (RIGS["bend"], set_value(0, "low", 5.0), "bounds 5.0 to 0.8"),
        (RIGS["bend"], set_array("0.frame", lambda x: x[::-1] * [1, 2, 1]), "unit length"),
        (RIGS["lattice"], set_array("0.divisions", lambda x: x * 100), "too many|control points"),
        (handle, set_value(4, "tip", 2.5e9), "joint 2500000000 does not exist"),
        (handle, set_value(4, "top", 2), "no path between joints"),
        (handle, set_value(5, "softness", -1), "softness -1"),
        (handle, set_value(5, "extra", ["no"]), 'no parameter "no"'),
        (RIGS["shepard"], set_array("5.rotations", lambda x: 2 * x), "must be unit quaternions"),
        (RIGS["shepard"], set_array("5.rotations", lambda x: x[:, 1:]), r"shape \(1, 80, 4\)"),
        (RIGS["shepard"], set_array("5.rotations", lambda x: x * np.nan), "not finite"),
        (
            RIGS["shepard"],
            set_array("5.rotations", lambda x: x.astype(float)),
            '"rotations" is float64',
        ),
        (RIGS["carried"], turn_carried, "skinned tets have no rotations"),
    ],
)
def test_damage_to_other_rigs_is_an_error_too(make, change, message):
    with np.errstate(all="ignore"), pytest.raises(SuppleError, match=message):
        damaged(change, make)


def test_a_small_header_cannot_fill_the_memory():
    def doubled(header: dict, arrays: dict) -> None:
        for _ in range(40):
            last = len(header["parts"]) - 1
            link = {"kind": "chain", "values": {}, "parts": {"rigs": [last, last]}}
            header["parts"].append(link)
        header["roots"]["rig"] = len(header["parts"]) - 1

    with pytest.raises(SuppleError, match="built on too many other parts"):
        damaged(doubled)

    def endless(header: dict, arrays: dict) -> None:
        arrays["0.control_points"] = np.zeros((200_000, 3))

    with pytest.raises(SuppleError, match="too many to read"):
        damaged(endless, wire)

    def many_poses(header: dict, arrays: dict) -> None:
        arrays["3.poses"] = np.random.default_rng(0).random((20_000, 9))

    with pytest.raises(SuppleError, match="too many to read"):
        damaged(many_poses, lambda: corrected(skinned()))

    def wide(header: dict, arrays: dict) -> None:
        count = 300_000
        arrays["2.vertices"] = np.zeros((count, 3), np.float32)
        arrays["2.influence_counts"] = np.ones(count, np.uint16)
        arrays["2.influence_counts"][0] = 60_000
        arrays["2.influence_columns"] = np.zeros(count + 59_999, np.uint8)
        arrays["2.influence_weights"] = np.zeros(59_999, np.float32)

    with pytest.raises(SuppleError, match="too many to read"):
        damaged(wide)


def test_a_rig_too_deep_to_follow_is_not_stored():
    rig: Any = wire()
    for _ in range(150):
        rig = RigChain(rig)
    with pytest.raises(SuppleError, match="built on more than 100 others"):
        stored_rig(rig)


def test_sets_of_tets_are_kept():
    rig = on_tets(skinned(), "shepard")
    rig.mesh = TetMesh(MESH.vertices, MESH.tets, {"bone": [3, 1], "a": [0]})
    again = restored_rig(*stored_rig(rig))
    assert {name: list(tets) for name, tets in again.mesh.sets.items()} == {  # type: ignore[attr-defined]
        "a": [0],
        "bone": [1, 3],
    }


@pytest.mark.parametrize("name", ["RobotExpressive", "mh_heavy_male_jump", "q_Rat"])
def test_rigs_of_real_files_are_kept_to_float32(assets, name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuppleWarning)  # their defects have tests of their own
        character = supple.load(assets / f"gltf_characters/{name}.glb")
    header, arrays = stored_rig(character.rig)
    again = restored_rig(json.loads(json.dumps(header)), arrays)
    assert same_bytes(stored_rig(again)[1], arrays)
    for pose in character.sampled_poses(1)[:6]:
        assert np.abs(again(pose) - character.rig(pose)).max() < 1e-6 * character.surface.size


def test_a_registered_class_is_stored_and_needs_its_row_again(monkeypatch):
    kinds = KINDS.copy()
    monkeypatch.setattr("supple.rig.stored_rigs.KINDS", kinds)
    rig = RigChain(skinned(), Shear(POINTS, name="lean"))
    with pytest.raises(SuppleError, match=r"rigs of class Shear cannot be stored; register it by"):
        stored_rigs({"rig": rig, "tet_rig": RigChain(skinned(), Shear(POINTS))})
    register_deformer("shear", Shear)
    header, arrays = stored_rig(rig)
    again = restored_rig(header, arrays)
    assert isinstance(again, RigChain)
    assert isinstance(again.rigs[1], Shear)
    assert again.parameters == rig.parameters
    del kinds["shear"]
    with pytest.raises(
        SuppleError, match=r"kind is unknown; .*, or a program that registers it by"
    ):
        restored_rig(header, arrays)


def test_classes_that_cannot_be_registered_are_refused(monkeypatch):
    monkeypatch.setattr("supple.rig.stored_rigs.KINDS", KINDS.copy())
    wrong: list[tuple[Any, Any, str]] = [
        (
            "twist",
            Shear,
            "'twist' exists already, the class Twist; choose another name, or start a",
        ),
        ("given", Shear, "a deformer 'given' exists already"),
        (3, Shear, "name of a deformer is a string"),
        ("x" * 41, Shear, "1 to 40 characters"),
        ("mine", Twist, "the class Twist is registered already, as 'twist'"),
        ("mine", FunctionRig, "the class FunctionRig has no stored_fields; add"),
        ("mine", Shear(POINTS), "is not a class"),
    ]
    for name, type_, message in wrong:
        with pytest.raises(SuppleError, match=message):
            register_deformer(name, type_)
    monkeypatch.setattr(Shear, "stored_fields", [*Shear.stored_fields])
    with pytest.raises(SuppleError, match=r"stored_fields of the class Shear must be a tuple of"):
        register_deformer("mine", Shear)


def test_a_rig_of_tets_of_an_unregistered_class_is_named(monkeypatch):
    monkeypatch.setattr("supple.rig.stored_rigs.KINDS", KINDS.copy())
    roots = {"rig": Twist(POINTS), "tet_rig": Shear(POINTS)}
    with pytest.raises(SuppleError, match="rigs of class Shear cannot be stored; register it by"):
        stored_rigs(roots)


def test_a_rig_that_would_lose_its_name_in_a_file_is_refused(monkeypatch):
    monkeypatch.setattr("supple.rig.stored_rigs.KINDS", KINDS.copy())
    register_deformer("shear", Shear)
    named = RigChain(skinned(), Shear(POINTS, name="lean"))
    assert rounded_rigs({"rig": named})["rig"].parameters == named.parameters
    monkeypatch.setattr(Shear, "stored_fields", Shear.stored_fields[:-1])
    with pytest.raises(SuppleError, match=r"'shear.rate'.* instead of .*'lean.rate'.*name_field"):
        rounded_rigs({"rig": named})


def test_fields_that_do_not_fit_a_class_are_named(monkeypatch):
    monkeypatch.setattr("supple.rig.stored_rigs.KINDS", KINDS.copy())
    fields = (*Shear.stored_fields, Value("low", "number"))
    monkeypatch.setattr(Shear, "stored_fields", fields)
    register_deformer("shear", Shear)
    rig: Any = Shear(POINTS)
    with pytest.raises(SuppleError, match='a Shear cannot be stored: its field "low" needs an att'):
        stored_rig(rig)
    rig.low = 1.0
    header, arrays = stored_rig(rig)
    with pytest.raises(SuppleError, match=r"Shear cannot be made of its fields .*argument 'low'"):
        restored_rig(header, arrays)
