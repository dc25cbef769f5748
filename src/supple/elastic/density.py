"""The five materials: energy density Ψ(F), stress P = ∂Ψ/∂F, and its derivative ∂P/∂F.

`F` is the 3×3 deformation gradient. `∂P/∂F` is 9×9, entry (3i+j, 3k+l) being ∂P_ij/∂F_kl.
`p` is one row of `Material.element_parameters`. All are Numba functions that allocate
nothing: results go into the caller's arrays, `scratch` is (6, 3, 3).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from supple.compiled import compiled_fused
from supple.elastic.stvk_density import stvk_derivative, stvk_stress
from supple.elastic.svd import rotation_svd

__all__ = ["energy_density", "stress", "stress_and_derivative", "stress_derivative"]

Floats = NDArray[np.float64]

STVK, NEO_HOOKEAN, COROTATIONAL, STVK_VOLUME, ORTHOTROPIC = range(5)

#: Beyond this exponent exp is continued by its second-order Taylor polynomial: C², no overflow.
_EXPONENT_LIMIT = 8.0
#: Smallest σᵢ + σⱼ for which the rotation of a corotational element is differentiated.
_SMALLEST_SUM = 1e-6


@compiled_fused
def energy_density(kind: int, F: Floats, p: Floats, scratch: Floats) -> float:
    """Ψ(F), zero at rest."""
    if kind == NEO_HOOKEAN:
        return _neo_hookean_energy(F, p[0], p[1])
    if kind == COROTATIONAL:
        sigma = scratch[3, 0]
        rotation_svd(F, scratch[0], sigma, scratch[1])
        a, b, c = sigma[0] - 1.0, sigma[1] - 1.0, sigma[2] - 1.0
        return p[0] * (a * a + b * b + c * c) + 0.5 * p[1] * (a + b + c) ** 2
    E = scratch[0]
    _green_strain(F, E)
    if kind == ORTHOTROPIC:
        exponent = _orthotropic_exponent(E, p, scratch[1], scratch[2])
        return 0.5 * p[9] * _exponential_less_one(exponent)
    squared = 0.0
    for i in range(3):
        for j in range(3):
            squared += E[i, j] ** 2
    if kind == STVK:
        return p[0] * squared + 0.5 * p[1] * (E[0, 0] + E[1, 1] + E[2, 2]) ** 2
    return 0.5 * p[0] * squared + 0.5 * p[1] * (1.0 - _determinant(F)) ** 2


@compiled_fused
def stress(kind: int, F: Floats, p: Floats, P: Floats, scratch: Floats) -> None:
    """First Piola–Kirchhoff stress P = ∂Ψ/∂F."""
    if kind == NEO_HOOKEAN:
        cofactor = scratch[0]
        _cofactor(F, cofactor)
        pull = p[0] * (1.0 - 1.0 / (_squared_norm(F) + 1.0))
        push = p[1] * (_determinant(F) - 1.0) - 0.75 * p[0]  # λ(J − α)
        for i in range(3):
            for j in range(3):
                P[i, j] = pull * F[i, j] + push * cofactor[i, j]
    elif kind == COROTATIONAL:
        R, sigma = scratch[2], scratch[3, 0]
        rotation_svd(F, scratch[0], sigma, scratch[1])
        _times_transposed(scratch[0], scratch[1], R)
        pull = p[1] * (sigma[0] + sigma[1] + sigma[2] - 3.0)
        for i in range(3):
            for j in range(3):
                P[i, j] = 2.0 * p[0] * (F[i, j] - R[i, j]) + pull * R[i, j]
    else:
        S = scratch[3]
        _second_piola(kind, F, p, S, scratch)
        _times(F, S, P)
        if kind == STVK_VOLUME:
            cofactor = scratch[0]
            _cofactor(F, cofactor)
            push = p[1] * (_determinant(F) - 1.0)
            for i in range(3):
                for j in range(3):
                    P[i, j] += push * cofactor[i, j]


@compiled_fused
def stress_and_derivative(
    kind: int, F: Floats, p: Floats, P: Floats, H: Floats, scratch: Floats
) -> None:
    """P and ∂P/∂F at once, which is quicker where they have parts in common."""
    if kind == STVK:
        stvk_stress(F, p[0], p[1], scratch[0], P)
        stvk_derivative(F, p[0], p[1], scratch[0], scratch[2], H)
    else:
        stress(kind, F, p, P, scratch)
        stress_derivative(kind, F, p, H, scratch)


@compiled_fused
def stress_derivative(kind: int, F: Floats, p: Floats, H: Floats, scratch: Floats) -> None:
    """∂P/∂F into the 9×9 `H`; symmetric."""
    if kind == NEO_HOOKEAN:
        _neo_hookean_derivative(F, p[0], p[1], H, scratch[0])
    elif kind == COROTATIONAL:
        _corotational_derivative(F, p[0], p[1], H, scratch)
    elif kind == ORTHOTROPIC:
        _orthotropic_derivative(F, p, H, scratch)
    else:
        mu = p[0] if kind == STVK else 0.5 * p[0]
        lam = p[1] if kind == STVK else 0.0
        stvk_stress(F, mu, lam, scratch[0], scratch[1])
        stvk_derivative(F, mu, lam, scratch[0], scratch[2], H)
        if kind == STVK_VOLUME:
            _add_volume_derivative(F, p[1], p[1] * (_determinant(F) - 1.0), H, scratch[0])


# --- Saint Venant–Kirchhoff and its volume-penalised cousin ---------------------------------


@compiled_fused
def _second_piola(kind: int, F: Floats, p: Floats, S: Floats, scratch: Floats) -> None:
    """S with P = F S; without the volume penalty of hahn2013."""
    E = scratch[0]
    _green_strain(F, E)
    if kind == ORTHOTROPIC:
        exponent = _orthotropic_exponent(E, p, scratch[1], scratch[2])
        growth = _exponential_less_one(exponent, 1)
        _rotate_out(p, scratch[2], scratch[1], S)
        for i in range(3):
            for j in range(3):
                S[i, j] *= growth
        return
    twice_mu = 2.0 * p[0] if kind == STVK else p[0]
    pressure = p[1] * (E[0, 0] + E[1, 1] + E[2, 2]) if kind == STVK else 0.0
    for i in range(3):
        for j in range(3):
            S[i, j] = twice_mu * E[i, j]
        S[i, i] += pressure


@compiled_fused
def _add_volume_derivative(
    F: Floats, stiffness: float, push: float, H: Floats, cofactor: Floats
) -> None:
    """Add the derivative of push(J)·cof F, where stiffness = ∂push/∂J."""
    _cofactor(F, cofactor)
    for i in range(3):
        for j in range(3):
            row, scaled = H[3 * i + j], stiffness * cofactor[i, j]
            for k in range(3):
                for l in range(3):
                    row[3 * k + l] += scaled * cofactor[k, l]
    # ∂cof_ij/∂F_kl = ε_ikm ε_jln F_mn: six non-zeros a row pair.
    for i in range(3):
        for j in range(3):
            i1, i2, j1, j2 = (i + 1) % 3, (i + 2) % 3, (j + 1) % 3, (j + 2) % 3
            row = H[3 * i + j]
            row[3 * i1 + j1] += push * F[i2, j2]
            row[3 * i2 + j2] += push * F[i1, j1]
            row[3 * i1 + j2] -= push * F[i2, j1]
            row[3 * i2 + j1] -= push * F[i1, j2]


# --- Stable neo-Hookean (Smith et al. 2018, eq. 14), with α = 1 + ¾ μ/λ -----------------------


@compiled_fused
def _neo_hookean_energy(F: Floats, mu: float, lam: float) -> float:
    """Its value at rest is taken off, so that rest has zero energy."""
    growth = _squared_norm(F) - 3.0
    volume = _determinant(F) - 1.0
    # ½λ(J − α)² − ½λ(1 − α)² = ½λ(J − 1)² − ¾μ(J − 1): no large numbers that cancel.
    return (
        0.5 * mu * (growth - math.log1p(0.25 * growth)) + 0.5 * lam * volume**2 - 0.75 * mu * volume
    )


@compiled_fused
def _neo_hookean_derivative(F: Floats, mu: float, lam: float, H: Floats, scratch: Floats) -> None:
    inverse = 1.0 / (_squared_norm(F) + 1.0)
    pull, twice = mu * (1.0 - inverse), 2.0 * mu * inverse * inverse
    for i in range(3):
        for j in range(3):
            row, scaled = H[3 * i + j], twice * F[i, j]
            for k in range(3):
                for l in range(3):
                    row[3 * k + l] = scaled * F[k, l]
            row[3 * i + j] += pull
    _add_volume_derivative(F, lam, lam * (_determinant(F) - 1.0) - 0.75 * mu, H, scratch)


# --- Corotational linear -----------------------------------------------------------------------


@compiled_fused
def _corotational_derivative(F: Floats, mu: float, lam: float, H: Floats, scratch: Floats) -> None:
    U, V, R, sigma = scratch[0], scratch[1], scratch[2], scratch[3, 0]
    rotation_svd(F, U, sigma, V)
    _times_transposed(U, V, R)
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


# --- Orthotropic Fung: Ψ = c/2 (exp Q − 1), Q = E : C : E / c (tapia2021 §4.1) -----------------


@compiled_fused
def _exponential_less_one(x: float, order: int = 0) -> float:
    """exp(x) − 1, or its first or second derivative; quadratic beyond the limit."""
    if x <= _EXPONENT_LIMIT:
        return math.expm1(x) if order == 0 else math.exp(x)
    top, beyond = math.exp(_EXPONENT_LIMIT), x - _EXPONENT_LIMIT
    if order == 0:
        return top * (1.0 + beyond + 0.5 * beyond * beyond) - 1.0
    return top * (1.0 + beyond) if order == 1 else top


@compiled_fused
def _orthotropic_exponent(E: Floats, p: Floats, local: Floats, T: Floats) -> float:
    """Q, with T = C : E in the material's axes; `local` is scratch."""
    A = p[10:19].reshape(3, 3)
    for i in range(3):  # local ← E A
        for j in range(3):
            local[i, j] = E[i, 0] * A[0, j] + E[i, 1] * A[1, j] + E[i, 2] * A[2, j]
    for i in range(3):  # T ← Aᵀ E A
        for j in range(3):
            T[i, j] = A[0, i] * local[0, j] + A[1, i] * local[1, j] + A[2, i] * local[2, j]
    for i in range(3):
        for j in range(3):
            local[i, j] = T[i, j]
    _apply_orthotropic(p, local, T)
    exponent = 0.0
    for i in range(3):
        for j in range(3):
            exponent += local[i, j] * T[i, j]
    return exponent / p[9]


