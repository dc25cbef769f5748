"""Rigid objects: mass and inertia of every shape, where they are, and how they move."""

from __future__ import annotations

import pickle
from copy import copy, deepcopy
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from scipy.stats import qmc

from supple.dynamics.rigid_object import MassProperties, RigidObject, mass_properties
from supple.errors import SuppleError
from supple.mesh.distance_field import Solid
from supple.mesh.obstacles import Box, Capsule, Convex, Obstacle, Plane, Sphere
from supple.mesh.surface import SurfaceMesh

TURN = Rotation.from_rotvec([0.3, 0.5, 0.2]).as_matrix()
L_CORNERS = np.array([[0, 0], [1, 0], [1, 0.3], [0.4, 0.3], [0.4, 1], [0, 1]], float)


def bracket() -> SurfaceMesh:
    """An L, 0.5 deep: a surface that is not convex."""
    bottom, top = (np.column_stack([L_CORNERS, np.full(6, z)]) for z in (0.0, 0.5))
    cap = np.array([[0, 1, 2], [0, 2, 3], [0, 3, 4], [0, 4, 5]])
    k = np.arange(6)
    on = (k + 1) % 6
    sides = [np.column_stack([k, on, k + 6]), np.column_stack([on, on + 6, k + 6])]
    triangles = np.concatenate([cap[:, ::-1], cap + 6, *sides])
    return SurfaceMesh(np.concatenate([bottom, top]), triangles)


def shapes() -> list[Obstacle]:
    return [
        Sphere((0.3, -0.1, 0.2), 0.5),
        Capsule((0.1, 0.2, 0), (0.5, -0.3, 0.4), 0.2),
        Box((0.1, 0.2, 0.3), (0.2, 0.3, 0.4), TURN),
        Convex(Box((0.1, 0.2, 0.3), (0.2, 0.3, 0.4), TURN).corners()),
        Solid(bracket()),
    ]


def counted_properties(shape: Obstacle) -> MassProperties:
    """The same from evenly spread points that are inside."""
    points = -1 + 2.1 * qmc.Sobol(3, rng=0).random_base2(20)
    inside = points[shape.distances(points)[0] < 0]
    volume = 2.1**3 * len(inside) / len(points)
    return MassProperties(volume, inside.mean(axis=0), volume * np.cov(inside.T, bias=True))


@pytest.mark.parametrize("shape", shapes(), ids=lambda shape: type(shape).__name__)
def test_mass_properties_are_those_of_points_inside(shape):
    ours, theirs = mass_properties(shape), counted_properties(shape)
    assert ours.volume == pytest.approx(theirs.volume, rel=0.02)
    np.testing.assert_allclose(ours.centre, theirs.centre, atol=2e-3)
    np.testing.assert_allclose(ours.moments, theirs.moments, atol=0.02 * ours.moments.max())


def test_a_box_a_hull_and_a_solid_agree_on_mass_and_inertia():
    box = Box((0.1, 0.2, 0.3), (0.2, 0.3, 0.4), TURN)
    hull = Convex(box.corners())
    first, *others = (RigidObject(each) for each in (box, hull, Solid(hull.surface())))
    assert first.mass == pytest.approx(500 * 0.4 * 0.6 * 0.8)
    sides = np.array([0.4, 0.6, 0.8]) ** 2
    expected = TURN @ np.diag(first.mass / 12 * (sides.sum() - sides)) @ TURN.T
    np.testing.assert_allclose(first.inertia, expected, rtol=1e-12)
    for other in others:
        assert other.mass == pytest.approx(first.mass)
        np.testing.assert_allclose(other.inertia, first.inertia, atol=1e-10)
        np.testing.assert_allclose(other.centre, first.centre, atol=1e-12)


def test_balls_and_capsules_have_their_closed_forms():
    ball = RigidObject(Sphere((1, 2, 3), 0.1), mass=2.0)
    np.testing.assert_allclose(ball.inertia, 2 / 5 * 2.0 * 0.01 * np.eye(3))
    point = RigidObject(Capsule((1, 2, 3), (1, 2, 3), 0.1), mass=2.0)
    np.testing.assert_allclose(point.inertia, ball.inertia)
    long = RigidObject(Capsule((0, -500, 0), (0, 500, 0), 0.1), mass=12.0)
    assert long.inertia[0, 0] == pytest.approx(1e6, rel=1e-3)  # a rod: m l²/12
    assert long.inertia[1, 1] == pytest.approx(12 * 0.01 / 2, rel=1e-3)


