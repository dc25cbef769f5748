"""What light makes of a surface, as far as it can be said for each vertex."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from supple.mesh.surface import SurfaceMesh

__all__ = ["cavities", "vertex_normals"]

Floats = NDArray[np.float64]

#: Rounds of smoothing, each to the depth of hollows of one width, and what each depth counts.
_ROUNDS, _EACH = (6, 30, 90), 0.13


def vertex_normals(vertices: ArrayLike, triangles: NDArray[np.int64]) -> Floats:
    """(n, 3) unit normals, larger triangles counting more."""
    points = np.asarray(vertices, np.float64)
    corners = points[triangles]
    areas = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    corner = triangles.reshape(-1)
    each = np.repeat(areas, 3, axis=0)
    summed = [np.bincount(corner, each[:, axis], len(points)) for axis in range(3)]
    normals = np.stack(summed, axis=1)
    return normals / np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-30)


def cavities(surface: SurfaceMesh) -> Floats:
    """(n,) from 0.35 in a deep hollow through 1 where it is flat to 1.15 on a ridge.

    A hollow lies below its surroundings' average: where smoothing would lift it, less of the
    sky is seen. That is far cheaper than casting rays, and what sculptors' programs show.
    """
    points = surface.vertices.astype(np.float64)
    normals = vertex_normals(points, surface.triangles)
    average = _neighbour_average(surface)
    found, smooth, done = np.zeros(len(points)), points, 0
    for rounds in _ROUNDS:
        for _ in range(rounds - done):
            smooth = 0.5 * (smooth + average @ smooth)
        done = rounds
        depth = np.einsum("ni,ni->n", smooth - points, normals)
        depth += np.median(np.abs(depth))  # a body is round all over: that much is not a ridge
        usual = max(float(np.quantile(np.abs(depth), 0.9)), 1e-9 * surface.size)
        found += _EACH * np.clip(depth / usual, -1.0, 2.5)
    return np.clip(1.0 - found, 0.35, 1.15)


def _neighbour_average(surface: SurfaceMesh) -> sp.csr_array:
    count, triangles = len(surface.vertices), surface.triangles
    first = triangles.reshape(-1)
    second = np.roll(triangles, -1, axis=1).reshape(-1)
    pairs = sp.coo_array((np.ones(len(first)), (first, second)), shape=(count, count))
    linked = (pairs + pairs.T).tocsr()
    linked.data[:] = 1.0
    alone = np.flatnonzero(np.diff(linked.indptr) == 0)
    linked = linked + sp.coo_array((np.ones(len(alone)), (alone, alone)), shape=(count, count))
    degree = linked.sum(axis=1)
    return sp.csr_array(sp.diags_array(1.0 / degree) @ linked)
