"""Assembly over all elements of a body: energy, force and stiffness, in parallel.

The rest shape is an argument of every call, because it changes every frame; its gradients cost
little compared with the stress derivative.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numba import prange

from supple.arrays import Floats, Ints, ShortInts
from supple.compiled.jit import compiled_parallel, serialised_loops
from supple.elastic.densities.dispatch import (
    energy_density,
    is_isotropic,
    stress,
    stress_derivative,
)
from supple.elastic.element import (
    add_element_forces,
    add_point_stiffness,
    complete_stiffness,
    corner_count,
    deformation_at,
    point_count,
    scatter_stiffness,
)
from supple.maths.small_matrices import project_psd
from supple.mesh.filling.bcc_lattice import AXIS_LIMIT, morton


class Elements(NamedTuple):
    """Elements of a body, in the order of a `Partition`."""

    elements: Ints
    """(m, 4) tets or (m, 8) hexahedra."""
    parameters: Floats
    """Row of material constants of each element; see `Material.element_parameters`."""
    slopes: Floats | None
    """(g, 8, 3) derivatives of a hexahedron's shape functions at its integration points; None for
    tets, whose one point has weight 1."""
    weights: Floats | None
    """(g,) weights of the integration points, with sum 1; None for tets."""
    chunk_start: Ints
    """First element of each chunk of the partition, and the end."""
    colour_start: Ints
    """First chunk of each colour, and the end."""
    flattest: Floats
    """(m,) volumes in the rest shape below which a tet is omitted; −inf to omit none, as for
    hexahedra."""


@compiled_parallel
def element_energies(kind: int, x: Floats, rest: Floats, body: Elements, out: Floats) -> float:
    """Write the energy of each element to `out`; return the smallest volume of an integration point
    in the rest shape, which is negative if elements were omitted.
    """
    elements, parameters, slopes, weights, _, _, flattest = body
    smallest = np.inf
    n_chunks = (len(elements) + 255) // 256
    for k in prange(n_chunks):
        g, F, scratch = np.empty((corner_count(slopes), 3)), np.empty((3, 3)), np.empty((6, 3, 3))
        lowest = np.inf
        for e in range(256 * k, min(256 * k + 256, len(elements))):
            total = 0.0
            for point in range(point_count(slopes)):
                volume = deformation_at(point, x, rest, elements, e, slopes, weights, g, F)
                if volume < flattest[e]:
                    lowest = min(lowest, volume - flattest[e])
                    continue
                lowest = min(lowest, volume)
                density = energy_density(kind, F, parameters[e], scratch)
                total += volume * density
            out[e] = total
        smallest = min(smallest, lowest)
    return smallest


@compiled_parallel
def add_forces(kind: int, x: Floats, rest: Floats, body: Elements, out: Floats) -> float:
    """Add ∂W/∂x to `out` (n, 3); return the same number as `element_energies`."""
    elements, parameters, slopes, weights, chunk_start, colour_start, flattest = body
    smallest = np.inf
    for colour in range(len(colour_start) - 1):
        for k in prange(colour_start[colour], colour_start[colour + 1]):
            g, F, P = np.empty((corner_count(slopes), 3)), np.empty((3, 3)), np.empty((3, 3))
            scratch = np.empty((6, 3, 3))
            lowest = np.inf
            for e in range(chunk_start[k], chunk_start[k + 1]):
                for point in range(point_count(slopes)):
                    volume = deformation_at(point, x, rest, elements, e, slopes, weights, g, F)
                    if volume < flattest[e]:
                        lowest = min(lowest, volume - flattest[e])
                        continue
                    lowest = min(lowest, volume)
                    stress(kind, F, parameters[e], P, scratch)
                    add_element_forces(volume, g, P, elements, e, slopes, out)
            smallest = min(smallest, lowest)
    return smallest


@compiled_parallel
def add_stiffness(
    kind: int,
    x: Floats,
    rest: Floats,
    body: Elements,
    psd: bool,
    block_start: Ints,
    slots: ShortInts,
    out: Floats,
) -> float:
    """Add ∂²W/∂x² to the CSR values `out`; return the same number as `element_energies`.

    Values of vertex i begin at 9·block_start[i], three rows with its blocks side by side;
    slots[e, n·a + b] is the position of corner b of element e among the blocks of its corner a.
    """
    elements, parameters, slopes, weights, chunk_start, colour_start, flattest = body
    smallest = np.inf
    for colour in range(len(colour_start) - 1):
        for k in prange(colour_start[colour], colour_start[colour + 1]):
            n = corner_count(slopes)
            g, F, H = np.empty((n, 3)), np.empty((3, 3)), np.empty((9, 9))
            K, scratch, frames = np.empty((3 * n, 3 * n)), np.empty((6, 3, 3)), np.empty((2, 9, 9))
            lowest = np.inf
            for e in range(chunk_start[k], chunk_start[k + 1]):
                counts = True
                for point in range(point_count(slopes)):
                    volume = deformation_at(point, x, rest, elements, e, slopes, weights, g, F)
                    counts = volume >= flattest[e]
                    if not counts:
                        lowest = min(lowest, volume - flattest[e])
                        break
                    lowest = min(lowest, volume)
                    stress_derivative(kind, F, parameters[e], H, scratch)
                    if psd:
                        project_psd(F, is_isotropic(kind), H, frames)
                    add_point_stiffness(point, volume, g, H, slopes, K)
                if counts:
                    complete_stiffness(slopes, K)
                    scatter_stiffness(K, elements, e, slopes, block_start, slots, out)
            smallest = min(smallest, lowest)
    return smallest


# Chunks of one colour can be added to a shared force or matrix in parallel without locks, and the
# order of terms depends on the mesh only, so that results do not depend on the number of threads.


#: 3×3 blocks that a chunk adds to a matrix: 16 per tet, 64 per hexahedron. Larger chunks share
#: fewer vertices with others and use the cache better, but a colour needs several chunks per
#: thread.
SMALLEST, LARGEST, TARGET_CHUNKS = 2048, 32768, 200


@dataclass(frozen=True)
class Partition:
    """Elements in chunks of cache size, coloured so that chunks of one colour share no vertex.
    Chunk k has the elements `order[chunk_start[k]:chunk_start[k + 1]]`, and colour c the chunks
    `colour_start[c]:colour_start[c + 1]`.
    """

    order: Ints
    chunk_start: Ints
    colour_start: Ints

    @property
    def n_chunks(self) -> int:
        """Number of chunks."""
        return len(self.chunk_start) - 1

    @classmethod
    def of(cls, vertices: Floats, elements: Ints) -> Partition:
        """Divide the elements along a space-filling curve, and colour the chunks greedily."""
        centres = vertices[elements].mean(axis=1)
        centres -= centres.min(axis=0)
        extent = float(centres.max()) or 1.0  # zero for one element
        curve = np.argsort(morton(centres / extent * (AXIS_LIMIT - 1)), kind="stable")
        blocks = elements.shape[1] ** 2
        size = len(elements) // TARGET_CHUNKS
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
        used = np.zeros(len(near) + 1, bool)
        used[near[(near >= 0) & (near < len(used))]] = True
        colour[k] = int(np.argmin(used))
    return colour


@dataclass(frozen=True)
class BlockPattern:
    """Neighbours of each vertex, itself included, whose 3×3 blocks a CSR matrix has.
    The neighbours of vertex i are ``neighbours[start[i]:start[i + 1]]``, ascending.
    """

    start: Ints
    neighbours: ShortInts

    @classmethod
    def of(cls, elements: Ints, n_vertices: int) -> BlockPattern:
        """Return the pattern of a mesh; a vertex without elements has its diagonal block."""
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
        """Return positions of corner b among corner a's neighbours, (m, c²), in column c·a + b."""
        out = np.empty((len(elements), elements.shape[1] ** 2), np.int32)
        with serialised_loops():
            _find_slots(self.start, self.neighbours, elements, out)
        return out

    def zeros(self) -> sp.csr_array:
        """Return a (3n, 3n) CSR matrix of zeros with this pattern, with writable values."""
        n, degree = self.n_vertices, np.diff(self.start)
        indptr = np.concatenate([[0], np.cumsum(np.repeat(3 * degree, 3))])
        if indptr[-1] < np.iinfo(np.int32).max:
            indptr = indptr.astype(np.int32)  # SciPy requires index arrays of one type
        indices = np.empty(indptr[-1], indptr.dtype)
        with serialised_loops():
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
            row = neighbours[first : start[elements[e, a] + 1]]
            for b in range(corners):
                out[e, corners * a + b] = np.searchsorted(row, elements[e, b])


@compiled_parallel
def _fill_columns(start: Ints, neighbours: ShortInts, indices: Ints) -> None:
    for v in prange(len(start) - 1):
        at = 9 * start[v]
        for _ in range(3):
            for s in range(start[v], start[v + 1]):
                for c in range(3):
                    indices[at] = 3 * neighbours[s] + c
                    at += 1
