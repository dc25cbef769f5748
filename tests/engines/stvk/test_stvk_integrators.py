"""Integrators, damping and tolerance of reduced bodies, against appendix C of barbic2005."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from supple import SuppleError
from supple.arrays import Floats
from supple.elastic import Material
from supple.engines.stvk import FreeStvkSimulator, StvkModel, StvkSimulator
from supple.scenes import beam
from supple.scenes.bodies.spoon import CUBE, assemble

BETA = 1e-3


@cache
def _spoon() -> StvkModel:
    scene = assemble(4 * CUBE)
    return StvkModel.build(scene.mesh, scene.material, modes=6, fixed=scene.fixed)


@cache
def _beam() -> StvkModel:
    mesh = beam(cells=(6, 2, 2))
    return StvkModel.build(
        mesh, Material("stvk", young=1e5), modes=5, fixed=mesh.vertices[:, 0] == 0
    )


def _start(model: StvkModel, amplitude: float = 0.3) -> Floats:
    """Return q of a bent body: its tip moves by about `amplitude` times its length."""
    size = float(np.ptp(model.rest, axis=0).max())
    column = model.basis[:, :, 0]
    q = np.zeros(model.modes)
    q[0] = amplitude * size / np.linalg.norm(column, axis=1).max()
    return q


def _appendix_c(
    model: StvkModel,
    q: Floats,
    h: float,
    forces: Floats,
    *,
    alpha: float = 0.0,
    beta: float = 0.0,
    newmark: tuple[float, float] = (0.25, 0.5),
) -> Floats:
    """Solve the equation of appendix C for each step; unknowns are accelerations."""
    (b, g), mass = newmark, model.mass
    v, a = np.zeros_like(q), np.linalg.solve(mass, -model.force(q))
    for force in forces:
        new = a.copy()
        ahead, speed = q + h * v + h**2 * (0.5 - b) * a, v + h * (1 - g) * a
        for _ in range(60):
            x, w = ahead + h**2 * b * new, speed + h * g * new
            stiff = model.stiffness(x)
            damping = alpha * mass + beta * stiff
            residual = mass @ new + damping @ w + model.force(x) - force
            # (∂K/∂q : w), exact by differences, as K is quadratic
            size = 1e-3 / max(float(np.linalg.norm(w)), 1e-12)
            slope = (model.stiffness(x + size * w) - model.stiffness(x - size * w)) / (2 * size)
            system = mass + g * h * damping + b * h**2 * (stiff + beta * slope)
            change = np.linalg.solve(system, -residual)
            new = new + change
            if np.abs(change).max() <= 1e-12 * np.abs(new).max():
                break
        q, v, a = ahead + h**2 * b * new, speed + h * g * new, new
    return q


def _pushes(model: StvkModel, h: float, seconds: float) -> Floats:
    """Return forces of a smooth push of the tip that bends a spoon far, for each step."""
    tip = int(model.surface.vertices[:, 0].argmax())
    times = h * np.arange(1, round(seconds / h) + 1)
    part = np.sin(np.pi * times / seconds) ** 2
    return part[:, None] * model.reduced_force({tip: [0.0, 2.0, 0.6]})


def _pushed(model: StvkModel, h: float) -> Floats:
    simulator = StvkSimulator(model, h, iterations=60, beta=BETA)
    result = simulator.run(_pushes(model, h, 0.2))[-1]
    assert simulator.unconverged_steps == 0
    return result


def test_damping_is_of_the_current_stiffness_as_in_appendix_c() -> None:
    """C is re-formed in each iteration, so that a step solves the printed equation."""
    model, h = _spoon(), 2e-3
    theirs = _appendix_c(model, np.zeros(model.modes), h, _pushes(model, h, 0.2), beta=BETA)
    np.testing.assert_allclose(_pushed(model, h), theirs, atol=1e-6 * np.abs(theirs).max())


def test_stiffness_damping_is_of_second_order_with_a_small_error() -> None:
    """Errors fall fourfold a halving; C of the step's start gave 0.11 at h = 2 ms, not 0.004."""
    model = _spoon()
    truth = _pushed(model, 6.25e-5)
    errors = [
        np.linalg.norm(_pushed(model, h) - truth) / np.linalg.norm(truth)
        for h in (2e-3, 1e-3, 5e-4)
    ]
    assert errors[0] < 0.006
    assert 3.5 < errors[0] / errors[1] < 4.5
    assert 3.5 < errors[1] / errors[2] < 4.5


