"""The finite element Laplacian of a tet mesh."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from supple.arrays import Floats
from supple.errors import MeshError
from supple.mesh.tets import TetMesh


def cotangent_laplacian(mesh: TetMesh, unit: float = 1.0) -> sp.csr_array:
    """L_ab = ∫ ∇N_a·∇N_b over the tets, (n, n), with N the linear hat function of a vertex.

    Positive semi-definite, constants in its null space; also called stiffness or cotangent matrix.

    Parameters
    ----------
    mesh
        The tets; none may be inverted or flat.
    unit
        Unit of length in metres.
    """
    volumes = mesh.volumes() / unit**3
    if not (volumes > 0).all():
        raise MeshError(f"tet {int(np.argmin(volumes))} is inverted or flat; use mesh.oriented()")
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
    """∇N of the four corners of each tet, (T, 4, 3), with `unit` metres as the unit of length."""
    edges = (mesh.vertices[mesh.tets[:, 1:]] - mesh.vertices[mesh.tets[:, :1]]) / unit
    gradients = np.empty((len(mesh.tets), 4, 3))
    gradients[:, 1:] = np.linalg.inv(edges).transpose(0, 2, 1)
    gradients[:, 0] = -gradients[:, 1:].sum(axis=1)
    return gradients
