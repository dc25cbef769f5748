"""Poses at every step of a motion: played once, or as a cycle without a jolt."""

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

#: A rig that ends this near to where it began, as a part of its size, closes.
CLOSES = 1e-3
#: Radians by which a cycle may tilt the root; gravity would act otherwise in the next.
UPRIGHT = 1e-4
#: Keys beyond each end of a cycle that its curves see; what is farther away does not matter.
BEYOND = 12
SLOWEST, FASTEST = 1.0, 1000.0


@dataclass(frozen=True, eq=False)
class StepTable:
    """Steps 0 to N of a motion that is played once or as a cycle.

    Attributes
    ----------
    steps
        Poses and roots.
    before
        Pose and root a step before the first; None at rest.
    displacement
        (4, 4) from the roots of a cycle to those of the next. None where step N does not lead
        into step 0.
    """

    steps: MotionSteps
    before: tuple[Floats, Floats] | None
    displacement: Floats | None = None

    def before_step(self, step: int) -> tuple[Floats, Floats] | None:
        """Return pose and root a step before one that follows a jump or a cut; None at rest."""
        if step == self.n_steps and self.displacement is not None:
            early = self.steps.before(0)
            return None if early is None else (early[0], self.displacement @ early[1])
        return self.steps.before(step)

    @property
    def motion(self) -> Motion:
        """The motion that flesh is stepped by."""
        return self.steps.motion

    @property
    def n_steps(self) -> int:
        """Number N of steps."""
        return self.motion.n_frames - 1


def steps_of_frames(
    rate: float, duration: float | None = None, longest: float = 1 / 90
) -> tuple[float, int]:
    """Return the fixed step of time, and how many of them make a frame.

    Parameters
    ----------
    rate
        Frames per second.
    duration
        Of a cycle that must end with a frame, in s: the rate gives way. None for no cycle.
    longest
        Longest step in s: flesh is stepped at least as often, whatever the frame rate.

    Examples
    --------
    >>> steps_of_frames(30) == (1 / 90, 3), steps_of_frames(25)[1]
    (True, 4)
    """
    rate = checked_number("frames per second", rate)
    if not SLOWEST <= rate <= FASTEST:
        raise SuppleError(f"{rate:g} frames per second; use {SLOWEST:g} to {FASTEST:g}")
    # Rounding must not ask for a fourth step where three are just enough.
    every = int(np.ceil(1 / (longest * rate) - 1e-9))
    if duration is None:
        return 1 / (rate * every), every
    frames = max(1, round(duration * rate))
    return duration / (frames * every), every


def once_table(
    motion: Motion, dt: float, start: float | None, end: float | None, multiple: int = 1
) -> StepTable:
    """Return the steps of a motion from `start` to `end` seconds, by default all of it.

    Their number is a multiple of `multiple`, and rounding is judged by so many steps: a motion
    whose end was rounded has the same frames however its steps are cut.
    """
    checked_count("the multiple of steps", multiple)
    first, last = checked_span(motion, start, end)
    count = multiple * whole_steps(first, last, 1 / (dt * multiple)) + 1
    even = even_motion(motion.smooth, first, last, count, 1 / dt)
    return StepTable(MotionSteps.of(even, motion), pose_before(even, 0))


def cycle_table(
    motion: Motion, rig: Rig, size: float, dt: float, start: float | None, end: float | None
) -> StepTable:
    """Return a cycle of as many whole steps as fit best; curves are smooth across its seam.

    Where the rig does not end as it began, the seam is a jump that flesh is carried over.

    Warns
    -----
    SuppleWarning
        If the rig jumps there.
    """
    first, last = checked_span(motion, start, end)
    count = round(min((last - first) / dt, 2.0**60))
    if count < 2:
        raise SuppleError(
            f"{motion!r}: {last - first:.3g} s are too short to loop; choose a longer part of it"
        )
    gap, moved = _ends(motion, rig, first, last)
    turned = logarithm(from_matrix(moved[:3, :3]))
    here = bool(np.linalg.norm(moved[:3, 3]) <= CLOSES * size and _angle(turned) <= CLOSES)
    upright = here or float(np.hypot(turned[0], turned[2])) <= UPRIGHT
    if gap > CLOSES * size or not upright:
        _warn_of_jump(motion.name, gap / size)
        even = even_motion(motion.smooth, first, last, count + 1, count / (last - first))
        return StepTable(MotionSteps.of(even, motion), pose_before(even, 0))
    onward = np.eye(4) if here else moved
    if motion.cuts:
        smooth = motion.smooth
    elif motion.tracks is not None:
        smooth = motion.slice(first, last).repeated(onward)
    else:
        smooth = _extended(motion, first, last, moved, here)
    return _closed(motion, smooth, first, last, count, onward)


