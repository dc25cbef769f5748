"""A force whose components are cubic polynomials, and the tangent that it has."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from supple.checks import checked_array, numbers
from supple.errors import SuppleError
from supple.reduction.stvk_coefficients import paired_count

__all__ = ["CubicForce"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# How far a tangent may be from symmetric, as a part of its size, and still come from an energy.
_ASYMMETRY = 1e-6
# Rows of tangent coefficients made at once.
_ROWS = 128


class CubicForce:
    """f(q) = L q + Q (q_i q_j)_{i≤j} + C (q_i q_j q_k)_{i≤j≤k}: rows are components.

    The internal force of a StVK body in a basis, as VegaFEM stores it. It is the gradient of
    energy, so it stands on the left of the equation of motion.

    Parameters
    ----------
    linear
        (r, r).
    quadratic
        (r, r(r + 1)/2), columns (0, 0), (0, 1), …, (1, 1), …
    cubic
        (r, r(r + 1)(r + 2)/6), columns (0, 0, 0), (0, 0, 1), …, (0, 1, 1), …

    Examples
    --------
    >>> spring = CubicForce([[2.0]], [[0.0]], [[1.0]])
    >>> spring.force([3.0]), spring.stiffness([3.0])
    (array([33.]), array([[29.]]))
    """

    def __init__(self, linear: ArrayLike, quadratic: ArrayLike, cubic: ArrayLike) -> None:
        given = numbers("linear terms", linear)
        r = len(given) if given.ndim else 0
        if r == 0:
            raise SuppleError("linear terms must be a matrix (r, r) with r at least 1")
        self.linear = checked_array("linear terms", given, (r, r))
        self.quadratic = checked_array("quadratic terms", quadratic, (r, r * (r + 1) // 2))
        self.cubic = checked_array("cubic terms", cubic, (r, r * (r + 1) * (r + 2) // 6))

    def __repr__(self) -> str:
        return f"CubicForce(r = {self.r})"

    @property
    def r(self) -> int:
        """Number of coordinates."""
        return len(self.linear)

    @cached_property
    def _pairs(self) -> tuple[Ints, Ints]:
        return np.triu_indices(self.r)

    @cached_property
    def _triples(self) -> tuple[Ints, Ints, Ints]:
        return _triples(self.r)

    def force(self, q: ArrayLike) -> Floats:
        """f(q), (r,)."""
        linear, quadratic, cubic = self._terms(q)
        return linear + quadratic + cubic

    def energy(self, q: ArrayLike) -> float:
        """W(q) with ∂W/∂q = f, by Euler's theorem; it must be the gradient of one."""
        linear, quadratic, cubic = self._terms(q)
        return float(np.asarray(q, np.float64) @ (linear / 2 + quadratic / 3 + cubic / 4))

    def _terms(self, q: ArrayLike) -> tuple[Floats, Floats, Floats]:
        q = checked_array("coordinates", q, (self.r,))
        (i, j), (a, b, c) = self._pairs, self._triples
        return self.linear @ q, self.quadratic @ (q[i] * q[j]), self.cubic @ (q[a] * q[b] * q[c])

    def stiffness(self, q: ArrayLike) -> Floats:
        """∂f/∂q, (r, r); row a is the gradient of component a."""
        q = checked_array("coordinates", q, (self.r,))
        (i, j), (a, b, c) = self._pairs, self._triples
        squares = _derivatives((i, j), (q[j], q[i]), self.r)
        cubes = _derivatives((a, b, c), (q[b] * q[c], q[a] * q[c], q[a] * q[b]), self.r)
        return self.linear + (squares.T @ self.quadratic.T).T + (cubes.T @ self.cubic.T).T

    def tangent_coefficients(self) -> Floats:
        """∂f/∂q as polynomials, (r(r + 1)/2, 1 + r + r(r + 1)/2).

        Rows are entries (a, b), a ≤ b, of the tangent; columns the monomials 1, q_i, and q_i q_j
        with i ≤ j; both in lexicographic order.

        Raises
        ------
        SuppleError
            If the tangent is not symmetric, that is, the force has no energy.
        """
        a, b = self._pairs
        table = np.empty((len(a), 1 + self.r + len(a)))
        starts = np.array([0, 1, 1 + self.r])  # of the parts, whose sizes may differ much
        largest, apart = np.zeros(3), np.zeros(3)
        for first in range(0, len(a), _ROWS):
            rows = slice(first, first + _ROWS)
            table[rows] = self._tangent_rows(a[rows], b[rows])
            below = self._tangent_rows(b[rows], a[rows])
            for sizes, block in ((largest, table[rows]), (apart, table[rows] - below)):
                columns = np.abs(block).max(axis=0)
                np.maximum(sizes, np.maximum.reduceat(columns, starts), out=sizes)
            table[rows] = (table[rows] + below) / 2
        if (apart > _ASYMMETRY * largest).any():
            raise SuppleError("the force is not the gradient of an energy: no symmetric tangent")
        return table

    def _tangent_rows(self, row: Ints, column: Ints) -> Floats:
        """Coefficients of ∂f_row/∂q_column."""
        row, column = row[:, None], column[:, None]
        every, (i, j) = np.arange(self.r), self._pairs
        pair = _pair_number(column, every, self.r)
        triple = _triple_number(column, i, j, self.r)
        often = 1 + (column == i).astype(np.int64) + (column == j)
        return np.hstack(
            [
                self.linear[row, column],
                self.quadratic[row, pair] * (1 + (column == every)),
                self.cubic[row, triple] * often,
            ]
        )

    @classmethod
    def of_tangent(cls, coefficients: ArrayLike) -> CubicForce:
        """The force whose tangent has these coefficients, laid out as `tangent_coefficients`."""
        table = numbers("tangent coefficients", coefficients)
        entries = len(table) if table.ndim == 2 else 0
        r = paired_count(entries)
        table = checked_array("tangent coefficients", table, (r * (r + 1) // 2, 1 + r + entries))
        if r == 0:
            raise SuppleError("tangent coefficients must have at least one row")
        every = np.arange(r)[:, None]
        i, j = np.triu_indices(r)
        a, b, c = _triples(r)
        # Each coefficient of f_l can be read from ∂f_l/∂q of any of its coordinates: the first.
        linear = table[_pair_number(every, np.arange(r), r), 0]
        quadratic = table[_pair_number(every, i, r), 1 + j] / (1 + (i == j))
        pair = 1 + r + _pair_number(b, c, r)
        cubic = table[_pair_number(every, a, r), pair] / (1 + (a == b).astype(np.int64) + (a == c))
        return cls(linear, quadratic, cubic)


def _derivatives(indices: tuple[Ints, ...], values: tuple[Floats, ...], r: int) -> sp.csr_array:
    """∂(monomial)/∂q, a row for each monomial; entries at one place add up."""
    rows = np.tile(np.arange(len(indices[0])), len(indices))
    shape = (len(indices[0]), r)
    entries = sp.coo_array((np.concatenate(values), (rows, np.concatenate(indices))), shape)
    return sp.csr_array(entries)


def _triples(r: int) -> tuple[Ints, Ints, Ints]:
    """All i ≤ j ≤ k below r in lexicographic order."""
    first, second = np.triu_indices(r)
    often = r - second
    ends = np.cumsum(often)
    third = np.arange(ends[-1]) - np.repeat(ends - often, often) + np.repeat(second, often)
    return np.repeat(first, often), np.repeat(second, often), third


def _pair_number(i: Ints, j: Ints, r: int | Ints) -> Ints:
    """Where (i, j), in any order, stands among the pairs."""
    low, high = np.minimum(i, j), np.maximum(i, j)
    return low * r - low * (low - 1) // 2 + high - low


def _triple_number(i: Ints, j: Ints, k: Ints, r: int) -> Ints:
    """Where (i, j, k), in any order, stands among the triples."""
    low, high = np.minimum(np.minimum(i, j), k), np.maximum(np.maximum(i, j), k)
    middle = i + j + k - low - high
    left = r - low  # all that begin with less come before
    before = (r * (r + 1) * (r + 2) - left * (left + 1) * (left + 2)) // 6
    return before + _pair_number(middle - low, high - low, left)
