"""Saint Venant–Kirchhoff: Ψ = μ E:E + ½ λ tr(E)², stress and derivative together.

Written without branches: these are the innermost loops of every step.
"""

from __future__ import annotations

from supple.arrays import Floats
from supple.compiled.jit import compiled_fused

__all__ = ["stvk_derivative", "stvk_stress"]


@compiled_fused
def stvk_stress(F: Floats, mu: float, lam: float, S: Floats, P: Floats) -> None:
    """P = F S, and the second stress S = 2 μ E + λ tr(E) I."""
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
def stvk_derivative(F: Floats, mu: float, lam: float, S: Floats, B: Floats, H: Floats) -> None:
    """∂P/∂F into the 9×9 `H`, with S from `stvk_stress`; `B` (3, 3) is scratch.

    ∂P_ij/∂F_kl = λ F_ij F_kl + μ F_il F_kj + μ δ_jl (F Fᵀ)_ik + δ_ik S_jl.
    """
    for i in range(3):
        for j in range(3):
            B[i, j] = mu * (F[i, 0] * F[j, 0] + F[i, 1] * F[j, 1] + F[i, 2] * F[j, 2])
    for i in range(3):
        for j in range(3):
            own = lam * F[i, j]
            for k in range(3):
                across = mu * F[k, j]
                for l in range(3):
                    H[3 * i + j, 3 * k + l] = own * F[k, l] + across * F[i, l]
    for i in range(3):
        for j in range(3):
            for k in range(3):
                H[3 * i + j, 3 * k + j] += B[i, k]
                H[3 * i + j, 3 * i + k] += S[j, k]
