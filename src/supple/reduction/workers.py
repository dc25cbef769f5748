"""Workers that compute poses: threads, or any executor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    ThreadPoolExecutor,
    as_completed,
    wait,
)
from typing import TypeVar

import numba

from supple.errors import SuppleError

Task = TypeVar("Task")
Result = TypeVar("Result")


class Workers:
    """Wrapper of a `concurrent.futures.Executor` (threads, processes or a cluster's) that reports
    progress and stops at the first error. The default has as many threads as parallel kernels use:
    the work is in compiled code without the GIL, and threads share memory.
    """

    def __init__(self, executor: Executor | None = None) -> None:
        self._executor = executor
        self._threads: ThreadPoolExecutor | None = None

    def __enter__(self) -> Workers:
        if self._executor is None:
            self._threads = ThreadPoolExecutor(numba.get_num_threads(), "supple")
        return self

    def __exit__(self, *_: object) -> None:
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
            self._threads = None

    @property
    def threads(self) -> ThreadPoolExecutor | None:
        """Threads, for work that should not be sent to other processes; None with an executor."""
        return self._threads

    def map(
        self,
        function: Callable[[Task], Result],
        tasks: Sequence[Task],
        done: Callable[[int, int], None] = lambda task, count: None,
    ) -> list[Result]:
        """Return results in the order of tasks; call `done` with an index and the number done.
        If several tasks fail, the error of the first in their order is raised once no task is
        running, so that the caller can use its executor again.
        """
        futures: dict[Future[Result], int] = {}
        try:
            for index, task in enumerate(tasks):
                futures[self._submit(function, task)] = index
            _finish(futures, done)
        except BaseException:
            wait([future for future in futures if not future.cancel()])
            raise
        return [future.result() for future in futures]

    def _submit(self, function: Callable[[Task], Result], task: Task) -> Future[Result]:
        executor = self._threads if self._executor is None else self._executor
        if executor is None:
            raise RuntimeError("use Workers in a with statement")
        try:
            return executor.submit(function, task)
        except BrokenExecutor as error:
            raise _broken(error) from error
        except RuntimeError as error:
            raise SuppleError(
                f"the executor accepts no tasks ({error}); pass one that is not shut down"
            ) from error


def _finish(futures: dict[Future[Result], int], done: Callable[[int, int], None]) -> None:
    """Wait for all tasks, or raise the error of the first failed task in their order."""
    for count, future in enumerate(as_completed(futures), 1):
        if future.exception() is not None:
            break
        done(futures[future], count)
    else:
        return
    for other, index in futures.items():
        if index > futures[future]:
            other.cancel()
    error = next(error for each in futures if (error := each.exception()) is not None)
    raise _broken(error) if isinstance(error, BrokenExecutor) else error


def _broken(error: BaseException) -> SuppleError:
    reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    return SuppleError(
        f"the executor broke: {reason}; start its processes with "
        'ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn"))'
    )
