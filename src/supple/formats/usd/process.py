"""Child processes that open USD files: isolated, within limits of memory and time.

The libraries of USD crash on some damaged files, and compose a few hundred bytes into billions of
prims. So a separate process opens each file, and a crash there is an error message here. Importing
USD takes longer than reading most files, so a server imports it once, and its forks open the files.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from threading import Timer
from time import monotonic
from typing import Any

import numpy as np

from supple.errors import FormatError, SuppleError

#: Names of the files in the common folder; the last has the output of USD.
REQUEST, ANSWER, LOG = "request.npz", "answer.npz", "log.txt"
#: Seconds without a request after which a server ends.
IDLE = 30.0
ARRAY = "array:"


def send(path: Path, value: Any) -> None:
    """Write `value` to a file: nested dicts and lists of arrays, texts, numbers and None."""
    arrays: dict[str, np.ndarray] = {}
    text = json.dumps(_without_arrays(value, arrays))
    with path.open("wb") as file:
        np.savez(file, text=np.frombuffer(text.encode(), dtype=np.uint8), **arrays)  # type: ignore[arg-type]


def receive(path: Path) -> Any:
    """Return the value that `send` wrote."""
    with np.load(path, allow_pickle=False) as arrays:
        value = json.loads(arrays["text"].tobytes().decode())
        return _with_arrays(value, arrays)


def _without_arrays(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(value, np.ndarray):
        name = f"{len(arrays)}"
        arrays[name] = value
        return ARRAY + name
    if isinstance(value, dict):
        return {key: _without_arrays(item, arrays) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_arrays(item, arrays) for item in value]
    if isinstance(value, str):
        return "text:" + value  # so that no text is read as an array
    return value


def _with_arrays(value: Any, arrays: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_arrays(item, arrays) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_arrays(item, arrays) for item in value]
    if isinstance(value, str):
        return arrays[value.removeprefix(ARRAY)] if value.startswith(ARRAY) else value[5:]
    return value


#: Time limit for a small file in seconds; it is longer for large files.
LONGEST_READ = 60.0
BYTES_PER_SECOND = 1e6
#: Memory limit for a small file: USD itself takes a few hundred megabytes of addresses.
LEAST_MEMORY = 3 * 2**30
MEMORY_PER_BYTE = 30
SEARCH_PATH = "PXR_AR_DEFAULT_SEARCH_PATH"
# Packages without their __init__, whose imports the process does not need.
BOOTSTRAP = """
import importlib, sys, types
for name in ("supple", "supple.formats"):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [sys.argv[1] + name.replace("supple", "", 1).replace(".", "/")]
sys.path[:0] = [entry for entry in sys.argv[3:] if entry not in sys.path]
importlib.import_module("supple.formats.usd.child").serve(sys.argv[2])
"""


@dataclass(frozen=True)
class Child:
    """A kind of child process: one that reads, or one that writes.

    `module` has the function ``main(folder, memory)``, which answers the request in the folder;
    `does` and `too_long` are for messages. `slowness` multiplies the part of the time
    limit that grows with the size of the file.
    """

    module: str
    does: str
    too_long: str
    slowness: float = 1.0


READING = Child(
    "supple.formats.usd.read.read_child",
    "reads",
    "read it; the file is too large or refers to itself too often; simplify it",
)
WRITING = Child(
    "supple.formats.usd.write.write_child", "writes", "write it; simplify the file", slowness=8.0
)


def check_library(name: str) -> None:
    """Raise SuppleError for a file of this name if the library for USD is not installed."""
    if find_spec("pxr") is None:
        raise SuppleError(f"{name}: USD files need an extra; run pip install 'supple[usd]'")


def read_stage(path: Path, without: Sequence[str] = ()) -> dict[str, Any]:
    """Return the content of a file as `read_child` answers it; "notes" lists its mistakes.

    If the file is a layer of Supple of a kind in `without`, the answer has only its "record".
    """
    check_library(path.name)
    size = path.stat().st_size
    with tempfile.TemporaryDirectory(prefix="supple-usd-") as folder:
        request = {"path": str(path.absolute()), "without": list(without)}
        return run_child(READING, path.name, Path(folder), request, size)


def run_child(
    child: Child, name: str, folder: Path, request: dict[str, Any], work: int
) -> dict[str, Any]:
    """Send a request to a child process and return the answer.

    `name` is the file's name, for messages. `folder` has the request, the answer and their files.
    `work` is the number of bytes that the process handles; limits of time and memory depend on it.
    Raises FormatError when the process cannot start, takes too long, dies, or answers with an
    error.
    """
    send(folder / REQUEST, request)
    answer = folder / ANSWER
    answer.unlink(missing_ok=True)
    allowed = LONGEST_READ + child.slowness * work / BYTES_PER_SECOND
    memory = LEAST_MEMORY + MEMORY_PER_BYTE * work
    try:
        code, output = _served(child.module, folder, memory, allowed)
    except TimeoutError:
        what = f"USD needed more than {allowed:.0f} s to {child.too_long}"
        raise FormatError(f"{name}: {what}") from None
    except OSError as error:
        what = f"the process that {child.does} USD failed"
        raise FormatError(f"{name}: {what} ({error})") from error
    if not answer.exists() or code != 0:
        raise FormatError(f"{name}: {_failure_reason(code, output)}")
    result: dict[str, Any] = receive(answer)
    if "error" in result:
        raise FormatError(f"{name}: {result['error']}")
    return result


class _Server:
    """A process whose forks open files, one after another."""

    def __init__(self) -> None:
        package = Path(__file__).resolve().parents[2]
        places = [str(package), f"{READING.module},{WRITING.module}"]
        # Isolated: nothing is imported from the working directory.
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-c", BOOTSTRAP, *places, *filter(os.path.isabs, sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_environment(),
            start_new_session=True,
            text=True,
            errors="replace",
        )
        self.parent, self.used, self.late = os.getpid(), monotonic(), False

    @property
    def ready(self) -> bool:
        """Whether the server runs, was started by this process, and is not about to end as idle."""
        usable = self.parent == os.getpid() and monotonic() < self.used + IDLE / 2
        return usable and not self.late and self.process.poll() is None

    def request(self, message: dict[str, Any], seconds: float) -> int:
        """Return the exit code of the process that answered: a fork, or the server itself.

        Raises TimeoutError after `seconds`. After any exception, fork and server have been ended.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        timer = Timer(seconds, self._give_up)
        timer.start()
        try:
            with suppress(BrokenPipeError):
                print(json.dumps(message), file=self.process.stdin, flush=True)
            answer = self.process.stdout.readline()
        except BaseException:
            self._give_up()
            raise
        finally:
            timer.cancel()
        if answer and not answer.strip().lstrip("-").isdigit():  # output of a library
            self._give_up()
            raise OSError(f"it printed {answer[:80]!r} instead of an exit code")
        code = int(answer) if answer else self.process.wait()
        if self.late:
            raise TimeoutError
        self.used = monotonic()
        return code

    def output(self) -> str:
        """Return the standard error of a server that has ended; "" while it runs."""
        assert self.process.stderr is not None
        return "" if self.process.poll() is None else self.process.stderr.read()

    def _give_up(self) -> None:
        self.late = True
        self._kill()

    def _kill(self) -> None:
        if sys.platform == "win32":
            self.process.kill()
        elif self.process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)  # its fork too

    def end(self) -> None:
        """Kill the server, unless another process started it, and close its pipes."""
        if self.parent == os.getpid():
            self._kill()
            self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe is not None
            with suppress(OSError):
                pipe.close()


