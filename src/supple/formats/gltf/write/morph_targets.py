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
from supple.formats.morph_fit import MOST_STORED, Progress, fit_morphs, unit_weights
from supple.formats.registry import FLESH
from supple.mesh.surface import VertexNormals
from supple.rig.baked_motion import BakedMotion
from supple.rig.inverse_skinning import (
    OffsetMatrices,
    inverted_moves,
    largest_stretch,
    offset_matrices,
    offsets_before_skinning,
)
from supple.rig.protocol import Rig


@dataclass
class NewTargets:
    """Offsets (b, n, 3) of a primitive's new targets, in its space, and of normals if needed."""

    positions: Singles
    normals: Singles | None = None


def unshared_mesh(file: GltfFile, node: int) -> dict[str, Any]:
    """Return the mesh of a node; a copy if other nodes have the same mesh."""
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
    """Add targets to a mesh; return its previous number of targets.

    `new` has targets by primitive; other primitives get zeros.
    """
    primitives = mesh["primitives"]
    before = max(len(primitive.get("targets", [])) for primitive in primitives)
    for number, primitive in enumerate(primitives):
        if "POSITION" not in primitive["attributes"]:
            continue  # has no surface
        _Targets(file, primitive).add(before, new.get(number), len(names))
    weights = [*mesh.get("weights", []), *[0.0] * before][:before]
    mesh["weights"] = [*weights, *[0.0] * len(names)]
    _name_targets(mesh, before, names)
    return before


class _Targets:
    """Targets of one primitive, all with the same attributes.

    Some viewers replace a missing attribute of a target by the primitive's, not by zero.
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
        """Return an accessor of zeros, as wide as the attribute; colours may have an alpha."""
        attribute = self.primitive["attributes"].get(name)
        wide = attribute is not None and self.file.part("accessors")[attribute]["type"] == "VEC4"
        width = 4 if wide and name.startswith("COLOR") else 2 if name.startswith("TEXCOORD") else 3
        if width not in self._zeros:
            zeros = np.zeros((self.count, width), np.float32)
            self._zeros[width] = self.file.accessor(zeros, bounds=True, target=VERTICES)
        return self._zeros[width]


def _name_targets(mesh: dict[str, Any], before: int, names: list[str]) -> None:
    for owner in (mesh, *mesh["primitives"]):  # VRM 0.x names targets in primitives
        extras = owner.setdefault("extras", {}) if owner is mesh else owner.get("extras")
        if not isinstance(extras, dict) or (owner is not mesh and "targetNames" not in extras):
            continue  # in use by another program
        extras["targetNames"] = _with_names(extras.get("targetNames"), before, names)
        if owner is mesh:  # identifies them if the record is lost
            extras[FLESH] = extras["targetNames"][before:]


def _with_names(old: Any, before: int, names: list[str]) -> list[str]:
    old_names = [name for name in old if isinstance(name, str)] if isinstance(old, list) else []
    old_names += [f"target_{k}" for k in range(len(old_names), before)]
    return [*old_names[:before], *unused_names(names, old_names)]


def target_names(bakes: Sequence[BakedMotion], count: int) -> list[str]:
    """Return names of `count` targets that play these motions."""
    name = bakes[0].motion.name if len(bakes) == 1 else ""
    return [f"{name} soft {number + 1}".strip() for number in range(count)]


def played_names(names: list[str]) -> dict[str, Any]:
    """Return a dict with the name of one ``animation``, or the names of several ``animations``."""
    return {"animation": names[0]} if len(names) == 1 else {"animations": names}


def unused_names(names: list[str], used: list[str]) -> list[str]:
    """Return the names, with a number appended to those that are in use."""
    result: list[str] = []
    for name in names:
        candidate, number = name, 2
        while candidate in used or candidate in result:
            candidate, number = f"{name} ({number})", number + 1
        result.append(candidate)
    return result


def unpack_draco(
    file: GltfFile, document: Document, accessors: Accessors, mesh: dict[str, Any]
) -> int:
    """Decompress a mesh's Draco primitives, as targets need vertex order; return their number."""
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
        primitive.pop("mode", None)  # decoded as triangles
        del primitive["extensions"][DRACO]
        if not primitive["extensions"]:
            del primitive["extensions"]
        count += 1
    return count


