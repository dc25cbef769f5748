"""Matrices that are symmetric on paper, made so to the bit."""

from __future__ import annotations

import scipy.sparse as sp

__all__ = ["symmetrised"]


def symmetrised(matrix: sp.csr_array) -> sp.csr_array:
    """(A + Aᵀ) / 2, in CSR with sorted columns.

    Sums and products of sparse matrices add the terms of (i, j) and of (j, i) in different orders,
    and SciPy leaves out what comes to exactly zero: even the pattern may then have one and not
    the other.

    Examples
    --------
    >>> symmetrised(sp.csr_array([[2.0, 1e-17], [0.0, 3.0]])).nnz
    4
    """
    half = sp.csr_array((matrix + matrix.T) / 2)
    half.sort_indices()
    return half
