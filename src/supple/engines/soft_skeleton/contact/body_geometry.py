"""Collision geometry of the body: patches of the skin, and capsules of the bones."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from supple.arrays import Bools, Floats, Ints
from supple.compiled.jit import compiled, compiled_fused
from supple.mesh.obstacles import Capsule
from supple.mesh.shape_tables import SOLID, ShapeTables, signed_distance

#: Largest number of vertices in a patch, and in a patch for self-contact.
PATCH, SELF_CONTACT_PATCH = 32, 12
#: Number of vertices ordered by farthest-point sampling; the others follow by index.
SPREAD = 4096
#: Lipschitz bound of the distances in a grid.
STEEPEST = 1.8
#: Smallest number of vertices of a part.
FEWEST = 12
#: Quantile of the distance of a part's skin from its axis that is the capsule's radius.
INNER = 0.25
#: Smallest distance at rest, in radii of a part's capsule, of points that may touch it.
APART = 0.25


class SkinPatches(NamedTuple):
    """Vertices and triangles by patch: first patches of the whole skin, then of a sample of it."""

    starts: Ints  # (p + 1,) first entry of each patch in `corners`
    corners: Ints  # vertices of a patch: its members, then those of its triangles in other patches
    owned: Ints  # (p,) number of vertices that belong to each patch
    all: int  # number of patches of the whole skin; others are for self-contact
    triangle_starts: Ints  # first entry of each patch of the whole skin in `triangles`
    triangles: Ints  # triangles by patch of the whole skin, each in one patch
    ranks: Ints  # (n̄,) rank of each vertex in the order of the search
    balls: Floats  # (p, 4) centres and radii of bounding balls, written by `bound_patches`
    hits: Bools  # (n̄,) work: whether a vertex is inside a collider, by rank
    gaps: Floats  # (n̄, 5) work: gap beyond the allowance, normal, and allowance


def skin_patches(rest: Floats, triangles: Ints, order: Ints, sampled: int) -> SkinPatches:
    """Return the patches of a skin (n̄, 3) at rest.

    Contacts are searched in the vertex order `order` (n̄,); its first `sampled` vertices are used
    for self-contact.
    """
    n = len(rest)
    groups = _split(rest, np.arange(n), PATCH)
    group = np.empty(n, np.int64)
    for k, vertices in enumerate(groups):
        group[vertices] = k
    by_patch = np.argsort(group[triangles[:, 0]], kind="stable")
    firsts = np.searchsorted(group[triangles[by_patch, 0]], np.arange(len(groups) + 1))
    lists = []
    for k, vertices in enumerate(groups):
        corners = triangles[by_patch[firsts[k] : firsts[k + 1]]]
        lists.append(np.concatenate([vertices, np.setdiff1d(corners, vertices)]))
    sampled_groups = _split(rest, np.sort(order[:sampled]), SELF_CONTACT_PATCH)
    lists += sampled_groups
    ranks = np.empty(n, np.int64)
    ranks[order] = np.arange(n)
    return SkinPatches(
        np.cumsum([0, *map(len, lists)], dtype=np.int64),
        np.concatenate(lists).astype(np.int64),
        np.array([*map(len, groups), *map(len, sampled_groups)], np.int64),
        len(groups),
        firsts.astype(np.int64),
        by_patch.astype(np.int64),
        ranks,
        np.zeros((len(lists), 4)),
        np.zeros(n, np.bool_),
        np.zeros((n, 5)),
    )


def _split(positions: Floats, points: Ints, most: int) -> list[Ints]:
    """Return parts of the indices `points`, halved across the longest extent, of size ≤ `most`."""
    if len(points) <= most:
        return [points]
    chosen = positions[points]
    ranked = points[np.argsort(chosen[:, np.ptp(chosen, axis=0).argmax()], kind="stable")]
    half = len(points) // 2
    return _split(positions, ranked[:half], most) + _split(positions, ranked[half:], most)


def spread_order(positions: Floats) -> Ints:
    """Return indices (n,) of points (n, 3) in the order of farthest-point sampling.

    The first points in any region are evenly spread over it. Points after the first `SPREAD` follow
    by index.
    """
    n = len(positions)
    order = np.zeros(min(n, SPREAD), np.int64)
    _farthest(np.ascontiguousarray(positions), order)
    return np.concatenate([order, np.setdiff1d(np.arange(n), order)])


@compiled
def _farthest(positions: Floats, order: Ints) -> None:
    """Write the first len(`order`) indices of farthest-point sampling, from point 0."""
    nearest, last = np.full(len(positions), np.inf), 0
    for k in range(len(order)):
        order[k] = last
        x, y, z = positions[last, 0], positions[last, 1], positions[last, 2]
        best = -1.0
        for i in range(len(positions)):
            squared = (
                (positions[i, 0] - x) ** 2 + (positions[i, 1] - y) ** 2 + (positions[i, 2] - z) ** 2
            )
            nearest[i] = min(nearest[i], squared)
            if nearest[i] > best:
                best, last = nearest[i], i


@compiled_fused
def bound_patches(patches: SkinPatches, skin: Floats, indentation: Floats) -> None:
    """Write bounding balls of a skin's patches, enlarged by twice the largest indentation."""
    for k in range(len(patches.owned)):
        first, last = patches.starts[k], patches.starts[k + 1]
        x = y = z = 0.0
        for at in range(first, last):
            v = patches.corners[at]
            x, y, z = x + skin[v, 0], y + skin[v, 1], z + skin[v, 2]
        x, y, z = x / (last - first), y / (last - first), z / (last - first)
        farthest = deepest = 0.0
        for at in range(first, last):
            v = patches.corners[at]
            p, q, r = skin[v, 0] - x, skin[v, 1] - y, skin[v, 2] - z
            farthest = max(farthest, p * p + q * q + r * r)
            p, q, r = indentation[v, 0], indentation[v, 1], indentation[v, 2]
            deepest = max(deepest, p * p + q * q + r * r)
        ball = patches.balls[k]
        ball[0], ball[1], ball[2] = x, y, z
        ball[3] = math.sqrt(farthest) + 2.0 * math.sqrt(deepest)


