"""The table of time integrators, which all engines read.

All have one implicit stage, which starts from a displacement u* and a velocity v* and lasts τ:
M (v⁺ − v*)/τ = F(u⁺, v⁺) with u⁺ = u* + τ v⁺. An integrator is given by the coefficients of its
start, u* = (c u − c⁻ u⁻)/d + λ v and v* = (c v − c⁻ v⁻)/d + λ a, and by τ:

==============  ===============================  =======================================
backward Euler  (u, v, h)                        (u⁺, v⁺)
Newmark         (u + ½hv, v + ½ha, ½h)           (u⁺, v⁺)
midpoint        (u, v, ½h)                       (2u⁺ − u, 2v⁺ − v)
BDF2            ((4u − u⁻)/3, (4v − v⁻)/3, ⅔h)   (u⁺, v⁺)
==============  ===============================  =======================================

Implicit Newmark has β = ¼, γ = ½ (barbic2005 App. C). It conserves energy well and, being the
trapezoidal rule, momentum at (u − ½hv, v − ½ha). Midpoint conserves linear and angular momentum
exactly. BDF2, the second backward differentiation formula, damps motion that the step cannot
resolve, as backward Euler does (both are L-stable), but damps resolved motion far less: with θ =
ωh, a mode loses θ⁴/4 of its amplitude a step, not θ²/2.

Here u⁻ and v⁻ are one step earlier, and a = (v − v*)/τ is of the last stage. A step of h after one
of h/ratio is consistent if c − c⁻ = d and λ + τ + (c⁻/d) h/ratio = h, and of second order if also
2τh = h² + (c⁻/d)(h/ratio)². A step multiplies motion that it cannot resolve by −λ/τ.

A new integrator is a function that returns `StageCoefficients`, and a row of `INTEGRATORS`, which
`register_integrator` adds. The engines full, pose-space, rig-space and soft-skeleton all read the
coefficients. Saint Venant–Kirchhoff bodies step the rows that are `trapezoidal`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from supple.arrays import Floats
from supple.checks import shown
from supple.errors import SuppleError

#: Weights of the earlier step and seconds of the lead below this are rounding, for a step of 1 s.
_ROUNDING = 1e-12

#: stage(u*, v*, τ) solves M (v⁺ − v*)/τ = F(u⁺, v⁺), u⁺ = u* + τ v⁺, and returns u⁺ and v⁺.
SolveStage = Callable[[Floats, Floats, float], tuple[Floats, Floats]]
#: Displacement, velocity and acceleration at the end of a step.
StepEnd = tuple[Floats, Floats, Floats]


class StepStart(NamedTuple):
    """State that a step starts from; arrays of any one shape."""

    u: Floats
    """Displacement."""
    v: Floats
    """Velocity."""
    a: Floats
    """Acceleration that the last step returned; at first 0, or the true one if there is a lead."""
    before: tuple[Floats, Floats] | None = None
    """Displacement and velocity one step of h earlier; None in the first step, and always for rows
    without `before`."""


class StageCoefficients(NamedTuple):
    """Implicit stage of a step: it starts at (now·u − before·u⁻)/divisor + lead·v and lasts tau."""

    now: float
    before: float
    divisor: float
    """Dimensionless weights of the state now and a step earlier."""
    lead: float
    """Duration of the explicit part of the step, in s."""
    tau: float
    """Duration of the implicit stage, in s."""


#: coefficients(h, ratio) of a step of h after one of h/ratio.
CoefficientFunction = Callable[[float, float], StageCoefficients]
#: step(stage, start, h) makes one step of h.
StepFunction = Callable[[SolveStage, StepStart, float], StepEnd]


@dataclass(frozen=True)
class Integrator:
    """Row of `INTEGRATORS`.

    Attributes
    ----------
    name, about
        Name for `integrator=`, and a one-line description.
    coefficients
        Function of h and of the ratio of h to the step before; returns `StageCoefficients`. Methods
        with `before` weights make their first step as backward Euler does.
    order
        Order p of its error in h, where the rest shape does not accelerate: halving h divides the
        error by 2ᵖ.
    error_constant
        Function of the ratio of h to the step before; returns C > 0 of the error C hᵖ⁺¹ |x⁽ᵖ⁺¹⁾|
        of a step, for adaptive steps. None for an integrator without such an estimate. For one
        stage, C = |(c⁻/d)/ratio³ + 3τ/h − 1|/6 if p = 2, and |2τ/h − 1 − (c⁻/d)/ratio²|/2 if p = 1.
    forces_at
        Time at which its stage evaluates the rest shape, as a fraction of the step. External forces
        are constant in a step.
    extrapolation
        Factor e of a step that ends at e u⁺ − (e − 1) u.
    several_stages
        Step function of a method with several stages, or whose formula the coefficients do not
        describe. Only the engine full and `ProjectedSimulator` accept it. Engines then use the
        coefficients only to decide whether to keep `StepStart.before` (if there is a `before`
        weight) and whether the first `StepStart.a` is the acceleration (if there is a `lead`).
    """

    name: str
    about: str
    coefficients: CoefficientFunction
    order: int
    error_constant: Callable[[float], float] | None = None
    forces_at: float = 1.0
    extrapolation: float = 1.0
    several_stages: StepFunction | None = None

    def first_coefficients(self, h: float) -> StageCoefficients:
        """Return the coefficients of the first step, which has no earlier state."""
        return _backward_euler(h, 1.0) if self.looks_back else self.coefficients(h, 1.0)

    def step(self, stage: SolveStage, start: StepStart, h: float) -> StepEnd:
        """Make one step of h on arrays; `stage` solves the implicit stages."""
        if self.several_stages is not None:
            return self.several_stages(stage, start, h)
        first = start.before is None
        coefficients = self.first_coefficients(h) if first else self.coefficients(h, 1.0)
        now, before, divisor, lead, tau = coefficients
        u, v = start.u, start.v
        if start.before is not None and before != 0:
            u, v = (
                (now * x - before * y) / divisor for x, y in zip((u, v), start.before, strict=True)
            )
        if lead != 0:
            u, v = u + lead * start.v, v + lead * start.a
        u_end, v_end = stage(u, v, tau)
        a_end = (v_end - v) / tau
        if self.extrapolation != 1:
            weight, back = self.extrapolation, self.extrapolation - 1
            u_end, v_end = weight * u_end - back * start.u, weight * v_end - back * start.v
        return u_end, v_end, a_end

    @property
    def stage(self) -> float:
        """Duration of the implicit stage as a fraction of the step, τ/h."""
        return self.coefficients(1.0, 1.0).tau

    @property
    def looks_back(self) -> bool:
        """Whether it uses displacement and velocity one step earlier."""
        unit = self.coefficients(1.0, 1.0)
        return abs(unit.before) > _ROUNDING * abs(unit.divisor)

    @property
    def uses_acceleration(self) -> bool:
        """Whether the integrator uses the acceleration at the start of the step (has a lead).

        A step multiplies motion that it cannot resolve by −lead/τ: −1 for Newmark, −⅔ for the
        θ-method with θ = 0.6, and 0 for methods without a lead.
        """
        return abs(self.coefficients(1.0, 1.0).lead) > _ROUNDING

    @property
    def compiled(self) -> bool:
        """Whether compiled engines support the integrator: one stage, forces at the step's end."""
        return self.forces_at == 1 and self.extrapolation == 1 and self.several_stages is None

    @property
    def trapezoidal(self) -> bool:
        """Whether a step is an explicit step of h − τ followed by one implicit stage of τ."""
        unit = self.coefficients(1.0, 1.0)
        consistent = abs(unit.lead + unit.tau - 1) < _ROUNDING
        return self.compiled and not self.looks_back and consistent


