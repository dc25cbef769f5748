"""Polygons cut into triangles, hollow ones too."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from supple.mesh.topology import fan_triangles

__all__ = ["triangulate"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Cutting ears off costs the square of the corners; beyond these, polygons become fans.
MOST_CORNERS = 256
MOST_POLYGONS = 20_000


def triangulate(points: Floats, counts: Ints, corners: Ints) -> Ints:
    """Triangles of the polygons, (m, 3), in the polygons' order and with their orientation.

    Where a polygon turns the other way at one corner it is a fan from there, which lies inside:
    a line through that corner cuts it into two convex parts. With several such corners ears
    are cut off.
    """
    starts = np.cumsum(counts) - counts
    polygon = np.repeat(np.arange(len(counts)), counts)
    place = np.arange(len(corners)) - starts[polygon]
    before = starts[polygon] + (place - 1) % np.maximum(counts[polygon], 1)
    after = starts[polygon] + (place + 1) % np.maximum(counts[polygon], 1)
    here = points[corners]
    # Newell's normal: sum of the cross products of neighbours, seen from the first corner.
    base = here[starts[polygon]] if len(corners) else here
    normals = np.zeros((len(counts), 3))
    np.add.at(normals, polygon, np.cross(here - base, here[after] - base))
    turns = np.cross(here - here[before], here[after] - here)
    along = np.einsum("ij,ij->i", turns, normals[polygon])
    size = np.einsum("ij,ij->i", normals, normals)[polygon]
    hollow = (along < -1e-9 * size) & (counts[polygon] > 3)
    n_hollow = np.bincount(polygon, hollow, minlength=len(counts)).astype(np.int64)
    shift = np.zeros(len(counts), dtype=np.int64)
    shift[polygon[hollow]] = place[hollow]
    shift[n_hollow != 1] = 0
    turned = corners[starts[polygon] + (place + shift[polygon]) % np.maximum(counts[polygon], 1)]
    triangles = fan_triangles(counts, turned)
    difficult = np.flatnonzero((n_hollow > 1) & (counts <= MOST_CORNERS))[:MOST_POLYGONS]
    ends = np.cumsum(np.maximum(counts - 2, 0))
    for i in difficult:
        ring = corners[starts[i] : starts[i] + counts[i]]
        ears = _cut_ears(points[ring], normals[i])
        triangles[ends[i] - len(ears) : ends[i]] = ring[ears]
    return triangles


def _cut_ears(ring: Floats, normal: Floats) -> Ints:
    """Triangles of one polygon; where it has no ear left (it crosses itself) any corner goes."""
    axis = int(np.argmax(np.abs(normal)))
    flat = np.delete(ring, axis, axis=1) * [1.0, 1.0 if normal[axis] > 0 else -1.0]
    if axis == 1:
        flat = flat * [1.0, -1.0]
    left = list(range(len(ring)))
    triangles = []
    while len(left) > 3:
        ear = next((k for k in range(len(left)) if _is_ear(flat, left, k)), 0)
        triangles.append([left[ear - 1], left[ear], left[(ear + 1) % len(left)]])
        del left[ear]
    return np.array([*triangles, left], dtype=np.int64)


def _is_ear(flat: Floats, left: list[int], k: int) -> bool:
    a, b, c = flat[left[k - 1]], flat[left[k]], flat[left[(k + 1) % len(left)]]
    if _turn(a, b, c) <= 0:
        return False
    rest = flat[left]
    sides = [_turn(a, b, rest), _turn(b, c, rest), _turn(c, a, rest)]
    inside = (sides[0] >= 0) & (sides[1] >= 0) & (sides[2] >= 0)
    inside[[k - 1, k, (k + 1) % len(left)]] = False
    # A corner that is there twice (a bridge to a hole) does not stand in the way.
    at_corner = (rest[:, None] == np.stack([a, b, c])).all(axis=2).any(axis=1)
    return not (inside & ~at_corner).any()


def _turn(a: Floats, b: Floats, c: Floats) -> Floats:
    """Twice the signed area of the triangle; `c` may be many points."""
    return (b[0] - a[0]) * (c[..., 1] - a[1]) - (b[1] - a[1]) * (c[..., 0] - a[0])
