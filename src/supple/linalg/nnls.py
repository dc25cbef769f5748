"""Non-negative least squares from a Gram matrix."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.linalg
from scipy.optimize import nnls

from supple.arrays import Bools, Floats

__all__ = ["joint_fit", "nonnegative_fit", "removal_costs"]


#: Added to the diagonal, relative to it: columns may be copies of each other.
_RIDGE = 1e-11
#: Exchanges of whole sets that may fail to improve before single ones are made.
_PATIENCE = 3
_MOST_EXCHANGES = 500
#: Rounds over all poses of a joint fit, and the relative change that ends them.
_SWEEPS = 30
_CHANGE = 1e-3


def nonnegative_fit(gram: Floats, right: Floats, start: Bools | None = None) -> Floats:
    """Minimise ½ vᵀGv − hᵀv over v ≥ 0: least squares of columns with Gram matrix G.

    Block principal pivoting: whole sets of weights change between free and zero at once, which
    takes a handful of Cholesky factorisations where the classical active set takes hundreds.

    Parameters
    ----------
    gram, right
        AᵀA (c, c) and Aᵀb (c,).
    start
        (c,) weights believed positive, from a similar problem.

    Examples
    --------
    >>> nonnegative_fit(np.eye(2), np.array([2.0, -1.0]))
    array([2., 0.])
    """
    scale, G = _normalised(gram)
    h = right * scale
    free = np.ones(len(h), bool) if start is None else start.copy()
    tolerance = 1e-12 * np.abs(h).max(initial=0.0)
    fewest, patience = len(h) + 1, _PATIENCE
    for _ in range(_MOST_EXCHANGES):
        x = np.zeros(len(h))
        if free.any():
            x[free] = scipy.linalg.cho_solve((_factor(G[np.ix_(free, free)]), True), h[free])
        wrong = np.where(free, x < 0, G @ x - h < -tolerance)
        count = int(wrong.sum())
        if count == 0:
            return np.asarray(x * scale)
        if count < fewest:
            fewest, patience = count, _PATIENCE
        elif patience > 0:
            patience -= 1
        else:  # single exchanges end for certain
            wrong[: np.flatnonzero(wrong)[-1]] = False
        free ^= wrong
    lower = np.tril(_factor(G))
    halfway = scipy.linalg.solve_triangular(lower, h, lower=True)
    solved, _ = nnls(lower.T, halfway, maxiter=100 * len(h))  # 3 c, the usual, were too few once
    return np.asarray(solved * scale)


def joint_fit(grams: Sequence[Floats], rights: Sequence[Floats], shares: Floats) -> Floats:
    """Fit weights v_i ≥ 0 of m poses, of which every target sees a blend.

    Minimises Σ_k ‖A_k Σ_i s_ki v_i − b_k‖², pose by pose in turn until little changes.

    Parameters
    ----------
    grams, rights
        A_kᵀA_k (c, c) and A_kᵀb_k (c,) of all targets.
    shares
        (targets, m) s; those of the first m targets are the identity.

    Returns
    -------
    (m, c) array
    """
    m = shares.shape[1]
    weights = np.array([nonnegative_fit(grams[i], rights[i]) for i in range(m)])
    if len(grams) == m:
        return weights
    for _ in range(_SWEEPS):
        before = weights.copy()
        for i in range(m):
            gram, right = np.zeros_like(grams[0]), np.zeros_like(rights[0])
            for k in np.flatnonzero(shares[:, i]).tolist():
                others = shares[k] @ weights - shares[k, i] * weights[i]
                gram += shares[k, i] ** 2 * grams[k]
                right += shares[k, i] * (rights[k] - grams[k] @ others)
            weights[i] = nonnegative_fit(gram, right, weights[i] > 0)
        if np.linalg.norm(weights - before) <= _CHANGE * np.linalg.norm(weights):
            break
    return weights


def removal_costs(gram: Floats, weights: Floats) -> Floats:
    """Return the growth of the squared residual when a column goes and the others adapt.

    v_e² / (G⁻¹)_ee over the columns with positive weight; zero for the others.
    """
    costs = np.zeros(len(weights))
    free = np.flatnonzero(weights > 0)
    if len(free) == 0:
        return costs
    scale, G = _normalised(gram[np.ix_(free, free)])
    inverse, _ = scipy.linalg.lapack.dtrtri(_factor(G), lower=1)
    inverse = np.tril(inverse)
    costs[free] = (weights[free] / scale) ** 2 / (inverse * inverse).sum(axis=0)
    return costs


def _normalised(gram: Floats) -> tuple[Floats, Floats]:
    """Scale a matrix to a diagonal of 1, and keep it regular; return the scales too."""
    diagonal = np.diag(gram)
    scale = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    G = gram * scale[:, None] * scale
    G[np.diag_indices_from(G)] += np.where(diagonal > 0, _RIDGE, 1.0)
    return scale, G


def _factor(G: Floats) -> Floats:
    """Factor the matrix, with as little added as makes it definite; return the lower triangle."""
    ridge = _RIDGE
    while True:
        factor, failed = scipy.linalg.lapack.dpotrf(G, lower=1)
        if not failed:
            return np.asarray(factor)
        ridge *= 10
        G = G + ridge * np.eye(len(G))
