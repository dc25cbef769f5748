"""Handles: points or segments at the centres of regions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.checks import numbers
from supple.errors import SuppleError
from supple.mesh.embedding import locate
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.reduction.regions.limbs import MOST_LIMBS, Limb, limbs_of
from supple.rig.protocol import Rig
from supple.rig.skeleton.skinning import skinned_rigs
from supple.rig.tets.bones import Bones
from supple.rig.tets.surface_samples import typical_edge

# Largest distance of a handle outside of the body, relative to the body's size or in edges of its
# tets, whichever is larger.
_FAR = 0.05
_FAR_EDGES = 2.0
# Rounding error of barycentric coordinates: a segment in a face is in the tets on both sides.
_TOUCH = 1e-9
# Most points of a segment that are located.
_MOST_POINTS = 10_000
# A limb has a handle if it has this fraction of the vertices that move.
_LEAST_MOVING = 0.01
# Range of a limb's path that its handle covers: a limb begins inside of the trunk.
_LIMB_PART = (0.3, 0.75)
_TRUNK_PART = (0.1, 0.9)


@dataclass(frozen=True, eq=False)
class Handle:
    """Point (1, 3) or segment (2, 3) of the rest shape at which a region's weight is 1.

    Attributes
    ----------
    name
        Name of the region.
    points
        One or two points, in metres.
    """

    name: str
    points: Floats

    def __post_init__(self) -> None:
        points = numbers(f'points of handle "{self.name}"', self.points).copy()
        if points.shape not in ((1, 3), (2, 3)):
            raise SuppleError(
                f'handle "{self.name}" is a point (1, 3) or a segment (2, 3), not {points.shape}'
            )
        if not np.isfinite(points).all():
            raise SuppleError(f'handle "{self.name}" has a point that is not finite')
        points.setflags(write=False)
        object.__setattr__(self, "points", points)


def handle_vertices(mesh: TetMesh, handles: Sequence[Handle]) -> tuple[Ints, ...]:
    """Return the vertices of the tets that each handle passes through. A vertex of two handles
    belongs to the first of them. A handle outside of the body has the vertices of the nearest tet;
    a handle that is far outside, or whose vertices all belong to others, is refused.
    """
    handle_of = np.full(len(mesh.vertices), -1)
    lists = []
    for index, handle in enumerate(handles):
        crossed = np.unique(mesh.tets[_tets_along(mesh, handle)])
        vertices = crossed[handle_of[crossed] < 0]
        if len(vertices) == 0:
            other = handles[int(handle_of[crossed[0]])].name
            raise SuppleError(
                f'handle "{handle.name}" is in the same tets as "{other}"; '
                "move them apart, drop one, or use more tets"
            )
        handle_of[vertices] = index
        lists.append(vertices)
    return tuple(lists)


def _along(mesh: TetMesh, points: Floats) -> Floats:
    """Return points from the first to the last, a quarter of an edge apart."""
    length = float(np.linalg.norm(points[-1] - points[0]))
    count = int(min(np.ceil(length / (0.25 * typical_edge(mesh))) + 1, _MOST_POINTS))
    return points[0] + np.linspace(0, 1, count)[:, None] * (points[-1] - points[0])


def _tets_along(mesh: TetMesh, handle: Handle) -> Ints:
    if len(handle.points) == 2:
        crossed = _crossed(mesh, *handle.points)
        if len(crossed):
            return crossed
    where = locate(_along(mesh, handle.points), mesh)
    nearest = int(np.argmin(where.distance))
    distance = float(where.distance[nearest])
    if distance > max(_FAR * mesh.size, _FAR_EDGES * typical_edge(mesh)):
        raise SuppleError(
            f'handle "{handle.name}" is {distance:.3g} m outside of the body; move it in'
        )
    return where.tet[nearest : nearest + 1]


def _crossed(mesh: TetMesh, start: Floats, end: Floats) -> Ints:
    """Return the tets that a segment passes through, by its linear barycentric coordinates."""
    corners = mesh.vertices[mesh.tets]
    low, high = np.minimum(start, end), np.maximum(start, end)
    near = (corners.min(axis=1) <= high).all(axis=1) & (corners.max(axis=1) >= low).all(axis=1)
    near[mesh.degenerate_tets()] = False
    tets = np.flatnonzero(near)
    sides = (corners[tets, 1:] - corners[tets, :1]).transpose(0, 2, 1)
    ends = np.stack([start - corners[tets, 0], end - corners[tets, 0]], axis=2)
    inner = np.linalg.solve(sides, ends)
    at = np.concatenate([1 - inner.sum(axis=1, keepdims=True), inner], axis=1)
    begin, slope = at[:, :, 0] + _TOUCH, at[:, :, 1] - at[:, :, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing = -begin / slope
    first = np.where(slope > 0, crossing, np.where((slope == 0) & (begin < 0), np.inf, 0.0))
    last = np.where(slope < 0, crossing, 1.0)
    passed = np.minimum(last.min(axis=1), 1.0) - np.maximum(first.max(axis=1), 0.0)
    return tets[passed > 2 * _TOUCH]


def checked_fixed(fixed: ArrayLike | None, n_vertices: int) -> Ints:
    """Return checked vertex numbers, ascending and without repetitions; empty if None."""
    if fixed is None:
        return np.empty(0, np.int64)
    listed = np.asarray(fixed)
    if listed.size == 0:
        return np.empty(0, np.int64)
    if listed.ndim != 1 or listed.dtype.kind not in "iu" or listed.min() < 0:
        raise SuppleError("fixed vertices must be a list of vertex numbers")
    if listed.max() >= n_vertices:
        raise SuppleError(f"fixed vertex {listed.max()} does not exist; use 0 to {n_vertices - 1}")
    return np.unique(listed.astype(np.int64))


def handles_from_bones(
    rig: Rig,
    surface: SurfaceMesh,
    mesh: TetMesh,
    *,
    fixed: ArrayLike | None = None,
    most: int = MOST_LIMBS,
) -> tuple[Handle, ...]:
    """Return a handle for the trunk and for each limb of the rig's skeleton.

    Handles are where the weights W of regions are 1; elsewhere W minimise ∫ |ΔW|², bounded and
    adding up to 1 (xu2016 §7, see `handle_weights`). In the paper an artist places them.

    Parameters
    ----------
    rig
        Any rig; without a skeleton there are no handles, and the body is one region.
    surface, mesh
        The skin and the tets inside, at the rig's rest pose.
    fixed
        (f,) tet vertices that do not move. A limb without flesh, such as a thin limb that is all
        bone, has no handle.
    most
        Largest number of handles.

    Returns
    -------
    tuple of Handle
        The trunk first. Each has the name of the joint with most of its flesh.

    See Also
    --------
    supple.reduction.regions.limbs.limbs_of : how joints are grouped.
    """
    if isinstance(most, bool) or not isinstance(most, (int, np.integer)) or most < 1:
        raise SuppleError(f"most is {most!r}; use a positive number of handles")
    skinned = skinned_rigs(rig)
    if len(skinned) != 1 or not Bones.of_rig(skinned[0]).names:
        return ()
    limbs = limbs_of(skinned[0], surface, mesh, most=int(most))
    moving = np.ones(len(mesh.vertices), bool)
    moving[checked_fixed(fixed, len(moving))] = False
    free = np.ones(len(mesh.vertices), bool)
    handles = []
    for limb in limbs:
        if moving[limb.vertices].sum() < _LEAST_MOVING * moving.sum():
            continue
        handle = Handle(limb.name, _inside(mesh, limb))
        vertices = np.unique(mesh.tets[_tets_along(mesh, handle)])
        # Limbs that are small compared with the tets join their neighbour.
        if free[vertices].any():
            free[vertices] = False
            handles.append(handle)
    return tuple(handles)


def _inside(mesh: TetMesh, limb: Limb) -> Floats:
    """Return a point or segment in the flesh of a limb: on its path, a bone, or its centre."""
    part = _LIMB_PART if limb.is_end else _TRUNK_PART
    path = limb.path[locate(limb.path, mesh).distance == 0]
    steps = np.linalg.norm(np.diff(path, axis=0), axis=1)
    candidates = []
    if steps.sum() > 0:
        longest = int(np.argmax(steps))
        candidates = [_between(path, part), _between(path[longest : longest + 2], (0.2, 0.8))]
    for points in candidates:
        if (locate(_along(mesh, points), mesh).distance == 0).mean() >= 0.9:
            return points
    flesh = mesh.vertices[limb.vertices]
    nearest = np.argmin(np.linalg.norm(flesh - limb.middle, axis=1))
    return flesh[nearest : nearest + 1]


def _between(path: Floats, part: tuple[float, float]) -> Floats:
    """Return two points of a path, at these fractions of its length."""
    steps = np.linalg.norm(np.diff(path, axis=0), axis=1)
    along = np.concatenate([[0.0], np.cumsum(steps)])
    lengths = np.array(part) * along[-1]
    return np.column_stack([np.interp(lengths, along, path[:, axis]) for axis in range(3)])
