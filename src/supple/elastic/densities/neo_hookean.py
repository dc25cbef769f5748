"""Stable neo-Hookean: Ψ = ½ μ (I − 3) − ½ μ log((I + 1)/4) + ½ λ (J − α)², α = 1 + ¾ μ/λ.

Smith et al. 2018, eq. 14, with I = F:F and J = det F; the value at rest is subtracted.
"""

from __future__ import annotations

import math

from supple.arrays import Floats
from supple.compiled.jit import compiled_fused, compiled_fused_inline
from supple.elastic.densities.density import Density
from supple.maths.small_matrices import cofactors, determinant, squared_norm


@compiled_fused
def add_volume_derivative(
    F: Floats, stiffness: float, push: float, H: Floats, cofactor: Floats
) -> None:
    """Add the derivative of push(J)·cof F by F to H (9, 9), where stiffness = ∂push/∂J."""
    cofactors(F, cofactor)
    for i in range(3):
        for j in range(3):
            row, scaled = H[3 * i + j], stiffness * cofactor[i, j]
            for k in range(3):
                for l in range(3):
                    row[3 * k + l] += scaled * cofactor[k, l]
    # ∂cof_ij/∂F_kl = ε_ikm ε_jln F_mn: six non-zeros per pair of rows.
    for i in range(3):
        for j in range(3):
            i1, i2, j1, j2 = (i + 1) % 3, (i + 2) % 3, (j + 1) % 3, (j + 2) % 3
            row = H[3 * i + j]
            row[3 * i1 + j1] += push * F[i2, j2]
            row[3 * i2 + j2] += push * F[i1, j1]
            row[3 * i1 + j2] -= push * F[i2, j1]
            row[3 * i2 + j1] -= push * F[i1, j2]


@compiled_fused
def _energy(F: Floats, p: Floats, scratch: Floats) -> float:
    mu, lam = p[0], p[1]
    growth = squared_norm(F) - 3.0
    volume = determinant(F) - 1.0
    # ½λ(J − α)² − ½λ(1 − α)² = ½λ(J − 1)² − ¾μ(J − 1): without cancellation of large numbers.
    return (
        0.5 * mu * (growth - math.log1p(0.25 * growth)) + 0.5 * lam * volume**2 - 0.75 * mu * volume
    )


@compiled_fused_inline
def _stress(F: Floats, p: Floats, P: Floats, scratch: Floats) -> None:
    cofactor = scratch[0]
    cofactors(F, cofactor)
    pull = p[0] * (1.0 - 1.0 / (squared_norm(F) + 1.0))
    push = p[1] * (determinant(F) - 1.0) - 0.75 * p[0]  # λ(J − α)
    for i in range(3):
        for j in range(3):
            P[i, j] = pull * F[i, j] + push * cofactor[i, j]


@compiled_fused_inline
def _stress_derivative(F: Floats, p: Floats, H: Floats, scratch: Floats) -> None:
    mu, lam = p[0], p[1]
    inverse = 1.0 / (squared_norm(F) + 1.0)
    pull, twice = mu * (1.0 - inverse), 2.0 * mu * inverse * inverse
    for i in range(3):
        for j in range(3):
            row, scaled = H[3 * i + j], twice * F[i, j]
            for k in range(3):
                for l in range(3):
                    row[3 * k + l] = scaled * F[k, l]
            row[3 * i + j] += pull
    add_volume_derivative(F, lam, lam * (determinant(F) - 1.0) - 0.75 * mu, H, scratch[0])


def _constants(mu: Floats, lam: Floats) -> tuple[Floats, Floats]:
    # Smith et al. 2018, §3.4: the rest-stable energy has other small-strain constants.
    return 4 / 3 * mu, lam + 5 / 6 * mu


NEO_HOOKEAN = Density(
    "neo-hookean",
    _energy,
    _stress,
    _stress_derivative,
    constants=_constants,
    resists_inversion=True,
)
