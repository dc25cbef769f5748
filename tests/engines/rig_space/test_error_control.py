"""Adaptive sub-steps: their error is as stated, they are few where little moves; and no step
allocates large arrays."""

from __future__ import annotations

import tracemalloc
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import supple
from helpers.rig_space_samples import belly, belly_options, trunk, trunk_options
from supple.dynamics.integrators import INTEGRATORS
from supple.engines.common.stage_history import History
from supple.engines.rig_space.error_control import MOST_SUBSTEPS
from supple.engines.rig_space.model import RigSpaceModel
from supple.engines.rig_space.simulator import RigSpaceSimulator
from supple.errors import SuppleError

#: True errors are within this factor of the tolerance, of bodies whose swings last for a second.
FACTOR = 2.0


@cache
def built(name: str) -> RigSpaceModel:
    if name == "trunk":
        cells = (8, 2, 2)
        return supple.build(trunk(cells), engine="rig-space", **trunk_options(cells, modes=4))
    cells = (4, 4, 4)
    return supple.build(belly(cells, 6), engine="rig-space", **belly_options(cells, modes=4))


def key(model: RigSpaceModel, t: float) -> tuple[np.ndarray, np.ndarray]:
    """At rest, then lively from 0.3 to 1.3 s, then at rest for long."""
    grown = np.clip(min((t - 0.3) / 0.3, (1.3 - t) / 0.3), 0, 1)
    grown = grown**2 * (3 - 2 * grown)
    pose, root = model.rig.rest_pose.copy(), np.eye(4)
    root[1, 3] = 0.1 * grown * np.sin(4 * np.pi * t)
    if model.name == "belly":
        pose[0] = 0.3 * grown * np.sin(3 * np.pi * t)
    return pose, root


def run(
    model: RigSpaceModel, dt: float, seconds: float = 2.6, **options: Any
) -> tuple[np.ndarray, list[dict[str, Any]], list[str]]:
    simulator = RigSpaceSimulator(model, dt, **options)
    skins, readings = [], []
    limits: list[str] = []
    for k in range(round(seconds / dt)):
        pose, root = key(model, (k + 1) * dt)
        did = simulator.step(pose, root)
        readings.append(dict(did.readings))
        limits += did.limits
        skins.append(simulator.surface() - root[:3, 3])
    return np.array(skins), readings, limits


def worst(model: RigSpaceModel, found: np.ndarray, truth: np.ndarray) -> float:
    return float(np.linalg.norm(found - truth, axis=2).max()) / model.mesh.size


@pytest.mark.parametrize(("name", "dt"), [("trunk", 1 / 30), ("belly", 1 / 60)])
def test_the_true_error_is_within_a_factor_of_the_tolerance(name, dt):
    model = built(name)
    truth, *_ = run(model, dt, substep=1 / 90 / 16, iterations=3)
    fixed, *_ = run(model, dt, substep=1 / 30)
    errors = []
    for tolerance in (0.03, 0.01, 0.003):
        skins, readings, limits = run(model, dt, tolerance=tolerance)
        errors.append(worst(model, skins, truth))
        assert errors[-1] <= FACTOR * tolerance
        assert errors[-1] >= 0.1 * tolerance  # no more work than was asked for
        assert max(each["error"] for each in readings) <= tolerance
        assert "tolerance" not in limits
    assert errors[0] > errors[1] > errors[2]
    assert worst(model, fixed, truth) > 2 * errors[1]


def test_quiet_stretches_have_fewer_substeps():
    _, readings, _ = run(built("trunk"), 1 / 30, tolerance=0.003)
    substeps = np.array([each["substeps"] for each in readings])
    assert substeps[2:9].max() == 1  # nothing has moved yet
    assert substeps[15:40].mean() > 8
    assert substeps[-8:].mean() < 0.5 * substeps[15:40].mean()
    tries = np.array([each["tries"] for each in readings])
    assert tries.mean() < 1.3  # hardly a step is run twice


@pytest.mark.parametrize("integrator", ["bdf2", "backward-euler"])
def test_every_integrator_keeps_the_tolerance(integrator):
    model, dt = built("trunk"), 1 / 30
    truth, *_ = run(model, dt, 1.2, substep=1 / 90 / 16, iterations=3)
    skins, readings, _ = run(model, dt, 1.2, tolerance=0.03, integrator=integrator)
    assert worst(model, skins, truth) <= FACTOR * 0.03
    assert max(each["error"] for each in readings) <= 0.03


