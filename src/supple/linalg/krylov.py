"""Krylov methods: preconditioned conjugate gradients, and block Lanczos for eigenpairs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from supple.arrays import Floats, Ints
from supple.compiled.jit import compiled
from supple.errors import SolverError
from supple.linalg.blas import single_threaded


class ConjugateGradients:
    """Solver of A x = b for symmetric positive definite matrices (n, n) of one CSR pattern, which
    has sorted columns and all diagonal entries.

    Preconditioned with (D + L) D⁻¹ (D + Lᵀ), where D is the diagonal and L the strictly lower
    triangle of A, by Eisenstat's trick (SIAM J. Sci. Stat. Comput. 2, 1981): one forward and one
    backward sweep include the product with the matrix, so that an iteration costs as much as the
    product alone. Sums are taken by one thread in a fixed order, so that results are reproducible
    bit for bit.

    >>> matrix = sp.csr_array([[4.0, 1.0], [1.0, 3.0]])
    >>> ConjugateGradients(matrix).solve(matrix.data, np.array([1.0, 2.0]), 1e-12, 9).round(8)
    array([0.09090909, 0.63636364])
    """

    def __init__(self, pattern: sp.csr_array) -> None:
        self._starts = pattern.indptr.astype(np.int64)
        self._columns = pattern.indices.astype(np.int32)
        rows = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
        #: (n,) positions of the diagonal among the values.
        self.diagonal: Ints = np.flatnonzero(rows == pattern.indices)
        if len(self.diagonal) != pattern.shape[0]:
            raise SolverError("the pattern lacks an entry of its diagonal")

    def solve(self, values: Floats, right: Floats, tolerance: float, most: int) -> Floats | None:
        """Return x (n,) of A x = `right`, or None if `most` iterations are not enough. `values` of
        A are in the pattern's order; `tolerance` is the relative residual, in the norm of the
        preconditioner.
        """
        x = np.zeros(len(right))
        # A kernel that returned x would turn Ctrl-C into an error.
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
    """Add the solution to x, which is zero; return whether the tolerance was reached.
    Variables are Eisenstat's: r̂ = (D + L)⁻¹ r, p̂ = (D + Lᵀ) p.
    """
    n = len(right)
    d = values[diagonal]
    if not d.min() > 0.0:
        return False
    r, p, t, w = np.zeros(n), np.empty(n), np.zeros(n), np.zeros(n)
    _solve_lower(starts, columns, values, diagonal, right, r)
    size = 0.0
    for i in range(n):
        p[i] = d[i] * r[i]
        size += r[i] * p[i]
    small = tolerance * tolerance * size
    for _ in range(most):
        if size <= small:
            break
        _solve_upper(starts, columns, values, diagonal, p, t)
        for i in range(n):
            w[i] = p[i] - d[i] * t[i]
        _solve_lower(starts, columns, values, diagonal, w, w)
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
def _solve_lower(
    starts: Ints, columns: Ints, values: Floats, diagonal: Ints, right: Floats, out: Floats
) -> None:
    """Write (D + L)⁻¹ `right` to `out`, which may be `right`; D is diagonal, L strictly lower."""
    for i in range(len(right)):
        rest = right[i]
        for k in range(starts[i], diagonal[i]):
            rest -= values[k] * out[columns[k]]
        out[i] = rest / values[diagonal[i]]


@compiled
def _solve_upper(
    starts: Ints, columns: Ints, values: Floats, diagonal: Ints, right: Floats, out: Floats
) -> None:
    """Write (D + Lᵀ)⁻¹ `right` to `out`, with D the diagonal and Lᵀ strictly upper."""
    for i in range(len(right) - 1, -1, -1):
        rest = right[i]
        for k in range(diagonal[i] + 1, starts[i + 1]):
            rest -= values[k] * out[columns[k]]
        out[i] = rest / values[diagonal[i]]


#: Relative error of a Ritz vector before the final solve, which reduces it to the relative
#: residual ‖K y − λ M y‖ / ‖λ M y‖, whatever the condition of K.
EIGEN_TOLERANCE = 2e-9
#: Six right-hand sides cost less than three times one, and a block finds eigenvalues as multiple
#: as the zero of a free body. Run times with 4 to 8 are equal; with 32 they are longer.
BLOCK = 6
#: Directions of a new block below this relative size, after orthogonalisation, are rounding errors.
_ROUNDING = 1e-10


def lowest_eigenpairs(
    solve: Callable[[Floats], Floats],
    mass: sp.csr_array,
    count: int,
    tolerance: float = EIGEN_TOLERANCE,
) -> tuple[Floats, Floats]:
    """Compute the `count` lowest eigenpairs of K y = λ M y, given the function b ↦ K⁻¹ b.
    Returns ascending eigenvalues (count,) and vectors (n, count) with Yᵀ M Y = I.

    Block Lanczos on K⁻¹M with full orthogonalisation in the inner product of M (Golub & Underwood
    1977). The start is fixed and BLAS uses one thread, so that results are reproducible bit for
    bit. `tolerance` is the relative error of a vector before a final solve.
    """
    with single_threaded():
        size = mass.shape[0]
        start = np.random.default_rng(0).standard_normal((size, min(BLOCK, size)))
        try:
            theta, ritz = _largest_of_inverse(solve, mass, start, count, tolerance)
            return _solved_once_more(solve, mass, theta, ritz)
        except (np.linalg.LinAlgError, ValueError):  # a Gram matrix not finite, or not definite
            raise SolverError(
                "the modes could not be computed; check that the stiffness is symmetric and "
                "positive definite and that masses are of similar size"
            ) from None


def _largest_of_inverse(
    solve: Callable[[Floats], Floats],
    mass: sp.csr_array,
    start: Floats,
    count: int,
    tolerance: float,
) -> tuple[Floats, Floats]:
    """Return the `count` largest θ of K⁻¹M y = θ y, descending, and their Ritz vectors."""
    basis = np.empty((4 * count + 8 * BLOCK, mass.shape[0]))
    projected = np.zeros((len(basis), len(basis)))
    before = done = 0
    new, _ = _orthonormal(solve(mass @ start), mass)
    while True:
        width = new.shape[1]
        if done + width > len(basis):
            basis = np.concatenate([basis, np.empty_like(basis)])
            projected = np.pad(projected, (0, len(projected)))
        basis[done : done + width] = new.T
        # K⁻¹M is self-adjoint: but for rounding, only the last two blocks matter.
        recent, built = basis[before : done + width], basis[: done + width]
        image = solve(mass @ new)
        along = recent @ (mass @ image)
        projected[before : done + width, done : done + width] = along
        projected[done : done + width, before : done + width] = along.T
        before, done = done, done + width
        image -= recent.T @ along
        image -= built.T @ (built @ (mass @ image))
        new, coupling = _orthonormal(image, mass, float(np.abs(along).max()))
        exhausted = new.shape[1] == 0
        if exhausted and done < count:
            raise SolverError(f"only {done} of {count} modes exist; request fewer")
        # Solving the small eigenproblem after every block would cost more than it saves.
        if exhausted or (done >= 1.5 * count and (done // BLOCK) % 2 == 0):
            theta, small = scipy.linalg.eigh(
                projected[:done, :done], subset_by_index=[done - count, done - 1]
            )
            error = np.linalg.norm(coupling @ small[-width:], axis=0)
            if exhausted or (error <= tolerance * theta).all():
                return theta[::-1], built.T @ small[:, ::-1]


def _orthonormal(block: Floats, mass: sp.csr_array, scale: float = 0.0) -> tuple[Floats, Floats]:
    """Return Q with QᵀMQ = I and R with Q R = block; directions of rounding are omitted."""
    gram = block.T @ (mass @ block)
    square, vectors = np.linalg.eigh((gram + gram.T) / 2)
    keep = square > (_ROUNDING * max(scale, np.sqrt(max(square[-1], 0.0)))) ** 2
    size = np.sqrt(square[keep])
    once = block @ (vectors[:, keep] / size)
    # The square root of a Gram matrix loses half the digits; a second pass restores them.
    lower = np.linalg.cholesky(once.T @ (mass @ once))
    twice = scipy.linalg.solve_triangular(lower, once.T, lower=True).T
    return twice, lower.T @ (size[:, None] * vectors[:, keep].T)


def _solved_once_more(
    solve: Callable[[Floats], Floats], mass: sp.csr_array, theta: Floats, ritz: Floats
) -> tuple[Floats, Floats]:
    """Return eigenvalues and vectors of K y = λ M y in the space K⁻¹M Y of Ritz vectors Y."""
    weighted = mass @ ritz
    better = solve(weighted) / theta
    stiff, heavy = better.T @ (weighted / theta), better.T @ (mass @ better)
    eigenvalues, vectors = scipy.linalg.eigh((stiff + stiff.T) / 2, (heavy + heavy.T) / 2)
    return eigenvalues, better @ vectors


# Sign convention of eigenvectors and singular vectors

#: Relative difference below which entries count as equally large: symmetry makes some equal.
ALIKE = 1e-6


def column_signs(columns: Floats) -> Floats:
    """Return ±1 for each column, such that the first of its largest entries becomes positive."""
    size = np.abs(columns)
    first = np.argmax(size >= (1 - ALIKE) * size.max(axis=0), axis=0)
    return np.where(np.take_along_axis(columns, first[None], 0)[0] < 0, -1.0, 1.0)


def with_fixed_signs(columns: Floats) -> Floats:
    """Return the columns with the first of their largest entries made positive."""
    return columns * column_signs(columns)
