"""Playback of glTF 2.0 files, written from the specification, with NumPy alone.

An independent judge of the files that Supple writes: nothing of Supple is imported. World
positions are in the file's own units. All nodes that have a mesh are played, in the order of the
nodes, whether a scene shows them or not. Weights of a vertex are scaled to a sum of 1 and a vertex
without weights follows its first joint, as in three.js.
"""

from __future__ import annotations

import base64
import json
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
#: Index or name of an animation; None is the file's pose without any.
Clip = int | str | None

TYPES = {5120: "<i1", 5121: "<u1", 5122: "<i2", 5123: "<u2", 5125: "<u4", 5126: "<f4"}
WIDTHS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4, "MAT2": 4, "MAT3": 9, "MAT4": 16}
DEFAULTS = {"translation": (0, 0, 0), "rotation": (0, 0, 0, 1), "scale": (1, 1, 1)}
DRACO, POINTER = "KHR_draco_mesh_compression", "KHR_animation_pointer"
#: Extensions that change positions and are not implemented.
UNSUPPORTED = {"EXT_meshopt_compression", "KHR_meshopt_compression", "EXT_mesh_gpu_instancing"}
#: Sizes of the blocks that are played at once.
TIMES, VERTICES = 64, 2048


@dataclass(frozen=True)
class Channel:
    """One animated property of a node; `input` and `output` are the accessors' bytes, packed."""

    node: int
    path: str
    interpolation: str
    input: bytes
    output: bytes
    #: Component type, normalized flag, element type and count of the two accessors.
    layout: tuple[tuple[Any, ...], tuple[Any, ...]]


@dataclass(frozen=True)
class Part:
    """A primitive as a node shows it: vertices `start` to `stop` of what is played."""

    node: int
    primitive: int
    start: int
    stop: int


