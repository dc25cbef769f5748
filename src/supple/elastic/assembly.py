"""Loops over all elements of a body: energy, force and stiffness, in parallel.

The rest shape is read on every call, because it changes every frame; its gradients cost little
beside the stress derivative.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numba import prange

from supple.arrays import Floats, Ints, ShortInts
from supple.compiled.jit import compiled_parallel
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
from supple.maths.svd import project_psd
from supple.mesh.filling.bcc_lattice import AXIS_LIMIT, morton


class Elements(NamedTuple):
    """Elements of a body as the loops read them, in the order of a `Partition`."""

    elements: Ints
    """(m, 4) tets or (m, 8) hexahedra."""
    parameters: Floats
    """A row of material constants for each; see `Material.element_parameters`."""
    slopes: Floats | None
    """(g, 8, 3) derivatives of a hexahedron's shape functions at its integration points; None for
    tets, whose one point has weight 1."""
    weights: Floats | None
    """(g,) of the integration points, adding up to 1; None for tets."""
    chunk_start: Ints
    """Where each chunk of the partition begins, and the end."""
    colour_start: Ints
    """Which chunk is the first of each colour, and the end."""
    flattest: Floats
    """(m,) least volumes of a tet's rest shape; one with less is left out. −inf to leave out none,
    as of hexahedra."""


@compiled_parallel
def element_energies(kind: int, x: Floats, rest: Floats, body: Elements, out: Floats) -> float:
    """Write the energy of each element to `out`; return the smallest rest volume of a point.

    Where elements are left out, it is negative.
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
    """Add ∂W/∂x to `out` (n, 3); return as `element_energies` does."""
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
    """Add ∂²W/∂x² to the CSR values `out`; return as `element_energies` does.

    Vertex i owns the values from 9·block_start[i], as three rows of its blocks side by side;
    slots[e, n·a + b] is where in that list corner b of element e stands for corner a of its n.
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


# Chunks of one colour may be added into a shared force or matrix in parallel without locks,
# and every entry receives its terms in an order that depends on the mesh only: results are
# the same bits for any number of threads.


#: 3×3 blocks that a chunk adds to a matrix: 16 a tet, 64 a hexahedron. Larger chunks share fewer
#: vertices with others, so more of a matrix is still in cache when it is added to again; but a
#: colour needs several chunks for every thread.
SMALLEST, LARGEST, WANTED_CHUNKS = 2048, 32768, 200


@dataclass(frozen=True)
class Partition:
    """Elements in cache-sized chunks, coloured so that chunks of one colour share no vertex.

    `order[chunk_start[k]:chunk_start[k + 1]]` are the elements of chunk k, and
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
    def of(cls, vertices: Floats, elements: Ints) -> Partition:
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
