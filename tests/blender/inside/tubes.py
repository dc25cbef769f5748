"""Small characters: a tube on three bones, rigged in every way that Blender knows."""

from __future__ import annotations

import math
from typing import Any

import bpy
import numpy as np

RINGS, SIDES, FRAMES = 10, 12, 8


def tube(name: str = "Tube", rings: int = RINGS, sides: int = SIDES) -> tuple[Any, Any]:
    """Return armature and mesh; frames 1 to 8 sway it."""
    data = bpy.data.armatures.new(name + "Bones")
    armature = bpy.data.objects.new(name + "Rig", data)
    scene = bpy.context.scene
    scene.frame_start, scene.frame_end = 1, FRAMES
    scene.collection.objects.link(armature)
    bpy.context.view_layer.objects.active = armature
    bpy.ops.object.mode_set(mode="EDIT")
    parent = None
    for k, bone in enumerate(("Root", "Mid", "Tip")):
        made = data.edit_bones.new(bone)
        made.head, made.tail, made.parent = (0, 0, k), (0, 0, k + 1), parent
        parent = made
    bpy.ops.object.mode_set(mode="OBJECT")
    mesh = bpy.data.meshes.new(name)
    angles = 2 * np.pi * np.arange(sides) / sides
    heights = np.linspace(0, 3, rings)
    points = [(0.4 * math.cos(a), 0.4 * math.sin(a), z) for z in heights for a in angles]
    faces: list[Any] = [
        (
            k * sides + i,
            k * sides + (i + 1) % sides,
            (k + 1) * sides + (i + 1) % sides,
            (k + 1) * sides + i,
        )
        for k in range(rings - 1)
        for i in range(sides)
    ]
    faces += [tuple(reversed(range(sides))), tuple(range((rings - 1) * sides, rings * sides))]
    mesh.from_pydata(points, [], faces)
    mesh.update()
    obj = bpy.data.objects.new(name, mesh)
    scene.collection.objects.link(obj)
    obj.parent = armature
    weigh(obj)
    obj.modifiers.new("Armature", "ARMATURE").object = armature
    sway(armature, name + "Sway")
    return armature, obj


def weigh(obj: Any) -> None:
    for k, bone in enumerate(("Root", "Mid", "Tip")):
        group = obj.vertex_groups.new(name=bone)
        for vertex in obj.data.vertices:
            weight = max(0.0, 1 - abs(vertex.co.z - (k + 0.5)) / 1.2)
            if weight > 0:
                group.add([vertex.index], weight, "REPLACE")


def sway(armature: Any, name: str, turn: float = 0.7) -> Any:
    """Give the armature a new action, and make it the active one."""
    animated = armature.animation_data_create()
    animated.action = bpy.data.actions.new(name)
    for bone in armature.pose.bones:
        bone.rotation_mode = "QUATERNION" if bone.name == "Mid" else "XYZ"
    for frame in range(1, FRAMES + 1):
        phase = 2 * math.pi * (frame - 1) / (FRAMES - 1)
        root, mid, tip = (armature.pose.bones[bone] for bone in ("Root", "Mid", "Tip"))
        root.location = (0.2 * math.sin(phase), 0, 0)
        mid.rotation_quaternion = (
            math.cos(turn * math.sin(phase) / 2),
            math.sin(turn * math.sin(phase) / 2),
            0,
            0,
        )
        tip.rotation_euler = (0, 0, 0.4 * math.sin(phase))
        root.keyframe_insert("location", frame=frame)
        mid.keyframe_insert("rotation_quaternion", frame=frame)
        tip.keyframe_insert("rotation_euler", frame=frame)
    return animated.action


def plain() -> None:
    tube()


def own_shape_keys() -> None:
    """Shape keys with an action of their own, one of them masked by a vertex group."""
    _, obj = tube()
    obj.shape_key_add(name="Basis", from_mix=False)
    fat = obj.shape_key_add(name="Fat", from_mix=False)
    long = obj.shape_key_add(name="Long", from_mix=False)
    for vertex in obj.data.vertices:
        fat.data[vertex.index].co = vertex.co * 1.3
        long.data[vertex.index].co.z = vertex.co.z * 1.1
    long.vertex_group = "Tip"
    for frame, value in ((1, 0.0), (4, 1.0), (FRAMES, 0.3)):
        fat.value, long.value = value, 1 - value
        fat.keyframe_insert("value", frame=frame)
        long.keyframe_insert("value", frame=frame)
    obj.active_shape_key_index = 1


def preserved_volume() -> None:
    _, obj = tube()
    obj.modifiers[0].use_deform_preserve_volume = True


