"""Forces and stiffness of flesh on handles, for materials that depend on I = F:F and J = det F.

They have P = a F + c cof F and ∂P/∂F = a 1 + b F⊗F + c ∂cof F/∂F + d cof F⊗cof F.
With F = I + Σ φ_a g_aᵀ the stiffness between handles a and b is
α (g_a·g_b) 1 + Σ_r w_r (M_r g_a)(M_r g_b)ᵀ − c [F (g_a × g_b)]×, of few 3×3 matrices M_r: F, cof F,
and the directions with negative eigenvalues.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from supple.arrays import Floats, Ints
from supple.compiled.jit import compiled, compiled_fused, compiled_fused_inline
from supple.elastic.densities.dispatch import material_number
from supple.elastic.densities.neo_hookean import NEO_HOOKEAN
from supple.elastic.densities.yeoh import STRAINED, YEOH
from supple.maths.small_matrices import (
    cofactors,
    determinant,
    jacobi_eigen,
    rotation_svd,
    squared_norm,
)

#: Fraction of its mean that is added to the diagonal of ∂P/∂F before projection.
FIRMER = 0.01
#: Largest number of matrices M_r: F, cof F, three rotations, three shears, three stretches.
MOST_MODES = 11
_NEO_HOOKEAN, _YEOH = material_number(NEO_HOOKEAN.name), material_number(YEOH.name)


class FleshTables(NamedTuple):
    """Tets whose energy is summed: F = I + Σ_c B_c φ_c (tapia2021 eq. 4).

    Skinning and pose blend shapes do not strain the flesh; displacements from them do. With three
    coordinates per handle, F = I + Σ_a φ_a g_aᵀ, and B is not stored.
    """

    volumes: Floats  # (c,) volume times weight
    constants: Floats  # (c, …) of the material
    starts: Ints  # (c + 1,) first entry of each tet in `columns`
    columns: Ints  # coordinates that strain a tet, ascending; of handles the first of three
    strains: Floats  # (9, …) B, a column for each of `columns`; (9, 0) for handles
    gradients: Floats  # (3, …) g, a column for each of `columns`; (3, 0) for other coordinates


@compiled_fused
def has_invariants(kind: int) -> bool:
    """Return whether a material depends on I and J only."""
    return kind in (_NEO_HOOKEAN, _YEOH)


@compiled_fused_inline
def _factors(kind: int, norm: float, volume: float, p: Floats) -> tuple[float, float, float, float]:
    """Return a, b, c and d at I = `norm` and J = `volume`, of an element's constants p."""
    mu, lam = p[0], p[1]
    inverse = 1.0 / (norm + 1.0)
    a, b = mu * (1.0 - inverse), 2.0 * mu * inverse * inverse
    if kind == _YEOH and norm > 3.0 + STRAINED:
        strained = norm - 3.0 - STRAINED
        less = 1.0 / (1.0 + strained)
        a += p[2] * strained * (2.0 + strained) * less * less
        b += 4.0 * p[2] * less * less * less
    return a, b, lam * (volume - 1.0) - 0.75 * mu, lam


