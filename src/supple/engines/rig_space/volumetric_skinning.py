"""Interior vertices that follow the surface (hahn2013 §4): in equilibrium, or skinned to it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import dijkstra

from supple.arrays import Floats, Ints
from supple.engines.rig_space.condensation import condensed_columns, interior_snapshots, reduced
from supple.engines.rig_space.flesh_rig import CorotatedFlesh, FleshRig
from supple.engines.rig_space.model import RigSpaceModel
from supple.linalg.cholesky import SparseCholesky
from supple.linalg.nnls import nonnegative_fit
from supple.linalg.sparse import PrincipalSubmatrix
from supple.mesh.tets import EDGES, TetMesh

#: Candidate surface vertices of an interior one, and example poses (paper: 20, 74).
NEIGHBOURS, EXAMPLES = 20, 74
#: Largest relative increase of the error while neighbours are dropped, and the error always
#: allowed, as a fraction of the body's size.
WORSE, ALLOWED = 1.5, 1e-4
#: Weight of the L₁ penalty, as a fraction of the mean diagonal of the Gram matrix.
SPARSITY = 1e-4
#: Newton iterations of an interior in equilibrium, and the change that ends them, as a fraction of
#: the body's size.
ITERATIONS, SETTLED = 10, 1e-6
#: Smallest diagonal of its stiffness where a key pose inverts tets, relative to the largest.
LEAST_DIAGONAL = 1e-9


@dataclass(frozen=True, eq=False)
class VolumetricSkinning:
    """Weights of surface vertices for interior vertices, q = W s.

    Attributes
    ----------
    surface, interior
        Tet vertices of both kinds.
    weights
        (q, s) sparse W, not negative.
    dense, neighbours
        Weights of the non-negative fit without dropping, and the candidates.
    """

    surface: Ints
    interior: Ints
    weights: sp.csr_array
    dense: sp.csr_array
    neighbours: Ints

    @property
    def correspondences(self) -> float:
        """Mean number of surface vertices that an interior vertex follows (paper: 5.5, 6.9)."""
        return self.weights.nnz / max(1, self.weights.shape[0])


_made: WeakKeyDictionary[RigSpaceModel, VolumetricSkinning] = WeakKeyDictionary()


def volumetric_skinning(model: RigSpaceModel) -> VolumetricSkinning:
    """Return the skinning of a model's interior, computed at first use (Algorithm 1)."""
    if model not in _made:
        _made[model] = trained_skinning(model, example_shapes(model, EXAMPLES))
    return _made[model]


def trained_skinning(
    model: RigSpaceModel,
    examples: Floats,
    neighbours: int = NEIGHBOURS,
    *,
    allowed: float = ALLOWED,
    drop: bool = True,
) -> VolumetricSkinning:
    """Fit weights of a model's interior to example shapes (m, n, 3).

    `neighbours` is the number of candidate surface vertices of an interior vertex; `drop` removes
    unnecessary candidates (Algorithm 1), up to the error `allowed`, a fraction of the size.
    """
    interior = model.interior
    surface = np.setdiff1d(np.arange(len(model.mesh.vertices)), interior)
    near = nearest_through(model.mesh, interior, surface, neighbours)
    size, weights, dense = model.mesh.size, [], []
    for row, vertex in enumerate(interior):
        points = examples[:, surface[near[row]]]
        fits = sparse_weights(points, examples[:, vertex], allowed * size, drop=drop)
        weights.append(fits[0])
        dense.append(fits[1])
    shape = (len(interior), len(surface))
    return VolumetricSkinning(
        surface, interior, _rows(weights, near, shape), _rows(dense, near, shape), near
    )


def _rows(weights: list[Floats], near: Ints, shape: tuple[int, int]) -> sp.csr_array:
    values = np.array(weights).reshape(near.shape)
    rows = np.repeat(np.arange(len(near)), near.shape[1])
    matrix = sp.csr_array((values.ravel(), (rows, near.ravel())), shape=shape)
    matrix.eliminate_zeros()
    return matrix


