"""Claims of `ConjugateGradients`: right, few iterations, and honest where they do not suffice."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from supple.errors import SolverError
from supple.linalg.krylov import ConjugateGradients


def chain(n, held):
    """A chain of springs, each link held to its place as strongly as `held` says."""
    ones = np.ones(n - 1)
    return sp.csr_array(sp.diags_array([-ones, np.full(n, 2.0 + held), -ones], offsets=[-1, 0, 1]))


@pytest.mark.parametrize("n", [1, 2, 50])
def test_the_solution_is_that_of_a_dense_solver(n):
    matrix = chain(n, 0.1) if n > 1 else sp.csr_array([[3.0]])
    right = np.random.default_rng(n).normal(size=n)
    x = ConjugateGradients(matrix).solve(matrix.data, right, 1e-12, 200)
    assert x is not None
    np.testing.assert_allclose(x, np.linalg.solve(matrix.toarray(), right), rtol=1e-9, atol=1e-12)


def test_iterations_do_not_grow_with_the_size_where_every_unknown_is_held():
    for n in (100, 10_000):
        matrix = chain(n, 1.0)
        right = np.random.default_rng(0).normal(size=n)
        x = ConjugateGradients(matrix).solve(matrix.data, right, 1e-2, 6)
        assert x is not None
        assert np.linalg.norm(matrix @ x - right) < 0.05 * np.linalg.norm(right)


def test_none_is_returned_for_too_few_iterations_or_an_indefinite_matrix():
    matrix = chain(400, 0.0)
    right = np.ones(400)
    assert ConjugateGradients(matrix).solve(matrix.data, right, 1e-10, 3) is None
    negative = chain(400, -3.0)
    assert ConjugateGradients(negative).solve(negative.data, right, 1e-10, 400) is None
    broken = np.full(matrix.nnz, np.nan)
    assert ConjugateGradients(matrix).solve(broken, right, 1e-2, 9) is None


def test_a_right_side_of_zero_is_solved_by_zero():
    matrix = chain(5, 0.0)
    x = ConjugateGradients(matrix).solve(matrix.data, np.zeros(5), 1e-2, 0)
    assert x is not None
    assert not x.any()


def test_a_pattern_without_its_diagonal_is_refused():
    with pytest.raises(SolverError, match="diagonal"):
        ConjugateGradients(sp.csr_array([[0.0, 1.0], [1.0, 2.0]]))
