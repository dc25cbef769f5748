"""A copy of a simulator or a crowd goes on alone, to the bit, here and in another process."""

from __future__ import annotations

import copy
import gc
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from helpers.build_samples import stepped_model
from supple import Crowd
from supple.engines.pose_space.runtime import RuntimeModel
from supple.engines.pose_space.simulator import PoseSpaceSimulator
from supple.engines.pose_space.state import BodyState, states_of
from supple.mesh.obstacles import Plane

Floats = NDArray[np.float64]

COPIES: dict[str, Callable[[Any], Any]] = {
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
    "pickle": lambda each: pickle.loads(pickle.dumps(each)),
}
GROUND = Plane((0, -0.02, 0), (0, 1, 0))
#: Steps before the copy is made; in the ground the skin then is pushed.
BEFORE = 40

STEPPING = """
import pickle, sys
import numpy as np
sys.path.insert(0, sys.argv[1])
both = pickle.load(sys.stdin.buffer)
for k in range(3):
    for each in both:
        each.step(np.array([0.05 * k]))
np.save(sys.stdout.buffer, np.concatenate([np.ravel(each.q) for each in both]))
"""


def options_of(contact: bool) -> dict[str, Any]:
    return {"gravity_mode": "absolute", "obstacles": (GROUND,) if contact else ()}


def begun(contact: bool, runtime: RuntimeModel | None = None, n: int = 0, **options: Any) -> Any:
    """A simulator, or a crowd of n, in the middle of a motion."""
    tables = RuntimeModel.of(stepped_model("firm")) if runtime is None else runtime
    options |= options_of(contact)
    each = Crowd(tables, n, **options) if n else PoseSpaceSimulator(tables, **options)
    for k in range(BEFORE):
        each.step(np.array([0.002 * k]))
    return each


def go_on(each: Any, slope: float) -> Floats:
    """Step further, each way another; the way of the coordinates."""
    found = []
    for k in range(6):
        each.step(np.array([0.002 * BEFORE + slope * k]))
        found.append(each.q)
    return np.array(found)


@pytest.mark.parametrize("contact", [False, True])
@pytest.mark.parametrize("how", COPIES)
def test_an_original_and_its_copy_are_independent(how, contact):
    original = begun(contact)
    twin = COPIES[how](original)
    assert twin.time == original.time > 0
    np.testing.assert_array_equal(twin.surface(), original.surface())
    away, back = begun(contact), begun(contact)
    # In turns, so that whoever writes to the other's arrays is found out.
    for k in range(8):
        pose, other = np.array([0.08 + 0.01 * k]), np.array([0.08 - 0.02 * k])
        assert original.step(pose).contacts == away.step(pose).contacts
        pushed = twin.step(other).contacts
        assert pushed == back.step(other).contacts
        assert (pushed > 0) == contact
        np.testing.assert_array_equal(original.q, away.q)
        np.testing.assert_array_equal(twin.q, back.q)
        np.testing.assert_array_equal(twin.velocity, back.velocity)
        np.testing.assert_array_equal(original.surface(), away.surface())
        np.testing.assert_array_equal(twin.surface(), back.surface())
    assert np.abs(twin.q - original.q).max() > 0


@pytest.mark.parametrize("n", [0, 3])
@pytest.mark.parametrize("how", COPIES)
def test_a_copy_outlives_the_original(how, n):
    original = begun(True, n=n)
    twin = COPIES[how](original)
    del original
    gc.collect()
    filler = [np.full(size, np.nan) for size in range(1, 400)]
    np.testing.assert_array_equal(go_on(twin, 0.01), go_on(begun(True, n=n), 0.01))
    del filler


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("contact", [False, True])
@pytest.mark.parametrize("how", COPIES)
def test_a_crowd_and_its_copy_are_independent(how, contact, threads):
    runtime = RuntimeModel.of(stepped_model("firm"))
    made = [begun(contact, runtime, 3, threads=threads) for _ in range(2)]
    original, alone = made
    twin = COPIES[how](original)
    assert len(twin) == 3
    first, second = go_on(original, 0.01), go_on(twin, -0.02)
    np.testing.assert_array_equal(go_on(alone, 0.01), first)
    np.testing.assert_array_equal(go_on(begun(contact, runtime, 3), -0.02), second)
    assert np.abs(first - second).max() > 0
    np.testing.assert_array_equal(original.surfaces(), alone.surfaces())


def test_a_copy_has_the_changes_and_is_independent():
    original = begun(True)
    original.stiffness = 2.0
    original.gravity_mode = "relative"
    original.obstacles = (Plane((0, -0.03, 0), (0, 1, 0)),)
    twin = copy.deepcopy(original)
    assert (twin.stiffness, twin.gravity_mode) == (2.0, "relative")
    assert twin.obstacles[0].point[1] == -0.03
    twin.stiffness, twin.obstacles = 1.0, ()
    assert original.stiffness == 2.0
    assert len(original.obstacles) == 1
    assert np.abs(go_on(original, 0.0) - go_on(twin, 0.0)).max() > 0


def test_copies_share_the_models_tables_and_keep_what_was_put_on_them():
    class Named(PoseSpaceSimulator):
        name = ""

    original = Named(stepped_model("bar"))
    original.name = "left"
    twin, same = copy.deepcopy([original, original])
    assert twin is same
    assert type(twin) is Named
    assert twin.name == "left"
    assert twin.runtime is original.runtime
    assert twin.model is original.model


@pytest.mark.parametrize("how", ["deepcopy", "pickle"])
def test_copied_states_are_rows_of_arrays_they_share(how):
    states: list[BodyState] = states_of(RuntimeModel.of(stepped_model("bar")), 3)
    twins = COPIES[how](states)
    assert twins[0].bound is twins[2].bound is not states[0].bound
    for i, twin in enumerate(twins):
        for name in ("q", "v", "a", "pose", "root", "weights", "counts"):
            row = getattr(twin, name)
            assert np.shares_memory(row, getattr(twin.arrays, name)[i])
            assert not np.shares_memory(row, getattr(states[i], name))
        assert twin.contact is not states[i].contact


def test_a_copy_from_a_pickle_needs_nothing_compiled_anew():
    original = begun(True)
    twin = COPIES["pickle"](original)
    for each in (original, twin):
        each.step()
        each.surface()
    for name in ("_arguments", "_skin"):
        bounds = (vars(each._stepper)[name] for each in (original, twin))
        first, second = (bound._numba_type_ for bound in bounds)
        assert first == second, name


def test_another_process_goes_on_from_a_pickle():
    """One character, and a crowd."""
    both = [begun(True, n=n) for n in (0, 2)]
    found = subprocess.run(
        [sys.executable, "-c", STEPPING, str(Path(__file__).parents[2])],
        input=pickle.dumps(both),
        capture_output=True,
        timeout=300,
    )
    assert found.returncode == 0, found.stderr.decode()
    for k in range(3):
        for each in both:
            each.step(np.array([0.05 * k]))
    expected = np.concatenate([np.ravel(each.q) for each in both])
    header = len(found.stdout) - expected.nbytes
    np.testing.assert_array_equal(np.frombuffer(found.stdout[header:]), expected)
