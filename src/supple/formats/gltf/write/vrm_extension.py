"""VRM's extensions in a glTF file that is added to: what refers to meshes, and springs.

All that VRM says stays as it is, and its indices stay right, since things are only ever added at
the end of lists. A reader of VRM moves joints by springs, though, after the clip and over it.
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
    """Refuse to call a file .vrm that no reader of VRM would take."""
    used: frozenset[str] = getattr(character.source, "extensions_used", frozenset())
    if path.suffix.lower() == ".vrm" and not used.intersection(IS_VRM):
        raise FormatError(f"{path.name}: {character.name} is no VRM; use .glb")


def _extension(file: GltfFile, name: str) -> dict[str, Any]:
    """Return an extension of the whole file; an empty one where there is none, or no sound one."""
    found = file.json.get("extensions", {})
    found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def _dicts(owner: Any, *names: str) -> list[dict[str, Any]]:
    """Return the objects of a list that lies under these names."""
    for name in names:
        owner = owner.get(name) if isinstance(owner, dict) else None
    return [each for each in owner if isinstance(each, dict)] if isinstance(owner, list) else []


def copy_binds(file: GltfFile, mesh: int, new: int) -> None:
    """Let expressions of VRM 0.x that move a mesh move its copy, too; VRM 1.0 has nodes."""
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
    """A chain of joints that a reader of VRM swings, and its place in the file.

    `owner` is the list that has it: a spring of VRM 1.0, or a first bone of a group of 0.x.
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
        named = [joint.get("node") for joint in _dicts(spring, "joints")]
        chain = [node for node in named if isinstance(node, int) and node in label]
        if chain:
            name = str(spring.get("name") or label[chain[0]])
            yield _Spring(name, _below(nodes, chain[0]), extension["springs"], spring)
    for group in _dicts(_extension(file, VRM_0), "secondaryAnimation", "boneGroups"):
        bones: Any = group.get("bones")
        for bone in list(bones) if isinstance(bones, list) else []:
            if isinstance(bone, int) and bone in label:
                yield _Spring(label[bone], _below(nodes, bone), bones, bone)


def _below(nodes: list[dict[str, Any]], first: int) -> set[int]:
    """Return a node and all below it, which a spring carries along."""
    found, waiting = set(), [first]
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += nodes[node].get("children", [])
    return found


def give_way(file: GltfFile, moved: Set[int], drop: bool) -> list[str]:
    """Find springs that would move what was written for some joints, and drop them if asked to.

    Parameters
    ----------
    file
        With springs of VRM 0.x or 1.0, or none.
    moved
        Nodes of the joints.
    drop
        Whether those springs, and no others, are taken out.

    Returns
    -------
    list of str
        The names of those springs.
    """
    over = [spring for spring in _springs(file) if spring.nodes & moved]
    if drop:
        for spring in over:
            spring.owner[:] = [each for each in spring.owner if each != spring.entry]
        _forget(file, [spring.owner for spring in over if not spring.owner])
    return [spring.name for spring in over]


def warn_of_springs(name: str, springs: Sequence[str]) -> None:
    """Warn of springs, if any, that are left in a file of some name over what was written."""
    if springs:
        listed = ", ".join(f'"{each}"' for each in springs[:4]) + (" …" if springs[4:] else "")
        what = (
            f"{len(springs)} springs of VRM, {listed}, move"
            if springs[1:]
            else f"the spring {listed} of VRM moves"
        )
        warn(f"{name}: {what} joints over what was written for them; see --drop-springs")


def _forget(file: GltfFile, emptied: list[list[Any]]) -> None:
    """Take out lists that have become empty, which the schemas do not allow."""

    def left(owner: Any, name: str) -> bool:
        return not isinstance(owner, dict) or all(owner.get(name) is not each for each in emptied)

    extension = _extension(file, SPRINGS_1)
    if not left(extension, "springs"):
        del extension["springs"]
    secondary = _extension(file, VRM_0).get("secondaryAnimation")
    if isinstance(secondary, dict) and isinstance(secondary.get("boneGroups"), list):
        secondary["boneGroups"][:] = [g for g in secondary["boneGroups"] if left(g, "bones")]
