"""What tests ask of Blender, each a function that returns plain figures."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import bpy
import numpy as np
import supple_addon
from mathutils import Matrix
from supple_addon.baking import Step, finished
from supple_addon.character import REST, Character, Clip, Problem, clips_of, found_characters
from supple_addon.exchange import read_flesh
from supple_addon.layers import RECORD, follow_actions
from supple_addon.sampling import MeshSample, Sample, coordinates, sampled
from supple_addon.skin_maths import Skin

from inside import tubes
from inside.data_blocks import changes, digests


def fresh() -> None:
    bpy.ops.wm.read_factory_settings(use_empty=True)


def settled() -> dict[str, str]:
    """Evaluate the scene where it stands, and digest it."""
    bpy.context.scene.frame_set(bpy.context.scene.frame_current)
    return digests()


def choose(*objects: Any) -> None:
    for obj in bpy.context.view_layer.objects:
        obj.select_set(obj in objects)
    bpy.context.view_layer.objects.active = objects[0]


def the_character() -> Character:
    bpy.context.view_layer.update()
    armatures = [obj for obj in bpy.data.objects if obj.type == "ARMATURE"]
    return found_characters(bpy.context, armatures[:1])[0]


def evaluated(obj: Any, frame: int) -> np.ndarray:
    """Vertices in the world as Blender shows them."""
    bpy.context.scene.frame_set(frame)
    found = obj.evaluated_get(bpy.context.evaluated_depsgraph_get())
    flat = np.empty(3 * len(found.data.vertices), np.float32)
    found.data.vertices.foreach_get("co", flat)
    matrix = np.array(found.matrix_world)
    return flat.reshape(-1, 3) @ matrix[:3, :3].T + matrix[:3, 3]


def the_sample(character: Character, clips: list[Clip]) -> Sample:
    sampling = sampled(bpy.context, character, clips)
    while True:
        try:
            next(sampling)
        except StopIteration as stop:
            return stop.value


def offsets(sample: Sample, kept: str, clip: int = 0) -> list[np.ndarray]:
    """What the stand-in adds before the skin, of each mesh (t, n, 3), in the armature's space."""
    flesh = read_flesh(sample, Path(kept))
    return [np.tensordot(each.values[clip], each.shapes, axes=1) for each in flesh]


def displaced(obj: Any, frames: np.ndarray, moved: np.ndarray) -> np.ndarray:
    """Vertices that Blender shows if the mesh itself, all keys with it, is moved before its rig."""
    keys, shown = obj.data.shape_keys, []
    blocks = [(each, coordinates(each)) for each in keys.key_blocks] if keys else []
    own = np.array([vertex.co for vertex in obj.data.vertices])
    for frame, offset in zip(frames, moved, strict=True):
        for block, was in blocks:
            block.data.foreach_set("co", (was + offset).astype(np.float32).ravel())
        obj.data.vertices.foreach_set("co", (own + offset).astype(np.float32).ravel())
        obj.data.update()
        shown.append(evaluated(obj, int(frame)))
    for block, was in blocks:
        block.data.foreach_set("co", was.ravel())
    obj.data.vertices.foreach_set("co", own.astype(np.float32).ravel())
    obj.data.update()
    return np.array(shown)


def skinned(mesh: MeshSample, sample: Sample, moved: np.ndarray) -> np.ndarray:
    """The same for a mesh that modifiers make, by the sample's own skin."""
    clip = sample.clips[0]
    shapes = np.array([*mesh.shapes.values()]).reshape(-1, *mesh.vertices.shape)
    points = mesh.vertices + np.tensordot(mesh.values[0], shapes, axes=1) + moved
    still = np.broadcast_to(np.eye(4), (len(points), 1, 4, 4))
    posed = Skin(mesh.weights).posed(np.concatenate([clip.moved, still], axis=1), points)
    return posed @ clip.world[:, :3, :3].transpose(0, 2, 1) + clip.world[:, None, :3, 3]


