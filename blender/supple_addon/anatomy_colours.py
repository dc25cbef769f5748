# SPDX-FileCopyrightText: The Supple developers
# SPDX-License-Identifier: GPL-3.0-or-later
"""Colours of an anatomy on meshes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import bpy
import numpy as np

from .character import Problem
from .sampling import GROUPS, Sample

__all__ = ["has_anatomy", "hide_anatomy", "show_anatomy"]

ATTRIBUTE = "Supple anatomy"
#: Custom property of a mesh object: the colour that was active before.
RECORD = "supple_anatomy"
#: Linear colours by kind of region.
COLOURS = {
    "hard": (0.22, 0.27, 0.36),
    "apart": (0.05, 0.05, 0.07),
    "firm": (0.62, 0.52, 0.19),
    "normal": (0.76, 0.26, 0.16),
    "soft": (0.55, 0.05, 0.17),
}
#: Share of flesh below which a region counts as hard.
HARD_SHARE = 0.1


def has_anatomy(objects: Iterable[bpy.types.Object]) -> bool:
    """Return whether any of these objects is coloured by its anatomy."""
    return any(RECORD in obj for obj in objects)


def hide_anatomy(objects: Iterable[bpy.types.Object]) -> None:
    """Remove the colours of the anatomy, and restore the active colours."""
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


def show_anatomy(sample: Sample, regions: list[dict[str, Any]]) -> None:
    """Colour vertices by the region of the bone with the largest weight, among bones with one."""
    feels = {each["joint"]: each for each in regions}
    known = [k for k, name in enumerate(sample.bones) if name in feels]
    if not known:
        raise Problem("Supple finds no regions of this character")
    palette = np.array([_colour(feels[sample.bones[k]]) for k in known])
    for mesh in sample.meshes:
        obj = bpy.data.objects.get(mesh.name)
        if obj is None or not mesh.same_vertices:
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
