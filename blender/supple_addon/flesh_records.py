# SPDX-FileCopyrightText: The Supple developers
# SPDX-License-Identifier: GPL-3.0-or-later
"""Records of the data that were added to objects, by which they are removed.

Records are stored in the .blend file, which is untrusted: entries that the add-on does not write
are ignored, and only point caches in its folders next to the .blend are removed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import bpy

from .character import MARK

__all__ = ["CACHES", "RECORD", "is_our_cache", "let_go_of_caches", "move_caches", "record_of"]

#: Custom property of an object: its record, as JSON.
RECORD = "supple_flesh"
#: Fields of a clip, in addition to shape keys and the file of a point cache.
NAMES = ("action", "track", "modifier")
#: Folder of point caches next to the file; names of the command's folders end with it.
CACHES = "supple"


def record_of(obj: bpy.types.Object) -> dict[str, Any]:
    """Return the record of an object, with its valid entries only."""
    try:
        record = json.loads(obj.get(RECORD, ""))
    except (TypeError, ValueError, RecursionError):
        record = None
    if not isinstance(record, dict) or not isinstance(record.get("clips"), dict):
        record = {"clips": {}}
    record["clips"] = {name: entry for name, entry in record["clips"].items() if _is_valid(entry)}
    return record


def _is_valid(entry: Any) -> bool:
    """Return whether the add-on may have written an entry: all its names begin with the mark."""
    if not isinstance(entry, dict) or not entry.keys() <= {*NAMES, "keys", "file"}:
        return False
    keys = entry.get("keys", [])
    if not isinstance(keys, list) or not isinstance(entry.get("file", ""), str):
        return False
    names = [*keys, *(entry[name] for name in NAMES if name in entry)]
    return all(isinstance(name, str) and name.startswith(MARK) for name in names)


def is_our_cache(file: Path) -> bool:
    """Return whether a file has the folder and the name of a point cache of the add-on."""
    folder = file.parent.resolve()
    beside = bool(bpy.data.filepath) and folder.parent == Path(bpy.data.filepath).parent.resolve()
    ours = folder.name == CACHES or folder.name.endswith(f"_{CACHES}")
    return beside and ours and file.suffix == ".pc2" and f" {MARK} " in file.name


def let_go_of_caches() -> None:
    """Remove files of earlier flesh from the records: they belong to the original file."""
    for obj in bpy.data.objects:
        if RECORD in obj:
            record = record_of(obj)
            for entry in record["clips"].values():
                entry.pop("file", None)
            with suppress(AttributeError, TypeError):  # objects of a library cannot be changed
                obj[RECORD] = json.dumps(record)


def move_caches(objects: Iterable[bpy.types.Object], folder: str, new: str) -> None:
    """Set another folder of point caches next to the file, to which the caller moves them."""
    for obj in objects:
        record = record_of(obj)
        for entry in record["clips"].values():
            file = Path(bpy.path.abspath(entry.get("file", "")))
            if file.parent.name == folder:
                entry["file"] = bpy.path.relpath(str(file.parent.with_name(new) / file.name))
                obj.modifiers[entry["modifier"]].filepath = entry["file"]
        if RECORD in obj:
            obj[RECORD] = json.dumps(record)