@compiled_fused
def patch_gap(shapes: ShapeTables, collider: int, ball: Floats) -> float:
    """Return a lower bound in m of the gap between a collider and the patch inside `ball`."""
    gap = signed_distance(shapes, collider, ball[0], ball[1], ball[2])[0]
    return gap - ball[3] * (STEEPEST if shapes.kinds[collider] == SOLID else 1.0)


def dominant_bones(weights: sp.csr_array) -> Ints:
    """Return the index (n,) of the bone with the largest weight on each point."""
    return np.asarray(sp.csr_array(weights).argmax(axis=1)).ravel().astype(np.int64)


def body_parts(
    parents: Ints, points: Floats, weights: sp.csr_array
) -> tuple[list[Capsule], Ints, Bools]:
    """Return capsules inside the parts of a body, their bones, and the points that may touch them.

    The result is capsules at rest, their bones (b,), and (b, n) whether a point may touch each.
    Points near the capsule at rest, or moved by its bone or a neighbour, may not. `points` (n, 3)
    is the skin at rest.
    """
    owner = dominant_bones(weights)
    capsules, bones, allowed = [], [], []
    for bone in range(len(parents)):
        members = points[owner == bone]
        if len(members) < FEWEST:
            continue
        capsule = _inner_capsule(members)
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
    offsets = points - middle
    axis = np.linalg.eigh(offsets.T @ offsets)[1][:, 2]
    along = offsets @ axis
    aside = np.linalg.norm(offsets - along[:, None] * axis, axis=1)
    radius = max(float(np.quantile(aside, INNER)), 1e-6)
    low, high = np.quantile(along, [0.05, 0.95])
    start, end = min(low + radius, 0.0), max(high - radius, 0.0)
    return Capsule(middle + start * axis, middle + end * axis, radius)
