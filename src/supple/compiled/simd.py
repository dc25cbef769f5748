"""Products of small matrices and rows by vector instructions, eight columns at a time.

Steps combine rows of tets' bases and sum their products. Rows have few columns, for which compilers
generate scalar loops (measured: five to ten times slower) and the overhead of a BLAS product
dominates (three to four times slower).

Arrays are flat, contiguous and of float32 unless noted; widths are multiples of `LANES`. Arguments
are not checked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

#: Columns per vector.
LANES = 8
WORD = ir.IntType(64)
ZERO = ir.Constant(WORD, 0)
_INDEX = ir.IntType(32)
_SINGLES = ir.VectorType(ir.FloatType(), LANES)
_BITS = {ir.FloatType(): 32, ir.DoubleType(): 64, ir.IntType(16): 16}


class VectorCode:
    """Generator of vector instructions on the arguments of a function.

    LLVM vectorises loops over long rows, but generates scalar code for rows of 16 or 24 columns.
    These instructions work on any processor; one with narrower registers executes several for each.
    """

    def __init__(self, context: Any, builder: Any, kinds: Any, args: Any) -> None:
        self.builder = builder
        self.args = [
            context.make_array(kind)(context, builder, value=arg).data
            if isinstance(kind, types.Array)
            else arg
            for kind, arg in zip(kinds, args, strict=True)
        ]

    def at(self, base: Any, *steps: Any) -> Any:
        """Return `base` plus `steps`: integers, IR values, or pairs whose product is added."""
        for step in steps:
            if isinstance(step, tuple):
                one, other = (ir.Constant(WORD, s) if isinstance(s, int) else s for s in step)
                step = self.builder.mul(one, other)
            elif isinstance(step, int):
                step = ir.Constant(WORD, step)
            base = self.builder.add(base, step)
        return base

    def load(self, data: Any, at: Any, lanes: int = LANES) -> Any:
        """Load eight consecutive numbers, or `lanes`."""
        place = self._place(data, at, lanes)
        return self.builder.load(place, align=_BITS[data.type.pointee] // 8)

    def store(self, value: Any, data: Any, at: Any) -> None:
        """Store eight consecutive numbers."""
        self.builder.store(value, self._place(data, at), align=_BITS[data.type.pointee] // 8)

    def _place(self, data: Any, at: Any, lanes: int = LANES) -> Any:
        kind = ir.VectorType(data.type.pointee, lanes)
        return self.builder.bitcast(self.builder.gep(data, [at]), kind.as_pointer())

    def spread(self, data: Any, at: Any) -> Any:
        """Load one number and repeat it eight times."""
        return self.repeated(self.builder.load(self.builder.gep(data, [at])))

    def repeated(self, one: Any, lanes: int = LANES) -> Any:
        """Return a vector that repeats a loaded number, eight or `lanes` times."""
        none = ir.Constant(ir.VectorType(one.type, lanes), ir.Undefined)
        first = self.builder.insert_element(none, one, ir.Constant(_INDEX, 0))
        return self.builder.shuffle_vector(first, none, _order([0] * lanes))

    def multiply_add(self, a: Any, b: Any, c: Any) -> Any:
        """Return a b + c, fused if the processor can; a b if c is None."""
        if c is None:
            return self.builder.fmul(a, b)
        name = f"llvm.fmuladd.v{a.type.count}f{_BITS[a.type.element]}"
        function = cgutils.get_or_insert_function(
            self.builder.module, ir.FunctionType(a.type, [a.type] * 3), name
        )
        return self.builder.call(function, [a, b, c])

    def columns(self, begin: Any, end: Any) -> Any:
        """Loop over columns, eight at a time; the loop variable is the first of the eight."""
        return self.count(begin, end, LANES)

    def count(self, begin: Any, end: Any, step: int = 1) -> Any:
        """Loop over the integers from `begin` to `end` (exclusive)."""
        return cgutils.for_range_slice(self.builder, begin, end, ir.Constant(WORD, step), WORD)

    def total(self, lanes: Any) -> Any:
        """Return the sum of eight numbers, in a fixed order."""
        for half in (4, 2, 1):
            rotated = _order([(i + half) % LANES for i in range(LANES)])
            lanes = self.builder.fadd(lanes, self.builder.shuffle_vector(lanes, lanes, rotated))
        return self.builder.extract_element(lanes, ir.Constant(_INDEX, 0))


def _order(places: list[int]) -> ir.Constant:
    return ir.Constant(ir.VectorType(_INDEX, len(places)), places)


def vector_kernel(write: Callable[[VectorCode], None], kinds: tuple[Any, ...]) -> Any:
    """Return the signature and the code generator of a Numba intrinsic; `write` emits its code."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        write(VectorCode(context, builder, signature.args, args))
        return context.get_dummy_value()

    return types.void(*kinds), codegen


