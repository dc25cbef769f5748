"""Hexahedral meshes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from supple.mesh import topology
from supple.mesh.elements import ElementMesh
from supple.mesh.hex_shapes import gauss_points, shape_gradients
from supple.mesh.topology import Defect

OUTWARD_QUADS = np.array(
    [[0, 3, 2, 1], [4, 5, 6, 7], [0, 1, 5, 4], [1, 2, 6, 5], [2, 3, 7, 6], [3, 0, 4, 7]]
)
"""The six faces, seen counterclockwise from outside a positive hexahedron."""

# Elements whose Jacobians are made at once, some 20 MB of them.
_BLOCK = 32_768


@dataclass(frozen=True, eq=False, repr=False, init=False)
class HexMesh(ElementMesh):
    """A mesh of hexahedra (trilinear, eight corners): plain arrays that have been checked.

    Parameters
    ----------
    vertices : (n, 3) array
        Finite coordinates.
    hexes : (h, 8) int array
        Vertices of each: around the bottom, counterclockwise seen from above, then the ones over
        them. This is VegaFEM's and VTK's order.
    sets : mapping of str to int array, optional
        Named sets of hexes; kept sorted, without repetition.

    Raises
    ------
    MeshError
        For a wrong shape, no hexes, a coordinate that is not finite or an index out of range.
        What may be wrong beyond that is told by `defects`.

    Notes
    -----
    Arrays already of the right kind are kept, not copied: do not change them.

    Examples
    --------
    >>> from supple.mesh.hex_shapes import CORNERS
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
    # Bottom and top change places: what was inside out is not, and the other way round.
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
        found = np.empty((len(self.hexes), len(points)))
        for first in range(0, len(self.hexes), _BLOCK):
            corners = self.vertices[self.hexes[first : first + _BLOCK]]
            edges = np.swapaxes(corners - corners[:, :1], 1, 2)
            tangents = (edges @ slopes).reshape(-1, 3, len(points), 3)
            u, v, w = (np.moveaxis(tangents[..., k], 1, 2) for k in range(3))
            found[first : first + _BLOCK] = np.einsum("hgc,hgc->hg", u, np.cross(v, w))
        return found

    def volumes(self) -> np.ndarray:
        """Return the exact volume of each trilinear hex, (h,), negative where it is inverted."""
        return self.jacobians() @ gauss_points(2)[1]

    def boundary_quads(self) -> np.ndarray:
        """Find the faces that belong to one hex only, outward oriented, (k, 4)."""
        return self._boundary_faces()

    def boundary(self) -> np.ndarray:
        """Return triangles of the boundary, outward oriented, (2k, 3): its quads cut in two."""
        return self.boundary_quads()[:, [[0, 1, 2], [0, 2, 3]]].reshape(-1, 3)

    def degenerate_hexes(self) -> np.ndarray:
        """Find hexes that are flat everywhere."""
        return self._by_shape()["degenerate"]

    def tangled_hexes(self) -> np.ndarray:
        """Find hexes that are flat or inverted at some Gauss points, but not at all of them."""
        return self._by_shape()["tangled"]

    def _by_shape(self) -> dict[str, np.ndarray]:
        """Group the hexes that are not positive at all Gauss points by what is wrong with them."""
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
