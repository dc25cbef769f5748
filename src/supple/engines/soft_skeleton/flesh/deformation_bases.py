"""Bases of flesh deformation: handles with biharmonic weights, modes, and static responses."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg
from scipy.sparse.csgraph import reverse_cuthill_mckee

from supple.arrays import Floats, Ints
from supple.engines.soft_skeleton.flesh.handles import Handles, farthest_handles, handle_vertices
from supple.engines.soft_skeleton.flesh.soft_layer import FleshLayer
from supple.errors import SuppleError
from supple.linalg.cholesky import SparseCholesky
from supple.linalg.sparse import same_entries, symmetrised
from supple.mesh.biharmonic import bilaplacian
from supple.mesh.tets import OUTWARD_FACES, TetMesh, cotangent_laplacian, hat_gradients
from supple.mesh.topology import row_keys

#: Weights fade to zero between these values, so that handles are local (tapia2021 §3.2).
FADE = 0.03, 0.1


def handle_weights(
    mesh: TetMesh, held: Ints, handles: Ints, energy: sp.csr_array | None = None
) -> sp.csr_array:
    """Return biharmonic weights (n, h) of handles: 1 at a handle, 0 at the others and at bone.

    The weights minimise wᵀ(L V⁻¹ L)w with L the cotangent Laplacian and V the lumped volumes,
    or another `energy` (n, n). Small weights are faded to zero, see `faded`. With bone fixed the
    weights stay within −0.06 and 1 on a body where the linearly precise energy of the Hessian
    overshoots from −4.5 to 6.4, as thin flesh has few interior vertices.
    """
    n = len(mesh.vertices)
    fixed = np.concatenate([held, handles])
    if len(np.unique(fixed)) < len(fixed):
        raise SuppleError("a handle of the flesh is in bone, or two are at the same vertex")
    energy = bilaplacian(mesh) if energy is None else energy
    free = np.setdiff1d(np.unique(mesh.tets), fixed)
    system = symmetrised(energy[free][:, free])
    pull = -energy[free][:, handles].toarray()
    weights = np.zeros((n, len(handles)))
    weights[handles, np.arange(len(handles))] = 1.0
    if len(free):
        weights[free] = SparseCholesky(system).factorise(system).solve(np.ascontiguousarray(pull))
    return sp.csr_array(weights * faded(weights))


def faded(weights: Floats) -> Floats:
    """Return factors that fade weights: 0 below |w| = 0.03, 1 above 0.1, smooth between."""
    low, high = FADE
    part = np.clip((np.abs(weights) - low) / (high - low), 0.0, 1.0)
    return np.asarray(part**2 * (3 - 2 * part))


def precise_energy(mesh: TetMesh) -> sp.csr_array:
    """Return the paper's (L − N)ᵀ V⁻¹ (L − N), with N the normal derivative on the boundary.

    L − N vanishes for linear functions at the boundary as well, so that handles reproduce rotations
    and stretches; but weights overshoot (Wang et al. 2015).
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
    energy = sp.csr_array(inner.T @ sp.diags_array(1 / np.maximum(volumes, 1e-300)) @ inner)
    return sp.csr_array(energy + 1e-10 * sp.diags_array(energy.diagonal()))


def three_coordinates(reach: sp.csr_array) -> list[sp.csr_array]:
    """Return x, y and z of Ψ, (n, 3h) with the same entries, for handles of weights (n, h)."""
    reach, shapes = sp.csr_array(reach), []
    columns = (3 * reach.indices[:, None] + np.arange(3)).ravel()
    for axis in range(3):
        values = np.zeros((len(reach.data), 3))
        values[:, axis] = reach.data
        entries = values.ravel(), columns, 3 * reach.indptr
        shapes.append(sp.csr_array(entries, (reach.shape[0], 3 * reach.shape[1])))
    return shapes


class DeformationBasis(NamedTuple):
    """Basis Ψ of flesh displacements, and the handles whose weights generate it."""

    shapes: list[sp.csr_array]  # x, y and z of Ψ (n, m), with the same entries
    handles: Ints  # (h,) tet vertices of the handles


