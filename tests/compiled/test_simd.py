"""Kernels on rows of few columns do what NumPy does."""

import numba
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from supple.compiled.simd import (
    LANES,
    add_outer_products,
    add_weighted_rows,
    gradient_rows,
    matrix_times_rows,
    rows_times_vector,
)
from supple.compiled.simd_rows import (
    add_carried_rows,
    multiply_quaternion_rows,
    rotate_rows,
    transform_rows,
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
def call_multiply_quaternions(table, near, shares, turns, count):
    multiply_quaternion_rows(table, near, shares, turns, count)


@numba.njit
def call_rotate(turns, points, count):
    rotate_rows(turns, points, count)


@numba.njit
def call_carry(columns, moved, near, shares, world, skin, count):
    transform_rows(columns, moved, world, len(world) // 4)
    add_carried_rows(world, near, shares, columns, skin, count)


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


def test_quaternions_are_multiplied_by_sums_of_rows_and_turn_points() -> None:
    table, turns, shares = singles(7, 4), singles(3, 4), singles(3, 4)
    near = np.array([[6, 0, 3, 3], [1, 2, 3, 4], [5, 5, 0, 1]], np.int32)
    product, points = turns.copy(), singles(3, 4) * np.array([1, 1, 1, 0], np.float32)
    call_multiply_quaternions(table.ravel(), near.ravel(), shares.ravel(), product.reshape(-1), 2)
    sums = np.einsum("ka,kai->ki", shares, table[near])
    expected = (Rotation.from_quat(sums) * Rotation.from_quat(turns)).as_matrix()
    found = Rotation.from_quat(product).as_matrix()
    assert found[:2] == pytest.approx(expected[:2], abs=1e-5)
    assert (product[2] == turns[2]).all()
    turned = points.copy()
    call_rotate(turns.ravel(), turned.reshape(-1), 3)
    expected = Rotation.from_quat(turns).apply(points[:, :3])
    assert turned[:, :3] == pytest.approx(expected, abs=1e-5)
    assert (turned[:, 3] == 0).all()


@pytest.mark.parametrize("count", [0, 1, 2, 9])
def test_skin_is_moved_and_carried_and_nothing_behind_it_is_touched(count: int) -> None:
    root, moved = singles(3, 4), singles(5, 4) * np.array([1, 1, 1, 0], np.float32)
    columns = np.vstack([root, np.zeros((1, 4), np.float32)]).T.ravel()
    near = np.random.default_rng(1).integers(0, 5, (count, 4)).astype(np.int32)
    shares, skin = singles(count, 4), singles(count + 2, 3)
    found = skin.copy()
    call_carry(
        np.ascontiguousarray(columns),
        moved.ravel(),
        near.ravel(),
        shares.ravel(),
        np.zeros(20, np.float32),
        found.reshape(-1),
        count,
    )
    carried = skin[:count] + np.einsum("ka,kai->ki", shares, moved[near])[:, :3]
    assert found[:count] == pytest.approx(carried @ root[:, :3].T + root[:, 3], abs=1e-5)
    assert (found[count:] == skin[count:]).all()


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


def test_the_small_cholesky_refuses_an_indefinite_matrix() -> None:
    room = padded_identity(12)
    room[7, 7] = -1.0
    assert not cholesky(room)
    room[7, 7] = np.nan
    assert not cholesky(room)
