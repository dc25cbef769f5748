"""Morph targets of a glTF file: fitted to baked frames, and added to its meshes."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from supple.arrays import Floats, Ints, Singles
from supple.formats.gltf.accessors import COMPONENTS, Accessors, decode_draco
from supple.formats.gltf.document import DRACO, Document
from supple.formats.gltf.gltf_file import CORNERS, VERTICES, GltfFile
from supple.formats.gltf.read.gltf import GltfSource
from supple.formats.gltf.read.skinned_body import GltfPrimitive
from supple.formats.gltf.write.vrm_extension import copy_binds
from supple.formats.morph_fit import MOST_KEPT, Progress, fit_morphs, unit_weights
from supple.formats.registry import FLESH
from supple.formats.vertex_normals import VertexNormals
from supple.rig.baked_motion import BakedMotion
from supple.rig.inverse_skinning import (
    OffsetMatrices,
    largest_stretch,
    offset_matrices,
    offsets_before_skinning,
    undone,
)
from supple.rig.protocol import Rig


@dataclass
class NewTargets:
    """Offsets (b, n, 3) that a primitive gains, in its own space; of normals too if wanted."""

    positions: Singles
    normals: Singles | None = None


def own_mesh(file: GltfFile, node: int) -> dict[str, Any]:
    """Return the mesh of a node alone: a copy of the same data if other nodes show it, too."""
    nodes = file.part("nodes")
    index = nodes[node]["mesh"]
    if any(other.get("mesh") == index for k, other in enumerate(nodes) if k != node):
        new = file.add("meshes", copy.deepcopy(file.part("meshes")[index]))
        copy_binds(file, index, new)
        nodes[node]["mesh"] = index = new
    return file.part("meshes")[index]


def add_targets(
    file: GltfFile, mesh: dict[str, Any], new: dict[int, NewTargets], names: list[str]
) -> int:
    """Add targets to a mesh, by primitive; primitives that have none of them get zeros.

    Returns
    -------
    int
        How many targets the mesh had before.
    """
    primitives = mesh["primitives"]
    before = max(len(primitive.get("targets", [])) for primitive in primitives)
    for number, primitive in enumerate(primitives):
        if "POSITION" not in primitive["attributes"]:
            continue  # shows nothing
        _Targets(file, primitive).add(before, new.get(number), len(names))
    given = [*mesh.get("weights", []), *[0.0] * before][:before]
    mesh["weights"] = [*given, *[0.0] * len(names)]
    _name_targets(mesh, before, names)
    return before


class _Targets:
    """The targets of one primitive, all with the same attributes.

    Some viewers take a missing attribute of a target for the primitive's own, not for no change.
    """

    def __init__(self, file: GltfFile, primitive: dict[str, Any]) -> None:
        self.file, self.primitive = file, primitive
        at = primitive["attributes"]["POSITION"]
        self.count = file.part("accessors")[at]["count"]
        self._zeros: dict[int, int] = {}

    def add(self, before: int, new: NewTargets | None, count: int) -> None:
        targets = list(self.primitive.get("targets", []))
        targets += [{} for _ in range(before - len(targets))]
        added: list[dict[str, int]] = [{} for _ in range(count)]
        if new is not None:
            self._fill(added, "POSITION", new.positions)
            if new.normals is not None:
                self._fill(added, "NORMAL", new.normals)
        names = dict.fromkeys(["POSITION", *(name for t in [*targets, *added] for name in t)])
        for target in [*targets, *added]:
            for name in names:
                if name not in target:
                    target[name] = self._nothing(name)
        self.primitive["targets"] = targets + added

    def _fill(self, targets: list[dict[str, int]], name: str, values: Singles) -> None:
        made = self.file.accessors(values, bounds=name == "POSITION", target=VERTICES)
        for target, accessor in zip(targets, made, strict=True):
            target[name] = accessor

    def _nothing(self, name: str) -> int:
        """Return an accessor of no change, as wide as the attribute; colours may have an alpha."""
        own = self.primitive["attributes"].get(name)
        wide = own is not None and self.file.part("accessors")[own]["type"] == "VEC4"
        width = 4 if wide and name.startswith("COLOR") else 2 if name.startswith("TEXCOORD") else 3
        if width not in self._zeros:
            zeros = np.zeros((self.count, width), np.float32)
            self._zeros[width] = self.file.accessor(zeros, bounds=True, target=VERTICES)
        return self._zeros[width]


def _name_targets(mesh: dict[str, Any], before: int, names: list[str]) -> None:
    for owner in (mesh, *mesh["primitives"]):  # VRM 0.x has names of primitives, others of meshes
        extras = owner.setdefault("extras", {}) if owner is mesh else owner.get("extras")
        if not isinstance(extras, dict) or (owner is not mesh and "targetNames" not in extras):
            continue  # somebody's own; there is no room for names
        extras["targetNames"] = _with_names(extras.get("targetNames"), before, names)
        if owner is mesh:  # by which they are known where the record is lost
            extras[FLESH] = extras["targetNames"][before:]


def _with_names(old: Any, before: int, names: list[str]) -> list[str]:
    known = [name for name in old if isinstance(name, str)] if isinstance(old, list) else []
    known += [f"target_{k}" for k in range(len(known), before)]
    return [*known[:before], *unused_names(names, known)]


def target_names(bakes: Sequence[BakedMotion], count: int) -> list[str]:
    """Return names of so many targets that play these motions."""
    name = bakes[0].motion.name if len(bakes) == 1 else ""
    return [f"{name} soft {number + 1}".strip() for number in range(count)]


def played_names(names: list[str]) -> dict[str, Any]:
    """Return the figure that names the animations which play baked motions."""
    return {"animation": names[0]} if len(names) == 1 else {"animations": names}


def unused_names(names: list[str], taken: list[str]) -> list[str]:
    """Return the names, with a number behind those that are taken."""
    result: list[str] = []
    for name in names:
        candidate, number = name, 2
        while candidate in taken or candidate in result:
            candidate, number = f"{name} ({number})", number + 1
        result.append(candidate)
    return result


def unpack_draco(
    file: GltfFile, document: Document, accessors: Accessors, mesh: dict[str, Any]
) -> int:
    """Write compressed primitives of a mesh plainly: vertices of a target follow their order."""
    count = 0
    for primitive in mesh["primitives"]:
        if DRACO not in primitive.get("extensions", {}):
            continue
        n = accessors.count(primitive["attributes"]["POSITION"])
        attributes, corners = decode_draco(document, primitive, n)
        for name, values in attributes.items():
            if name in primitive["attributes"]:
                _give_data(file, primitive["attributes"][name], values, VERTICES)
        if "indices" not in primitive:
            primitive["indices"] = file.accessor(corners.astype(np.uint32)[:, None], target=CORNERS)
        else:
            file.part("accessors")[primitive["indices"]]["count"] = len(corners)
            _give_data(file, primitive["indices"], corners[:, None], CORNERS)
        primitive.pop("mode", None)  # decoded as triangles, whatever it was
        del primitive["extensions"][DRACO]
        if not primitive["extensions"]:
            del primitive["extensions"]
        count += 1
    return count


def _give_data(file: GltfFile, index: int, values: NDArray[Any], target: int) -> None:
    """Give bytes to an accessor that had none of its own."""
    described = file.part("accessors")[index]
    data = np.ascontiguousarray(values, COMPONENTS[described["componentType"]])
    width = -(-data.shape[1] * data.itemsize // 4) * 4
    more: dict[str, Any] = {"target": target}
    if target == VERTICES and width != data.shape[1] * data.itemsize:
        # Vertex attributes begin at multiples of four.
        wide = np.zeros((len(data), width), np.uint8)
        wide[:, : data.shape[1] * data.itemsize] = data.view(np.uint8).reshape(len(data), -1)
        described["bufferView"] = file.view(wide.tobytes(), byteStride=width, **more)
    else:
        described["bufferView"] = file.view(data.tobytes(), **more)
    described.pop("byteOffset", None)
    for key, found in (("min", data.min(axis=0)), ("max", data.max(axis=0))):
        if key in described:  # compression moved them a little
            described[key] = found.tolist()


def forget_draco(file: GltfFile) -> None:
    """Take the extension out of the lists where nothing uses it any more."""
    for mesh in file.part("meshes"):
        if any(DRACO in p.get("extensions", {}) for p in mesh["primitives"]):
            return
    for name in ("extensionsUsed", "extensionsRequired"):
        left = [e for e in file.part(name) if e != DRACO]
        if name in file.json:
            file.json[name] = left
            if not left:
                del file.json[name]


# Baked frames as offsets before skinning.


#: What a vertex may miss for the sake of a small offset, as part of the allowed error.
GIVEN_UP = 0.25


@dataclass
class ShapedNodes:
    """Nodes that are played with the same weights, and their shapes.

    Attributes
    ----------
    nodes
        In the file.
    vertices
        (m,) those of the surface that they show.
    shapes
        (b, m, 3) in the space of bound positions, metres.
    weights
        (t, b) over the baked frames.
    reached
        Largest error, as part of the size.
    """

    nodes: tuple[int, ...]
    vertices: Ints
    shapes: Singles
    weights: Singles
    reached: float

    def of_vertices(self, welded: Ints) -> Singles:
        """Return shapes (b, n, 3) of a primitive's vertices; zero for a vertex of no triangle."""
        place = np.searchsorted(self.vertices, np.maximum(welded, 0))
        place = np.minimum(place, len(self.vertices) - 1)
        return np.where((welded >= 0)[:, None], self.shapes[:, place], np.float32(0))


