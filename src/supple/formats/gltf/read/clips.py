"""Clips of a glTF file as motions of a character: poses and root transforms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.arrays import Floats
from supple.errors import SuppleError
from supple.formats.gltf.accessors import Accessors
from supple.formats.gltf.document import Document
from supple.formats.gltf.notes import Notes
from supple.formats.gltf.read.animation import Channel, read_channels
from supple.formats.gltf.read.nodes import NodeForest
from supple.formats.gltf.read.skins import JointFrames
from supple.maths.rotations import from_matrix, inverse, multiply, rotate, to_matrix
from supple.rig.motion.motion import Motion
from supple.rig.skeleton.joint_pose import JointPose
from supple.rig.skeleton.joints import Skeleton, unique_names

__all__ = ["GltfClip"]

Locals = tuple[Floats, Floats, Floats]
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
# What leaves rest by less than this part of the character's size, or of its scale, is noise of
# float32 keys.
STILL = 1e-6
# What changes by less than this part of its size during a clip is held.
VARIES = 1e-6
# Parts of the surface: more than this that never moves, and there is no root motion; nor with
# less than that which follows the topmost moving joint.
MOST_ANCHORED, LEAST_LED = 0.1, 0.5


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


class _RootPolicy:
    """The joint whose motion is the root's, and the joints that it is taken out at.

    The root follows the topmost joint that moves in any clip; of several, the one most of the
    surface follows. A character with much that never moves (a tail wagging on a plinth) has no
    root motion. Undoing it must reach every vertex: it happens at `tops`, joints of which each
    joint with weight has exactly one above or at it, as low as can be, so that the joint the
    root follows is left at rest, and nothing above is turned back instead.
    """

    def __init__(self, skeleton: Skeleton, varies: NDArray[np.bool_], weight: Floats) -> None:
        self.skeleton = skeleton
        parents = skeleton.parents
        load = weight.copy()
        above_moving = np.zeros(skeleton.n_joints, dtype=bool)
        for joint in range(skeleton.n_joints - 1, -1, -1):
            if parents[joint] >= 0:
                load[parents[joint]] += load[joint]
                above_moving[parents[joint]] |= above_moving[joint] | varies[joint]
        below_moving = np.zeros(skeleton.n_joints, dtype=bool)
        for joint in range(skeleton.n_joints):
            parent = parents[joint]
            below_moving[joint] = parent >= 0 and (below_moving[parent] or varies[parent])
        first = varies & ~below_moving
        self.joint = self._leader(first, load, weight, ~(varies | below_moving))
        # What is above a topmost mover stays as it is, unless vertices follow it.
        free = above_moving & ~varies & ~below_moving & (weight == 0)
        self.tops = np.array(
            [j for j in range(skeleton.n_joints) if self._is_top(j, free)], dtype=np.int64
        )

    @staticmethod
    def _leader(
        first: NDArray[np.bool_], load: Floats, weight: Floats, still: NDArray[np.bool_]
    ) -> int:
        """Return the joint whose motion is the character's, or -1 if too much stays behind it."""
        if not first.any():
            return -1
        leader = int(np.argmax(np.where(first, load, -1)))
        total = weight.sum()
        anchored = weight[still].sum() > MOST_ANCHORED * total
        return -1 if anchored or load[leader] < LEAST_LED * total else leader

    def _is_top(self, joint: int, free: NDArray[np.bool_]) -> bool:
        parent = self.skeleton.parents[joint]
        return not free[joint] and (parent < 0 or bool(free[parent]))

    def split(self, local: Locals) -> tuple[Locals, Floats]:
        """Return local transforms without the root's motion, and the root, (t, 4, 4)."""
        moves, turns, scales = local
        count = len(moves)
        roots = np.repeat(np.eye(4)[None], count, axis=0)
        if self.joint < 0:
            return local, roots
        world = self.skeleton.world(moves, turns, scales)
        ones = np.ones_like(scales)
        # Without scales, rotations stay rotations: no shear, none lost where a scale is zero.
        turned = self.skeleton.world(moves, turns, ones)[:, self.joint, :3, :3]
        calm = self.skeleton.world(scales=ones[0])[self.joint, :3, :3]
        rotation = from_matrix(turned @ calm.T)
        roots[:, :3, :3] = to_matrix(rotation)
        rest = self.skeleton.rest_world()[self.joint, :3, 3]
        roots[:, :3, 3] = world[:, self.joint, :3, 3] - rotate(rotation, rest)
        moves, turns = moves.copy(), turns.copy()
        for joint in self._tops_in_rigid_space(world):
            self._undo(joint, roots, rotation, world, moves, turns)
        return (moves, turns, scales), roots

    def _tops_in_rigid_space(self, world: Floats) -> list[int]:
        """Return `tops`, or joints above them where their parents are not scaled evenly."""
        parents = self.skeleton.parents.tolist()
        even = _are_similarities(world[:, :, :3, :3])
        anchors: list[int] = []
        for joint, parent in enumerate(parents):
            anchors.append(joint if parent < 0 or even[parent] else anchors[parent])
        found = {anchors[top] for top in self.tops.tolist()}
        below: list[bool] = []
        for parent in parents:
            below.append(parent >= 0 and (parent in found or below[parent]))
        return sorted(joint for joint in found if not below[joint])

    def _undo(
        self,
        joint: int,
        roots: Floats,
        rotation: Floats,
        world: Floats,
        moves: Floats,
        turns: Floats,
    ) -> None:
        """Replace L by P⁻¹ G⁻¹ P L, with G the root and P the world transform of the parent."""
        parent = int(self.skeleton.parents[joint])
        back, shift = inverse(rotation), roots[:, :3, 3]
        if parent < 0:
            moves[:, joint] = rotate(back, moves[:, joint] - shift)
            turns[:, joint] = multiply(back, turns[:, joint])
            return
        linear, place = world[:, parent, :3, :3], world[:, parent, :3, 3]
        frame = from_matrix(linear / np.cbrt(np.linalg.det(linear))[:, None, None])
        there = np.einsum("tij,tj->ti", linear, moves[:, joint]) + place
        shifted = (rotate(back, there - shift) - place)[:, :, None]
        moves[:, joint] = np.linalg.solve(linear, shifted)[:, :, 0]
        spun = multiply(multiply(inverse(frame), back), frame)
        turns[:, joint] = multiply(spun, turns[:, joint])