def _warn_of_jump(name: str, gap: float) -> None:
    if gap == np.inf:  # a whole turn: nobody sees it
        return
    what = "tilts the body from one cycle to the next"
    if gap > CLOSES:
        what = f"ends {100 * gap:.1f} % of the size from where it begins"
    warn(f'motion "{name}" {what}, and so jumps in a loop; only its flesh is made to close')


def checked_span(motion: Motion, start: float | None, end: float | None) -> tuple[float, float]:
    """Return start and end in seconds, inside of the motion."""
    first, last = float(motion.times[0]), float(motion.times[-1])
    begin = first if start is None else checked_number("start of a motion", start)
    stop = last if end is None else checked_number("end of a motion", end)
    slack = 1e-6 * max(1.0, abs(first), abs(last))
    if not first - slack <= begin <= stop <= last + slack:
        raise SuppleError(
            f'motion "{motion.name}" lasts from {first:.4g} to {last:.4g} s, and '
            f"{begin:.4g} to {stop:.4g} s was asked for"
        )
    return max(begin, first), min(stop, last)


def _ends(motion: Motion, rig: Rig, first: float, last: float) -> tuple[float, Floats]:
    """Return how far the rig ends from its start, in m, and the displacement of the root.

    Infinite where the shapes agree and the numbers do not, as after a whole turn.
    """
    poses, roots = motion.at(np.array([first, last]))
    shapes = [rig(pose) for pose in (poses[0], 0.5 * (poses[0] + poses[1]), poses[1])]
    gap = float(np.abs(shapes[2] - shapes[0]).max())
    halfway = float(np.abs(shapes[1] - shapes[0]).max())
    moved = roots[1] @ np.linalg.inv(roots[0])
    moved[:3, :3] = to_matrix(from_matrix(moved[:3, :3]))
    moved[3] = [0, 0, 0, 1]
    size = float(np.ptp(shapes[0], axis=0).max())
    return (np.inf if gap <= CLOSES * size < halfway else gap), moved


def _angle(turned: Floats) -> float:
    return float(np.linalg.norm(turned))


def _extended(motion: Motion, first: float, last: float, moved: Floats, here: bool) -> Motion:
    """Return a part of a motion with keys of the cycles before and after it on both sides."""
    part = motion.slice(first, last)
    times, poses = part.times, _without_drift(part, first, last)
    roots = part.roots
    if here:
        roots, moved = _roots_without_drift(part, first, last, moved), np.eye(4)
    back, length, count = np.linalg.inv(moved), last - first, len(times) - 1
    cycles = -(-BEYOND // count)
    all_times, all_poses, all_roots = [], [], []
    for cycle in range(-cycles, cycles + 1):
        step = np.linalg.matrix_power(moved if cycle > 0 else back, abs(cycle))
        stop = None if cycle == cycles else -1  # the last key is the next cycle's first
        all_times.append((times + cycle * length)[:stop])
        all_poses.append(poses[:stop])
        all_roots.append((step @ roots)[:stop])
    keys = slice(max(cycles * count - BEYOND, 0), (cycles + 1) * count + BEYOND + 1)
    joined = [np.concatenate(part)[keys] for part in (all_times, all_poses, all_roots)]
    # A key that nearly is the end of the part would be too near to the next cycle's first.
    kept = np.concatenate([[True], np.diff(joined[0]) > 2e-6])
    return Motion(joined[0][kept], joined[1][kept], joined[2][kept], motion.name)


def _without_drift(part: Motion, first: float, last: float) -> Floats:
    """Return poses that end exactly as they began, the difference spread over the cycle."""
    share = ((part.times - first) / (last - first))[:, None]
    return part.poses - share * (part.poses[-1] - part.poses[0])


def _roots_without_drift(part: Motion, first: float, last: float, moved: Floats) -> Floats:
    share = ((part.times - first) / (last - first))[:, None]
    undo = np.zeros((part.n_frames, 4, 4))
    undo[:, :3, :3] = to_matrix(exponential(-share * logarithm(from_matrix(moved[:3, :3]))))
    undo[:, 3, 3] = 1
    roots = undo @ part.roots
    roots[:, :3, 3] -= share * (roots[-1, :3, 3] - roots[0, :3, 3])
    return roots


def _closed(
    motion: Motion, smooth: Motion, first: float, last: float, count: int, moved: Floats
) -> StepTable:
    """Return steps of a motion that closes; the last smooth one is the first again, to the bit."""
    even = even_motion(smooth, first, last, count + 1, count / (last - first))
    poses, roots = even.poses.copy(), even.roots.copy()
    poses[-1], roots[-1] = poses[0], moved @ roots[0]
    if np.array_equal(moved, np.eye(4)):
        roots[-1] = roots[0]
    table = Motion(even.times, poses, roots, motion.name, even.cuts)
    steps = MotionSteps.of(table, motion)
    before: tuple[Floats, Floats] | None = (poses[-2], np.linalg.inv(moved) @ roots[-2])
    if count in steps.jumps:  # the first step comes after a jump
        before = steps.before(0)
    return StepTable(steps, before, moved)
