"""Who computes the poses: threads, or any executor somebody gives."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed
from typing import TypeVar

__all__ = ["Workers"]

Task = TypeVar("Task")
Result = TypeVar("Result")


class Workers:
    """An executor that tells how far it is, and stops at the first error.

    Parameters
    ----------
    executor
        Any of `concurrent.futures`' kind: threads, processes, a cluster's. By default threads, as
        many as there are cores: the work is in compiled code that lets others run, and they
        need no second copy of anything.
    """

    def __init__(self, executor: Executor | None = None) -> None:
        self._given = executor
        self._own: ThreadPoolExecutor | None = None

    def __enter__(self) -> Workers:
        if self._given is None:
            self._own = ThreadPoolExecutor(os.cpu_count() or 1, "supple")
        return self

    def __exit__(self, *_: object) -> None:
        if self._own is not None:
            self._own.shutdown(cancel_futures=True)
            self._own = None

    @property
    def threads(self) -> ThreadPoolExecutor | None:
        """Threads for work that had better not be sent to other processes, if there are any."""
        return self._own

    def map(
        self,
        function: Callable[[Task], Result],
        tasks: Sequence[Task],
        done: Callable[[int, int], None] = lambda task, count: None,
    ) -> list[Result]:
        """Results in the order of the tasks; `done` is told which is ready, and how many are."""
        executor = self._given or self._own
        if executor is None:
            raise RuntimeError("Workers are used in a with statement")
        futures: dict[Future[Result], int] = {
            executor.submit(function, task): index for index, task in enumerate(tasks)
        }
        try:
            for count, future in enumerate(as_completed(futures), 1):
                future.result()
                done(futures[future], count)
        except BaseException:
            for future in futures:
                future.cancel()
            raise
        return [future.result() for future in futures]
