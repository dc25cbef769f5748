"""VRM extensions in a glTF file that is extended: references to meshes, and springs.

Items are only appended to lists, so that the data of VRM are unchanged and their indices valid.
Springs are an exception: readers of VRM apply them after the clip.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from supple.errors import FormatError, warn
from supple.formats.gltf.gltf_file import GltfFile
from supple.rig.character import Character

#: Extension of VRM 0.x, and of the springs of VRM 1.0.
VRM_0, SPRINGS_1 = "VRM", "VRMC_springBone"
IS_VRM = (VRM_0, "VRMC_vrm")


def check_vrm_target(path: Path, character: Character, motions: Sequence[str] = ()) -> None:
    """Raise FormatError for a .vrm target of a character that is not a VRM."""
    used: frozenset[str] = getattr(character.source, "extensions_used", frozenset())
    if path.suffix.lower() == ".vrm" and not used.intersection(IS_VRM):
        raise FormatError(f"{path.name}: {character.name} is not a VRM; use .glb")


def _extension(file: GltfFile, name: str) -> dict[str, Any]:
    """Return an extension of the file; an empty one if it is missing or invalid."""
    extensions = file.json.get("extensions", {})
    extension = extensions.get(name) if isinstance(extensions, dict) else None
    return extension if isinstance(extension, dict) else {}


def _dicts(owner: Any, *names: str) -> list[dict[str, Any]]:
    """Return the objects of the list at nested `names`; empty if there is none."""
    for name in names:
        owner = owner.get(name) if isinstance(owner, dict) else None
    return [each for each in owner if isinstance(each, dict)] if isinstance(owner, list) else []


def copy_binds(file: GltfFile, mesh: int, new: int) -> None:
    """Extend expressions of VRM 0.x from a mesh to its copy; VRM 1.0 refers to nodes."""
    vrm = _extension(file, VRM_0)
    groups = _dicts(vrm, "blendShapeMaster", "blendShapeGroups")
    first_person = vrm.get("firstPerson")
    owners = [*groups, first_person if isinstance(first_person, dict) else {}]
    for listed in (owner.get(name) for owner in owners for name in ("binds", "meshAnnotations")):
        if isinstance(listed, list):
            same = [e for e in listed if isinstance(e, dict) and e.get("mesh") == mesh]
            listed += [{**copy.deepcopy(each), "mesh": new} for each in same]


@dataclass(frozen=True)
class _Spring:
    """A chain of joints that a reader of VRM moves, and its place in the file.

    `owner` is the list that contains it: springs of VRM 1.0, or first bones of a group of 0.x.
    """

    name: str
    nodes: Set[int]
    owner: list[Any]
    entry: Any


def _springs(file: GltfFile) -> Iterator[_Spring]:
    nodes = file.part("nodes")
    label = {k: str(node.get("name") or f"node {k}") for k, node in enumerate(nodes)}
    extension = _extension(file, SPRINGS_1)
    for spring in _dicts(extension, "springs"):
        joints = [joint.get("node") for joint in _dicts(spring, "joints")]
        chain = [node for node in joints if isinstance(node, int) and node in label]
        if chain:
            name = str(spring.get("name") or label[chain[0]])
            yield _Spring(name, _below(nodes, chain[0]), extension["springs"], spring)
    for group in _dicts(_extension(file, VRM_0), "secondaryAnimation", "boneGroups"):
        bones: Any = group.get("bones")
        for bone in list(bones) if isinstance(bones, list) else []:
            if isinstance(bone, int) and bone in label:
                yield _Spring(label[bone], _below(nodes, bone), bones, bone)


def _below(nodes: list[dict[str, Any]], first: int) -> set[int]:
    """Return a node and all nodes below it."""
    nodes_below, stack = set(), [first]
    while stack:
        node = stack.pop()
        if node not in nodes_below:
            nodes_below.add(node)
            stack += nodes[node].get("children", [])
    return nodes_below


def overlapping_springs(file: GltfFile, nodes: Set[int], drop: bool) -> list[str]:
    """Return the names of springs that move any of `nodes`; remove the springs if `drop`."""
    springs = [spring for spring in _springs(file) if spring.nodes & nodes]
    if drop:
        for spring in springs:
            spring.owner[:] = [each for each in spring.owner if each != spring.entry]
        _remove_empty(file, [spring.owner for spring in springs if not spring.owner])
    return [spring.name for spring in springs]


def warn_of_springs(name: str, springs: Sequence[str]) -> None:
    """Warn of springs that are left in the file and override the written motion."""
    if springs:
        listed = ", ".join(f'"{each}"' for each in springs[:4]) + (" …" if springs[4:] else "")
        what = f"the VRM spring {listed} moves joints and overrides"
        if springs[1:]:
            what = f"{len(springs)} VRM springs, {listed}, move joints and override"
        warn(f"{name}: {what} their written motion; see --drop-springs")


def _remove_empty(file: GltfFile, empty_lists: list[list[Any]]) -> None:
    """Remove lists that have become empty, which the schemas forbid."""

    def is_empty(owner: Any, name: str) -> bool:
        return isinstance(owner, dict) and any(owner.get(name) is each for each in empty_lists)

    extension = _extension(file, SPRINGS_1)
    if is_empty(extension, "springs"):
        del extension["springs"]
    secondary = _extension(file, VRM_0).get("secondaryAnimation")
    if isinstance(secondary, dict) and isinstance(secondary.get("boneGroups"), list):
        groups = secondary["boneGroups"]
        groups[:] = [group for group in groups if not is_empty(group, "bones")]
