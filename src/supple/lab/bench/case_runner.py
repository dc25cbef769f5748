"""Runner of bench cases, their tables, and benches of growth with pictures."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from supple.app.command_files import checked_sheet
from supple.app.pictures.drawing import INK, PAPER, save_picture
from supple.app.processes import with_cores
from supple.errors import SuppleError
from supple.playback.progress_bar import first_use_message, progress_bar
from supple.saving import write_whole

Row = dict[str, Any]
#: Value of a row, by key or function, and the format of its text.
Cell = tuple[str | Callable[[Row], Any], str]
#: Cells by name: the columns of a table, or its lines.
Cells = Mapping[str, Cell]
Result = TypeVar("Result")
#: Number of largest cases that an exponent is fitted to.
_LARGEST = 3


def check_between(value: float, low: float, high: float, noun: str) -> None:
    """Raise a `SuppleError` if a number is out of range."""
    if not low <= value <= high:
        raise SuppleError(f"{value:,} {noun}; choose between {low:,} and {high:,}")


def check_steps(steps: int, fewest: int = 10) -> None:
    """Raise a `SuppleError` if the number of steps is out of range."""
    check_between(steps, fewest, 1_000_000, "steps")


def check_model(cases: Sequence[str], model: Path | None, noun: str = "cases") -> None:
    """Raise a `SuppleError` for cases together with a model, and for a missing model file."""
    if model is None:
        return
    if cases:
        raise SuppleError(f"{noun} and --model {model} exclude each other; give one or the other")
    if not model.is_file():
        raise SuppleError(f"{model}: there is no such file; supple build makes one")


def run_cases(
    cases: Iterable[tuple[str, Callable[[], Result]]], *, quiet: bool = False
) -> list[Result]:
    """Call the functions of `cases` (description, function) in order; return their results."""
    first_use_message(quiet)
    listed = list(cases)
    results = []
    with progress_bar(quiet) as progress:
        task = progress.add_task("measuring", total=len(listed))
        for description, function in listed:
            progress.update(task, description=description)
            results.append(function())
            progress.advance(task)
    return results


def measure_cases(
    names: Sequence[str],
    model: Path | None,
    build: Callable[[str, Path], float],
    time: Callable[[Path, str], Row],
    *,
    quiet: bool,
) -> list[Row]:
    """Return a row for each case, or for the `model` file alone, which is not built.

    `build` writes a case to a file on all cores and returns the seconds; `time` measures a
    file, given its path and name, on one core. Both run in other processes, so they must be
    module-level functions, or partials of such.
    """
    seconds: dict[str, float | None] = dict.fromkeys(names)
    with TemporaryDirectory() as folder:
        path = model or Path(folder) / "case.supple"

        def built(name: str) -> Row:
            if model is None:
                seconds[name] = with_cores(None, build, name, path)
            return {}

        def timed(name: str) -> Row:
            return {"case": name, "build_s": seconds[name]} | with_cores(1, time, path, name)

        cases: list[tuple[str, Callable[[], Row]]] = []
        for name in names:
            cases.append((f"{name}, build", lambda name=name: built(name)))  # type: ignore[misc]
            cases.append((f"{name}, one core", lambda name=name: timed(name)))  # type: ignore[misc]
        return run_cases(cases, quiet=quiet)[1::2]


def finished_row(row: Row, keys: Sequence[str], digits: int = 4) -> Row:
    """Return a row with these keys first, and floats rounded to significant digits."""
    ordered = {key: row[key] for key in keys} | row
    return {key: rounded(value, digits) for key, value in ordered.items()}


def rounded(value: Any, digits: int = 5) -> Any:
    """Round floats, also those in dicts, to significant digits; NaN and infinity become None."""
    if isinstance(value, dict):
        return {key: rounded(each, digits) for key, each in value.items()}
    if isinstance(value, float | np.floating):
        return float(f"{value:.{digits}g}") if np.isfinite(value) else None
    return value


def number(value: float | None, digits: str) -> str:
    """Return a number as text; a dash for None."""
    return "–" if value is None else format(value, digits)


def limits_text(counts: Mapping[str, int]) -> str:
    """Return the number of steps in which each limit acted, as text."""
    return ", ".join(f"{count:,} {name}" for name, count in counts.items()) or "none"


def cell_text(row: Row, cell: Cell) -> str:
    """Return a value of a row as text; a dash for a missing one."""
    key, digits = cell
    value = key(row) if callable(key) else row.get(key)
    return limits_text(value) if isinstance(value, dict) else number(value, digits)


def print_rows(
    rows: Iterable[Row], columns: Cells, title: str, caption: str | None = None, left: int = 0
) -> None:
    """Print a table with a line for each row; the first `left` columns are aligned left."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    grid = Table(title=title, caption=caption)
    for number_, heading in enumerate(columns):
        grid.add_column(heading, justify="left" if number_ < left else "right")
    for row in rows:
        grid.add_row(*(escape(cell_text(row, cell)) for cell in columns.values()))
    if grid.row_count:
        Console().print(grid)


