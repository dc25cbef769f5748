"""Small batches: quick meshes, one that crashes its process, and one that hangs."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from supple.app.batch.job_process import Outcome, answer_to
from supple.app.batch.journal import JOURNAL, decoded
from supple.app.batch.process_farm import Task

TRIANGLE = "v 0 0 0\nv {size} 0 0\nv 0 1 0\nf 1 2 3\n"
#: Run by every Python that starts: what it does when files of these names are opened.
CUSTOM = """
import os, sys, time

def heard(event, arguments):
    if event == "open" and "job_process" in " ".join(sys.orig_argv):
        name = os.path.basename(str(arguments[0]))
        if name.startswith("crash") and name.endswith(".obj"):
            os.abort()
        if name.startswith("hang") and name.endswith(".obj"):
            time.sleep(600)
        if name.startswith("mesh") and name.endswith(".obj"):
            time.sleep(float(os.environ.get("MESH_SECONDS", "0")))

sys.addaudithook(heard)
"""


def meshes(folder: Path, count: int, *more: str) -> Path:
    """Write a number of small meshes, and others with given names."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in (*(f"mesh{k:03}" for k in range(count)), *more):
        (folder / f"{name}.obj").write_text(TRIANGLE.format(size=1 + len(name)))
    return folder


def environment(folder: Path, seconds: float = 0.0) -> dict[str, str]:
    """Return an environment in which jobs are slow, crash or hang by their file names."""
    own = folder / "custom"
    own.mkdir(exist_ok=True)
    (own / "sitecustomize.py").write_text(CUSTOM)
    path = os.pathsep.join([str(own), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, "MESH_SECONDS": str(seconds)}


class HereFarm:
    """Farm that runs tasks in this process, one after the other."""

    slots, most_models = 1, 20

    def __init__(self, seconds: float = 0.0) -> None:
        self.tasks: list[Task] = []
        self.done: list[Task] = []
        self.seconds = seconds

    def submit(self, task: Task) -> None:
        self.tasks.append(task)

    def outcome(self) -> tuple[Task, Outcome]:
        task = self.tasks.pop(0)
        self.done.append(task)
        time.sleep(self.seconds)
        return task, answer_to(task.request)

    def release(self, model: str) -> None:
        pass

    def close(self) -> None:
        pass


def batch_command(*words: Any) -> list[str]:
    return [sys.executable, "-m", "supple.cli.main", "batch", *map(str, words)]


def journal_lines(folder: Path) -> list[dict[str, Any]]:
    """Return the complete lines of a journal."""
    file = folder / JOURNAL
    found = [decoded(raw) for raw in file.read_bytes().splitlines()] if file.is_file() else []
    return [line for line in found if line is not None]


def results(folder: Path) -> dict[str, bytes]:
    """Return the results in a folder, without journal, page and pictures."""
    return {
        each.relative_to(folder).as_posix(): each.read_bytes()
        for each in sorted(folder.rglob("*"))
        if each.is_file() and not each.name.startswith("batch.") and ".batch" not in each.parts
    }


def check_whole(folder: Path, count: int) -> None:
    """Assert that all results are complete and unique and agree with the journal."""
    found = results(folder)
    assert len(found) == count
    for data in found.values():
        assert json.loads(data)["format"]
    done = [line["output"] for line in journal_lines(folder) if line["event"] == "done"]
    assert sorted(done) == sorted(found)
