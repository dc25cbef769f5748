"""Saint Venant–Kirchhoff forces in a basis: polynomials, with coefficients from one product.

With G_i = ∇U_i, strain is E = Σ q_i e_i + ½ Σ q_i q_j Q_ij, e_i = sym G_i, Q_ij = sym(G_iᵀG_j),
and the energy ∫ ½ λ tr²E + μ E:E is a quartic in q. Its coefficients are all products of columns
e_i and Q_ij of one tall matrix with a row for each strain at each point: AᵀA (SYRK), taken some
points at a time, where barbic2005 (§4.2) sums cubic polynomials element by element.

What is kept is the tangent stiffness, K(q) = K₀ + K₁[q] + K₂[q, q]. Its coefficients are a matrix
(r(r+1)/2, 1 + r + r(r+1)/2): rows are entries of K's upper triangle, row by row, and columns the
monomials 1, q_c, q_c q_d (c ≤ d, in the same order as rows). By Euler's theorem the force is
(K₀ + ½ K₁[q] + ⅓ K₂[q, q]) q and the energy ½ qᵀ(K₀ + ⅓ K₁[q] + ⅙ K₂[q, q]) q.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from supple.compiled import compiled, compiled_fused
from supple.errors import SuppleError
from supple.linalg.fortran import addresses, single_threaded, syrk
from supple.reduction.strain_points import StrainPoints, add_gradients

__all__ = ["MOST_MODES", "monomials", "pair_count", "stvk_parts", "truncated_tangent"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Progress = Callable[[float], None]

#: Coefficients of more would take over 0.4 GB for each part of each group.
MOST_MODES = 120
#: Bytes of the strains of the points that are worked on together, and of sums beside each other.
_BLOCK_BYTES, _SUM_BYTES = 16 * 2**20, 256 * 2**20
#: Points at once: more do not make the product quicker, fewer make it slower.
_FEWEST, _MOST_POINTS = 32, 512
_MOST_SUMS = 8


def pair_count(r: int) -> int:
    """Entries of an upper triangle, r(r + 1)/2."""
    return r * (r + 1) // 2


def monomials(q: Floats) -> Floats:
    """q_c q_d for c ≤ d, as the tangent's columns have them."""
    first, second = np.triu_indices(len(q))
    return q[first] * q[second]


def stvk_parts(
    points: StrainPoints, group: Ints, basis: Floats, progress: Progress | None = None
) -> Floats:
    """Coefficients of the tangent for λ = 1, μ = 0, and the other way round, of each group.

    Parameters
    ----------
    points
        Where strain is taken.
    group
        (p,) group of each point, from 0.
    basis
        (n, 3, r) U.
    progress
        Called with the part done, 0 to 1.

    Returns
    -------
    (g, 2, r(r+1)/2, 1 + r + r(r+1)/2) array
        The tangent is Σ λ_g parts[g, 0] + μ_g parts[g, 1]. The same bits for any number of
        threads.
    """
    r = basis.shape[2]
    if r > MOST_MODES:
        raise SuppleError(
            f"coefficients of {r} modes are too many; use at most {MOST_MODES}: they grow with "
            "the fourth power"
        )
    pairs, n_groups = pair_count(r), int(group.max()) + 1
    shape = (n_groups, 2, pairs, 1 + r + pairs)
    if 8 * np.prod(shape, dtype=np.float64) > 4 * 2**30:
        raise SuppleError(f"{n_groups} groups of {r} modes need over 4 GB; use fewer of either")
    parts = np.empty(shape)
    done = 0
    for number in range(n_groups):
        own = points.taken(np.flatnonzero(group == number))

        def report(points_done: int, before: int = done) -> None:
            if progress is not None:
                progress((before + points_done) / len(points))

        for part, products in enumerate(_products(own, basis, report)):
            _tangent(products, r, _pair_table(r), parts[number, part])
        done += len(own)
    if not np.isfinite(parts).all():
        raise SuppleError("coefficients grow beyond all numbers; scale the basis down")
    return parts


