"""Fresh processes with a stated number of cores, and the memory that a process has had."""

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
    """Return variables of the environment by which a new process has so many threads."""
    return dict.fromkeys(_VARIABLES, str(cores))


def with_cores(cores: int | None, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in a process of its own, with so many threads for BLAS and Numba.

    Parameters
    ----------
    cores
        How many; None leaves it to the libraries, which take all.
    function
        Of a module, so that the other process finds it.
    *arguments
        Whatever can be sent there.
    """
    # Ctrl-C reaches both processes; this one decides, or each would wait for the other.
    with _threads(cores), worker_processes(1, deaf=True) as pool:
        try:
            return pool.submit(function, *arguments).result()
        except BrokenProcessPool:
            raise SuppleError(
                "the process that measures was ended from outside; is there enough memory?"
            ) from None
        except KeyboardInterrupt:
            for process in list(pool._processes.values()):
                process.kill()
            raise


def worker_processes(count: int, *, deaf: bool = False) -> ProcessPoolExecutor:
    """Return processes that are started afresh and end with this one; `deaf` ones ignore Ctrl-C."""
    # Started afresh: OpenMP's threads do not survive a fork.
    spawned = get_context("spawn")
    return ProcessPoolExecutor(count, spawned, initializer=_begin_worker, initargs=(deaf,))


def _begin_worker(deaf: bool) -> None:
    if deaf:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when the one that started it has ended, however that was.

    A pool's worker would finish what it computes, for hours maybe, and then wait for more for good:
    it holds both ends of the queue that it reads.
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
    """Return the most memory that this process has had; None where the system does not tell."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return None
    # Not getrusage's figure, which a new process inherits from the one that started it.
    return int(status.split("VmHWM:")[1].split()[0]) / 1024
