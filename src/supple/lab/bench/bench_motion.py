"""Motions of any length to time steps with: there and back again, without a jerk at the ends."""

from __future__ import annotations

import numpy as np

from supple.arrays import Floats
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.errors import SuppleError
from supple.rig.motion.motion import Motion

__all__ = ["RATE", "back_and_forth", "motion_of", "turning_times"]


#: Steps per second, the papers'.
RATE = 90.0
#: How long it takes to turn round at an end, in seconds.
TURNING = 0.5
#: How a body moves whose model has neither motions nor other poses: up and down, in metres.
_BOBBING = 0.05


def motion_of(model: PoseSpaceModel, name: str | None = None) -> Motion:
    """The model's motion of this name, or its first; without any, a tour of its poses."""
    if name is not None:
        if name not in model.motions:
            there = ", ".join(model.motions) or "none"
            raise SuppleError(f'{model.name}: no motion "{name}"; there are {there}')
        return model.motions[name]
    for motion in model.motions.values():
        if motion.n_frames > 1:
            return motion
    poses = model.pose_weights.poses
    if len(poses) > 1:
        return Motion(np.arange(len(poses), dtype=np.float64), poses, name="tour of the poses")
    times = np.arange(31) / 30.0
    roots = np.tile(np.eye(4), (len(times), 1, 1))
    roots[:, 1, 3] = _BOBBING * model.surface.size * np.sin(2 * np.pi * times)
    return Motion(times, np.tile(poses, (len(times), 1)), roots, name="up and down")


def back_and_forth(motion: Motion, steps: int, rate: float = RATE) -> tuple[Floats, Floats]:
    """Poses (steps, s) and roots (steps, 4, 4), one for each step, however short the motion is."""
    times = motion.times[0] + turning_times(motion.duration, steps, rate)
    poses, roots = motion.at(times)
    return np.ascontiguousarray(poses), np.ascontiguousarray(roots)


def turning_times(duration: float, steps: int, rate: float = RATE) -> Floats:
    """Times (steps,) within 0 and `duration` at the motion's own speed, but for the ends.

    There it slows down, turns and gets faster, for `TURNING` seconds: what is played backwards
    at once would change its velocity from one step to the next, which no scene's motion does.
    """
    turning = min(TURNING, duration)
    # A parabola that joins the two straight lines covers half of the way they would take.
    length = duration + turning / 2
    phase = np.mod(np.arange(steps) / rate, 2 * length)
    to_end = np.abs(length - phase)  # how long ago or soon the far end is met
    to_start = length - to_end
    times = duration + turning / 4 - to_end
    near = turning / 2
    slow = to_end < near
    times[slow] = duration - to_end[slow] ** 2 / (2 * near)
    slow = to_start < near
    times[slow] = to_start[slow] ** 2 / (2 * near)
    return np.clip(times, 0.0, duration)
