# SPDX-FileCopyrightText: The Supple developers
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files exchanged with the command `supple`: sampled characters, and their flesh.

A sample is written as binary glTF: the armature and its bones as nodes, a skin, meshes with a
primitive per material, shapes as morph targets, and a clip per action with a key at each frame.
`supple bake` writes the same file with more morph targets and their weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .glb import GlbReader, GlbWriter
from .sampling import ClipSample, MeshSample, Sample
from .skin_maths import decompose

__all__ = ["Flesh", "read_flesh", "write_sample"]

#: Rotation from Blender's axes, z up, to those of glTF, y up.
Z_UP = [-float(np.sqrt(0.5)), 0.0, 0.0, float(np.sqrt(0.5))]
#: Changes that count as none: of lengths relative to the size, of quaternions and of scales.
STILL = 1e-6


@dataclass
class Flesh:
    """Shapes of a mesh before its skin, and their values, at most 1, in each clip."""

    shapes: np.ndarray  # (k, n, 3) in the armature's space
    values: list[np.ndarray]  # (t, k)


def write_sample(sample: Sample, path: Path) -> None:
    """Write a sampled character."""
    file = GlbWriter()
    joints = _write_bones(file, sample)
    skin = _write_skin(file, sample, joints)
    for mesh in sample.meshes:
        described: dict[str, Any] = {"name": mesh.name, "mesh": _write_mesh(file, mesh)}
        node = file.add("nodes", described | {"skin": skin})
        file.document["nodes"][1]["children"].append(node)
    size = max(float(np.linalg.norm(np.ptp(mesh.vertices, axis=0))) for mesh in sample.meshes)
    for number, clip in enumerate(sample.clips):
        _write_clip(file, sample, clip, number, joints, size)
    file.document |= {"scene": 0, "scenes": [{"nodes": [0]}]}
    file.write(path)


def _transform(matrix: np.ndarray) -> dict[str, list[float]]:
    place, rotation, scale = decompose(matrix)
    return {"translation": place.tolist(), "rotation": rotation.tolist(), "scale": scale.tolist()}


def _write_bones(file: GlbWriter, sample: Sample) -> list[int]:
    """Write nodes of the axes, the armature and its bones; return those of bones and armature."""
    file.add("nodes", {"name": "Blender", "rotation": Z_UP, "children": [1]})
    world = sample.clips[0].world[0] if sample.clips else np.eye(4)
    file.add("nodes", {"name": sample.name, "children": [], **_transform(world)})
    nodes: list[int] = []
    for name, parent, rest in zip(sample.bones, sample.parents, sample.rest, strict=True):
        local = rest if parent < 0 else np.linalg.inv(sample.rest[parent]) @ rest
        nodes.append(file.add("nodes", {"name": name, **_transform(local)}))
        above = file.document["nodes"][nodes[parent] if parent >= 0 else 1]
        above.setdefault("children", []).append(nodes[-1])
    return [*nodes, 1]


def _write_skin(file: GlbWriter, sample: Sample, joints: list[int]) -> int:
    """Write the skin; the armature is a joint only if some vertices follow no bone."""
    if not any(mesh.weights[:, -1].any() for mesh in sample.meshes):
        joints = joints[:-1]
    inverse = np.concatenate([np.linalg.inv(sample.rest), np.eye(4)[None]])[: len(joints)]
    columns = inverse.transpose(0, 2, 1).reshape(-1, 16).astype(np.float32)
    return file.add("skins", {"joints": joints, "inverseBindMatrices": file.accessor(columns)})


def _parts(mesh: MeshSample) -> list[tuple[int, np.ndarray, np.ndarray]]:
    """Return each used material with its vertices, and its triangles by index among them."""
    parts = []
    for material in np.unique(mesh.materials):
        triangles = mesh.triangles[mesh.materials == material]
        vertices, corners = np.unique(triangles, return_inverse=True)
        parts.append((int(material), vertices, corners.reshape(-1, 3)))
    return parts


def _write_mesh(file: GlbWriter, mesh: MeshSample) -> int:
    indices, weights = _influences(mesh.weights)
    primitives = []
    for material, vertices, triangles in _parts(mesh):
        name = mesh.material_names[min(material, len(mesh.material_names) - 1)]
        attributes = {"POSITION": file.accessor(mesh.vertices[vertices], bounds=True)}
        for k in range(0, indices.shape[1], 4):
            attributes[f"JOINTS_{k // 4}"] = file.accessor(indices[vertices, k : k + 4])
            attributes[f"WEIGHTS_{k // 4}"] = file.accessor(weights[vertices, k : k + 4])
        for painted, values in mesh.painted.items():
            attributes[painted] = file.accessor(values[vertices])
        primitive: dict[str, Any] = {
            "attributes": attributes,
            "indices": file.accessor(triangles.astype(np.uint32).reshape(-1)),
            "material": file.add("materials", {"name": name}),
        }
        if mesh.shapes:
            shapes = mesh.shapes.values()
            primitive["targets"] = [
                {"POSITION": file.accessor(shape[vertices], bounds=True)} for shape in shapes
            ]
        primitives.append(primitive)
    described: dict[str, Any] = {"name": mesh.name, "primitives": primitives}
    if mesh.shapes:
        first = mesh.values[0][0] if mesh.values else np.zeros(len(mesh.shapes))
        described["weights"] = first.tolist()
        described["extras"] = {"targetNames": list(mesh.shapes)}
    return file.add("meshes", described)


