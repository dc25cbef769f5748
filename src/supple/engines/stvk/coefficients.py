"""Saint Venant–Kirchhoff forces in a basis: polynomials, with coefficients from one product.

With G_i = ∇U_i, strain is E = Σ q_i e_i + ½ Σ q_i q_j Q_ij, e_i = sym G_i, Q_ij = sym(G_iᵀG_j),
and the energy ∫ ½ λ tr²E + μ E:E is a quartic in q. Its coefficients are all products of columns
e_i and Q_ij of one tall matrix with rows for the strains of each element (`strain_points`): AᵀA
(SYRK), taken some elements at a time, where barbic2005 (§4.2) sums cubic polynomials element by
element.

The tangent stiffness K(q) = K₀ + K₁[q] + K₂[q, q] is stored. Its coefficients are a matrix
(r(r+1)/2, 1 + r + r(r+1)/2): rows are entries of K's upper triangle, row by row, and columns the
monomials 1, q_c, q_c q_d (c ≤ d, in the same order as rows). By Euler's theorem the force is
(K₀ + ½ K₁[q] + ⅓ K₂[q, q]) q and the energy ½ qᵀ(K₀ + ⅓ K₁[q] + ⅙ K₂[q, q]) q.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

import numpy as np

from supple.arrays import Floats, Ints
from supple.compiled.jit import compiled, compiled_fused
from supple.engines.stvk.strain_cubes import cubes_among
from supple.engines.stvk.strain_points import PointRows, StrainPoints, StrainRows
from supple.errors import SuppleError
from supple.linalg.blas import addresses, single_threaded, syrk
from supple.progress import PartDone

#: Largest number of modes: beyond, each part of each group would take over 0.4 GB.
MOST_MODES = 120
#: Bytes of the strains processed together, and of partial sums.
_BLOCK_BYTES, _SUM_BYTES = 16 * 2**20, 256 * 2**20
#: Bounds on the number of elements processed together, by measured speed.
_FEWEST, _MOST_ELEMENTS = 32, 512
_MOST_SUMS = 8
#: Cubes have four sums where points have two; beyond this (over 100 modes) points are used.
_CUBE_BYTES = 2**30


def pair_count(r: int) -> int:
    """Return r(r + 1)/2, the entries of an upper triangle."""
    return r * (r + 1) // 2


def paired_count(pairs: int) -> int:
    """Return the largest r with r(r + 1)/2 at most `pairs`."""
    return (math.isqrt(8 * pairs + 1) - 1) // 2


def monomials(q: Floats) -> Floats:
    """Return q_c q_d for c ≤ d, in the order of the tangent's columns."""
    first, second = np.triu_indices(len(q))
    return q[first] * q[second]


