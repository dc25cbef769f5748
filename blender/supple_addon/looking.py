# SPDX-FileCopyrightText: The Supple developers
# SPDX-License-Identifier: GPL-3.0-or-later
"""Display of a character: its anatomy in colours, and the live page in a browser."""

from __future__ import annotations

import json
import os
import webbrowser
from contextlib import suppress
from pathlib import Path

import bpy

from .anatomy_colours import has_anatomy, hide_anatomy, show_anatomy
from .baking import Step, Steps, job_steps, sampling_steps, unit_words, work_folder
from .character import Character, Clip, clips_of
from .command import Job
from .operators import Working, current_characters
from .settings import command_of, settings_of

__all__ = ["CLASSES"]


class SUPPLE_OT_show_anatomy(Working, bpy.types.Operator):
    """Colour detected flesh (red), firm (yellow), hard (blue) and separate (black) parts"""

    bl_idname = "supple.show_anatomy"
    bl_label = "Show Anatomy"
    bl_options = {"UNDO"}  # noqa: RUF012 - as Blender requires

    def steps(self, context: bpy.types.Context) -> Steps[str]:
        characters = current_characters(context)
        meshes = [obj for each in characters for obj in each.meshes]
        if has_anatomy(meshes):
            hide_anatomy(meshes)
            return _nothing("Anatomy is hidden")
        return self._shown(context, command_of(context), characters)

    def _shown(
        self, context: bpy.types.Context, command: str, characters: list[Character]
    ) -> Steps[str]:
        hard = []
        for character in characters:
            frame = context.scene.frame_current
            clip = Clip("pose", frame, frame + 1)
            with work_folder() as folder:
                name = character.name
                file = folder / "sample.glb"
                sample = yield from sampling_steps(context, character, [clip], file)
                words = [command, "info", "sample.glb", "--json", *unit_words(context)]
                given = settings_of(character.armature).options().anatomy
                words += [f"--regions={given}"] if given else []
                job = Job([*words, "--anatomy"], folder)
                yield from job_steps(job, name)
                anatomy = job.figures()["anatomy"]
            show_anatomy(sample, anatomy["regions"])
            hard.append(f"{name}: {100 * anatomy['hard']:.0f} % of the skin is hard")
        _colour_views(context)
        return "; ".join(hard)


def _nothing(message: str) -> Steps[str]:
    yield Step(1.0, message)
    return message


def _colour_views(context: bpy.types.Context) -> None:
    """Show vertex colours in solid views."""
    for area in context.screen.areas if context.screen else ():
        if area.type == "VIEW_3D" and area.spaces.active.shading.type == "SOLID":
            area.spaces.active.shading.color_type = "VERTEX"


class SUPPLE_OT_live(Working, bpy.types.Operator):
    """Simulate the character live in the browser; stiffness, damping and a saved anatomy are \
adopted at the end"""

    bl_idname = "supple.live"
    bl_label = "Live"
    ended = "Live ended"

    def steps(self, context: bpy.types.Context) -> Steps[str]:
        character = current_characters(context)[0]
        settings = settings_of(character.armature)
        clips = clips_of(context, character, settings.which, settings.loop)
        return self._alive(context, command_of(context), character, clips)

    def _alive(
        self, context: bpy.types.Context, command: str, character: Character, clips: list[Clip]
    ) -> Steps[str]:
        name, options = character.name, settings_of(character.armature).options()
        with work_folder() as folder:
            words = options.stiffness_words(character.armature, folder) + options.anatomy_words()
            words += ["--flesh", options.flesh, "--damping", f"{options.damping:g}"]
            file = folder / f"{bpy.path.clean_name(name)}.glb"  # its name is that of saved files
            yield from sampling_steps(context, character, clips, file)
            kept = KeptAnatomy(options.anatomy)
            words += ["--folder", str(kept.folder), "--json", *unit_words(context)]
            job = Job([command, "view", str(file), *words], folder)
            try:
                yield from self._served(job, name)
            finally:
                job.interrupt()
                _adopt(name, job.printed, kept)
                job.end()
            job.output()
        return f"{name}: live ended"

    def _served(self, job: Job, name: str) -> Steps[None]:
        opened = False
        while job.running:
            address = job.printed.strip().partition("\n")[0]
            if address.startswith("http") and not opened:
                opened = True
                if not bpy.app.background:
                    webbrowser.open(address)
            what = f"{name}: live at {address}" if opened else f"{name}: {job.what}"
            yield Step(1.0 if opened else job.part, what, waits=True)


class KeptAnatomy:
    """Anatomy files that the live view saves: next to the .blend, or in the user's folder."""

    def __init__(self, given: str | None) -> None:
        beside = Path(bpy.data.filepath).parent if bpy.data.filepath else Path.home()
        self.folder = beside if os.access(beside, os.W_OK) else Path.home()
        self.stiffness = _file_stiffness(given)
        self._before = self._times()

    def _times(self) -> dict[Path, int]:
        times = {}
        with suppress(OSError):
            for file in self.folder.glob("*.anatomy.json"):
                times[file] = file.stat().st_mtime_ns
        return times

    def saved(self) -> str | None:
        """Return the path of the last file that was saved since; None if there is none."""
        times = self._times()
        new = [file for file, time in times.items() if self._before.get(file) != time]
        if not new:
            return None
        last = str(max(new, key=times.__getitem__))
        return bpy.path.relpath(last) if bpy.data.filepath else last


def _file_stiffness(path: str | None) -> float:
    """Return the factor of an anatomy file on all flesh; 1 if it has none."""
    try:
        return float(json.loads(Path(path or "").read_text("utf-8-sig"))["feel"]["stiffness"])
    except (OSError, LookupError, TypeError, ValueError, RecursionError):
        return 1.0


def _adopt(name: str, printed: str, kept: KeptAnatomy) -> None:
    """Adopt stiffness, damping and the saved anatomy file, which may contain the stiffness."""
    armature = bpy.data.objects.get(name)
    try:
        figures = json.loads(printed.partition("\n")[2])
        factor, damping = float(figures["stiffness"]), float(figures["damping"])
    except (KeyError, TypeError, ValueError):
        return
    if armature is None:
        return
    settings = armature.supple
    if file := kept.saved():
        settings.anatomy = file
    settings.stiffness *= factor * kept.stiffness / _file_stiffness(settings.options().anatomy)
    settings.damping = damping


CLASSES = (SUPPLE_OT_show_anatomy, SUPPLE_OT_live)
