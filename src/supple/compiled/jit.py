"""Decorators that compile hot loops: kept on disk, without the GIL, IEEE division.

Import `compiled` for functions on one element and `compiled_parallel` for loops over all;
`compiled_plain`, `compiled_fused` and `compiled_sums` for the innermost ones, which may not make
arrays, and the `_inline` kinds for parts of those.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

# Threads that wait must sleep: spinning ones cost milliseconds a loop as soon as anything else
# runs on the machine (measured: 12 against 410 ms for a small factorisation). Read by the
# OpenMP library when it loads, hence before the import.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numba
from numba.core import event
from numba.core.options import DefaultOptions

from supple.compiled.kernel_dispatcher import KernelDispatcher
from supple.errors import SuppleError

# TBB, Numba's first choice, costs 200 µs a loop; its own workqueue needs nothing installed.
if "NUMBA_THREADING_LAYER_PRIORITY" not in os.environ:
    numba.config.THREADING_LAYER_PRIORITY = ["omp", "workqueue", "tbb"]  # type: ignore[attr-defined]


# A function that says nothing of these takes them from whoever calls it first, so that its code
# would depend on the order of calls.
_ALWAYS: dict[str, Any] = {"nopython": True, "boundscheck": None, "fastmath": False} | {
    name: value
    for name, value in (("_nrt", True), ("forceinline", False))
    if hasattr(DefaultOptions, name)
}


def _compiler(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that compiles with these options, and keeps what it compiled."""
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        raise SuppleError("Supple needs Numba's compiler; unset NUMBA_DISABLE_JIT")

    def decorated(function: Callable[..., Any]) -> Any:
        return KernelDispatcher(function, targetoptions=_ALWAYS | options)

    return decorated


# The numpy error model returns inf where Python would raise, which a loop running in
# several threads cannot do; callers check that results are finite.
compiled = _compiler(nogil=True, error_model="numpy")
# For a few microseconds of work Python's lock is kept: threads of a crowd would spend longer on
# handing it over.
compiled_brief = _compiler(error_model="numpy")
# Functions that make no arrays need not count who refers to one, which Numba does at every slice
# and every call (measured: half the time of a step's small loops).
_counting: dict[str, Any] = {"_nrt": False} if hasattr(DefaultOptions, "_nrt") else {}
compiled_plain = _compiler(nogil=True, error_model="numpy", **_counting)
# A product and a sum may be one instruction, rounded once: quicker, and never less exact.
compiled_fused = _compiler(nogil=True, error_model="numpy", fastmath={"contract"}, **_counting)
# Parts of a larger function that are put into their callers whatever their size: passing a handful
# of arrays costs as much as a small energy density (measured: a third of a loop over tets).
_inlined: dict[str, Any] = {"forceinline": True} if hasattr(DefaultOptions, "forceinline") else {}
compiled_plain_inline = _compiler(nogil=True, error_model="numpy", **_counting, **_inlined)
compiled_fused_inline = _compiler(
    nogil=True, error_model="numpy", fastmath={"contract"}, **_counting, **_inlined
)
# Sums may be taken in another order, so that loops over them vectorise: the same bits on the same
# machine, not on all.
compiled_sums = _compiler(
    nogil=True, error_model="numpy", fastmath={"reassoc", "contract"}, **_counting
)
compiled_parallel = _compiler(nogil=True, error_model="numpy", parallel=True)


class _WithoutCollector(event.Listener):
    """Listener that stops the search for garbage while something compiles.

    Compiling makes objects by the million that live until it ends, and searching them again and
    again is a tenth of its time, more where more is loaded.
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


# Numba tells of one compilation at a time, and of those inside it: its lock is held.
event.register("numba:compile", _WithoutCollector())


@contextmanager
def at_most_threads(count: int) -> Iterator[None]:
    """Run compiled loops inside on no more threads than `count`, which must be positive.

    Small loops are quicker alone: threads wait for each other at the end of every loop, and
    on a busy machine that wait is a slice of somebody else's time.
    """
    before = numba.get_num_threads()
    numba.set_num_threads(min(count, before))
    try:
        with taking_turns():
            yield
    finally:
        numba.set_num_threads(before)


_turn = threading.RLock()


@contextmanager
def taking_turns() -> Iterator[None]:
    """Let one Python thread at a time run parallel loops, where Numba can take no more.

    Its workqueue, used when there is no OpenMP library, ends the process otherwise.
    """
    try:
        several = numba.threading_layer() != "workqueue"
    except ValueError:  # nothing has run in parallel yet
        several = False
    if several:
        yield
    else:
        with _turn:
            yield
