"""Execution of the missing jobs of a batch by a farm."""

from __future__ import annotations

import base64
import os
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from supple.app.batch.batch_page import picture_file
from supple.app.batch.job_process import Outcome, failure
from supple.app.batch.journal import Journal
from supple.app.batch.planned_jobs import Job, file_stamp
from supple.app.batch.process_farm import Farm, Task
from supple.errors import SuppleError
from supple.playback.progress_bar import counting_bar
from supple.saving import write_whole

#: Largest number of attempts per job.
_TRIES = 2
#: Largest number of results of a job in the journal, and of characters of each.
_MOST_FIGURES, _LONGEST = 60, 600
#: Results that name files, and results that the journal has in other fields.
_FILES = ("report", "video", "readings", "plot", "page", "sheet")
_ELSEWHERE = ("output", "outputs", *_FILES, "file", "bytes", "peak_mb")


class Run:
    """Execution of jobs by a farm, recorded in a journal.

    Jobs that share a model wait until it is built; if the build fails, they fail with its message.
    The farm's queue is short, so that a million jobs need no memory there.
    """

    def __init__(self, farm: Farm, journal: Journal, folder: Path, jobs: Iterable[Job]) -> None:
        self.farm, self.journal, self.folder = farm, journal, folder
        self.failures: list[dict[str, Any]] = []
        self._firsts: dict[str, Job] = {}
        for job in jobs:
            if job.model:
                self._firsts.setdefault(job.model, job)
        self._left: dict[str, int] = {}
        self._waiting: dict[str, list[Job]] = {}
        self._lines: dict[str, str] = {}
        self._ready: set[str] = set()
        self._open: set[str] = set()
        self._folders: set[str] = set()
        self._retried: deque[Task] = deque()
        self._refused: deque[tuple[Task, Outcome]] = deque()
        self._busy = 0
        self._count: Callable[[str], None]

    def all(self, missing: Sequence[Job], quiet: bool = False) -> list[dict[str, Any]]:
        """Run jobs, and return the journal lines of failed jobs."""
        for job in missing:
            if job.model:
                self._left[job.model] = self._left.get(job.model, 0) + 1
        coming = deque(missing)
        with counting_bar("jobs", len(missing), quiet) as self._count:
            while coming or self._retried or self._busy or self._waiting:
                self._feed(coming)
                if self._busy:
                    refused = self._refused
                    task, outcome = refused.popleft() if refused else self.farm.outcome()
                    self._busy -= 1
                    self._take(task, outcome)
        return self.failures

    def _feed(self, coming: deque[Job]) -> None:
        """Submit tasks until the farm's queue has about two per slot."""
        most = 2 * self.farm.slots + 2
        while self._busy < most and (self._retried or coming):
            if self._retried:
                self._submit(self._retried.popleft())
                continue
            job = coming.popleft()
            if job.fault:
                self._failed(Task("job", job.key, job), {"line": job.fault})
            elif job.model in self._lines:
                self._failed(Task("job", job.key, job), {"line": self._lines[job.model]})
            elif self._shares(job) and job.model not in self._ready:
                if job.model not in self._waiting:
                    if len(self._waiting) + len(self._open) >= self.farm.most_models:
                        coming.appendleft(job)
                        return
                    self._waiting[job.model] = []
                    first = self._firsts[job.model]
                    request = {"what": "model", "words": first.words(self.folder)}
                    self._submit(Task("model", job.model, first, request))
                self._waiting[job.model].append(job)
            else:
                self._submit(self._task(job))

    def _shares(self, job: Job) -> bool:
        """Return whether several jobs need this job's model; otherwise the job builds the model."""
        return bool(job.model) and (self._left[job.model] > 1 or job.model in self._waiting)

    def _task(self, job: Job) -> Task:
        request = {"what": "job", "words": job.words(self.folder), "picture": True}
        return Task("job", job.key, job, request)

    def _submit(self, task: Task) -> None:
        if task.job is not None and task.what == "job":
            try:
                for name in task.job.folders() - self._folders:
                    os.makedirs(self.folder / name, exist_ok=True)
                    self._folders.add(name)
            except OSError as error:
                why = f"{error.filename}: cannot be created ({error.strerror})"
                self._refused.append((task, failure(why)))
                self._busy += 1
                return
            names = task.job.written()
            if any(self.journal.state.owner.get(name, task.key) != task.key for name in names):
                # Recorded in advance: a job that is killed may already have replaced the file.
                self.journal.add("over", job=task.key, names=names)
        if task.job is not None:
            # Stamp before the job starts, so that the next run detects a change during the job.
            file_stamp.cache_clear()
            task.stamp = task.job.stamp()
        self._busy += 1
        self.farm.submit(task)

    def _take(self, task: Task, outcome: Outcome) -> None:
        if task.what == "job" and outcome["ok"]:
            outcome = self._checked(task, outcome)
        if not outcome["ok"] and task.tries + 1 < _TRIES:
            task.tries += 1
            task.avoid = str(outcome.get("worker") or "")
            task.fresh = bool(outcome.get("fresh"))
            self.journal.add("tried", what=task.what, job=task.key, line=outcome["line"])
            self._retried.append(task)
        elif task.what == "model":
            self._take_model(task, outcome)
        elif outcome["ok"]:
            self._done(task, outcome)
        else:
            self._failed(task, outcome)

    def _take_model(self, task: Task, outcome: Outcome) -> None:
        """Queue the jobs that waited for a model, or fail them if its build failed."""
        waiting = self._waiting.pop(task.key)
        seconds = round(outcome.get("seconds", 0.0), 3)
        if outcome["ok"]:
            self._ready.add(task.key)
            self._open.add(task.key)
            was_cached = bool(outcome.get("kept"))
            self.journal.add("model", model=task.key, kept=was_cached, seconds=seconds)
            self._retried.extend(self._task(job) for job in waiting)
            return
        self._lines[task.key] = outcome["line"]
        for job in waiting:
            self._failed(Task("job", job.key, job, tries=task.tries), outcome)

    def _checked(self, task: Task, outcome: Outcome) -> Outcome:
        """Return the outcome with sizes of the written files; a failure if one is missing."""
        assert task.job is not None
        figures = outcome.get("figures") or {}
        names = set(outcome.pop("names", None) or self._names(task.job, figures))
        sizes = {}
        for name in sorted(names):
            with suppress(OSError):
                sizes[name] = os.stat(self.folder / name).st_size
        if not names or len(sizes) < len(names):
            return {**outcome, "ok": False, "line": f"{task.job.output}: was not written"}
        return {**outcome, "files": sizes}

    def _names(self, job: Job, figures: dict[str, Any]) -> list[str]:
        """Return the names of the files that a job wrote into the folder."""
        paths = figures.get("outputs") or [figures.get("output") or self.folder / job.output]
        paths = [*paths, *(figures[n] for n in _FILES if n in figures)]
        return [Path(os.path.relpath(each, self.folder)).as_posix() for each in map(str, paths)]

    def _done(self, task: Task, outcome: Outcome) -> None:
        assert task.job is not None
        if outcome.get("picture"):
            with suppress(SuppleError, OSError, ValueError):  # the page works without pictures
                place = picture_file(self.folder, task.key)
                place.parent.mkdir(parents=True, exist_ok=True)
                write_whole(place, base64.b64decode(outcome["picture"]))
        line = self._line(task, outcome) | {
            "files": outcome["files"],
            "peak_mb": outcome.get("peak_mb"),
            "figures": _few(outcome.get("figures") or {}),
        }
        self.journal.add("done", **line)
        self._ended(task)

    def _failed(self, task: Task, outcome: Outcome) -> None:
        line = self._line(task, outcome) | {"line": outcome["line"]}
        self.failures.append(self.journal.add("failed", **line))
        self._ended(task)

    def _line(self, task: Task, outcome: Outcome) -> dict[str, Any]:
        assert task.job is not None
        job = task.job
        return {
            "job": task.key,
            "command": job.command,
            "source": job.source,
            "output": job.output,
            "options": dict(job.options),
            "stamp": task.stamp or job.stamp(),
            "tries": task.tries + 1,
            "seconds": round(outcome.get("seconds", 0.0), 3),
            "warnings": outcome.get("warnings", []),
            "where": outcome.get("where", ""),
        }

    def _ended(self, task: Task) -> None:
        assert task.job is not None
        model = task.job.model
        if model:
            self._left[model] -= 1
            if not self._left[model]:
                self._open.discard(model)
                self.farm.release(model)
        failed = len(self.failures)
        self._count(f"jobs, {failed} failed" if failed else "jobs")


def _few(figures: dict[str, Any]) -> dict[str, Any]:
    """Return the short results of a job, which the journal records."""
    results = {}
    for name, value in figures.items():
        short = isinstance(value, str) and len(value) <= _LONGEST
        if name not in _ELSEWHERE and (short or isinstance(value, int | float)):
            results[name] = value
    return dict(list(results.items())[:_MOST_FIGURES])
