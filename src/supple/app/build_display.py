"""What a person sees of a build: stages while it runs, and a table at the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from supple.app.progress_bar import console
from supple.mesh.topology import counted
from supple.reduction.build_log import BuildLog

__all__ = ["build_log", "print_summary"]


class _ShownLog(BuildLog):
    """A line for every stage, with a bar, what is being done, and its time."""

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

    def tell(self, part: float, what: str) -> None:
        if self._current is not None:
            self._progress.update(self._current, completed=part, what=what)


@contextmanager
def build_log(quiet: bool = False) -> Iterator[BuildLog]:
    """A log that is shown on the terminal; one that only counts time when quiet."""
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


def print_summary(figures: dict[str, Any]) -> None:
    """A table of poses and one of totals, on standard error."""
    console.print(_poses_table(figures))
    console.print(_totals_table(figures))


def _poses_table(figures: dict[str, Any]) -> Table:
    table = Table(title=f"{figures['name']}: poses", title_justify="left")
    table.add_column("pose")
    table.add_column("aligned to")
    for heading in ("contacts", "angle °", "elastic %", "frequency ×"):
        table.add_column(heading, justify="right")
    for row in figures["pose_rows"]:
        ratio = row["frequency_ratio"]
        table.add_row(
            row["name"],
            row["parent"] or "–",
            str(row["contacts"]),
            f"{row['angle_degrees']:.1f}",
            f"{100 * row['elastic_error']:.2f}",
            "–" if ratio is None else f"{ratio:.3f}",
        )
    table.caption = "angle: median to the parent's basis; frequency: worst halfway to the parent"
    return table


def _totals_table(figures: dict[str, Any]) -> Table:
    elastic, inertial = figures["elastic_error"], figures["inertial_error"]
    between = elastic["between_poses"]
    halfway = "" if between is None else f", halfway between poses {100 * between:.2f} %"
    if elastic["quarter_way"] is not None:
        halfway += f", a quarter of the way {100 * elastic['quarter_way']:.2f} %"
    table = Table(show_header=False, box=None)
    rows = {
        "tets": f"{figures['tets']:,}",
        "modes": f"{figures['modes']} in {counted(len(figures['regions']), 'region')}, "
        f"{100 * figures['stored_fraction']:.0f} % stored",
        "elastic error": f"{100 * elastic['train']:.2f} % trained, "
        f"{100 * elastic['held_out']:.2f} % held out{halfway}",
        "inertial error": f"{100 * inertial['train']:.2f} % trained, "
        f"{100 * inertial['held_out']:.2f} % held out",
        "model": f"{figures['model_mb']:.1f} MB",
        "time": f"{figures['seconds']:.1f} s, peak memory {figures['peak_mb']} MB",
    }
    for name, value in rows.items():
        table.add_row(name, value)
    return table
