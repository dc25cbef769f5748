"""Orthotropic Fung: Ψ = c/2 (exp Q − 1), Q = E : C : E / c (tapia2021 §4.1)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats
from supple.compiled.jit import compiled_fused, compiled_fused_inline
from supple.elastic.densities.density import Density, per_element
from supple.errors import SuppleError
from supple.maths.small_matrices import green_strain, times, times_transposed

#: Beyond this exponent exp is continued by its second-order Taylor polynomial: C², no overflow.
_EXPONENT_LIMIT = 8.0


@compiled_fused
def _exponential_less_one(x: float, order: int = 0) -> float:
    """Return exp(x) − 1, or its first or second derivative; quadratic beyond the limit."""
    if x <= _EXPONENT_LIMIT:
        return math.expm1(x) if order == 0 else math.exp(x)
    top, beyond = math.exp(_EXPONENT_LIMIT), x - _EXPONENT_LIMIT
    if order == 0:
        return top * (1.0 + beyond + 0.5 * beyond * beyond) - 1.0
    return top * (1.0 + beyond) if order == 1 else top


@compiled_fused
def fung_exponent(E: Floats, p: Floats, local: Floats, T: Floats) -> float:
    """Return Q = E : C : E / c; write T = C : E in the material's axes; `local` is scratch."""
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
    _apply_stiffness(p, local, T)
    exponent = 0.0
    for i in range(3):
        for j in range(3):
            exponent += local[i, j] * T[i, j]
    return exponent / p[9]


@compiled_fused
def _apply_stiffness(p: Floats, E: Floats, T: Floats) -> None:
    """Write T = C : E for symmetric E, both in the material's axes."""
    T[0, 0] = p[0] * E[0, 0] + p[5] * E[1, 1] + p[4] * E[2, 2]
    T[1, 1] = p[5] * E[0, 0] + p[1] * E[1, 1] + p[3] * E[2, 2]
    T[2, 2] = p[4] * E[0, 0] + p[3] * E[1, 1] + p[2] * E[2, 2]
    T[1, 2] = T[2, 1] = 2.0 * p[6] * E[1, 2]
    T[0, 2] = T[2, 0] = 2.0 * p[7] * E[0, 2]
    T[0, 1] = T[1, 0] = 2.0 * p[8] * E[0, 1]


@compiled_fused
def _rotate_out(p: Floats, T: Floats, work: Floats, S: Floats) -> None:
    """Write S = A T Aᵀ: T rotated from the material's axes A to the body's."""
    A = p[10:19].reshape(3, 3)
    times(A, T, work)
    times_transposed(work, A, S)


@compiled_fused
def _energy(F: Floats, p: Floats, scratch: Floats) -> float:
    E = scratch[0]
    green_strain(F, E)
    exponent = fung_exponent(E, p, scratch[1], scratch[2])
    return 0.5 * p[9] * _exponential_less_one(exponent)


@compiled_fused_inline
def fung_stress(F: Floats, p: Floats, growth: float, P: Floats, scratch: Floats) -> None:
    """Write P = F A (growth T) Aᵀ; T, in the material's axes, is in scratch[2]."""
    S = scratch[3]
    _rotate_out(p, scratch[2], scratch[1], S)
    for i in range(3):
        for j in range(3):
            S[i, j] *= growth
    times(F, S, P)


@compiled_fused_inline
def fung_derivative(
    F: Floats, p: Floats, growth: float, bend: float, H: Floats, scratch: Floats
) -> None:
    """Write ∂P/∂F column by column: dP = dF S + F dS, dS = g′ C:dE + (2/c) g″ (C:E)(C:E : dE).
    T = C:E is in scratch[2], `growth` is g′ and `bend` (2/c) g″.
    """
    FA, work, T, S, dE, dS = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4], scratch[5]
    A = p[10:19].reshape(3, 3)
    _rotate_out(p, T, work, S)
    times(F, A, FA)
    for k in range(3):
        for l in range(3):
            along = 0.0  # C:E : dE for dF = e_k e_lᵀ, in the material's axes like dE and dS
            for i in range(3):
                for j in range(3):
                    dE[i, j] = 0.5 * (FA[k, i] * A[l, j] + A[l, i] * FA[k, j])
                    along += T[i, j] * dE[i, j]
            _apply_stiffness(p, dE, dS)
            for i in range(3):
                for j in range(3):
                    dS[i, j] = growth * dS[i, j] + bend * along * T[i, j]
            times(FA, dS, work)
            for i in range(3):
                for j in range(3):
                    value = work[i, 0] * A[j, 0] + work[i, 1] * A[j, 1] + work[i, 2] * A[j, 2]
                    if i == k:
                        value += growth * S[j, l]
                    H[3 * i + j, 3 * k + l] = value


