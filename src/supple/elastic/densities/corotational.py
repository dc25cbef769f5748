"""Corotational linear: Ψ = μ |F − R|² + ½ λ tr(RᵀF − I)², R the rotation nearest to F."""

from __future__ import annotations

import math

from supple.arrays import Floats
from supple.compiled.jit import compiled_fused, compiled_fused_inline
from supple.elastic.densities.density import Density
from supple.maths.small_matrices import rotation_svd, times_transposed

#: Smallest σᵢ + σⱼ for which the rotation of a corotational element is differentiated.
_SMALLEST_SUM = 1e-6


@compiled_fused
def _energy(F: Floats, p: Floats, scratch: Floats) -> float:
    sigma = scratch[3, 0]
    rotation_svd(F, scratch[0], sigma, scratch[1])
    a, b, c = sigma[0] - 1.0, sigma[1] - 1.0, sigma[2] - 1.0
    return p[0] * (a * a + b * b + c * c) + 0.5 * p[1] * (a + b + c) ** 2


@compiled_fused_inline
def _stress(F: Floats, p: Floats, P: Floats, scratch: Floats) -> None:
    R, sigma = scratch[2], scratch[3, 0]
    rotation_svd(F, scratch[0], sigma, scratch[1])
    times_transposed(scratch[0], scratch[1], R)
    pull = p[1] * (sigma[0] + sigma[1] + sigma[2] - 3.0)
    for i in range(3):
        for j in range(3):
            P[i, j] = 2.0 * p[0] * (F[i, j] - R[i, j]) + pull * R[i, j]


@compiled_fused_inline
def _stress_derivative(F: Floats, p: Floats, H: Floats, scratch: Floats) -> None:
    mu, lam = p[0], p[1]
    U, V, R, sigma = scratch[0], scratch[1], scratch[2], scratch[3, 0]
    rotation_svd(F, U, sigma, V)
    times_transposed(U, V, R)
    for i in range(9):
        for j in range(9):
            H[i, j] = lam * R[i // 3, i % 3] * R[j // 3, j % 3]
        H[i, i] += 2.0 * mu
    # ∂R/∂F = Σ 2/(σᵢ + σⱼ) t tᵀ over the three twists t = (uᵢvⱼᵀ − uⱼvᵢᵀ)/√2.
    factor = lam * (sigma[0] + sigma[1] + sigma[2] - 3.0) - 2.0 * mu
    for a in range(3):
        b = (a + 1) % 3
        total = sigma[a] + sigma[b]
        if abs(total) < _SMALLEST_SUM:
            total = math.copysign(_SMALLEST_SUM, total)
        weight = factor / total
        for i in range(9):
            twist = U[i // 3, a] * V[i % 3, b] - U[i // 3, b] * V[i % 3, a]
            for j in range(9):
                other = U[j // 3, a] * V[j % 3, b] - U[j // 3, b] * V[j % 3, a]
                H[i, j] += weight * twist * other


def _constants(mu: Floats, lam: Floats) -> tuple[Floats, Floats]:
    return mu, lam


COROTATIONAL = Density(
    "corotational",
    _energy,
    _stress,
    _stress_derivative,
    constants=_constants,
    resists_inversion=True,
)
