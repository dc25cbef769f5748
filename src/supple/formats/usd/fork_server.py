"""The process whose forks open USD files: NumPy and USD are imported once, not for every file."""

from __future__ import annotations

import json
import os
import select
import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import NoReturn

__all__ = ["IDLE", "SAID", "main"]

#: Name of the file, in the folder of a request, with what USD printed.
SAID = "said.txt"
#: Seconds after the last request at which the process ends itself.
IDLE = 30.0
#: Elsewhere a process that has loaded libraries may not fork: it answers one request, and ends.
FORKS = sys.platform == "linux"


def main(modules: str) -> None:
    """Answer requests, each in a fork of its own, until nobody asks any more.

    Parameters
    ----------
    modules : str
        With a comma between them; see `supple.formats.usd.process.Child`.

    A request is a line on the standard input; the answer is the fork's exit code on a line of the
    standard output.
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
        nothing = os.open(os.devnull, os.O_RDWR)
        said = os.open(Path(folder) / SAID, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for ours, theirs in ((nothing, 0), (nothing, 1), (said, 2)):
            os.dup2(ours, theirs)
        import_module(module).main(folder, memory)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    os._exit(1)
