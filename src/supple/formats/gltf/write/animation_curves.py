"""Free curves in glTF: the character's own file, with new keys on free channels alone."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Bools, Floats, Ints
from supple.errors import FormatError, SuppleError, SuppleWarning, warn
from supple.formats.clip_match import plays
from supple.formats.curve_keys import (
    ValueTrack,
    checked_error,
    checked_keys,
    track_reach,
    within_error,
)
from supple.formats.file_bytes import reading
from supple.formats.gltf.container import Notes
from supple.formats.gltf.document import Document
from supple.formats.gltf.gltf_file import GltfFile, added_to, check_gltf_name
from supple.formats.gltf.kept_original import keep_original, without_added
from supple.formats.gltf.read.animation import Channel, GltfClip
from supple.formats.gltf.read.gltf import GltfSource, read_gltf
from supple.formats.gltf.write.animations import (
    NodeMotion,
    Times,
    free_node,
    play_sampler,
    spline_tangents,
)
from supple.formats.gltf.write.morph_targets import unused_names
from supple.formats.gltf.write.source_file import loaded_again
from supple.formats.gltf.write.vrm_extension import give_way, warn_of_springs
from supple.maths.key_reduction import KeyKind, Keys
from supple.maths.rotations import continuous, from_matrix, inverse, multiply, rotate
from supple.rig.baked_motion import BakedMotion
from supple.rig.character import Character
from supple.rig.free_curves import FreeCurves, FreeJoint
from supple.saving import write_whole


def write_gltf_curves(
    path: str | Path,
    curves: FreeCurves,
    *,
    keys: KeyKind = "linear",
    error: float = 0.0005,
    additive: bool = False,
    drop_springs: bool = False,
) -> dict[str, Any]:
    """Write curves into a copy of the character's own glTF file.

    Parameters
    ----------
    path
        A ``.glb`` or ``.gltf``; it may be the character's own file.
    curves
        Of a character that was loaded from glTF.
    keys, error
        ``"every"`` frame a key, or as few keys as keep the skin within an error, as part of the
        size, with lines (``"linear"``) or cubic splines (``"spline"``) between them.
    additive
        Leave the clip alone, and add one that has only what physics adds, around the rest pose.
    drop_springs
        Of a VRM: take out springs that move the same joints, which are warned of otherwise.

    Returns
    -------
    dict
        ``animation`` and whether it is ``new``, ``channels`` written, ``n_keys`` of
        ``n_samples``, the ``error`` reached, as the file is read again, how far it is from the
        simulation, ``simulation_error``, and ``bytes``.

    Notes
    -----
    Free channels of the clip get new samplers; where one of a mesh's weights is free all are
    written, those that are not as they were. Everything else stays as it is, and what the file was
    is kept in it: `supple.formats.remove_curves` gives it back to the byte. A motion that the file
    has not becomes a new animation.
    """
    path = Path(path)
    check_gltf_name(path)
    if not isinstance(curves.character.source, GltfSource):
        what = f"{path.name}: curves are written into the glTF file a character came from"
        raise FormatError(f"{what}, and {curves.character.name} came from none; use .csv or .json")
    kind, within = checked_keys(keys), checked_error(error)
    writer = _CurveWriter(path, curves, kind, additive)
    whole, reached = within_error(curves, within, kind, partial(writer.made, drop_springs))
    write_whole(path, whole)
    if not drop_springs:
        warn_of_springs(path.name, writer.springs)
    if reached > 1.02 * within and kind != "every":
        warn(f"{path.name}: keys are {reached:.2%} of the size from the curves, not {within:.2%}")
    return {**writer.figures, "error": reached, "bytes": len(whole)}


@dataclass(frozen=True, eq=False)
class _NodeTrack:
    """Values of one property of a node; `free` says which of a mesh's weights are new."""

    node: int
    track: ValueTrack
    old: Channel | None = None
    free: Bools | None = None


