"""Non-negative least squares from a Gram matrix."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.linalg
from scipy.optimize import nnls

from supple.arrays import Bools, Floats, Ints

#: Added to the diagonal, relative to it, as columns may be copies of each other.
_RIDGE = 1e-11
#: The same before a matrix is inverted, so that differences keep some digits.
_DISTINCT = 1e-7
#: Candidate columns for each one that is removed.
_SPARE = 3
#: Exchanges of whole sets that may fail to improve before single entries are exchanged.
_PATIENCE = 3
_MOST_EXCHANGES = 500
#: Rounds over all poses of a joint fit, and the relative change that ends them.
_SWEEPS = 30
_CHANGE = 1e-3


def nonnegative_fit(gram: Floats, right: Floats, start: Bools | None = None) -> Floats:
    """Return v (c,) that minimises ½ vᵀGv − hᵀv over v ≥ 0: least squares of A v = b.

    `gram` is G = AᵀA (c, c), `right` is h = Aᵀb (c,). `start` (c,) is a mask of weights that are
    positive in a similar problem.

    Block principal pivoting: whole sets of weights change between free and zero at once, which
    takes a handful of Cholesky factorisations where the classical active set takes hundreds.

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
        else:  # single exchanges terminate
            wrong[: np.flatnonzero(wrong)[-1]] = False
        free ^= wrong
    lower = np.tril(_factor(G))
    halfway = scipy.linalg.solve_triangular(lower, h, lower=True)
    solved, _ = nnls(lower.T, halfway, maxiter=100 * len(h))  # the default, 3 c, can be too few
    return np.asarray(solved * scale)


def joint_fit(
    grams: Sequence[Floats],
    rights: Sequence[Floats],
    shares: Floats,
    start: Floats | None = None,
    change: float = _CHANGE,
) -> Floats:
    """Fit weights v_i ≥ 0 (m, c) of m poses, each target depending on a blend of them.

    Minimises Σ_k ‖A_k Σ_i s_ki v_i − b_k‖², pose by pose in turn until a sweep over all poses
    changes the weights by less than `change`, relatively. `grams` and `rights` are A_kᵀA_k (c, c)
    and A_kᵀb_k (c,); `shares` (targets, m) are blending weights s, the first m rows the identity;
    `start` (m, c) are weights of a similar problem, by default of each pose fitted alone.
    """
    m = shares.shape[1]
    if start is None or len(grams) == m:
        weights = np.array([nonnegative_fit(grams[i], rights[i]) for i in range(m)])
    else:
        weights = start.copy()
    if len(grams) == m:
        return weights
    targets = [np.flatnonzero(shares[:, i]).tolist() for i in range(m)]
    pose_grams = [sum(shares[k, i] ** 2 * grams[k] for k in targets[i]) for i in range(m)]
    lengths = np.sqrt(sum(np.diag(gram) for gram in grams))  # small columns have large weights
    for _ in range(_SWEEPS):
        before = weights.copy()
        for i in range(m):
            right = np.zeros_like(rights[0])
            for k in targets[i]:
                others = shares[k] @ weights - shares[k, i] * weights[i]
                right += shares[k, i] * (rights[k] - grams[k] @ others)
            weights[i] = nonnegative_fit(pose_grams[i], right, weights[i] > 0)
        weight_change = np.linalg.norm(lengths * (weights - before))
        if weight_change <= change * np.linalg.norm(lengths * weights):
            break
    return weights


def cheapest_removals(grams: Sequence[Floats], weights: Sequence[Floats], count: int) -> Ints:
    """Choose `count` columns whose removal increases the residuals least, in order of removal.

    `grams` and `weights` are G = AᵀA (c, c) and weights v (c,) of each pose. A removal adds
    Σ v_e² / (G⁻¹)_ee over the poses to squared residuals once the others have been refitted; it
    costs nothing where the weight is 0. Columns are removed one after another, because each removal
    raises the cost of others: of two similar columns either can be spared, but not both.
    """
    inverses = np.array([_inverse(*pair) for pair in zip(grams, weights, strict=True)])
    values = np.array(weights)
    costs = (values**2 / np.diagonal(inverses, axis1=1, axis2=2)).sum(axis=0)
    candidates = np.argsort(costs, kind="stable")[: _SPARE * count]
    inverses, values = inverses[:, candidates[:, None], candidates], values[:, candidates]
    lengths = np.array([np.diag(gram)[candidates] for gram in grams])
    least = 1 / np.where(lengths > 0, lengths, 1.0)  # of one column alone
    remaining, removed = np.ones(len(candidates), bool), np.empty(count, np.int64)
    for k in range(count):
        sizes = np.maximum(np.diagonal(inverses, axis1=1, axis2=2), least)
        e = int(
            np.argmin(
                np.where(remaining, _costs(inverses, sizes, values, least, remaining), np.inf)
            )
        )
        remaining[e], removed[k] = False, candidates[e]
        along = inverses[:, :, e] / sizes[:, e, None]
        values -= along * values[:, e, None]
        inverses -= along[:, :, None] * inverses[:, None, e]
    return removed


def _costs(
    inverses: Floats, sizes: Floats, values: Floats, least: Floats, remaining: Bools
) -> Floats:
    """Return the cost (q,) of removing each column, and columns whose weights this makes negative.
    `inverses` are G⁻¹ (m, q, q) with diagonals `sizes`, bounded below by `least`.
    """
    parts = inverses / sizes[:, :, None]
    negative = np.where(
        remaining, np.minimum(values[:, None] - parts * values[:, :, None], 0.0), 0.0
    )
    reduced = np.maximum(sizes[:, None] - parts * inverses, least[:, None])
    return (values**2 / sizes).sum(axis=0) + (negative**2 / reduced).sum(axis=(0, 2))


def _inverse(gram: Floats, weights: Floats) -> Floats:
    """Return (c, c): the inverse of `gram` at positive weights, and 1 / gram_ee at the others."""
    diagonal = np.diag(gram)
    inverse = np.diag(1 / np.where(diagonal > 0, diagonal, 1.0))
    free = np.flatnonzero(weights > 0)
    if len(free):
        scale, G = _normalised(gram[np.ix_(free, free)])
        G[np.diag_indices_from(G)] += _DISTINCT
        half, _ = scipy.linalg.lapack.dtrtri(_factor(G), lower=1)
        half = np.tril(half) * scale
        inverse[np.ix_(free, free)] = half.T @ half
    return inverse


def _normalised(gram: Floats) -> tuple[Floats, Floats]:
    """Return scales, and the matrix scaled to a unit diagonal and regularised."""
    diagonal = np.diag(gram)
    scale = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    G = gram * scale[:, None] * scale
    G[np.diag_indices_from(G)] += np.where(diagonal > 0, _RIDGE, 1.0)
    return scale, G


def _factor(G: Floats) -> Floats:
    """Return the Cholesky factor of the matrix plus the smallest ridge that makes it definite."""
    ridge = _RIDGE
    while True:
        factor, failed = scipy.linalg.lapack.dpotrf(G, lower=1)
        if not failed:
            return np.asarray(factor)
        ridge *= 10
        G = G + ridge * np.eye(len(G))
