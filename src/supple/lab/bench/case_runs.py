"""Benches of cases: each is built in a process of its own, timed on one core, and has a column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from supple.app.processes import with_cores
from supple.app.progress_bar import first_use_message, progress_bar
from supple.errors import SuppleError
from supple.lab.bench.step_bench import limits_text, number

__all__ = ["Section", "case_table", "check_model", "check_steps", "finished_row", "measure_cases"]

#: Lines of a table: name, key of the row, and how its numbers look.
Section = dict[str, tuple[str, str]]


def check_steps(steps: int) -> None:
    """Refuse numbers of steps that nothing can be said from, or that never end."""
    if not 10 <= steps <= 1_000_000:
        raise SuppleError(f"{steps:,} steps; choose between 10 and 1,000,000")


def check_model(cases: Sequence[str], model: Path | None) -> None:
    """Refuse cases beside a model of one's own, and a model that is not there."""
    if model is None:
        return
    if cases:
        raise SuppleError(f"cases and --model {model}; give one or the other")
    if not model.is_file():
        raise SuppleError(f"{model}: there is no such file; supple build makes one")


def measure_cases(
    names: Sequence[str],
    model: Path | None,
    build: Callable[[str, Path], float],
    time: Callable[[Path, str], dict[str, Any]],
    *,
    quiet: bool,
) -> list[dict[str, Any]]:
    """Return a row for each case, in order.

    Parameters
    ----------
    names
        Of the cases, or of the model.
    model
        A .supple file to time instead; it is not built.
    build
        Builds a case into a file on all cores, and returns the seconds.
    time
        Returns figures of a file and its name, on one core. Both are of modules.
    quiet
        Show no progress.
    """
    first_use_message(quiet)
    rows = []
    with TemporaryDirectory() as folder, progress_bar(quiet) as progress:
        task = progress.add_task("measuring", total=2 * len(names))
        for name in names:
            path, row = model, {"case": name, "build_s": None}
            if path is None:
                progress.update(task, description=f"{name}, build")
                path = Path(folder) / "case.supple"
                row["build_s"] = with_cores(None, build, name, path)
            progress.advance(task)
            progress.update(task, description=f"{name}, one core")
            rows.append(row | with_cores(1, time, path, name))
            progress.advance(task)
    return rows


def finished_row(row: dict[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """Return a row with these keys first, and no more digits than mean something."""
    ordered = {key: row[key] for key in keys} | row
    return {
        key: float(f"{value:.4g}") if isinstance(value, float | np.floating) else value
        for key, value in ordered.items()
    }


def case_table(
    rows: list[dict[str, Any]], sections: Sequence[Section], title: str, caption: str
) -> None:
    """Print a column for each case."""
    from rich.console import Console
    from rich.table import Table

    grid = Table(title=title, caption=caption)
    grid.add_column("")
    for row in rows:
        grid.add_column(Path(row["case"]).stem, justify="right")
    for section in sections:
        for name, (key, digits) in section.items():
            cells = (row.get(key) for row in rows)
            shown = (limits_text(c) if isinstance(c, dict) else number(c, digits) for c in cells)
            grid.add_row(name, *shown)
        grid.add_section()
    Console().print(grid)
