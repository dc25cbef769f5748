"""The base of simulators: restored states, copies, and the old name of teleport."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import supple
from helpers.build_samples import stepped_model
from supple.engines.common.simulator import CharacterSimulator
from supple.engines.common.state import State
from supple.errors import SuppleError
from supple.mesh.obstacles import Plane

ENGINES = ["pose-space", "full"]
GROUND = Plane((0, -0.02, 0), (0, 1, 0))


def begun(engine: str, steps: int = 12) -> Any:
    """A simulator in the middle of a motion; with contact where the engine has it."""
    model = stepped_model("firm")
    simulator: Any = supple.FullSimulator(model, integrator="bdf2", substeps=2)
    if engine == "pose-space":
        options: dict[str, Any] = {
            "obstacles": (GROUND,),
            "friction": 0.4,
            "gravity_mode": "absolute",
        }
        simulator = supple.Simulator(model, **options)
    assert isinstance(simulator, CharacterSimulator)
    go_on(simulator, steps)
    return simulator


def go_on(simulator: Any, steps: int = 6) -> np.ndarray:
    """Skins of further steps."""
    skins = []
    for k in range(steps):
        simulator.step(np.array([0.01 * np.sin(k)]))
        skins.append(simulator.surface().copy())
    return np.array(skins)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_restored_state_goes_on_to_the_bit(engine):
    simulator = begun(engine)
    state, time = simulator.state(), simulator.time
    skins = go_on(simulator)
    simulator.resume(state)
    assert simulator.time == time
    np.testing.assert_array_equal(go_on(simulator), skins)
    other = begun(engine, 3)
    other.resume(pickle.loads(pickle.dumps(state)))
    np.testing.assert_array_equal(other.surface(), begun(engine).surface())
    np.testing.assert_array_equal(go_on(other), skins)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_state_is_a_copy(engine):
    simulator = begun(engine)
    state = simulator.state()
    arrays = {name: array.copy() for name, array in state.items()}
    go_on(simulator)
    for name, array in state.items():
        np.testing.assert_array_equal(array, arrays[name])


@pytest.mark.parametrize("engine", ENGINES)
def test_a_state_that_does_not_fit_is_refused_and_changes_nothing(engine):
    simulator = begun(engine)
    skin, state = simulator.surface(), simulator.state()
    missing = State({name: array for name, array in state.items() if name != "pose"})
    longer = State({**state, "root": np.zeros((5, 5))})
    broken = State({**state, "pose": state["pose"] * np.nan})
    wrong: list[Any] = [missing, longer, broken, None, 3]
    for bad in wrong:
        with pytest.raises(SuppleError):
            simulator.resume(bad)
    np.testing.assert_array_equal(simulator.surface(), skin)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_copy_goes_on_alone(engine):
    simulator = begun(engine)
    twin = copy.deepcopy(simulator)
    assert twin.model is simulator.model
    skins = go_on(simulator)
    np.testing.assert_array_equal(go_on(twin), skins)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_old_name_of_teleport_works_with_a_warning(engine):
    simulator, other = begun(engine), begun(engine)
    simulator.teleport(np.array([0.1]))
    with pytest.warns(DeprecationWarning, match="teleport"):
        other.carry(np.array([0.1]))
    np.testing.assert_array_equal(simulator.surface(), other.surface())
