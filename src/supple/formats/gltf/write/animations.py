"""Animations of a glTF file: weights of new morph targets, and new motions of its nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Floats
from supple.formats.clip_match import plays
from supple.formats.gltf.accessors import Accessors
from supple.formats.gltf.document import Document
from supple.formats.gltf.gltf_file import GltfFile
from supple.formats.gltf.read.animation import Channel, GltfClip
from supple.formats.gltf.read.baked_flesh import channel_target, key_rows
from supple.formats.gltf.read.gltf import GltfSource
from supple.formats.gltf.read.nodes import NodeForest, read_nodes
from supple.formats.gltf.read.skins import JointFrames
from supple.maths.rotations import (
    continuous,
    decompose,
    from_matrix,
    multiply,
    rotate,
    scaling,
    to_matrix,
)
from supple.rig.baked_motion import BakedMotion
from supple.rig.character import Character

#: Seconds over which new weights fade in and out at the ends of a baked part of a clip.
FADE = 0.25


@dataclass
class Track:
    """Keys of weights: (k,) times and (k, b) values, or (k, 3, b) for splines."""

    times: Floats
    values: Floats
    interpolation: str = "LINEAR"


def faded(track: Track, start: float, end: float, gap: float) -> Track:
    """Fade a track to zero outside the baked part of a clip from `start` to `end`.

    Weights reach zero within `FADE` seconds, or at the clip's end if that is sooner; keys within
    `gap` seconds of the clip's ends need no fade. Times are rounded to float32, as in the file.
    """
    times, values = track.times, track.values
    nothing = np.zeros((1, values.shape[1]))
    if times[0] - start > gap:
        times = np.concatenate([[float(np.float32(max(start, times[0] - FADE)))], times])
        values = np.vstack([nothing, values])
    if end - times[-1] > gap:
        times = np.concatenate([times, [float(np.float32(min(end, times[-1] + FADE)))]])
        values = np.vstack([values, nothing])
    return Track(times, values)


def joined(old: Channel, new: Track) -> Track:
    """Return a track with the old weights in the first columns, then the new weights."""
    if old.interpolation == "CUBICSPLINE" and len(old.times) > 1:
        return _joined_splines(old, new)
    times = np.union1d(old.times, new.times)
    if old.interpolation == "STEP":
        times = with_jumps(times, old.times)
    return Track(times, np.hstack([old.at(times), _lines(new, times)]))


def with_jumps(times: Floats, steps: Floats) -> Floats:
    """Return times and, before each step but the first, the adjacent float32 time."""
    before = np.nextafter(steps[1:].astype(np.float32), np.float32(-np.inf))
    return np.union1d(times, before.astype(np.float64))


def _lines(track: Track, times: Floats) -> Floats:
    lines = np.empty((len(times), track.values.shape[1]))  # b may be 0
    for number, column in enumerate(track.values.T):
        lines[:, number] = np.interp(times, track.times, column)
    return lines


def _joined_splines(old: Channel, new: Track) -> Track:
    """Join the keys of both; linear segments become splines whose tangents are their slopes."""
    times = np.union1d(old.times, new.times)
    gaps = np.diff(times)[:, None]
    lines = _lines(new, times)
    slopes = np.diff(lines, axis=0) / gaps
    nothing = np.zeros((1, lines.shape[1]))
    new_values = np.stack(
        [np.vstack([nothing, slopes]), lines, np.vstack([slopes, nothing])], axis=1
    )
    in_tangents, out_tangents = spline_tangents(old, times)
    old_values = np.stack([in_tangents, old.at(times), out_tangents], axis=1)
    return Track(times, np.concatenate([old_values, new_values], axis=2), "CUBICSPLINE")


def spline_tangents(spline: Channel, times: Floats) -> tuple[Floats, Floats]:
    """Return derivatives of a spline from the left and from the right at each time."""
    keys, values = spline.times, spline.values
    inside = (times > keys[0]) & (times < keys[-1])
    slopes = []
    for side in ("left", "right"):
        before = np.clip(np.searchsorted(keys, times, side=side) - 1, 0, len(keys) - 2)
        gap = (keys[before + 1] - keys[before])[:, None]
        u = (times - keys[before])[:, None] / gap
        start, end = values[before, 1], values[before + 1, 1]
        leaving, coming = values[before, 2], values[before + 1, 0]
        slope = (
            (6 * u**2 - 6 * u) * (start - end) / gap
            + (3 * u**2 - 4 * u + 1) * leaving
            + (3 * u**2 - 2 * u) * coming
        )
        # Constant before the first key and after the last.
        reached = inside | (times == (keys[-1] if side == "left" else keys[0]))
        slopes.append(np.where(reached[:, None], slope, 0.0))
    return slopes[0], slopes[1]


class Times:
    """Accessors of key times, shared by tracks with the same times."""

    def __init__(self, file: GltfFile) -> None:
        self._file = file
        self._indices: dict[bytes, int] = {}

    def accessor(self, times: NDArray[np.floating]) -> int:
        """Return the accessor of the times, a new one if there is none yet."""
        keys = np.ascontiguousarray(times, dtype=np.float32)
        if keys.tobytes() not in self._indices:
            self._indices[keys.tobytes()] = self._file.accessor(keys[:, None], bounds=True)
        return self._indices[keys.tobytes()]

    def sampler(
        self, times: Floats, values: NDArray[np.floating], interpolation: str = "LINEAR"
    ) -> dict[str, Any]:
        """Return a sampler of values (k, c) at key times; splines have three rows for each key."""
        keys = self.accessor(times)
        output = self._file.accessor(np.ascontiguousarray(values, dtype=np.float32))
        return {"input": keys, "output": output, "interpolation": interpolation}


def play_weights(
    times: Times,
    animation: dict[str, Any],
    node: int,
    track: Track,
    old: Channel | None,
    rest: list[float],
) -> None:
    """Animate the new weights of a node.

    `old` is the channel that animates weights of the node's previous targets, if any; `rest` has
    their weights at rest.
    """
    if old is None:
        constant = np.broadcast_to(np.asarray(rest, np.float64), (len(track.times), len(rest)))
        track_of_all = Track(track.times, np.hstack([constant, track.values]))
    else:
        track_of_all = joined(old, track)
    values = track_of_all.values.reshape(-1, 1)
    sampler = times.sampler(track_of_all.times, values, track_of_all.interpolation)
    play_sampler(animation, node, "weights", sampler)


def widen_weights(
    file: GltfFile,
    accessors: Accessors,
    animation: dict[str, Any],
    gained: dict[int, int],
    played: set[int],
) -> None:
    """Append zeros for new targets to weights channels; `gained` has their number by node.

    The first weights channel of a node in `played` is skipped, because it has been replaced
    already; its duplicates, which viewers ignore, are widened.
    """
    seen: set[int] = set()
    for channel in animation["channels"]:
        node, path = channel_target(channel)
        if path != "weights" or node is None or node not in gained:
            continue
        if node in played and node not in seen:
            seen.add(node)
            continue
        sampler = dict(animation["samplers"][channel["sampler"]])
        values = accessors.raw(sampler["output"])
        wide = np.pad(values.reshape(key_rows(accessors, sampler), -1), ((0, 0), (0, gained[node])))
        _, _, normalized = accessors.describe(sampler["output"])
        sampler["output"] = file.accessor(wide.reshape(-1, 1), normalized=normalized)
        _set_sampler(animation, channel, sampler)


def play_sampler(animation: dict[str, Any], node: int, path: str, sampler: dict[str, Any]) -> None:
    """Animate a property of a node by a sampler, in place of the present one."""
    channel = next((c for c in animation["channels"] if channel_target(c) == (node, path)), None)
    if channel is not None:
        _set_sampler(animation, channel, sampler)
    else:
        add_channel(animation, node, path, sampler)


def add_channel(animation: dict[str, Any], node: int, path: str, sampler: dict[str, Any]) -> None:
    """Append a channel of a node's property, with its sampler."""
    number = len(animation["samplers"])
    animation["samplers"].append(sampler)
    animation["channels"].append({"sampler": number, "target": {"node": node, "path": path}})


