# SPDX-FileCopyrightText: The Supple developers
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command `supple`, run in a separate process."""

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
    """Return the path of a program in a virtual environment."""
    return folder / "Scripts" / f"{name}.exe" if WINDOWS else folder / "bin" / name


def find_command(given: str = "", own: Path | None = None) -> str:
    """Return the path of the command; raise Problem if there is none.

    In this order: `given` in the preferences (the program, or the folder of an environment), the
    environment variable, the environment `own` of the add-on, the program on the path.
    """
    for where, name in (("The preferences", given), (VARIABLE, os.environ.get(VARIABLE, ""))):
        if not name:
            continue
        path = Path(name).expanduser()
        path = environment_program(path) if path.is_dir() else path
        program = shutil.which(str(path))
        if program is None:
            raise Problem(f"{where}: {path}, which is not a program")
        return program
    if own is not None and environment_program(own).is_file():
        return str(environment_program(own))
    program = shutil.which("supple")
    if program is None:
        raise Problem("Supple is not installed yet: Preferences, Add-ons, Supple, Install")
    return program


class Job:
    """Process of a program, whose progress lines are read while it runs.

    `part` is the fraction done of the task `what`; `warnings` are the warnings printed so far.
    """

    def __init__(self, command: list[str], folder: Path, name: str = "Supple") -> None:
        self._name = name
        self.part, self.what = 0.0, "starting"
        self.warnings: list[str] = []
        self._lines: deque[str] = deque(maxlen=20)
        self._output: list[str] = []
        environment = dict(os.environ, SUPPLE_PROGRESS="lines", PYTHONUNBUFFERED="1")
        environment.pop("PYTHONHOME", None)  # set by Blender's Python
        separation: dict[str, Any] = {"start_new_session": True}
        if WINDOWS:
            separation = {"creationflags": subprocess.CREATE_NO_WINDOW}
        try:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                errors="replace",
                **separation,
            )
        except OSError as error:
            raise Problem(f"{command[0]} cannot be started: {error.strerror}") from None
        self._threads = [
            threading.Thread(target=self._read, args=(self._process.stderr, self._line)),
            threading.Thread(target=self._read, args=(self._process.stdout, self._output.append)),
        ]
        for thread in self._threads:
            thread.daemon = True
            thread.start()

    @staticmethod
    def _read(stream: IO[str], receive: Any) -> None:
        for line in stream:
            receive(line)

    def _line(self, line: str) -> None:
        line = line.strip()
        if line.startswith('{"part"'):
            with suppress(ValueError):
                progress = json.loads(line)
                self.part, self.what = float(progress["part"]), str(progress["what"])
        elif line.startswith("supple: warning: "):
            self.warnings.append(line.removeprefix("supple: warning: "))
        elif line:
            self._lines.append(line)

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def last_line(self) -> str:
        return self._lines[-1] if self._lines else ""

    @property
    def printed(self) -> str:
        """Standard output so far."""
        return "".join(self._output)

    def interrupt(self) -> None:
        """Interrupt the process, as by Ctrl-C, and wait up to five seconds for its end."""
        with suppress(OSError, subprocess.TimeoutExpired):
            if not WINDOWS:
                os.kill(self._process.pid, signal.SIGINT)
                self._process.wait(5)
                for thread in self._threads:
                    thread.join(1)

    def end(self) -> None:
        """End the process and its children."""
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
        """Wait for the end, and return standard output; raise Problem if the command failed."""
        code = self._process.wait()
        for thread in self._threads:
            thread.join(5)
        if code == 0:
            return "".join(self._output)
        errors = [line for line in self._lines if line.startswith("supple: ")]
        if errors:
            raise Problem(f"Supple: {errors[-1].removeprefix('supple: ')}")
        last = f": {self.last_line}" if self.last_line else ""
        raise Problem(f"{self._name} ended unexpectedly ({code}){last}"[:400])

    def figures(self) -> dict[str, Any]:
        """Return standard output, parsed as JSON."""
        try:
            return json.loads(self.output())
        except ValueError:
            raise Problem("The output of Supple is not valid JSON; update Supple") from None
