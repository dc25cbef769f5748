"""Meshes, skins and nodes as one body of vertices that follow joints."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.sparse import coo_array, csr_array

from supple.arrays import Floats, Ints
from supple.formats.gltf.document import Document
from supple.formats.gltf.read.primitives import PrimitiveData
from supple.formats.gltf.read.skins import Binding, JointFrames, Skin
from supple.formats.welding import padded, weld
from supple.maths.rotations import scaling
from supple.mesh.appearance import Appearance, SurfaceMaterial

# Most numbers of all morph targets on all vertices: 1.6 GB.
MOST_DELTAS = 200_000_000


@dataclass
class Instance:
    """A mesh at a node, with its skin if it has one.

    Without a skin it follows `joint`, at the rest transform `offset`, (4, 4), in the space of the
    joint's node. `shapes` are the indices of its morph targets among all of the character's. An
    `unshown` mesh has a node that is not in the file.
    """

    node: int
    joint: int
    mesh: int
    skin: int | None
    primitives: dict[int, PrimitiveData]
    shapes: range = range(0)
    unshown: bool = False
    offset: Floats = field(default_factory=lambda: np.eye(4))


@dataclass(frozen=True, eq=False)
class GltfPrimitive:
    """Surface vertices of a primitive; indices are the file's, `node` is -1 for none.

    `welded` (n,) is the surface vertex of each vertex of the primitive, -1 for a vertex of no
    triangle. `to_bind` (4, 4) maps the primitive's coordinates to bound positions in metres.
    """

    node: int
    mesh: int
    primitive: int
    welded: Ints
    to_bind: Floats


@dataclass
class Body:
    """Welded vertices of all meshes, and the arrays of their skinned rig, in metres.

    `deltas` (b, n, 3) are displacements of morph targets; `copies` has the joint of each copy.
    """

    points: Floats
    joints: Ints
    weights: Floats
    deltas: Floats
    triangles: Ints
    inverse_bind: Floats
    copies: Ints
    primitives: tuple[GltfPrimitive, ...]
    appearance: Appearance | None = None


class Assembler:
    """Builder of one welded `Body` from the mesh instances of a file; `body` returns it."""

    def __init__(
        self, document: Document, frames: JointFrames, skins: dict[int, Skin], size: float
    ) -> None:
        self.document, self.frames, self.skins, self.size = document, frames, skins, size
        self.binding = Binding(frames, size)
        self.joint_of = {int(node): joint for joint, node in enumerate(frames.nodes)}
        self._moves: dict[int, tuple[Floats, Ints]] = {}
        self._points: list[Floats] = []
        self._rows: list[tuple[Ints, Ints, Floats]] = []
        self._deltas: list[tuple[range, int, Floats]] = []
        self._triangles: list[Ints] = []
        self._looks: list[tuple[PrimitiveData, Ints]] = []
        self._parts: list[tuple[Instance, int, Ints, Floats]] = []
        self._count = 0

    def body(self, instances: list[Instance], n_shapes: int) -> Body:
        """Bind and weld all instances, at least one; those with skins are bound first, so that
        rigid parts use the same space.
        """
        for index in dict.fromkeys(i.skin for i in instances if i.skin is not None):
            self._bind_skin(index, [i for i in instances if i.skin == index])
        for instance in instances:
            for number, data in instance.primitives.items():
                self._add_primitive(instance, number, data)
        return self._welded(n_shapes)

    def _bind_skin(self, index: int, instances: list[Instance]) -> None:
        skin = self.skins[index]
        joints = np.array([self.joint_of[int(node)] for node in skin.joints], dtype=np.int64)
        used = np.zeros(len(joints), dtype=bool)
        low, high = np.full(3, np.inf), np.full(3, -np.inf)
        for instance in instances:
            for data in instance.primitives.values():
                joint_indices, weights = self.influences(instance, data)
                used[joint_indices[weights > 0]] = True
                low = np.minimum(low, data.positions.min(axis=0))
                high = np.maximum(high, data.positions.max(axis=0))
        used_joints = joints.copy()
        to_common = np.eye(4)
        if used.any():
            corners = _corners(low, high)
            to_common, used_joints[used] = self.binding.bind(
                joints[used], skin.inverse_bind[used], corners
            )
        self._moves[index] = to_common, used_joints

    def influences(self, instance: Instance, data: PrimitiveData) -> tuple[Ints, Floats]:
        """Return joints of the skin and normalised weights, (n, k); joint 0 for zero weights."""
        assert instance.skin is not None
        notes, count = self.document.notes, len(self.skins[instance.skin].joints)
        label = self.document.label("mesh", instance.mesh)
        if data.joints is None or data.weights is None:
            code = "NODE_SKINNED_MESH_WITHOUT_JOINTS"
            notes.warn(code, f"{label} has a skin but no weights; it follows the first joint")
            return np.zeros((len(data.positions), 1), np.int64), np.ones((len(data.positions), 1))
        joints = np.where(data.weights > 0, data.joints, 0)
        if joints.max() >= count:
            code = "ACCESSOR_JOINTS_INDEX_OOB"
            notes.fail(code, f"{label} follows joint {joints.max()} of a skin with {count} joints")
        sums = data.weights.sum(axis=1, keepdims=True)
        weights = np.divide(data.weights, sums, out=np.zeros_like(data.weights), where=sums > 0)
        unweighted = sums[:, 0] == 0
        if unweighted.any():
            name = self.document.label("node", int(self.skins[instance.skin].joints[0]))
            what = f"{label} has {int(unweighted.sum())} vertices without weights"
            notes.warn("ACCESSOR_WEIGHTS_NON_NORMALIZED", f"{what}; they follow {name}")
            weights[unweighted, 0] = 1
        return joints, weights

    def rest_positions(self, instance: Instance, data: PrimitiveData) -> Floats:
        """Return world positions in the rest pose, (n, 3), in the units of the frames."""
        if instance.skin is None:
            size = scaling(self.frames.sizes[instance.joint])
            matrix = self.frames.rest_world[instance.joint] @ size @ instance.offset
            return transformed(matrix, data.positions)
        joints, weights = self.influences(instance, data)
        skin = self.skins[instance.skin]
        nodes = np.array([self.joint_of[int(node)] for node in skin.joints])
        inverse_bind = skin.inverse_bind * self.frames.sizes[nodes][:, None, None]
        inverse_bind[:, 3] = (0, 0, 0, 1)
        matrices = self.frames.rest_world[nodes] @ inverse_bind
        result = np.zeros((len(joints), 3))
        for joint, weight in zip(joints.T, weights.T, strict=True):
            chosen = matrices[joint]
            position = np.einsum("nij,nj->ni", chosen[:, :3, :3], data.positions) + chosen[:, :3, 3]
            result += weight[:, None] * position
        return result

    def _add_primitive(self, instance: Instance, number: int, data: PrimitiveData) -> None:
        n = len(data.positions)
        used = np.zeros(n, dtype=bool)
        used[data.triangles] = True
        used_vertices = np.flatnonzero(used)
        new_index = np.full(n, -1, dtype=np.int64)
        new_index[used_vertices] = self._count + np.arange(len(used_vertices))
        if instance.skin is None:
            corners = _corners(data.positions.min(axis=0), data.positions.max(axis=0))
            offset = instance.offset[None]
            to_common, used_joints = self.binding.bind(np.array([instance.joint]), offset, corners)
            joints, weights = np.zeros((n, 1), np.int64), np.ones((n, 1))
            first = instance.joint
        else:
            to_common, used_joints = self._moves[instance.skin]
            joints, weights = self.influences(instance, data)
            first = self.joint_of[
                int(self.skins[instance.skin].joints[joints[used_vertices[0], 0]])
            ]
        self._points.append(transformed(to_common, data.positions[used_vertices]))
        rows = np.repeat(new_index[used_vertices], joints.shape[1])
        self._rows.append(
            (rows, used_joints[joints[used_vertices]].ravel(), weights[used_vertices].ravel())
        )
        if len(data.targets):
            linear = to_common.copy()
            linear[:3, 3] = 0
            deltas = [transformed(linear, target[used_vertices]) for target in data.targets]
            self._deltas.append((instance.shapes, self._count, np.stack(deltas)))
        rest_determinant = np.linalg.det(self.frames.rest_world[first][:3, :3])
        is_mirrored = rest_determinant * self._handedness(instance) < 0
        orientation = slice(None, None, -1 if is_mirrored else 1)
        self._triangles.append(new_index[data.triangles][:, orientation])
        self._looks.append((data, data.triangles[:, orientation]))
        self._parts.append((instance, number, new_index, to_common))
        self._count += len(used_vertices)

    def _handedness(self, instance: Instance) -> float:
        """Return -1 if binding mirrors the mesh in its joint's frame, otherwise 1."""
        if instance.skin is None:
            determinant = np.linalg.det(instance.offset[:3, :3])
            return float(np.sign(determinant * self.frames.sizes[instance.joint]))
        skin = self.skins[instance.skin]
        joint = self.joint_of[int(skin.joints[0])]
        determinant = np.linalg.det(skin.inverse_bind[0][:3, :3])
        return float(np.sign(determinant * self.frames.sizes[joint]))

    def _welded(self, n_shapes: int) -> Body:
        points = np.concatenate(self._points)
        if n_shapes * self._count * 3 > MOST_DELTAS:
            what = f"has {n_shapes} morph targets on {self._count:,} vertices"
            self.document.notes.fail("TOO_LARGE", f"{what}; simplify it")
        deltas = np.zeros((n_shapes, self._count, 3))
        for shapes, start, values in self._deltas:
            end = start + values.shape[1]
            deltas[shapes.start : shapes.start + len(values), start:end] = values
        inverse_bind = self.binding.inverse_bind()
        weights = self._weights(len(inverse_bind))
        welded = weld(points, weights, deltas, self.size)
        first = np.unique(welded, return_index=True)[1]
        joints, used_weights = padded(weights[first])
        parts = []
        for instance, number, new_index, to_bind in self._parts:
            vertices = np.where(new_index >= 0, welded[np.maximum(new_index, 0)], -1)
            node = -1 if instance.unshown else instance.node
            parts.append(GltfPrimitive(node, instance.mesh, number, vertices, to_bind))
        return Body(
            points[first],
            joints,
            used_weights,
            np.ascontiguousarray(deltas[:, first]),
            welded[np.concatenate(self._triangles)],
            inverse_bind,
            self.binding.copies,
            tuple(parts),
            _appearance(self._looks),
        )

    def _weights(self, n_joints: int) -> csr_array:
        rows, joints, values = (np.concatenate(part) for part in zip(*self._rows, strict=True))
        positive = values > 0
        weights = coo_array(
            (values[positive], (rows[positive], joints[positive])), (self._count, n_joints)
        ).tocsr()
        weights.sum_duplicates()
        if weights.nnz < positive.sum():
            count = int(positive.sum()) - weights.nnz
            message = f"has {count} vertices that list a joint twice; summed"
            self.document.notes.warn("ACCESSOR_JOINTS_INDEX_DUPLICATE", message)
        weights.sort_indices()
        return weights


