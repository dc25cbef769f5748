"""States of rig-space and soft-skeleton simulators: copies and resumed ones step alike."""

from __future__ import annotations

from copy import deepcopy
from functools import cache

import numpy as np
import pytest

import supple
from helpers.rig_space_samples import trunk, trunk_options
from helpers.soft_skeleton_samples import elbow, soft_elbow
from supple.engines.rig_space.simulator import RigSpaceSimulator
from supple.engines.soft_skeleton.simulator import SoftSkeletonSimulator
from supple.errors import SuppleError

CELLS = (8, 3, 3)


@cache
def trunk_model():
    return supple.build(trunk(CELLS), engine="rig-space", **trunk_options(CELLS))


def rig_space(**options):
    return lambda: RigSpaceSimulator(trunk_model(), **options)


def soft_skeleton():
    floor = supple.Plane((0, -0.02, 0), (0, 1, 0))
    ball = supple.RigidObject(supple.Sphere((0.7, 0.3, 0.05), 0.08), mass=1.0)
    return SoftSkeletonSimulator(soft_elbow(), obstacles=[floor], objects=[ball])


SIMULATORS = {
    "condensed": rig_space(),
    "tolerance": rig_space(tolerance=1e-3),
    "newmark": rig_space(integrator="newmark"),
    "rsp": rig_space(solver="rsp"),
    "deferred Jacobians": rig_space(solver="iv1-je2"),
    "soft-skeleton": soft_skeleton,
}


def stepped(simulator, steps):
    rest, skins = np.asarray(simulator.model.rig.rest_pose, float), []
    for k in steps:
        root = np.eye(4)
        root[1, 3] = 0.03 * np.sin(0.7 * k)
        simulator.step(rest, root)
        skins.append(simulator.surface().copy())
    return np.array(skins)


@pytest.mark.parametrize("name", SIMULATORS)
def test_a_resumed_simulator_steps_to_the_same_bits(name):
    first, second = SIMULATORS[name](), SIMULATORS[name]()
    stepped(first, range(7))
    state = first.state()
    second.resume(state)
    np.testing.assert_array_equal(second.surface(), first.surface())
    assert second.time == first.time
    expected = stepped(first, range(7, 14))
    np.testing.assert_array_equal(stepped(second, range(7, 14)), expected)
    first.resume(state)
    np.testing.assert_array_equal(stepped(first, range(7, 14)), expected)


@pytest.mark.parametrize("name", ["condensed", "soft-skeleton"])
def test_a_copied_simulator_steps_to_the_same_bits_alone(name):
    first = SIMULATORS[name]()
    stepped(first, range(5))
    second = deepcopy(first)
    assert second.model is first.model
    expected = stepped(first, range(5, 10))
    np.testing.assert_array_equal(stepped(second, range(5, 10)), expected)


def test_a_state_of_another_model_is_refused():
    with pytest.raises(SuppleError, match="state"):
        soft_skeleton().resume(SIMULATORS["condensed"]().state())


def test_a_state_with_contacts_that_do_not_fit_is_refused_and_changes_nothing():
    model = supple.build(elbow(), tets=400, modes=6, poses=1)
    floor = supple.Plane((0, -0.02, 0), (0, 1, 0))
    simulator = supple.Simulator(model, obstacles=[floor])
    stepped(simulator, range(3))
    before, arrays = simulator.surface().copy(), dict(simulator.state())
    for wrong in ({"contact.depths": np.zeros((1, 1))}, {"contact.places": np.zeros((2, 3))}):
        with pytest.raises(SuppleError, match="contact"):
            simulator.resume(arrays | {"q": arrays["q"] + 1.0} | wrong)
    del arrays["contact.depths"]
    with pytest.raises(SuppleError, match=r'no "contact\.depths"'):
        simulator.resume(arrays)
    np.testing.assert_array_equal(simulator.surface(), before)
