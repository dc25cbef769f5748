"""Poses at every step of time: motions sampled at steps, and paths between two given poses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from supple.arrays import Floats, Singles
from supple.errors import SuppleError
from supple.maths.rotations import exponential, from_matrix, inverse, logarithm, multiply, to_matrix
from supple.rig.inverse_skinning import SkinTransfer
from supple.rig.motion.frame_counts import SINGLE, whole_steps
from supple.rig.motion.motion import LARGEST_MOTION, Motion


class PoseTrack:
    """Smooth path through the poses (s,) and roots (4, 4) of steps, for sub-steps; it starts at
    rest.

    The path is a cubic from one pose to the next. Its slope at both ends is the second-order
    one-sided difference of the last three poses: slopes agree where cubics meet, the next pose is
    not needed, and accelerations have no spikes at the poses, unlike those of straight lines. A
    root's rotation is interpolated as a rotation vector from the last one, which is smooth about a
    steady axis and nearly so about a slowly changing one.
    """

    def __init__(self, pose: Floats, root: Floats) -> None:
        self._pose, self._root = pose.copy(), root.copy()
        self._quaternion = from_matrix(root[:3, :3])
        self._moved = np.zeros(len(pose) + 6)
        self._slope = np.zeros(len(pose) + 6)

    @classmethod
    def moving(cls, pose: Floats, root: Floats, next_pose: Floats, next_root: Floats) -> PoseTrack:
        """Return a track at the second pose and root, with the velocity from the first."""
        track = cls(pose, root)
        for _ in track.towards(next_pose, next_root, 1):
            pass
        track._slope = track._moved
        return track

    @classmethod
    def resumed(cls, pose: Floats, root: Floats, slopes: Floats) -> PoseTrack:
        """Return a track at a pose and root with the `slopes` of another."""
        track = cls(pose, root)
        track._moved, track._slope = slopes.copy()
        return track

    @property
    def slopes(self) -> Floats:
        """Displacement of the last step, and slope at its end, (2, s + 6)."""
        return np.stack([self._moved, self._slope])

    def towards(self, pose: Floats, root: Floats, count: int) -> Iterator[tuple[Floats, Floats]]:
        """Yield pose and root at `count` sub-steps up to these, and advance the track to them."""
        quaternion, rotated = self._quaternion, np.zeros(3)
        if not np.array_equal(root[:3, :3], self._root[:3, :3]):
            quaternion = from_matrix(root[:3, :3])
            rotated = logarithm(multiply(inverse(self._quaternion), quaternion))
        displacement = np.concatenate([pose - self._pose, root[:3, 3] - self._root[:3, 3], rotated])
        slope = 1.5 * displacement - 0.5 * self._moved
        start = self._pose, self._root, self._quaternion, self._slope
        self._pose, self._root, self._quaternion = pose.copy(), root.copy(), quaternion
        self._moved, self._slope = displacement, slope
        for part in np.arange(1, count) / count:
            yield _interpolated(part, *start, displacement, slope)
        yield self._pose, self._root

    def fork(self) -> PoseTrack:
        """Return an independent copy."""
        other = PoseTrack.__new__(PoseTrack)
        other.__dict__.update(self.__dict__)  # arrays are replaced, never changed
        return other


def _interpolated(
    part: float,
    pose: Floats,
    root: Floats,
    quaternion: Floats,
    first_slope: Floats,
    moved: Floats,
    last_slope: Floats,
) -> tuple[Floats, Floats]:
    """Evaluate Hermite's cubic from 0 to `moved` at the fraction `part` of the step."""
    square, cube = part**2, part**3
    displacement = (3 * square - 2 * cube) * moved
    displacement += (cube - 2 * square + part) * first_slope + (cube - square) * last_slope
    count = len(pose)
    placed = np.eye(4)
    placed[:3, :3] = to_matrix(multiply(quaternion, exponential(displacement[count + 3 :])))
    placed[:3, 3] = root[:3, 3] + displacement[count : count + 3]
    return pose + displacement[:count], placed


def pose_before(motion: Motion, index: int) -> tuple[Floats, Floats] | None:
    """Return pose and root one step before a key, extrapolated from it and the next.
    Returns None if the motion or a shot ends with that key.
    """
    if index + 1 >= motion.n_frames or index + 1 in motion.cuts:
        return None
    (root_now, next_root), root = motion.roots[index : index + 2], np.eye(4)
    root[:3, :3] = root_now[:3, :3] @ next_root[:3, :3].T @ root_now[:3, :3]
    root[:3, 3] = 2 * root_now[:3, 3] - next_root[:3, 3]
    return 2 * motion.poses[index] - motion.poses[index + 1], root


@dataclass(frozen=True, eq=False)
class MotionSteps:
    """Poses and roots at the steps 0 to N of a motion.

    `motion` has a key at each step, smooth between jumps and cuts, and drives the flesh, which is
    reset at cuts. The skin is shown at `shown`, the motion of the file at each step; None if it is
    `motion`. The flesh is teleported at the steps `jumps`.
    """

    motion: Motion
    shown: Motion | None = None
    jumps: frozenset[int] = frozenset()

    @classmethod
    def of(cls, even: Motion, motion: Motion) -> MotionSteps:
        """Combine a smooth motion, sampled at each step, with the file's motion at these times."""
        if motion.tracks is None:
            return cls(even)
        poses, roots = motion.at(even.times)
        shown = Motion(even.times, poses, roots, motion.name, even.cuts)
        # Keys of files are rounded to float32: a step within the rounding is at the key.
        rounded = SINGLE * np.maximum(1.0, np.abs(motion.jumps))
        steps = np.searchsorted(even.times, motion.jumps - rounded)
        jumps = frozenset(int(step) for step in steps if 0 < step < len(even.times))
        return cls(even, shown, jumps - {*even.cuts})

    def before(self, step: int) -> tuple[Floats, Floats] | None:
        """Return pose and root a step earlier, extrapolated from this step and the next.
        Returns None if the motion ends, or if it jumps or cuts at the next step.
        """
        return None if step + 1 in self.jumps else pose_before(self.motion, step)

    def show(self, transfer: SkinTransfer, step: int, skin: Singles) -> None:
        """Transfer a skin (n̄, 3) in the world, in place, to the file's pose at a step."""
        if self.shown is not None:
            smooth, shown = self.motion, self.shown
            stepped = smooth.poses[step], smooth.roots[step]
            transfer(skin, *stepped, shown.poses[step], shown.roots[step])


def motion_steps(motion: Motion, dt: float) -> MotionSteps:
    """Return all steps of `dt` seconds through a motion."""
    first, last = float(motion.times[0]), float(motion.times[-1])
    count = whole_steps(first, last, 1 / dt) + 1
    return MotionSteps.of(even_motion(motion.smooth, first, last, count, 1 / dt), motion)


def even_motion(motion: Motion, first: float, last: float, count: int, rate: float) -> Motion:
    """Return `count` samples of a part of a motion at an even rate, as `Motion.resample` does.
    The samples have no tracks, because nothing is evaluated between them.
    """
    if count * 8 * (motion.poses.shape[1] + 16) > LARGEST_MOTION:
        raise SuppleError(f"{motion!r} is too long to be played; choose a part of it")
    times: Floats = np.minimum(first + np.arange(count) / rate, last)
    poses, roots = motion.at(times)
    begins = motion.times[list(motion.cuts)]
    firsts = np.searchsorted(times, begins - SINGLE * np.maximum(1.0, np.abs(begins)))
    cuts = sorted({int(step) for step in firsts if 0 < step < count})
    return Motion(times, poses, roots, motion.name, cuts)
