"""A motion at every step of time: smooth for the simulation, and as its file has it for the eye."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from supple.arrays import Floats, Singles
from supple.dynamics.between_poses import pose_before
from supple.errors import SuppleError
from supple.rig.motion.frame_counts import SINGLE, whole_steps
from supple.rig.motion.motion import LARGEST_MOTION, Motion
from supple.rig.skin_transfer import SkinTransfer


@dataclass(frozen=True, eq=False)
class MotionSteps:
    """Poses and roots at the steps 0 to N of a motion.

    Attributes
    ----------
    motion
        Motion with a key at each step, smooth between jumps and cuts; flesh is stepped by it. Its
        cuts are steps at which flesh begins anew.
    shown
        The file's own motion at each step, which the skin is shown at; None where `motion` is.
    jumps
        Steps at which the motion jumps: flesh is carried over, and feels nothing.
    """

    motion: Motion
    shown: Motion | None = None
    jumps: frozenset[int] = frozenset()

    @classmethod
    def of(cls, even: Motion, motion: Motion) -> MotionSteps:
        """Return a smooth motion, sampled at each step, with the own motion at the same times."""
        if motion.tracks is None:
            return cls(even)
        poses, roots = motion.at(even.times)
        shown = Motion(even.times, poses, roots, motion.name, even.cuts)
        # Keys of files are rounded: a step that misses one by less is at it.
        rounded = SINGLE * np.maximum(1.0, np.abs(motion.jumps))
        steps = np.searchsorted(even.times, motion.jumps - rounded)
        jumps = frozenset(int(step) for step in steps if 0 < step < len(even.times))
        return cls(even, shown, jumps - {*even.cuts})

    def before(self, step: int) -> tuple[Floats, Floats] | None:
        """Return pose and root a step earlier, as fast as from this step to the next.

        None where the motion ends or jumps at the next step.
        """
        return None if step + 1 in self.jumps else pose_before(self.motion, step)

    def show(self, transfer: SkinTransfer, step: int, skin: Singles) -> None:
        """Move a skin (n̄, 3) in the world, in place, to the file's own pose at a step."""
        if self.shown is not None:
            smooth, shown = self.motion, self.shown
            stepped = smooth.poses[step], smooth.roots[step]
            transfer(skin, *stepped, shown.poses[step], shown.roots[step])


def motion_steps(motion: Motion, dt: float) -> MotionSteps:
    """Return all steps of a motion."""
    first, last = float(motion.times[0]), float(motion.times[-1])
    count = whole_steps(first, last, 1 / dt) + 1
    return MotionSteps.of(even_motion(motion.smooth, first, last, count, 1 / dt), motion)


def even_motion(motion: Motion, first: float, last: float, count: int, rate: float) -> Motion:
    """Return `count` samples of a part of a motion at an even rate, as `Motion.resample` has them.

    They have no tracks: nothing is asked between them.
    """
    if count * 8 * (motion.poses.shape[1] + 16) > LARGEST_MOTION:
        raise SuppleError(f"{motion!r} is too long to be played; choose a part of it")
    times: Floats = np.minimum(first + np.arange(count) / rate, last)
    poses, roots = motion.at(times)
    begins = motion.times[list(motion.cuts)]
    firsts = np.searchsorted(times, begins - SINGLE * np.maximum(1.0, np.abs(begins)))
    cuts = sorted({int(step) for step in firsts if 0 < step < count})
    return Motion(times, poses, roots, motion.name, cuts)
