"""Claims about friction of the skin on things that stand or move, and about solids of all kinds."""

from __future__ import annotations

import pickle
import sys
from copy import deepcopy
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from helpers.build_samples import WIDTH, bar_options, bending_bar
from supple import Crowd, PoseSpaceModel, build
from supple.dynamics.friction import STICKING
from supple.dynamics.rigid_object import RigidObject
from supple.engines.pose_space.simulator import PoseSpaceSimulator
from supple.errors import SuppleError
from supple.mesh.distance_field import Solid
from supple.mesh.obstacles import Box, Convex, Obstacle, Plane

CELLS = (12, 3, 3)
TOP = -0.02


@cache
def bar() -> PoseSpaceModel:
    """A metre along x, held at x = 0."""
    changed = {"modes": 16, "elastic_cubature": 40}
    return build(bending_bar(cells=CELLS), **bar_options(CELLS, **changed))


def table() -> RigidObject:
    """A large box with its top at `TOP`, which is led."""
    return RigidObject(Box((0, TOP - 1, 0), (3, 1, 3)), kinematic=True)


def lying(*obstacles: Obstacle, **options: Any) -> PoseSpaceSimulator:
    """A bar that has sagged onto obstacles."""
    simulator = PoseSpaceSimulator(bar(), gravity_mode="absolute", obstacles=obstacles, **options)
    for _ in range(150):
        simulator.step()
    return simulator


def pulled(simulator: PoseSpaceSimulator, base: RigidObject, speed: float, steps: int):
    """Lead the base along z; contact forces (steps, 3) on the bar."""
    place, forces = base.place.copy(), []
    for _ in range(steps):
        place[2, 3] += speed * simulator.dt
        base.moved_to(place, simulator.dt)
        forces.append(simulator.step().readings["contact_force"])
    return np.array(forces)


def sideways(forces: np.ndarray) -> np.ndarray:
    """Force along the table over the force on it."""
    return np.linalg.norm(forces[:, [0, 2]], axis=1) / forces[:, 1]


@pytest.mark.parametrize("integrator", ["backward-euler", "bdf2"])
def test_a_table_that_slides_away_drags_by_mu_times_the_load_and_no_more(integrator):
    mu, base = 0.03, table()
    simulator = lying(base, friction=mu, integrator=integrator, alpha=5.0)
    load = simulator.step().readings["contact_force"][1]
    ratios = sideways(forces := pulled(simulator, base, 0.3, 100))
    assert ratios.max() < 1.05 * mu  # loads are those of the step before
    assert ratios[-20:].mean() == pytest.approx(mu, rel=0.02)
    assert forces[-1, 2] > 0  # along with the table
    assert forces[-1, 1] == pytest.approx(load, rel=0.05)


def test_skin_that_is_pulled_by_less_stays_where_the_table_takes_it():
    base = table()
    simulator = lying(base, friction=0.8)
    before, place = simulator.surface(), base.place[2, 3]
    pressed = np.flatnonzero(before[:, 1] < TOP)
    ratios = sideways(pulled(simulator, base, 0.05, 45))
    assert ratios.max() < 0.5
    went = (simulator.surface() - before)[pressed, 2]
    way = base.place[2, 3] - place
    assert (np.abs(went - way) < 0.5 * STICKING).all()  # seconds at the speed of creeping
    assert np.median(went) > 0.8 * way


def test_friction_is_forces_of_its_cone_on_the_skin():
    mu, base = 0.2, table()
    sliding = lying(base, friction=mu)
    pulled(sliding, base, 1.0, 5)
    loads = sliding._state.contact.loads[0]
    forces = {int(v): (0.0, 0.0, mu * float(loads[v])) for v in np.flatnonzero(loads)}
    pushed, free = deepcopy(sliding), deepcopy(sliding)
    pushed.friction = free.friction = 0.0
    sliding.step()
    pushed.step(forces=forces)
    free.step()
    felt = sliding.q - free.q
    assert np.linalg.norm(felt - (pushed.q - free.q)) < 0.05 * np.linalg.norm(felt)


def test_the_force_of_a_table_that_stands_carries_what_the_hold_does_not():
    """Without friction the force is the table's push: it is the same for any coefficient."""
    forces = [lying(table(), friction=mu).step().readings["contact_force"] for mu in (0.0, 0.5)]
    assert forces[0][0] == forces[0][2] == 0.0
    assert forces[1][1] == pytest.approx(forces[0][1], rel=0.03)
    weight = 9.81 * float(bar().mesh.volumes().sum() * np.mean(bar().density))
    assert 0.2 * weight < forces[0][1] < weight


def test_without_friction_no_bit_changes():
    ground = Plane((0, TOP, 0), (0, 1, 0))
    plain, told, back = lying(ground), lying(ground, friction=0.0), lying(ground)
    np.testing.assert_array_equal(plain.surface(), told.surface())
    back.friction = 0.5
    back.friction = 0.0
    for simulator in (plain, told, back):
        simulator.step()
    np.testing.assert_array_equal(plain.surface(), told.surface())
    np.testing.assert_array_equal(plain.surface(), back.surface())