def _give_data(file: GltfFile, index: int, values: NDArray[Any], target: int) -> None:
    """Store `values` in a new buffer view, and set the accessor's view and bounds."""
    accessor = file.part("accessors")[index]
    data = np.ascontiguousarray(values, COMPONENTS[accessor["componentType"]])
    rows = data.view(np.uint8).reshape(len(data), -1)
    padding = -rows.shape[1] % 4
    if target == VERTICES and padding:  # vertex attributes are aligned to four bytes
        rows = np.pad(rows, ((0, 0), (0, padding)))
        stride = {"byteStride": rows.shape[1]}
        accessor["bufferView"] = file.view(rows.tobytes(), **stride, target=target)
    else:
        accessor["bufferView"] = file.view(rows.tobytes(), target=target)
    accessor.pop("byteOffset", None)
    for key, bound in (("min", data.min(axis=0)), ("max", data.max(axis=0))):
        if key in accessor:  # compression changes them slightly
            accessor[key] = bound.tolist()


def remove_draco(file: GltfFile) -> None:
    """Remove Draco from the file's lists of extensions if no primitive uses it."""
    for mesh in file.part("meshes"):
        if any(DRACO in p.get("extensions", {}) for p in mesh["primitives"]):
            return
    for name in ("extensionsUsed", "extensionsRequired"):
        if name in file.json:
            file.json[name] = [extension for extension in file.json[name] if extension != DRACO]
            if not file.json[name]:
                del file.json[name]


# Baked frames as offsets before skinning.


#: Error that is accepted to keep offsets small, as a fraction of the allowed error.
REGULARISATION_ERROR = 0.25


@dataclass
class ShapedNodes:
    """Nodes that share weights, and their shapes.

    `vertices` (m,) are surface vertices, `shapes` (b, m, 3) in the space of bound positions in
    metres, `weights` (t, b) over the baked frames; `reached` is the largest error, as a fraction of
    the size.
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

    `rig` and `source` are the file's, `poses` and `roots` its own animation at the frames, (t, n,
    3), of one or several motions. `error` is a fraction of the size.
    """
    tolerance = REGULARISATION_ERROR * error * size
    offsets, moves, matrices = offsets_of_frames(frames, rig, poses, roots, tolerance, progress)
    groups = _groups(source)
    fits = []
    for number, (nodes, vertices) in enumerate(groups):
        columns = slice(None) if len(vertices) == rig.n_vertices else vertices
        begin, share = 0.4 + 0.6 * number / len(groups), 0.6 / len(groups)
        shapes, weights, reached = fit_morphs(
            offsets[:, columns],
            OffsetMatrices(rig, poses, vertices) if matrices is None else matrices[:, columns],
            size,
            error,
            moves=moves[:, columns],
            progress=_within(progress, begin, share),
        )
        shapes, weights = unit_weights(shapes, weights)
        fits.append(ShapedNodes(nodes, vertices, shapes, weights, reached))
    return fits


def in_root_space(points: Singles, root: Floats) -> Floats:
    """Return points (n, 3) of a baked frame relative to the root, (4, 4)."""
    local: Floats = (points.astype(np.float64) - root[:3, 3]) @ root[:3, :3]
    return local


def _within(progress: Progress, begin: float, share: float) -> Progress:
    return lambda part, what: progress(begin + share * part, what)