def example_shapes(model: RigSpaceModel, count: int) -> Floats:
    """Return shapes (m, n, 3) of the flesh: the rest shape, and `count` equilibria of the interior
    at poses of the motions, with random offsets of the free parameters.
    """
    rig, rotations = FleshRig(model.tet_rig, model.entries, model.held), model.rotations.fork()
    rest = np.asarray(model.rig.rest_pose, np.float64)
    rig.set_key(rest)
    rig.move(np.zeros(len(model.entries)))
    jacobian = rig.jacobian.copy()
    columns = condensed_columns(model.body, jacobian, model.interior)
    condensed = reduced(model.body, jacobian, model.interior, columns)
    plain = CorotatedFlesh(rig, rotations, model.interior, condensed.corrections)
    rows = [motion.poses[:: max(1, len(motion.poses) // 4)] for motion in model.motions.values()]
    poses = [rest, *np.concatenate(rows)[:8]] if rows else [rest]
    rng = np.random.default_rng(0)
    snapshots = interior_snapshots(plain, model.body, condensed, poses, count, rng)
    shapes = [model.mesh.vertices.copy()]
    for each in snapshots:
        plain.set_key(each.pose)
        plain.turn(each.offsets)
        plain.move(each.offsets, columns=False)
        displacements = np.einsum("vij,vj->vi", plain.rotations.matrices, each.residual)
        shape = plain.x.copy()
        shape[model.interior] += displacements
        shapes.append(shape)
    return np.array(shapes)


def nearest_through(mesh: TetMesh, interior: Ints, surface: Ints, count: int) -> Ints:
    """Return indices (q, c) in `surface` of the vertices nearest to interior vertices along edges.

    Along edges of tets, a vertex of the belly is not near a vertex of the arm beside it.
    """
    count = min(count, len(surface))
    ends = np.unique(np.sort(mesh.tets[:, EDGES].reshape(-1, 2), axis=1), axis=0)
    lengths = np.linalg.norm(mesh.vertices[ends[:, 0]] - mesh.vertices[ends[:, 1]], axis=1)
    n = len(mesh.vertices)
    graph = sp.csr_array((lengths, (ends[:, 0], ends[:, 1])), shape=(n, n))
    nearest = np.empty((len(interior), count), np.int64)
    for first in range(0, len(interior), 256):  # rows of n distances each
        some = interior[first : first + 256]
        distances = dijkstra(graph, directed=False, indices=some)[:, surface]
        nearest[first : first + 256] = np.argsort(distances, axis=1, kind="stable")[:, :count]
    return nearest


def sparse_weights(
    points: Floats, target: Floats, allowed: float, *, drop: bool = True
) -> tuple[Floats, Floats]:
    """Fit weights of a few surface vertices to an interior vertex (hahn2013 Algorithm 1).

    The vertex with the smallest weight, or each with weight 0, is dropped repeatedly, as long as
    the refitted error is at most the larger of `allowed` (δ, in m) and 1.5 times the error with all
    vertices. Since weights are non-negative, the L₁ norm is their sum, and the regularised fit is
    also a non-negative least-squares problem. `points` (m, c, 3) and `target` (m, 3) are the
    surface vertices and the interior vertex in m examples. Return the weights (c,) of the few
    vertices, and the weights of all.
    """
    m, c, _ = points.shape
    system = np.concatenate([points.transpose(0, 2, 1).reshape(3 * m, c), np.ones((1, c))])
    right = np.append(target.ravel(), 1.0)
    gram, pull = system.T @ system, system.T @ right

    def fitted(chosen: Ints, penalty: float = 0.0, start: Floats | None = None) -> Floats:
        likely = None if start is None else start > 0
        return nonnegative_fit(gram[np.ix_(chosen, chosen)], pull[chosen] - penalty, likely)

    def error(chosen: Ints, weights_kept: Floats) -> float:
        difference = system[:, chosen] @ weights_kept - right
        return math.sqrt(float(difference @ difference) / len(difference))

    chosen = np.arange(c)
    dense = fitted(chosen)
    first = error(chosen, dense)
    weights, penalty = dense, SPARSITY * float(np.trace(gram)) / c
    limit = max(allowed, WORSE * first)
    while drop and len(chosen) > 1:
        kept = np.flatnonzero(weights > 0)
        kept = kept[kept != np.argmin(weights)]
        if not len(kept):
            break
        fewer, likely = chosen[kept], weights[kept]
        if error(fewer, fitted(fewer, start=likely)) > limit:
            break
        chosen, weights = fewer, fitted(fewer, penalty, likely)
    sparse = np.zeros(c)
    sparse[chosen] = fitted(chosen) if len(chosen) < c else dense
    return sparse, dense


class Interior(Protocol):
    """Method that places interior vertices, given the surface vertices."""

    def settle(self, x: Floats, key: Floats) -> None:
        """Place interior vertices of x (n, 3), from their current positions as initial guess."""

    def columns(self, x: Floats, key: Floats, jacobian: Floats) -> Floats:
        """Return ∂x/∂p (n, 3, k): the rig's `jacobian`, with the interior following the surface."""


class StaticInterior:
    """Interior in static equilibrium, q = argmin W(s, q) (hahn2013 eq. 5)."""

    def __init__(self, model: RigSpaceModel) -> None:
        self._body, self._size = model.posed_body, model.mesh.size
        self._free = (3 * model.interior[:, None] + np.arange(3)).ravel()
        self._matrix = self._body.pattern.zeros()
        if len(self._free):
            self._part = PrincipalSubmatrix(self._matrix, self._free)
            pattern = self._part.pattern
            rows = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
            self._diagonal = np.flatnonzero(pattern.indices == rows)
            self._solver = SparseCholesky(pattern, block=3)

    def _factorise(self, x: Floats, key: Floats) -> None:
        stiffness = self._body.stiffness(x, key, psd=True, out=self._matrix)
        data = self._part.take(stiffness.data).copy()
        if self._body.left_out:  # vertices whose tets are all left out stay where they are
            data[self._diagonal] += LEAST_DIAGONAL * data[self._diagonal].max()
        self._solver.factorise(data)

    def settle(self, x: Floats, key: Floats) -> None:
        """Place interior vertices of x (n, 3) in equilibrium, by Newton's method."""
        if not len(self._free):
            return
        flat, energy = x.reshape(-1), self._body.energy(x, key)
        for _ in range(ITERATIONS):
            force = self._body.force(x, key).reshape(-1)[self._free]
            self._factorise(x, key)
            change, before, length = self._solver.solve(-force), flat[self._free].copy(), 1.0
            for _ in range(8):
                flat[self._free] = before + length * change
                trial = self._body.energy(x, key)
                if trial <= energy * (1 + 1e-12) + 1e-300:
                    break
                length *= 0.5
            energy = trial
            if length * np.abs(change).max() < SETTLED * self._size:
                break

    def columns(self, x: Floats, key: Floats, jacobian: Floats) -> Floats:
        """Return Y = [∂s/∂p; −K_QQ⁻¹ K_QS ∂s/∂p] (n, 3, k), S the surface and Q the interior."""
        columns = jacobian.copy()
        if len(self._free):
            self._factorise(x, key)
            flat = columns.reshape(-1, columns.shape[2])
            flat[self._free] = 0.0
            pull = np.ascontiguousarray((self._matrix @ flat)[self._free])
            flat[self._free] = -self._solver.solve(pull)
        return columns


class SkinnedInterior:
    """Interior skinned to the surface, q = W s, by Algorithm 1.

    `offset` adds the error of W at rest. The paper does not: its rest shape may have inverted tets,
    as neighbours need not surround the vertex that they carry.
    """

    def __init__(self, model: RigSpaceModel, *, offset: bool = False) -> None:
        skin = volumetric_skinning(model)
        self._surface, self._interior, self._weights = skin.surface, skin.interior, skin.weights
        rest = model.mesh.vertices
        missed = rest[self._interior] - self._weights @ rest[self._surface]
        self._offset = missed if offset else np.zeros_like(missed)

    def settle(self, x: Floats, key: Floats) -> None:
        """Place interior vertices of x (n, 3) at W s."""
        x[self._interior] = self._weights @ x[self._surface] + self._offset

    def columns(self, x: Floats, key: Floats, jacobian: Floats) -> Floats:
        """Return Y = [∂s/∂p; W ∂s/∂p] (n, 3, k) of the surface s and the interior W s."""
        columns = jacobian.copy()
        flat = columns.reshape(len(columns), -1)
        flat[self._interior] = self._weights @ flat[self._surface]
        return columns
