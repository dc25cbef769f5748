"""Meshes of bones, and tets that conform to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import igl
import numpy as np

from supple.arrays import Bools, Floats, Ints
from supple.checks import checked_indices
from supple.errors import SuppleError
from supple.mesh.filling.bisection import cut, refined
from supple.mesh.filling.signed_distance import outward_triangles
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import EDGES, TetMesh
from supple.mesh.topology import components
from supple.rig.tets.surface_samples import typical_edge

#: Edges at a bone are at most this many of its radii, but not shorter than this part of the tets'
#: typical edge; and most tets after refinement, per tet before.
EDGE, LEAST_EDGE, MOST_TETS = 2.2, 0.3, 1.5
#: Vertices within this fraction of their shortest edge are moved onto the bone.
SNAPPED = 0.3
#: Moved vertices go back if a tet would keep less than this fraction of its volume.
LEAST_VOLUME = 0.2


@dataclass(frozen=True, eq=False)
class BoneMeshes:
    """Surfaces of bones, at rest, and the joints with which they rotate.

    Attributes
    ----------
    surface
        All bones; each should be closed. Parts outside of the skin are cut off.
    bone
        (n,) bone of each vertex.
    names
        (b,) names of the bones.
    joints
        (b,) joint of the skeleton with which each rotates.

    Examples
    --------
    >>> cube = SurfaceMesh([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], [[0, 2, 1], [0, 1, 3]])
    >>> BoneMeshes(cube, [0, 0, 0, 0], ("ulna",), [1]).names
    ('ulna',)
    """

    surface: SurfaceMesh
    bone: Ints
    names: tuple[str, ...]
    joints: Ints

    def __post_init__(self) -> None:
        """Check the shapes and indices of the arrays."""
        if not isinstance(self.surface, SurfaceMesh):
            raise SuppleError("bones need a SurfaceMesh")
        object.__setattr__(self, "names", tuple(self.names))
        count = len(self.names)
        bone = checked_indices("bone", self.bone, count)
        n = len(self.surface.vertices)
        if bone.shape != (n,):
            raise SuppleError(f"bone has {bone.size:,} entries; give one for each vertex ({n:,})")
        joints = np.asarray(self.joints)
        if joints.shape != (count,) or joints.dtype.kind not in "iu" or (joints < 0).any():
            raise SuppleError(f"joints must be {count} indices of joints, one for each bone")
        object.__setattr__(self, "bone", bone)
        object.__setattr__(self, "joints", joints.astype(np.int64))


class BoneTets(NamedTuple):
    """Tets that conform to bones."""

    mesh: TetMesh
    """The tets, vertices near the surface of a bone moved onto it."""
    held: Ints
    """Vertices in bones or on them, ascending."""
    joints: Ints
    """(k,) joint of each vertex in `held`."""


def meet_bones(mesh: TetMesh, bones: BoneMeshes) -> BoneTets:
    """Refine tets near bones and move their vertices onto them; return also those in bones.

    Boundary vertices are never bone nor moved: bones that stick out of the skin end one tet below
    it. A bone too small for the tets holds the vertex nearest to its middle; a connected body of
    tets without any bone is held as a whole.
    """
    surface = bones.surface
    most = int(MOST_TETS * len(mesh.tets))
    mesh = refined(mesh, _near_bones(bones, typical_edge(mesh)), most)
    inner = np.setdiff1d(np.unique(mesh.tets), np.unique(mesh.boundary()))
    if not len(inner):
        raise SuppleError("the tets have no inner vertex; use more tets")
    mesh, inside, inner = _conforming(mesh, inner, bones)
    vertices = mesh.vertices
    _, triangle, _ = igl.point_mesh_squared_distance(
        vertices[inner], surface.vertices, surface.triangles
    )
    owner = np.zeros(len(mesh.vertices), np.int64)
    owner[inner] = bones.bone[surface.triangles[triangle, 0]]
    for bone in range(len(bones.names)):
        points = surface.vertices[bones.bone == bone]
        if len(points) and not (inside & (owner == bone)).any():
            nearest = inner[np.linalg.norm(vertices[inner] - points.mean(axis=0), axis=1).argmin()]
            inside[nearest], owner[nearest] = True, bone
    body = components(mesh.tets, len(mesh.vertices))
    has_bone = np.zeros(int(body.max()) + 1, bool)
    np.logical_or.at(has_bone, body, inside[mesh.tets].any(axis=1))
    boneless = np.unique(mesh.tets[~has_bone[body]])
    if len(boneless):
        _, triangle, _ = igl.point_mesh_squared_distance(
            mesh.vertices[boneless], surface.vertices, surface.triangles
        )
        inside[boneless], owner[boneless] = True, bones.bone[surface.triangles[triangle, 0]]
    held = np.flatnonzero(inside)
    return BoneTets(mesh, held, bones.joints[owner[held]])


def _conforming(mesh: TetMesh, inner: Ints, bones: BoneMeshes) -> tuple[TetMesh, Bools, Ints]:
    """Return tets that conform to bones, the mask (n,) of vertices in them, and inner vertices.

    Inner vertices near the surface of a bone are moved onto it, and edges that still cross it are
    cut.
    """
    surface = bones.surface
    squared, _, projections = igl.point_mesh_squared_distance(
        mesh.vertices[inner], surface.vertices, surface.triangles
    )
    facing = outward_triangles(surface.vertices, surface.triangles)
    winding = igl.fast_winding_number(surface.vertices, facing, mesh.vertices[inner])
    distances = np.sqrt(squared)
    near = distances < SNAPPED * _shortest_edges(mesh)[inner]
    vertices = mesh.vertices.copy()
    vertices[inner[near]] = projections[near]
    back = _flattened(mesh, vertices, inner[near])
    vertices[back] = mesh.vertices[back]
    levels = np.full(len(vertices), np.median(distances))  # skin is outside of bones
    levels[inner] = np.where(np.abs(winding) > 0.5, -distances, distances)
    levels[np.setdiff1d(inner[near], back)] = 0.0
    levels[back[levels[back] == 0]] = 1e-300
    moved, levels = cut(TetMesh(vertices, mesh.tets, mesh.sets), levels)
    inner = np.setdiff1d(np.unique(moved.tets), np.unique(moved.boundary()))
    inside = np.zeros(len(levels), bool)
    inside[inner] = levels[inner] <= 0
    return moved, inside, inner


def _near_bones(bones: BoneMeshes, edge: float) -> Callable[[Floats, Ints, Floats], Bools]:
    """Return the function that marks tets at bones which are too large for their bone.

    The radius of a bone is that of a cylinder with its volume and area.
    """
    triangles, points = bones.surface.triangles, bones.surface.vertices
    owner = bones.bone[triangles[:, 0]]
    count = len(bones.names)
    a, b, c = (points[triangles[:, k]] for k in range(3))
    areas = np.bincount(owner, np.linalg.norm(np.cross(b - a, c - a), axis=1) / 2, count)
    volumes = np.abs(np.bincount(owner, (np.cross(a, b) * c).sum(axis=1) / 6, count))
    radii = 2 * volumes / np.maximum(areas, 1e-300)
    largest = np.clip(EDGE * radii, LEAST_EDGE * edge, np.inf)

    def marked(vertices: Floats, tets: Ints, longest: Floats) -> Bools:
        middles = vertices[tets].mean(axis=1)
        squared, nearest, _ = igl.point_mesh_squared_distance(middles, points, triangles)
        near = np.sqrt(squared) < 0.5 * longest
        return np.asarray(near & (longest > largest[owner[nearest]]), bool)

    return marked


def _shortest_edges(mesh: TetMesh) -> Floats:
    """Return the length (n,) of the shortest edge at each vertex."""
    ends = mesh.tets[:, EDGES]
    lengths = np.linalg.norm(mesh.vertices[ends[..., 0]] - mesh.vertices[ends[..., 1]], axis=2)
    shortest = np.full(len(mesh.vertices), np.inf)
    for k in range(2):
        np.minimum.at(shortest, ends[..., k], lengths)
    return shortest


def _flattened(mesh: TetMesh, moved: Floats, snapped: Ints) -> Ints:
    """Return snapped vertices to move back, so that tets keep `LEAST_VOLUME` of their volume."""
    volumes, back = mesh.volumes(), np.zeros(len(moved), bool)
    is_snapped, trial = np.zeros(len(moved), bool), moved.copy()
    is_snapped[snapped] = True
    for _ in range(len(snapped) + 1):
        bad = TetMesh(trial, mesh.tets).volumes() < LEAST_VOLUME * volumes
        corners = np.unique(mesh.tets[bad])
        corners = corners[is_snapped[corners] & ~back[corners]]
        if not len(corners):
            break
        back[corners] = True
        trial[corners] = mesh.vertices[corners]
    return np.flatnonzero(back)
