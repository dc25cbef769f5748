"""Claims about rigid objects that flesh in a pose-space subspace carries and that press it."""

from __future__ import annotations

import pickle
from copy import deepcopy
from functools import cache
from typing import Any

import numpy as np
import pytest

import supple
from helpers.build_samples import bar_options, bending_bar
from supple import PoseSpaceModel, build
from supple.engines.common.contact.colliders import ColliderShapes
from supple.engines.common.contact.free_objects import MOST_OBJECTS, FreeObjects
from supple.engines.common.state import State
from supple.engines.pose_space.simulator import PoseSpaceSimulator
from supple.errors import SuppleError

CELLS, GRAVITY, RADIUS = (12, 3, 3), 9.81, 0.1
TABLE = supple.Plane((0, 0, 0), (0, 1, 0))


@cache
def bar() -> PoseSpaceModel:
    """A metre along x, a sixth wide, held at x = 0."""
    return build(bending_bar(cells=CELLS), **bar_options(CELLS, modes=16, elastic_cubature=40))


def at(x: float, y: float, z: float) -> np.ndarray:
    place = np.eye(4)
    place[:3, 3] = x, y, z
    return place


def on_top(mass: float, drop: float = 0.0, **options: Any) -> supple.RigidObject:
    top, middle = bar().surface.vertices[:, 1].max(), bar().surface.vertices[:, 2].mean()
    place = at(0.5, top + RADIUS + drop, middle)
    return supple.RigidObject(supple.Sphere((0, 0, 0), RADIUS), mass, place=place, **options)


def carrying(ball: supple.RigidObject, **options: Any) -> PoseSpaceSimulator:
    """A bar that lies on a table and carries a ball."""
    return PoseSpaceSimulator(bar(), obstacles=[TABLE], objects=[ball], **options)


@pytest.mark.parametrize("mass", [0.2, 2.0])
def test_the_force_on_flesh_is_the_opposite_of_that_on_the_ball_in_every_step(mass):
    ball = on_top(mass, drop=0.05)
    simulator, touching = carrying(ball, friction=0.5), 0
    for _ in range(90):
        state = simulator.step()
        gained = simulator._objects.motion._world.a[0].mean(axis=0)
        felt = mass * (gained + np.array([0, GRAVITY, 0]))
        on_flesh = state.readings["things"].get("object 0", np.zeros(3))
        np.testing.assert_allclose(felt, -on_flesh, atol=1e-9 * max(1.0, np.abs(felt).max()))
        touching += bool(on_flesh.any())
    assert touching > 20


def test_a_box_at_rest_weighs_what_it_weighs_and_a_heavy_one_dents_more():
    depths = []
    for mass in (0.3, 3.0):
        ball = supple.RigidObject(supple.Box((0, -0.05, 0), (0.1, 0.05, 0.1)), mass)
        ball.place = on_top(mass).place
        simulator = carrying(ball, friction=0.8, alpha=5.0)
        rest = simulator.surface()
        for _ in range(270):
            state = simulator.step()
        force = state.readings["things"]["object 0"]
        assert force[1] == pytest.approx(-mass * GRAVITY, rel=0.03)
        assert np.linalg.norm(ball.velocity) < 0.02
        contacts = simulator.contacts()
        on_ball = contacts.colliders == simulator.colliders.index("object 0")
        np.testing.assert_allclose(contacts.forces[on_ball].sum(axis=0), force, rtol=1e-6)
        assert simulator.pressure().max() > 0
        depths.append((rest - simulator.surface())[:, 1].max())
    assert depths[1] > 3 * depths[0] > 0


def test_a_body_that_moves_carries_the_ball_along():
    ball = on_top(0.5)
    simulator, root = carrying(ball, friction=1.0, alpha=5.0), np.eye(4)
    for _ in range(60):
        simulator.step()
    start = ball.centre
    for k in range(90):
        root[0, 3] = 0.1 * min(k / 60, 1.0) ** 2
        simulator.step(root=root)
    moved = ball.centre - start
    assert 0.05 < moved[0] < 0.15
    assert abs(moved[1]) < 0.02


def test_a_ball_leaves_when_gravity_turns_over():
    ball = on_top(0.5)
    simulator = carrying(ball)
    for _ in range(60):
        simulator.step()
    upwards = carrying(ball, gravity=(0, GRAVITY, 0), gravity_mode="absolute")
    upwards.obstacles = []
    height = ball.centre[1]
    for _ in range(45):
        state = upwards.step()
    assert state.contacts == 0
    fallen = ball.centre[1] - height
    assert fallen == pytest.approx(GRAVITY * 0.5**2 / 2, rel=0.2)