def test_adaptive_runs_are_the_same_to_the_bit_and_without_a_tolerance_nothing_changes():
    model = built("trunk")
    one, first, _ = run(model, 1 / 30, 1.0, tolerance=0.01)
    two, second, _ = run(model, 1 / 30, 1.0, tolerance=0.01)
    assert np.array_equal(one, two)
    assert first == second
    _, readings, _ = run(model, 1 / 30, 0.2)
    assert all(each["substeps"] == 3 and "error" not in each for each in readings)


@pytest.mark.parametrize("dt", [1 / 1000, 1 / 24, 1 / 10])
def test_any_step_of_time_will_do(dt):
    skins, readings, limits = run(built("trunk"), dt, 0.8, tolerance=0.02)
    assert np.isfinite(skins).all()
    assert "not finite" not in limits
    if dt < 1 / 500:
        assert max(each["substeps"] for each in readings) == 1
    else:
        assert max(each["substeps"] for each in readings) > 1


def test_an_unreachable_tolerance_is_reported_and_ends():
    model = built("trunk")
    simulator = RigSpaceSimulator(model, 1 / 30, tolerance=1e-9)
    pose, root = key(model, 0.0)
    root[1, 3] = 0.2
    did = simulator.step(pose, root)
    assert "tolerance" in did.limits
    assert 1 < did.readings["substeps"] <= MOST_SUBSTEPS
    assert did.readings["error"] > 1e-9


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf, 2.0, "much"])
def test_tolerances_that_mean_nothing_are_refused(bad):
    with pytest.raises(SuppleError, match="tolerance"):
        RigSpaceSimulator(built("trunk"), tolerance=bad)
    with pytest.raises(SuppleError, match=r"with an `error_constant`: .*\bbdf2\b"):
        RigSpaceSimulator(built("trunk"), tolerance=0.1, integrator="newmark")


def test_curves_report_the_number_of_sub_steps():
    model = built("belly")
    character = belly((4, 4, 4), 6)
    found = supple.curves(character, "bend", model, simulation={"tolerance": 3e-4})
    cut = found.report["substeps"]
    assert 1 <= cut["least"] <= cut["mean"] <= cut["most"]
    assert cut["most"] > 1
    assert 0 < found.report["error_per_second"] <= 3e-4
    damped = supple.curves(character, "bend", model, simulation={"damping": {"bump*": 30.0}})
    assert "substeps" not in damped.report
    assert damped.report["moves"] < 0.7 * found.report["moves"]


def test_two_step_formula_is_of_second_order_when_steps_change_their_length():
    integrator = INTEGRATORS["bdf2"]
    errors = []
    for count in (40, 80, 160):
        steps = np.array([1.0, 0.5, 2.0, 1.5, 0.7])[np.arange(count) % 5]
        steps *= 2.0 / steps.sum()
        history, t = History((1,)), 0.0
        history.reset(np.ones(1))
        for h in steps:  # ẍ = −9 x
            tau = history.begin(integrator, h)
            history.finish(history.target / (1 + 9 * tau**2), tau)
            t += h
        errors.append(abs(float(history.x[0]) - np.cos(3 * t)))
    assert errors[0] / errors[2] > 10  # 16 for the second order, 4 for the first


def test_a_step_allocates_no_large_array(monkeypatch):
    builder = import_module("supple.engines.rig_space.build")
    monkeypatch.setattr(builder, "SNAPSHOTS", 4)  # a large body, quickly
    cells = (12, 10, 10)
    options = belly_options(cells, modes=2, cubature=40)
    model = supple.build(belly(cells, 6), engine="rig-space", **options)
    keys = [key(model, 0.3 + k / 30) for k in range(30)]
    for tolerance in (None, 0.01):
        simulator = RigSpaceSimulator(model, 1 / 30, tolerance=tolerance)
        for pose, root in keys[:20]:
            simulator.step(pose, root)
        tracemalloc.start()
        try:
            simulator.step(*keys[20])
            before, _ = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            for pose, root in keys[21:]:
                simulator.step(pose, root)
            after, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        places = 3 * 8 * len(simulator._solver.vertices)
        assert places > 30_000
        assert after - before < 0.5 * places  # Python keeps small objects for later
        assert peak - before < 0.8 * places
