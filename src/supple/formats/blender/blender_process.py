"""The Blender that reads .blend and .fbx files: the program, or an environment with `bpy`.

Blender is under the GPL. Nothing of it is imported here: it runs in a process of its own, with
the add-on's files, which are under the same licence.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread, Timer
from typing import IO, Any

from supple.errors import FormatError, SuppleError

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


# Requests to Blender, each in a process and a folder of its own.


#: Seconds in which Blender must have said something: opening a large file is silent.
PATIENCE = 600.0


def ask_blender(blender: BlenderProgram, name: str, request: dict[str, Any]) -> dict[str, Any]:
    """Have Blender answer a request.

    Parameters
    ----------
    blender
        Which.
    name
        Of the file, for messages.
    request
        An ``action`` of the add-on's `files`, and what it takes.

    Raises
    ------
    FormatError
        When it cannot start, ends early, says nothing for long, or says what is wrong.
    """
    with tempfile.TemporaryDirectory(prefix="supple-blender-") as folder:
        asked = Path(folder) / "request.json"
        told = request | {"seconds": PATIENCE}
        asked.write_text(json.dumps(told), encoding="utf-8")
        code, last = _run(blender.words(asked), Path(folder), name)
        answer = asked.with_name("answer.json")
        if not answer.is_file():
            raise FormatError(f"{name}: {_cause(code, last)}")
        found: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
    if "problem" in found:
        raise FormatError(f"{name}: {_printable(found['problem'])}")
    return found


class _Patience:
    """End a process that has said nothing for long."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process, self.ended = process, False
        self._timer: Timer | None = None
        self.renew()

    def renew(self) -> None:
        self.cancel()
        self._timer = Timer(PATIENCE, self._end)
        self._timer.daemon = True
        self._timer.start()

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _end(self) -> None:
        self.ended = True
        _kill(self._process)


def _run(words: list[str], folder: Path, name: str) -> tuple[int, str]:
    """Run the process to its end; return its code and the last line that it printed."""
    own = {key: value for key, value in os.environ.items() if not key.startswith("BLENDER_")}
    own["BLENDER_USER_RESOURCES"] = str(folder)  # settings and add-ons of nobody
    try:
        process = subprocess.Popen(
            words,
            cwd=folder,
            env=own,
            stdin=subprocess.PIPE,  # it ends when we do
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise FormatError(f"{name}: Blender cannot be started ({error.strerror})") from None
    assert process.stdout is not None
    assert process.stderr is not None
    said: deque[str] = deque(maxlen=5)
    listening = Thread(target=_hear, args=(process.stderr, said), daemon=True)
    listening.start()
    patience = _Patience(process)
    try:
        for line in process.stdout:
            if line.startswith('{"part"'):
                patience.renew()
            elif line.strip():
                said.append(line)
        code = process.wait()
        listening.join(5)
    finally:
        patience.cancel()
        _kill(process)
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            assert pipe is not None
            with suppress(OSError):
                pipe.close()
    if patience.ended:
        raise FormatError(f"{name}: Blender said nothing for {PATIENCE:.0f} s; simplify the file")
    return code, said[-1] if said else ""


def _hear(stream: IO[str], said: deque[str]) -> None:
    with suppress(ValueError):  # closed by whoever does not listen any longer
        said.extend(line for line in stream if line.strip())


def _kill(process: subprocess.Popen[str]) -> None:
    if process.poll() is not None:
        return
    with suppress(ProcessLookupError):
        process.kill() if sys.platform == "win32" else os.killpg(process.pid, signal.SIGKILL)


def _cause(code: int, last: str) -> str:
    if code < 0:
        known = -code in {entry.value for entry in signal.Signals}
        ended = signal.Signals(-code).name if known else f"signal {-code}"
        return f"is damaged, or too large: Blender ended on it ({ended}); save it again"
    return f"Blender ended early ({_printable(last) or code}); see what supple blender says"


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text).strip()[:300]
