"""The table of time integrators, which all engines read.

One implicit stage makes all of them. It starts from a displacement u* and velocity v* and lasts τ:
M (v⁺ − v*)/τ = F(u⁺, v⁺) with u⁺ = u* + τ v⁺. Backward Euler is a stage of h; implicit Newmark
with β = ¼, γ = ½ (barbic2005 App. C) half an explicit step followed by a stage of h/2; the
implicit midpoint rule a stage of h/2 followed by as much again without forces; and the second
backward differentiation formula a stage of 2h/3 from a start that looks back one more step:

==============  ===============================  =======================================
backward Euler  (u, v, h)                        (u⁺, v⁺)
Newmark         (u + ½hv, v + ½ha, ½h)           (u⁺, v⁺)
midpoint        (u, v, ½h)                       (2u⁺ − u, 2v⁺ − v)
BDF2            ((4u − u⁻)/3, (4v − v⁻)/3, ⅔h)   (u⁺, v⁺)
==============  ===============================  =======================================

Newmark keeps energy well and, like the trapezoidal rule it is, momentum at
(u − ½hv, v − ½ha); midpoint keeps linear and angular momentum exactly. BDF2 damps what the step
cannot resolve, as backward Euler does (both are L-stable), but what it can resolve far less:
with θ = ωh, a mode loses θ⁴/4 of its amplitude a step, not θ²/2.

A new integrator is a function like those below and a row of `INTEGRATORS`. Engines on arrays
(`supple.FullSimulator`, `ProjectedSimulator`) step with the row's function. Compiled engines read
its numbers: Saint Venant–Kirchhoff bodies step any row that is `trapezoidal`, by its `stage` alone;
pose-space steps rows with a `code`, which its kernel branches on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from supple.arrays import Floats
from supple.checks import shown
from supple.errors import SuppleError

#: stage(u*, v*, τ) solves M (v⁺ − v*)/τ = F(u⁺, v⁺), u⁺ = u* + τ v⁺, and returns u⁺ and v⁺.
Stage = Callable[[Floats, Floats, float], tuple[Floats, Floats]]
#: Displacement, velocity and acceleration at the end of a step.
StepEnd = tuple[Floats, Floats, Floats]


class StepStart(NamedTuple):
    """State that a step starts from; arrays of any one shape."""

    u: Floats
    """Displacement."""
    v: Floats
    """Velocity."""
    a: Floats
    """Acceleration, for integrators that use it."""
    before: tuple[Floats, Floats] | None = None
    """Displacement and velocity one step of h earlier; None in the first step."""


#: step(stage, start, h) makes one step of h.
StepFunction = Callable[[Stage, StepStart, float], StepEnd]

#: Numbers by which the pose-space kernel knows integrators.
BACKWARD_EULER, NEWMARK, BDF2 = range(3)


@dataclass(frozen=True)
class Integrator:
    """Row of `INTEGRATORS`.

    Attributes
    ----------
    name, about
        Name for `integrator=`, and a line for people.
    step
        Function that makes one step of h out of implicit stages; see `StepFunction`.
    order
        Order of its error in h, where the rest shape does not accelerate.
    stage
        τ/h of its implicit stage; of the last where there are several.
    forces_at
        Part of the step, 0 to 1, at which its stages take the rest shape and what acts.
    looks_back
        Whether it uses displacement and velocity one step earlier.
    uses_acceleration
        Whether it uses the acceleration at the start of the step, so that the first one must be
        solved for.
    trapezoidal
        Whether it is (1 − τ/h) of an explicit step followed by one stage of τ.
    code
        Number in the pose-space kernel; −1 where that has no branch for it.
    """

    name: str
    about: str
    step: StepFunction
    order: int
    stage: float = 1.0
    forces_at: float = 1.0
    looks_back: bool = False
    uses_acceleration: bool = False
    trapezoidal: bool = False
    code: int = -1


def _backward_euler(stage: Stage, start: StepStart, h: float) -> StepEnd:
    u, v = stage(start.u, start.v, h)
    return u, v, (v - start.v) / h


def _newmark(stage: Stage, start: StepStart, h: float) -> StepEnd:
    half = 0.5 * h
    v_start = start.v + half * start.a
    u, v = stage(start.u + half * start.v, v_start, half)
    return u, v, (v - v_start) / half


def _midpoint(stage: Stage, start: StepStart, h: float) -> StepEnd:
    half = 0.5 * h
    u, v = stage(start.u, start.v, half)
    return 2 * u - start.u, 2 * v - start.v, (v - start.v) / half


def _bdf2(stage: Stage, start: StepStart, h: float) -> StepEnd:
    if start.before is None:  # a first step of first order leaves the method of second
        return _backward_euler(stage, start, h)
    tau, v_start = 2 * h / 3, (4 * start.v - start.before[1]) / 3
    u, v = stage((4 * start.u - start.before[0]) / 3, v_start, tau)
    return u, v, (v - v_start) / tau


#: Integrators by name, the most robust first. A new one is a function and a row.
INTEGRATORS: dict[str, Integrator] = {
    each.name: each
    for each in (
        Integrator(
            "backward-euler",
            "robust; damps on its own, the more the longer the step",
            _backward_euler,
            order=1,
            trapezoidal=True,
            code=BACKWARD_EULER,
        ),
        Integrator(
            "newmark",
            "second order, keeps energy",
            _newmark,
            order=2,
            stage=1 / 2,
            uses_acceleration=True,
            trapezoidal=True,
            code=NEWMARK,
        ),
        Integrator(
            "midpoint",
            "second order, keeps linear and angular momentum to rounding",
            _midpoint,
            order=2,
            stage=1 / 2,
            forces_at=1 / 2,
        ),
        Integrator(
            "bdf2",
            "second order, damps only what the step cannot resolve",
            _bdf2,
            order=2,
            stage=2 / 3,
            looks_back=True,
            code=BDF2,
        ),
    )
}


def integrator_named(
    name: Any, fits: Callable[[Integrator], bool] = lambda row: True
) -> Integrator:
    """Return the row of an integrator.

    Parameters
    ----------
    name
        As in `INTEGRATORS`.
    fits
        Which rows an engine can step with; by default all.

    Raises
    ------
    SuppleError
        For a name that is none of those; it lists them.

    Examples
    --------
    >>> integrator_named("newmark").order
    2
    """
    known = [each for each, row in INTEGRATORS.items() if fits(row)]
    if not isinstance(name, str) or name not in known:
        raise SuppleError(f"no integrator {shown(name, 40)}; there are {', '.join(known)}")
    return INTEGRATORS[name]
