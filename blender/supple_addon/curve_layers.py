# SPDX-FileCopyrightText: The Supple developers
# SPDX-License-Identifier: GPL-3.0-or-later
"""Curves of bones and shape keys, as a layer above the active action that can be removed.

The active action is evaluated after all NLA tracks, so it is moved to a track while the layer
exists. The layer's strip is added to it; quaternions are multiplied.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bpy
import numpy as np
from mathutils import Quaternion

from .character import BASE, MARK, Character, Problem, repeats
from .glb import GlbReader
from .layers import new_curves, set_keys
from .sampling import Sample

__all__ = ["Added", "add_curves", "owners", "read_curves", "remove_curves", "without_curves"]

#: Custom property of an armature or a key: record of its layer.
RECORD = "supple_curves"
TRACK = f"{MARK} curves"


@dataclass
class Added:
    """Simulated motion: of bones, rotations (t, 4) as w, x, y, z and offsets (t, 3); of keys."""

    turns: dict[str, np.ndarray]
    places: dict[str, np.ndarray]
    keys: dict[str, dict[str, np.ndarray]]  # of each mesh, by shape key (t,)


def owners(character: Character) -> list[bpy.types.ID]:
    """Return the armature and the shape keys of a character, which may have layers of curves."""
    keys = [obj.data.shape_keys for obj in character.meshes if obj.data.shape_keys]
    return [character.armature, *keys]


def read_curves(sample: Sample, path: Path) -> Added:
    """Read an additive clip: relative to rest, in the bones' local frames."""
    file = GlbReader(path)
    nodes, clip = file.document["nodes"], sample.clips[0]
    added = Added({}, {}, {})
    times = np.arange(len(clip.world)) / clip.rate
    name = f"{clip.clip.name}_additive"
    clips = [each for each in file.document["animations"] if each.get("name") == name]
    for channel in clips[-1]["channels"] if clips else ():
        sampler = clips[-1]["samplers"][channel["sampler"]]
        when = file.array(sampler["input"]).astype(np.float64)
        values = file.array(sampler["output"]).astype(np.float64).reshape(len(when), -1)
        at = np.array([np.interp(times, when, column) for column in values.T]).T
        node, what = channel["target"]["node"], channel["target"]["path"]
        bone = sample.bones[node - 2] if 2 <= node < len(sample.bones) + 2 else ""
        rest = nodes[node]
        if what == "rotation" and bone:
            back = _quaternion(rest["rotation"]).inverted()
            added.turns[bone] = np.array([back @ _quaternion(each) for each in at])
        elif what == "translation" and bone:
            rotation = np.array(_quaternion(rest["rotation"]).to_matrix())
            added.places[bone] = (at - rest["translation"]) @ rotation
        elif what == "weights":
            mesh = sample.meshes[node - len(sample.bones) - 2]
            first = np.array(file.document["meshes"][rest["mesh"]]["weights"])
            moving = {
                name: at[:, k] - first[k]
                for k, name in enumerate(mesh.shapes)
                if np.ptp(at[:, k]) > 0 and not name.startswith("seen ")
            }
            added.keys[mesh.name] = moving
    return added


def _quaternion(xyzw: Sequence[float]) -> Quaternion:
    x, y, z, w = map(float, xyzw)
    return Quaternion((w, x, y, z)).normalized()


# Layers.


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
        named = [
            (f'key_blocks["{bpy.utils.escape_identifier(name)}"].value', 0, values)
            for name, values in moving.items()
        ]
        if named:
            count += _add_layer(context, obj.data.shape_keys, clip.name, clip.frames, named)
    context.scene.frame_set(context.scene.frame_current)
    return count


def _bone_curves(
    context: bpy.types.Context, armature: bpy.types.Object, frames: np.ndarray, added: Added
) -> Iterator[tuple[str, int, np.ndarray]]:
    """Yield data path, index and values of bone channels, by rotation mode of each bone."""
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
        scene = context.scene
        frame, part = scene.frame_current, scene.frame_subframe
        for k, at in enumerate(frames):
            scene.frame_set(int(at))
            for name, values in eulers.items():
                bone = armature.pose.bones[name]
                key = bone.rotation_euler.copy()
                turned = key.to_matrix() @ Quaternion(added.turns[name][k]).to_matrix()
                values[k] = np.array(turned.to_euler(bone.rotation_mode, key)) - np.array(key)
        scene.frame_set(frame, subframe=part)
    for name, turns in added.turns.items():
        path = f'pose.bones["{bpy.utils.escape_identifier(name)}"]'
        if name in eulers:
            yield from ((f"{path}.rotation_euler", k, eulers[name][:, k]) for k in range(3))
        else:
            yield from ((f"{path}.rotation_quaternion", k, turns[:, k]) for k in range(4))
    for name, places in added.places.items():
        path = f'pose.bones["{bpy.utils.escape_identifier(name)}"].location'
        yield from ((path, k, places[:, k]) for k in range(3))


def _add_layer(
    context: bpy.types.Context,
    owner: bpy.types.ID,
    name: str,
    frames: np.ndarray,
    curves: list[tuple[str, int, np.ndarray]],
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
    for path, index, values in curves:
        set_keys(where.new(path, index=index), frames.astype(np.float32), values)
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
    if record.get("made") and not (animated.action or animated.nla_tracks or animated.drivers):
        owner.animation_data_clear()
    del owner[RECORD]
    return 1
