"""Mass matrices of linear tets and trilinear hexahedra, exactly."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from supple.mesh.hex_shapes import gauss_points, shape_functions
from supple.mesh.hexes import HexMesh
from supple.mesh.tets import TetMesh

__all__ = ["consistent_mass", "lumped_mass"]

Floats = NDArray[np.float64]

# ρ N_a N_b det(∂X/∂ξ) is of fourth degree along an axis: three points integrate it exactly.
_ORDER = 3


def lumped_mass(mesh: TetMesh | HexMesh, density: Floats) -> Floats:
    """Mass of each vertex, (n,): ∫ρ N_a, the row sums of the consistent matrix."""
    if isinstance(mesh, HexMesh):
        points, weights = gauss_points(_ORDER)
        shares = weights[:, None] * shape_functions(points)
        parts = (density[:, None] * mesh.jacobians(_ORDER)) @ shares
    else:
        parts = (density * mesh.volumes() / 4)[:, None]
    masses: Floats = np.zeros(len(mesh.vertices))
    np.add.at(masses, mesh.elements, parts)
    return masses


def consistent_mass(mesh: TetMesh | HexMesh, density: Floats) -> sp.csr_array:
    """∫ρ N_a N_b, (3n, 3n)."""
    if isinstance(mesh, HexMesh):
        points, weights = gauss_points(_ORDER)
        shapes = shape_functions(points)
        products = np.einsum("g,ga,gb->gab", weights, shapes, shapes).reshape(len(points), 64)
        values = ((density[:, None] * mesh.jacobians(_ORDER)) @ products).reshape(-1, 8, 8)
    else:  # ρV/10 on an element's diagonal, ρV/20 beside it
        values = np.multiply.outer(density * mesh.volumes() / 20, np.ones((4, 4)) + np.eye(4))
    n = len(mesh.vertices)
    rows = np.broadcast_to(mesh.elements[:, :, None], values.shape)
    columns = np.broadcast_to(mesh.elements[:, None, :], values.shape)
    scalar = sp.coo_array((values.ravel(), (rows.ravel(), columns.ravel())), shape=(n, n))
    return sp.csr_array(sp.kron(sp.csr_array(scalar), sp.eye_array(3), format="csr"))
