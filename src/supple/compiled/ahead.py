"""Compiling beforehand, in other processes: all cores at once, each function once.

Workers share the work through the files they write: whoever finds a function compiled goes on, and
whoever finds another at it takes the next. A process that needs one meanwhile takes it from the
disk, waits for who compiles it, or compiles it itself. So workers may be killed at any time.

``python -m supple.compiled.ahead JOB`` is a worker; it ends when its standard input does.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from supple.compiled.code_files import compiler_told, kernel_folders
from supple.compiled.listed_kernels import Kernel, jobs, kernels_for
from supple.compiled.shipped_code import shipped_folder, shipped_target
from supple.user_cache import code_hash

ALL = "all"
#: Seconds between two looks at what others compile, and without news until it is compiled here too.
_PAUSE, _PATIENCE = 0.1, 60.0


def compile_missing(job: str, tell: Callable[[Kernel], None]) -> None:
    """Compile what a job needs and nobody has compiled or is compiling.

    Parameters
    ----------
    job
        One of `jobs()`, or "all".
    tell
        Called with each kernel once it is there.
    """
    waiting, missing, patience = kernels_for(None if job == ALL else job), 0, _PATIENCE
    while waiting:
        later = []
        for kernel in waiting:
            found = kernel.found()
            if found is not None and not found[0].files.has_entry(found[1]):
                dispatcher, args = found
                if patience > 0 and dispatcher.files.is_busy(args):
                    later.append(kernel)
                    continue
                with suppress(Exception):  # whoever calls it is told
                    dispatcher.compile(args)
                if not dispatcher.files.has_entry(args):  # it could not be written, say
                    missing += 1
                    continue
            tell(kernel)
        # Somebody who is busy with one for ever may have been stopped.
        patience = _PATIENCE if len(later) < len(waiting) else patience - _PAUSE
        waiting = later
        if later:
            time.sleep(_PAUSE)
    if not missing:
        _mark_complete(job)


def is_complete(job: str) -> bool:
    """Tell whether all of a job has been compiled from this source, for this processor."""
    target = shipped_target()
    if target is not None and (shipped_folder() / _mark(job, target)).is_file():
        return True
    return any(each.is_file() for each in _marks(job))


def mark_shipped(folder: Path) -> None:
    """Say in a folder to be shipped that all of every job is there."""
    for job in (ALL, *jobs()):
        (folder / _mark(job)).touch()


def _mark(job: str, target: tuple[str, ...] | None = None) -> str:
    listed = tuple(f"{each.place} {each.arguments}" for each in kernels_for())
    told = repr((code_hash(("",)), compiler_told(target), listed))
    return f"complete-{job}-{hashlib.sha256(told.encode()).hexdigest()[:16]}"


def _marks(job: str) -> list[Path]:
    name = _mark(job)
    return [folder / name for folder in kernel_folders(__file__)]


def _mark_complete(job: str) -> None:
    for mark in _marks(job):
        with suppress(OSError):
            mark.parent.mkdir(parents=True, exist_ok=True)
            for old in mark.parent.glob(f"complete-{job}-*"):
                old.unlink(missing_ok=True)
            mark.touch()
            return


@contextmanager
def workers(job: str, count: int) -> Iterator[list[subprocess.Popen]]:
    """Compile in so many processes, which end with this one or with the block."""
    command = [sys.executable, "-m", "supple.compiled.ahead", job]
    # Code does not depend on these; a worker needs no threads.
    one = {name: "1" for name in ("NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    with ExitStack() as running:
        started = []
        for _ in range(count):
            try:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env=os.environ | one,
                    text=True,
                )
            except OSError:  # no memory, say: it is compiled when it is called
                break
            running.callback(process.wait)
            running.callback(process.kill)
            started.append(process)
        yield started


@contextmanager
def compiling_beside(job: str) -> Iterator[bool]:
    """Compile what is missing for a job while the block runs; gives whether anything is."""
    if is_complete(job):
        yield False
        return
    # This process compiles, too: what it calls first.
    count = max(1, min(8, (os.cpu_count() or 2) - 1))
    with workers(job, count) as started:
        for process in started:  # who would wait for a reader; its input stays open, or it ends
            assert process.stdout is not None
            threading.Thread(target=process.stdout.read, daemon=True).start()
        yield True


def _work(job: str) -> None:
    def end_with_parent() -> None:
        sys.stdin.read()
        os._exit(0)

    threading.Thread(target=end_with_parent, daemon=True).start()
    told = threading.Lock()

    def tell(kernel: Kernel) -> None:
        with told, suppress(OSError):
            print(kernel.place, kernel.arguments, flush=True)

    compile_missing(job, tell)
    sys.stdout.flush()
    os._exit(0)  # nothing is to be taken down, and LLVM takes its time


if __name__ == "__main__":
    _work(sys.argv[1])
