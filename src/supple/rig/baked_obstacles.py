"""Obstacles of baked motions: shapes with their places at each frame, and surfaces to draw them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from supple.arrays import Floats
from supple.errors import SuppleError
from supple.mesh.obstacles import Box, Capsule, Obstacle, Plane, Sphere
from supple.mesh.shape_tables import shape_surface
from supple.mesh.surface import SurfaceMesh

if TYPE_CHECKING:
    from supple.rig.baked_motion import BakedMotion

ObstacleKind = Literal["plane", "obstacle", "object"]
#: Linear colours and opacities by kind.
COLOURS: dict[ObstacleKind, list[float]] = {
    "plane": [0.35, 0.40, 0.48, 0.35],
    "obstacle": [0.45, 0.48, 0.54, 0.6],
    "object": [0.10, 0.24, 0.50, 1.0],
}
#: Half the side of a drawn plane, relative to the size, in addition to half the motion's extent.
MARGIN = 0.6
#: Least cosine of the slope of a floor.
UPRIGHT = 0.999
#: Least cosine of the angle between the normal of a wall and the direction to the camera.
IN_FRONT = 0.3
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
        own, place = in_own_axes(shape)
        placed = places @ place
        if isinstance(own, Plane):
            up = placed[:, :3, 1]
            heights = np.einsum("ti,ti->t", middle - placed[:, :3, 3], up)
            placed[:, :3, 3] = middle - heights[:, None] * up
            kind = "plane"
        still = (placed == placed[0]).all()
        return cls(name, own, placed[:1] if still else placed, kind)

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


def ground_height(baked: BakedMotion) -> float:
    """Return the height of the floor that pictures show: the highest plane that faces up.

    Without one it is the median over the frames of the lowest point of the skin.
    """
    floors = [each.place(0)[1, 3] for each in baked.obstacles if _faces_up(each)]
    return float(max(floors) if floors else np.median(baked.frames[..., 1].min(axis=1)))


def _faces_up(each: BakedObstacle) -> bool:
    return each.kind == "plane" and bool(each.place(0)[1, 1] > UPRIGHT)


def clear_azimuth(baked: BakedMotion, azimuth: float, heading: float = 0.0) -> float:
    """Return the azimuth in degrees nearest to `azimuth` at which no wall hides the character.

    The camera looks from there, in the world turned back by `heading` in degrees; with walls on all
    sides the result is `azimuth`.
    """
    normals = [each.place(0)[:3, 1] for each in baked.obstacles if each.kind == "plane"]
    walls = [normal for normal in normals if abs(normal[1]) < UPRIGHT]
    for turn in sorted(range(-180, 181, 5), key=abs) if walls else ():
        angle = np.radians(azimuth + turn + heading)
        towards = np.array([np.sin(angle), 0.0, np.cos(angle)])
        if all(normal @ towards >= IN_FRONT for normal in walls):
            return azimuth + turn
    return azimuth


# Surfaces to be drawn


@dataclass(frozen=True, eq=False)
class DrawnObstacle:
    """Surface of an obstacle in local axes, and its places in each of several motions.

    `smooth` surfaces are round. `places` has (t, 4, 4) or (1, 4, 4) for each motion, None where the
    motion does not have the obstacle.
    """

    name: str
    kind: ObstacleKind
    surface: SurfaceMesh
    smooth: bool
    places: list[Floats | None]


def drawn_obstacles(bakes: Sequence[BakedMotion]) -> list[DrawnObstacle]:
    """Return the obstacles of motions of one character; equal shapes of one name are one.

    Obstacles with only the method ``distances`` have no surface and are left out.
    """
    half = max((_half_extent(baked) for baked in bakes if baked.obstacles), default=0.0)
    found: dict[tuple[object, ...], DrawnObstacle] = {}
    for number, baked in enumerate(bakes):
        for each in baked.obstacles:
            key = (each.name, each.kind, *_numbers_of(each.shape))
            if key not in found and (surface := each.surface(half)) is not None:
                nowhere: list[Floats | None] = [None] * len(bakes)
                found[key] = DrawnObstacle(each.name, each.kind, surface, each.is_round, nowhere)
            if key in found:
                found[key].places[number] = each.places
    return list(found.values())


def _half_extent(baked: BakedMotion) -> float:
    """Return half the side of a square that the motion fits on, with a margin."""
    low, high = baked.frames.min(axis=(0, 1)), baked.frames.max(axis=(0, 1))
    return float((high - low).max()) / 2 + MARGIN * float(baked.character.surface.size)


def _numbers_of(shape: Obstacle) -> tuple[object, ...]:
    """Return values that are the same for shapes that are drawn alike."""
    if isinstance(shape, Plane):
        return ("plane",)
    if isinstance(shape, Sphere):
        return "sphere", shape.radius
    if isinstance(shape, Capsule):
        return "capsule", shape.radius, float(np.asarray(shape.end)[1])
    if isinstance(shape, Box):
        return "box", *shape.half.tolist()
    return (id(shape),)


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
