"""A small rat as a glTF file: what the pages of the documentation call ``rat.glb``."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from helpers.gltf_builder import Builder, turn
from supple.mesh.surface import SurfaceMesh
from supple.scenes.modelling.solids import ball, polygonise, smooth_union, tapered_limb

#: Where joints are, and which joint each hangs on.
JOINTS = {
    "Body": ((0.0, 0.0, 0.0), None),
    "Head": ((0.0, 0.02, 0.2), "Body"),
    "Tail1": ((0.0, 0.0, -0.18), "Body"),
    "Tail2": ((0.0, 0.0, -0.38), "Tail1"),
}
#: Of clips, in seconds.
RUN, IDLE = 0.6, 0.8


@cache
def rat_surface() -> SurfaceMesh:
    """A body with a head at +z and a tail, 0.9 m long."""
    parts = [
        tapered_limb((0, 0, -0.12), (0, 0, 0.14), 0.14, 0.1),
        ball((0, 0.04, 0.27), 0.09),
        tapered_limb((0, 0, -0.2), (0, 0, -0.58), 0.065, 0.045),
    ]
    return polygonise(smooth_union(parts, 0.05), [(-0.2, -0.2, -0.7), (0.2, 0.2, 0.42)], 0.035)


def write_rat(path: Path) -> Path:
    """Write the rat: skinned to four joints, with a vertex colour and two clips, Run and Idle."""
    b, surface = Builder(), rat_surface()
    mesh = {
        "attributes": {
            "POSITION": b.accessor(surface.vertices),
            "JOINTS_0": b.accessor(np.tile([0, 1, 2, 3], (len(surface.vertices), 1)), "B"),
            "WEIGHTS_0": b.accessor(_weights(surface.vertices[:, 2])),
            "COLOR_0": b.accessor(np.full((len(surface.vertices), 4), 0.5)),
        },
        "indices": b.accessor(surface.triangles.ravel(), "H"),
    }
    b.add("meshes", {"name": "Rat", "primitives": [mesh]})
    nodes = list(JOINTS)
    inverse = np.tile(np.eye(4), (len(JOINTS), 1, 1))
    for k, (name, (place, parent)) in enumerate(JOINTS.items()):
        inverse[k, :3, 3] = -np.array(place)
        above = JOINTS[parent][0] if parent else (0.0, 0.0, 0.0)
        children = [nodes.index(each) for each in JOINTS if JOINTS[each][1] == name]
        node = {"name": name, "translation": np.subtract(place, above).tolist()}
        b.add("nodes", node | ({"children": children} if children else {}))
    bind = b.accessor(inverse.transpose(0, 2, 1).reshape(-1, 16))
    b.add("skins", {"joints": list(range(len(JOINTS))), "inverseBindMatrices": bind})
    shown = b.add("nodes", {"name": "Rat", "mesh": 0, "skin": 0})
    b.json |= {"scenes": [{"nodes": [0, shown]}], "scene": 0}
    for name, seconds, swing in (("Run", RUN, 0.5), ("Idle", IDLE, 0.15)):
        _add_clip(b, name, seconds, swing)
    return b.save_glb(path)


def _weights(along: np.ndarray) -> np.ndarray:
    """Of body, head and the two joints of the tail, by the place along z."""
    head = np.clip((along - 0.14) / 0.1, 0, 1)
    tail = np.clip((-0.13 - along) / 0.1, 0, 1)
    tip = np.clip((-0.33 - along) / 0.1, 0, 1)
    return np.stack([1 - head - tail, head, tail - tip, tip], axis=1)


def _add_clip(b: Builder, name: str, seconds: float, swing: float) -> None:
    """The head nods, the tail swings sideways; it ends as it began."""
    b.add("animations", {"name": name, "channels": [], "samplers": []})
    clips = b.json["animations"]
    times = np.linspace(0, seconds, 13)
    beat = swing * np.sin(2 * np.pi * times / seconds)
    clips.insert(0, clips.pop())  # what the builder adds to
    for joint, axis, part in (("Head", 0, 0.4), ("Tail1", 1, 1.0), ("Tail2", 1, 1.0)):
        node = list(JOINTS).index(joint)
        b.animate(node, "rotation", times, [turn(axis, part * angle) for angle in beat])
    clips.append(clips.pop(0))
