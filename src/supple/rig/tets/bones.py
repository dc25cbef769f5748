"""Bones inside a body, and the tets that they fix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree

from supple.arrays import Floats, Ints
from supple.checks import numbers
from supple.errors import SuppleError, warn
from supple.mesh.embedding import locate
from supple.mesh.filling.signed_distance import TriangleTree
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.rig.skeleton.joints import Skeleton
from supple.rig.skeleton.skinning import SkinnedRig
from supple.rig.tets.surface_samples import typical_edge

#: A bone's radius as a fraction of its distance to the skin.
BONE_RADIUS = 0.25
#: Length of the last bone of a chain, as a fraction of the distance to the end of its flesh.
TIP = 0.75
# Most points that are tested, however fine the mesh; and directions around a point of a bone.
_MOST_POINTS = 2_000_000
_DIRECTIONS = 24
# Tets nearer than this fraction of an edge touch.
_TOUCH = 0.01


@dataclass(frozen=True, eq=False)
class Bones:
    """Segments of bone, at the neutral pose.

    Attributes
    ----------
    starts, ends
        (b, 3), in metres.
    names
        Names of the joints that move the bones.
    """

    starts: Floats
    ends: Floats
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        starts, ends = numbers("starts of bones", self.starts), numbers("ends of bones", self.ends)
        if not starts.size == ends.size == 3 * len(self.names):
            raise SuppleError("bones need a start, an end and a name each")
        if not (np.isfinite(starts).all() and np.isfinite(ends).all()):
            raise SuppleError("a bone's end is not finite")
        object.__setattr__(self, "starts", starts.reshape(-1, 3).copy())
        object.__setattr__(self, "ends", ends.reshape(-1, 3).copy())
        object.__setattr__(self, "names", tuple(self.names))

    @classmethod
    def of(cls, skeleton: Skeleton, moving: ArrayLike | None = None) -> Bones:
        """Make bones from every joint to each child; a joint without children is a point of bone.

        Parameters
        ----------
        skeleton
            The joints, in their rest pose.
        moving
            (J,) whether a joint moves any of the surface, by default all. Others (controls, targets
            of inverse kinematics) are not bones.
        """
        places = skeleton.rest_world()[:, :3, 3]
        children = np.flatnonzero(skeleton.parents >= 0)
        leaves = np.setdiff1d(np.arange(skeleton.n_joints), skeleton.parents)
        # A leaf is the end of its parent's bone already, but some skeletons are flat.
        ends = np.concatenate([children, leaves])
        joints = np.concatenate([skeleton.parents[children], leaves])
        if moving is not None:
            kept = np.asarray(moving, bool)[joints]
            ends, joints = ends[kept], joints[kept]
        return cls(places[joints], places[ends], tuple(skeleton.names[joint] for joint in joints))

    @classmethod
    def of_rig(cls, rig: SkinnedRig) -> Bones:
        """Make bones of the joints that the surface follows.

        The last joint of a chain, such as a hand or a head, has a bone, too: most of the way to the
        end of the vertices that follow it most. A hand held at a point only would flap.
        """
        moving = np.zeros(rig.skeleton.n_joints, bool)
        moving[np.unique(rig.joints[rig.weights > 0])] = True
        bones = cls.of(rig.skeleton, moving)
        ends = bones.ends.copy()
        leads = rig.joints[np.arange(len(rig.joints)), np.argmax(rig.weights, axis=1)]
        skin = rig(rig.rest_pose)
        for bone in np.flatnonzero((bones.starts == bones.ends).all(axis=1)):
            flesh = skin[leads == rig.skeleton.joint(bones.names[bone])] - bones.starts[bone]
            if len(flesh):
                along = flesh.mean(axis=0)
                along /= max(float(np.linalg.norm(along)), np.finfo(float).tiny)
                ends[bone] += TIP * max(float((flesh @ along).max()), 0.0) * along
        return cls(bones.starts, ends, bones.names)


@dataclass(frozen=True, eq=False)
class HeldTets:
    """Tets that touch a bone and their vertices, which are fixed, both ascending.

    `bones_inside` is the number of bones that are at least partly inside the body.
    """

    tets: Ints
    vertices: Ints
    bones_inside: int


def held_tets(
    bones: Bones, surface: SurfaceMesh, mesh: TetMesh, radius: float = BONE_RADIUS
) -> HeldTets:
    """Return the tets that touch a bone.

    Parameters
    ----------
    bones
        The bones, at the neutral pose. Parts outside the body hold nothing.
    surface
        The skin.
    mesh
        The tets inside of it.
    radius
        Radius of a bone at each of its points, as a fraction of the distance from there to the
        skin. 0 selects the tets that the bone's axis touches.

    Warns
    -----
    SuppleWarning
        If no tet, or every vertex, is held.
    """
    if not 0 <= radius < 1:
        raise SuppleError(f"bone radius {radius}; it must be at least 0 and less than 1")
    spacing = 0.25 * typical_edge(mesh)
    points, bone = _along_axes(bones, spacing, mesh)
    where = locate(points, mesh)
    inside = where.distance == 0
    held = [where.tet[inside]]
    points, bone = points[inside], bone[inside]
    if len(points):
        # Not zero: an axis along faces or edges touches all tets there.
        radii = np.maximum(radius * _depths(points, surface), _TOUCH * typical_edge(mesh))
        around = locate(_around_axes(points, radii, spacing), mesh)
        held.append(around.tet[around.distance == 0])
        distances, nearest = cKDTree(points).query(mesh.vertices)
        held.append(np.flatnonzero((distances <= radii[nearest])[mesh.tets].any(axis=1)))
    tets = np.unique(np.concatenate(held))
    vertices = np.unique(mesh.tets[tets])
    if len(tets) == 0:
        warn(f"none of {len(bones.names)} bones is inside of the body; nothing holds its flesh")
    elif len(vertices) == len(mesh.vertices):
        warn("bones hold every tet; lower their radius, or use more tets")
    return HeldTets(tets, vertices, len(np.unique(bone)))


def _along_axes(bones: Bones, spacing: float, mesh: TetMesh) -> tuple[Floats, Ints]:
    """Return points on the bones, clipped to the body's box, and the bone of each."""
    first, last = _clipped(bones, *mesh.bounds)
    ids = np.flatnonzero(last >= first)
    lengths = (last - first)[ids] * np.linalg.norm(bones.ends - bones.starts, axis=1)[ids]
    counts = np.ceil(lengths / spacing).astype(np.int64) + 2
    if counts.sum() > _MOST_POINTS:
        raise SuppleError(f"{len(ids)} bones are too many for such small tets; use fewer tets")
    bone = np.repeat(ids, counts)
    step = np.arange(len(bone)) - np.repeat(np.cumsum(counts) - counts, counts)
    t = first[bone] + (last - first)[bone] * step / np.repeat(counts - 1, counts)
    return bones.starts[bone] + t[:, None] * (bones.ends - bones.starts)[bone], bone


