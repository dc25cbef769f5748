"""Static condensation: what interior flesh does when the rig moves the surface (METHOD §11)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from supple.arrays import Bools, Floats, Ints
from supple.elastic.body import ElasticBody
from supple.errors import SuppleError
from supple.linalg.cholesky import SparseCholesky
from supple.linalg.sparse import PrincipalSubmatrix
from supple.mesh.tets import TetMesh
from supple.reduction.modes import linear_modes
from supple.reduction.null_space import null_space

#: Corrections of less than this part of the largest movement of their column are dropped.
FAINT = 1e-3


def interior_vertices(mesh: TetMesh, held: Ints) -> Ints:
    """Tet vertices (q,) that neither the rig's surface nor bones move, ascending."""
    inside = np.zeros(len(mesh.vertices), bool)
    inside[mesh.tets] = True
    inside[mesh.boundary()] = False
    inside[held] = False
    return np.flatnonzero(inside)


def moved_vertices(jacobian: Floats) -> Bools:
    """(n, k) which vertices each column of ∂Φ/∂p (n, 3, k) moves by more than a faint part."""
    moved = np.abs(jacobian).max(axis=1)
    return np.asarray(moved > FAINT * np.maximum(moved.max(axis=0, initial=0.0), 1e-300))


def vertices_near(mesh: TetMesh, jacobians: Iterable[Floats], rings: int) -> Bools:
    """(n,) which vertices the rig moves, at any of some poses, or lie a few tets from one it moves.

    A trunk that swings does not reach the belly: with the flesh of a whole elephant in its
    modes and its cubature, it was off by 8 % of the height where it is by 4.

    Parameters
    ----------
    mesh
        The tets.
    jacobians
        (n, 3, k) ∂Φ/∂p at each pose.
    rings
        How many tets away.
    """
    near = np.zeros(len(mesh.vertices), bool)
    for jacobian in jacobians:
        near |= moved_vertices(jacobian).any(axis=1)
    for _ in range(rings):
        near[mesh.tets[near[mesh.tets].any(axis=1)]] = True
    return near


@dataclass(frozen=True, eq=False)
class Condensation:
    """Interior displacements by free parameters and modes, and the body in these coordinates.

    Attributes
    ----------
    corrections
        (q, 3, K) of interior vertices, beside ∂Φ/∂p: first Z of each parameter, condensation
        − ∂Φ/∂p, then modes of the interior.
    mass, stiffness
        (K, K) YᵀMY and YᵀKY at rest, with Y = [∂Φ/∂p, 0] + corrections.
    n_modes
        Number of modes.
    """

    corrections: Floats
    mass: Floats
    stiffness: Floats
    n_modes: int


def condensed_columns(body: ElasticBody, jacobian: Floats, interior: Ints) -> Floats:
    """Z (q, 3, k) = −K_QQ⁻¹ K_QS ∂Φ_S/∂p − ∂Φ_Q/∂p: condensation less what the rig does.

    Parameters
    ----------
    body
        The flesh, at rest.
    jacobian
        (n, 3, k) ∂Φ/∂p at rest.
    interior
        Vertices Q that are free to follow; see `interior_vertices`.
    """
    n, _, k = jacobian.shape
    if not len(interior):
        return np.zeros((0, 3, k))
    stiffness = body.stiffness(body.rest).copy()
    free = (3 * interior[:, None] + np.arange(3)).ravel()
    part = PrincipalSubmatrix(stiffness, free)
    factor = SparseCholesky(part.pattern, block=3).factorise(part.take(stiffness.data))
    surface = jacobian.reshape(3 * n, k).copy()
    surface[free] = 0.0
    pull = np.ascontiguousarray((stiffness @ surface)[free])
    return -factor.solve(pull).reshape(len(interior), 3, k) - jacobian[interior]


def held_modes(body: ElasticBody, interior: Ints, count: int) -> Floats:
    """(q, 3, m) the lowest modes of the interior while the surface is held; at most `count`."""
    count = min(count, 3 * len(interior))
    if not count:
        return np.zeros((len(interior), 3, 0))
    n = len(body.rest)
    space = null_space(None, n, interior)
    found = linear_modes(body.stiffness(body.rest), body.vertex_masses(), count, null_space=space)
    return found.vectors.reshape(n, 3, count)[interior]


def _without_faint(corrections: Floats, jacobian: Floats) -> Floats:
    """Drop corrections that hardly move a vertex, and round the others as a file keeps them.

    What a shape on the belly does to the inside of a leg is nothing, and costs as much as the rest.
    """
    moved = np.abs(corrections).max(axis=1, keepdims=True)
    most = moved.max(axis=0, keepdims=True, initial=0.0)
    k = jacobian.shape[2]
    most[:, :, :k] = np.maximum(most[:, :, :k], np.abs(jacobian).max(axis=(0, 1)))
    kept: Floats = np.where(moved > FAINT * most, corrections, 0.0)
    return kept.astype(np.float32).astype(np.float64)


def reduced(
    body: ElasticBody, jacobian: Floats, interior: Ints, corrections: Floats
) -> Condensation:
    """Return the body in coordinates of parameters and modes.

    Parameters
    ----------
    body, jacobian, interior
        As for `condensed_columns`.
    corrections
        (q, 3, K) Z and modes.

    Raises
    ------
    SuppleError
        If the parameters do nothing: they have no mass.
    """
    n, _, k = jacobian.shape
    corrections = _without_faint(corrections, jacobian)
    basis = np.zeros((n, 3, corrections.shape[2]))
    basis[:, :, :k] = jacobian
    basis[interior] += corrections
    flat = basis.reshape(3 * n, -1)
    mass = flat.T @ (np.repeat(body.vertex_masses(), 3)[:, None] * flat)
    if not np.diag(mass)[:k].max() > 0:
        raise SuppleError("the free parameters move no flesh; name others as free")
    stiffness = flat.T @ (body.stiffness(body.rest) @ flat)
    both = 0.5 * (mass + mass.T), 0.5 * (stiffness + stiffness.T)
    return Condensation(corrections, *both, corrections.shape[2] - k)