def test_distances_and_velocities_are_those_of_the_world():
    place = np.eye(4)
    place[:3, :3], place[:3, 3] = TURN, [1, 2, 3]
    box = RigidObject(Box((0.1, 0, 0), (0.2, 0.3, 0.4)), place=place, spin=(0, 0, 2))
    own = np.array([[0.1, 0.5, 0.0]])
    gaps, ways = box.distances(own @ TURN.T + [1, 2, 3])
    np.testing.assert_allclose(gaps, [0.2])
    np.testing.assert_allclose(ways[0], TURN[:, 1], atol=1e-12)
    np.testing.assert_allclose(box.centre, TURN @ [0.1, 0, 0] + [1, 2, 3])
    np.testing.assert_allclose(box.velocities((box.centre + np.eye(3)[0])[None]), [[0, 2, 0]])
    box.put(np.zeros(3), np.eye(3))
    np.testing.assert_allclose(box.centre, 0, atol=1e-15)
    np.testing.assert_allclose(box.place[:3, 3], [-0.1, 0, 0])


def test_a_kinematic_object_has_the_velocity_of_its_path():
    led = RigidObject(Capsule((0, 0, 0), (0.4, 0, 0), 0.1), kinematic=True)
    goal = np.eye(4)
    goal[:3, :3] = Rotation.from_rotvec([0, 0, 0.2]).as_matrix()
    goal[:3, 3] = [0, 1, 0]
    before = led.centre
    led.moved_to(goal, 0.1)
    np.testing.assert_allclose(led.spin, [0, 0, 2], atol=1e-12)
    np.testing.assert_allclose(led.velocity, (led.centre - before) / 0.1, atol=1e-12)
    led.moved_to(goal, 0.1)
    np.testing.assert_allclose([led.velocity, led.spin], 0, atol=1e-12)


@pytest.mark.parametrize("shape", shapes(), ids=lambda shape: type(shape).__name__)
def test_samples_with_their_radii_lie_on_the_surface_and_reach_all_around(shape):
    thing = RigidObject(shape)
    points = thing.samples + thing.offset
    assert 1 <= len(points) <= 200
    gaps, _ = shape.distances(points)
    tolerance = 2 * shape.spacing if isinstance(shape, Solid) else 1e-9
    np.testing.assert_allclose(gaps, -thing.sample_radii, atol=tolerance)
    # Pressed on a plane from any side, the samples are as deep as the shape.
    for way in Rotation.random(10, rng=0).as_matrix()[:, 0]:
        deepest = (points @ way + thing.sample_radii).max()
        grid = np.random.default_rng(1).uniform(-1, 1.2, (200_000, 3))
        inside = grid[shape.distances(grid)[0] < 0]
        assert deepest >= (inside @ way).max() - 0.02


def test_a_fine_surface_is_thinned():
    around = np.random.default_rng(3).normal(size=(900, 3))
    thing = RigidObject(Convex(around / np.linalg.norm(around, axis=1)[:, None]))
    assert len(thing.samples) == 200
    apart = np.linalg.norm(thing.samples[:, None] - thing.samples, axis=2)
    assert (apart + np.eye(200)).min() > 0.1


@pytest.mark.parametrize("how", [copy, deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_move_on_their_own(how):
    first = RigidObject(Sphere((0, 0, 0), 0.1), velocity=(1, 0, 0), name="ball", kinematic=True)
    second = how(first)
    second.moved_to(np.eye(4), 0.1)
    second.put(np.ones(3), np.eye(3))
    assert first.velocity.tolist() == [1, 0, 0]
    assert first.centre.tolist() == [0, 0, 0]
    assert (second.name, second.mass, second.kinematic) == ("ball", first.mass, True)


BALL = Sphere((0, 0, 0), 0.1)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: RigidObject(Plane((0, 0, 0), (0, 1, 0))), "give it as an obstacle"),
        (lambda: RigidObject("ball"), "cannot be a str; give a Sphere"),  # type: ignore[arg-type]
        (lambda: RigidObject(RigidObject(BALL)), "cannot be a RigidObject"),
        (lambda: RigidObject(BALL, mass=0), "mass of an object is 0"),
        (lambda: RigidObject(BALL, mass=np.nan), "not finite"),
        (lambda: RigidObject(BALL, density=-5), "must be positive"),
        (
            lambda: RigidObject(BALL, place=2 * np.eye(4)),
            "place of an object is not a rigid transform",
        ),
        (lambda: RigidObject(BALL, velocity=(1, 2)), "velocity of an object: shape"),
        (lambda: RigidObject(BALL, spin=(1, 2, np.inf)), "spin of an object: not finite"),
        (lambda: RigidObject(BALL).moved_to(np.eye(4), 0.1), "kinematic=True"),
        (lambda: RigidObject(BALL, kinematic=True).moved_to(np.eye(4), 0), "must be positive"),
    ],
)
def test_invalid_objects_are_refused_in_one_line(make: Any, words: str):
    with pytest.raises(SuppleError, match=words) as error:
        make()
    assert "\n" not in str(error.value)


def test_the_old_name_of_kinematic_works_with_a_warning():
    with pytest.warns(DeprecationWarning, match="kinematic"):
        old = RigidObject(BALL, moved=True)
    assert old.kinematic
    with pytest.warns(DeprecationWarning, match="kinematic"):
        assert old.moved
