"""Values of the skin at points in the body, from the nearest point of the skin."""

from __future__ import annotations

import igl
import numpy as np

from supple.anatomy.anatomy import Anatomy
from supple.arrays import Floats, Ints


def skin_values(anatomy: Anatomy, values: Floats, points: Floats, triangles: Ints) -> Floats:
    """Return values (m,) at the points of some triangles nearest to `points` (m, 3)."""
    surface = anatomy.surface
    tree, size = igl.AABB(), max(surface.size, np.finfo(float).tiny)
    vertices = surface.vertices / size
    tree.init(vertices, triangles)
    _, triangle, place = tree.squared_distance(vertices, triangles, points / size)
    corners = triangles[triangle]
    a, b, c = (vertices[corners[:, k]] for k in range(3))
    shares = _barycentric(place, a, b, c)
    interpolated: Floats = np.einsum("kc,kc->k", shares, values[corners])
    return interpolated


def _barycentric(points: Floats, a: Floats, b: Floats, c: Floats) -> Floats:
    """Return barycentric weights (m, 3) of points of triangles; the first corner if degenerate."""
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
    """Return the triangles (m, 3) of the skin without parts that follow the rig."""
    triangles = anatomy.surface.triangles
    flesh = triangles[~anatomy.riding[triangles].all(axis=1)]
    return np.ascontiguousarray(flesh if len(flesh) else triangles)
