"""What the flesh can bump into: a ground, and a ball that is moved about."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Singles
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.engines.pose_space.simulator import PoseSpaceSimulator
from supple.mesh.obstacles import Obstacle, Plane, Sphere

__all__ = ["PoseFollower", "Surroundings"]


# ----------------------------------------------------------------------------
# A pose that follows where sliders point, without jerks.


#: How quickly it follows, in 1/s: nine tenths of the way take a fifth of a second.
QUICKNESS = 18.0


class PoseFollower:
    """Moves to a target like a critically damped spring, whose motion is exact at every step.

    Sliders jump; a pose that jumped along would hit the flesh like a hammer.

    Parameters
    ----------
    pose, velocity
        (s,) where it begins, and how fast, per second.
    """

    def __init__(self, pose: Floats, velocity: Floats | None = None) -> None:
        self.value = np.array(pose, np.float64)
        self.target = self.value.copy()
        self._velocity = np.zeros_like(self.value) if velocity is None else velocity.copy()

    def step(self, dt: float) -> Floats:
        """The pose after so many seconds."""
        away = self.value - self.target
        push = self._velocity + QUICKNESS * away
        left = math.exp(-QUICKNESS * dt)
        self.value = self.target + (away + push * dt) * left
        self._velocity = (self._velocity - push * QUICKNESS * dt) * left
        return self.value


#: The ball's radius as a part of the body's size.
BALL = 0.08


class Surroundings:
    """Obstacles that may be switched on and off; a ball follows its handle softly."""

    def __init__(self, model: PoseSpaceModel) -> None:
        self.radius = BALL * model.surface.size
        self.height = 0.0
        self.ground = False
        self.ball = False
        self._place = PoseFollower(np.zeros(3))
        self._given: tuple[bool, bool] | None = None
        self._walked = np.eye(4)

    def stand_on(self, skin: Singles) -> None:
        """Put the ground below this skin, and the ball beside it."""
        low, high = skin.min(axis=0), skin.max(axis=0)
        self.height = float(low[1])
        beside = (low + high) / 2
        beside[0] = high[0] + 1.5 * self.radius
        self._place = PoseFollower(beside.astype(np.float64))

    @property
    def centre(self) -> Floats:
        """(3,) of the ball, now."""
        return self._place.value

    def move_ball(self, centre: ArrayLike) -> None:
        """Where the ball shall be."""
        where = np.array(centre, np.float64)
        if where.shape == (3,) and np.isfinite(where).all():
            self._place.target = where

    def renew(self) -> None:
        """Tell the simulator at the next step, whatever it knows."""
        self._given = None

    def step(self, simulator: PoseSpaceSimulator, dt: float, walked: Floats) -> None:
        """Move on, and tell the simulator if anything changed.

        Parameters
        ----------
        simulator
            Whom to tell.
        dt
            Seconds of a step.
        walked
            (4, 4) from where we are to where the simulator is.
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
        there: list[Obstacle] = []
        if self.ground:
            point = turn @ np.array([0.0, self.height, 0.0]) + shift
            there.append(Plane(point, turn @ np.array([0.0, 1.0, 0.0])))
        if self.ball:
            there.append(Sphere(turn @ self._place.value + shift, self.radius))
        return there
