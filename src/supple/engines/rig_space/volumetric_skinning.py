"""Physics-based volumetric skinning (hahn2013 §4.2): interior vertices as sums of surface ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import dijkstra

from supple.arrays import Floats, Ints
from supple.engines.rig_space.condensation import condensed_columns, reduced
from supple.engines.rig_space.flesh_rig import FleshRig
from supple.engines.rig_space.interior_snapshots import interior_snapshots
from supple.engines.rig_space.model import RigSpaceModel
from supple.engines.rig_space.turned_flesh import TurnedFlesh
from supple.linalg.nnls import nonnegative_fit
from supple.mesh.tets import EDGES, TetMesh

#: Surface vertices that an interior one may follow at first, and example poses (paper: 20, 74).
NEIGHBOURS, EXAMPLES = 20, 74
#: Part of its own error by which a fit may get worse while neighbours are dropped, and error that
#: is always allowed, as a part of the body's size.
WORSE, ALLOWED = 1.5, 1e-4
#: Weight of the L₁ penalty, as a part of the mean diagonal of the Gram matrix.
SPARSITY = 1e-4


@dataclass(frozen=True, eq=False)
class VolumetricSkinning:
    """Weights of surface vertices for interior ones, q = W s.

    Attributes
    ----------
    surface, interior
        Tet vertices of both kinds.
    weights
        (q, s) sparse W, not negative.
    dense, neighbours
        Non-negative fits without dropping any: of as many neighbours, and which those are.
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
    """Return the skinning of a model's interior, made when first asked for (Algorithm 1)."""
    if model not in _made:
        _made[model] = trained_skinning(model, example_shapes(model, EXAMPLES))
    return _made[model]


def trained_skinning(
    model: RigSpaceModel, examples: Floats, neighbours: int = NEIGHBOURS, *, drop: bool = True
) -> VolumetricSkinning:
    """Fit weights of a model's interior to examples.

    Parameters
    ----------
    model
        The model.
    examples
        (m, n, 3) shapes of the flesh; see `example_shapes`.
    neighbours
        Surface vertices that an interior one may follow.
    drop
        Leave those out that are not needed (Algorithm 1); or keep all that a non-negative fit has.
    """
    interior = model.interior
    surface = np.setdiff1d(np.arange(len(model.mesh.vertices)), interior)
    near = nearest_through(model.mesh, interior, surface, neighbours)
    size, weights, dense = model.mesh.size, [], []
    for row, vertex in enumerate(interior):
        points = examples[:, surface[near[row]]]
        fits = sparse_weights(points, examples[:, vertex], ALLOWED * size, drop=drop)
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
    """(m, n, 3) shapes of the flesh with the interior at rest: poses of motions, and shaking."""
    rig, turns = FleshRig(model.tet_rig, model.entries, model.held), model.turns.fork()
    rest = np.asarray(model.rig.rest_pose, np.float64)
    rig.set_key(rest)
    rig.move(np.zeros(len(model.entries)))
    jacobian = rig.jacobian.copy()
    columns = condensed_columns(model.body, jacobian, model.interior)
    condensed = reduced(model.body, jacobian, model.interior, columns)
    plain = TurnedFlesh(rig, turns, model.interior, condensed.corrections)
    rows = [motion.poses[:: max(1, len(motion.poses) // 4)] for motion in model.motions.values()]
    poses = [rest, *np.concatenate(rows)[:8]] if rows else [rest]
    rng = np.random.default_rng(0)
    found = interior_snapshots(plain, model.body, condensed, poses, count, rng)
    shapes = [model.mesh.vertices.copy()]
    for each in found:
        plain.set_key(each.pose)
        plain.turn(each.away)
        plain.move(each.away, columns=False)
        moved = np.einsum("vij,vj->vi", plain.turns.matrices, each.left)
        shape = plain.x.copy()
        shape[model.interior] += moved
        shapes.append(shape)
    return np.array(shapes)


def nearest_through(mesh: TetMesh, interior: Ints, surface: Ints, count: int) -> Ints:
    """(q, c) places in `surface` of the vertices nearest to each interior one, through the tets.

    Distances are along edges of tets: a vertex of the belly is not near one of the arm beside it.
    """
    count = min(count, len(surface))
    ends = np.unique(np.sort(mesh.tets[:, EDGES].reshape(-1, 2), axis=1), axis=0)
    lengths = np.linalg.norm(mesh.vertices[ends[:, 0]] - mesh.vertices[ends[:, 1]], axis=1)
    n = len(mesh.vertices)
    graph = sp.csr_array((lengths, (ends[:, 0], ends[:, 1])), shape=(n, n))
    found = np.empty((len(interior), count), np.int64)
    for first in range(0, len(interior), 256):  # rows of n distances each
        some = interior[first : first + 256]
        away = dijkstra(graph, directed=False, indices=some)[:, surface]
        found[first : first + 256] = np.argsort(away, axis=1, kind="stable")[:, :count]
    return found


def sparse_weights(
    points: Floats, target: Floats, allowed: float, *, drop: bool = True
) -> tuple[Floats, Floats]:
    """Find few surface vertices that explain an interior one (hahn2013 Algorithm 1).

    Vertices with the smallest weights of an L₁-regularised fit are dropped until the error is
    larger than `allowed` and than 1.5 times that of all; without negative weights the L₁ norm is
    their sum, and the fit another non-negative one.

    Parameters
    ----------
    points
        (m, c, 3) surface vertices in m examples.
    target
        (m, 3) the interior vertex.
    allowed
        δ, in m.
    drop
        Whether to leave any out.

    Returns
    -------
    sparse, dense : (c,) arrays
        Weights of the few, and of all.
    """
    m, c, _ = points.shape
    system = np.concatenate([points.transpose(0, 2, 1).reshape(3 * m, c), np.ones((1, c))])
    right = np.append(target.ravel(), 1.0)
    gram, pull = system.T @ system, system.T @ right

    def fitted(kept: Ints, penalty: float = 0.0, start: Floats | None = None) -> Floats:
        likely = None if start is None else start > 0
        return nonnegative_fit(gram[np.ix_(kept, kept)], pull[kept] - penalty, likely)

    def error(kept: Ints, found: Floats) -> float:
        away = system[:, kept] @ found - right
        return math.sqrt(float(away @ away) / len(away))

    kept = np.arange(c)
    dense = fitted(kept)
    first = error(kept, dense)
    weights, penalty = dense, SPARSITY * float(np.trace(gram)) / c
    limit = max(allowed, WORSE * first)
    while drop and len(kept) > 1:
        going = np.flatnonzero(weights > 0)
        going = going[going != np.argmin(weights)]
        if not len(going):
            break
        fewer, likely = kept[going], weights[going]
        if error(fewer, fitted(fewer, start=likely)) > limit:
            break
        kept, weights = fewer, fitted(fewer, penalty, likely)
    sparse = np.zeros(c)
    sparse[kept] = fitted(kept) if len(kept) < c else dense
    return sparse, dense
