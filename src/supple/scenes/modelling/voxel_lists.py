"""Bodies of small cubes that contain points of a solid, as hexahedra and as tets.

As in barbic2005 §3.1, every cube of a grid that a shape touches becomes an element. Thin parts
are one or two cubes thick.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from supple.arrays import Floats, Ints
from supple.errors import MeshError
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh

#: Corners of a cube in the order of a hexahedron: around the bottom, then around the top.
CORNERS = np.array(
    [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1], [1, 1, 1], [0, 1, 1]]
)
#: Five tets of a cube; neighbouring cubes alternate, so that the diagonals of faces match.
_EVEN = np.array([[0, 1, 3, 4], [2, 3, 1, 6], [5, 4, 6, 1], [7, 6, 4, 3], [1, 3, 4, 6]])
_ODD = np.array([[1, 2, 0, 5], [3, 0, 2, 7], [4, 7, 5, 0], [6, 5, 7, 2], [0, 2, 7, 5]])


class Voxels(NamedTuple):
    """Equal cubes with shared corners."""

    vertices: Floats  # (n, 3) corners, sorted by x, then y, then z
    hexes: Ints  # (h, 8) corners of each cube, in the order of `CORNERS`
    cells: Ints  # (h, 3) integer positions of the cubes in the grid
    size: float  # edge of a cube

    def tets(self) -> TetMesh:
        """Return five tets for each cube, with the same vertices."""
        odd = (self.cells.sum(axis=1) % 2).astype(bool)
        split = np.where(odd[:, None, None], _ODD, _EVEN)
        tets = np.take_along_axis(self.hexes[:, None, :], split.reshape(len(split), 1, 20), axis=2)
        return TetMesh(self.vertices, tets.reshape(-1, 4))


def voxels_around(points: Floats, size: float) -> Voxels:
    """Return the cubes that contain points, of a grid through the origin.

    Raises MeshError unless cubes are connected by faces; a shared edge alone is a hinge.
    """
    places = np.floor(points / size).astype(np.int64)
    low = places.min(axis=0)
    shape = places.max(axis=0) - low + 2
    keys = np.unique(np.ravel_multi_index(tuple((places - low).T), tuple(shape)))
    cells = np.stack(np.unravel_index(keys, tuple(shape)), axis=1) + low
    _check_joined(keys, shape)
    corners = (cells[:, None] - low + CORNERS).reshape(-1, 3)
    corner_keys = np.ravel_multi_index(tuple(corners.T), tuple(shape))
    used, number = np.unique(corner_keys, return_inverse=True)
    vertices = (np.stack(np.unravel_index(used, tuple(shape)), axis=1) + low) * size
    return Voxels(vertices, number.reshape(-1, 8).astype(np.int64), cells, size)


def _check_joined(keys: Ints, shape: Ints) -> None:
    pairs = []
    for stride in (shape[1] * shape[2], shape[2], 1):
        # The grid has an empty last layer, so the last cube of a row has no neighbour in the next.
        at = np.minimum(np.searchsorted(keys, keys + stride), len(keys) - 1)
        joined = np.flatnonzero(keys[at] == keys + stride)
        pairs.append(np.stack([joined, at[joined]]))
    first, second = np.concatenate(pairs, axis=1)
    graph = sp.coo_array((np.ones(len(first)), (first, second)), shape=(len(keys),) * 2)
    count, label = connected_components(graph, directed=False)
    if count > 1:
        raise MeshError(
            f"the cubes form {count} separate pieces, the smallest of "
            f"{int(np.bincount(label).min())}; use smaller cubes, or thicker parts"
        )


def box_points(centre: Floats, half: Floats, axes: Floats, spacing: float) -> Floats:
    """Return points throughout a box and on its faces, at most `spacing` apart."""
    ticks = [np.linspace(-1, 1, int(np.ceil(2 * h / spacing)) + 1) * h for h in half]
    local = np.stack(np.meshgrid(*ticks, indexing="ij"), axis=-1).reshape(-1, 3)
    return centre + local @ axes


def surface_points(surface: SurfaceMesh, spacing: float) -> Floats:
    """Return points on the triangles, at most `spacing` apart."""
    corners = surface.vertices[surface.triangles]
    longest = np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2).max()
    n = int(np.ceil(longest / spacing))
    i, j = (grid.ravel() for grid in np.meshgrid(np.arange(n + 1), np.arange(n + 1)))
    inside = i + j <= n
    weights = np.stack([i, j, n - i - j], axis=1)[inside] / n
    return np.einsum("wc,tck->twk", weights, corners).reshape(-1, 3)
