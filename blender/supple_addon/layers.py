# SPDX-FileCopyrightText: The Supple developers
# SPDX-License-Identifier: GPL-3.0-or-later
"""Flesh on objects, as layers that can be muted and removed; nothing else is changed.

A mesh gets shape keys, which act before its Armature modifier, and an action of their values on an
NLA track. A mesh whose vertices come from modifiers (Mirror, Subdivision before the armature), or
that several objects share, gets a Mesh Cache modifier and a .pc2 file.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import bpy
import numpy as np

from .character import MARK, Problem, active_action, armature_of, repeats
from .exchange import Flesh
from .flesh_records import CACHES, RECORD, is_our_cache, record_of
from .sampling import DEFORMERS, ClipSample, MeshSample, Sample, coordinates
from .skin_maths import Skin

__all__ = [
    "add_flesh",
    "check_place",
    "clips_with_flesh",
    "follow_actions",
    "mute_flesh",
    "muted",
    "remove_flesh",
    "show_flesh",
]

LINEAR, BEZIER, FREE_HANDLE = 1, 2, 0


def add_flesh(
    context: bpy.types.Context, sample: Sample, flesh: Sequence[Flesh], caches: str = CACHES
) -> int:
    """Add flesh to the meshes of a sampled character; return the number of keys and modifiers.

    Earlier flesh of these clips is replaced. Point caches are written to the folder `caches` next
    to the file.
    """
    armature, objects = sampled_objects(sample)
    names = [clip.clip.name for clip in sample.clips]
    remove_flesh(objects, names)
    count = 0
    try:
        for obj, mesh, shapes in zip(objects, sample.meshes, flesh, strict=True):
            if len(shapes.shapes):
                count += _add_layer(context, obj, mesh, sample.clips, shapes, caches)
    except BaseException:  # such as a full disk: leave nothing incomplete
        remove_flesh(objects, names)
        raise
    action = active_action(armature)
    mute_flesh(objects, False)
    show_flesh(objects, action.name if action and action.name in names else names[-1])
    context.view_layer.update()
    return count


def _add_layer(
    context: bpy.types.Context,
    obj: bpy.types.Object,
    mesh: MeshSample,
    clips: Sequence[ClipSample],
    flesh: Flesh,
    caches: str,
) -> int:
    record = record_of(obj)
    try:
        if keys_fit(obj, mesh.same_vertices):
            return _add_keys(context, obj, mesh, clips, flesh, record)
        return _add_caches(obj, mesh, clips, flesh, record, caches)
    finally:
        obj[RECORD] = json.dumps(record)


def sampled_objects(sample: Sample) -> tuple[bpy.types.Object, list[bpy.types.Object]]:
    """Return the armature and meshes of a sample by name, as the user may have replaced the
    objects."""
    objects = []
    for name in (sample.name, *(mesh.name for mesh in sample.meshes)):
        objects.append(bpy.data.objects.get(name))
        if objects[-1] is None:
            raise Problem(f'"{name}" was removed or renamed during the simulation')
    for obj, mesh in zip(objects[1:], sample.meshes, strict=True):
        if mesh.same_vertices and len(obj.data.vertices) != len(mesh.vertices):
            raise Problem(f'"{obj.name}" was edited during the simulation; give it flesh again')
    return objects[0], objects[1:]


def keys_fit(obj: bpy.types.Object, own: bool) -> bool:
    """Return whether flesh can be stored as shape keys of a mesh."""
    data, keys = obj.data, obj.data.shape_keys
    alone = data.users - data.use_fake_user == 1
    return own and alone and data.library is None and (keys is None or keys.use_relative)


def check_place(sample: Sample) -> None:
    """Raise Problem if a point cache is needed and there is no folder for it."""
    for obj, mesh in zip(sampled_objects(sample)[1], sample.meshes, strict=True):
        if not bpy.data.filepath and not keys_fit(obj, mesh.same_vertices):
            raise Problem(
                f'Save the file first: flesh of "{obj.name}" needs a point cache next to it, '
                "as its vertices come from modifiers or are shared"
            )


def clips_with_flesh(objects: Iterable[bpy.types.Object]) -> list[str]:
    """Return the names of clips that have flesh on any of these objects."""
    return list(dict.fromkeys(name for obj in objects for name in record_of(obj)["clips"]))


# Shape keys.


def _add_keys(
    context: bpy.types.Context,
    obj: bpy.types.Object,
    mesh: MeshSample,
    clips: Sequence[ClipSample],
    flesh: Flesh,
    record: dict[str, Any],
) -> int:
    with _holder(obj) as holder:
        if obj.data.shape_keys is None:
            holder.shape_key_add(name="Basis", from_mix=False)
            record["made_keys"] = True
        keys = obj.data.shape_keys
        basis = coordinates(keys.reference_key)
        back = np.linalg.inv(mesh.to_armature[:3, :3]).T
        label = f"{MARK} {clips[0].clip.name}" if len(clips) == 1 else MARK
        blocks = []
        for number, shape in enumerate(flesh.shapes):
            block = holder.shape_key_add(name=f"{label[:50]} {number + 1}", from_mix=False)
            block.relative_key = keys.reference_key
            block.slider_min, block.slider_max = -1, 1
            block.value = 0
            block.data.foreach_set("co", (basis + shape @ back).astype(np.float32).ravel())
            blocks.append(block)
    if keys.animation_data is None:
        keys.animation_data_create()
        record["made_animation"] = True
    for clip, values in zip(clips, flesh.values, strict=True):
        action = _action(keys, clip, blocks, values)
        track = _add_strip(context, keys, clip, action)
        names = [block.name for block in blocks]
        entry = {"action": action.name, "track": track.name, "keys": names}
        record["clips"][clip.clip.name] = entry
    return len(blocks)


@contextmanager
def _holder(obj: bpy.types.Object) -> Iterator[bpy.types.Object]:
    """Yield another object of the same mesh, to change keys without changing the active one."""
    holder = bpy.data.objects.new(MARK, obj.data)
    try:
        yield holder
    finally:
        bpy.data.objects.remove(holder)


def _action(
    keys: bpy.types.Key, clip: ClipSample, blocks: Sequence[bpy.types.ShapeKey], values: np.ndarray
) -> bpy.types.Action:
    action = bpy.data.actions.new(f"{MARK} {clip.clip.name}")
    curves = new_curves(action, keys)
    frames = clip.clip.frames.astype(np.float32)
    for block, column in zip(blocks, values.T, strict=True):
        curve = curves.new(f'key_blocks["{bpy.utils.escape_identifier(block.name)}"].value')
        set_keys(curve, frames, column)
    return action


def new_curves(action: bpy.types.Action, owner: bpy.types.ID) -> Any:
    """Return the collection for curves of an owner; of a new slot, if actions have slots."""
    if not hasattr(action, "layers"):
        action.id_root = owner.id_type
        return action.fcurves
    slot = action.slots.new(id_type=owner.id_type, name=owner.name)
    strip = action.layers.new(MARK).strips.new(type="KEYFRAME")
    return strip.channelbag(slot, ensure=True).fcurves


def set_keys(
    curve: bpy.types.FCurve,
    frames: np.ndarray,
    values: np.ndarray,
    slopes: np.ndarray | None = None,
) -> None:
    """Set keys of a new curve: linear, or splines with `slopes` (k, 1) per frame at the keys."""
    points = curve.keyframe_points
    points.add(len(frames))
    points.foreach_set("co", np.stack([frames, values], axis=1).astype(np.float32).ravel())
    kind = LINEAR if slopes is None else BEZIER
    points.foreach_set("interpolation", np.full(len(frames), kind, np.int32))
    if slopes is not None and len(frames) > 1:
        free = np.full(len(frames), FREE_HANDLE, np.int32)
        gaps = np.diff(frames) / 3  # a third of a gap: the curve is a cubic in time
        sides = {"left": -np.append(gaps[:1], gaps), "right": np.append(gaps, gaps[-1:])}
        for side, third in sides.items():
            points.foreach_set(f"handle_{side}_type", free)
            handles = np.stack([frames + third, values + third * slopes[:, 0]], axis=1)
            points.foreach_set(f"handle_{side}", handles.astype(np.float32).ravel())
    curve.update()


def _add_strip(
    context: bpy.types.Context, keys: bpy.types.Key, clip: ClipSample, action: bpy.types.Action
) -> bpy.types.NlaTrack:
    track = keys.animation_data.nla_tracks.new()
    track.name = f"{MARK} {clip.clip.name}"
    strip = track.strips.new(action.name, clip.clip.first, action)
    if hasattr(strip, "action_slot") and strip.action_slot is None:
        strip.action_slot = action.slots[0]
    played = bpy.data.actions.get(clip.clip.name)
    if clip.clip.loop and played is not None and repeats(played):
        length = clip.clip.last - clip.clip.first
        strip.repeat = max(1.0, np.ceil((context.scene.frame_end - clip.clip.first) / length))
    return track


# Point caches.


def _add_caches(
    obj: bpy.types.Object,
    mesh: MeshSample,
    clips: Sequence[ClipSample],
    flesh: Flesh,
    record: dict[str, Any],
    caches: str,
) -> int:
    folder = Path(bpy.path.abspath("//")) / caches
    folder.mkdir(exist_ok=True)
    if obj.animation_data is None:
        obj.animation_data_create()
        record["made_driver_data"] = True
    for number, clip in enumerate(clips):
        name = f"{MARK} {clip.clip.name}"
        stem = "".join(c if c.isalnum() or c in " .-_" else "_" for c in f"{obj.name} {name}")
        file = folder / f"{stem}.pc2"
        write_points(file, _points(mesh, clip, number, flesh))
        place = 1 + max(
            (k for k, each in enumerate(obj.modifiers) if each.type == "ARMATURE"), default=-1
        )
        while place < len(obj.modifiers) and obj.modifiers[place].type in DEFORMERS:
            place += 1
        modifier = obj.modifiers.new(name, "MESH_CACHE")
        modifier.show_expanded = False
        modifier.cache_format = "PC2"
        modifier.filepath = bpy.path.relpath(str(file))
        modifier.frame_start = clip.clip.first
        obj.modifiers.move(len(obj.modifiers) - 1, place)
        # Outside of the clip, the rig plays without flesh.
        driver = modifier.driver_add("factor").driver
        driver.expression = f"1 if frame >= {clip.clip.first} and frame <= {clip.clip.last} else 0"
        entry = {"modifier": modifier.name, "file": modifier.filepath}
        record["clips"][clip.clip.name] = entry
    return len(clips)


def _points(mesh: MeshSample, clip: ClipSample, number: int, flesh: Flesh) -> np.ndarray:
    """Return vertices (t, n, 3) with flesh in the object's space."""
    shapes = np.concatenate(
        [np.array([*mesh.shapes.values()]).reshape(-1, *mesh.vertices.shape), flesh.shapes]
    )
    values = np.hstack([mesh.values[number], flesh.values[number]])
    points = mesh.vertices + np.tensordot(values, shapes, axes=1)
    still = np.broadcast_to(np.eye(4), (len(points), 1, 4, 4))
    posed = Skin(mesh.weights).posed(np.concatenate([clip.moved, still], axis=1), points)
    back = np.linalg.pinv(mesh.placed[number]).astype(np.float32)
    return posed @ back[:, :3, :3].transpose(0, 2, 1) + back[:, None, :3, 3]


