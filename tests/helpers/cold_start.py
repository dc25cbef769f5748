"""A fresh clone has nothing compiled: workers share that work rather than doing it twice.

It is most of the time that tests take then. A worker takes from the disk what another has
compiled, waits for what it is compiling, and begins with what the others do not.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numba.core.caching import NullCache
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher

try:
    import fcntl
except ImportError:  # Windows: everybody compiles for himself
    fcntl = None  # type: ignore[assignment]

__all__ = ["begin_apart", "compile_once"]

_held: set[str] = set()


def compile_once(folder: Path) -> None:
    """Let only one worker compile a function at a time, with a lock in this folder.

    Numba looks on the disk before it compiles, so whoever waited finds the result there. What is
    held are a function and those that call it: unless functions call each other in a ring, some
    worker can always go on. Nor do two workers write a function's index at once, which Numba does
    not guard. Where there can be no lock, everybody compiles for himself.
    """
    if fcntl is None:
        return
    plain = Dispatcher.compile

    def compile(self: Any, sig: Any) -> Any:
        function = self.py_func
        name = f"{function.__code__.co_filename}:{function.__qualname__}"
        if isinstance(self._cache, NullCache) or name in _held:
            return plain(self, sig)
        path = folder / f"compiling-{hashlib.sha256(name.encode()).hexdigest()}"
        # Numba's own lock first: a thread that has it must never wait for one that has not.
        with global_compiler_lock, _locked(path):
            _held.add(name)
            try:
                return plain(self, sig)
            finally:
                _held.discard(name)

    Dispatcher.compile = compile  # type: ignore[method-assign]


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock on this file, if it can be had at all."""
    try:
        lock = path.open("w")
    except OSError:  # read-only, full or gone
        yield
        return
    with lock:
        with suppress(OSError):  # a disk that knows no locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def begin_apart() -> None:
    """Compile first what the worker of another number does not."""
    first = _FIRST.get(os.environ.get("PYTEST_XDIST_WORKER", ""))
    if first is not None:
        first()


def _build() -> None:
    from helpers.build_samples import stepped_model

    stepped_model("bar")


def _step() -> None:
    from helpers.model_samples import sample_model
    from supple import Simulator

    simulator = Simulator(sample_model(), dt=1 / 90)
    pose = np.zeros(6)
    simulator.reset(pose)
    simulator.step(pose)
    simulator.surface()


_FIRST: dict[str, Callable[[], None]] = {"gw0": _build, "gw1": _step}
