"""What a person sees while something takes more than a second."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

__all__ = ["console", "first_use_message", "progress_bar", "working"]

#: Everything for people goes to standard error; standard output is for results.
console = Console(stderr=True, highlight=False)


@contextmanager
def progress_bar(quiet: bool = False) -> Iterator[Progress]:
    """A bar with count and time left; nothing when quiet."""
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
def working(what: str, quiet: bool = False) -> Iterator[None]:
    """A spinner for work whose length is not known; nothing when quiet."""
    if quiet:
        yield
    else:
        with console.status(f"{what} …"):
            yield


def first_use_message(quiet: bool = False) -> None:
    """Say so when the kernels have never been compiled on this machine."""
    if quiet or "NUMBA_CACHE_DIR" in os.environ:
        return
    package = Path(sys.modules["supple"].__file__ or "").parent
    if not any(package.glob("elastic/__pycache__/*.nbi")):
        console.print("first use: compiling, about a minute, once")
