"""Conjugate gradients with symmetric Gauss–Seidel, for matrices that need no factorisation."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from supple.arrays import Floats, Ints
from supple.compiled.jit import compiled
from supple.errors import SolverError


class ConjugateGradients:
    """Solver of A x = b for symmetric positive definite matrices of one pattern.

    Preconditioned with (D + L) D⁻¹ (D + Lᵀ), by Eisenstat's trick (SIAM J. Sci. Stat. Comput. 2,
    1981): one sweep down and one up are the product with the matrix too, so that an iteration
    costs what the product alone does. One thread, sums in a fixed order: the same bits every time.

    Parameters
    ----------
    pattern
        (n, n) CSR with sorted columns and an entry in every place of the diagonal; its values
        are not used.

    Examples
    --------
    >>> matrix = sp.csr_array([[4.0, 1.0], [1.0, 3.0]])
    >>> ConjugateGradients(matrix).solve(matrix.data, np.array([1.0, 2.0]), 1e-12, 9).round(8)
    array([0.09090909, 0.63636364])
    """

    def __init__(self, pattern: sp.csr_array) -> None:
        self._starts = pattern.indptr.astype(np.int64)
        self._columns = pattern.indices.astype(np.int32)
        rows = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
        #: (n,) places of the diagonal among the values.
        self.diagonal: Ints = np.flatnonzero(rows == pattern.indices)
        if len(self.diagonal) != pattern.shape[0]:
            raise SolverError("the pattern has no entry in some place of its diagonal")

    def solve(self, values: Floats, right: Floats, tolerance: float, most: int) -> Floats | None:
        """Return x (n,), or None if `most` iterations are not enough.

        Parameters
        ----------
        values
            The matrix's, in the pattern's order.
        right
            b (n,).
        tolerance
            Part of b that may be left, in the norm of the preconditioner.
        most
            Number of iterations.
        """
        x = np.zeros(len(right))
        # A kernel that returned it would end in an error, not an interruption, by Ctrl-C.
        done = _iterate(
            self._starts, self._columns, values, self.diagonal, right, tolerance, most, x
        )
        return x if done else None


@compiled
def _iterate(
    starts: Ints,
    columns: Ints,
    values: Floats,
    diagonal: Ints,
    right: Floats,
    tolerance: float,
    most: int,
    x: Floats,
) -> bool:
    """Add to x, which is zero, what solves it; return whether it is good enough.

    In the variables of Eisenstat: r̂ = (D + L)⁻¹ r, p̂ = (D + Lᵀ) p.
    """
    n = len(right)
    d = values[diagonal]
    if not d.min() > 0.0:
        return False
    r, p, t, w = np.zeros(n), np.empty(n), np.zeros(n), np.zeros(n)
    _down(starts, columns, values, diagonal, right, r)
    size = 0.0
    for i in range(n):
        p[i] = d[i] * r[i]
        size += r[i] * p[i]
    small = tolerance * tolerance * size
    for _ in range(most):
        if size <= small:
            break
        _up(starts, columns, values, diagonal, p, t)
        for i in range(n):
            w[i] = p[i] - d[i] * t[i]
        _down(starts, columns, values, diagonal, w, w)
        curvature = 0.0
        for i in range(n):
            w[i] += t[i]
            curvature += p[i] * w[i]
        if not curvature > 0.0:  # not definite, or not finite
            return False
        step, before, size = size / curvature, size, 0.0
        for i in range(n):
            x[i] += step * t[i]
            r[i] -= step * w[i]
            size += r[i] * r[i] * d[i]
        for i in range(n):
            p[i] = d[i] * r[i] + size / before * p[i]
    return size <= small


@compiled
def _down(
    starts: Ints, columns: Ints, values: Floats, diagonal: Ints, right: Floats, out: Floats
) -> None:
    """Write (D + L)⁻¹ b; `out` may be b."""
    for i in range(len(right)):
        rest = right[i]
        for k in range(starts[i], diagonal[i]):
            rest -= values[k] * out[columns[k]]
        out[i] = rest / values[diagonal[i]]


@compiled
def _up(
    starts: Ints, columns: Ints, values: Floats, diagonal: Ints, right: Floats, out: Floats
) -> None:
    """Write (D + Lᵀ)⁻¹ b."""
    for i in range(len(right) - 1, -1, -1):
        rest = right[i]
        for k in range(diagonal[i] + 1, starts[i + 1]):
            rest -= values[k] * out[columns[k]]
        out[i] = rest / values[diagonal[i]]
