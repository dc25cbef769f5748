"""`supple blender`: which Blender reads .blend and .fbx files, and an environment with one."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from supple.errors import SuppleError
from supple.formats.blender.blender_process import (
    ask_blender,
    blender_folder,
    environment_python,
    found_blender,
)
from supple.playback.progress_bar import console, working

#: Blender as a Python package: its version, the Python it is for, and megabytes, packed and not.
BPY, PYTHON, DOWNLOAD, DISK = "4.2.0", (3, 11), 350, 1000


def run_blender(
    *, install: bool = False, remove: bool = False, quiet: bool = False
) -> dict[str, Any]:
    """Find Blender and ask its version; make an environment with one before, or remove that.

    Returns
    -------
    dict
        ``program``, ``version`` and ``origin``, None where there is no Blender, and ``folder`` of
        the environment that is made on request.
    """
    if install and remove:
        raise SuppleError("--install and --remove: choose one")
    folder = blender_folder()
    if remove:
        _remove(folder)
    if install:
        _install(folder, quiet)
    found = found_blender()
    figures: dict[str, Any] = {"program": None, "version": None, "origin": None}
    if found is not None:
        with working("asking Blender", quiet):
            answer = ask_blender(found, str(found.path), {"action": "version"})
        figures = {"program": str(found.path), "origin": found.origin, **answer}
    return figures | {"folder": str(folder)}


def print_blender(figures: dict[str, Any]) -> None:
    """Print what was found, for people."""
    if figures["program"] is None:
        print("no Blender: install it from blender.org, name it by SUPPLE_BLENDER, or run")
        print(f"supple blender --install, which makes {figures['folder']}: {_size()}")
    else:
        print(f"Blender {figures['version']}: {figures['program']} ({figures['origin']})")


def _size() -> str:
    return f"a download of {DOWNLOAD} MB from pypi.org, {DISK / 1000:g} GB on the disk"


def _remove(folder: Path) -> None:
    if not folder.exists():
        raise SuppleError(f"{folder}: is not there; nothing to remove")
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise SuppleError(f"{folder}: cannot be removed ({error.strerror})") from None


def _install(folder: Path, quiet: bool) -> None:
    """Make an environment with Blender as a Python package; none where that fails."""
    python = _python()
    if folder.exists():
        raise SuppleError(f"{folder}: is there already; supple blender --remove removes it")
    if not quiet:
        console.print(f"Blender {BPY} into {folder}: {_size()}", markup=False, soft_wrap=True)
    done = False
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with working("downloading and installing", quiet):
            _called([python, "-I", "-m", "venv", str(folder)])
            own = [str(environment_python(folder)), "-I", "-m", "pip", "install"]
            _called([*own, "--disable-pip-version-check", "--no-input", f"bpy=={BPY}"])
        done = True
    except OSError as error:
        raise SuppleError(f"{folder}: cannot be made ({error.strerror})") from None
    finally:
        if not done:
            shutil.rmtree(folder, ignore_errors=True)


def _python() -> str:
    """Return a Python that the package is for."""
    if sys.version_info[:2] == PYTHON:
        return sys.executable
    name = "python" + ".".join(map(str, PYTHON))
    found = shutil.which(name)
    if found is None:
        raise SuppleError(
            f"Blender {BPY} as a package needs {name}, which is not here; install that, or Blender "
            "itself from blender.org"
        )
    return found


def _called(words: list[str]) -> None:
    done = subprocess.run(words, capture_output=True, text=True, errors="replace")
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or "no reason given").splitlines()
        raise SuppleError(f"Blender cannot be installed ({said[-1][:200]})")
