"""Benches of cases, a column each, and of growth: rows that are written as they are measured."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullFormatter

from supple.app.command_files import checked_sheet
from supple.app.pictures.drawing import INK, PAPER
from supple.app.processes import with_cores
from supple.app.progress_bar import first_use_message, progress_bar
from supple.errors import SuppleError
from supple.lab.bench.step_bench import limits_text, number
from supple.saving import write_whole

#: Over how many of the largest an exponent is fitted.
_LARGEST = 3
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


def checked_figures(path: Path) -> Path:
    """Return where the figures of a picture go, the .json beside it, if both can be written."""
    checked_sheet(path)
    kept = path.with_suffix(".json")
    if kept.is_dir():
        raise SuppleError(f"{kept}: cannot be written, it is a folder")
    return kept


def measure_growth(
    kept: Path,
    cases: Mapping[str, tuple[str, Callable[[], dict[str, Any]]]],
    needed: Sequence[str],
    *,
    steps: int,
    quiet: bool,
) -> dict[str, dict[str, Any]]:
    """Return a row for each case, by name; a run that was ended goes on where it was.

    Parameters
    ----------
    kept
        Where rows are written after each case.
    cases
        The line that each is of, which its row has too, and what measures it.
    needed
        Keys that every row has: others are of another version.
    steps
        Length of a run of steps; rows of another are not gone on with.
    quiet
        Show no progress.
    """
    rows = _begun(kept, needed, steps)
    first_use_message(quiet)
    with progress_bar(quiet) as progress:
        task = progress.add_task("measuring", total=len(cases))
        for name, (line, row) in cases.items():
            if name not in rows:
                progress.update(task, description=name)
                rows[name] = {"line": line} | row()
                write_figures(kept, {"steps": steps, "complete": False, "rows": rows})
            progress.advance(task)
    return rows


def _begun(path: Path, needed: Sequence[str], steps: int) -> dict[str, Any]:
    """Return rows of a run that was ended before it was done; none of one that was done."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        rows = found["rows"]
        mine = all({"line", *needed} <= set(row) for row in rows.values())
        return dict(rows) if mine and found["steps"] == steps and not found["complete"] else {}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return {}


def write_figures(path: Path, figures: dict[str, Any]) -> None:
    """Write figures for people and programs to read."""
    write_whole(path, (json.dumps(figures, indent=2) + "\n").encode())


def exponent(rows: list[dict[str, Any]], over: str, key: str) -> float | None:
    """Return the slope of the logarithms, of the largest rows; None where there is but one."""
    if len(rows) < 2:
        return None
    largest = sorted(rows, key=lambda row: row[over])[-_LARGEST:]
    x, y = (np.log([row[name] for row in largest]) for name in (over, key))
    return round(float(np.polyfit(x, y, 1)[0]), 3)


def growth_caption(powers: Mapping[str, float | None], words: Mapping[str, str]) -> str:
    """Return what grows like which power: those of keys that have words, and a power."""
    return ", ".join(
        f"{what} like the power {powers[key]:.2f}"
        for key, what in words.items()
        if powers.get(key) is not None
    )


def growth_axes(axes: Axes, below: str, beside: str, ticks: Sequence[int]) -> None:
    """Dress logarithmic axes of times over numbers, with these numbers below."""
    axes.set(xscale="log", yscale="log", facecolor=PAPER)
    axes.set_xlabel(below, color=INK, fontsize=9)
    axes.set_ylabel(beside, color=INK, fontsize=9)
    shown: list[int] = []
    for tick in ticks:
        if not shown or tick > 1.3 * shown[-1]:
            shown.append(tick)
    axes.set_xticks(shown, [f"{tick:,}" for tick in shown])
    for along in (axes.xaxis, axes.yaxis):
        along.set_minor_formatter(NullFormatter())
    low, high = axes.get_ylim()
    middle = math.sqrt(low * high)  # what does not grow must not look as if it did
    axes.set_ylim(min(low, middle / 10), max(high, middle * 10))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.grid(True, which="major", color="#e4e0d6", lw=0.7)
    axes.tick_params(colors=INK, labelsize=8)
    for side in axes.spines.values():
        side.set_color("#c9c4b8")
    axes.legend(framealpha=0.9, facecolor=PAPER, edgecolor="none", fontsize=8)
