"""Characters from glTF 2.0: .glb, .gltf and .vrm."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.errors import FormatError, SuppleError, SuppleWarning
from supple.formats.file_bytes import read_bytes, reading
from supple.formats.gltf.accessors import Accessors
from supple.formats.gltf.container import Notes
from supple.formats.gltf.document import Document
from supple.formats.gltf.read.animation import (
    ClipReader,
    GltfClip,
    moving_nodes,
    pose_clips,
    read_channels,
    read_clips,
)
from supple.formats.gltf.read.baked_flesh import without_additions
from supple.formats.gltf.read.materials import Materials
from supple.formats.gltf.read.nodes import NodeForest, read_nodes
from supple.formats.gltf.read.primitives import (
    PrimitiveChecks,
    PrimitiveData,
    expanded_size,
    read_primitive,
)
from supple.formats.gltf.read.skinned_body import Assembler, Body, GltfPrimitive, Instance
from supple.formats.gltf.read.skins import JointFrames, Skin, joint_nodes, read_skins
from supple.formats.painted_maps import PaintedMaps
from supple.formats.registry import GLTF_SUFFIXES
from supple.mesh.surface import SurfaceMesh
from supple.rig.character import Character
from supple.rig.deformers.blend_shapes import BlendShapeRig
from supple.rig.motion.root_motion import WORLD
from supple.rig.protocol import Rig
from supple.rig.skeleton.joint_pose import JointPose
from supple.rig.skeleton.joints import unique_names
from supple.rig.skeleton.skinning import SkinnedRig

# Most numbers of all instances of meshes: a gigabyte.
MOST_NUMBERS = 150_000_000
MOST_INSTANCES = 10_000
MOST_JOINTS = 50_000
# Largest size; squares of larger distances overflow.
LARGEST_EXTENT = 1e100
# Height in units above which a file is read as centimetres: no character is so tall in metres.
TALLEST = 30.0


@dataclass(frozen=True, eq=False)
class GltfSource:
    """Origin in a glTF file of vertices, joints, clips and shapes.

    `joint_nodes` (J,) has the node of each joint, -1 for the joint of meshes that nothing moves;
    copies of joints (for skins bound elsewhere) have the node of their joint. `joint_pose`
    is the layout of the first part of a pose, before morph weights; None without joints. `shapes`
    has node and morph target of each blend shape. `curves` and `flesh` are as for `load_gltf`.
    """

    path: Path
    primitives: tuple[GltfPrimitive, ...]
    joint_nodes: NDArray[np.int64]
    joint_pose: JointPose | None
    clips: dict[str, GltfClip]
    shapes: tuple[tuple[int, int], ...]
    mesh_names: tuple[str, ...] = ()
    extensions_used: frozenset[str] = frozenset()
    curves: bool = True
    flesh: bool = True

    def read(self) -> bytes:
        """Return the file's present bytes, without the additions that loading left out."""
        data = read_bytes(self.path, GLTF_SUFFIXES)
        with warnings.catch_warnings():  # they were given when the file was loaded
            warnings.simplefilter("ignore", SuppleWarning)
            return without_additions(
                self.path, data, Notes(self.path.name), self.curves, self.flesh
            )


def load_gltf(
    path: str | Path,
    metres_per_unit: float | None = None,
    *,
    curves: bool = True,
    flesh: bool = False,
) -> Character:
    """Read a character from a ``.glb``, ``.gltf`` or ``.vrm`` file.

    All meshes of the scene become one surface: skinned meshes, and rigid ones as vertices that
    follow their node. Repeated vertices at seams are welded; ``source`` maps them back. A file
    without mesh gives a character without surface and rig. The default unit is the metre, or the
    centimetre for a file taller than 30 units. `curves` and `flesh` are as for `supple.load`.
    Buffers are opened only beside the file and below. Mistakes that do not prevent reading are
    warnings; others raise FormatError.
    """
    data = read_bytes(path, GLTF_SUFFIXES)
    path = Path(path)
    notes = Notes(path.name)
    with reading(path.name):
        data = without_additions(path, data, notes, curves, flesh)
    return read_gltf(path, data, metres_per_unit, notes, curves=curves, flesh=flesh)