def _appearance(looks: list[tuple[PrimitiveData, Ints]]) -> Appearance | None:
    """Return materials, texture coordinates and colours of all triangles; None without any."""
    if all(data.material is None and data.tints is None for data, _ in looks):
        return None
    materials: dict[tuple[int, bool], SurfaceMaterial] = {}
    for data, _ in looks:
        material = SurfaceMaterial() if data.material is None else data.material.material
        # A texture needs coordinates.
        materials.setdefault(
            _kind(data), material if data.uv is not None else replace(material, texture=None)
        )
    number = {kind: k for k, kind in enumerate(materials)}
    counts = [len(corners) for _, corners in looks]
    indices = np.repeat([number[_kind(data)] for data, _ in looks], counts)
    uv, tints = None, None
    if any(data.uv is not None for data, _ in looks):
        none = np.zeros((1, 2), np.float32)
        uv = np.concatenate([none[0 * c] if d.uv is None else d.uv[c] for d, c in looks])
    if any(data.tints is not None for data, _ in looks):
        white = np.ones((1, 4), np.float32)
        tints = np.concatenate([white[0 * c] if d.tints is None else d.tints[c] for d, c in looks])
    return Appearance(tuple(materials.values()), indices.astype(np.int64), uv, tints)


def _kind(data: PrimitiveData) -> tuple[int, bool]:
    return id(data.material), data.uv is not None


def transformed(matrix: Floats, points: Floats) -> Floats:
    """Apply an affine transform (4, 4) to points (n, 3); equal points get bitwise equal images."""
    x, y, z = points.T
    rows = [m[0] * x + m[1] * y + m[2] * z + m[3] for m in matrix[:3]]
    return np.stack(rows, axis=1)


def _corners(low: Floats, high: Floats) -> Floats:
    choices = np.array(np.meshgrid([0, 1], [0, 1], [0, 1])).reshape(3, -1).T
    return np.where(choices == 1, high, low)
