"""Comparison of a file's clip with a baked motion: clips of one name may differ."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Floats
from supple.rig.baked_motion import BakedMotion
from supple.rig.motion.frame_counts import SINGLE
from supple.rig.protocol import Rig

Sample = Callable[[Floats], tuple[Floats, Floats]]

#: Largest distance between vertices of clip and baked motion, as a fraction of the size.
TOLERANCE = 2e-3
#: Shifts of a frame's time that are compared, in float32 roundings: clips may jump at a key.
TIME_SHIFTS = (0, -2, 2)
#: Most frames that are compared, and most vertices of each.
MOST_FRAMES, MOST_VERTICES = 400, 500


def plays(sample: Sample, rig: Rig, baked: BakedMotion) -> bool:
    """Return whether a clip poses the rig as the baked motion does, at the baked times.

    `sample` gives the clip's poses, (t, s), and roots, (t, 4, 4), at times; `rig` is the file's.
    """
    poses = _poses_of(rig, baked)
    count = len(baked.times)
    frames = np.unique(np.linspace(0, count - 1, min(count, MOST_FRAMES)).round().astype(int))
    step = -(-rig.n_vertices // MOST_VERTICES)
    vertices = np.arange(0, rig.n_vertices, step)
    times = baked.times[frames]
    rounding = SINGLE * np.maximum(1.0, np.abs(times))
    clips = [sample(times + shift * rounding) for shift in TIME_SHIFTS]
    tolerance = TOLERANCE * baked.character.surface.size
    for row, frame in enumerate(frames.tolist()):
        expected = placed(rig, poses[frame], baked.motion.roots[frame], vertices)
        skins = (placed(rig, clip[row], roots[row], vertices) for clip, roots in clips)
        if not any(np.abs(skin - expected).max() <= tolerance for skin in skins):
            return False
    return True


def _poses_of(rig: Rig, baked: BakedMotion) -> Floats:
    """Return the baked poses for the file's rig; parameters that the bake lacks are at rest."""
    columns = {parameter.name: k for k, parameter in enumerate(baked.character.rig.parameters)}
    poses = np.tile(rig.rest_pose, (len(baked.times), 1))
    for column, parameter in enumerate(rig.parameters):
        if parameter.name in columns:
            poses[:, column] = baked.motion.poses[:, columns[parameter.name]]
    return poses


def placed(
    rig: Rig, pose: Floats, root: Floats, vertices: NDArray[np.int64] | None = None
) -> Floats:
    """Return the skin (n, 3) of a pose in the world: the given vertices, or all."""
    return rig(pose, vertices) @ root[:3, :3].T + root[:3, 3]