def _gradient_rows(
    typing: Any, basis: Any, start: Any, width: Any, frames: Any, out: Any, at: Any
) -> Any:
    """Write nine rows of G at `out[at]` from the 12 basis rows of a tet's corners at
    `basis[start]`.

    `frames` (48,) has for each corner its rotation R, row by row, and the gradient ∇N of its shape
    function. With u the three basis rows of a corner, G_(3i+k) = Σ_corners ∇N_k (R u)_i.
    """

    def write(code: VectorCode) -> None:
        basis, start, width, frames, out, at = code.args
        with code.columns(ZERO, width) as (column, _):
            rows: list[Any] = [None] * 9
            for corner in range(4):
                corner_rows = [
                    code.load(basis, code.at(start, column, (width, 3 * corner + i)))
                    for i in range(3)
                ]
                rotated = []
                for i in range(3):
                    value = None
                    for j in range(3):
                        factor = code.spread(frames, code.at(ZERO, 12 * corner + 3 * i + j))
                        value = code.multiply_add(factor, corner_rows[j], value)
                    rotated.append(value)
                for k in range(3):
                    slope = code.spread(frames, code.at(ZERO, 12 * corner + 9 + k))
                    for i in range(3):
                        rows[3 * i + k] = code.multiply_add(slope, rotated[i], rows[3 * i + k])
            for i, row in enumerate(rows):
                code.store(row, out, code.at(at, column, (width, i)))

    return vector_kernel(write, (basis, start, width, frames, out, at))


gradient_rows: Any = intrinsic(_gradient_rows)


def _rows_times_vector(typing: Any, rows: Any, at: Any, width: Any, z: Any, out: Any) -> Any:
    """Write products of the nine rows at `rows[at]` with z to `out` (9,), of float64."""

    def write(code: VectorCode) -> None:
        rows, at, width, z, out = code.args
        builder, zeros = code.builder, ir.Constant(_SINGLES, [0.0] * LANES)
        sums = [cgutils.alloca_once_value(builder, zeros) for _ in range(9)]
        with code.columns(ZERO, width) as (column, _):
            factor = code.load(z, column)
            for i in range(9):
                row = code.load(rows, code.at(at, column, (width, i)))
                builder.store(code.multiply_add(row, factor, builder.load(sums[i])), sums[i])
        for i in range(9):
            total = builder.fpext(code.total(builder.load(sums[i])), ir.DoubleType())
            builder.store(total, builder.gep(out, [ir.Constant(WORD, i)]))

    return vector_kernel(write, (rows, at, width, z, out))


rows_times_vector: Any = intrinsic(_rows_times_vector)


def _matrix_times_rows(typing: Any, matrix: Any, rows: Any, at: Any, width: Any, out: Any) -> Any:
    """Write a matrix (9, 9) times the nine rows at `rows[at]` to the rows at `out[at]`."""

    def write(code: VectorCode) -> None:
        matrix, rows, at, width, out = code.args
        with code.columns(ZERO, width) as (column, _):
            columns = [code.load(rows, code.at(at, column, (width, i))) for i in range(9)]
            for i in range(9):
                value = None
                for j in range(9):
                    factor = code.spread(matrix, ir.Constant(WORD, 9 * i + j))
                    value = code.multiply_add(factor, columns[j], value)
                code.store(value, out, code.at(at, column, (width, i)))

    return vector_kernel(write, (matrix, rows, at, width, out))


matrix_times_rows: Any = intrinsic(_matrix_times_rows)


