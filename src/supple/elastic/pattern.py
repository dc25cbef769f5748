"""Sparsity pattern of a body's matrices: vertices that share an element."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numba import prange

from supple.arrays import Ints, ShortInts
from supple.compiled.jit import compiled_parallel, taking_turns


@dataclass(frozen=True)
class BlockPattern:
    """Neighbours of each vertex (itself included), and their 3×3 blocks in CSR.

    Vertex i's neighbours are ``neighbours[start[i]:start[i + 1]]``, ascending.
    """

    start: Ints
    neighbours: ShortInts

    @classmethod
    def of(cls, elements: Ints, n_vertices: int) -> BlockPattern:
        """Make the pattern of a mesh; a vertex without elements keeps its diagonal block."""
        first = np.arange(0, elements.size + 1, elements.shape[1])
        corner = sp.csr_array(
            (np.ones(elements.size, np.int32), elements.ravel(), first),
            shape=(len(elements), n_vertices),
        )
        graph = sp.csr_array(corner.T @ corner + sp.eye_array(n_vertices, dtype=np.int32))
        graph.sort_indices()
        return cls(graph.indptr.astype(np.int64), graph.indices.astype(np.int32))

    @property
    def n_vertices(self) -> int:
        """Number of vertices."""
        return len(self.start) - 1

    def slots(self, elements: Ints) -> ShortInts:
        """Find corner b of c among corner a's neighbours: (m, c²) places, column c·a + b."""
        out = np.empty((len(elements), elements.shape[1] ** 2), np.int32)
        with taking_turns():
            _find_slots(self.start, self.neighbours, elements, out)
        return out

    def zeros(self) -> sp.csr_array:
        """Return a (3n, 3n) CSR matrix of zeros with this pattern, its values writable in place."""
        n, degree = self.n_vertices, np.diff(self.start)
        indptr = np.concatenate([[0], np.cumsum(np.repeat(3 * degree, 3))])
        if indptr[-1] < np.iinfo(np.int32).max:
            indptr = indptr.astype(np.int32)  # SciPy wants both index arrays of one type
        indices = np.empty(indptr[-1], indptr.dtype)
        with taking_turns():
            _fill_columns(self.start, self.neighbours, indices)
        matrix = sp.csr_array((np.zeros(indptr[-1]), indices, indptr), shape=(3 * n, 3 * n))
        matrix.has_sorted_indices = matrix.has_canonical_format = True
        return matrix


@compiled_parallel
def _find_slots(start: Ints, neighbours: ShortInts, elements: Ints, out: ShortInts) -> None:
    corners = elements.shape[1]
    for e in prange(len(elements)):
        for a in range(corners):
            first = start[elements[e, a]]
            mine = neighbours[first : start[elements[e, a] + 1]]
            for b in range(corners):
                out[e, corners * a + b] = np.searchsorted(mine, elements[e, b])


@compiled_parallel
def _fill_columns(start: Ints, neighbours: ShortInts, indices: Ints) -> None:
    for v in prange(len(start) - 1):
        at = 9 * start[v]
        for _ in range(3):
            for s in range(start[v], start[v + 1]):
                for c in range(3):
                    indices[at] = 3 * neighbours[s] + c
                    at += 1
