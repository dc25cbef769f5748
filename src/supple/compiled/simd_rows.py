"""Vector instructions on rows of four float32: quaternions, and points padded by a zero.

A row is one register. Scalar loops over vertices are several times slower, and compilers do not
vectorise loops that gather rows. Arrays are flat and contiguous; arguments are not checked.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic

from supple.compiled.simd import WORD, ZERO, VectorCode, vector_kernel

_FOUR = 4
_ROW = ir.VectorType(ir.FloatType(), _FOUR)
_INDEX = ir.IntType(32)


class _RowCode:
    """Generator of instructions on rows, in addition to `VectorCode`."""

    def __init__(self, code: VectorCode) -> None:
        self.code, self.builder, self.args = code, code.builder, code.args

    def load(self, data: Any, row: Any) -> Any:
        return self.code.load(data, self.code.at(ZERO, (row, _FOUR)), _FOUR)

    def store(self, value: Any, data: Any, at: Any) -> None:
        place = self.builder.bitcast(self.builder.gep(data, [at]), _ROW.as_pointer())
        self.builder.store(value, place, align=4)

    def store_row(self, value: Any, data: Any, row: Any) -> None:
        self.store(value, data, self.code.at(ZERO, (row, _FOUR)))

    def lanes(self, row: Any, *places: int) -> Any:
        """Return the row whose entries are the entries `places` of `row`."""
        order = ir.Constant(ir.VectorType(_INDEX, _FOUR), list(places))
        return self.builder.shuffle_vector(row, row, order)

    def times(self, a: Any, b: Any, plus: Any = None) -> Any:
        return self.code.multiply_add(a, b, plus)

    def minus(self, a: Any, b: Any) -> Any:
        return self.builder.fsub(a, b)

    def one(self, data: Any, at: Any) -> Any:
        """Load a number and repeat it four times."""
        return self.code.repeated(self.builder.load(self.builder.gep(data, [at])), _FOUR)

    def cross(self, a: Any, b: Any) -> Any:
        """Return a × b; the fourth entry is a₃ b₃ − a₃ b₃."""
        left = self.times(self.lanes(a, 1, 2, 0, 3), self.lanes(b, 2, 0, 1, 3))
        return self.minus(left, self.times(self.lanes(a, 2, 0, 1, 3), self.lanes(b, 1, 2, 0, 3)))

    def weighted(self, table: Any, near: Any, shares: Any, row: Any) -> Any:
        """Return the sum of the four rows of `table` listed in `near`, weighted by `shares`."""
        total, first = None, self.code.at(ZERO, (row, _FOUR))
        for k in range(_FOUR):
            at = self.code.at(first, k)
            which = self.builder.load(self.builder.gep(near, [at]))
            entry = self.load(table, self.builder.sext(which, WORD))
            total = self.times(self.one(shares, at), entry, total)
        return total


def _multiply_quaternion_rows(
    typing: Any, table: Any, near: Any, shares: Any, quaternions: Any, count: Any
) -> Any:
    """Multiply each of `count` quaternions by a weighted sum of four rows of a table, in place.
    `near` (count, 4), int32, lists the rows, and `shares` (count, 4) are their weights.
    """

    def write(code: VectorCode) -> None:
        rows = _RowCode(code)
        table, near, shares, quaternions, count = code.args
        signs = ir.Constant(_ROW, [1.0, 1.0, 1.0, -1.0])
        with code.count(ZERO, count) as (k, _):
            f, q = rows.weighted(table, near, shares, k), rows.load(quaternions, k)
            mixed = rows.times(rows.lanes(f, 0, 1, 2, 0), rows.lanes(q, 3, 3, 3, 0))
            mixed = rows.times(rows.lanes(f, 1, 2, 0, 1), rows.lanes(q, 2, 0, 1, 1), mixed)
            rest = rows.times(rows.lanes(f, 2, 0, 1, 2), rows.lanes(q, 1, 2, 0, 2))
            scalars = rows.minus(rows.times(rows.lanes(f, 3, 3, 3, 3), q), rest)
            rows.store_row(rows.times(mixed, signs, scalars), quaternions, k)

    return vector_kernel(write, (table, near, shares, quaternions, count))


multiply_quaternion_rows: Any = intrinsic(_multiply_quaternion_rows)


def _rotate_rows(typing: Any, quaternions: Any, points: Any, count: Any) -> Any:
    """Rotate `count` points by non-zero quaternions, in place; fourth entries are 0."""

    def write(code: VectorCode) -> None:
        rows = _RowCode(code)
        quaternions, points, count = code.args
        two = ir.Constant(_ROW, [2.0] * _FOUR)
        with code.count(ZERO, count) as (k, _):
            q, u = rows.load(quaternions, k), rows.load(points, k)
            squares = rows.times(q, q)
            squares = code.builder.fadd(squares, rows.lanes(squares, 1, 0, 3, 2))
            squares = code.builder.fadd(squares, rows.lanes(squares, 2, 3, 0, 1))
            # R u = u + 2 (w t + q × t) / |q|² with t = q × u.
            t = rows.cross(q, u)
            rotated = rows.times(rows.lanes(q, 3, 3, 3, 3), t, rows.cross(q, t))
            double = code.builder.fdiv(two, squares)
            rows.store_row(rows.times(double, rotated, u), points, k)

    return vector_kernel(write, (quaternions, points, count))


rotate_rows: Any = intrinsic(_rotate_rows)


def _transform_rows(typing: Any, columns: Any, points: Any, out: Any, count: Any) -> Any:
    """Write a matrix times `count` points; `columns` (3, 4) are its columns, padded by zeros."""

    def write(code: VectorCode) -> None:
        rows = _RowCode(code)
        columns, points, out, count = code.args
        matrix = [rows.load(columns, ir.Constant(WORD, i)) for i in range(3)]
        with code.count(ZERO, count) as (k, _):
            u, total = rows.load(points, k), None
            for i in range(3):
                total = rows.times(matrix[i], rows.lanes(u, i, i, i, i), total)
            rows.store_row(total, out, k)

    return vector_kernel(write, (columns, points, out, count))


transform_rows: Any = intrinsic(_transform_rows)


def _add_carried_rows(
    typing: Any, table: Any, near: Any, shares: Any, columns: Any, skin: Any, count: Any
) -> Any:
    """Transform `count` points (count, 3), and add weighted rows of a table to each; in place.

    `columns` (4, 4) are a transform's, the last its translation; `near` and `shares` are as
    for `multiply_quaternion_rows`.
    """

    def write(code: VectorCode) -> None:
        rows, builder = _RowCode(code), code.builder
        table, near, shares, columns, skin, count = code.args
        matrix = [rows.load(columns, ir.Constant(WORD, i)) for i in range(4)]

        def moved(k: Any, x: Any) -> Any:
            """Return the new row of point k, whose first coordinate is x."""
            at = code.at(ZERO, (k, 3))
            total = rows.times(matrix[0], x, matrix[3])
            total = rows.times(matrix[1], rows.one(skin, code.at(at, 1)), total)
            total = rows.times(matrix[2], rows.one(skin, code.at(at, 2)), total)
            return builder.fadd(total, rows.weighted(table, near, shares, k))

        # A row of four is stored at once. It overwrites the next point's first coordinate, which is
        # therefore read before.
        with builder.if_then(builder.icmp_signed(">", count, ZERO)):
            ahead = cgutils.alloca_once_value(builder, rows.one(skin, ZERO))
            last = builder.sub(count, ir.Constant(WORD, 1))
            with code.count(ZERO, last) as (k, _):
                value = moved(k, builder.load(ahead))
                builder.store(rows.one(skin, code.at(ZERO, (k, 3), 3)), ahead)
                rows.store(value, skin, code.at(ZERO, (k, 3)))
            value = moved(last, builder.load(ahead))
            for i in range(3):
                part = builder.extract_element(value, ir.Constant(_INDEX, i))
                builder.store(part, builder.gep(skin, [code.at(ZERO, (last, 3), i)]))

    return vector_kernel(write, (table, near, shares, columns, skin, count))


add_carried_rows: Any = intrinsic(_add_carried_rows)