class _CurveWriter:
    """Character's own file while it gains curves, as often as keys are chosen."""

    def __init__(self, path: Path, curves: FreeCurves, kind: KeyKind, additive: bool) -> None:
        self.path, self.curves, self.kind, self.additive = path, curves, kind, additive
        self.character: Character = curves.character
        given: GltfSource = self.character.source
        data = given.read()
        with warnings.catch_warnings():  # told when it was loaded
            warnings.simplefilter("ignore", SuppleWarning)
            self.data = without_added(given.path.name, data)
        try:
            self.loaded = loaded_again(self.character, given, curves=False)
        except FormatError as error:
            if self.data is data:
                raise
            raise FormatError(
                f"{given.path.name}: has curves already; load it with curves=False to replace them"
            ) from error
        self.source: GltfSource = self.loaded.source
        with reading(given.path.name):
            self.document = Document(given.path, self.data, Notes(given.path.name))
        self._check_parameters()
        self.when = curves.times.astype(np.float32).astype(np.float64)
        self.clip = self._clip()
        self.figures: dict[str, Any] = {}
        self.springs: list[str] = []

    def _check_parameters(self) -> None:
        own = [each.name for each in self.loaded.rig.parameters]
        if own != [each.name for each in self.character.rig.parameters]:
            other = next((name for name in self.curves.free if name not in own), "")
            what = f'"{other}" is no channel of' if other else "the rig is another than that of"
            raise FormatError(f"{self.path.name}: {what} the file; use .csv or .json")

    def _clip(self) -> GltfClip | None:
        """Return the file's clip that the motion is, None if it is no clip."""
        clip = self.source.clips.get(self.curves.name)
        if clip is None:
            return None
        rate = self.curves.rate or 30.0
        alone = BakedMotion(
            self.character, self.curves.motion, np.empty((0, 0, 3), np.float32), rate
        )
        inside = self.when[0] >= clip.start - 1.5 / rate and self.when[-1] <= clip.end + 1.5 / rate
        return clip if inside and plays(clip.sample, self.loaded.rig, alone) else None

    def made(self, drop_springs: bool, metres: float) -> tuple[bytes, float]:
        """Return the file with keys that are each within so many metres, and the error together."""
        base, file = added_to(self.path, self.source.path, self.data)
        animation, new = self._animation(file)
        times, count, samples = Times(file), 0, 0
        for each in self.tracks:
            free_node(file, self.forest, each.node)
            keys = self._keys(each, metres)
            play_sampler(animation, each.node, each.track.path, _sampler(file, times, each, keys))
            count, samples = count + len(keys), samples + len(each.track.times)
        if not self.tracks:
            raise FormatError(f"{self.path.name}: no free parameter is a channel of the file")
        if new:
            file.add("animations", animation)
        self.springs = give_way(file, {each.node for each in self.tracks}, drop_springs)
        self.figures = {
            "animation": str(animation.get("name") or self.curves.name),
            "new": new,
            "channels": len(self.tracks),
            "keys": self.kind,
            "n_keys": count,
            "n_samples": samples,
            "simulation_error": 0.0,
        }
        keep_original(file, base, {"animation": self.figures["animation"]})
        whole = file.whole(self.path)
        return whole, self._measured(whole, len(file.part("animations")) - 1, new)

    def _keys(self, each: _NodeTrack, metres: float) -> Keys:
        if each.track.path != "weights":
            return each.track.keys(metres, self.kind, self.curves)
        kind = self.kind
        if kind == "spline" and each.old is not None and each.old.interpolation != "CUBICSPLINE":
            kind = "linear" if _varies(each) else kind  # lines of others stay lines
        return each.track.bounded_keys(metres, kind, self.curves)

    def _animation(self, file: GltfFile) -> tuple[dict[str, Any], bool]:
        """Return the animation that is changed, or a new one."""
        if self.clip is not None and not self.additive:
            return file.part("animations")[self.clip.animation], False
        wanted = self.curves.name or "curves"
        if self.additive:
            wanted = f"{wanted}_additive"
        taken = [str(each.get("name")) for each in file.part("animations")]
        return {"name": unused_names([wanted], taken)[0], "channels": [], "samplers": []}, True

    # Values that are written: what the file plays, and what is added to it.

    @cached_property
    def node_motion(self) -> NodeMotion:
        return NodeMotion(self.document, self.source, self.loaded.metres_per_unit)

    @property
    def forest(self) -> Any:
        return self.node_motion.forest

    @cached_property
    def wanted(self) -> tuple[Floats, Floats]:
        """Poses (t, s) and roots of the frames, with what is added to what the file plays."""
        if self.additive:
            over = self.curves.additive()
            return over.poses, over.roots
        if self.clip is None:
            return self.node_motion.playable(self.curves.poses), self.curves.roots
        poses, roots = self.clip.sample(self.when)
        return self.curves.over(poses), roots

    @cached_property
    def tracks(self) -> list[_NodeTrack]:
        if self.clip is None and not self.additive:
            return [*self._new_tracks(), *self._weight_tracks(self.when, None)]
        base = None if self.additive else self.clip
        times = self.when if base is None else self._whole_times(base)
        return [*self._joint_tracks(times, base), *self._weight_tracks(times, base)]

    def _whole_times(self, clip: GltfClip) -> Floats:
        """Return frames, times of jumps, and beyond a part of a clip those of the file's keys."""
        nodes = {int(self.source.joint_nodes[joint.joint]) for joint in self.curves.joints}
        nodes |= {self.source.shapes[k][0] for k in self._free_shapes()}
        parts = [self.when]
        for channel in clip.channels:
            if channel.node not in nodes:
                continue
            own = channel.times
            if channel.interpolation == "STEP":
                ahead = np.nextafter(own[1:].astype(np.float32), np.float32(-np.inf))
                own = np.union1d(own, ahead.astype(np.float64))
            elif channel.interpolation == "CUBICSPLINE" and len(own) > 1:
                count = 1 + int((own[-1] - own[0]) * max(self.curves.rate, 30.0))
                own = np.union1d(own, np.linspace(own[0], own[-1], count))
            own = own.astype(np.float32).astype(np.float64)
            jumps = channel.interpolation == "STEP"
            parts.append(own[(own < self.when[0]) | (own > self.when[-1]) | jumps])
        return np.unique(np.concatenate(parts))

    def _spread(self, times: Floats, added: Floats, nothing: ArrayLike) -> Floats:
        """Return what is added at all times, (t, c): lines between frames, nothing beyond them.

        Four columns are quaternions.
        """
        whole = np.empty((len(times), added.shape[1]))
        whole[:] = nothing
        inside = (times >= self.when[0]) & (times <= self.when[-1])
        near = continuous(added) if added.shape[1] == 4 else added
        for number, column in enumerate(near.T):
            whole[inside, number] = np.interp(times[inside], self.when, column)
        if added.shape[1] == 4:
            whole /= np.linalg.norm(whole, axis=1, keepdims=True)
        return whole

    def _joint_tracks(self, times: Floats, clip: GltfClip | None) -> Iterator[_NodeTrack]:
        frames = self.node_motion.frames
        rest = tuple(np.repeat(part[None], len(times), axis=0) for part in frames.rest)
        count = len(frames.nodes)
        local = rest if clip is None else clip.tracks.local_transforms(times)
        moves, turns, scales = (part[:, :count].copy() for part in local)
        found: list[tuple[FreeJoint, str, Ints]] = []
        for joint in self.curves.joints:
            k = joint.joint
            if k >= count or self.source.joint_nodes[k] < 0:
                raise FormatError(f'{self.path.name}: "{joint.name}" is no node that can be moved')
            if joint.turn is not None:
                added = self._spread(times, self.curves.turned(joint), (0.0, 0.0, 0.0, 1.0))
                turns[:, k] = multiply(turns[:, k], added)
                found.append((joint, "rotation", joint.turn))
            if joint.move is not None:
                moves[:, k] += self._spread(times, self._moved(joint, clip, local), 0.0)
                found.append((joint, "translation", joint.move))
            if joint.scale is not None:
                off = self.curves.poses[:, joint.scale] - self.curves.keyed[:, joint.scale]
                scales[:, k] *= self._spread(times, np.exp(off), 1.0)
                found.append((joint, "scale", joint.scale))
        kinds = ("translation", "rotation", "scale")
        tables = dict(zip(kinds, frames.in_units(moves, turns, scales), strict=True))
        for joint, path, places in found:
            values, reach = tables[path][:, joint.joint], track_reach(self.curves, places)
            if path == "rotation":
                values = continuous(values) if len(values) > 1 else values
            elif path == "translation":
                reach = reach * frames.parent_sizes[joint.joint]
            node = int(self.source.joint_nodes[joint.joint])
            yield _NodeTrack(node, ValueTrack(path, times, values, reach))  # type: ignore[arg-type]

    def _moved(self, joint: FreeJoint, clip: GltfClip | None, local: Any) -> Floats:
        """Return offsets (t, 3) of a joint in its parent's frame, as the file has it.

        A pose is told without the root's motion: where that is in the joint itself, they turn.
        """
        off = self.curves.poses[:, joint.move] - self.curves.keyed[:, joint.move]
        split = None if clip is None else clip.tracks.space.split
        if split is None or split.joint < 0 or joint.joint not in split.tops:
            return off
        turn = from_matrix(self.curves.roots[:, :3, :3])
        parent = int(split.skeleton.parents[joint.joint])
        if parent >= 0:
            linear = split.skeleton.rest_world()[parent, :3, :3]
            frame = from_matrix(linear / np.cbrt(np.linalg.det(linear)))
            turn = multiply(multiply(inverse(frame), turn), frame)
        return rotate(turn, off)

    def _new_tracks(self) -> Iterator[_NodeTrack]:
        """Yield all that a motion moves which the file has not."""
        reach = np.full(1, self.character.surface.size)
        for node, path, values in self.node_motion.tracks(*self.wanted):
            metres = reach if path == "rotation" else reach / max(self.character.surface.size, 1e-9)
            yield _NodeTrack(node, ValueTrack(path, self.when, values, metres))  # type: ignore[arg-type]

    def _free_shapes(self) -> list[int]:
        """Return which of the file's shapes are free."""
        first = len(self.loaded.rig.parameters) - len(self.source.shapes)
        return [int(column) - first for column in self.curves.columns if column >= first]

    def _weight_tracks(self, times: Floats, clip: GltfClip | None) -> Iterator[_NodeTrack]:
        shapes, free = self.source.shapes, set(self._free_shapes())
        first = len(self.loaded.rig.parameters) - len(shapes)
        whole = self.clip is None and not self.additive  # with all that a new motion keys
        rest = self.loaded.rig.rest_pose[first:]
        for node in dict.fromkeys(owner for owner, _ in shapes):
            mine = np.array([k for k, (owner, _) in enumerate(shapes) if owner == node])
            new = np.array([k in free for k in mine])
            if whole:
                new |= (self.curves.poses[:, first + mine] != rest[mine]).any(axis=0)
            if not new.any():
                continue
            old = None
            base = np.repeat(rest[None, mine], len(times), axis=0)
            if clip is not None:
                found = [c for c in clip.channels if (c.node, c.path) == (node, "weights")]
                old = found[0] if found else None
                base = base if old is None else old.at(times)
            columns = first + mine[new]
            under = rest[mine[new]] if whole else self.curves.keyed[:, columns]
            added = self.curves.poses[:, columns] - under
            values = base[:, new] + self._spread(times, added, 0.0)
            played = self.curves.poses[:, columns]
            if not self.additive and played.min() >= -1e-6 and played.max() <= 1 + 1e-6:
                values = np.clip(values, 0, 1)
            reach = track_reach(self.curves, columns)
            held = old or Channel(node, "weights", "LINEAR", times[:1], rest[None, mine])
            yield _NodeTrack(node, ValueTrack("weights", times, values, reach), held, new)

    # The error, as the file is read again.

    def _measured(self, whole: bytes, last: int, new: bool) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SuppleWarning)
            try:
                again = read_gltf(self.path, whole, self.character.metres_per_unit)
            except SuppleError as error:
                raise FormatError(f"{self.path.name}: cannot be read again ({error})") from error
        number = last if new or self.clip is None else self.clip.animation
        clip = next((c for c in again.source.clips.values() if c.animation == number), None)
        poses, roots = self.wanted
        found = (poses, roots) if clip is None else clip.sample(self.when)
        size, off, simulated = self.character.surface.size, 0.0, 0.0
        for k in range(len(self.when)):
            goal = _placed(self.loaded, poses[k], roots[k])
            there = _placed(again if clip is not None else self.loaded, found[0][k], found[1][k])
            off = max(off, float(np.linalg.norm(there - goal, axis=1).max()))
            if not self.additive:
                skin = self.curves.skin(k)
                simulated = max(simulated, float(np.linalg.norm(there - skin, axis=1).max()))
        self.figures["simulation_error"] = simulated / size
        return off / size


