"""Integrators of other programs: `register_integrator` and its checks.

Coefficients are checked against the conditions in `supple.dynamics.integrators`. Trial steps of an
oscillator check the rest: the order that the row states, the results of step functions, and that
stiff motion does not grow.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np

from supple.arrays import Floats
from supple.checks import shown
from supple.dynamics.integrators import INTEGRATORS, Integrator, StageCoefficients, StepStart
from supple.errors import SuppleError

#: Error of the conditions of consistency and second order that `register_integrator` accepts, for a
#: step of 1 s.
_CONSISTENT = 1e-9
#: Steps in which `register_integrator` crosses 1 s of an oscillator, and the deviation from the
#: stated order that it accepts. Errors below `_EXACT` are rounding.
_COARSE, _FINE, _NEARLY, _EXACT = 64, 128, 0.3, 1e-11
#: Angle in rad by which a stiff oscillator turns in a step, steps of its trial, and the growth from
#: one half of them to the other that is accepted: 2 is that of a double root on the unit circle.
_STIFF, _STIFF_STEPS, _GROWTH = 1e6, 200, 3.0


def register_integrator(row: Integrator) -> None:
    """Add an integrator, for this process; ``integrator=row.name`` then uses it.

    Raises
    ------
    SuppleError
        If there is an integrator of that name, the coefficients are not of a consistent method, or
        trial steps of an oscillator show a lower order or an amplification of stiff motion: the
        page "extending" has the conditions.
    """
    if not isinstance(row, Integrator):
        raise SuppleError(
            f"{shown(row, 40)} is not an integrator; pass a supple.dynamics.Integrator"
        )
    if not isinstance(row.name, str) or not row.name:
        raise SuppleError(f"an integrator's name must be a string, not {shown(row.name, 40)}")
    if row.name in INTEGRATORS:
        raise SuppleError(f"an integrator {row.name!r} exists already; choose another name")
    if type(row.order) is not int or row.order < 1:
        raise SuppleError(f"integrator {row.name!r}: order {row.order}; use 1, 2, …")
    if not isinstance(row.forces_at, Real) or not 0 <= float(row.forces_at) <= 1:
        raise SuppleError(
            f"integrator {row.name!r}: forces_at is {shown(row.forces_at, 40)}; "
            "it is a fraction of the step, 0 to 1"
        )
    # Half a second finds a forgotten factor h; the ratio 2, weights that ignore the ratio.
    for h, ratio in ((1.0, 1.0), (1.0, 2.0), (0.5, 1.0)):
        where = f"integrator {row.name!r} at h = {h:g}, ratio = {ratio:g}"
        _check_coefficients(row, h, ratio, where)
        if row.error_constant is not None:
            constant = _returned(where, row.error_constant, ratio)
            if not isinstance(constant, Real) or not 0 < float(constant) < math.inf:
                what = f"{where}: error_constant returns {shown(constant, 40)}"
                raise SuppleError(f"{what}; it must be a positive number")
    _check_order(row)
    _check_stability(row)
    INTEGRATORS[row.name] = row


def _returned(where: str, function: Callable[..., Any], *arguments: float) -> Any:
    try:
        return function(*arguments)
    except Exception as error:
        name = "coefficients(h, ratio)" if len(arguments) == 2 else "error_constant(ratio)"
        raise SuppleError(f"{where}: {name} failed: {type(error).__name__}: {error}") from error


def _oscillator(row: Integrator, w: float, damping: float, h: float, steps: int) -> Floats:
    """Return u and v/w, (steps + 1, 2), of u″ = −w² u − 2·damping·w u′ from u = 1, u′ = 0."""

    def stage(u: Floats, v: Floats, tau: float) -> tuple[Floats, Floats]:
        v_end = (v - tau * w**2 * u) / (1 + 2 * tau * damping * w + tau**2 * w**2)
        return u + tau * v_end, v_end

    u, v = np.ones((1, 3)), np.zeros((1, 3))
    a = -(w**2) * u if row.uses_acceleration else np.zeros((1, 3))
    before, states = None, [(1.0, 0.0)]
    for _ in range(steps):
        try:
            end = row.step(stage, StepStart(u, v, a, before), h)
            before = (u, v) if row.looks_back else None
            u, v, a = end
            states.append((float(u[0, 0]), float(v[0, 0]) / w))
        except Exception as error:
            hint = ""
            if row.several_stages is not None:
                hint = (
                    "; several_stages(stage, start, h) returns (u, v, a), and start.before is None "
                    "in the first step, and always if the coefficients have before = 0"
                )
            raise SuppleError(
                f"integrator {row.name!r}: a step failed: {type(error).__name__}: {error}{hint}"
            ) from error
    return np.array(states)


def _check_order(row: Integrator) -> None:
    """Refuse a row whose error decreases more slowly with h than its stated order requires."""
    w, damping = 3.0, 0.05
    rate, turn = damping * w, w * math.sqrt(1 - damping**2)
    errors = []
    for steps in (_COARSE, _FINE):
        t = np.arange(steps + 1) / steps
        decay, sine = np.exp(-rate * t), np.sin(turn * t)
        exact = np.stack(
            [decay * (np.cos(turn * t) + rate / turn * sine), -w / turn * decay * sine], axis=1
        )
        errors.append(float(np.abs(_oscillator(row, w, damping, 1 / steps, steps) - exact).max()))
    coarse, fine = errors
    if fine < _EXACT or coarse >= 2 ** (row.order - _NEARLY) * fine:
        return
    hint = ""
    if row.several_stages is not None and not row.uses_acceleration:
        hint = " (start.a is 0 in the first step, as the coefficients have lead = 0)"
    raise SuppleError(
        f"integrator {row.name!r}: halving h divides the error of an oscillator by "
        f"{coarse / fine:.2g}; order {row.order} requires {2**row.order}: correct the formula, "
        f"or state a lower order{hint}"
    )


def _check_stability(row: Integrator) -> None:
    """Refuse a row that amplifies motion that the step cannot resolve."""
    sizes = np.linalg.norm(_oscillator(row, _STIFF, 0.0, 1.0, _STIFF_STEPS), axis=1)
    half = _STIFF_STEPS // 2
    growth = float(sizes[half:].max() / sizes[:half].max())
    if not growth <= _GROWTH:
        raise SuppleError(
            f"integrator {row.name!r}: {half} steps multiply motion that they cannot resolve by "
            f"{growth:.2g}, and elastic bodies would diverge; a stage needs |lead| ≤ tau"
        )


def _check_coefficients(row: Integrator, h: float, ratio: float, where: str) -> None:
    """Refuse coefficients that are not numbers, or belong to no consistent method."""
    stage = _returned(where, row.coefficients, h, ratio)
    if not isinstance(stage, StageCoefficients):
        raise SuppleError(f"{where}: coefficients must return StageCoefficients")
    for name, value in (*stage._asdict().items(), ("extrapolation", row.extrapolation)):
        if not isinstance(value, Real) or not math.isfinite(value):
            raise SuppleError(f"{where}: {name} is {shown(value, 40)}; return finite numbers")
    now, before, divisor, lead, tau = stage
    if tau <= 0:
        raise SuppleError(f"{where}: tau is {tau:g} s; the implicit stage needs a positive one")
    weights = now - before
    if divisor == 0 or abs(weights - divisor) > _CONSISTENT * abs(divisor):
        raise SuppleError(
            f"{where}: now − before is {weights:g} and divisor {divisor:g}; make them equal, "
            "so that a body at rest stays at rest"
        )
    if row.several_stages is not None:  # the coefficients are those of a part of the step
        return
    seconds = row.extrapolation * (lead + tau + before / divisor * h / ratio)
    if abs(seconds - h) > _CONSISTENT:
        factor = "" if row.extrapolation == 1 else "extrapolation · "
        total = f"{factor}(lead + tau + before/divisor · h/ratio)"
        raise SuppleError(
            f"{where}: {total} is {seconds:g} s; make it h, so that steady motion stays steady"
        )
    second = h**2 + row.extrapolation * before / divisor * (h / ratio) ** 2
    if row.order > 1 and abs(2 * tau * h - second) > _CONSISTENT:
        factor = "" if row.extrapolation == 1 else "extrapolation · "
        raise SuppleError(
            f"{where}: 2 · tau · h is {2 * tau * h:g} s² and h² + {factor}before/divisor · "
            f"(h/ratio)² is {second:g} s²; make them equal, or state order=1"
        )
