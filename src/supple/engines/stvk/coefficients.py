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

Cubes need half as many rows as their integration points would. A trilinear displacement has seven
vectors besides its translation: derivatives p, q, r along the cube's edges at its middle, their
changes s, t, w along the other edges, and their change z along both (s belongs to p and q, t to p
and r, w to q and r). At Gauss points ±1, ±1, ±1 they are ∂x = p ± s ± t ± z, and so on, and strains
are sums of products of these seven. Walsh's transform over the eight points, which keeps sums of
squares, shows that the 56 rows (with those of the trace) are 24 different ones: shear xy, for
example, varies along x as normal strain x does along y. Equal rows are used once, with their total
weight; pairs whose sum λ needs are used as sum and difference.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import ClassVar, NamedTuple

import numpy as np

from supple.arrays import Floats, Ints
from supple.compiled.jit import compiled, compiled_fused
from supple.engines.stvk.strain_points import (
    PointRows,
    StrainPoints,
    StrainRows,
    dot_row,
    square_row,
)
from supple.errors import SuppleError
from supple.linalg.blas import addresses, single_threaded, syrk
from supple.mesh.hexes import CORNERS, gauss_points, shape_gradients
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
#: Tolerance on the shape of a cube, relative to its edge.
_CUBE = 1e-12
_SIGNS = 2.0 * CORNERS - 1.0
#: Vectors p, q, r, s, t, w, z of an element are these sums over its corners.
_MODAL = (
    np.stack(
        [
            *_SIGNS.T,
            *(_SIGNS[:, a] * _SIGNS[:, b] / np.sqrt(3) for a, b in ((0, 1), (0, 2), (1, 2))),
            _SIGNS.prod(axis=1) / 3,
        ]
    )
    / 4
)
#: Indices among the seven, for each of p, q and r: itself, and its two changes along other edges.
_CHANGES = np.array([[0, 3, 4], [1, 3, 5], [2, 4, 5]])
#: For shears xy, xz, yz: two derivatives with their changes along the third edge, and their common
#: change.
_SHEARS = np.array([[0, 4, 1, 5, 3], [0, 3, 2, 5, 4], [1, 3, 2, 4, 5]])


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
    """Return coefficients of the tangent of each group for λ = 1, μ = 0, and for λ = 0, μ = 1.

    The tangent is Σ λ_g parts[g, 0] + μ_g parts[g, 1]. The shape of parts is (g, 2, r(r+1)/2,
    1 + r + r(r+1)/2). The result has the same bits for any number of threads. `group` (p,) is the
    group of each strain point, and `basis` (n, 3, r) is U.
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
        raise SuppleError(f"{n_groups} groups of {r} modes need over 4 GB; use fewer")
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
    """Return AᵀA for λ and for μ, with the strain `rows` A of points or of cubes."""
    r = basis.shape[2]
    columns = r + pair_count(r)
    fitting = _BLOCK_BYTES // (8 * sum(rows.counts) * columns)
    step = min(max(fitting, _FEWEST), _MOST_ELEMENTS, len(rows))
    starts = np.arange(0, len(rows), step)
    # The number of partial sums does not depend on the machine, so that bits do not either.
    count = min(len(starts), _MOST_SUMS, max(1, _SUM_BYTES // _sum_bytes(rows, r)))
    sums = [[np.zeros((columns, columns)) for _ in rows.counts] for _ in range(count)]
    finished, lock = [0] * count, Lock()

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
            with lock:  # progress is monotonic
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
    """Return AᵀA for λ and for μ, from negative sums of classes, which are overwritten."""
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
    """Subtract AᵀA of `rows` A from `total`, its upper triangle."""
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


def tangent_of_columns(tangent: Floats, r: int, columns: Ints) -> Floats:
    """Return coefficients (…, rows, columns) of some of r modes, given in ascending order."""
    first, second = np.triu_indices(len(columns))
    entries = _pair_table(r)[columns[first], columns[second]]
    kept = np.concatenate([[0], 1 + columns, 1 + r + entries])
    return np.ascontiguousarray(tangent[..., entries[:, None], kept])


class CubeTables(NamedTuple):
    """Tables `_MODAL`, `_CHANGES` and `_SHEARS`, for kernels."""

    modal: Floats
    changes: Ints
    shears: Ints


_TABLES = CubeTables(_MODAL, _CHANGES, _SHEARS)


@dataclass(frozen=True)
class CubeRows:
    """Strain rows of cubes with two Gauss points along each edge: twenty-four for each cube.

    There are four classes of rows: the mean of the trace of strain; its changes along one edge; its
    changes along two edges; and all other rows. `corners` (m, 8) are vertices, and `edges`
    (m, 3, 3) have the columns ∂X/∂ξ, orthogonal and of equal length.
    """

    corners: Ints
    edges: Floats
    counts: ClassVar[tuple[int, ...]] = (1, 3, 3, 17)
    shares: ClassVar[tuple[tuple[float, float], ...]] = (
        (1.0, 2 / 3),
        (1.0, 3 / 2),
        (1.0, 4.0),
        (0.0, 1.0),
    )
    points: ClassVar[int] = 8

    def __len__(self) -> int:
        return len(self.corners)

    def fill(self, begin: int, end: int, basis: Floats, out: tuple[Floats, ...]) -> None:
        """Write the rows of cubes `begin` to `end`."""
        n = 1 + basis.shape[2]
        scratch, pair, normal = (
            np.empty((7, 3, n)),
            np.empty((2, 3, n)),
            np.empty((12, out[0].shape[1])),
        )
        part = self.corners[begin:end], self.edges[begin:end]
        _fill_cubes(*part, basis, _TABLES, scratch, pair, normal, *out)


def cubes_among(points: StrainPoints) -> tuple[CubeRows | None, Ints]:
    """Return the cubes whose points are consecutive, or None, and indices of all other points."""
    count = len(points) // 8
    everything = np.arange(len(points))
    if points.corners.shape[1] != 8 or 8 * count != len(points):
        return None, everything
    slopes, volumes = points.slopes.reshape(count, 8, 8, 3), points.volumes.reshape(count, 8)
    edge = np.cbrt(volumes.sum(axis=1))
    inverse = np.einsum("ak,mgaj->mkj", _SIGNS / 16, slopes)  # ∂ξ/∂X, if it is constant
    squared = edge[:, None, None] ** 2 * (inverse @ inverse.swapaxes(1, 2))
    off = np.abs(squared - np.eye(3)).max(axis=(1, 2))
    for at, reference in enumerate(shape_gradients(gauss_points(2)[0])):
        other = np.abs(slopes[:, at] - reference @ inverse).max(axis=(1, 2)) * edge
        larger = np.abs(8 * volumes[:, at] / edge**3 - 1)
        off = np.maximum(off, np.maximum(other, larger))
    together = (points.element.reshape(count, 8) == points.element[::8, None]).all(axis=1)
    cube = together & (off <= _CUBE)
    if not cube.any():
        return None, everything
    edges = edge[cube, None, None] ** 2 * inverse[cube].swapaxes(1, 2)
    rows = CubeRows(points.corners[::8][cube], np.ascontiguousarray(edges))
    return rows, np.flatnonzero(~np.repeat(cube, 8))


@compiled_fused
def _fill_cubes(  # type: ignore[no-untyped-def]
    corners, edges, basis, tables, scratch, pair, normal, mean, single, double, rest
):
    modal, changes, shears = tables
    for c in range(len(corners)):
        length = 0.0
        for i in range(3):
            length += edges[c, i, 0] ** 2
        length = np.sqrt(length)
        _seven_vectors(corners[c], edges[c], basis, modal, 1.0 / length, scratch)
        root = np.sqrt(length**3)
        for axis in range(3):
            rows = normal[4 * axis : 4 * axis + 4]
            _normal_rows(scratch, changes[axis], 0.25 * root, pair[0], rows)
        _spread(
            normal, mean[c], single[3 * c : 3 * c + 3], double[3 * c : 3 * c + 3], rest[17 * c :]
        )
        for k in range(3):
            _shear_rows(scratch, shears[k], np.sqrt(2.0) * root, pair, rest[17 * c + 5 + 4 * k :])


@compiled_fused
def _seven_vectors(corners, edges, basis, modal, scale, out):  # type: ignore[no-untyped-def]
    """Write the seven vectors of an element at rest, and of each mode: (7, 3, 1 + r)."""
    out[:] = 0.0
    for m in range(7):
        for a in range(8):
            factor = scale * modal[m, a]
            for i in range(3):
                row, target = basis[corners[a], i], out[m, i, 1:]
                for j in range(len(target)):
                    target[j] += factor * row[j]
    for m in range(3):
        for i in range(3):
            out[m, i, 0] = scale * edges[i, m]


@compiled_fused
def _normal_rows(seven, changes, scale, scratch, out):  # type: ignore[no-untyped-def]
    """Write a normal strain's sum over four points, and differences along one edge or both."""
    centre, first, second, both = seven[changes[0]], seven[changes[1]], seven[changes[2]], seven[6]
    for k in range(4):
        x, y = 1.0 - 2.0 * (k // 2), 1.0 - 2.0 * (k % 2)
        for i in range(3):
            a, b, c, d, target = centre[i], first[i], second[i], both[i], scratch[i]
            for j in range(len(target)):
                target[j] = a[j] + x * b[j] + y * c[j] + x * y * d[j]
        square_row(scratch, scale, out[k])
    a, b, c, d = out[0], out[1], out[2], out[3]
    for j in range(len(a)):
        even, odd, even_below, odd_below = a[j] + b[j], a[j] - b[j], c[j] + d[j], c[j] - d[j]
        a[j], b[j] = even + even_below, even - even_below
        c[j], d[j] = odd + odd_below, odd - odd_below


@compiled_fused
def _spread(normal, mean, single, double, rest):  # type: ignore[no-untyped-def]
    """Write sums of the three normal strains' transforms for λ, and differences."""
    x, y, z = normal[0], normal[4], normal[8]
    _sum_and_differences(x, y, z, mean, rest)
    # Along x, y and z: the two normal strains that change there.
    _sum_and_difference(normal[5], normal[9], single[0], rest[2])
    _sum_and_difference(normal[1], normal[10], single[1], rest[3])
    _sum_and_difference(normal[2], normal[6], single[2], rest[4])
    for axis in range(3):
        source, target = normal[4 * axis + 3], double[axis]
        for j in range(len(target)):
            target[j] = source[j]


@compiled_fused
def _sum_and_differences(x, y, z, total, rest):  # type: ignore[no-untyped-def]
    first, second, third = rest[0], rest[1], np.sqrt(1.0 / 3.0)
    for j in range(len(total)):
        total[j] = x[j] + y[j] + z[j]
    for j in range(len(first)):
        first[j] = x[j] - y[j]
    for j in range(len(second)):
        second[j] = third * (x[j] + y[j] - 2.0 * z[j])


@compiled_fused
def _sum_and_difference(x, y, total, difference):  # type: ignore[no-untyped-def]
    """Write sum and scaled difference: 3(x² + y²) = 3/2 (x + y)² + 3/2 (x − y)²."""
    scale = np.sqrt(1.5)
    for j in range(len(total)):
        total[j] = x[j] + y[j]
        difference[j] = scale * (x[j] - y[j])


@compiled_fused
def _shear_rows(seven, which, scale, pair, out):  # type: ignore[no-untyped-def]
    """Write a shear's four rows, except changes shared with normal strains."""
    a, a_change, b, b_change = seven[which[0]], seven[which[1]], seven[which[2]], seven[which[3]]
    common, both = seven[which[4]], seven[6]
    for k in range(2):
        sign = 1.0 - 2.0 * k
        _moved(a, sign, a_change, pair[0])
        _moved(b, sign, b_change, pair[1])
        dot_row(pair[0], pair[1], scale, out[k])
        _moved(common, sign, both, pair[0])
        square_row(pair[0], scale, out[2 + k])


@compiled_fused
def _moved(a, sign, b, out):  # type: ignore[no-untyped-def]
    for i in range(3):
        x, y, target = a[i], b[i], out[i]
        for j in range(len(target)):
            target[j] = x[j] + sign * y[j]