def only_deformers(obj: Any) -> list[Any]:
    """Switch off what comes behind the deformers."""
    hidden = [each for each in obj.modifiers if each.type == "SUBSURF" and each.show_viewport]
    for each in hidden:
        each.show_viewport = False
    return hidden


def tube_with_flesh(kind: str, kept: str, folder: str) -> dict[str, Any]:
    """Give flesh to a tube; say how far it is from where it should be, and what stays of it."""
    fresh()
    getattr(tubes, kind)()
    bpy.ops.wm.save_as_mainfile(filepath=str(Path(folder) / "tube.blend"))
    character = the_character()
    obj = character.meshes[0]
    choose(character.armature)
    bpy.context.scene.frame_set(3)
    before = settled()
    clip = clips_of(bpy.context, character, "ACTION")[0]
    frames = clip.frames
    alone = np.array([evaluated(obj, int(f)) for f in frames])
    bpy.context.scene.frame_set(3)
    unsampled = changes(before)
    assert bpy.ops.supple.give_flesh() == {"FINISHED"}
    with_flesh = set(changes(before))
    layers = {
        "keys": len(obj.data.shape_keys.key_blocks) if obj.data.shape_keys else 0,
        "modifiers": [each.name for each in obj.modifiers],
    }
    hidden = only_deformers(obj)
    soft = np.array([evaluated(obj, int(f)) for f in frames])
    for each in hidden:
        each.show_viewport = True
    bpy.ops.supple.mute()
    muted = np.array([evaluated(obj, int(f)) for f in frames])
    bpy.ops.supple.mute()
    sample = the_sample(character, [clip])
    moved = offsets(sample, kept)[0]
    bpy.context.scene.frame_set(3)
    bpy.ops.wm.save_mainfile()
    bpy.ops.wm.open_mainfile(filepath=str(Path(folder) / "tube.blend"))
    character = the_character()
    obj = character.meshes[0]
    choose(character.armature)
    assert bpy.ops.supple.remove() == {"FINISHED"}
    bpy.context.scene.frame_set(3)
    left = changes(before)
    mesh = sample.meshes[0]
    if mesh.same_vertices:
        moved = moved @ np.linalg.inv(mesh.to_armature[:3, :3]).T
        wanted = displaced(obj, frames, moved)
    else:
        wanted = skinned(mesh, sample, moved)
    size = float(np.linalg.norm(np.ptp(alone[0], axis=0)))
    return {
        "error": float(np.linalg.norm(soft - wanted, axis=2).max()) / size,
        "moves": float(np.linalg.norm(soft - wanted + moved_only(soft, alone), axis=2).max())
        / size,
        "muted": float(np.linalg.norm(muted - alone, axis=2).max()) / size,
        "changed_by_sampling": unsampled,
        "changed": sorted(with_flesh),
        "left": left,
        "own": mesh.same_vertices,
        "seen_shapes": len([name for name in mesh.shapes if name.startswith("seen")]),
        "files_left": sorted(str(f.name) for f in Path(folder).rglob("*.pc2")),
        **layers,
    }


def moved_only(soft: np.ndarray, alone: np.ndarray) -> np.ndarray:
    return soft - alone if soft.shape == alone.shape else np.zeros_like(soft)


def character_with_flesh(path: str, kept: str, frames: int, fps: int = 24) -> dict[str, Any]:
    """Import a file, give flesh to some frames, and look at each as Blender shows it."""
    fresh()
    scene = bpy.context.scene
    scene.render.fps = fps
    bpy.ops.import_scene.gltf(filepath=path)
    character = the_character()
    choose(character.armature)
    scene.frame_start, scene.frame_end = 0, frames - 1
    scene.frame_set(0)
    before = settled()
    began = time.process_time()
    assert bpy.ops.supple.give_flesh(which="SCENE") == {"FINISHED"}
    took = time.process_time() - began
    clip = clips_of(bpy.context, character, "SCENE")[0]
    soft = [np.array([evaluated(obj, f) for f in range(frames)]) for obj in character.meshes]
    sample = the_sample(character, [clip])
    moved = offsets(sample, kept)
    scene.frame_set(0)
    assert bpy.ops.supple.remove() == {"FINISHED"}
    left = changes(before)
    errors = []
    for obj, mesh, have, offset in zip(character.meshes, sample.meshes, soft, moved, strict=True):
        back = np.linalg.inv(mesh.to_armature[:3, :3]).T
        wanted = displaced(obj, clip.frames, offset @ back)
        size = np.linalg.norm(np.ptp(wanted[0], axis=0))
        errors.append(float(np.linalg.norm(have - wanted, axis=2).max() / size))
    return {
        "error": max(errors),
        "left": left,
        "seconds": took,
        "vertices": sum(len(mesh.vertices) for mesh in sample.meshes),
        "shapes": [len(mesh.shapes) for mesh in sample.meshes],
    }


