"""A motion that a glTF file does not have, as an animation of its nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from supple.arrays import Floats
from supple.formats.gltf.document import Document
from supple.formats.gltf.gltf_file import GltfFile
from supple.formats.gltf.read.gltf import GltfSource
from supple.formats.gltf.read.nodes import NodeForest, read_nodes
from supple.formats.gltf.read.skins import JointFrames
from supple.formats.gltf.write.weight_tracks import Times
from supple.maths.rotations import continuous, from_matrix, multiply, rotate, to_matrix
from supple.maths.transforms import decompose, scaling

#: Nodes that leave their rest by less than this are not animated: rounding of their file.
STILL = 1e-7


class NodeMotion:
    """Poses and roots of a character as local transforms of the file's nodes.

    Parameters
    ----------
    document
        The file, as it was.
    source
        Which node is which joint.
    metres_per_unit
        Of the character.
    """

    def __init__(self, document: Document, source: GltfSource, metres_per_unit: float) -> None:
        assert source.joint_pose is not None
        self.forest = read_nodes(document)
        self.joint_pose = source.joint_pose
        # Joints that are copies of others come last, and before them the one that has no node.
        nodes = source.joint_nodes[: len(np.unique(source.joint_nodes))]
        self.nodes, self.count = nodes[nodes >= 0], len(nodes)
        names = [str(node) for node in self.nodes]
        self.frames = JointFrames(self.forest, self.nodes, names, metres_per_unit)
        self.metres_per_unit = metres_per_unit
        self.still = self._still_nodes(document, source)
        hung = self.forest.hung(self.still, self.nodes.tolist())
        carried = np.array([hung[node][0] >= 0 for node in self.nodes.tolist()], dtype=bool)
        self.tops = np.flatnonzero((self.frames.parents < 0) & ~carried)

    def _still_nodes(self, document: Document, source: GltfSource) -> set[int]:
        """Return the topmost nodes of meshes that follow no joint."""
        shown, parents = document.part("nodes"), self.forest.parents
        rigid = {p.node for p in source.primitives if p.node >= 0 and "skin" not in shown[p.node]}
        hung = self.forest.hung(set(self.nodes.tolist()), rigid)
        found = {node for node in rigid if hung[node][0] < 0}
        above = self.forest.hung(found, found)
        return {node for node in found if above[int(parents[node])][0] < 0}

    def playable(self, poses: Floats) -> Floats:
        """Return poses without motion that no node can play: copies of joints that move."""
        played = poses.copy()
        turns = 3 * self.count, 3 * self.joint_pose.skeleton.n_joints
        played[:, turns[0] : turns[1]] = 0
        return played

    def locals(self, poses: Floats, roots: Floats) -> dict[str, Floats]:
        """Return translations, rotations, scales of nodes, (t, J, 3 or 4), in the file's units."""
        moves, turns, scales = (part[:, : len(self.nodes)].copy() for part in self._unpacked(poses))
        turn = continuous(from_matrix(roots[:, :3, :3]))
        for top in self.tops:
            moves[:, top] = rotate(turn, moves[:, top]) + roots[:, :3, 3]
            turns[:, top] = multiply(turn, turns[:, top])
        parts = self.frames.in_units(moves, turns, scales)
        return dict(zip(("translation", "rotation", "scale"), parts, strict=True))

    def _unpacked(self, poses: Floats) -> tuple[Floats, Floats, Floats]:
        return self.joint_pose.unpack(poses[:, : self.joint_pose.n_parameters])

    def _carried(self, node: int, poses: Floats, roots: Floats) -> dict[str, Floats]:
        """Return how a node goes that follows no joint with a node: L becomes P⁻¹ G P L.

        G is the root's motion, with that of the joint it does follow.
        """
        moves, turns, _ = (part[:, len(self.nodes)] for part in self._unpacked(poses))
        own = np.tile(np.eye(4), (len(poses), 1, 1))
        own[:, :3, :3], own[:, :3, 3] = to_matrix(turns), moves
        parent = int(self.forest.parents[node])
        above = self.forest.hung((), [node])[parent][1]
        metres = scaling(self.metres_per_unit)
        goes = np.linalg.inv(metres) @ roots @ own @ metres
        parts, _ = decompose(np.linalg.inv(above) @ goes @ above @ self.forest.local(node))
        return {"translation": parts.translations, "rotation": parts.rotations}

    def tracks(self, poses: Floats, roots: Floats) -> list[tuple[int, str, Floats]]:
        """Return node, path and values (t, c) of everything that leaves its rest."""
        rests = {
            "translation": self.forest.translations,
            "rotation": self.forest.rotations,
            "scale": self.forest.scales,
        }
        tracks = [
            (node, path, values[:, joint])
            for path, values in self.locals(poses, roots).items()
            for joint, node in enumerate(self.nodes.tolist())
        ]
        for node in sorted(self.still):
            moved = self._carried(node, poses, roots)
            tracks += [(node, path, keys) for path, keys in moved.items()]
        found = []
        for node, path, values in tracks:
            keys, rest = values, rests[path][node]
            if path == "rotation":
                keys = continuous(keys)
                keys = -keys if keys[0] @ rest < 0 else keys
            if np.abs(keys - rest).max() > STILL * max(1.0, float(np.abs(rest).max())):
                found.append((node, path, keys))
        return found

    def animate(
        self,
        file: GltfFile,
        times: Times,
        animation: dict[str, Any],
        when: Floats,
        poses: Floats,
        roots: Floats,
    ) -> None:
        """Add channels for every node that leaves its rest."""
        for node, path, keys in self.tracks(poses, roots):
            free_node(file, self.forest, node)
            sampler = {
                "input": times.accessor(when),
                "output": file.accessor(keys.astype(np.float32)),
                "interpolation": "LINEAR",
            }
            animation["samplers"].append(sampler)
            target = {"node": node, "path": path}
            number = len(animation["samplers"]) - 1
            animation["channels"].append({"sampler": number, "target": target})


def free_node(file: GltfFile, forest: NodeForest, node: int) -> None:
    """Replace a node's matrix, which cannot be animated, by its parts."""
    described = file.part("nodes")[node]
    if "matrix" in described:
        del described["matrix"]
        described["translation"] = forest.translations[node].tolist()
        described["rotation"] = forest.rotations[node].tolist()
        described["scale"] = forest.scales[node].tolist()
