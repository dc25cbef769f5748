# SPDX-FileCopyrightText: The Supple developers
# SPDX-License-Identifier: GPL-3.0-or-later
"""The panel in the sidebar of the 3D view."""

from __future__ import annotations

import bpy

from .anatomy_colours import has_anatomy
from .character import Character, Problem
from .curve_layers import owners
from .layers import clips_with_flesh, muted
from .operators import current_characters, now_running
from .settings import command_of, settings_of

__all__ = ["CLASSES"]


def _characters(context: bpy.types.Context) -> list[Character]:
    try:
        return current_characters(context)
    except Problem:
        return []


class _SidePanel:
    bl_space_type = "VIEW_3D"
    bl_region_type = "UI"
    bl_category = "Supple"


class SUPPLE_PT_main(_SidePanel, bpy.types.Panel):
    bl_label = "Supple"

    def draw(self, context: bpy.types.Context) -> None:
        layout = self.layout
        if (work := now_running()) is not None:
            layout.progress(factor=work.step.part, text=work.step.what)
            layout.operator("supple.cancel", icon="X")
            return
        try:
            command_of(context)
        except Problem as problem:
            layout.label(text=str(problem), icon="ERROR")
            open_page = layout.operator("preferences.addon_show", text="Set Up", icon="PREFERENCES")
            open_page.module = __package__
            return
        try:
            characters = current_characters(context)
        except Problem as problem:
            layout.label(text=str(problem), icon="INFO")
            return
        settings = settings_of(characters[0].armature)
        column = layout.column()
        column.use_property_split = True
        column.prop(settings, "which")
        column.prop(settings, "flesh")
        count = len(characters)
        text = "Give Flesh" if count == 1 else f"Give Flesh to {count} Characters"
        row = layout.row()
        row.scale_y = 1.6
        row.operator("supple.give_flesh", text=text, icon="MOD_SOFT")
        meshes = [obj for each in characters for obj in each.meshes]
        row = layout.row(align=True)
        text = "Hide Anatomy" if has_anatomy(meshes) else "Show Anatomy"
        row.operator("supple.show_anatomy", text=text, icon="COLOR")
        row.operator("supple.live", icon="WORLD")
        clips = clips_with_flesh(meshes)
        if clips or any("supple_curves" in owner for each in characters for owner in owners(each)):
            row = layout.row(align=True)
            off = muted(meshes)
            icon = "HIDE_ON" if off else "HIDE_OFF"
            row.operator("supple.mute", text="Show" if off else "Mute", icon=icon)
            row.operator("supple.remove", icon="TRASH")
            column = layout.column(align=True)
            for clip in clips:
                choice = column.operator("supple.mute", text=clip, icon="ACTION", emboss=False)
                choice.clip, choice.shown = clip, True


class SUPPLE_PT_settings(_SidePanel, bpy.types.Panel):
    bl_label = "Flesh"
    bl_parent_id = "SUPPLE_PT_main"
    bl_options = {"DEFAULT_CLOSED"}  # noqa: RUF012 - as Blender requires

    @classmethod
    def poll(cls, context: bpy.types.Context) -> bool:
        return bool(_characters(context))

    def draw(self, context: bpy.types.Context) -> None:
        layout = self.layout
        layout.use_property_split = True
        settings = settings_of(_characters(context)[0].armature)
        layout.prop(settings, "stiffness")
        layout.prop(settings, "damping")
        layout.prop(settings, "swing")
        layout.prop(settings, "anatomy")
        row = layout.row(heading="Gravity")
        row.prop(settings, "use_gravity", text="")
        part = row.row()
        part.active = settings.use_gravity
        part.prop(settings, "gravity", text="")
        layout.prop(settings, "loop")
        layout.prop(settings, "quality")
        layout.prop(settings, "error")
        layout.prop(settings, "only_selected")


class SUPPLE_PT_curves(_SidePanel, bpy.types.Panel):
    bl_label = "Curves"
    bl_parent_id = "SUPPLE_PT_main"
    bl_options = {"DEFAULT_CLOSED"}  # noqa: RUF012

    @classmethod
    def poll(cls, context: bpy.types.Context) -> bool:
        return bool(_characters(context)) and now_running() is None

    def draw(self, context: bpy.types.Context) -> None:
        layout = self.layout
        settings = settings_of(_characters(context)[0].armature)
        for name in ("free", "bounds", "ground", "solver"):
            layout.prop(settings, name)
        layout.operator("supple.curves", icon="FCURVE")


CLASSES = (SUPPLE_PT_main, SUPPLE_PT_settings, SUPPLE_PT_curves)
