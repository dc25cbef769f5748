"""Fresh processes with a stated number of cores, and the memory that a process has had."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from supple.errors import SuppleError

__all__ = ["peak_megabytes", "with_cores"]


#: Libraries read these when they load, so they must be set before a process starts.
_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMBA_NUM_THREADS",
)


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
    context = get_context("spawn")
    # Ctrl-C reaches both processes; this one decides, or each would wait for the other.
    deaf = (signal.SIGINT, signal.SIG_IGN)
    with (
        _threads(cores),
        ProcessPoolExecutor(1, context, initializer=signal.signal, initargs=deaf) as pool,
    ):
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


@contextmanager
def _threads(cores: int | None) -> Iterator[None]:
    if cores is None:
        yield
        return
    before = {name: os.environ.get(name) for name in _VARIABLES}
    os.environ.update(dict.fromkeys(_VARIABLES, str(cores)))
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
