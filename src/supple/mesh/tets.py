"""Tetrahedral meshes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from supple.errors import MeshError
from supple.mesh import topology
from supple.mesh.surface import SurfaceMesh
from supple.mesh.topology import Defect, counted

__all__ = ["TetMesh"]

# The face opposite each vertex, seen counterclockwise from outside a positive tet.
OUTWARD_FACES = np.array([[1, 2, 3], [0, 3, 2], [0, 1, 3], [0, 2, 1]])

EDGES = np.array([[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]])


@dataclass(frozen=True, eq=False, repr=False, init=False)
class TetMesh:
    """A tetrahedral mesh: plain arrays that have been checked.

    Parameters
    ----------
    vertices : (n, 3) array
        Finite coordinates.
    tets : (m, 4) int array
        Vertices of each tet; a positive one sees 1, 2, 3 counterclockwise from outside
        the face opposite 0, that is ``det(b - a, c - a, d - a) > 0``.
    sets : mapping of str to int array, optional
        Named sets of tets; kept sorted, without repetition.

    Raises
    ------
    MeshError
        For a wrong shape, no tets, a coordinate that is not finite or an index out of
        range. What may be wrong beyond that is told by `defects`.

    Notes
    -----
    Arrays already of the right kind are kept, not copied: do not change them.

    Examples
    --------
    >>> mesh = TetMesh([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], [[0, 1, 2, 3]])
    >>> mesh.volumes() * 6
    array([1.])
    """

    vertices: np.ndarray
    tets: np.ndarray
    sets: dict[str, np.ndarray]

    def __init__(
        self, vertices: ArrayLike, tets: ArrayLike, sets: Mapping[str, ArrayLike] | None = None
    ) -> None:
        points = topology.checked_vertices(vertices)
        corners = topology.checked_elements(tets, 4, len(points), "tet")
        named = {
            str(name): _checked_set(str(name), members, len(corners))
            for name, members in (sets or {}).items()
        }
        object.__setattr__(self, "vertices", points)
        object.__setattr__(self, "tets", corners)
        object.__setattr__(self, "sets", named)

    def __repr__(self) -> str:
        vertices = counted(len(self.vertices), "vertex", "vertices")
        return f"TetMesh({vertices}, {counted(len(self.tets), 'tet')})"

    @property
    def bounds(self) -> np.ndarray:
        """Lowest and highest corner of the bounding box, (2, 3)."""
        return topology.bounding_box(self.vertices)

    @property
    def size(self) -> float:
        """Diagonal of the bounding box."""
        low, high = self.bounds
        return float(np.linalg.norm(high - low))

    def volumes(self) -> np.ndarray:
        """Volume of each tet, (m,), negative where it is inverted."""
        a, b, c, d = (self.vertices[self.tets[:, k]] for k in range(4))
        return np.einsum("ij,ij->i", b - a, np.cross(c - a, d - a)) / 6

    def boundary(self) -> np.ndarray:
        """Faces that belong to one tet only, outward oriented, (k, 3)."""
        faces = self.tets[:, OUTWARD_FACES]
        inverted = self.volumes() < 0
        faces[inverted] = faces[inverted][:, :, ::-1]
        faces = faces.reshape(-1, 3)
        _, first, uses = np.unique(self._face_keys(), return_index=True, return_counts=True)
        return faces[np.sort(first[uses == 1])]

    def _face_keys(self) -> np.ndarray:
        faces = self.tets[:, OUTWARD_FACES].reshape(-1, 3)
        return topology.row_keys(np.sort(faces, axis=1), len(self.vertices))

    def surface(self) -> tuple[SurfaceMesh, np.ndarray]:
        """The boundary as a mesh of its own, and the tet mesh's vertex of each of its."""
        triangles = self.boundary()
        vertex_index, compact = np.unique(triangles, return_inverse=True)
        mesh = SurfaceMesh(self.vertices[vertex_index], compact.reshape(-1, 3))
        return mesh, vertex_index

    def oriented(self) -> TetMesh:
        """A copy in which no tet is inverted: two vertices of each such are swapped."""
        tets = self.tets.copy()
        inverted = self.volumes() < 0
        tets[inverted] = tets[inverted][:, [0, 1, 3, 2]]
        return TetMesh(self.vertices, tets, self.sets)

    def without(self, unwanted: np.ndarray) -> TetMesh:
        """A copy without the tets `unwanted` (indices); vertices stay, sets follow."""
        keep = np.ones(len(self.tets), dtype=bool)
        keep[unwanted] = False
        new_index = np.cumsum(keep) - 1
        sets = {name: new_index[tets[keep[tets]]] for name, tets in self.sets.items()}
        return TetMesh(self.vertices, self.tets[keep], sets)

    def dihedral_angles(self) -> np.ndarray:
        """Degrees at the edges 01, 02, 03, 12, 13, 23 of each tet, (m, 6)."""
        corners = self.vertices[self.tets]
        a, b, c = (corners[:, OUTWARD_FACES[:, k]] for k in range(3))
        normals = np.cross(b - a, c - a)
        angles = np.empty((len(self.tets), 6))
        for edge, opposite in enumerate(EDGES[::-1]):
            # The faces meeting at an edge are the ones opposite its tet's other edge.
            u, v = normals[:, opposite[0]], normals[:, opposite[1]]
            sine = np.linalg.norm(np.cross(u, v), axis=1)
            angles[:, edge] = np.arctan2(sine, -np.einsum("ij,ij->i", u, v))
        return np.degrees(angles)

    def degenerate_tets(self) -> np.ndarray:
        """Tets with a repeated vertex, or without volume to speak of."""
        longest = topology.longest_edges(self.vertices, self.tets)
        return np.flatnonzero(np.abs(self.volumes()) <= topology.FLAT * longest**2 * self.size)

    def components(self) -> np.ndarray:
        """Component of each tet, (m,); tets with a common vertex are together."""
        return topology.components(self.tets, len(self.vertices))

    def defects(self) -> list[Defect]:
        """What is wrong with the mesh, though it may still be of use.

        Returns
        -------
        list of Defect
            Of the kinds ``inverted tets``, ``degenerate tets``, ``duplicate tets``,
            ``unreferenced vertices``, ``non-manifold faces`` (more than two tets share
            them) and ``components`` (when there are several).
        """
        n = len(self.vertices)
        degenerate = self.degenerate_tets()
        inverted = self.volumes() < 0
        inverted[degenerate] = False
        _, first, uses = np.unique(self._face_keys(), return_index=True, return_counts=True)
        crowded = np.sort(first[uses > 2]) // 4
        found = [
            topology.defect("inverted tets", np.flatnonzero(inverted), "tet"),
            topology.defect("degenerate tets", degenerate, "tet"),
            topology.defect("duplicate tets", topology.repeated_rows(self.tets, n), "tet"),
            topology.defect("unreferenced vertices", topology.unreferenced(self.tets, n), "vertex"),
            topology.defect("non-manifold faces", crowded, "tet"),
            *self._several_components(),
        ]
        return [defect for defect in found if defect.count]

    def _several_components(self) -> list[Defect]:
        labels = self.components()
        count = int(labels.max()) + 1
        if count == 1:
            return []
        second = int(np.argmax(labels == 1))
        message = f"is in {count} separate components (the second begins at tet {second})"
        return [Defect("components", count, second, message)]


def _checked_set(name: str, members: ArrayLike, n_tets: int) -> np.ndarray:
    try:
        indices = np.asarray(members)
    except ValueError as error:
        raise MeshError(f'set "{name}" is not a list of tets') from error
    if indices.size == 0:
        return np.empty(0, dtype=np.int64)
    if indices.ndim != 1 or indices.dtype.kind not in "iu":
        raise MeshError(f'set "{name}" is not a list of tets')
    wrong = np.flatnonzero((indices < 0) | (indices >= n_tets))
    if len(wrong):
        raise MeshError(f'set "{name}" has tet {indices[wrong[0]]}, but there are {n_tets} tets')
    return np.unique(indices.astype(np.int64))
