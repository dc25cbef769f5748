"""Clips of a glTF file as motions of a character: poses and root transforms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats
from supple.errors import SuppleError
from supple.formats.gltf.document import Document
from supple.formats.gltf.read.animation import Channel
from supple.formats.gltf.read.skinned_body import Body
from supple.formats.gltf.read.skins import JointFrames
from supple.rig.motion.motion import Motion
from supple.rig.motion.motion_tracks import MotionTracks, TrackSpace, distinct_times, joint_reach
from supple.rig.motion.root_policy import RootPolicy, pose_of_motions
from supple.rig.motion.tracks import Track
from supple.rig.skeleton.joint_pose import JointPose
from supple.rig.skeleton.joints import Skeleton, unique_names

Clips = dict[str, tuple[int, list[Channel]]]
# Keys of different channels nearer than this are one.
SAME_TIME = 1e-5
# Numbers of one clip while it is read: 1.6 GB.
MOST_NUMBERS = 200_000_000


@dataclass
class ClipReader:
    """Channels of nodes as tracks of joints and shape weights, in metres."""

    frames: JointFrames
    shapes_of_node: dict[int, range]
    rest_weights: Floats
    n_copies: int = 0

    def tracks(self, channels: Sequence[Channel]) -> tuple[Track, ...]:
        """Return the tracks of a clip's channels; those with the same times in one."""
        joint_of = {int(node): joint for joint, node in enumerate(self.frames.nodes)}
        groups: dict[tuple[str, str, int], list[tuple[int, Channel]]] = {}
        found = []
        for channel in channels:
            if channel.path == "weights":
                shapes = self.shapes_of_node.get(channel.node)
                if shapes is not None:
                    items, values = np.arange(shapes.start, shapes.stop), channel.values[..., None]
                    kind = channel.interpolation
                    found.append(Track("weights", items, kind, channel.times, values))
            elif channel.node in joint_of:
                alike = channel.path, channel.interpolation, id(channel.times)
                groups.setdefault(alike, []).append((joint_of[channel.node], channel))
        for (path, interpolation, _), members in groups.items():
            joints = np.array([joint for joint, _ in members])
            values = np.stack([channel.values for _, channel in members], axis=-2)
            if interpolation == "CUBICSPLINE":
                slopes = self.frames.track_values(path, joints, values, slopes=True)
                slopes[:, 1] = self.frames.track_values(path, joints, values[:, 1])
                values = slopes
            else:
                values = self.frames.track_values(path, joints, values)
            found.append(Track(path, joints, interpolation, members[0][1].times, values))
        return tuple(found)


@dataclass(frozen=True, eq=False)
class GltfClip:
    """A clip as the file has it, to be evaluated at any time exactly."""

    name: str
    animation: int
    channels: tuple[Channel, ...]
    start: float
    end: float
    tracks: MotionTracks

    def sample(self, times: ArrayLike) -> tuple[Floats, Floats]:
        """Return poses (t, s) and roots (t, 4, 4), interpolated as glTF says; held outside."""
        when = np.atleast_1d(np.asarray(times, dtype=np.float64))
        if when.ndim != 1 or not np.isfinite(when).all():
            raise SuppleError(f'clip "{self.name}": times must be a list of finite seconds')
        return self.tracks.sample(when)

    def motion(self) -> Motion:
        """Return the clip as a motion with a key wherever a channel has one."""
        times = distinct_times([channel.times for channel in self.channels], SAME_TIME)
        poses, roots = self.sample(times)
        return Motion(times, poses, roots, self.name, tracks=self.tracks)


def _compared_times(channels: Sequence[Channel]) -> Floats:
    """Return all keys of a clip, and times between where a spline may leave their range."""
    parts = [channel.times for channel in channels]
    for channel in channels:
        if channel.interpolation == "CUBICSPLINE" and len(channel.times) > 1:
            gaps = np.diff(channel.times)
            parts += [channel.times[:-1] + part * gaps for part in (0.2, 0.4, 0.6, 0.8)]
    return np.unique(np.concatenate(parts))


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
        total += len(_compared_times(channels)) * width
        if total > MOST_NUMBERS:
            notes.fail("TOO_LARGE", f"{what}: its keys on {len(mine)} joints take too much memory")
        found.append((index, channels))
        names.append(str(animation.get("name") or f"clip_{index}"))
    return dict(zip(unique_names(names), found, strict=True))


def _rest_points(skeleton: Skeleton, body: Body) -> Floats:
    """Return the surface at rest, (n, 3): a file may bind it anywhere."""
    matrices = skeleton.rest_world() @ body.inverse_bind
    placed = np.zeros_like(body.points)
    for slot in range(body.joints.shape[1]):
        joints = body.joints[:, slot]
        there = np.einsum("nij,nj->ni", matrices[joints, :3, :3], body.points)
        placed += body.weights[:, slot, None] * (there + matrices[joints, :3, 3])
    return placed


def pose_clips(
    reader: ClipReader,
    clips: Clips,
    skeleton: Skeleton,
    body: Body | None,
    size: float,
) -> tuple[JointPose, dict[str, GltfClip]]:
    """Return a pose vector that all clips can be told in, and the clips; `size` in metres."""
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
    plain = [MotionTracks.of_file(space, reader.tracks(channels)) for _, channels in clips.values()]
    samples = [
        tracks.local_transforms(_compared_times(channels))
        for tracks, (_, channels) in zip(plain, clips.values(), strict=True)
    ]
    policy = RootPolicy.chosen(skeleton, samples, weight, size)
    calm = [policy.split(local)[0] for local in samples]
    joint_pose = pose_of_motions(skeleton, calm, size)
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
        for tracks, (name, (index, channels)) in zip(plain, clips.items(), strict=True)
    }