#: Idle servers; each serves one thread at a time.
_idle: list[_Server] = []


def _served(module: str, folder: Path, memory: int, seconds: float) -> tuple[int, str]:
    """Send the request in a folder to a server; return the answering process's code and log."""
    server = None
    while server is None and _idle:
        try:
            server = _idle.pop()
        except IndexError:  # taken by another thread
            break
        if not server.ready:
            server.end()
            server = None
    server = server or _Server()
    try:
        message = {"module": module, "folder": str(folder.absolute()), "memory": memory}
        code = server.request(message, seconds)
        log = folder / LOG
        return code, (log.read_text(errors="replace") if log.exists() else server.output())
    finally:
        if server.ready:
            _idle.append(server)
        else:
            server.end()


@atexit.register
def end_servers() -> None:
    """End the idle servers."""
    while _idle:
        _idle.pop().end()


def _environment() -> dict[str, str]:
    # No search path: other files come from the USD file's folder. One thread: its memory can be
    # limited, it can fork, and the order of results is fixed.
    inherited = {key: value for key, value in os.environ.items() if key != SEARCH_PATH}
    return {**inherited, "PXR_WORK_THREAD_LIMIT": "1", "OPENBLAS_NUM_THREADS": "1"}


def _failure_reason(code: int, printed: str) -> str:
    lines = printed.strip().splitlines()
    if code < 0:
        is_signal = -code in {entry.value for entry in signal.Signals}
        ended = signal.Signals(-code).name if is_signal else f"signal {-code}"
        return f"is damaged or nested too deeply: USD crashed on it ({ended}); save it again"
    last = lines[-1] if lines else "no reason given"
    return f"cannot be read ({''.join(c if c.isprintable() else '?' for c in last)[:200]})"