@pytest.mark.parametrize(
    ("friction", "angle"), [(0.5, 20.0), (0.5, 30.0), (0.3, 14.0), (0.3, 20.0)]
)
def test_an_object_slides_on_a_slope_steeper_than_friction(friction, angle):
    slope = np.radians(angle)
    gravity = GRAVITY * np.array([np.sin(slope), -np.cos(slope), 0])
    box = supple.RigidObject(supple.Box((0, 0, 0), (0.05,) * 3), 1.0, place=at(0, 0.05, 3.0))
    simulator, path = carrying(box, gravity=gravity, friction=friction), []
    for _ in range(180):
        simulator.step()
        path.append(box.centre[0])
    speeds = (path[-1] - path[-46]) / 0.5, (path[-46] - path[-91]) / 0.5
    pulled = GRAVITY * (np.sin(slope) - friction * np.cos(slope))
    if pulled < 0:
        assert abs(speeds[0]) < 0.01  # viscous below this speed
    else:
        assert (speeds[0] - speeds[1]) / 0.5 == pytest.approx(pulled, rel=0.05)
    assert box.centre[1] == pytest.approx(0.05, abs=0.001)


def test_objects_that_collide_keep_their_momentum():
    left, right = (
        supple.RigidObject(
            supple.Sphere((0, 0, 0), RADIUS), mass, place=at(x, 2, 0), velocity=(v, 0, 0)
        )
        for mass, x, v in ((1.0, -0.3, 2.0), (3.0, 0.3, -1.0))
    )
    simulator = PoseSpaceSimulator(bar(), objects=[left, right], gravity_mode="none", friction=0.5)
    for _ in range(60):
        simulator.step()
    assert left.velocity[0] < 0.1 < right.centre[0] - left.centre[0]
    total = left.mass * left.velocity + right.mass * right.velocity
    np.testing.assert_allclose(total, [2.0 - 3.0, 0, 0], atol=1e-9)


def test_the_substituted_system_is_that_of_flesh_and_objects_together():
    """The change of the flesh by the substituted system is that of the dense joint system."""
    random, modes = np.random.default_rng(0), 5
    ball = on_top(0.5, velocity=(0.1, 0.2, 0.3))
    objects, shapes = FreeObjects([ball], modes), ColliderShapes()
    shapes.set((), [ball])
    objects.fit(1)
    objects.begin(shapes, supple.dynamics.INTEGRATORS["bdf2"], 0.01)
    lines, rows = random.standard_normal((8, modes)), random.standard_normal((8, 6))
    pushes, flesh = random.standard_normal(8), 100 * np.eye(modes)
    objects.coupling.mixed[:], objects.coupling.force[:] = rows.T @ lines, -rows.T @ pushes
    objects.coupling.matrix[:] = np.triu(rows.T @ rows)
    stiffness, force = np.triu(lines.T @ lines), lines.T @ pushes
    gravity = np.array([0.0, -GRAVITY, 0.0])
    objects.condense(shapes, (0.5, 0.01), gravity, stiffness, force)
    whole = np.triu(stiffness) + np.triu(stiffness, 1).T + flesh
    z = np.linalg.solve(whole, force)
    objects.respond(np.asarray(z, np.float64))
    gradient, inertia = np.zeros(6), np.zeros((6, 6))
    objects.motion.add_terms(gravity, 0, gradient, inertia)
    inertia = np.triu(inertia) + np.triu(inertia, 1).T
    joint = np.block(
        [[flesh + lines.T @ lines, -lines.T @ rows], [-rows.T @ lines, inertia + rows.T @ rows]]
    )
    right = np.concatenate([lines.T @ pushes, -gradient - rows.T @ pushes])
    solution = np.linalg.solve(joint, right)
    np.testing.assert_allclose(z, solution[:modes], rtol=1e-9)
    np.testing.assert_allclose(objects.coupling.change, solution[modes:], rtol=1e-9, atol=1e-12)


def test_copies_states_and_resets_give_the_same_bits():
    ball = on_top(0.5, drop=0.01)
    simulator = carrying(ball, friction=0.5)
    for _ in range(20):
        simulator.step()
    twins = deepcopy(simulator), pickle.loads(pickle.dumps(simulator))
    state = simulator.state()
    for _ in range(20):
        simulator.step()
    for twin in twins:
        for _ in range(20):
            twin.step()
        assert np.array_equal(twin.q, simulator.q)
        assert np.array_equal(twin.objects[0].place, ball.place)
    ended, place = simulator.q, ball.place.copy()
    simulator.resume(state)
    for _ in range(20):
        simulator.step()
    assert np.array_equal(simulator.q, ended)
    assert np.array_equal(ball.place, place)
    simulator.reset()
    assert np.array_equal(ball.place, on_top(0.5, drop=0.01).place)


