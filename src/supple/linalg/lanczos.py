"""Lowest eigenpairs of K y = λ M y when K can be solved with, several vectors at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from supple.arrays import Floats
from supple.errors import SolverError
from supple.linalg.blas import single_threaded

#: A Ritz vector's error, as a part of it, before it is solved with once more. That last solve
#: makes it the size of the residual ‖K y − λ M y‖ as a part of ‖λ M y‖, whatever K's condition.
TOLERANCE = 2e-9
#: Solving for six costs less than three times as much as for one, and a block finds eigenvalues
#: that repeat as often as a free body's zero does. Measured with 4 to 32: flat up to 8.
BLOCK = 6
#: Directions of a new block smaller than this, after orthogonalisation, are rounding.
_NOTHING_NEW = 1e-10


def lowest_eigenpairs(
    solve: Callable[[Floats], Floats],
    mass: sp.csr_array,
    count: int,
    tolerance: float = TOLERANCE,
) -> tuple[Floats, Floats]:
    """Find the `count` lowest λ and y of K y = λ M y, given b ↦ K⁻¹ b.

    Block Lanczos on K⁻¹M with full orthogonalisation in the inner product of M (Golub & Underwood
    1977). The start is fixed and BLAS held to one thread: the same bits on every run. `tolerance`
    is the error of a vector, as a part of it, before it is solved with once more.

    Returns
    -------
    eigenvalues : (count,)
        Ascending.
    vectors : (n, count)
        Yᵀ M Y = I.

    Raises
    ------
    SolverError
        If there are not so many, or numbers are beyond all measure.
    """
    with single_threaded():
        size = mass.shape[0]
        start = np.random.default_rng(0).standard_normal((size, min(BLOCK, size)))
        try:
            theta, ritz = _largest_of_inverse(solve, mass, start, count, tolerance)
            return _solved_once_more(solve, mass, theta, ritz)
        except (np.linalg.LinAlgError, ValueError):  # a Gram matrix not finite, or not definite
            raise SolverError(
                "the modes could not be found; is the stiffness symmetric and positive, and are "
                "masses of a like size?"
            ) from None


def _largest_of_inverse(
    solve: Callable[[Floats], Floats],
    mass: sp.csr_array,
    start: Floats,
    count: int,
    tolerance: float,
) -> tuple[Floats, Floats]:
    """Return the largest θ of K⁻¹M y = θ y, descending, and their Ritz vectors."""
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
        # K⁻¹M is self-adjoint, so only the last two blocks matter, but for rounding.
        recent, known = basis[before : done + width], basis[: done + width]
        image = solve(mass @ new)
        along = recent @ (mass @ image)
        projected[before : done + width, done : done + width] = along
        projected[done : done + width, before : done + width] = along.T
        before, done = done, done + width
        image -= recent.T @ along
        image -= known.T @ (known @ (mass @ image))
        new, coupling = _orthonormal(image, mass, float(np.abs(along).max()))
        exhausted = new.shape[1] == 0
        if exhausted and done < count:
            raise SolverError(f"only {done} of {count} modes could be found; ask for fewer")
        # The small eigenproblem is not worth solving after every block.
        if exhausted or (done >= 1.5 * count and (done // BLOCK) % 2 == 0):
            theta, small = scipy.linalg.eigh(
                projected[:done, :done], subset_by_index=[done - count, done - 1]
            )
            error = np.linalg.norm(coupling @ small[-width:], axis=0)
            if exhausted or (error <= tolerance * theta).all():
                return theta[::-1], known.T @ small[:, ::-1]


def _orthonormal(block: Floats, mass: sp.csr_array, scale: float = 0.0) -> tuple[Floats, Floats]:
    """Return Q with QᵀMQ = I and R with Q R = block, without directions of rounding only."""
    gram = block.T @ (mass @ block)
    square, turn = np.linalg.eigh((gram + gram.T) / 2)
    keep = square > (_NOTHING_NEW * max(scale, np.sqrt(max(square[-1], 0.0)))) ** 2
    size = np.sqrt(square[keep])
    once = block @ (turn[:, keep] / size)
    # The square root of a Gram matrix loses half the digits; a second pass brings them back.
    lower = np.linalg.cholesky(once.T @ (mass @ once))
    twice = scipy.linalg.solve_triangular(lower, once.T, lower=True).T
    return twice, lower.T @ (size[:, None] * turn[:, keep].T)


def _solved_once_more(
    solve: Callable[[Floats], Floats], mass: sp.csr_array, theta: Floats, ritz: Floats
) -> tuple[Floats, Floats]:
    """Return λ and y of the space that K⁻¹M takes the Ritz vectors to."""
    weighed = mass @ ritz
    better = solve(weighed) / theta
    stiff, heavy = better.T @ (weighed / theta), better.T @ (mass @ better)
    eigenvalues, turn = scipy.linalg.eigh((stiff + stiff.T) / 2, (heavy + heavy.T) / 2)
    return eigenvalues, better @ turn
