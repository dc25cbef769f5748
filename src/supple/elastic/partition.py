"""Elements in cache-sized chunks, coloured so that chunks of one colour share no vertex.

Chunks of one colour may be added into a shared force or matrix in parallel without locks,
and every entry receives its terms in an order that depends on the mesh only: results are
the same bits for any number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from supple.mesh.lattice import AXIS_LIMIT, morton

__all__ = ["Partition"]

Ints = NDArray[np.int64]

#: 3×3 blocks that a chunk adds to a matrix: 16 a tet, 64 a hexahedron. Larger chunks share fewer
#: vertices with others, so more of a matrix is still in cache when it is added to again; but a
#: colour needs several chunks for every thread.
SMALLEST, LARGEST, WANTED_CHUNKS = 2048, 32768, 200


@dataclass(frozen=True)
class Partition:
    """`order[chunk_start[k]:chunk_start[k + 1]]` are the elements of chunk k, and
    `colour_start[c]:colour_start[c + 1]` the chunks of colour c.
    """

    order: Ints
    chunk_start: Ints
    colour_start: Ints

    @property
    def n_chunks(self) -> int:
        """Number of chunks."""
        return len(self.chunk_start) - 1

    @classmethod
    def of(cls, vertices: NDArray[np.float64], elements: Ints) -> Partition:
        """Cut along a space-filling curve through the elements' centres, colour greedily."""
        centres = vertices[elements].mean(axis=1)
        centres -= centres.min(axis=0)
        extent = float(centres.max()) or 1.0  # one element has none
        curve = np.argsort(morton(centres / extent * (AXIS_LIMIT - 1)), kind="stable")
        blocks = elements.shape[1] ** 2
        size = len(elements) // WANTED_CHUNKS
        size = min(max(size, SMALLEST // blocks), LARGEST // blocks)
        n_chunks = -(-len(elements) // size)
        bounds = np.linspace(0, len(elements), n_chunks + 1).astype(np.int64)
        sizes = np.diff(bounds)
        chunk = np.repeat(np.arange(n_chunks), sizes)
        colour = _colour_chunks(elements[curve], chunk, len(vertices))
        by_colour = np.argsort(colour, kind="stable")
        order = np.concatenate([curve[bounds[k] : bounds[k + 1]] for k in by_colour])
        chunk_start = np.concatenate([[0], np.cumsum(sizes[by_colour])])
        colour_start = np.searchsorted(colour[by_colour], np.arange(colour.max() + 2))
        return cls(order, chunk_start, colour_start)


def _colour_chunks(elements: Ints, chunk: Ints, n_vertices: int) -> Ints:
    n_chunks = int(chunk[-1]) + 1
    touches = sp.csr_array(
        (np.ones(elements.size, np.int32), (np.repeat(chunk, elements.shape[1]), elements.ravel())),
        shape=(n_chunks, n_vertices),
    )
    neighbours = sp.csr_array(touches @ touches.T)
    colour = np.full(n_chunks, -1, np.int64)
    for k in range(n_chunks):
        near = colour[neighbours.indices[neighbours.indptr[k] : neighbours.indptr[k + 1]]]
        taken = np.zeros(len(near) + 1, bool)
        taken[near[(near >= 0) & (near < len(taken))]] = True
        colour[k] = int(np.argmin(taken))
    return colour