def stacked() -> PoseSpaceSimulator:
    """A bar with a box on it, and a second box on the first, of one name."""
    shape, boxes = supple.Box((0, -0.05, 0), (0.1, 0.05, 0.1)), []
    for k in range(2):
        boxes.append(supple.RigidObject(shape, 0.3, name="box"))
        boxes[k].place = on_top(0.3, drop=0.1 * k).place
    return PoseSpaceSimulator(bar(), obstacles=[TABLE], objects=boxes, friction=0.6, alpha=5.0)


def test_copies_of_stacked_objects_continue_with_the_same_bits():
    simulator = stacked()
    for _ in range(30):
        simulator.step()
    assert simulator._objects._loads.any()
    twins = deepcopy(simulator), pickle.loads(pickle.dumps(simulator))
    for _ in range(10):
        simulator.step()
    for twin in twins:
        for _ in range(10):
            twin.step()
        assert np.array_equal(twin.q, simulator.q)
        assert np.array_equal(twin.objects[1].place, simulator.objects[1].place)


def test_a_state_of_other_colliders_leaves_the_arrays_of_these():
    simulator = stacked()
    for _ in range(5):
        simulator.step()
    state = simulator.state()
    simulator.resume(State(dict(state) | {"objects.loads": np.zeros((1, 1))}))
    assert simulator._objects._loads.shape[1] == 3
    simulator.step()
    assert np.isfinite(simulator.q).all()


def test_objects_of_one_name_have_forces_of_their_own():
    simulator = PoseSpaceSimulator(bar(), objects=[on_top(0.3, name="ball") for _ in range(2)])
    simulator.objects[1].place = at(0.8, simulator.objects[1].place[1, 3], on_top(0.3).place[2, 3])
    for _ in range(40):
        state = simulator.step()
    things = state.readings["things"]
    assert set(things) == {"ball 0", "ball 1"}
    np.testing.assert_allclose(sum(things.values()), state.readings["contact_force"])


def test_contacts_are_those_of_the_last_step_alone():
    simulator = carrying(on_top(0.5))
    for _ in range(30):
        simulator.step()
    assert len(simulator.contacts().points)
    simulator.objects = []
    assert not (simulator.contacts().colliders > 0).any()
    simulator.reset()
    assert not len(simulator.contacts().points)


def test_an_object_that_is_far_away_changes_no_bit_of_the_flesh():
    far = supple.RigidObject(supple.Sphere((0, 0, 0), 0.1), 1.0, place=at(50, 50, 50))
    alone, other = PoseSpaceSimulator(bar()), PoseSpaceSimulator(bar(), objects=[far])
    for k in range(20):
        for each in (alone, other):
            each.step(np.radians([k]))
    assert np.array_equal(alone.q, other.q)
    assert far.centre[1] < 50


def test_bad_objects_are_refused_in_one_line_and_the_old_ones_stay():
    ball = on_top(1.0)
    simulator = carrying(ball)
    many = [ball.copy() for _ in range(500)]
    for objects, words in (
        (5, "list"),
        (ball, "list"),
        (["ball"], "object 0"),
        ([ball, ball], "listed twice"),
        (many, f"there are 500 objects; give at most {MOST_OBJECTS}"),
    ):
        with pytest.raises(SuppleError, match=words) as error:
            simulator.objects = objects  # type: ignore[assignment]
        assert "\n" not in str(error.value)
    assert simulator.objects == (ball,)


@pytest.mark.parametrize(
    ("mass", "place", "velocity"),
    [
        (1.0, at(0.5, 0.08, 0.08), (0, 0, 0)),  # inside the flesh
        (1e4, at(0.5, 0.3, 0.08), (0, 0, 0)),
        (1e-4, at(0.5, 0.3, 0.08), (0, -5, 0)),
        (1.0, at(0.5, 5.0, 0.08), (0, -100, 0)),
    ],
    ids=["overlapping", "heavy", "light", "at 100 m/s"],
)
def test_violent_objects_stay_within_the_limits_and_flesh_calms_down(mass, place, velocity):
    ball = supple.RigidObject(
        supple.Sphere((0, 0, 0), RADIUS), mass, place=place, velocity=velocity
    )
    simulator = carrying(ball, friction=0.5, alpha=5.0)
    for _ in range(120):
        simulator.step()
        assert np.isfinite(simulator.q).all()
        assert np.linalg.norm(ball.velocity) < 110
        off = np.abs(simulator.surface() - bar().surface.vertices)
        assert off.max() < 2 * 0.25 * simulator.runtime.size  # the displacement limit
    if velocity[1] < -50:
        return  # flesh this soft does not come back
    simulator.objects, simulator.friction = [], 0.0
    rest = PoseSpaceSimulator(bar(), obstacles=[TABLE])
    for _ in range(600):
        simulator.step()
        rest.step()
    assert np.abs(simulator.surface() - rest.surface()).max() < 0.01
