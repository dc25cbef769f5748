"""Strain rows of cubes: half as many as point by point.

A trilinear displacement has seven vectors besides its translation: derivatives p, q, r along the
cube's edges at its middle, s, t, w that they change by along the other edges, and z by along both
(s belongs to p and q, t to p and r, w to q and r). At Gauss points ±1, ±1, ±1 they are
∂x = p ± s ± t ± z, and so on, and strains are sums of products of these seven. Walsh's transform
over the eight points, which keeps sums of squares, shows that the 56 rows (with those of the
trace) are 24 different ones: shear xy, for example, varies along x as normal strain x does along y.
Equal rows are used once, with their total weight; pairs whose sum λ needs are used as sum and
difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from supple.arrays import Floats, Ints
from supple.compiled.jit import compiled_fused
from supple.engines.stvk.strain_points import StrainPoints, dot_row, square_row
from supple.mesh.hexes import CORNERS, gauss_points, shape_gradients

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
#: For p, q and r: themselves, and the two by which they change along other edges; indices of the
#: seven.
_CHANGES = np.array([[0, 3, 4], [1, 3, 5], [2, 4, 5]])
#: For shears xy, xz, yz: two derivatives with their changes along the third edge, and their common
#: change.
_SHEARS = np.array([[0, 4, 1, 5, 3], [0, 3, 2, 5, 4], [1, 3, 2, 4, 5]])


class CubeTables(NamedTuple):
    """Constant tables of the kernels."""

    modal: Floats
    changes: Ints
    shears: Ints


_TABLES = CubeTables(_MODAL, _CHANGES, _SHEARS)


@dataclass(frozen=True)
class CubeRows:
    """Rows of cubes with two Gauss points along each edge, twenty-four each.

    Classes: the mean of the trace; its change along one edge; along two; all else. `corners` (m, 8)
    are vertices, and `edges` (m, 3, 3) columns ∂X/∂ξ, orthogonal and of equal length.
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
    """Return cubes whose eight points are consecutive, if any, and all other points."""
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
    """Write derivatives of the rest position and of the modes, (7, 3, 1 + r)."""
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
    """Write a normal strain of four points: mean, and changes along one edge, another, both."""
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