def _add_weighted_rows(typing: Any, factors: Any, rows: Any, at: Any, width: Any, out: Any) -> Any:
    """Add nine rows at `rows[at]`, each times its factor, to `out` of float64."""

    def write(code: VectorCode) -> None:
        factors, rows, at, width, out = code.args
        builder = code.builder
        with code.columns(ZERO, width) as (column, _):
            value = None
            for i in range(9):
                row = code.load(rows, code.at(at, column, (width, i)))
                value = code.multiply_add(code.spread(factors, ir.Constant(WORD, i)), row, value)
            before = code.load(out, column)
            code.store(builder.fadd(before, builder.fpext(value, before.type)), out, column)

    return vector_kernel(write, (factors, rows, at, width, out))


add_weighted_rows: Any = intrinsic(_add_weighted_rows)


def _add_outer_products(typing: Any, a: Any, b: Any, count: Any, width: Any, out: Any) -> Any:
    """Add the symmetric sum Σ a_k b_kᵀ over `count` rows to `out` (width, width).
    Blocks of 8 × 8 below the diagonal are skipped.
    """

    def write(code: VectorCode) -> None:
        a, b, count, width, out = code.args
        builder = code.builder
        sums = [cgutils.alloca_once(builder, _SINGLES) for _ in range(LANES)]
        with (
            code.columns(ZERO, width) as (row, _),
            code.columns(row, width) as (column, _),
        ):
            places = [code.at(column, (width, code.at(row, i))) for i in range(LANES)]
            for place, total in zip(places, sums, strict=True):
                builder.store(code.load(out, place), total)
            with code.count(ZERO, count) as (k, _):
                right = code.load(b, code.at(column, (k, width)))
                for i, total in enumerate(sums):
                    left = code.spread(a, code.at(row, i, (k, width)))
                    builder.store(code.multiply_add(left, right, builder.load(total)), total)
            for place, total in zip(places, sums, strict=True):
                code.store(builder.load(total), out, place)

    return vector_kernel(write, (a, b, count, width, out))


add_outer_products: Any = intrinsic(_add_outer_products)


def _subtract_products(typing: Any, a: Any, stride: Any, row: Any, end: Any) -> Any:
    """Subtract Σ a_kᵀ a_k over rows k < `row` from four rows of `a`, in columns `row` to `end`.
    `a` is of float64 with `stride` numbers per row; columns up to a multiple of eight change.
    """

    def write(code: VectorCode) -> None:
        a, stride, row, end = code.args
        builder, four = code.builder, range(4)
        doubles = ir.VectorType(ir.DoubleType(), LANES)
        sums = [cgutils.alloca_once(builder, doubles) for _ in four]
        with code.columns(row, end) as (column, _):
            for total in sums:
                builder.store(ir.Constant(doubles, [0.0] * LANES), total)
            with code.count(ZERO, row) as (k, _):
                right = code.load(a, code.at(column, (k, stride)))
                for i, total in enumerate(sums):
                    left = code.spread(a, code.at(row, i, (k, stride)))
                    builder.store(code.multiply_add(left, right, builder.load(total)), total)
            for i, total in enumerate(sums):
                place = code.at(column, (stride, code.at(row, i)))
                rest = builder.fsub(code.load(a, place), builder.load(total))
                code.store(rest, a, place)

    return vector_kernel(write, (a, stride, row, end))


subtract_products: Any = intrinsic(_subtract_products)


def _subtract_blocks(
    typing: Any, a: Any, stride: Any, row: Any, column: Any, listed: Any, count: Any
) -> Any:
    """Subtract Σ a_kᵀ a_k from four rows and eight columns of `a`, over blocks of eight rows k.
    `a` is of float64 with `stride` numbers per row; `listed` has the first rows of `count` blocks.
    """

    def write(code: VectorCode) -> None:
        a, stride, row, column, listed, count = code.args
        builder, four = code.builder, range(4)
        places = [code.at(column, (stride, code.at(row, i))) for i in four]
        sums = [cgutils.alloca_once_value(builder, code.load(a, place)) for place in places]
        with code.count(ZERO, count) as (at, _):
            first = builder.load(builder.gep(listed, [at]))
            for k in range(LANES):
                start = builder.mul(code.at(first, k), stride)
                right = builder.fneg(code.load(a, code.at(start, column)))
                for i, total in enumerate(sums):
                    left = code.spread(a, code.at(start, row, i))
                    builder.store(code.multiply_add(left, right, builder.load(total)), total)
        for place, total in zip(places, sums, strict=True):
            code.store(builder.load(total), a, place)

    return vector_kernel(write, (a, stride, row, column, listed, count))


