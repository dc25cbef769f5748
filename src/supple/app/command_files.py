"""Results of commands: checks of files before any work, removal from files, printed summaries."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from supple.engines.engine import BODY_MODEL
from supple.errors import SuppleError
from supple.playback.progress_bar import console

#: Bytes that are written as a test, which fails on a full disk.
_TRIAL_BYTES = 65_536


def model_target(given: str, output: Path | None, suffix: str) -> Path:
    """Return the path of a model file, by default the source's name in the current folder.

    SuppleError if it has another suffix or cannot be written.
    """
    target = Path(Path(given).stem + suffix) if output is None else output
    if target.suffix.lower() != suffix:
        what = "a body's file" if suffix == BODY_MODEL else "a model file"
        raise SuppleError(f"{target}: is not a name for {what}; use one that ends in {suffix}")
    if not target.parent.is_dir():
        raise SuppleError(f"{target}: there is no folder {target.parent}")
    _check_access(target)
    return target


def checked_sheet(path: Path) -> Path:
    """Return the path of a picture; SuppleError if it cannot be written."""
    if path.suffix.lower() != ".png":
        raise SuppleError(f"{path}: pictures are written as .png; use a name that ends in it")
    if not path.parent.is_dir():
        raise SuppleError(f"{path}: there is no folder {path.parent}")
    _check_access(path)
    return path


def checked_page(path: Path, what: str) -> Path:
    """Return the path of an HTML page; SuppleError if it cannot be written."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise SuppleError(f"{path}: is not a name for {what}; use one that ends in .html")
    check_place(path)
    return path


def _check_access(target: Path) -> None:
    if target.is_dir() or not os.access(target.parent, os.W_OK):
        raise SuppleError(
            f"{target}: cannot be written; it is a folder, or its folder is read-only"
        )


def check_place(output: Path, source: Path | None = None) -> None:
    """Refuse a target that is the source or a folder, or whose folder cannot be written to."""
    try:
        if output.exists() and not output.is_file():
            raise SuppleError(f"{output}: cannot be written; it is not a file")
        if source is not None and output.exists() and source.exists() and output.samefile(source):
            raise SuppleError(f"{output}: is the source file; give the result another name")
        if not output.parent.is_dir():
            raise SuppleError(f"{output}: there is no folder {output.parent}")
        _try_to_write(output.parent)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise SuppleError(f"{output}: cannot be written ({why})") from None


def _try_to_write(folder: Path) -> None:
    handle, name = tempfile.mkstemp(prefix=".", suffix=".part", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(bytes(_TRIAL_BYTES))
            file.flush()
            os.fsync(file.fileno())
    finally:
        with contextlib.suppress(OSError):
            os.unlink(name)


def run_removal(
    remove: Callable[[Path, Path], dict[str, Any]],
    what: str,
    source: Path,
    output: Path | None,
    *,
    quiet: bool = False,
) -> dict[str, Any]:
    """Restore a file with ``remove(target, source)``, in place without `output`.

    Return its path and size. `what` names the removed part in the message.
    """
    target = source if output is None else output
    if not source.is_file():
        raise SuppleError(f"{source}: there is no such file")
    check_place(target)
    figures = remove(target, source)
    if not quiet:
        console.print(f"wrote {target}, without {what}", markup=False)
    return {"output": str(target), "bytes": figures["bytes"]}


def print_chosen_motion(names: Sequence[str], chosen: str, test_motion: str, hint: str) -> None:
    """Print the name of the motion chosen by default, and the names of the others."""
    others = [name for name in names if name != chosen]
    if not names:
        console.print(f'no motion; "{test_motion}" shakes and tilts the character', markup=False)
    elif others:
        more = ", ".join(others[:8]) + (" …" if len(others) > 8 else "")
        motion = f'motion "{chosen}", the liveliest of {len(names)}'
        console.print(f"{motion}; {hint}: {more}", markup=False)


def print_rows(rows: Iterable[tuple[str, str]]) -> None:
    """Print titles and texts as a table, on standard error."""
    table = Table(show_header=False, box=None)
    for title, text in rows:
        table.add_row(title, escape(text))
    console.print(table)
