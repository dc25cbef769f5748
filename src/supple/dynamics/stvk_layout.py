"""The tangent's coefficients as a step reads them: half of a symmetric matrix, in one stream.

Coefficients of K₂ are symmetric in all four of a, b, c, d. With squares of q halved, they are a
symmetric matrix of pairs ab by pairs cd, of which a step reads one half: it takes as long as its
coefficients take to arrive from memory. The half is stored as it is read: in blocks of four rows
by eight columns, pairs filled up with zeros to a multiple of eight.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from supple.linalg.vector_code import LANES, WORD, VectorCode, kernel

__all__ = ["add_symmetric", "padded_pairs", "quadratic_blocks"]

Floats = NDArray[np.float64]

_ROWS = 4
_ZERO = ir.Constant(WORD, 0)


def padded_pairs(r: int) -> int:
    """Entries of an upper triangle, r(r + 1)/2, filled up to a multiple of eight."""
    return -(-(r * (r + 1) // 2) // LANES) * LANES


def quadratic_blocks(tangent: Floats, r: int, dtype: Any) -> NDArray:
    """Blocks of the upper half of K₂, flat, from the tangent's coefficients."""
    size = padded_pairs(r)
    quadratic = tangent[:, 1 + r :]
    first, second = np.triu_indices(r)
    padded = np.zeros((size, size), dtype)
    padded[: len(quadratic), : len(quadratic)] = quadratic * np.where(first == second, 2.0, 1.0)
    groups = size // LANES
    blocks = padded.reshape(groups, LANES // _ROWS, _ROWS, groups, LANES).swapaxes(2, 3)
    return np.concatenate([blocks[k, :, k:].ravel() for k in range(groups)])


def _add_symmetric(typing: Any, blocks: Any, x: Any, size: Any, out: Any) -> Any:
    """Add a symmetric matrix, given by `quadratic_blocks`, times x to `out`, both (size,)."""

    def write(code: VectorCode) -> None:
        blocks, x, size, out = code.args
        builder = code.builder
        vector = ir.VectorType(blocks.type.pointee, LANES)
        at = cgutils.alloca_once_value(builder, _ZERO)
        sums = [cgutils.alloca_once(builder, vector) for _ in range(_ROWS)]

        def rows(place: Any) -> list[Any]:
            return [code.load(blocks, code.at(place, LANES * i)) for i in range(_ROWS)]

        with code.columns(_ZERO, size) as (corner, _), code.count(_ZERO, _halves(), 1) as (half, _):
            first = code.at(corner, (half, _ROWS))
            own = [code.spread(x, code.at(first, i)) for i in range(_ROWS)]
            # The block on the diagonal is whole, and is not mirrored.
            beside, place = code.load(x, corner), builder.load(at)
            for row, total in zip(rows(place), sums, strict=True):
                builder.store(builder.fmul(row, beside), total)
            builder.store(code.at(place, _ROWS * LANES), at)
            with code.columns(code.at(corner, LANES), size) as (column, _):
                place = builder.load(at)
                beside, below = code.load(x, column), code.load(out, column)
                for row, factor, total in zip(rows(place), own, sums, strict=True):
                    builder.store(code.multiply_add(row, beside, builder.load(total)), total)
                    below = code.multiply_add(row, factor, below)
                code.store(below, out, column)
                builder.store(code.at(place, _ROWS * LANES), at)
            for i, total in enumerate(sums):
                slot = builder.gep(out, [code.at(first, i)])
                value = code.total(builder.load(total))
                builder.store(builder.fadd(builder.load(slot), value), slot)

    return kernel(write, (blocks, x, size, out))


def _halves() -> Any:
    return ir.Constant(WORD, LANES // _ROWS)


add_symmetric: Any = intrinsic(_add_symmetric)
