"""Recording of the obstacles and objects of a simulator, and leading of those with a path."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Singles
from supple.dynamics.rigid_object import RigidObject
from supple.mesh.obstacles import Obstacle
from supple.mesh.shape_tables import PlacedShape
from supple.rig.baked_obstacles import BakedObstacle, ObstacleKind


def colliders_of(simulator: Any) -> tuple[Obstacle, ...]:
    """Return the obstacles of a simulator, and its rigid objects if the engine has any."""
    return (*getattr(simulator, "obstacles", ()), *getattr(simulator, "objects", ()))


class ObstacleTrack:
    """Places of the colliders of a simulator at `count` frames, in the clip's space."""

    def __init__(self, simulator: Any, count: int) -> None:
        self._colliders = colliders_of(simulator)
        self._fixed = len(getattr(simulator, "obstacles", ()))
        self._places = np.tile(np.eye(4), (len(self._colliders), count, 1, 1))

    def record(self, frame: int, moved: Floats) -> None:
        """Store the places at a frame; `moved` (4, 4) maps the clip's space to the simulator's."""
        if not self._colliders:
            return
        to_clip = np.linalg.inv(moved)  # the identity exactly, in the first cycle
        for places, each in zip(self._places, self._colliders, strict=True):
            places[frame] = to_clip @ place_of(each)

    def baked(self, frames: Singles) -> tuple[BakedObstacle, ...]:
        """Return the obstacles of a motion with the skin (t, n̄, 3)."""
        if not self._colliders:
            return ()
        middle = (frames.min(axis=(0, 1)) + frames.max(axis=(0, 1))).astype(np.float64) / 2
        return baked_colliders(self._colliders, self._places, self._fixed, middle)


def baked_colliders(
    colliders: Sequence[Obstacle], places: ArrayLike, n_obstacles: int, middle: Floats
) -> tuple[BakedObstacle, ...]:
    """Return colliders with their places (c, t, 4, 4); the first `n_obstacles` are no objects.

    Planes are drawn around the point `middle` (3,).
    """
    listed = []
    for number, (each, placed) in enumerate(zip(colliders, np.asarray(places), strict=True)):
        shape = each.shape if isinstance(each, PlacedShape) else each
        kind: ObstacleKind = "object" if isinstance(each, RigidObject) else "obstacle"
        fixed = number < n_obstacles
        usual = f"obstacle {number}" if fixed else f"object {number - n_obstacles}"
        name = getattr(each, "name", "") or usual
        listed.append(BakedObstacle.of(name, shape, placed, kind, middle))
    return tuple(listed)


def place_of(collider: Obstacle) -> Floats:
    """Return the current place (4, 4) of a collider; the identity if it cannot move."""
    return collider.place if isinstance(collider, PlacedShape) else np.eye(4)


def lead(simulator: Any, time: float, dt: float, moved: Floats, *, jump: bool = False) -> None:
    """Move the objects of a simulator that have a path to their place at a time of the clip.

    `moved` (4, 4) maps the clip's space to the simulator's. After a `jump` an object has the
    velocity of its path, not that of the jump.
    """
    for each in _led(simulator):
        assert each.path is not None
        if jump:
            each.place = moved @ np.asarray(each.path(time - dt))
        each.moved_to(moved @ np.asarray(each.path(time)), dt)


def _led(simulator: Any) -> Iterator[RigidObject]:
    for each in colliders_of(simulator):
        if isinstance(each, RigidObject) and each.path is not None:
            yield each