def _set_sampler(
    animation: dict[str, Any], channel: dict[str, Any], sampler: dict[str, Any]
) -> None:
    """Set a channel's sampler, in place of the old one unless other channels use that."""
    place = channel["sampler"]
    if sum(other["sampler"] == place for other in animation["channels"]) == 1:
        animation["samplers"][place] = sampler
    else:
        animation["samplers"].append(sampler)
        channel["sampler"] = len(animation["samplers"]) - 1


def matching_clip(loaded: Character, baked: BakedMotion, times: Floats) -> GltfClip | None:
    """Return the clip of the file, as loaded again, that equals a motion; None without one."""
    clip: GltfClip | None = loaded.source.clips.get(baked.motion.name)
    # A motion that is longer than the clip of its name is a different one.
    gap = 1.5 / baked.rate
    if clip is None or times[0] < clip.start - gap or times[-1] > clip.end + gap:
        return None
    return clip if plays(clip.sample, loaded.rig, baked) else None


# Motions that the file does not have, as animations of its nodes.


#: Nodes that differ from rest by less than this are not animated: rounding of the file.
STILL = 1e-7


class NodeMotion:
    """Poses and roots of a character as local transforms of the file's nodes.

    `document` is the original file, `source` has the nodes of the joints.
    """

    def __init__(self, document: Document, source: GltfSource, metres_per_unit: float) -> None:
        assert source.joint_pose is not None
        self.forest = read_nodes(document)
        self.joint_pose = source.joint_pose
        # Copies of joints are last, after the joint without a node.
        nodes = source.joint_nodes[: len(np.unique(source.joint_nodes))]
        self.nodes, self.count = nodes[nodes >= 0], len(nodes)
        names = [str(node) for node in self.nodes]
        self.frames = JointFrames(self.forest, self.nodes, names, metres_per_unit)
        self.metres_per_unit = metres_per_unit
        self.still = self._still_nodes(document, source)
        nearest = self.forest.nearest_above(self.still, self.nodes.tolist())
        follows = np.array([nearest[node][0] >= 0 for node in self.nodes.tolist()], dtype=bool)
        self.tops = np.flatnonzero((self.frames.parents < 0) & ~follows)

    def _still_nodes(self, document: Document, source: GltfSource) -> set[int]:
        """Return the topmost nodes of meshes that follow no joint."""
        nodes, parents = document.part("nodes"), self.forest.parents
        rigid = {p.node for p in source.primitives if p.node >= 0 and "skin" not in nodes[p.node]}
        nearest = self.forest.nearest_above(set(self.nodes.tolist()), rigid)
        unattached = {node for node in rigid if nearest[node][0] < 0}
        above = self.forest.nearest_above(unattached, unattached)
        return {node for node in unattached if above[int(parents[node])][0] < 0}

    def playable(self, poses: Floats) -> Floats:
        """Return poses without the motion of copied joints, which no node can play."""
        played = poses.copy()
        columns = 3 * self.count, 3 * self.joint_pose.skeleton.n_joints
        played[:, columns[0] : columns[1]] = 0
        return played

    def locals(self, poses: Floats, roots: Floats) -> dict[str, Floats]:
        """Return translations, rotations, scales of nodes, (t, J, 3 or 4), in the file's units."""
        translations, rotations, scales = (
            part[:, : len(self.nodes)].copy() for part in self._unpacked(poses)
        )
        root_rotation = continuous(from_matrix(roots[:, :3, :3]))
        for top in self.tops:
            translations[:, top] = rotate(root_rotation, translations[:, top]) + roots[:, :3, 3]
            rotations[:, top] = multiply(root_rotation, rotations[:, top])
        parts = self.frames.in_units(translations, rotations, scales)
        return dict(zip(("translation", "rotation", "scale"), parts, strict=True))

    def _unpacked(self, poses: Floats) -> tuple[Floats, Floats, Floats]:
        return self.joint_pose.unpack(poses[:, : self.joint_pose.n_parameters])

    def _unattached(self, node: int, poses: Floats, roots: Floats) -> dict[str, Floats]:
        """Return the animated local transforms P⁻¹ G P L of a node that no joint's node moves.

        L is its rest transform, P its parent's transform in the scene, and G the root's motion
        times the motion of the joint without a node, in the file's units.
        """
        translations, rotations, _ = (part[:, len(self.nodes)] for part in self._unpacked(poses))
        joint_motion = np.tile(np.eye(4), (len(poses), 1, 1))
        joint_motion[:, :3, :3], joint_motion[:, :3, 3] = to_matrix(rotations), translations
        parent = int(self.forest.parents[node])
        above = self.forest.nearest_above((), [node])[parent][1]
        metres = scaling(self.metres_per_unit)
        motion = np.linalg.inv(metres) @ roots @ joint_motion @ metres
        parts, _ = decompose(np.linalg.inv(above) @ motion @ above @ self.forest.local(node))
        return {"translation": parts.translations, "rotation": parts.rotations}

    def tracks(self, poses: Floats, roots: Floats) -> list[tuple[int, str, Floats]]:
        """Return node, path and values (t, c) of every property that differs from rest."""
        rests = self.forest.rest()
        tracks = [
            (node, path, values[:, joint])
            for path, values in self.locals(poses, roots).items()
            for joint, node in enumerate(self.nodes.tolist())
        ]
        for node in sorted(self.still):
            transforms = self._unattached(node, poses, roots)
            tracks += [(node, path, values) for path, values in transforms.items()]
        moving = []
        for node, path, values in tracks:
            keys, rest = values, rests[path][node]
            if path == "rotation":
                keys = continuous(keys)
                keys = -keys if keys[0] @ rest < 0 else keys
            if np.abs(keys - rest).max() > STILL * max(1.0, float(np.abs(rest).max())):
                moving.append((node, path, keys))
        return moving


def free_node(file: GltfFile, forest: NodeForest, node: int) -> None:
    """Replace a node's matrix, which cannot be animated, by its components."""
    node_json = file.part("nodes")[node]
    if "matrix" in node_json:
        del node_json["matrix"]
        node_json |= {path: values[node].tolist() for path, values in forest.rest().items()}
