# SPDX-FileCopyrightText: The Supple developers
# SPDX-License-Identifier: GPL-3.0-or-later
"""Curves of bones and shape keys, as a layer above the active action that can be removed.

The active action is evaluated after all NLA tracks, so it is moved to a track while the layer
exists. The layer's strip is added to it; quaternions are multiplied.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bpy
import numpy as np
from mathutils import Quaternion

from .character import BASE, MARK, Character, Clip, Problem, active_action, curves_of, repeats
from .glb import GlbReader
from .layers import new_curves, set_keys
from .sampling import Sample

__all__ = [
    *("Added", "add_curves", "bake_curves", "owners", "read_curves", "remove_curves"),
    *("shown_layer", "still_values", "without_curves"),
]

#: Custom property of an armature or a key: record of its layer.
RECORD = "supple_curves"
TRACK = f"{MARK} curves"


@dataclass
class Track:
    """Keys of one channel: at frames (k,), values (k, c), and slopes (k, c) per frame, or lines."""

    frames: np.ndarray
    values: np.ndarray
    slopes: np.ndarray | None = None

    def at(self, frames: np.ndarray) -> np.ndarray:
        """Return the values (t, c) at frames; constant before the first key and after the last."""
        where = np.clip(frames, self.frames[0], self.frames[-1])
        if self.slopes is None or len(self.frames) < 2:
            return np.array([np.interp(where, self.frames, each) for each in self.values.T]).T
        a = np.clip(np.searchsorted(self.frames, where, "right") - 1, 0, len(self.frames) - 2)
        gap = (self.frames[a + 1] - self.frames[a])[:, None]
        u = (where - self.frames[a])[:, None] / gap
        return (
            (2 * u**3 - 3 * u**2 + 1) * self.values[a]
            + gap * (u**3 - 2 * u**2 + u) * self.slopes[a]
            + (3 * u**2 - 2 * u**3) * self.values[a + 1]
            + gap * (u**3 - u**2) * self.slopes[a + 1]
        )

    def mapped(self, matrix: np.ndarray, offset: np.ndarray | float = 0.0) -> Track:
        """Return the track of (values − offset) · matrix."""
        slopes = None if self.slopes is None else self.slopes @ matrix
        return Track(self.frames, (self.values - offset) @ matrix, slopes)

    def column(self, k: int) -> Track:
        """Return the track of one component."""
        part = slice(k, k + 1)
        slopes = None if self.slopes is None else self.slopes[:, part]
        return Track(self.frames, self.values[:, part], slopes)


@dataclass
class Added:
    """Simulated motion: of bones, rotations as w, x, y, z and offsets; of keys."""

    turns: dict[str, Track]
    places: dict[str, Track]
    keys: dict[str, dict[str, Track]]  # of each mesh, by shape key


def owners(character: Character) -> list[bpy.types.ID]:
    """Return the armature and the shape keys of a character, which may have layers of curves."""
    keys = [obj.data.shape_keys for obj in character.meshes if obj.data.shape_keys]
    return [character.armature, *keys]


def read_curves(sample: Sample, path: Path) -> Added:
    """Read an additive clip: relative to rest, in the bones' local frames."""
    file = GlbReader(path)
    nodes, clip = file.document["nodes"], sample.clips[0]
    added = Added({}, {}, {})
    name = f"{clip.clip.name}_additive"
    clips = [each for each in file.document["animations"] if each.get("name") == name]
    for channel in clips[-1]["channels"] if clips else ():
        sampler = clips[-1]["samplers"][channel["sampler"]]
        track = _track(file, sampler, clip.clip.first, clip.rate)
        node, what = channel["target"]["node"], channel["target"]["path"]
        bone = sample.bones[node - 2] if 2 <= node < len(sample.bones) + 2 else ""
        rest = nodes[node]
        if what == "rotation" and bone:
            added.turns[bone] = track.mapped(_from_rest(rest["rotation"]))
        elif what == "translation" and bone:
            rotation = np.array(_quaternion(rest["rotation"]).to_matrix())
            added.places[bone] = track.mapped(rotation, np.array(rest["translation"]))
        elif what == "weights":
            mesh = sample.meshes[node - len(sample.bones) - 2]
            first = np.array(file.document["meshes"][rest["mesh"]]["weights"])
            moved = track.mapped(np.eye(len(first)), first)
            added.keys[mesh.name] = {
                name: moved.column(k)
                for k, name in enumerate(mesh.shapes)
                if np.ptp(moved.values[:, k]) > 0 and not name.startswith("seen ")
            }
    return added


