"""Dask scheduler and workers as processes that tests can kill."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class DaskProcesses:
    """Scheduler with its file, and its workers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "scheduler.json"
        self.scheduler: subprocess.Popen[bytes] | None = None
        self.workers: list[subprocess.Popen[bytes]] = []

    def start_scheduler(self) -> None:
        self.file.unlink(missing_ok=True)
        self.scheduler = self._started("dask_scheduler", "--host", "127.0.0.1", "--port", "0")
        for _ in range(600):
            if self.file.is_file() and self.file.stat().st_size:
                return
            time.sleep(0.1)
        raise TimeoutError("the scheduler does not start")

    def add_worker(self, env: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
        words = ("--nthreads", "1", "--no-nanny", "--host", "127.0.0.1")
        self.workers.append(self._started("dask_worker", *words, env=env))
        return self.workers[-1]

    def _started(
        self, name: str, *words: str, env: dict[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        common = ("--scheduler-file", str(self.file), "--no-dashboard")
        return subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.{name}", *common, *words],
            env=env or dict(os.environ),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self.folder,
        )

    def end(self) -> None:
        for process in (*self.workers, self.scheduler):
            if process is not None:
                process.kill()
                process.wait()


@contextmanager
def dask_processes(folder: Path) -> Iterator[DaskProcesses]:
    own = DaskProcesses(folder)
    try:
        own.start_scheduler()
        yield own
    finally:
        own.end()
