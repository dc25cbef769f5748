"""Workers that compute poses: threads, or any executor that is given."""

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
    """An executor that tells how far it is, and stops at the first error.

    Parameters
    ----------
    executor
        Any of `concurrent.futures`' kind: threads, processes, a cluster's. By default threads, as
        many as compiled loops have, which is the cores this process may use: the work is in
        compiled code that lets others run, and they need no second copy of anything.
    """

    def __init__(self, executor: Executor | None = None) -> None:
        self._given = executor
        self._own: ThreadPoolExecutor | None = None

    def __enter__(self) -> Workers:
        if self._given is None:
            self._own = ThreadPoolExecutor(numba.get_num_threads(), "supple")
        return self

    def __exit__(self, *_: object) -> None:
        if self._own is not None:
            self._own.shutdown(cancel_futures=True)
            self._own = None

    @property
    def threads(self) -> ThreadPoolExecutor | None:
        """Threads for work that had better not be sent to other processes, or None."""
        return self._own

    def map(
        self,
        function: Callable[[Task], Result],
        tasks: Sequence[Task],
        done: Callable[[int, int], None] = lambda task, count: None,
    ) -> list[Result]:
        """Return results in the order of the tasks; tell `done` which is ready, and how many are.

        Of several tasks that fail, the first in the list is raised, and only once none is
        running: an executor that was given is its owner's again.

        Raises
        ------
        SuppleError
            If the executor takes no tasks, or its processes end.
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
        executor = self._own if self._given is None else self._given
        if executor is None:
            raise RuntimeError("Workers are used in a with statement")
        try:
            return executor.submit(function, task)
        except BrokenExecutor as error:
            raise _broken(error) from error
        except RuntimeError as error:
            raise SuppleError(f"the executor takes no tasks ({error}); give one in use") from error


def _finish(futures: dict[Future[Result], int], done: Callable[[int, int], None]) -> None:
    """Wait for all, or raise the first in the list that fails, whichever failed first in time."""
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
    words = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    return SuppleError(
        f"the executor broke: {words}; start its processes afresh, with "
        'ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn"))'
    )
