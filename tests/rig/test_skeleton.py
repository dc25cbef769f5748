"""Claims about skeletons, joint poses and the rig protocol."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from supple.errors import SuppleError
from supple.rig.protocol import FunctionRig, Parameter, Rig
from supple.rig.skeleton.joint_pose import JointPose
from supple.rig.skeleton.joints import Skeleton, unique_names


def random_skeleton(rng: np.random.Generator, count: int = 12, scaled: bool = True) -> Skeleton:
    parents = [-1, *(int(rng.integers(-1, j)) for j in range(1, count))]
    scales = rng.uniform(0.5, 2, (count, 3)) if scaled else None
    places, turns = rng.standard_normal((count, 3)), rng.standard_normal((count, 4))
    return Skeleton([f"j{k}" for k in range(count)], parents, places, turns, scales)


def straightforward_world(skeleton: Skeleton, t, r, s) -> np.ndarray:
    worlds: list[np.ndarray] = []
    for joint, parent in enumerate(skeleton.parents):
        local = np.eye(4)
        local[:3, :3] = Rotation.from_quat(r[joint]).as_matrix() @ np.diag(s[joint])
        local[:3, 3] = t[joint]
        worlds.append(local if parent < 0 else worlds[parent] @ local)
    return np.array(worlds)


def test_world_transforms_equal_those_of_an_independent_evaluator():
    rng = np.random.default_rng(0)
    skeleton = random_skeleton(rng)
    t, r = rng.standard_normal((2, 5, 12, 3)), rng.standard_normal((2, 5, 12, 4))
    s = rng.uniform(-2, 2, (12, 3))
    worlds = skeleton.world(t, r, s)
    assert worlds.shape == (2, 5, 12, 4, 4)
    for a in range(2):
        for b in range(5):
            wanted = straightforward_world(skeleton, t[a, b], r[a, b], s)
            np.testing.assert_allclose(worlds[a, b], wanted, atol=1e-12)
    rest = straightforward_world(
        skeleton, skeleton.translations, skeleton.rotations, skeleton.scales
    )
    np.testing.assert_allclose(skeleton.rest_world(), rest, atol=1e-12)


def test_no_frames_give_no_transforms():
    skeleton = random_skeleton(np.random.default_rng(0))
    assert skeleton.world(np.empty((0, 12, 3))).shape == (0, 12, 4, 4)
    assert JointPose(skeleton).pack(np.empty((0, 12, 3)), None, None).shape == (0, 36)


@pytest.mark.parametrize(
    ("names", "parents", "message"),
    [
        (["a", "a"], [-1, 0], 'two joints are called "a"'),
        (["a", "b"], [1, -1], 'joint 0 "a" has parent 1'),
        (["a", "b"], [-1, 1], 'joint 1 "b" has parent 1'),
        (["a", "b"], [-1, -2], "has parent -2"),
        (["a", "b"], [-1], "parents must be 2"),
        ([], [], "at least one joint"),
    ],
)
def test_a_broken_tree_is_named(names, parents, message):
    with pytest.raises(SuppleError, match=message):
        Skeleton(names, parents, np.zeros((len(names), 3)))


def test_bad_rest_transforms_are_named():
    with pytest.raises(SuppleError, match=r'"b".*zero quaternion'):
        Skeleton(["a", "b"], [-1, 0], np.zeros((2, 3)), [[0, 0, 0, 1], [0, 0, 0, 0]])
    with pytest.raises(SuppleError, match="not finite at row 1"):
        Skeleton(["a", "b"], [-1, 0], np.array([[0, 0, 0], [0, np.nan, 0]]))


def test_a_misspelt_joint_is_answered_with_near_names():
    skeleton = Skeleton(["Hips", "LeftUpLeg", "RightUpLeg"], [-1, 0, 0], np.zeros((3, 3)))
    assert skeleton.joint("LeftUpLeg") == skeleton.joint(1) == 1
    with pytest.raises(SuppleError, match='no joint "leftUpleg"; similar names: "LeftUpLeg"'):
        skeleton.joint("leftUpleg")
    with pytest.raises(SuppleError, match="joint 3 does not exist"):
        skeleton.joint(3)


def test_paths_follow_the_tree():
    skeleton = Skeleton(list("abcdef"), [-1, 0, 1, 0, 3, -1], np.zeros((6, 3)))
    assert list(skeleton.path("a", "c")) == [0, 1, 2]
    with pytest.raises(SuppleError, match='"f" is not below "a"'):
        skeleton.path("a", "f")


def test_unique_names_keep_first_ones_and_avoid_taken_ones():
    assert unique_names(["a", "a", "a_2", "a"]) == ("a", "a_3", "a_2", "a_4")


def test_packed_poses_give_back_the_transforms():
    rng = np.random.default_rng(1)
    skeleton = random_skeleton(rng)
    pose = JointPose(skeleton, translating=["j3", 0], scaling=["j5"])
    assert pose.n_parameters == len(pose.parameters) == 3 * (12 + 2 + 1)
    t = np.tile(skeleton.translations, (7, 1, 1))
    t[:, [0, 3]] += rng.standard_normal((7, 2, 3))
    s = np.tile(skeleton.scales, (7, 1, 1))
    s[:, 5] *= rng.uniform(0.2, 3, (7, 3))
    r = Rotation.random(84, random_state=1).as_quat().reshape(7, 12, 4)
    packed = pose.pack(t, r, s)
    np.testing.assert_allclose(pose.matrices(packed), skeleton.world(t, r, s), atol=1e-12)
    again = pose.unpack(packed)
    np.testing.assert_allclose(again[0], t, atol=1e-14)
    np.testing.assert_allclose(again[2], s, atol=1e-14)
    assert pose.pack().shape == (45,)
    np.testing.assert_allclose(pose.pack(), 0, atol=1e-15)


def test_parameters_are_listed_as_they_lie_in_the_vector():
    skeleton = Skeleton(["a", "b"], [-1, 0], [[0, 0, 0], [1, 0, 0]])
    pose = JointPose(skeleton, translating=["b"], scaling=["a"])
    names = {parameter.name: k for k, parameter in enumerate(pose.parameters)}
    values = np.zeros(12)
    values[names["b.ty"]] = 0.5
    values[names["a.sx"]] = np.log(3)
    values[names["a.rz"]] = np.pi / 2
    np.testing.assert_allclose(pose.matrices(values)[1, :3, 3], [-0.5, 3, 0], atol=1e-15)
    assert [p.unit for p in pose.parameters] == ["rad"] * 6 + ["m"] * 3 + ["1"] * 3


def test_rotation_vectors_are_continuous_through_many_turns():
    skeleton = Skeleton(["a"], [-1], [[0, 0, 0]], Rotation.random(random_state=4).as_quat()[None])
    angles = np.concatenate([np.linspace(0, 15, 200), np.linspace(15, -9, 300)])
    axis = np.array([1.0, 2, -2]) / 3
    rest = Rotation.from_quat(skeleton.rotations[0])
    turns = (rest * Rotation.from_rotvec(angles[:, None] * axis)).as_quat()
    turns[::3] *= -1
    packed = JointPose(skeleton).pack(None, turns[:, None], None)
    np.testing.assert_allclose(packed, angles[:, None] * axis, atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-20, 20), min_size=3, max_size=3), st.integers(0, 2**31))
def test_the_packed_vector_is_the_nearest_of_the_equivalent_ones(before, seed):
    skeleton = Skeleton(["a"], [-1], [[0, 0, 0]])
    rng = np.random.default_rng(seed)
    vectors = np.array([before, before + 0.3 * rng.standard_normal(3)])
    # Reached in small steps, so that the first row's vector is the long one.
    ramp = np.linspace(0, 1, 60)[:, None] * vectors[0]
    turns = Rotation.from_rotvec(np.vstack([ramp, vectors[1]])).as_quat()
    packed = JointPose(skeleton).pack(None, turns[:, None], None)
    difference = np.linalg.norm(packed[-1] - packed[-2])
    unit = packed[-1] / max(np.linalg.norm(packed[-1]), 1e-12)
    for turn in (-2 * np.pi, 2 * np.pi):
        assert difference <= np.linalg.norm(packed[-1] + turn * unit - packed[-2]) + 1e-9
    same = Rotation.from_rotvec(packed[-1]).inv() * Rotation.from_rotvec(vectors[1])
    assert same.magnitude() < 1e-7


def test_transforms_that_a_pose_cannot_represent_are_refused():
    skeleton = Skeleton(["a", "b"], [-1, 0], [[0, 0, 0], [1, 0, 0]])
    pose = JointPose(skeleton, scaling=["a"])
    with pytest.raises(SuppleError, match=r'joint "b" moves by 0\.5; list it as translating'):
        pose.pack(np.array([[0, 0, 0], [1, 0.5, 0]]), None, None)
    with pytest.raises(SuppleError, match='joint "b" scales by 1; list it as scaling'):
        pose.pack(None, None, [[1, 1, 1], [2, 1, 1]])
    with pytest.raises(SuppleError, match='"a": its scale changes sign'):
        pose.pack(None, None, [[1, -1, 1], [1, 1, 1]])
    with pytest.raises(SuppleError, match='"b": a rotation is a zero quaternion'):
        pose.pack(None, [[0, 0, 0, 1], [0, 0, 0, 0]], None)
    assert np.isfinite(pose.pack(None, None, [[0, 1, 1], [1, 1, 1]])).all()


def test_a_function_is_a_rig_with_or_without_a_list_of_vertices():
    rest = np.arange(12.0).reshape(4, 3)
    parameters = [Parameter("slide", "m", 0.25)]

    def everything(pose):
        return rest + pose[0]

    def some(pose, vertices=None):
        return (rest if vertices is None else rest[vertices]) + pose[0]

    for function in (everything, some):
        rig = FunctionRig(function, parameters, 4)
        assert isinstance(rig, Rig)
        np.testing.assert_array_equal(rig([1.0]), rest + 1)
        np.testing.assert_array_equal(rig([1.0], [2, 0]), (rest + 1)[[2, 0]])
        assert rig([1.0], []).shape == (0, 3)
        np.testing.assert_array_equal(rig.rest_pose, [0.25])


def test_a_function_that_misbehaves_is_named():
    one = [Parameter("a", "1", 0)]
    with pytest.raises(SuppleError, match="failed: ZeroDivisionError"):
        FunctionRig(lambda pose: 1 / 0, one, 1)([0.0])
    with pytest.raises(SuppleError, match=r"result: shape \(2, 3\); expected \(1, 3\)"):
        FunctionRig(lambda pose: np.zeros((2, 3)), one, 1)([0.0])
    with pytest.raises(SuppleError, match="not finite"):
        FunctionRig(lambda pose: [[np.nan, 0, 0]], one, 1)([0.0])


def test_bad_poses_and_subsets_are_named():
    rig = FunctionRig(lambda pose: np.zeros((2, 3)), [Parameter("a", "1", 0)], 2)
    with pytest.raises(SuppleError, match="the rig has 1 parameters"):
        rig([0.0, 1.0])
    with pytest.raises(SuppleError, match='"a" is not finite'):
        rig([np.inf])
    with pytest.raises(SuppleError, match="vertex 2 does not exist"):
        rig([0.0], [0, 2])
    with pytest.raises(SuppleError, match="list of indices"):
        rig([0.0], [0.5])
    with pytest.raises(SuppleError, match='two rig parameters are called "a"'):
        FunctionRig(lambda pose: np.zeros((1, 3)), [Parameter("a", "1", 0)] * 2, 1)
    with pytest.raises(SuppleError, match="unit"):
        Parameter("a", "cm", 0)


def test_a_skeleton_and_a_function_rig_keep_what_they_were_given():
    parents, places, sizes = np.array([-1, 0]), np.ones((2, 3)), np.ones((2, 3))
    skeleton = Skeleton("ab", parents, places, scales=sizes)
    before = skeleton.world()
    parents[:], places[:], sizes[:] = -1, 7, 7
    np.testing.assert_array_equal(skeleton.world(), before)

    buffer, pose, listed = np.zeros((2, 3)), np.array([1.0]), np.array([0, 1])

    def careless(pose, vertices):
        buffer[:] = pose[0]
        pose[:] = np.nan
        if vertices is not None:
            vertices[:] = 9
        return buffer

    rig = FunctionRig(careless, [Parameter("a", "m")], 2)
    first = rig(pose, listed)
    rig([2.0])
    assert (first == 1).all()
    assert pose == 1
    assert (listed == [0, 1]).all()


@pytest.mark.parametrize("size", [1e200, 1e-200, 3.0])
def test_quaternions_of_any_length_are_the_same_rotation(size):
    unit = Rotation.random(2, random_state=5).as_quat()
    places = np.ones((2, 3))
    wanted, got = (Skeleton("ab", [-1, 0], places, unit * k) for k in (1.0, size))
    np.testing.assert_allclose(got.rotations, unit, atol=1e-15)
    np.testing.assert_allclose(wanted.world(places, unit * size), wanted.world(), atol=1e-14)
    packed = JointPose(Skeleton("ab", [-1, 0], places)).pack(rotations=unit * size)
    vectors = Rotation.from_quat(unit).as_rotvec()
    np.testing.assert_allclose(packed.reshape(2, 3), vectors, atol=1e-14)


def test_huge_rotation_vectors_are_still_rotations():
    pose = np.array([1e200, -1e308, 1.7e308])
    turned = JointPose(Skeleton("a", [-1], np.zeros((1, 3)))).matrices(pose)[0, :3, :3]
    np.testing.assert_allclose(turned @ turned.T, np.eye(3), atol=1e-14)


def test_poses_that_are_huge_complex_or_text_are_refused_by_name():
    rig = FunctionRig(lambda pose: [[pose[0], 0, 0]], [Parameter("slide", "m")], 1)
    assert rig([-1e9])[0, 0] == -1e9
    with pytest.raises(SuppleError, match='"slide" is 2e\\+09'):
        rig([2e9])
    with pytest.raises(SuppleError, match='"slide" is not finite'):
        rig([-np.inf])
    for bad in (np.array([1j]), ["1"], [[1], [1, 2]]):
        with pytest.raises(SuppleError, match="must be numbers"):
            rig(bad)


def test_joints_and_transforms_that_make_no_sense_are_refused():
    skeleton = Skeleton("ab", [-1, 0], np.ones((2, 3)))
    for bad in (True, 1.0, None, ["a"]):
        with pytest.raises(SuppleError, match="is not a joint"):
            skeleton.joint(bad)  # type: ignore[arg-type]
    with pytest.raises(SuppleError, match="do not match"):
        JointPose(skeleton).pack(np.ones((3, 2, 3)), np.ones((2, 2, 4)))