def driven_and_constrained() -> None:
    """The tip follows an empty by a constraint, and a driver scales the middle."""
    armature, _ = tube()
    target = bpy.data.objects.new("Target", None)
    bpy.context.scene.collection.objects.link(target)
    for frame, place in ((1, (2, 0, 3)), (FRAMES, (-2, 1, 3))):
        target.location = place
        target.keyframe_insert("location", frame=frame)
    track = armature.pose.bones["Tip"].constraints.new("DAMPED_TRACK")
    track.target, track.influence = target, 0.6
    driver = armature.pose.bones["Mid"].driver_add("scale", 0).driver
    driver.expression = "1 + 0.05 * frame"


def uneven_scale() -> None:
    """An armature that is moved, turned and scaled unevenly, as is its mesh."""
    armature, obj = tube()
    armature.location, armature.rotation_euler = (3, 1, 0.5), (0.3, 0.2, 0.9)
    armature.scale, obj.scale = (1, 1.5, 0.8), (1.2, 1, 1)
    obj.location = (0.1, 0, 0)


def bone_of_no_size() -> None:
    """A helper bone that is scaled to nothing."""
    armature, _ = tube()
    bpy.context.view_layer.objects.active = armature
    bpy.ops.object.mode_set(mode="EDIT")
    helper = armature.data.edit_bones.new("Helper")
    helper.head, helper.tail = (0, 0, 2), (0, 0.3, 2)
    helper.parent = armature.data.edit_bones["Mid"]
    child = armature.data.edit_bones.new("BelowHelper")
    child.head, child.tail, child.parent = (0, 0.3, 2), (0, 0.6, 2), helper
    bpy.ops.object.mode_set(mode="OBJECT")
    armature.pose.bones["Helper"].scale = (0, 0, 0)


def lattice_behind() -> None:
    """A lattice that moves the skin behind the armature."""
    _, obj = tube()
    data = bpy.data.lattices.new("Cage")
    cage = bpy.data.objects.new("Cage", data)
    bpy.context.scene.collection.objects.link(cage)
    cage.location, cage.scale = (0, 0, 1.5), (4, 4, 5)
    for frame, scale in ((1, 4.0), (FRAMES, 4.6)):
        cage.scale = (scale, 4, 5)
        cage.keyframe_insert("scale", frame=frame)
    obj.modifiers.new("Lattice", "LATTICE").object = cage


def mirrored_and_subdivided() -> None:
    """Half a tube: its vertices are made by a Mirror modifier, and subdivided behind the bones."""
    _, obj = tube()
    keep = [v.index for v in obj.data.vertices if v.co.x > -1e-4]
    new = {old: k for k, old in enumerate(keep)}
    faces = [
        [new[i] for i in p.vertices] for p in obj.data.polygons if all(i in new for i in p.vertices)
    ]
    mesh = bpy.data.meshes.new("Half")
    mesh.from_pydata([obj.data.vertices[i].co[:] for i in keep], [], faces)
    whole, obj.data = obj.data, mesh
    bpy.data.meshes.remove(whole)
    obj.vertex_groups.clear()
    weigh(obj)
    mirror = obj.modifiers.new("Mirror", "MIRROR")
    mirror.use_clip = True
    obj.modifiers.new("Subdivision", "SUBSURF").levels = 1
    obj.modifiers.move(1, 0)


def mesh_of_two_objects() -> None:
    """A mesh that a second object shows, too."""
    _, obj = tube()
    other = bpy.data.objects.new("Statue", obj.data)
    bpy.context.scene.collection.objects.link(other)


def endless_action() -> None:
    """An action that repeats by modifiers of its curves, in a scene twice as long."""
    armature, _ = tube()
    from supple_addon.character import curves_of

    for curve in curves_of(armature.animation_data.action):
        curve.modifiers.new("CYCLES")
    bpy.context.scene.frame_end = 2 * FRAMES


def hundred_thousand_vertices() -> None:
    tube(rings=250, sides=400)


def action_of_two() -> None:
    """An action that moves another object as well: from Blender 4.4 on, each has a slot of it."""
    armature, _ = tube()
    other = bpy.data.objects.new("Beside", None)
    bpy.context.scene.collection.objects.link(other)
    other.animation_data_create().action = armature.animation_data.action
    for frame, place in ((1, (0, 0, 0)), (FRAMES, (1, 0, 2))):
        other.location = place
        other.keyframe_insert("location", frame=frame)


def unweighted_and_loose() -> None:
    """Vertices that follow no bone, and one of no face."""
    _, obj = tube()
    top = [v.index for v in obj.data.vertices if v.co.z > 2.9]
    for group in obj.vertex_groups:
        group.remove(top)
    obj.data.vertices.add(1)
    obj.data.vertices[-1].co = (0, 0, 4)
