"""Clips of a glTF file as motions of a character: poses and root transforms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.arrays import Floats
from supple.errors import SuppleError
from supple.formats.gltf.document import Document
from supple.formats.gltf.read.animation import Channel
from supple.formats.gltf.read.nodes import NodeForest
from supple.formats.gltf.read.skins import JointFrames
from supple.rig.motion.motion import Motion
from supple.rig.motion.root_policy import Locals, RootPolicy, pose_of_motions, varying_joints
from supple.rig.skeleton.joint_pose import JointPose
from supple.rig.skeleton.joints import Skeleton, unique_names

__all__ = ["GltfClip"]

Clips = dict[str, tuple[int, list[Channel]]]
# Linear keys at least this dense are samples of a smooth motion; wider gaps are lines on purpose.
SAMPLED_GAP = 0.11
LINE_RATE, SPLINE_RATE = 30, 60
# A step is held until this long before the next key, and reached this long after its own.
STEP_TIME = 1e-3
# Keys of different channels nearer than this are one.
SAME_TIME = 1e-5
MOST_KEYS = 100_000
# Numbers of one clip while it is read: 1.6 GB.
MOST_NUMBERS = 200_000_000


@dataclass
class ClipReader:
    """Channels sampled as local transforms of joints, and morph weights."""

    frames: JointFrames
    forest: NodeForest
    shapes_of_node: dict[int, range]
    rest_weights: Floats
    n_copies: int = 0

    def sample(self, channels: Sequence[Channel], times: Floats) -> tuple[Locals, Floats]:
        """Return local transforms (t, J, …) in metres, and weights (t, b)."""
        nodes, count = self.frames.nodes, len(times)
        joint_of = {int(node): joint for joint, node in enumerate(nodes)}
        tables = {
            "translation": np.repeat(self.forest.translations[nodes][None], count, axis=0),
            "rotation": np.repeat(self.forest.rotations[nodes][None], count, axis=0),
            "scale": np.repeat(self.forest.scales[nodes][None], count, axis=0),
        }
        weights = np.repeat(self.rest_weights[None], count, axis=0)
        for channel in channels:
            if channel.path == "weights":
                shapes = self.shapes_of_node.get(channel.node)
                if shapes is not None:
                    weights[:, shapes.start : shapes.stop] = channel.at(times)
            elif channel.node in joint_of:
                tables[channel.path][:, joint_of[channel.node]] = channel.at(times)
        local = self.frames.in_metres(tables["translation"], tables["rotation"], tables["scale"])
        return JointFrames.extended(self.n_copies, *local), weights


@dataclass(frozen=True, eq=False)
class GltfClip:
    """A clip as the file has it, to be evaluated at any time exactly."""

    name: str
    animation: int
    channels: tuple[Channel, ...]
    start: float
    end: float
    reader: ClipReader
    policy: RootPolicy
    joint_pose: JointPose

    def sample(self, times: ArrayLike) -> tuple[Floats, Floats]:
        """Return poses (t, s) and roots (t, 4, 4), interpolated as glTF says; held outside."""
        when = np.atleast_1d(np.asarray(times, dtype=np.float64))
        if when.ndim != 1 or not np.isfinite(when).all():
            raise SuppleError(f'clip "{self.name}": times must be a list of finite seconds')
        local, weights = self.reader.sample(self.channels, when)
        (moves, turns, scales), roots = self.policy.split(local)
        poses = self.joint_pose.pack(moves, turns, self._same_sign(scales))
        return np.hstack([poses, weights]), roots

    def motion(self) -> Motion:
        """Return the clip at the times that matter."""
        times = _motion_times(self.channels)
        poses, roots = self.sample(times)
        return Motion(times, poses, roots, self.name)

    def _same_sign(self, scales: Floats) -> Floats:
        # A pose has logarithms of scale: mirroring over time cannot be one.
        rest = self.joint_pose.skeleton.scales
        return np.where(scales * rest < 0, 1e-9 * rest, scales)


def _motion_times(channels: Sequence[Channel]) -> Floats:
    """Return all keys of a clip, and times between where a spline through keys would go astray."""
    parts = [channel.times for channel in channels]
    for channel in channels:
        gaps = np.diff(channel.times)
        if len(gaps) == 0:
            continue
        if channel.interpolation == "STEP":
            edge = np.minimum(STEP_TIME, 0.25 * gaps)
            parts += [channel.times[1:] - edge, channel.times[:-1] + edge]
        spline = channel.interpolation == "CUBICSPLINE"
        rate = SPLINE_RATE if spline else LINE_RATE
        wide = gaps > (1 / SPLINE_RATE if spline else SAMPLED_GAP)
        if (gaps[wide] * rate).sum() > MOST_KEYS:
            continue
        for start, gap in zip(channel.times[:-1][wide], gaps[wide], strict=True):
            parts.append(start + gap * np.arange(1, n := int(np.ceil(gap * rate))) / n)
    times = np.unique(np.concatenate(parts))
    kept = [times[0]]
    for time in times[1:]:
        if time - kept[-1] >= SAME_TIME:
            kept.append(time)
    return np.array(kept)


# All clips of a file: those that move the character, and the pose vector they need.


def read_clips(document: Document, moves: list[list[Channel]], reader: ClipReader) -> Clips:
    """Return the index in the file and the channels of each clip that moves the character.

    `moves` has the channels of each animation.
    """
    notes = document.notes
    n_targets = {node: len(shapes) for node, shapes in reader.shapes_of_node.items()}
    mine = set(reader.frames.nodes.tolist())
    width = 10 * (len(mine) + reader.n_copies) + len(reader.rest_weights)
    found, names, total = [], [], 0
    for index, animation in enumerate(document.part("animations")):
        what = document.label("animation", index)
        channels = [
            channel
            for channel in moves[index]
            if channel.node in (n_targets if channel.path == "weights" else mine)
        ]
        if not channels:
            notes.warn("ANIMATION_MOVES_NOTHING", f"{what} moves nothing shown; left out")
            continue
        total += len(_motion_times(channels)) * width
        if total > MOST_NUMBERS:
            notes.fail("TOO_LARGE", f"{what}: its keys on {len(mine)} joints take too much memory")
        found.append((index, channels))
        names.append(str(animation.get("name") or f"clip_{index}"))
    return dict(zip(unique_names(names), found, strict=True))


def pose_clips(
    reader: ClipReader,
    clips: Clips,
    skeleton: Skeleton,
    weight: NDArray[np.float64],
    size: float,
) -> tuple[JointPose, dict[str, GltfClip]]:
    """Return a pose vector that all clips can be told in, and the clips.

    `weight` says how much of the surface follows each joint, `size` how large it is.
    """
    moves = [channels for _, channels in clips.values()]
    samples = [reader.sample(channels, _motion_times(channels))[0] for channels in moves]
    policy = RootPolicy(skeleton, varying_joints(skeleton, samples, size), weight)
    calm = [policy.split(local)[0] for local in samples]
    joint_pose = pose_of_motions(skeleton, calm, size)
    return joint_pose, {
        name: GltfClip(
            name,
            index,
            tuple(channels),
            float(min(channel.times[0] for channel in channels)),
            float(max(channel.times[-1] for channel in channels)),
            reader,
            policy,
            joint_pose,
        )
        for name, (index, channels) in clips.items()
    }
