"""The Blender that reads .blend and .fbx files: the program, or an environment with `bpy`.

Blender is under the GPL. Nothing of it is imported here: it runs in a process of its own, with
the add-on's files, which are under the same licence.
"""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from supple.errors import SuppleError

#: Variables that name the program, and an environment with bpy.
PROGRAM, ENVIRONMENT = "SUPPLE_BLENDER", "SUPPLE_BPY"
#: Run in Blender: finds the add-on's package in a folder, and answers a request.
SCRIPT = (
    "import sys; sys.path.insert(0, {folder!r}); from supple_addon.files import main; "
    "main({request!r})"
)


@dataclass(frozen=True)
class BlenderProgram:
    """A program that runs Python with `bpy`.

    Attributes
    ----------
    path
        Blender itself, or the Python of an environment.
    module
        Whether it is a Python.
    origin
        For people: who said that it is there.
    """

    path: Path
    module: bool
    origin: str

    def words(self, request: Path) -> list[str]:
        """Return the command that answers a request: no settings, add-ons or scripts of a user."""
        script = SCRIPT.format(folder=str(addon_folder()), request=str(request))
        if self.module:
            return [str(self.path), "-I", "-c", script]
        start = ["--background", "--factory-startup", "--disable-autoexec", "--offline-mode"]
        return [str(self.path), *start, "--python-exit-code", "3", "--python-expr", script]


def addon_folder() -> Path:
    """Return the folder that the add-on's package lies in: a wheel's own, or that of a clone."""
    here = Path(__file__).resolve().parent
    for folder in (here, here.parents[3] / "blender"):
        if (folder / "supple_addon" / "files.py").is_file():
            return folder
    raise SuppleError("the files that run in Blender are missing; install Supple again")


def blender_folder() -> Path:
    """Return the folder of the environment that ``supple blender --install`` makes."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    elif sys.platform == "darwin":
        base = "~/Library/Application Support"
    else:
        base = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(base).expanduser() / "supple" / "blender"


def environment_python(folder: Path) -> Path:
    """Return where a virtual environment keeps its Python."""
    return folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def found_blender() -> BlenderProgram | None:
    """Return the Blender that is used: the one that is named, our own, or one on the path.

    Raises
    ------
    SuppleError
        If a variable names one that is not there.
    """
    if named := os.environ.get(PROGRAM):
        program = shutil.which(named)
        if program is None:
            raise SuppleError(f"{PROGRAM} is {named}, which is no program; name Blender's")
        return BlenderProgram(Path(program), False, PROGRAM)
    if named := os.environ.get(ENVIRONMENT):
        python = environment_python(Path(named).expanduser())
        if not python.is_file():
            raise SuppleError(f"{ENVIRONMENT} is {named}, which is no environment with bpy")
        return BlenderProgram(python, True, ENVIRONMENT)
    own = environment_python(blender_folder())
    if own.is_file():
        return BlenderProgram(own, True, "supple blender --install")
    program = shutil.which("blender")
    return None if program is None else BlenderProgram(Path(program), False, "the path")


def find_blender(name: str) -> BlenderProgram:
    """Return the Blender that is used, for a file of this name; SuppleError where there is none."""
    found = found_blender()
    if found is None:
        raise SuppleError(
            f"{name}: is read by Blender, which is not here; install it from blender.org, or run "
            "supple blender --install"
        )
    return found
