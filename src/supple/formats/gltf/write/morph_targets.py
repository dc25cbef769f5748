"""Morph targets added to the meshes of a glTF file."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Singles
from supple.formats.added_records import FLESH
from supple.formats.gltf.accessors import COMPONENTS, Accessors
from supple.formats.gltf.document import DRACO, Document
from supple.formats.gltf.draco import decode_draco
from supple.formats.gltf.gltf_file import CORNERS, VERTICES, GltfFile
from supple.formats.gltf.write.vrm_extension import copy_binds
from supple.rig.baked_motion import BakedMotion


@dataclass
class NewTargets:
    """Offsets (b, n, 3) that a primitive gains, in its own space; of normals too if wanted."""

    positions: Singles
    normals: Singles | None = None


def own_mesh(file: GltfFile, node: int) -> dict[str, Any]:
    """Return the mesh of a node alone: a copy of the same data if other nodes show it, too."""
    nodes = file.part("nodes")
    index = nodes[node]["mesh"]
    if any(other.get("mesh") == index for k, other in enumerate(nodes) if k != node):
        new = file.add("meshes", copy.deepcopy(file.part("meshes")[index]))
        copy_binds(file, index, new)
        nodes[node]["mesh"] = index = new
    return file.part("meshes")[index]


def add_targets(
    file: GltfFile, mesh: dict[str, Any], new: dict[int, NewTargets], names: list[str]
) -> int:
    """Add targets to a mesh, by primitive; primitives that have none of them get zeros.

    Returns
    -------
    int
        How many targets the mesh had before.
    """
    primitives = mesh["primitives"]
    before = max(len(primitive.get("targets", [])) for primitive in primitives)
    for number, primitive in enumerate(primitives):
        if "POSITION" not in primitive["attributes"]:
            continue  # shows nothing
        _Targets(file, primitive).add(before, new.get(number), len(names))
    given = [*mesh.get("weights", []), *[0.0] * before][:before]
    mesh["weights"] = [*given, *[0.0] * len(names)]
    _name_targets(mesh, before, names)
    return before


class _Targets:
    """The targets of one primitive, all with the same attributes.

    Some viewers take a missing attribute of a target for the primitive's own, not for no change.
    """

    def __init__(self, file: GltfFile, primitive: dict[str, Any]) -> None:
        self.file, self.primitive = file, primitive
        at = primitive["attributes"]["POSITION"]
        self.count = file.part("accessors")[at]["count"]
        self._zeros: dict[int, int] = {}

    def add(self, before: int, new: NewTargets | None, count: int) -> None:
        targets = list(self.primitive.get("targets", []))
        targets += [{} for _ in range(before - len(targets))]
        added: list[dict[str, int]] = [{} for _ in range(count)]
        if new is not None:
            self._fill(added, "POSITION", new.positions)
            if new.normals is not None:
                self._fill(added, "NORMAL", new.normals)
        names = dict.fromkeys(["POSITION", *(name for t in [*targets, *added] for name in t)])
        for target in [*targets, *added]:
            for name in names:
                if name not in target:
                    target[name] = self._nothing(name)
        self.primitive["targets"] = targets + added

    def _fill(self, targets: list[dict[str, int]], name: str, values: Singles) -> None:
        made = self.file.accessors(values, bounds=name == "POSITION", target=VERTICES)
        for target, accessor in zip(targets, made, strict=True):
            target[name] = accessor

    def _nothing(self, name: str) -> int:
        """Return an accessor of no change, as wide as the attribute; colours may have an alpha."""
        own = self.primitive["attributes"].get(name)
        wide = own is not None and self.file.part("accessors")[own]["type"] == "VEC4"
        width = 4 if wide and name.startswith("COLOR") else 2 if name.startswith("TEXCOORD") else 3
        if width not in self._zeros:
            zeros = np.zeros((self.count, width), np.float32)
            self._zeros[width] = self.file.accessor(zeros, bounds=True, target=VERTICES)
        return self._zeros[width]


def _name_targets(mesh: dict[str, Any], before: int, names: list[str]) -> None:
    for owner in (mesh, *mesh["primitives"]):  # VRM 0.x has names of primitives, others of meshes
        extras = owner.setdefault("extras", {}) if owner is mesh else owner.get("extras")
        if not isinstance(extras, dict) or (owner is not mesh and "targetNames" not in extras):
            continue  # somebody's own; there is no room for names
        extras["targetNames"] = _with_names(extras.get("targetNames"), before, names)
        if owner is mesh:  # by which they are known where the record is lost
            extras[FLESH] = extras["targetNames"][before:]


def _with_names(old: Any, before: int, names: list[str]) -> list[str]:
    known = [name for name in old if isinstance(name, str)] if isinstance(old, list) else []
    known += [f"target_{k}" for k in range(len(known), before)]
    return [*known[:before], *unused_names(names, known)]


def target_names(bakes: Sequence[BakedMotion], count: int) -> list[str]:
    """Return names of so many targets that play these motions."""
    name = bakes[0].motion.name if len(bakes) == 1 else ""
    return [f"{name} soft {number + 1}".strip() for number in range(count)]


def played_names(names: list[str]) -> dict[str, Any]:
    """Return the figure that names the animations which play baked motions."""
    return {"animation": names[0]} if len(names) == 1 else {"animations": names}


def unused_names(names: list[str], taken: list[str]) -> list[str]:
    """Return the names, with a number behind those that are taken."""
    result: list[str] = []
    for name in names:
        candidate, number = name, 2
        while candidate in taken or candidate in result:
            candidate, number = f"{name} ({number})", number + 1
        result.append(candidate)
    return result


def unpack_draco(
    file: GltfFile, document: Document, accessors: Accessors, mesh: dict[str, Any]
) -> int:
    """Write compressed primitives of a mesh plainly: vertices of a target follow their order."""
    count = 0
    for primitive in mesh["primitives"]:
        if DRACO not in primitive.get("extensions", {}):
            continue
        n = accessors.count(primitive["attributes"]["POSITION"])
        attributes, corners = decode_draco(document, primitive, n)
        for name, values in attributes.items():
            if name in primitive["attributes"]:
                _give_data(file, primitive["attributes"][name], values, VERTICES)
        if "indices" not in primitive:
            primitive["indices"] = file.accessor(corners.astype(np.uint32)[:, None], target=CORNERS)
        else:
            file.part("accessors")[primitive["indices"]]["count"] = len(corners)
            _give_data(file, primitive["indices"], corners[:, None], CORNERS)
        primitive.pop("mode", None)  # decoded as triangles, whatever it was
        del primitive["extensions"][DRACO]
        if not primitive["extensions"]:
            del primitive["extensions"]
        count += 1
    return count


def _give_data(file: GltfFile, index: int, values: NDArray[Any], target: int) -> None:
    """Give bytes to an accessor that had none of its own."""
    described = file.part("accessors")[index]
    data = np.ascontiguousarray(values, COMPONENTS[described["componentType"]])
    width = -(-data.shape[1] * data.itemsize // 4) * 4
    more: dict[str, Any] = {"target": target}
    if target == VERTICES and width != data.shape[1] * data.itemsize:
        # Vertex attributes begin at multiples of four.
        wide = np.zeros((len(data), width), np.uint8)
        wide[:, : data.shape[1] * data.itemsize] = data.view(np.uint8).reshape(len(data), -1)
        described["bufferView"] = file.view(wide.tobytes(), byteStride=width, **more)
    else:
        described["bufferView"] = file.view(data.tobytes(), **more)
    described.pop("byteOffset", None)
    for key, found in (("min", data.min(axis=0)), ("max", data.max(axis=0))):
        if key in described:  # compression moved them a little
            described[key] = found.tolist()


def forget_draco(file: GltfFile) -> None:
    """Take the extension out of the lists where nothing uses it any more."""
    for mesh in file.part("meshes"):
        if any(DRACO in p.get("extensions", {}) for p in mesh["primitives"]):
            return
    for name in ("extensionsUsed", "extensionsRequired"):
        left = [e for e in file.part(name) if e != DRACO]
        if name in file.json:
            file.json[name] = left
            if not left:
                del file.json[name]
