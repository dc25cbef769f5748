"""Modelling with depths: smooth unions of simple solids, turned into triangles.

A solid is a function from points (k, 3) to depths (k,): the distance to its surface,
positive inside.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.mesh.surface import SurfaceMesh

__all__ = ["Solid", "ball", "polygonise", "smooth_union", "tapered_limb"]

Floats = NDArray[np.float64]
Solid = Callable[[Floats], Floats]


def ball(centre: ArrayLike, radius: float) -> Solid:
    """A ball."""
    return lambda points: radius - np.linalg.norm(points - np.asarray(centre, float), axis=1)


def tapered_limb(start: ArrayLike, end: ArrayLike, start_radius: float, end_radius: float) -> Solid:
    """A rounded limb between two points, its radius going linearly from one to the other."""
    a, b = np.asarray(start, float), np.asarray(end, float)
    along = (b - a) / ((b - a) @ (b - a))

    def depth(points: Floats) -> Floats:
        t = np.clip((points - a) @ along, 0.0, 1.0)
        axis = a + t[:, None] * (b - a)
        radius = start_radius + t * (end_radius - start_radius)
        return radius - np.linalg.norm(points - axis, axis=1)

    return depth


def smooth_union(solids: list[Solid], blend: float) -> Solid:
    """Solids grown together, with creases rounded over about `blend`.

    The soft maximum of the depths; it exceeds the largest one by at most blend·log(count)/4.
    """
    sharpness = 4 / blend

    def depth(points: Floats) -> Floats:
        depths = np.stack([solid(points) for solid in solids])
        return np.logaddexp.reduce(sharpness * depths, axis=0) / sharpness

    return depth


def polygonise(solid: Solid, bounds: ArrayLike, spacing: float) -> SurfaceMesh:
    """Triangles of a solid's surface, outward, by marching cubes on a grid.

    Parameters
    ----------
    solid
        The solid.
    bounds
        Lowest and highest corner, (2, 3), with the solid well inside.
    spacing
        Distance of grid points.
    """
    import igl

    low, high = np.asarray(bounds, float)
    shape = np.ceil((high - low) / spacing).astype(int) + 1
    x, y, z = (low[i] + spacing * np.arange(shape[i]) for i in range(3))
    # libigl counts x fastest.
    grid = np.stack(np.meshgrid(z, y, x, indexing="ij"), axis=-1).reshape(-1, 3)[:, ::-1]
    points = np.ascontiguousarray(grid)
    vertices, triangles, _ = igl.marching_cubes(-solid(points), points, *map(int, shape), 0.0)
    mesh = SurfaceMesh(vertices, triangles)
    return mesh if mesh.volume() > 0 else SurfaceMesh(vertices, triangles[:, ::-1])
