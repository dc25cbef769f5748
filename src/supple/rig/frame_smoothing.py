"""Fields of rotations on a tet mesh, made smooth."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from supple.checks import checked_array, checked_number, numbers
from supple.compiled import compiled
from supple.elastic.svd import rotation_svd
from supple.errors import MeshError, SuppleError
from supple.linalg import SparseCholesky
from supple.linalg.symmetric import symmetrised
from supple.mesh.tets import TetMesh
from supple.rig.rotations import from_matrix, to_matrix

__all__ = ["checked_rotations", "nearest_rotations", "smoothed_rotations"]

Floats = NDArray[np.float64]

#: How far quaternions may be from length 1.
UNIT = 1e-3
#: The longest smoothing length, in sizes of the body: beyond, nothing changes but rounding.
LONGEST = 1e3


def smoothed_rotations(mesh: TetMesh, quaternions: ArrayLike, length: float) -> Floats:
    """Rotations of the vertices without what changes over less than a length.

    Solves (M + ℓ² L) S = M R for the rotation matrices R, with the mass and stiffness of
    linear shape functions, and takes the rotations nearest to S. A body that turns as a whole
    keeps its rotation. The same for any resolution of the mesh.

    Parameters
    ----------
    mesh
        The tets at rest; none may be inverted.
    quaternions
        (m, n, 4): m fields, their signs of no account.
    length
        ℓ in metres; 0 changes nothing.

    Returns
    -------
    (m, n, 4) array
        Of any sign; what belongs to no tet stays.
    """
    count = len(numbers("vertex rotations", quaternions))
    n = len(mesh.vertices)
    fields = checked_rotations(quaternions, (count, n, 4))
    reach = checked_number("smoothing length", length)
    if not reach >= 0:
        raise SuppleError(f"smoothing length {reach:.3g} m is negative")
    if reach > LONGEST * mesh.size:
        raise SuppleError(
            f"smoothing length {reach:.3g} m; the body is {mesh.size:.3g} m large, and one of its "
            "size makes rotations the same everywhere"
        )
    if reach == 0 or count == 0:
        return fields.copy()
    stiffness, volumes = _laplacian(mesh)
    loose = volumes == 0
    shares = np.where(loose, 1.0, volumes)
    system = symmetrised(sp.csr_array(sp.diags_array(shares) + reach**2 * stiffness))
    matrices = to_matrix(fields).transpose(1, 0, 2, 3).reshape(n, -1)
    smooth = SparseCholesky(system).factorise(system).solve(shares[:, None] * matrices)
    rotations = np.empty((n * count, 3, 3))
    nearest_rotations(np.ascontiguousarray(smooth).reshape(-1, 3, 3), rotations)
    found = from_matrix(rotations).reshape(n, count, 4).transpose(1, 0, 2)
    return np.where(loose[:, None], fields, found)


def checked_rotations(quaternions: ArrayLike, shape: tuple[int, ...]) -> Floats:
    """Unit quaternions of vertices; one of zeros is no rotation at all."""
    turns = checked_array("vertex rotations", quaternions, shape)
    wrong = ~(np.abs(np.linalg.norm(turns, axis=-1) - 1) <= UNIT)
    if wrong.any():
        vertex = np.argwhere(wrong)[0][-1]
        raise SuppleError(f"rotation of vertex {vertex} is no quaternion of length 1")
    return turns


def _laplacian(mesh: TetMesh) -> tuple[sp.csr_array, Floats]:
    """∫ ∇N_a·∇N_b (n, n), and the volume that belongs to each vertex."""
    corners = mesh.vertices[mesh.tets]
    volumes = mesh.volumes()
    if not volumes.min() > 0:
        worst = int(np.argmin(volumes))
        raise MeshError(f"tet {worst} is inverted or flat; a rest shape must keep every tet")
    edges = corners[:, 1:] - corners[:, :1]  # rows: ∇N_1…∇N_3 are the columns of its inverse
    outer = np.swapaxes(np.linalg.inv(edges), 1, 2)
    gradients = np.concatenate([-outer.sum(axis=1, keepdims=True), outer], axis=1)
    blocks = volumes[:, None, None] * (gradients @ np.swapaxes(gradients, 1, 2))
    rows, columns = np.repeat(mesh.tets, 4, axis=1).ravel(), np.tile(mesh.tets, (1, 4)).ravel()
    n = len(mesh.vertices)
    stiffness = sp.csr_array((blocks.ravel(), (rows, columns)), shape=(n, n))
    shares = np.zeros(n)
    np.add.at(shares, mesh.tets.ravel(), np.repeat(volumes / 4, 4))
    return stiffness, shares


@compiled
def nearest_rotations(matrices: Floats, out: Floats) -> None:
    """The rotation nearest to each matrix, (k, 3, 3); to one of zeros, none."""
    U, V, sigma = np.empty((3, 3)), np.empty((3, 3)), np.empty(3)
    for k in range(len(matrices)):
        rotation_svd(matrices[k], U, sigma, V)
        for i in range(3):
            for j in range(3):
                out[k, i, j] = U[i, 0] * V[j, 0] + U[i, 1] * V[j, 1] + U[i, 2] * V[j, 2]
