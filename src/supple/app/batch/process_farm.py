"""Jobs on this machine, in processes beside each other; and what any farm does."""

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
    """Work for a farm.

    Attributes
    ----------
    what
        "job", "model" or "clips".
    key
        Of the job, of the model, or the source whose clips are wanted.
    job
        Job, or the first of those that share the model.
    request
        As `JobProcess.run` takes it.
    tries
        How often it failed.
    fresh
        Whether it needs a process that has done nothing.
    avoid
        Where it failed.
    stamp
        Of the files that it reads, when it was given to the farm.
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
    """Whoever does tasks: processes here, or a cluster."""

    @property
    def slots(self) -> int:
        """Return how many tasks it does at once."""
        ...

    @property
    def most_models(self) -> int:
        """Return how many models may be in use at once."""
        ...

    def submit(self, task: Task) -> None:
        """Take a task, to be done when there is room."""
        ...

    def outcome(self) -> tuple[Task, Outcome]:
        """Wait for the next task that is done."""
        ...

    def release(self, model: str) -> None:
        """Forget a model: all jobs that share it are done."""
        ...

    def close(self) -> None:
        """End all work."""
        ...


def usable_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class ProcessFarm:
    """Processes on this machine, each with its part of the cores."""

    #: Fewer than the user's cache keeps, or one would go before its jobs are done.
    most_models = 20

    def __init__(self, count: int, limits: Limits) -> None:
        self.slots = count
        self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._outcomes: queue.SimpleQueue[tuple[Task, Outcome]] = queue.SimpleQueue()
        self._processes = [JobProcess(limits) for _ in range(count)]
        self._threads = [
            threading.Thread(target=self._serve, args=(each,), daemon=True)
            for each in self._processes
        ]
        self._closed = False
        for thread in self._threads:
            thread.start()

    def _serve(self, process: JobProcess) -> None:
        while (task := self._tasks.get()) is not None and not self._closed:
            try:
                outcome = process.run(task.request, fresh=task.fresh)
            except Exception as error:  # no process can be started: no memory, say
                outcome = failure(f"{type(error).__name__}: {error}")
            self._outcomes.put((task, outcome))

    def submit(self, task: Task) -> None:
        """Take a task, to be done when there is room."""
        self._tasks.put(task)

    def outcome(self) -> tuple[Task, Outcome]:
        """Wait for the next task that is done."""
        while True:
            try:
                return self._outcomes.get(timeout=0.5)  # so that Ctrl-C is heard everywhere
            except queue.Empty:
                continue

    def release(self, model: str) -> None:
        """Do nothing: models lie in the user's cache."""

    def close(self) -> None:
        """End all processes."""
        self._closed = True
        for _ in self._threads:
            self._tasks.put(None)
        for process in self._processes:
            process.end(closed=True)
