"""Cage coordinates of interior vertices, which hahn2013 §4.2 compares its skinning with.

The cage is the surface of the tets itself, so that no artist has to model one.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from supple.arrays import Ints
from supple.linalg.cholesky import SparseCholesky
from supple.mesh.tets import TetMesh, cotangent_laplacian


def cage_weights(mesh: TetMesh, interior: Ints, surface: Ints) -> dict[str, sp.csr_array]:
    """Return weights (q, s) of the vertices `surface` for vertices `interior`, by kind of cage."""
    return {
        "harmonic cage": harmonic_coordinates(mesh, interior, surface),
        "mean-value cage": mean_value_coordinates(mesh, interior, surface),
    }


def harmonic_coordinates(mesh: TetMesh, interior: Ints, surface: Ints) -> sp.csr_array:
    """Return harmonic coordinates (Joshi et al. 2007), solved on the tets."""
    laplacian = sp.csr_array(cotangent_laplacian(mesh))
    inner = sp.csr_array(laplacian[interior][:, interior])
    inner.sort_indices()
    right = -np.asarray(laplacian[interior][:, surface].todense())
    solved = SparseCholesky(inner, block=1).factorise(inner).solve(np.ascontiguousarray(right))
    return sp.csr_array(solved)


def mean_value_coordinates(mesh: TetMesh, interior: Ints, surface: Ints) -> sp.csr_array:
    """Return mean-value coordinates (Ju et al. 2005) of the closed surface of the tets."""
    triangles = mesh.boundary()
    place = np.full(len(mesh.vertices), -1)
    place[surface] = np.arange(len(surface))
    points = mesh.vertices
    rows = np.zeros((len(interior), len(surface)))
    for row, x in zip(rows, points[interior], strict=True):
        away = points - x
        distances = np.linalg.norm(away, axis=1)
        units = away / np.maximum(distances, 1e-300)[:, None]
        corner = units[triangles]  # (t, 3, 3)
        ahead, behind = corner[:, [1, 2, 0]], corner[:, [2, 0, 1]]
        chord = np.linalg.norm(ahead - behind, axis=2)
        theta = 2 * np.arcsin(np.minimum(0.5 * chord, 1.0))
        half = 0.5 * theta.sum(axis=1, keepdims=True)
        sines = np.sin(theta)
        inside = sines[:, [1, 2, 0]] * sines[:, [2, 0, 1]]
        cosines = 2 * np.sin(half) * np.sin(half - theta) / np.maximum(inside, 1e-300) - 1
        cosines = np.clip(cosines, -1, 1)
        sign = np.sign(np.linalg.det(corner))[:, None]
        s = sign * np.sqrt(1 - cosines**2)
        c1, c2 = cosines[:, [1, 2, 0]], cosines[:, [2, 0, 1]]
        t1, t2 = theta[:, [1, 2, 0]], theta[:, [2, 0, 1]]
        below = distances[triangles] * np.sin(t1) * s[:, [2, 0, 1]]
        flat = np.abs(s).min(axis=1) < 1e-9  # x is in the plane of the triangle, outside of it
        weights = (theta - c1 * t2 - c2 * t1) / np.where(np.abs(below) < 1e-300, 1.0, below)
        weights[flat] = 0.0
        np.add.at(row, place[triangles], weights)
        row /= row.sum()
    return sp.csr_array(rows)
