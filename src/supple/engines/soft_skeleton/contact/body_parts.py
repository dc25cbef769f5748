"""Parts of a body that touch each other: a capsule for each bone, and who may touch it."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from supple.arrays import Bools, Floats, Ints
from supple.mesh.obstacles import Capsule

#: Fewer vertices than this make no part.
FEWEST = 12
#: Parts are as thick as this part of their skin is away from their axis at most.
INNER = 0.25
#: Points touch a part only if they are so far from it at rest, in its radii.
APART = 0.25


def dominant_bones(weights: sp.csr_array) -> Ints:
    """(n,) the bone with the largest weight of each point."""
    return np.asarray(sp.csr_array(weights).argmax(axis=1)).ravel().astype(np.int64)


def body_parts(
    parents: Ints, points: Floats, weights: sp.csr_array
) -> tuple[list[Capsule], Ints, Bools]:
    """Return capsules inside of the parts of a body, their bones, and who may touch them.

    Parameters
    ----------
    parents
        (K,) of the bones.
    points, weights
        (n, 3) skin at rest, and its weights (n, K).

    Returns
    -------
    Capsules at rest, their bones (b,), and (b, n) whether a point may touch each: not where it is
    near at rest, nor moved by the same bone or a neighbour of it.
    """
    owner = dominant_bones(weights)
    capsules, bones, allowed = [], [], []
    for bone in range(len(parents)):
        own = points[owner == bone]
        if len(own) < FEWEST:
            continue
        capsule = _inner_capsule(own)
        near = (owner == bone) | (owner == parents[bone]) | (parents[owner] == bone)
        follows = weights[:, [bone]].toarray().ravel() > 0
        apart = capsule.distances(points)[0] > APART * capsule.radius
        capsules.append(capsule)
        bones.append(bone)
        allowed.append(apart & ~near & ~follows)
    table = np.array(allowed, bool).reshape(len(bones), len(points))
    return capsules, np.array(bones, np.int64), table


def _inner_capsule(points: Floats) -> Capsule:
    middle = points.mean(axis=0)
    away = points - middle
    axis = np.linalg.eigh(away.T @ away)[1][:, 2]
    along = away @ axis
    aside = np.linalg.norm(away - along[:, None] * axis, axis=1)
    radius = max(float(np.quantile(aside, INNER)), 1e-6)
    low, high = np.quantile(along, [0.05, 0.95])
    start, end = min(low + radius, 0.0), max(high - radius, 0.0)
    return Capsule(middle + start * axis, middle + end * axis, radius)
