"""Sparse matrices: principal submatrices and exact symmetry."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from supple.arrays import Floats, Ints


class PrincipalSubmatrix:
    """Rows and columns `keep`, ascending, of a square CSR matrix, for many matrices of one pattern.
    The positions of the values are computed once; `take` is then one gather.
    """

    def __init__(self, pattern: sp.csr_array, keep: Ints) -> None:
        self.keep = keep
        self._everything = len(keep) == pattern.shape[0]
        if self._everything:
            self.pattern = pattern
            return
        positions = sp.csr_array(
            (np.arange(pattern.nnz), pattern.indices, pattern.indptr), shape=pattern.shape
        )
        part = sp.csr_array(positions[keep][:, keep])
        self._positions = part.data
        self.pattern = sp.csr_array(
            (np.zeros(part.nnz), part.indices, part.indptr), shape=part.shape
        )

    def take(self, data: Floats) -> Floats:
        """Return the submatrix's values, selected from the full matrix's."""
        return data if self._everything else data[self._positions]


def principal_submatrix(matrix: sp.csr_array, keep: Ints) -> sp.csr_array:
    """Return the rows and columns `keep` of one square matrix."""
    part = PrincipalSubmatrix(matrix, keep)
    pattern = part.pattern
    return sp.csr_array(
        (part.take(matrix.data), pattern.indices, pattern.indptr), shape=pattern.shape
    )


def symmetrised(matrix: sp.csr_array) -> sp.csr_array:
    """Return (A + Aᵀ) / 2, in CSR with sorted columns.
    Sums and products of sparse matrices add the terms of (i, j) and of (j, i) in different orders,
    and SciPy omits entries that are exactly zero, so even the pattern may be asymmetric.

    >>> symmetrised(sp.csr_array([[2.0, 1e-17], [0.0, 3.0]])).nnz
    4
    """
    half = sp.csr_array((matrix + matrix.T) / 2)
    half.sort_indices()
    return half


def same_entries(matrices: Sequence[sp.csr_array]) -> list[sp.csr_array]:
    """Return matrices of one shape with the union of their patterns, zeros stored."""
    parts = [sp.coo_array(each) for each in matrices]
    n, m = parts[0].shape
    keys = [part.row.astype(np.int64) * m + part.col for part in parts]
    every = np.unique(np.concatenate(keys))
    starts = np.searchsorted(every, np.arange(n + 1) * m)
    result = []
    for key, part in zip(keys, parts, strict=True):
        values = np.zeros(len(every))
        values[np.searchsorted(every, key)] = part.data
        result.append(sp.csr_array((values, every % m, starts), (n, m)))
    return result
