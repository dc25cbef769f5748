"""Progress on the terminal: bars, spinners and the stages of a build.

With ``SUPPLE_PROGRESS=lines``, which programs that start the command set, a line of JSON is printed
on standard error for each hundredth of a task, ``{"part": 0.4, "what": "simulating"}``, even if
the command is quiet.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from supple.progress import Progress as Report
from supple.progress import unreported
from supple.reduction.build_log import BuildLog

#: Option `progress` of Python's functions: a callback, whether a bar is shown, or None for one on
#: a terminal and in a notebook.
ShownProgress = Report | bool | None

#: Messages and progress go to standard error; standard output is for results.
console = Console(stderr=True, highlight=False)


def _json_lines() -> Callable[[float, str], None] | None:
    """Return a function that prints JSON lines; None unless SUPPLE_PROGRESS is "lines"."""
    if os.environ.get("SUPPLE_PROGRESS") != "lines":
        return None
    last: tuple[str, int] = ("", -1)

    def report(part: float, what: str) -> None:
        nonlocal last
        if (now := (what, round(100 * part))) != last:
            last = now
            line = json.dumps({"part": now[1] / 100, "what": what}, ensure_ascii=False)
            print(line, file=sys.stderr, flush=True)

    return report


@contextmanager
def progress_bar(quiet: bool = False) -> Iterator[Progress]:
    """Yield a `Progress` that shows bars with counts and times, unless quiet."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=quiet) as progress:
        yield progress


@contextmanager
def task_bar(quiet: bool = False) -> Iterator[Callable[[float, str], None]]:
    """Yield a function of the fraction done and the name of a task; a bar shows the last task."""
    if (lines := _json_lines()) is not None:
        yield lines
        return
    with progress_bar(quiet) as progress:
        tasks: dict[str, TaskID] = {}

        def report(part: float, what: str) -> None:
            if what not in tasks:
                for other in tasks.values():
                    progress.update(other, visible=False)
                tasks[what] = progress.add_task(what, total=100)
            progress.update(tasks[what], completed=round(100 * part))

        yield report


@contextmanager
def counting_bar(what: str, total: int, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Yield a function that counts one more item as done, with a description for the bar."""
    lines, done = _json_lines(), 0
    with progress_bar(quiet or lines is not None) as progress:
        task = progress.add_task(what, total=total)

        def count(description: str) -> None:
            nonlocal done
            done += 1
            progress.update(task, completed=done, description=description)
            if lines is not None:
                lines(done / max(total, 1), what)

        yield count


def shows_progress(progress: ShownProgress) -> bool:
    """Return whether `progress` shows bars; None shows them on terminals and in notebooks."""
    if progress is None:
        return console.is_terminal or console.is_jupyter
    return progress is True


@contextmanager
def reported_progress(progress: ShownProgress) -> Iterator[Report]:
    """Yield the function that receives progress: a callback, a bar, or `unreported`."""
    if callable(progress):
        yield progress
    elif shows_progress(progress):
        with task_bar() as report:
            yield report
    else:
        yield unreported


@contextmanager
def working(what: str, quiet: bool = False) -> Iterator[None]:
    """Show a spinner for work of unknown duration, unless quiet."""
    lines = _json_lines()
    if lines is not None:
        lines(0.0, what)
    if quiet or lines is not None:
        yield
    else:
        with console.status(f"{what} …"):
            yield


def first_use_message(quiet: bool = False) -> None:
    """Print a message if the kernels have never been compiled on this machine."""
    if quiet or "NUMBA_CACHE_DIR" in os.environ:
        return
    package = Path(sys.modules["supple"].__file__ or "").parent
    if not any(package.glob("elastic/__pycache__/*.nbc")):
        console.print("first use: compiling, about a minute, once")


class _ShownLog(BuildLog):
    """Log of a build, shown as a line per stage with a bar, the current work and the time."""

    def __init__(self, progress: Progress) -> None:
        super().__init__()
        self._progress = progress
        self._lines: dict[str, TaskID] = {}
        self._current: TaskID | None = None

    def began(self, name: str) -> None:
        if name not in self._lines:
            self._lines[name] = self._progress.add_task(name, total=1.0, what="")
        self._current = self._lines[name]
        self._progress.update(self._current, completed=0.0)
        self._progress.start_task(self._current)

    def ended(self, name: str) -> None:
        self._progress.update(self._lines[name], completed=1.0, what="")
        self._progress.stop_task(self._lines[name])
        self._current = None

    def report(self, part: float, what: str) -> None:
        if self._current is not None:
            self._progress.update(self._current, completed=part, what=what)


class _JsonLog(BuildLog):
    """Log of a build, printed as lines of JSON."""

    def __init__(self, lines: Callable[[float, str], None]) -> None:
        super().__init__()
        self._lines, self._stage = lines, ""

    def began(self, name: str) -> None:
        self._stage = name
        self._lines(0.0, name)

    def report(self, part: float, what: str) -> None:
        self._lines(part, self._stage)


@contextmanager
def build_log(quiet: bool = False) -> Iterator[BuildLog]:
    """Yield a log that is shown on the terminal, or that only measures times if quiet."""
    if (lines := _json_lines()) is not None:
        yield _JsonLog(lines)
        return
    if quiet:
        yield BuildLog()
        return
    columns = (
        TextColumn("{task.description:>20}"),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
        TextColumn("{task.fields[what]}", style="dim"),
    )
    with Progress(*columns, console=console) as progress:
        yield _ShownLog(progress)
