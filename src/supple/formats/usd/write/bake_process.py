"""Running the process that writes over a USD stage: it opens what somebody else has made."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from supple.errors import FormatError
from supple.formats.usd.process import (
    BYTES_PER_SECOND,
    LEAST_MEMORY,
    LONGEST_READ,
    MEMORY_PER_BYTE,
    cause_of_death,
    child_environment,
)
from supple.formats.usd.transport import receive, send

__all__ = ["run_child"]

# Packages without their __init__: the process needs none of what those import.
BOOTSTRAP = """
import sys, types
for name in ("supple", "supple.formats"):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [sys.argv[1] + name.replace("supple", "", 1).replace(".", "/")]
sys.path[:0] = [entry for entry in sys.argv[4:] if entry not in sys.path]
from supple.formats.usd.write.write_child import main
main(sys.argv[2], int(sys.argv[3]))
"""


def run_child(name: str, folder: Path, request: dict[str, Any], work: int) -> dict[str, Any]:
    """What the process answers to a request; `work` bytes pass through it.

    Files of the request and of the answer lie in `folder`, which must be the caller's own.
    """
    send(folder / "request.npz", request)
    answer = folder / "answer.npz"
    answer.unlink(missing_ok=True)
    allowed = LONGEST_READ + 8 * work / BYTES_PER_SECOND
    package = Path(__file__).resolve().parents[3]
    memory = LEAST_MEMORY + MEMORY_PER_BYTE * work
    places = [str(package), str(folder), str(memory)]
    command = [sys.executable, "-I", "-c", BOOTSTRAP, *places, *filter(os.path.isabs, sys.path)]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=allowed,
            env=child_environment(),
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise FormatError(f"{name}: takes USD more than {allowed:.0f} s; simplify it") from None
    except OSError as error:
        raise FormatError(f"{name}: the process that writes USD cannot start ({error})") from error
    if not answer.exists() or done.returncode != 0:
        raise FormatError(f"{name}: {cause_of_death(done)}")
    result = receive(answer)
    if "error" in result:
        raise FormatError(f"{name}: {result['error']}")
    return result
