"""Skins: nodes that are joints, and their inverse bind matrices."""

from __future__ import annotations

from collections.abc import Collection, Container
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Floats, Ints
from supple.errors import FormatError
from supple.formats.gltf.accessors import Accessors
from supple.formats.gltf.document import Document
from supple.formats.gltf.read.nodes import NodeForest
from supple.maths.rotations import from_matrix, inverse, multiply, rotate
from supple.rig.skeleton.joints import Skeleton, unique_names

# Most skins times nodes for which the hierarchy is checked; the check only gives warnings.
MOST_STEPS = 20_000_000
# Relative difference of equal scales: float32.
UNIFORM = 1e-6
# Largest error of a vertex, as a fraction of the size, before a joint is copied.
SAME_BINDING = 1e-6
MOST_COPIES = 2000


@dataclass
class Skin:
    """Nodes that are joints, and their inverse bind matrices (j, 4, 4)."""

    joints: NDArray[np.int64]
    inverse_bind: Floats


def read_skins(accessors: Accessors, forest: NodeForest, used: set[int]) -> dict[int, Skin]:
    """Return the skins that nodes use; mistakes are noted in all of them."""
    document, skins = accessors.document, {}
    for index, described in enumerate(document.part("skins")):
        joints = np.array(described["joints"], dtype=np.int64)
        if len(joints) == 0:
            document.notes.fail("EMPTY_ENTITY", f"{document.label('skin', index)} has no joints")
        _check_hierarchy(document, forest, index, joints)
        matrices = _inverse_bind(accessors, index, len(joints), index in used)
        if index in used:
            skins[index] = Skin(joints, matrices)
            if not forest.in_scene[joints].any():
                what = f"the joints of {document.label('skin', index)} are not in the scene"
                document.notes.warn("NODE_SKIN_NO_SCENE", f"{what}; used anyway")
    return skins


def _inverse_bind(accessors: Accessors, index: int, count: int, used: bool) -> Floats:
    document = accessors.document
    accessor = document.part("skins")[index].get("inverseBindMatrices")
    identities = np.broadcast_to(np.eye(4), (count, 4, 4))
    if accessor is None:
        return identities
    notes, label = document.notes, document.label("skin", index)
    accessor_json = document.part("accessors")[accessor]
    if (accessor_json["type"], accessor_json["componentType"]) != ("MAT4", 5126):
        code = "SKIN_IBM_INVALID_FORMAT"
        notes.fail(code, f"{label}: its inverse bind matrices are not of floats")
    number = accessor_json["count"]
    if number < count:
        code = "INVALID_IBM_ACCESSOR_COUNT"
        notes.fail(code, f"{label} has {number} inverse bind matrices for {count} joints")
    view = accessor_json.get("bufferView")
    if view is not None:
        view_json = document.part("bufferViews")[view]
        if "byteStride" in view_json:
            code = "SKIN_IBM_ACCESSOR_WITH_BYTESTRIDE"
            notes.warn(code, f"{label}: its inverse bind matrices have a stride; used")
        if not used and not document.buffers.present(view_json["buffer"]):
            return identities
    # Stored column by column.
    matrices = accessors.floats(accessor)[:count].reshape(-1, 4, 4).transpose(0, 2, 1).copy()
    if view is not None and not np.allclose(matrices[:, 3], (0, 0, 0, 1), atol=1e-5):
        message = f"{label}: inverse bind matrices are not affine; their last row is ignored"
        notes.warn("ACCESSOR_INVALID_IBM", message)
    matrices[:, 3] = (0, 0, 0, 1)
    return matrices


def _check_hierarchy(
    document: Document, forest: NodeForest, index: int, joints: NDArray[np.int64]
) -> None:
    if len(document.part("skins")) * len(forest.parents) > MOST_STEPS:
        return
    children: dict[int, set[int]] = {}
    visited: set[int] = set()
    for joint in joints.tolist():
        node = joint
        while node >= 0 and node not in visited:
            visited.add(node)
            children.setdefault(int(forest.parents[node]), set()).add(node)
            node = int(forest.parents[node])
    # Descend from the root while all joints are at or below one node.
    common: list[int] = []
    below = children[-1]
    bones = set(joints.tolist())
    while len(below) == 1 and not (common and common[-1] in bones):
        common += below
        below = children.get(common[-1], set())
    what = document.label("skin", index)
    if not common:
        code = "SKIN_NO_COMMON_ROOT"
        document.notes.warn(code, f"the joints of {what} have no common root; used unchanged")
    skeleton = document.part("skins")[index].get("skeleton")
    if skeleton is not None and skeleton not in common:
        code = "SKIN_SKELETON_INVALID"
        message = f"{what} names node {skeleton} as the root of its joints, which it is not"
        document.notes.warn(code, f"{message}; ignored")