subtract_blocks: Any = intrinsic(_subtract_blocks)


def _solve_block(typing: Any, a: Any, stride: Any, row: Any, column: Any) -> Any:
    """Solve X ← U⁻ᵀ X for eight rows and columns of `a`, with U the diagonal block of these rows.
    `a` is of float64 with `stride` numbers per row; the diagonal of U is stored inverted.
    """

    def write(code: VectorCode) -> None:
        a, stride, row, column = code.args
        builder = code.builder
        starts: list[Any] = []
        solved: list[Any] = []
        for i in range(LANES):
            starts.append(builder.mul(code.at(row, i), stride))
            value = code.load(a, code.at(starts[i], column))
            for k in range(i):
                left = builder.fneg(code.spread(a, code.at(starts[k], row, i)))
                value = code.multiply_add(left, solved[k], value)
            value = builder.fmul(value, code.spread(a, code.at(starts[i], row, i)))
            code.store(value, a, code.at(starts[i], column))
            solved.append(value)

    return vector_kernel(write, (a, stride, row, column))


solve_block: Any = intrinsic(_solve_block)


def _add_scaled_rows(count: int) -> Any:
    """Return an intrinsic that sums rows of `count` tables, each column scaled by a factor."""

    def typed(
        typing: Any,
        table: Any,
        places: Any,
        factors: Any,
        first_factor: Any,
        at: Any,
        rows: Any,
        width: Any,
        more: Any,
        out: Any,
    ) -> Any:
        """Write Σ f_k t_k to `rows` rows at `out[at]`, or add it to them if `more`.

        Rows t_k, of int16 or float32, begin at `table[places[k] + at]` with a tuple `places`, and
        their factors (width,) at `factors[first_factor + k width]`.
        """

        def write(code: VectorCode) -> None:
            table, places, factors, first_factor, at, rows, width, more, out = code.args
            builder = code.builder
            none = ir.Constant(_SINGLES, [0.0] * LANES)
            begins = [code.at(builder.extract_value(places, k), at) for k in range(count)]
            with code.count(ZERO, rows) as (row, _), code.columns(ZERO, width) as (column, _):
                place = code.at(column, (row, width))
                target = code.at(at, place)
                total = builder.select(more, code.load(out, target), none)
                for k, begin in enumerate(begins):
                    entries = code.load(table, code.at(begin, place))
                    if entries.type != _SINGLES:
                        entries = builder.sitofp(entries, _SINGLES)
                    factor = code.load(factors, code.at(first_factor, column, (width, k)))
                    total = code.multiply_add(factor, entries, total)
                code.store(total, out, target)

        arguments = (table, places, factors, first_factor, at, rows, width, more, out)
        return vector_kernel(write, arguments)

    return intrinsic(typed)


add_four_scaled: Any = _add_scaled_rows(4)
add_two_scaled: Any = _add_scaled_rows(2)
add_one_scaled: Any = _add_scaled_rows(1)


def _add_three_rows(
    typing: Any, rows: Any, at: Any, width: Any, a: Any, b: Any, c: Any, out: Any
) -> Any:
    """Add the three rows at `rows[at]`, scaled by a, b and c, to `out` (width,)."""

    def write(code: VectorCode) -> None:
        rows, at, width, *factors, out = code.args
        spread = [code.repeated(factor) for factor in factors]
        with code.columns(ZERO, width) as (column, _):
            total = code.load(out, column)
            for i, factor in enumerate(spread):
                row = code.load(rows, code.at(at, column, (width, i)))
                total = code.multiply_add(factor, row, total)
            code.store(total, out, column)

    return vector_kernel(write, (rows, at, width, a, b, c, out))


add_three_rows: Any = intrinsic(_add_three_rows)
