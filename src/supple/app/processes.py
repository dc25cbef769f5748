"""New processes with a given number of threads, and the peak memory of a process."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import connection, get_context, parent_process
from pathlib import Path
from typing import Any

from supple.errors import SuppleError

#: Libraries read these when they load, so they must be set before a process starts.
_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMBA_NUM_THREADS",
)


def thread_limits(cores: int) -> dict[str, str]:
    """Return environment variables that give a new process this number of threads."""
    return dict.fromkeys(_VARIABLES, str(cores))


def with_cores(cores: int | None, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of a module in a new process, with `cores` threads for BLAS and Numba.

    None leaves the number to the libraries, which use all cores.
    """
    # Ctrl-C reaches both processes; if both handled it, each would wait for the other.
    with _threads(cores), worker_processes(1, ignore_interrupts=True) as pool:
        try:
            return pool.submit(function, *arguments).result()
        except BrokenProcessPool:
            raise SuppleError("the measuring process was killed; free some memory") from None
        except KeyboardInterrupt:
            for process in list(pool._processes.values()):
                process.kill()
            raise


def worker_processes(count: int, *, ignore_interrupts: bool = False) -> ProcessPoolExecutor:
    """Return a pool of processes that end with this one, and may ignore Ctrl-C."""
    spawned = get_context("spawn")  # OpenMP's threads do not survive a fork
    arguments = (ignore_interrupts,)
    return ProcessPoolExecutor(count, spawned, initializer=_begin_worker, initargs=arguments)


def _begin_worker(ignore_interrupts: bool) -> None:
    if ignore_interrupts:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when its parent has ended for any reason.

    A worker of a pool would finish its task, which may take hours, and then wait for ever, since it
    holds both ends of the queue that it reads.
    """
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


@contextmanager
def _threads(cores: int | None) -> Iterator[None]:
    if cores is None:
        yield
        return
    before = {name: os.environ.get(name) for name in _VARIABLES}
    os.environ.update(thread_limits(cores))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def peak_megabytes() -> float | None:
    """Return the peak memory of this process in MB; None if the system does not report it."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return None
    # A new process inherits the peak that getrusage reports from its parent.
    return int(status.split("VmHWM:")[1].split()[0]) / 1024
