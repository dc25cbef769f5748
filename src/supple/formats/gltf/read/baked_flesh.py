"""Flesh that Supple has baked into a glTF file, removed as the file is read.

A baked file contains its original. If another program has saved the file, the original is lost;
shapes are then identified by names in the extras of their meshes.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from supple.errors import FormatError
from supple.formats.gltf.accessors import Accessors
from supple.formats.gltf.container import Notes, open_container, quoted
from supple.formats.gltf.document import POINTER, Document
from supple.formats.gltf.gltf_file import GltfFile, open_unchanged
from supple.formats.gltf.kept_original import last_addition, stages_before, without_curves
from supple.formats.gltf.read.animation import NODE_POINTER
from supple.formats.registry import FLESH

#: Code of notes about baked flesh.
CODE = "SUPPLE_FLESH"
#: Name of the first of a motion's shapes, as `target_names` gives it.
FIRST = re.compile(r"(?P<motion>.* )?soft 1(?P<again> \(\d+\))?")
#: Extensions that refer to morph targets by number.
NUMBERED = ("VRM", "VRMC_vrm")


def without_additions(path: Path, data: bytes, notes: Notes, curves: bool, flesh: bool) -> bytes:
    """Return a file without Supple's additions; `curves` and `flesh` keep those of their kind."""
    if not curves:
        data = without_curves(path.name, data)
    return data if flesh else _without_flesh(path, data, notes)


def _without_flesh(path: Path, data: bytes, notes: Notes) -> bytes:
    """Return a file without flesh that Supple has baked; the file itself if it has none.

    Flesh that was removed, or cannot be removed, is noted.
    """
    if FLESH.encode() not in data:
        _warn_of_names(data, notes)
        return data
    latest = last_addition(path.name, data)
    try:
        added, before = next(stages_before(path.name, data), ("", data))
    except FormatError:
        added, before = "", data
    if added == FLESH:
        notes.warn(CODE, "has flesh that Supple baked; the original is read")
        return _without_flesh(path, before, Notes(path.name))  # the original may be baked as well
    if any(FLESH in _extras(each) for each in _marked_parts(data, path.name)):
        try:
            before = _MarkedFile(path, data).removed()
        except (_LostError, LookupError, ValueError):
            pass  # reading reports the mistake
        else:
            what = "has flesh that Supple baked, and was changed since"
            notes.warn(CODE, f"{what}; shapes are removed by their names")
            return before
    elif latest is None or latest[0] != FLESH:
        return data
    what = "has flesh that Supple baked, which can no longer be separated"
    notes.warn(CODE, f"{what}; baking would add to it, so use the original")
    return data


def _warn_of_names(data: bytes, notes: Notes) -> None:
    """Warn of shapes that have names like Supple's, but no mark."""
    if b'soft 1"' not in data and b"soft 1 (" not in data:
        return
    names = (name for mesh in _meshes(data, notes.name) for name in _names(mesh))
    first = next((name for name in names if FIRST.fullmatch(name)), None)
    if first is not None:
        what = f"has shapes such as {quoted(first)}, which Supple may have baked"
        notes.warn(CODE, f"{what}; baking would add to them, so use the original")


def _meshes(data: bytes, name: str) -> list[Any]:
    """Return the meshes of an unchecked file."""
    meshes = open_container(data, Notes(name)).json.get("meshes")
    return meshes if isinstance(meshes, list) else []


def _marked_parts(data: bytes, name: str) -> list[Any]:
    """Return the meshes and nodes of an unchecked file, whose extras may mark additions."""
    nodes = open_container(data, Notes(name)).json.get("nodes")
    return [*_meshes(data, name), *(nodes if isinstance(nodes, list) else [])]


def _extras(owner: Any) -> dict[str, Any]:
    extras = owner.get("extras") if isinstance(owner, dict) else None
    return extras if isinstance(extras, dict) else {}


def _names(mesh: Any) -> list[str]:
    names = _extras(mesh).get("targetNames")
    return [str(name) for name in names] if isinstance(names, list) else []


class _LostError(Exception):
    """Shapes cannot be identified by their mark."""


