"""Custom material: Ψ = ½ μ (F:F − 3) − μ log J + ½ λ (log J)², J = det F."""

import math

import numpy as np

from supple.compiled.jit import compiled_fused
from supple.elastic import Density
from supple.maths.small_matrices import cofactors, determinant, squared_norm


@compiled_fused
def energy(F, p, scratch):
    log = math.log(determinant(F))
    return 0.5 * p[0] * (squared_norm(F) - 3.0) - p[0] * log + 0.5 * p[1] * log * log


@compiled_fused
def stress(F, p, P, scratch):
    """P = μ F + (λ log J − μ) G, with G = F⁻ᵀ."""
    G, J = scratch[0], determinant(F)
    cofactors(F, G)
    for i in range(3):
        for j in range(3):
            P[i, j] = p[0] * F[i, j] + (p[1] * math.log(J) - p[0]) * G[i, j] / J


@compiled_fused
def stress_derivative(F, p, H, scratch):
    """∂P_ij/∂F_kl = μ δ_ik δ_jl + λ G_ij G_kl + (μ − λ log J) G_il G_kj."""
    G, J = scratch[0], determinant(F)
    cofactors(F, G)
    for i, j, k, l in np.ndindex(3, 3, 3, 3):
        H[3 * i + j, 3 * k + l] = p[1] * G[i, j] * G[k, l] / J**2
        H[3 * i + j, 3 * k + l] += (p[0] - p[1] * math.log(J)) * G[i, l] * G[k, j] / J**2
    for i in range(9):
        H[i, i] += p[0]


LOG_NEO_HOOKEAN = Density(
    "log-neo-hookean", energy, stress, stress_derivative, constants=lambda mu, lam: (mu, lam)
)
