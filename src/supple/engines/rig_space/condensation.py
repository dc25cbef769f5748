"""Static condensation: what interior flesh does when the rig moves the surface (METHOD §11)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from supple.arrays import Floats, Ints
from supple.elastic.body import ElasticBody
from supple.errors import SuppleError
from supple.linalg.cholesky import SparseCholesky
from supple.linalg.sparse import PrincipalSubmatrix
from supple.mesh.tets import TetMesh
from supple.reduction.modes import linear_modes
from supple.reduction.null_space import null_space

__all__ = ["Condensation", "condense", "interior_vertices"]


def interior_vertices(mesh: TetMesh, held: Ints) -> Ints:
    """Tet vertices (q,) that neither the rig's surface nor bones move, ascending."""
    inside = np.zeros(len(mesh.vertices), bool)
    inside[mesh.tets] = True
    inside[mesh.boundary()] = False
    inside[held] = False
    return np.flatnonzero(inside)


@dataclass(frozen=True, eq=False)
class Condensation:
    """Interior displacements by free parameters and modes, at rest.

    Attributes
    ----------
    corrections
        (q, 3, K) of interior vertices, beside ∂Φ/∂p: first Z of each parameter, condensation
        − ∂Φ/∂p, then modes of the interior with the surface held.
    mass, stiffness
        (K, K) YᵀMY and YᵀKY at rest, with Y = [∂Φ/∂p, 0] + corrections.
    frequencies
        (m,) of the modes in Hz.
    """

    corrections: Floats
    mass: Floats
    stiffness: Floats
    frequencies: Floats

    @property
    def n_modes(self) -> int:
        """Number of modes."""
        return len(self.frequencies)


def condense(body: ElasticBody, jacobian: Floats, interior: Ints, modes: int) -> Condensation:
    """Condense the interior at rest: one factorisation, a right side for each parameter.

    Parameters
    ----------
    body
        The flesh, at rest.
    jacobian
        (n, 3, k) ∂Φ/∂p at rest.
    interior
        Vertices that are free to follow; see `interior_vertices`.
    modes
        Most modes of the interior with the surface held.

    Raises
    ------
    SuppleError
        If all that parameters do is nothing: they have no mass.
    """
    n, _, k = jacobian.shape
    stiffness = body.stiffness(body.rest).copy()
    masses = body.vertex_masses()
    modes = min(modes, 3 * len(interior))
    corrections = np.zeros((n, 3, k + modes))
    frequencies = np.zeros(0)
    if len(interior):
        free = (3 * interior[:, None] + np.arange(3)).ravel()
        part = PrincipalSubmatrix(stiffness, free)
        factor = SparseCholesky(part.pattern, block=3).factorise(part.take(stiffness.data))
        surface = jacobian.reshape(3 * n, k).copy()
        surface[free] = 0.0
        pull = np.ascontiguousarray((stiffness @ surface)[free])
        followed = -factor.solve(pull).reshape(len(interior), 3, k)
        corrections[interior, :, :k] = followed - jacobian[interior]
    if modes:
        found = linear_modes(stiffness, masses, modes, null_space=null_space(None, n, interior))
        corrections[:, :, k:] = found.vectors.reshape(n, 3, modes)
        frequencies = np.sqrt(found.eigenvalues) / (2 * np.pi)
    corrections = corrections.astype(np.float32).astype(np.float64)  # as a file keeps them
    basis = corrections.copy()
    basis[:, :, :k] += jacobian
    flat = basis.reshape(3 * n, -1)
    mass = flat.T @ (np.repeat(masses, 3)[:, None] * flat)
    if not np.diag(mass).max() > 0:
        raise SuppleError("the free parameters move no flesh; name others as free")
    reduced = flat.T @ (stiffness @ flat)
    both = 0.5 * (mass + mass.T), 0.5 * (reduced + reduced.T)
    return Condensation(corrections[interior], *both, frequencies)
