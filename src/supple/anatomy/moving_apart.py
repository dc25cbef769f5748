"""Tets between parts of the skin that move apart: found by the motions, and taken out.

Isosurface stuffing fills narrow gaps, between a tail and a rump or an instrument and the hands that
play it. Tets there are torn or turned inside out as soon as the parts move.
"""

from __future__ import annotations

import igl
import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import dijkstra

from supple.anatomy.anatomy import Anatomy
from supple.anatomy.bone_cores import flesh_triangles
from supple.arrays import Bools, Floats, Ints
from supple.mesh.embedding import locate
from supple.mesh.filling.stuffing import split_pinches
from supple.mesh.tets import EDGES, TetMesh
from supple.mesh.topology import row_keys
from supple.rig.character import Character
from supple.rig.poses.farthest_poses import farthest_poses
from supple.rig.tets.surface_samples import typical_edge

__all__ = ["without_bridges"]

#: Places of the skin move apart that come this many cells nearer or farther than at rest.
APART = 0.5
#: They belong to different folds of the skin where the way along it is this many times longer.
ALONG = 3.0
#: Poses that are tried, far from each other.
POSES = 24
#: Skin may be this many cells away from the tets that carry it.
MOST_AWAY = 0.75


def without_bridges(character: Character, mesh: TetMesh, anatomy: Anatomy) -> TetMesh:
    """Return the tets without those that join skin which moves apart.

    An edge of a tet is a bridge if the places of the skin nearest to its ends move relatively by
    more than half a cell over the motions, are more than three times farther along the skin than
    straight, and the segment between them leaves the body. Tets that skin cannot do without stay.
    """
    frames = character.sampled_poses()
    if len(frames) < 2:
        return mesh
    bridging = _bridging_tets(character, mesh, anatomy, frames)
    if not bridging.any():
        return mesh
    skin = character.surface.vertices[np.unique(flesh_triangles(anatomy))]
    kept = _needed(skin, mesh, bridging)
    if kept.all() or not kept.any():
        return mesh
    used, tets = np.unique(mesh.tets[kept], return_inverse=True)
    return TetMesh(*split_pinches(mesh.vertices[used], tets.reshape(-1, 4)))


def _bridging_tets(character: Character, mesh: TetMesh, anatomy: Anatomy, frames: Floats) -> Bools:
    """(T,) which tets have an edge that joins skin which moves apart."""
    surface, cell = character.surface, typical_edge(mesh)
    ends = np.sort(mesh.tets[:, EDGES].reshape(-1, 2), axis=1)
    keys, edge_of = np.unique(row_keys(ends, len(mesh.vertices)), return_inverse=True)
    a, b = keys // len(mesh.vertices), keys % len(mesh.vertices)
    triangles = flesh_triangles(anatomy)
    nearest = _nearest_vertices(surface.vertices, triangles, mesh.vertices)
    p, q = nearest[a], nearest[b]
    straight = np.linalg.norm(surface.vertices[p] - surface.vertices[q], axis=1)
    found = (p != q) & _leaves(anatomy, surface.vertices[p], surface.vertices[q])
    at = np.flatnonzero(found)
    moved = np.zeros(len(at))
    chosen = frames[farthest_poses(character.rig, frames, min(POSES, len(frames)))]
    for pose in chosen:
        skin = character.rig(pose)
        now = np.linalg.norm(skin[p[at]] - skin[q[at]], axis=1)
        np.maximum(moved, np.abs(now - straight[at]), out=moved)
    at = at[moved > APART * cell]
    at = at[_far_along(surface.vertices, surface.triangles, p[at], q[at], straight[at])]
    bridge = np.zeros(len(keys), bool)
    bridge[at] = True
    return np.asarray(bridge[edge_of].reshape(-1, 6).any(axis=1), bool)


def _nearest_vertices(vertices: Floats, triangles: Ints, points: Floats) -> Ints:
    """(m,) the corner nearest to the nearest place of the surface."""
    tree = igl.AABB()
    tree.init(vertices, triangles)
    _, triangle, place = tree.squared_distance(vertices, triangles, points)
    corners = triangles[triangle]
    away = np.linalg.norm(vertices[corners] - place[:, None], axis=2)
    return corners[np.arange(len(corners)), away.argmin(axis=1)]


def _leaves(anatomy: Anatomy, starts: Floats, ends: Floats) -> Bools:
    """Whether segments have a point outside of the body."""
    outside = np.zeros(len(starts), bool)
    for part in (0.25, 0.5, 0.75):
        outside |= anatomy.balls.depth(starts + part * (ends - starts)) < 0
    return outside


def _far_along(
    vertices: Floats, triangles: Ints, starts: Ints, ends: Ints, straight: Floats
) -> Bools:
    """Whether the way along the edges of the skin is so many times longer than straight."""
    if not len(starts):
        return np.zeros(0, bool)
    sides = triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
    lengths = np.linalg.norm(vertices[sides[:, 0]] - vertices[sides[:, 1]], axis=1)
    n = len(vertices)
    graph = sp.coo_array((lengths, (sides[:, 0], sides[:, 1])), (n, n)).tocsr()
    # Summing made an edge of two triangles twice as long.
    counts = sp.coo_array((np.ones(len(sides)), (sides[:, 0], sides[:, 1])), (n, n)).tocsr()
    graph.data /= counts.data
    sources, row = np.unique(starts, return_inverse=True)
    limit = ALONG * float(straight.max())
    far = np.zeros(len(starts), bool)
    for first in range(0, len(sources), 256):  # rows of n distances each
        here = (row >= first) & (row < first + 256)
        if here.any():
            along = dijkstra(graph, False, sources[first : first + 256], limit=limit)
            far[here] = along[row[here] - first, ends[here]] > ALONG * straight[here]
    return far


def _needed(skin: Floats, mesh: TetMesh, bridging: Bools) -> Bools:
    """(T,) the tets that stay: all but bridges, and bridges that skin would miss."""
    kept = ~bridging
    if not kept.any():
        return kept
    cell = typical_edge(mesh)
    away = locate(skin, TetMesh(mesh.vertices, mesh.tets[kept])).distance
    missing = np.flatnonzero(away > MOST_AWAY * cell)
    if len(missing):
        kept[locate(skin[missing], mesh).tet] = True
    return kept
