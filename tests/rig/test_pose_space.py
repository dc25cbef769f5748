"""Claims about pose weights and pose-space deformation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supple.errors import SuppleError
from supple.rig.deformers.bend import Bend
from supple.rig.deformers.chain import RigChain
from supple.rig.deformers.pose_space_deformation import PoseSpaceDeformation
from supple.rig.deformers.twist import Twist
from supple.rig.poses.example_poses import farthest_poses
from supple.rig.poses.pose_weights import PoseWeights, evaluate_weights, parameter_scales
from supple.rig.protocol import FunctionRig, Parameter

KINDS = ("normalised", "affine")


def random_poses(seed: int, count: int, width: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((count, width)) * 10 ** rng.uniform(-1, 1, width)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 9), st.integers(1, 20), st.sampled_from(KINDS))
def test_weights_are_exact_at_the_poses_and_sum_to_one_everywhere(seed, count, width, kind):
    poses = random_poses(seed, count, width)
    rng = np.random.default_rng(seed + 1)
    weights = PoseWeights(poses, rng.uniform(0.1, 10, width), kind=kind)
    tolerance = 1e-9 * max(1, np.linalg.cond(weights.distances()) / 1e4) if count > 1 else 1e-15
    for k in range(count):
        np.testing.assert_allclose(weights(poses[k]), np.eye(count)[k], atol=tolerance)
    for size in (0.5, 5, 500):
        assert weights(size * rng.standard_normal(width)).sum() == pytest.approx(1, abs=1e-9)


def test_one_pose_has_weight_one_everywhere():
    for kind in KINDS:
        weights = PoseWeights([[1.0, 2.0]], kind=kind)
        assert weights([1, 2]) == weights([-50, 3]) == 1


def test_the_normalised_weights_are_those_of_the_paper():
    poses = random_poses(3, 5, 4)
    scales = np.array([1.0, 2, 3, 4])
    p = np.array([0.3, -0.2, 0.1, 0.5])

    def distance(a, b):
        return np.linalg.norm((a - b) * scales)

    phi = np.array([[distance(a, b) for b in poses] for a in poses])
    raw = np.linalg.inv(phi) @ [distance(p, b) for b in poses]
    np.testing.assert_allclose(PoseWeights(poses, scales)(p), raw / raw.sum(), atol=1e-12)


def test_far_away_the_weights_tend_to_a_constant():
    poses = random_poses(7, 6, 3)
    rng = np.random.default_rng(0)
    for kind in KINDS:
        weights = PoseWeights(poses, kind=kind)
        limits = []
        for direction in rng.standard_normal((4, 3)):
            near, far, farther = (weights(r * direction) for r in (1e2, 1e6, 1e8))
            np.testing.assert_allclose(far, farther, atol=1e-4)
            assert np.abs(near - farther).max() > np.abs(far - farther).max()
            limits.append(farther)
        spread = np.ptp(limits, axis=0).max()
        # One constant for all directions, or one for each.
        assert spread < 1e-5 if kind == "normalised" else spread > 1e-2


def test_on_a_line_both_kinds_interpolate_linearly_and_differ_beyond():
    poses = np.radians([[-135.0], [0.0], [135.0]])
    plain, affine = PoseWeights(poses), PoseWeights(poses, kind="affine")
    for part in (0.1, 0.5, 0.9):
        wanted = [0, 1 - part, part]
        np.testing.assert_allclose(plain(part * poses[2]), wanted, atol=1e-14)
        np.testing.assert_allclose(affine(part * poses[2]), wanted, atol=1e-14)
    np.testing.assert_allclose(affine(3 * poses[2]), [0, 0, 1], atol=1e-14)
    assert plain(3 * poses[2])[2] < 0.7


def test_the_sum_that_normalises_stays_far_from_zero():
    """The smallest, at the middle of a regular simplex, is √(m / 2(m − 1)): no pole anywhere."""
    for count in (3, 6, 12):
        weights = PoseWeights(np.eye(count))
        middle = np.full(count, 1 / count)
        raw = weights.matrix @ np.linalg.norm(weights.scaled_poses - middle, axis=1)
        assert raw.sum() == pytest.approx(np.sqrt(count / (2 * (count - 1))))
    rng = np.random.default_rng(0)
    for trial in range(150):
        count, width = int(rng.integers(2, 10)), int(rng.integers(1, 8))
        weights = PoseWeights(random_poses(trial, count, width))
        mixed = rng.dirichlet(np.ones(count), 20) @ weights.poses
        places = np.vstack([mixed, 3 * rng.standard_normal((20, width))])
        distances = np.linalg.norm(places[:, None] - weights.poses, axis=2)
        assert (distances @ weights.matrix.T).sum(axis=1).min() > 0.7


def test_weights_change_continuously_between_poses():
    weights = PoseWeights(random_poses(11, 5, 3))
    path = np.linspace([-3, -3, -3], [3, 3, 3], 4001)
    values = np.array([weights(p) for p in path])
    assert np.abs(np.diff(values, axis=0)).max() < 0.05


def test_equal_poses_are_an_error_that_names_them():
    poses = np.array([[0, 0], [1, 1], [0, 0]])
    with pytest.raises(SuppleError, match='"rest" and "again" are the same'):
        PoseWeights(poses, names=["rest", "other", "again"])
    with pytest.raises(SuppleError, match='"0" and "1" are the same'):
        PoseWeights([[1.0], [1.0]], kind="affine")


def test_bad_input_is_named():
    with pytest.raises(SuppleError, match=r"expected \(poses, parameters\)"):
        PoseWeights([1.0, 2.0])
    with pytest.raises(SuppleError, match="not finite at row 1"):
        PoseWeights([[1.0], [np.nan]])
    with pytest.raises(SuppleError, match="scale 0 must be positive"):
        PoseWeights([[1.0], [2.0]], [0])
    with pytest.raises(SuppleError, match="2 names for 1"):
        PoseWeights([[1.0]], names=["a", "b"])
    with pytest.raises(SuppleError, match='kind "cubic"'):
        PoseWeights([[1.0]], kind="cubic")


def test_compiled_loops_can_evaluate_the_weights():
    weights = PoseWeights(random_poses(2, 4, 3), kind="affine")
    out, work, p = np.empty(4), np.empty(4), np.array([0.1, 0.2, 0.3])
    arrays = (weights.scales, weights.scaled_poses, weights.matrix, weights.constant)
    evaluate_weights(p, *arrays, weights.normalise, work, out)
    np.testing.assert_array_equal(out, weights(p))


def make_rig(n: int = 60) -> RigChain:
    points = np.random.default_rng(0).uniform(-1, 1, (n, 3))
    return RigChain(Twist(points), Bend(points))


def test_scales_are_how_far_the_surface_moves():
    rest = np.random.default_rng(1).standard_normal((50, 3))

    def move(pose):
        return rest + pose[0] * np.array([3.0, 4, 0]) + pose[1] * rest

    names = [Parameter("slide", "m", 0), Parameter("grow", "1", 0), Parameter("idle", "1", 0)]
    rig = FunctionRig(move, names, 50)
    grown = np.sqrt((rest**2).sum() / 50)
    np.testing.assert_allclose(parameter_scales(rig), [5, grown, 0.005], rtol=1e-9)
    first = np.zeros(50)
    first[7] = 2.0
    np.testing.assert_allclose(
        parameter_scales(rig, masses=first)[1], np.linalg.norm(rest[7]), rtol=1e-9
    )
    still = FunctionRig(lambda pose: rest, names, 50)
    np.testing.assert_array_equal(parameter_scales(still), 1)


def test_corrections_are_exact_at_their_poses_and_blend_between():
    base = make_rig()
    rng = np.random.default_rng(2)
    poses = np.vstack([base.rest_pose, rng.standard_normal((3, 3))])
    corrections = rng.standard_normal((4, 60, 3))
    corrections[0] = 0
    rig = PoseSpaceDeformation(base, poses, corrections)
    for pose, correction in zip(poses, corrections, strict=True):
        np.testing.assert_allclose(rig(pose), base(pose) + correction, atol=1e-12)
    between = poses.mean(axis=0)
    weights = rig.weights(between)
    wanted = base(between) + np.tensordot(weights, corrections, 1)
    np.testing.assert_allclose(rig(between), wanted, atol=1e-12)
    subset = [5, 59, 0, 5]
    assert np.array_equal(rig(between, subset), rig(between)[subset])
    chained = RigChain(rig, Twist(base.rest_points))
    pose = np.concatenate([between, [0.1, 0.2]])
    assert np.array_equal(chained(pose, subset), chained(pose)[subset])
    np.testing.assert_array_equal(rig.pose_weights.scales, parameter_scales(base))


def test_corrections_that_do_not_fit_are_named():
    base = make_rig()
    with pytest.raises(SuppleError, match="pose corrections: shape"):
        PoseSpaceDeformation(base, [[0.0, 0, 0]], np.zeros((1, 59, 3)))
    with pytest.raises(SuppleError, match="poses have 2 numbers; the rig has 3"):
        PoseSpaceDeformation(base, [[0.0, 0]], np.zeros((1, 60, 3)), np.ones(2))
    with pytest.raises(SuppleError, match='"a" and "b" are the same'):
        PoseSpaceDeformation(base, np.zeros((2, 3)), np.zeros((2, 60, 3)), names=["a", "b"])
    made = PoseWeights(np.eye(3))
    with pytest.raises(SuppleError, match="for other poses"):
        PoseSpaceDeformation(base, 2 * np.eye(3), np.zeros((3, 60, 3)), made)
    box = FunctionRig(lambda pose: np.zeros((1, 3)), [Parameter("a", "1", 0)], 1)
    corrected = PoseSpaceDeformation(box, [[0.0]], np.zeros((1, 1, 3)))
    with pytest.raises(SuppleError, match="the corrected rig, a FunctionRig, cannot move"):
        corrected.deform([[0, 0, 0]], [0.0])


def test_corrections_and_example_poses_are_kept():
    base = FunctionRig(lambda pose: np.zeros((2, 3)), [Parameter("a", "1")], 2)
    poses, corrections, scales = np.array([[0.0], [1.0]]), np.ones((2, 2, 3)), np.ones(1)
    rig = PoseSpaceDeformation(base, poses, corrections, scales)
    before = rig([0.3])
    poses[:], corrections[:], scales[:] = 9, 9, 9
    np.testing.assert_array_equal(rig([0.3]), before)
    np.testing.assert_array_equal(rig.poses, [[0.0], [1.0]])


@pytest.mark.parametrize("kind", ["normalised", "affine"])
def test_huge_poses_never_give_weights_that_are_no_numbers(kind):
    for poses, scales in (
        ([[0.0], [1e200]], None),
        ([[1e300]], None),
        ([[0.0], [1.0]], [1e200]),
        ([[0.0], [1.0, 2.0]], None),
    ):
        with pytest.raises(SuppleError, match=r"too large|must be numbers"):
            PoseWeights(poses, scales, kind=kind)
    weights = PoseWeights([[0.0], [1.0], [3.0]], kind=kind)
    assert abs(weights([1e9]).sum() - 1) < 1e-5
    with pytest.raises(SuppleError, match="entry 0 is 1e\\+200"):
        weights([1e200])


def test_no_poses_to_choose_from_gives_none():
    rig = make_rig()
    assert farthest_poses(rig, np.empty((0, len(rig.parameters))), 2).shape == (0,)
    for poses, count in (([[1.0], [1.0, 2.0]], 2), (rig.rest_pose[None], 1.5)):
        with pytest.raises(SuppleError):
            farthest_poses(rig, poses, count)  # type: ignore[arg-type]
