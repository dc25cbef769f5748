"""Running the process that reads USD, and what becomes of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from supple.errors import FormatError, SuppleError
from supple.formats.usd.transport import receive

__all__ = ["read_stage"]

#: Seconds for a small file; large ones get more.
LONGEST_READ = 60.0
BYTES_PER_SECOND = 1e6
#: Memory for a small file: USD itself takes a few hundred megabytes of addresses.
LEAST_MEMORY = 3 * 2**30
MEMORY_PER_BYTE = 30

SEARCH_PATH = "PXR_AR_DEFAULT_SEARCH_PATH"

# Packages without their __init__: the process needs none of what those import.
BOOTSTRAP = """
import sys, types
for name in ("supple", "supple.formats"):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [sys.argv[1] + name.replace("supple", "", 1).replace(".", "/")]
sys.path[:0] = [entry for entry in sys.argv[5:] if entry not in sys.path]
from supple.formats.usd.read.read_child import main
main(sys.argv[2], sys.argv[3], int(sys.argv[4]))
"""


def read_stage(path: Path) -> dict[str, Any]:
    """What the file holds, as `usd_child` sends it; the key "notes" lists what is wrong with it."""
    name = path.name
    if find_spec("pxr") is None:
        raise SuppleError(f"{name}: USD files need an extra; run pip install 'supple[usd]'")
    size = path.stat().st_size
    with tempfile.TemporaryDirectory(prefix="supple-usd-") as folder:
        answer = Path(folder) / "answer.npz"
        allowed = LONGEST_READ + size / BYTES_PER_SECOND
        try:
            done = subprocess.run(
                _command(path, answer, LEAST_MEMORY + MEMORY_PER_BYTE * size),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                timeout=allowed,
                env=child_environment(),
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise FormatError(
                f"{name}: takes USD more than {allowed:.0f} s to read; it refers to itself too"
                f" often or is too large, simplify it"
            ) from None
        except OSError as error:
            raise FormatError(
                f"{name}: the process that reads USD cannot start ({error})"
            ) from error
        if not answer.exists() or done.returncode != 0:
            raise FormatError(f"{name}: {cause_of_death(done)}")
        result = receive(answer)
    if "error" in result:
        raise FormatError(f"{name}: {result['error']}")
    return result


def _command(path: Path, answer: Path, memory: int) -> list[str]:
    package = Path(__file__).resolve().parents[2]
    places = [str(package), str(path.absolute()), str(answer), str(memory)]
    # Isolated: nothing is imported from the folder somebody happens to work in.
    return [sys.executable, "-I", "-c", BOOTSTRAP, *places, *filter(os.path.isabs, sys.path)]


def child_environment() -> dict[str, str]:
    # No search path: files come from the file's own folder. One thread: its memory can be
    # limited, and what it finds comes in one order.
    ours = {key: value for key, value in os.environ.items() if key != SEARCH_PATH}
    return {**ours, "PXR_WORK_THREAD_LIMIT": "1", "OPENBLAS_NUM_THREADS": "1"}


def cause_of_death(done: subprocess.CompletedProcess[bytes]) -> str:
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
