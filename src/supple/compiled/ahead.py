"""Compilation ahead of time in parallel processes, each function once.

Workers coordinate through the files that they write: a worker skips functions that are compiled or
that another worker is compiling. A process that needs a function meanwhile reads it from disk,
waits for the worker that compiles it, or compiles it itself. So workers may be killed at any time.

``python -m supple.compiled.ahead JOB`` runs a worker; it ends when its standard input is closed.
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

from supple.compiled.code_files import compiler_settings, kernel_folders
from supple.compiled.listed_kernels import Kernel, jobs, kernels_for
from supple.compiled.shipped_code import shipped_folder, shipped_target
from supple.user_cache import code_hash

ALL = "all"
#: Seconds between two checks of other workers, and seconds without progress after which a worker
#: stops waiting.
_PAUSE, _PATIENCE = 0.1, 60.0


def compile_missing(job: str, report: Callable[[Kernel], None]) -> None:
    """Compile the functions of a job (one of `jobs()`, or "all") that no process has compiled or is
    compiling; call `report` with each kernel when it is compiled.
    """
    waiting, missing, patience = kernels_for(None if job == ALL else job), 0, _PATIENCE
    while waiting:
        later = []
        for kernel in waiting:
            resolved = kernel.resolve()
            if resolved is not None and not resolved[0].files.has_entry(resolved[1]):
                dispatcher, args = resolved
                if patience > 0 and dispatcher.files.is_busy(args):
                    later.append(kernel)
                    continue
                with suppress(Exception):  # the first call will report the error
                    dispatcher.compile(args)
                if not dispatcher.files.has_entry(args):  # for instance on a full disk
                    missing += 1
                    continue
            report(kernel)
        # A worker that makes no progress may have been stopped.
        patience = _PATIENCE if len(later) < len(waiting) else patience - _PAUSE
        waiting = later
        if later:
            time.sleep(_PAUSE)
    if not missing:
        _mark_complete(job)


def is_complete(job: str) -> bool:
    """Return whether a job is completely compiled, from this source and for this processor."""
    target = shipped_target()
    if target is not None and (shipped_folder() / _mark(job, target)).is_file():
        return True
    return any(each.is_file() for each in _marks(job))


def mark_shipped(folder: Path) -> None:
    """Mark all jobs as complete in a folder of the package."""
    for job in (ALL, *jobs()):
        (folder / _mark(job)).touch()


def _mark(job: str, target: tuple[str, ...] | None = None) -> str:
    kernels = tuple(f"{each.place} {each.arguments}" for each in kernels_for())
    key = repr((code_hash(("",)), compiler_settings(target), kernels))
    return f"complete-{job}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"


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
    """Start `count` processes that compile a job; they end with this process or the block."""
    command = [sys.executable, "-P", "-m", "supple.compiled.ahead", job]
    # A worker needs no threads; code does not depend on these settings.
    single = {name: "1" for name in ("NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    with ExitStack() as running:
        started = []
        for _ in range(count):
            try:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env=os.environ | single,
                    text=True,
                )
            except OSError:  # for instance no memory; functions are compiled when called
                break
            running.callback(process.wait)
            running.callback(process.kill)
            started.append(process)
        yield started


@contextmanager
def compiling_beside(job: str) -> Iterator[bool]:
    """Compile a job in the background while the block runs; yield whether code is missing."""
    if is_complete(job):
        yield False
        return
    # This process compiles the functions that it calls, too.
    count = max(1, min(8, (os.cpu_count() or 2) - 1))
    with workers(job, count) as started:
        for process in started:  # reads its output, so that it does not block
            assert process.stdout is not None
            threading.Thread(target=process.stdout.read, daemon=True).start()
        yield True


def _work(job: str) -> None:
    def end_with_parent() -> None:
        sys.stdin.read()
        os._exit(0)

    threading.Thread(target=end_with_parent, daemon=True).start()
    lock = threading.Lock()

    def report(kernel: Kernel) -> None:
        with lock, suppress(OSError):
            print(kernel.place, kernel.arguments, flush=True)

    compile_missing(job, report)
    sys.stdout.flush()
    os._exit(0)  # skips LLVM's slow shutdown


if __name__ == "__main__":
    _work(sys.argv[1])
