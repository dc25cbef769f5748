"""Recording of the obstacles and objects of a simulator, and leading of those with a path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

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
        to_clip = np.linalg.inv(moved)
        for places, each in zip(self._places, self._colliders, strict=True):
            place = each.place if isinstance(each, PlacedShape) else np.eye(4)
            places[frame] = place if np.array_equal(moved, np.eye(4)) else to_clip @ place

    def baked(self, frames: Singles) -> tuple[BakedObstacle, ...]:
        """Return the obstacles of a motion with the skin (t, n̄, 3)."""
        if not self._colliders:
            return ()
        middle = (frames.min(axis=(0, 1)) + frames.max(axis=(0, 1))).astype(np.float64) / 2
        listed = []
        for number, (each, places) in enumerate(zip(self._colliders, self._places, strict=True)):
            shape = each.shape if isinstance(each, PlacedShape) else each
            kind: ObstacleKind = "object" if isinstance(each, RigidObject) else "obstacle"
            index = number if number < self._fixed else number - self._fixed
            usual = f"{'obstacle' if number < self._fixed else 'object'} {index}"
            name = getattr(each, "name", "") or usual
            listed.append(BakedObstacle.of(name, shape, places, kind, middle))
        return tuple(listed)


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
