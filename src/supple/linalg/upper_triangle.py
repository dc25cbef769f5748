"""Small dense symmetric matrices as upper triangles: sums, products, Cholesky factorisation."""

from __future__ import annotations

import math

import numpy as np

from supple.arrays import Bools, Floats, Ints, Singles
from supple.compiled.jit import compiled_fused, compiled_sums
from supple.compiled.simd import LANES, solve_block, subtract_blocks, subtract_products


@compiled_fused
def add_packed(packed: Singles, factor: float, out: Floats) -> None:
    """Add a factor times a packed upper triangle to the upper triangle of `out`."""
    n, at = len(out), 0
    for i in range(n):
        row, source = out[i, i:n], packed[at : at + n - i]
        for j in range(len(row)):
            row[j] += factor * source[j]
        at += n - i


@compiled_fused
def combine(upper: Floats, a: float, packed: Singles, b: float, out: Floats) -> None:
    """Write a times an upper triangle plus b times a packed triangle to the triangle of `out`."""
    n, at = len(upper), 0
    for i in range(n):
        row, first, second = out[i, i:n], upper[i, i:n], packed[at : at + n - i]
        for j in range(len(row)):
            row[j] = a * first[j] + b * second[j]
        at += n - i


@compiled_sums
def packed_times(packed: Singles, x: Floats, out: Floats) -> None:
    """Add a packed symmetric matrix times x to `out`."""
    n, at = len(x), 0
    for i in range(n):
        row, tail, target = packed[at : at + n - i], x[i:n], out[i:n]
        x_i, total = x[i], 0.0
        for j in range(1, len(row)):
            total += row[j] * tail[j]
            target[j] += row[j] * x_i
        out[i] += total + row[0] * x_i
        at += n - i


@compiled_sums
def symmetric_times(upper: Floats, x: Floats, out: Floats) -> None:
    """Add a symmetric matrix, stored as its upper triangle, times x to `out`."""
    n = len(x)
    for i in range(n):
        row, tail, target = upper[i, i:n], x[i:n], out[i:n]
        x_i, total = x[i], 0.0
        for j in range(1, len(row)):
            total += row[j] * tail[j]
            target[j] += row[j] * x_i
        out[i] += total + row[0] * x_i


def padded_identity(n: int) -> Floats:
    """Return an identity matrix of n rows with the padding that `cholesky` needs: rows and columns
    are extended to a multiple of eight by those of the identity, and each row has eight more
    columns, which kernels may overwrite.
    """
    size = -(-n // LANES) * LANES
    return np.eye(size, size + LANES)


@compiled_fused
def cholesky(a: Floats) -> bool:
    """Factor A = UᵀU in place, upper triangle; return False if A is not positive definite.
    `a` has the padding of `padded_identity`. Four rows at a time: first the products with the rows
    above are subtracted, then the four rows are factored.
    """
    n, stride = a.shape
    flat = a.reshape(n * stride)
    for begin in range(0, n, 4):
        subtract_products(flat, stride, begin, n)
        for k in range(begin, begin + 4):
            pivot = a[k, k:n]
            for before in range(begin, k):
                _subtract(a[before, k:n], a[before, k], pivot)
            if not pivot[0] > 0:
                return False
            scale = 1 / math.sqrt(pivot[0])
            for j in range(len(pivot)):
                pivot[j] *= scale
    return True


@compiled_fused
def cholesky_of_blocks(a: Floats, filled: Bools, listed: Ints) -> bool:
    """Factor A = UᵀU in place, as `cholesky` does, skipping blocks of 8 × 8 that are zero.

    The diagonal of `a` becomes the *inverse* of U's. `filled` (n / 8, n / 8) has whether the
    block of columns i and rows k ≤ i is filled; others count as zero, whatever their entries, and
    blocks that fill in are marked. `listed` (n / 4,) is scratch.
    """
    n, stride = a.shape
    flat = a.reshape(n * stride)
    blocks = n // LANES
    above = listed[blocks:]
    for i in range(blocks):
        row, high = LANES * i, 0
        for k in range(i):
            if filled[i, k]:
                above[high] = k
                high += 1
        for j in range(i, blocks):
            count, column = 0, LANES * j
            for at in range(high):
                if filled[j, above[at]]:
                    listed[count] = LANES * above[at]
                    count += 1
            if not filled[j, i]:
                if count == 0:
                    continue
                filled[j, i] = True
                for k in range(row, row + LANES):
                    for m in range(LANES):
                        a[k, column + m] = 0.0
            if count > 0:
                subtract_blocks(flat, stride, row, column, listed, count)
                subtract_blocks(flat, stride, row + 4, column, listed, count)
            if j > i:
                solve_block(flat, stride, row, column)
            elif not _factorise_block(a[row : row + LANES, row : row + LANES]):
                return False
    return True


@compiled_fused
def _factorise_block(a: Floats) -> bool:
    """Factor a block on the diagonal, A = UᵀU, and invert the diagonal of U."""
    for k in range(LANES):
        for i in range(k):
            for j in range(k, LANES):
                a[k, j] -= a[i, k] * a[i, j]
        if not a[k, k] > 0:
            return False
        scale = 1 / math.sqrt(a[k, k])
        for j in range(k + 1, LANES):
            a[k, j] *= scale
        a[k, k] = scale
    return True


@compiled_sums
def solve_by_blocks(u: Floats, filled: Bools, x: Floats) -> None:
    """Solve x ← (UᵀU)⁻¹ x with the U of `cholesky_of_blocks`."""
    blocks = len(x) // LANES
    for b in range(blocks):
        first = LANES * b
        for i in range(first, first + LANES):
            x[i] *= u[i, i]
            for j in range(i + 1, first + LANES):
                x[j] -= u[i, j] * x[i]
        for other in range(b + 1, blocks):
            if filled[other, b]:
                at = LANES * other
                for i in range(first, first + LANES):
                    for j in range(LANES):
                        x[at + j] -= u[i, at + j] * x[i]
    for b in range(blocks - 1, -1, -1):
        first = LANES * b
        for other in range(b + 1, blocks):
            if filled[other, b]:
                at = LANES * other
                for i in range(first, first + LANES):
                    total = 0.0
                    for j in range(LANES):
                        total += u[i, at + j] * x[at + j]
                    x[i] -= total
        for i in range(first + LANES - 1, first - 1, -1):
            total = x[i]
            for j in range(i + 1, first + LANES):
                total -= u[i, j] * x[j]
            x[i] = total * u[i, i]


@compiled_fused
def _subtract(row, factor, out):  # type: ignore[no-untyped-def]
    for j in range(len(out)):
        out[j] -= factor * row[j]


@compiled_sums
def solve(u: Floats, x: Floats) -> None:
    """Solve x ← (UᵀU)⁻¹ x with the U of `cholesky`."""
    n = len(x)
    for i in range(n):
        x[i] /= u[i, i]
        _subtract(u[i, i + 1 : n], x[i], x[i + 1 : n])
    for i in range(n - 1, -1, -1):
        row, tail = u[i, i + 1 : n], x[i + 1 : n]
        total = 0.0
        for j in range(len(row)):
            total += row[j] * tail[j]
        x[i] = (x[i] - total) / u[i, i]