def _handles(
    layer: FleshLayer,
    handles: Handles | int,
    density: Floats | None,
    *,
    interior: bool = False,
    precise: bool = False,
) -> DeformationBasis:
    """Return handles on the skin, or spread over all of the flesh, with biharmonic weights.

    `precise` is for linearly precise coordinates (tapia2021 §3.2). Handles are ordered along the
    body, so that the factor of a step is sparse.
    """
    at = handle_vertices(layer, handles, density, interior=interior)
    energy = precise_energy(layer.mesh) if precise else None
    reach = handle_weights(layer.mesh, layer.held, at, energy)
    neighbours = sp.csr_array(abs(reach).T @ abs(reach))
    order = reverse_cuthill_mckee(neighbours, symmetric_mode=True)
    ordered = sp.csr_array(reach[:, order])
    ordered.sort_indices()
    return DeformationBasis(three_coordinates(ordered), at[order])


def _modal(layer: FleshLayer, handles: Handles | int, density: Floats | None) -> DeformationBasis:
    """Return the softest modes of flesh on bone, three per handle; `density` is ignored."""
    del density
    at = handle_vertices(layer, handles, None)
    stiffness, unknown = flesh_stiffness(layer)
    masses = np.repeat(layer.body.vertex_masses(), 3)[unknown]
    factor = SparseCholesky(stiffness, block=3).factorise(stiffness)
    solve = scipy.sparse.linalg.LinearOperator(
        stiffness.shape, matvec=lambda b: factor.solve(np.ravel(b)), dtype=np.float64
    )
    size = min(3 * len(at), len(unknown) - 2)
    start = np.cos(np.arange(len(unknown)))  # deterministic
    _, modes = scipy.sparse.linalg.eigsh(
        stiffness, size, sp.diags_array(masses), 0.0, OPinv=solve, v0=start
    )
    basis = np.zeros((3 * len(layer.mesh.vertices), size))
    basis[unknown] = modes * np.sign(modes[np.abs(modes).argmax(axis=0), np.arange(size)])
    return DeformationBasis(same_entries([sp.csr_array(basis[i::3]) for i in range(3)]), at)


def _responses(
    layer: FleshLayer, handles: Handles | int, density: Floats | None
) -> DeformationBasis:
    """Return half as many handles, and static responses to loads on patches around the others.

    Responses are faded to zero between 0.1 and 0.03 of their maximum.
    """
    given = Handles.of(handles)
    if given.count is not None:  # the first half is spread over all of the skin
        at = farthest_handles(layer.mesh, layer.outer, max(given.count, 2), density)
    else:
        at = handle_vertices(layer, given, density)
    half = len(at) // 2
    spread = three_coordinates(handle_weights(layer.mesh, layer.held, at[: len(at) - half]))
    stiffness, unknown = flesh_stiffness(layer)
    factor = SparseCholesky(stiffness, block=3).factorise(stiffness)
    positions = layer.mesh.vertices
    spacing = np.median(
        np.sort(np.linalg.norm(positions[at][:, None] - positions[at], axis=2), axis=1)[:, 1]
    )
    load = np.zeros((3 * len(positions), 3 * half))
    for k, middle in enumerate(at[len(at) - half :]):
        distances = np.linalg.norm(positions[layer.outer] - positions[middle], axis=1) / (
            0.5 * spacing
        )
        for i in range(3):
            load[3 * layer.outer + i, 3 * k + i] = np.exp(-(distances**2))
    answers = np.zeros_like(load)
    answers[unknown] = factor.solve(np.ascontiguousarray(load[unknown]))
    sizes = np.linalg.norm(answers.reshape(len(positions), 3, -1), axis=1)
    largest = sizes.max(axis=0)
    answers = answers / largest * np.repeat(faded(sizes / largest), 3, axis=0)
    joined = [sp.csr_array(sp.hstack([spread[i], sp.csr_array(answers[i::3])])) for i in range(3)]
    return DeformationBasis(same_entries(joined), at)


def flesh_stiffness(layer: FleshLayer) -> tuple[sp.csr_array, Ints]:
    """Return the stiffness at rest of vertices outside bone, and its rows' indices in (3n,)."""
    unknown = (3 * layer.free[:, None] + np.arange(3)).ravel()
    stiffness = sp.csr_array(layer.body.stiffness(layer.body.rest))
    return sp.csr_array(stiffness[unknown][:, unknown]), unknown


#: Bases by name: basis(layer, handles, relative density by vertex).
BASES: dict[str, Callable[[FleshLayer, Handles | int, Floats | None], DeformationBasis]] = {
    "handles": _handles,
    "paper": partial(_handles, precise=True),
    "interior": partial(_handles, interior=True),
    "modal": _modal,
    "responses": _responses,
}
