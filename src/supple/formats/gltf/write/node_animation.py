"""A motion that a glTF file does not have, as an animation of its nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from supple.arrays import Floats
from supple.formats.gltf.document import Document
from supple.formats.gltf.read.gltf import GltfSource
from supple.formats.gltf.read.nodes import read_nodes
from supple.formats.gltf.read.skins import JointFrames
from supple.formats.gltf.write.gltf_file import GltfFile
from supple.formats.gltf.write.weight_tracks import Times
from supple.maths.rotations import continuous, from_matrix, multiply, rotate

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
        # Joints that are copies of others come last.
        self.nodes = source.joint_nodes[: len(np.unique(source.joint_nodes))]
        names = [str(node) for node in self.nodes]
        self.frames = JointFrames(self.forest, self.nodes, names, metres_per_unit)

    def playable(self, poses: Floats) -> Floats:
        """Return poses without motion that no node can play: copies of joints that move."""
        played = poses.copy()
        turns = 3 * len(self.nodes), 3 * self.joint_pose.skeleton.n_joints
        played[:, turns[0] : turns[1]] = 0
        return played

    def locals(self, poses: Floats, roots: Floats) -> dict[str, Floats]:
        """Return translations, rotations, scales of nodes, (t, J, 3 or 4), in the file's units."""
        count = len(self.nodes)
        own = poses[:, : self.joint_pose.n_parameters]
        moves, turns, scales = (part[:, :count].copy() for part in self.joint_pose.unpack(own))
        turn = continuous(from_matrix(roots[:, :3, :3]))
        for top in np.flatnonzero(self.frames.parents < 0):
            moves[:, top] = rotate(turn, moves[:, top]) + roots[:, :3, 3]
            turns[:, top] = multiply(turn, turns[:, top])
        return {
            "translation": moves / self.frames.parent_sizes[:, None],
            "rotation": turns,
            "scale": scales * self.frames.own_sizes[:, None],
        }

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
        rests = {
            "translation": self.forest.translations,
            "rotation": self.forest.rotations,
            "scale": self.forest.scales,
        }
        for path, values in self.locals(poses, roots).items():
            for joint, node in enumerate(self.nodes.tolist()):
                keys, rest = values[:, joint], rests[path][node]
                if path == "rotation":
                    keys = continuous(keys)
                    keys = -keys if keys[0] @ rest < 0 else keys
                if np.abs(keys - rest).max() <= STILL * max(1.0, float(np.abs(rest).max())):
                    continue
                self._free(file, node)
                sampler = {
                    "input": times.accessor(when),
                    "output": file.accessor(keys.astype(np.float32)),
                    "interpolation": "LINEAR",
                }
                animation["samplers"].append(sampler)
                target = {"node": node, "path": path}
                number = len(animation["samplers"]) - 1
                animation["channels"].append({"sampler": number, "target": target})

    def _free(self, file: GltfFile, node: int) -> None:
        """Replace a node's matrix, which cannot be animated, by its parts."""
        described = file.part("nodes")[node]
        if "matrix" in described:
            del described["matrix"]
            described["translation"] = self.forest.translations[node].tolist()
            described["rotation"] = self.forest.rotations[node].tolist()
            described["scale"] = self.forest.scales[node].tolist()
