"""Kernels on rows of few columns do what NumPy does."""

import numba
import numpy as np
import pytest

from supple.compiled.simd import (
    LANES,
    add_outer_products,
    add_weighted_rows,
    gradient_rows,
    matrix_times_rows,
    rows_times_vector,
    weighted_row_sum,
)
from supple.linalg.upper_triangle import cholesky, padded_identity, solve

WIDTHS = [8, 16, 24, 40, 80]


def singles(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@numba.njit
def call_gradient_rows(basis, start, width, turns, out, at):
    gradient_rows(basis, start, width, turns, out, at)


@numba.njit
def call_row_sums(rows, at, width, z, out):
    rows_times_vector(rows, at, width, z, out)


@numba.njit
def call_times_rows(matrix, rows, at, width, out):
    matrix_times_rows(matrix, rows, at, width, out)


@numba.njit
def call_add_weighted(factors, rows, at, width, out):
    add_weighted_rows(factors, rows, at, width, out)


@numba.njit
def call_add_outer(a, b, count, width, out):
    add_outer_products(a, b, count, width, out)


@numba.njit
def call_weighted_row_sum(table, rows, factors):
    return weighted_row_sum(
        table, rows[0], rows[1], rows[2], rows[3], factors[0], factors[1], factors[2], factors[3]
    )


@pytest.mark.parametrize("width", WIDTHS)
def test_gradient_rows_turn_corners_and_take_slopes(width: int) -> None:
    basis, turns = singles(2, 4, 3, width), singles(4, 12)
    out = np.zeros(3 * 9 * width, np.float32)
    call_gradient_rows(basis.ravel(), 12 * width, width, turns.ravel(), out, 9 * width)
    rotations, slopes = turns[:, :9].reshape(4, 3, 3), turns[:, 9:]
    expected = np.einsum("aij,ajw,ak->ikw", rotations, basis[1], slopes).reshape(9, width)
    written = out.reshape(3, 9, width)
    assert written[1] == pytest.approx(expected, abs=1e-5)
    assert not written[0].any()
    assert not written[2].any()


@pytest.mark.parametrize("width", WIDTHS)
def test_sums_and_products_of_nine_rows(width: int) -> None:
    rows, z, matrix, factors = singles(2, 9, width), singles(width), singles(9, 9), singles(9)
    sums, images, force = np.zeros(9), np.zeros_like(rows), np.ones(width)
    call_row_sums(rows.ravel(), 9 * width, width, z, sums)
    call_times_rows(matrix.ravel(), rows.ravel(), 9 * width, width, images.reshape(-1))
    call_add_weighted(factors, rows.ravel(), 9 * width, width, force)
    assert sums == pytest.approx(rows[1] @ z, abs=1e-4)
    assert images[1] == pytest.approx(matrix @ rows[1], abs=1e-4)
    assert not images[0].any()
    assert force == pytest.approx(1 + factors @ rows[1], abs=1e-4)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("count", [0, 9, 45])
def test_outer_products_fill_blocks_on_and_above_the_diagonal(width: int, count: int) -> None:
    a, b = singles(count, width), singles(count + 1, width)[:count]
    out = np.ones((width, width), np.float32)
    call_add_outer(a.ravel(), b.ravel(), count, width, out.reshape(-1))
    block = np.arange(width) // LANES
    above = block[:, None] <= block
    assert out[above] == pytest.approx((1 + a.T @ b)[above], abs=1e-4)
    assert (out[~above] == 1).all()


def test_four_rows_of_four_are_summed() -> None:
    table, rows, factors = singles(7, 4), np.array([6, 0, 3, 3], np.int32), singles(4)
    expected = factors @ table[rows]
    assert call_weighted_row_sum(table.ravel(), rows, factors) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("n", [1, 3, 4, 8, 30, 45, 100, 101])
def test_the_small_cholesky_equals_lapack(n: int) -> None:
    spread = np.random.default_rng(n).standard_normal((n, n))
    whole = spread @ spread.T + n * np.eye(n)
    room = padded_identity(n)
    room[:n, :n] = np.triu(whole)
    assert cholesky(room)
    assert np.triu(room[:n, :n]) == pytest.approx(np.linalg.cholesky(whole).T, abs=1e-12 * n)
    size = len(room)
    assert (room[n:, n:size] == np.eye(size - n)).all()
    right = spread[0].copy()
    solve(room, right)
    assert whole @ right == pytest.approx(spread[0], abs=1e-10)


def test_the_small_cholesky_says_no_to_an_indefinite_matrix() -> None:
    room = padded_identity(12)
    room[7, 7] = -1.0
    assert not cholesky(room)
    room[7, 7] = np.nan
    assert not cholesky(room)
