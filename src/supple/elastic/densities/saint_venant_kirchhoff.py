"""Saint Venant–Kirchhoff: Ψ = μ E:E + ½ λ tr(E)², E = ½(FᵀF − I)."""

from __future__ import annotations

from supple.arrays import Floats
from supple.compiled.jit import compiled_fused, compiled_fused_inline
from supple.elastic.densities.density import Density
from supple.maths.small_matrices import green_strain, times


@compiled_fused
def squared_strain(E: Floats) -> float:
    """Return E:E."""
    squared = 0.0
    for i in range(3):
        for j in range(3):
            squared += E[i, j] ** 2
    return squared


# Stress and derivative together have no branches: they are the innermost loops of every step.


@compiled_fused
def green_stress(F: Floats, mu: float, lam: float, S: Floats, P: Floats) -> None:
    """Write the second Piola–Kirchhoff stress S = 2 μ E + λ tr(E) I, and P = F S."""
    for i in range(3):
        for j in range(3):
            S[i, j] = F[0, i] * F[0, j] + F[1, i] * F[1, j] + F[2, i] * F[2, j]
        S[i, i] -= 1.0
    pressure = 0.5 * lam * (S[0, 0] + S[1, 1] + S[2, 2])
    for i in range(3):
        for j in range(3):
            S[i, j] *= mu
        S[i, i] += pressure
    for i in range(3):
        for j in range(3):
            P[i, j] = F[i, 0] * S[0, j] + F[i, 1] * S[1, j] + F[i, 2] * S[2, j]


@compiled_fused
def green_derivative(F: Floats, mu: float, lam: float, S: Floats, B: Floats, H: Floats) -> None:
    """Write ∂P/∂F to `H` (9, 9), with S from `green_stress`; `B` (3, 3) is scratch.
    ∂P_ij/∂F_kl = λ F_ij F_kl + μ F_il F_kj + μ δ_jl (F Fᵀ)_ik + δ_ik S_jl.
    """
    for i in range(3):
        for j in range(3):
            B[i, j] = mu * (F[i, 0] * F[j, 0] + F[i, 1] * F[j, 1] + F[i, 2] * F[j, 2])
    for i in range(3):
        for j in range(3):
            scaled_entry = lam * F[i, j]
            for k in range(3):
                across = mu * F[k, j]
                for l in range(3):
                    H[3 * i + j, 3 * k + l] = scaled_entry * F[k, l] + across * F[i, l]
    for i in range(3):
        for j in range(3):
            for k in range(3):
                H[3 * i + j, 3 * k + j] += B[i, k]
                H[3 * i + j, 3 * i + k] += S[j, k]


@compiled_fused
def _energy(F: Floats, p: Floats, scratch: Floats) -> float:
    E = scratch[0]
    green_strain(F, E)
    return p[0] * squared_strain(E) + 0.5 * p[1] * (E[0, 0] + E[1, 1] + E[2, 2]) ** 2


@compiled_fused_inline
def _stress(F: Floats, p: Floats, P: Floats, scratch: Floats) -> None:
    E, S = scratch[0], scratch[3]
    green_strain(F, E)
    twice_mu = 2.0 * p[0]
    pressure = p[1] * (E[0, 0] + E[1, 1] + E[2, 2])
    for i in range(3):
        for j in range(3):
            S[i, j] = twice_mu * E[i, j]
        S[i, i] += pressure
    times(F, S, P)


@compiled_fused_inline
def _stress_derivative(F: Floats, p: Floats, H: Floats, scratch: Floats) -> None:
    green_stress(F, p[0], p[1], scratch[0], scratch[1])
    green_derivative(F, p[0], p[1], scratch[0], scratch[2], H)


@compiled_fused_inline
def _stress_and_derivative(F: Floats, p: Floats, P: Floats, H: Floats, scratch: Floats) -> None:
    green_stress(F, p[0], p[1], scratch[0], P)
    green_derivative(F, p[0], p[1], scratch[0], scratch[2], H)


def _constants(mu: Floats, lam: Floats) -> tuple[Floats, Floats]:
    return mu, lam


STVK = Density(
    "stvk",
    _energy,
    _stress,
    _stress_derivative,
    _stress_and_derivative,
    constants=_constants,
    quartic=True,
)
