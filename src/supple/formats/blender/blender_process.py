"""Requests to Blender: each in a process and a folder of its own, ended when nothing goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import deque
from contextlib import suppress
from pathlib import Path
from threading import Thread, Timer
from typing import IO, Any

from supple.errors import FormatError
from supple.formats.blender.blender_program import BlenderProgram

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