def write_points(path: Path, points: np.ndarray) -> None:
    """Write points (t, n, 3) as .pc2, atomically."""
    temporary = path.with_suffix(".part")
    head = struct.pack("<12siiffi", b"POINTCACHE2\0", 1, points.shape[1], 0.0, 1.0, len(points))
    try:
        temporary.write_bytes(head + points.astype("<f4").tobytes())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise Problem(f"{path} cannot be written: {error.strerror}") from None


# Show, mute, remove.


def follow_actions() -> None:
    """Show the flesh of the active action of each armature, if it has some that is not muted."""
    groups: dict[bpy.types.Object, list[bpy.types.Object]] = {}
    for obj in bpy.data.objects:
        if RECORD in obj and (armature := armature_of(obj)) is not None:
            groups.setdefault(armature, []).append(obj)
    for armature, objects in groups.items():
        action, clips = active_action(armature), clips_with_flesh(objects)
        # Flesh of a scene's frames belongs to no action.
        if action is None or not all(clip in bpy.data.actions for clip in clips):
            continue
        if not any(record_of(obj).get("muted") for obj in objects):
            show_flesh(objects, action.name if action.name in clips else None)


def mute_flesh(objects: Iterable[bpy.types.Object], mute: bool) -> None:
    """Record whether the user has muted the flesh."""
    for obj in objects:
        if RECORD in obj:
            obj[RECORD] = json.dumps(record_of(obj) | {"muted": mute})


