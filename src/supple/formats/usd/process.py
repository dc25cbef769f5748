"""Child processes that open USD files: started isolated, within limits of memory and time.

USD's libraries crash on some damaged files and compose a few hundred bytes into billions of
prims. So a process of its own opens a file; ours lives on whatever happens to it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from supple.errors import FormatError, SuppleError
from supple.formats.usd.transport import ANSWER, REQUEST, receive, send

__all__ = ["WRITING", "check_library", "read_stage", "run_child"]

#: Seconds for a small file; large ones get more.
LONGEST_READ = 60.0
BYTES_PER_SECOND = 1e6
#: Memory for a small file: USD itself takes a few hundred megabytes of addresses.
LEAST_MEMORY = 3 * 2**30
MEMORY_PER_BYTE = 30

SEARCH_PATH = "PXR_AR_DEFAULT_SEARCH_PATH"

# Packages without their __init__: the process needs none of what those import.
BOOTSTRAP = """
import importlib, sys, types
for name in ("supple", "supple.formats"):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [sys.argv[1] + name.replace("supple", "", 1).replace(".", "/")]
sys.path[:0] = [entry for entry in sys.argv[5:] if entry not in sys.path]
importlib.import_module(sys.argv[2]).main(sys.argv[3], int(sys.argv[4]))
"""


@dataclass(frozen=True)
class Child:
    """A kind of child process.

    Attributes
    ----------
    module : str
        With the function ``main(folder, memory)``, which answers the request in the folder.
    does : str
        For messages: what it does with USD.
    too_long : str
        For messages: the end of "takes USD more than 60 s".
    slowness : float
        Multiple of the seconds that reading as many bytes may take.
    """

    module: str
    does: str
    too_long: str
    slowness: float = 1.0


READING = Child(
    "supple.formats.usd.read.read_child",
    "reads",
    " to read; it refers to itself too often or is too large, simplify it",
)
WRITING = Child("supple.formats.usd.write.write_child", "writes", "; simplify it", slowness=8.0)


def check_library(name: str) -> None:
    """Refuse a file, of this name, when the library for USD is not installed."""
    if find_spec("pxr") is None:
        raise SuppleError(f"{name}: USD files need an extra; run pip install 'supple[usd]'")


def read_stage(path: Path) -> dict[str, Any]:
    """Return the content of a file as `read_child` sends it; "notes" says what is wrong with it."""
    check_library(path.name)
    size = path.stat().st_size
    with tempfile.TemporaryDirectory(prefix="supple-usd-") as folder:
        request = {"path": str(path.absolute())}
        return run_child(READING, path.name, Path(folder), request, size)


def layer_below(path: Path) -> Path | None:
    """Return the file that a layer with curves of Supple's is over, None for any other file."""
    check_library(path.name)
    with tempfile.TemporaryDirectory(prefix="supple-usd-") as folder:
        request = {"action": "record", "path": str(path.absolute())}
        found = run_child(WRITING, path.name, Path(folder), request, path.stat().st_size)
    if found["original"] is None:
        return None
    below = Path(found["original"])
    # A path in a file is not to be trusted: what lies outside its folder is not opened.
    inside = below.resolve().is_relative_to(path.absolute().parent.resolve())
    if not inside or not below.is_file():
        raise FormatError(
            f"{path.name}: the file it is a layer over, {below.name[:80]}, is not beside it; take"
            " that file itself"
        )
    return below


def run_child(
    child: Child, name: str, folder: Path, request: dict[str, Any], work: int
) -> dict[str, Any]:
    """Start a process, and return its answer to a request.

    Parameters
    ----------
    child : Child
        Which process.
    name : str
        Of the file, for messages.
    folder : Path
        The caller's own; the request, the answer and files that belong to them lie there.
    request : dict
        As `transport.send` takes it.
    work : int
        Bytes that pass through the process; time and memory are allowed accordingly.

    Raises
    ------
    FormatError
        When the process cannot start, takes too long, dies, or says that it cannot do it.
    """
    send(folder / REQUEST, request)
    answer = folder / ANSWER
    answer.unlink(missing_ok=True)
    allowed = LONGEST_READ + child.slowness * work / BYTES_PER_SECOND
    try:
        done = subprocess.run(
            _command(child, folder, LEAST_MEMORY + MEMORY_PER_BYTE * work),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=allowed,
            env=_environment(),
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise FormatError(f"{name}: takes USD more than {allowed:.0f} s{child.too_long}") from None
    except OSError as error:
        raise FormatError(
            f"{name}: the process that {child.does} USD cannot start ({error})"
        ) from error
    if not answer.exists() or done.returncode != 0:
        raise FormatError(f"{name}: {_cause_of_death(done)}")
    result: dict[str, Any] = receive(answer)
    if "error" in result:
        raise FormatError(f"{name}: {result['error']}")
    return result


def _command(child: Child, folder: Path, memory: int) -> list[str]:
    package = Path(__file__).resolve().parents[2]
    places = [str(package), child.module, str(folder), str(memory)]
    # Isolated: nothing is imported from the folder somebody happens to work in.
    return [sys.executable, "-I", "-c", BOOTSTRAP, *places, *filter(os.path.isabs, sys.path)]


def _environment() -> dict[str, str]:
    # No search path: files come from the file's own folder. One thread: its memory can be
    # limited, and what it finds comes in one order.
    ours = {key: value for key, value in os.environ.items() if key != SEARCH_PATH}
    return {**ours, "PXR_WORK_THREAD_LIMIT": "1", "OPENBLAS_NUM_THREADS": "1"}


def _cause_of_death(done: subprocess.CompletedProcess[bytes]) -> str:
    said = done.stderr.decode(errors="replace").strip().splitlines()
    if done.returncode < 0:
        number = -done.returncode
        known = number in {entry.value for entry in signal.Signals}
        ended = signal.Signals(number).name if known else f"signal {number}"
        return f"is damaged or nested too deeply: USD crashed on it ({ended}); save it again"
    last = (
        "".join(c if c.isprintable() else "?" for c in said[-1])[:200]
        if said
        else "no reason given"
    )
    return f"cannot be read ({last})"
