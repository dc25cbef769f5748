# SPDX-FileCopyrightText: The Supple developers
# SPDX-License-Identifier: GPL-3.0-or-later
"""Characters of .blend and .fbx files for the command `supple`: sampling, and adding flesh.

The command runs `main` in a Blender without windows, in a new process each time, with a request and
an answer as JSON. No script of a file is executed.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import sys
import threading
from collections.abc import Generator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import bpy

from .character import (
    Character,
    Clip,
    Problem,
    active_action,
    clips_of,
    found_characters,
    moves,
)
from .curve_layers import (
    RECORD,
    add_curves,
    bake_curves,
    owners,
    read_curves,
    remove_curves,
    shown_layer,
    still_values,
    without_curves,
)
from .exchange import Flesh, read_flesh, write_sample
from .flesh_records import let_go_of_caches, move_caches
from .layers import add_flesh, keys_fit
from .sampling import ClipSample, MeshSample, Sample, sampled
from .takes import export_takes, import_takes, mark_takes, play_action

__all__ = ["main"]


def main(request: str) -> None:
    """Answer the request in a file, and end the process."""
    file = Path(request)
    task = json.loads(file.read_text(encoding="utf-8"))
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # messages of Blender go to standard error
    _end_with_parent()
    try:
        with _watched(output, task["seconds"]) as progress:
            answer = ACTIONS[task["action"]](task, progress)
    except Problem as problem:
        answer = {"problem": str(problem)}
    except RuntimeError as error:  # raised by Blender's operators
        answer = {"problem": _line(str(error))}
    except Exception as error:
        answer = {"problem": f"{type(error).__name__}: {_line(str(error))}"}
    temporary = file.with_suffix(".part")
    temporary.write_text(json.dumps(answer), encoding="utf-8")
    temporary.replace(file.with_name("answer.json"))
    os._exit(0)  # bpy crashes at a normal exit of Python


def _line(text: str) -> str:
    """Return the message of an operator as one line."""
    lines = [line.removeprefix("Error: ").strip() for line in text.splitlines() if line.strip()]
    if any("Traceback (" in line for line in lines):  # by an operator written in Python
        lines = [line for line in lines if not line.startswith("Location: ")][-1:]
    return "; ".join(lines)[:300] or "no reason given"


def _end_with_parent() -> None:
    """End this process with its parent, whose end closes standard input."""

    def wait() -> None:
        with contextlib.suppress(OSError):
            while os.read(0, 4096):
                pass
        os._exit(4)

    threading.Thread(target=wait, daemon=True).start()


@contextlib.contextmanager
def _watched(output: Any, seconds: float) -> Iterator[Any]:
    """Yield a function that reports the fraction done; end the process without reports.

    The limit is twice that of the command, which ends this process sooner if it still runs.
    """

    def progress(part: float) -> None:
        faulthandler.dump_traceback_later(2 * seconds, exit=True, file=sys.__stderr__)
        print(json.dumps({"part": round(part, 3)}), file=output, flush=True)

    progress(0.0)
    yield progress
    faulthandler.cancel_dump_traceback_later()


# Actions: each takes a request, and returns an answer.


def version(task: dict[str, Any], progress: Any) -> dict[str, Any]:
    """Return the version of Blender."""
    return {"version": bpy.app.version_string}


def sample(task: dict[str, Any], progress: Any) -> dict[str, Any]:
    """Sample the character of a file, in all its clips, into a .glb."""
    character = _opened(task)
    with contextlib.nullcontext() if task.get("with_curves", True) else without_curves(character):
        result = _sampled(character, progress)
    write_sample(result, Path(task["sample"]))
    scene = bpy.context.scene
    return {
        "armature": character.name,
        "clips": [clip.clip.name for clip in result.clips],
        "rate": scene.render.fps / scene.render.fps_base,
        "unit": scene.unit_settings.scale_length,
    }


def curves(task: dict[str, Any], progress: Any) -> dict[str, Any]:
    """Add curves to a clip of a file's character, and save it under another name.

    A .blend gets a layer above the clip, an .fbx keys at every frame of the clip's actions.
    """
    character, target = _opened(task), Path(task["target"])
    binary = target.suffix == ".blend"
    if binary:
        bpy.ops.wm.save_as_mainfile(filepath=str(target), relative_remap=True)
    with without_curves(character):
        all_clips = _sampled(character, progress)
    order = {clip.clip.name: k for k, clip in enumerate(all_clips.clips)}
    if task["clip"] not in order:
        raise Problem(f'has no clip "{task["clip"]}" any more; the file was changed meanwhile')
    some = _with(all_clips, [order[task["clip"]]])
    added, clip = read_curves(some, Path(task["curves"])), some.clips[0].clip
    for owner in owners(character):
        remove_curves(owner)
    active = active_action(character.armature)
    if clip.action is not None and (active is None or active.name != clip.action):
        play_action(character, clip)
    if binary:
        count = add_curves(bpy.context, character, some, added)
        bpy.ops.wm.save_mainfile()
        return {"added": count, "lost": []}
    still = {
        obj.name: still_values(obj.data.shape_keys, added.keys[obj.name])
        for obj in character.meshes
        if obj.name in added.keys
    }
    count = bake_curves(bpy.context, character, clip, added)
    mark_takes(character, clip, still)
    clips = [each.clip for each in all_clips.clips]
    return {"added": count, "lost": export_takes(character, clips, target)}


def no_curves(task: dict[str, Any], progress: Any) -> dict[str, Any]:
    """Remove all layers of curves from a .blend file, and save it under another name."""
    _open_file(task["path"])
    layered = [each for each in (*bpy.data.objects, *bpy.data.shape_keys) if RECORD in each]
    if not layered:  # before anything is written
        raise Problem("has no curves of Supple")
    bpy.ops.wm.save_as_mainfile(filepath=task["target"], relative_remap=True)
    count = sum(map(remove_curves, layered))
    bpy.ops.wm.save_mainfile()
    return {"removed": count}


def write(task: dict[str, Any], progress: Any) -> dict[str, Any]:
    """Add flesh to some clips of a file's character, and save it under another name."""
    character, target = _opened(task), Path(task["target"])
    binary = target.suffix == ".blend"
    if binary:  # so that its paths, and those of caches, are relative to the new place
        bpy.ops.wm.save_as_mainfile(filepath=str(target), relative_remap=True)
    else:
        _own_meshes(character)
    let_go_of_caches()
    all_clips = _sampled(character, progress)
    flesh = read_flesh(all_clips, Path(task["flesh"]))
    some, shapes = _of_clips(all_clips, flesh, task["clips"], task["loop"])
    if not binary:
        _check_keys(character, some)
    added, lost = add_flesh(bpy.context, some, shapes, task["new_caches"]), []
    if binary:
        move_caches(character.meshes, task["new_caches"], task["caches"])
        bpy.ops.wm.save_mainfile()
    else:
        lost = export_takes(character, [clip.clip for clip in all_clips.clips], target)
    return {"added": added, "lost": lost}


