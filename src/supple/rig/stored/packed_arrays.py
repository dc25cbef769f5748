"""Compact arrays for files: rounded, in narrow types, without zeros.

Rounding is idempotent, so that a file that is read and written again has the same bytes.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from supple.arrays import Floats
from supple.errors import SuppleError

Arrays = dict[str, NDArray]

#: Most numbers that a file may unpack to, in addition to its size in bytes. A file with more was
#: made to exhaust memory.
LARGEST_EXPANSION = 200_000_000
#: Weights are multiples of this, which float32 represents exactly, and add up to exactly 1.
WEIGHT_STEP = 2.0**-24


def rounded(values: ArrayLike) -> NDArray[np.float32]:
    """Round `values` to contiguous float32; none may become infinite."""
    exact = np.asarray(values, np.float64)
    largest = np.abs(exact).max(initial=0.0)
    if not largest < 1e30:
        raise SuppleError(f"a number as large as {largest:.3g} cannot be stored; check the units")
    # Adding zero turns −0 into 0.
    return np.ascontiguousarray(exact.astype(np.float32) + np.float32(0))


def narrowed(indices: ArrayLike) -> NDArray:
    """Convert non-negative integers to the narrowest of uint8, uint16 and int32."""
    integers = np.ascontiguousarray(indices)
    smallest, largest = int(integers.min(initial=0)), int(integers.max(initial=0))
    if largest >= 2**31 or smallest < 0:
        wrong = smallest if smallest < 0 else largest
        raise SuppleError(f"index {wrong:,} cannot be stored; use 0 to 2³¹ − 1")
    kind = np.uint8 if largest < 2**8 else np.uint16 if largest < 2**16 else np.int32
    return integers.astype(kind)


class UnpackingBudget:
    """Number of entries that may still be unpacked from a file of a size in bytes."""

    def __init__(self, stored_bytes: int) -> None:
        self.left = LARGEST_EXPANSION + stored_bytes

    def take(self, what: str, entries: int) -> None:
        """Subtract `entries` from the budget; refuse an array that exceeds it."""
        if entries > self.left:
            raise SuppleError(f"{what} would unpack to {entries:,} numbers, too many to read")
        self.left -= entries


def packed_rows(values: ArrayLike) -> Arrays:
    """Pack an array (…, c) as float32 without its rows of zeros: a bit per row, and other rows.

    Corrections of the neutral pose are zero, and corrections of a raised arm are zero at the feet.
    """
    small = rounded(values)
    rows = small.reshape(-1, small.shape[-1])
    nonzero: NDArray[np.bool_] = np.asarray(rows.any(axis=1))
    stored = 4 * int(nonzero.sum()) * rows.shape[1] + len(rows) // 8
    if rows.size > max(LARGEST_EXPANSION, stored):
        nonzero[:] = True  # a reader would refuse so large and so sparse an array
    return {"mask": np.packbits(nonzero), "rows": np.ascontiguousarray(rows[nonzero])}


def unpacked_rows(
    what: str, mask: NDArray, rows: NDArray, shape: tuple[int, ...], budget: UnpackingBudget
) -> Floats:
    """Unpack the array of this shape that `packed_rows` packed."""
    count = math.prod(shape[:-1])
    budget.take(what, count * shape[-1])
    if mask.shape != (-(-count // 8),):
        raise SuppleError(
            f"{what}: its mask of {mask.size} bytes does not match its {count:,} rows"
        )
    bits = np.unpackbits(mask)
    nonzero = bits[:count].astype(bool)
    if bits[count:].any() or rows.shape != (int(nonzero.sum()), shape[-1]):
        raise SuppleError(f"{what}: {len(rows):,} rows, but its mask has {int(nonzero.sum()):,}")
    values = np.zeros((count, shape[-1]))
    values[nonzero] = rows
    return values.reshape(shape)


def packed_weights(matrix: sp.csr_array) -> Arrays:
    """Pack a matrix (n, c) with non-negative rows that add up to 1, as float32.

    Stores the columns of each row, the largest weight first, and the other weights. The largest is
    1 minus the others, so that rows add up to exactly 1.
    """
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    steps = np.rint(matrix.data / WEIGHT_STEP).astype(np.int64)
    order = np.lexsort((matrix.indices, -steps, rows))
    columns, steps = matrix.indices[order], steps[order]
    first = np.flatnonzero(np.diff(rows, prepend=-1))
    if len(first) != matrix.shape[0]:
        raise SuppleError("a row without weights cannot be stored")
    steps[first] += round(1 / WEIGHT_STEP) - np.add.reduceat(steps, first)
    positive = steps > 0
    rows, columns, steps = rows[positive], columns[positive], steps[positive]
    # After rounding another weight may be the largest.
    order = np.lexsort((columns, -steps, rows))
    counts = np.bincount(rows, minlength=matrix.shape[0])
    others = np.diff(rows, prepend=-1) == 0
    return {
        "counts": narrowed(counts),
        "columns": narrowed(columns[order]),
        "weights": rounded(steps[order][others] * WEIGHT_STEP),
    }


def unpacked_weights(
    what: str,
    counts: NDArray,
    columns: NDArray,
    weights: NDArray,
    n_columns: int,
    budget: UnpackingBudget,
) -> sp.csr_array:
    """Unpack the matrix (n, n_columns) of `packed_weights`, the largest of a row first."""
    counts = counts.astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(counts)])
    wrong = len(counts) == 0 or counts.min() < 1 or len(columns) != starts[-1]
    if wrong or len(weights) != starts[-1] - len(counts):
        raise SuppleError(f"{what}: its counts do not match its {len(columns):,} entries")
    if columns.max() >= n_columns:
        raise SuppleError(f"{what}: column {columns.max()}, but there are {n_columns} columns")
    budget.take(what, len(counts) * int(counts.max()))
    values, others = np.zeros(len(columns)), np.ones(len(columns), bool)
    others[starts[:-1]] = False
    values[others] = weights
    values[starts[:-1]] = 1 - np.add.reduceat(values, starts[:-1])
    if not (values.min() > 0 and values.max() <= 1):
        raise SuppleError(f"{what}: a weight of {values.min():.3g}; weights must be positive")
    entries = (values, columns.astype(np.int32), starts)
    return sp.csr_array(entries, shape=(len(counts), int(n_columns)))
