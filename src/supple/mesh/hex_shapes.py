"""Trilinear shape functions of a hexahedron, and its Gauss points.

The reference element is the unit cube. Its corners go around the bottom, counterclockwise seen
from above, then around the top, as in VegaFEM, VTK and most others.
"""

from __future__ import annotations

import numpy as np

from supple.arrays import Floats
from supple.errors import SuppleError

CORNERS = np.array(
    [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1], [1, 1, 1], [0, 1, 1]]
)
"""Reference coordinates of the eight corners."""


def shape_functions(points: Floats) -> Floats:
    """Return the eight shape functions at reference points (k, 3), as (k, 8)."""
    along = _along_axes(points)
    return along[:, 0] * along[:, 1] * along[:, 2]


def shape_gradients(points: Floats) -> Floats:
    """Return derivatives of the shape functions along the reference axes, (k, 8, 3)."""
    along = _along_axes(points)
    slope = 2.0 * CORNERS - 1.0
    gradients = np.empty((len(points), 8, 3))
    for axis in range(3):
        u, v = (axis + 1) % 3, (axis + 2) % 3
        gradients[:, :, axis] = slope[:, axis] * along[:, u] * along[:, v]
    return gradients


def _along_axes(points: Floats) -> Floats:
    """Return the three factors of each shape function, (k, 3, 8)."""
    return np.where(CORNERS.T == 1, points[:, :, None], 1.0 - points[:, :, None])


def gauss_points(order: int) -> tuple[Floats, Floats]:
    """Return integration points (order³, 3) in the unit cube and weights that add up to 1.

    Two to an axis integrate cubics along it, three quintics.
    """
    if isinstance(order, bool) or not isinstance(order, (int, np.integer)) or not 1 <= order <= 5:
        raise SuppleError(f"Gauss points along an axis must be 1 to 5, not {order!r}")
    places, weights = np.polynomial.legendre.leggauss(int(order))
    places, weights = (places + 1) / 2, weights / 2
    points = np.stack(np.meshgrid(places, places, places, indexing="ij"), axis=-1)
    return points.reshape(-1, 3), np.einsum("i,j,k->ijk", weights, weights, weights).ravel()