@compiled
def add_invariant_terms(
    kind: int,
    stiffness: float,
    tables: FleshTables,
    phi: Floats,
    first: int,
    positive: bool,
    gradient: Floats,
    hessian: Floats,
) -> None:
    """Add derivatives of the energy from row `first` on, to the Hessian's upper triangle.

    With `positive`, each tet's part of the Hessian is projected to be positive semi-definite.
    """
    volumes, starts = tables.volumes, tables.starts
    widest = 1
    for e in range(len(volumes)):
        widest = max(widest, starts[e + 1] - starts[e])
    F, work = np.empty((3, 3)), np.empty((5, 3, 3))
    modes, weights = np.empty((MOST_MODES, 3, 3)), np.empty(MOST_MODES)
    products, slopes = np.empty((widest, 3 * MOST_MODES)), np.empty((widest, 3))
    for e in range(len(volumes)):
        begin, count = starts[e], starts[e + 1] - starts[e]
        for k in range(count):
            for j in range(3):
                slopes[k, j] = tables.gradients[j, begin + k]
        listed, volume = tables.columns[begin : begin + count], stiffness * volumes[e]
        _write_gradient(slopes, listed, phi, F)
        norm, J = squared_norm(F), determinant(F)
        a, b, c, d = _factors(kind, norm, J, tables.constants[e])
        cofactor = modes[1]
        cofactors(F, cofactor)
        for i in range(3):
            for j in range(3):
                modes[0, i, j] = F[i, j]
        used, alpha = 2, a
        weights[0], weights[1] = volume * b, volume * d
        if positive:
            alpha += FIRMER * (a + (b * norm + d * squared_norm(cofactor)) / 9.0)
            if not _is_positive(F, norm, J, alpha, c, d):
                used = _add_modes(F, alpha, b, c, d, volume, modes, weights, work)
        _add_pull(volume * a, volume * c, modes, slopes, listed, first, gradient)
        _move(modes, used, slopes, count, products)
        _add_blocks(
            volume * alpha, volume * c, F, weights, used, slopes, products, listed, first, hessian
        )


@compiled_fused
def _write_gradient(slopes: Floats, columns: Ints, phi: Floats, F: Floats) -> None:
    """Write F = I + Σ_a φ_a g_aᵀ over handles a, with g_a the rows of `slopes` (k, 3)."""
    for i in range(3):
        for j in range(3):
            F[i, j] = 1.0 if i == j else 0.0
    for k in range(len(columns)):
        at, x, y, z = columns[k], slopes[k, 0], slopes[k, 1], slopes[k, 2]
        for i in range(3):
            F[i, 0] += phi[at + i] * x
            F[i, 1] += phi[at + i] * y
            F[i, 2] += phi[at + i] * z


@compiled_fused
def _is_positive(F: Floats, norm: float, J: float, a: float, c: float, d: float) -> bool:
    """Return whether ∂P/∂F is certainly positive; nearly all positive tensors pass.

    With singular values σ its eigenvalues are a ± c σ_k, and those of stretches, with block
    a 1 + b σσᵀ + (d + c/J) ssᵀ − c/J diag(s²), s_k = J/σ_k. For c ≤ 0 < J the latter is positive
    where d + c/J is, and the former where a ≥ −c σ: σ² is at most I/3 + √(2/3) |FᵀF − I/3|.
    """
    if not _stretches_positive(J, a, c, d):
        return False
    square = 0.0
    for i in range(3):
        for j in range(i, 3):
            entry = F[0, i] * F[0, j] + F[1, i] * F[1, j] + F[2, i] * F[2, j]
            square += entry * entry if i == j else 2.0 * entry * entry
    apart = max(square - norm * norm / 3.0, 0.0)
    return a * a >= c * c * (norm / 3.0 + math.sqrt(2.0 / 3.0 * apart))


@compiled_fused
def _add_modes(
    F: Floats,
    a: float,
    b: float,
    c: float,
    d: float,
    volume: float,
    modes: Floats,
    weights: Floats,
    work: Floats,
) -> int:
    """Append the directions of negative eigenvalues of ∂P/∂F, with weights that cancel them.

    Return the number of modes, including F and cof F.
    """
    U, V, sigma, A, Q = work[0], work[1], work[2, 0], work[3], work[4]
    rotation_svd(F, U, sigma, V)
    used, half = 2, math.sqrt(0.5)
    for k in range(3):
        i, j = (k + 1) % 3, (k + 2) % 3
        for sign in (1.0, -1.0):
            value = a - sign * c * sigma[k]
            if value < 0.0:
                for m in range(3):
                    for n in range(3):
                        entry = U[m, i] * V[n, j] + sign * U[m, j] * V[n, i]
                        modes[used, m, n] = half * entry
                weights[used] = -volume * value
                used += 1
    if _stretches_positive(determinant(F), a, c, d):
        return used
    for i in range(3):
        for j in range(3):
            p, q = sigma[(i + 1) % 3] * sigma[(i + 2) % 3], sigma[(j + 1) % 3] * sigma[(j + 2) % 3]
            A[i, j] = b * sigma[i] * sigma[j] + d * p * q
            A[i, j] += a if i == j else c * sigma[3 - i - j]
    jacobi_eigen(A, Q)
    for k in range(3):
        if A[k, k] < 0.0:
            for m in range(3):
                for n in range(3):
                    modes[used, m, n] = (
                        Q[0, k] * U[m, 0] * V[n, 0]
                        + Q[1, k] * U[m, 1] * V[n, 1]
                        + Q[2, k] * U[m, 2] * V[n, 2]
                    )
            weights[used] = -volume * A[k, k]
            used += 1
    return used


