# SPDX-FileCopyrightText: The Supple developers
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command `supple`, in a process and an environment of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from .character import Problem

__all__ = ["VARIABLE", "Job", "environment_program", "find_command"]

#: Environment variable that names the program, for pipelines.
VARIABLE = "SUPPLE_COMMAND"
WINDOWS = sys.platform == "win32"


def environment_program(folder: Path, name: str = "supple") -> Path:
    """Return where a virtual environment keeps a program."""
    return folder / "Scripts" / f"{name}.exe" if WINDOWS else folder / "bin" / name


def find_command(given: str = "", own: Path | None = None) -> str:
    """Return the program: the one of the preferences, of the variable, our own, or on the path.

    Parameters
    ----------
    given
        In the preferences: the program, or a folder with an environment.
    own
        Folder of the environment that the add-on made.
    """
    for where, told in (("The preferences", given), (VARIABLE, os.environ.get(VARIABLE, ""))):
        if not told:
            continue
        path = Path(told).expanduser()
        path = environment_program(path) if path.is_dir() else path
        found = shutil.which(str(path))
        if found is None:
            raise Problem(f"{where} names {path}, which is not a program")
        return found
    if own is not None and environment_program(own).is_file():
        return str(environment_program(own))
    found = shutil.which("supple")
    if found is None:
        raise Problem("Supple is not installed yet: Preferences, Add-ons, Supple, Install")
    return found


class Job:
    """A run of a program, heard of while it goes on.

    Attributes
    ----------
    part, what
        How far it is with what.
    warnings
        Lines that it said beside.
    """

    def __init__(self, command: list[str], folder: Path, name: str = "Supple") -> None:
        self._name = name
        self.part, self.what = 0.0, "starting"
        self.warnings: list[str] = []
        self._said: deque[str] = deque(maxlen=20)
        self._output: list[str] = []
        surrounding = dict(os.environ, SUPPLE_PROGRESS="lines", PYTHONUNBUFFERED="1")
        surrounding.pop("PYTHONHOME", None)  # of Blender's own Python
        apart: dict[str, Any] = {"start_new_session": True}
        if WINDOWS:
            apart = {"creationflags": subprocess.CREATE_NO_WINDOW}
        try:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                env=surrounding,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                errors="replace",
                **apart,
            )
        except OSError as error:
            raise Problem(f"{command[0]} cannot be started: {error.strerror}") from None
        self._threads = [
            threading.Thread(target=self._hear, args=(self._process.stderr, self._line)),
            threading.Thread(target=self._hear, args=(self._process.stdout, self._output.append)),
        ]
        for thread in self._threads:
            thread.daemon = True
            thread.start()

    @staticmethod
    def _hear(stream: IO[str], said: Any) -> None:
        for line in stream:
            said(line)

    def _line(self, line: str) -> None:
        line = line.strip()
        if line.startswith('{"part"'):
            with suppress(ValueError):
                told = json.loads(line)
                self.part, self.what = float(told["part"]), str(told["what"])
        elif line.startswith("supple: warning: "):
            self.warnings.append(line.removeprefix("supple: warning: "))
        elif line:
            self._said.append(line)

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def last_line(self) -> str:
        return self._said[-1] if self._said else ""

    @property
    def printed(self) -> str:
        """What it printed so far."""
        return "".join(self._output)

    def interrupt(self) -> None:
        """Ask the process to end by itself, as Ctrl-C does, and wait for that a little."""
        with suppress(OSError, subprocess.TimeoutExpired):
            if not WINDOWS:
                os.kill(self._process.pid, signal.SIGINT)
                self._process.wait(5)

    def end(self) -> None:
        """End the process and those that it started."""
        if not self.running:
            return
        with suppress(OSError):
            if WINDOWS:
                self._process.kill()
            else:
                os.killpg(self._process.pid, signal.SIGTERM)
        try:
            self._process.wait(3)
        except subprocess.TimeoutExpired:
            with suppress(OSError):
                self._process.kill() if WINDOWS else os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def output(self) -> str:
        """Return what it printed; Problem if it could not do what it should."""
        code = self._process.wait()
        for thread in self._threads:
            thread.join(5)
        if code == 0:
            return "".join(self._output)
        said = [line for line in self._said if line.startswith("supple: ")]
        if said:
            raise Problem(f"Supple: {said[-1].removeprefix('supple: ')}")
        last = f": {self.last_line}" if self.last_line else ""
        raise Problem(f"{self._name} ended unexpectedly ({code}){last}"[:400])

    def figures(self) -> dict[str, Any]:
        """Return what it printed as JSON."""
        try:
            return json.loads(self.output())
        except ValueError:
            raise Problem("Supple said something that is not understood; update it") from None