def two_characters(kept: str) -> dict[str, Any]:
    """Both of a file in one go; flesh of one stays when the other's goes."""
    fresh()
    first, one = tubes.tube("One")
    second, two = tubes.tube("Two")
    second.location.x = 5
    before = settled()
    choose(first, second)
    assert bpy.ops.supple.give_flesh() == {"FINISHED"}
    both = [RECORD in obj for obj in (one, two)]
    choose(first)
    bpy.ops.supple.remove()
    after = [RECORD in obj for obj in (one, two)]
    choose(second)
    bpy.ops.supple.remove()
    bpy.context.scene.frame_set(bpy.context.scene.frame_current)
    return {"both": both, "after": after, "left": changes(before)}


def baked_again() -> dict[str, Any]:
    """Two clips apart, then both at once: each time what was there is replaced."""
    fresh()
    armature, obj = tubes.tube()
    other = tubes.sway(armature, "Other", 0.3)
    choose(armature)
    before = settled()
    counts = []
    for which in ("ACTION", "ACTION", "ALL", "ALL"):
        assert bpy.ops.supple.give_flesh(which=which) == {"FINISHED"}
        keys = obj.data.shape_keys
        tracks = [(t.name, t.mute) for t in keys.animation_data.nla_tracks]
        counts.append([len(keys.key_blocks), len(bpy.data.actions), tracks])
    shown = [t.name for t in obj.data.shape_keys.animation_data.nla_tracks if not t.mute]
    bpy.ops.supple.mute(clip="TubeSway", shown=True)
    then = [t.name for t in obj.data.shape_keys.animation_data.nla_tracks if not t.mute]
    bpy.ops.supple.mute(clip="oth*", shown=True)
    named = [t.name for t in obj.data.shape_keys.animation_data.nla_tracks if not t.mute]
    bpy.ops.supple.mute(clip="tubesway", shown=True)
    named += [t.name for t in obj.data.shape_keys.animation_data.nla_tracks if not t.mute]
    assert armature.animation_data.action == other

    def followed(action: Any) -> list[str]:
        armature.animation_data.action = action
        follow_actions()  # Blender calls it when somebody assigns an action in a window
        return [t.name for t in obj.data.shape_keys.animation_data.nla_tracks if not t.mute]

    third = bpy.data.actions.new("Third")
    follows = [followed(bpy.data.actions[name]) for name in ("TubeSway", "Third", "Other")]
    bpy.ops.supple.mute()
    follows.append(followed(bpy.data.actions["TubeSway"]))
    bpy.data.actions.remove(third)
    armature.animation_data.action = other
    bpy.ops.supple.remove()
    bpy.context.scene.frame_set(bpy.context.scene.frame_current)
    return {
        "follows": follows,
        "counts": counts,
        "shown": shown,
        "then": then,
        "named": named,
        "left": changes(before),
    }


def still(kind: str) -> dict[str, Any]:
    """Flesh that does not move adds nothing."""
    fresh()
    getattr(tubes, kind)()
    choose(the_character().armature)
    before = settled()
    result = bpy.ops.supple.give_flesh()
    bpy.context.scene.frame_set(bpy.context.scene.frame_current)
    return {"result": sorted(result), "left": changes(before)}


