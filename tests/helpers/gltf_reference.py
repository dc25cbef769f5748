"""Independent glTF evaluator, a direct implementation of the specification.

Slow and trusting: it is for sound files, and says what the loader ought to say.
"""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path
from urllib.parse import unquote

import numpy as np

FORMATS = {5120: "b", 5121: "B", 5122: "h", 5123: "H", 5125: "I", 5126: "f"}
WIDTHS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4, "MAT4": 16}
DIVISORS = {5120: 127, 5121: 255, 5122: 32767, 5123: 65535}


class Reference:
    """World positions of all meshes of a file, in its units, at any time of any clip."""

    def __init__(self, path: Path) -> None:
        data = path.read_bytes()
        binary = b""
        if data[:4] == b"glTF":
            size = struct.unpack_from("<I", data, 12)[0]
            self.json = json.loads(data[20 : 20 + size])
            binary = data[28 + size :]
        else:
            self.json = json.loads(data)
        self.buffers = []
        for buffer in self.json.get("buffers", []):
            uri = buffer.get("uri")
            if uri is None:
                self.buffers.append(binary)
            elif uri.startswith("data:"):
                self.buffers.append(base64.b64decode(uri.split(",", 1)[1]))
            else:
                self.buffers.append((path.parent / unquote(uri)).read_bytes())
        self.parents = {
            child: index
            for index, node in enumerate(self.json["nodes"])
            for child in node.get("children", [])
        }
        self._cache: dict[int, np.ndarray] = {}

    def accessor(self, index: int) -> np.ndarray:
        if index not in self._cache:
            described = self.json["accessors"][index]
            kind, width = described["componentType"], WIDTHS[described["type"]]
            values = np.zeros((described["count"], width))
            if "bufferView" in described:
                values = self.rows(described, described["count"], width, kind)
            if "sparse" in described:
                sparse = described["sparse"]
                where, what = sparse["indices"], sparse["values"]
                at = self.rows(where, sparse["count"], 1, where["componentType"])
                for row, value in zip(
                    at, self.rows(what, sparse["count"], width, kind), strict=True
                ):
                    values[int(row[0])] = value
            if described.get("normalized"):
                values = np.maximum(values / DIVISORS[kind], -1)
            self._cache[index] = values
        return self._cache[index]

    def rows(self, at: dict, count: int, width: int, kind: int) -> np.ndarray:
        view = self.json["bufferViews"][at["bufferView"]]
        letter = f"<{width}{FORMATS[kind]}"
        stride = view.get("byteStride", struct.calcsize(letter))
        start = view.get("byteOffset", 0) + at.get("byteOffset", 0)
        buffer = self.buffers[view["buffer"]]
        rows = [struct.unpack_from(letter, buffer, start + k * stride) for k in range(count)]
        return np.array(rows, dtype=np.float64)

    def sampled(self, animation: dict, channel: dict, time: float) -> np.ndarray:
        sampler = animation["samplers"][channel["sampler"]]
        times = self.accessor(sampler["input"])[:, 0]
        path = channel["target"]["path"]
        how = sampler.get("interpolation", "LINEAR")
        values = self.accessor(sampler["output"])
        values = values.reshape(len(times), 3 if how == "CUBICSPLINE" else 1, -1)
        value = values[:, 1] if how == "CUBICSPLINE" else values[:, 0]
        if time <= times[0]:
            return value[0]
        if time >= times[-1]:
            return value[-1]
        k = int(np.searchsorted(times, time, side="right")) - 1
        gap = times[k + 1] - times[k]
        u = (time - times[k]) / gap
        if how == "STEP":
            return value[k]
        if how == "CUBICSPLINE":
            out, into = values[k, 2], values[k + 1, 0]
            return (
                (2 * u**3 - 3 * u**2 + 1) * value[k]
                + gap * (u**3 - 2 * u**2 + u) * out
                + (-2 * u**3 + 3 * u**2) * value[k + 1]
                + gap * (u**3 - u**2) * into
            )
        if path != "rotation":
            return (1 - u) * value[k] + u * value[k + 1]
        a, b = value[k] / np.linalg.norm(value[k]), value[k + 1] / np.linalg.norm(value[k + 1])
        b = -b if a @ b < 0 else b
        angle = np.arctan2(np.linalg.norm(b - (a @ b) * a), a @ b)
        if angle < 1e-7:
            return (1 - u) * a + u * b
        return (np.sin((1 - u) * angle) * a + np.sin(u * angle) * b) / np.sin(angle)

    def locals_at(self, clip: int | None, time: float) -> list[dict]:
        nodes = [dict(node) for node in self.json["nodes"]]
        if clip is not None:
            animation = self.json["animations"][clip]
            for channel in animation["channels"]:
                node = nodes[channel["target"]["node"]]
                node.pop("matrix", None) if channel["target"]["path"] != "weights" else None
                node[channel["target"]["path"]] = self.sampled(animation, channel, time)
        return nodes

    def world(self, nodes: list[dict]) -> list[np.ndarray]:
        done: dict[int, np.ndarray] = {}

        def of(index: int) -> np.ndarray:
            if index not in done:
                local = matrix_of(nodes[index])
                done[index] = of(self.parents[index]) @ local if index in self.parents else local
            return done[index]

        return [of(index) for index in range(len(nodes))]

    def positions(self, clip: int | None, time: float) -> dict[tuple[int, int], np.ndarray]:
        """World positions by node and primitive."""
        nodes = self.locals_at(clip, time)
        world = self.world(nodes)
        result = {}
        for index, node in enumerate(nodes):
            if "mesh" not in node:
                continue
            mesh = self.json["meshes"][node["mesh"]]
            for number, primitive in enumerate(mesh["primitives"]):
                points = self.accessor(primitive["attributes"]["POSITION"]).copy()
                weights = node.get("weights", mesh.get("weights", []))
                for weight, target in zip(weights, primitive.get("targets", []), strict=False):
                    points += weight * self.accessor(target["POSITION"])
                result[index, number] = self.placed(node, world, primitive, index, points)
        return result

    def placed(
        self, node: dict, world: list, primitive: dict, index: int, points: np.ndarray
    ) -> np.ndarray:
        flat = np.column_stack([points, np.ones(len(points))])
        if "skin" not in node:
            return (flat @ world[index].T)[:, :3]
        skin = self.json["skins"][node["skin"]]
        count = len(skin["joints"])
        inverse = np.tile(np.eye(4), (count, 1, 1))
        if "inverseBindMatrices" in skin:
            stored = self.accessor(skin["inverseBindMatrices"])[:count]
            inverse = stored.reshape(-1, 4, 4).transpose(0, 2, 1)
        matrices = np.array([world[j] for j in skin["joints"]]) @ inverse
        attributes, total, summed = primitive["attributes"], 0.0, np.zeros((len(points), 4))
        for k in range(8):
            if f"JOINTS_{k}" not in attributes:
                break
            joints = self.accessor(attributes[f"JOINTS_{k}"]).astype(int)
            weights = self.accessor(attributes[f"WEIGHTS_{k}"])
            for column in range(4):
                moved = np.einsum("nij,nj->ni", matrices[joints[:, column]], flat)
                summed += weights[:, column, None] * moved
            total = total + weights.sum(axis=1)
        return (summed / np.asarray(total)[:, None])[:, :3]


def matrix_of(node: dict) -> np.ndarray:
    if "matrix" in node:
        return np.array(node["matrix"], dtype=np.float64).reshape(4, 4).T
    x, y, z, w = np.array(node.get("rotation", (0, 0, 0, 1))) / np.linalg.norm(
        node.get("rotation", (0, 0, 0, 1))
    )
    turn = np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )
    matrix = np.eye(4)
    matrix[:3, :3] = turn * np.array(node.get("scale", (1, 1, 1)))
    matrix[:3, 3] = node.get("translation", (0, 0, 0))
    return matrix
