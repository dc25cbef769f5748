"""Rotations of vertices between poses: frames for the blending of bases and corrections.

`pose_rotations` finds the rotations of all poses: `vertex_rotations` of each, `smoothed_rotations`
over the body, and `consistent_signs` from pose to pose.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.csgraph import breadth_first_order, connected_components, minimum_spanning_tree

from supple.arrays import Floats, Ints
from supple.checks import checked_array, checked_number, numbers
from supple.compiled.jit import compiled
from supple.errors import MeshError, SuppleError
from supple.linalg.cholesky import SparseCholesky
from supple.linalg.sparse import symmetrised
from supple.maths.rotations import from_matrix, to_matrix
from supple.maths.small_matrices import rotation_svd
from supple.mesh.tets import EDGES, TetMesh, hat_gradients
from supple.mesh.topology import row_keys
from supple.rig.poses.example_poses import PoseTree

Average = Literal["matrices", "quaternions"]

IDENTITY = np.array([0.0, 0.0, 0.0, 1.0])
#: Largest distance of a quaternion's length from 1.
UNIT = 1e-3
#: The longest smoothing length, in sizes of the body: beyond it, only rounding changes.
LONGEST = 1e3
#: Blends shorter than this fraction of the sum of their weights count as cancelled.
CANCELLED = 1e-6
#: Default smoothing of `pose_rotations`. On bent beams, bars and an arm, a fifth to a third was
#: best: frequency errors between poses were half as large as without smoothing.
SMOOTHING = 0.2


def pose_rotations(
    mesh: TetMesh, shapes: Sequence[ArrayLike], parents: ArrayLike, *, smoothing: float = SMOOTHING
) -> Floats:
    """Return smooth vertex rotations (m, n, 4) from the first shape to each, of consistent signs.

    Parameters
    ----------
    mesh
        The tets.
    shapes
        (m, n, 3) rest shapes of the poses, the neutral one first.
    parents
        (m,) parent of each pose in the alignment tree; −1 for the neutral one.
    smoothing
        Length over which rotations are smoothed, as a fraction of the cube root of the body's
        volume. A basis whose vertices are rotated back then stays as smooth as it was; bases
        blended in rough frames are too stiff.
    """
    tree = _tree_of(shapes, parents)
    share = checked_number("smoothing", smoothing)
    neutral = TetMesh(checked_array("rest shape", shapes[0], mesh.vertices.shape), mesh.tets)
    rotations = np.array([vertex_rotations(mesh, neutral.vertices, shape) for shape in shapes])
    length = share * np.cbrt(neutral.volumes().sum())
    rotations[1:] = smoothed_rotations(neutral, rotations[1:], length)
    return consistent_signs(rotations, tree.parents, mesh)


def edge_rotations(mesh: TetMesh, shapes: Sequence[ArrayLike], parents: ArrayLike) -> Floats:
    """Return vertex rotations (m, n, 4) to each pose from its parent, as in xu2016 (eq. 13)."""
    tree = _tree_of(shapes, parents)
    return np.array(
        [
            vertex_rotations(mesh, shapes[max(parent, 0)], shape, average="quaternions")
            for shape, parent in zip(shapes, tree.parents, strict=True)
        ]
    )


def _tree_of(shapes: Sequence[ArrayLike], parents: ArrayLike) -> PoseTree:
    tree = PoseTree.of(parents)
    if len(shapes) != len(tree):
        raise SuppleError(f"{len(shapes)} shapes for an alignment tree of {len(tree)} poses")
    return tree


def vertex_rotations(
    mesh: TetMesh, rest: ArrayLike, posed: ArrayLike, *, average: Average = "matrices"
) -> Floats:
    """Return the rotation of each vertex's neighbourhood between two shapes (xu2016 eq. 13).

    `rest` and `posed` are (n, 3); the vertices of `mesh` are not used. No tet of `rest` may be
    inverted. Rotations of a vertex's tets, weighted by their volumes at rest, are averaged as
    matrices, to which the nearest rotation is taken; or, as in the paper, as quaternions, each with
    the sign nearer to the vertex's first tet. The results (n, 4) are unit quaternions (x, y, z, w)
    with w ≥ 0; the identity for vertices without a tet.
    """
    if average not in ("matrices", "quaternions"):
        raise SuppleError(f'average "{average}" of rotations; use "matrices" or "quaternions"')
    shape = mesh.vertices.shape
    first = checked_array("rest shape", rest, shape)
    second = checked_array("posed shape", posed, shape)
    by_tet = np.empty((len(mesh.tets), 3, 3))
    volumes = np.empty(len(mesh.tets))
    tets = np.ascontiguousarray(mesh.tets, np.int64)
    _tet_gradients(first, second, tets, by_tet, volumes)
    if not volumes.min() > 0:
        worst = int(np.argmin(volumes))
        what = f"tet {worst} of the rest shape is inverted or flat ({volumes[worst]:.3g} m³)"
        raise MeshError(f"{what}; every tet must be positively oriented")
    if not np.isfinite(by_tet).all():
        raise MeshError("the shapes are too large to compare; use metres")
    nearest_rotations(by_tet, by_tet)  # independent of the positive factor of F
    if average == "matrices":
        quaternions = from_matrix(_mean_matrices(tets, by_tet, volumes, len(first)))
    else:
        quaternions = _mean_quaternions(tets, from_matrix(by_tet), volumes, len(first))
    return np.where(quaternions[:, 3:] < 0, -quaternions, quaternions)


@compiled
def _tet_gradients(
    rest: Floats, posed: Floats, tets: Ints, gradients: Floats, volumes: Floats
) -> None:
    """Write 6 V F of each tet to `gradients`, with F = Ds Dm⁻¹, and its volume V to `volumes`."""
    Dm, Ds, cofactors = np.empty((3, 3)), np.empty((3, 3)), np.empty((3, 3))
    for e in range(len(tets)):
        for c in range(3):
            for i in range(3):
                Dm[i, c] = rest[tets[e, c + 1], i] - rest[tets[e, 0], i]
                Ds[i, c] = posed[tets[e, c + 1], i] - posed[tets[e, 0], i]
        for i in range(3):
            j, k = (i + 1) % 3, (i + 2) % 3
            for c in range(3):
                a, b = (c + 1) % 3, (c + 2) % 3
                cofactors[i, c] = Dm[j, a] * Dm[k, b] - Dm[j, b] * Dm[k, a]
        volume = (
            Dm[0, 0] * cofactors[0, 0] + Dm[1, 0] * cofactors[1, 0] + Dm[2, 0] * cofactors[2, 0]
        )
        volumes[e] = volume / 6.0
        for i in range(3):
            for j in range(3):
                gradients[e, i, j] = 0.0
                for c in range(3):
                    gradients[e, i, j] += Ds[i, c] * cofactors[j, c]


def _mean_matrices(tets: Ints, by_tet: Floats, volumes: Floats, n_vertices: int) -> Floats:
    flat = (by_tet * volumes[:, None, None]).reshape(-1, 9)
    sums = (_tets_of_vertices(tets, n_vertices) @ flat).reshape(-1, 3, 3)
    means = np.empty_like(sums)
    nearest_rotations(sums, means)
    return means


def _mean_quaternions(tets: Ints, by_tet: Floats, volumes: Floats, n_vertices: int) -> Floats:
    first_tet = np.zeros(n_vertices, np.int64)
    first_tet[tets[::-1].ravel()] = np.repeat(np.arange(len(tets))[::-1], 4)
    sums = np.zeros((n_vertices, 4))
    for corner in tets.T:
        nearer = np.sum(by_tet * by_tet[first_tet[corner]], axis=1) >= 0
        signed = by_tet * np.where(nearer, volumes, -volumes)[:, None]
        for axis in range(4):
            sums[:, axis] += np.bincount(corner, signed[:, axis], n_vertices)
    size = np.linalg.norm(sums, axis=1, keepdims=True)
    return np.where(size > 0, sums / np.where(size > 0, size, 1), IDENTITY)


def _tets_of_vertices(tets: Ints, n_vertices: int) -> sp.csr_array:
    ones, rows = np.ones(tets.size), tets.ravel()
    columns = np.repeat(np.arange(len(tets)), 4)
    return sp.csr_array((ones, (rows, columns)), shape=(n_vertices, len(tets)))


def smoothed_rotations(mesh: TetMesh, quaternions: ArrayLike, length: float) -> Floats:
    """Smooth m fields of vertex rotations (m, n, 4) over a length ℓ in metres; 0 changes nothing.

    Solves (M + ℓ² L) S = M R for the rotation matrices R, with lumped mass M and stiffness L of
    linear shape functions; returns the rotations nearest to S, of any sign. A rigid rotation of the
    body is preserved, and the result does not depend on the mesh's resolution. Vertices of no tet
    keep their rotation. No tet of `mesh` may be inverted.
    """
    count = len(numbers("vertex rotations", quaternions))
    n = len(mesh.vertices)
    fields = checked_rotations(quaternions, (count, n, 4))
    reach = checked_number("smoothing length", length)
    if not reach >= 0:
        raise SuppleError(f"smoothing length {reach:.3g} m is negative")
    if reach > LONGEST * mesh.size:
        size = f"the body's size of {mesh.size:.3g} m"
        raise SuppleError(f"smoothing length {reach:.3g} m; use at most {size}")
    if reach == 0 or count == 0:
        return fields.copy()
    stiffness, volumes = _laplacian(mesh)
    loose = volumes == 0
    shares = np.where(loose, 1.0, volumes)
    system = symmetrised(sp.csr_array(sp.diags_array(shares) + reach**2 * stiffness))
    matrices = to_matrix(fields).transpose(1, 0, 2, 3).reshape(n, -1)
    smooth = SparseCholesky(system).factorise(system).solve(shares[:, None] * matrices)
    rotations = np.empty((n * count, 3, 3))
    nearest_rotations(np.ascontiguousarray(smooth).reshape(-1, 3, 3), rotations)
    smoothed = from_matrix(rotations).reshape(n, count, 4).transpose(1, 0, 2)
    return np.where(loose[:, None], fields, smoothed)


def checked_rotations(quaternions: ArrayLike, shape: tuple[int, ...]) -> Floats:
    """Return quaternions of vertices as an array of `shape`; check that they have unit length."""
    checked = checked_array("vertex rotations", quaternions, shape)
    wrong = ~(np.abs(np.linalg.norm(checked, axis=-1) - 1) <= UNIT)
    if wrong.any():
        vertex = np.argwhere(wrong)[0][-1]
        raise SuppleError(f"rotation of vertex {vertex} is not a unit quaternion")
    return checked


def _laplacian(mesh: TetMesh) -> tuple[sp.csr_array, Floats]:
    """Return ∫ ∇N_a·∇N_b (n, n) of linear shape functions N, and ∫ N_a (n,)."""
    volumes = mesh.volumes()
    if not volumes.min() > 0:
        worst = int(np.argmin(volumes))
        what = f"tet {worst} of the rest shape is inverted or flat"
        raise MeshError(f"{what}; every tet must be positively oriented")
    gradients = hat_gradients(mesh)
    # `cotangent_laplacian` rounds its products differently, which would change the bits of models.
    blocks = volumes[:, None, None] * (gradients @ np.swapaxes(gradients, 1, 2))
    rows, columns = np.repeat(mesh.tets, 4, axis=1).ravel(), np.tile(mesh.tets, (1, 4)).ravel()
    n = len(mesh.vertices)
    stiffness = sp.csr_array((blocks.ravel(), (rows, columns)), shape=(n, n))
    shares = np.zeros(n)
    np.add.at(shares, mesh.tets.ravel(), np.repeat(volumes / 4, 4))
    return stiffness, shares


@compiled
def nearest_rotations(matrices: Floats, out: Floats) -> None:
    """Write the rotation nearest to each matrix, (k, 3, 3); the identity for a zero matrix."""
    U, V, sigma = np.empty((3, 3)), np.empty((3, 3)), np.empty(3)
    for k in range(len(matrices)):
        rotation_svd(matrices[k], U, sigma, V)
        for i in range(3):
            for j in range(3):
                out[k, i, j] = U[i, 0] * V[j, 0] + U[i, 1] * V[j, 1] + U[i, 2] * V[j, 2]


def consistent_signs(quaternions: ArrayLike, parents: ArrayLike, mesh: TetMesh) -> Floats:
    """Return rotations (m, n, 4) with signs such that blends of poses rotate consistently.

    q and −q are the same rotation, but blends from the neutral pose to q and to −q rotate in
    opposite directions. Neighbours must rotate in the same direction, also beyond half a turn: in
    each connected part of the mesh signs propagate along the edges across which the rotation
    changes least, and then the part takes the sign nearer to the pose's parent in the
    alignment tree `parents` (m,).
    """
    tree = PoseTree.of(parents)
    n = len(mesh.vertices)
    signed = checked_array("vertex rotations", quaternions, (len(tree), n, 4)).copy()
    keys = np.unique(row_keys(np.sort(mesh.tets[:, EDGES].reshape(-1, 2), axis=1), n))
    edges = np.stack([keys // n, keys % n], axis=1)
    graph = sp.csr_array((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(n, n))
    count, parts = connected_components(graph, directed=False)
    _, roots = np.unique(parts, return_index=True)
    for pose in tree.order:
        signed[pose] *= _spatial_signs(signed[pose], edges, roots)[:, None]
        parent = tree.parents[pose]
        near = IDENTITY if parent < 0 else signed[parent]
        alike = np.bincount(parts, np.sum(signed[pose] * near, axis=1), count)
        signed[pose] *= np.where(alike < 0, -1.0, 1.0)[parts][:, None]
    return signed


def _spatial_signs(quaternions: Floats, edges: Ints, roots: Ints) -> Floats:
    """Return ±1 for each vertex, so that neighbours have a positive product wherever possible."""
    n = len(quaternions)
    products = np.sum(quaternions[edges[:, 0]] * quaternions[edges[:, 1]], axis=1)
    # One more vertex is joined to one of each part, so that a single tree spans them all. Lengths
    # are positive: for the graph routines 0 means no edge.
    lengths = np.concatenate([2 - np.minimum(np.abs(products), 1), np.ones(len(roots))])
    i = np.concatenate([edges[:, 0], roots])
    j = np.concatenate([edges[:, 1], np.full(len(roots), n)])
    tree = minimum_spanning_tree(sp.csr_array((lengths, (i, j)), shape=(n + 1, n + 1)))
    order, before = breadth_first_order(tree, n, directed=False)
    flips = np.zeros(n + 1, bool)
    inner = order[before[order] < n]
    inner = inner[before[inner] >= 0]
    differs = np.sum(quaternions[inner] * quaternions[before[inner]], axis=1) < 0
    _carry(inner, before, differs, flips)
    return np.where(flips[:n], -1.0, 1.0)


@compiled
def _carry(order: Ints, before: Ints, differs: NDArray[np.bool_], flips: NDArray[np.bool_]) -> None:
    for k in range(len(order)):
        flips[order[k]] = flips[before[order[k]]] != differs[k]


def rotate_basis(quaternions: ArrayLike, basis: ArrayLike) -> Floats:
    """Return R U: rows of a basis (k, 3, r) rotated by the vertices' quaternions (k, 4)."""
    return _rotated(quaternions, basis, inverse=False)


