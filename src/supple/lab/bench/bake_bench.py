"""`supple bench bake`: characters baked with defaults, from file to file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from supple.app.baking import run_bake
from supple.app.options import BakeOptions
from supple.errors import SuppleError
from supple.lab.bench.case_runner import Cells, Row, cell_text, print_rows, run_cases
from supple.scenes.characters.character_scene import PAPERS

COLUMNS: Cells = {
    "character": ("character", ""),
    "motion": ("motion", ""),
    "seconds": ("seconds", ".1f"),
    "vertices": ("vertices", ","),
    "size m": ("size", ".3g"),
    "tets": ("tets", ","),
    "poses": ("poses", ""),
    "modes": ("modes", ""),
    "firmer ×": ("stiffness", "g"),
    "build s": ("build_s", ".1f"),
    "ms a step": ("step_ms", ".2f"),
    "simulate s": ("simulate_s", ".1f"),
    "bake s": ("bake_s", ".1f"),
    "shapes": ("shapes", ""),
    "error %": ("error_percent", ".2f"),
    "file MB": ("file_mb", ".1f"),
}


def measure(files: Sequence[str] = (), *, quiet: bool = False) -> list[Row]:
    """Bake each file, or the built-in characters, without the cache; return a row for each.

    The row of a file that cannot be baked has the error as ``failed``.
    """
    sources = list(files) or list(PAPERS["xu2016"])
    with TemporaryDirectory() as folder:
        return run_cases(
            [
                (_name(source), partial(_row, source, Path(folder), number))
                for number, source in enumerate(sources)
            ],
            quiet=quiet,
        )


def _name(source: str) -> str:
    """Return the name of a character's file, or of its folder for a file ``skeleton_rig``."""
    file = Path(source)
    return file.parent.name if file.stem == "skeleton_rig" and file.parent.name else file.stem


@contextmanager
def _empty_cache(folder: Path) -> Iterator[None]:
    """Use `folder` as Supple's cache inside the ``with`` block."""
    before = os.environ.get("SUPPLE_CACHE")
    os.environ["SUPPLE_CACHE"] = str(folder)
    try:
        yield
    finally:
        os.environ.pop("SUPPLE_CACHE", None)
        if before is not None:
            os.environ["SUPPLE_CACHE"] = before


def _row(source: str, folder: Path, number: int) -> Row:
    row: Row = {"character": _name(source)}
    target = folder / f"{number}.glb"
    try:
        with _empty_cache(folder / f"cache{number}"):
            figures = run_bake(source, target, BakeOptions(quality="live"), quiet=True)
    except SuppleError as error:
        return row | {"failed": str(error)}
    finally:
        target.unlink(missing_ok=True)
    same = (
        "motion vertices size tets poses modes stiffness build_s step_ms simulate_s bake_s shapes"
    )
    row |= {name: figures[name] for name in (*same.split(), "limits")}
    row["seconds"] = round((figures["frames"] - 1) / figures["rate"], 3)
    row["error_percent"] = round(100 * figures["error"], 4)
    row["file_mb"] = round(figures["bytes"] / 1e6, 3)
    return row


def table(rows: Sequence[Row]) -> None:
    """Print the rows, and the errors of characters that cannot be baked."""
    print_rows(rows, COLUMNS, "Baked with defaults", left=2)
    for row in rows:
        if "failed" in row:
            print(f"{row['character']}: {row['failed']}")


def markdown(rows: Sequence[Row]) -> str:
    """Return the rows as a Markdown table."""
    sides = [":--" if name in ("character", "motion") else "--:" for name in COLUMNS]
    cells = [[cell_text(row, cell) for cell in COLUMNS.values()] for row in rows]
    escaped = [
        [cell.replace("|", "\\|") for cell in line] for line in [list(COLUMNS), sides, *cells]
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in escaped)
