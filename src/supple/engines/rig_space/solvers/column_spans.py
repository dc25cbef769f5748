"""Rows of Y = ∂x/∂c in float32, and products of the nonzero columns of each vertex.

A vertex has three rows of `width` columns, K padded to a multiple of eight. Its nonzero columns are
listed as spans between multiples of eight: one where all coordinates move the flesh, few where
shapes are local. Sums are in float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from supple.arrays import Bools, Floats, Ints, Singles
from supple.compiled.simd import LANES, WORD, VectorCode, vector_kernel

_DOUBLES = ir.VectorType(ir.DoubleType(), LANES)


def padded_width(columns: int) -> int:
    """Return a number of columns, rounded up to a multiple of eight."""
    return -(-columns // LANES) * LANES


def padded_columns(values: Floats, width: int) -> Singles:
    """Return values (n, 3, k) as flat float32 rows of `width` columns."""
    out = np.zeros((*values.shape[:2], width), np.float32)
    out[:, :, : values.shape[2]] = values
    return out.reshape(-1)


def column_spans(reached: Bools) -> tuple[Ints, Ints]:
    """Return starts (n + 1,) and spans (s, 2), first and last + 1 column, of a mask (n, K)."""
    n, width = len(reached), padded_width(reached.shape[1])
    filled = np.zeros((n, width), bool)
    filled[:, : reached.shape[1]] = reached
    blocks = filled.reshape(n, width // LANES, LANES).any(axis=2).astype(np.int8)
    change = np.diff(blocks, axis=1, prepend=0, append=0)
    rows, begin = np.nonzero(change == 1)
    end = np.nonzero(change == -1)[1]
    starts = np.searchsorted(rows, np.arange(n + 1))
    return starts, np.ascontiguousarray(LANES * np.column_stack([begin, end]))


def _loaded(code: VectorCode, rows: Any, at: Any) -> Any:
    """Load eight float32 numbers at `rows[at]` as float64."""
    return code.builder.fpext(code.load(rows, at), _DOUBLES)


def _row_products(typing, rows, at, width, begin, end, c):  # type: ignore[no-untyped-def]
    """Return the scalar products of three rows at `rows[at]` with c, over a span of columns."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code = VectorCode(context, builder, signature.args, args)
        rows, at, width, begin, end, c = code.args
        nothing = ir.Constant(_DOUBLES, [0.0] * LANES)
        sums = [cgutils.alloca_once_value(builder, nothing) for _ in range(3)]
        for total in sums:
            builder.store(nothing, total)
        with code.columns(begin, end) as (column, _):
            factor = code.load(c, column)
            for i, total in enumerate(sums):
                row = _loaded(code, rows, code.at(at, column, (width, i)))
                builder.store(code.multiply_add(row, factor, builder.load(total)), total)
        totals = [code.total(builder.load(total)) for total in sums]
        return context.make_tuple(builder, signature.return_type, totals)

    three = types.UniTuple(types.float64, 3)
    return three(rows, at, width, begin, end, c), codegen


row_products: Any = intrinsic(_row_products)


def _add_row_sums(typing, rows, at, width, begin, end, x, y, z, out):  # type: ignore[no-untyped-def]
    """Add three rows at `rows[at]`, times x, y, z, to `out`, for the columns of a span."""

    def write(code: VectorCode) -> None:
        rows, at, width, begin, end, x, y, z, out = code.args
        factors = [code.repeated(each) for each in (x, y, z)]
        with code.columns(begin, end) as (column, _):
            value = code.load(out, column)
            for i, factor in enumerate(factors):
                row = _loaded(code, rows, code.at(at, column, (width, i)))
                value = code.multiply_add(factor, row, value)
            code.store(value, out, column)

    return vector_kernel(write, (rows, at, width, begin, end, x, y, z, out))


add_row_sums: Any = intrinsic(_add_row_sums)


def _turned(add: bool) -> Any:
    def turned_rows(typing, rotations, turn, rows, source, width, begin, end, out, at):  # type: ignore[no-untyped-def]
        def write(code: VectorCode) -> None:
            rotations, turn, rows, source, width, begin, end, out, at = code.args
            matrix = [code.spread(rotations, code.at(turn, i)) for i in range(9)]
            with code.columns(begin, end) as (column, _):
                source_rows = [
                    code.load(rows, code.at(source, column, (width, j))) for j in range(3)
                ]
                for i in range(3):
                    place = code.at(at, column, (width, i))
                    value = code.load(out, place) if add else None
                    for j in range(3):
                        value = code.multiply_add(matrix[3 * i + j], source_rows[j], value)
                    code.store(value, out, place)

        return vector_kernel(write, (rotations, turn, rows, source, width, begin, end, out, at))

    turned_rows.__doc__ = f"""{"Add" if add else "Write"} three rotated rows in a span.

    The float32 matrix at `rotations[turn]`, row by row, times the rows at `rows[source]`, goes to
    `out[at]`.
    """
    return turned_rows


write_turned_rows: Any = intrinsic(_turned(False))
add_turned_rows: Any = intrinsic(_turned(True))


def _add_block_rows(typing, blocks, block, stride, rows, at, width, begin, end, out):  # type: ignore[no-untyped-def]
    """Add a matrix (3, 3) at `blocks[block]` times the three rows at `rows[at]` to `out`, float64.

    Rows of the matrix are `stride` apart.
    """

    def write(code: VectorCode) -> None:
        blocks, block, stride, rows, at, width, begin, end, out = code.args
        matrix = [
            code.spread(blocks, code.at(block, j, (stride, i))) for i in range(3) for j in range(3)
        ]
        with code.columns(begin, end) as (column, _):
            loaded = [_loaded(code, rows, code.at(at, column, (width, j))) for j in range(3)]
            for i in range(3):
                place = code.at(column, (width, i))
                value = code.load(out, place)
                for j in range(3):
                    value = code.multiply_add(matrix[3 * i + j], loaded[j], value)
                code.store(value, out, place)

    return vector_kernel(write, (blocks, block, stride, rows, at, width, begin, end, out))


add_block_rows: Any = intrinsic(_add_block_rows)


def _add_outer_rows(typing, rows, at, width, begin, end, others, out):  # type: ignore[no-untyped-def]
    """Add Σ_i a_i b_iᵀ to `out` (width, width).

    a_i are three float32 rows starting at `rows[at]`, b_i the three float64 rows `others`. Only
    rows `begin` to `end` are written, and no 8 × 8 blocks below the diagonal, since the sum is
    symmetric.
    """

    def write(code: VectorCode) -> None:
        rows, at, width, begin, end, others, out = code.args
        builder = code.builder
        with code.count(begin, end, 4) as (row, _):
            left = [
                [
                    code.repeated(
                        builder.fpext(
                            builder.load(builder.gep(rows, [code.at(at, row, k, (width, i))])),
                            ir.DoubleType(),
                        )
                    )
                    for i in range(3)
                ]
                for k in range(4)
            ]
            first = builder.and_(row, ir.Constant(WORD, -LANES))
            with code.columns(first, width) as (column, _):
                right = [code.load(others, code.at(column, (width, i))) for i in range(3)]
                for k in range(4):
                    place = code.at(column, (width, code.at(row, k)))
                    value = code.load(out, place)
                    for i in range(3):
                        value = code.multiply_add(left[k][i], right[i], value)
                    code.store(value, out, place)

    return vector_kernel(write, (rows, at, width, begin, end, others, out))


add_outer_rows: Any = intrinsic(_add_outer_rows)
