"""Handles: where the regions of a body have their middle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from supple.checks import numbers
from supple.errors import SuppleError
from supple.mesh import SurfaceMesh, TetMesh, locate
from supple.reduction.limbs import MOST_LIMBS, Limb, limbs_of
from supple.rig.bones import Bones
from supple.rig.flesh import _skinned_rigs
from supple.rig.protocol import Rig
from supple.rig.surface_samples import typical_edge

__all__ = ["Handle", "handle_vertices", "handles_from_bones"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# A handle no part of which is inside may be this far outside, in parts of the body's size or in
# edges of its tets, whichever is more.
_FAR = 0.05
_FAR_EDGES = 2.0
# However fine the tets, a segment is tried at no more points than this.
_MOST_POINTS = 10_000
# The part of a limb's path its handle takes: a limb begins inside of the trunk, and ends where
# nothing needs to be held.
_LIMB_PART = (0.3, 0.75)
_TRUNK_PART = (0.1, 0.9)


@dataclass(frozen=True, eq=False)
class Handle:
    """Where a region's weight is 1 in the rest shape: a point (1, 3) or a segment (2, 3).

    Attributes
    ----------
    name
        The region's.
    points
        One or two places, in metres.
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
    """The vertices of the tets that each handle passes through.

    A vertex that two handles want belongs to the first of them. A handle outside of the body
    takes the nearest tets.

    Raises
    ------
    SuppleError
        If a handle is far outside, or others have all of its vertices.
    """
    taken = np.full(len(mesh.vertices), -1)
    found = []
    for index, handle in enumerate(handles):
        wanted = np.unique(mesh.tets[_tets_along(mesh, handle)])
        own = wanted[taken[wanted] < 0]
        if len(own) == 0:
            other = handles[int(taken[wanted[0]])].name
            raise SuppleError(
                f'handle "{handle.name}" is in the same tets as "{other}"; '
                "move them apart, drop one, or use more tets"
            )
        taken[own] = index
        found.append(own)
    return tuple(found)


def _along(mesh: TetMesh, points: Floats) -> Floats:
    """Places from the first to the last point, a quarter of an edge apart."""
    length = float(np.linalg.norm(points[-1] - points[0]))
    count = int(min(np.ceil(length / (0.25 * typical_edge(mesh))) + 1, _MOST_POINTS))
    return points[0] + np.linspace(0, 1, count)[:, None] * (points[-1] - points[0])


def _tets_along(mesh: TetMesh, handle: Handle) -> Ints:
    where = locate(_along(mesh, handle.points), mesh)
    inside = where.distance == 0
    if inside.any():
        return np.unique(where.tet[inside])
    nearest = int(np.argmin(where.distance))
    away = float(where.distance[nearest])
    if away > max(_FAR * mesh.size, _FAR_EDGES * typical_edge(mesh)):
        raise SuppleError(f'handle "{handle.name}" is {away:.3g} m outside of the body; move it in')
    return where.tet[nearest : nearest + 1]


def handles_from_bones(
    rig: Rig, surface: SurfaceMesh, mesh: TetMesh, *, most: int = MOST_LIMBS
) -> tuple[Handle, ...]:
    """A handle for the trunk and for each limb, found from the rig's skeleton.

    Parameters
    ----------
    rig
        Any; without a skeleton there are no handles, and the body is one region.
    surface, mesh
        The skin and the tets inside, at the rig's rest pose.
    most
        How many handles at most.

    Returns
    -------
    tuple of Handle
        The trunk first. Each is called after the joint that carries most of its flesh.

    See Also
    --------
    supple.reduction.limbs.limbs_of : how joints are grouped.
    """
    if isinstance(most, bool) or not isinstance(most, (int, np.integer)) or most < 1:
        raise SuppleError(f"at most {most!r} handles; use a whole number from 1")
    skinned = _skinned_rigs(rig)
    if len(skinned) != 1 or not Bones.of_rig(skinned[0]).names:
        return ()
    limbs = limbs_of(skinned[0], surface, mesh, most=int(most))
    free = np.ones(len(mesh.vertices), bool)
    handles = []
    for limb in limbs:
        handle = Handle(limb.name, _inside(mesh, limb))
        vertices = np.unique(mesh.tets[_tets_along(mesh, handle)])
        # Limbs too small for the tets stay with their neighbour.
        if free[vertices].any():
            free[vertices] = False
            handles.append(handle)
    return tuple(handles)


def _inside(mesh: TetMesh, limb: Limb) -> Floats:
    """A point or segment within the flesh of a limb: along its path, a bone of it, its middle."""
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
    """Two places on a path, at these parts of its length."""
    steps = np.linalg.norm(np.diff(path, axis=0), axis=1)
    along = np.concatenate([[0.0], np.cumsum(steps)])
    places = np.array(part) * along[-1]
    return np.column_stack([np.interp(places, along, path[:, axis]) for axis in range(3)])
