"""Bounded biharmonic weights: smooth, local functions on tets, one for each handle.

After A. Jacobson, I. Baran, J. Popović and O. Sorkine, Bounded Biharmonic Weights for Real-Time
Deformation, 2011.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from supple.arrays import Bools, Floats, Ints
from supple.errors import SuppleError, warn
from supple.linalg.cholesky import SparseCholesky
from supple.linalg.sparse import symmetrised
from supple.mesh.tets import TetMesh, cotangent_laplacian
from supple.mesh.topology import counted

#: Tolerance of a weight: largest step of Jacobi's method at the solution.
TOLERANCE = 1e-6
# Splitting stages: penalties as multiples of the softest mode's wave number, each for some
# iterations. Long waves converge at soft penalties, short ones at hard penalties: 80 iterations
# leave an error of 3e-4 on the gorilla, 100 at the best single penalty 7e-4.
_STAGES = (2.0, 3.5, 6.0, 10.0)
_ITERATIONS = 20
_OVER_RELAXATION = 1.6
# Most exchanges of the active set, each with a factorisation; three are usual.
_MOST_EXCHANGES = 40


def biharmonic_weights(mesh: TetMesh, handles: Sequence[ArrayLike]) -> Floats:
    """Compute weights that are 1 at a handle, 0 at the others and smoothest between.

    Each minimises ½ wᵀ(L M⁻¹ L) w within 0 ≤ w ≤ 1, with L the Laplacian and M the lumped
    volumes; all are then divided by their sum. The bounds are active: without them, weights of
    opposite signs appear far away from a handle.

    Parameters
    ----------
    mesh : TetMesh
        Of n vertices; no tet may be inverted.
    handles : d int arrays
        Vertices where each weight is 1.

    Returns
    -------
    (n, d) array
        In [0, 1] and of sum 1, exactly 1 and 0 at the handles. Vertices without tets have the
        weights of the nearest vertex with one.

    Raises
    ------
    MeshError
        If a tet is inverted or flat.
    SuppleError
        If a handle has no vertices, or two have a vertex in common.

    Warns
    -----
    SuppleWarning
        If a component has no handle: it follows the nearest handle.

    Examples
    --------
    >>> corners = [[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]
    >>> biharmonic_weights(TetMesh(corners, [[0, 2, 1, 3]]), [[0], [1, 2]])[3].round(3)
    array([0.333, 0.667])
    """
    owner = _owners(handles, len(mesh.vertices))
    weights = np.zeros((len(owner), len(handles)))
    held = np.flatnonzero(owner >= 0)
    weights[held, owner[held]] = 1.0
    loose = _follow_nearest(mesh, owner, weights)
    free = np.flatnonzero((owner < 0) & ~loose)
    if len(handles) == 1:
        weights[free] = 1.0
    elif len(free):
        rows = bilaplacian(mesh)[free]
        problem = _problem(rows[:, free], -(rows[:, held] @ weights[held]), _volumes(mesh)[free])
        weights[free] = _bounded(problem)
    _normalise(weights, held, mesh.vertices)
    used = np.bincount(mesh.tets.ravel(), minlength=len(owner)) > 0
    weights[~used] = weights[used][_nearest(mesh.vertices[~used], mesh.vertices[used])]
    weights[held] = 0.0
    weights[held, owner[held]] = 1.0
    return weights


def _owners(handles: Sequence[ArrayLike], n_vertices: int) -> Ints:
    """Return the handle of each vertex, (n,), or -1."""
    if not isinstance(handles, Sequence) or len(handles) == 0:
        raise SuppleError("handles must be a list of at least one handle")
    owner = np.full(n_vertices, -1)
    for index, listed in enumerate(handles):
        try:
            vertices = np.asarray(listed)
        except ValueError:  # lists of several lengths
            vertices = np.empty(0)
        if vertices.ndim != 1 or len(vertices) == 0 or vertices.dtype.kind not in "iu":
            raise SuppleError(f"handle {index} must be a list of vertex numbers, at least one")
        if vertices.min() < 0 or vertices.max() >= n_vertices:
            raise SuppleError(
                f"handle {index} has a vertex out of range; use 0 to {n_vertices - 1}"
            )
        taken = owner[vertices] >= 0
        if taken.any():
            vertex = int(vertices[np.argmax(taken)])
            raise SuppleError(
                f"handles {owner[vertex]} and {index} both have vertex {vertex}; "
                "move them apart, or drop one"
            )
        owner[vertices] = index
    return owner


def _nearest(points: Floats, others: Floats) -> Ints:
    if len(points) == 0:
        return np.empty(0, np.int64)
    return np.asarray(cKDTree(others).query(points)[1], np.int64)


def _follow_nearest(mesh: TetMesh, owner: Ints, weights: Floats) -> Bools:
    """Assign components without a handle to the nearest handle; return a mask (n,)."""
    n = len(owner)
    pairs = (np.repeat(mesh.tets[:, 0], 3), mesh.tets[:, 1:].ravel())
    graph = sp.coo_array((np.ones(len(pairs[0]), bool), pairs), shape=(n, n))
    count, component = connected_components(graph, directed=False)
    has_tet = np.zeros(count, bool)
    has_tet[component[mesh.tets[:, 0]]] = True
    has_handle = np.zeros(count, bool)
    has_handle[component[owner >= 0]] = True
    held = np.flatnonzero(owner >= 0)
    lost = np.flatnonzero(has_tet & ~has_handle)
    if len(lost):
        loose = np.flatnonzero(np.isin(component, lost))
        distances, nearest = cKDTree(mesh.vertices[held]).query(mesh.vertices[loose])
        # A whole component follows the handle nearest to any of its vertices.
        order = np.lexsort((loose, distances, component[loose]))
        labels, begin = np.unique(component[loose][order], return_index=True)
        chosen = owner[held[nearest[order[begin]]]]
        weights[loose, chosen[np.searchsorted(labels, component[loose])]] = 1.0
        warn(
            f"{counted(len(lost), 'component has', 'components have')} no handle (first at vertex "
            f"{loose[0]}); the nearest handle is used: add one there, or remove the component"
        )
    return ~has_handle[component]


def _volumes(mesh: TetMesh) -> Floats:
    """Return the lumped volume of each vertex, with the body's size as the unit of length."""
    share = np.repeat(mesh.volumes() / (4 * mesh.size**3), 4)
    return np.bincount(mesh.tets.ravel(), share, len(mesh.vertices)).astype(np.float64)


def bilaplacian(mesh: TetMesh) -> sp.csr_array:
    """Return L M⁻¹ L, (n, n), with L the Laplacian and M the lumped volumes.

    The unit of length is the body's size. Rows of unused vertices are zero.
    """
    laplacian = cotangent_laplacian(mesh, mesh.size)
    inverse = 1.0 / np.maximum(_volumes(mesh), np.finfo(float).tiny)
    # As a square it is exactly symmetric.
    root = sp.diags_array(np.sqrt(inverse)) @ laplacian
    return (root.T @ root).tocsr()


class _Problem(NamedTuple):
    """Minimisation of ½ xᵀ A x − xᵀ b within 0 ≤ x ≤ 1: A is `matrix`, b a column of `loads`."""

    matrix: sp.csr_array
    loads: Floats
    volumes: Floats
    diagonal: Ints
    """Indices of the diagonal in the matrix entries."""
    solver: SparseCholesky

    def residual(self, x: Floats, load: Floats) -> float:
        """Return the largest step of Jacobi's method, within the bounds, from x."""
        slope = (self.matrix @ x - load) / self.matrix.data[self.diagonal]
        return float(np.abs(np.clip(x - slope, 0.0, 1.0) - x).max())


def _problem(matrix: sp.csr_array, loads: Floats, volumes: Floats) -> _Problem:
    matrix = symmetrised(sp.csr_array(matrix))
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    diagonal = np.flatnonzero(rows == matrix.indices)
    return _Problem(matrix, loads, volumes, diagonal, SparseCholesky(matrix))


def _bounded(problem: _Problem) -> Floats:
    """Compute the minima, (k, d), by splitting, then exchanges of the active set."""
    unbounded = problem.solver.factorise(problem.matrix.data).solve(problem.loads)
    outside = (unbounded < 0) | (unbounded > 1)
    if np.maximum(-unbounded, unbounded - 1).max() <= TOLERANCE**2:
        return np.clip(unbounded, 0.0, 1.0)
    guess = _split(problem, unbounded, _softest_mode(problem))
    weights = np.empty_like(unbounded)
    for column in range(weights.shape[1]):
        if outside[:, column].any():
            weights[:, column] = _exchange(problem, column, guess[:, column])
        else:
            weights[:, column] = unbounded[:, column]
    return weights


def _softest_mode(problem: _Problem) -> float:
    """Estimate the lowest λ of A x = λ V x (matrix A, volumes V) by a few inverse iterations."""
    shape, value = np.ones(len(problem.volumes)), 0.0
    for _ in range(6):
        response = problem.solver.solve(problem.volumes * shape)
        value = float(shape @ (problem.volumes * shape) / (shape @ (problem.volumes * response)))
        shape = response / np.sqrt(response @ (problem.volumes * response))
    return value


def _split(problem: _Problem, start: Floats, softest: float) -> Floats:
    """Alternate between smoothness and bounds, all columns at once (ADMM).
    A stage costs one factorisation, regardless of the number of handles.
    """
    bounded = np.clip(start, 0.0, 1.0)
    gap = np.zeros_like(bounded)
    before = None
    for stage in _STAGES:
        penalty = softest * stage**4 * problem.volumes[:, None]
        data = problem.matrix.data.copy()
        data[problem.diagonal] += penalty[:, 0]
        problem.solver.factorise(data)
        if before is not None:
            gap *= (before / stage) ** 4
        before = stage
        for _ in range(_ITERATIONS):
            smooth = problem.solver.solve(problem.loads + penalty * (bounded - gap))
            relaxed = _OVER_RELAXATION * smooth + (1 - _OVER_RELAXATION) * bounded
            bounded = np.clip(relaxed + gap, 0.0, 1.0)
            gap += relaxed - bounded
    return bounded


def _exchange(problem: _Problem, column: int, guess: Floats) -> Floats:
    """Apply the primal-dual active set method from a guess. It is not known to terminate for such
    matrices, so the best iterate is returned, with a warning if it is not accurate.
    """
    matrix, load = problem.matrix, problem.loads[:, column]
    rows = np.repeat(np.arange(len(load)), np.diff(matrix.indptr))
    stiffness = matrix.data[problem.diagonal]
    low, high = guess <= 0, guess >= 1
    best, smallest = np.clip(guess, 0.0, 1.0), np.inf
    for _ in range(_MOST_EXCHANGES):
        at_bound = low | high
        # Rows at a bound become x = bound; the pattern and its analysis stay.
        data = matrix.data * ~(at_bound[rows] | at_bound[matrix.indices])
        data[problem.diagonal[at_bound]] = stiffness[at_bound]
        bound = high.astype(np.float64)
        right = np.where(at_bound, stiffness * bound, load - matrix @ bound)
        x = problem.solver.factorise(data).solve(right)
        clipped = np.clip(x, 0.0, 1.0)
        residual = problem.residual(clipped, load)
        if residual < smallest:
            best, smallest = clipped, residual
        if smallest <= TOLERANCE:
            return best
        slope = matrix @ x - load
        low = np.where(at_bound, low & (slope > 0), x < 0)
        high = np.where(at_bound, high & (slope < 0), x > 1)
    if smallest > 100 * TOLERANCE:
        warn(
            f"the weights of handle {column} did not converge (residual {smallest:.1g}); "
            "use tets of better quality"
        )
    return best


def _normalise(weights: Floats, held: Ints, vertices: Floats) -> None:
    """Divide weights of a vertex by their sum, in place; if it is 0, use the nearest handle."""
    total = weights.sum(axis=1)
    empty = np.flatnonzero(total <= 1e-9)
    if len(empty):
        weights[empty] = weights[held[_nearest(vertices[empty], vertices[held])]]
        total[empty] = 1.0
    weights /= total[:, None]