def fit_groups(
    frames: Singles,
    rig: Rig,
    source: GltfSource,
    poses: Floats,
    roots: Floats,
    size: float,
    error: float,
    progress: Progress,
) -> list[ShapedNodes]:
    """Fit shapes and weights to each group of nodes that share vertices.

    `rig` and `source` are the file's, `poses` and `roots` what it plays by itself at the frames,
    (t, n, 3), of one motion or of several. `error` is a part of the size.
    """
    given_up = GIVEN_UP * error * size
    offsets, moves, kept = offsets_of_frames(frames, rig, poses, roots, given_up, progress)
    groups = _groups(source)
    found = []
    for number, (nodes, vertices) in enumerate(groups):
        some = slice(None) if len(vertices) == rig.n_vertices else vertices
        begin, share = 0.4 + 0.6 * number / len(groups), 0.6 / len(groups)
        shapes, weights, reached = fit_morphs(
            offsets[:, some],
            OffsetMatrices(rig, poses, vertices) if kept is None else kept[:, some],
            size,
            error,
            moves=moves[:, some],
            progress=_within(progress, begin, share),
        )
        shapes, weights = unit_weights(shapes, weights)
        found.append(ShapedNodes(nodes, vertices, shapes, weights, reached))
    return found


def in_root_space(points: Singles, root: Floats) -> Floats:
    """Return points (n, 3) of a baked frame without the root's motion, (4, 4)."""
    there: Floats = (points.astype(np.float64) - root[:3, 3]) @ root[:3, :3]
    return there


