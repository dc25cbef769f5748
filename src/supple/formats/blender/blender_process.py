"""Blender for .blend and .fbx files: the program, or an environment with `bpy`.

Blender is under the GPL. Nothing of it is imported here: it runs in a separate process, with the
add-on's files, which have the same licence.
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
#: Script for Blender that imports the add-on's package from a folder and answers a request.
SCRIPT = (
    "import sys; sys.path.insert(0, {folder!r}); from supple_addon.files import main; "
    "main({request!r})"
)


@dataclass(frozen=True)
class BlenderProgram:
    """A program that runs Python with `bpy`: Blender, or the Python of an environment (`module`).

    `origin` is the source of the setting, for messages.
    """

    path: Path
    module: bool
    origin: str

    def command(self, request: Path) -> list[str]:
        """Return the command that processes a request; the user's settings, add-ons and scripts are
        disabled.
        """
        script = SCRIPT.format(folder=str(addon_folder()), request=str(request))
        if self.module:
            return [str(self.path), "-I", "-c", script]
        start = ["--background", "--factory-startup", "--disable-autoexec", "--offline-mode"]
        return [str(self.path), *start, "--python-exit-code", "3", "--python-expr", script]


def addon_folder() -> Path:
    """Return the folder of the add-on's package, in a wheel or in a clone."""
    module_folder = Path(__file__).resolve().parent
    for folder in (module_folder, module_folder.parents[3] / "blender"):
        if (folder / "supple_addon" / "files.py").is_file():
            return folder
    raise SuppleError("the files for Blender are missing; install Supple again")


def blender_folder() -> Path:
    """Return the folder of the environment that ``supple blender --install`` creates."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    elif sys.platform == "darwin":
        base = "~/Library/Application Support"
    else:
        base = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(base).expanduser() / "supple" / "blender"


def environment_python(folder: Path) -> Path:
    """Return the path of a virtual environment's Python."""
    return folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def found_blender() -> BlenderProgram | None:
    """Return the Blender of a variable, of ``supple blender --install``, or on the PATH, or None.

    Raises SuppleError if a variable names a program or environment that does not exist.
    """
    if setting := os.environ.get(PROGRAM):
        program = shutil.which(setting)
        if program is None:
            raise SuppleError(f"{PROGRAM} is {setting}, which is not a program; set it to Blender")
        return BlenderProgram(Path(program), False, PROGRAM)
    if setting := os.environ.get(ENVIRONMENT):
        python = environment_python(Path(setting).expanduser())
        if not python.is_file():
            raise SuppleError(
                f"{ENVIRONMENT} is {setting}, which is not an environment; set it to one with bpy"
            )
        return BlenderProgram(python, True, ENVIRONMENT)
    python = environment_python(blender_folder())
    if python.is_file():
        return BlenderProgram(python, True, "supple blender --install")
    program = shutil.which("blender")
    return None if program is None else BlenderProgram(Path(program), False, "the path")


def find_blender(name: str) -> BlenderProgram:
    """Return the Blender to use for a file of this name; SuppleError without one."""
    blender = found_blender()
    if blender is None:
        raise SuppleError(
            f"{name}: needs Blender, which was not found; install it from blender.org, or run "
            "supple blender --install"
        )
    return blender


# Requests to Blender, each in a separate process and folder.


#: Time limit without output of Blender, in seconds: opening a large file is silent.
SILENCE_LIMIT = 600.0


def ask_blender(blender: BlenderProgram, name: str, request: dict[str, Any]) -> dict[str, Any]:
    """Send a request to Blender and return the answer.

    `name` is the file name in messages; `request` has an ``action`` of the add-on's `files`, and
    its arguments. Raises FormatError when Blender cannot start, ends early, is silent for too long,
    or answers with a problem.
    """
    with tempfile.TemporaryDirectory(prefix="supple-blender-") as folder:
        request_file = Path(folder) / "request.json"
        content = request | {"seconds": SILENCE_LIMIT}
        request_file.write_text(json.dumps(content), encoding="utf-8")
        code, last = _run(blender.command(request_file), Path(folder), name)
        answer = request_file.with_name("answer.json")
        if not answer.is_file():
            raise FormatError(f"{name}: {_cause(code, last)}")
        result: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
    if "problem" in result:
        raise FormatError(f"{name}: {_printable(result['problem'])}")
    return result


class _Watchdog:
    """Timer that ends a process if it prints nothing for too long."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process, self.ended = process, False
        self._timer: Timer | None = None
        self.renew()

    def renew(self) -> None:
        self.cancel()
        self._timer = Timer(SILENCE_LIMIT, self._end)
        self._timer.daemon = True
        self._timer.start()

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _end(self) -> None:
        self.ended = True
        _kill(self._process)


def _run(command: list[str], folder: Path, name: str) -> tuple[int, str]:
    """Run the process to its end; return its exit code and last line of output."""
    environment = {k: value for k, value in os.environ.items() if not k.startswith("BLENDER_")}
    environment["BLENDER_USER_RESOURCES"] = str(folder)  # no user settings or add-ons
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,  # Blender ends when this process does
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
    output: deque[str] = deque(maxlen=5)
    reader = Thread(target=_read_lines, args=(process.stderr, output), daemon=True)
    reader.start()
    watchdog = _Watchdog(process)
    try:
        for line in process.stdout:
            if line.startswith('{"part"'):
                watchdog.renew()
            elif line.strip():
                output.append(line)
        code = process.wait()
        reader.join(5)
    finally:
        watchdog.cancel()
        _kill(process)
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            assert pipe is not None
            with suppress(OSError):
                pipe.close()
    if watchdog.ended:
        raise FormatError(
            f"{name}: Blender gave no output for {SILENCE_LIMIT:.0f} s; simplify the file"
        )
    return code, output[-1] if output else ""


def _read_lines(stream: IO[str], output: deque[str]) -> None:
    with suppress(ValueError):  # the stream was closed
        output.extend(line for line in stream if line.strip())


def _kill(process: subprocess.Popen[str]) -> None:
    if process.poll() is not None:
        return
    with suppress(ProcessLookupError):
        process.kill() if sys.platform == "win32" else os.killpg(process.pid, signal.SIGKILL)


def _cause(code: int, last: str) -> str:
    if code < 0:
        is_signal = -code in {entry.value for entry in signal.Signals}
        ended = signal.Signals(-code).name if is_signal else f"signal {-code}"
        return f"is damaged or too large: Blender crashed on it ({ended}); save it again"
    return f"Blender ended early ({_printable(last) or code}); run supple blender to check it"


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text).strip()[:300]
