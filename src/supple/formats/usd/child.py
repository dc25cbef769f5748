"""One request answered in a child process: within its memory, with errors as answers.

`supple.formats.usd.process` starts the processes; `read_child` and `write_child` have the answers.
They import NumPy and USD, and of Supple only what reads and writes USD.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from supple.formats.usd.layers import Refused, one_line
from supple.formats.usd.pxr_modules import UsdUtils
from supple.formats.usd.transport import ANSWER, REQUEST, receive, send

__all__ = ["Answer", "answer_request"]

#: From a request, the folder it lies in, and a list that takes notes, to the answer.
Answer = Callable[[dict[str, Any], Path, list[str]], dict[str, Any]]

#: Seconds of work after which a process that nobody waits for any more ends itself.
LONGEST_LIFE = 600


def answer_request(folder: str, memory: int, answer: Answer, verb: str, participle: str) -> None:
    """Answer the request in the folder, and end the process.

    Parameters
    ----------
    folder : str
        Where the request lies, and the answer goes.
    memory : int
        Bytes that may be used.
    answer : callable
        Makes the answer; what it cannot do, it raises.
    verb, participle : str
        For messages: "read", "read", or "write", "written".
    """
    place = Path(folder)
    request = receive(place / REQUEST)
    _limit_resources(memory)
    file = Path(request.get("path") or folder)
    os.chdir(file.parent)
    # Held until the end: without it USD prints what it thinks of a file.
    delegate = UsdUtils.CoalescingDiagnosticDelegate()
    notes: list[str] = []
    try:
        result = answer(request, place, notes)
    except Refused as error:
        result = {"error": str(error)}
    except MemoryError:
        result = {"error": f"needs more than {memory / 2**30:.0f} GiB to {verb}; simplify it"}
    except Exception as error:
        why = f"{type(error).__name__}: {one_line(error, file)}"
        result = {"error": f"cannot be {participle} ({why})"}
    told = [one_line(d.commentary, file) for d in delegate.TakeUncoalescedDiagnostics()]
    result["notes"] = list(dict.fromkeys([*notes, *(f"USD says: {text}" for text in told)]))
    send(place / ANSWER, result)
    # The stage's own tear-down may crash on what it was built from; nothing is left to do.
    os._exit(0)


def _limit_resources(memory: int) -> None:
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        # The parent keeps the time; should it be killed, this ends what it left behind.
        resource.setrlimit(resource.RLIMIT_CPU, (LONGEST_LIFE, LONGEST_LIFE))
    except (ImportError, ValueError, OSError):
        pass  # not a POSIX system, or a lower limit stands already
