"""Claims about bend, twist, wire, lattice, and rigs one after another."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.interpolate import BSpline

from helpers.own_deformer import Shear
from supple.errors import SuppleError
from supple.rig.deformers.bend import Bend
from supple.rig.deformers.blend_shapes import BlendShapeRig
from supple.rig.deformers.chain import RigChain
from supple.rig.deformers.free_form import Lattice
from supple.rig.deformers.twist import Twist
from supple.rig.deformers.wire import Wire
from supple.rig.protocol import Deformer, FunctionRig, Parameter
from supple.rig.skeleton.joint_pose import JointPose
from supple.rig.skeleton.joints import Skeleton
from supple.rig.skeleton.skinning import SkinnedRig


@pytest.fixture
def cloud() -> np.ndarray:
    return np.random.default_rng(0).uniform(-1, 1, (200, 3))


def all_deformers(points: np.ndarray) -> list:
    curve = np.array([[-1, 0, 0], [-0.5, 0.2, 0], [0, 0, 0.1], [0.5, 0, 0], [1, 0, 0]])
    return [
        Bend(points, [0, -0.2, 0], [1, 2, 0], [0, 0, 1], low=-0.3, high=0.7),
        Twist(points, [0.1, 0, 0], [0, 1, 1], low=-0.5, high=0.5),
        Wire(points, curve, 0.8),
        Lattice(points, (3, 2, 4)),
    ]


def random_pose(rig, seed: int = 1) -> np.ndarray:
    return 0.6 * np.random.default_rng(seed).standard_normal(len(rig.parameters))


def test_at_rest_nothing_moves(cloud):
    for rig in all_deformers(cloud):
        assert isinstance(rig, Deformer)
        np.testing.assert_allclose(rig(rig.rest_pose), cloud, atol=1e-15)


def test_a_subset_has_the_bits_of_the_whole(cloud):
    subset = np.random.default_rng(2).integers(0, 200, 33)
    for rig in all_deformers(cloud):
        pose = random_pose(rig)
        whole = rig(pose)
        assert np.array_equal(rig(pose, subset), whole[subset])
        assert np.array_equal(rig.deform(cloud[subset], pose, subset), whole[subset])
        assert np.array_equal(pickle.loads(pickle.dumps(rig))(pose), whole)
        assert rig(pose, []).shape == (0, 3)


def test_positions_change_smoothly_with_every_parameter(cloud):
    """Central differences of two step sizes agree: no kink at or away from the rest pose."""
    for rig in all_deformers(cloud):
        for pose in (rig.rest_pose, random_pose(rig)):
            for k in range(0, len(pose), 5):
                step = np.eye(len(pose))[k]
                slopes = [
                    (rig(pose + h * step) - rig(pose - h * step)) / (2 * h) for h in (1e-4, 1e-5)
                ]
                np.testing.assert_allclose(slopes[0], slopes[1], atol=1e-5)


@pytest.mark.parametrize("angle", [-2.4, -1e-6, 1e-9, 0.3, 3.0])
def test_a_bent_axis_keeps_its_length_and_has_constant_curvature(angle):
    line = np.stack([np.zeros(401), np.linspace(-1, 1, 401), np.zeros(401)], axis=1)
    rig = Bend(line, low=-0.5, high=0.5)
    bent = rig([angle])
    pieces = np.diff(bent, axis=0)
    chord = 0.005 * np.sinc(angle * 0.005 / 2 / np.pi)
    middle = slice(100, 300)
    np.testing.assert_allclose(np.linalg.norm(pieces[middle], axis=1), chord, rtol=1e-10)
    turned = np.arctan2(pieces[:, 0], pieces[:, 1])
    np.testing.assert_allclose(np.diff(turned)[100:299], angle * 0.005, atol=1e-10)
    # Outside, straight on; the origin stays.
    np.testing.assert_allclose(turned[:100], -angle / 2, atol=1e-9)
    np.testing.assert_allclose(turned[300:], angle / 2, atol=1e-9)
    np.testing.assert_allclose(bent[200], 0, atol=1e-15)


def test_beyond_its_bounds_a_bend_moves_rigidly(cloud):
    rig = Bend(cloud, low=-0.1, high=0.1)
    above = cloud[:, 1] > 0.1
    before, after = cloud[above], rig([1.2])[above]
    gram = (before - before[0]) @ (before - before[0]).T
    np.testing.assert_allclose((after - after[0]) @ (after - after[0]).T, gram, atol=1e-12)


def test_a_bend_whose_range_is_off_the_origin_holds_the_nearer_side(cloud):
    rig = Bend(cloud, low=0.2, high=0.6)
    below = cloud[:, 1] < 0.2
    np.testing.assert_allclose(rig([1.0])[below], cloud[below], atol=1e-15)


def test_twist_keeps_height_and_radius_and_turns_evenly(cloud):
    rig = Twist(cloud, low=-0.5, high=0.5)
    turned = rig([-0.4, 1.1])
    np.testing.assert_allclose(turned[:, 1], cloud[:, 1], atol=1e-15)
    planes = [points[:, 2] + 1j * points[:, 0] for points in (cloud, turned)]
    part = np.clip(cloud[:, 1] + 0.5, 0, 1)
    np.testing.assert_allclose(planes[1], planes[0] * np.exp(1j * (-0.4 + 1.5 * part)), atol=1e-14)


def test_points_on_a_wire_stay_on_it():
    rng = np.random.default_rng(0)
    control = np.cumsum(rng.uniform(0.2, 0.4, (7, 3)), axis=0)
    knots = np.concatenate([[0] * 3, np.linspace(0, 1, 5), [1] * 3])
    where = rng.uniform(0, 1, 50)
    rig = Wire(BSpline(knots, control, 3)(where), control, 0.5)
    offsets = 0.3 * rng.standard_normal((7, 3))
    np.testing.assert_allclose(rig.influence, 1, atol=1e-9)
    moved = BSpline(knots, control + offsets, 3)(where)
    np.testing.assert_allclose(rig(offsets.reshape(-1)), moved, atol=1e-6)


def test_the_stored_place_on_the_wire_is_the_nearest_one(cloud):
    rig = all_deformers(cloud)[2]
    knots = np.concatenate([[0] * 3, np.linspace(0, 1, 3), [1] * 3])
    dense = BSpline(knots, rig.control_points, 3)(np.linspace(0, 1, 20001))
    nearest = np.array([np.linalg.norm(dense - point, axis=1).min() for point in cloud])
    influence = np.maximum(1 - (nearest / 0.8) ** 2, 0) ** 2
    np.testing.assert_allclose(rig.influence, influence, atol=1e-6)
    assert (rig.influence == 0).any()
    far = rig.influence == 0
    assert np.array_equal(rig(random_pose(rig))[far], cloud[far])


def test_a_wire_moved_and_turned_as_a_whole_carries_its_points_rigidly():
    rng = np.random.default_rng(3)
    control = np.stack([np.linspace(0, 1, 6), np.zeros(6), np.zeros(6)], axis=1)
    points = rng.uniform([0.1, -0.2, -0.2], [0.9, 0.2, 0.2], (40, 3))
    rig = Wire(points, control)
    np.testing.assert_allclose(rig.influence, 1)
    c, s = np.cos(1.1), np.sin(1.1)
    turn = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
    offsets = control @ turn.T + [1, 2, 3] - control
    np.testing.assert_allclose(rig(offsets.reshape(-1)), points @ turn.T + [1, 2, 3], atol=1e-7)
    still = Wire(points, control, turning=0.0)
    slide = np.tile([0.1, 0.2, 0.3], 6)
    np.testing.assert_allclose(still(slide), points + slide[:3], atol=1e-14)


def test_a_wire_drawn_to_a_point_or_turned_back_stays_finite(cloud):
    rig = all_deformers(cloud)[2]
    for target in (np.zeros((5, 3)), rig.control_points[::-1]):
        assert np.isfinite(rig((target - rig.control_points).reshape(-1))).all()


def test_a_lattice_moved_affinely_moves_its_points_affinely(cloud):
    rig = Lattice(cloud, (3, 4, 2), low=(-1, -1, -1), high=(1, 1, 1))
    grid = np.stack(
        np.meshgrid(*(np.linspace(-1, 1, n) for n in (3, 4, 2)), indexing="ij"), axis=-1
    ).reshape(-1, 3)
    matrix = np.random.default_rng(5).standard_normal((3, 3))
    offsets = grid @ matrix.T + [1, 2, 3] - grid
    np.testing.assert_allclose(rig(offsets.reshape(-1)), cloud @ matrix.T + [1, 2, 3], atol=1e-13)


def test_a_lattice_weighs_by_bernstein_polynomials():
    from scipy.special import comb

    rig = Lattice([[0.3, 0.6, 0.8]], (4, 3, 2), low=(0, 0, 0), high=(1, 1, 1))
    names = [parameter.name for parameter in rig.parameters]
    pose = np.zeros(len(names))
    pose[names.index("lattice.1.2.0.ty")] = 1.0
    weight = comb(3, 1) * 0.3 * 0.7**2 * 0.6**2 * 0.2
    np.testing.assert_allclose(rig(pose), [[0.3, 0.6 + weight, 0.8]], atol=1e-15)


def test_points_outside_a_lattice_follow_its_boundary():
    points = [[1.0, 0.5, 0.5], [3.0, 0.5, 0.5]]
    rig = Lattice(points, (2, 2, 2), low=(0, 0, 0), high=(1, 1, 1))
    moved = rig(random_pose(rig)) - points
    np.testing.assert_allclose(moved[0], moved[1], atol=1e-15)


def skinned(points: np.ndarray) -> SkinnedRig:
    skeleton = Skeleton(["a", "b"], [-1, 0], [[0, -1, 0], [0, 1, 0]])
    weights = np.stack([0.5 - 0.5 * points[:, 1], 0.5 + 0.5 * points[:, 1]], axis=1)
    both = np.tile([0, 1], (len(points), 1))
    return SkinnedRig(
        JointPose(skeleton), points, both, weights, np.linalg.inv(skeleton.rest_world())
    )


def test_a_chain_feeds_each_rig_what_the_one_before_placed(cloud):
    parts = [*all_deformers(cloud), skinned(cloud)]
    chain = RigChain(*parts)
    pose = random_pose(chain)
    points, begin = cloud, 0
    for part in parts:
        end = begin + len(part.parameters)
        points = part.deform(points, pose[begin:end])
        begin = end
    assert np.array_equal(chain(pose), points)
    subset = np.random.default_rng(9).integers(0, 200, 21)
    assert np.array_equal(chain(pose, subset), points[subset])
    assert np.array_equal(chain.deform(cloud[subset], pose, subset), points[subset])
    np.testing.assert_allclose(chain(chain.rest_pose), cloud, atol=1e-14)


def test_chains_nest_under_blend_shapes(cloud):
    chain = RigChain(Twist(cloud), skinned(cloud))
    shaped = BlendShapeRig(chain, np.ones((1, 200, 3)), ["grow"])
    pose = random_pose(shaped)
    np.testing.assert_array_equal(shaped(pose), chain.deform(cloud + pose[-1], pose[:-1]))
    assert np.array_equal(shaped(pose, [7, 3]), shaped(pose)[[7, 3]])


def test_names_in_a_chain_are_unique(cloud):
    chain = RigChain(Bend(cloud), Bend(cloud), Bend(cloud, name="tail"))
    names = [parameter.name for parameter in chain.parameters]
    assert names == ["bend.angle", "bend.angle_2", "tail.angle"]


def test_a_black_box_can_begin_a_chain_but_not_follow(cloud):
    box = FunctionRig(lambda pose: cloud + pose[0], [Parameter("a", "m", 0)], 200)
    chain = RigChain(box, Twist(cloud))
    np.testing.assert_allclose(chain([0.5, 0, 0]), cloud + 0.5, atol=1e-15)
    with pytest.raises(SuppleError, match="rig 1 of the chain, a FunctionRig, cannot move"):
        RigChain(Twist(cloud), box)
    with pytest.raises(SuppleError, match="the first rig of the chain, a FunctionRig"):
        RigChain(Twist(cloud), chain)
    with pytest.raises(SuppleError, match="has 10 vertices; the first has 200"):
        RigChain(box, Twist(cloud[:10]))
    with pytest.raises(SuppleError, match="at least one rig"):
        RigChain()


def test_bad_settings_are_named(cloud):
    with pytest.raises(SuppleError, match="direction is along the axis"):
        Bend(cloud, axis=[0, 1, 0], direction=[0, 2, 0])
    with pytest.raises(SuppleError, match="axis is zero"):
        Twist(cloud, axis=[0, 0, 0])
    with pytest.raises(SuppleError, match="bounds 1 to -1"):
        Bend(cloud, low=1, high=-1)
    with pytest.raises(SuppleError, match="dropoff 0"):
        Wire(cloud, [[0, 0, 0], [1, 0, 0]], 0)
    with pytest.raises(SuppleError, match="at least 2 control points"):
        Wire(cloud, [[0, 0, 0]])
    with pytest.raises(SuppleError, match="2 to 32 per axis"):
        Lattice(cloud, (1000, 1000, 1000))
    with pytest.raises(SuppleError, match="no extent along z"):
        Lattice(cloud * [1, 1, 0])
    with pytest.raises(SuppleError, match="rest points: empty"):
        Twist(np.empty((0, 3)))
    with pytest.raises(SuppleError, match="points: shape"):
        Twist(cloud).deform(cloud[:3], [0, 0])


def test_a_formula_that_changes_its_points_or_loses_some_is_refused(cloud, monkeypatch):
    rig = Shear(cloud)

    def in_place(self, points, pose, subset):
        points += pose[0]
        return points

    monkeypatch.setattr(Shear, "_move", in_place)
    with pytest.raises(SuppleError, match="_move of a Shear returned its argument"):
        rig([0.1])
    monkeypatch.setattr(Shear, "_move", lambda self, points, pose, subset: points[:-1])
    with pytest.raises(SuppleError, match=r"shape \(199, 3\) for points of shape \(200, 3\)"):
        rig([0.1])
    with pytest.raises(SuppleError, match="_move of a Shear returned an array of shape"):
        rig.deform(cloud[:3], [0.1], [0, 1, 2])
    monkeypatch.setattr(Shear, "_move", lambda self, points, pose, subset: points / (pose[0] - 0.1))
    with (
        np.errstate(all="ignore"),
        pytest.raises(SuppleError, match=r"_move of a Shear returned .* not finite, at .*0\.1"),
    ):
        rig([0.1])


def test_deformers_keep_what_they_were_given(cloud):
    points, origin, curve = cloud, np.zeros(3), np.array([[0.0, 0, 0], [1, 0, 0]])
    low, high, influence = np.full(3, -9.0), np.full(3, 9.0), np.ones(len(points))
    rigs = [
        Bend(points, origin),
        Twist(points, origin),
        Wire(points, curve, influence=influence),
        Lattice(points, (2, 2, 2), low=low, high=high),
    ]
    before = [rig(random_pose(rig)) for rig in rigs]
    for given in (points, origin, curve, low, high, influence):
        given[:] = 0.3
    for rig, wanted in zip(rigs, before, strict=True):
        np.testing.assert_array_equal(rig(random_pose(rig)), wanted)


def test_a_negative_influence_is_refused_and_a_long_axis_is_a_direction(cloud):
    influence = np.ones(len(cloud))
    influence[1] = -5
    with pytest.raises(SuppleError, match="influence -5"):
        Wire(cloud, [[0, 0, 0], [1, 0, 0]], influence=influence)
    with pytest.raises(SuppleError, match="influence"):
        Wire(cloud, [[0, 0, 0], [1, 0, 0]], influence=-5)
    long, short = (Bend(cloud, axis=[0, size, 0], direction=[size, 0, 0]) for size in (1e200, 1))
    np.testing.assert_array_equal(long([0.5]), short([0.5]))
