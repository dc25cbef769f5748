"""USD files without curves or flesh that Supple wrote: the files below."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from supple.errors import FormatError, warn
from supple.formats.added_records import ADDED, CURVES, FLESH
from supple.formats.file_bytes import read_bytes
from supple.formats.registry import USD_SUFFIXES
from supple.formats.usd.kept_layers import LayersBelow, layer_record
from supple.mesh.topology import counted
from supple.saving import write_whole


def holds_usd_flesh(path: Path) -> bool:
    """Return whether a file is a layer with flesh, or a package of one with its original."""
    if find_spec("pxr") is None or not path.is_file():
        return False
    try:
        record = layer_record(path)
    except FormatError:
        return False  # told as it is read
    return record is not None and record["added"] == FLESH


def remove_usd_curves(path: str | Path, source: str | Path) -> dict[str, Any]:
    """Write the file that a layer with curves is over, to the byte."""
    return _removed(Path(path), Path(source), CURVES)


def remove_usd_flesh(path: str | Path, source: str | Path) -> dict[str, Any]:
    """Write the file that a layer with flesh is over, to the byte."""
    return _removed(Path(path), Path(source), FLESH)


def _removed(path: Path, source: Path, added: str) -> dict[str, Any]:
    read_bytes(source, USD_SUFFIXES)  # or an error that says why not
    with LayersBelow(source) as below:
        while (record := layer_record(below.path)) is not None:
            below.descend(record)
            if record["added"] == added:
                break
            other, what = ADDED[record["added"]], ADDED[added]
            warn(f"{source.name}: what was added after the {what}, {other}, is taken out, too")
        else:
            raise FormatError(f"{source.name}: has no {ADDED[added]} of Supple's to remove")
        _check_target(path, source, below)
        data = read_bytes(below.path, USD_SUFFIXES)
        write_whole(path, data)
    return {"bytes": len(data)}


def _check_target(path: Path, source: Path, below: LayersBelow) -> None:
    """Refuse a name of another kind; warn of files that the original needs."""
    if not below.exact:
        raise FormatError(f"{source.name}: has parts of its original, not all of it; unzip it")
    if path.suffix.lower() != below.path.suffix.lower():
        there = "inside it; give that" if below.inside else "untouched; take that, or give it"
        raise FormatError(
            f"{path.name}: {source.name} is a layer over {below.path.name}, which is {there} a name"
            f" that ends in {below.path.suffix}"
        )
    folder = below.path.parent
    others = sum(each.is_file() for each in folder.rglob("*")) - 1 if below.inside else 0
    if others > 0:
        needed = f"{counted(others, 'file')} that {below.path.name} needs"
        warn(f"{path.name}: {needed} {'is' if others == 1 else 'are'} in {source.name}; unzip that")