def _within(progress: Progress, begin: float, share: float) -> Progress:
    return lambda part, what: progress(begin + share * part, what)


def offsets_of_frames(
    frames: Singles,
    rig: Rig,
    poses: Floats,
    roots: Floats,
    tolerance: float,
    progress: Progress,
) -> tuple[Singles, Singles, Singles | None]:
    """Return offsets before skinning, the moves they are to make after it, and the matrices.

    The matrices are None where all of them would take too much memory.
    """
    offsets, moves = np.empty_like(frames), np.empty_like(frames)
    shape = (*frames.shape, 3)
    kept = np.empty(shape, np.float32) if np.prod(shape) <= MOST_KEPT else None
    stretch = largest_stretch(rig, OffsetMatrices(rig, poses))
    for frame, (pose, root) in enumerate(zip(poses, roots, strict=True)):
        wanted = in_root_space(frames[frame], root)
        present = rig(pose)
        matrices = offset_matrices(rig, pose)
        offsets[frame] = offsets_before_skinning(
            rig,
            pose,
            wanted,
            present=present,
            matrices=matrices,
            tolerance=tolerance,
            stretch=stretch,
        )
        moves[frame] = wanted - present
        if kept is not None:
            kept[frame] = matrices
        progress(0.4 * (frame + 1) / len(poses), "undoing the skinning")
    return offsets, moves, kept


