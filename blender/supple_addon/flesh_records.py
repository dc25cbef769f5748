# SPDX-FileCopyrightText: The Supple developers
# SPDX-License-Identifier: GPL-3.0-or-later
"""Records of flesh: what was added to an object, which is taken away by them.

They lie in the file, and a file may come from anybody: what we never write in them is left out,
and no file is removed but a point cache in a folder of ours beside the .blend.
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
#: What it names of a clip, beside shape keys and the file of a point cache.
NAMES = ("action", "track", "modifier")
#: Folder of point caches, beside the file; names of the command's end with it.
CACHES = "supple"


def record_of(obj: bpy.types.Object) -> dict[str, Any]:
    """Return what was added to an object, as far as we may have written it."""
    try:
        found = json.loads(obj.get(RECORD, ""))
    except (TypeError, ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("clips"), dict):
        found = {"clips": {}}
    found["clips"] = {name: said for name, said in found["clips"].items() if _sound(said)}
    return found


def _sound(said: Any) -> bool:
    """Return whether this is what we say of a clip: all that we add is called after us."""
    if not isinstance(said, dict) or not said.keys() <= {*NAMES, "keys", "file"}:
        return False
    keys = said.get("keys", [])
    if not isinstance(keys, list) or not isinstance(said.get("file", ""), str):
        return False
    named = [*keys, *(said[name] for name in NAMES if name in said)]
    return all(isinstance(each, str) and each.startswith(MARK) for each in named)


def is_our_cache(file: Path) -> bool:
    """Return whether a file lies where we write point caches, and is called as they are."""
    folder = file.parent.resolve()
    beside = bool(bpy.data.filepath) and folder.parent == Path(bpy.data.filepath).parent.resolve()
    ours = folder.name == CACHES or folder.name.endswith(f"_{CACHES}")
    return beside and ours and file.suffix == ".pc2" and f" {MARK} " in file.name


def let_go_of_caches() -> None:
    """Forget files of earlier flesh: they are the original's, and stay with it."""
    for obj in bpy.data.objects:
        if RECORD in obj:
            record = record_of(obj)
            for said in record["clips"].values():
                said.pop("file", None)
            with suppress(AttributeError, TypeError):  # a library's are not ours to change
                obj[RECORD] = json.dumps(record)


def move_caches(objects: Iterable[bpy.types.Object], folder: str, new: str) -> None:
    """Say that point caches lie in another folder beside the file, where somebody moves them."""
    for obj in objects:
        record = record_of(obj)
        for said in record["clips"].values():
            file = Path(bpy.path.abspath(said.get("file", "")))
            if file.parent.name == folder:
                said["file"] = bpy.path.relpath(str(file.parent.with_name(new) / file.name))
                obj.modifiers[said["modifier"]].filepath = said["file"]
        if RECORD in obj:
            obj[RECORD] = json.dumps(record)
