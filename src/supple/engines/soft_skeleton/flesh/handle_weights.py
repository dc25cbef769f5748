"""Handles of flesh: places on the skin that it is moved by, and how far each reaches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import dijkstra

from supple.arrays import Floats, Ints
from supple.errors import SuppleError
from supple.linalg.cholesky import SparseCholesky
from supple.linalg.sparse import symmetrised
from supple.mesh.biharmonic import bilaplacian
from supple.mesh.laplacian import cotangent_laplacian, hat_gradients
from supple.mesh.tets import EDGES, OUTWARD_FACES, TetMesh
from supple.mesh.topology import row_keys

#: Weights fade between these, so that a handle reaches only what is near (tapia2021 §3.2).
FADE = 0.03, 0.1


def farthest_handles(
    mesh: TetMesh, candidates: Ints, count: int, wanted: Floats | None = None
) -> Ints:
    """Return vertices (count,) spread over candidates, each the farthest from those before it.

    Parameters
    ----------
    mesh
        The tets; distances are along their edges, so that fingers that touch stay apart.
    candidates
        Vertices to choose from, on the skin.
    count
        How many; all of the candidates where they are fewer.
    wanted
        (n,) how many times as densely as elsewhere, by vertex; None for even.
    """
    ends = np.unique(np.sort(mesh.tets[:, EDGES].reshape(-1, 2), axis=1), axis=0)
    n = len(mesh.vertices)
    lengths = np.linalg.norm(mesh.vertices[ends[:, 0]] - mesh.vertices[ends[:, 1]], axis=1)
    graph = sp.coo_array((lengths, (ends[:, 0], ends[:, 1])), (n, n)).tocsr()
    dense = np.ones(len(candidates)) if wanted is None else wanted[candidates]
    middle = mesh.vertices[candidates].mean(axis=0)
    first = int(np.linalg.norm(mesh.vertices[candidates] - middle, axis=1).argmax())
    away, found = np.full(len(candidates), np.inf), [first]
    while len(found) < min(count, len(candidates)):
        reached = dijkstra(graph, False, int(candidates[found[-1]]))[candidates]
        np.minimum(away, reached, out=away)
        # A body apart from the others is infinitely far: it has a handle first.
        found.append(int(np.argmax(np.where(np.isinf(away), 1e300, away) * dense)))
    return candidates[np.array(found)]


def handle_weights(
    mesh: TetMesh, held: Ints, handles: Ints, energy: sp.csr_array | None = None
) -> sp.csr_array:
    """(n, h) 1 at a handle, 0 at the others and at bone, smoothest between, and faded.

    They minimise wᵀ(L V⁻¹ L)w with L the cotangent Laplacian and V the lumped volumes. With bone
    held that stays within −0.06 and 1 on a body where the energy of the Hessian, which is linearly
    precise, goes from −4.5 to 6.4: in thin flesh few vertices are inside.

    Parameters
    ----------
    mesh
        The tets.
    held, handles
        Vertices that are bone, and one for each handle.
    energy
        (n, n) to minimise in place of L V⁻¹ L; see `precise_energy`.
    """
    n = len(mesh.vertices)
    fixed = np.concatenate([held, handles])
    if len(np.unique(fixed)) < len(fixed):
        raise SuppleError("a handle of the flesh is bone, or two are at one place")
    energy = bilaplacian(mesh) if energy is None else energy
    free = np.setdiff1d(np.unique(mesh.tets), fixed)
    own = symmetrised(energy[free][:, free])
    pull = -energy[free][:, handles].toarray()
    found = np.zeros((n, len(handles)))
    found[handles, np.arange(len(handles))] = 1.0
    if len(free):
        found[free] = SparseCholesky(own).factorise(own).solve(np.ascontiguousarray(pull))
    return sp.csr_array(found * faded(found))


def faded(weights: Floats) -> Floats:
    """Return factors that take weights smoothly to zero between 0.1 and 0.03."""
    low, high = FADE
    part = np.clip((np.abs(weights) - low) / (high - low), 0.0, 1.0)
    return np.asarray(part**2 * (3 - 2 * part))


def precise_energy(mesh: TetMesh) -> sp.csr_array:
    """(L − N)ᵀ V⁻¹ (L − N), the paper's, with N the slope along the boundary's normals.

    L − N is zero for linear functions at the boundary, too, so that handles give back turns and
    stretches of all of the flesh; but weights overshoot (Wang et al. 2015).
    """
    n, corners = len(mesh.vertices), mesh.tets
    faces = corners[:, OUTWARD_FACES].reshape(-1, 3)
    keys = row_keys(np.sort(faces, axis=1), n)
    _, first, counts = np.unique(keys, return_index=True, return_counts=True)
    outer = first[counts == 1]
    tet, face = outer // 4, faces[outer]
    a, b, c = (mesh.vertices[face[:, i]] for i in range(3))
    slopes = np.einsum("fi,fai->fa", np.cross(b - a, c - a) / 6, hat_gradients(mesh)[tet])
    rows, columns = np.repeat(face, 4, axis=1), np.tile(corners[tet], (1, 3))
    along = sp.coo_array((np.tile(slopes, (1, 3)).ravel(), (rows.ravel(), columns.ravel())), (n, n))
    inner = sp.csr_array(cotangent_laplacian(mesh)) - along.tocsr()
    volumes = np.bincount(corners.ravel(), np.repeat(mesh.volumes() / 4, 4), n)
    found = sp.csr_array(inner.T @ sp.diags_array(1 / np.maximum(volumes, 1e-300)) @ inner)
    return sp.csr_array(found + 1e-10 * sp.diags_array(found.diagonal()))


def three_coordinates(reach: sp.csr_array) -> list[sp.csr_array]:
    """x, y and z (n, 3h) of Ψ with three coordinates for each handle, all with the same entries."""
    return [_of_axis(sp.csr_array(reach), axis) for axis in range(3)]


def _of_axis(reach: sp.csr_array, axis: int) -> sp.csr_array:
    columns = (3 * reach.indices[:, None] + np.arange(3)).ravel()
    values = np.zeros((len(reach.data), 3))
    values[:, axis] = reach.data
    return sp.csr_array(
        (values.ravel(), columns, 3 * reach.indptr), (reach.shape[0], 3 * reach.shape[1])
    )


def same_entries(shapes: Sequence[sp.csr_array]) -> list[sp.csr_array]:
    """Return x, y and z of Ψ with the entries of all three; products of SciPy drop zeros."""
    parts = [sp.coo_array(each) for each in shapes]
    n, m = parts[0].shape
    keys = [part.row.astype(np.int64) * m + part.col for part in parts]
    every = np.unique(np.concatenate(keys))
    starts = np.searchsorted(every, np.arange(n + 1) * m)
    found = []
    for key, part in zip(keys, parts, strict=True):
        values = np.zeros(len(every))
        values[np.searchsorted(every, key)] = part.data
        found.append(sp.csr_array((values, every % m, starts), (n, m)))
    return found
