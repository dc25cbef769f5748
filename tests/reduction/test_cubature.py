"""The pursuit that chooses cubature columns, and the non-negative fits inside it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import nnls

from supple.linalg.nnls import cheapest_removals, joint_fit, nonnegative_fit
from supple.reduction.cubature.selection import Support, chosen_columns, pursue, threshold

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class DenseProblem:
    """Explicit matrices (rows, e) for each pose."""

    def __init__(self, matrices: list[Floats], targets: list[Floats]) -> None:
        self.matrices, self.targets = matrices, targets
        self.norms = np.array([(A * A).sum(axis=0) for A in matrices])
        self.places = np.arange(matrices[0].shape[1])[:, None]

    def correlations(self, pose: int, residual: Floats) -> Floats:
        return self.matrices[pose].T @ residual

    def columns(self, pose: int, chosen: Ints) -> Floats:
        return self.matrices[pose][:, chosen].T


def _sparse(seed: int, poses: int, rows: int, e: int, c: int) -> tuple[DenseProblem, Ints]:
    random = np.random.default_rng(seed)
    true = np.sort(random.choice(e, c, replace=False))
    matrices = [random.standard_normal((rows, e)) for _ in range(poses)]
    targets = [A[:, true] @ random.uniform(0.5, 2.0, c) for A in matrices]
    return DenseProblem(matrices, targets), true


@pytest.mark.parametrize("seed", range(5))
def test_a_sparse_sum_is_found_again(seed: int) -> None:
    problem, true = _sparse(seed, poses=3, rows=60, e=300, c=12)
    np.testing.assert_array_equal(pursue(problem, 12), true)


def test_poses_together_find_what_one_alone_cannot() -> None:
    problem, true = _sparse(1, poses=8, rows=20, e=300, c=12)
    alone = DenseProblem(problem.matrices[:1], problem.targets[:1])
    assert not np.array_equal(pursue(alone, 12), true)
    np.testing.assert_array_equal(pursue(problem, 12), true)


def test_more_columns_leave_less() -> None:
    random = np.random.default_rng(0)
    A = np.abs(random.standard_normal((80, 200)))
    problem = DenseProblem([A], [A.sum(axis=1)])
    errors = []
    for count in (5, 15, 40):
        support = Support(problem)
        support.add(pursue(problem, count))
        errors.append(support.squared_error())
    assert errors[0] > 1.5 * errors[1] > 1.5**2 * errors[2]


def test_thresholding_finds_columns_that_all_poses_share() -> None:
    """One set of weights that fits all poses exactly is found from a few wrong columns."""
    problem, chosen = _sparse(5, poses=3, rows=60, e=80, c=6)
    common = np.random.default_rng(1).uniform(0.5, 2.0, len(chosen))
    problem.targets = [A[:, chosen] @ common for A in problem.matrices]
    np.testing.assert_array_equal(threshold(problem, len(chosen)), np.sort(chosen))
    assert len(chosen_columns(problem, 3, "thresholding")) == 3


def test_columns_of_zeros_are_never_chosen() -> None:
    problem, _ = _sparse(2, poses=2, rows=30, e=50, c=5)
    for A in problem.matrices:
        A[:, :40] = 0.0
    problem.norms[:, :40] = 0.0
    assert pursue(problem, 6).min() >= 40
    np.testing.assert_array_equal(pursue(problem, 45), np.arange(40, 50))


@pytest.mark.parametrize("seed", range(20))
def test_fits_equal_scipys(seed: int) -> None:
    random = np.random.default_rng(seed)
    A = random.standard_normal((40, 25)) * 10 ** random.uniform(-4, 4, 25)
    b = random.standard_normal(40)
    expected, residual = nnls(A, b)
    found = nonnegative_fit(A.T @ A, A.T @ b, random.random(25) < 0.5)
    assert found.min() >= 0
    assert np.linalg.norm(A @ found - b) == pytest.approx(residual, rel=1e-7)
    np.testing.assert_allclose(
        found * np.linalg.norm(A, axis=0), expected * np.linalg.norm(A, axis=0), atol=1e-6
    )


def test_copied_and_empty_columns_are_no_trouble() -> None:
    random = np.random.default_rng(0)
    A = np.abs(random.standard_normal((10, 6)))
    A = np.hstack([A, A, np.zeros((10, 2))])
    b = A[:, :6].sum(axis=1)
    found = nonnegative_fit(A.T @ A, A.T @ b)
    assert found.min() >= 0
    assert np.isfinite(found).all()
    np.testing.assert_allclose(A @ found, b, rtol=1e-5)


def _loss(A: Floats, b: Floats) -> float:
    return float(nnls(A, b)[1] ** 2)


def test_columns_go_in_the_order_in_which_fits_without_them_lose_least() -> None:
    random = np.random.default_rng(3)
    A = random.standard_normal((30, 8)) + 2.0
    b = A @ random.uniform(1.0, 2.0, 8) + 0.1 * random.standard_normal(30)
    gram = A.T @ A
    left = list(range(8))
    for gone in cheapest_removals([gram], [nonnegative_fit(gram, A.T @ b)], 2):
        losses = [_loss(A[:, [each for each in left if each != e]], b) for e in left]
        assert gone == left[int(np.argmin(losses))]
        left.remove(int(gone))


def test_of_equal_columns_one_is_kept() -> None:
    random = np.random.default_rng(0)
    same, other = random.uniform(1.0, 2.0, 20), random.uniform(1.0, 2.0, (20, 2))
    A = np.column_stack([same, same, same, other])
    gone = cheapest_removals([A.T @ A], [np.array([3.0, 3.0, 3.0, 1.0, 1.0])], 3)
    assert set(gone[:2]) < {0, 1, 2}
    assert gone[2] in (3, 4)


def test_more_columns_leave_a_smaller_residual_among_similar_columns() -> None:
    """Tets of a region with one column span two numbers, a quadratic and a cubic force."""
    random = np.random.default_rng(1)
    lone = random.standard_normal((60, 2)) @ random.uniform(-1.0, 1.0, (2, 100))
    A = np.hstack([lone, random.standard_normal((60, 150)) + 0.5])
    problem = DenseProblem([A], [A @ random.uniform(0.5, 1.5, 250)])
    errors = []
    for count in (20, 30, 45, 60):
        support = Support(problem)
        support.add(pursue(problem, count))
        errors.append(support.squared_error())
    assert all(more < less or more < 1e-9 for less, more in pairwise(errors))


def test_columns_are_chosen_for_blends_of_weights_where_targets_depend_on_blends() -> None:
    shares = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    errors = []
    for seed in range(4):
        random = np.random.default_rng(seed)
        matrices = [np.abs(random.standard_normal((40, 150))) for _ in shares]
        problem = DenseProblem(matrices, [A.sum(axis=1) for A in matrices])
        blended = []
        for chosen in (pursue(problem, 30), pursue(problem, 30, shares=shares)):
            support = Support(problem, shares=shares)
            support.add(chosen)
            blended.append(support.squared_error())
        errors.append(blended)
    alone, together = np.sum(errors, axis=0)
    assert together < 0.5 * alone


def test_a_joint_fit_is_that_of_the_stacked_problem() -> None:
    random = np.random.default_rng(5)
    shares = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [0.3, 0.6]])
    matrices = [random.standard_normal((20, 8)) for _ in shares]
    targets = [random.standard_normal(20) + A.sum(axis=1) for A in matrices]
    stacked = np.vstack([np.kron(row, A) for row, A in zip(shares, matrices, strict=True)])
    _, least = nnls(stacked, np.concatenate(targets))
    grams = [A.T @ A for A in matrices]
    rights = [A.T @ b for A, b in zip(matrices, targets, strict=True)]
    found = joint_fit(grams, rights, shares)
    assert found.min() >= 0
    residual = stacked @ found.ravel() - np.concatenate(targets)
    assert np.linalg.norm(residual) == pytest.approx(least, rel=1e-4)
