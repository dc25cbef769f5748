"""Hexahedral meshes, their trilinear shape functions and Gauss points."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats
from supple.errors import SuppleError
from supple.mesh import topology
from supple.mesh.elements import ElementMesh
from supple.mesh.topology import Defect

CORNERS = np.array(
    [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1], [1, 1, 1], [0, 1, 1]]
)
"""Reference coordinates of the eight corners."""
OUTWARD_QUADS = np.array(
    [[0, 3, 2, 1], [4, 5, 6, 7], [0, 1, 5, 4], [1, 2, 6, 5], [2, 3, 7, 6], [3, 0, 4, 7]]
)
"""The six faces, seen counterclockwise from outside a positive hexahedron."""

# Number of elements per block of Jacobians, 20 MB.
_BLOCK = 32_768


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
    """Return integration points (order³, 3) in the unit cube and weights of sum 1.
    Two per axis integrate cubics along it, three quintics.
    """
    if isinstance(order, bool) or not isinstance(order, (int, np.integer)) or not 1 <= order <= 5:
        raise SuppleError(f"Gauss points along an axis must be 1 to 5, not {order!r}")
    places, weights = np.polynomial.legendre.leggauss(int(order))
    places, weights = (places + 1) / 2, weights / 2
    points = np.stack(np.meshgrid(places, places, places, indexing="ij"), axis=-1)
    return points.reshape(-1, 3), np.einsum("i,j,k->ijk", weights, weights, weights).ravel()


@dataclass(frozen=True, eq=False, repr=False, init=False)
class HexMesh(ElementMesh):
    """Mesh of trilinear hexahedra with eight corners, in checked arrays.

    Parameters
    ----------
    vertices : (n, 3) array
        Finite coordinates.
    hexes : (h, 8) int array
        Vertices of each: around the bottom, counterclockwise from above, then those above them, as
        in VegaFEM and VTK.
    sets : mapping of str to int array, optional
        Named sets of hexes; sorted and without repetition.

    Raises
    ------
    MeshError
        For a wrong shape, no hexes, a coordinate that is not finite or an index out of range.
        `defects` lists other problems.

    Notes
    -----
    Arrays of the right type are not copied: do not change them.

    Examples
    --------
    >>> from supple.mesh.hexes import CORNERS
    >>> mesh = HexMesh(2.0 * CORNERS, [range(8)])
    >>> mesh, mesh.volumes().round(12)
    (HexMesh(8 vertices, 1 hex), array([8.]))
    """

    vertices: np.ndarray
    hexes: np.ndarray
    sets: dict[str, np.ndarray]

    noun: ClassVar = "hex"
    plural: ClassVar = "hexes"
    faces: ClassVar = OUTWARD_QUADS
    # Bottom and top are exchanged.
    mirrored: ClassVar = np.array([4, 5, 6, 7, 0, 1, 2, 3])

    def __init__(
        self, vertices: ArrayLike, hexes: ArrayLike, sets: Mapping[str, ArrayLike] | None = None
    ) -> None:
        super().__init__(vertices, hexes, sets)

    def jacobians(self, order: int = 2) -> np.ndarray:
        """Return the determinant of ∂x/∂ξ at the Gauss points of each hex, (h, order³).

        ξ runs over the unit cube, so a box has its volume everywhere.
        """
        points, _ = gauss_points(order)
        slopes = shape_gradients(points).transpose(1, 0, 2).reshape(8, -1)
        determinants = np.empty((len(self.hexes), len(points)))
        for first in range(0, len(self.hexes), _BLOCK):
            corners = self.vertices[self.hexes[first : first + _BLOCK]]
            edges = np.swapaxes(corners - corners[:, :1], 1, 2)
            tangents = (edges @ slopes).reshape(-1, 3, len(points), 3)
            u, v, w = (np.moveaxis(tangents[..., k], 1, 2) for k in range(3))
            determinants[first : first + _BLOCK] = np.einsum("hgc,hgc->hg", u, np.cross(v, w))
        return determinants

    def volumes(self) -> np.ndarray:
        """Return the exact volume of each trilinear hex, (h,), negative if it is inverted."""
        return self.jacobians() @ gauss_points(2)[1]

    def boundary_quads(self) -> np.ndarray:
        """Return the faces that belong to one hex only, outward oriented, (k, 4)."""
        return self._boundary_faces()

    def boundary(self) -> np.ndarray:
        """Return triangles of the boundary, outward oriented, (2k, 3): its quads halved."""
        return self.boundary_quads()[:, [[0, 1, 2], [0, 2, 3]]].reshape(-1, 3)

    def degenerate_hexes(self) -> np.ndarray:
        """Return the indices of hexes that are flat at all Gauss points."""
        return self._by_shape()["degenerate"]

    def tangled_hexes(self) -> np.ndarray:
        """Return the indices of hexes that are flat or inverted at some, not all, Gauss points."""
        return self._by_shape()["tangled"]

    def _by_shape(self) -> dict[str, np.ndarray]:
        """Return the indices of hexes by defect: inverted, tangled and degenerate."""
        jacobians, flat = self.jacobians(), self._flatness()
        low, high = jacobians.min(axis=1), jacobians.max(axis=1)
        return {
            "inverted": np.flatnonzero((low < -flat) & (high <= flat)),
            "tangled": np.flatnonzero((low <= flat) & (high > flat)),
            "degenerate": np.flatnonzero((low >= -flat) & (high <= flat)),
        }

    def _shape_defects(self) -> Iterator[Defect]:
        for shape, hexes in self._by_shape().items():
            yield topology.defect(f"{shape} hexes", hexes, "hex")
