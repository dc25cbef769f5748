"""The table of integrators: orders, engines that read it, and a new one by one row."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from math import factorial, inf, nan, sqrt
from typing import Any

import numpy as np
import pytest

import supple
from helpers.build_samples import stepped_model
from supple.dynamics.integrator_registration import register_integrator
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
from supple.engines.pose_space.step import StepSettings
from supple.engines.pose_space.step_options import StepOptions
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
def test_a_stiff_spring_is_stepped_by_the_stage_of_the_row(name):
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
    fits = {
        name: (INTEGRATORS[name].compiled, INTEGRATORS[name].trapezoidal)
        for name in ("backward-euler", "newmark", "bdf2", "midpoint")
    }
    assert fits == {
        "backward-euler": (True, True),
        "newmark": (True, True),
        "bdf2": (True, False),
        "midpoint": (False, False),
    }
    wrong: list[Any] = [[], {}, None, 3, np.zeros(3)]
    for name in wrong:
        with pytest.raises(SuppleError, match="no integrator") as refused:
            integrator_named(name)
        assert "\n" not in str(refused.value)


def _blend(part: float) -> Integrator:
    """Between the trapezoidal rule (0) and BDF2 (1), with weights for divisor 1."""

    def coefficients(h: float, ratio: float) -> StageCoefficients:
        last, before = h / ratio, part * ratio**2 / (1 + 2 * ratio)
        tau = (h * h + before * last * last) / (2 * h)
        return StageCoefficients(1 + before, before, 1.0, lead=h - before * last - tau, tau=tau)

    return Integrator(f"blend-{part:g}", "", coefficients, order=2)


@pytest.fixture
def registered():
    """Register rows for one test."""
    rows = INTEGRATORS.copy()
    yield register_integrator
    INTEGRATORS.clear()
    INTEGRATORS.update(rows)


def test_a_lead_of_rounding_is_none(monkeypatch):
    """BDF2 with divisor 1 has a lead of 1e-16 and takes the path of "bdf2" in pose-space."""
    row = _blend(1.0)
    assert 0 < abs(row.coefficients(1.0, 1.0).lead) < 1e-15
    assert row.looks_back
    assert not row.uses_acceleration
    monkeypatch.setitem(INTEGRATORS, row.name, row)
    ours, known = (
        StepSettings.of(StepOptions(dt=1.0, integrator=name), 1.0) for name in (row.name, "bdf2")
    )
    assert ours.solve.stage.lead == ours.solve.contact_stage.lead == 0
    np.testing.assert_allclose(ours.motion.stage, known.motion.stage, rtol=1e-12)
    assert ours.motion.transport == known.motion.transport
    almost = Integrator("", "", lambda h, ratio: StageCoefficients(1, 1e-16, 1, 0, h), order=1)
    assert not almost.looks_back
    assert almost.trapezoidal


def test_pose_space_looks_ahead_where_the_rest_shape_is_differenced_over_one_step(monkeypatch):
    monkeypatch.setitem(INTEGRATORS, "blend-0.5", _blend(0.5))
    ahead = {
        name: StepOptions(integrator=name).steps_ahead
        for name in ("backward-euler", "newmark", "bdf2", "blend-0.5")
    }
    assert ahead == {"backward-euler": 1.0, "newmark": 1.0, "bdf2": 0.0, "blend-0.5": 1.0}
    assert StepOptions(integrator="bdf2", substeps=2).steps_ahead == 1.0


@pytest.mark.parametrize(("lead", "tau"), [(0.5, 0.5), (0.4, 0.6), (0.0, 1.0)])
def test_a_step_multiplies_what_it_cannot_resolve_by_lead_over_tau(lead, tau):
    row = Integrator("", "", part_of_a_step(tau), order=1)
    ends = [1.0]

    def stage(u: Any, v: Any, tau: float) -> tuple[Any, Any]:
        w = (v - tau * 1e12 * u) / (1 + tau**2 * 1e12)
        return u + tau * w, w

    u, v, a = np.zeros(1), np.ones(1), np.zeros(1)
    for _ in range(3):
        u, v, a = row.step(stage, StepStart(u, v, a), 1.0)
        ends.append(float(v[0]))
    assert ends[3] == pytest.approx(-lead / tau * ends[2], abs=1e-9)
    assert row.uses_acceleration == (lead > 0)


def test_a_registered_integrator_is_stepped(registered):
    for row in (_blend(0.5), TR_BDF2):
        registered(row)
        assert order_of(row.name) == pytest.approx(2, abs=0.15)
    with pytest.raises(SuppleError, match=r"integrator 'blend-0.5' exists already; choose another"):
        registered(_blend(0.5))


def test_every_row_of_the_table_can_be_registered(registered):
    for row in [*INTEGRATORS.values()]:
        registered(dataclasses.replace(row, name=f"my {row.name}"))


@pytest.mark.parametrize(
    ("coefficients", "message"),
    [
        (lambda h, r: StageCoefficients(1.0, 0.0, 1.0, 0.0, nan), "tau is nan; return finite"),
        (lambda h, r: StageCoefficients(inf, 0.0, 1.0, 0.0, h), "now is inf; return finite"),
        (lambda h, r: StageCoefficients("1", 0.0, 1.0, 0.0, h), "now is '1'; return finite"),  # type: ignore[arg-type]
        (lambda h, r: StageCoefficients(1.0, 0.0, 1.0, h, 0.0), "tau is 0 s; the implicit stage"),
        (lambda h, r: StageCoefficients(4.0, 1.0, 2.0, 0.0, h), "now − before is 3 and divisor 2"),
        (lambda h, r: StageCoefficients(0.0, 0.0, 0.0, 0.0, h), "divisor 0; make them equal"),
        (lambda h, r: StageCoefficients(1.0, 0.0, 1.0, h, h), r"ratio\) is 2 s; make it h"),
        (lambda h, r: StageCoefficients(1.0, 0.0, 1.0, 0.4 * h, 0.6), "at h = 0.5, ratio = 1"),
        (lambda h, r: StageCoefficients(4.0, 1.0, 3.0, 0.0, 2 * h / 3), "at h = 1, ratio = 2"),
        (lambda h, r: (1.0, 0.0, 1.0, 0.0, h), "must return StageCoefficients"),
        (lambda h: None, r"coefficients\(h, ratio\) failed: TypeError"),
    ],
)
def test_inconsistent_integrators_are_refused(registered, coefficients, message):
    with pytest.raises(SuppleError, match=f"integrator 'mine' .*{message}"):
        registered(Integrator("mine", "", coefficients, order=1))
    with pytest.raises(SuppleError, match="no integrator 'mine'"):
        integrator_named("mine")


def test_other_mistakes_of_a_row_are_refused(registered):
    unit = part_of_a_step(1.0)
    wrong: list[tuple[Any, str]] = [
        (unit, "is not an integrator; pass a supple.dynamics.Integrator"),
        (Integrator("", "", unit, order=1), "name must be a string"),
        (Integrator("mine", "", unit, order=0), "order 0; use 1, 2"),
        (Integrator("mine", "", unit, order=1, error_constant=lambda r: -1.0), "returns -1.0; it"),
        (Integrator("mine", "", unit, order=1, error_constant=lambda: 1.0), "error_constant.*fail"),  # type: ignore[arg-type,misc]
        (Integrator("mine", "", unit, order=1, extrapolation=2.0), "extrapolation · .* is 2 s"),
    ]
    for row, message in wrong:
        with pytest.raises(SuppleError, match=message):
            registered(row)


def theta(implicit: float, order: int = 1) -> Integrator:
    return Integrator("mine", "", part_of_a_step(implicit), order=order)


BDF2 = INTEGRATORS["bdf2"].coefficients
MIDPOINT = dataclasses.replace(INTEGRATORS["midpoint"], name="mine")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (theta(1.0, order=2), r"at h = 1, ratio = 1: 2 · tau · h is 2 s² .* is 1 s²; make them eq"),
        (theta(0.51, order=2), r"2 · tau · h is 1.02 s²"),
        (Integrator("mine", "", BDF2, order=3), "by 4; order 3 requires 8: correct"),
        # Weights of the ratio 1 are consistent for all ratios with this lead, but of first order.
        (
            Integrator(
                "mine",
                "",
                lambda h, r: StageCoefficients(
                    4 / 3, 1 / 3, 1.0, (1 / 3 - 1 / r / 3) * h, 2 * h / 3
                ),
                order=2,
            ),
            "at h = 1, ratio = 2: 2 · tau · h is 1.33333 s²",
        ),
        (
            dataclasses.replace(TR_BDF2, name="mine", coefficients=part_of_a_step(1.0)),
            r"by 2; order 2 requires 4.*\(start.a is 0 in the first step",
        ),
        (
            dataclasses.replace(
                TR_BDF2, name="mine", several_stages=lambda stage, s, h: (s.u, s.v, s.a)
            ),
            "by 1; order 2 requires 4",
        ),
    ],
)
def test_a_row_of_lower_order_than_stated_is_refused(registered, row, message):
    with pytest.raises(SuppleError, match=f"integrator 'mine'.*{message}"):
        registered(row)


def test_a_row_that_amplifies_stiff_motion_is_refused(registered):
    with pytest.raises(SuppleError, match="'mine': 100 steps multiply motion that they cannot res"):
        registered(theta(0.45))
    registered(theta(0.5, order=2))


def generalised_alpha(radius: float) -> Integrator:
    """The method of Chung and Hulbert (1993): a step function that remembers an acceleration."""
    mass, force = (2 - radius) / (1 + radius), 1 / (1 + radius)  # weights of the step's end
    gamma, beta = 0.5 + mass - force, (1 + mass - force) ** 2 / 4
    part = sqrt(force * beta / mass)

    def step(stage, start, h):
        u, v, a, tau = start.u, start.v, start.a, part * h
        v_start = v + (force * h - tau) * a
        middle = u + force * h * (v + h * (0.5 - beta / mass) * a)
        _, v_end = stage(middle - tau * v_start, v_start, tau)
        end = ((v_end - v_start) / tau - (1 - mass) * a) / mass
        moved = u + h * v + h * h * ((0.5 - beta) * a + beta * end)
        return moved, v + h * ((1 - gamma) * a + gamma * end), end

    return Integrator("mine", "", part_of_a_step(part), order=2, several_stages=step)


@pytest.mark.parametrize("radius", [0.0, 0.9, 1.0])
def test_a_step_function_may_overshoot_before_it_damps(registered, radius):
    registered(generalised_alpha(radius))
    assert order_of("mine") == pytest.approx(2, abs=0.15)


def test_a_step_function_with_a_wrong_result_is_refused_before_an_engine_runs_it(registered):
    def of_two(stage, start, h):
        return tr_bdf2(stage, start, h)[:2]

    def of_a_step_before(stage, start, h):
        return start.before[0], start.v, start.a

    for function in (of_two, of_a_step_before):
        row = dataclasses.replace(TR_BDF2, name="mine", several_stages=function)
        with pytest.raises(
            SuppleError, match=r"'mine': a step failed: .* returns \(u, v, a\), and"
        ):
            registered(row)


@pytest.mark.parametrize("part", [-0.5, 2.0, nan, "1"])
def test_forces_outside_the_step_are_refused(registered, part):
    with pytest.raises(SuppleError, match=r"'mine': forces_at is .*; it is a fraction of the step"):
        registered(dataclasses.replace(MIDPOINT, forces_at=part))


def test_a_row_in_place_of_its_name_is_an_error_with_a_remedy(registered):
    with pytest.raises(SuppleError, match=r"by name; call register_integrator .* use 'mine'"):
        supple.FullSimulator(PENDULUM, fixed=HELD, integrator=theta(0.6))
    registered(theta(0.6))
    with pytest.raises(SuppleError, match="chosen by name; use 'mine'"):
        supple.FullSimulator(PENDULUM, fixed=HELD, integrator=theta(0.6))


@pytest.mark.parametrize("name", ["backward-euler", "bdf2", "blend-0.5"])
@pytest.mark.parametrize("ratio", [0.5, 1.0, 2.0])
def test_error_constants_follow_from_the_coefficients(name, ratio):
    """The formulas in the docstring of `Integrator`, by a step through a polynomial."""
    row = INTEGRATORS.get(name) or _blend(0.5)
    stage = row.coefficients(1.0, ratio)
    weight, p = stage.before / stage.divisor, row.order
    formula = {
        1: abs(2 * stage.tau - 1 - weight / ratio**2) / 2,
        2: abs(weight / ratio**3 + 3 * stage.tau - 1) / 6,
    }[p]
    # x = t^(p+1)/(p+1)!, whose derivative of order p + 1 is 1, is 0 with its velocity at t = 0.
    before = (-1 / ratio) ** (p + 1) / (p + 1)
    end = (-weight * before + stage.tau) / factorial(p)
    exact = 1 / factorial(p + 1)
    assert formula == pytest.approx(abs(end - exact))
    if row.error_constant is not None:
        assert row.error_constant(ratio) == pytest.approx(formula)


def test_an_engine_that_does_not_step_a_row_raises_the_reason(registered):
    registered(TR_BDF2)
    for engine in (StepOptions, lambda **o: supple.StvkSimulator(_stvk(), **o)):
        with pytest.raises(SuppleError, match="'tr-bdf2' has several stages; this engine steps b"):
            engine(integrator="tr-bdf2")
        with pytest.raises(SuppleError, match="'midpoint' takes forces within the step; this"):
            engine(integrator="midpoint")
    with pytest.raises(SuppleError, match="'bdf2' uses the step before; this engine steps b"):
        supple.StvkSimulator(_stvk(), integrator="bdf2")


def _stvk() -> supple.StvkModel:
    return supple.StvkModel.build(PENDULUM.mesh, PENDULUM.material, modes=2, fixed=HELD)