class Evaluator:
    """World positions of all vertices of a .glb, .gltf or .vrm file at any time of any clip."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.json, self.buffers = _opened(self.path)
        for name in UNSUPPORTED & set(self.json.get("extensionsUsed", [])):
            raise ValueError(f"{self.path.name}: {name} is not supported")
        self.nodes: list[dict[str, Any]] = self.json.get("nodes", [])
        self.parts: list[Part] = []
        self._draco: dict[int, dict[int, NDArray[Any]]] = {}
        self._surfaces: dict[tuple[int, int], _Surface] = {}
        start = 0
        for node, described in enumerate(self.nodes):
            for number, primitive in enumerate(self._primitives(described)):
                count = self.json["accessors"][primitive["attributes"]["POSITION"]]["count"]
                self.parts.append(Part(node, number, start, start + count))
                start += count
        self.vertex_count = start
        self._order = self._parents_first()

    @property
    def clips(self) -> list[str]:
        """Names of the animations, in the file's order; "" where one has none."""
        return [clip.get("name", "") for clip in self.json.get("animations", [])]

    def duration(self, clip: Clip) -> float:
        """Time of the last key of any channel, in seconds."""
        samplers = [sampler for _, _, sampler in self._targets(clip)]
        return max((float(self.accessor(s["input"]).max()) for s in samplers), default=0.0)

    def channels(self, clip: Clip) -> list[Channel]:
        """Return the channels that move nodes, in the file's order."""
        found = []
        for node, path, sampler in self._targets(clip):
            pair = (sampler["input"], sampler["output"])
            layout = [
                tuple(
                    self.json["accessors"][k].get(key)
                    for key in ("componentType", "normalized", "type", "count")
                )
                for k in pair
            ]
            how = sampler.get("interpolation", "LINEAR")
            data = [self.accessor_bytes(k) for k in pair]
            found.append(Channel(node, path, how, data[0], data[1], (layout[0], layout[1])))
        return found

    def targets(self, part: Part) -> list[Floats]:
        """POSITION deltas (n, 3) of each morph target of a part; zeros where it has none."""
        zeros = np.zeros((part.stop - part.start, 3))
        primitive = self._primitives(self.nodes[part.node])[part.primitive]
        return [
            self.accessor(target["POSITION"]) if "POSITION" in target else zeros
            for target in primitive.get("targets", [])
        ]

    def accessor(self, index: int) -> Floats:
        """(count, width) values of an accessor; normalised integers as real numbers."""
        values = self.elements(index)
        if self.json["accessors"][index].get("normalized") and values.dtype.kind in "iu":
            return np.maximum(values / np.iinfo(values.dtype).max, -1.0)
        return values.astype(np.float64)

    def accessor_bytes(self, index: int) -> bytes:
        """Bytes of the elements of an accessor, without padding between them."""
        return self.elements(index).tobytes()

    def elements(self, index: int) -> NDArray[Any]:
        """(count, width) values of an accessor as they are stored."""
        described = self.json["accessors"][index]
        kind, count, width = (
            np.dtype(TYPES[described["componentType"]]),
            described["count"],
            WIDTHS[described["type"]],
        )
        values = np.zeros((count, width), kind)
        if "bufferView" in described:
            values[:] = self._view(described, kind, count, width)
        if "sparse" in described:
            sparse = described["sparse"]
            number, at = sparse["count"], sparse["indices"]
            rows = self._view(at, np.dtype(TYPES[at["componentType"]]), number, 1)[:, 0]
            values[rows] = self._view(sparse["values"], kind, number, width)
        return values

    def positions(
        self, clip: Clip, times: ArrayLike, targets: Mapping[int, int] | None = None
    ) -> Floats:
        """World positions (t, n, 3) of all vertices at some times, in seconds.

        `targets` is by node how many of its first morph targets are used; all by default.
        """
        at = np.atleast_1d(np.asarray(times, np.float64))
        result = np.empty((len(at), self.vertex_count, 3))
        for first in range(0, len(at), TIMES):
            block = slice(first, first + TIMES)
            pose = self.pose(clip, at[block])
            world = self._world(pose, len(at[block]))
            for part in self.parts:
                node = self.nodes[part.node]
                weights = pose.get((part.node, "weights"), self._default_weights(node))
                if targets is not None:
                    weights = weights[:, : targets.get(part.node, 0)]
                surface, result_block = self._surface(part), result[block, part.start : part.stop]
                joints = self._joint_matrices(node, world)
                for low in range(0, part.stop - part.start, VERTICES):
                    chunk = slice(low, low + VERTICES)
                    result_block[:, chunk] = surface.placed(chunk, weights, joints)
        return result

    def world_matrices(self, clip: Clip, times: ArrayLike) -> Floats:
        """World matrices (t, nodes, 4, 4) of all nodes."""
        at = np.atleast_1d(np.asarray(times, np.float64))
        return self._world(self.pose(clip, at), len(at))

    def pose(self, clip: Clip, times: Floats) -> dict[tuple[int, str], Floats]:
        """Values (t, width) of the animated properties by node and path."""
        pose = {}
        for node, path, sampler in self._targets(clip):
            if "matrix" in self.nodes[node] and path != "weights":
                raise ValueError(f"{self.path.name}: animates node {node}, which has a matrix")
            keys = self.accessor(sampler["input"])[:, 0]
            how = sampler.get("interpolation", "LINEAR")
            values = self.accessor(sampler["output"])
            values = values.reshape(len(keys), 3 if how == "CUBICSPLINE" else 1, -1)
            pose[node, path] = sampled(keys, values, how, times, path == "rotation")
        return pose

    def _world(self, pose: dict[tuple[int, str], Floats], count: int) -> Floats:
        world = np.empty((count, len(self.nodes), 4, 4))
        for index, parent in self._order:
            node = self.nodes[index]
            if "matrix" in node:
                local = np.reshape(np.asarray(node["matrix"], np.float64), (1, 4, 4)).mT
            else:
                trs = {
                    path: pose.get((index, path), np.array([node.get(path, value)], np.float64))
                    for path, value in DEFAULTS.items()
                }
                local = np.zeros((count, 4, 4))
                local[:, :3, :3] = rotations(trs["rotation"]) * trs["scale"][:, None]
                local[:, :3, 3] = trs["translation"]
                local[:, 3, 3] = 1
            world[:, index] = local if parent is None else world[:, parent] @ local
        return world

    def _joint_matrices(self, node: dict[str, Any], world: Floats) -> Floats:
        """(t, joints, 3, 4): of the skin's joints, or of the node itself as the only one."""
        if "skin" not in node:
            index = next(k for k, other in enumerate(self.nodes) if other is node)
            return world[:, [index], :3]
        skin = self.json["skins"][node["skin"]]
        matrices = world[:, skin["joints"]]
        if "inverseBindMatrices" in skin:
            inverse = self.accessor(skin["inverseBindMatrices"])[: len(skin["joints"])]
            matrices = matrices @ inverse.reshape(-1, 4, 4).mT
        return matrices[:, :, :3]

    def rest_scale(self, part: Part) -> float:
        """World length of a unit of the part's own coordinates, without any clip: the median."""
        joints = self._joint_matrices(self.nodes[part.node], self.world_matrices(None, 0.0))
        return float(np.median(np.cbrt(np.abs(np.linalg.det(joints[0, :, :, :3])))))

    def _default_weights(self, node: dict[str, Any]) -> Floats:
        mesh = self.json["meshes"][node["mesh"]]
        return np.array([node.get("weights", mesh.get("weights", []))], np.float64)

    def _surface(self, part: Part) -> _Surface:
        """Return the part's rest positions, morph targets and skin weights."""
        node = self.nodes[part.node]
        key = (part.node, part.primitive)
        if key not in self._surfaces:
            primitive = self._primitives(node)[part.primitive]
            points = self._attribute(primitive, "POSITION")
            deltas = np.array(self.targets(part)).reshape(-1, len(points), 3)
            skin = np.ones((len(points), 1))
            if "skin" in node:
                count = len(self.json["skins"][node["skin"]]["joints"])
                skin = self._skin_weights(primitive, count)
            self._surfaces[key] = _Surface(points, deltas, skin)
        return self._surfaces[key]

    def _skin_weights(self, primitive: dict[str, Any], count: int) -> Floats:
        """(n, joints) weights with a sum of 1."""
        sets = sorted(name[7:] for name in primitive["attributes"] if name.startswith("JOINTS_"))
        joints = np.hstack([self._attribute(primitive, f"JOINTS_{k}") for k in sets]).astype(int)
        weights = np.hstack([self._attribute(primitive, f"WEIGHTS_{k}") for k in sets])
        weights[weights.sum(axis=1) == 0, 0] = 1
        dense = np.zeros((len(joints), count))
        np.add.at(dense, (np.arange(len(joints))[:, None], joints), weights)
        return dense / weights.sum(axis=1, keepdims=True)

    def _targets(self, clip: Clip) -> Iterator[tuple[int, str, dict[str, Any]]]:
        """Node, path and sampler of each channel that moves a node."""
        if clip is None:
            return
        animation = self.json["animations"][self.clips.index(clip) if type(clip) is str else clip]
        for channel in animation["channels"]:
            target, sampler = channel["target"], animation["samplers"][channel["sampler"]]
            if target["path"] == "pointer":
                pointer = target["extensions"][POINTER]["pointer"]
                found = re.fullmatch(r"/nodes/(\d+)/(translation|rotation|scale|weights)", pointer)
                if found:
                    yield int(found[1]), found[2], sampler
                elif pointer.startswith(("/nodes/", "/meshes/")):
                    raise ValueError(f"{self.path.name}: {pointer} is not supported")
            elif "node" in target:
                yield target["node"], target["path"], sampler

    def _primitives(self, node: dict[str, Any]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        if "mesh" in node:
            found = self.json["meshes"][node["mesh"]]["primitives"]
        return found

    def _attribute(self, primitive: dict[str, Any], name: str) -> Floats:
        packed = primitive.get("extensions", {}).get(DRACO)
        if packed is None or name not in packed["attributes"]:
            return self.accessor(primitive["attributes"][name])
        if packed["bufferView"] not in self._draco:
            self._draco[packed["bufferView"]] = self._undraco(packed["bufferView"])
        values = self._draco[packed["bufferView"]][packed["attributes"][name]]
        if self.json["accessors"][primitive["attributes"][name]].get("normalized"):
            return np.maximum(values / np.iinfo(values.dtype).max, -1.0)
        return values.astype(np.float64)

    def _undraco(self, view: int) -> dict[int, NDArray[Any]]:
        try:
            import DracoPy
        except ImportError:
            raise ValueError(
                f"{self.path.name}: {DRACO} is not supported without DracoPy"
            ) from None
        where = self.json["bufferViews"][view]
        start = where.get("byteOffset", 0)
        data = self.buffers[where["buffer"]][start : start + where["byteLength"]]
        found = DracoPy.decode(data).attributes
        return {a["unique_id"]: np.reshape(a["data"], (len(a["data"]), -1)) for a in found}

    def _view(self, at: dict[str, Any], kind: np.dtype, count: int, width: int) -> NDArray[Any]:
        view = self.json["bufferViews"][at["bufferView"]]
        stride = view.get("byteStride", width * kind.itemsize)
        start = view.get("byteOffset", 0) + at.get("byteOffset", 0)
        strides = (stride, kind.itemsize)
        return np.ndarray((count, width), kind, self.buffers[view["buffer"]], start, strides)

    def _parents_first(self) -> list[tuple[int, int | None]]:
        """Nodes with their parents, each after its parent."""
        children = [node.get("children", []) for node in self.nodes]
        below = {child for each in children for child in each}
        order: list[tuple[int, int | None]] = [
            (k, None) for k in range(len(self.nodes)) if k not in below
        ]
        for index, _ in order:  # grows meanwhile
            order += [(child, index) for child in children[index]]
        return order


@dataclass(frozen=True)
class _Surface:
    """Rest positions (n, 3), morph deltas (k, n, 3) and skin weights (n, joints) of a part."""

    points: Floats
    deltas: Floats
    skin: Floats

    def placed(self, chunk: slice, weights: Floats, joints: Floats) -> Floats:
        """World positions (t, chunk, 3); `weights` are (t or 1, k), `joints` (t, joints, 3, 4)."""
        used = min(weights.shape[1], len(self.deltas))
        points = self.points[chunk] + np.tensordot(
            weights[:, :used], self.deltas[:used, chunk], axes=1
        )
        blended = np.tensordot(self.skin[chunk], joints, axes=(1, 1))  # (chunk, t, 3, 4)
        moved = np.einsum("ntij,tnj->tni", blended[..., :3], points + np.zeros((len(joints), 1, 1)))
        return moved + blended[..., 3].transpose(1, 0, 2)


def play(path: Path | str, clip: Clip, times: ArrayLike) -> Floats:
    """World positions (t, n, 3) of all vertices of a file: see `Evaluator.positions`."""
    return Evaluator(path).positions(clip, times)


def sampled(keys: Floats, values: Floats, how: str, times: Floats, turns: bool) -> Floats:
    """Values (t, width) of a sampler; `values` are (keys, 1 or 3, width), by `how`.

    At coincident keys, which the specification forbids, the later one counts from its time on.
    """
    stored = values[:, 1 if how == "CUBICSPLINE" else 0]
    if turns:
        stored = stored / np.linalg.norm(stored, axis=1, keepdims=True)
    before = np.clip(np.searchsorted(keys, times, side="right") - 1, 0, len(keys) - 1)
    after = np.minimum(before + 1, len(keys) - 1)
    gap = (keys[after] - keys[before])[:, None]
    u = np.clip((times - keys[before])[:, None] / np.where(gap > 0, gap, 1), 0, 1)
    a, b = stored[before], stored[after]
    if how == "STEP":
        return a
    if how == "CUBICSPLINE":
        a, b = values[before, 1], values[after, 1]
        found = (2 * u**3 - 3 * u**2 + 1) * a + gap * (u**3 - 2 * u**2 + u) * values[before, 2]
        found += (3 * u**2 - 2 * u**3) * b + gap * (u**3 - u**2) * values[after, 0]
        return found / np.linalg.norm(found, axis=1, keepdims=True) if turns else found
    if how != "LINEAR":
        raise ValueError(f"interpolation {how} is not supported")
    return slerp(a, b, u) if turns else (1 - u) * a + u * b


def slerp(a: Floats, b: Floats, u: Floats) -> Floats:
    """Quaternions (t, 4) between unit ones along the shorter arc; `u` is (t, 1)."""
    b = np.where((a * b).sum(axis=1, keepdims=True) < 0, -b, b)
    # Half of the chord and of the sum: accurate at all angles, which arccos of a·b is not.
    angle = 2 * np.arctan2(
        np.linalg.norm(b - a, axis=1, keepdims=True), np.linalg.norm(b + a, axis=1, keepdims=True)
    )
    sine = np.sin(angle)
    close = sine < 1e-9
    safe = np.where(close, 1, sine)
    first = np.where(close, 1 - u, np.sin((1 - u) * angle) / safe)
    second = np.where(close, u, np.sin(u * angle) / safe)
    return first * a + second * b


def rotations(quaternions: Floats) -> Floats:
    """Matrices (t, 3, 3) of quaternions x, y, z, w of any length."""
    x, y, z, w = (quaternions / np.linalg.norm(quaternions, axis=1, keepdims=True)).T
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), 2, 0)


def _opened(path: Path) -> tuple[dict[str, Any], list[bytes]]:
    """JSON and buffers of a file."""
    data, binary = path.read_bytes(), b""
    if data[:4] == b"glTF":
        position = 12
        chunks: dict[bytes, bytes] = {}
        while position + 8 <= len(data):
            size, kind = struct.unpack_from("<I4s", data, position)
            chunks.setdefault(kind, data[position + 8 : position + 8 + size])
            position += 8 + size
        tree, binary = json.loads(chunks[b"JSON"]), chunks.get(b"BIN\0", b"")
    else:
        tree = json.loads(data)
    buffers = []
    for buffer in tree.get("buffers", []):
        uri = buffer.get("uri")
        if uri is None:
            buffers.append(binary)
        elif uri.startswith("data:"):
            buffers.append(base64.b64decode(uri.split(",", 1)[1]))
        else:
            buffers.append((path.parent / unquote(uri)).read_bytes())
    return tree, buffers