def _track(file: GlbReader, sampler: dict[str, Any], first: int, rate: float) -> Track:
    """Return the keys of a sampler, at frames."""
    when = file.array(sampler["input"]).astype(np.float64)
    values = file.array(sampler["output"]).astype(np.float64)
    frames = first + when * rate
    near = np.abs(frames - np.round(frames)) < 0.01  # seconds are in single precision
    frames = np.where(near, np.round(frames), frames)
    if sampler.get("interpolation") != "CUBICSPLINE":
        return Track(frames, values.reshape(len(when), -1))
    parts = values.reshape(len(when), 3, -1)  # tangent in, value, tangent out
    return Track(frames, parts[:, 1], parts[:, 2] / rate)


def _quaternion(xyzw: Sequence[float]) -> Quaternion:
    x, y, z, w = map(float, xyzw)
    return Quaternion((w, x, y, z)).normalized()


def _from_rest(rest: Sequence[float]) -> np.ndarray:
    """Return the matrix (4, 4) from rotations x, y, z, w to w, x, y, z relative to rest."""
    back = _quaternion(rest).inverted()
    return np.array([back @ Quaternion(row) for row in np.eye(4)[[1, 2, 3, 0]]])


# Layers.


def shown_layer(character: Character) -> str | None:
    """Return the name of the action below a layer of curves that is not muted; None without one."""
    for owner in owners(character):
        animated = owner.animation_data
        tracks = animated.nla_tracks if animated and RECORD in owner else ()
        if any(track.name.startswith(TRACK) and not track.mute for track in tracks):
            played = active_action(character.armature)
            return None if played is None else played.name
    return None


@contextmanager
def without_curves(character: Character) -> Iterator[None]:
    """Mute layers of curves temporarily."""
    tracks = [
        track
        for owner in owners(character)
        if owner.animation_data
        for track in owner.animation_data.nla_tracks
        if track.name.startswith(TRACK)
    ]
    was = [track.mute for track in tracks]
    try:
        for track in tracks:
            track.mute = True
        yield
    finally:
        for track, mute in zip(tracks, was, strict=True):
            track.mute = mute


def add_curves(
    context: bpy.types.Context, character: Character, sample: Sample, added: Added
) -> int:
    """Add layers of curves to a character, in place of earlier ones; return their number."""
    for owner in owners(character):
        remove_curves(owner)
    clip, count = sample.clips[0].clip, 0
    curves = list(_bone_curves(context, character.armature, clip.frames, added))
    if curves:
        count += _add_layer(context, character.armature, clip.name, clip.frames, curves)
    for obj in character.meshes:
        moving = added.keys.get(obj.name, {})
        named = [(_value_path(name), 0, track) for name, track in moving.items()]
        blocks = obj.data.shape_keys.key_blocks if named else {}
        ranges = {name: [blocks[name].slider_min, blocks[name].slider_max] for name in moving}
        for name, track in moving.items():
            _widen(blocks[name], track)
        if named:
            still = still_values(obj.data.shape_keys, moving)
            named = [  # a layer over nothing is added to 0
                (path, k, track.mapped(np.eye(1), -still.get(name, 0.0)))
                for name, (path, k, track) in zip(moving, named, strict=True)
            ]
            count += _add_layer(context, obj.data.shape_keys, clip.name, clip.frames, named)
            record = json.loads(obj.data.shape_keys[RECORD])
            record |= {"still": still, "ranges": ranges}
            obj.data.shape_keys[RECORD] = json.dumps(record)
    context.scene.frame_set(context.scene.frame_current)
    return count


