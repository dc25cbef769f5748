"""Patches of the skin, and balls around them: most are far from what might be touched."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from supple.arrays import Bools, Floats, Ints
from supple.compiled.jit import compiled, compiled_fused
from supple.mesh.shape_tables import SOLID, ShapeTables, signed_distance

#: Vertices of a patch, at most; and of a patch of those that may touch the body's own parts.
PATCH, OWN_PATCH = 32, 12
#: Points of the skin that are put in an order of their own; the rest follow as they are listed.
SPREAD = 4096
#: Distances in a grid change by no more than so many times the way that a point goes.
STEEPEST = 1.8


class SkinPatches(NamedTuple):
    """Vertices and triangles by patches: those of all of the skin, then those of a sample of it."""

    starts: Ints
    """(p + 1,) where patches begin in `corners`."""
    corners: Ints
    """Vertices of a patch, its own first, then those of its triangles that are of others."""
    owned: Ints
    """(p,) how many are its own."""
    all: int
    """Number of patches of all of the skin; those after them are of skin that touches itself."""
    triangle_starts: Ints
    triangles: Ints
    """Triangles of the former, each in one of them."""
    ranks: Ints
    """(n̄,) place of each vertex in the order that they are taken in."""
    balls: Floats
    """(p, 4) middles and radii of balls around them, written by `bound_patches`."""
    hits: Bools
    """(n̄,) which vertices are inside of a thing, by rank, and"""
    gaps: Floats
    """(n̄, 4) how far outside, and the way out; work."""


def skin_patches(rest: Floats, triangles: Ints, order: Ints, sampled: int) -> SkinPatches:
    """Return patches of a skin.

    Parameters
    ----------
    rest, triangles
        (n̄, 3), (m, 3) skin at rest.
    order
        (n̄,) vertices as they are taken.
    sampled
        How many of these, the first ones, may touch the body's own parts.
    """
    n = len(rest)
    groups = _split(rest, np.arange(n), PATCH)
    group = np.empty(n, np.int64)
    for k, own in enumerate(groups):
        group[own] = k
    by_patch = np.argsort(group[triangles[:, 0]], kind="stable")
    firsts = np.searchsorted(group[triangles[by_patch, 0]], np.arange(len(groups) + 1))
    lists = []
    for k, own in enumerate(groups):
        corners = triangles[by_patch[firsts[k] : firsts[k + 1]]]
        lists.append(np.concatenate([own, np.setdiff1d(corners, own)]))
    few = _split(rest, np.sort(order[:sampled]), OWN_PATCH)
    lists += few
    ranks = np.empty(n, np.int64)
    ranks[order] = np.arange(n)
    return SkinPatches(
        np.cumsum([0, *map(len, lists)], dtype=np.int64),
        np.concatenate(lists).astype(np.int64),
        np.array([*map(len, groups), *map(len, few)], np.int64),
        len(groups),
        firsts.astype(np.int64),
        by_patch.astype(np.int64),
        ranks,
        np.zeros((len(lists), 4)),
        np.zeros(n, np.bool_),
        np.zeros((n, 4)),
    )


def _split(places: Floats, points: Ints, most: int) -> list[Ints]:
    """Halve points across where they are widest until no part has more than `most`."""
    if len(points) <= most:
        return [points]
    own = places[points]
    ranked = points[np.argsort(own[:, np.ptp(own, axis=0).argmax()], kind="stable")]
    half = len(points) // 2
    return _split(places, ranked[:half], most) + _split(places, ranked[half:], most)


def spread_order(places: Floats) -> Ints:
    """Return the points (n, 3) in an order in which each is the farthest from those before it.

    Those of the first ones that are in some region are evenly spread over it.
    """
    n = len(places)
    order = np.zeros(min(n, SPREAD), np.int64)
    _farthest(np.ascontiguousarray(places), order)
    return np.concatenate([order, np.setdiff1d(np.arange(n), order)])


@compiled
def _farthest(places: Floats, order: Ints) -> None:
    away, last = np.full(len(places), np.inf), 0
    for k in range(len(order)):
        order[k] = last
        x, y, z = places[last, 0], places[last, 1], places[last, 2]
        best = -1.0
        for i in range(len(places)):
            own = (places[i, 0] - x) ** 2 + (places[i, 1] - y) ** 2 + (places[i, 2] - z) ** 2
            away[i] = min(away[i], own)
            if away[i] > best:
                best, last = away[i], i


@compiled_fused
def bound_patches(patches: SkinPatches, skin: Floats, dents: Floats) -> None:
    """Write balls around patches of a skin (n̄, 3), dented or not, and twice its dents."""
    for k in range(len(patches.owned)):
        first, last = patches.starts[k], patches.starts[k + 1]
        x = y = z = 0.0
        for at in range(first, last):
            v = patches.corners[at]
            x, y, z = x + skin[v, 0], y + skin[v, 1], z + skin[v, 2]
        x, y, z = x / (last - first), y / (last - first), z / (last - first)
        most = deep = 0.0
        for at in range(first, last):
            v = patches.corners[at]
            p, q, r = skin[v, 0] - x, skin[v, 1] - y, skin[v, 2] - z
            most = max(most, p * p + q * q + r * r)
            p, q, r = dents[v, 0], dents[v, 1], dents[v, 2]
            deep = max(deep, p * p + q * q + r * r)
        ball = patches.balls[k]
        ball[0], ball[1], ball[2] = x, y, z
        ball[3] = math.sqrt(most) + 2.0 * math.sqrt(deep)


@compiled_fused
def patch_gap(shapes: ShapeTables, thing: int, ball: Floats) -> float:
    """Return how far a patch is outside of a thing at least, less what its dents might add."""
    gap = signed_distance(shapes, thing, ball[0], ball[1], ball[2])[0]
    return gap - ball[3] * (STEEPEST if shapes.kinds[thing] == SOLID else 1.0)
