"""Strain of skin in its own plane."""

from __future__ import annotations

import numpy as np

from supple.arrays import Floats
from supple.mesh.surface import SurfaceMesh

__all__ = ["skin_strain"]


def skin_strain(surface: SurfaceMesh, moved: Floats) -> Floats:
    """(n̄,) tr C − 2 with C the right Cauchy–Green tensor of the triangles around each vertex.

    Parameters
    ----------
    surface
        At rest.
    moved
        (n̄, 3) displacement.
    """
    corners, now = surface.vertices[surface.triangles], (surface.vertices + moved)
    now = now[surface.triangles]
    a, b = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    p, q = now[:, 1] - now[:, 0], now[:, 2] - now[:, 0]
    # tr(G⁻¹ g) of the first fundamental forms G at rest and g now.
    E, F, G = (a * a).sum(axis=1), (a * b).sum(axis=1), (b * b).sum(axis=1)
    e, f, g = (p * p).sum(axis=1), (p * q).sum(axis=1), (q * q).sum(axis=1)
    flat = np.maximum(E * G - F * F, 1e-300)
    strain = (G * e - 2 * F * f + E * g) / flat - 2.0
    areas = np.sqrt(flat)
    total, weight = np.zeros(len(moved)), np.zeros(len(moved))
    for i in range(3):
        np.add.at(total, surface.triangles[:, i], areas * strain)
        np.add.at(weight, surface.triangles[:, i], areas)
    return total / np.maximum(weight, 1e-300)
