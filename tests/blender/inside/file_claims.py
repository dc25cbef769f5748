"""What tests of .blend and .fbx files ask of Blender: to write some, and to play what came back."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import bpy
import numpy as np

from inside import tubes

TAKES = ("Sway", "Nod")


def fresh() -> None:
    bpy.ops.wm.read_factory_settings(use_empty=True)


def save(path: str) -> None:
    if path.endswith(".blend"):
        bpy.ops.wm.save_as_mainfile(filepath=path)
    else:
        options: dict[str, Any] = {"add_leaf_bones": False, "bake_anim_simplify_factor": 0.0}
        options["use_custom_props"] = True
        bpy.ops.export_scene.fbx(filepath=path, **options)


def character_file(path: str, kind: str = "plain", record: Any = None) -> dict[str, Any]:
    """Write a tube with two actions and two materials, rigged as is asked for.

    A record, if given, says what was added to it.
    """
    fresh()
    armature, obj = tubes.tube()
    bpy.data.actions.remove(armature.animation_data.action)
    for name, turn in zip(TAKES, (0.7, -0.4), strict=True):
        tubes.sway(armature, name, turn).use_fake_user = True
    for k, name in enumerate(("Skin", "Cap")):
        material = bpy.data.materials.new(name)
        material.diffuse_color = (0.5, 0.2, 0.1 + k, 1)
        obj.data.materials.append(material)
    obj.data.polygons[-1].material_index = 1
    if kind == "own_keys":
        obj.shape_key_add(name="Basis", from_mix=False)
        fat = obj.shape_key_add(name="Fat", from_mix=False)
        for vertex in obj.data.vertices:
            fat.data[vertex.index].co = vertex.co * 1.1
        fat.value = 0.5
    elif kind == "subdivided":
        modifier = obj.modifiers.new("Finer", "SUBSURF")
        modifier.levels = 1
        obj.modifiers.move(1, 0)
    elif kind == "long_names":
        armature.name = "Rig" * 10
    elif kind == "two":
        tubes.tube("Other")
    elif kind == "still":
        armature.animation_data_clear()
        for action in list(bpy.data.actions):
            bpy.data.actions.remove(action)
    elif kind == "no rig":
        bpy.data.objects.remove(armature)
    elif kind == "shared":
        link(bpy.data.objects.new("Statue", obj.data))
    elif kind == "scene":
        add_others()
        obj.modifiers.new("Finer", "SUBSURF").levels = 1
    if record is not None:
        obj["supple_flesh"] = json.dumps(record)
    save(path)
    return {}


def link(obj: Any) -> Any:
    bpy.context.scene.collection.objects.link(obj)
    return obj


def add_others() -> None:
    """Add an object that plays a strip, and one that modifiers make."""
    mesh = bpy.data.meshes.new("Prop")
    mesh.from_pydata([(0, 0, 0), (1, 0, 0), (0, 1, 0)], [], [(0, 1, 2)])
    prop = link(bpy.data.objects.new("Prop", mesh))
    prop.modifiers.new("Three", "ARRAY").count = 3
    waver = link(bpy.data.objects.new("Waver", None))
    for obj in (prop, waver):
        for frame in (1, tubes.FRAMES):
            obj.location = (frame, 0, 0)
            obj.keyframe_insert("location", frame=frame)
    animated = waver.animation_data
    animated.nla_tracks.new().strips.new("Waving", 1, animated.action)
    animated.action = None


def others(path: str) -> dict[str, Any]:
    """Say how many vertices the prop of an .fbx has, and where others end in each take."""
    opened(path)
    ends: dict[str, Any] = {take: {} for take in TAKES}
    for take in TAKES:
        for name in ("Prop", "Waver"):
            mine = [a for a in bpy.data.actions if a.name.startswith(f"{name}|")]
            (action,) = (a for a in mine if take in a.name.split("|"))
            bpy.data.objects[name].animation_data.action = action
            bpy.context.scene.frame_set(tubes.FRAMES)
            ends[take][name] = round(bpy.data.objects[name].location.x, 3)
    return {"vertices": len(bpy.data.objects["Prop"].data.vertices), "ends": ends}


def trapped_file(path: str, trap: str) -> dict[str, Any]:
    """Write a tube whose driver and text would write a file, if they were run."""
    fresh()
    armature, _ = tubes.tube()
    code = f"__import__('pathlib').Path({trap!r}).write_text('x')"
    armature.pose.bones["Tip"].driver_add("scale", 0).driver.expression = code
    text = bpy.data.texts.new("trap.py")
    text.from_string(code)
    text.use_module = True
    save(path)
    return {}


def trusted(path: str) -> dict[str, Any]:
    """Open a file as somebody does who trusts it."""
    bpy.ops.wm.open_mainfile(filepath=path, load_ui=False, use_scripts=True)
    bpy.context.scene.frame_set(2)
    fresh()
    return {}


def opened(path: str) -> tuple[Any, Any]:
    fresh()
    if path.endswith(".blend"):
        bpy.ops.wm.open_mainfile(filepath=path, load_ui=False, use_scripts=False)
    else:
        bpy.ops.import_scene.fbx(filepath=path)
    rigs = [obj for obj in bpy.data.objects if obj.type == "ARMATURE"]
    (obj,) = (obj for obj in bpy.data.objects if obj.type == "MESH" and obj.find_armature())
    return rigs[0], obj


def played(path: str, out: str, remove: bool = False) -> dict[str, Any]:
    """Play each clip of a file as Blender shows it; say what is in it beside."""
    armature, obj = opened(path)
    if remove:
        for each in bpy.context.view_layer.objects:
            each.select_set(each == armature)
        bpy.context.view_layer.objects.active = armature
        bpy.ops.supple.remove()
    frames: dict[str, Any] = {}
    for take in TAKES:
        assign(armature, obj, take)
        shown = []
        for frame in range(1, tubes.FRAMES + 1):
            bpy.context.scene.frame_set(frame)
            depsgraph = bpy.context.evaluated_depsgraph_get()
            evaluated = obj.evaluated_get(depsgraph)
            flat = np.empty(3 * len(evaluated.data.vertices))
            evaluated.data.vertices.foreach_get("co", flat)
            world = np.array(evaluated.matrix_world)
            shown.append(flat.reshape(-1, 3) @ world[:3, :3].T + world[:3, 3])
        frames[take] = np.array(shown)
    np.savez(out, **frames)
    keys = obj.data.shape_keys
    return {
        "joints": [bone.name for bone in armature.data.bones],
        "actions": sorted(action.name for action in bpy.data.actions),
        "materials": [slot.material.name for slot in obj.material_slots],
        "faces": [polygon.material_index for polygon in obj.data.polygons],
        "keys": [block.name for block in keys.key_blocks] if keys else [],
        "modifiers": [modifier.type for modifier in obj.modifiers],
        "rate": bpy.context.scene.render.fps / bpy.context.scene.render.fps_base,
    }


def assign(armature: Any, obj: Any, take: str) -> None:
    """Have armature and keys play a take: as the add-on does in a .blend, by name in an .fbx."""
    from supple_addon.layers import follow_actions

    keys = obj.data.shape_keys
    if take in bpy.data.actions:
        armature.animation_data.action = bpy.data.actions[take]
        follow_actions()
        return
    for owner in filter(None, (armature, keys)):
        mine = [a for a in bpy.data.actions if a.name.startswith(f"{owner.name}|")]
        for action in (a for a in mine if take in a.name.split("|")):
            owner.animation_data.action = action


def digest_of(path: str) -> dict[str, Any]:
    """Digest all data blocks of a file."""
    from inside.data_blocks import digests

    opened(path)
    return {name: str(digest) for name, digest in digests().items()}


FILE_CLAIMS: dict[str, Callable[..., dict[str, Any]]] = {
    each.__name__: each
    for each in (character_file, digest_of, others, played, trapped_file, trusted)
}
