"""Checks of files that commands write, before any work is done."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from supple.engines.engine import BODY_MODEL
from supple.errors import SuppleError

#: Bytes that are written as a test: a full disk takes none.
_TRIED = 65_536


def model_target(given: str, output: Path | None, suffix: str) -> Path:
    """Return the path of a model file, by default the source's name in the current folder.

    Raises
    ------
    SuppleError
        If it has another ending, or cannot be written.
    """
    target = Path(Path(given).stem + suffix) if output is None else output
    if target.suffix.lower() != suffix:
        what = "a body's file" if suffix == BODY_MODEL else "a model file"
        raise SuppleError(f"{target}: {what} ends in {suffix}")
    if not target.parent.is_dir():
        raise SuppleError(f"{target}: there is no folder {target.parent}")
    _check_access(target)
    return target


def checked_sheet(path: Path) -> Path:
    """Return the path of a picture; SuppleError if none can be written there."""
    if path.suffix.lower() != ".png" or not path.parent.is_dir():
        raise SuppleError(f"{path}: a sheet is a .png file in a folder that exists")
    _check_access(path)
    return path


def _check_access(target: Path) -> None:
    if target.is_dir() or not os.access(target.parent, os.W_OK):
        raise SuppleError(f"{target}: cannot be written")  # better now than after the work


def check_place(output: Path, source: Path | None = None) -> None:
    """Refuse a target that is the source or no file, or whose folder takes no bytes."""
    try:
        if output.exists() and not output.is_file():
            raise SuppleError(f"{output}: cannot be written; it is no file")
        if source is not None and output.exists() and source.exists() and output.samefile(source):
            raise SuppleError(f"{output}: is what is baked; give the result another name")
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
            file.write(bytes(_TRIED))
            file.flush()
            os.fsync(file.fileno())
    finally:
        with contextlib.suppress(OSError):
            os.unlink(name)