def _groups(source: GltfSource) -> list[tuple[tuple[int, ...], Ints]]:
    """Group nodes whose meshes meet in vertices: they must move alike or a seam would open."""
    nodes = sorted({primitive.node for primitive in source.primitives})
    number = {node: k for k, node in enumerate(nodes)}
    shown: list[list[Ints]] = [[] for _ in nodes]
    for primitive in source.primitives:
        used = primitive.welded[primitive.welded >= 0]
        shown[number[primitive.node]].append(used)
    sets = [np.unique(np.concatenate(parts)) for parts in shown]
    rows = np.repeat(np.arange(len(nodes)), [len(s) for s in sets])
    columns = np.concatenate(sets)
    shape = (len(nodes), int(columns.max()) + 1)
    meets = coo_array((np.ones(len(rows)), (rows, columns)), shape).tocsr()
    count, label = connected_components(meets @ meets.T, directed=False)
    groups = []
    for group in range(count):
        members = np.flatnonzero(label == group)
        vertices = np.unique(np.concatenate([sets[k] for k in members]))
        groups.append((tuple(nodes[k] for k in members), vertices))
    return groups


# Normals of a deformed skin as morph targets: offsets of normals before skinning.


def _turned(vectors: Floats, start: Floats, end: Floats) -> Floats:
    """Turn vectors as one unit vector is turned into another, the shorter way."""
    axis = np.cross(start, end)
    cosine = np.einsum("ni,ni->n", start, end)
    once = np.cross(axis, vectors)
    twice = np.cross(axis, once)
    # Opposite normals have no shorter way; hardly turned is better than not a number.
    return vectors + once + twice / np.maximum(1 + cosine, 1e-2)[:, None]


def normal_targets(
    frames: Singles,
    triangles: Ints,
    rig: Rig,
    poses: Floats,
    roots: Floats,
    parts: list[tuple[ShapedNodes, GltfPrimitive, Floats]],
) -> list[Singles]:
    """Return targets (b, n, 3) of normals, for each of several primitives.

    `poses` and `roots` are what the file itself plays at the baked frames; `parts` have the fit
    that a primitive takes part in, the primitive, and its normals, (n, 3).

    A normal of the file is turned as the skin around it is, from where the rig has it to where it
    was simulated; so edges that were sharp stay so.
    """
    normals_of = VertexNormals(triangles, rig.n_vertices)
    onto = [np.linalg.pinv(fit.weights.astype(np.float64)) for fit, _, _ in parts]
    sums = [np.zeros((len(p), len(own), 3)) for p, (_, _, own) in zip(onto, parts, strict=True)]
    for frame, (pose, root) in enumerate(zip(poses, roots, strict=True)):
        there = in_root_space(frames[frame], root)
        before, after = normals_of(rig(pose)), normals_of(there)
        matrices = offset_matrices(rig, pose)
        for number, (_, primitive, own) in enumerate(parts):
            seen = primitive.welded >= 0
            welded = primitive.welded[seen]
            blended = matrices[welded] @ primitive.to_bind[:3, :3]
            posed = np.einsum("nij,nj->ni", blended, own[seen])
            change = _turned(posed, before[welded], after[welded]) - posed
            offsets = undone(blended, change, np.inf)
            sums[number][:, seen] += onto[number][:, frame, None, None] * offsets
    return [total.astype(np.float32) for total in sums]
