"""Comparison of a file's clip with the motion that was baked: a name alone proves nothing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Floats
from supple.rig.baked_motion import BakedMotion
from supple.rig.motion.frame_counts import SINGLE
from supple.rig.protocol import Rig

Sample = Callable[[Floats], tuple[Floats, Floats]]

#: How far the rig of a clip may be from the baked one, as part of the size.
AGREED = 2e-3
#: Roundings of float32 around a frame that are compared too: clips may jump at a key.
AROUND = (0, -2, 2)
#: Frames that are compared, and vertices of each.
MOST_FRAMES, MOST_VERTICES = 400, 500


def plays(sample: Sample, rig: Rig, baked: BakedMotion) -> bool:
    """Return whether a clip brings the rig to where it was baked, at the baked times.

    Parameters
    ----------
    sample
        Gives the clip's poses, (t, s), and roots, (t, 4, 4), at times.
    rig
        The file's.
    baked
        Whose motion to compare.
    """
    poses = _poses_of(rig, baked)
    count = len(baked.times)
    frames = np.unique(np.linspace(0, count - 1, min(count, MOST_FRAMES)).round().astype(int))
    step = -(-rig.n_vertices // MOST_VERTICES)
    some = np.arange(0, rig.n_vertices, step)
    times = baked.times[frames]
    rounding = SINGLE * np.maximum(1.0, np.abs(times))
    clips = [sample(times + shift * rounding) for shift in AROUND]
    within = AGREED * baked.character.surface.size
    for row, frame in enumerate(frames.tolist()):
        wanted = _placed(rig, poses[frame], baked.motion.roots[frame], some)
        near = (
            np.abs(_placed(rig, own[row], roots[row], some) - wanted).max() <= within
            for own, roots in clips
        )
        if not any(near):
            return False
    return True


def _poses_of(rig: Rig, baked: BakedMotion) -> Floats:
    """Return the baked poses as far as the file's rig, which may be inside another, has them."""
    names = {each.name: k for k, each in enumerate(baked.character.rig.parameters)}
    poses = np.tile(rig.rest_pose, (len(baked.times), 1))
    for column, parameter in enumerate(rig.parameters):
        if parameter.name in names:
            poses[:, column] = baked.motion.poses[:, names[parameter.name]]
    return poses


def _placed(rig: Rig, pose: Floats, root: Floats, vertices: NDArray[np.int64]) -> Floats:
    return rig(pose, vertices) @ root[:3, :3].T + root[:3, 3]
