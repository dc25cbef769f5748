"""Mass matrices of linear tets."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from supple.mesh.tets import TetMesh

__all__ = ["consistent_mass", "lumped_mass"]

Floats = NDArray[np.float64]


def lumped_mass(mesh: TetMesh, density: Floats) -> Floats:
    """Mass of each vertex, (n,): a quarter of every tet that touches it."""
    quarter = density * mesh.volumes() / 4
    masses: Floats = np.zeros(len(mesh.vertices))
    np.add.at(masses, mesh.tets, quarter[:, None])
    return masses


def consistent_mass(mesh: TetMesh, density: Floats) -> sp.csr_array:
    """∫ρ N_a N_b, (3n, 3n): ρV/10 on an element's diagonal, ρV/20 beside it."""
    n = len(mesh.vertices)
    values = np.multiply.outer(density * mesh.volumes() / 20, np.ones((4, 4)) + np.eye(4))
    rows = np.broadcast_to(mesh.tets[:, :, None], values.shape)
    columns = np.broadcast_to(mesh.tets[:, None, :], values.shape)
    scalar = sp.coo_array((values.ravel(), (rows.ravel(), columns.ravel())), shape=(n, n))
    return sp.csr_array(sp.kron(sp.csr_array(scalar), sp.eye_array(3), format="csr"))
