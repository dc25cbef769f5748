"""Files that commands are given and write: kinds of sources, and checks of targets.

A word on the command line names a scene, or a file whose ending says what it holds: `source_kind`
decides which, for all commands. Targets are checked before any work is done.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Literal

from supple.errors import SuppleError
from supple.formats.registry import SURFACES, TETS

SourceKind = Literal["scene", "model", "character", "body scene", "body", "mesh"]

#: Endings of model files.
CHARACTER_MODEL, BODY_MODEL = ".supple", ".stvk"
#: Bytes tried before the work begins: a full disk takes none.
_TRIED = 65_536


def source_kind(given: str) -> SourceKind:
    """Return what a word on the command line names; a file of that name goes before a scene.

    A name without an ending is taken for a scene, so that the error of a misspelt one knows which
    is near. All other files are taken for characters, whose reader knows what it can read.
    """
    from supple.scenes.bodies.elastic_scene import STVK_SCENES
    from supple.scenes.characters.character_scene import SCENES

    file = Path(given)
    suffix, there = file.suffix.lower(), file.is_file()
    if not there and given in STVK_SCENES:
        return "body scene"
    if not there and (given in SCENES or not suffix):
        return "scene"
    if suffix == BODY_MODEL:
        return "body"
    if SURFACES.find(file) is not None or TETS.find(file) is not None:
        return "mesh"
    return "model" if suffix == CHARACTER_MODEL else "character"


def is_body(given: str) -> bool:
    """Return whether a word names an elastic body rather than a character."""
    return source_kind(given) in ("body scene", "body", "mesh")


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