@compiled_fused_inline
def _stress(F: Floats, p: Floats, P: Floats, scratch: Floats) -> None:
    green_strain(F, scratch[0])
    exponent = fung_exponent(scratch[0], p, scratch[1], scratch[2])
    fung_stress(F, p, _exponential_less_one(exponent, 1), P, scratch)


@compiled_fused_inline
def _stress_derivative(F: Floats, p: Floats, H: Floats, scratch: Floats) -> None:
    green_strain(F, scratch[3])
    exponent = fung_exponent(scratch[3], p, scratch[1], scratch[2])
    bend = 2.0 / p[9] * _exponential_less_one(exponent, 2)
    fung_derivative(F, p, _exponential_less_one(exponent, 1), bend, H, scratch)


def fung_constants(
    n_tets: int,
    *,
    young: ArrayLike,
    poisson: ArrayLike,
    shear: ArrayLike | None,
    axes: ArrayLike | None,
    saturation: ArrayLike | None,
) -> Floats:
    """Return (n_tets, 19) C₁₁ C₂₂ C₃₃ C₂₃ C₁₃ C₁₂ G₂₃ G₁₃ G₁₂, c, and the axes row by row."""
    young = per_element("young", young, n_tets, (3,))
    poisson = per_element("poisson", poisson, n_tets, (3,))
    if shear is None:
        pairs = young[:, [1, 0, 0]], young[:, [2, 2, 1]]
        shear = np.sqrt(pairs[0] * pairs[1]) / (2 * (1 + poisson))
    else:
        shear = per_element("shear", shear, n_tets, (3,))
    if not (shear > 0).all():
        raise SuppleError(f"shear moduli must be positive, not {shear.min():g} Pa")
    saturation = 0.1 * young.mean(axis=1) if saturation is None else saturation
    saturation = per_element("saturation", saturation, n_tets)
    if not (saturation > 0).all():
        raise SuppleError(f"saturation must be positive, not {saturation.min():g} Pa")
    axes = per_element("axes", np.eye(3) if axes is None else axes, n_tets, (3, 3))
    near = np.clip(axes, -2.0, 2.0)  # avoids overflow; clipped columns are not unit either
    if not np.allclose(np.swapaxes(near, 1, 2) @ near, np.eye(3), atol=1e-6):
        raise SuppleError("the columns of axes must be orthonormal")

    # Compliance of the normal strains: 1/Eᵢ on the diagonal, −νᵢⱼ/Eᵢ off it (i < j).
    compliance = np.zeros((n_tets, 3, 3))
    compliance[:, range(3), range(3)] = 1 / young
    for (i, j), nu in zip(((1, 2), (0, 2), (0, 1)), poisson.T, strict=True):
        compliance[:, i, j] = compliance[:, j, i] = -nu / young[:, i]
    stiffness = np.linalg.inv(compliance)
    lowest = np.linalg.eigvalsh(compliance)[:, 0]
    if not (lowest > 0).all():
        raise SuppleError(
            f"the orthotropic constants of tet {int(lowest.argmin())} describe no stable "
            "material; use lower Poisson's ratios or moduli that differ less"
        )
    normal = stiffness[:, [0, 1, 2, 1, 0, 0], [0, 1, 2, 2, 2, 1]]
    return np.hstack([normal, shear, saturation[:, None], axes.reshape(n_tets, 9)])


ORTHOTROPIC = Density(
    "orthotropic", _energy, _stress, _stress_derivative, element_constants=fung_constants
)
