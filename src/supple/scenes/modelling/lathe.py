"""Surfaces of revolution: rings of vertices around an axis, closed at both ends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from supple.mesh.surface import SurfaceMesh


def lathed(
    start: ArrayLike, end: ArrayLike, profile: Sequence[tuple[float, float]], around: int = 12
) -> SurfaceMesh:
    """Return a closed surface around the axis from pole `start` to pole `end`.

    `profile` has the position on the axis, 0 to 1, and the radius in m of each ring.
    """
    a, b = np.asarray(start, float), np.asarray(end, float)
    along = (b - a) / np.linalg.norm(b - a)
    across = np.cross(along, np.eye(3)[np.argmin(np.abs(along))])
    across /= np.linalg.norm(across)
    angle = 2 * np.pi * np.arange(around) / around
    ring = np.cos(angle)[:, None] * across + np.sin(angle)[:, None] * np.cross(along, across)
    rings = [a + t * (b - a) + radius * ring for t, radius in profile]
    vertices = np.concatenate([a[None], *rings, b[None]])
    first = 1 + np.arange(around)
    ahead = 1 + (np.arange(around) + 1) % around
    sides = [
        np.stack([first, ahead, ahead + around, first, ahead + around, first + around], 1)
        + around * k
        for k in range(len(rings) - 1)
    ]
    last = around * (len(rings) - 1)
    caps = [
        np.stack([np.zeros(around, int), ahead, first], axis=1),
        np.stack([np.full(around, len(vertices) - 1), first + last, ahead + last], axis=1),
    ]
    return SurfaceMesh(vertices, np.concatenate([*caps, *(side.reshape(-1, 3) for side in sides)]))


def bone_shape(
    start: ArrayLike, end: ArrayLike, first: float, shaft: float, last: float
) -> SurfaceMesh:
    """Return a long bone between two joints, with heads of radii `first` and `last`."""
    length = float(np.linalg.norm(np.subtract(end, start)))
    t = np.linspace(0.04, 0.96, 10)
    head = first * np.exp(-((t * length / (1.6 * first)) ** 2))
    foot = last * np.exp(-(((1 - t) * length / (1.6 * last)) ** 2))
    radii = np.maximum(np.maximum(head, foot), shaft)
    radii[[0, -1]] = 0.6 * first, 0.6 * last
    return lathed(start, end, list(zip(t.tolist(), radii.tolist(), strict=True)))


def capsule_shape(start: ArrayLike, end: ArrayLike, radius: float, around: int = 32) -> SurfaceMesh:
    """Return a capsule; a ball where `start` and `end` coincide."""
    a, b = np.asarray(start, float), np.asarray(end, float)
    length = float(np.linalg.norm(b - a))
    axis = (b - a) / length if length > 0 else np.array([0.0, 1.0, 0.0])
    angles = np.linspace(0, np.pi / 2, around // 4 + 1)[1:]
    rise, wide = radius * (1 - np.cos(angles)), radius * np.sin(angles)
    height = length + 2 * radius
    low = list(zip((rise / height).tolist(), wide.tolist(), strict=True))
    high = [(1 - t, r) for t, r in reversed(low)]
    rings = low + (high if length > 0 else high[1:])
    return lathed(a - radius * axis, b + radius * axis, rings, around)


def ellipsoid_shape(centre: ArrayLike, radii: ArrayLike, around: int = 12) -> SurfaceMesh:
    """Return an ellipsoid with axes x, y and z."""
    unit = capsule_shape(np.zeros(3), np.zeros(3), 1.0, around)
    return SurfaceMesh(np.asarray(centre, float) + unit.vertices * radii, unit.triangles)


def joined(pieces: Iterable[SurfaceMesh]) -> SurfaceMesh:
    """Return the pieces as one surface."""
    surfaces = list(pieces)
    first = np.cumsum([0, *(len(piece.vertices) for piece in surfaces)])
    triangles = [piece.triangles + k for piece, k in zip(surfaces, first[:-1], strict=True)]
    return SurfaceMesh(
        np.concatenate([piece.vertices for piece in surfaces]), np.concatenate(triangles)
    )