@compiled_fused
def _stretches_positive(J: float, a: float, c: float, d: float) -> bool:
    return J > 0.0 and c <= 0.0 and d * J + c >= 0.0 and a > 0.0


@compiled_fused
def _add_pull(
    a: float, c: float, modes: Floats, slopes: Floats, columns: Ints, first: int, out: Floats
) -> None:
    """Add P g_a of every handle a, with P = a F + c cof F."""
    for i in range(3):
        x = a * modes[0, i, 0] + c * modes[1, i, 0]
        y = a * modes[0, i, 1] + c * modes[1, i, 1]
        z = a * modes[0, i, 2] + c * modes[1, i, 2]
        for k in range(len(columns)):
            out[first + columns[k] + i] += x * slopes[k, 0] + y * slopes[k, 1] + z * slopes[k, 2]


@compiled_fused
def _move(modes: Floats, used: int, slopes: Floats, count: int, out: Floats) -> None:
    """Write M_r g of every handle, three numbers per matrix."""
    for k in range(count):
        x, y, z, row = slopes[k, 0], slopes[k, 1], slopes[k, 2], out[k]
        for r in range(used):
            for i in range(3):
                row[3 * r + i] = modes[r, i, 0] * x + modes[r, i, 1] * y + modes[r, i, 2] * z


@compiled_fused
def _add_blocks(
    alpha: float,
    c: float,
    F: Floats,
    weights: Floats,
    used: int,
    slopes: Floats,
    moved: Floats,
    columns: Ints,
    first: int,
    out: Floats,
) -> None:
    """Add the blocks of all pairs of handles to rows 3a + i and columns 3b + k, for a ≤ b."""
    for a in range(len(columns)):
        x, y, z, mine, at = slopes[a, 0], slopes[a, 1], slopes[a, 2], moved[a], first + columns[a]
        top, middle, low = out[at], out[at + 1], out[at + 2]
        for b in range(a, len(columns)):
            u, v, w, other = slopes[b, 0], slopes[b, 1], slopes[b, 2], moved[b]
            same = alpha * (x * u + y * v + z * w)
            # −c [F (g_a × g_b)]×
            p, q, r = c * (y * w - z * v), c * (z * u - x * w), c * (x * v - y * u)
            s0 = F[0, 0] * p + F[0, 1] * q + F[0, 2] * r
            s1 = F[1, 0] * p + F[1, 1] * q + F[1, 2] * r
            s2 = F[2, 0] * p + F[2, 1] * q + F[2, 2] * r
            h00, h11, h22 = same, same, same
            h01, h02, h12, h10, h20, h21 = s2, -s1, s0, -s2, s1, -s0
            for m in range(used):
                e0, e1, e2 = other[3 * m], other[3 * m + 1], other[3 * m + 2]
                f0 = weights[m] * mine[3 * m]
                f1 = weights[m] * mine[3 * m + 1]
                f2 = weights[m] * mine[3 * m + 2]
                h00, h01, h02 = h00 + f0 * e0, h01 + f0 * e1, h02 + f0 * e2
                h10, h11, h12 = h10 + f1 * e0, h11 + f1 * e1, h12 + f1 * e2
                h20, h21, h22 = h20 + f2 * e0, h21 + f2 * e1, h22 + f2 * e2
            to = first + columns[b]
            top[to] += h00
            top[to + 1] += h01
            top[to + 2] += h02
            middle[to + 1] += h11
            middle[to + 2] += h12
            low[to + 2] += h22
            if b > a:
                middle[to] += h10
                low[to] += h20
                low[to + 1] += h21
