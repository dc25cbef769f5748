"""Animations of a glTF file: channels of nodes, and clips as motions of a character."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.errors import SuppleError
from supple.formats.gltf.accessors import Accessors
from supple.formats.gltf.document import POINTER, Document
from supple.formats.gltf.read.nodes import NodeForest
from supple.formats.gltf.read.skinned_body import Body
from supple.formats.gltf.read.skins import JointFrames
from supple.rig.motion.motion import Motion
from supple.rig.motion.motion_tracks import MotionTracks, TrackSpace, distinct_times, joint_reach
from supple.rig.motion.root_motion import RootPolicy, pose_of_motions
from supple.rig.motion.tracks import Track
from supple.rig.skeleton.joint_pose import JointPose
from supple.rig.skeleton.joints import Skeleton, unique_names

WIDTHS = {"translation": 3, "rotation": 4, "scale": 3}
NODE_POINTER = re.compile(r"/nodes/(\d{1,9})/(translation|rotation|scale|weights)")
# Relative difference from rest below which a node does not move: float32.
HELD = 1e-6
FLOAT, NORMALISED = 5126, (5120, 5121, 5122, 5123)


@dataclass
class Channel:
    """Keys of a node's translation, rotation, scale or weights.

    `values` is (t, c), and (t, 3, c) for splines: tangent in, value, tangent out.
    """

    node: int
    path: str
    interpolation: str
    times: Floats
    values: Floats

    def at(self, times: Floats) -> Floats:
        """Return values at times, (k, c); constant before the first key and after the last."""
        if self.path == "weights":
            items, values = np.arange(self.values.shape[-1]), self.values[..., None]
            return Track(self.path, items, self.interpolation, self.times, values).at(times)[..., 0]
        values = self.values[..., None, :]
        track = Track(self.path, np.zeros(1, np.int64), self.interpolation, self.times, values)
        return track.at(times)[:, 0]


def read_channels(accessors: Accessors, index: int, n_targets: dict[int, int]) -> list[Channel]:
    """Return an animation's channels that move nodes; `n_targets` has the number of morph targets
    of each node.
    """
    return list(_ChannelReader(accessors, index, n_targets).channels.values())


class _ChannelReader:
    """Channels of one animation, by node and path."""

    def __init__(self, accessors: Accessors, index: int, n_targets: dict[int, int]) -> None:
        self.document, self.accessors = accessors.document, accessors
        self.notes, self.n_targets = accessors.document.notes, n_targets
        self.label = self.document.label("animation", index)
        self._key_times: dict[int, tuple[Floats, Ints]] = {}
        self.channels: dict[tuple[int, str], Channel] = {}
        animation = self.document.part("animations")[index]
        samplers = animation["samplers"]
        for number, channel_json in enumerate(animation["channels"]):
            label = f"{self.label}, channel {number}"
            if channel_json.get("sampler", len(samplers)) >= len(samplers):
                missing = "sampler" not in channel_json
                code = "UNDEFINED_PROPERTY" if missing else "UNRESOLVED_REFERENCE"
                self.notes.fail(code, f"{label} has no sampler; save it again")
            target = self._target(label, channel_json["target"])
            if target is not None:
                self._add(target, samplers[channel_json["sampler"]])

    def _target(self, label: str, target: dict[str, Any]) -> tuple[int, str] | None:
        notes, path = self.notes, target["path"]
        extension = target.get("extensions", {}).get(POINTER)
        if path == "pointer" and isinstance(extension, dict):
            if "node" in target:
                code = "KHR_ANIMATION_POINTER_ANIMATION_CHANNEL_TARGET_NODE"
                notes.warn(code, f"{label} has a node and a pointer; the pointer is used")
            pointer = extension.get("pointer")
            if not isinstance(pointer, str):
                notes.warn("UNDEFINED_PROPERTY", f"{label} has no pointer; ignored")
                return None
            match = NODE_POINTER.fullmatch(pointer)
            if match is None:
                return None  # moves a material, a light, a camera
            if int(match[1]) >= len(self.document.part("nodes")):
                what = f"{label} points to {pointer}, which does not exist"
                notes.fail("UNRESOLVED_REFERENCE", what)
            return int(match[1]), match[2]
        if extension is not None:
            code = "KHR_ANIMATION_POINTER_ANIMATION_CHANNEL_TARGET_PATH"
            notes.warn(code, f"{label} has a pointer and a different path; ignored")
            return None
        if path not in (*WIDTHS, "weights"):
            notes.warn("VALUE_NOT_IN_LIST", f"{label} moves an unknown property; ignored")
            return None
        return (target["node"], path) if "node" in target else None

    def _add(self, target: tuple[int, str], sampler: dict[str, Any]) -> None:
        (node, path), label, notes = target, self.label, self.notes
        if target in self.channels:
            message = f"{label} moves the {path} of node {node} twice; the first is used"
            notes.warn("ANIMATION_DUPLICATE_TARGETS", message)
            return
        if "matrix" in self.document.part("nodes")[node] and path != "weights":
            message = f"{label} moves node {node}, which has a matrix; its components are animated"
            notes.warn("ANIMATION_CHANNEL_TARGET_NODE_MATRIX", message)
        interpolation = sampler.get("interpolation", "LINEAR")
        width = WIDTHS.get(path, self.n_targets.get(node, 0))
        if width == 0:
            code = "ANIMATION_CHANNEL_TARGET_NODE_WEIGHTS_NO_MORPHS"
            notes.warn(code, f"{label} moves weights of node {node} without morph targets; ignored")
            return
        self._check_format(sampler, path)
        times, used_keys = self._times(sampler["input"])
        parts = 3 if interpolation == "CUBICSPLINE" else 1
        n_keys, n_values = (self.accessors.count(sampler[key]) for key in ("input", "output"))
        per_key = parts * (width if path == "weights" else 1)
        if n_values != n_keys * per_key:
            code = "ANIMATION_SAMPLER_OUTPUT_ACCESSOR_INVALID_COUNT"
            notes.fail(code, f"{label} has {n_values} values, not {n_keys} keys of {per_key}")
        if parts == 3 and n_keys < 2:
            code = "ANIMATION_SAMPLER_INPUT_ACCESSOR_TOO_FEW_ELEMENTS"
            notes.warn(code, f"{label} has a spline of one key; it is constant")
        values = self.accessors.floats(sampler["output"]).reshape(n_keys, parts, width)
        middle = values[:, 1] if parts == 3 else values[:, 0]
        if path == "rotation" and (np.abs(np.linalg.norm(middle, axis=1) - 1) > 5e-3).any():
            code = "ACCESSOR_ANIMATION_SAMPLER_OUTPUT_NON_NORMALIZED_QUATERNION"
            notes.warn(code, f"{label} has rotations that are not of unit length; normalised")
        used_values = (values if parts == 3 else middle)[used_keys]
        self.channels[target] = Channel(node, path, interpolation, times, used_values)

    def _check_format(self, sampler: dict[str, Any], path: str) -> None:
        kind, component, _ = self.accessors.describe(sampler["input"])
        if (kind, component) != ("SCALAR", FLOAT):
            what = f"{self.label}: its times are of type {kind}, component type {component}"
            self.notes.fail("ANIMATION_SAMPLER_INPUT_ACCESSOR_INVALID_FORMAT", what)
        if not self.accessors.has_bounds(sampler["input"]):
            code = "ANIMATION_SAMPLER_INPUT_ACCESSOR_WITHOUT_BOUNDS"
            self.notes.warn(code, f"{self.label}: its times declare no bounds; ignored")
        kind, component, _ = self.accessors.describe(sampler["output"])
        expected = {"rotation": "VEC4", "weights": "SCALAR"}.get(path, "VEC3")
        if kind != expected or component not in (FLOAT, *NORMALISED):
            what = f"{self.label}: values of a {path} are of type {kind}; save it again"
            self.notes.fail("ANIMATION_SAMPLER_OUTPUT_ACCESSOR_INVALID_FORMAT", what)

    def _times(self, index: int) -> tuple[Floats, Ints]:
        """Return increasing key times and the indices of their keys; read once for all channels."""
        if index in self._key_times:
            return self._key_times[index]
        times = self.accessors.floats(index)[:, 0]
        if times.min() < 0:
            message = f"{self.label} begins at {times.min():.4g} s, before zero; kept"
            self.notes.warn("ACCESSOR_ANIMATION_INPUT_NEGATIVE", message)
        highest = np.maximum.accumulate(times)
        used = np.flatnonzero(np.concatenate([[True], times[1:] >= highest[:-1]]))
        has_data = "bufferView" in self.document.part("accessors")[index]
        code, key_times = "ACCESSOR_ANIMATION_INPUT_NON_INCREASING", times[used]
        if len(used) < len(times) and has_data:
            self.notes.warn(code, f"{self.label} has keys that go back in time; they are ignored")
        if (np.diff(key_times) == 0).any():
            if has_data:
                self.notes.warn(code, f"{self.label} has several keys at one time; kept as a jump")
            key_times, chosen = _jumping_times(key_times)
            used = used[chosen]
        self._key_times[index] = key_times, used
        return key_times, used


def _jumping_times(times: Floats) -> tuple[Floats, Ints]:
    """Return increasing times: the first of several equal times is moved just before the last.

    Keys between these two are never played and are dropped.
    """
    first = np.concatenate([[True], np.diff(times) > 0])
    last = np.concatenate([first[1:], [True]])
    chosen = np.flatnonzero(first | last)
    early = ~last[chosen]
    return np.where(early, np.nextafter(times[chosen], -np.inf), times[chosen]), chosen


def moving_nodes(forest: NodeForest, animations: Sequence[Sequence[Channel]]) -> set[int]:
    """Return the nodes that any animation moves away from rest."""
    rests, moving = forest.rest(), set()
    for channel in (each for animation in animations for each in animation):
        if channel.path not in rests or channel.node in moving:
            continue
        rest = rests[channel.path][channel.node]
        spline = channel.values.ndim == 3
        values = channel.values[:, 1] if spline else channel.values
        if channel.path == "rotation":  # q and -q are the same rotation
            values = np.where(values @ rest[:, None] < 0, -values, values)
        tolerance = HELD * max(1.0, float(np.abs(rest).max()))
        # Tangents move a node even between equal keys.
        has_slope = spline and np.abs(channel.values[:, [0, 2]]).max() > tolerance
        if has_slope or np.abs(values - rest).max() > tolerance:
            moving.add(channel.node)
    return moving


# Clips as motions: poses and root transforms.


Clips = dict[str, tuple[int, list[Channel]]]
# Keys of different channels nearer than this are merged, in seconds.
SAME_TIME = 1e-5
# Most numbers of a clip while it is read: 1.6 GB.
MOST_NUMBERS = 200_000_000


@dataclass
class ClipReader:
    """Conversion of channels of nodes to tracks of joints and shape weights, in metres."""

    frames: JointFrames
    shapes_of_node: dict[int, range]
    rest_weights: Floats
    n_copies: int = 0

    def tracks(self, channels: Sequence[Channel]) -> tuple[Track, ...]:
        """Return the tracks of a clip's channels; channels with the same times share a track."""
        joint_of = {int(node): joint for joint, node in enumerate(self.frames.nodes)}
        groups: dict[tuple[str, str, int], list[tuple[int, Channel]]] = {}
        tracks = []
        for channel in channels:
            if channel.path == "weights":
                shapes = self.shapes_of_node.get(channel.node)
                if shapes is not None:
                    items, values = np.arange(shapes.start, shapes.stop), channel.values[..., None]
                    kind = channel.interpolation
                    tracks.append(Track("weights", items, kind, channel.times, values))
            elif channel.node in joint_of:
                key = channel.path, channel.interpolation, id(channel.times)
                groups.setdefault(key, []).append((joint_of[channel.node], channel))
        for (path, interpolation, _), members in groups.items():
            joints = np.array([joint for joint, _ in members])
            values = np.stack([channel.values for _, channel in members], axis=-2)
            if interpolation == "CUBICSPLINE":
                slopes = self.frames.track_values(path, joints, values, slopes=True)
                slopes[:, 1] = self.frames.track_values(path, joints, values[:, 1])
                values = slopes
            else:
                values = self.frames.track_values(path, joints, values)
            tracks.append(Track(path, joints, interpolation, members[0][1].times, values))
        return tuple(tracks)


