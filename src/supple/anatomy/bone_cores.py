"""Cores of bone: which tet vertices do not move, and how stiff the flesh around them is."""

from __future__ import annotations

import igl
import numpy as np

from supple.anatomy.anatomy import Anatomy
from supple.anatomy.roles import HARD
from supple.arrays import Bools, Floats, Ints
from supple.mesh.tets import TetMesh
from supple.mesh.topology import components
from supple.rig.character import Character
from supple.rig.skeleton.skinning import skinned_rigs
from supple.rig.tets.bones import BONE_RADIUS, Bones, held_tets
from supple.rig.tets.surface_samples import typical_edge

__all__ = ["RIDING", "flesh_factors", "flesh_triangles", "held_vertices", "skin_values"]

#: Set of the tets whose skin rides on the rig.
RIDING = "rides on the rig"

#: Flesh thinner than this part of a cell's edge is too soft in such cells: they bend as a whole.
#: So many times as stiff at most.
CELL, STIFFEST = 0.7, 100.0
#: Flesh thinner than this part of the trunk's radius is as stiff as flesh of that thickness.
THINNEST = 0.02


def skin_values(anatomy: Anatomy, values: Floats, points: Floats, triangles: Ints) -> Floats:
    """(m,) values (n̄,) of the skin at the nearest place of some triangles to points (m, 3)."""
    surface = anatomy.surface
    tree, size = igl.AABB(), max(surface.size, np.finfo(float).tiny)
    vertices = surface.vertices / size
    tree.init(vertices, triangles)
    _, triangle, place = tree.squared_distance(vertices, triangles, points / size)
    corners = triangles[triangle]
    a, b, c = (vertices[corners[:, k]] for k in range(3))
    shares = _barycentric(place, a, b, c)
    found: Floats = np.einsum("kc,kc->k", shares, values[corners])
    return found


def _barycentric(points: Floats, a: Floats, b: Floats, c: Floats) -> Floats:
    """(m, 3) shares of corners at points of triangles; of the first corner where there is none."""
    u, v, w = b - a, c - a, points - a
    uu, uv, vv = (np.einsum("ij,ij->i", p, q) for p, q in ((u, u), (u, v), (v, v)))
    uw, vw = np.einsum("ij,ij->i", u, w), np.einsum("ij,ij->i", v, w)
    scale = uu * vv - uv * uv
    flat = scale <= 1e-12 * np.maximum(uu * vv, 1e-300)
    scale = np.where(flat, 1.0, scale)
    second = np.where(flat, 0.0, (vv * uw - uv * vw) / scale)
    third = np.where(flat, 0.0, (uu * vw - uv * uw) / scale)
    shares = np.clip(np.column_stack([1 - second - third, second, third]), 0.0, 1.0)
    return shares / shares.sum(axis=1, keepdims=True)


def flesh_triangles(anatomy: Anatomy) -> Ints:
    """(m, 3) triangles of the skin but for those of parts that ride on the rig."""
    triangles = anatomy.surface.triangles
    own = triangles[~anatomy.riding[triangles].all(axis=1)]
    return np.ascontiguousarray(own if len(own) else triangles)


def riding_vertices(mesh: TetMesh) -> Bools:
    """(n,) tet vertices of parts that ride on the rig: see `RIDING`."""
    found = np.zeros(len(mesh.vertices), bool)
    found[mesh.tets[mesh.sets.get(RIDING, np.empty(0, np.int64))]] = True
    return found


def held_vertices(
    character: Character, mesh: TetMesh, anatomy: Anatomy, bone_radius: float = BONE_RADIUS
) -> Ints:
    """Tet vertices (k,) that are bone: held by segments of bone, deep enough, or in hard parts.

    Deep enough is d > φR. Bodies of tets that nothing else holds are held whole: what rides on
    the rig must not fall off.
    """
    held = np.zeros(len(mesh.vertices), bool)
    skinned = skinned_rigs(character.rig)
    if len(skinned) == 1:
        bones = Bones.of_rig(skinned[0])
        if len(bones.starts):
            held[held_tets(bones, character.surface, mesh, bone_radius).vertices] = True
    triangles, riding = flesh_triangles(anatomy), riding_vertices(mesh)
    shares = np.where(anatomy.apart, 0.0, anatomy.share)
    share = skin_values(anatomy, shares, mesh.vertices, triangles)
    depth = anatomy.balls.depth(mesh.vertices)
    thickness = anatomy.balls.thickness(mesh.vertices)
    core = (depth > share * thickness) | (share < HARD) | riding
    if not (held | core).all():  # a body of bone alone would have nothing to move
        held |= core
    body = components(mesh.tets, len(mesh.vertices))
    anchored = np.zeros(int(body.max()) + 1, bool)
    np.logical_or.at(anchored, body, held[mesh.tets].any(axis=1))
    held[mesh.tets[~anchored[body]]] = anchored.any()
    return np.flatnonzero(held)


def flesh_factors(anatomy: Anatomy, mesh: TetMesh) -> Floats:
    """(n̄,) how many times as stiff as elsewhere flesh is, painted on the skin.

    Where a cell is thicker than the flesh wanted, φR, it carries more of it than there should
    be; (0.7 edge / φR)² makes up for that.
    """
    edge = typical_edge(mesh)
    wanted = np.maximum(anatomy.share, HARD) * anatomy.thickness
    wanted = np.maximum(wanted, THINNEST * anatomy.trunk_radius)
    return np.clip((CELL * edge / wanted) ** 2, 1.0, STIFFEST) * anatomy.firmness
