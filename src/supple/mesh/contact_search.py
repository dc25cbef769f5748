"""The nearest triangle of a posed boundary that faces a vertex and belongs to another part."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

import igl
import numpy as np
from scipy.spatial import cKDTree

from supple.arrays import Bools, Floats, Ints
from supple.compiled.jit import compiled

#: How many times farther apart touching places are at the neutral pose.
APART = 3.0
# Corners whose triangles are within this angle share a normal, in degrees: facets of a round
# body are smoothed, edges of a block stay sharp.
_CREASE = 40.0
# Two sides face each other when their normals are within 60 degrees of opposed.
_OPPOSED = -0.5
# A vertex must be over the triangle: no more than this part of the way to it runs sideways.
_SIDEWAYS = 0.7
# Rounding, and what is neither in front of a triangle nor behind it, as a part of the distance.
_SLACK = 0.01
# Vertices looked at in one go have this many triangles around them together: 8 MB of pairs.
_MOST_PAIRS = 1_000_000


class PosedBoundary(NamedTuple):
    """The boundary of tets at a pose: vertices, triangles that have an area, and normals."""

    points: Floats  # (n, 3) of all tet vertices, around their middle
    triangles: Ints  # (m, 3)
    vertices: Ints  # (k,) that the triangles use, ascending
    normals: Floats  # (k, 3) unit, outward
    corner_normals: Floats  # (m, 3, 3) unit, outward


class Touches(NamedTuple):
    """For each of k vertices: the triangle, or -1, the point on it and how far that is."""

    triangle: Ints  # (k,)
    barycentric: Floats  # (k, 3)
    normal: Floats  # (k, 3) unit, out of the touched part
    gap: Floats  # (k,) signed


def posed_boundary(posed: Floats, triangles: Ints) -> PosedBoundary:
    """Make the boundary at a pose, with normals; leave out triangles that the pose made flat."""
    # Around the middle, or a character far from the origin loses digits.
    points = np.ascontiguousarray(posed - posed.mean(axis=0))
    a, b, c = (points[triangles[:, k]] for k in range(3))
    doubled = np.linalg.norm(np.cross(b - a, c - a), axis=1)
    longest = np.sqrt(np.max([((q - p) ** 2).sum(axis=1) for p, q in ((a, b), (b, c), (c, a))], 0))
    kept = np.ascontiguousarray(triangles[doubled > 1e-9 * longest**2])
    vertices = np.unique(kept)
    if len(kept) == 0:
        return PosedBoundary(points, kept, vertices, np.empty((0, 3)), np.empty((0, 3, 3)))
    # By angle: weighted by area, a block's corner would lean to the side with more triangles.
    weighting = igl.PER_VERTEX_NORMALS_WEIGHTING_TYPE_ANGLE
    normals = np.nan_to_num(igl.per_vertex_normals(points, kept, weighting)[vertices])
    corners = np.nan_to_num(igl.per_corner_normals(points, kept, _CREASE)).reshape(-1, 3, 3)
    return PosedBoundary(points, kept, vertices, normals, corners)


def facing_triangles(boundary: PosedBoundary, rest: Floats, distance: float, far: float) -> Touches:
    """Find the nearest triangle that each vertex touches.

    Parameters
    ----------
    boundary
        At the pose.
    rest
        (n, 3) tet vertices at the neutral pose.
    distance
        How near a triangle must be at the pose.
    far
        How far the same points must be apart at the neutral pose, and `APART` times as far
        as at the pose.
    """
    count = len(boundary.vertices)
    found = Touches(
        np.full(count, -1, np.int64), np.zeros((count, 3)), np.zeros((count, 3)), np.zeros(count)
    )
    if count == 0:  # libigl's trees must not be empty
        return found
    inside = _inside_another_part(boundary, _SLACK * distance)
    for first, starts, candidates in _candidates(boundary, distance):
        _nearest_facing(
            first, starts, candidates, *boundary, inside, rest, distance, far, *found
        )  # fmt: skip
    return found


def _inside_another_part(boundary: PosedBoundary, step: float) -> Bools:
    """Tell whether the body is still there, a small step out of the surface at each vertex."""
    tree = igl.FastWindingNumberBVH()
    tree.init(boundary.points, boundary.triangles)
    outside = boundary.points[boundary.vertices] + step * boundary.normals
    return np.asarray(tree.winding_number(outside)) > 0.5


def _candidates(boundary: PosedBoundary, distance: float) -> Iterator[tuple[int, Ints, Ints]]:
    """List the triangles that may be near, of vertices from `first` on, as CSR lists."""
    corners = boundary.points[boundary.triangles]
    middles = corners.mean(axis=1)
    radius = np.linalg.norm(corners - middles[:, None], axis=2).max()
    reach = (distance + radius) * (1 + 1e-9)
    tree, points = cKDTree(middles), boundary.points[boundary.vertices]
    ends = np.cumsum(tree.query_ball_point(points, reach, return_length=True))
    first = 0
    while first < len(points):
        before = ends[first - 1] if first else 0
        last = max(int(np.searchsorted(ends, before + _MOST_PAIRS, "right")), first + 1)
        lists = tree.query_ball_point(points[first:last], reach, return_sorted=True)
        starts = np.append(0, ends[first:last] - before)
        yield first, starts, np.fromiter(chain.from_iterable(lists), np.int64, starts[-1])
        first = last


@compiled
def _dot(a: Floats, b: Floats) -> float:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@compiled
def _dot_from(o: Floats, a: Floats, b: Floats) -> float:
    """(a − o) · (b − o)."""
    return (
        (a[0] - o[0]) * (b[0] - o[0])
        + (a[1] - o[1]) * (b[1] - o[1])
        + (a[2] - o[2]) * (b[2] - o[2])
    )


@compiled
def nearest_on_triangle(p: Floats, a: Floats, b: Floats, c: Floats) -> tuple[float, float, float]:
    """Return barycentric coordinates of the point of a triangle nearest to p.

    By the region of the triangle's plane that p is over: a corner's, an edge's or the inside.
    """
    bb, bc, cc = _dot_from(a, b, b), _dot_from(a, b, c), _dot_from(a, c, c)
    b_a, c_a = _dot_from(a, b, p), _dot_from(a, c, p)  # p along ab and ac, seen from a,
    b_b, c_b = b_a - bb, c_a - bc  # from b
    b_c, c_c = b_a - bc, c_a - cc  # and from c
    if b_a <= 0.0 and c_a <= 0.0:
        return 1.0, 0.0, 0.0
    if b_b >= 0.0 and c_b <= b_b:
        return 0.0, 1.0, 0.0
    if c_c >= 0.0 and b_c <= c_c:
        return 0.0, 0.0, 1.0
    over_c = b_a * c_b - b_b * c_a
    if over_c <= 0.0 and b_a >= 0.0 and b_b <= 0.0:
        along = b_a / (b_a - b_b)
        return 1.0 - along, along, 0.0
    over_b = b_c * c_a - b_a * c_c
    if over_b <= 0.0 and c_a >= 0.0 and c_c <= 0.0:
        along = c_a / (c_a - c_c)
        return 1.0 - along, 0.0, along
    over_a = b_b * c_c - b_c * c_b
    if over_a <= 0.0 and c_b >= b_b and b_c >= c_c:
        along = (c_b - b_b) / ((c_b - b_b) + (b_c - c_c))
        return 0.0, 1.0 - along, along
    total = over_a + over_b + over_c
    return 1.0 - over_b / total - over_c / total, over_b / total, over_c / total


@compiled
def _mix(u: float, v: float, w: float, a: Floats, b: Floats, c: Floats, out: Floats) -> None:
    for x in range(3):
        out[x] = u * a[x] + v * b[x] + w * c[x]


@compiled
def _signed_gap(
    point: Floats, foot: Floats, own: Floats, normal: Floats, inside: bool, distance: float
) -> float:
    """Return the signed gap of a point to the foot that it touches, or inf if it does not.

    `own` is the normal at the point, `normal` the one at the foot, unit.
    """
    if _dot(own, normal) > _OPPOSED:
        return np.inf
    gap = math.sqrt(_dot_from(foot, point, point))
    over = _dot(point, normal) - _dot(foot, normal)
    # From outside, the vertex is in front of the triangle; across a thin part it is behind.
    if (over if inside else -over) > _SLACK * distance:
        return np.inf
    if gap * gap - over * over > max(_SIDEWAYS * gap, 10 * _SLACK * distance) ** 2:
        return np.inf
    return math.copysign(gap, over)


@compiled
def _nearest_facing(
    first: int,
    starts: Ints,
    candidates: Ints,
    points: Floats,
    triangles: Ints,
    vertices: Ints,
    normals: Floats,
    corner_normals: Floats,
    inside: Bools,
    rest: Floats,
    distance: float,
    far: float,
    out_triangle: Ints,
    out_barycentric: Floats,
    out_normal: Floats,
    out_gap: Floats,
) -> None:
    """Fill in the touches of the vertices from `first` on; the first of equally near ones wins."""
    foot, rest_foot, normal = np.empty(3), np.empty(3), np.empty(3)
    for i in range(len(starts) - 1):
        k = first + i
        vertex, nearest = vertices[k], distance * (1 + 1e-12)
        for t in candidates[starts[i] : starts[i + 1]]:
            a, b, c = triangles[t]
            if vertex in (a, b, c):
                continue
            u, v, w = nearest_on_triangle(points[vertex], points[a], points[b], points[c])
            _mix(u, v, w, rest[a], rest[b], rest[c], rest_foot)
            _mix(u, v, w, points[a], points[b], points[c], foot)
            apart = APART * math.sqrt(_dot_from(foot, points[vertex], points[vertex]))
            if _dot_from(rest_foot, rest[vertex], rest[vertex]) < max(far, apart) ** 2:
                continue
            _mix(u, v, w, corner_normals[t, 0], corner_normals[t, 1], corner_normals[t, 2], normal)
            normal /= max(math.sqrt(_dot(normal, normal)), 1e-300)
            gap = _signed_gap(points[vertex], foot, normals[k], normal, inside[k], distance)
            if abs(gap) < nearest:
                nearest = abs(gap)
                out_triangle[k], out_gap[k] = t, gap
                out_barycentric[k, 0], out_barycentric[k, 1], out_barycentric[k, 2] = u, v, w
                out_normal[k] = normal
