"""One implicit stage makes all integrators.

Backward Euler is `stage(u, v, h)`. Implicit Newmark with β = ¼, γ = ½ (barbic2005 App. C) is
half an explicit step followed by a stage of h/2, the implicit midpoint rule a stage of h/2
followed by as much again without forces, and the second backward differentiation formula a
stage of 2h/3 from a start that looks back one more step:

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
"""

from __future__ import annotations

from collections.abc import Callable

from supple.arrays import Floats

__all__ = ["INTEGRATORS", "Stage", "advance"]


#: stage(u*, v*, τ) solves M (v⁺ − v*)/τ = F(u⁺, v⁺), u⁺ = u* + τ v⁺.
Stage = Callable[[Floats, Floats, float], tuple[Floats, Floats]]

INTEGRATORS = ("backward-euler", "newmark", "midpoint", "bdf2")


def advance(
    integrator: str,
    stage: Stage,
    u: Floats,
    v: Floats,
    a: Floats,
    h: float,
    before: tuple[Floats, Floats] | None = None,
) -> tuple[Floats, Floats, Floats]:
    """One step of `h` from displacement u, velocity v, acceleration a; returns the new three.

    `before` are u⁻ and v⁻ one step of `h` earlier, which only BDF2 looks at. Without, as at the
    start, it makes a step of backward Euler, which leaves it of second order.
    """
    if integrator == "backward-euler" or (integrator == "bdf2" and before is None):
        u_new, v_new = stage(u, v, h)
        return u_new, v_new, (v_new - v) / h
    if integrator == "bdf2":
        assert before is not None
        tau, v_start = 2 * h / 3, (4 * v - before[1]) / 3
        u_new, v_new = stage((4 * u - before[0]) / 3, v_start, tau)
        return u_new, v_new, (v_new - v_start) / tau
    half = 0.5 * h
    if integrator == "newmark":
        v_start = v + half * a
        u_new, v_new = stage(u + half * v, v_start, half)
        return u_new, v_new, (v_new - v_start) / half
    u_middle, v_middle = stage(u, v, half)
    return 2 * u_middle - u, 2 * v_middle - v, (v_middle - v) / half