def offsets_of_frames(
    frames: Singles, rig: Rig, poses: Floats, roots: Floats, tolerance: float, progress: Progress
) -> tuple[Singles, Singles, Singles | None]:
    """Return offsets before skinning, displacements to reach after it, and skinning matrices.

    Offsets and displacements are (t, n, 3), in metres. The matrices (t, n, 3, 3) are None if they
    would take too much memory.
    """
    offsets, moves = np.empty_like(frames), np.empty_like(frames)
    shape = (*frames.shape, 3)
    all_matrices = np.empty(shape, np.float32) if np.prod(shape) <= MOST_STORED else None
    stretch = largest_stretch(rig, OffsetMatrices(rig, poses))
    for frame, (pose, root) in enumerate(zip(poses, roots, strict=True)):
        target = in_root_space(frames[frame], root)
        present = rig(pose)
        matrices = offset_matrices(rig, pose)
        offsets[frame] = offsets_before_skinning(
            rig,
            pose,
            target,
            present=present,
            matrices=matrices,
            tolerance=tolerance,
            stretch=stretch,
        )
        moves[frame] = target - present
        if all_matrices is not None:
            all_matrices[frame] = matrices
        progress(0.4 * (frame + 1) / len(poses), "undoing the skinning")
    return offsets, moves, all_matrices


def _groups(source: GltfSource) -> list[tuple[tuple[int, ...], Ints]]:
    """Group nodes whose meshes share vertices: they must move alike, or seams would open."""
    nodes = sorted({primitive.node for primitive in source.primitives})
    number = {node: k for k, node in enumerate(nodes)}
    vertices_of: list[list[Ints]] = [[] for _ in nodes]
    for primitive in source.primitives:
        used = primitive.welded[primitive.welded >= 0]
        vertices_of[number[primitive.node]].append(used)
    sets = [np.unique(np.concatenate(parts)) for parts in vertices_of]
    rows = np.repeat(np.arange(len(nodes)), [len(s) for s in sets])
    incidence = coo_array((np.ones(len(rows)), (rows, np.concatenate(sets)))).tocsr()
    count, label = connected_components(incidence @ incidence.T, directed=False)
    groups = []
    for group in range(count):
        members = np.flatnonzero(label == group)
        vertices = np.unique(np.concatenate([sets[k] for k in members]))
        groups.append((tuple(nodes[k] for k in members), vertices))
    return groups


# Normals as morph targets: offsets of normals before skinning.


def _turned(vectors: Floats, start: Floats, end: Floats) -> Floats:
    """Rotate vectors by the smallest rotation from one unit vector to another."""
    axis = np.cross(start, end)
    cosine = np.einsum("ni,ni->n", start, end)
    once = np.cross(axis, vectors)
    twice = np.cross(axis, once)
    # Opposite normals have no smallest rotation; the bound keeps the result finite.
    return vectors + once + twice / np.maximum(1 + cosine, 1e-2)[:, None]


def normal_targets(
    frames: Singles,
    triangles: Ints,
    rig: Rig,
    poses: Floats,
    roots: Floats,
    parts: list[tuple[ShapedNodes, GltfPrimitive, Floats]],
) -> list[Singles]:
    """Return targets (b, n, 3) of normals for each of several primitives.

    `poses` and `roots` are the file's own animation at the baked frames; `parts` has the fit of a
    primitive, the primitive, and its normals, (n, 3).

    A normal is rotated like the skin around it, from the rig's surface to the simulated one, so
    that sharp edges stay sharp.
    """
    normals_of = VertexNormals(triangles, rig.n_vertices)
    onto = [np.linalg.pinv(fit.weights.astype(np.float64)) for fit, _, _ in parts]
    sums = [
        np.zeros((len(p), len(normals), 3)) for p, (_, _, normals) in zip(onto, parts, strict=True)
    ]
    for frame, (pose, root) in enumerate(zip(poses, roots, strict=True)):
        simulated = in_root_space(frames[frame], root)
        before, after = normals_of(rig(pose)), normals_of(simulated)
        matrices = offset_matrices(rig, pose)
        for number, (_, primitive, normals) in enumerate(parts):
            used = primitive.welded >= 0
            welded = primitive.welded[used]
            blended = matrices[welded] @ primitive.to_bind[:3, :3]
            posed = np.einsum("nij,nj->ni", blended, normals[used])
            change = _turned(posed, before[welded], after[welded]) - posed
            offsets = inverted_moves(blended, change, np.inf)
            sums[number][:, used] += onto[number][:, frame, None, None] * offsets
    return [total.astype(np.float32) for total in sums]