def stvk_parts(
    points: StrainPoints, group: Ints, basis: Floats, progress: PartDone | None = None
) -> Floats:
    """Compute coefficients of the tangent of each group for λ = 1, μ = 0, and for λ = 0, μ = 1.

    The tangent is Σ λ_g parts[g, 0] + μ_g parts[g, 1], with parts (g, 2, r(r+1)/2, 1 + r +
    r(r+1)/2), the same bits for any number of threads. `group` (p,) is that of each strain point,
    and `basis` (n, 3, r) is U.
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
        members = points if n_groups == 1 else points.taken(np.flatnonzero(group == number))

        def report(points_done: int, before: int = done) -> None:
            if progress is not None:
                progress((before + points_done) / len(points))

        for part, products in enumerate(_products(members, basis, report)):
            _tangent(products, r, _pair_table(r), parts[number, part])
        done += len(members)
    if not np.isfinite(parts).all():
        raise SuppleError("coefficients are not finite; scale the basis down")
    return parts


def _products(
    points: StrainPoints, basis: Floats, report: Callable[[int], None]
) -> tuple[Floats, Floats]:
    """Return AᵀA for λ and for μ, (r + pairs, r + pairs), upper triangles."""
    cubes, others = cubes_among(points)
    if cubes is None or _sum_bytes(cubes, basis.shape[2]) > _CUBE_BYTES:
        return _products_of(PointRows(points), basis, report)
    products = _products_of(cubes, basis, report)
    if len(others):
        before, rows = len(points) - len(others), PointRows(points.taken(others))
        more = _products_of(rows, basis, lambda done: report(before + done))
        for total, other in zip(products, more, strict=True):
            total += other
    return products


def _sum_bytes(rows: StrainRows, r: int) -> int:
    """Return the bytes of sums of products, one for each class of rows."""
    return 8 * len(rows.counts) * (r + pair_count(r)) ** 2


def _products_of(
    rows: StrainRows, basis: Floats, report: Callable[[int], None]
) -> tuple[Floats, Floats]:
    """Return AᵀA for λ and for μ of rows of one kind."""
    r = basis.shape[2]
    columns = r + pair_count(r)
    fitting = _BLOCK_BYTES // (8 * sum(rows.counts) * columns)
    step = min(max(fitting, _FEWEST), _MOST_ELEMENTS, len(rows))
    starts = np.arange(0, len(rows), step)
    # The number of partial sums does not depend on the machine, so that bits do not either.
    count = min(len(starts), _MOST_SUMS, max(1, _SUM_BYTES // _sum_bytes(rows, r)))
    sums = [[np.zeros((columns, columns)) for _ in rows.counts] for _ in range(count)]
    finished, turn = [0] * count, Lock()

    def add(slot: int) -> None:
        scratch = [np.empty((each * step, columns)) for each in rows.counts]
        for start in np.array_split(starts, count)[slot]:
            end = min(start + step, len(rows))
            filled = tuple(
                part[: each * (end - start)]
                for part, each in zip(scratch, rows.counts, strict=True)
            )
            rows.fill(start, end, basis, filled)
            for part, total in zip(filled, sums[slot], strict=True):
                _add_product(addresses(), part, total)
            with turn:  # progress is monotonic
                finished[slot] += rows.points * (end - start)
                report(sum(finished))

    with single_threaded(), ThreadPoolExecutor(min(count, _cores())) as threads:
        list(threads.map(add, range(count)))
    for partial in sums[1:]:
        for total, other in zip(sums[0], partial, strict=True):
            total += other
    return _shared_out(sums[0], rows.shares)


def _shared_out(
    totals: list[Floats], shares: tuple[tuple[float, float], ...]
) -> tuple[Floats, Floats]:
    """Combine sums of classes of rows for λ and for μ, in place of the first and the last."""
    bulk, shear = totals[0], totals[-1]
    with np.errstate(invalid="ignore"):  # checked later
        for total, (_, share) in zip(totals[:-1], shares, strict=False):
            for row, other in zip(shear, total, strict=True):  # by rows, to save memory
                row += share * other
        for total in totals[1:-1]:
            bulk += total
    return np.negative(bulk, out=bulk), np.negative(shear, out=shear)


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@compiled
def _add_product(blas, rows, total):  # type: ignore[no-untyped-def]
    """Subtract the products of columns of some rows from their total."""
    count, columns = rows.shape
    flat, source = total.reshape(total.size), rows.reshape(rows.size)
    syrk(blas, columns, count, (source, 0), columns, (flat, 0), columns)


def _pair_table(r: int) -> Ints:
    """Return the index (r, r) of a pair, in either order, in a packed upper triangle."""
    table = np.empty((r, r), np.int64)
    upper = np.triu_indices(r)
    table[upper] = table[upper[::-1]] = np.arange(pair_count(r))
    return table


@compiled_fused
def _tangent(A, r, table, out):  # type: ignore[no-untyped-def]
    """Write ∂²(½ sᵀAs)/∂q², s = (q, monomials with halved squares), symmetrised.

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
    """Return coefficients (…, rows, columns) of the first of r modes."""
    entries = _pair_table(r)[np.triu_indices(fewer)]
    columns = np.concatenate([np.arange(1 + fewer), 1 + r + entries])
    return np.ascontiguousarray(tangent[..., entries[:, None], columns])
