"""How obstacles of baked motions are shown: surfaces, colours, the floor, and the camera's side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from supple.arrays import Floats
from supple.mesh.obstacles import Box, Capsule, Obstacle, Plane, Sphere
from supple.mesh.surface import SurfaceMesh
from supple.rig.baked_motion import BakedMotion
from supple.rig.baked_obstacles import BakedObstacle, ObstacleKind

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
