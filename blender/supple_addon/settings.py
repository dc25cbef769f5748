# SPDX-FileCopyrightText: The Supple developers
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of a character, stored in the file, and preferences of the add-on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import bpy
from bpy.props import BoolProperty, EnumProperty, FloatProperty, PointerProperty, StringProperty

from .baking import CurveOptions, Options
from .command import environment_program, find_command

__all__ = ["CLASSES", "command_of", "environment_folder", "preferences", "settings_of"]

WHICH = (
    ("ACTION", "Active Action", "The active action of the armature"),
    ("SCENE", "Scene", "The frame range of the scene, with all its animation"),
    ("ALL", "All Actions", "Every action that moves the armature"),
)
FLESH = (
    ("firm", "Firm", "Swings twice as fast as normal"),
    ("normal", "Normal", "Flesh of a body in good shape"),
    ("soft", "Soft", "Swings more slowly, and farther"),
    ("jelly", "Jelly", "Swings at a third of normal"),
    ("human", "Human", "A person: firm limbs, and rest after a swing or two"),
    ("animal", "Animal", "Firm limbs, a loose tail and loose ears"),
    ("cartoon", "Cartoon", "Swings about twice as far as normal, and rings"),
)
SOLVER = (
    ("condensed", "Condensed", "Supple's, in milliseconds"),
    ("rsp", "Rig-Space Physics", "Hahn et al. 2012, all interior vertices: slow"),
    ("iv2-je2", "Efficient Rig-Space Physics", "Hahn et al. 2013: skinned interior"),
)
LOOP = (
    (
        "AUTO",
        "By the Action",
        "Loop if the action is marked as cyclic or repeats by modifiers",
    ),
    ("ON", "Loop", "The last frame leads into the first"),
    ("OFF", "Once", "Begin at rest; the end need not match the beginning"),
)
#: The numbers are stored in Blender files and must not change.
QUALITY = (
    ("auto", "Automatic", "The full simulation where it takes no longer than about twice live", 2),
    ("live", "Live", "The same result as in the live view; takes seconds", 0),
    ("final", "Final", "All tetrahedra with short steps; takes minutes to hours", 1),
)


class CharacterSettings(bpy.types.PropertyGroup):
    """Settings of a character, stored with its armature."""

    which: EnumProperty(name="Clips", items=WHICH, description="Clips to simulate")
    flesh: EnumProperty(name="Flesh", items=FLESH, default="normal", description="Stiffness preset")
    stiffness: FloatProperty(
        name="Stiffness",
        default=1,
        min=0.01,
        max=100,
        description="Factor on the stiffness of the flesh; 4 swings twice as fast",
    )
    damping: FloatProperty(
        name="Damping",
        default=1,
        min=0.05,
        max=20,
        description="Factor on the damping: with 2 flesh comes to rest sooner, with 0.5 later",
    )
    swing: StringProperty(
        name="Swing",
        description="Largest swing of the flesh, in place of a stiffness: 3% of the size, or by "
        "bone or part: belly=4cm Tail*=10%",
    )
    anatomy: StringProperty(
        name="Anatomy File",
        subtype="FILE_PATH",
        description="NAME.anatomy.json of the live view: hard and soft parts, stiffness, damping",
    )
    use_gravity: BoolProperty(
        name="Custom Gravity",
        description="By default gravity scales with the size, so that all bodies move alike",
    )
    gravity: FloatProperty(name="Gravity", default=9.81, min=0, max=1000, description="In m/s²")
    loop: EnumProperty(name="Loop", items=LOOP, description="Whether the motion is a cycle")
    error: FloatProperty(
        name="Error",
        default=0.2,
        min=0.01,
        max=5,
        subtype="PERCENTAGE",
        description="Largest distance of the shape keys from the simulation, relative to the size",
    )
    quality: EnumProperty(
        name="Quality", items=QUALITY, default="auto", description="Quality of the simulation"
    )
    only_selected: BoolProperty(
        name="Selected Meshes Only",
        description="Ignore other visible meshes of the armature",
    )
    free: StringProperty(
        name="Controls",
        description="Bones and shape keys to simulate, with commas and wildcards: tail*, ear*",
    )
    bounds: StringProperty(
        name="Bounds",
        description="Least and largest value of shape keys: -1,1 for all, or belly*=-1,1; "
        "cheek*=0,1. By default 0,1, so that they swing to one side only",
    )
    ground: BoolProperty(name="Ground", description="A floor below the lowest point of the skin")
    solver: EnumProperty(name="Solver", items=SOLVER, description="Solver of the curves")

    def curve_options(self, free: Sequence[str]) -> CurveOptions:
        solver = None if self.solver == "condensed" else self.solver
        return CurveOptions(tuple(free), self.bounds or None, self.ground, solver)

    def options(self) -> Options:
        gravity = self.gravity if self.use_gravity else None
        anatomy = bpy.path.abspath(self.anatomy) if self.anatomy else None
        return Options(
            self.flesh,
            self.stiffness,
            self.damping,
            gravity,
            self.error / 100,
            self.quality,
            self.swing or None,
            anatomy,
        )


def settings_of(armature: bpy.types.Object) -> CharacterSettings:
    """Return the settings that are stored with an armature."""
    return armature.supple


class SupplePreferences(bpy.types.AddonPreferences):
    """Path of the command, and its installation."""

    bl_idname = __package__

    command: StringProperty(
        name="Command",
        subtype="FILE_PATH",
        description="The program supple, or the folder of its environment; empty to search for it",
    )
    source: StringProperty(
        name="Install From",
        default="supple",
        subtype="FILE_PATH",
        description="A package of pypi.org, or a wheel on this computer",
    )

    def draw(self, context: bpy.types.Context) -> None:
        from .setup import draw_setup

        draw_setup(self, context)


def preferences(context: bpy.types.Context) -> SupplePreferences | None:
    """Return the add-on's preferences; None where it is used as a plain module."""
    addon = context.preferences.addons.get(__package__)
    return addon.preferences if addon else None


def environment_folder() -> Path:
    """Return the folder of the environment that the add-on installs."""
    if __package__.startswith("bl_ext."):
        return Path(bpy.utils.extension_path_user(__package__, path="environment"))
    return Path(bpy.utils.user_resource("DATAFILES", path="supple")) / "environment"


def command_of(context: bpy.types.Context) -> str:
    """Return the path of the command; raise Problem if there is none."""
    stored = preferences(context)
    given = bpy.path.abspath(stored.command) if stored and stored.command else ""
    return find_command(given, environment_folder())


def installed() -> bool:
    """Return whether the add-on has installed an environment."""
    return environment_program(environment_folder()).is_file()


CLASSES = (CharacterSettings, SupplePreferences)


def register() -> None:
    for each in CLASSES:
        bpy.utils.register_class(each)
    bpy.types.Object.supple = PointerProperty(type=CharacterSettings)


def unregister() -> None:
    del bpy.types.Object.supple
    for each in reversed(CLASSES):
        bpy.utils.unregister_class(each)
