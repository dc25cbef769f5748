"""Claims about linear blend and dual quaternion skinning, and blend shapes."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from supple.errors import SuppleError
from supple.rig.deformers.blend_shapes import BlendShapeRig
from supple.rig.protocol import Deformer
from supple.rig.skeleton.joint_pose import JointPose
from supple.rig.skeleton.joints import Skeleton
from supple.rig.skeleton.skinning import SkinnedRig

METHODS = ("linear", "dual-quaternion")


def random_rig(method="linear", n=300, k=4, count=9, seed=0, scaling=()) -> SkinnedRig:
    rng = np.random.default_rng(seed)
    parents = [-1, *(int(rng.integers(0, j)) for j in range(1, count))]
    turns = rng.standard_normal((count, 4))
    skeleton = Skeleton(
        [f"j{j}" for j in range(count)], parents, rng.standard_normal((count, 3)), turns
    )
    bind = np.linalg.inv(skeleton.rest_world())
    joints, weights = rng.integers(0, count, (n, k)), rng.random((n, k)) + 0.01
    pose = JointPose(skeleton, translating=[0], scaling=scaling)
    return SkinnedRig(pose, rng.standard_normal((n, 3)), joints, weights, bind, method)


def random_pose(rig: SkinnedRig, seed: int = 1, size: float = 0.7) -> np.ndarray:
    return size * np.random.default_rng(seed).standard_normal(len(rig.parameters))


def homogeneous(points: np.ndarray) -> np.ndarray:
    return np.hstack([points, np.ones((len(points), 1))])


def test_linear_skinning_is_the_weighted_sum_of_transforms():
    rig = random_rig(scaling=[2])
    pose = random_pose(rig)
    each = np.einsum("jab,nb->jna", rig.skin_matrices(pose), homogeneous(rig.vertices))
    wanted = np.einsum("nj,jna->na", rig.weight_matrix().toarray(), each)[:, :3]
    np.testing.assert_allclose(rig(pose), wanted, atol=1e-13)


@pytest.mark.parametrize("method", METHODS)
def test_the_rest_pose_is_the_bound_surface(method):
    rig = random_rig(method)
    np.testing.assert_allclose(rig(rig.rest_pose), rig.vertices, atol=1e-13)


@pytest.mark.parametrize("method", METHODS)
def test_a_subset_and_given_points_have_the_bits_of_the_whole(method):
    rig = random_rig(method, scaling=[4])
    pose = random_pose(rig)
    whole = rig(pose)
    subset = np.random.default_rng(3).integers(0, rig.n_vertices, 77)
    assert np.array_equal(rig(pose, subset), whole[subset])
    assert np.array_equal(rig.deform(rig.vertices[subset], pose, subset), whole[subset])
    assert np.array_equal(rig.with_influences(rig.vertices, rig.joints, rig.weights)(pose), whole)
    out = np.empty_like(whole)
    assert rig(pose, out=out) is out
    assert np.array_equal(out, whole)
    assert rig(pose, []).shape == (0, 3)
    assert np.array_equal(pickle.loads(pickle.dumps(rig))(pose), whole)
    assert isinstance(rig, Deformer)


@pytest.mark.parametrize("method", METHODS)
def test_a_vertex_of_one_joint_moves_rigidly_with_it(method):
    rig = random_rig(method, k=1)
    pose = random_pose(rig)
    matrices = rig.skin_matrices(pose)[rig.joints[:, 0]]
    wanted = np.einsum("nab,nb->na", matrices, homogeneous(rig.vertices))[:, :3]
    np.testing.assert_allclose(rig(pose), wanted, atol=1e-12)


def twist_bone(method: str, angle: float) -> tuple[SkinnedRig, np.ndarray]:
    """A tube around x, half and half between two joints of which one twists."""
    around = np.linspace(0, 2 * np.pi, 16, endpoint=False)
    tube = np.stack([np.zeros(16), np.cos(around), np.sin(around)], axis=1)
    skeleton = Skeleton(["a", "b"], [-1, 0], np.zeros((2, 3)))
    both = np.tile([0, 1], (16, 1))
    rig = SkinnedRig(
        JointPose(skeleton),
        tube,
        both,
        np.full((16, 2), 0.5),
        np.tile(np.eye(4), (2, 1, 1)),
        method,
    )
    return rig, np.array([0, 0, 0, angle, 0, 0])


def test_dual_quaternions_keep_the_radius_of_a_twist_that_linear_blending_loses():
    for angle in (0.5, 2.0, 3.0):
        rig, pose = twist_bone("dual-quaternion", angle)
        turned = Rotation.from_rotvec([angle / 2, 0, 0]).apply(rig.vertices)
        np.testing.assert_allclose(rig(pose), turned, atol=1e-12)
        thin, _ = twist_bone("linear", angle)
        radius = np.linalg.norm(thin(pose), axis=1)
        np.testing.assert_allclose(radius, np.cos(angle / 2), atol=1e-12)


def test_opposite_rotations_blend_to_finite_places_at_the_old_distance():
    for angle in (np.pi, -np.pi, np.nextafter(np.pi, 4), 2 * np.pi, 3 * np.pi):
        rig, pose = twist_bone("dual-quaternion", angle)
        placed = rig(pose)
        assert np.isfinite(placed).all()
        np.testing.assert_allclose(np.linalg.norm(placed, axis=1), 1, atol=1e-12)


def test_both_signs_of_a_quaternion_blend_alike():
    """A joint turned by 2π + a is where it is turned by a: the shorter way is blended."""
    rig, pose = twist_bone("dual-quaternion", 1.0)
    np.testing.assert_allclose(rig(pose + 2 * np.pi * (pose > 0)), rig(pose), atol=1e-12)


def test_scaled_and_mirrored_joints_scale_and_mirror_also_with_dual_quaternions():
    rig = random_rig("dual-quaternion", k=1, scaling=range(9))
    pose = random_pose(rig, size=0.4)
    matrices = rig.skin_matrices(pose)[rig.joints[:, 0]]
    wanted = np.einsum("nab,nb->na", matrices, homogeneous(rig.vertices))[:, :3]
    np.testing.assert_allclose(rig(pose), wanted, atol=1e-11)
    one = Skeleton(["a"], [-1], [[1, 2, 3]], [[1, 1, 0, 1]], [[-1, 2, 0.5]])
    mirrored = SkinnedRig(
        JointPose(one), rig.vertices, np.zeros((300, 1), int), np.ones((300, 1)), [np.eye(4)],
        "dual-quaternion",
    )  # fmt: skip
    wanted = homogeneous(rig.vertices) @ one.rest_world()[0].T
    np.testing.assert_allclose(mirrored(mirrored.rest_pose), wanted[:, :3], atol=1e-12)


def test_a_joint_scaled_to_nothing_stays_finite():
    one = Skeleton(["a"], [-1], [[1, 2, 3]], None, [[0, 0, 0]])
    for method in METHODS:
        rig = SkinnedRig(JointPose(one), [[1, 1, 1]], [[0]], [[1]], [np.eye(4)], method)
        np.testing.assert_allclose(rig(rig.rest_pose), [[1, 2, 3]], atol=1e-15)


def test_weights_are_normalised_and_what_weighs_nothing_may_name_any_joint():
    skeleton = Skeleton(["a", "b"], [-1, 0], np.zeros((2, 3)))
    bind = np.tile(np.eye(4), (2, 1, 1))
    joints = [[0, 1, 99], [1, 1, -5]]
    rig = SkinnedRig(JointPose(skeleton), np.zeros((2, 3)), joints, [[2, 6, 0], [1, 3, 0]], bind)
    np.testing.assert_allclose(rig.weight_matrix().toarray(), [[0.25, 0.75], [0.0, 1.0]])
    assert rig.joints.shape == (2, 2)
    huge = SkinnedRig(JointPose(skeleton), np.zeros((2, 3)), [[0, 1]] * 2, [[1e308] * 2] * 2, bind)
    np.testing.assert_allclose(huge.weights, 0.5)


def test_bad_influences_are_named():
    skeleton = Skeleton(["a", "b"], [-1, 0], np.zeros((2, 3)))
    pose, bind = JointPose(skeleton), np.tile(np.eye(4), (2, 1, 1))
    points = np.zeros((2, 3))

    def make(joints, weights, **options):
        return SkinnedRig(pose, points, joints, weights, bind, **options)

    with pytest.raises(SuppleError, match="vertex 1 follows joint 2; the skeleton has 2"):
        make([[0], [2]], [[1], [1]])
    with pytest.raises(SuppleError, match=r"1 vertices follow no joint \(first 1\)"):
        make([[0], [0]], [[1], [0]])
    assert make([[0], [0]], [[1], [0]], unweighted_joint="b").joints[1, 0] == 1
    with pytest.raises(SuppleError, match="vertex 0 has a negative weight"):
        make([[0, 1], [0, 1]], [[2, -1], [1, 0]])
    with pytest.raises(SuppleError, match="not finite"):
        make([[0], [0]], [[np.nan], [1]])
    with pytest.raises(SuppleError, match="must be indices"):
        make([[0.0], [0.0]], [[1], [1]])
    with pytest.raises(SuppleError, match="influences of shape"):
        make([[0]], [[1]])
    with pytest.raises(SuppleError, match='method "cubic"'):
        make([[0], [0]], [[1], [1]], method="cubic")
    with pytest.raises(SuppleError, match="inverse bind"):
        SkinnedRig(pose, points, [[0], [0]], [[1], [1]], np.eye(4))
    with pytest.raises(SuppleError, match="out must be"):
        make([[0], [0]], [[1], [1]])(np.zeros(6), out=np.zeros((3, 3)))


def test_blend_shapes_act_before_the_skeleton():
    rig = random_rig()
    rng = np.random.default_rng(5)
    deltas = rng.standard_normal((3, rig.n_vertices, 3))
    shaped = BlendShapeRig(rig, deltas, ["smile", "frown", "blink"])
    assert [p.name for p in shaped.parameters[-3:]] == ["smile", "frown", "blink"]
    pose, weights = random_pose(rig), np.array([0.5, 0.0, -1.5])
    moved = rig.vertices + np.tensordot(weights, deltas, 1)
    whole = shaped([*pose, *weights])
    np.testing.assert_allclose(whole, rig.deform(moved, pose), atol=1e-12)
    subset = rng.integers(0, rig.n_vertices, 50)
    assert np.array_equal(shaped([*pose, *weights], subset), whole[subset])
    assert np.array_equal(shaped([*pose, 0, 0, 0]), rig(pose))
    with pytest.raises(SuppleError, match="blend shapes: shape"):
        BlendShapeRig(rig, deltas[:2], ["smile", "frown", "blink"])


def usda_array(text: str, name: str) -> np.ndarray:
    """The numbers of the last attribute of this name; enough of a reader for these files."""
    return numbers(re.findall(rf"\b{name} = (\[[^]]*\]|\(.*\))", text)[-1])


def numbers(text: str) -> np.ndarray:
    return np.array([float(x) for x in re.findall(r"-?\d+\.?\d*(?:e-?\d+)?", text)])


def usda_frames(text: str, name: str) -> list[np.ndarray]:
    block = re.search(rf"{name}\.timeSamples = \{{(.*?)\n\s*\}}", text, re.S)
    assert block
    return [numbers(frame) for frame in re.findall(r"\d+: (\[[^]]*\])", block[1])]


@pytest.mark.parametrize(("file", "method"), [("lbs", "linear"), ("dqs", "dual-quaternion")])
def test_skinning_equals_the_baked_frames_of_usd(assets: Path, file, method):
    source = (assets / "usd_skel" / f"{file}.usda").read_text()
    baked = (assets / "usd_skel" / f"{file}.baked.usda").read_text()
    mesh = source[source.index('def Mesh "Mesh"') :]
    mesh = mesh[: mesh.index("subdivisionScheme")]
    world_bind = usda_array(source, "bindTransforms").reshape(-1, 4, 4).transpose(0, 2, 1)
    rest = usda_array(source, "restTransforms").reshape(-1, 4, 4).transpose(0, 2, 1)
    turns = Rotation.from_matrix(rest[:, :3, :3]).as_quat()
    skeleton = Skeleton(["a", "b", "c"], [-1, 0, 1], rest[:, :3, 3], turns)
    points = usda_array(mesh, "points").reshape(-1, 3)
    geometry = usda_array(mesh, "geomBindTransform").reshape(4, 4)
    bound = (homogeneous(points) @ geometry)[:, :3]
    joints = usda_array(mesh, "jointIndices").astype(int).reshape(len(points), -1)
    weights = usda_array(mesh, "jointWeights").reshape(len(points), -1)
    pose = JointPose(skeleton, translating=[0, 1, 2], scaling=[0, 1, 2])
    rig = SkinnedRig(pose, bound, joints, weights, np.linalg.inv(world_bind), method)
    baked_mesh = baked[baked.index('def Mesh "Mesh"') :]
    frames = usda_frames(baked_mesh, "points")
    local = [usda_frames(source, name) for name in ("translations", "rotations", "scales")]
    assert len(frames) == len(local[0]) == 30
    worst = 0.0
    for frame, t, r, s in zip(frames, *local, strict=True):
        quaternions = r.reshape(-1, 4)[:, [1, 2, 3, 0]]
        placed = rig(pose.pack(t.reshape(-1, 3), quaternions, s.reshape(-1, 3)))
        worst = max(worst, np.abs(placed - frame.reshape(-1, 3)).max())
    assert worst < 1e-5 * np.linalg.norm(np.ptp(points, axis=0))


@pytest.mark.parametrize("method", ["linear", "dual-quaternion"])
def test_rigs_keep_what_they_were_given(method):
    like = random_rig(method, n=20)
    tables = [t.copy() for t in (like.vertices, like.joints, like.weights, like.inverse_bind)]
    deltas = np.ones((1, 20, 3))
    rig = BlendShapeRig(SkinnedRig(like.joint_pose, *tables, method), deltas, ["shape"])  # type: ignore[arg-type, call-arg]
    pose = np.append(random_pose(like), 0.5)
    before = rig(pose)
    for table in (*tables, deltas):
        table[:] = 0
    np.testing.assert_array_equal(rig(pose), before)


def test_an_out_that_cannot_be_written_is_refused():
    rig = random_rig(n=20)
    frozen = np.empty((20, 3))
    frozen.flags.writeable = False
    for bad in ([[0.0] * 3] * 20, frozen, np.empty((20, 3), np.float32), np.empty((3, 20)).T):
        with pytest.raises(SuppleError, match="out must be"):
            rig(rig.rest_pose, out=bad)  # type: ignore[arg-type]
