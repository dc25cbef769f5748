"""Hexahedral meshes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from supple.errors import MeshError
from supple.mesh import topology
from supple.mesh.hex_shapes import gauss_points, shape_gradients
from supple.mesh.surface import SurfaceMesh
from supple.mesh.topology import Defect, counted

__all__ = ["HexMesh"]

OUTWARD_QUADS = np.array(
    [[0, 3, 2, 1], [4, 5, 6, 7], [0, 1, 5, 4], [1, 2, 6, 5], [2, 3, 7, 6], [3, 0, 4, 7]]
)
"""The six faces, seen counterclockwise from outside a positive hexahedron."""

# Bottom and top change places: what was inside out is not, and the other way round.
MIRRORED = np.array([4, 5, 6, 7, 0, 1, 2, 3])

# Elements whose Jacobians are made at once, some 20 MB of them.
_BLOCK = 32_768


@dataclass(frozen=True, eq=False, repr=False, init=False)
class HexMesh:
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

    def __init__(
        self, vertices: ArrayLike, hexes: ArrayLike, sets: Mapping[str, ArrayLike] | None = None
    ) -> None:
        points = topology.checked_vertices(vertices)
        corners = topology.checked_elements(hexes, 8, len(points), "hexahedron")
        named = {
            str(name): _checked_set(str(name), members, len(corners))
            for name, members in (sets or {}).items()
        }
        object.__setattr__(self, "vertices", points)
        object.__setattr__(self, "hexes", corners)
        object.__setattr__(self, "sets", named)

    def __repr__(self) -> str:
        vertices = counted(len(self.vertices), "vertex", "vertices")
        return f"HexMesh({vertices}, {counted(len(self.hexes), 'hex', 'hexes')})"

    @property
    def bounds(self) -> np.ndarray:
        """Lowest and highest corner of the bounding box, (2, 3)."""
        return topology.bounding_box(self.vertices)

    @property
    def size(self) -> float:
        """Diagonal of the bounding box."""
        low, high = self.bounds
        return float(np.linalg.norm(high - low))

    def jacobians(self, order: int = 2) -> np.ndarray:
        """Determinant of ∂x/∂ξ at the Gauss points of each hex, (h, order³).

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
        """Volume of each hex, (h,), negative where it is inverted; exact for trilinear ones."""
        return self.jacobians() @ gauss_points(2)[1]

    def boundary_quads(self) -> np.ndarray:
        """Faces that belong to one hex only, outward oriented, (k, 4)."""
        quads = self.hexes[:, OUTWARD_QUADS]
        inverted = self.volumes() < 0
        quads[inverted] = quads[inverted][:, :, ::-1]
        _, first, uses = np.unique(self._face_keys(), return_index=True, return_counts=True)
        return quads.reshape(-1, 4)[np.sort(first[uses == 1])]

    def boundary(self) -> np.ndarray:
        """The same faces cut into triangles, (2k, 3)."""
        return self.boundary_quads()[:, [[0, 1, 2], [0, 2, 3]]].reshape(-1, 3)

    def _face_keys(self) -> np.ndarray:
        faces = self.hexes[:, OUTWARD_QUADS].reshape(-1, 4)
        return topology.row_keys(np.sort(faces, axis=1), len(self.vertices))

    def surface(self) -> tuple[SurfaceMesh, np.ndarray]:
        """The boundary as a mesh of its own, and the hex mesh's vertex of each of its."""
        vertex_index, compact = np.unique(self.boundary(), return_inverse=True)
        mesh = SurfaceMesh(self.vertices[vertex_index], compact.reshape(-1, 3))
        return mesh, vertex_index

    def oriented(self) -> HexMesh:
        """A copy in which no hex is inverted as a whole: such are mirrored."""
        hexes = self.hexes.copy()
        inverted = self.volumes() < 0
        hexes[inverted] = hexes[inverted][:, MIRRORED]
        return HexMesh(self.vertices, hexes, self.sets)

    def without(self, unwanted: np.ndarray) -> HexMesh:
        """A copy without the hexes `unwanted` (indices); vertices stay, sets follow."""
        keep = np.ones(len(self.hexes), dtype=bool)
        keep[unwanted] = False
        new_index = np.cumsum(keep) - 1
        sets = {name: new_index[hexes[keep[hexes]]] for name, hexes in self.sets.items()}
        return HexMesh(self.vertices, self.hexes[keep], sets)

    def degenerate_hexes(self) -> np.ndarray:
        """Hexes that have nowhere any volume to speak of."""
        return np.flatnonzero(np.abs(self.jacobians()).max(axis=1) <= self._flatness())

    def tangled_hexes(self) -> np.ndarray:
        """Hexes that are flat or inverted at some Gauss points, but not at all of them."""
        jacobians, flat = self.jacobians(), self._flatness()
        return np.flatnonzero((jacobians.min(axis=1) <= flat) & (jacobians.max(axis=1) > flat))

    def _flatness(self) -> np.ndarray:
        longest = topology.longest_edges(self.vertices, self.hexes)
        return topology.FLAT * longest**2 * self.size

    def components(self) -> np.ndarray:
        """Component of each hex, (h,); hexes with a common vertex are together."""
        return topology.components(self.hexes, len(self.vertices))

    def defects(self) -> list[Defect]:
        """What is wrong with the mesh, though it may still be of use.

        Returns
        -------
        list of Defect
            Of the kinds ``inverted hexes``, ``tangled hexes``, ``degenerate hexes``,
            ``duplicate hexes``, ``unreferenced vertices``, ``non-manifold faces`` (more than
            two hexes share them) and ``components`` (when there are several).
        """
        n = len(self.vertices)
        jacobians, flat = self.jacobians(), self._flatness()
        low, high = jacobians.min(axis=1), jacobians.max(axis=1)
        inverted = (low < -flat) & (high <= flat)
        _, first, uses = np.unique(self._face_keys(), return_index=True, return_counts=True)
        crowded = np.sort(first[uses > 2]) // 6
        found = [
            _hex_defect("inverted hexes", np.flatnonzero(inverted)),
            _hex_defect("tangled hexes", np.flatnonzero((low <= flat) & (high > flat))),
            _hex_defect("degenerate hexes", np.flatnonzero((low >= -flat) & (high <= flat))),
            _hex_defect("duplicate hexes", topology.repeated_rows(self.hexes, n)),
            topology.defect(
                "unreferenced vertices", topology.unreferenced(self.hexes, n), "vertex"
            ),
            topology.defect("non-manifold faces", crowded, "hex"),
            *self._several_components(),
        ]
        return [defect for defect in found if defect.count]

    def _several_components(self) -> list[Defect]:
        labels = self.components()
        count = int(labels.max()) + 1
        if count == 1:
            return []
        second = int(np.argmax(labels == 1))
        message = f"is in {count} separate components (the second begins at hex {second})"
        return [Defect("components", count, second, message)]


def _hex_defect(kind: str, where: np.ndarray) -> Defect:
    first = int(where[0]) if len(where) else None
    found = counted(len(where), kind.removesuffix("es"), kind)
    return Defect(kind, len(where), first, f"has {found} (first at hex {first})")


def _checked_set(name: str, members: ArrayLike, n_hexes: int) -> np.ndarray:
    try:
        indices = np.asarray(members)
    except ValueError as error:
        raise MeshError(f'set "{name}" is not a list of hexes') from error
    if indices.size == 0:
        return np.empty(0, dtype=np.int64)
    if indices.ndim != 1 or indices.dtype.kind not in "iu":
        raise MeshError(f'set "{name}" is not a list of hexes')
    wrong = np.flatnonzero((indices < 0) | (indices >= n_hexes))
    if len(wrong):
        raise MeshError(f'set "{name}" has hex {indices[wrong[0]]}, but there are {n_hexes} hexes')
    return np.unique(indices.astype(np.int64))
