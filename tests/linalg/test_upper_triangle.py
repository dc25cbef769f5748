"""Factors of the small systems of steps, by blocks that are not zero."""

from __future__ import annotations

import numpy as np
import pytest

from supple.linalg.upper_triangle import cholesky_of_blocks, padded_identity, solve_by_blocks


def blocks_of(matrix):
    """Matrix as the factorisation takes it, which blocks are filled, and room for lists."""
    n, factor = len(matrix), padded_identity(len(matrix))
    factor[:n, :n] = matrix
    count = len(factor) // 8
    whole = factor[:, : 8 * count].reshape(count, 8, count, 8)
    return factor, (whole != 0).any(axis=(1, 3)).T.copy(), np.zeros(2 * count, np.int64)


def banded(n: int, reach: int, seed: int = 0):
    """Positive definite: entries near the diagonal, and in the last ten rows and columns."""
    rows = np.arange(n)
    found = np.random.default_rng(seed).standard_normal((n, n))
    far = np.abs(rows[:, None] - rows) > reach
    found[far & (np.maximum(rows[:, None], rows) < n - 10)] = 0.0
    return found + found.T + 4 * n * np.eye(n)


@pytest.mark.parametrize(("n", "reach"), [(1, 1), (24, 3), (53, 8), (90, 90)])
def test_blocks_give_the_solution(n, reach):
    matrix = banded(n, reach)
    factor, filled, listed = blocks_of(matrix)
    x = np.zeros(len(factor))
    x[:n] = np.arange(n) + 1.0
    assert cholesky_of_blocks(factor, filled, listed)
    solve_by_blocks(factor, filled, x)
    np.testing.assert_allclose(matrix @ x[:n], np.arange(n) + 1.0, rtol=1e-12)


def test_blocks_that_stay_zero_are_not_looked_at():
    matrix = banded(160, 8)
    factor, filled, listed = blocks_of(matrix)
    empty = np.kron(~filled.T, np.ones((8, 8), bool))
    factor[:, : len(empty)][empty & ~np.tri(len(empty), dtype=bool)] = np.nan
    x = np.ones(len(factor))
    assert cholesky_of_blocks(factor, filled, listed)
    solve_by_blocks(factor, filled, x)
    np.testing.assert_allclose(matrix @ x[:160], 1.0, rtol=1e-12)
    assert np.tril(filled).sum() < 0.5 * np.tril(np.ones_like(filled)).sum()


def test_a_matrix_that_is_not_positive_definite_is_refused():
    matrix = banded(40, 5)
    matrix[17, 17] = -1.0
    assert not cholesky_of_blocks(*blocks_of(matrix))