def _backward_euler(h: float, ratio: float) -> StageCoefficients:
    return StageCoefficients(now=1.0, before=0.0, divisor=1.0, lead=0.0, tau=h)


def _backward_euler_error(ratio: float) -> float:
    return 0.5


def _newmark(h: float, ratio: float) -> StageCoefficients:
    return StageCoefficients(now=1.0, before=0.0, divisor=1.0, lead=0.5 * h, tau=0.5 * h)


def _midpoint(h: float, ratio: float) -> StageCoefficients:
    return StageCoefficients(now=1.0, before=0.0, divisor=1.0, lead=0.0, tau=0.5 * h)


def _bdf2(h: float, ratio: float) -> StageCoefficients:
    more, divisor = 1.0 + ratio, 1.0 + 2.0 * ratio
    return StageCoefficients(more * more, ratio * ratio, divisor, lead=0.0, tau=more * h / divisor)


def _bdf2_error(ratio: float) -> float:
    return (1 + ratio) ** 2 / (6 * ratio * (1 + 2 * ratio))


#: Integrators by name, the most robust first. A new one is a function and a row.
INTEGRATORS: dict[str, Integrator] = {
    each.name: each
    for each in (
        Integrator(
            "backward-euler",
            "robust; its numerical damping grows with the step",
            _backward_euler,
            order=1,
            error_constant=_backward_euler_error,
        ),
        Integrator("newmark", "second order, conserves energy", _newmark, order=2),
        Integrator(
            "midpoint",
            "second order, conserves linear and angular momentum to rounding",
            _midpoint,
            order=2,
            forces_at=1 / 2,
            extrapolation=2.0,
        ),
        Integrator(
            "bdf2",
            "second order, damps only motion that the step cannot resolve",
            _bdf2,
            order=2,
            error_constant=_bdf2_error,
        ),
    )
}


def integrator_named(
    name: Any, fits: Callable[[Integrator], bool] = lambda row: True
) -> Integrator:
    """Return the row of an integrator in `INTEGRATORS` that satisfies the engine's condition
    `fits`; the error for another name lists the names.

    >>> integrator_named("newmark").order
    2
    """
    names = ", ".join(each for each, row in INTEGRATORS.items() if fits(row))
    if isinstance(name, Integrator):
        first = "" if name.name in INTEGRATORS else "call register_integrator with the row, then "
        raise SuppleError(f"an integrator is chosen by name; {first}use {name.name!r}")
    row = INTEGRATORS.get(name) if isinstance(name, str) else None
    if row is None:
        others = "register_integrator adds others, for one process"
        raise SuppleError(f"no integrator {shown(name, 40)}; there are {names}; {others}")
    if not fits(row):
        what = f"integrator {shown(name, 40)} {_peculiarity(row)}"
        raise SuppleError(f"{what}; this engine steps {names}")
    return row


def _peculiarity(row: Integrator) -> str:
    """Return the reason why some engines do not accept a row, as text for an error message."""
    if row.forces_at != 1:
        return "takes forces within the step"
    if row.several_stages is not None:
        return "has several stages"
    if row.extrapolation != 1:
        return "extrapolates the end of its stage"
    return "uses the step before" if row.looks_back else "has lead + tau other than h"


def compiled_integrator(name: Any) -> Integrator:
    """Return the row of an integrator that compiled engines can use."""
    return integrator_named(name, lambda row: row.compiled)
