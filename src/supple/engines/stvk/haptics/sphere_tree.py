"""Tree of spheres around the surface of a reduced body, evaluated lazily.

Points and spheres are rows of coefficients of (1, q): a point is its rest position plus its row of
the basis times q, and so is the centre of a sphere. The radius is a sum with |q| instead of q.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.checks import checked_array, checked_count, checked_number, shown
from supple.compiled.jit import compiled_fused, compiled_sums
from supple.engines.stvk.cubic_model import CubicModel
from supple.engines.stvk.model import StvkModel
from supple.errors import SuppleError
from supple.mesh.boundary_contacts import nearest_on_triangle

#: Columns of a contact: barycentric coordinates of its point, its distance from the ball's centre,
#: and the direction from there to the centre.
WEIGHTS, DISTANCE, DIRECTION, PLACE_COLUMNS = slice(0, 3), 3, slice(4, 7), 7
#: Row of a sphere's coefficients with its radius, after its centre.
_RADIUS = 3
#: Relative rounding error of a sum per term, for a point and for a centre.
_ROUNDING = 4 * 2.0**-52
#: Bound on lengths, so that squares are finite.
LONGEST = 1e100


@compiled_fused
def enclose(points: Floats, triangles: Ints, ranges: Ints, box: Floats, spheres: Floats) -> None:
    """Compute coefficients of all spheres, (nodes, 4, k), each around a range of triangles.

    Column by column, the centre is the middle of the bounding box of the corners' coefficients, and
    the radius the largest distance from it. So for any q the sphere contains all corners. `points`
    is (n, 3, k), `box` scratch (3, 2, k).
    """
    for node in range(len(ranges)):
        sphere = spheres[node]
        first, last = ranges[node, 0], ranges[node, 1]
        _middle(points, triangles[first:last], box, sphere)
        _reach(points, triangles[first:last], sphere)


@compiled_fused
def _middle(points, triangles, box, sphere):  # type: ignore[no-untyped-def]
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
        target = sphere[c]
        for k in range(columns):
            target[k] = 0.5 * low[k] + 0.5 * high[k]


@compiled_fused
def _reach(points, triangles, sphere):  # type: ignore[no-untyped-def]
    columns = points.shape[2]
    x, y, z, radius = sphere[0], sphere[1], sphere[2], sphere[_RADIUS]
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
    """Multiply rows (3, k) by (1, q), into (3,)."""
    for c in range(3):
        row, total = rows[c], 0.0
        for k in range(len(factors)):
            total += row[k] * factors[k]
        out[c] = total


@compiled_sums
def _apart(sphere, factors, centre, reach):  # type: ignore[no-untyped-def]
    """Return whether a sphere of the tree and the ball of radius `reach` are disjoint."""
    x, y, z, radius = sphere[0], sphere[1], sphere[2], sphere[_RADIUS]
    dx, dy, dz = -centre[0], -centre[1], -centre[2]
    for k in range(len(factors)):
        factor = factors[k]
        dx += x[k] * factor
        dy += y[k] * factor
        dz += z[k] * factor
        reach += radius[k] * abs(factor)
    return dx * dx + dy * dy + dz * dz > reach * reach


@compiled_fused
def move(points, factors, vertex, turn, marks, moved):  # type: ignore[no-untyped-def]
    """Write the position of a vertex, unless it was written in this query (number `turn`)."""
    if marks[vertex] != turn:
        marks[vertex] = turn
        place(points[vertex], factors, moved[vertex])


@compiled_fused
def touching(tree, factors, centre, radius, scratch):  # type: ignore[no-untyped-def]
    """Find the triangles within `radius` of `centre`; return their number.

    `tree` has coefficients (n, 3, k) of the points, triangles in the tree's order, ranges (nodes,
    2) of the spheres' triangles, and spheres (nodes, 4, k); sphere i has the children 2i + 1 and 2i
    + 2. `factors` (k,) are 1 and q. `scratch` has a stack of one integer more than the tree is
    deep; marks (n,) and positions (n, 3) for `move`; the results, triangles (m,) in the tree's
    order and their contacts (m, 7); and counts of visited spheres, visited triangles, and queries.
    """
    points, triangles, ranges, spheres = tree
    stack, marks, positions, triangle_numbers, places, counters = scratch
    counters[2] += 1
    turn = counters[2]
    leaves = len(ranges) // 2  # index of the first leaf
    count, depth = 0, 1
    stack[0] = 0
    while depth:
        depth -= 1
        node = stack[depth]
        counters[0] += 1
        if _apart(spheres[node], factors, centre, radius):
            continue
        if node < leaves:
            stack[depth], stack[depth + 1] = 2 * node + 2, 2 * node + 1
            depth += 2
            continue
        for t in range(ranges[node, 0], ranges[node, 1]):
            counters[1] += 1
            a, b, c = triangles[t, 0], triangles[t, 1], triangles[t, 2]
            move(points, factors, a, turn, marks, positions)
            move(points, factors, b, turn, marks, positions)
            move(points, factors, c, turn, marks, positions)
            if _touches(positions[a], positions[b], positions[c], centre, radius, places[count]):
                triangle_numbers[count] = t
                count += 1
    return count


@compiled_fused
def _touches(a, b, c, centre, radius, out):  # type: ignore[no-untyped-def]
    """Return whether a triangle is within `radius` of `centre`; if so, write its contact."""
    u, v, w = nearest_on_triangle(centre, a, b, c)
    x = centre[0] - (u * a[0] + v * b[0] + w * c[0])
    y = centre[1] - (u * a[1] + v * b[1] + w * c[1])
    z = centre[2] - (u * a[2] + v * b[2] + w * c[2])
    distance = math.sqrt(x * x + y * y + z * z)
    if not distance < radius:
        return False
    if not distance > 1e-9 * radius:  # the centre lies in the triangle: use its normal
        ux, uy, uz = b[0] - a[0], b[1] - a[1], b[2] - a[2]
        vx, vy, vz = c[0] - a[0], c[1] - a[1], c[2] - a[2]
        x, y, z = uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx
    length = math.sqrt(x * x + y * y + z * z)
    scale = 1.0 / length if length > 0.0 else 0.0
    out[0], out[1], out[2], out[3] = u, v, w, distance
    out[4], out[5], out[6] = scale * x, scale * y, scale * z
    return True


class Contacts(NamedTuple):
    """Triangles in contact with a ball, one row each, in the tree's order."""

    triangles: Ints
    """(c,) indices of the surface's triangles."""
    weights: Floats
    """(c, 3) barycentric coordinates of the point nearest to the ball's centre."""
    distances: Floats
    """(c,) distance from the centre, in m, less than the radius."""
    directions: Floats
    """(c, 3) unit vectors from the nearest point to the ball's centre."""