def read_gltf(
    path: Path,
    data: bytes,
    metres_per_unit: float | None = None,
    notes: Notes | None = None,
    *,
    curves: bool = True,
    flesh: bool = True,
) -> Character:
    """Read a character from the bytes of a glTF file, as `load_gltf` does from the file at `path`.

    Additions of Supple are kept; `curves` and `flesh` are False if they were removed before.
    """
    notes = notes or Notes(path.name)
    # Numbers near the end of their range overflow; the results are checked.
    quiet = np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore")
    with _named(path.name), reading(path.name), quiet:
        try:
            return _Loader(Document(path, data, notes), curves, flesh).character(metres_per_unit)
        finally:
            notes.emit()


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Prefix errors with the file's name."""
    try:
        yield
    except SuppleError as error:
        if str(error).startswith(f"{name}: "):
            raise
        raise FormatError(f"{name}: {error}") from error


class _Loader:
    """Steps of loading and their results."""

    def __init__(self, document: Document, curves: bool, flesh: bool) -> None:
        self.document, self.notes = document, document.notes
        self.kept_additions = curves, flesh
        self.accessors = Accessors(document)
        PrimitiveChecks(self.accessors)
        self.n_nodes = len(document.part("nodes"))
        self.forest: NodeForest = read_nodes(document)
        self.instances: list[Instance] = _find_instances(document, self.forest)
        used = {i.skin for i in self.instances if i.skin is not None}
        self.skins: dict[int, Skin] = read_skins(self.accessors, self.forest, used)
        self.rest_weights, self.shapes = _read_meshes(self.accessors, self.instances)
        self.instances = [i for i in self.instances if i.primitives]
        targets = {i.node: len(i.shapes) for i in self.instances if len(i.shapes)}
        self.channels = [
            read_channels(self.accessors, index, targets)
            for index in range(len(document.part("animations")))
        ]
        self.nodes, self.names = self._joints()
        self.frames = JointFrames(self.forest, self.nodes, self.names, 1.0)

    def character(self, metres_per_unit: float | None) -> Character:
        if not self.instances:
            self.notes.warn("NO_MESH", "has no mesh; only its joints and motions can be used")
        unit, size = self._units(metres_per_unit)
        self.frames = JointFrames(self.forest, self.nodes, self.names, unit)
        body = None
        if self.instances:
            assembler = Assembler(self.document, self.frames, self.skins, size * unit)
            body = assembler.body(self.instances, len(self.shapes))
        joint_pose, clips = self._clips(body, size * unit)
        motions = {name: clip.motion() for name, clip in clips.items()}
        rig = self._rig(joint_pose, body) if joint_pose and body else None
        surface = SurfaceMesh(rig(rig.rest_pose), body.triangles) if rig and body else None
        for defect in surface.defects() if surface else ():
            self.notes.defect(defect.message)
        source = self._source(body, joint_pose, clips)
        name = self.document.path.stem
        labels, painted = (self._labels(body), self._painted(body)) if body else ({}, {})
        messages, appearance = self.notes.messages(), body.appearance if body else None
        return Character(
            name, surface, rig, motions, source, unit, messages, labels, painted, appearance
        )

    def _labels(self, body: Body) -> dict[str, NDArray[np.int64]]:
        """Return surface vertices by label, such as ``material:skin``, ``mesh:…``, ``node:…``."""
        parts: dict[str, list[NDArray[np.int64]]] = {}
        names = {"material": "materials", "mesh": "meshes", "node": "nodes"}
        tables = {kind: self.document.part(plural) for kind, plural in names.items()}
        for primitive in body.primitives:
            primitive_json = tables["mesh"][primitive.mesh]["primitives"][primitive.primitive]
            indices = primitive_json.get("material", -1), primitive.mesh, primitive.node
            for kind, index in zip(names, indices, strict=True):
                entry = tables[kind][index] if 0 <= index < len(tables[kind]) else None
                name = entry.get("name") if isinstance(entry, dict) else None  # reported elsewhere
                if name:
                    used = primitive.welded[primitive.welded >= 0]
                    parts.setdefault(f"{kind}:{name}", []).append(used)
        return {name: np.unique(np.concatenate(vertices)) for name, vertices in parts.items()}

    def _painted(self, body: Body) -> dict[str, NDArray[np.float64]]:
        maps = PaintedMaps(len(body.points), partial(self.notes.warn, "PAINTED_MAP"))
        read = [data for each in self.instances for data in each.primitives.values()]
        for data, part in zip(read, body.primitives, strict=True):
            for name, values in data.painted.items():
                maps.add(name, part.welded, values)
        return maps.maps()

    def _clips(
        self, body: Body | None, size: float
    ) -> tuple[JointPose | None, dict[str, GltfClip]]:
        shapes = {i.node: i.shapes for i in self.instances if len(i.shapes)}
        copies = body.copies if body else None
        count = 0 if copies is None else len(copies)
        reader = ClipReader(self.frames, shapes, self.rest_weights, count)
        clips = read_clips(self.document, self.channels, reader)
        if len(self.frames.nodes) == 0:
            return None, {}
        return pose_clips(reader, clips, self.frames.skeleton(copies), body, size)

    def _source(
        self, body: Body | None, joint_pose: JointPose | None, clips: dict[str, GltfClip]
    ) -> GltfSource:
        nodes = self.frames.nodes
        if body is not None:
            nodes = np.concatenate([nodes, nodes[body.copies]])
        names = [mesh.get("name") for mesh in self.document.part("meshes")]
        return GltfSource(
            self.document.path,
            body.primitives if body else (),
            np.where(nodes < self.n_nodes, nodes, -1),
            joint_pose,
            clips,
            tuple(self.shapes),
            tuple(str(name or f"mesh_{index}") for index, name in enumerate(names)),
            self.document.extensions_used,
            *self.kept_additions,
        )

    def _joints(self) -> tuple[NDArray[np.int64], list[str]]:
        """Return the nodes that are joints and their names; attach rigid meshes to them."""
        listed: set[int] = set()
        for skin in self.skins.values():
            listed.update(skin.joints.tolist())
        rigid = [instance for instance in self.instances if instance.skin is None]
        if not self.instances:
            for described in self.document.part("skins"):
                listed.update(described["joints"])
            listed = listed or set(np.flatnonzero(self.forest.in_scene).tolist())
        shown = {instance.node for instance in rigid}
        count = len(self.forest.with_ancestors([*listed, *shown]))
        if count > MOST_JOINTS:
            self.notes.fail("TOO_LARGE", f"has {count:,} animated nodes; simplify it")
        moving = moving_nodes(self.forest, self.channels)
        order = joint_nodes(self.forest, listed, shown, moving)
        nodes = self.document.part("nodes")
        names = [str(nodes[node].get("name") or f"node_{node}") for node in order]
        joint_of = {int(node): joint for joint, node in enumerate(order)}
        attached = self.forest.nearest_above(joint_of, shown)
        for instance in rigid:
            nearest, instance.offset = attached[instance.node]
            instance.joint = joint_of.get(nearest, len(order))
        if any(instance.joint == len(order) for instance in rigid):
            order = np.append(order, self.forest.add(1))
            names.append(WORLD)
        return order, names

    def _units(self, metres_per_unit: float | None) -> tuple[float, float]:
        """Return metres per unit, given or guessed, and the character's size in units."""
        if not self.instances:
            return metres_per_unit or 1.0, 1.0
        assembler = Assembler(self.document, self.frames, self.skins, 1.0)
        low, high = np.full(3, np.inf), np.full(3, -np.inf)
        for instance in self.instances:
            for data in instance.primitives.values():
                positions = assembler.rest_positions(instance, data)[np.unique(data.triangles)]
                low = np.minimum(low, positions.min(axis=0))
                high = np.maximum(high, positions.max(axis=0))
        extent = high - low
        if not np.abs(extent).max(initial=0.0) < LARGEST_EXTENT:  # nan too
            self.notes.fail("TOO_LARGE", "its rest pose is too large; check its transforms")
        size = float(np.linalg.norm(extent))
        if metres_per_unit is not None:
            return metres_per_unit, size
        metres = 0.01 if extent[1] > TALLEST else 1.0
        if metres < 1:
            what = f"is {extent[1]:.4g} units tall, too much for metres"
            how = f"read as centimetres, {extent[1] * metres:.3g} m"
            self.notes.warn("CENTIMETRES", f"{what}; {how}")
        return metres, size

    def _rig(self, joint_pose: JointPose, body: Body) -> Rig:
        rig = SkinnedRig(joint_pose, body.points, body.joints, body.weights, body.inverse_bind)
        if not self.shapes:
            return rig
        names = [self._shape_name(node, target) for node, target in self.shapes]
        used = [parameter.name for parameter in rig.parameters]
        unique = unique_names([*used, *names])[len(used) :]
        return BlendShapeRig(rig, body.deltas, unique, rest=self.rest_weights)

    def _shape_name(self, node: int, target: int) -> str:
        instance = next(i for i in self.instances if i.node == node)
        extras: Any = self.document.part("meshes")[instance.mesh].get("extras")
        names = extras.get("targetNames") if isinstance(extras, dict) else None
        if isinstance(names, list) and target < len(names) and isinstance(names[target], str):
            return names[target]
        return f"shape_{target}"


