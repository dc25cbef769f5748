"""One implicit stage makes all integrators.

Backward Euler is `stage(u, v, h)`. Implicit Newmark with β = ¼, γ = ½ (barbic2005 App. C) is
half an explicit step followed by a stage of h/2, and the implicit midpoint rule a stage of h/2
followed by as much again without forces:

==============  =====================  =======================================
backward Euler  (u, v, h)              (u⁺, v⁺)
Newmark         (u + ½hv, v + ½ha, ½h)  (u⁺, v⁺)
midpoint        (u, v, ½h)             (2u⁺ − u, 2v⁺ − v)
==============  =====================  =======================================

Newmark keeps energy well and, like the trapezoidal rule it is, momentum at
(u − ½hv, v − ½ha); midpoint keeps linear and angular momentum exactly.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["INTEGRATORS", "Stage", "advance"]

Floats = NDArray[np.float64]

#: stage(u*, v*, τ) solves M (v⁺ − v*)/τ = F(u⁺, v⁺), u⁺ = u* + τ v⁺.
Stage = Callable[[Floats, Floats, float], tuple[Floats, Floats]]

INTEGRATORS = ("backward-euler", "newmark", "midpoint")


def advance(
    integrator: str, stage: Stage, u: Floats, v: Floats, a: Floats, h: float
) -> tuple[Floats, Floats, Floats]:
    """One step of `h` from displacement u, velocity v, acceleration a; returns the new three."""
    if integrator == "backward-euler":
        u_new, v_new = stage(u, v, h)
        return u_new, v_new, (v_new - v) / h
    half = 0.5 * h
    if integrator == "newmark":
        v_start = v + half * a
        u_new, v_new = stage(u + half * v, v_start, half)
        return u_new, v_new, (v_new - v_start) / half
    u_middle, v_middle = stage(u, v, half)
    return 2 * u_middle - u, 2 * v_middle - v, (v_middle - v) / half