def show_flesh(objects: Iterable[bpy.types.Object], clip: str | None) -> None:
    """Show the flesh of one clip, or hide all."""
    for obj in objects:
        record, keys = record_of(obj), obj.data.shape_keys
        shown = record["clips"].get(clip, {}) if clip is not None else {}
        for name, entry in record["clips"].items():
            for key in entry.get("keys", ()):
                if keys and key in keys.key_blocks:
                    keys.key_blocks[key].mute = key not in shown.get("keys", ())
            if track := _track(keys, entry):
                track.mute = name != clip
            if (modifier := obj.modifiers.get(entry.get("modifier", ""))) is not None:
                modifier.show_viewport = modifier.show_render = name == clip


def muted(objects: Iterable[bpy.types.Object]) -> bool:
    """Return whether no flesh is shown."""
    for obj in objects:
        keys = obj.data.shape_keys
        for entry in record_of(obj)["clips"].values():
            blocks = [keys.key_blocks.get(key) for key in entry.get("keys", ()) if keys]
            if any(block and not block.mute for block in blocks):
                return False
            modifier = obj.modifiers.get(entry.get("modifier", ""))
            if modifier is not None and modifier.show_viewport:
                return False
    return True


def _track(keys: bpy.types.Key | None, entry: dict[str, Any]) -> bpy.types.NlaTrack | None:
    animated = keys.animation_data if keys else None
    return animated.nla_tracks.get(entry["track"]) if animated and "track" in entry else None


