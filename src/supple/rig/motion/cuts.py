"""Cuts: times at which a motion jumps to another position or pose."""

from __future__ import annotations

import numpy as np

from supple.arrays import Floats
from supple.errors import SuppleError
from supple.maths.rotations import from_matrix, inverse, logarithm, multiply, nearest_vectors
from supple.rig.motion.motion import Motion

#: Neighbouring steps on either side that a step is compared with.
NEIGHBOURS = 6


def detect_cuts(motion: Motion, limit: float = 6.0, acceleration: float = 250.0) -> tuple[int, ...]:
    """Return the keys at which a motion jumps, by a teleport or a spliced clip.

    Parameters
    ----------
    motion : Motion
        The motion; its stored cuts are ignored.
    limit : float
        Least ratio of the suddenness of a jump to that of nearby steps.
    acceleration : float
        Least suddenness of a jump, in rad/s² over all angles of the pose together, or m/s²
        of the root. A jump of 0.3 rad in one gap at 30 keys per second has 270.

    Returns
    -------
    tuple of int
        The first key after each jump, for `Motion.with_cuts`.

    Notes
    -----
    The suddenness of a step is the difference of its velocity from the mean velocity of the two
    adjacent steps, divided by its duration. A fast but continuous motion has several sudden steps
    in a row, a cut only one. The steps adjacent to a cut have half its suddenness; two adjacent
    steps of equal suddenness are a sudden start or stop. Pose, root position and root rotation
    are tested separately. Cuts less than six keys apart and single outlier keys are not detected.
    """
    if not (limit > 1 and acceleration > 0):
        raise SuppleError("cuts need a limit above 1 and an acceleration above 0")
    if motion.n_frames < 3:
        return ()
    gaps = np.diff(motion.times)
    rotations = from_matrix(motion.roots[:, :3, :3])
    steps = [
        _pose_steps(motion),
        np.diff(motion.roots[:, :3, 3], axis=0),
        logarithm(multiply(inverse(rotations[:-1]), rotations[1:])),
    ]
    jumps = np.zeros(len(gaps), dtype=bool)
    for step in steps:
        suddenness = _suddenness(step / gaps[:, None], gaps)
        # Steps adjacent to a jump have half its suddenness; equal ones are a start or a stop.
        adjacent = np.maximum(np.append(suddenness[1:], 0), np.append(0, suddenness[:-1]))
        threshold = np.maximum(limit * _largest_nearby(suddenness), 1.3 * adjacent)
        jumps |= (suddenness > acceleration) & (suddenness > threshold)
    return tuple(int(key) for key in np.flatnonzero(jumps) + 1)


def _pose_steps(motion: Motion) -> Floats:
    """Return differences of successive poses (t - 1, s), of rotation vectors the shortest."""
    poses, after = motion.poses[:-1], motion.poses[1:].copy()
    if motion.tracks is not None:
        entries = motion.tracks.space.joint_pose.rotation_entries()
        after[:, entries] = nearest_vectors(after[:, entries], poses[:, entries])
    return after - poses


def _suddenness(velocities: Floats, gaps: Floats) -> Floats:
    before = np.concatenate([velocities[1:2], velocities[:-1]])
    after = np.concatenate([velocities[1:], velocities[-2:-1]])
    return np.linalg.norm(velocities - 0.5 * (before + after), axis=1) / gaps


def _largest_nearby(values: Floats) -> Floats:
    """Return the largest value within `NEIGHBOURS` of each, adjacent values excluded."""
    padded = np.pad(values, NEIGHBOURS)
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * NEIGHBOURS + 1)
    not_adjacent = np.abs(np.arange(-NEIGHBOURS, NEIGHBOURS + 1)) > 1
    return windows[:, not_adjacent].max(axis=1)
