"""Offsets before skinning give the wanted skin, and few shapes give the offsets."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from helpers.own_deformer import Shear
from supple.errors import SuppleError
from supple.formats.morph_fit import fit_morphs, unit_weights
from supple.rig.deformers.bend import Bend
from supple.rig.deformers.blend_shapes import BlendShapeRig
from supple.rig.inverse_skinning import OffsetMatrices, offset_matrices, offsets_before_skinning
from supple.rig.protocol import Deformer, FunctionRig, Parameter
from supple.rig.skeleton.joint_pose import JointPose
from supple.rig.skeleton.joints import Skeleton
from supple.rig.skeleton.skinning import SkinnedRig


def tube() -> np.ndarray:
    """Points around the x axis, from 0 to 2."""
    along, around = np.meshgrid(np.linspace(0, 2, 21), np.linspace(0, 2 * np.pi, 12, False))
    rings = [along, 0.3 * np.cos(around), 0.3 * np.sin(around)]
    return np.stack(rings, axis=-1).reshape(-1, 3)


def skinned(method: str, scaling: bool = False) -> SkinnedRig:
    points = tube()
    skeleton = Skeleton(["a", "b"], [-1, 0], [[0, 0, 0], [1, 0, 0]])
    pose = JointPose(skeleton, scaling=["b"] if scaling else [])
    share = np.clip(points[:, 0] - 0.5, 0, 1)
    weights = np.column_stack([1 - share, share])
    joints = np.tile([0, 1], (len(points), 1))
    inverse = np.linalg.inv(skeleton.rest_world())
    return SkinnedRig(pose, points, joints, weights, inverse, method)


def rigs() -> dict[str, Deformer]:
    shapes = np.random.default_rng(1).normal(size=(2, len(tube()), 3)) * 0.02
    return {
        "linear": skinned("linear"),
        "dual-quaternion": skinned("dual-quaternion"),
        "scaled": skinned("linear", scaling=True),
        "scaled dual-quaternion": skinned("dual-quaternion", scaling=True),
        "shapes": BlendShapeRig(skinned("linear"), shapes, ["p", "q"], rest=[0.5, 0]),
        "shapes twice": BlendShapeRig(
            BlendShapeRig(skinned("dual-quaternion"), shapes, ["p", "q"]), shapes, ["r", "s"]
        ),
        "bend": Bend(tube(), [0, 0, 0], [2, 0, 0], [0, 0, 1], high=1.03),
    }


@pytest.mark.parametrize("name", rigs())
def test_offset_positions_reach_their_targets_after_skinning(name):
    rig = rigs()[name]
    random = np.random.default_rng(0)
    pose = rig.rest_pose + random.uniform(-0.6, 0.6, len(rig.rest_pose))
    wanted = rig(pose) + 0.05 * random.normal(size=(rig.n_vertices, 3))
    offsets = offsets_before_skinning(rig, pose, wanted)
    assert np.abs(rig.deform(rig.rest_points + offsets, pose) - wanted).max() < 1e-6
    matrices = offset_matrices(rig, pose)
    tiny = 1e-6 * random.normal(size=(rig.n_vertices, 3))
    moved = rig.deform(rig.rest_points + tiny, pose) - rig(pose)
    assert np.allclose(np.einsum("nij,nj->ni", matrices, tiny), moved, atol=1e-10)


def test_a_function_of_the_pose_has_nothing_to_offset():
    rig = FunctionRig(lambda pose: [[pose[0], 0, 0]], [Parameter("slide", "m", 0.5)], 1)
    with pytest.raises(SuppleError, match="no bound positions to offset"):
        offset_matrices(rig, [0.1])


def test_offset_matrices_of_another_shape_are_refused(monkeypatch):
    shear = Shear(tube())

    def one_for_all(self, points, pose):
        return np.eye(3)

    monkeypatch.setattr(Shear, "offset_matrices", one_for_all, raising=False)
    with pytest.raises(SuppleError, match=r"offset_matrices of a Shear: shape \(3, 3\); expected"):
        offset_matrices(shear, [0.1])


def test_offsets_stay_small_where_skinning_flattens():
    """Twisted by half a turn the middle of a linearly skinned tube is a point."""
    rig = skinned("linear")
    middle = np.abs(rig.vertices[:, 0] - 1) < 1e-9
    previous = None
    for angle in np.linspace(0.9, 1.1, 41) * np.pi:
        pose = rig.rest_pose.copy()
        pose[3] = angle
        now = rig(pose)
        wanted = now + 0.01 * np.cos(3 * rig.vertices)
        offsets = offsets_before_skinning(rig, pose, wanted, tolerance=0.002)
        assert np.isfinite(offsets).all()
        assert np.abs(offsets).max() < 1.0  # exact ones would be without bound
        found = rig.deform(rig.rest_points + offsets, pose)
        assert np.abs(found - wanted)[~middle].max() < 0.0021
        if previous is not None:
            assert np.abs(offsets - previous)[~middle].max() < 0.5
        previous = offsets
    pose[3] = np.pi
    flat = offsets_before_skinning(rig, pose, rig(pose) + 0.01)
    assert np.abs(flat[middle][:, 1:]).max() < 1e-6  # nothing moves them: nothing is tried
    assert np.allclose(flat[middle][:, 0], 0.01)


def test_matrices_of_a_motion_are_made_one_by_one():
    rig = skinned("linear")
    poses = 0.3 * np.random.default_rng(2).normal(size=(5, len(rig.rest_pose)))
    some = np.array([3, 1, 40])
    made = OffsetMatrices(rig, poses, some)
    assert len(made) == 5
    assert np.array_equal(made[2], offset_matrices(rig, poses[2])[some])
    assert np.array_equal(made[3:][0], made[3])


def moving(rank: int, frames: int = 40, vertices: int = 300) -> np.ndarray:
    """Offsets of a rank, the parts falling off; fixed."""
    random = np.random.default_rng(5)
    times = np.linspace(0, 1, frames)
    weights = np.stack([np.sin((3 + k) * times + k) for k in range(rank)], axis=1)
    shapes = random.normal(size=(rank, vertices, 3)) * (0.6 ** np.arange(rank))[:, None, None]
    return np.tensordot(weights, shapes, 1)


def error_of(
    offsets: np.ndarray, shapes: np.ndarray, weights: np.ndarray, matrices: np.ndarray | None = None
) -> float:
    left = np.tensordot(weights.astype(float), shapes.astype(float), 1) - offsets
    if matrices is not None:
        left = np.einsum("tnij,tnj->tni", matrices, left)
    return float(np.linalg.norm(left, axis=2).max())


def test_offsets_of_some_rank_need_as_many_shapes():
    offsets = moving(7)
    shapes, weights, reached = fit_morphs(offsets, None, 1.0, 1e-4)
    assert len(shapes) == 7
    assert reached <= 1e-4
    assert np.isclose(error_of(offsets, shapes, weights), reached, rtol=0.05, atol=1e-6)


@pytest.mark.parametrize("error", [0.3, 0.1, 0.03, 0.01])
def test_no_more_shapes_than_a_plain_decomposition_needs(error):
    offsets = moving(12)
    shapes, weights, reached = fit_morphs(offsets, None, 2.0, error)
    assert error_of(offsets, shapes, weights) <= 2 * error * (1 + 1e-4)
    assert np.isclose(error_of(offsets, shapes, weights) / 2, reached, rtol=1e-3)
    left, sizes, right = np.linalg.svd(offsets.reshape(len(offsets), -1), full_matrices=False)
    for count in range(13):
        plain = ((left[:, :count] * sizes[:count]) @ right[:count]).reshape(offsets.shape)
        if np.linalg.norm(plain - offsets, axis=2).max() <= 2 * error:
            break
    assert len(shapes) <= count


def test_the_error_counts_after_skinning():
    """What skinning magnifies needs more shapes, what it shrinks fewer."""
    offsets = moving(10)
    eye = np.broadcast_to(np.eye(3), (*offsets.shape[:2], 3, 3))
    counts = []
    for factor in (0.2, 1.0, 5.0):
        shapes, weights, reached = fit_morphs(offsets, factor * eye, 1.0, 0.1)
        assert error_of(offsets, shapes, weights, factor * eye) <= 0.1001
        assert reached <= 0.1
        counts.append(len(shapes))
    assert counts[0] < counts[1] < counts[2]


def test_weights_are_at_most_one_and_reach_it():
    _, weights, _ = fit_morphs(moving(6), None, 1.0, 0.01)
    assert np.allclose(np.abs(weights).max(axis=0), 1)
    assert weights.dtype == np.float32


def test_nothing_moves_without_shapes():
    shapes, weights, reached = fit_morphs(1e-4 * moving(3), None, 1.0, 0.01)
    assert shapes.shape == (0, 300, 3)
    assert weights.shape == (40, 0)
    assert 0 < reached < 0.01


def test_one_frame_needs_one_shape():
    offsets = moving(3)[:1]
    shapes, weights, reached = fit_morphs(offsets, None, 1.0, 1e-5)
    assert len(shapes) == 1
    assert reached <= 1e-5
    assert np.allclose(weights[:, 0, None, None] * shapes, offsets, atol=1e-5)


def test_more_frames_than_are_looked_at_are_fitted_all_the_same(monkeypatch):
    from supple.formats import morph_fit

    offsets = moving(6, frames=200)
    monkeypatch.setattr(morph_fit, "MOST_FRAMES", 30)
    monkeypatch.setattr(morph_fit, "BLOCK", 10_000)
    shapes, weights, _ = fit_morphs(offsets, None, 1.0, 1e-3)
    assert len(shapes) == 6
    assert error_of(offsets, shapes, weights) <= 1.01e-3


def test_an_unreachable_tolerance_is_reported_and_costs_few_shapes():
    """Offsets that were kept small miss their goal; no number of shapes helps."""
    offsets = moving(5)
    goal = offsets.copy()
    goal[20, 7] += 0.5
    shapes, _, reached = fit_morphs(offsets, None, 1.0, 0.01, moves=goal)
    assert reached > 0.45
    assert len(shapes) <= 5


def test_the_number_of_shapes_can_be_limited():
    offsets = moving(9)
    shapes, weights, reached = fit_morphs(offsets, None, 1.0, 1e-4, most=4)
    assert len(shapes) == 4
    assert reached > 1e-4
    assert np.isclose(error_of(offsets, shapes, weights), reached, rtol=1e-3)


def test_the_same_offsets_give_the_same_bits():
    one, other = (fit_morphs(moving(8), None, 1.0, 0.01) for _ in range(2))
    assert one[0].tobytes() == other[0].tobytes()
    assert one[1].tobytes() == other[1].tobytes()


@pytest.mark.parametrize(
    ("offsets", "size", "error", "said"),
    [
        (np.full((2, 3, 3), np.nan), 1.0, 0.1, "not all finite"),
        (np.ones((2, 3, 3)), 0.0, 0.1, "must be positive"),
        (np.ones((2, 3, 3)), 1.0, -0.1, "must be positive"),
    ],
)
def test_senseless_questions_are_errors(offsets, size, error, said):
    with pytest.raises(SuppleError, match=said):
        fit_morphs(offsets, None, size, error)


def test_shapes_are_the_same_bits_for_any_number_of_threads_of_blas():
    random = np.random.default_rng(4)
    shapes = random.normal(size=(12, 2500, 3))
    times = np.linspace(0, 1, 90)
    weights = np.stack([np.sin(6 * (k + 1) * times) / (k + 1) for k in range(12)], axis=1)
    offsets = np.tensordot(weights, shapes, 1) + 0.01 * random.normal(size=(90, 2500, 3))
    found = []
    for threads in (1, 2, 3):
        with threadpool_limits(threads, user_api="blas"):
            found.append(fit_morphs(offsets, None, 10.0, 0.01))
    for other in found[1:]:
        assert np.array_equal(other[0], found[0][0])
        assert np.array_equal(other[1], found[0][1])
        assert other[2] == found[0][2]


def test_weights_of_zero_to_one_play_the_same_motion():
    """Blender's importer and readers of VRM clamp weights below zero."""
    rng = np.random.default_rng(7)
    shapes = rng.normal(size=(4, 20, 3)).astype(np.float32)
    weights = rng.uniform(-1, 1, (30, 4)).astype(np.float32)
    weights[:, 1] = np.abs(weights[:, 1])
    played, unit = unit_weights(shapes, weights)
    assert (unit.min(), unit.max()) == (0, 1)
    assert len(played) == 5
    one, two = (np.tensordot(w, s, axes=1) for w, s in ((weights, shapes), (unit, played)))
    np.testing.assert_allclose(two, one, atol=2e-6)
    assert unit_weights(shapes, np.abs(weights))[0] is shapes
