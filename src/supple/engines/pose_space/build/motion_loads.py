"""Accelerations of the character's motions, for snapshots in addition to random accelerations.

Random accelerations excite all deformations of the flesh. The accelerations of the file's motions,
near the pose that is reduced, excite those that occur in these motions: bases and forces are then
nearer to the full simulation there, and as near as before in other motions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from supple.arrays import Floats, Singles
from supple.reduction.shaking import MOTION_STEP, MOTION_STEPS
from supple.rig.motion.motion import Motion
from supple.rig.poses.pose_weights import PoseWeights
from supple.rig.protocol import Rig

#: Parts of motions per pose, and the most parts of all motions that are compared.
PARTS, MOST_PARTS = 3, 100
#: Score relative to the best, up to which a part is left out.
NEGLIGIBLE = 1e-6
#: Vertices at which accelerations are compared.
_COMPARED = 60


class _Part(NamedTuple):
    """Part of a motion, from `start` in s, and its score (m,) at each pose."""

    motion: Motion
    start: float
    scores: Floats


def motion_loads(
    rig: Rig, motions: Mapping[str, Motion], weights: PoseWeights
) -> list[Singles | None]:
    """Return accelerations (n, 3, t) of the liveliest parts of motions near each pose, or None.

    `rig` moves the tets, `weights` are those of the poses. Accelerations are those of the rest
    shape in the world, in the root's frame. Each part has `MOTION_STEPS`.
    """
    starts = [(motion, start) for motion in motions.values() for start in _starts(motion)]
    if len(starts) > MOST_PARTS:
        even = np.linspace(0, len(starts) - 1, MOST_PARTS).round().astype(int)
        starts = [starts[k] for k in even]
    compared = np.unique(np.linspace(0, rig.n_vertices - 1, _COMPARED).round().astype(int))
    parts = []
    for motion, start in starts:
        poses, accelerations = _accelerations(rig, motion, start, compared)
        near = np.clip([weights(pose) for pose in poses], 0.0, 1.0)
        scores = np.square(accelerations).mean(axis=(1, 2)) @ near
        parts.append(_Part(motion, start, scores))
    loads: list[Singles | None] = []
    for pose in range(weights.n_poses):
        # Rounding does not decide between the equal halves of a swing, or parts far from the pose.
        scores = [float(f"{part.scores[pose]:.6g}") for part in parts]
        finite = [k for k, score in enumerate(scores) if 0 < score < np.inf]
        best = sorted(finite, key=lambda k: -scores[k])[:PARTS]
        fields = [
            _accelerations(rig, parts[k].motion, parts[k].start)[1].astype(np.float32)
            for k in best
            if scores[k] > NEGLIGIBLE * scores[best[0]]
        ]
        fields = [field for field in fields if np.isfinite(field).all()]
        loads.append(np.concatenate(fields).transpose(1, 2, 0).copy() if fields else None)
    return loads


def _starts(motion: Motion) -> Floats:
    """Return starts of consecutive parts of a motion, the last at its end.

    Parts with a cut or a jump are left out: no inertia acts there.
    """
    first, last = float(motion.times[0]), float(motion.times[-1])
    length = (MOTION_STEPS + 1) * MOTION_STEP
    if last - first < length:
        return np.empty(0)
    count = int((last - first) / length)
    starts = first + np.arange(count) * length
    starts = np.unique([*starts, last - length])
    for time in [*motion.times[list(motion.cuts)], *motion.jumps]:
        starts = starts[(starts >= time) | (starts + length < time)]
    return np.asarray(starts)


def _accelerations(
    rig: Rig, motion: Motion, start: float, vertices: np.ndarray | None = None
) -> tuple[Floats, Floats]:
    """Return poses (t, s), and accelerations (t, n, 3) in the root's frame, from a time on."""
    times = start + np.arange(MOTION_STEPS + 2) * MOTION_STEP
    poses, roots = motion.smooth.at(np.minimum(times, motion.times[-1]))
    places = np.stack([rig(pose) if vertices is None else rig(pose, vertices) for pose in poses])
    places = places @ roots[:, :3, :3].transpose(0, 2, 1) + roots[:, None, :3, 3]
    with np.errstate(over="ignore", invalid="ignore"):
        second = (places[2:] - 2 * places[1:-1] + places[:-2]) / MOTION_STEP**2
        return poses[1:-1], second @ roots[1:-1, :3, :3]
