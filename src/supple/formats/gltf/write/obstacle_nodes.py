"""Obstacles of baked motions as nodes of a glTF file, moved by the motions' animations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from supple.arrays import Floats
from supple.formats.gltf.gltf_file import CORNERS, VERTICES, GltfFile
from supple.formats.gltf.write.animations import Times, add_channel
from supple.formats.registry import FLESH
from supple.maths.rotations import continuous, from_matrix
from supple.mesh.surface import VertexNormals
from supple.rig.baked_motion import BakedMotion
from supple.rig.baked_obstacles import ObstacleKind
from supple.rig.drawn_obstacles import COLOURS, DrawnObstacle, drawn_obstacles


class ObstacleNodes:
    """Nodes of the obstacles of motions; each is at its place in the first motion that has it.

    `metres` is the length of the file's unit in m.
    """

    def __init__(self, file: GltfFile, bakes: Sequence[BakedMotion], metres: float) -> None:
        self._file, self._metres = file, metres
        self._drawn = drawn_obstacles(bakes)
        materials: dict[ObstacleKind, int] = {}
        for each in self._drawn:
            if each.kind not in materials:
                materials[each.kind] = file.add("materials", _material(each.kind))
        self._nodes = [self._node(each, materials[each.kind]) for each in self._drawn]
        scenes = file.part("scenes")
        if scenes and self._nodes:
            shown = scenes[file.json.get("scene", 0)]
            shown["nodes"] = [*shown.get("nodes", []), *self._nodes]

    def animate(self, animation: dict[str, Any], number: int, when: Floats, times: Times) -> None:
        """Add the channels of a motion, by its number among the motions, at times (t,) in s."""
        for node, each in zip(self._nodes, self._drawn, strict=True):
            placed = each.places[number]
            if any(place is None for place in each.places):
                size = np.full((1, 3), 0.0 if placed is None else 1.0)
                add_channel(animation, node, "scale", times.sampler(when[:1], size, "STEP"))
            if placed is None or (len(placed) == 1 and self._is_at_rest(each, placed)):
                continue
            keys = when[: len(placed)]
            for path, values in self._parts(placed).items():
                add_channel(animation, node, path, times.sampler(keys, values))

    def _is_at_rest(self, each: DrawnObstacle, placed: Floats) -> bool:
        return bool((_first_places(each)[0] == placed[0]).all())

    def _parts(self, placed: Floats) -> dict[str, Floats]:
        return {
            "translation": placed[:, :3, 3] / self._metres,
            "rotation": continuous(from_matrix(placed[:, :3, :3])),
        }

    def _node(self, each: DrawnObstacle, material: int) -> int:
        file, surface = self._file, each.surface
        vertices, triangles = surface.vertices, surface.triangles
        if not each.smooth:  # sharp edges
            vertices = vertices[triangles.reshape(-1)]
            triangles = np.arange(triangles.size).reshape(-1, 3)
        normals = VertexNormals(triangles, len(vertices))(vertices)
        corners = triangles.astype(np.uint16 if len(vertices) < 65535 else np.uint32)
        points = (vertices / self._metres).astype(np.float32)
        primitive = {
            "attributes": {
                "POSITION": file.accessor(points, bounds=True, target=VERTICES),
                "NORMAL": file.accessor(normals.astype(np.float32), target=VERTICES),
            },
            "indices": file.accessor(corners.reshape(-1, 1), target=CORNERS),
            "material": material,
        }
        mesh = file.add("meshes", {"name": each.name, "primitives": [primitive]})
        parts = self._parts(_first_places(each)[:1])
        node = {"name": each.name, "mesh": mesh, "extras": {FLESH: True}}
        return file.add("nodes", node | {path: rows[0].tolist() for path, rows in parts.items()})


def _first_places(each: DrawnObstacle) -> Floats:
    return next(placed for placed in each.places if placed is not None)


def _material(kind: ObstacleKind) -> dict[str, Any]:
    colour = COLOURS[kind]
    surface = {"baseColorFactor": colour, "metallicFactor": 0.0, "roughnessFactor": 0.7}
    material = {"name": kind, "pbrMetallicRoughness": surface, "doubleSided": kind == "plane"}
    return material | ({"alphaMode": "BLEND"} if colour[3] < 1 else {})