def _products(points: StrainPoints, basis: Floats, report: Callable[[int], None]) -> Floats:
    """AᵀA for λ and for μ, (2, r + pairs, r + pairs), upper triangles."""
    r = basis.shape[2]
    columns = r + pair_count(r)
    step = min(max(_BLOCK_BYTES // (56 * columns), _FEWEST), _MOST_POINTS, len(points))
    starts = np.arange(0, len(points), step)
    # Sums that threads add to side by side: as many as the work, not the machine, asks for.
    count = min(len(starts), _MOST_SUMS, max(1, _SUM_BYTES // (16 * columns**2)))
    sums = [np.zeros((2, columns, columns)) for _ in range(count)]
    finished, turn = [0] * count, Lock()

    def add(slot: int) -> None:
        bulk, shear = np.empty((step, columns)), np.empty((6 * step, columns))
        gradient = np.empty((3, 3, r))
        for start in np.array_split(starts, count)[slot]:
            some = slice(start, min(start + step, len(points)))
            where = points.corners[some], points.slopes[some]
            arrays = *where, points.volumes[some], points.normal_volumes[some]
            _add_products(addresses(), *arrays, basis, gradient, bulk, shear, sums[slot])
            with turn:  # what is reported never goes back
                finished[slot] += len(arrays[0])
                report(sum(finished))

    with single_threaded(), ThreadPoolExecutor(min(count, _cores())) as threads:
        list(threads.map(add, range(count)))
    for other in sums[1:]:
        sums[0] += other
    return np.negative(sums[0], out=sums[0])


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@compiled
def _add_products(  # type: ignore[no-untyped-def]
    blas, corners, slopes, volumes, lines, basis, gradient, bulk, shear, sums
):
    """Take the products of some points' strains from the sums for λ and μ."""
    count, columns, rows = len(volumes), bulk.shape[1], 0
    for k in range(count):
        gradient[:] = 0.0
        add_gradients(corners[k], slopes[k], basis, gradient)
        rows += _strains(gradient, volumes[k], lines[k], bulk[k], shear[rows:])
    flat, size = sums.reshape(sums.size), columns * columns
    syrk(blas, columns, count, (bulk, 0), columns, (flat, 0), columns)
    syrk(blas, columns, rows, (shear, 0), columns, (flat, size), columns)


@compiled_fused
def _strains(G, volume, lines, bulk, shear):  # type: ignore[no-untyped-def]
    """Rows of e and Q at one point, so that sums of squares are V tr²E and 2 V E:E; how many.

    Normal strains are taken for all of a line of points at once, or left out.
    """
    rows = 0
    bulk[:] = 0.0
    root = np.sqrt(volume)
    for k in range(3):
        target = shear[rows]  # written over where it is left out
        _strain_row(G, k, k, root, target)
        scale = np.sqrt(2.0 * lines[k] / volume)
        for j in range(len(target)):
            bulk[j] += target[j]
            target[j] *= scale
        rows += lines[k] > 0.0
    for k in range(3):
        for l in range(k + 1, 3):
            _strain_row(G, k, l, 2.0 * root, shear[rows])  # both of E_kl and E_lk
            rows += 1
    return rows


@compiled_fused
def _strain_row(G, k, l, scale, target):  # type: ignore[no-untyped-def]
    """One component of e_i and Q_ij, times a scale."""
    r = G.shape[2]
    half = 0.5 * scale
    first, second = G[k, l], G[l, k]
    for j in range(r):
        target[j] = half * (first[j] + second[j])
    at = r
    a0, a1, a2, b0, b1, b2 = G[0, k], G[1, k], G[2, k], G[0, l], G[1, l], G[2, l]
    for i in range(r):
        own = target[at : at + r - i]
        x0, x1, x2 = half * a0[i], half * a1[i], half * a2[i]
        y0, y1, y2 = half * b0[i], half * b1[i], half * b2[i]
        c0, c1, c2, d0, d1, d2 = a0[i:r], a1[i:r], a2[i:r], b0[i:r], b1[i:r], b2[i:r]
        for j in range(len(own)):
            across = x0 * d0[j] + x1 * d1[j] + x2 * d2[j]
            own[j] = across + (y0 * c0[j] + y1 * c1[j] + y2 * c2[j])
        at += r - i


def _pair_table(r: int) -> Ints:
    """(r, r) where a pair of either order is in a packed upper triangle."""
    table = np.empty((r, r), np.int64)
    upper = np.triu_indices(r)
    table[upper] = table[upper[::-1]] = np.arange(pair_count(r))
    return table


@compiled_fused
def _tangent(A, r, table, out):  # type: ignore[no-untyped-def]
    """Second derivatives of ½ sᵀAs, s = (q, monomials with halved squares), made symmetric.

    K₁ = A_a,bc + A_b,ac + A_c,ab and K₂ = A_ab,cd + A_ac,bd + A_ad,bc, squares halved.
    """
    for a in range(r):
        for b in range(a, r):
            ab = table[a, b]
            row = out[ab]
            row[0] = A[a, b]
            for c in range(r):
                row[1 + c] = A[a, r + table[b, c]] + A[b, r + table[a, c]] + A[c, r + ab]
            for c in range(r):
                ac, bc = table[a, c], table[b, c]
                for d in range(c, r):
                    cd, bd, ad = table[c, d], table[b, d], table[a, d]
                    value = A[r + min(ab, cd), r + max(ab, cd)]
                    value += A[r + min(ac, bd), r + max(ac, bd)]
                    value += A[r + min(ad, bc), r + max(ad, bc)]
                    row[1 + r + cd] = 0.5 * value if c == d else value


def truncated_tangent(tangent: Floats, r: int, fewer: int) -> Floats:
    """Coefficients (…, rows, columns) for the first of r modes: those that name no other."""
    kept = _pair_table(r)[np.triu_indices(fewer)]
    columns = np.concatenate([np.arange(1 + fewer), 1 + r + kept])
    return np.ascontiguousarray(tangent[..., kept[:, None], columns])