def _placed(character: Character, pose: Floats, root: Floats) -> Floats:
    return character.rig(pose) @ root[:3, :3].T + root[:3, 3]


def _varies(each: _NodeTrack) -> bool:
    """Return whether a mesh has weights that are not free and that the file moves."""
    assert each.old is not None
    assert each.free is not None
    others = each.old.values[..., ~each.free]
    return bool(others.size) and bool(np.ptp(others, axis=0).any() or others.ndim == 3)


def _sampler(file: GltfFile, times: Times, each: _NodeTrack, keys: Keys) -> dict[str, Any]:
    """Return keys as a sampler of an animation, of weights with those that are not free."""
    when, values, tangents = keys.times, keys.values, keys.tangents
    coming = leaving = tangents
    if each.track.path == "weights" and each.free is not None and each.old is not None:
        when, values, coming, leaving = _all_weights(each, keys)
    stored = values.astype(np.float32)
    if coming is not None and leaving is not None:
        stored = np.stack([coming, values, leaving], axis=1).astype(np.float32)
    if each.track.path == "weights":
        stored = stored.reshape(-1, 1)
    return {
        "input": times.accessor(when),
        "output": file.accessor(stored.reshape(-1, stored.shape[-1])),
        "interpolation": "LINEAR" if coming is None else "CUBICSPLINE",
    }


def _all_weights(
    each: _NodeTrack, keys: Keys
) -> tuple[Floats, Floats, Floats | None, Floats | None]:
    """Return times, and values (k, b) of all weights of a mesh, with tangents of splines."""
    old, free = each.old, each.free
    assert old is not None
    assert free is not None
    when = keys.times
    spline = keys.tangents is not None
    if _varies(each):
        when = np.union1d(when, old.times)
        spline = spline or (old.interpolation == "CUBICSPLINE" and len(old.times) > 1)
        if old.interpolation == "STEP":  # a jump between two keys that no time lies between
            ahead = np.nextafter(old.times[1:].astype(np.float32), np.float32(-np.inf))
            when = np.union1d(when, ahead.astype(np.float64))
    values = old.at(when).astype(np.float64)
    values[:, free] = keys.at(when)
    if not spline:
        return when, values, None, None
    coming, leaving = np.zeros_like(values), np.zeros_like(values)
    if _varies(each) and old.interpolation == "CUBICSPLINE":
        coming, leaving = (part.copy() for part in spline_tangents(old, when))
    coming[:, free], leaving[:, free] = keys.slope(when, "left"), keys.slope(when, "right")
    return when, values, coming, leaving