# Meshes in the scene, and their nodes.


def _find_instances(document: Document, forest: NodeForest) -> list[Instance]:
    """Return the scene's nodes with a mesh; without any, all such nodes, or the meshes alone.

    Meshes without a node get one each, at the end of the forest.
    """
    nodes, notes = document.part("nodes"), document.notes
    shown = [k for k, node in enumerate(nodes) if "mesh" in node and forest.in_scene[k]]
    if not shown:
        shown = [k for k, node in enumerate(nodes) if "mesh" in node]
        if shown:
            notes.warn("UNUSED_OBJECT", "its scene has no mesh; all nodes are used")
    if shown or not document.part("meshes"):
        return [Instance(k, -1, nodes[k]["mesh"], nodes[k].get("skin"), {}) for k in shown]
    notes.warn("UNUSED_OBJECT", "none of its nodes has a mesh; each mesh is used as it is")
    instances = []
    for mesh, described in enumerate(document.part("meshes")):
        nodes.append({"mesh": mesh, "name": described.get("name") or f"mesh_{mesh}"})
        instances.append(Instance(len(nodes) - 1, -1, mesh, None, {}, unshown=True))
    forest.add(len(instances))
    return instances


def _read_meshes(
    accessors: Accessors, instances: list[Instance]
) -> tuple[NDArray[np.float64], list[tuple[int, int]]]:
    """Read the instances' primitives; return rest weights and (node, target) of morph targets."""
    document = accessors.document
    if len(instances) > MOST_INSTANCES:
        what = f"has {len(instances):,} instances of meshes"
        document.notes.fail("TOO_LARGE", f"{what}; join them")
    total = sum(expanded_size(accessors, i.mesh) for i in instances)
    if total > MOST_NUMBERS:
        document.notes.fail("TOO_LARGE", f"its meshes have {total:,} numbers; simplify it")
    read: dict[int, dict[int, PrimitiveData]] = {}
    materials = Materials(document)
    weights: list[float] = []
    shapes: list[tuple[int, int]] = []
    for instance in instances:
        mesh = document.part("meshes")[instance.mesh]
        if instance.mesh not in read:
            read[instance.mesh] = _read_mesh(accessors, materials, instance.mesh)
        instance.primitives = read[instance.mesh]
        count = max((len(p.targets) for p in instance.primitives.values()), default=0)
        instance.shapes = range(len(shapes), len(shapes) + count)
        shapes += [(instance.node, target) for target in range(count)]
        weights += _rest_weights(document, instance, mesh.get("weights", []), count)
    return np.array(weights, dtype=np.float64), shapes


