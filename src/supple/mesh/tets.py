"""Tetrahedral meshes, and their finite element Laplacian."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from supple.arrays import Floats
from supple.errors import MeshError
from supple.mesh import topology
from supple.mesh.elements import ElementMesh
from supple.mesh.topology import Defect

# The face opposite each vertex, counterclockwise from outside a positive tet.
OUTWARD_FACES = np.array([[1, 2, 3], [0, 3, 2], [0, 1, 3], [0, 2, 1]])

EDGES = np.array([[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]])


@dataclass(frozen=True, eq=False, repr=False, init=False)
class TetMesh(ElementMesh):
    """Tetrahedral mesh, in checked arrays.

    Parameters
    ----------
    vertices : (n, 3) array
        Finite coordinates.
    tets : (m, 4) int array
        Vertices of each tet; a positive one has ``det(b - a, c - a, d - a) > 0``.
    sets : mapping of str to int array, optional
        Named sets of tets; sorted and without repetition.

    Raises
    ------
    MeshError
        For a wrong shape, no tets, a coordinate that is not finite or an index out of
        range. `defects` lists other problems.

    Notes
    -----
    Arrays of the right type are not copied: do not change them.

    Examples
    --------
    >>> mesh = TetMesh([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], [[0, 1, 2, 3]])
    >>> mesh.volumes() * 6
    array([1.])
    """

    vertices: np.ndarray
    tets: np.ndarray
    sets: dict[str, np.ndarray]

    noun: ClassVar = "tet"
    plural: ClassVar = "tets"
    faces: ClassVar = OUTWARD_FACES
    mirrored: ClassVar = np.array([0, 1, 3, 2])

    def __init__(
        self, vertices: ArrayLike, tets: ArrayLike, sets: Mapping[str, ArrayLike] | None = None
    ) -> None:
        super().__init__(vertices, tets, sets)

    def volumes(self) -> np.ndarray:
        """Return the volume of each tet, (m,), negative if it is inverted."""
        a, b, c, d = (self.vertices[self.tets[:, k]] for k in range(4))
        return np.einsum("ij,ij->i", b - a, np.cross(c - a, d - a)) / 6

    def positive_volumes(self) -> np.ndarray:
        """Return the volume of each tet, (m,).

        Raises
        ------
        MeshError
            If tets are inverted or flat.
        """
        volumes = self.volumes()
        if not (volumes > 0).all():
            worst = int(volumes.argmin())
            raise MeshError(
                f"{int((volumes <= 0).sum())} tets are inverted or flat (worst: tet {worst}, "
                f"volume {volumes[worst]:.3g} m³); use mesh.oriented() or remove them"
            )
        return volumes

    def boundary(self) -> np.ndarray:
        """Return the faces that belong to one tet only, outward oriented, (k, 3)."""
        return self._boundary_faces()

    def dihedral_angles(self) -> np.ndarray:
        """Return dihedral angles (degrees) at edges 01, 02, 03, 12, 13, 23 of each tet, (m, 6)."""
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
        """Return the indices of tets with a repeated vertex or nearly zero volume."""
        return np.flatnonzero(np.abs(self.volumes()) <= self._flatness())

    def _shape_defects(self) -> Iterator[Defect]:
        degenerate = self.degenerate_tets()
        inverted = self.volumes() < 0
        inverted[degenerate] = False
        yield topology.defect("inverted tets", np.flatnonzero(inverted), "tet")
        yield topology.defect("degenerate tets", degenerate, "tet")


def cotangent_laplacian(mesh: TetMesh, unit: float = 1.0) -> sp.csr_array:
    """Return L_ab = ∫ ∇N_a·∇N_b over the tets, (n, n), with N the linear hat functions and lengths
    in units of `unit` metres. It is positive semi-definite, with constants in its null space. No
    tet may be inverted or flat.
    """
    volumes = mesh.volumes() / unit**3
    if not (volumes > 0).all():
        raise MeshError(
            f"tet {int(np.argmin(volumes))} is inverted or flat; use mesh.oriented() for inverted "
            "tets, and mesh.without(mesh.degenerate_tets()) for flat ones"
        )
    try:
        gradients = hat_gradients(mesh, unit)
    except np.linalg.LinAlgError:
        raise MeshError(f"tet {int(np.argmin(volumes))} is flat; remove it") from None
    values = np.einsum("e,eai,ebi->eab", volumes, gradients, gradients)
    rows = np.broadcast_to(mesh.tets[:, :, None], values.shape)
    columns = np.broadcast_to(mesh.tets[:, None, :], values.shape)
    n = len(mesh.vertices)
    matrix = sp.csr_array((values.ravel(), (rows.ravel(), columns.ravel())), shape=(n, n))
    matrix.sum_duplicates()
    return matrix


def hat_gradients(mesh: TetMesh, unit: float = 1.0) -> Floats:
    """Return gradients of the linear hat functions of each tet, (T, 4, 3), per `unit` metres."""
    edges = (mesh.vertices[mesh.tets[:, 1:]] - mesh.vertices[mesh.tets[:, :1]]) / unit
    gradients = np.empty((len(mesh.tets), 4, 3))
    gradients[:, 1:] = np.linalg.inv(edges).transpose(0, 2, 1)
    gradients[:, 0] = -gradients[:, 1:].sum(axis=1)
    return gradients
