"""Builder of small glTF files with any kind of accessor, sampler and defect."""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np

TYPES = {1: "SCALAR", 2: "VEC2", 3: "VEC3", 4: "VEC4", 16: "MAT4"}
COMPONENTS = {"b": 5120, "B": 5121, "h": 5122, "H": 5123, "I": 5125, "f": 5126}


class Builder:
    """Builder of JSON and buffers, one buffer for each accessor."""

    def __init__(self) -> None:
        self.json: dict[str, Any] = {"asset": {"version": "2.0"}}
        self.buffers: list[bytes] = []

    def add(self, name: str, item: dict[str, Any]) -> int:
        self.json.setdefault(name, []).append(item)
        return len(self.json[name]) - 1

    def view(self, data: bytes, **more: Any) -> int:
        self.buffers.append(data)
        self.add("buffers", {"byteLength": len(data)})
        view = {"buffer": len(self.buffers) - 1, "byteLength": len(data), **more}
        return self.add("bufferViews", view)

    def accessor(self, values: Any, letter: str = "f", pad: int = 0, **more: Any) -> int:
        """Values of any component type, tightly packed or with `pad` bytes between elements."""
        array = np.atleast_2d(np.asarray(values))
        if np.ndim(values) == 1:
            array = array.T
        rows = [struct.pack(f"<{len(row)}{letter}", *row.tolist()) + bytes(pad) for row in array]
        stride = {"byteStride": len(rows[0])} if pad else {}
        described = {
            "bufferView": self.view(b"".join(rows), **stride),
            "componentType": COMPONENTS[letter],
            "count": len(array),
            "type": TYPES[array.shape[1]],
            **more,
        }
        if array.shape[1] in (1, 3):
            lowest, highest = array.min(axis=0), array.max(axis=0)
            described |= {"min": lowest.tolist(), "max": highest.tolist()}
        return self.add("accessors", described)

    def animate(self, node: int, path: str, times: Any, values: Any, how: str = "LINEAR") -> None:
        if "animations" not in self.json:
            self.add("animations", {"name": "clip", "channels": [], "samplers": []})
        clip = self.json["animations"][0]
        clip["samplers"].append(
            {
                "input": self.accessor(np.asarray(times, dtype=float)),
                "output": self.accessor(np.asarray(values, dtype=float)),
                "interpolation": how,
            }
        )
        target = {"node": node, "path": path}
        clip["channels"].append({"sampler": len(clip["samplers"]) - 1, "target": target})

    def save_gltf(self, path: Path) -> Path:
        """The first buffer inline, the others as files beside."""
        for index, (buffer, data) in enumerate(
            zip(self.json.get("buffers", []), self.buffers, strict=True)
        ):
            if index == 0:
                text = base64.b64encode(data).decode()
                buffer["uri"] = f"data:application/octet-stream;base64,{text}"
            else:
                buffer["uri"] = f"part%20{index}.bin"
                (path.parent / f"part {index}.bin").write_bytes(data)
        path.write_text(json.dumps(self.json))
        return path

    def save_glb(self, path: Path) -> Path:
        """All buffers as one binary chunk."""
        whole, starts = b"", []
        for data in self.buffers:
            starts.append(len(whole))
            whole += data + bytes(-len(data) % 4)
        tree = json.loads(json.dumps(self.json))
        for view in tree.get("bufferViews", []):
            view["byteOffset"] = starts[view["buffer"]] + view.get("byteOffset", 0)
            view["buffer"] = 0
        if whole:
            tree["buffers"] = [{"byteLength": len(whole)}]
        text = json.dumps(tree).encode()
        text += b" " * (-len(text) % 4)
        body = struct.pack("<II", len(text), 0x4E4F534A) + text
        if whole:
            body += struct.pack("<II", len(whole), 0x004E4942) + whole
        path.write_bytes(b"glTF" + struct.pack("<II", 2, 12 + len(body)) + body)
        return path


OCTAHEDRON = np.array(
    [[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]], dtype=float
)
FACES = np.array(
    [[0, 2, 4], [2, 1, 4], [1, 3, 4], [3, 0, 4], [2, 0, 5], [1, 2, 5], [3, 1, 5], [0, 3, 5]]
)


def turn(axis: int, angle: float) -> list[float]:
    quaternion = [0.0, 0.0, 0.0, float(np.cos(angle / 2))]
    quaternion[axis] = float(np.sin(angle / 2))
    return quaternion


def skinned_octahedron(**primitive: Any) -> Builder:
    """A closed body on two joints under a scaled and turned armature, with a moving hip."""
    b = Builder()
    weights = np.clip((OCTAHEDRON[:, 1] + 1) / 2, 0, 1)
    attributes = {
        "POSITION": b.accessor(OCTAHEDRON),
        "JOINTS_0": b.accessor(np.tile([0, 1, 0, 0], (6, 1)), "B"),
        "WEIGHTS_0": b.accessor(np.column_stack([1 - weights, weights, np.zeros(6), np.zeros(6)])),
    }
    mesh = {
        "attributes": attributes,
        "indices": b.accessor(FACES.ravel(), "H"),
        **primitive,
    }
    b.add("meshes", {"name": "body", "primitives": [mesh]})
    inverse = np.tile(np.eye(4), (2, 1, 1))
    inverse[0, :3, 3], inverse[1, :3, 3] = (0, 1, 0), (0, 0, 0.5)
    stored = inverse.transpose(0, 2, 1).reshape(2, 16)
    b.add("skins", {"joints": [2, 3], "inverseBindMatrices": b.accessor(stored)})
    b.add("nodes", {"name": "shown", "mesh": 0, "skin": 0, "translation": [9, 9, 9]})
    armature = {"scale": [0.5] * 3, "rotation": turn(0, -1.5), "children": [2]}
    b.add("nodes", {"name": "armature", **armature})
    b.add("nodes", {"name": "hip", "translation": [0, -1, 0], "children": [3]})
    b.add("nodes", {"name": "head", "translation": [0, 1, -0.4], "rotation": turn(2, 0.3)})
    b.json["scenes"] = [{"nodes": [0, 1]}]
    return b
