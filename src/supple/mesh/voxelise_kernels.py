"""Which cubes of a lattice triangles touch: separating axes, in Numba, column by column."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from supple.compiled import compiled

__all__ = ["mark_touched"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@compiled
def _separated(t: Floats, ax: float, ay: float, az: float, half: float) -> bool:
    """Whether the axis separates the triangle `t` from the cube of this half edge at 0."""
    p = ax * t[0, 0] + ay * t[0, 1] + az * t[0, 2]
    q = ax * t[1, 0] + ay * t[1, 1] + az * t[1, 2]
    r = ax * t[2, 0] + ay * t[2, 1] + az * t[2, 2]
    reach = half * (abs(ax) + abs(ay) + abs(az))
    return min(p, q, r) > reach or max(p, q, r) < -reach


@compiled
def _touches(t: Floats, half: float, across: float) -> bool:
    """Separating axes of a triangle and a cube at the origin: faces, plane, and edge pairs.

    The half edge may be another `across` the axes of the lattice than along them.
    """
    for c in range(3):
        low = min(t[0, c], t[1, c], t[2, c])
        high = max(t[0, c], t[1, c], t[2, c])
        if low > half or high < -half:
            return False
    half = across
    ux, uy, uz = t[1, 0] - t[0, 0], t[1, 1] - t[0, 1], t[1, 2] - t[0, 2]
    vx, vy, vz = t[2, 0] - t[0, 0], t[2, 1] - t[0, 1], t[2, 2] - t[0, 2]
    if _separated(t, uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx, half):
        return False
    for k in range(3):
        n = (k + 1) % 3
        ex, ey, ez = t[n, 0] - t[k, 0], t[n, 1] - t[k, 1], t[n, 2] - t[k, 2]
        if (
            _separated(t, 0.0, -ez, ey, half)
            or _separated(t, ez, 0.0, -ex, half)
            or _separated(t, -ey, ex, 0.0, half)
        ):
            return False
    return True


@compiled
def _depth_range(t: Floats, w: int, u: float, v: float, half: float) -> tuple[float, float]:
    """Between which depths along axis `w` the triangle's plane passes the column at (u, v)."""
    a, b = (w + 1) % 3, (w + 2) % 3
    ea, eb, ew = t[1, a] - t[0, a], t[1, b] - t[0, b], t[1, w] - t[0, w]
    fa, fb, fw = t[2, a] - t[0, a], t[2, b] - t[0, b], t[2, w] - t[0, w]
    na, nb, nw = eb * fw - ew * fb, ew * fa - ea * fw, ea * fb - eb * fa
    if nw == 0.0:  # no area, or none seen along w
        return -np.inf, np.inf
    middle = t[0, w] - (na * (u - t[0, a]) + nb * (v - t[0, b])) / nw
    slack = half * (abs(na) + abs(nb)) / abs(nw)
    return middle - slack, middle + slack


@compiled
def _steepest_axis(t: Floats) -> int:
    """The axis along which the triangle shows the largest area."""
    best, axis = -1.0, 0
    for w in range(3):
        a, b = (w + 1) % 3, (w + 2) % 3
        area = abs(
            (t[1, a] - t[0, a]) * (t[2, b] - t[0, b]) - (t[1, b] - t[0, b]) * (t[2, a] - t[0, a])
        )
        if area > best:
            best, axis = area, w
    return axis


@compiled
def mark_touched(
    corners: Floats, half: float, across: float, shape: Ints, grid: NDArray[np.uint8]
) -> Ints:
    """Mark in `grid` the unit cubes that triangles touch; how many each of them does, (m,).

    `corners` (m, 3, 3) are in lattice units: cube (i, j, k) is around (i + ½, j + ½, k + ½).
    Its half edge is taken for `half` where a side of the cube would separate the two, and for
    `across` where something oblique would.
    """
    count = np.zeros(len(corners), np.int64)
    t, low, high, cell = np.empty((3, 3)), np.empty(3, np.int64), np.empty(3, np.int64), np.empty(3)
    at = np.empty(3, np.int64)
    for m in range(len(corners)):
        triangle = corners[m]
        for c in range(3):
            lowest = min(triangle[0, c], triangle[1, c], triangle[2, c])
            highest = max(triangle[0, c], triangle[1, c], triangle[2, c])
            low[c] = max(0, int(np.floor(lowest - 0.01)))
            high[c] = min(shape[c] - 1, int(np.floor(highest + 0.01)))
        w = _steepest_axis(triangle)
        a, b = (w + 1) % 3, (w + 2) % 3
        for i in range(low[a], high[a] + 1):
            for j in range(low[b], high[b] + 1):
                near, far = _depth_range(triangle, w, i + 0.5, j + 0.5, 0.5)
                first, last = low[w], high[w]
                if near > first:
                    first = int(min(np.floor(near - 0.01), last + 1.0))
                if far < last:
                    last = int(max(np.floor(far + 0.01), first - 1.0))
                for k in range(max(first, low[w]), last + 1):
                    at[a], at[b], at[w] = i, j, k
                    for c in range(3):
                        cell[c] = at[c] + 0.5
                    for p in range(3):
                        for c in range(3):
                            t[p, c] = triangle[p, c] - cell[c]
                    if _touches(t, half, across):
                        grid[at[0], at[1], at[2]] = 1
                        count[m] += 1
    return count