def test_free_body_damps_as_its_current_stiffness() -> None:
    """Several linearisations converge, and the error is of second order in the step."""
    mesh = beam(cells=(6, 2, 2))
    model = StvkModel.build(mesh, Material("stvk", young=1e5), modes=6)
    tip = int(model.surface.vertices[:, 0].argmax())

    def after(h: float) -> Floats:
        simulator = FreeStvkSimulator(model, h, iterations=60, beta=5e-3)
        times = h * (np.arange(round(0.1 / h)) + 0.5)  # forces act throughout a step
        part = np.sin(np.pi * times / 0.1) ** 2
        simulator.run(len(times), {tip: part[:, None] * np.array([0.0, 8.0, 2.0])})
        assert simulator.unconverged_steps == 0
        return simulator.q

    truth = after(6.25e-5)
    errors = [np.linalg.norm(after(h) - truth) for h in (2e-3, 1e-3, 5e-4)]
    assert 3.5 < errors[0] / errors[1] < 4.6
    assert 3.5 < errors[1] / errors[2] < 4.6


@pytest.mark.parametrize(
    "newmark", [(0.25, 0.5), (0.3025, 0.6), (0.5, 0.5), (0.0, 0.5), (0.1, 0.7)]
)
@pytest.mark.parametrize("beta", [0.0, 2e-5])
def test_newmark_takes_any_beta_and_gamma(newmark: tuple[float, float], beta: float) -> None:
    model, h = _beam(), 1e-4
    q = _start(model, 0.1)
    simulator = StvkSimulator(model, h, iterations=40, newmark=newmark, alpha=0.5, beta=beta)
    simulator.reset(q)
    # The first acceleration includes no damping at rest, as the velocity is zero.
    none = np.zeros((100, model.modes))
    theirs = _appendix_c(model, q, h, none, newmark=newmark, alpha=0.5, beta=beta)
    np.testing.assert_allclose(simulator.run(100)[-1], theirs, rtol=0, atol=1e-8 * np.abs(q).max())


def test_a_tiny_beta_of_newmark_loses_no_digits_in_steps_of_one_iteration() -> None:
    model, ends = _beam(), []
    for beta in (0.0, 1e-14, 1e-17, 1e-300):
        simulator = StvkSimulator(model, 1e-4, newmark=(beta, 0.5))
        simulator.reset(_start(model, 0.1))
        ends.append(simulator.run(100)[-1])
    for end in ends[1:]:
        np.testing.assert_allclose(end, ends[0], rtol=0, atol=1e-6 * np.abs(ends[0]).max())


def test_central_differences_are_explicit_and_keep_energy() -> None:
    model = _beam()
    simulator = StvkSimulator(model, 1e-4, integrator="central-differences")
    simulator.reset(_start(model, 0.1))
    before = simulator.energies()["total"]
    simulator.run(20_000)
    assert simulator.energies()["total"] == pytest.approx(before, rel=0.02)
    assert simulator.unconverged_steps == 0


def test_factor_of_an_explicit_step_is_renewed_with_the_mass() -> None:
    model = _beam()
    one, other = (StvkSimulator(model, 1e-4, integrator="central-differences") for _ in range(2))
    one.run(3)
    one.set_material(0, density=2000.0)
    other.set_material(0, density=2000.0)
    for simulator in (one, other):
        simulator.reset(_start(model, 0.1))
    np.testing.assert_array_equal(one.run(50), other.run(50))


def test_step_too_long_for_central_differences_is_refused() -> None:
    with pytest.raises(SuppleError, match="stable only below"):
        StvkSimulator(_beam(), 0.05, integrator="central-differences")


@pytest.mark.parametrize("newmark", [(-0.1, 0.5), (0.25, 0.4), (0.6, 0.5), (0.25,), "no"])
def test_impossible_newmark_parameters_are_refused(newmark: object) -> None:
    with pytest.raises(SuppleError, match="newmark"):
        StvkSimulator(_beam(), newmark=newmark)  # type: ignore[arg-type]
    with pytest.raises(SuppleError, match="newmark"):
        StvkSimulator(_beam(), integrator="backward-euler", newmark=(0.25, 0.5))


def test_free_body_refuses_other_newmark_parameters() -> None:
    model = StvkModel.build(beam(cells=(4, 1, 1)), Material("stvk", young=1e5), modes=3)
    with pytest.raises(SuppleError, match="free body"):
        FreeStvkSimulator(model, newmark=(0.0, 0.5))
    assert FreeStvkSimulator(model, newmark=(0.25, 0.5)).dt == 1e-3


def test_looser_tolerance_ends_iterations_earlier() -> None:
    model = _beam()
    results = []
    for tolerance in (1e-2, 1e-12):
        simulator = StvkSimulator(model, 0.01, iterations=40, tolerance=tolerance)
        simulator.reset(_start(model))
        results.append(simulator.run(1)[-1])
        assert simulator.unconverged_steps == 0
    converged = _appendix_c(model, _start(model), 0.01, np.zeros((1, model.modes)))
    loose, tight = (np.abs(result - converged).max() for result in results)
    assert tight < 1e-9 * np.abs(converged).max() < loose
    with pytest.raises(SuppleError, match="tolerance"):
        StvkSimulator(model, tolerance=-1.0)