ACTIONS = {
    "version": version,
    "sample": sample,
    "write": write,
    "curves": curves,
    "no_curves": no_curves,
}


# Files.


def _opened(task: dict[str, Any]) -> Character:
    """Open or import a file, and return the requested character."""
    _open_file(task["path"])
    return _chosen(task["armature"])


def _open_file(path: str) -> None:
    """Open a .blend file, or import another, into an empty scene."""
    bpy.ops.wm.read_factory_settings(use_empty=True)
    files = bpy.context.preferences.filepaths
    files.use_scripts_auto_execute, files.save_version = False, 0
    if Path(path).suffix.lower() == ".blend":
        bpy.ops.wm.open_mainfile(filepath=path, load_ui=False, use_scripts=False)
        files = bpy.context.preferences.filepaths
        files.use_scripts_auto_execute, files.save_version = False, 0
    else:
        import_takes(path)
    if bpy.context.object is not None and bpy.context.object.mode != "OBJECT":
        bpy.ops.object.mode_set(mode="OBJECT")
    bpy.context.view_layer.update()


def _chosen(name: str | None) -> Character:
    rigs = [obj for obj in bpy.context.view_layer.objects if obj.type == "ARMATURE"]
    characters = {}
    for rig in rigs:
        with contextlib.suppress(Problem):
            characters[rig.name] = found_characters(bpy.context, [rig])[0]
    listed = ", ".join(f'"{each}"' for each in characters)
    if name is not None:
        if name not in characters:
            hint = f"choose {listed}" if characters else "there is none"
            raise Problem(f'has no armature "{name}" that moves a visible mesh; {hint}')
        return characters[name]
    if not characters:
        raise Problem("has no armature that moves a visible mesh")
    if len(characters) > 1:
        raise Problem(f"has {len(characters)} characters; choose with --armature among {listed}")
    return next(iter(characters.values()))


