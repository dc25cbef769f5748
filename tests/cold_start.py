"""A fresh clone has nothing compiled: workers share that work rather than doing it twice.

It is most of the time that tests take then. A worker takes from the disk what another has
compiled, waits for what it is compiling, and begins with what the others do not.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
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
    not guard.
    """
    if fcntl is None:
        return
    plain = Dispatcher.compile

    def compile(self: Any, sig: Any) -> Any:
        function = self.py_func
        name = f"{function.__code__.co_filename}:{function.__qualname__}"
        if isinstance(self._cache, NullCache) or name in _held:
            return plain(self, sig)
        path = folder / hashlib.sha256(name.encode()).hexdigest()
        # Numba's own lock first: a thread that has it must never wait for one that has not.
        with global_compiler_lock, path.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            _held.add(name)
            try:
                return plain(self, sig)
            finally:
                _held.discard(name)

    Dispatcher.compile = compile  # type: ignore[method-assign]


def begin_apart() -> None:
    """Compile first what the worker of another number does not."""
    first = _FIRST.get(os.environ.get("PYTEST_XDIST_WORKER", ""))
    if first is not None:
        first()


def _build() -> None:
    from build_samples import stepped_model

    stepped_model("bar")


def _step() -> None:
    from model_samples import sample_model
    from supple import Simulator

    simulator = Simulator(sample_model(), dt=1 / 90)
    pose = np.zeros(6)
    simulator.reset(pose)
    simulator.step(pose)
    simulator.surface()


_FIRST: dict[str, Callable[[], None]] = {"gw0": _build, "gw1": _step}