def endless(kept: str) -> dict[str, Any]:
    """The flesh of an action that repeats does so, too, and Supple is told to close it."""
    fresh()
    tubes.endless_action()
    character = the_character()
    choose(character.armature)
    assert bpy.ops.supple.give_flesh() == {"FINISHED"}
    obj, period = character.meshes[0], tubes.FRAMES - 1
    gap = [np.abs(evaluated(obj, f) - evaluated(obj, f + period)).max() for f in range(2, 8)]
    return {"gap": float(max(gap)), "words": Path(kept + ".json").read_text()}


def failing(way: str, kept: str) -> dict[str, Any]:
    """Say what an operator reports when something is wrong, and what it leaves behind."""
    fresh()
    armature, _ = tubes.tube()
    choose(armature)
    folder = Path(kept)
    if way == "no armature":
        cube = bpy.data.objects.new("Cube", bpy.data.meshes.new("Cube"))
        bpy.context.scene.collection.objects.link(cube)
        choose(cube)
    elif way == "missing":
        os.environ["SUPPLE_COMMAND"] = str(folder / "nowhere")
    elif way == "edit mode":
        bpy.ops.object.mode_set(mode="EDIT")
    elif way == "no action":
        armature.animation_data.action = None
    elif way == "no disk":
        tempfile.tempdir = str(folder / "not there")
    elif way == "unsaved":
        tubes.mirrored_and_subdivided()
        choose(bpy.data.objects["TubeRig.001"])
    elif way == "no folder":
        tubes.mirrored_and_subdivided()
        rig = bpy.data.objects["TubeRig.001"]
        bpy.data.objects["Tube"].parent = rig  # a mesh that gets keys, and one that cannot
        bpy.data.objects["Tube"].modifiers[0].object = rig
        bpy.ops.wm.save_as_mainfile(filepath=str(folder / "tube.blend"))
        (folder / "supple").write_text("in the way")
        choose(rig)
    elif way == "bone":
        armature.pose.bones["Mid"]["supple_stiffness"] = -1.0
    before = settled()
    temporary = set(Path(os.environ["TMPDIR"]).iterdir())
    said = ""
    try:
        bpy.ops.supple.give_flesh()
    except RuntimeError as error:
        said = str(error)
    tempfile.tempdir = None
    return {
        "said": said,
        "left": changes(before),
        "files": [f.name for f in set(Path(os.environ["TMPDIR"]).iterdir()) - temporary],
    }


def cancelled(kept: str, pid: str) -> dict[str, Any]:
    """Close the work while the other process hangs."""
    fresh()
    armature, _ = tubes.tube()
    choose(armature)
    before = settled()
    from supple_addon.baking import given_flesh
    from supple_addon.settings import command_of

    character = the_character()
    clips = clips_of(bpy.context, character, "ACTION")
    work = given_flesh(bpy.context, command_of(bpy.context), character, clips)
    while not next(work).waits or not Path(pid).exists():
        time.sleep(0.01)
    time.sleep(0.1)
    told = next(work)
    work.close()
    try:
        os.kill(int(Path(pid).read_text()), 0)
        alive = True
    except ProcessLookupError:
        alive = False
    early = given_flesh(bpy.context, command_of(bpy.context), character, clips)
    next(early)
    early.close()
    return {"told": [told.part, told.what], "alive": alive, "left": changes(before)}


def painted(kept: str) -> dict[str, Any]:
    """What artists paint and set is told to Supple, and kept in the file."""
    fresh()
    armature, obj = tubes.tube()
    stiff = obj.vertex_groups.new(name="supple_stiffness")
    stiff.add([0, 1], 1.0, "REPLACE")
    stiff.add([2], 0.5, "REPLACE")
    obj.vertex_groups.new(name="supple_rigid").add([5], 0.75, "REPLACE")
    armature.pose.bones["Tip"]["supple_stiffness"] = 3.0
    own = armature.supple
    own.flesh, own.damping, own.use_gravity, own.gravity, own.loop = "soft", 2, True, 1.6, "ON"
    choose(obj)
    assert bpy.ops.supple.give_flesh() == {"FINISHED"}
    from supple_addon.glb import GlbReader

    file = GlbReader(Path(kept + ".sample"))
    attributes = file.document["meshes"][0]["primitives"][0]["attributes"]
    return {
        "stiffness": file.array(attributes["_SUPPLE_STIFFNESS"])[:4].tolist(),
        "rigid": file.array(attributes["_SUPPLE_RIGID"])[4:7].tolist(),
        "words": Path(kept + ".json").read_text(),
    }


