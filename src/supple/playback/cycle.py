"""Poses at every step of a motion: played once, or as a cycle that is smooth at its seam."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from supple.arrays import Floats
from supple.checks import checked_count, checked_number
from supple.dynamics.motion_steps import MotionSteps, even_motion, pose_before
from supple.errors import SuppleError, warn
from supple.maths.rotations import exponential, from_matrix, logarithm, to_matrix
from supple.rig.motion.frame_counts import whole_steps
from supple.rig.motion.motion import Motion
from supple.rig.protocol import Rig

#: Largest distance between the ends of a closed cycle of the rig, relative to the size.
CLOSES = 1e-3
#: Largest tilt of the root by a cycle in radians, since a tilt changes the direction of gravity.
UPRIGHT = 1e-4
#: Number of keys beyond each end of a cycle that are used for its curves.
BEYOND = 12
#: Bounds of frames per second.
SLOWEST, FASTEST = 1.0, 1000.0


@dataclass(frozen=True, eq=False)
class StepTable:
    """Steps 0 to N of a motion that is played once or as a cycle.

    `before` is the pose and root one step before the first; None if the motion starts at rest.
    `displacement` (4, 4) maps roots of a closed cycle to roots of the next; otherwise it is None.
    """

    steps: MotionSteps
    before: tuple[Floats, Floats] | None
    displacement: Floats | None = None

    def before_step(self, step: int) -> tuple[Floats, Floats] | None:
        """Return the pose and root that give the velocity after a jump or a cut at `step`.

        They are extrapolated to one step earlier; None if the motion starts at rest there.
        """
        if step == self.n_steps and self.displacement is not None:
            early = self.steps.before(0)
            return None if early is None else (early[0], self.displacement @ early[1])
        return self.steps.before(step)

    @property
    def motion(self) -> Motion:
        """Smooth motion that drives the flesh, with a key at every step."""
        return self.steps.motion

    @property
    def n_steps(self) -> int:
        """Number N of steps."""
        return self.motion.n_frames - 1


def steps_of_frames(
    rate: float, duration: float | None = None, longest: float = 1 / 90
) -> tuple[float, int]:
    """Return the time step in s, and the number of steps per frame, for `rate` frames per second.

    `duration` is a cycle's in s, which must end with a frame, so that the rate is adjusted;
    None for no cycle. `longest` is the upper bound of the step in s at any rate.

    >>> steps_of_frames(30) == (1 / 90, 3), steps_of_frames(25)[1]
    (True, 4)
    """
    rate = checked_rate(rate)
    # The tolerance prevents a fourth step by rounding where three suffice.
    every = int(np.ceil(1 / (longest * rate) - 1e-9))
    if duration is None:
        return 1 / (rate * every), every
    frames = max(1, round(duration * rate))
    return duration / (frames * every), every


def checked_rate(rate: float) -> float:
    """Return frames per second as a number within the bounds."""
    frames = checked_number("frames per second", rate)
    if not SLOWEST <= frames <= FASTEST:
        raise SuppleError(f"{frames:g} frames per second; use {SLOWEST:g} to {FASTEST:g}")
    return frames


def once_table(
    motion: Motion, dt: float, start: float | None, end: float | None, multiple: int = 1
) -> StepTable:
    """Return the steps of a motion from `start` to `end` seconds, by default the whole motion.

    Their number is an integer times `multiple`, rounded as with undivided steps, so that the number
    of frames does not depend on the number of sub-steps.
    """
    checked_count("the multiple of steps", multiple)
    first, last = checked_span(motion, start, end)
    count = multiple * whole_steps(first, last, 1 / (dt * multiple)) + 1
    even = even_motion(motion.smooth, first, last, count, 1 / dt)
    return StepTable(MotionSteps.of(even, motion), pose_before(even, 0))


def cycle_table(
    motion: Motion, rig: Rig, size: float, dt: float, start: float | None, end: float | None
) -> StepTable:
    """Return a cycle with the nearest integer number of steps and curves smooth across its seam.

    Where the rig does not end as it began, the rig jumps at the seam with a SuppleWarning, and the
    flesh is moved with it.
    """
    first, last = checked_span(motion, start, end)
    count = round(min((last - first) / dt, 2.0**60))
    if count < 2:
        raise SuppleError(
            f"{motion!r}: {last - first:.3g} s are too short to loop; choose a longer part"
        )
    gap, displacement = _ends(motion, rig, first, last)
    rotation = logarithm(from_matrix(displacement[:3, :3]))
    in_place = bool(
        np.linalg.norm(displacement[:3, 3]) <= CLOSES * size and np.linalg.norm(rotation) <= CLOSES
    )
    upright = in_place or float(np.hypot(rotation[0], rotation[2])) <= UPRIGHT
    if gap > CLOSES * size or not upright:
        _warn_of_jump(motion.name, gap / size)
        even = even_motion(motion.smooth, first, last, count + 1, count / (last - first))
        return StepTable(MotionSteps.of(even, motion), pose_before(even, 0))
    onward = np.eye(4) if in_place else displacement
    if motion.cuts:
        smooth = motion.smooth
    elif motion.tracks is not None:
        smooth = motion.slice(first, last).repeated(onward)
    else:
        smooth = _extended(motion, first, last, displacement, in_place)
    return _closed(motion, smooth, first, last, count, onward)


def _warn_of_jump(name: str, gap: float) -> None:
    if gap == np.inf:  # a full rotation, which is not visible
        return
    what = "tilts the body from one cycle to the next"
    if gap > CLOSES:
        what = f"ends {100 * gap:.1f} % of the size from where it begins"
    warn(f'motion "{name}" {what}, so the loop jumps there; only the flesh is continuous')


def checked_span(motion: Motion, start: float | None, end: float | None) -> tuple[float, float]:
    """Return start and end in seconds, clipped to the motion."""
    first, last = float(motion.times[0]), float(motion.times[-1])
    begin = first if start is None else checked_number("start of a motion", start)
    stop = last if end is None else checked_number("end of a motion", end)
    slack = 1e-6 * max(1.0, abs(first), abs(last))
    if not first - slack <= begin <= stop <= last + slack:
        raise SuppleError(
            f'motion "{motion.name}" lasts from {first:.4g} to {last:.4g} s; '
            f"{begin:.4g} to {stop:.4g} s is not a valid part of it"
        )
    return max(begin, first), min(stop, last)


def _ends(motion: Motion, rig: Rig, first: float, last: float) -> tuple[float, Floats]:
    """Return the distance in m of the last shape from the first, and the root's displacement.

    The distance is the largest difference of a coordinate of the skin. It is inf if the shapes
    agree and the parameters do not, as after a full rotation. The displacement is (4, 4).
    """
    poses, roots = motion.at(np.array([first, last]))
    shapes = [rig(pose) for pose in (poses[0], 0.5 * (poses[0] + poses[1]), poses[1])]
    gap = float(np.abs(shapes[2] - shapes[0]).max())
    halfway = float(np.abs(shapes[1] - shapes[0]).max())
    displacement = roots[1] @ np.linalg.inv(roots[0])
    displacement[:3, :3] = to_matrix(from_matrix(displacement[:3, :3]))
    displacement[3] = [0, 0, 0, 1]
    size = float(np.ptp(shapes[0], axis=0).max())
    return (np.inf if gap <= CLOSES * size < halfway else gap), displacement


def _extended(
    motion: Motion, first: float, last: float, displacement: Floats, in_place: bool
) -> Motion:
    """Return a part of a motion with keys of the previous and next cycles on both sides."""
    part = motion.slice(first, last)
    # Poses, and roots of a cycle in place, end exactly as they began: the drift is distributed.
    share = ((part.times - first) / (last - first))[:, None]
    times, poses = part.times, part.poses - share * (part.poses[-1] - part.poses[0])
    roots = part.roots
    if in_place:
        roots, displacement = _roots_without_drift(part, share, displacement), np.eye(4)
    back, length, count = np.linalg.inv(displacement), last - first, len(times) - 1
    cycles = -(-BEYOND // count)
    all_times, all_poses, all_roots = [], [], []
    for cycle in range(-cycles, cycles + 1):
        step = np.linalg.matrix_power(displacement if cycle > 0 else back, abs(cycle))
        stop = None if cycle == cycles else -1  # the last key is the next cycle's first
        all_times.append((times + cycle * length)[:stop])
        all_poses.append(poses[:stop])
        all_roots.append((step @ roots)[:stop])
    keys = slice(max(cycles * count - BEYOND, 0), (cycles + 1) * count + BEYOND + 1)
    joined = [np.concatenate(arrays)[keys] for arrays in (all_times, all_poses, all_roots)]
    # A key just before the end of the part would be too near to the next cycle's first.
    kept = np.concatenate([[True], np.diff(joined[0]) > 2e-6])
    return Motion(joined[0][kept], joined[1][kept], joined[2][kept], motion.name)


def _roots_without_drift(part: Motion, share: Floats, displacement: Floats) -> Floats:
    undo = np.zeros((part.n_frames, 4, 4))
    undo[:, :3, :3] = to_matrix(exponential(-share * logarithm(from_matrix(displacement[:3, :3]))))
    undo[:, 3, 3] = 1
    roots = undo @ part.roots
    roots[:, :3, 3] -= share * (roots[-1, :3, 3] - roots[0, :3, 3])
    return roots


def _closed(
    motion: Motion, smooth: Motion, first: float, last: float, count: int, displacement: Floats
) -> StepTable:
    """Return the steps of a closed motion; its last smooth pose equals the first exactly."""
    even = even_motion(smooth, first, last, count + 1, count / (last - first))
    poses, roots = even.poses.copy(), even.roots.copy()
    poses[-1], roots[-1] = poses[0], displacement @ roots[0]
    if np.array_equal(displacement, np.eye(4)):
        roots[-1] = roots[0]
    table = Motion(even.times, poses, roots, motion.name, even.cuts)
    steps = MotionSteps.of(table, motion)
    before: tuple[Floats, Floats] | None = (poses[-2], np.linalg.inv(displacement) @ roots[-2])
    if count in steps.jumps:  # the first step comes after a jump
        before = steps.before(0)
    return StepTable(steps, before, displacement)
