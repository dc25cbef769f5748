"""Cubes that fill any triangle surface (barbic2005 §3.1)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from supple.arrays import Bools, Floats, Ints
from supple.checks import checked_number
from supple.compiled.jit import compiled
from supple.errors import MeshError, warn
from supple.mesh.filling.signed_distance import (
    SoupDistance,
    outward_triangles,
    unbalanced,
    welded_at_unit_size,
)
from supple.mesh.hexes import CORNERS, HexMesh
from supple.mesh.surface import SurfaceMesh
from supple.mesh.topology import counted, row_keys

Progress = Callable[[float, str], None]

MOST_HEXES = 5_000_000
#: Largest number of cells of the lattice around the body.
MOST_CELLS = 30_000_000
#: Largest number of columns of cubes under all triangles, for some seconds of work.
_MOST_COLUMNS = 100_000_000
#: Number of cubes tested together.
_BLOCK = 200_000
TOLERANCE = 0.1
# Relative error at which a search stops, and the largest number of attempts.
_NEAR_ENOUGH, _TRIES = 0.04, 14
# Tolerance in cubes: a triangle this near to a side of a cube does not reach into it, so that a
# wall along the lattice marks cubes on one side only. Oblique triangles through an edge do, so that
# the cubes of a slanting sheet are connected through faces.
_SKIN = 1e-6
_LESS, _MORE = 0.5 - _SKIN, 0.5 + _SKIN


def voxelise(
    surface: SurfaceMesh,
    *,
    elements: int = 5_000,
    size: float | None = None,
    connected: bool = True,
    progress: Progress | None = None,
) -> HexMesh:
    """Fill a surface with equal cubes: all that triangles intersect, and all inside.

    Any triangles are allowed: inside out, overlapping, with holes, without thickness. The inside of
    a surface with holes has a winding number of at least ½. The cubes cover the surface, so that
    `embed_hexes` finds every vertex of it inside one. The same surface gives the same bytes.

    Parameters
    ----------
    surface : SurfaceMesh
        Surface to fill. Closed parts count as filled in any orientation, and so do cavities.
    elements : int
        Number of cubes, within 10 %.
    size : float, optional
        Edge of a cube; overrides `elements`. The lattice is centred on the body.
    connected : bool
        Whether to use only the largest part connected through faces, with a warning if there are
        others. If False, all parts are used, without common vertices.
    progress : callable, optional
        Called with the fraction done, 0 to 1, and a description.

    Returns
    -------
    HexMesh
        In the order of the lattice, with x varying most slowly.

    Raises
    ------
    MeshError
        If the request is out of range, or the surface has no extent.

    Warns
    -----
    SuppleWarning
        If parts are left out, or no size gives about as many cubes as requested.
    """
    report = progress or (lambda part, what: None)
    report(0.0, "orienting the surface")
    body = _Body(surface, report)
    if size is not None:
        edge = checked_number("the size of a cube", size)
        if not edge > 0:
            raise MeshError(f"cubes cannot have a size of {edge:g}; give a positive length")
        edge /= body.scale
        solid = body.parts(edge, connected)
    else:
        edge, solid = _search(body, _checked_elements(elements), connected)
    if connected and body.left_out:
        warn(
            f"the surface is in several pieces: {counted(body.left_out, 'cube')} outside the"
            f" largest of them are left out; connected=False (--pieces all) keeps them"
        )
    mesh = body.mesh(edge, solid)
    report(1.0, f"{len(mesh.hexes)} cubes")
    return mesh


def _checked_elements(elements: int) -> int:
    is_integer = isinstance(elements, (int, np.integer)) and not isinstance(elements, bool)
    if not is_integer or not 1 <= elements <= MOST_HEXES:
        raise MeshError(f"cannot make {elements!r} cubes; use 1 to {MOST_HEXES}")
    return int(elements)


class _Body:
    """Surface prepared for filling with cubes of any size."""

    def __init__(self, surface: SurfaceMesh, report: Progress) -> None:
        self.report, self.progress = report, 0.1
        welded, with_area, self.scale = welded_at_unit_size(surface)
        self.corners = welded.vertices[welded.triangles]
        corners = self.corners.reshape(-1, 3)
        self.middle = (corners.min(axis=0) + corners.max(axis=0)) / 2
        self.extent = np.ptp(corners, axis=0)
        self.distance: SoupDistance | None = None
        self.closed, self.volume, self.area = True, 0.0, 0.0
        if len(with_area):
            facing = outward_triangles(welded.vertices, with_area)
            self.distance = SoupDistance(welded.vertices, with_area, facing)
            self.area = float(SurfaceMesh(welded.vertices, with_area).areas().sum())
            if len(facing):
                one_group = np.zeros(len(facing), np.int64)
                self.closed = not unbalanced(facing, one_group, len(welded.vertices)).any()
                self.volume = abs(SurfaceMesh(welded.vertices, facing).volume())
        #: Number of cubes left out by the last call of `parts`.
        self.left_out = 0

    def lattice(self, edge: float) -> tuple[Floats, Ints]:
        """Return the lowest corner and numbers of cubes of a lattice around the body."""
        with np.errstate(all="ignore"):
            shape = np.maximum(np.ceil(self.extent / edge - 2 * _SKIN), 1.0) + 2.0
        if not shape.prod() <= MOST_CELLS:
            raise MeshError(
                f"cubes of {edge * self.scale:g} are too small for a body of"
                f" {self.extent.max() * self.scale:.4g}: more than {MOST_CELLS:.0e} of them around"
                f" it; use larger ones"
            )
        return self.middle - edge * shape / 2, shape.astype(np.int64)

    def solid(self, edge: float) -> Bools:
        """Return a mask of the cubes that are inside the surface or intersect triangles."""
        low, shape = self.lattice(edge)
        corners = (self.corners - low) / edge
        spans = np.sort(np.ptp(corners, axis=1) + 1.0, axis=1)
        if np.sum(spans[:, 1] * spans[:, 2]) > _MOST_COLUMNS:
            raise MeshError(
                f"{len(corners)} triangles pass through too many cubes of {edge * self.scale:g};"
                f" use larger ones"
            )
        touched, reached = np.zeros((2, *shape), np.uint8)
        count = _mark_touched(corners, _LESS, _MORE, shape, touched)
        _mark_touched(corners, _MORE, _MORE, shape, reached)
        solid = touched.astype(bool)
        solid |= self._inside(reached.astype(bool), low, edge)
        _cover_flat(solid, corners[count == 0], shape)
        return solid

    def _inside(self, wall: Bools, low: Floats, edge: float) -> Bools:
        """Return a mask of cubes with the centre inside; `wall` marks cubes near triangles."""
        if self.distance is None:
            return np.zeros_like(wall)
        if not self.closed:  # holes connect inside and outside: test every cube
            return self._contains(np.arange(wall.size), wall.shape, low, edge).reshape(wall.shape)
        # Connected cubes without triangles are all inside or all outside.
        rooms, count = ndimage.label(~wall)
        first = np.zeros(count + 1, np.int64)
        first[rooms.ravel()[::-1]] = np.arange(rooms.size)[::-1]  # the first cube of each
        inside = self._contains(first, wall.shape, low, edge)[rooms]
        inside[wall] = self._contains(np.flatnonzero(wall), wall.shape, low, edge)
        return inside

    def _contains(self, cells: Ints, shape: tuple[int, ...], low: Floats, edge: float) -> Bools:
        """Return whether the centres of cubes are inside."""
        assert self.distance is not None
        inside = np.empty(len(cells), bool)
        for first in range(0, len(cells), _BLOCK):
            if len(cells) > _BLOCK:
                self.report(self.progress, f"testing {len(cells)} cubes, {first} done")
            block = slice(first, first + _BLOCK)
            where = np.column_stack(np.unravel_index(cells[block], shape))
            inside[block] = self.distance(low + edge * (where + 0.5)) > 0
        return inside

    def parts(self, edge: float, connected: bool) -> Ints:
        """Label each cube by its connected part, 1, 2, …, or 0 for cubes that are not solid.

        If `connected`, only the largest part is kept, with label 1.
        """
        labels, count = ndimage.label(self.solid(edge))
        self.left_out = 0
        if connected and count > 1:
            sizes = np.bincount(labels.ravel())[1:]
            labels = np.where(labels == 1 + int(sizes.argmax()), 1, 0)
            self.left_out = int(sizes.sum() - sizes.max())
        return labels

    def mesh(self, edge: float, labels: Ints) -> HexMesh:
        """Return the mesh of all labelled cubes; different parts have no common vertices."""
        cells = np.argwhere(labels)
        if len(cells) > MOST_HEXES:
            raise MeshError(
                f"{len(cells)} cubes of {edge * self.scale:g} are too many; use larger ones"
            )
        low, shape = self.lattice(edge)
        corners = (cells[:, None, :] + CORNERS).reshape(-1, 3)
        part = np.repeat(labels[tuple(cells.T)], 8)
        keys = row_keys(np.column_stack([part, corners]), int(max(shape.max(), part.max())) + 1)
        _, first, index = np.unique(keys, return_index=True, return_inverse=True)
        places = self.scale * (low + edge * corners[first])
        return HexMesh(places, index.reshape(-1, 8))


def _cover_flat(solid: Bools, corners: Floats, shape: Ints) -> None:
    """Cover triangles between two layers of cubes by the lower layer, if neither is solid."""
    if len(corners) == 0:
        return
    axes = np.ptp(corners, axis=1).argmin(axis=1)
    for axis in range(3):
        step = np.zeros(3)
        step[axis] = 0.01
        below = np.zeros(tuple(shape), np.uint8)
        _mark_touched(corners[axes == axis] - step, _LESS, _MORE, shape, below)
        solid |= below.astype(bool) & ~np.roll(solid, -1, axis)


def _search(body: _Body, target_count: int, connected: bool) -> tuple[float, Ints]:
    """Return edge and labels of about the right number of cubes, by trying sizes."""
    too_few, too_many = np.inf, 0.0  # sizes that give that
    edge = min(_expected_edge(body, target_count), 2.0 * float(body.extent.max()))
    best: tuple[float, float, Ints, int] | None = None
    for attempt in range(_TRIES):
        body.progress = 0.1 + 0.8 * attempt / _TRIES
        body.report(body.progress, f"filling with cubes of {edge * body.scale:.4g}")
        labels = body.parts(edge, connected)
        count = int(np.count_nonzero(labels))
        miss = abs(float(np.log(count / target_count)))
        if best is None or miss < best[0]:
            best = miss, edge, labels, body.left_out
        if miss <= _NEAR_ENOUGH:
            break
        if count > target_count:
            too_many = max(too_many, edge)
        else:
            too_few = min(too_few, edge)
        guess = edge * (count / target_count) ** (1 / 2.6)
        if too_many > 0 and too_few < np.inf and not too_many < guess < too_few:
            guess = float(np.sqrt(too_many * too_few))
        edge = guess
    assert best is not None
    _, edge, labels, body.left_out = best
    count = int(np.count_nonzero(labels))
    if abs(count / target_count - 1) > TOLERANCE:
        warn(f"{target_count} cubes requested, but the nearest mesh has {count}; continuing")
    return edge, labels


def _expected_edge(body: _Body, target_count: int) -> float:
    """Estimate the size for a number of cubes, from volume and surface."""
    edges = float(body.extent.max()) * np.geomspace(1e-5, 2.0, 2000)
    length = float(body.extent.max())
    counts = body.volume / edges**3 + 0.75 * body.area / edges**2 + length / edges
    return float(edges[np.argmin(np.abs(np.log(counts / target_count)))])


# Cubes of a lattice that triangles intersect, by separating axes, column by column.


@compiled
def _separated(t: Floats, ax: float, ay: float, az: float, half: float) -> bool:
    """Return whether the axis separates the triangle `t` from a cube at 0 of this half edge."""
    p = ax * t[0, 0] + ay * t[0, 1] + az * t[0, 2]
    q = ax * t[1, 0] + ay * t[1, 1] + az * t[1, 2]
    r = ax * t[2, 0] + ay * t[2, 1] + az * t[2, 2]
    reach = half * (abs(ax) + abs(ay) + abs(az))
    return min(p, q, r) > reach or max(p, q, r) < -reach


@compiled
def _touches(t: Floats, half: float, across: float) -> bool:
    """Return whether a triangle intersects a cube at the origin: no axis separates them.
    The half edge is `half` for axes of the lattice and `across` for oblique ones.
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
    """Return the depths along axis `w` at which the triangle's plane passes the column (u, v)."""
    a, b = (w + 1) % 3, (w + 2) % 3
    ea, eb, ew = t[1, a] - t[0, a], t[1, b] - t[0, b], t[1, w] - t[0, w]
    fa, fb, fw = t[2, a] - t[0, a], t[2, b] - t[0, b], t[2, w] - t[0, w]
    na, nb, nw = eb * fw - ew * fb, ew * fa - ea * fw, ea * fb - eb * fa
    if nw == 0.0:  # no area, or parallel to w
        return -np.inf, np.inf
    middle = t[0, w] - (na * (u - t[0, a]) + nb * (v - t[0, b])) / nw
    slack = half * (abs(na) + abs(nb)) / abs(nw)
    return middle - slack, middle + slack


@compiled
def _steepest_axis(t: Floats) -> int:
    """Return the axis along which the projected triangle is largest."""
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
def _mark_touched(
    corners: Floats, half: float, across: float, shape: Ints, grid: NDArray[np.uint8]
) -> Ints:
    """Mark in `grid` the unit cubes that triangles intersect; return the count per triangle, (m,).
    `corners` (m, 3, 3) are in lattice units: cube (i, j, k) is around (i + ½, j + ½, k + ½).
    Its half edge is `half` for the axes of the lattice and `across` for oblique ones.
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