def _value_path(name: str) -> str:
    return f'key_blocks["{bpy.utils.escape_identifier(name)}"].value'


def bake_curves(context: bpy.types.Context, character: Character, clip: Clip, added: Added) -> int:
    """Add curves to the active actions, with a key at every frame; return their number.

    For .fbx files, which have no layers.
    """
    frames, scene, bones = clip.frames, context.scene, character.armature.pose.bones
    turned: dict[str, list[Any]] = {name: [] for name in added.turns}
    placed: dict[str, list[Any]] = {name: [] for name in added.places}
    turns = {name: track.at(frames) for name, track in added.turns.items()}
    places = {name: track.at(frames) for name, track in added.places.items()}
    for k, at in enumerate(frames):
        scene.frame_set(int(at))
        for name, values in turned.items():
            bone, delta = bones[name], Quaternion(turns[name][k]).normalized()
            if bone.rotation_mode == "QUATERNION":
                values.append(bone.rotation_quaternion @ delta)
            else:
                whole = bone.rotation_euler.to_matrix() @ delta.to_matrix()
                values.append(whole.to_euler(bone.rotation_mode, bone.rotation_euler))
        for name, values in placed.items():
            values.append(np.array(bones[name].location) + places[name][k])
    for k, at in enumerate(frames):
        for name, values in turned.items():
            mode = "quaternion" if bones[name].rotation_mode == "QUATERNION" else "euler"
            setattr(bones[name], f"rotation_{mode}", values[k])
            bones[name].keyframe_insert(f"rotation_{mode}", frame=int(at))
        for name, values in placed.items():
            bones[name].location = values[k]
            bones[name].keyframe_insert("location", frame=int(at))
    count = 0
    for obj in character.meshes:
        keys = obj.data.shape_keys
        for name, track in added.keys.get(obj.name, {}).items():
            base = []
            for at in frames:
                scene.frame_set(int(at))
                base.append(keys.key_blocks[name].value)
            _widen(keys.key_blocks[name], track)
            for at, value in zip(frames, base + track.at(frames)[:, 0], strict=True):
                keys.key_blocks[name].value = value
                keys.keyframe_insert(_value_path(name), frame=int(at))
            count += 1
    return count + len(turned) + len(placed)


def still_values(keys: bpy.types.Key, names: Iterable[str]) -> dict[str, float]:
    """Return the values of the named shape keys that no action moves."""
    played = keys.animation_data and keys.animation_data.action
    moved = {curve.data_path for curve in curves_of(played)} if played else set()
    return {
        name: float(keys.key_blocks[name].value) for name in names if _value_path(name) not in moved
    }


def _widen(block: bpy.types.ShapeKey, track: Track) -> None:
    """Widen the range of a shape key, which clamps its value, by the values of a track."""
    block.slider_min = min(block.slider_min, float(track.values.min()))
    block.slider_max = max(block.slider_max, float(track.values.max()))


def _bone_curves(
    context: bpy.types.Context, armature: bpy.types.Object, frames: np.ndarray, added: Added
) -> Iterator[tuple[str, int, Track]]:
    """Yield data path, index and keys of bone channels, by rotation mode of each bone."""
    eulers = {}
    for name in added.turns:
        bone = armature.pose.bones[name]
        if bone.rotation_mode == "AXIS_ANGLE":
            raise Problem(
                f'Bone "{name}" rotates by axis and angle; use a quaternion or Euler angles'
            )
        if bone.rotation_mode != "QUATERNION":
            eulers[name] = np.zeros((len(frames), 3))
    if eulers:
        scene, dense = context.scene, {name: added.turns[name].at(frames) for name in eulers}
        frame, part = scene.frame_current, scene.frame_subframe
        for k, at in enumerate(frames):
            scene.frame_set(int(at))
            for name, values in eulers.items():
                bone = armature.pose.bones[name]
                key = bone.rotation_euler.copy()
                turned = key.to_matrix() @ Quaternion(dense[name][k]).normalized().to_matrix()
                values[k] = np.array(turned.to_euler(bone.rotation_mode, key)) - np.array(key)
        scene.frame_set(frame, subframe=part)
    for name, turns in added.turns.items():
        path = f'pose.bones["{bpy.utils.escape_identifier(name)}"]'
        if name in eulers:
            whole = Track(frames.astype(np.float64), eulers[name])
            yield from ((f"{path}.rotation_euler", k, whole.column(k)) for k in range(3))
        else:
            yield from ((f"{path}.rotation_quaternion", k, turns.column(k)) for k in range(4))
    for name, places in added.places.items():
        path = f'pose.bones["{bpy.utils.escape_identifier(name)}"].location'
        yield from ((path, k, places.column(k)) for k in range(3))


