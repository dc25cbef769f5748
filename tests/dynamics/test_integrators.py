"""The table of integrators: orders, engines that read it, and a new one by one row."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any

import numpy as np
import pytest

import supple
from helpers.build_samples import stepped_model
from supple.dynamics.integrators import (
    INTEGRATORS,
    Integrator,
    StageCoefficients,
    StepStart,
    integrator_named,
)
from supple.elastic.body import ElasticBody
from supple.elastic.material import Material
from supple.engines.baselines.projected import PosedSubspace, ProjectedSimulator
from supple.errors import SuppleError
from supple.scenes.bodies.beam import beam

PENDULUM = ElasticBody(beam(cells=(3, 1, 1)), Material("stvk", young=2e5))
HELD = np.flatnonzero(PENDULUM.rest[:, 0] == 0)
PART = 2 - sqrt(2)


def tr_bdf2(stage, start, h):
    """A trapezoidal stage to the part 2 − √2 of the step, then one of BDF2 (Bank et al. 1985)."""
    tau, near = PART * h / 2, 1 / (PART * (2 - PART))
    far = near - 1
    u, v = stage(start.u + tau * start.v, start.v + tau * start.a, tau)
    v_start = near * v - far * start.v
    u, v = stage(near * u - far * start.u, v_start, tau)
    return u, v, (v - v_start) / tau


def part_of_a_step(part: float) -> Callable[[float, float], StageCoefficients]:
    """Coefficients of an explicit step of 1 − part, then an implicit stage of part."""
    return lambda h, ratio: StageCoefficients(1.0, 0.0, 1.0, lead=(1 - part) * h, tau=part * h)


TR_BDF2 = Integrator(
    "tr-bdf2",
    "second order, L-stable",
    part_of_a_step(PART / 2),
    order=2,
    several_stages=tr_bdf2,
)


def swung(integrator: str, steps: int, seconds: float = 0.1) -> np.ndarray:
    """Where a soft beam that is held at one end and let go is after some steps."""
    simulator = supple.FullSimulator(
        PENDULUM, seconds / steps, fixed=HELD, integrator=integrator, newton=30, tolerance=1e-12
    )
    for _ in range(steps):
        simulator.step()
    return simulator.positions


def order_of(integrator: str) -> float:
    """log₂ of how much nearer steps of half the length come to the limit."""
    coarse, middle, fine = (swung(integrator, steps) for steps in (40, 80, 160))
    return float(np.log2(np.abs(coarse - middle).max() / np.abs(middle - fine).max()))


@pytest.mark.parametrize("name", INTEGRATORS)
def test_every_integrator_has_the_order_of_its_row(name):
    assert order_of(name) == pytest.approx(INTEGRATORS[name].order, abs=0.15)


def test_a_new_integrator_is_a_function_and_a_row(monkeypatch):
    with pytest.raises(SuppleError, match="no integrator 'tr-bdf2'; there are backward-euler"):
        supple.FullSimulator(PENDULUM, fixed=HELD, integrator="tr-bdf2")
    monkeypatch.setitem(INTEGRATORS, "tr-bdf2", TR_BDF2)
    assert order_of("tr-bdf2") == pytest.approx(2, abs=0.15)
    apart = np.abs(swung("tr-bdf2", 80) - swung("newmark", 320)).max()
    assert apart < 0.1 * np.abs(swung("backward-euler", 80) - swung("newmark", 320)).max()
    character = supple.FullSimulator(stepped_model("firm"), integrator="tr-bdf2")
    character.step([0.1])
    assert np.isfinite(character.surface()).all()
    posed = PosedSubspace(PENDULUM, lambda pose: PENDULUM.rest, lambda pose: _shape(), rest_pose=[])
    projected = ProjectedSimulator(posed, integrator="tr-bdf2", gravity_mode="absolute")
    projected.step()
    assert projected.q[0] < 0


def _shape() -> np.ndarray:
    lifted = np.zeros((PENDULUM.rest.size, 1))
    lifted[1::3, 0] = PENDULUM.rest[:, 0] ** 2
    return lifted


@pytest.mark.parametrize("name", INTEGRATORS)
def test_a_stiff_spring_is_stepped_as_the_rows_stage_says(name):
    """All stages of a step end after τ = stage · h, and damp or keep what is fast."""
    lengths = []

    def stage(u: Any, v: Any, tau: float) -> tuple[Any, Any]:
        lengths.append(tau)
        w = (v - tau * 1e12 * u) / (1 + tau**2 * 1e12)
        return u + tau * w, w

    row, h = INTEGRATORS[name], 0.01
    one = np.ones(1)
    start = StepStart(one, 0 * one, -1e12 * one, (one, 0 * one))
    u, _, _ = row.step(stage, start, h)
    assert lengths == pytest.approx([row.stage * h])
    assert abs(u[0]) <= 1 + 1e-9


def test_bodies_in_a_basis_step_any_row_that_is_trapezoidal(monkeypatch):
    """By its stage alone: half a step is Newmark's, to the bit."""
    model = supple.StvkModel.build(PENDULUM.mesh, PENDULUM.material, modes=3, fixed=HELD)
    for name, part in (("half", 0.5), ("more", 0.6)):
        monkeypatch.setitem(INTEGRATORS, name, Integrator(name, "", part_of_a_step(part), order=1))
    ends = {
        name: supple.StvkSimulator(model, integrator=name, gravity=(0, -9.81, 0)).run(500)
        for name in ("half", "more", "newmark", "backward-euler")
    }
    np.testing.assert_array_equal(ends["half"], ends["newmark"])
    lively, damped, calm = (np.ptp(ends[name][250:]) for name in ("half", "more", "backward-euler"))
    assert lively > damped > calm


def test_engines_take_the_rows_that_suit_them():
    rows = INTEGRATORS.values()
    assert [row.name for row in rows if row.compiled] == ["backward-euler", "newmark", "bdf2"]
    assert [row.name for row in rows if row.trapezoidal] == ["backward-euler", "newmark"]
    wrong: list[Any] = [[], {}, None, 3, np.zeros(3)]
    for name in wrong:
        with pytest.raises(SuppleError, match="no integrator") as refused:
            integrator_named(name)
        assert "\n" not in str(refused.value)