# One skeleton in metres, with one inverse bind matrix per joint.


class JointFrames:
    """Nodes of a character as joints with lengths in metres; `nodes` (j,) lists parents first.

    Nodes between a joint and its parent joint are constant and have uniform scales: their
    transforms are part of the joint's (`_Fold`). Uniform rest scales (an armature 100 times too
    large, centimetres) are removed from the joints and applied to everything attached to them: a
    joint's frame is the node's up to the factor in `sizes`. The surface is unchanged, offsets are
    in metres, and transforms are rigid where possible.
    """

    def __init__(
        self, forest: NodeForest, nodes: Ints, names: list[str], metres_per_unit: float
    ) -> None:
        self.nodes, self.names = nodes, names
        joint_of = {int(node): joint for joint, node in enumerate(nodes)}
        nearest = forest.nearest_above(joint_of, joint_of)
        parents = [nearest[int(parent)] for parent in forest.parents[nodes]]
        self.parents = np.array([joint_of.get(node, -1) for node, _ in parents], dtype=np.int64)
        self._fold = _Fold.of([transform for _, transform in parents])
        scales = forest.scales[nodes]
        spread = np.abs(scales - scales[:, :1]).max(axis=1, initial=0)
        uniform = (spread <= UNIFORM * np.abs(scales[:, 0])) & (np.abs(scales[:, 0]) > 1e-9)
        self.own_scales = np.where(uniform, scales[:, 0], 1.0)
        self.parent_sizes = np.empty(len(nodes))
        self.sizes = np.empty(len(nodes))
        for joint, parent in enumerate(self.parents):
            metres = metres_per_unit if parent < 0 else self.sizes[parent]
            self.parent_sizes[joint] = metres
            self.sizes[joint] = metres * self._fold.scales[joint] * self.own_scales[joint]
        translations, rotations = self._fold.folded(
            forest.translations[nodes], forest.rotations[nodes]
        )
        self.rest = (
            translations * self.parent_sizes[:, None],
            rotations,
            scales / self.own_scales[:, None],
        )
        self.rest_world = self.skeleton().rest_world() if len(nodes) else np.empty((0, 4, 4))

    def track_values(self, path: str, joints: Ints, values: Floats, slopes: bool = False) -> Floats:
        """Convert values of one property of some nodes, (…, k, c), to values of their joints.

        With `slopes`, values are differences, such as tangents.
        """
        if path == "scale":
            return values / self.own_scales[joints, None]
        fold = self._fold
        if path == "rotation":
            return multiply(fold.rotations[joints], values)
        converted = rotate(fold.rotations[joints], values * fold.scales[joints, None])
        converted = converted if slopes else converted + fold.translations[joints]
        return converted * self.parent_sizes[joints, None]

    def in_units(
        self, translations: Floats, rotations: Floats, scales: Floats
    ) -> tuple[Floats, Floats, Floats]:
        """Convert local transforms of joints, (…, j, 3 or 4) in metres, to nodes in file units."""
        node_translations, node_rotations = self._fold.unfolded(
            translations / self.parent_sizes[:, None], rotations
        )
        return node_translations, node_rotations, scales * self.own_scales[:, None]

    def skeleton(self, copies: Ints | None = None) -> Skeleton:
        """Return the joints followed by copies: children of joints with constant identity
        transforms.
        """
        translations, rotations, scales = self.rest
        parents, names = self.parents, list(self.names)
        if copies is not None and len(copies):
            parents = np.concatenate([parents, copies])
            names += [f"{self.names[joint]}.bound" for joint in copies]
            count = len(copies)
            translations = np.concatenate([translations, np.zeros((count, 3))])
            rotations = np.concatenate([rotations, np.tile([0.0, 0, 0, 1], (count, 1))])
            scales = np.concatenate([scales, np.ones((count, 3))])
        return Skeleton(unique_names(names), parents, translations, rotations, scales)