@dataclass(frozen=True, eq=False)
class GltfClip:
    """A clip as the file has it, to be evaluated at any time exactly."""

    name: str
    animation: int
    channels: tuple[Channel, ...]
    start: float
    end: float
    reader: ClipReader
    policy: _RootPolicy
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


def _moving_joints(
    local: Locals, skeleton: Skeleton, size: float
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which joints translate and which scale, away from rest, in a clip without root."""
    stretch = np.abs(skeleton.rest_world()[:, :3, :3]).max(axis=(1, 2), initial=0)
    above = np.where(skeleton.parents >= 0, stretch[skeleton.parents], 1.0)
    moves, _, scales = local
    off = np.abs(moves - skeleton.translations).max(axis=(0, 2), initial=0) * above
    change = np.abs(scales - skeleton.scales).max(axis=(0, 2), initial=0)
    return off > STILL * max(size, 1e-9), change > STILL * np.abs(skeleton.scales).max(axis=1)


def _varying_joints(
    channels: Sequence[Channel], frames: JointFrames, size: float
) -> NDArray[np.bool_]:
    """Return which joints change their place or rotation during a clip, (J,)."""
    varies = np.zeros(len(frames.nodes), dtype=bool)
    joint_of = {int(node): joint for joint, node in enumerate(frames.nodes)}
    for channel in channels:
        joint = joint_of.get(channel.node)
        if joint is None or channel.path not in ("translation", "rotation"):
            continue
        values = channel.values if channel.values.ndim == 2 else channel.values[:, 1]
        unit = 1.0
        if channel.path == "translation":
            unit = abs(frames.parent_sizes[joint]) / max(size, 1e-9)
        else:  # quaternions of either sign are one rotation
            values = np.where(values @ values[:1].T < 0, -values, values)
        varies[joint] |= np.ptp(values, axis=0).max() * unit > VARIES
    return varies


def _are_similarities(linear: Floats) -> NDArray[np.bool_]:
    """Return which joints, (J,), turn and scale evenly at all times of (t, J, 3, 3)."""
    gram = np.einsum("tjki,tjkl->tjil", linear, linear)
    size = np.trace(gram, axis1=2, axis2=3) / 3
    off = np.abs(gram - size[:, :, None, None] * np.eye(3)).max(axis=(2, 3))
    return ((off <= 1e-6 * size) & (np.linalg.det(linear) > 0)).all(axis=0)


# All clips of a file: those that move the character, and the pose vector they need.


def read_clips(document: Document, accessors: Accessors, reader: ClipReader) -> Clips:
    """Return the index in the file and the channels of each clip that moves the character."""
    notes = document.notes
    n_targets = {node: len(shapes) for node, shapes in reader.shapes_of_node.items()}
    mine = set(reader.frames.nodes.tolist())
    width = 10 * (len(mine) + reader.n_copies) + len(reader.rest_weights)
    found, names, total = [], [], 0
    for index, animation in enumerate(document.part("animations")):
        what = document.label("animation", index)
        channels = [
            channel
            for channel in read_channels(document, accessors, index, n_targets)
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
    notes: Notes,
    reader: ClipReader,
    clips: Clips,
    skeleton: Skeleton,
    weight: NDArray[np.float64],
    size: float,
) -> tuple[JointPose, dict[str, GltfClip]]:
    """Return a pose vector that all clips can be told in, and the clips.

    `weight` says how much of the surface follows each joint, `size` how large it is.
    """
    varies = np.zeros(skeleton.n_joints, dtype=bool)
    for _, channels in clips.values():
        varies[: len(reader.frames.nodes)] |= _varying_joints(channels, reader.frames, size)
    policy = _RootPolicy(skeleton, varies, weight)
    translating = np.zeros(skeleton.n_joints, dtype=bool)
    scaling = np.zeros(skeleton.n_joints, dtype=bool)
    for _, channels in clips.values():
        local, _ = reader.sample(channels, _motion_times(channels))
        moves, scales = _moving_joints(policy.split(local)[0], skeleton, size)
        translating |= moves
        scaling |= scales
    for joint in np.flatnonzero(scaling):
        if not np.all(skeleton.scales[joint] != 0):
            what = f'node "{skeleton.names[joint]}" has a scale of zero at rest, another in a clip'
            notes.fail("ZERO_SCALE", f"{what}; give it a rest scale")
    moving = (np.flatnonzero(which).tolist() for which in (translating, scaling))
    joint_pose = JointPose(skeleton, *moving)
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