class _MarkedFile:
    """Editor of a file that removes marked shapes from its meshes."""

    def __init__(self, path: Path, data: bytes) -> None:
        self.path = path
        self.accessors = Accessors(Document(path, data, Notes(path.name)))
        self.file: GltfFile = open_unchanged(path, path, data)[1]
        used = self.file.json.get("extensionsUsed", [])
        self.numbered = any(name in used for name in NUMBERED)
        #: Indices of the remaining targets, by mesh; only meshes that had marked targets.
        self.kept: dict[int, list[int]] = {}

    def removed(self) -> bytes:
        """Return the file's bytes without marked shapes and without Supple's animations."""
        for index, mesh in enumerate(self.file.part("meshes")):
            if FLESH in _extras(mesh):
                self.kept[index] = self._remove_targets(mesh)
        node_kept = {}
        for index, node in enumerate(self.file.part("nodes")):
            if node.get("mesh") in self.kept:
                node_kept[index] = self.kept[node["mesh"]]
                _keep_items(node, "weights", node_kept[index])
        obstacles = self._remove_obstacles()
        animations = [a for a in self.file.part("animations") if not _extras(a).get(FLESH)]
        for animation in animations:
            kept = (c for c in animation["channels"] if channel_target(c)[0] not in obstacles)
            animation["channels"] = [*kept]
        for animation in animations:
            self._narrow(animation, node_kept)
        self.file.json["animations"] = [a for a in animations if a["channels"]]
        if not self.file.json["animations"]:
            del self.file.json["animations"]
        for holder in (self.file.json, self.file.json["asset"]):
            _extras(holder).pop(FLESH, None)
        return self.file.to_bytes(self.path)

    def _remove_obstacles(self) -> set[int]:
        """Empty marked nodes, which show obstacles, and take them from scenes; return indices."""
        nodes = self.file.part("nodes")
        marked = {number for number, node in enumerate(nodes) if _extras(node).get(FLESH)}
        for number in marked:
            nodes[number] = {"name": str(nodes[number].get("name", ""))}
        for holder, name in [(s, "nodes") for s in self.file.part("scenes")] + [
            (node, "children") for node in nodes
        ]:
            if marked & {*holder.get(name, [])}:
                holder[name] = [number for number in holder[name] if number not in marked]
                if not holder[name]:
                    del holder[name]
        return marked

    def _remove_targets(self, mesh: dict[str, Any]) -> list[int]:
        """Remove marked targets from a mesh; return the indices of the others."""
        extras, names = mesh["extras"], _names(mesh)
        mark = extras.pop(FLESH)
        count = max(len(primitive.get("targets", [])) for primitive in mesh["primitives"])
        if not isinstance(mark, list) or (count and len(names) != count):
            raise _LostError
        remaining = [k for k, name in enumerate(names) if name not in mark]
        if self.numbered and remaining != list(range(len(remaining))):
            raise _LostError  # expressions would move the wrong targets
        for owner in (mesh, *mesh["primitives"]):
            if "targetNames" in _extras(owner):
                _keep_items(owner["extras"], "targetNames", remaining)
            if owner.get("extras") == {}:
                del owner["extras"]
        for primitive in mesh["primitives"]:
            _keep_items(primitive, "targets", remaining)
        _keep_items(mesh, "weights", remaining)
        return remaining

    def _narrow(self, animation: dict[str, Any], remaining: dict[int, list[int]]) -> None:
        """Remove weights of removed targets from an animation's channels."""
        channels = []
        for channel in animation["channels"]:
            node, path = channel_target(channel)
            if path != "weights" or node not in remaining:
                channels.append(channel)
                continue
            if not remaining[node]:
                continue
            sampler = dict(animation["samplers"][channel["sampler"]])
            rows = key_rows(self.accessors, sampler)
            values = self.accessors.raw(sampler["output"])
            if values.size % rows or values.size // rows <= max(remaining[node]):
                raise _LostError
            narrow = np.ascontiguousarray(values.reshape(rows, -1)[:, remaining[node]])
            normalized = self.accessors.describe(sampler["output"])[2]
            sampler["output"] = self.file.accessor(narrow.reshape(-1, 1), normalized=normalized)
            animation["samplers"].append(sampler)
            channels.append({**channel, "sampler": len(animation["samplers"]) - 1})
        animation["channels"] = channels


def _keep_items(owner: dict[str, Any], name: str, indices: list[int]) -> None:
    """Keep some items of a list; remove the list if none is left."""
    if name in owner:
        owner[name] = [owner[name][k] for k in indices if k < len(owner[name])]
        if not owner[name]:
            del owner[name]


def key_rows(accessors: Accessors, sampler: dict[str, Any]) -> int:
    """Return the number of rows of a sampler's values: one per key, or three in splines."""
    parts = 3 if sampler.get("interpolation") == "CUBICSPLINE" else 1
    return accessors.count(sampler["input"]) * parts


def channel_target(channel: dict[str, Any]) -> tuple[int | None, str]:
    """Return the node and path that a channel moves; the node is None if it moves no node."""
    target = channel["target"]
    pointer = target.get("extensions", {}).get(POINTER)
    text = pointer.get("pointer") if isinstance(pointer, dict) else None
    match = NODE_POINTER.fullmatch(text) if isinstance(text, str) else None
    if target["path"] == "pointer":
        return (int(match[1]), match[2]) if match is not None else (None, "pointer")
    return target.get("node"), target["path"]