@dataclass
class _Fold:
    """Similarity transforms of nodes that are not joints, as part of the joints below.

    `joints` (k,) have such nodes above them. `translations` (j, 3), `rotations` (j, 4) and `scales`
    (j,) have a row for every joint, the identity without such nodes.
    """

    joints: Ints
    translations: Floats
    rotations: Floats
    scales: Floats

    @classmethod
    def of(cls, transforms: list[Floats]) -> _Fold:
        """Decompose the similarity transform (4, 4) of the non-joint nodes above each joint."""
        matrices = np.array(transforms).reshape(-1, 4, 4)
        joints = np.flatnonzero((matrices != np.eye(4)).any(axis=(1, 2)))
        scales = np.ones(len(matrices))
        scales[joints] = np.cbrt(np.linalg.det(matrices[joints, :3, :3]))
        valid = np.isfinite(matrices).all() and (scales > 1e-30).all() and (scales < 1e30).all()
        if not valid:
            raise FormatError(
                "its nodes have transforms that are too large or not finite; save it again"
            )
        rotations = np.tile([0.0, 0, 0, 1], (len(matrices), 1))
        rotations[joints] = from_matrix(matrices[joints, :3, :3] / scales[joints, None, None])
        return cls(joints, matrices[:, :3, 3], rotations, scales)

    def folded(self, translations: Floats, rotations: Floats) -> tuple[Floats, Floats]:
        """Convert transforms of nodes, (…, j, 3 or 4), to transforms of joints."""
        if not len(self.joints):
            return translations, rotations
        new_translations, new_rotations, rows = translations.copy(), rotations.copy(), self.joints
        scaled = translations[..., rows, :] * self.scales[rows, None]
        rotated = rotate(self.rotations[rows], scaled)
        new_translations[..., rows, :] = rotated + self.translations[rows]
        new_rotations[..., rows, :] = multiply(self.rotations[rows], rotations[..., rows, :])
        return new_translations, new_rotations

    def unfolded(self, translations: Floats, rotations: Floats) -> tuple[Floats, Floats]:
        """Convert transforms of joints, (…, j, 3 or 4), to transforms of nodes."""
        if not len(self.joints):
            return translations, rotations
        new_translations, new_rotations, rows = translations.copy(), rotations.copy(), self.joints
        inverse_rotations = inverse(self.rotations[rows])
        rotated = rotate(inverse_rotations, translations[..., rows, :] - self.translations[rows])
        new_translations[..., rows, :] = rotated / self.scales[rows, None]
        new_rotations[..., rows, :] = multiply(inverse_rotations, rotations[..., rows, :])
        return new_translations, new_rotations


def joint_nodes(
    forest: NodeForest, listed: Collection[int], shown: Collection[int], moving: Container[int]
) -> Ints:
    """Return the nodes that are joints, parents first; see `supple.rig.motion.root_motion`.

    `listed` are joints of skins, `shown` nodes of meshes without a skin, which are joints only
    below another joint, and `moving` nodes that a clip moves.
    """
    nodes = forest.with_ancestors([*listed, *shown]).tolist()
    joints = {node for node in nodes if node in listed or node in moving}
    below_joint: set[int] = set()
    for node in nodes:
        if int(forest.parents[node]) in below_joint or int(forest.parents[node]) in joints:
            below_joint.add(node)
    joints |= below_joint & set(shown)
    above_joint: set[int] = set()
    for node in reversed(nodes):
        # A non-uniform scale cannot be part of the joint below.
        if node in above_joint and not _is_uniform(forest.scales[node]):
            joints.add(node)
        if node in joints or node in above_joint:
            above_joint.add(int(forest.parents[node]))
    return np.array([node for node in nodes if node in joints], dtype=np.int64)


def _is_uniform(scale: Floats) -> bool:
    return bool(scale[0] > 1e-9 and np.abs(scale - scale[0]).max() <= UNIFORM * scale[0])