@dataclass(frozen=True, eq=False)
class GltfClip:
    """A clip with the file's interpolation, evaluated exactly at any time."""

    name: str
    animation: int
    channels: tuple[Channel, ...]
    start: float
    end: float
    tracks: MotionTracks

    def sample(self, times: ArrayLike) -> tuple[Floats, Floats]:
        """Return poses (t, s) and roots (t, 4, 4), interpolated as in glTF; constant outside."""
        seconds = np.atleast_1d(np.asarray(times, dtype=np.float64))
        if seconds.ndim != 1 or not np.isfinite(seconds).all():
            raise SuppleError(f'clip "{self.name}": times must be a list of finite seconds')
        return self.tracks.sample(seconds)

    def motion(self) -> Motion:
        """Return the clip as a motion with a key at every key of a channel."""
        times = distinct_times([channel.times for channel in self.channels], SAME_TIME)
        poses, roots = self.sample(times)
        return Motion(times, poses, roots, self.name, tracks=self.tracks)


def _compared_times(channels: Sequence[Channel]) -> Floats:
    """Return all key times of a clip, and times between keys of splines."""
    parts = [channel.times for channel in channels]
    for channel in channels:
        if channel.interpolation == "CUBICSPLINE" and len(channel.times) > 1:
            gaps = np.diff(channel.times)
            parts += [channel.times[:-1] + part * gaps for part in (0.2, 0.4, 0.6, 0.8)]
    return np.unique(np.concatenate(parts))


