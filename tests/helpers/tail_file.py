"""A small creature as .glb: a walking body with an unkeyed tail, a wagging one, and two shapes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from helpers.gltf_builder import Builder, turn

#: Joints along x: the body, which walks, one that the clip turns, and two that nothing keys.
JOINTS = ("body", "wag", "tail_1", "tail_2")
LENGTH = 0.5


def _tube(rings: int = 17, sides: int = 6) -> tuple[np.ndarray, np.ndarray]:
    along = np.linspace(0, 4 * LENGTH, rings)
    angle = 2 * np.pi * np.arange(sides) / sides
    radius = 0.25 - 0.15 * along / along[-1]
    ring = np.stack([np.zeros(sides), np.cos(angle), np.sin(angle)], axis=1)
    points = [[x, 0, 0] + r * ring for x, r in zip(along, radius, strict=True)]
    ends = [[[along[0] - 0.1, 0, 0]], [[along[-1] + 0.1, 0, 0]]]
    vertices = np.concatenate([*points, *ends])
    faces: list[tuple[int, int, int]] = []
    first, last = rings * sides, rings * sides + 1
    for s in range(sides):
        after = (s + 1) % sides
        faces += [(first, after, s), (last, last - 2 - sides + 1 + s, last - 2 - sides + 1 + after)]
        for r in range(rings - 1):
            a, b = r * sides + s, r * sides + after
            faces += [(a, b, b + sides), (a, b + sides, a + sides)]
    return vertices, np.array(faces)


def tail_builder(how: str = "LINEAR", seconds: float = 2.0, **more: Any) -> Builder:
    """The file, whose clip is called "clip"; `how` the wagging joint and the shapes are keyed."""
    b = Builder()
    vertices, faces = _tube()
    place = np.clip(vertices[:, 0] / LENGTH - 0.5, 0, len(JOINTS) - 1)
    low = np.minimum(place.astype(int), len(JOINTS) - 2)
    part = place - low
    nothing = np.zeros(len(vertices))
    belly = np.exp(-(((vertices - [0.3, -0.25, 0]) / 0.3) ** 2).sum(axis=1))[:, None] * [0, -0.2, 0]
    cheek = np.exp(-(((vertices - [0.1, 0, 0.25]) / 0.2) ** 2).sum(axis=1))[:, None] * [0, 0, 0.2]
    primitive = {
        "attributes": {
            "POSITION": b.accessor(vertices),
            "JOINTS_0": b.accessor(np.stack([low, low + 1, 0 * low, 0 * low], axis=1), "B"),
            "WEIGHTS_0": b.accessor(np.stack([1 - part, part, nothing, nothing], axis=1)),
        },
        "indices": b.accessor(faces.ravel(), "H"),
        "targets": [{"POSITION": b.accessor(belly)}, {"POSITION": b.accessor(cheek)}],
    }
    names = {"extras": {"targetNames": ["belly", "cheek"]}}
    b.add("meshes", {"name": "skin", "primitives": [primitive], "weights": [0.3, 0.0], **names})
    for joint, name in enumerate(JOINTS):
        node: dict[str, Any] = {"name": name, "translation": [LENGTH if joint else 0.0, 0.0, 0.0]}
        if joint:
            node["rotation"] = turn(0, 0.4)
        b.add("nodes", node | ({"children": [joint + 1]} if joint + 1 < len(JOINTS) else {}))
    world, worlds = np.eye(4), []
    for joint in range(len(JOINTS)):
        local = np.eye(4)
        local[0, 3] = LENGTH if joint else 0.0
        if joint:
            c, s = np.cos(0.4), np.sin(0.4)
            local[1:3, 1:3] = [[c, -s], [s, c]]
        world = world @ local
        worlds.append(np.linalg.inv(world).T.reshape(16))
    b.add("skins", {"joints": [0, 1, 2, 3], "inverseBindMatrices": b.accessor(np.array(worlds))})
    shown = b.add("nodes", {"name": "shown", "mesh": 0, "skin": 0})
    b.json["scenes"] = [{"nodes": [shown, 0]}]
    b.json["scene"] = 0
    times = np.arange(round(30 * seconds) + 1) / 30
    phase = 2 * np.pi * times / seconds
    b.animate(0, "translation", times, np.stack([0.3 * np.sin(phase), 0 * times, 0 * times], 1))
    b.animate(0, "rotation", times, [turn(1, 0.4 * np.sin(each)) for each in phase])
    wag = np.array([turn(2, 0.3 * np.sin(2 * each)) for each in phase])
    weights = np.stack([np.full(len(times), 0.3), 0.4 + 0.4 * np.sin(phase)], axis=1)
    if how == "CUBICSPLINE":
        wag, weights = (
            np.stack([np.gradient(v, times, axis=0), v, np.gradient(v, times, axis=0)], 1)
            for v in (wag, weights)
        )
    b.animate(1, "rotation", times, wag.reshape(-1, 4), how)
    b.animate(4, "weights", times, weights.reshape(-1), how)
    b.json |= more
    return b


def tail_file(path: Path, how: str = "LINEAR", **more: Any) -> Path:
    """Write it as .glb, or as .gltf with its buffers beside it."""
    b = tail_builder(how, **more)
    return b.save_glb(path) if path.suffix == ".glb" else b.save_gltf(path)