def from_a_timer() -> dict[str, Any]:
    """Work goes on tick by tick, as it does in a window; it ends, is cancelled, or fails."""
    from supple_addon.operators import Working, now_running

    said: list[str] = []
    timers: list[object] = []
    status: list[str | None] = []
    manager = SimpleNamespace(
        event_timer_add=lambda tick, window: [timers.append(tick), tick][1],  # type: ignore[func-returns-value]
        event_timer_remove=timers.remove,
        modal_handler_add=lambda operator: None,
    )
    workspace = SimpleNamespace(status_text_set=status.append)
    context = SimpleNamespace(window_manager=manager, workspace=workspace, window=None, screen=None)
    tick, key = SimpleNamespace(type="TIMER"), SimpleNamespace(type="A")

    class Counting(Working):
        def __init__(self, fails: str = "") -> None:
            self.fails, self.closed = fails, False

        def report(self, kind: set[str], text: str) -> None:
            said.append(text)

        def steps(self, context: Any) -> Any:
            if self.fails == "at once":
                raise Problem("not now")
            return self._count()

        def _count(self) -> Any:
            try:
                for k in range(3):
                    if k == 2 and self.fails:
                        raise Problem("too far") if self.fails == "late" else ValueError("odd")
                    yield Step(k / 3, "counting", waits=True)
            finally:
                self.closed = True
            return "counted"

    results: list[Any] = []
    for fails in ("", "late", "oddly"):
        one = Counting(fails)
        results.append(sorted(one.invoke(context, key)))
        results.append(sorted(one.modal(context, key)))
        for _ in range(4):
            last = one.modal(context, tick)
            if last != {"PASS_THROUGH"}:
                break
        results.append([*sorted(last), one.closed, now_running() is None, len(timers)])
    results.append(sorted(Counting("at once").invoke(context, key)))
    first, second = Counting(), Counting()
    first.invoke(context, key)
    first.modal(context, tick)
    results.append(sorted(second.invoke(context, key)))
    now_running().cancelled = True
    results.append([*sorted(first.modal(context, tick)), first.closed, len(timers)])
    return {"results": results, "said": said, "status": status}


def laid_curves(kind: str) -> dict[str, Any]:
    """Bones and a shape key have what they play and, over it, what physics adds."""
    fresh()
    getattr(tubes, kind)()
    character = the_character()
    armature, keys = character.armature, character.meshes[0].data.shape_keys
    choose(armature)
    before = settled()
    frames = range(1, tubes.FRAMES + 1)

    def seen() -> list[Any]:
        found = []
        for frame in frames:
            bpy.context.scene.frame_set(frame)
            bones = [armature.pose.bones[name].matrix_basis.copy() for name in ("Mid", "Tip")]
            found.append((bones, keys.key_blocks["Fat"].value if keys else 0.0))
        bpy.context.scene.frame_set(1)
        return found

    alone = seen()
    assert bpy.ops.supple.curves() == {"FINISHED"}
    count = len(armature.animation_data.nla_tracks)
    assert bpy.ops.supple.curves() == {"FINISHED"}
    same = count == len(armature.animation_data.nla_tracks)
    over, turn, key = seen(), 0.0, 0.0
    for k, ((bones, value), (now, then)) in enumerate(zip(alone, over, strict=True)):
        angle = 0.4 * np.sin(2 * np.pi * k / (tubes.FRAMES - 1))
        for was, is_now in zip(bones, now, strict=True):
            wanted = was @ Matrix.Rotation(angle, 4, "X")
            turn = max(turn, float(np.abs(np.array(wanted) - np.array(is_now)).max()))
        key = max(key, abs(then - np.clip(value + angle, 0, 1)))
    active = clips_of(bpy.context, character, "ACTION")[0].name
    bpy.ops.supple.remove()
    bpy.context.scene.frame_set(1)
    return {
        "turn": turn,
        "key": float(key) if keys else 0.0,
        "same": same,
        "active": active,
        "left": changes(before),
    }