def remove_flesh(objects: Iterable[bpy.types.Object], clips: Sequence[str] | None = None) -> int:
    """Remove the flesh of clips, by default of all, from objects; return the number removed."""
    removed = 0
    for obj in objects:
        if RECORD not in obj:
            continue
        record = record_of(obj)
        for name in list(record["clips"]):
            if clips is None or name in clips:
                entry = record["clips"].pop(name)
                kept = {key for each in record["clips"].values() for key in each.get("keys", ())}
                _remove_clip(obj, entry, kept)
                removed += 1
        if record["clips"]:
            obj[RECORD] = json.dumps(record)
        else:
            _remove_containers(obj, record)
            del obj[RECORD]
    return removed


def _remove_clip(obj: bpy.types.Object, entry: dict[str, Any], kept: set[str]) -> None:
    keys = obj.data.shape_keys
    action = None
    if track := _track(keys, entry):
        action = track.strips[0].action if track.strips else None
        keys.animation_data.nla_tracks.remove(track)
    action = action or bpy.data.actions.get(entry.get("action", ""))
    if action is not None and action.users == 0:
        bpy.data.actions.remove(action)
    with _holder(obj) as holder:
        for key in entry.get("keys", ()):
            if keys and key not in kept and key in keys.key_blocks:
                holder.shape_key_remove(keys.key_blocks[key])
    modifier = obj.modifiers.get(entry.get("modifier", ""))
    if modifier is not None:
        modifier.driver_remove("factor")
        obj.modifiers.remove(modifier)
    if "file" in entry:
        with suppress(OSError, ValueError):
            file = Path(bpy.path.abspath(entry["file"]))
            if is_our_cache(file):
                file.unlink(missing_ok=True)
                file.parent.rmdir()  # succeeds only if it is empty


def _remove_containers(obj: bpy.types.Object, record: dict[str, Any]) -> None:
    """Remove containers that were created for flesh, unless they have other content now."""
    keys = obj.data.shape_keys
    if keys and record.get("made_animation") and _is_empty(keys):
        keys.animation_data_clear()
    if keys and record.get("made_keys") and len(keys.key_blocks) == 1:
        with _holder(obj) as holder:
            holder.shape_key_clear()
    if record.get("made_driver_data") and obj.animation_data and _is_empty(obj):
        obj.animation_data_clear()


def _is_empty(owner: bpy.types.ID) -> bool:
    animated = owner.animation_data
    return not (animated.action or animated.nla_tracks or animated.drivers)