def print_columns(
    rows: Sequence[Row], sections: Sequence[Cells], title: str, caption: str, key: str = "case"
) -> None:
    """Print a table with a column for each row, named by `key`, and lines in sections."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    grid = Table(title=title, caption=caption)
    grid.add_column("")
    for row in rows:
        name = Path(row[key]).stem if key == "case" else row[key]
        grid.add_column(escape(name), justify="right")
    for section in sections:
        for name, cell in section.items():
            grid.add_row(name, *(escape(cell_text(row, cell)) for row in rows))
        grid.add_section()
    Console().print(grid)


# Growth


@dataclass(frozen=True)
class Growth:
    """Lines of a bench of growth, and their tables; a line is a series of cases."""

    over: Mapping[str, str]  # key of the growing number, by line
    #: Lines and keys of numbers that exponents are fitted for.
    fitted: tuple[Sequence[str], Sequence[str]]
    required: Sequence[str]  # keys that every row has; rows without them are of another version
    titles: Mapping[str, str]  # title of a table, by line
    columns: Cells
    captions: Mapping[str, str]  # names of fitted numbers in the caption, by key


def measure_growth(
    path: Path,
    cases: Mapping[str, tuple[str, Callable[[], Row]]],
    growth: Growth,
    draw: Callable[[Row], Figure],
    *,
    steps: int,
    quiet: bool,
) -> Row:
    """Return rows by line and fitted exponents; draw them in `path`, a .png file.

    `cases` has the line and the function of each case, by name. The .json file next to the picture
    is written after each case; an interrupted run with the same `steps` resumes.
    """
    checked_sheet(path)
    stored = path.with_suffix(".json")
    if stored.is_dir():
        raise SuppleError(f"{stored}: cannot be written, it is a folder")
    rows = _interrupted_rows(stored, growth.required, steps)

    def measured(name: str, line: str, function: Callable[[], Row]) -> Row:
        if name not in rows:
            rows[name] = {"line": line} | function()
            write_figures(stored, {"steps": steps, "complete": False, "rows": rows})
        return rows[name]

    results = run_cases(
        [
            (name, lambda args=(name, line, function): measured(*args))  # type: ignore[misc]
            for name, (line, function) in cases.items()
        ],
        quiet=quiet,
    )
    figures: Row = {line: [row for row in results if row["line"] == line] for line in growth.over}
    lines, keys = growth.fitted
    figures["exponents"] = {
        line: {key: exponent(figures[line], growth.over[line], key) for key in keys}
        for line in lines
    }
    save_picture(draw(figures), path)
    write_figures(stored, {"steps": steps, "complete": True, "rows": rows} | figures)
    return figures


def _interrupted_rows(path: Path, required: Sequence[str], steps: int) -> dict[str, Any]:
    """Return the rows of an interrupted run; an empty dict if the run is complete or damaged."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        rows = stored["rows"]
        usable = all({"line", *required} <= set(row) for row in rows.values())
        return dict(rows) if usable and stored["steps"] == steps and not stored["complete"] else {}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return {}


def write_figures(path: Path, figures: Row) -> None:
    """Write rows and exponents as indented JSON."""
    write_whole(path, (json.dumps(figures, indent=2) + "\n").encode())


def exponent(
    rows: Sequence[Row], over: str, key: str, largest: int | None = _LARGEST
) -> float | None:
    """Return the exponent of a power law of `key` over `over`, keys of the rows.

    It is fitted to the rows with the highest `over`, `largest` in number, or to all if that is
    None. Return None if `over` has fewer than two values.
    """
    if len(rows) < 2 or len({row[over] for row in rows}) < 2:
        return None
    chosen = sorted(rows, key=lambda row: row[over])
    chosen = chosen if largest is None else chosen[-largest:]
    x, y = (np.log([row[name] for row in chosen]) for name in (over, key))
    return round(float(np.polyfit(x, y, 1)[0]), 3)


def print_growth(growth: Growth, figures: Row) -> None:
    """Print a table for each line, with the fitted exponents as caption."""
    for line, title in growth.titles.items():
        powers = figures["exponents"].get(line, {})
        caption = ", ".join(
            f"{name} like the power {powers[key]:.2f}"
            for key, name in growth.captions.items()
            if powers.get(key) is not None
        )
        print_rows(figures[line], growth.columns, title, caption)


def plot_growth(
    axes: Axes,
    figures: Row,
    line: str,
    over: str,
    key: str,
    label: str,
    *,
    lowest: float = 1e-9,
    **style: Any,
) -> None:
    """Plot a number of a line's rows over the growing number, with its exponent in the legend.

    Numbers below `lowest` are drawn there: the axes are logarithmic.
    """
    rows = sorted(figures[line], key=lambda row: row[over])
    power = figures["exponents"].get(line, {}).get(key)
    text = label if power is None else f"{label}: power {power:.2f}"
    x, y = [max(row[over], 1) for row in rows], [max(row[key], lowest) for row in rows]
    axes.plot(x, y, "o-", label=text, **{"ms": 5, "lw": 1.5} | style)


def growth_axes(axes: Axes, below: str, beside: str, ticks: Sequence[int]) -> None:
    """Format logarithmic axes with labels and ticks."""
    axes.set(xscale="log", yscale="log", facecolor=PAPER)
    axes.set_xlabel(below, color=INK, fontsize=9)
    axes.set_ylabel(beside, color=INK, fontsize=9)
    shown: list[int] = []
    for tick in ticks:
        if not shown or tick > 1.3 * shown[-1]:
            shown.append(tick)
    axes.set_xticks(shown, [f"{tick:,}" for tick in shown])
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_formatter(NullFormatter())
    low, high = axes.get_ylim()
    middle = math.sqrt(low * high)  # two decades at least, so that a constant looks flat
    axes.set_ylim(min(low, middle / 10), max(high, middle * 10))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.grid(True, which="major", color="#e4e0d6", lw=0.7)
    axes.tick_params(colors=INK, labelsize=8)
    for side in axes.spines.values():
        side.set_color("#c9c4b8")
    axes.legend(framealpha=0.9, facecolor=PAPER, edgecolor="none", fontsize=8)
