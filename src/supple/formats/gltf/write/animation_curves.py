"""Free curves in glTF: the character's own file, with new keys on free channels only."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.errors import FormatError, SuppleError, SuppleWarning, warn
from supple.formats.clip_match import placed
from supple.formats.curve_keys import (
    ValueTrack,
    checked_keys,
    error_of,
    sampled_curves,
    track_reach,
    within_error,
)
from supple.formats.file_bytes import reading
from supple.formats.gltf.container import Notes
from supple.formats.gltf.document import Document
from supple.formats.gltf.gltf_file import GltfFile, open_unchanged
from supple.formats.gltf.kept_original import keep_original, without_curves
from supple.formats.gltf.read.animation import Channel, GltfClip
from supple.formats.gltf.read.gltf import GltfSource, read_gltf
from supple.formats.gltf.write.animations import (
    NodeMotion,
    Times,
    free_node,
    matching_clip,
    play_sampler,
    with_jumps,
)
from supple.formats.gltf.write.curve_tracks import PATHS, NodeTrack, WeightsTrack, sampler_of
from supple.formats.gltf.write.morph_targets import unused_names
from supple.formats.gltf.write.source_file import loaded_again
from supple.formats.gltf.write.vrm_extension import overlapping_springs, warn_of_springs
from supple.maths.key_reduction import KeyKind, Keys
from supple.maths.rotations import continuous, from_matrix, inverse, multiply, rotate
from supple.rig.baked_motion import BakedMotion
from supple.rig.character import Character
from supple.rig.free_curves import FreeCurves, FreeJoint
from supple.rig.motion.motion import Motion
from supple.saving import write_whole


def write_gltf_curves(
    path: str | Path,
    curves: FreeCurves,
    *,
    keys: KeyKind | None = None,
    error: float | None = None,
    additive: bool = False,
    drop_springs: bool = False,
) -> dict[str, Any]:
    """Write curves into a copy of the character's own glTF file.

    Parameters
    ----------
    path
        A ``.glb`` or ``.gltf``; it may be the character's own file.
    curves
        Curves of a character that was loaded from glTF.
    keys, error
        ``"every"`` frame a key, or as few keys as keep the skin within an error (`error_of`),
        joined by lines (``"linear"``) or cubic splines (``"spline"``); by default splines, and
        lines where the clip has steps.
    additive
        Leave the clip unchanged, and add one with only the motion that physics adds, around rest.
    drop_springs
        For a VRM: remove springs that move the same joints; otherwise a warning names them.

    Returns
    -------
    dict
        ``animation`` and whether it is ``new``, ``channels`` written, ``n_keys`` of ``n_samples``,
        the ``error`` reached when the file is read again, the ``simulation_error`` (distance from
        the simulation), ``key_times`` by free parameter, and ``bytes``.

    Notes
    -----
    Free channels of the clip get new samplers; if one of a mesh's weights is free, all are
    written. Everything else is unchanged, and the original is stored in the file:
    `supple.formats.remove_curves` restores it to the byte. A motion that the file lacks becomes a
    new animation.
    """
    path = Path(path)
    if not isinstance(curves.character.source, GltfSource):
        what = f"{path.name}: {curves.character.name} was not loaded from glTF"
        raise FormatError(f"{what}, so its curves cannot be saved there; use .csv or .json")
    kind, tolerance = checked_keys(keys or "spline"), error_of(error, curves)
    writer = _CurveWriter(path, sampled_curves(curves, kind), kind, additive)
    if kind == "spline" and writer.jumps and (keys is None or curves.fine is not None):
        kind = "spline" if keys else "linear"
        writer = _CurveWriter(path, curves, kind, additive)
    data, reached = within_error(curves, tolerance, kind, partial(writer.made, drop_springs))
    write_whole(path, data)
    if not drop_springs:
        warn_of_springs(path.name, writer.springs)
    if error is not None and reached > 1.02 * tolerance and kind != "every":
        much = f"{reached:.2%} of the size, above {tolerance:.2%}"
        warn(f"{path.name}: the error of the keys is {much}")
    return {**writer.figures, "error": reached, "bytes": len(data)}


class _CurveWriter:
    """Writer that adds curves to a copy of the character's file, once per choice of keys."""

    def __init__(self, path: Path, curves: FreeCurves, kind: KeyKind, additive: bool) -> None:
        self.path, self.curves, self.kind, self.additive = path, curves, kind, additive
        self.character: Character = curves.character
        source: GltfSource = self.character.source
        data = source.read()
        with warnings.catch_warnings():  # they were given when the file was loaded
            warnings.simplefilter("ignore", SuppleWarning)
            self.data = without_curves(source.path.name, data)
        try:
            self.loaded = loaded_again(self.character, source, curves=False)
        except FormatError as error:
            if self.data is data:
                raise
            raise FormatError(
                f"{source.path.name}: already has curves; load it with curves=False to replace them"
            ) from error
        self.source: GltfSource = self.loaded.source
        with reading(source.path.name):
            self.document = Document(source.path, self.data, Notes(source.path.name))
        self._check_parameters()
        self.when = curves.times.astype(np.float32).astype(np.float64)
        rate = curves.rate or 30.0
        empty = np.empty((0, 0, 3), np.float32)
        frames = curves.keyable(curves.times)  # between them the file has lines
        poses, roots = curves.keyed[frames], curves.roots[frames]
        motion = Motion(curves.times[frames], poses, roots, curves.name)
        baked = BakedMotion(self.character, motion, empty, rate)
        self.clip: GltfClip | None = matching_clip(self.loaded, baked, self.when[frames])
        self.figures: dict[str, Any] = {}
        self.springs: list[str] = []

    @property
    def jumps(self) -> bool:
        """Whether the file's clip has steps, which splines between frames would not have."""
        channels = () if self.clip is None else self.clip.channels
        return any(each.interpolation == "STEP" for each in channels)

    def _check_parameters(self) -> None:
        names = [each.name for each in self.loaded.rig.parameters]
        if names != [each.name for each in self.character.rig.parameters]:
            missing = next((name for name in self.curves.free if name not in names), "")
            what = f'"{missing}" is not a channel of' if missing else "the rig differs from that of"
            raise FormatError(f"{self.path.name}: {what} the file; use .csv or .json")

    def made(self, drop_springs: bool, metres: float) -> tuple[bytes, float]:
        """Return the file with keys within `metres` of each channel, and the error of the skin.

        That error is the largest of any vertex, as a fraction of the size.
        """
        base, file = open_unchanged(self.path, self.source.path, self.data)
        animation, new = self._animation(file)
        times, count, samples = Times(file), 0, 0
        key_times: dict[str, list[float]] = {}
        for entry in self.tracks:
            free_node(file, self.forest, entry.node)
            keys = self._keys(entry, metres)
            sampler = sampler_of(times, entry, keys)
            play_sampler(animation, entry.node, entry.track.path, sampler)
            count += len(keys)
            samples += int(self.curves.keyable(entry.track.times).sum())
            for column in entry.columns[np.isin(entry.columns, self.curves.columns)]:
                key_times[self.character.rig.parameters[column].name] = keys.times.tolist()
        if not self.tracks:
            raise FormatError(f"{self.path.name}: no free parameter is a channel of the file")
        if new:
            file.add("animations", animation)
        nodes = {entry.node for entry in self.tracks}
        self.springs = overlapping_springs(file, nodes, drop_springs)
        self.figures = {
            "animation": str(animation.get("name") or self.curves.name),
            "new": new,
            "channels": len(self.tracks),
            "keys": self.kind,
            "n_keys": count,
            "n_samples": samples,
            "key_times": key_times,
            "simulation_error": 0.0,
        }
        keep_original(file, base, {"animation": self.figures["animation"]})
        data = file.to_bytes(self.path)
        return data, self._measured(data, len(file.part("animations")) - 1, new)

    def _keys(self, entry: NodeTrack, metres: float) -> Keys:
        if not isinstance(entry, WeightsTrack):
            return entry.track.keys(metres, self.kind, self.curves)
        kind = self.kind
        if kind == "spline" and entry.old.interpolation != "CUBICSPLINE" and entry.varies:
            kind = "linear"  # other weights stay linear
        return entry.track.bounded_keys(metres, kind, self.curves)

    def _animation(self, file: GltfFile) -> tuple[dict[str, Any], bool]:
        """Return the animation to change, and whether it is new."""
        if self.clip is not None and not self.additive:
            return file.part("animations")[self.clip.animation], False
        name = self.curves.name or "curves"
        if self.additive:
            name = f"{name}_additive"
        names = [str(each.get("name")) for each in file.part("animations")]
        return {"name": unused_names([name], names)[0], "channels": [], "samplers": []}, True

    # Values to write: those of the file plus those that curves add.

    @cached_property
    def node_motion(self) -> NodeMotion:
        return NodeMotion(self.document, self.source, self.loaded.metres_per_unit)

    @property
    def forest(self) -> Any:
        return self.node_motion.forest

    @cached_property
    def target_motion(self) -> tuple[Floats, Floats]:
        """Poses (t, s) and roots (t, 4, 4) to write: the file's motion with the curves added."""
        if self.additive:
            additive_motion = self.curves.additive()
            return additive_motion.poses, additive_motion.roots
        if self.clip is None:
            return self.node_motion.playable(self.curves.poses), self.curves.roots
        poses, roots = self.clip.sample(self.when)
        columns = self.curves.columns
        poses[:, columns] = self.curves.smooth_between(poses[:, columns])
        return self.curves.over(poses), roots

    def _smooth(self, times: Floats, values: Floats) -> Floats:
        """Return values (t, …) of the file, on splines between the frames of the curves."""
        inside = (times >= self.when[0]) & (times <= self.when[-1])
        if np.array_equal(times[inside], self.when):  # without jumps
            values[inside] = self.curves.smooth_between(values[inside])
        return values

    @cached_property
    def tracks(self) -> list[NodeTrack]:
        if self.clip is None and not self.additive:
            return [*self._new_tracks(), *self._weight_tracks(self.when, None)]
        base = None if self.additive else self.clip
        times = self.when if base is None else self._clip_times(base)
        return [*self._joint_tracks(times, base), *self._weight_tracks(times, base)]

    def _clip_times(self, clip: GltfClip) -> Floats:
        """Return times of frames and jumps, and of keys outside the baked part of a clip."""
        nodes = {int(self.source.joint_nodes[joint.joint]) for joint in self.curves.joints}
        nodes |= {self.source.shapes[k][0] for k in self._free_shapes()}
        parts = [self.when]
        for channel in clip.channels:
            if channel.node not in nodes:
                continue
            times = channel.times
            if channel.interpolation == "STEP":
                times = with_jumps(times, times)
            elif channel.interpolation == "CUBICSPLINE" and len(times) > 1:
                count = 1 + int((times[-1] - times[0]) * max(self.curves.rate, 30.0))
                times = np.union1d(times, np.linspace(times[0], times[-1], count))
            times = times.astype(np.float32).astype(np.float64)
            jumps = channel.interpolation == "STEP"
            parts.append(times[(times < self.when[0]) | (times > self.when[-1]) | jumps])
        return np.unique(np.concatenate(parts))

    def _spread(self, times: Floats, added: Floats, nothing: ArrayLike) -> Floats:
        """Return added values (t, c) at all times: linear between frames, the neutral element
        `nothing` outside; four columns are quaternions.
        """
        spread = np.empty((len(times), added.shape[1]))
        spread[:] = nothing
        inside = (times >= self.when[0]) & (times <= self.when[-1])
        columns = continuous(added) if added.shape[1] == 4 else added
        for number, column in enumerate(columns.T):
            spread[inside, number] = np.interp(times[inside], self.when, column)
        if added.shape[1] == 4:
            spread /= np.linalg.norm(spread, axis=1, keepdims=True)
        return spread

    def _joint_tracks(self, times: Floats, clip: GltfClip | None) -> Iterator[NodeTrack]:
        frames = self.node_motion.frames
        rest = tuple(np.repeat(part[None], len(times), axis=0) for part in frames.rest)
        count = len(frames.nodes)
        local = rest if clip is None else clip.tracks.local_transforms(times)
        translations, rotations, scales = (part[:, :count].copy() for part in local)
        free_channels: list[tuple[FreeJoint, str, Ints]] = []
        for joint in self.curves.joints:
            k = joint.joint
            if k >= count or self.source.joint_nodes[k] < 0:
                raise FormatError(f'{self.path.name}: "{joint.name}" is not a node of the file')
            if joint.turn is not None:
                near = continuous(rotations[:, k]) if len(times) > 1 else rotations[:, k]
                smooth = self._smooth(times, near.copy())
                rotations[:, k] = smooth / np.linalg.norm(smooth, axis=1, keepdims=True)
                added = self._spread(times, self.curves.turned(joint), (0.0, 0.0, 0.0, 1.0))
                rotations[:, k] = multiply(rotations[:, k], added)
                free_channels.append((joint, "rotation", joint.turn))
            if joint.move is not None:
                translations[:, k] = self._smooth(times, translations[:, k])
                translations[:, k] += self._spread(times, self._offsets(joint, clip), 0.0)
                free_channels.append((joint, "translation", joint.move))
            if joint.scale is not None:
                scales[:, k] = self._smooth(times, scales[:, k])
                off = self.curves.poses[:, joint.scale] - self.curves.keyed[:, joint.scale]
                scales[:, k] *= self._spread(times, np.exp(off), 1.0)
                free_channels.append((joint, "scale", joint.scale))
        moved, turned, scaled = frames.in_units(translations, rotations, scales)
        tables = {"translation": moved, "rotation": turned, "scale": scaled}
        for joint, path, columns in free_channels:
            values, reach = tables[path][:, joint.joint], track_reach(self.curves, columns)
            if path == "rotation":
                values = continuous(values) if len(values) > 1 else values
            elif path == "translation":
                reach = reach * frames.parent_sizes[joint.joint]
            node = int(self.source.joint_nodes[joint.joint])
            yield NodeTrack(node, ValueTrack(path, times, values, reach), columns)  # type: ignore[arg-type]

    def _offsets(self, joint: FreeJoint, clip: GltfClip | None) -> Floats:
        """Return offsets (t, 3) of a joint in its parent's frame in the file. Poses exclude the
        root's motion; if the joint has that motion, offsets are rotated by it.
        """
        offsets = self.curves.poses[:, joint.move] - self.curves.keyed[:, joint.move]
        split = None if clip is None else clip.tracks.space.split
        if split is None or split.joint < 0 or joint.joint not in split.tops:
            return offsets
        rotation = from_matrix(self.curves.roots[:, :3, :3])
        parent = int(split.skeleton.parents[joint.joint])
        if parent >= 0:
            linear = split.skeleton.rest_world()[parent, :3, :3]
            frame = from_matrix(linear / np.cbrt(np.linalg.det(linear)))
            rotation = multiply(multiply(inverse(frame), rotation), frame)
        return rotate(rotation, offsets)

    def _new_tracks(self) -> Iterator[NodeTrack]:
        """Yield all tracks of a motion that the file does not have."""
        reach, free = np.full(1, self.character.surface.size), {}
        for joint in self.curves.joints:
            node = int(self.source.joint_nodes[joint.joint])
            for path, part in zip(PATHS, (joint.turn, joint.move, joint.scale), strict=True):
                free[node, path] = np.empty(0, np.int64) if part is None else part
        for node, path, values in self.node_motion.tracks(*self.target_motion):
            metres = reach if path == "rotation" else reach / max(self.character.surface.size, 1e-9)
            track = ValueTrack(path, self.when, values, metres)  # type: ignore[arg-type]
            yield NodeTrack(node, track, free.get((node, path), np.empty(0, np.int64)))

    def _free_shapes(self) -> list[int]:
        """Return the indices of the file's shapes that are free."""
        first = len(self.loaded.rig.parameters) - len(self.source.shapes)
        return [int(column) - first for column in self.curves.columns if column >= first]

    def _weight_tracks(self, times: Floats, clip: GltfClip | None) -> Iterator[NodeTrack]:
        shapes, free = self.source.shapes, set(self._free_shapes())
        first = len(self.loaded.rig.parameters) - len(shapes)
        is_new = self.clip is None and not self.additive  # with all keys of a new motion
        rest = self.loaded.rig.rest_pose[first:]
        for node in dict.fromkeys(owner for owner, _ in shapes):
            of_node = np.array([k for k, (owner, _) in enumerate(shapes) if owner == node])
            new = np.array([k in free for k in of_node])
            if is_new:
                new |= (self.curves.poses[:, first + of_node] != rest[of_node]).any(axis=0)
            if not new.any():
                continue
            old = None
            base = np.repeat(rest[None, of_node], len(times), axis=0)
            if clip is not None:
                matches = [c for c in clip.channels if (c.node, c.path) == (node, "weights")]
                old = matches[0] if matches else None
                base = base if old is None else old.at(times)
            columns = first + of_node[new]
            base_values = rest[of_node[new]] if is_new else self.curves.keyed[:, columns]
            added = self.curves.poses[:, columns] - base_values
            values = self._smooth(times, base[:, new]) + self._spread(times, added, 0.0)
            played = self.curves.poses[:, columns]
            if not self.additive and played.min() >= -1e-6 and played.max() <= 1 + 1e-6:
                values = np.clip(values, 0, 1)
            reach = track_reach(self.curves, columns)
            channel = old or Channel(node, "weights", "LINEAR", times[:1], rest[None, of_node])
            track = ValueTrack("weights", times, values, reach)
            yield WeightsTrack(node, track, columns, channel, new)

    # Error when the file is read again.

    def _measured(self, data: bytes, last: int, new: bool) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SuppleWarning)
            try:
                again = read_gltf(self.path, data, self.character.metres_per_unit)
            except SuppleError as error:
                raise FormatError(f"{self.path.name}: cannot be read back ({error})") from error
        number = last if new or self.clip is None else self.clip.animation
        clip = next((c for c in again.source.clips.values() if c.animation == number), None)
        poses, roots = self.target_motion
        played = (poses, roots) if clip is None else clip.sample(self.when)
        reread = self.loaded if clip is None else again
        size, largest, simulation_error = self.character.surface.size, 0.0, 0.0
        for k in range(len(self.when)):
            goal = placed(self.loaded.rig, poses[k], roots[k])
            positions = placed(reread.rig, played[0][k], played[1][k])
            largest = max(largest, float(np.linalg.norm(positions - goal, axis=1).max()))
            if not self.additive:
                skin = self.curves.skin(k)
                distance = float(np.linalg.norm(positions - skin, axis=1).max())
                simulation_error = max(simulation_error, distance)
        self.figures["simulation_error"] = simulation_error / size
        return largest / size
