"""Compiling beforehand, for people: `supple compile`, and what a first command says and does."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

from supple.errors import SuppleError
from supple.playback.progress_bar import console, progress_bar

#: Whatever is set to 0 here compiles only what it calls, when it calls it.
SWITCH = "SUPPLE_COMPILE_AHEAD"


@contextmanager
def compiled_for(job: str, quiet: bool = False) -> Iterator[None]:
    """Compile what a job needs beside the block, in other processes; say so where it is much."""
    if os.environ.get(SWITCH) == "0":
        yield
        return
    from supple.compiled.ahead import compiling_beside

    with compiling_beside(job) as missing:
        if missing and not quiet:
            console.print(f"first use: compiling beside the work, once ({_cores()})")
        yield


def _cores() -> str:
    count = os.cpu_count() or 1
    return "on one core" if count == 1 else f"on {count} cores"


def run_compile(job: str | None, cores: int | None = None, quiet: bool = False) -> dict[str, Any]:
    """Compile what a job needs, or all, and return figures.

    Parameters
    ----------
    job
        One of `supple.compiled.listed_kernels.jobs()`; None for all of them.
    cores
        How many processes compile at once; by default as many as there are cores.
    quiet
        Show nothing.
    """
    from time import perf_counter

    from supple.compiled.ahead import ALL, workers
    from supple.compiled.listed_kernels import jobs, kernels_for

    if job is not None and job not in jobs():
        near = difflib.get_close_matches(job, jobs(), 1)
        hint = f'did you mean "{near[0]}"?' if near else f"there are {', '.join(jobs())}"
        raise SuppleError(f'nothing is known to be compiled for "{job}"; {hint}')
    if cores is not None and cores < 1:
        raise SuppleError(f"--cores is {cores}; at least one core compiles")
    kernels = kernels_for(job)
    weights = {f"{each.place} {each.arguments}": each.weight + 0.1 for each in kernels}
    began, count = perf_counter(), min(cores or os.cpu_count() or 1, max(1, len(kernels)))
    with progress_bar(quiet) as progress, workers(job or ALL, count) as started:
        if not started:
            raise SuppleError("no process to compile in could be started; is there enough memory?")
        task = progress.add_task("compiling", total=round(sum(weights.values()), 1))
        for line in _lines(started):
            progress.advance(task, weights.pop(line, 0.0))
    if weights:
        raise SuppleError(
            f"{len(weights)} of {len(kernels)} functions are not kept: a process that compiles was"
            " ended, or the disk is full; run supple compile again, with fewer --cores where memory"
            " is short"
        )
    where = where_compiled()
    return {"kernels": len(kernels), "seconds": round(perf_counter() - began, 1)} | where


def _lines(processes: list[Any]) -> Iterator[str]:
    """Give what processes print, line by line, until all have ended."""
    told: SimpleQueue[str | None] = SimpleQueue()

    def listen(process: Any) -> None:
        for line in process.stdout:
            told.put(line.rstrip("\n"))
        told.put(None)

    for process in processes:
        Thread(target=listen, args=(process,), daemon=True).start()
    left = len(processes)
    while left:
        line = told.get()
        if line is None:
            left -= 1
        else:
            yield line


def _files() -> list[Path]:
    """List files of compiled code: of this install, and in the user's cache of any."""
    from supple.compiled.code_files import kernel_folders
    from supple.user_cache import cache_folder

    root = Path(__file__).resolve().parents[1]
    folders = {each for file in root.rglob("*.py") for each in kernel_folders(str(file))}
    with suppress(RuntimeError):  # there is no home
        folders |= set((cache_folder() / "kernels").glob("*"))
    return [
        path
        for folder in sorted(folders)
        for path in sorted(folder.glob("*"))
        if ".nbc" in path.name or ".nbp" in path.name or path.name.startswith("complete-")
    ]


def where_compiled() -> dict[str, Any]:
    """Return where compiled code lies, and how much it takes."""
    files = _files()
    root = Path(__file__).resolve().parents[1]
    places = {root if path.is_relative_to(root) else path.parent.parent for path in files}
    return {
        "files": len(files),
        "megabytes": round(sum(_size(path) for path in files) / 1e6, 1),
        "folders": sorted(map(str, places)),
    }


def _size(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_size
    return 0


def remove_compiled() -> dict[str, Any]:
    """Remove compiled code, and return what was there; it is compiled again when it is called."""
    before = where_compiled()
    for path in _files():
        with suppress(OSError):
            path.unlink()
    left = len(_files())
    if left:
        raise SuppleError(f"{left} files of compiled code cannot be removed; are they yours?")
    return {"removed": before["files"], "megabytes": before["megabytes"]}
