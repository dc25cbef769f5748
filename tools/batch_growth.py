"""Measure the overhead of the farm with empty jobs, ten thousand and a million of them.

    python tools/batch_growth.py [--jobs 10000 1000000] [--cluster 2000] [--json]

For each number of jobs the tool plans them from a list, runs them on a farm that answers at once,
writes and reads the journal, and writes the page. It prints seconds, bytes on disk and peak memory.
`--cluster N` sends N empty jobs through a local Dask scheduler with two workers.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from pathlib import Path
from typing import Any

from supple.app.batch.batch import _missing
from supple.app.batch.batch_options import BatchOptions
from supple.app.batch.batch_page import write_batch_page
from supple.app.batch.inputs import requested_jobs
from supple.app.batch.job_process import Outcome
from supple.app.batch.journal import JOURNAL, Journal, read_journal
from supple.app.batch.planned_jobs import plan
from supple.app.batch.process_farm import Task
from supple.app.batch.running_jobs import Run
from supple.app.processes import peak_megabytes

#: Number of jobs that share a model.
CLIPS = 100


class EmptyFarm:
    """Farm whose jobs finish at once; each writes a file of one byte."""

    slots, most_models = 2, 20

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tasks: deque[Task] = deque()

    def submit(self, task: Task) -> None:
        """Queue a task."""
        self.tasks.append(task)

    def outcome(self) -> tuple[Task, Outcome]:
        """Return the next result."""
        task = self.tasks.popleft()
        if task.what != "job":
            return task, {"ok": True, "kept": True}
        assert task.job is not None
        (self.folder / task.job.output).write_bytes(b"x")
        figures = {"frames": 100, "rate": 30.0, "vertices": 5000, "model_kept": True}
        done = {
            "ok": True,
            "figures": figures,
            "warnings": [],
            "seconds": 5.0,
            "names": [task.job.output],
        }
        return task, done

    def release(self, model: str) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def measure(count: int, folder: Path) -> dict[str, Any]:
    """Return seconds and sizes of each part for a number of jobs, in this process."""
    figures: dict[str, Any] = {"jobs": count}
    sources = max(1, count // CLIPS)
    for k in range(min(sources, 1000)):
        (folder / f"rat{k}.glb").write_bytes(b"x")
    rows = (
        {
            "source": f"rat{k // CLIPS % 1000}.glb",
            "motion": f"clip{k}",
            "output": f"{k // 1000}/{k}.glb",
        }
        for k in range(count)
    )
    listed = folder / "jobs.jsonl"
    with listed.open("w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    began = time.perf_counter()

    def lap(name: str) -> None:
        nonlocal began
        figures[f"{name}_s"] = round(time.perf_counter() - began, 2)
        began = time.perf_counter()

    jobs = plan(requested_jobs([str(listed)], "bake", (), (), folder, lambda names: {}), folder)
    lap("plan")
    figures["plan_mb"] = round(peak_megabytes() or 0)
    journal = Journal(folder / JOURNAL)
    missing = _missing(jobs, folder, journal.state, BatchOptions(), None)[0]
    lap("compare")
    Run(EmptyFarm(folder), journal, folder, jobs).all(missing, quiet=True)
    journal.close()
    lap("run")
    figures["run_us_a_job"] = round(1e6 * figures["run_s"] / count)
    figures["journal_mb"] = round((folder / JOURNAL).stat().st_size / 1e6, 1)
    state = read_journal(folder / JOURNAL)
    lap("read")
    assert len(state.done) == count
    left = _missing(jobs, folder, state, BatchOptions(), None)[0]
    lap("resume")
    assert not left
    page = write_batch_page(folder)
    lap("page")
    figures["page_mb"] = round(page.stat().st_size / 1e6, 1)
    figures["peak_mb"] = round(peak_megabytes() or 0)
    return figures


def nothing(number: int) -> int:
    """Do nothing on a worker."""
    return number


def through_dask(count: int) -> dict[str, Any]:
    """Return the times of a scheduler for empty tasks, submitted in small batches."""
    import distributed

    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        done = distributed.as_completed([client.submit(nothing, 0)])
        next(done)
        began, sent, back = time.perf_counter(), 0, 0
        while back < count:
            while sent < count and sent - back < 6:
                sent += 1
                done.add(client.submit(nothing, sent, pure=False))
            next(done)
            back += 1
        seconds = time.perf_counter() - began
    return {"dask_tasks": count, "dask_ms_a_task": round(1e3 * seconds / count, 2)}


def main() -> None:
    """Measure each number of jobs in a separate process with separate memory."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, nargs="*", default=[10_000, 1_000_000])
    parser.add_argument("--cluster", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(measure(options.jobs[0], Path(folder))))
        return
    rows = []
    for count in options.jobs:
        words = [sys.executable, __file__, "--here", "--jobs", str(count)]
        done = subprocess.run(
            words, check=True, capture_output=True, text=True, env=dict(os.environ)
        )
        rows.append(json.loads(done.stdout))
    if options.cluster:
        rows.append(through_dask(options.cluster))
    for row in rows:
        print(
            json.dumps(row)
            if options.json
            else "\n".join(f"{k:>16} {v:>12,}" for k, v in row.items())
        )


if __name__ == "__main__":
    main()
