# SPDX-FileCopyrightText: The Supple developers
# SPDX-License-Identifier: GPL-3.0-or-later
"""Takes of .fbx files: in Blender, a take is an action of each object and each shape key.

Blender's exporter makes a take of each NLA strip, or of each action, of one object, and does not
change the actions of shape keys. So each take is a strip of the armature, and the actions of all
others are assigned before the exporter bakes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import bpy
import numpy as np
from mathutils import Matrix

from .character import MARK, TAKE, Character, Clip, Problem, curves_of, drop_curves
from .layers import show_flesh

__all__ = ["export_takes", "import_takes", "mark_takes", "play_action"]

#: Names of shape keys that `add_flesh` makes, with the number that Blender gives to a second one.
FLESH = re.compile(rf"{MARK}( .+)? \d+(\.\d{{3}})?")


def import_takes(path: str) -> None:
    """Import an .fbx; actions of armatures get the names of their takes."""
    _enable()
    bpy.ops.import_scene.fbx(filepath=path, use_custom_props=False)  # .fbx files have none of ours
    if not bpy.data.objects:
        raise Problem("has nothing that Blender imports")
    take_names = _take_names(path)
    _drop_flesh()
    for owner in _owners():
        for action in _actions(owner):
            action[TAKE] = _take_of(action.name.removeprefix(f"{owner.name}|"), take_names)
    for rig in (each for each in bpy.data.objects if each.type == "ARMATURE"):
        mine = _actions(rig)
        takes = [each[TAKE] for each in mine]
        for action, take in zip(mine, takes, strict=True):
            _key_others(rig, action)
            if takes.count(take) == 1 and take not in bpy.data.actions:
                action.name = take


def _drop_flesh() -> None:
    """Remove shape keys of an earlier bake, which an .fbx identifies by their names only."""
    for obj in (each for each in bpy.data.objects if each.type == "MESH"):
        keys = obj.data.shape_keys
        ours = [each.name for each in keys.key_blocks if FLESH.fullmatch(each.name)] if keys else []
        if not ours:
            continue
        paths = {f'key_blocks["{bpy.utils.escape_identifier(name)}"].value' for name in ours}
        for action in _actions(keys):
            drop_curves(action, paths)
            if next(curves_of(action), None) is None:
                bpy.data.actions.remove(action)
        for name in ours:
            obj.shape_key_remove(keys.key_blocks[name])
        if len(keys.key_blocks) == 1:
            obj.shape_key_clear()


def _take_names(path: str) -> list[str]:
    """Return the names of all takes in an .fbx, the longest first."""
    from io_scene_fbx.parse_fbx import parse

    objects = [part for part in parse(path)[0].elems if part.id == b"Objects"]
    stacks = [each for part in objects for each in part.elems if each.id == b"AnimationStack"]
    names = [each.props[1].split(b"\0")[0].decode("utf-8", "replace") for each in stacks]
    return sorted(names, key=len, reverse=True)


def _take_of(name: str, known: list[str]) -> str:
    """Return the take of an action named TAKE|LAYER, or TAKE if the layer has the same name.

    Blender truncates long names, possibly within the name of the take.
    """
    takes = [take for take in known if f"{name}|".startswith(f"{take}|")]
    takes = takes or [take for take in known if take.startswith(name)]
    return takes[0] if takes else name


def _actions(owner: bpy.types.ID) -> list[bpy.types.Action]:
    """Return the imported actions of an object or a key."""
    return [each for each in bpy.data.actions if each.name.startswith(f"{owner.name}|")]


def _key_others(rig: bpy.types.Object, action: bpy.types.Action) -> None:
    """Key the imported pose of bones without curves: a take played alone begins at rest."""
    keyed = {curve.data_path.split('"')[1] for curve in curves_of(action) if '"' in curve.data_path}
    posed = [bone for bone in rig.pose.bones if bone.name not in keyed]
    posed = [bone for bone in posed if abs(np.array(bone.matrix_basis) - np.eye(4)).max() > 1e-6]
    if posed:
        rig.animation_data.action = action
    for bone in posed:
        mode = "quaternion" if bone.rotation_mode == "QUATERNION" else "euler"
        for channel in ("location", f"rotation_{mode}", "scale"):
            bone.keyframe_insert(channel, frame=action.frame_range[0])


def _enable() -> None:
    import addon_utils

    addon_utils.enable("io_scene_fbx")
    if not hasattr(bpy.types, "EXPORT_SCENE_OT_fbx"):
        raise Problem("needs Blender's FBX add-on, which this Blender does not have")


def _owners() -> Iterator[Any]:
    """Yield the data that an .fbx can animate: objects, shape keys, cameras."""
    yield from bpy.data.objects
    yield from bpy.data.shape_keys
    yield from bpy.data.cameras


def export_takes(character: Character, clips: Sequence[Clip], path: Path) -> list[str]:
    """Export the scene as .fbx, with a take per clip of the character, and its flesh.

    Return names of objects whose modifiers are lost, because they have shape keys.
    """
    _enable()
    armature = character.armature
    animated = armature.animation_data_create()
    for track in list(animated.nla_tracks):
        animated.nla_tracks.remove(track)
    for clip in clips:
        if clip.action is not None:
            strip = animated.nla_tracks.new().strips.new(
                clip.name, clip.first, bpy.data.actions[clip.action]
            )
            strip.name = clip.name
            strip.action_frame_start, strip.action_frame_end = clip.first, clip.last
            strip.frame_start, strip.frame_end = clip.first, clip.last
            if hasattr(strip, "action_slot") and strip.action_slot is None:
                strip.action_slot = strip.action_suitable_slots[0]
    takes = bool(animated.nla_tracks)
    if not takes and clips:
        show_flesh(character.meshes, clips[0].name)
        bpy.context.scene.frame_start, bpy.context.scene.frame_end = clips[0].first, clips[0].last
    lost = _keep_keys()
    others = _Others(armature) if takes else None

    def begin(name: str) -> None:
        if others is not None:
            others.play()
        _play(character, clips, name)

    with _each_take(begin):
        bpy.ops.export_scene.fbx(
            filepath=str(path),
            add_leaf_bones=False,
            use_custom_props=False,
            path_mode="COPY",
            embed_textures=True,
            bake_anim=bool(clips),
            bake_anim_use_nla_strips=takes,
            bake_anim_use_all_actions=False,
            bake_anim_simplify_factor=0.0,
        )
    return lost


class _Others:
    """Animation of other objects, restored in each take; the exporter would make takes of it."""

    def __init__(self, armature: bpy.types.Object) -> None:
        animated = [obj for obj in bpy.data.objects if obj != armature and obj.animation_data]
        self._actions = [(obj.animation_data, obj.animation_data.action) for obj in animated]
        tracks = [track for obj in animated for track in obj.animation_data.nla_tracks]
        self._tracks = [track for track in tracks if not track.mute]
        for track in self._tracks:
            track.mute = True

    def play(self) -> None:
        """Restore the animation, for a take of the armature."""
        for track in self._tracks:
            track.mute = False
        for animated, action in self._actions:
            animated.action = action


def _keep_keys() -> list[str]:
    """Hide modifiers of meshes with shape keys: applying them would drop the keys."""
    lost = []
    for obj in (each for each in bpy.context.view_layer.objects if each.type == "MESH"):
        keys = obj.data.shape_keys
        if keys is None or len(keys.key_blocks) < 2:
            continue
        shown = [each for each in obj.modifiers if each.show_viewport or each.show_render]
        for modifier in (each for each in shown if each.type != "ARMATURE"):
            modifier.show_viewport = modifier.show_render = False
            lost.append(obj.name)
    return list(dict.fromkeys(lost))


def play_action(character: Character, clip: Clip) -> None:
    """Assign the actions of a clip to the armature, and to shape keys that belong to its take."""
    action = bpy.data.actions[clip.action]
    animated = character.armature.animation_data_create()
    animated.action = action
    if getattr(animated, "action_slot", True) is None and animated.action_suitable_slots:
        animated.action_slot = animated.action_suitable_slots[0]
    take = action.get(TAKE)
    for owner in _owners() if take is not None else ():
        if owner != character.armature and owner.animation_data is not None:
            played = [each for each in _actions(owner) if each.get(TAKE) == take]
            owner.animation_data.action = played[0] if played else None


def mark_takes(character: Character, clip: Clip, still: Mapping[str, Mapping[str, float]]) -> None:
    """Let new actions of shape keys belong to the take of a clip.

    `still` has the values of shape keys before, by mesh and name; in other takes they stay there.
    """
    take = bpy.data.actions[clip.action].get(TAKE) if clip.action else None
    others = {each.get(TAKE) for each in bpy.data.actions} - {take, None}
    for obj in character.meshes if take is not None else ():
        keys = obj.data.shape_keys
        played = keys.animation_data.action if keys and keys.animation_data else None
        if played is None:
            continue
        played[TAKE], played.name = take, f"{keys.name}|{take}"
        for other in others - {each.get(TAKE) for each in _actions(keys)}:
            action = bpy.data.actions.new(f"{keys.name}|{other}")
            keys.animation_data.action = action
            for name, value in still.get(obj.name, {}).items():
                keys.key_blocks[name].value = value
                keys.key_blocks[name].keyframe_insert("value", frame=clip.first)
            action[TAKE] = other
        keys.animation_data.action = played


def _play(character: Character, clips: Sequence[Clip], name: str) -> None:
    """Assign the actions of a take to everything except the armature, from rest."""
    clip = next(each for each in clips if each.name == name)
    take = bpy.data.actions[clip.action or name].get(TAKE)
    for bone in character.armature.pose.bones:
        bone.matrix_basis = Matrix()
    for obj in character.meshes:
        keys = obj.data.shape_keys
        for block in keys.key_blocks if keys else ():
            if block.name.startswith(f"{MARK} "):
                block.value = 0
    show_flesh(character.meshes, name)
    for owner in _owners():
        if take is None or owner == character.armature or owner.animation_data is None:
            continue
        played = [each for each in _actions(owner) if each.get(TAKE) == take]
        if played:
            owner.animation_data.action = played[0]


@contextmanager
def _each_take(begin: Callable[[str], None]) -> Iterator[None]:
    """Call a function with the name of each strip before the exporter bakes its frames."""
    from io_scene_fbx import export_fbx_bin as exporter

    bake = exporter.fbx_animations_do

    def baked(scene_data: Any, strip: Any, *more: Any, **named: Any) -> Any:
        if isinstance(strip, bpy.types.NlaStrip):
            begin(strip.name)
        return bake(scene_data, strip, *more, **named)

    exporter.fbx_animations_do = baked
    try:
        yield
    finally:
        exporter.fbx_animations_do = bake
