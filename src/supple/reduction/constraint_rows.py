"""Rows of linear constraints, checked and made alike in size."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from supple.errors import SuppleError

__all__ = ["UNTOUCHED", "checked_rows", "largest_entries", "unit_rows"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: What rows touch less than this they do not touch; rows are unit vectors here.
UNTOUCHED = 1e-14


def checked_rows(constraints: sp.csr_array | None, n_vertices: int) -> sp.csr_array:
    """C (c, 3n), finite; no rows if None."""
    if constraints is None:
        return sp.csr_array((0, 3 * n_vertices))
    try:
        matrix = sp.csr_array(constraints, dtype=np.float64)
    except (TypeError, ValueError):
        raise SuppleError("constraints must be a matrix of numbers, sparse or not") from None
    if matrix.ndim != 2 or matrix.shape[1] != 3 * n_vertices:
        raise SuppleError(
            f"constraints of shape {matrix.shape} for {n_vertices} vertices; "
            f"they need {3 * n_vertices} columns"
        )
    if not np.isfinite(matrix.data).all():
        entry = int(np.argmin(np.isfinite(matrix.data)))
        row = int(np.searchsorted(matrix.indptr, entry, side="right")) - 1
        raise SuppleError(f"constraint row {row} has a value that is not finite")
    return matrix


def unit_rows(given: sp.csr_array, unknowns: Ints) -> tuple[sp.csr_array, Ints]:
    """Rows on these unknowns, of length 1, and which of those given they were.

    Rows of which nothing is left there are left out. Each is judged by itself: what counts is
    its direction, and one in millimetres may be far smaller than another.
    """
    given = sp.csr_array(given, copy=True)
    given.sum_duplicates()
    wholes = largest_entries(given)
    rows = sp.csr_array(given[:, unknowns])
    kept = np.flatnonzero(largest_entries(rows) > UNTOUCHED * wholes)
    # A power of two first: the squares of 1e-200 are zero.
    powers = np.ldexp(1.0, -np.frexp(wholes[kept])[1].clip(-1000, 1000))
    rows = sp.csr_array(sp.diags_array(powers) @ rows[kept]) if len(kept) else rows[kept]
    sizes = np.sqrt(rows.multiply(rows).sum(axis=1)) if rows.nnz else np.zeros(rows.shape[0])
    scaled = sp.csr_array(sp.diags_array(1 / sizes) @ rows) if len(kept) else rows
    scaled.data[np.abs(scaled.data) < UNTOUCHED] = 0.0
    scaled.eliminate_zeros()
    return sp.csr_array(scaled), kept


def largest_entries(rows: sp.csr_array) -> Floats:
    """(c,) of each row, without their signs."""
    if 0 in rows.shape:
        return np.zeros(rows.shape[0])
    return np.asarray(abs(rows).max(axis=1).toarray(), np.float64).ravel()
