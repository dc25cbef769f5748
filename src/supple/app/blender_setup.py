"""`supple blender`: find the Blender that reads .blend and .fbx files, or install one."""

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

#: Blender as a Python package: version, version of Python, megabytes to download and on the disk.
BPY, PYTHON, DOWNLOAD, DISK = "4.2.0", (3, 11), 350, 1000


def run_blender(
    *, install: bool = False, remove: bool = False, quiet: bool = False
) -> dict[str, Any]:
    """Find Blender, after installing or removing the environment of `blender_folder`.

    Returns ``program``, ``version`` and ``origin``, None without Blender, and the environment's
    ``folder``.
    """
    if install and remove:
        raise SuppleError("--install and --remove: choose one")
    folder = blender_folder()
    if remove:
        _remove(folder)
    if install:
        _install(folder, quiet)
    blender = found_blender()
    figures: dict[str, Any] = {"program": None, "version": None, "origin": None}
    if blender is not None:
        with working("starting Blender", quiet):
            answer = ask_blender(blender, str(blender.path), {"action": "version"})
        figures = {"program": str(blender.path), "origin": blender.origin, **answer}
    return figures | {"folder": str(folder)}


def print_blender(figures: dict[str, Any]) -> None:
    """Print the result of `run_blender`."""
    if figures["program"] is None:
        print("no Blender: install it from blender.org, set SUPPLE_BLENDER to its path, or run")
        print(f"supple blender --install, which makes {figures['folder']}: {_size()}")
    else:
        print(f"Blender {figures['version']}: {figures['program']} ({figures['origin']})")


def _size() -> str:
    return f"a download of {DOWNLOAD} MB from pypi.org, {DISK / 1000:g} GB on the disk"


def _remove(folder: Path) -> None:
    if not folder.exists():
        raise SuppleError(f"{folder}: does not exist; there is nothing to remove")
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise SuppleError(f"{folder}: cannot be removed ({error.strerror})") from None


def _install(folder: Path, quiet: bool) -> None:
    """Make an environment with Blender as a Python package; remove it after an error."""
    python = _python()
    if folder.exists():
        raise SuppleError(f"{folder}: already exists; supple blender --remove removes it")
    if not quiet:
        console.print(f"Blender {BPY} into {folder}: {_size()}", markup=False, soft_wrap=True)
    done = False
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with working("downloading and installing", quiet):
            _run([python, "-I", "-m", "venv", str(folder)])
            pip = [str(environment_python(folder)), "-I", "-m", "pip", "install"]
            _run([*pip, "--disable-pip-version-check", "--no-input", f"bpy=={BPY}"])
        done = True
    except OSError as error:
        raise SuppleError(f"{folder}: cannot be made ({error.strerror})") from None
    finally:
        if not done:
            shutil.rmtree(folder, ignore_errors=True)


def _python() -> str:
    """Return a Python of the version that the package needs."""
    if sys.version_info[:2] == PYTHON:
        return sys.executable
    name = "python" + ".".join(map(str, PYTHON))
    path = shutil.which(name)
    if path is None:
        raise SuppleError(
            f"Blender {BPY} as a package needs {name}, which is missing; install that, or Blender "
            "itself from blender.org"
        )
    return path


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip() or "no reason given").splitlines()
        raise SuppleError(f"Blender cannot be installed ({lines[-1][:200]})")
