# SPDX-FileCopyrightText: The Supple developers
# SPDX-License-Identifier: GPL-3.0-or-later
"""Show anatomy: colour what Supple takes for bone, flesh and hard; and look at it live."""

from __future__ import annotations

import json
import webbrowser
from collections.abc import Iterable
from typing import Any

import bpy
import numpy as np

from .baking import Step, Steps, job_steps, sampling_steps, unit_words, work_folder
from .character import Character, Clip, Problem, clips_of
from .command import Job
from .operators import Working, current_characters
from .sampling import GROUPS, Sample
from .settings import command_of, settings_of

__all__ = ["CLASSES", "has_anatomy", "hide_anatomy"]

ATTRIBUTE = "Supple anatomy"
#: Custom property of a mesh object: the colour that was active before.
RECORD = "supple_anatomy"
#: Linear colours of what a region feels like.
COLOURS = {
    "hard": (0.22, 0.27, 0.36),
    "apart": (0.05, 0.05, 0.07),
    "firm": (0.62, 0.52, 0.19),
    "normal": (0.76, 0.26, 0.16),
    "soft": (0.55, 0.05, 0.17),
}
#: Share of flesh below which a region is bone to the skin.
HARD_SHARE = 0.1


def has_anatomy(objects: Iterable[bpy.types.Object]) -> bool:
    """Return whether any of these objects is coloured by its anatomy."""
    return any(RECORD in obj for obj in objects)


def hide_anatomy(objects: Iterable[bpy.types.Object]) -> None:
    """Take colours of anatomy away; those that were active before are so again."""
    for obj in objects:
        if RECORD not in obj:
            continue
        colours, was = obj.data.color_attributes, json.loads(obj[RECORD])
        if ATTRIBUTE in colours:
            colours.remove(colours[ATTRIBUTE])
        if was["active"] in colours:
            colours.active_color_name = was["active"]
        if was["render"] in colours:
            colours.render_color_index = colours.find(was["render"])
        del obj[RECORD]


def _show(sample: Sample, regions: list[dict[str, Any]]) -> None:
    """Colour vertices by the region of the bone that they follow most, of those that have one."""
    feels = {each["joint"]: each for each in regions}
    known = [k for k, name in enumerate(sample.bones) if name in feels]
    if not known:
        raise Problem("Supple finds no regions on this character")
    palette = np.array([_colour(feels[sample.bones[k]]) for k in known])
    for mesh in sample.meshes:
        obj = bpy.data.objects.get(mesh.name)
        if obj is None or not mesh.own:
            continue
        colours = palette[np.argmax(mesh.weights[:, known], axis=1)]
        if (rigid := mesh.painted.get(GROUPS["supple_rigid"])) is not None:
            colours[rigid > 0.5] = COLOURS["hard"]
        layers = obj.data.color_attributes
        was = {"active": layers.active_color_name or "", "render": ""}
        if 0 <= layers.render_color_index < len(layers):
            was["render"] = layers[layers.render_color_index].name
        obj[RECORD] = json.dumps(was)
        layer = layers.new(ATTRIBUTE, "FLOAT_COLOR", "POINT")
        rgba = np.column_stack([colours, np.ones(len(colours))]).astype(np.float32)
        layer.data.foreach_set("color", rgba.ravel())
        layers.active_color_name = ATTRIBUTE


def _colour(region: dict[str, Any]) -> tuple[float, float, float]:
    feel = region["feel"]
    if feel == "normal" and region["share"] < HARD_SHARE:
        feel = "hard"
    return COLOURS.get(feel, COLOURS["normal"])


class SUPPLE_OT_show_anatomy(Working, bpy.types.Operator):
    """Colour what Supple takes for flesh (red), firm (yellow), hard (blue grey) and apart (black)"""

    bl_idname = "supple.show_anatomy"
    bl_label = "Show Anatomy"
    bl_options = {"REGISTER", "UNDO"}  # noqa: RUF012 - as Blender wants it

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
                found = job.figures()["anatomy"]
            _show(sample, found["regions"])
            hard.append(f"{name}: {100 * found['hard']:.0f} % of the skin is hard")
        _colour_views(context)
        return "; ".join(hard)


def _nothing(said: str) -> Steps[str]:
    yield Step(1.0, said)
    return said


def _colour_views(context: bpy.types.Context) -> None:
    """Have solid views show colours of vertices."""
    for area in context.screen.areas if context.screen else ():
        if area.type == "VIEW_3D" and area.spaces.active.shading.type == "SOLID":
            area.spaces.active.shading.color_type = "VERTEX"


class SUPPLE_OT_live(Working, bpy.types.Operator):
    """Open the character alive in the browser; the stiffness found there comes back when it ends"""

    bl_idname = "supple.live"
    bl_label = "Live"

    def steps(self, context: bpy.types.Context) -> Steps[str]:
        character = current_characters(context)[0]
        own = settings_of(character.armature)
        clips = clips_of(context, character, own.which, own.loop)
        return self._alive(context, command_of(context), character, clips)

    def _alive(
        self, context: bpy.types.Context, command: str, character: Character, clips: list[Clip]
    ) -> Steps[str]:
        name = character.name
        own = settings_of(character.armature)
        with work_folder() as folder:
            yield from sampling_steps(context, character, clips, folder / "sample.glb")
            words = [command, "view", "sample.glb", "--flesh", own.flesh, "--json"]
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
            told = f"{name}: live at {address}" if opened else f"{name}: {job.what}"
            yield Step(1.0 if opened else job.part, told, waits=True)


def _take_stiffness(name: str, printed: str) -> None:
    armature = bpy.data.objects.get(name)
    try:
        factor = float(json.loads(printed.partition("\n")[2])["stiffness"])
    except (KeyError, TypeError, ValueError):
        return
    if armature is not None:
        armature.supple.stiffness *= factor


CLASSES = (SUPPLE_OT_show_anatomy, SUPPLE_OT_live)
