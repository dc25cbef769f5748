"""A pose that follows where sliders point, without jerks."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["PoseFollower"]

Floats = NDArray[np.float64]

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