@compiled_fused
def _apply_orthotropic(p: Floats, E: Floats, T: Floats) -> None:
    """T = C : E for symmetric E, both in the material's axes."""
    T[0, 0] = p[0] * E[0, 0] + p[5] * E[1, 1] + p[4] * E[2, 2]
    T[1, 1] = p[5] * E[0, 0] + p[1] * E[1, 1] + p[3] * E[2, 2]
    T[2, 2] = p[4] * E[0, 0] + p[3] * E[1, 1] + p[2] * E[2, 2]
    T[1, 2] = T[2, 1] = 2.0 * p[6] * E[1, 2]
    T[0, 2] = T[2, 0] = 2.0 * p[7] * E[0, 2]
    T[0, 1] = T[1, 0] = 2.0 * p[8] * E[0, 1]


@compiled_fused
def _rotate_out(p: Floats, T: Floats, work: Floats, S: Floats) -> None:
    """S = A T Aᵀ: from the material's axes to the body's."""
    A = p[10:19].reshape(3, 3)
    _times(A, T, work)
    _times_transposed(work, A, S)


@compiled_fused
def _orthotropic_derivative(F: Floats, p: Floats, H: Floats, scratch: Floats) -> None:
    """DP = dF S + F dS, dS = g′ C:dE + (2/c) g″ (C:E)(C:E : dE), column by column."""
    FA, work, T, S, dE, dS = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4], scratch[5]
    _green_strain(F, S)
    exponent = _orthotropic_exponent(S, p, work, T)
    growth = _exponential_less_one(exponent, 1)
    bend = 2.0 / p[9] * _exponential_less_one(exponent, 2)
    A = p[10:19].reshape(3, 3)
    _rotate_out(p, T, work, S)
    _times(F, A, FA)
    for k in range(3):
        for l in range(3):
            along = 0.0  # C:E : dE for dF = e_k e_lᵀ, in the material's axes like dE and dS
            for i in range(3):
                for j in range(3):
                    dE[i, j] = 0.5 * (FA[k, i] * A[l, j] + A[l, i] * FA[k, j])
                    along += T[i, j] * dE[i, j]
            _apply_orthotropic(p, dE, dS)
            for i in range(3):
                for j in range(3):
                    dS[i, j] = growth * dS[i, j] + bend * along * T[i, j]
            _times(FA, dS, work)
            for i in range(3):
                for j in range(3):
                    value = work[i, 0] * A[j, 0] + work[i, 1] * A[j, 1] + work[i, 2] * A[j, 2]
                    if i == k:
                        value += growth * S[j, l]
                    H[3 * i + j, 3 * k + l] = value


