# SPDX-FileCopyrightText: The Supple developers
# SPDX-License-Identifier: GPL-3.0-or-later
"""Set-up: find Supple's environment or make it, in a folder of its own."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import bpy

from .baking import Steps, finished, job_steps, work_folder
from .character import Problem
from .command import Job, environment_program
from .operators import Working, now_running, told
from .settings import SupplePreferences, command_of, environment_folder, installed, preferences

__all__ = ["CLASSES", "draw_setup"]

#: The oldest Supple that understands what the add-on says.
NEEDED = (0, 1, 0)
#: What the environment takes on disk, measured with Python 3.11 on Linux.
ABOUT = "about 700 MB"

_found = ""


def version_of(command: str) -> str:
    """Return the version of a program, or raise Problem where it is none or too old."""
    with work_folder() as folder:
        job = Job([command, "--version"], folder)
        finished(job_steps(job, "version"))
        words = job.output().split()
    try:
        found = tuple(int(part) for part in words[-1].split(".")[:3])
    except (IndexError, ValueError):
        raise Problem(f"{command} does not say its version; it is not Supple") from None
    if found < NEEDED:
        wanted = ".".join(map(str, NEEDED))
        raise Problem(f"Supple {words[-1]} is too old; install {wanted} or newer")
    return words[-1]


class SUPPLE_OT_install(Working, bpy.types.Operator):
    """Make an environment for Supple in a folder of its own, and install it there"""

    bl_idname = "supple.install"
    bl_label = "Install"

    def steps(self, context: bpy.types.Context) -> Steps[str]:
        own = preferences(context)
        source = own.source if own else "supple"
        local = Path(bpy.path.abspath(source)) if source.endswith(".whl") else None
        if local is not None and not local.is_file():
            raise Problem(f"{local} is no file")
        if local is None and not bpy.app.online_access:
            raise Problem(
                "Blender may not use the network: allow it under System, or choose a wheel"
            )
        return made_environment(environment_folder(), source, local, bpy.app.online_access)


def made_environment(folder: Path, source: str, local: Path | None, online: bool) -> Steps[str]:
    """Make an environment with Supple, by name or from a wheel; none where that fails."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    python = str(environment_program(folder, "python"))
    words = [python, "-I", "-m", "pip", "install", "--disable-pip-version-check", "--upgrade"]
    if local is not None:  # others may lie beside it: then no network is needed
        words += ["--find-links", str(local.parent)]
        words += [] if online else ["--no-index"]
    words.append(str(local or source))
    done = False
    try:
        for command, name, what in (
            (
                [sys.executable, "-I", "-m", "venv", "--clear", str(folder)],
                "venv",
                "making a folder",
            ),
            (words, "pip", "downloading and installing"),
        ):
            job = Job(command, folder.parent, name)
            job.what = what
            yield from job_steps(job, "Supple")
            job.output()
        version = version_of(str(environment_program(folder)))
        done = True
    finally:
        if not done:
            shutil.rmtree(folder, ignore_errors=True)
    return f"Supple {version} is installed"


class SUPPLE_OT_check(bpy.types.Operator):
    """Look for Supple, and ask its version"""

    bl_idname = "supple.check"
    bl_label = "Check"

    def execute(self, context: bpy.types.Context) -> set[str]:
        return told(self, lambda: self._check(context))

    def _check(self, context: bpy.types.Context) -> None:
        global _found
        command = command_of(context)
        _found = f"Supple {version_of(command)}: {command}"
        self.report({"INFO"}, _found)


class SUPPLE_OT_uninstall(bpy.types.Operator):
    """Delete the environment that was made here"""

    bl_idname = "supple.uninstall"
    bl_label = "Delete the Environment"

    @classmethod
    def poll(cls, context: bpy.types.Context) -> bool:
        return installed()

    def execute(self, context: bpy.types.Context) -> set[str]:
        shutil.rmtree(environment_folder(), ignore_errors=True)
        return {"FINISHED"}


def draw_setup(own: SupplePreferences, context: bpy.types.Context) -> None:
    """Draw the page of the preferences."""
    layout = own.layout
    if (work := now_running()) is not None:
        layout.progress(factor=work.step.part, text=work.step.what)
        layout.operator("supple.cancel", icon="X")
        return
    try:
        layout.label(text=_found or f"Found: {command_of(context)}", icon="CHECKMARK")
    except Problem as problem:
        layout.label(text=str(problem), icon="ERROR")
    layout.prop(own, "command")
    layout.operator("supple.check", icon="VIEWZOOM")
    box = layout.box()
    box.label(text="Supple runs in an environment of its own, beside Blender's Python:")
    box.label(text=f"{environment_folder()}, {ABOUT}")
    box.label(text="It downloads Supple, NumPy, SciPy, Numba and what they need from pypi.org;")
    box.label(text="with a wheel, what lies beside it is taken first, and offline nothing else.")
    box.prop(own, "source")
    row = box.row()
    row.operator("supple.install", icon="IMPORT")
    row.operator("supple.uninstall", icon="TRASH")


CLASSES = (SUPPLE_OT_install, SUPPLE_OT_check, SUPPLE_OT_uninstall)