# All clips of a file that move the character, and their pose vector.


def read_clips(document: Document, moves: list[list[Channel]], reader: ClipReader) -> Clips:
    """Return each clip that moves the character, by name: its index in the file and channels.

    `moves` has the channels of each animation.
    """
    notes = document.notes
    n_targets = {node: len(shapes) for node, shapes in reader.shapes_of_node.items()}
    joint_nodes = set(reader.frames.nodes.tolist())
    width = 10 * (len(joint_nodes) + reader.n_copies) + len(reader.rest_weights)
    selected, names, total = [], [], 0
    for index, animation in enumerate(document.part("animations")):
        label = document.label("animation", index)
        channels = [
            channel
            for channel in moves[index]
            if channel.node in (n_targets if channel.path == "weights" else joint_nodes)
        ]
        if not channels:
            notes.warn("ANIMATION_MOVES_NOTHING", f"{label} moves nothing that is shown; ignored")
            continue
        total += len(_compared_times(channels)) * width
        if total > MOST_NUMBERS:
            what = f"{label}: its keys on {len(joint_nodes)} joints need too much memory"
            notes.fail("TOO_LARGE", f"{what}; split it")
        selected.append((index, channels))
        names.append(str(animation.get("name") or f"clip_{index}"))
    return dict(zip(unique_names(names), selected, strict=True))