def _clips(character: Character) -> list[Clip]:
    """Return all actions that move the armature, or the scene's frames if there are none.

    An action below a layer of curves is not played alone, but with its layer.
    """
    if not any(moves(each, character.armature) for each in bpy.data.actions):
        return clips_of(bpy.context, character, "SCENE")
    clips = clips_of(bpy.context, character, "ALL")
    layered = shown_layer(character)
    return [replace(clip, action=None) if clip.action == layered else clip for clip in clips]


def _sampled(character: Character, progress: Any) -> Sample:
    clips = _clips(character)
    result = _finished(sampled(bpy.context, character, clips), progress)
    if clips[0].action is None and not _moves(result):
        return _with(result, [])
    return result


def _finished(steps: Generator[float, None, Sample], progress: Any) -> Sample:
    while True:
        try:
            progress(next(steps))
        except StopIteration as stop:
            return stop.value


def _moves(sample: Sample) -> bool:
    """Return whether anything moves in the first clip."""
    clip, tolerance = sample.clips[0], 1e-6
    bones = max(abs(clip.moved - clip.moved[:1]).max(), abs(clip.world - clip.world[:1]).max())
    values = [abs(m.values[0] - m.values[0][:1]).max(initial=0) for m in sample.meshes]
    return bool(max(bones, *values) > tolerance)


def _with(sample: Sample, clips: list[int]) -> Sample:
    """Return a copy of a sample with only some of its clips."""
    meshes: list[MeshSample] = []
    for mesh in sample.meshes:
        values, placed = [mesh.values[k] for k in clips], [mesh.placed[k] for k in clips]
        meshes.append(replace(mesh, values=values, placed=placed))
    return replace(sample, meshes=meshes, clips=[sample.clips[k] for k in clips])


def _of_clips(
    sample: Sample, flesh: list[Flesh], names: list[str], loop: bool
) -> tuple[Sample, list[Flesh]]:
    """Return a sample and its flesh with some of their clips."""
    order = {clip.clip.name: k for k, clip in enumerate(sample.clips)}
    lost = [name for name in names if name not in order]
    if lost:
        raise Problem(f'has no clip "{lost[0]}" any more; the file was changed during the bake')
    chosen = [order[name] for name in names]
    some = _with(sample, chosen)
    clips: list[ClipSample] = [
        replace(each, clip=replace(each.clip, loop=loop)) for each in some.clips
    ]
    shapes = [replace(each, values=[each.values[k] for k in chosen]) for each in flesh]
    return replace(some, clips=clips), shapes


def _own_meshes(character: Character) -> None:
    """Give each object separate mesh data: an .fbx can have shapes, but no caches."""
    for obj in character.meshes:
        if obj.data.users > 1:
            obj.data = obj.data.copy()


def _check_keys(character: Character, sample: Sample) -> None:
    for obj, mesh in zip(character.meshes, sample.meshes, strict=True):
        if not keys_fit(obj, mesh.same_vertices):
            raise Problem(
                f'flesh of "{obj.name}" needs a point cache, as its vertices come from modifiers; '
                ".fbx files have none: write a .blend file"
            )
