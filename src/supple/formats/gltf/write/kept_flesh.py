"""The original of a baked glTF file: opened to be added to, and kept in the result.

A file that needs others (buffers or pictures beside it) is kept twice: with everything inside, as
the result has it, and as it was.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from supple.errors import FormatError, SuppleWarning, warn
from supple.formats.added_records import CURVES, FLESH
from supple.formats.file_bytes import read_bytes
from supple.formats.gltf.container import MAGIC, file_below, open_container
from supple.formats.gltf.gltf_file import GltfFile, open_to_add, outside_files
from supple.formats.gltf.kept_original import (
    keep_original,
    kept_file,
    shown_record,
    stages_before,
)
from supple.formats.gltf.notes import Notes, quoted
from supple.formats.gltf.read.gltf import GltfSource
from supple.formats.registry import GLTF_SUFFIXES
from supple.saving import write_whole


class FleshedFile:
    """A character's own file while it gains flesh.

    Attributes
    ----------
    file
        The file, open, with everything it needs inside.
    """

    def __init__(self, source: GltfSource, data: bytes) -> None:
        self._outer = _outer(source, data)
        self.file = open_to_add(source.path, data)
        if self._outer is not None:
            data = self.file.glb()
            with warnings.catch_warnings():  # told of just now
                warnings.simplefilter("ignore", SuppleWarning)
                self.file = open_to_add(source.path, data)
        self._data = data
        self._length, self._animations = len(self.file.binary), len(self.file.part("animations"))

    def keep_original(self, animations: list[str], changed: bool) -> GltfFile:
        """Mark what was added, and keep the original; return the file.

        `animations` are the names of those that play flesh. A file to which nothing was added, and
        that was not `changed` otherwise, gets no record.
        """
        if changed or len(self.file.binary) > self._length:
            for animation in self.file.part("animations")[self._animations :]:
                animation.setdefault("extras", {})[FLESH] = True
            told = {"animations": animations}
            keep_original(self.file, self._data, told, FLESH, self._outer)
        return self.file


def _outer(source: GltfSource, data: bytes) -> bytes | None:
    """Return the file that needs others which a character came from; None where it needs none."""
    name = source.path.name
    if not source.flesh:
        whole = read_bytes(source.path, GLTF_SUFFIXES)
        if whole != data and _flesh_is_last(name, whole):
            return kept_file(name, whole)
    return data if outside_files(open_container(data, Notes(name)).json) else None


def _flesh_is_last(name: str, data: bytes) -> bool:
    try:
        return next(stages_before(name, data), ("", b""))[0] == FLESH
    except FormatError:
        return False


# Files without what was added to them.


def holds_gltf_flesh(path: Path) -> bool:
    """Return whether a file has flesh of Supple's, and what it was before."""
    return path.is_file() and _flesh_is_last(path.name, read_bytes(path, GLTF_SUFFIXES))


def remove_gltf_curves(path: str | Path, source: str | Path) -> dict[str, Any]:
    """Write a file as it was before curves were added to it, to the byte.

    Raises
    ------
    FormatError
        If it has none.
    """
    return _removed(Path(path), Path(source), CURVES)


def remove_gltf_flesh(path: str | Path, source: str | Path) -> dict[str, Any]:
    """Write a file as it was before flesh was baked into it, to the byte.

    Raises
    ------
    FormatError
        If it has none.
    """
    return _removed(Path(path), Path(source), FLESH)


def _removed(path: Path, source: Path, added: str) -> dict[str, Any]:
    name, what = source.name, "curves" if added == CURVES else "flesh"
    data = read_bytes(source, GLTF_SUFFIXES)
    for last, before in stages_before(name, data):
        if last == added:
            break
        other = "flesh" if added == CURVES else "curves"
        warn(f"{name}: what was added after the {what}, {other}, is taken out, too")
        data = before
    else:
        marked = FLESH.encode() in data and added == FLESH and shown_record(name, data) is None
        lost = ", and what it was before is not in it; take the original" if marked else ""
        raise FormatError(f"{name}: has no {what} of Supple's to remove{lost}")
    found = [kept_file(name, data), before]
    text = path.suffix.lower() == ".gltf"
    fitting = [each for each in found if each is not None and (each[:4] != MAGIC) == text]
    if not fitting:
        kind = source.suffix.lower() if before[:4] == MAGIC else ".gltf"
        raise FormatError(f"{path.name}: the file was a {kind}; give it that name")
    original = fitting[0]
    for uri in outside_files(open_container(original, Notes(name)).json):
        beside = file_below(path.parent, uri)
        if beside is None or not beside.is_file():
            warn(f"{path.name}: needs {quoted(uri)}, which is not there; put it beside this file")
            break
    write_whole(path, original)
    return {"bytes": len(original)}
