"""Rows of strains whose squares add up to the energy: for any element, point by point.

With F = 1 + Σ q_i ∇U_i strain is ½(FᵀF − 1): every row is a quadratic form of F's columns. So a
row needs no more than products of pairs of columns of a wider basis, the body at rest before U:
pairs of rest and mode i are e_i, pairs of modes i and j are Q_ij.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from supple.compiled import compiled_fused
from supple.reduction.strain_points import StrainPoints, add_gradients

__all__ = ["PointRows", "StrainRows", "dot_row", "square_row"]

Floats = NDArray[np.float64]


class StrainRows(Protocol):
    """Where rows come from: classes of them, each with its share in the products for λ and μ."""

    #: How many of each class an element has.
    counts: ClassVar[tuple[int, ...]]
    #: What a class's squares count for λ and for μ: V tr²E and 2 V E:E in all.
    shares: ClassVar[tuple[tuple[float, float], ...]]
    #: Integration points of an element.
    points: ClassVar[int]

    def __len__(self) -> int:
        """How many elements there are."""

    def fill(self, begin: int, end: int, basis: Floats, out: tuple[Floats, ...]) -> None:
        """Write the rows of some elements, (rows of these, r + r(r+1)/2) for each class."""


@dataclass(frozen=True)
class PointRows:
    """Six rows a point: the trace, which counts for both, and what is left of the strain."""

    where: StrainPoints
    counts: ClassVar[tuple[int, ...]] = (1, 5)
    shares: ClassVar[tuple[tuple[float, float], ...]] = ((1.0, 2 / 3), (0.0, 1.0))
    points: ClassVar[int] = 1

    def __len__(self) -> int:
        return len(self.where)

    def fill(self, begin: int, end: int, basis: Floats, out: tuple[Floats, ...]) -> None:
        """Write the rows of points `begin` to `end`."""
        some, room = slice(begin, end), np.empty((3, 3, 1 + basis.shape[2]))
        own = self.where.corners[some], self.where.slopes[some], self.where.volumes[some]
        _fill_points(*own, basis, room, *out)


@compiled_fused
def _fill_points(corners, slopes, volumes, basis, room, traces, rest):  # type: ignore[no-untyped-def]
    for p in range(len(volumes)):
        room[:] = 0.0
        add_gradients(corners[p], slopes[p], basis, room[:, :, 1:])
        for k in range(3):
            room[k, k, 0] = 1.0
        root = np.sqrt(volumes[p])
        _point_rows(room, root, traces[p], rest[5 * p : 5 * p + 5])


@compiled_fused
def _point_rows(F, root, trace, rest):  # type: ignore[no-untyped-def]
    """Trace, two differences of normal strains, three shears; F is ∂x_i/∂X_k."""
    first, second = rest[0], rest[1]
    square_row(F[:, 0], root, first)
    square_row(F[:, 1], root, second)
    square_row(F[:, 2], root, trace)
    third = np.sqrt(1.0 / 3.0)
    for j in range(len(trace)):
        x, y, z = first[j], second[j], trace[j]
        trace[j] = x + y + z
        first[j] = x - y
        second[j] = third * (x + y - 2.0 * z)
    dot_row(F[:, 0], F[:, 1], 2.0 * root, rest[2])
    dot_row(F[:, 0], F[:, 2], 2.0 * root, rest[3])
    dot_row(F[:, 1], F[:, 2], 2.0 * root, rest[4])


@compiled_fused
def square_row(a, scale, target):  # type: ignore[no-untyped-def]
    """Products a_i · a_j of the columns of (3, n), i ≤ j, row by row, without the first."""
    n, at = a.shape[1], 0
    a0, a1, a2 = a[0], a[1], a[2]
    for i in range(n):
        begin = max(i, 1)
        own = target[at : at + n - begin]
        x0, x1, x2 = scale * a0[i], scale * a1[i], scale * a2[i]
        c0, c1, c2 = a0[begin:n], a1[begin:n], a2[begin:n]
        for j in range(len(own)):
            own[j] = x0 * c0[j] + x1 * c1[j] + x2 * c2[j]
        at += n - begin


@compiled_fused
def dot_row(a, b, scale, target):  # type: ignore[no-untyped-def]
    """The same of ½(a_i · b_j + b_i · a_j)."""
    n, at, half = a.shape[1], 0, 0.5 * scale
    a0, a1, a2, b0, b1, b2 = a[0], a[1], a[2], b[0], b[1], b[2]
    for i in range(n):
        begin = max(i, 1)
        own = target[at : at + n - begin]
        x0, x1, x2 = half * a0[i], half * a1[i], half * a2[i]
        y0, y1, y2 = half * b0[i], half * b1[i], half * b2[i]
        c0, c1, c2 = a0[begin:n], a1[begin:n], a2[begin:n]
        d0, d1, d2 = b0[begin:n], b1[begin:n], b2[begin:n]
        for j in range(len(own)):
            across = x0 * d0[j] + x1 * d1[j] + x2 * d2[j]
            own[j] = across + (y0 * c0[j] + y1 * c1[j] + y2 * c2[j])
        at += n - begin
