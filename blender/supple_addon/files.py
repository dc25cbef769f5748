# SPDX-FileCopyrightText: The Supple developers
# SPDX-License-Identifier: GPL-3.0-or-later
"""Characters of .blend and .fbx files, for the command `supple`: sampled, and given flesh back.

The command runs `main` in a Blender without windows, each time in a process of its own, with a
request and an answer as JSON. Nothing that a file brings along is executed.
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

from .character import Character, Clip, Problem, clips_of, found_characters, moves
from .exchange import Flesh, read_flesh, write_sample
from .flesh_records import let_go_of_caches, move_caches
from .layers import add_flesh, keys_fit
from .sampling import ClipSample, MeshSample, Sample, sampled
from .takes import export_takes, import_takes

__all__ = ["main"]


def main(request: str) -> None:
    """Answer the request in a file; ends the process."""
    file = Path(request)
    told = json.loads(file.read_text(encoding="utf-8"))
    said = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what Blender prints is no answer
    _end_with_parent()
    try:
        with _watched(said, told["seconds"]) as tell:
            answer = ACTIONS[told["action"]](told, tell)
    except Problem as problem:
        answer = {"problem": str(problem)}
    except RuntimeError as error:  # of Blender's own operators
        answer = {"problem": _line(str(error))}
    except Exception as error:
        answer = {"problem": f"{type(error).__name__}: {_line(str(error))}"}
    beside = file.with_suffix(".part")
    beside.write_text(json.dumps(answer), encoding="utf-8")
    beside.replace(file.with_name("answer.json"))
    os._exit(0)  # bpy crashes when Python takes it down


def _line(text: str) -> str:
    """Return what an operator says, in one line."""
    lines = [line.removeprefix("Error: ").strip() for line in text.splitlines() if line.strip()]
    if any("Traceback (" in line for line in lines):  # of an operator in Python
        lines = [line for line in lines if not line.startswith("Location: ")][-1:]
    return "; ".join(lines)[:300] or "no reason given"


def _end_with_parent() -> None:
    """End this process with the one that started it: then nobody holds our input open."""

    def wait() -> None:
        with contextlib.suppress(OSError):
            while os.read(0, 4096):
                pass
        os._exit(4)

    threading.Thread(target=wait, daemon=True).start()


@contextlib.contextmanager
def _watched(said: Any, seconds: float) -> Iterator[Any]:
    """Give a function to tell the part done with; end the process where nothing goes on.

    The command does so sooner, if it is there still.
    """

    def tell(part: float) -> None:
        faulthandler.dump_traceback_later(2 * seconds, exit=True, file=sys.__stderr__)
        print(json.dumps({"part": round(part, 3)}), file=said, flush=True)

    tell(0.0)
    yield tell
    faulthandler.cancel_dump_traceback_later()


# Actions: each takes what is told, and returns an answer.


def version(told: dict[str, Any], tell: Any) -> dict[str, Any]:
    """Say which Blender this is."""
    return {"version": bpy.app.version_string}


def sample(told: dict[str, Any], tell: Any) -> dict[str, Any]:
    """Sample the character of a file, in all its clips, into a .glb."""
    character = _opened(told)
    found = _sampled(character, tell)
    write_sample(found, Path(told["sample"]))
    scene = bpy.context.scene
    return {
        "armature": character.name,
        "clips": [clip.clip.name for clip in found.clips],
        "rate": scene.render.fps / scene.render.fps_base,
        "unit": scene.unit_settings.scale_length,
    }


def write(told: dict[str, Any], tell: Any) -> dict[str, Any]:
    """Add flesh to some clips of a file's character, and save it under another name."""
    character, target = _opened(told), Path(told["target"])
    binary = target.suffix == ".blend"
    if binary:  # paths in it, and those of caches, are relative to where it lies from now on
        bpy.ops.wm.save_as_mainfile(filepath=str(target), relative_remap=True)
    else:
        _own_meshes(character)
    let_go_of_caches()
    found = _sampled(character, tell)
    flesh = read_flesh(found, Path(told["flesh"]))
    some, shapes = _of_clips(found, flesh, told["clips"], told["loop"])
    if not binary:
        _check_keys(character, some)
    added, lost = add_flesh(bpy.context, some, shapes, told["new_caches"]), []
    if binary:
        move_caches(character.meshes, told["new_caches"], told["caches"])
        bpy.ops.wm.save_mainfile()
    else:
        lost = export_takes(character, [clip.clip for clip in found.clips], target)
    return {"added": added, "lost": lost}


