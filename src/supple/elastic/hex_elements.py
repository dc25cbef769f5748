"""What trilinear hexahedra integrate besides energy: mass matrices, exactly."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from supple.mesh.hex_shapes import gauss_points, shape_functions
from supple.mesh.hexes import HexMesh

__all__ = ["consistent_hex_mass", "lumped_hex_mass"]

Floats = NDArray[np.float64]

# ρ N_a N_b det(∂X/∂ξ) is of fourth degree along an axis: three points integrate it exactly.
_ORDER = 3


def consistent_hex_mass(mesh: HexMesh, density: Floats) -> sp.csr_array:
    """∫ρ N_a N_b, (3n, 3n)."""
    points, weights = gauss_points(_ORDER)
    shapes = shape_functions(points)
    products = np.einsum("g,ga,gb->gab", weights, shapes, shapes).reshape(len(points), 64)
    values = (density[:, None] * mesh.jacobians(_ORDER)) @ products
    n = len(mesh.vertices)
    rows, columns = np.repeat(mesh.hexes, 8, axis=1), np.tile(mesh.hexes, (1, 8))
    scalar = sp.coo_array((values.ravel(), (rows.ravel(), columns.ravel())), shape=(n, n))
    return sp.csr_array(sp.kron(sp.csr_array(scalar), sp.eye_array(3), format="csr"))


def lumped_hex_mass(mesh: HexMesh, density: Floats) -> Floats:
    """Mass of each vertex, (n,): ∫ρ N_a, the row sums of the consistent matrix."""
    points, weights = gauss_points(_ORDER)
    shares = weights[:, None] * shape_functions(points)
    masses: Floats = np.zeros(len(mesh.vertices))
    np.add.at(masses, mesh.hexes, (density[:, None] * mesh.jacobians(_ORDER)) @ shares)
    return masses
