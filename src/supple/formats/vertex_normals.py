"""Normals at the vertices of a surface that moves."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from supple.arrays import Floats, Ints


class VertexNormals:
    """Unit normals at the vertices of a deforming surface, weighted by area.

    `flat` is the normal of a vertex whose triangles have no area, or that has none.
    """

    def __init__(self, triangles: Ints, n_vertices: int, flat: ArrayLike = (0.0, 1.0, 0.0)) -> None:
        self._triangles, self._flat = triangles, np.asarray(flat, np.float64)
        count = len(triangles)
        rows, columns = triangles.ravel(), np.repeat(np.arange(count), 3)
        self._sum = csr_array((np.ones(3 * count), (rows, columns)), (n_vertices, count))

    def __call__(self, positions: Floats) -> Floats:
        """Return the normals (n, 3) for vertices at `positions`, (n, 3)."""
        a, b, c = (positions[corner] for corner in self._triangles.T)
        normals = np.asarray(self._sum @ np.cross(b - a, c - a))
        lengths = np.linalg.norm(normals, axis=1, keepdims=True)
        return np.where(lengths > 1e-300, normals / np.maximum(lengths, 1e-300), self._flat)
