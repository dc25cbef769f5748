"""Protocol of farms, which run tasks, and the farm of parallel processes on this machine."""

from __future__ import annotations

import os
import queue
import threading
from dataclasses import dataclass, field
from typing import Any, Protocol

from supple.app.batch.job_process import JobProcess, Limits, Outcome, failure
from supple.app.batch.planned_jobs import Job


@dataclass
class Task:
    """Task of a farm: a job, the build of a model, or the reading of clip names.

    `what` is "job", "model" or "clips"; `key` the job's key, the model's key or the source; `job`
    the job, or the first job of the model; `request` the argument of `JobProcess.run`; `tries` the
    number of failures. A `fresh` task needs a new process; `avoid` is the worker where it failed.
    `stamp` is the job's stamp at submission.
    """

    what: str
    key: str
    job: Job | None
    request: dict[str, Any] = field(default_factory=dict)
    tries: int = 0
    fresh: bool = False
    avoid: str = ""
    stamp: str = ""


class Farm(Protocol):
    """Executor of tasks: processes on this machine, or a cluster."""

    @property
    def slots(self) -> int:
        """Return the number of tasks that run in parallel."""

    @property
    def most_models(self) -> int:
        """Return the largest number of models in use at once."""

    def submit(self, task: Task) -> None:
        """Queue a task."""

    def outcome(self) -> tuple[Task, Outcome]:
        """Wait for the next finished task; return it and its outcome."""

    def release(self, model: str) -> None:
        """Release a model after all its jobs are done."""

    def close(self) -> None:
        """End all work."""


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class ProcessFarm:
    """Farm of processes on this machine, which share its cores."""

    #: Fewer than the user's cache holds, so that no model is removed before its jobs are done.
    most_models = 20

    def __init__(self, count: int, limits: Limits) -> None:
        self.slots = count
        self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._outcomes: queue.SimpleQueue[tuple[Task, Outcome]] = queue.SimpleQueue()
        self._processes = [JobProcess(limits) for _ in range(count)]
        self._closed = False
        for process in self._processes:
            threading.Thread(target=self._serve, args=(process,), daemon=True).start()

    def _serve(self, process: JobProcess) -> None:
        while (task := self._tasks.get()) is not None and not self._closed:
            try:
                outcome = process.run(task.request, fresh=task.fresh)
            except Exception as error:  # starting a process failed, e.g. for lack of memory
                outcome = failure(f"{type(error).__name__}: {error}")
            self._outcomes.put((task, outcome))

    def submit(self, task: Task) -> None:
        """Queue a task."""
        self._tasks.put(task)

    def outcome(self) -> tuple[Task, Outcome]:
        """Wait for the next finished task; return it and its outcome."""
        while True:
            try:
                return self._outcomes.get(timeout=0.5)  # so that Ctrl-C works on all systems
            except queue.Empty:
                continue

    def release(self, model: str) -> None:
        """Do nothing: models are in the user's cache."""

    def close(self) -> None:
        """End all processes."""
        self._closed = True
        for process in self._processes:
            self._tasks.put(None)
            process.end(closed=True)
