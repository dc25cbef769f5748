"""Kernels of a tree of spheres: making it, and finding the triangles that a ball touches.

Places and spheres are rows of coefficients of (1, q): a point is its place at rest plus its row of
the basis times q, and the centre of a sphere is the same kind of sum. The radius is a sum with
|q| in place of q.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from supple.compiled import compiled_fused, compiled_sums
from supple.mesh.contact_search import nearest_on_triangle

__all__ = [
    "DIRECTION",
    "DISTANCE",
    "PLACE_COLUMNS",
    "WEIGHTS",
    "enclose",
    "move",
    "place",
    "touching",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Columns of what is said of a contact: barycentric coordinates of its point, how far that is
#: from the ball's centre, and the direction from there to the centre.
WEIGHTS, DISTANCE, DIRECTION, PLACE_COLUMNS = slice(0, 3), 3, slice(4, 7), 7
#: A sphere's coefficients: its centre, and its radius.
_RADIUS = 3
#: Sums of k terms may be off by k times this part of them, for a point and for a centre.
_ROUNDING = 4 * 2.0**-52


@compiled_fused
def enclose(points: Floats, triangles: Ints, ranges: Ints, box: Floats, spheres: Floats) -> None:
    """Coefficients of all spheres, (nodes, 4, k), each around a range of triangles.

    Column by column, the centre is the middle of the box of all corners' coefficients, and the
    radius how far the farthest is: whatever q is, no corner is farther from the centre than the
    radius. `points` is (n, 3, k), `box` scratch (3, 2, k).
    """
    for node in range(len(ranges)):
        own = spheres[node]
        first, last = ranges[node, 0], ranges[node, 1]
        _middle(points, triangles[first:last], box, own)
        _reach(points, triangles[first:last], own)


@compiled_fused
def _middle(points, triangles, box, own):  # type: ignore[no-untyped-def]
    columns = points.shape[2]
    for c in range(3):
        low, high = box[c, 0], box[c, 1]
        start = points[triangles[0, 0], c]
        for k in range(columns):
            low[k] = high[k] = start[k]
        for t in range(len(triangles)):
            for corner in range(3):
                row = points[triangles[t, corner], c]
                for k in range(columns):
                    low[k] = min(low[k], row[k])
                    high[k] = max(high[k], row[k])
        target = own[c]
        for k in range(columns):
            target[k] = 0.5 * low[k] + 0.5 * high[k]


@compiled_fused
def _reach(points, triangles, own):  # type: ignore[no-untyped-def]
    columns = points.shape[2]
    x, y, z, radius = own[0], own[1], own[2], own[_RADIUS]
    radius[:] = 0.0
    for t in range(len(triangles)):
        for corner in range(3):
            at = points[triangles[t, corner]]
            px, py, pz = at[0], at[1], at[2]
            for k in range(columns):
                dx, dy, dz = px[k] - x[k], py[k] - y[k], pz[k] - z[k]
                radius[k] = max(radius[k], dx * dx + dy * dy + dz * dz)
    for k in range(columns):
        far = math.sqrt(radius[k])
        size = abs(x[k]) + abs(y[k]) + abs(z[k]) + far
        radius[k] = far + _ROUNDING * columns * size


@compiled_sums
def place(rows: Floats, factors: Floats, out: Floats) -> None:
    """Rows (3, k) times (1, q) into (3,)."""
    for c in range(3):
        row, total = rows[c], 0.0
        for k in range(len(factors)):
            total += row[k] * factors[k]
        out[c] = total


@compiled_sums
def _apart(sphere, factors, centre, reach):  # type: ignore[no-untyped-def]
    """Whether a sphere is farther from a ball than their radii."""
    x, y, z, radius = sphere[0], sphere[1], sphere[2], sphere[_RADIUS]
    dx, dy, dz = -centre[0], -centre[1], -centre[2]
    for k in range(len(factors)):
        own = factors[k]
        dx += x[k] * own
        dy += y[k] * own
        dz += z[k] * own
        reach += radius[k] * abs(own)
    return dx * dx + dy * dy + dz * dz > reach * reach


@compiled_fused
def move(points, factors, vertex, turn, marks, moved):  # type: ignore[no-untyped-def]
    """See to it that a point's place is there, made once in a turn: triangles share corners."""
    if marks[vertex] != turn:
        marks[vertex] = turn
        place(points[vertex], factors, moved[vertex])


@compiled_fused
def touching(  # type: ignore[no-untyped-def]
    points,
    triangles,
    ranges,
    spheres,
    factors,
    centre,
    radius,
    stack,
    marks,
    moved,
    found,
    places,
    seen,
):
    """Find the triangles nearer than a radius; how many.

    Parameters
    ----------
    points
        (n, 3, k) coefficients of places.
    triangles, ranges, spheres
        In the tree's order; (nodes, 2) from where to where a sphere's triangles are; (nodes, 4, k).
        Sphere i has spheres 2i + 1 and 2i + 2 within.
    factors
        (k,) 1 and q.
    centre, radius
        Of the ball.
    stack
        Scratch: one whole number more than the tree is deep.
    marks, moved
        (n,) and (n, 3) for `move`.
    found, places
        (m,) and (m, 7) that are filled: triangles in the tree's order, and where they touch.
    seen
        (3,) how many spheres and triangles were looked at, in how many turns: added to.
    """
    seen[2] += 1
    turn = seen[2]
    leaves = len(ranges) // 2  # where they begin
    count, left = 0, 1
    stack[0] = 0
    while left:
        left -= 1
        node = stack[left]
        seen[0] += 1
        if _apart(spheres[node], factors, centre, radius):
            continue
        if node < leaves:
            stack[left], stack[left + 1] = 2 * node + 2, 2 * node + 1
            left += 2
            continue
        for t in range(ranges[node, 0], ranges[node, 1]):
            seen[1] += 1
            a, b, c = triangles[t, 0], triangles[t, 1], triangles[t, 2]
            move(points, factors, a, turn, marks, moved)
            move(points, factors, b, turn, marks, moved)
            move(points, factors, c, turn, marks, moved)
            if _touches(moved[a], moved[b], moved[c], centre, radius, places[count]):
                found[count] = t
                count += 1
    return count


@compiled_fused
def _touches(a, b, c, centre, radius, out):  # type: ignore[no-untyped-def]
    """Whether a triangle is nearer than a radius; if so, how."""
    u, v, w = nearest_on_triangle(centre, a, b, c)
    x = centre[0] - (u * a[0] + v * b[0] + w * c[0])
    y = centre[1] - (u * a[1] + v * b[1] + w * c[1])
    z = centre[2] - (u * a[2] + v * b[2] + w * c[2])
    distance = math.sqrt(x * x + y * y + z * z)
    if not distance < radius:
        return False
    if not distance > 1e-9 * radius:  # the centre lies in the triangle: out along its normal
        ux, uy, uz = b[0] - a[0], b[1] - a[1], b[2] - a[2]
        vx, vy, vz = c[0] - a[0], c[1] - a[1], c[2] - a[2]
        x, y, z = uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx
    length = math.sqrt(x * x + y * y + z * z)
    scale = 1.0 / length if length > 0.0 else 0.0
    out[0], out[1], out[2], out[3] = u, v, w, distance
    out[4], out[5], out[6] = scale * x, scale * y, scale * z
    return True
