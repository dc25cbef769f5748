"""Lagged Coulomb friction: forces and stiffness at contacts with the last step's pressure."""

from __future__ import annotations

import numpy as np

from supple.arrays import Floats
from supple.checks import checked_number
from supple.compiled.jit import compiled_fused_inline
from supple.errors import SuppleError

#: Speed in m/s below which friction is viscous. Sticking contacts creep: under half the largest
#: friction force at half of this speed. With a tenth of this speed, one Newton step does not
#: converge to the force.
STICKING = 0.01


@compiled_fused_inline
def friction_weight(mu, normal_force, slip_speed):  # type: ignore[no-untyped-def]
    """Return μ λ / max(|v|, ε) in N s/m: friction force for a unit of tangential velocity.

    The derivative of the force μ λ v/|v| is w (I − v vᵀ/|v|²). With w alone Newton's matrix stays
    positive definite; the force is above μ λ in a step that slips more than expected, and below in
    one that slips less.
    """
    return mu * max(normal_force, 0.0) / max(slip_speed, STICKING)


def friction_weights(mu: float, normal_forces: Floats, slip_speeds: Floats) -> Floats:
    """Return the `friction_weight` of many contacts, (k,)."""
    return mu * np.maximum(normal_forces, 0.0) / np.maximum(slip_speeds, STICKING)


def checked_friction(value: float) -> float:
    """Return a coefficient of friction, checked to be 0 to 10."""
    mu = checked_number("friction", value)
    if not 0.0 <= mu <= 10.0:
        raise SuppleError(f"friction is {mu:g}; give a coefficient from 0 to 10, such as 0.5")
    return mu
