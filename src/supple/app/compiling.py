"""Compilation ahead of use: `supple compile`, and in the background of a first command."""

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

#: Environment variable; 0 compiles functions only when they are called.
SWITCH = "SUPPLE_COMPILE_AHEAD"


@contextmanager
def compiled_for(job: str, quiet: bool = False) -> Iterator[None]:
    """Compile the functions of a job in other processes while the block runs."""
    if os.environ.get(SWITCH) == "0":
        yield
        return
    from supple.compiled.ahead import compiling_beside

    with compiling_beside(job) as missing:
        if missing and not quiet:
            count = os.cpu_count() or 1
            cores = "on one core" if count == 1 else f"on {count} cores"
            console.print(f"first use: compiling functions in the background, once ({cores})")
        yield


def run_compile(job: str | None, cores: int | None = None, quiet: bool = False) -> dict[str, Any]:
    """Compile the functions of a job, one of `jobs()`, or of all jobs; return a summary.

    `cores` is the number of processes that compile at once, by default one per core.
    """
    from time import perf_counter

    from supple.compiled.ahead import ALL, workers
    from supple.compiled.listed_kernels import jobs, kernels_for

    if job is not None and job not in jobs():
        near = difflib.get_close_matches(job, jobs(), 1)
        hint = f'did you mean "{near[0]}"?' if near else f"there are {', '.join(jobs())}"
        raise SuppleError(f'no job "{job}" to compile for; {hint}')
    if cores is not None and cores < 1:
        raise SuppleError(f"--cores {cores}: use 1 or more")
    kernels = kernels_for(job)
    weights = {f"{each.place} {each.arguments}": each.weight + 0.1 for each in kernels}
    began, count = perf_counter(), min(cores or os.cpu_count() or 1, max(1, len(kernels)))
    with progress_bar(quiet) as progress, workers(job or ALL, count) as started:
        if not started:
            raise SuppleError("no compiling process could be started; free some memory")
        task = progress.add_task("compiling", total=round(sum(weights.values()), 1))
        for line in _lines(started):
            progress.advance(task, weights.pop(line, 0.0))
    if weights:
        raise SuppleError(
            f"{len(weights)} of {len(kernels)} functions were not stored: a compiling process was"
            " killed, or the disk is full; run supple compile again, with fewer --cores if memory"
            " is short"
        )
    seconds = round(perf_counter() - began, 1)
    return {"kernels": len(kernels), "seconds": seconds} | where_compiled()


def _lines(processes: list[Any]) -> Iterator[str]:
    """Yield the lines that processes print, until all have ended."""
    lines: SimpleQueue[str | None] = SimpleQueue()

    def listen(process: Any) -> None:
        for line in process.stdout:
            lines.put(line.rstrip("\n"))
        lines.put(None)

    for process in processes:
        Thread(target=listen, args=(process,), daemon=True).start()
    running = len(processes)
    while running:
        line = lines.get()
        if line is None:
            running -= 1
        else:
            yield line


def _files() -> list[Path]:
    """Return the files of compiled code of this installation and in the user's cache."""
    from supple.compiled.code_files import kernel_folders
    from supple.user_cache import cache_folder

    root = Path(__file__).resolve().parents[1]
    folders = {each for file in root.rglob("*.py") for each in kernel_folders(str(file))}
    with suppress(RuntimeError, OSError):  # no home folder, or no access
        folders |= set((cache_folder() / "kernels").glob("*"))
    return [
        path
        for folder in sorted(folders)
        for path in sorted(folder.glob("*"))
        if ".nbc" in path.name or ".nbp" in path.name or path.name.startswith("complete-")
    ]


def where_compiled() -> dict[str, Any]:
    """Return the folders, number and size of files of compiled code."""
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
    """Remove compiled code, and return the number and size of the files."""
    before = where_compiled()
    for path in _files():
        with suppress(OSError):
            path.unlink()
    remaining = len(_files())
    if remaining:
        raise SuppleError(
            f"{remaining} files of compiled code cannot be removed; check who owns them"
        )
    return {"removed": before["files"], "megabytes": before["megabytes"]}