def _read_mesh(accessors: Accessors, materials: Materials, mesh: int) -> dict[int, PrimitiveData]:
    document = accessors.document
    primitives = document.part("meshes")[mesh]["primitives"]
    counts = {len(primitive.get("targets", [])) for primitive in primitives}
    if len(counts) > 1:
        what = f"{document.label('mesh', mesh)} has primitives with {min(counts)} to {max(counts)}"
        code = "MESH_PRIMITIVES_UNEQUAL_TARGETS_COUNT"
        document.notes.warn(code, f"{what} morph targets; missing ones are zero")
    read = {k: read_primitive(accessors, materials, mesh, k) for k in range(len(primitives))}
    return {number: data for number, data in read.items() if data is not None}


def _rest_weights(
    document: Document, instance: Instance, default: list[float], count: int
) -> list[float]:
    node = document.part("nodes")[instance.node]
    weights = node.get("weights", default)
    if weights and len(weights) != count:
        code = "NODE_WEIGHTS_INVALID" if "weights" in node else "MESH_INVALID_WEIGHTS_COUNT"
        what = f"{document.label('node', instance.node)} has {len(weights)} weights"
        document.notes.warn(code, f"{what} for {count} morph targets; cut or filled with zeros")
    return [float(w) for w in [*weights, *[0.0] * count][:count]]
