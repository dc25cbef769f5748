"""Requests answered in child processes: each within its memory limit, with errors as answers.

`supple.formats.usd.process` starts a server; its forks, one per request, have NumPy and USD
imported. `read_child` and `write_child` compute the answers, and import only the parts of Supple
that read and write USD.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from supple.formats.usd.layers import Refused, UsdUtils, one_line
from supple.formats.usd.process import ANSWER, IDLE, LOG, REQUEST, receive, send

#: Function from a request, its folder, and a list for notes, to the answer.
Answer = Callable[[dict[str, Any], Path, list[str]], dict[str, Any]]
#: Seconds of CPU time after which an abandoned process ends.
LONGEST_LIFE = 600
#: On other systems a process with loaded libraries cannot fork: it answers one request and ends.
FORKS = sys.platform == "linux"


def serve(modules: str) -> None:
    """Answer requests, each in a fork, until the server has been idle for `IDLE` seconds.

    `modules` are imported first, separated by commas; see `supple.formats.usd.process.Child`. A
    request is a line of JSON on the standard input; the reply is the fork's exit code on a line of
    the standard output.
    """
    for name in modules.split(","):
        import_module(name)
    while not FORKS or select.select([sys.stdin], [], [], IDLE)[0]:
        line = sys.stdin.readline()
        if not line:
            return
        fork = os.fork() if FORKS else 0
        if fork == 0:
            _answer(**json.loads(line))
        status = os.waitpid(fork, 0)[1]
        print(os.waitstatus_to_exitcode(status), flush=True)


def _answer(module: str, folder: str, memory: int) -> NoReturn:
    """Answer one request, and end the process whatever happens."""
    try:
        null = os.open(os.devnull, os.O_RDWR)
        log = os.open(Path(folder) / LOG, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for ours, theirs in ((null, 0), (null, 1), (log, 2)):
            os.dup2(ours, theirs)
        import_module(module).main(folder, memory)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    os._exit(1)


def answer_request(folder: str, memory: int, answer: Answer, verb: str, participle: str) -> None:
    """Answer the request in the folder, within the memory limit in bytes, and end the process.

    `answer` computes the answer, or raises; `verb` and `participle` are for messages: "read",
    "read", or "write", "written".
    """
    place = Path(folder)
    request = receive(place / REQUEST)
    _limit_resources(memory)
    file = Path(request.get("path") or folder)
    os.chdir(file.parent)
    # Kept until the end: without it USD prints its diagnostics.
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
    diagnostics = [one_line(d.commentary, file) for d in delegate.TakeUncoalescedDiagnostics()]
    result["notes"] = list(dict.fromkeys([*notes, *(f"USD says: {text}" for text in diagnostics)]))
    send(place / ANSWER, result)
    # Destroying the stage may crash on damaged data; nothing is left to do.
    os._exit(0)


def _limit_resources(memory: int) -> None:
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        # The parent limits the time; if it is killed, this ends the child.
        resource.setrlimit(resource.RLIMIT_CPU, (LONGEST_LIFE, LONGEST_LIFE))
        signal.alarm(2 * LONGEST_LIFE)  # also while it waits for a disk
    except (ImportError, ValueError, OSError):
        pass  # not POSIX, or a lower limit is set already