class Binding:
    """One inverse bind matrix per joint for all skins.

    Every skin has its own space of bound positions. X (4, 4) maps it to a common space, with common
    inverse bind matrices C_j. Where a skin's matrix B_j equals C_j X, joint j uses C_j; otherwise a
    copy of joint j gets the matrix B_j X⁻¹.
    """

    def __init__(self, frames: JointFrames, size: float) -> None:
        self._frames, self._size = frames, size
        self._matrices: dict[int, Floats] = {}
        self._copies: list[int] = []
        self._copied: dict[int, list[tuple[int, Floats]]] = {}

    @property
    def copies(self) -> Ints:
        """Index of the joint that each copy was made of."""
        return np.array(self._copies, dtype=np.int64)

    def inverse_bind(self) -> Floats:
        """Return inverse bind matrices (k, 4, 4) in metres: of joints, then of copies."""
        rest = self._frames.rest_world
        result = np.empty((len(rest) + len(self._copies), 4, 4))
        for joint, world in enumerate(rest):
            matrix = self._matrices.get(joint)
            result[joint] = matrix if matrix is not None else _inverse(world, np.eye(4))
        for copy, copied in (pair for pairs in self._copied.values() for pair in pairs):
            result[copy] = copied
        return result

    def bind(self, joints: Ints, matrices: Floats, corners: Floats) -> tuple[Floats, Ints]:
        """Return X (4, 4), from the skin's space to the common one, and the joint or copy to use
        (k,).

        `joints` (k,) have weight in the skin, with inverse bind `matrices` (k, 4, 4) in the file's
        units. Differences are measured at `corners` (8, 3) of the box around its vertices.
        """
        skin_matrices = matrices * self._frames.sizes[joints][:, None, None]
        skin_matrices[:, 3] = (0, 0, 0, 1)
        to_common = self._common_space(joints, skin_matrices)
        from_common = np.linalg.inv(to_common)
        used_joints = joints.copy()
        for number, joint in enumerate(joints.tolist()):
            matrix = skin_matrices[number]
            common_matrix = matrix @ from_common
            bound = self._matrices.setdefault(joint, common_matrix)
            if bound is not common_matrix and not self._agree(
                joint, bound @ to_common, matrix, corners
            ):
                copies = self._copied.setdefault(joint, [])
                for copy, copied in copies:
                    if self._agree(joint, copied @ to_common, matrix, corners):
                        used_joints[number] = copy
                        break
                else:
                    used_joints[number] = self._new_copy(joint)
                    copies.append((int(used_joints[number]), common_matrix))
        return to_common, used_joints

    def _common_space(self, joints: Ints, skin_matrices: Floats) -> Floats:
        for joint, matrix in zip(joints.tolist(), skin_matrices, strict=True):
            if joint in self._matrices:
                inverse_bind = _inverse(self._matrices[joint], None)
                if inverse_bind is not None and _inverse(inverse_bind @ matrix, None) is not None:
                    return inverse_bind @ matrix
        # No matrix yet: place the bound shape at the rest pose of the topmost joint.
        for number in np.argsort(joints):
            move = self._frames.rest_world[joints[number]] @ skin_matrices[number]
            if _inverse(move, None) is not None:
                return move
        return np.eye(4)

    def _agree(self, joint: int, one: Floats, other: Floats, corners: Floats) -> bool:
        difference = self._frames.rest_world[joint][:3, :3] @ (one - other)[:3]
        error = np.abs(corners @ difference[:, :3].T + difference[:, 3]).max()
        return bool(error <= SAME_BINDING * self._size)

    def _new_copy(self, joint: int) -> int:
        if len(self._copies) == MOST_COPIES:
            raise FormatError(
                f"more than {MOST_COPIES} joints have several bind matrices; simplify it"
            )
        self._copies.append(joint)
        return len(self._frames.nodes) + len(self._copies) - 1


def _inverse(matrix: Floats, otherwise: Floats | None) -> Floats | None:
    """Return the inverse, or `otherwise` if the matrix is singular."""
    sizes = np.linalg.svd(matrix[:3, :3], compute_uv=False)
    if not sizes[-1] > 1e-9 * sizes[0]:
        return otherwise
    return np.asarray(np.linalg.inv(matrix), dtype=np.float64)
