"""Obstacles of baked motions: shapes with their places at each frame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from supple.arrays import Floats
from supple.errors import SuppleError
from supple.mesh.obstacles import Box, Capsule, Obstacle, Plane, Sphere
from supple.mesh.shape_tables import shape_surface
from supple.mesh.surface import SurfaceMesh

ObstacleKind = Literal["plane", "obstacle", "object"]
#: Most triangles of a drawn surface; larger ones are simplified.
MOST_TRIANGLES = 20_000


@dataclass(frozen=True, eq=False)
class BakedObstacle:
    """Obstacle or object of a baked motion.

    Attributes
    ----------
    name
        Name as in readings, such as ``"obstacle 0"`` or ``"ball"``.
    shape
        Shape in local axes; a plane faces +Y.
    places
        (t, 4, 4) rigid transforms to the world at the frames, or (1, 4, 4) if it never moves.
    kind
        "plane", "obstacle", or "object" for a `RigidObject`.
    """

    name: str
    shape: Obstacle
    places: Floats
    kind: ObstacleKind

    @classmethod
    def of(
        cls, name: str, shape: Obstacle, places: Floats, kind: ObstacleKind, middle: Floats
    ) -> BakedObstacle:
        """Return an obstacle whose shape is in axes of its own; `places` (t, 4, 4) are the shape's.

        The drawn part of a plane is around the point `middle` (3,).
        """
        centred, place = in_own_axes(shape)
        placed = places @ place
        if isinstance(centred, Plane):
            up = placed[:, :3, 1]
            heights = np.einsum("ti,ti->t", middle - placed[:, :3, 3], up)
            placed[:, :3, 3] = middle - heights[:, None] * up
            kind = "plane"
        still = (placed == placed[0]).all()
        return cls(name, centred, placed[:1] if still else placed, kind)

    @property
    def moves(self) -> bool:
        """Whether its place differs between frames."""
        return len(self.places) > 1

    @property
    def is_round(self) -> bool:
        """Whether its surface is smooth."""
        return isinstance(self.shape, Sphere | Capsule)

    def surface(self, half: float) -> SurfaceMesh | None:
        """Return its surface in local axes; a plane is a square with this half side.

        None for an obstacle that has only the method ``distances``.
        """
        if isinstance(self.shape, Plane):
            corners = half * np.array([[-1.0, 0, -1], [-1.0, 0, 1], [1.0, 0, 1], [1.0, 0, -1]])
            return SurfaceMesh(corners, np.array([[0, 1, 2], [0, 2, 3]]))
        try:
            surface = shape_surface(self.shape)
        except SuppleError:
            return None
        return surface if len(surface.triangles) <= MOST_TRIANGLES else simplified(surface)

    def place(self, frame: int) -> Floats:
        """Return the place (4, 4) at a frame."""
        place: Floats = self.places[min(frame, len(self.places) - 1)]
        return place


def in_own_axes(shape: Obstacle) -> tuple[Obstacle, Floats]:
    """Return a shape at the origin, and its place (4, 4): equal shapes have equal numbers."""
    place = np.eye(4)
    if isinstance(shape, Plane):
        place[:3, :3], place[:3, 3] = _turn_to(np.asarray(shape.normal)), shape.point
        return Plane((0.0, 0.0, 0.0), (0.0, 1.0, 0.0)), place
    if isinstance(shape, Sphere):
        place[:3, 3] = shape.centre
        return Sphere((0.0, 0.0, 0.0), shape.radius), place
    if isinstance(shape, Capsule):
        axis = np.subtract(shape.end, shape.start)
        length = float(np.linalg.norm(axis))
        place[:3, 3] = np.add(shape.start, shape.end) / 2
        if length > 0:
            place[:3, :3] = _turn_to(axis / length)
        half = (0.0, length / 2, 0.0)
        return Capsule(np.negative(half), half, shape.radius), place
    if isinstance(shape, Box):
        place[:3, :3], place[:3, 3] = shape.turn, shape.centre
        return Box((0.0, 0.0, 0.0), shape.half), place
    return shape, place


def _turn_to(up: Floats) -> Floats:
    """Return a rotation (3, 3) that turns +Y to a unit vector; +Y itself is not turned."""
    ahead = np.array([0.0, 0.0, 1.0]) if abs(up[2]) < 0.9 else np.array([1.0, 0.0, 0.0])
    right = np.cross(up, ahead)
    right /= np.linalg.norm(right)
    return np.stack([right, up, np.cross(right, up)], axis=1)


def simplified(surface: SurfaceMesh, most: int = MOST_TRIANGLES) -> SurfaceMesh:
    """Return a surface of at most `most` triangles: vertices in a cell of a grid become one."""
    low, size = surface.vertices.min(axis=0), float(np.ptp(surface.vertices, axis=0).max())
    cells = 128.0
    while True:
        grid = np.floor((surface.vertices - low) / max(size, 1e-30) * cells).astype(np.int64)
        _, owner = np.unique(grid, axis=0, return_inverse=True)
        owner = owner.reshape(-1)
        triangles = owner[surface.triangles]
        whole = (triangles != np.roll(triangles, 1, axis=1)).all(axis=1)
        if np.count_nonzero(whole) <= most:
            break
        cells /= 1.4
    sums = np.zeros((owner.max() + 1, 3))
    np.add.at(sums, owner, surface.vertices)
    return SurfaceMesh(sums / np.bincount(owner)[:, None], triangles[whole])