class SphereTree:
    """Tree of spheres around the triangles of a body that moves as x = X + U q.

    A sphere's centre is a fixed combination of q, and its radius grows by Σ r_i |q_i| with r_i the
    largest displacement relative to the centre by q_i = 1 (James and Pai's BD-tree, 2004). So
    spheres need no update when the body moves: a visit costs 4(r + 1) multiplications, and a small
    ball visits few.

    Parameters
    ----------
    model
        Body with a surface: a `StvkModel`, or a `CubicModel` that has one.
    leaf
        Number of triangles in the smallest spheres, up to twice as many.

    Attributes
    ----------
    ranges
        (nodes, 2) ranges in `order` of the spheres' triangles. Sphere 0 is the root; sphere i has
        the children 2i + 1 and 2i + 2.
    order
        (m,) indices of the surface's triangles, in the tree's order.

    Examples
    --------
    >>> from supple.elastic import Material
    >>> from supple.scenes import beam
    >>> mesh = beam(cells=(6, 2, 2))
    >>> tree = SphereTree(StvkModel.build(mesh, Material("stvk"), modes=6))
    >>> above = mesh.vertices.max(axis=0) + [0, 0.01, 0]
    >>> contacts = tree.touch([0.0] * 6, above, radius=0.02)
    >>> bool((contacts.distances >= 0.01).all()), contacts.directions[0].round(12)
    (True, array([0., 1., 0.]))
    """

    def __init__(self, model: StvkModel | CubicModel, *, leaf: int = 4) -> None:
        if not isinstance(model, StvkModel | CubicModel):
            raise SuppleError(f"a SphereTree needs a StvkModel, not {shown(model)}")
        triangles = np.asarray(model.surface.triangles, np.int64)
        fewest = checked_count("the triangles of a leaf", leaf)
        self.modes = model.modes
        self.order, self.ranges = _halved(model.surface.vertices[triangles].mean(axis=1), fewest)
        k, count = 1 + model.modes, len(triangles)
        self._triangles = np.ascontiguousarray(triangles[self.order])
        self._points = np.empty((len(model.surface.vertices), 3, k))
        self._points[:, :, 0] = model.surface.vertices
        self._points[:, :, 1:] = model.surface_basis
        self._spheres = np.empty((len(self.ranges), 4, k))
        enclose(self._points, self._triangles, self.ranges, np.empty((3, 2, k)), self._spheres)
        if not np.isfinite(self._spheres).all():
            raise SuppleError("the surface's motion is not finite; scale the basis down")
        self._found, self._places = np.empty(count, np.int64), np.empty((count, PLACE_COLUMNS))
        self._stack = np.empty(1 + len(self.ranges).bit_length(), np.int64)
        self._marks = np.zeros(len(self._points), np.int64)
        self._moved = self._points[:, :, 0].copy()
        self._factors, self._seen = np.ones(k), np.zeros(3, np.int64)

    def __len__(self) -> int:
        """Return the number of spheres."""
        return len(self.ranges)

    def __repr__(self) -> str:
        return f"SphereTree({len(self)} spheres, {len(self.order)} triangles, {self.modes} modes)"

    @property
    def kernel_arguments(self) -> tuple[Any, ...]:
        """First argument of `touching`, for compiled loops around it."""
        return self._points, self._triangles, self.ranges, self._spheres

    @property
    def scratch(self) -> tuple[Any, ...]:
        """Last argument of `touching`: scratch, results, and counters."""
        return self._stack, self._marks, self._moved, self._found, self._places, self._seen

    @property
    def visited(self) -> tuple[int, int]:
        """Numbers of spheres and of triangles visited so far."""
        return int(self._seen[0]), int(self._seen[1])

    def spheres(self, q: ArrayLike) -> tuple[Floats, Floats]:
        """Return centres (nodes, 3) and radii (nodes,) of all spheres at q."""
        factors = self._factors_at(q)
        return self._spheres[:, :3] @ factors, self._spheres[:, 3] @ np.abs(factors)

    def touch(self, q: ArrayLike, centre: ArrayLike, radius: float) -> Contacts:
        """Find the triangles in contact with a ball when the body is at q.

        Raises
        ------
        SuppleError
            If a value is not finite, or too large, or the radius is not positive.
        """
        factors = self._factors_at(q)
        middle = checked_array("the ball's centre", centre, (3,))
        size = checked_radius(radius)
        if np.abs(middle).max() > LONGEST:
            raise SuppleError(f"the ball is too far away; use coordinates up to {LONGEST:.0e}")
        count = touching(self.kernel_arguments, factors, middle, size, self.scratch)
        at = self._places[:count]
        return Contacts(
            self.order[self._found[:count]],
            at[:, WEIGHTS].copy(),
            at[:, DISTANCE].copy(),
            at[:, DIRECTION].copy(),
        )

    def _factors_at(self, q: ArrayLike) -> Floats:
        """Return (1, q), checked."""
        self._factors[1:] = checked_array("q", q, (self.modes,))
        with np.errstate(over="ignore"):
            reach = float(np.abs(self._spheres[0]).sum(axis=0) @ np.abs(self._factors))
        if not reach < LONGEST:
            raise SuppleError("q moves the surface too far; use smaller coordinates")
        return self._factors


