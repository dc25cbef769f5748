# SPDX-FileCopyrightText: The Supple developers
# SPDX-License-Identifier: GPL-3.0-or-later
"""Installation of Supple in an environment of the add-on, and its check."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import bpy

from .baking import Steps, finished, job_steps, work_folder
from .character import Problem
from .command import Job, environment_program
from .operators import Working, now_running, reported
from .settings import SupplePreferences, command_of, environment_folder, installed, preferences

__all__ = ["CLASSES", "draw_setup"]

#: Oldest version of Supple that the add-on works with.
NEEDED = (0, 1, 0)
#: Disk space of the environment, measured with Python 3.11 on Linux.
ABOUT = "about 700 MB"

_found = ""


def version_of(command: str) -> str:
    """Return the version of a program; raise Problem if it is too old or not Supple."""
    with work_folder() as folder:
        job = Job([command, "--version"], folder)
        finished(job_steps(job, "version"))
        words = job.output().split()
    try:
        version = tuple(int(part) for part in words[-1].split(".")[:3])
    except (IndexError, ValueError):
        raise Problem(f"{command} prints no version; it is not Supple") from None
    if version < NEEDED:
        needed = ".".join(map(str, NEEDED))
        raise Problem(f"Supple {words[-1]} is too old; install {needed} or newer")
    return words[-1]


class SUPPLE_OT_install(Working, bpy.types.Operator):
    """Create an environment in a separate folder, and install Supple there"""

    bl_idname = "supple.install"
    bl_label = "Install"

    def steps(self, context: bpy.types.Context) -> Steps[str]:
        stored = preferences(context)
        source = stored.source if stored else "supple"
        local = Path(bpy.path.abspath(source)) if source.endswith(".whl") else None
        if local is not None and not local.is_file():
            raise Problem(f"{local}: there is no such file")
        if local is None and not bpy.app.online_access:
            raise Problem(
                "Blender may not use the network: allow it under System, or choose a wheel"
            )
        return made_environment(environment_folder(), source, local, bpy.app.online_access)


def made_environment(folder: Path, source: str, local: Path | None, online: bool) -> Steps[str]:
    """Create an environment with Supple, by name or from a wheel; remove it if that fails."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    python = str(environment_program(folder, "python"))
    words = [python, "-I", "-m", "pip", "install", "--disable-pip-version-check", "--upgrade"]
    if local is not None:  # other wheels may be next to it, so that no network is needed
        words += ["--find-links", str(local.parent)]
        words += [] if online else ["--no-index"]
    words.append(str(local or source))
    done = False
    try:
        for command, name, what in (
            (
                [sys.executable, "-I", "-m", "venv", "--clear", str(folder)],
                "venv",
                "creating an environment",
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
    """Find Supple, and show its version"""

    bl_idname = "supple.check"
    bl_label = "Check"

    def execute(self, context: bpy.types.Context) -> set[str]:
        return reported(self, lambda: self._check(context))

    def _check(self, context: bpy.types.Context) -> None:
        global _found
        command = command_of(context)
        _found = f"Supple {version_of(command)}: {command}"
        self.report({"INFO"}, _found)


class SUPPLE_OT_uninstall(bpy.types.Operator):
    """Delete the environment that the add-on installed"""

    bl_idname = "supple.uninstall"
    bl_label = "Delete the Environment"

    @classmethod
    def poll(cls, context: bpy.types.Context) -> bool:
        return installed()

    def execute(self, context: bpy.types.Context) -> set[str]:
        shutil.rmtree(environment_folder(), ignore_errors=True)
        return {"FINISHED"}


def draw_setup(stored: SupplePreferences, context: bpy.types.Context) -> None:
    """Draw the page of the preferences."""
    layout = stored.layout
    if (work := now_running()) is not None:
        layout.progress(factor=work.step.part, text=work.step.what)
        layout.operator("supple.cancel", icon="X")
        return
    try:
        layout.label(text=_found or f"Found: {command_of(context)}", icon="CHECKMARK")
    except Problem as problem:
        layout.label(text=str(problem), icon="ERROR")
    layout.prop(stored, "command")
    layout.operator("supple.check", icon="VIEWZOOM")
    box = layout.box()
    box.label(text="Supple runs in an environment separate from Blender's Python:")
    box.label(text=f"{environment_folder()}, {ABOUT}")
    box.label(
        text="Install downloads Supple, NumPy, SciPy, Numba and their dependencies from pypi.org"
    )
    box.label(text="With a wheel, wheels in its folder are used first; offline, only those.")
    box.prop(stored, "source")
    row = box.row()
    row.operator("supple.install", icon="IMPORT")
    row.operator("supple.uninstall", icon="TRASH")


CLASSES = (SUPPLE_OT_install, SUPPLE_OT_check, SUPPLE_OT_uninstall)
