"""Friction of a character in rig space on things that stand or move."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import supple
from helpers.rig_space_samples import trunk, trunk_options
from supple.dynamics.rigid_object import RigidObject
from supple.engines.rig_space.model import RigSpaceModel
from supple.engines.rig_space.simulator import RigSpaceSimulator
from supple.engines.rig_space.skin_push import SkinContact
from supple.errors import SuppleError
from supple.mesh.distance_field import Solid
from supple.mesh.obstacles import Box, Convex, Obstacle

CELLS = (8, 3, 3)
TOP = 0.01


@cache
def model() -> RigSpaceModel:
    """A trunk along x, a metre long."""
    return supple.build(trunk(CELLS), engine="rig-space", **trunk_options(CELLS))


def table() -> RigidObject:
    """A large box that is led."""
    return RigidObject(Box((0, TOP - 1, 0), (3, 1, 3)), kinematic=True)


def lying(*obstacles: Obstacle, friction: float = 0.0) -> RigSpaceSimulator:
    simulator = RigSpaceSimulator(
        model(), gravity_mode="absolute", alpha=5.0, obstacles=obstacles, friction=friction
    )
    for _ in range(60):
        simulator.step()
    return simulator


def pulled(simulator: RigSpaceSimulator, base: RigidObject, speed: float, steps: int):
    """Lead the base along z; contact forces (steps, 3) on the trunk."""
    place, forces = base.place.copy(), []
    for _ in range(steps):
        place[2, 3] += speed * simulator.dt
        base.moved_to(place, simulator.dt)
        forces.append(simulator.step().readings["contact_force"])
    return np.array(forces)


def test_a_table_that_slides_away_drags_by_mu_times_the_load_and_no_more():
    mu, base = 0.1, table()
    simulator = lying(base, friction=mu)
    forces = pulled(simulator, base, 0.4, 60)
    ratios = np.linalg.norm(forces[:, [0, 2]], axis=1) / forces[:, 1]
    assert ratios.max() < 1.05 * mu
    assert ratios[-10:].mean() == pytest.approx(mu, rel=0.03)
    assert forces[-1, 2] > 0  # along with the table


def test_skin_that_is_pulled_by_less_goes_with_the_table():
    base = table()
    simulator = lying(base, friction=2.0)
    before = simulator.surface()
    tip = int(np.argmax(before[:, 0]))
    pulled(simulator, base, 0.05, 45)
    went = float(simulator.surface()[tip, 2] - before[tip, 2])
    assert went == pytest.approx(0.025, abs=0.005)  # half a second of creeping, at most
    free = lying(other := table())
    before = free.surface()
    pulled(free, other, 0.05, 45)
    assert abs(float(free.surface()[tip, 2] - before[tip, 2])) < 0.002


def test_without_friction_no_bit_changes():
    plain, told = lying(table()), lying(table(), friction=0.0)
    toggled = lying(table())
    toggled.friction = 0.5
    toggled.friction = 0.0
    for each in (plain, told, toggled):
        each.step()
        np.testing.assert_array_equal(each.surface(), plain.surface())


def test_force_and_stiffness_are_those_of_the_energy():
    rng = np.random.default_rng(0)
    rows, slip = rng.normal(size=(4, 3, 5)), 0.01 * rng.normal(size=(4, 3))
    normals = rng.normal(size=(4, 3))
    normals /= np.linalg.norm(normals, axis=1)[:, None]
    hard, depth, load = rng.random((3, 4))
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    touch = SkinContact(5, turn)
    touch.add_contact(rows, normals, hard, depth)
    touch.add_friction(rows, normals, slip, load, 0.01)
    flat = np.eye(3) - normals[:, :, None] * normals[:, None]
    way = np.einsum("vij,vj->vi", flat, slip)
    grip = load / np.maximum(np.linalg.norm(way, axis=1) / 0.01, 0.01) / 0.01

    def energy(change: np.ndarray) -> float:
        moved = np.einsum("ij,vjk,k->vi", turn, rows, change)
        pressed = depth - np.einsum("vi,vi->v", normals, moved)
        slid = way + np.einsum("vij,vj->vi", flat, moved)
        return float((hard @ pressed**2 + grip @ (slid**2).sum(axis=1)) / 2)

    change = 0.01 * rng.normal(size=5)
    found = change @ touch.matrix @ change / 2 - touch.pull @ change
    assert found == pytest.approx(energy(change) - energy(np.zeros(5)), rel=1e-9)
    moved = np.einsum("ij,vjk,k->vi", turn, rows, change)
    force = (hard * (depth - np.einsum("vi,vi->v", normals, moved))) @ normals
    force -= grip @ (way + np.einsum("vij,vj->vi", flat, moved))
    np.testing.assert_allclose(touch.readings(change)["contact_force"], force, rtol=1e-9)


def test_solids_of_all_kinds_hold_the_trunk():
    box = Box((0, TOP - 0.5, 0), (1.2, 0.5, 1.2))
    hull = Convex(box.corners())
    on_box = lying(box)
    assert on_box.step().readings["contacts"] > 3
    for other in (hull, Solid(hull.surface())):
        np.testing.assert_allclose(lying(other).surface(), lying(box).surface(), atol=1e-4)


def test_invalid_friction_is_refused():
    with pytest.raises(SuppleError, match="friction is -1"):
        RigSpaceSimulator(model(), friction=-1)
