"""Nodes of a glTF file as a forest with local transforms."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Floats
from supple.formats.gltf.container import Notes
from supple.formats.gltf.document import Document
from supple.maths.rotations import FLAT, decompose, to_matrix

# Deviation from orthogonal columns above which a matrix is sheared: float32.
SHEAR = 1e-3


@dataclass
class NodeForest:
    """Parents (-1 for none), positions among siblings, and local transforms of all nodes.

    Rotations are quaternions (x, y, z, w); `in_scene` marks nodes of the scene.
    """

    parents: NDArray[np.int64]
    places: NDArray[np.int64]
    translations: Floats
    rotations: Floats
    scales: Floats
    in_scene: NDArray[np.bool_]

    def add(self, count: int) -> range:
        """Append nodes without parents and with identity transforms; return their numbers."""
        first = len(self.parents)
        self.parents = np.concatenate([self.parents, np.full(count, -1)])
        self.places = np.concatenate([self.places, np.zeros(count, np.int64)])
        self.translations = np.vstack([self.translations, np.zeros((count, 3))])
        self.rotations = np.vstack([self.rotations, np.tile([0.0, 0, 0, 1], (count, 1))])
        self.scales = np.vstack([self.scales, np.ones((count, 3))])
        self.in_scene = np.concatenate([self.in_scene, np.ones(count, dtype=bool)])
        return range(first, first + count)

    def local(self, node: int) -> Floats:
        """Return the rest transform (4, 4) of a node in its parent's space."""
        matrix = np.eye(4)
        matrix[:3, :3] = to_matrix(self.rotations[node]) * self.scales[node]
        matrix[:3, 3] = self.translations[node]
        return matrix

    def rest(self) -> dict[str, Floats]:
        """Return local rest transforms of the nodes by the paths of animation channels."""
        return {
            "translation": self.translations,
            "rotation": self.rotations,
            "scale": self.scales,
        }

    def nearest_above(
        self, on: Container[int], nodes: Iterable[int]
    ) -> dict[int, tuple[int, Floats]]:
        """Return the nearest node of `on` at or above each of `nodes` and their ancestors, or -1.

        Each comes with the rest transform (4, 4) relative to that nearest node. The key -1 is the
        parent of roots.
        """
        nearest: dict[int, tuple[int, Floats]] = {-1: (-1, np.eye(4))}
        for node in self.with_ancestors(nodes).tolist():
            ancestor, transform = nearest[int(self.parents[node])]
            nearest[node] = (
                (node, np.eye(4)) if node in on else (ancestor, transform @ self.local(node))
            )
        return nearest

    def with_ancestors(self, nodes: Iterable[int]) -> NDArray[np.int64]:
        """Return nodes and their ancestors, parents first, subtrees together."""
        needed: set[int] = set()
        for start in nodes:
            node = start
            while node >= 0 and node not in needed:
                needed.add(node)
                node = int(self.parents[node])
        children: dict[int, list[int]] = {}
        for node in sorted(needed, key=lambda node: (self.places[node], node), reverse=True):
            children.setdefault(int(self.parents[node]), []).append(node)
        order, stack = [], list(children.get(-1, []))
        while stack:
            node = stack.pop()
            order.append(node)
            stack.extend(children.get(node, []))
        return np.array(order, dtype=np.int64)


def read_nodes(document: Document) -> NodeForest:
    """Return the forest; FormatError if a node is its own ancestor."""
    nodes, notes = document.part("nodes"), document.notes
    parents, places = _parents(nodes, notes)
    translations, rotations, scales = (np.empty((len(nodes), width)) for width in (3, 4, 3))
    for index, node in enumerate(nodes):
        for name in ("skin", "weights"):
            if name in node and "mesh" not in node:
                what = f"node {index} has {name} but no mesh"
                notes.warn("UNSATISFIED_DEPENDENCY", f"{what}; ignored")
        translations[index], rotations[index], scales[index] = _transform(index, node, notes)
    in_scene = _in_scene(document, parents)
    return NodeForest(parents, places, translations, rotations, scales, in_scene)


def _parents(
    nodes: list[dict[str, Any]], notes: Notes
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the parent of each node, and its position among the children."""
    parents = np.full(len(nodes), -1, dtype=np.int64)
    places = np.zeros(len(nodes), dtype=np.int64)
    for index, node in enumerate(nodes):
        for place, child in enumerate(node.get("children", [])):
            if child == index:
                notes.fail("NODE_LOOP", f"node {index} is its own child")
            if parents[child] >= 0:
                what = f"node {child} is a child of {parents[child]} and {index}"
                notes.warn("NODE_PARENT_OVERRIDE", f"{what}; the first is used")
            else:
                parents[child], places[child] = index, place
    # Pointer doubling: after as many steps as nodes, all are above the roots.
    above, steps = parents.copy(), 1
    while steps <= len(nodes) and (above >= 0).any():
        above = np.where(above >= 0, above[above], -1)
        steps *= 2
    if (above >= 0).any():
        notes.fail("NODE_LOOP", f"node {int(np.argmax(above >= 0))} is below a loop of nodes")
    return parents, places


def _in_scene(document: Document, parents: NDArray[np.int64]) -> NDArray[np.bool_]:
    scenes = document.part("scenes")
    if not scenes:
        return np.ones(len(parents), dtype=bool)
    inside = np.zeros(len(parents), dtype=bool)
    children: dict[int, list[int]] = {}
    for node, parent in enumerate(parents.tolist()):
        children.setdefault(parent, []).append(node)
    for node in scenes[document.json.get("scene", 0)].get("nodes", []):
        if parents[node] >= 0:
            what = f"node {node} is in the scene and below node {parents[node]}"
            document.notes.warn("SCENE_NON_ROOT_NODE", f"{what}; it follows its parent")
        stack = [node]
        while stack:
            below = stack.pop()
            if not inside[below]:
                inside[below] = True
                stack.extend(children.get(below, []))
    return inside


def _transform(index: int, node: dict[str, Any], notes: Notes) -> tuple[Any, Any, Any]:
    components = {"translation", "rotation", "scale"} & node.keys()
    if "matrix" in node:
        if components:
            message = f"node {index} has a matrix and components; the matrix is used"
            notes.warn("NODE_MATRIX_TRS", message)
        return _decomposed(index, np.array(node["matrix"], np.float64).reshape(4, 4).T, notes)
    rotation = np.array(node.get("rotation", (0, 0, 0, 1)), np.float64)
    length = np.linalg.norm(rotation)
    if abs(length - 1) > 1e-3:
        message = f"rotation of node {index} has length {length:.3g}; normalised"
        notes.warn("ROTATION_NON_UNIT", message)
    rotation = rotation / length if 1e-12 < length < np.inf else np.array([0.0, 0, 0, 1])
    return node.get("translation", (0, 0, 0)), rotation, node.get("scale", (1, 1, 1))


def _decomposed(index: int, matrix: Floats, notes: Notes) -> tuple[Floats, Floats, Floats]:
    """Return the translation, rotation and scale nearest to the matrix."""
    nearest, shear = decompose(matrix)
    sheared = shear > SHEAR or (np.abs(nearest.scales) < FLAT).any()
    if sheared or not np.allclose(matrix[3], (0, 0, 0, 1), atol=SHEAR):
        what = f"the matrix of node {index} is sheared or singular"
        how = "the nearest translation, rotation, scale is used"
        notes.warn("NODE_MATRIX_NON_TRS", f"{what}; {how}")
    return nearest.translations, nearest.rotations, nearest.scales
