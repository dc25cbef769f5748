"""`supple bench bake`: characters baked with defaults, from file to file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from supple.app.baking import run_bake
from supple.app.progress_bar import first_use_message, progress_bar
from supple.errors import SuppleError
from supple.scenes.characters.character_scene import PAPERS

#: Figures of a row, what they are called, and how they are written.
COLUMNS = (
    ("character", "character", "{}"),
    ("motion", "motion", "{}"),
    ("seconds", "seconds", "{:.1f}"),
    ("vertices", "vertices", "{:,}"),
    ("size", "size m", "{:.3g}"),
    ("tets", "tets", "{:,}"),
    ("poses", "poses", "{}"),
    ("modes", "modes", "{}"),
    ("stiffness", "firmer ×", "{:g}"),
    ("build_s", "build s", "{:.1f}"),
    ("step_ms", "ms a step", "{:.2f}"),
    ("simulate_s", "simulate s", "{:.1f}"),
    ("bake_s", "bake s", "{:.1f}"),
    ("shapes", "shapes", "{}"),
    ("error_percent", "error %", "{:.2f}"),
    ("file_mb", "file MB", "{:.1f}"),
)


def measure(files: Sequence[str] = (), *, quiet: bool = False) -> list[dict[str, Any]]:
    """Bake each file, or the built-in characters, and return a row of figures for each.

    Models are built anew, whatever is kept; nothing that is written stays. A file that cannot be
    baked has a row that says why as ``failed``.
    """
    given = list(files) or list(PAPERS["xu2016"])
    first_use_message(quiet)
    rows = []
    with TemporaryDirectory() as folder, progress_bar(quiet) as progress:
        task = progress.add_task("baking", total=len(given))
        for number, each in enumerate(given):
            progress.update(task, description=_name(each))
            target = Path(folder) / f"{number}.glb"
            with _own_cache(Path(folder) / f"cache{number}"):
                rows.append(_row(each, target))
            target.unlink(missing_ok=True)
            progress.advance(task)
    return rows


def _name(given: str) -> str:
    """Return the name of a character's file, or of its folder where the file's says nothing."""
    file = Path(given)
    return file.parent.name if file.stem == "skeleton_rig" and file.parent.name else file.stem


@contextmanager
def _own_cache(folder: Path) -> Iterator[None]:
    """Use an empty cache in place of the user's."""
    before = os.environ.get("SUPPLE_CACHE")
    os.environ["SUPPLE_CACHE"] = str(folder)
    try:
        yield
    finally:
        os.environ.pop("SUPPLE_CACHE", None)
        if before is not None:
            os.environ["SUPPLE_CACHE"] = before


def _row(given: str, target: Path) -> dict[str, Any]:
    row: dict[str, Any] = {"character": _name(given)}
    try:
        found = run_bake(given, target, quiet=True)
    except SuppleError as error:
        return row | {"failed": str(error)}
    same = (
        "motion vertices size tets poses modes stiffness build_s step_ms simulate_s bake_s shapes"
    )
    row |= {name: found[name] for name in (*same.split(), "limits")}
    row["seconds"] = round((found["frames"] - 1) / found["rate"], 3)
    row["error_percent"] = round(100 * found["error"], 4)
    row["file_mb"] = round(found["bytes"] / 1e6, 3)
    return row


def _cells(row: dict[str, Any]) -> list[str]:
    return [how.format(row[name]) if name in row else "–" for name, _, how in COLUMNS]


def table(rows: Sequence[dict[str, Any]]) -> None:
    """Print the rows for people."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    shown = Table(title="Baked with defaults")
    for name, heading, _ in COLUMNS:
        shown.add_column(heading, justify="left" if name in ("character", "motion") else "right")
    for row in rows:
        shown.add_row(*map(escape, _cells(row)))
    console = Console()
    console.print(shown)
    for row in rows:
        if "failed" in row:
            console.print(f"{row['character']}: {row['failed']}", markup=False)


def markdown(rows: Sequence[dict[str, Any]]) -> str:
    """Return the rows as a table for a page of documentation."""
    sides = [":--" if name in ("character", "motion") else "--:" for name, _, _ in COLUMNS]
    lines = [[heading for _, heading, _ in COLUMNS], sides, *map(_cells, rows)]
    escaped = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    return "".join(f"| {' | '.join(line)} |\n" for line in escaped)
