"""Decorators that compile functions with Numba: cached on disk, without the GIL, with IEEE
division.

`compiled` is for functions of one element and `compiled_parallel` for parallel loops;
`compiled_plain`, `compiled_fused` and `compiled_sums` are for innermost loops, which may not
allocate arrays, and the `_inline` variants for functions inlined into those.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

# Waiting threads must sleep: spinning ones cost milliseconds per loop as soon as anything else runs
# on the machine (measured: 410 instead of 12 ms for a small factorisation). The OpenMP library
# reads this when it is loaded, hence before the import.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numba
from numba.core import event
from numba.core.options import DefaultOptions

from supple.compiled.kernel_dispatcher import KernelDispatcher
from supple.errors import SuppleError

# TBB, Numba's first choice, costs 200 µs per loop; the workqueue is always available.
if "NUMBA_THREADING_LAYER_PRIORITY" not in os.environ:
    numba.config.THREADING_LAYER_PRIORITY = ["omp", "workqueue", "tbb"]  # type: ignore[attr-defined]


# A function without these options would inherit them from its first caller, so that its code would
# depend on the order of calls.
_ALWAYS: dict[str, Any] = {"nopython": True, "boundscheck": None, "fastmath": False} | {
    name: value
    for name, value in (("_nrt", True), ("forceinline", False))
    if hasattr(DefaultOptions, name)
}


def _compiler(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that compiles with these options and caches the result."""
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        raise SuppleError("Supple needs Numba's compiler; unset NUMBA_DISABLE_JIT")

    def decorated(function: Callable[..., Any]) -> Any:
        return KernelDispatcher(function, targetoptions=_ALWAYS | options)

    return decorated


# The numpy error model returns inf where Python would raise an exception, which parallel loops
# cannot do; callers check that results are finite.
compiled = _compiler(nogil=True, error_model="numpy")
# Functions of a few microseconds hold the GIL: releasing it would cost threads of a crowd more
# time.
compiled_brief = _compiler(error_model="numpy")
# Functions that allocate no arrays need no reference counting, which Numba does at every slice and
# call (measured: half the time of a step's small loops).
_counting: dict[str, Any] = {"_nrt": False} if hasattr(DefaultOptions, "_nrt") else {}
compiled_plain = _compiler(nogil=True, error_model="numpy", **_counting)
# A product and a sum may be one instruction with one rounding: faster, and never less exact.
compiled_fused = _compiler(nogil=True, error_model="numpy", fastmath={"contract"}, **_counting)
# Functions that are inlined whatever their size: passing a few arrays costs as much as a small
# energy density (measured: a third of a loop over tets).
_inlined: dict[str, Any] = {"forceinline": True} if hasattr(DefaultOptions, "forceinline") else {}
compiled_plain_inline = _compiler(nogil=True, error_model="numpy", **_counting, **_inlined)
compiled_fused_inline = _compiler(
    nogil=True, error_model="numpy", fastmath={"contract"}, **_counting, **_inlined
)
# Sums may be reordered, so that their loops are vectorised; results are then reproducible on one
# processor, but may differ between processors.
compiled_sums = _compiler(
    nogil=True, error_model="numpy", fastmath={"reassoc", "contract"}, **_counting
)
compiled_parallel = _compiler(nogil=True, error_model="numpy", parallel=True)


class _WithoutCollector(event.Listener):
    """Listener that disables garbage collection during compilation. Compilation allocates millions
    of objects that live until its end; collections take a tenth of its time or more.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._was_on = False

    def on_start(self, event: Any) -> None:
        if self._depth == 0:
            self._was_on = gc.isenabled()
            gc.disable()
        self._depth += 1

    def on_end(self, event: Any) -> None:
        self._depth -= 1
        if self._depth == 0 and self._was_on:
            gc.enable()


# Events are serial or nested, as Numba's lock is held.
event.register("numba:compile", _WithoutCollector())


@contextmanager
def at_most_threads(count: int) -> Iterator[None]:
    """Limit parallel loops in the block to `count` threads, which must be positive.

    Small loops are faster on one thread: threads wait for each other at the end of every loop, and
    on a busy machine that wait is a time slice of another process.
    """
    before = numba.get_num_threads()
    numba.set_num_threads(min(count, before))
    try:
        with serialised_loops():
            yield
    finally:
        numba.set_num_threads(before)


_loop_lock = threading.RLock()


@contextmanager
def serialised_loops() -> Iterator[None]:
    """Serialise parallel loops of several Python threads where Numba requires it: its workqueue,
    which is used without an OpenMP library, otherwise aborts the process.
    """
    try:
        concurrent = numba.threading_layer() != "workqueue"
    except ValueError:  # no parallel loop has run yet
        concurrent = False
    if concurrent:
        yield
    else:
        with _loop_lock:
            yield