def checked_radius(radius: float) -> float:
    """Return a ball's radius; raise an error unless it is a positive length."""
    size = checked_number("the ball's radius", radius)
    if not 0 < size < LONGEST:
        raise SuppleError(f"the ball's radius must be a positive length, not {radius}")
    return size


def _halved(centres: Floats, leaf: int) -> tuple[Ints, Ints]:
    """Return an order of triangles in which every sphere has a range, and the ranges (nodes, 2).

    Spheres are halved across their longest side, a level at a time.
    """
    count = len(centres)
    order, bounds = np.arange(count), np.array([0, count])
    levels = [bounds]
    while bounds[1] >= 2 * leaf:  # the first range is the shortest
        ordered, starts = centres[order], bounds[:-1]
        sides = np.maximum.reduceat(ordered, starts) - np.minimum.reduceat(ordered, starts)
        part = np.repeat(np.arange(len(starts)), np.diff(bounds))
        along = np.take_along_axis(ordered, sides.argmax(axis=1)[part, None], axis=1)[:, 0]
        order = order[np.lexsort((along, part))]
        middles = (starts + bounds[1:]) // 2
        bounds = np.insert(bounds, np.arange(1, len(bounds)), middles)
        levels.append(bounds)
    ranges = [np.stack([level[:-1], level[1:]], axis=1) for level in levels]
    return order, np.ascontiguousarray(np.concatenate(ranges))
