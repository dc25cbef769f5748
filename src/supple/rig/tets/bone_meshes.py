"""Meshes of bones, and tets that conform to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import igl
import numpy as np

from supple.arrays import Floats, Ints
from supple.checks import checked_indices
from supple.errors import SuppleError
from supple.mesh.filling.signed_distance import outward_triangles
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.mesh.topology import components
from supple.rig.tets.surface_samples import typical_edge

#: Vertices within this fraction of an edge are moved onto the bone.
SNAPPED = 0.4
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
    """Move vertices of tets onto nearby bones; return the tets and their vertices in bones.

    Boundary vertices are never bone nor moved: bones that stick out of the skin end one tet below
    it. A bone too small for the tets holds the vertex nearest to its middle; a connected body of
    tets without any bone is held as a whole.
    """
    surface, edge = bones.surface, typical_edge(mesh)
    inner = np.setdiff1d(np.unique(mesh.tets), np.unique(mesh.boundary()))
    if not len(inner):
        raise SuppleError("the tets have no inner vertex; use more tets")
    vertices, inside = mesh.vertices.copy(), np.zeros(len(mesh.vertices), bool)
    squared, triangle, projections = igl.point_mesh_squared_distance(
        mesh.vertices[inner], surface.vertices, surface.triangles
    )
    facing = outward_triangles(surface.vertices, surface.triangles)
    winding = igl.fast_winding_number(surface.vertices, facing, mesh.vertices[inner])
    near = np.sqrt(squared) < SNAPPED * edge
    vertices[inner[near]] = projections[near]
    back = _flattened(mesh, vertices, inner[near])
    vertices[back] = mesh.vertices[back]
    inside[inner[near]] = True
    inside[back] = False
    inside[inner] |= np.abs(winding) > 0.5
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
    return BoneTets(TetMesh(vertices, mesh.tets, mesh.sets), held, bones.joints[owner[held]])


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
