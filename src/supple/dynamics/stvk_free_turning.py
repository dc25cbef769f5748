"""How a free body's inertia follows its shape, and rotations, inside compiled loops.

Six numbers are a symmetric matrix (xx, yy, zz, xy, xz, yz), four a unit quaternion (x, y, z, w)
that turns the body's frame into the world's.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from supple.compiled import compiled_fused, compiled_sums
from supple.reduction.rigid_integrals import RigidMoments

__all__ = [
    "COUPLING",
    "INERTIA_SLOPES",
    "SUM_ROWS",
    "TWISTS",
    "evaluate_turning",
    "into_body",
    "into_world",
    "moment_arrays",
    "quadratic_form",
    "solve_inertia",
    "turned",
]

Floats = NDArray[np.float64]

#: First rows of what `evaluate_turning` makes: h, ∂I/∂q, and Σ v_i h₁[:, i].
COUPLING, INERTIA_SLOPES, TWISTS = 0, 3, 9
SUM_ROWS = 12
_ENTRIES = (0, 1, 2, 0, 0, 1), (0, 1, 2, 1, 2, 2)


def moment_arrays(moments: RigidMoments) -> tuple[Floats, Floats, Floats]:
    """As a step reads them: (r, 9r) what multiplies q_i, (9, r) what is added, and I₀."""
    r = len(moments.shape_mass)
    constant, linear, quadratic = moments.inertia_terms
    table = np.empty((r, 9, r))
    table[:, :3] = moments.coupling_terms[1].swapaxes(0, 1)
    table[:, 3:] = quadratic[_ENTRIES].swapaxes(0, 1)
    base = np.vstack([moments.coupling_terms[0], linear[_ENTRIES]])
    return table.reshape(r, 9 * r), base, constant[_ENTRIES].copy()


@compiled_sums
def evaluate_turning(q, v, table, base, inertia_0, sums, inertia):  # type: ignore[no-untyped-def]
    """h, ∂I/∂q and Σ v_i h₁[:, i] into `sums` (12, r), and I into `inertia`, at q."""
    r = len(q)
    flat = sums.reshape(12 * r)
    flat[:] = 0.0
    products, twists = flat[: 9 * r], flat[9 * r :]
    for i in range(r):
        row, factor, speed = table[i], q[i], v[i]
        for j in range(len(products)):
            products[j] += factor * row[j]
        for j in range(len(twists)):
            twists[j] += speed * row[j]
    for k in range(3):
        own, constant = sums[k], base[k]
        for j in range(r):
            own[j] += constant[j]
    for k in range(3, 9):
        own, slope, total = sums[k], base[k], 0.0
        for j in range(r):
            total += q[j] * (slope[j] + own[j])
            own[j] = slope[j] + 2.0 * own[j]
        inertia[k - 3] = inertia_0[k - 3] + total


@compiled_fused
def quadratic_form(x, slopes, j):  # type: ignore[no-untyped-def]
    """X·A x of the symmetric matrices in rows of `slopes`, column j."""
    own = x[0] * x[0] * slopes[0, j] + x[1] * x[1] * slopes[1, j] + x[2] * x[2] * slopes[2, j]
    mixed = x[0] * x[1] * slopes[3, j] + x[0] * x[2] * slopes[4, j] + x[1] * x[2] * slopes[5, j]
    return own + 2.0 * mixed


@compiled_fused
def solve_inertia(inertia, x):  # type: ignore[no-untyped-def]
    """X ← I⁻¹ x, by I = L D Lᵀ."""
    a, b, c = inertia[0], inertia[1], inertia[2]
    d, e, f = inertia[3], inertia[4], inertia[5]
    l10, l20 = d / a, e / a
    d1 = b - l10 * d
    g = f - l20 * d
    l21 = g / d1
    d2 = c - l20 * e - l21 * g
    y1 = x[1] - l10 * x[0]
    z = (x[2] - l20 * x[0] - l21 * y1) / d2
    y = y1 / d1 - l21 * z
    x[0], x[1], x[2] = x[0] / a - l10 * y - l20 * z, y, z


@compiled_fused
def turned(turn, angular, time, out):  # type: ignore[no-untyped-def]
    """A turn after `time` of angular velocity in its own frame, by Cayley's map.

    The angle is 2 atan(ωt/2) rather than ωt: third order in t, and just what keeps the energy of
    a rigid body as well as its momentum.
    """
    x, y, z = 0.5 * time * angular[0], 0.5 * time * angular[1], 0.5 * time * angular[2]
    i, j, k, w = turn[0], turn[1], turn[2], turn[3]
    a, b, c = i + w * x + j * z - k * y, j + w * y + k * x - i * z, k + w * z + i * y - j * x
    d = w - i * x - j * y - k * z
    scale = 1.0 / np.sqrt(a * a + b * b + c * c + d * d)
    out[0], out[1], out[2], out[3] = a * scale, b * scale, c * scale, d * scale


@compiled_fused
def into_world(turn, vector, out):  # type: ignore[no-untyped-def]
    """R v; `out` may be the vector."""
    _rotated(turn[0], turn[1], turn[2], turn[3], vector, out)


@compiled_fused
def into_body(turn, vector, out):  # type: ignore[no-untyped-def]
    """Rᵀ v; `out` may be the vector."""
    _rotated(-turn[0], -turn[1], -turn[2], turn[3], vector, out)


@compiled_fused
def _rotated(i, j, k, w, vector, out):  # type: ignore[no-untyped-def]
    x, y, z = vector[0], vector[1], vector[2]
    a, b, c = 2.0 * (j * z - k * y), 2.0 * (k * x - i * z), 2.0 * (i * y - j * x)
    out[0] = x + w * a + j * c - k * b
    out[1] = y + w * b + k * a - i * c
    out[2] = z + w * c + i * b - j * a