ACTIONS = {"version": version, "sample": sample, "write": write}


# Files.


def _opened(told: dict[str, Any]) -> Character:
    """Open or import a file, and return the character that is wanted."""
    path = told["path"]
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
    return _chosen(told["armature"])


def _chosen(name: str | None) -> Character:
    rigs = [obj for obj in bpy.context.view_layer.objects if obj.type == "ARMATURE"]
    found = {}
    for rig in rigs:
        with contextlib.suppress(Problem):
            found[rig.name] = found_characters(bpy.context, [rig])[0]
    listed = ", ".join(f'"{each}"' for each in found)
    if name is not None:
        if name not in found:
            there = f"choose {listed}" if found else "there is none"
            raise Problem(f'has no armature "{name}" that moves a visible mesh; {there}')
        return found[name]
    if not found:
        raise Problem("has no armature that moves a visible mesh")
    if len(found) > 1:
        raise Problem(f"has {len(found)} characters; choose with --armature among {listed}")
    return next(iter(found.values()))


def _clips(character: Character) -> list[Clip]:
    """Return all actions that move the armature; the scene's frames where there is none."""
    if any(moves(each, character.armature) for each in bpy.data.actions):
        return clips_of(bpy.context, character, "ALL")
    return clips_of(bpy.context, character, "SCENE")


def _sampled(character: Character, tell: Any) -> Sample:
    clips = _clips(character)
    found = _finished(sampled(bpy.context, character, clips), tell)
    if clips[0].action is None and not _moves(found):
        return _with(found, [])
    return found


def _finished(steps: Generator[float, None, Sample], tell: Any) -> Sample:
    while True:
        try:
            tell(next(steps))
        except StopIteration as stop:
            return stop.value


def _moves(found: Sample) -> bool:
    """Return whether anything moves in the first clip."""
    clip, size = found.clips[0], 1e-6
    still = max(abs(clip.moved - clip.moved[:1]).max(), abs(clip.world - clip.world[:1]).max())
    values = [abs(m.values[0] - m.values[0][:1]).max(initial=0) for m in found.meshes]
    return bool(max(still, *values) > size)


def _with(found: Sample, clips: list[int]) -> Sample:
    """Return a sample with some of its clips."""
    meshes: list[MeshSample] = []
    for mesh in found.meshes:
        values, placed = [mesh.values[k] for k in clips], [mesh.placed[k] for k in clips]
        meshes.append(replace(mesh, values=values, placed=placed))
    return replace(found, meshes=meshes, clips=[found.clips[k] for k in clips])


def _of_clips(
    found: Sample, flesh: list[Flesh], names: list[str], loop: bool
) -> tuple[Sample, list[Flesh]]:
    """Return the part of a sample and its flesh that belongs to some clips."""
    order = {clip.clip.name: k for k, clip in enumerate(found.clips)}
    lost = [name for name in names if name not in order]
    if lost:
        raise Problem(f'has no clip "{lost[0]}"; it has changed meanwhile')
    chosen = [order[name] for name in names]
    some = _with(found, chosen)
    clips: list[ClipSample] = [
        replace(each, clip=replace(each.clip, loop=loop)) for each in some.clips
    ]
    shapes = [replace(each, values=[each.values[k] for k in chosen]) for each in flesh]
    return replace(some, clips=clips), shapes


def _own_meshes(character: Character) -> None:
    """Give each object a mesh of its own: an .fbx has shapes, and no caches."""
    for obj in character.meshes:
        if obj.data.users > 1:
            obj.data = obj.data.copy()


def _check_keys(character: Character, found: Sample) -> None:
    for obj, mesh in zip(character.meshes, found.meshes, strict=True):
        if not keys_fit(obj, mesh.own):
            raise Problem(
                f'flesh of "{obj.name}" needs a point cache, which .fbx has not, as modifiers make '
                "its vertices; write it as .blend"
            )
