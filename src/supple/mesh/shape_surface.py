"""Surfaces of solid things, for pictures."""

from __future__ import annotations

import numpy as np

from supple.arrays import Floats
from supple.errors import SuppleError
from supple.mesh.distance_field import Solid
from supple.mesh.obstacles import Capsule, Obstacle, Sphere
from supple.mesh.polyhedra import Box, Convex
from supple.mesh.surface import SurfaceMesh

#: Points of a ball that is drawn.
ROUND = 400


def shape_surface(shape: Obstacle) -> SurfaceMesh:
    """Return triangles that look like a shape, in its own axes.

    Raises
    ------
    SuppleError
        For a plane, which has no end, and what is known by its distances only.

    Examples
    --------
    >>> shape_surface(Box((0, 0, 0), (1, 1, 1)))
    SurfaceMesh(8 vertices, 12 triangles)
    """
    if isinstance(shape, Solid):
        return shape.surface
    if isinstance(shape, Convex):
        return shape.surface()
    if isinstance(shape, Box):
        return Convex(shape.corners()).surface()
    if isinstance(shape, Sphere):
        return Convex(np.asarray(shape.centre) + shape.radius * _around()).surface()
    if isinstance(shape, Capsule):
        ends = np.array([shape.start, shape.end], np.float64)
        return Convex((ends[:, None] + shape.radius * _around()).reshape(-1, 3)).surface()
    raise SuppleError(f"a {type(shape).__name__} has no surface to draw")


def _around() -> Floats:
    """Return points spread over a unit ball, (n, 3), by the golden angle."""
    k = np.arange(ROUND)
    height = 1 - (2 * k + 1) / ROUND
    turn = np.pi * (3 - np.sqrt(5)) * k
    wide = np.sqrt(1 - height**2)
    return np.column_stack([wide * np.cos(turn), height, wide * np.sin(turn)])
