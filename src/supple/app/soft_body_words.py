"""Handles, their density and bones of a soft skeleton, from the words of a command."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from supple.app.options import by_parameter
from supple.errors import FormatError, SuppleError
from supple.formats.file_bytes import read_text

#: Most handles in a file, and its fields.
MOST_HANDLES = 100_000
FIELDS = ("count", "vertices", "points", "mirror")


def soft_body_values(words: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of the builder of soft skeletons for words of a command; files are read."""
    values: dict[str, Any] = {}
    if "handles" in words:
        values["handles"] = handles_of(words["handles"])
    if "denser" in words:
        values["denser"] = _densities(words["denser"])
    if "skeleton" in words:
        from supple.formats.smpl.bone_file import read_bone_meshes

        values["skeleton"] = read_bone_meshes(words["skeleton"])
    return values


def handles_of(word: str) -> Any:
    """Return handles for a number, vertices with commas, or a .json file.

    >>> handles_of("90")
    90
    >>> handles_of("10,20,30")
    [10, 20, 30]
    """
    if word.lower().endswith(".json"):
        return _file_handles(Path(word))
    try:
        numbers = [int(each) for each in word.split(",")]
    except ValueError:
        raise SuppleError(
            f"--handles {word[:60]}: use a number, vertices with commas, or a .json file"
        ) from None
    return numbers[0] if len(numbers) == 1 else numbers


def _file_handles(path: Path) -> Any:
    from supple.engines.soft_skeleton.flesh.handles import Handles

    try:
        handles = json.loads(read_text(path, (".json",)))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path.name}: is not JSON ({str(error)[:80]})") from None
    fields = handles if isinstance(handles, dict) else {_list_field(handles): handles}
    unknown = sorted(set(fields) - set(FIELDS))
    wrong = not all(isinstance(each, list | int) for each in fields.values())
    if unknown or wrong or not isinstance(fields.get("mirror", True), bool):
        raise FormatError(
            f"{path.name}: must be a list of vertices or of points [x, y, z], or an object with "
            f"vertices or points, and mirror{': not ' + unknown[0][:40] if unknown else ''}"
        )
    for name in ("vertices", "points"):
        if isinstance(fields.get(name), list) and len(fields[name]) > MOST_HANDLES:
            raise FormatError(f"{path.name}: has more than {MOST_HANDLES:,} handles")
    try:
        return Handles(**fields)
    except SuppleError as error:
        raise FormatError(f"{path.name}: {error}") from None


def _list_field(given: Any) -> str:
    """Return the field of a plain list: points if its first entry is a list."""
    nested = isinstance(given, list) and given and isinstance(given[0], list)
    return "points" if nested else "vertices"


def _densities(words: Sequence[str]) -> dict[str, float]:
    """Return densities by bone from words such as ``hand*=3``."""
    densities = by_parameter("--denser", words)
    if isinstance(densities, float):
        raise SuppleError("--denser needs BONE=NUMBER, such as 'hand*=3'")
    return densities