def test_skin_rests_calmly_with_much_friction():
    simulator = lying(Plane((0, TOP, 0), (0, 1, 0)), friction=1.0)
    for _ in range(200):
        simulator.step()
    before = simulator.surface()
    state = simulator.step()
    assert state.limits == ()
    assert np.abs(simulator.surface() - before).max() / simulator.dt < 0.02


@pytest.mark.parametrize(
    "make",
    [
        lambda: Box((0.5, TOP - 0.5, 0.1), (1, 0.5, 1)),
        lambda: Convex(Box((0.5, TOP - 0.5, 0.1), (1, 0.5, 1)).corners()),
        lambda: RigidObject(Convex(Box((0, -0.5, 0), (1, 0.5, 1)).corners()), place=_lowered()),
    ],
    ids=["box", "convex", "object"],
)
def test_a_flat_top_of_any_kind_holds_as_a_plane_does(make):
    on_plane, on_solid = lying(Plane((0, TOP, 0), (0, 1, 0))), lying(make())
    assert on_solid.step().contacts == on_plane.step().contacts > 0
    np.testing.assert_allclose(on_solid.surface(), on_plane.surface(), atol=1e-6)


def _lowered() -> np.ndarray:
    place = np.eye(4)
    place[:3, :3] = Rotation.from_rotvec([0, 0.7, 0]).as_matrix()
    place[:3, 3] = 0.5, TOP, 0.1
    return place


class BlackBox:
    """Any solid, but known by its distances only."""

    def __init__(self, solid: Obstacle) -> None:
        self.solid = solid

    def distances(self, points):
        return self.solid.distances(points)


def test_compiled_solids_act_as_those_in_python():
    around = np.random.default_rng(3).normal(size=(300, 3))
    around = 0.22 * around / np.linalg.norm(around, axis=1)[:, None]
    hull = Convex(around + np.array([0.7, -0.23, WIDTH / 2]))
    for solid in (hull, Solid(hull.surface())):
        ours, asked = (
            PoseSpaceSimulator(bar(), gravity_mode="absolute", obstacles=[each])
            for each in (solid, BlackBox(solid))
        )
        contact = ours._stepper._contact
        assert contact is not None
        assert contact.shapes.others == ()
        for _ in range(25):
            states = ours.step(), asked.step()
        assert states[0].contacts == states[1].contacts > 0
        np.testing.assert_allclose(ours.surface(), asked.surface(), atol=5e-4)


def test_the_shape_of_an_object_may_stay_without_it():
    thing = RigidObject(Box((0, TOP - 1, 0), (3, 1, 3)), place=_lowered())
    simulator = lying(thing)
    assert simulator.surface()[:, 1].min() == pytest.approx(2 * TOP, abs=1e-3)
    simulator.obstacles = [thing.shape]
    for _ in range(150):
        simulator.step()
    assert simulator.surface()[:, 1].min() == pytest.approx(TOP, abs=1e-3)


def test_an_object_may_be_moved_and_set_again_between_steps():
    base, other = table(), table()
    one, two = lying(base, friction=0.5), lying(other, friction=0.5)
    for simulator, thing in ((one, base), (two, other)):
        place = thing.place.copy()
        for _ in range(20):
            place[2, 3] += 0.001
            thing.moved_to(place, simulator.dt)
            if simulator is two:
                simulator.obstacles = [thing]
            simulator.step()
    np.testing.assert_array_equal(one.surface(), two.surface())


@pytest.mark.parametrize("how", [deepcopy, lambda it: pickle.loads(pickle.dumps(it))])
def test_a_copy_goes_on_to_the_bit(how):
    simulator = lying(table(), friction=0.5)
    twin = how(simulator)
    for each in (simulator, twin):
        (base,) = each.obstacles
        assert isinstance(base, RigidObject)
        pulled(each, base, 0.2, 20)
    np.testing.assert_array_equal(simulator.surface(), twin.surface())


def test_a_crowd_has_friction():
    base = table()
    crowd = Crowd(bar(), 2, gravity_mode="absolute", obstacles=(base,), friction=0.5, threads=1)
    alone = PoseSpaceSimulator(bar(), gravity_mode="absolute", obstacles=[base], friction=0.5)
    for _ in range(30):
        crowd.step()
        alone.step()
    np.testing.assert_array_equal(crowd.surfaces()[1], alone.surface())


def test_steps_with_friction_take_no_memory():
    base = table()
    simulator = lying(base, friction=0.5)
    pulled(simulator, base, 0.1, 5)
    for _ in range(20):
        simulator.step()
    before = sys.getallocatedblocks()
    for _ in range(100):
        simulator.step()
    assert sys.getallocatedblocks() - before < 50


@pytest.mark.parametrize("value", [-1, np.nan, 100, "rough"])
def test_invalid_friction_is_refused(value):
    with pytest.raises(SuppleError, match="friction"):
        PoseSpaceSimulator(bar(), friction=value)