def _add_layer(
    context: bpy.types.Context,
    owner: bpy.types.ID,
    name: str,
    frames: np.ndarray,
    curves: list[tuple[str, int, Track]],
) -> int:
    """Add an action of curves on an NLA track above the active action of an owner."""
    record: dict[str, Any] = {}
    if owner.animation_data is None:
        owner.animation_data_create()
        record["made"] = True
    animated = owner.animation_data
    record["use_nla"] = animated.use_nla
    played = animated.action
    if played is not None:
        record["action"] = played.name
        slot = getattr(animated, "action_slot", None)
        record["slot"] = slot.identifier if slot else ""
        animated.action = None
        base = animated.nla_tracks.new()
        base.name = BASE
        strip = base.strips.new(played.name, int(played.frame_range[0]), played)
        if slot:
            strip.action_slot = slot
        if repeats(played):
            length = max(1.0, played.frame_range[1] - played.frame_range[0])
            strip.repeat = max(1.0, np.ceil((context.scene.frame_end - frames[0]) / length))
    action = bpy.data.actions.new(f"{TRACK} {name}")
    where = new_curves(action, owner)
    for path, index, keys in curves:
        set_keys(where.new(path, index=index), keys.frames, keys.values[:, 0], keys.slopes)
    track = animated.nla_tracks.new()
    track.name = f"{TRACK} {name}"
    strip = track.strips.new(action.name, int(frames[0]), action)
    if hasattr(strip, "action_slot") and strip.action_slot is None:
        strip.action_slot = action.slots[0]
    # COMBINE multiplies quaternions; from Blender 5 on, it multiplies values of keys as well.
    strip.blend_type = "COMBINE" if owner.id_type == "OBJECT" else "ADD"
    strip.extrapolation = "NOTHING"
    animated.use_nla = True
    owner[RECORD] = json.dumps(record | {"track": track.name})
    return len(curves)


def remove_curves(owner: bpy.types.ID) -> int:
    """Remove the layer of curves, and restore the active action; return the number of layers."""
    if RECORD not in owner:
        return 0
    record, animated = json.loads(owner[RECORD]), owner.animation_data
    track = animated.nla_tracks.get(record["track"])
    if track is not None:
        action = track.strips[0].action if track.strips else None
        animated.nla_tracks.remove(track)
        if action is not None and action.users == 0:
            bpy.data.actions.remove(action)
    if (base := animated.nla_tracks.get(BASE)) is not None:
        animated.nla_tracks.remove(base)
    played = bpy.data.actions.get(record.get("action", ""))
    if played is not None and animated.action is None:
        animated.action = played
        if record.get("slot"):
            animated.action_slot = played.slots[record["slot"]]
    animated.use_nla = record["use_nla"]
    for name, (low, high) in record.get("ranges", {}).items():
        if name in owner.key_blocks:
            owner.key_blocks[name].slider_min, owner.key_blocks[name].slider_max = low, high
    for name, value in record.get("still", {}).items():
        if name in owner.key_blocks:
            owner.key_blocks[name].value = value
    if record.get("made") and not (animated.action or animated.nla_tracks or animated.drivers):
        owner.animation_data_clear()
    del owner[RECORD]
    return 1
