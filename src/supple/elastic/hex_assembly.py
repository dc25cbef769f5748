"""How hexahedra are added into one matrix: in coloured chunks, and which vertices share one."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numba import prange
from numpy.typing import NDArray

from supple.compiled import compiled_parallel, taking_turns
from supple.elastic.partition import Partition, _colour_chunks
from supple.elastic.pattern import BlockPattern
from supple.mesh.lattice import AXIS_LIMIT, morton

__all__ = ["hex_partition", "hex_pattern", "hex_slots"]

Ints = NDArray[np.int64]

#: Hexes in a chunk; see `Partition`.
SMALLEST, LARGEST, WANTED_CHUNKS = 32, 512, 200


def hex_partition(vertices: NDArray[np.float64], hexes: Ints) -> Partition:
    """Hexes along a space-filling curve, in chunks; those of one colour share no vertex."""
    centres = vertices[hexes].mean(axis=1)
    centres -= centres.min(axis=0)
    extent = float(centres.max()) or 1.0  # one hex has none
    curve = np.argsort(morton(centres / extent * (AXIS_LIMIT - 1)), kind="stable")
    size = int(np.clip(len(hexes) // WANTED_CHUNKS, SMALLEST, LARGEST))
    n_chunks = -(-len(hexes) // size)
    bounds = np.linspace(0, len(hexes), n_chunks + 1).astype(np.int64)
    sizes = np.diff(bounds)
    # Colouring asks which vertices a chunk touches, so half a hex a row tells it as much.
    halves = hexes[curve].reshape(-1, 4)
    colour = _colour_chunks(halves, np.repeat(np.arange(n_chunks), 2 * sizes), len(vertices))
    by_colour = np.argsort(colour, kind="stable")
    order = np.concatenate([curve[bounds[k] : bounds[k + 1]] for k in by_colour])
    chunk_start = np.concatenate([[0], np.cumsum(sizes[by_colour])])
    colour_start = np.searchsorted(colour[by_colour], np.arange(colour.max() + 2))
    return Partition(order, chunk_start, colour_start)


def hex_pattern(hexes: Ints, n_vertices: int) -> BlockPattern:
    """Which vertices share a hex; a vertex without hexes keeps its diagonal block."""
    corner = sp.csr_array(
        (np.ones(hexes.size, np.int32), hexes.ravel(), np.arange(0, hexes.size + 1, 8)),
        shape=(len(hexes), n_vertices),
    )
    graph = sp.csr_array(corner.T @ corner + sp.eye_array(n_vertices, dtype=np.int32))
    graph.sort_indices()
    return BlockPattern(graph.indptr.astype(np.int64), graph.indices.astype(np.int32))


def hex_slots(pattern: BlockPattern, hexes: Ints) -> NDArray[np.int32]:
    """Where corner b stands among corner a's neighbours: (h, 64), column 8a + b."""
    out = np.empty((len(hexes), 64), np.int32)
    with taking_turns():
        _find_slots(pattern.start, pattern.neighbours, hexes, out)
    return out


@compiled_parallel
def _find_slots(
    start: Ints, neighbours: NDArray[np.int32], hexes: Ints, out: NDArray[np.int32]
) -> None:
    for h in prange(len(hexes)):
        for a in range(8):
            mine = neighbours[start[hexes[h, a]] : start[hexes[h, a] + 1]]
            for b in range(8):
                out[h, 8 * a + b] = np.searchsorted(mine, hexes[h, b])
