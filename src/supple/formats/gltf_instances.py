"""Which meshes a file shows, and where."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from supple.formats.gltf_accessors import Accessors
from supple.formats.gltf_assembly import Instance
from supple.formats.gltf_document import Document
from supple.formats.gltf_meshes import PrimitiveData, read_primitive
from supple.formats.gltf_nodes import NodeForest
from supple.formats.gltf_primitive_checks import expanded_size

__all__: list[str] = []

# Numbers read of all meshes wherever they are shown: a gigabyte.
MOST_NUMBERS = 150_000_000
MOST_INSTANCES = 10_000


def find_instances(document: Document, forest: NodeForest) -> list[Instance]:
    """Nodes of the scene with a mesh; where there are none, all such nodes, or bare meshes.

    Meshes that no node shows get a node each, at the end of the forest.
    """
    nodes, notes = document.part("nodes"), document.notes
    shown = [k for k, node in enumerate(nodes) if "mesh" in node and forest.in_scene[k]]
    if not shown:
        shown = [k for k, node in enumerate(nodes) if "mesh" in node]
        if shown:
            notes.warn("UNUSED_OBJECT", "its scene shows no mesh; all nodes are taken")
    if shown or not document.part("meshes"):
        return [Instance(k, -1, nodes[k]["mesh"], nodes[k].get("skin"), {}) for k in shown]
    notes.warn("UNUSED_OBJECT", "no node shows its meshes; each is taken as it is")
    instances = []
    for mesh, described in enumerate(document.part("meshes")):
        nodes.append({"mesh": mesh, "name": described.get("name") or f"mesh_{mesh}"})
        instances.append(Instance(len(nodes) - 1, -1, mesh, None, {}, unshown=True))
    count = len(instances)
    forest.parents = np.concatenate([forest.parents, np.full(count, -1)])
    forest.translations = np.vstack([forest.translations, np.zeros((count, 3))])
    forest.rotations = np.vstack([forest.rotations, np.tile([0.0, 0, 0, 1], (count, 1))])
    forest.scales = np.vstack([forest.scales, np.ones((count, 3))])
    forest.in_scene = np.concatenate([forest.in_scene, np.ones(count, dtype=bool)])
    return instances


def read_meshes(
    document: Document, accessors: Accessors, instances: list[Instance]
) -> tuple[NDArray[np.float64], list[tuple[int, int]]]:
    """Fill in the instances' primitives; rest weights of all morph targets, and whose they are."""
    if len(instances) > MOST_INSTANCES:
        what = f"shows meshes in {len(instances):,} places"
        document.notes.fail("TOO_LARGE", f"{what}; join them")
    total = sum(expanded_size(document, accessors, i.mesh) for i in instances)
    if total > MOST_NUMBERS:
        document.notes.fail("TOO_LARGE", f"its nodes show meshes of {total:,} numbers; simplify it")
    read: dict[int, dict[int, PrimitiveData]] = {}
    weights: list[float] = []
    shapes: list[tuple[int, int]] = []
    for instance in instances:
        mesh = document.part("meshes")[instance.mesh]
        if instance.mesh not in read:
            read[instance.mesh] = _read_mesh(document, accessors, instance.mesh)
        instance.primitives = read[instance.mesh]
        count = max((len(p.targets) for p in instance.primitives.values()), default=0)
        instance.shapes = range(len(shapes), len(shapes) + count)
        shapes += [(instance.node, target) for target in range(count)]
        weights += _rest_weights(document, instance, mesh.get("weights", []), count)
    return np.array(weights, dtype=np.float64), shapes


def _read_mesh(document: Document, accessors: Accessors, mesh: int) -> dict[int, PrimitiveData]:
    described = document.part("meshes")[mesh]["primitives"]
    counts = {len(primitive.get("targets", [])) for primitive in described}
    if len(counts) > 1:
        what = f"{document.label('mesh', mesh)} has primitives with {min(counts)} to {max(counts)}"
        code = "MESH_PRIMITIVES_UNEQUAL_TARGETS_COUNT"
        document.notes.warn(code, f"{what} morph targets; those that lack are no change")
    read = {k: read_primitive(document, accessors, mesh, k) for k in range(len(described))}
    return {number: data for number, data in read.items() if data is not None}


def _rest_weights(
    document: Document, instance: Instance, default: list[float], count: int
) -> list[float]:
    node = document.part("nodes")[instance.node]
    given = node.get("weights", default)
    if given and len(given) != count:
        code = "NODE_WEIGHTS_INVALID" if "weights" in node else "MESH_INVALID_WEIGHTS_COUNT"
        what = f"{document.label('node', instance.node)} has {len(given)} weights"
        document.notes.warn(code, f"{what} for {count} morph targets; cut or filled with zeros")
    return [float(w) for w in [*given, *[0.0] * count][:count]]