def unrotate_basis(quaternions: ArrayLike, basis: ArrayLike) -> Floats:
    """Return Rᵀ U: rows of a basis (k, 3, r) rotated back by quaternions (k, 4)."""
    return _rotated(quaternions, basis, inverse=True)


def _rotated(quaternions: ArrayLike, basis: ArrayLike, inverse: bool) -> Floats:
    rows = numbers("basis", basis)
    if rows.ndim != 3 or rows.shape[1] != 3:
        raise SuppleError(f"basis of shape {rows.shape}; expected (vertices, 3, columns)")
    rotations = to_matrix(checked_rotations(quaternions, (len(rows), 4)))
    return (np.swapaxes(rotations, 1, 2) if inverse else rotations) @ rows


def blended_rotations(quaternions: ArrayLike, weights: ArrayLike) -> Floats:
    """Return the blend Σ wᵢ qᵢ / ‖Σ wᵢ qᵢ‖ (n, 4) of rotations (m, n, 4) of consistent signs.

    Weights (m,) may be slightly negative. Where the blend cancels (opposite half turns), the
    rotation of the pose with the largest weight is returned.
    """
    given = numbers("vertex rotations", quaternions)
    if given.ndim != 3 or given.shape[0] == 0:
        raise SuppleError(f"vertex rotations of shape {given.shape}; expected (poses, vertices, 4)")
    rotations = checked_array("vertex rotations", given, (*given.shape[:2], 4))
    shares = checked_array("pose weights", weights, (len(rotations),))
    blend = np.tensordot(shares, rotations, 1)
    size = np.linalg.norm(blend, axis=1, keepdims=True)
    cancelled = ~(size > CANCELLED * np.abs(shares).sum())
    strongest = rotations[int(np.argmax(np.abs(shares)))]
    return np.where(cancelled, strongest, blend / np.where(cancelled, 1.0, size))
