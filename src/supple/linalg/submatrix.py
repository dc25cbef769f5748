"""Rows and columns of the free unknowns, taken from a matrix whose pattern never changes."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

__all__ = ["PrincipalSubmatrix"]


class PrincipalSubmatrix:
    """The part of a CSR matrix that couples the unknowns `keep` with each other.

    The positions of its values are found once; `take` is then one gather.

    Parameters
    ----------
    pattern
        Square CSR matrix; only its pattern counts.
    keep
        Unknowns to keep, ascending.
    """

    def __init__(self, pattern: sp.csr_array, keep: NDArray[np.int64]) -> None:
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

    def take(self, data: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values of the submatrix, given all values of the matrix."""
        return data if self._everything else data[self._positions]
