# SPDX-FileCopyrightText: The Supple developers
# SPDX-License-Identifier: GPL-3.0-or-later
"""Characters of a scene, and the clips that they play."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass

import bpy
import numpy as np

__all__ = ["MARK", "Character", "Clip", "Problem", "clips_of", "found_characters", "playing"]

#: Prefix of the names of all data that the add-on creates.
MARK = "Supple"
#: Custom property of an action: the take of an .fbx that it was imported from.
TAKE = "supple_take"
#: NLA track of the former active action, below a layer of curves.
BASE = f"{MARK} base"
#: Tolerance of key times in frames: importers round times to single precision.
ROUNDED = 0.01
#: Channels of a bone, and their values at rest.
REST = {
    "location": (0.0, 0.0, 0.0),
    "rotation_quaternion": (1.0, 0.0, 0.0, 0.0),
    "rotation_euler": (0.0, 0.0, 0.0),
    "rotation_axis_angle": (0.0, 0.0, 1.0, 0.0),
    "scale": (1.0, 1.0, 1.0),
}


class Problem(Exception):
    """Error that the user can correct; the message has one line."""


@dataclass(frozen=True)
class Character:
    """Armature, and the meshes that it deforms."""

    armature: bpy.types.Object
    meshes: tuple[bpy.types.Object, ...]

    @property
    def name(self) -> str:
        return self.armature.name


@dataclass(frozen=True)
class Clip:
    """Range of frames: of the named `action` played alone, or of the scene if that is None."""

    name: str
    first: int
    last: int
    loop: bool = False
    action: str | None = None

    @property
    def frames(self) -> np.ndarray:
        return np.arange(self.first, self.last + 1)


def armature_of(obj: bpy.types.Object) -> bpy.types.Object | None:
    """Return the armature that deforms a mesh; an armature is returned unchanged."""
    if obj.type == "ARMATURE":
        return obj
    if obj.type != "MESH":
        return None
    for modifier in obj.modifiers:
        if modifier.type == "ARMATURE" and modifier.object and modifier.show_viewport:
            return modifier.object
    parent = obj.parent
    return (
        parent if parent and parent.type == "ARMATURE" and obj.parent_type == "ARMATURE" else None
    )


def found_characters(
    context: bpy.types.Context, objects: Iterable[bpy.types.Object], *, only: bool = False
) -> list[Character]:
    """Return the characters of meshes and armatures, each with all its visible meshes.

    With `only`, meshes that are not among `objects` are left out.
    """
    given = list(objects)
    armatures = list(dict.fromkeys(filter(None, map(armature_of, given))))
    if not given:
        raise Problem("Select a mesh with an armature, or the armature itself")
    if not armatures:
        raise Problem(f'"{given[0].name}" has no armature; select a mesh with an Armature modifier')
    return [_character(context, armature, given if only else None) for armature in armatures]


def _character(
    context: bpy.types.Context, armature: bpy.types.Object, among: list[bpy.types.Object] | None
) -> Character:
    meshes = [
        obj
        for obj in context.view_layer.objects
        if obj.type == "MESH"
        and armature_of(obj) == armature
        and (obj in among if among else obj.visible_get(view_layer=context.view_layer))
    ]
    if not meshes:
        raise Problem(f'"{armature.name}" deforms no visible mesh')
    for obj in (armature, *meshes):
        if obj.mode == "EDIT":
            raise Problem(f'"{obj.name}" is in Edit Mode; leave it first (Tab)')
    for obj in meshes:
        if obj.library is not None:
            raise Problem(f'"{obj.name}" is linked from another file; make it local or override it')
        if not obj.data.polygons:
            raise Problem(f'"{obj.name}" has no faces')
    return Character(armature, tuple(meshes))


# Clips.


def clips_of(
    context: bpy.types.Context, character: Character, which: str, loop: str = "AUTO"
) -> list[Clip]:
    """Return the clips to bake; raise Problem if there are none.

    `which` is ``"ACTION"`` for the active action, ``"SCENE"`` for the scene's frames, or ``"ALL"``
    for all actions of the armature; `loop` is ``"ON"``, ``"OFF"``, or ``"AUTO"``, cyclic actions.
    """
    scene, armature = context.scene, character.armature
    if which == "SCENE":
        clip = Clip(scene.name, scene.frame_start, scene.frame_end, loop == "ON")
        return [_checked(clip)]
    active = active_action(armature)
    if which == "ALL":
        actions = [each for each in bpy.data.actions if moves(each, armature)]
        if not actions:
            raise Problem(f'No action moves "{armature.name}"; choose Scene for its frames')
        clips = [_clip_of(each, loop) for each in actions]
        longer = [clip for clip in clips if clip.last > clip.first]  # others are poses
        return longer or [_checked(clip) for clip in clips]
    if active is None:
        raise Problem(f'"{armature.name}" has no active action; choose Scene for its frames')
    clip = _clip_of(active, loop)
    return [_checked(Clip(clip.name, clip.first, clip.last, clip.loop))]


def active_action(owner: bpy.types.ID) -> bpy.types.Action | None:
    """Return the action of an armature or a key, also below a layer of curves."""
    animated = owner.animation_data
    if animated is None or animated.action is not None:
        return animated and animated.action
    base = animated.nla_tracks.get(BASE)
    return base.strips[0].action if base and base.strips else None


def _clip_of(action: bpy.types.Action, loop: str) -> Clip:
    first, last = action.frame_range
    closes = loop == "ON" or (loop == "AUTO" and cyclic(action))
    frames = int(np.floor(first + ROUNDED)), int(np.ceil(last - ROUNDED))
    return Clip(action.name, *frames, closes, action.name)


def _checked(clip: Clip) -> Clip:
    if clip.last - clip.first < 1:
        raise Problem(f'"{clip.name}" has a single frame; flesh needs a motion')
    return clip


def curves_of(action: bpy.types.Action) -> Iterator[bpy.types.FCurve]:
    """Yield the F-curves of an action, those of all slots where it has slots."""
    if hasattr(action, "layers"):
        for layer in action.layers:
            for strip in layer.strips:
                for bag in strip.channelbags:
                    yield from bag.fcurves
    else:
        yield from action.fcurves


def drop_curves(action: bpy.types.Action, paths: Set[str]) -> None:
    """Remove the F-curves of an action with these data paths."""
    bags = (
        [b for layer in action.layers for strip in layer.strips for b in strip.channelbags]
        if hasattr(action, "layers")
        else [action]
    )
    for bag in bags:
        for curve in [each for each in bag.fcurves if each.data_path in paths]:
            bag.fcurves.remove(curve)


def moves(action: bpy.types.Action, armature: bpy.types.Object) -> bool:
    """Return whether an action moves bones of the armature; False for actions of the add-on."""
    if action.name.startswith(MARK):
        return False
    bones = armature.pose.bones
    paths = (curve.data_path for curve in curves_of(action))
    return any(p.startswith('pose.bones["') and p.split('"')[1] in bones for p in paths)


def cyclic(action: bpy.types.Action) -> bool:
    """Return whether an action is marked as cyclic, or repeats."""
    return action.use_cyclic or repeats(action)


def repeats(action: bpy.types.Action) -> bool:
    """Return whether an action repeats by Cycles modifiers of its curves."""
    return any(m.type == "CYCLES" and not m.mute for c in curves_of(action) for m in c.modifiers)


@contextmanager
def _take_of_keys(take: str | None) -> Iterator[None]:
    """Play the actions of shape keys that were imported with a take; restore them afterwards."""
    was = []
    for keys in bpy.data.shape_keys if take is not None else ():
        ours = [each for each in bpy.data.actions if each.name.startswith(f"{keys.name}|")]
        played = [each for each in ours if each.get(TAKE) == take]
        if played and keys.animation_data is not None:
            was.append((keys.animation_data, keys.animation_data.action))
            keys.animation_data.action = played[0]
    try:
        yield
    finally:
        for animated, action in was:
            animated.action = action


@contextmanager
def playing(armature: bpy.types.Object, action: str | None) -> Iterator[None]:
    """Play an action alone on the armature, from rest; restore the armature afterwards."""
    if action is None:
        yield
        return
    had = armature.animation_data is not None
    animated = armature.animation_data_create()
    was = animated.action, getattr(animated, "action_slot", None), animated.use_nla
    poses = [{name: tuple(getattr(bone, name)) for name in REST} for bone in armature.pose.bones]
    try:
        animated.use_nla = False
        for bone in armature.pose.bones:
            for name, value in REST.items():
                setattr(bone, name, value)
        animated.action = bpy.data.actions[action]
        if hasattr(animated, "action_slot") and animated.action_slot is None:
            slots = animated.action_suitable_slots
            if slots:
                animated.action_slot = slots[0]
        with _take_of_keys(bpy.data.actions[action].get(TAKE)):
            yield
    finally:
        animated.action = was[0]
        if was[1] is not None:
            animated.action_slot = was[1]
        animated.use_nla = was[2]
        for bone, pose in zip(armature.pose.bones, poses, strict=True):
            for name, value in pose.items():
                setattr(bone, name, value)
        if not had:
            armature.animation_data_clear()