def _influences(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return joints (n, 4 s) and their weights, the largest first, in sets of four."""
    most = max(1, int((weights > 0).sum(axis=1).max()))
    width = -(-most // 4) * 4
    order = np.argsort(-weights, axis=1, kind="stable")[:, :width]
    largest = np.take_along_axis(weights, order, axis=1)
    padding = (0, 0), (0, width - largest.shape[1])
    order, largest = np.pad(order, padding), np.pad(largest, padding)
    return np.where(largest > 0, order, 0).astype(np.uint16), largest.astype(np.float32)


def _write_clip(
    file: GlbWriter, sample: Sample, clip: ClipSample, number: int, joints: list[int], size: float
) -> None:
    """Write keys at all frames, of channels that differ from rest."""
    times = (np.arange(len(clip.world)) / clip.rate).astype(np.float32)
    shared = file.accessor(times, bounds=True)
    samplers: list[dict[str, Any]] = []
    channels: list[dict[str, Any]] = []

    def play(node: int, path: str, values: np.ndarray) -> None:
        data = file.accessor(np.ascontiguousarray(values, np.float32))
        samplers.append({"input": shared, "output": data})
        target = {"node": node, "path": path}
        channels.append({"sampler": len(samplers) - 1, "target": target})

    place, rotation, scale = decompose(clip.world)
    rotation[1:] *= np.cumprod(np.where((rotation[1:] * rotation[:-1]).sum(axis=1) < 0, -1.0, 1.0))[
        :, None
    ]
    moving = [(1, place, rotation, scale)]
    for k, node in enumerate(joints[:-1]):
        moving.append((node, clip.places[:, k], clip.turns[:, k], clip.scales[:, k]))
    for node, *parts in moving:
        described = file.document["nodes"][node]
        for path, values in zip(("translation", "rotation", "scale"), parts, strict=True):
            rest = np.array(described[path])
            apart = np.abs(values - rest).max()
            if path == "rotation":
                apart = min(apart, np.abs(values + rest).max())
            if apart > (STILL * size if path == "translation" else STILL):
                play(node, path, values)
    first = len(file.document["nodes"]) - len(sample.meshes)
    for k, mesh in enumerate(sample.meshes):
        if mesh.shapes:
            play(first + k, "weights", mesh.values[number].reshape(-1))
    if not channels:  # nothing moves, but a clip must have a channel
        play(1, "translation", place)
    entry = {"name": clip.clip.name, "samplers": samplers, "channels": channels}
    file.add("animations", entry)


# Reading.


def read_flesh(sample: Sample, path: Path) -> list[Flesh]:
    """Read a baked file: for each mesh of the sample its new shapes and their values."""
    file = GlbReader(path)
    nodes = file.document["nodes"]
    first = len(sample.bones) + 2
    return [
        _mesh_flesh(file, first + k, nodes[first + k]["mesh"], sample, mesh)
        for k, mesh in enumerate(sample.meshes)
    ]


def _mesh_flesh(file: GlbReader, node: int, index: int, sample: Sample, mesh: MeshSample) -> Flesh:
    primitives = file.document["meshes"][index]["primitives"]
    before = len(mesh.shapes)
    count = max(len(each.get("targets", [])) for each in primitives) - before
    shapes = np.zeros((count, len(mesh.vertices), 3), np.float32)
    for (_, vertices, _), primitive in zip(_parts(mesh), primitives, strict=True):
        for k, target in enumerate(primitive.get("targets", [])[before:]):
            shapes[k, vertices] = file.array(target["POSITION"])
    values = []
    for number, clip in enumerate(sample.clips):
        animation = file.document["animations"][number]
        values.append(_weights(file, animation, node, clip, before, count))
    # Scaled to a largest value of 1.
    largest = np.max([np.abs(each).max(axis=0, initial=0) for each in values], axis=0)
    scale = np.where(largest > 0, largest, 1)
    moving = largest > 0
    shapes *= scale[:, None, None].astype(np.float32)
    return Flesh(shapes[moving], [(each / scale)[:, moving] for each in values])


def _weights(
    file: GlbReader, animation: dict[str, Any], node: int, clip: ClipSample, before: int, count: int
) -> np.ndarray:
    times = np.arange(len(clip.world)) / clip.rate
    for channel in animation["channels"]:
        target = channel["target"]
        if (target.get("node"), target["path"]) == (node, "weights"):
            sampler = animation["samplers"][channel["sampler"]]
            when = file.array(sampler["input"]).astype(np.float64)
            keys = file.array(sampler["output"]).reshape(len(when), -1)[:, before:]
            columns = [np.interp(times, when, keys[:, k]) for k in range(count)]
            return np.array(columns).reshape(count, len(times)).T
    return np.zeros((len(times), count))