def _rest_points(skeleton: Skeleton, body: Body) -> Floats:
    """Return the surface at rest, (n, 3); the bound positions of a file may be anywhere."""
    matrices = skeleton.rest_world() @ body.inverse_bind
    placed = np.zeros_like(body.points)
    for slot in range(body.joints.shape[1]):
        joints = body.joints[:, slot]
        rotated = np.einsum("nij,nj->ni", matrices[joints, :3, :3], body.points)
        placed += body.weights[:, slot, None] * (rotated + matrices[joints, :3, 3])
    return placed


def pose_clips(
    reader: ClipReader, clips: Clips, skeleton: Skeleton, body: Body | None, size: float
) -> tuple[JointPose, dict[str, GltfClip]]:
    """Return the pose layout that all clips share, and the clips by name.

    `size` is the character's size in metres.
    """
    weight = np.zeros(skeleton.n_joints)
    shape_reach = np.zeros(len(reader.rest_weights))
    reach = joint_reach(skeleton)
    if body is not None:
        np.add.at(weight, body.joints.ravel(), body.weights.ravel())
        reach = joint_reach(skeleton, _rest_points(skeleton, body), body.joints, body.weights)
        if len(body.deltas):
            shape_reach = np.linalg.norm(body.deltas, axis=2).max(axis=1, initial=0)
    space = TrackSpace(
        JointPose(skeleton), None, np.zeros(3), reader.rest_weights, reach, shape_reach, size
    )
    file_tracks = [
        MotionTracks.of_file(space, reader.tracks(channels)) for _, channels in clips.values()
    ]
    samples = [
        tracks.local_transforms(_compared_times(channels))
        for tracks, (_, channels) in zip(file_tracks, clips.values(), strict=True)
    ]
    policy = RootPolicy.chosen(skeleton, samples, weight, size)
    rest_locals = [policy.split(local)[0] for local in samples]
    joint_pose = pose_of_motions(skeleton, rest_locals, size)
    space = replace(space, joint_pose=joint_pose, split=policy)
    return joint_pose, {
        name: GltfClip(
            name,
            index,
            tuple(channels),
            float(min(channel.times[0] for channel in channels)),
            float(max(channel.times[-1] for channel in channels)),
            replace(tracks, space=space),
        )
        for tracks, (name, (index, channels)) in zip(file_tracks, clips.items(), strict=True)
    }
