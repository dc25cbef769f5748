"""Obstacles of the viewer: a ground, and a ball that is moved about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from supple.app.viewer.session.posing import DampedFollower
from supple.arrays import Floats, Singles
from supple.mesh.obstacles import Obstacle, Plane, Sphere

__all__ = ["MovingObstacles"]

#: Radius of the ball, as a part of the body's size.
BALL = 0.08


class MovingObstacles:
    """Ground and ball, switched on and off; the ball follows its handle softly.

    Parameters
    ----------
    size
        Of the character, in m.
    fixed
        Obstacles that are there all the time.

    Attributes
    ----------
    ground, ball
        Whether they are there.
    height
        Of the ground, in m.
    radius
        Of the ball, in m.
    """

    def __init__(self, size: float, fixed: Sequence[Obstacle] = ()) -> None:
        self.fixed = tuple(fixed)
        self.radius = BALL * size
        self.height = 0.0
        self.ground = False
        self.ball = False
        self._place = DampedFollower(np.zeros(3))
        self._given: tuple[bool, bool] | None = None
        self._walked = np.eye(4)

    def stand_on(self, skin: Singles) -> None:
        """Put the ground below this skin, and the ball beside it."""
        low, high = skin.min(axis=0), skin.max(axis=0)
        self.height = float(low[1])
        beside = (low + high) / 2
        beside[0] = high[0] + 1.5 * self.radius
        self._place = DampedFollower(beside.astype(np.float64))

    @property
    def centre(self) -> Floats:
        """Middle of the ball now, (3,)."""
        return self._place.value

    def move_ball(self, centre: ArrayLike) -> None:
        """Let the ball follow to this place, (3,)."""
        where = np.array(centre, np.float64)
        if where.shape == (3,) and np.isfinite(where).all():
            self._place.target = where

    def invalidate(self) -> None:
        """Set the simulator's obstacles at the next step, whatever it has."""
        self._given = None

    def step(self, simulator: Any, dt: float, walked: Floats) -> None:
        """Move on, and set the simulator's obstacles if anything changed.

        Parameters
        ----------
        simulator
            Of the character.
        dt
            Seconds of a step.
        walked
            (4, 4) from where the clip has the character to where the simulator has it.
        """
        moving = bool(np.abs(self._place.target - self._place.value).max() > 1e-6 * self.radius)
        if moving:
            self._place.step(dt)
        wanted = (self.ground, self.ball)
        same = wanted == self._given and np.array_equal(walked, self._walked)
        if same and not (moving and self.ball):
            return
        self._given, self._walked = wanted, walked.copy()
        if wanted != (False, False) or simulator.obstacles:
            simulator.obstacles = self._obstacles(walked)

    def _obstacles(self, walked: Floats) -> list[Obstacle]:
        turn, shift = walked[:3, :3], walked[:3, 3]
        there: list[Obstacle] = list(self.fixed)
        if self.ground:
            point = turn @ np.array([0.0, self.height, 0.0]) + shift
            there.append(Plane(point, turn @ np.array([0.0, 1.0, 0.0])))
        if self.ball:
            there.append(Sphere(turn @ self._place.value + shift, self.radius))
        return there
