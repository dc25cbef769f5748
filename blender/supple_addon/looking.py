# SPDX-FileCopyrightText: The Supple developers
# SPDX-License-Identifier: GPL-3.0-or-later
"""Display of a character: its anatomy in colours, and the live page in a browser."""

from __future__ import annotations

import json
import webbrowser

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
    """Simulate the character live in the browser; its stiffness there is adopted at the end"""

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
        name = character.name
        flesh = settings_of(character.armature).flesh
        with work_folder() as folder:
            yield from sampling_steps(context, character, clips, folder / "sample.glb")
            words = [command, "view", "sample.glb", "--flesh", flesh, "--json"]
            job = Job([*words, *unit_words(context)], folder)
            try:
                yield from self._served(job, name)
            finally:
                job.interrupt()
                _take_stiffness(name, job.printed)
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


def _take_stiffness(name: str, printed: str) -> None:
    armature = bpy.data.objects.get(name)
    try:
        factor = float(json.loads(printed.partition("\n")[2])["stiffness"])
    except (KeyError, TypeError, ValueError):
        return
    if armature is not None:
        armature.supple.stiffness *= factor


CLASSES = (SUPPLE_OT_show_anatomy, SUPPLE_OT_live)