def shown_anatomy(path: str, anatomy: str = "") -> dict[str, Any]:
    """Colours of the anatomy come, and go."""
    fresh()
    bpy.ops.import_scene.gltf(filepath=path)
    character = the_character()
    choose(character.armature)
    character.armature.supple.anatomy = anatomy
    before = settled()
    assert bpy.ops.supple.show_anatomy() == {"FINISHED"}
    obj = character.meshes[0]
    layer = obj.data.color_attributes.active_color
    flat = np.empty(4 * len(layer.data), np.float32)
    layer.data.foreach_get("color", flat)
    colours = len(np.unique(flat.reshape(-1, 4), axis=0))
    assert bpy.ops.supple.show_anatomy() == {"FINISHED"}
    return {"colours": colours, "left": changes(before)}


def lived(kept: str, folder: str) -> dict[str, Any]:
    """The live view starts with the panel's settings, and the panel adopts its results."""
    fresh()
    armature, _ = tubes.tube()
    bpy.ops.wm.save_as_mainfile(filepath=str(Path(folder) / "tube.blend"))
    given = Path(folder) / "given.anatomy.json"
    given.write_text('{"supple_anatomy": 1, "feel": {"stiffness": 2}, "regions": {}}')
    own = armature.supple
    own.anatomy, own.stiffness, own.damping = str(given), 1.5, 2
    choose(armature)
    assert bpy.ops.supple.live() == {"FINISHED"}
    return {
        "words": Path(kept + ".json").read_text(),
        "settings": [own.stiffness, own.damping],
        "anatomy": bpy.path.abspath(own.anatomy),
    }


def given_curves(kept: str, anatomy: str) -> dict[str, Any]:
    """Words for the command of curves with an anatomy file and named controls."""
    fresh()
    armature, _ = tubes.tube()
    armature.supple.anatomy, armature.supple.free = anatomy, "--plot, Tip"
    choose(armature)
    assert bpy.ops.supple.curves() == {"FINISHED"}
    return {"words": Path(kept + ".json").read_text()}


def soft_character(path: str, clip: str, fps: int, out: str) -> dict[str, Any]:
    """Import a file, have Supple itself bake a clip, and save the vertices that Blender shows."""
    fresh()
    bpy.context.scene.render.fps = fps
    bpy.ops.import_scene.gltf(filepath=path)
    character = the_character()
    armature = character.armature
    choose(armature)
    action = next(each for each in bpy.data.actions if clip in each.name)
    armature.animation_data.action = action
    for bone in armature.pose.bones:  # the importer leaves them in a pose of another action
        for name, value in REST.items():
            setattr(bone, name, value)
    if hasattr(armature.animation_data, "action_slot"):
        armature.animation_data.action_slot = action.slots[0]
    armature.supple.error = 0.05
    # The command builds a model of all clips, too.
    assert bpy.ops.supple.give_flesh(which="ALL") == {"FINISHED"}
    frames = range(int(action.frame_range[0]), int(action.frame_range[1]) + 1)
    obj = character.meshes[0]
    np.save(out, np.array([evaluated(obj, f) for f in frames]))
    return {"keys": len(obj.data.shape_keys.key_blocks)}


CLAIMS: dict[str, Callable[..., dict[str, Any]]] = {
    each.__name__: each
    for each in (
        tube_with_flesh,
        character_with_flesh,
        two_characters,
        baked_again,
        endless,
        still,
        failing,
        cancelled,
        painted,
        from_a_timer,
        laid_curves,
        shown_anatomy,
        lived,
        given_curves,
        soft_character,
    )
}
__all__ = ["CLAIMS", "Problem", "finished", "supple_addon"]