# --- 3×3 matrices ------------------------------------------------------------------------------


@compiled_fused
def _green_strain(F: Floats, E: Floats) -> None:
    """E = ½(FᵀF − I)."""
    for i in range(3):
        for j in range(3):
            E[i, j] = 0.5 * (F[0, i] * F[0, j] + F[1, i] * F[1, j] + F[2, i] * F[2, j])
        E[i, i] -= 0.5


@compiled_fused
def _cofactor(F: Floats, C: Floats) -> None:
    """∂ det F / ∂F."""
    for i in range(3):
        for j in range(3):
            i1, i2, j1, j2 = (i + 1) % 3, (i + 2) % 3, (j + 1) % 3, (j + 2) % 3
            C[i, j] = F[i1, j1] * F[i2, j2] - F[i1, j2] * F[i2, j1]


@compiled_fused
def _determinant(F: Floats) -> float:
    return (
        F[0, 0] * (F[1, 1] * F[2, 2] - F[1, 2] * F[2, 1])
        + F[0, 1] * (F[1, 2] * F[2, 0] - F[1, 0] * F[2, 2])
        + F[0, 2] * (F[1, 0] * F[2, 1] - F[1, 1] * F[2, 0])
    )


@compiled_fused
def _squared_norm(F: Floats) -> float:
    total = 0.0
    for i in range(3):
        for j in range(3):
            total += F[i, j] * F[i, j]
    return total


@compiled_fused
def _times(A: Floats, B: Floats, C: Floats) -> None:
    for i in range(3):
        for j in range(3):
            C[i, j] = A[i, 0] * B[0, j] + A[i, 1] * B[1, j] + A[i, 2] * B[2, j]


@compiled_fused
def _times_transposed(A: Floats, B: Floats, C: Floats) -> None:
    for i in range(3):
        for j in range(3):
            C[i, j] = A[i, 0] * B[j, 0] + A[i, 1] * B[j, 1] + A[i, 2] * B[j, 2]
