"""Corotational linear: Ψ = μ |F − R|² + ½ λ tr(RᵀF − I)², R the rotation nearest to F."""

from __future__ import annotations

import math

from supple.arrays import Floats
from supple.compiled.jit import compiled_fused
from supple.maths.small_matrices import times_transposed
from supple.maths.svd import rotation_svd

__all__ = ["corotational_derivative"]


#: Smallest σᵢ + σⱼ for which the rotation of a corotational element is differentiated.
_SMALLEST_SUM = 1e-6


@compiled_fused
def corotational_derivative(F: Floats, mu: float, lam: float, H: Floats, scratch: Floats) -> None:
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
