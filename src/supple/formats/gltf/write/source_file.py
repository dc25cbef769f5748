"""The glTF file that a character came from: read again, extended, and restored.

A file that needs others (buffers or images beside it) is stored twice: with everything inside, as
in the result, and unchanged.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from supple.errors import FormatError, SuppleError, SuppleWarning, warn
from supple.formats.file_bytes import read_bytes
from supple.formats.gltf.container import MAGIC, Notes, file_below, open_container, quoted
from supple.formats.gltf.gltf_file import GltfFile, open_embedded, outside_files
from supple.formats.gltf.kept_original import (
    keep_original,
    kept_file,
    last_addition,
    stages_before,
    without_curves,
)
from supple.formats.gltf.read.animation import Channel
from supple.formats.gltf.read.gltf import GltfSource, read_gltf
from supple.formats.registry import ADDED, CURVES, FLESH, GLTF_SUFFIXES
from supple.rig.character import Character
from supple.rig.protocol import optional_method
from supple.rig.skeleton.skinning import skinned_core
from supple.saving import write_whole


def loaded_again(character: Character, source: GltfSource, *, curves: bool = True) -> Character:
    """Load a character's file again; it must not have changed.

    The rig is the file's, without wrappers. Without `curves`, curves that were added to the
    file are left out. Raises FormatError if the file is missing, damaged or changed.
    """
    name = source.path.name
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SuppleWarning)
            data = source.read()
            if not curves:
                data = without_curves(name, data)
            again = read_gltf(source.path, data, character.metres_per_unit)
    except SuppleError as error:
        raise FormatError(f"{error}; it was valid when it was loaded, restore it") from error
    if not _same(character, source, again):
        raise FormatError(f"{name}: has changed since it was loaded; load it again")
    if any(primitive.node < 0 for primitive in source.primitives):
        raise FormatError(f"{name}: its mesh has no node, so nothing can animate it; add a node")
    return again


def _same(character: Character, source: GltfSource, again: Character) -> bool:
    other_source = again.source
    if not again.has_mesh or len(source.primitives) != len(other_source.primitives):
        return False
    pairs: list[tuple[Any, Any]] = [(source.joint_nodes, other_source.joint_nodes)]
    for one, other in zip(source.primitives, other_source.primitives, strict=True):
        if (one.node, one.mesh, one.primitive) != (other.node, other.mesh, other.primitive):
            return False
        pairs += [(one.welded, other.welded), (one.to_bind, other.to_bind)]
    if source.clips.keys() != other_source.clips.keys():
        return False
    for name, clip in source.clips.items():
        if len(clip.channels) != len(other_source.clips[name].channels):
            return False
        for channel, other_channel in zip(
            clip.channels, other_source.clips[name].channels, strict=True
        ):
            if _kind(channel) != _kind(other_channel):
                return False
            pairs += [(channel.times, other_channel.times), (channel.values, other_channel.values)]
    pairs += zip(_skin(character.rig), _skin(again.rig), strict=False)
    return all(np.array_equal(one, other) for one, other in pairs)


def _kind(channel: Channel) -> tuple[int, str, str]:
    return channel.node, channel.path, channel.interpolation


def _skin(rig: Any) -> list[Any]:
    """Return the arrays of a skinned rig and of its blend shapes; no arrays for other rigs."""
    parts: list[Any] = []
    while optional_method(rig, "without_shapes") is not None:
        parts.append(rig.deltas)
        rig = rig.base
    core = skinned_core(rig)
    if core is not None and core.rig is rig:
        parts += [rig.vertices, rig.joints, rig.weights, rig.inverse_bind]
    return parts


# The original, kept in the baked file.


class FleshedFile:
    """Copy of a character's file to which flesh is added; `file` has all its data inside."""

    def __init__(self, source: GltfSource, data: bytes) -> None:
        self._outer = _outer(source, data)
        self.file = open_embedded(source.path, data)
        if self._outer is not None:
            data = self.file.glb()
            with warnings.catch_warnings():  # they were given just before
                warnings.simplefilter("ignore", SuppleWarning)
                self.file = open_embedded(source.path, data)
        self._data = data
        self._length, self._animations = len(self.file.binary), len(self.file.part("animations"))

    def keep_original(self, animations: list[str], changed: bool) -> GltfFile:
        """Mark the additions and store the original; return the file.

        `animations` are the names of animations that play flesh. A file without additions that was
        not `changed` otherwise gets no record.
        """
        if changed or len(self.file.binary) > self._length:
            for animation in self.file.part("animations")[self._animations :]:
                animation.setdefault("extras", {})[FLESH] = True
            details = {"animations": animations}
            keep_original(self.file, self._data, details, FLESH, self._outer)
        return self.file


def _outer(source: GltfSource, data: bytes) -> bytes | None:
    """Return the original of a character if it refers to separate files; otherwise None."""
    name = source.path.name
    if not source.flesh:
        present = read_bytes(source.path, GLTF_SUFFIXES)
        if present != data and _flesh_is_last(name, present):
            return kept_file(name, present)
    return data if outside_files(open_container(data, Notes(name)).json) else None


def _flesh_is_last(name: str, data: bytes) -> bool:
    try:
        return next(stages_before(name, data), ("", b""))[0] == FLESH
    except FormatError:
        return False


# Removal of additions.


def holds_gltf_flesh(path: Path) -> bool:
    """Return whether flesh is Supple's last addition to a file, and can be removed."""
    return path.is_file() and _flesh_is_last(path.name, read_bytes(path, GLTF_SUFFIXES))


def remove_gltf_curves(path: str | Path, source: str | Path) -> dict[str, Any]:
    """Write `source`, as it was before curves were added, to `path`; FormatError without curves."""
    return _removed(Path(path), Path(source), CURVES)


def remove_gltf_flesh(path: str | Path, source: str | Path) -> dict[str, Any]:
    """Write `source`, as it was before flesh was baked, to `path`; FormatError without flesh."""
    return _removed(Path(path), Path(source), FLESH)


def _removed(path: Path, source: Path, added: str) -> dict[str, Any]:
    name, what = source.name, ADDED[added]
    data = read_bytes(source, GLTF_SUFFIXES)
    for last, before in stages_before(name, data):
        if last == added:
            break
        warn(f"{name}: {ADDED[last]}, added after the {what}, removed as well")
        data = before
    else:
        marked = FLESH.encode() in data and added == FLESH and last_addition(name, data) is None
        lost = (
            "does not contain its original; use the original file"
            if marked
            else f"has no {what} from Supple to remove"
        )
        raise FormatError(f"{name}: {lost}")
    originals = [kept_file(name, data), before]
    text = path.suffix.lower() == ".gltf"
    matching = [each for each in originals if each is not None and (each[:4] != MAGIC) == text]
    if not matching:
        kind = source.suffix.lower() if before[:4] == MAGIC else ".gltf"
        raise FormatError(f"{path.name}: the original is a {kind} file; use that suffix")
    original = matching[0]
    for uri in outside_files(open_container(original, Notes(name)).json):
        beside = file_below(path.parent, uri)
        if beside is None or not beside.is_file():
            warn(f"{path.name}: needs {quoted(uri)}, which is missing; put it beside this file")
            break
    write_whole(path, original)
    return {"bytes": len(original)}