def _clipped(bones: Bones, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return first and last parameter of each segment within a box; the last smaller if outside."""
    along = bones.ends - bones.starts
    with np.errstate(divide="ignore", invalid="ignore"):
        a, b = (low - bones.starts) / along, (high - bones.starts) / along
    still = along == 0
    outside = still & ((bones.starts < low) | (bones.starts > high))
    a = np.where(still, np.where(outside, np.inf, -np.inf), a)
    b = np.where(still, np.where(outside, -np.inf, np.inf), b)
    first = np.minimum(a, b).max(axis=1).clip(min=0)
    last = np.maximum(a, b).min(axis=1).clip(max=1)
    last[outside.any(axis=1)] = -1.0
    first[outside.any(axis=1)] = 0.0
    return first, last


def _depths(points: Floats, surface: SurfaceMesh) -> Floats:
    sound = np.delete(surface.triangles, surface.degenerate_triangles(), axis=0)
    if len(sound) == 0:
        raise SuppleError(
            "no triangle of the surface has an area; the radii of bones cannot be measured"
        )
    return TriangleTree(surface.vertices, sound).distance(points)


def _around_axes(points: Floats, radii: Floats, spacing: float) -> Floats:
    """Return points (k, 3) of concentric spheres that fill the balls of `radii` around `points`."""
    k = np.arange(_DIRECTIONS) + 0.5
    polar, azimuth = np.arccos(1 - 2 * k / _DIRECTIONS), np.pi * (1 + 5**0.5) * k
    sphere = np.column_stack(
        [np.cos(azimuth) * np.sin(polar), np.sin(azimuth) * np.sin(polar), np.cos(polar)]
    )
    shells = max(1, int(np.ceil(radii.max() / (2 * spacing))))
    most = max(1, _MOST_POINTS // (_DIRECTIONS * shells))
    thin = max(1, -(-len(points) // most))
    parts = [
        (points[::thin, None] + (radii[::thin] * (s + 1) / shells)[:, None, None] * sphere)
        for s in range(shells)
    ]
    return np.concatenate(parts).reshape(-1, 3)
