"""Depth of skin through the layers that cover it: baked flesh against the rig alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import igl
import numpy as np
from numpy.typing import NDArray

from supple.mesh.surface import SurfaceMesh, vertex_normals
from supple.rig.baked_motion import BakedMotion

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Farthest cover of a vertex, relative to the size; least cosine of both normals, and of the normal
#: and the direction to the nearest point: beside the edge of a cover it is oblique.
REACH, FACING, STRAIGHT = 0.03, 0.3, 0.8


@dataclass(frozen=True)
class Cover:
    """Skin vertices (k,) below one component in the rest pose, and triangles (m, 3) above them."""

    component: int
    skin: Ints
    triangles: Ints


def covers(surface: SurfaceMesh) -> Iterator[Cover]:
    """Yield the components that lie over other skin, with the skin that each covers."""
    points, triangles = surface.vertices, surface.triangles
    component, reach = surface.components(), REACH * surface.size
    of_vertex = np.zeros(len(points), np.int64)
    of_vertex[triangles] = component[:, None]
    faces, normals = surface.normals(), vertex_normals(points, triangles)
    for number in range(int(component.max()) + 1):
        own, others = np.flatnonzero(component == number), np.flatnonzero(component != number)
        if not len(others):
            return
        centres = points[triangles[own]].mean(axis=1)
        distance, at, places = _nearest(points, triangles[others], centres)
        above = np.einsum("ij,ij->i", centres - places, faces[own]) > 0.5 * distance
        above &= np.einsum("ij,ij->i", faces[others][at], faces[own]) > FACING
        above &= distance < reach
        if not above.any():
            continue
        cover, outward = triangles[own[above]], faces[own[above]]
        skin = np.flatnonzero(of_vertex != number)
        distance, at, places = _nearest(points, cover, points[skin])
        along = np.einsum("ij,ij->i", places - points[skin], outward[at])
        below = (along > STRAIGHT * distance) & (distance < reach)
        below &= np.einsum("ij,ij->i", outward[at], normals[skin]) > FACING
        if below.any():
            yield Cover(number, skin[below], cover)


@dataclass(frozen=True)
class Depths:
    """Largest values over the frames of each vertex of a cover, in % of the size.

    `rig` and `flesh` are depths through the cover, `excess` the flesh's depth beyond the rig's in
    the same frame, and `change` the change of the distance from the cover, either way.
    """

    rig: Floats
    flesh: Floats
    excess: Floats
    change: Floats


def depths(baked: BakedMotion, cover: Cover) -> Depths:
    """Measure the skin below a cover in all frames.

    In every frame, a vertex is compared with the point of the cover that is nearest in the rig,
    unless they are far apart at rest, or their normals do not face the same way: the skin of an arm
    beside the chest is not below the shirt's chest, nor is one side of an armpit below the other.
    """
    surface = baked.character.surface
    rest, size = surface.vertices, surface.size
    largest = np.zeros((4, len(cover.skin)))
    for frame, skin in enumerate(baked.frames):
        rig = baked.rig_frame(frame)
        distance, at, places = _nearest(rig, cover.triangles, rig[cover.skin])
        corners = cover.triangles[at]
        a, b, c = (np.ascontiguousarray(rig[corners[:, k]]) for k in range(3))
        shares = igl.barycentric_coordinates(np.ascontiguousarray(places), a, b, c)
        rig_along = _along(rig, cover, corners, shares)
        along = _along(skin.astype(np.float64), cover, corners, shares)
        apart = rest[cover.skin] - np.einsum("kc,kcd->kd", shares, rest[corners])
        counts = (np.abs(rig_along) > STRAIGHT * distance) & (distance < REACH * size)
        counts &= np.linalg.norm(apart, axis=1) < REACH * size
        facing = vertex_normals(rig, surface.triangles)[cover.skin]
        outward = _normals(rig, cover, corners, shares)
        counts &= np.einsum("ij,ij->i", facing, outward) > FACING
        through, before = np.maximum(along, 0), np.maximum(rig_along, 0)
        values = np.stack([before, through, through - before, np.abs(along - rig_along)])
        np.maximum(largest, 100 / size * values * counts, out=largest)
    return Depths(*largest)


def most_through(baked: BakedMotion) -> float:
    """Return how much deeper skin lies through its covers than in the rig, in % of the size."""
    found = [depths(baked, cover).excess.max() for cover in covers(baked.character.surface)]
    return float(max(found, default=0.0))


def _along(points: Floats, cover: Cover, corners: Ints, shares: Floats) -> Floats:
    """Return signed distances (k,) of skin from points of triangles, positive outside."""
    normal = _normals(points, cover, corners, shares)
    places = np.einsum("kc,kcd->kd", shares, points[corners])
    return np.asarray(np.einsum("ij,ij->i", points[cover.skin] - places, normal))


def _normals(points: Floats, cover: Cover, corners: Ints, shares: Floats) -> Floats:
    """Return unit normals (k, 3) of a cover at points of triangles.

    They are interpolated from those of the vertices: a single small triangle may be crumpled.
    """
    normals = vertex_normals(points, cover.triangles)
    normal = np.einsum("kc,kcd->kd", shares, normals[corners])
    return np.asarray(normal / np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-300))


def _nearest(vertices: Floats, triangles: Ints, points: Floats) -> tuple[Floats, Ints, Floats]:
    squared, at, places = igl.point_mesh_squared_distance(points, vertices, triangles)
    return np.sqrt(np.maximum(squared, 0)), np.asarray(at).ravel(), places
