"""Skins: nodes that are joints, and their places when the mesh was bound to them."""

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

# Skins times nodes beyond which their hierarchy is not looked into: it decides nothing.
MOST_STEPS = 20_000_000
# Scales that differ by less are one, within float32.
UNIFORM = 1e-6
# How far, as a part of the character's size, a vertex may be off before one joint becomes two.
SAME_BINDING = 1e-6
MOST_COPIES = 2000


@dataclass
class Skin:
    """Nodes that are joints, and their inverse bind matrices (j, 4, 4)."""

    joints: NDArray[np.int64]
    inverse_bind: Floats


def read_skins(
    document: Document, accessors: Accessors, forest: NodeForest, used: set[int]
) -> dict[int, Skin]:
    """Return the skins that nodes use; mistakes are noted in all of them."""
    skins = {}
    for index, described in enumerate(document.part("skins")):
        joints = np.array(described["joints"], dtype=np.int64)
        if len(joints) == 0:
            document.notes.fail("EMPTY_ENTITY", f"{document.label('skin', index)} has no joints")
        _check_hierarchy(document, forest, index, joints)
        matrices = _inverse_bind(document, accessors, index, len(joints), index in used)
        if index in used:
            skins[index] = Skin(joints, matrices)
            if not forest.in_scene[joints].any():
                what = f"the joints of {document.label('skin', index)} are not in the scene"
                document.notes.warn("NODE_SKIN_NO_SCENE", f"{what}; taken all the same")
    return skins


def _inverse_bind(
    document: Document, accessors: Accessors, index: int, count: int, used: bool
) -> Floats:
    accessor = document.part("skins")[index].get("inverseBindMatrices")
    none = np.broadcast_to(np.eye(4), (count, 4, 4))
    if accessor is None:
        return none
    notes, what = document.notes, document.label("skin", index)
    described = document.part("accessors")[accessor]
    if (described["type"], described["componentType"]) != ("MAT4", 5126):
        notes.fail(
            "SKIN_IBM_INVALID_FORMAT", f"{what}: its inverse bind matrices are not of floats"
        )
    if described["count"] < count:
        number = described["count"]
        code = "INVALID_IBM_ACCESSOR_COUNT"
        notes.fail(code, f"{what} has {number} inverse bind matrices for {count} joints")
    view = described.get("bufferView")
    if view is not None:
        described_view = document.part("bufferViews")[view]
        if "byteStride" in described_view:
            code = "SKIN_IBM_ACCESSOR_WITH_BYTESTRIDE"
            notes.warn(code, f"{what}: its inverse bind matrices have a stride; followed")
        if not used and not document.buffers.present(described_view["buffer"]):
            return none
    # Stored column by column.
    matrices = accessors.floats(accessor)[:count].reshape(-1, 4, 4).transpose(0, 2, 1).copy()
    if view is not None and not np.allclose(matrices[:, 3], (0, 0, 0, 1), atol=1e-5):
        code = "ACCESSOR_INVALID_IBM"
        notes.warn(code, f"{what}: inverse bind matrices are not affine; their last row is ignored")
    matrices[:, 3] = (0, 0, 0, 1)
    return matrices


def _check_hierarchy(
    document: Document, forest: NodeForest, index: int, joints: NDArray[np.int64]
) -> None:
    if len(document.part("skins")) * len(forest.parents) > MOST_STEPS:
        return
    children: dict[int, set[int]] = {}
    seen: set[int] = set()
    for joint in joints.tolist():
        node = joint
        while node >= 0 and node not in seen:
            seen.add(node)
            children.setdefault(int(forest.parents[node]), set()).add(node)
            node = int(forest.parents[node])
    # Down from the root, as long as all joints are below or at one node.
    common: list[int] = []
    below = children[-1]
    bones = set(joints.tolist())
    while len(below) == 1 and not (common and common[-1] in bones):
        common += below
        below = children.get(common[-1], set())
    what = document.label("skin", index)
    if not common:
        code = "SKIN_NO_COMMON_ROOT"
        document.notes.warn(code, f"the joints of {what} hang on no common node; used as they are")
    skeleton = document.part("skins")[index].get("skeleton")
    if skeleton is not None and skeleton not in common:
        code = "SKIN_SKELETON_INVALID"
        message = f"{what} names node {skeleton} as the one above its joints, which it is not"
        document.notes.warn(code, f"{message}; not needed here")


# From nodes and skins to one skeleton in metres with one inverse bind matrix a joint.


class JointFrames:
    """The nodes of a character as joints whose lengths are metres.

    Nodes between a joint and the joint above it, which are no joints, never move: their transforms
    are part of the joint's own (`_Fold`). Uniform rest scales (an armature 100 times too large,
    centimetres) are taken out of the joints and multiplied into what hangs on them: a joint's
    frame is the node's up to the factor in `sizes`. That leaves the surface where it was, makes
    offsets metres wherever they are, and keeps transforms rigid where they can be.

    Parameters
    ----------
    forest : NodeForest
    nodes : (j,) int array
        The nodes to take, parents first. What is left out above one of them is scaled evenly.
    names : sequence of str
    metres_per_unit : float
    """

    def __init__(
        self, forest: NodeForest, nodes: Ints, names: list[str], metres_per_unit: float
    ) -> None:
        self.nodes, self.names = nodes, names
        joint_of = {int(node): joint for joint, node in enumerate(nodes)}
        hung = forest.hung(joint_of, joint_of)
        above = [hung[int(parent)] for parent in forest.parents[nodes]]
        self.parents = np.array([joint_of.get(node, -1) for node, _ in above], dtype=np.int64)
        self._fold = _Fold.of([place for _, place in above])
        scales = forest.scales[nodes]
        spread = np.abs(scales - scales[:, :1]).max(axis=1, initial=0)
        alike = (spread <= UNIFORM * np.abs(scales[:, 0])) & (np.abs(scales[:, 0]) > 1e-9)
        self.own_sizes = np.where(alike, scales[:, 0], 1.0)
        self.parent_sizes = np.empty(len(nodes))
        self.sizes = np.empty(len(nodes))
        for joint, parent in enumerate(self.parents):
            metres = metres_per_unit if parent < 0 else self.sizes[parent]
            self.parent_sizes[joint] = metres
            self.sizes[joint] = metres * self._fold.scales[joint] * self.own_sizes[joint]
        self.rest = self.in_metres(
            forest.translations[nodes], forest.rotations[nodes], scales.copy()
        )
        self.rest_world = self.skeleton().rest_world() if len(nodes) else np.empty((0, 4, 4))

    def in_metres(
        self, translations: Floats, rotations: Floats, scales: Floats
    ) -> tuple[Floats, Floats, Floats]:
        """Convert local transforms of the nodes, (…, j, 3 or 4), to those of the joints."""
        moved, turned = self._fold.folded(translations, rotations)
        return moved * self.parent_sizes[:, None], turned, scales / self.own_sizes[:, None]

    def track_values(self, path: str, joints: Ints, values: Floats, slopes: bool = False) -> Floats:
        """Convert values of one property of some nodes, (…, k, c), to those of their joints.

        `slopes` are differences of values, as tangents are.
        """
        if path == "scale":
            return values / self.own_sizes[joints, None]
        turns, moves = np.tile([0.0, 0, 0, 1], (len(self.nodes), 1)), np.zeros((len(self.nodes), 3))
        turns[self._fold.joints], moves[self._fold.joints] = self._fold.turns, self._fold.moves
        if path == "rotation":
            return multiply(turns[joints], values)
        moved = rotate(turns[joints], values * self._fold.scales[joints, None])
        moved = moved if slopes else moved + moves[joints]
        return moved * self.parent_sizes[joints, None]

    def in_units(
        self, translations: Floats, rotations: Floats, scales: Floats
    ) -> tuple[Floats, Floats, Floats]:
        """Convert local transforms of the joints, (…, j, 3 or 4), to those of the nodes."""
        moved, turned = self._fold.unfolded(translations / self.parent_sizes[:, None], rotations)
        return moved, turned, scales * self.own_sizes[:, None]

    def skeleton(self, copies: Ints | None = None) -> Skeleton:
        """Return the joints, followed by copies: joints that sit on others and never move there."""
        moved, turned, sized = self.rest
        parents, names = self.parents, list(self.names)
        if copies is not None and len(copies):
            parents = np.concatenate([parents, copies])
            names += [f"{self.names[joint]}.bound" for joint in copies]
            moved, turned, sized = self.extended(len(copies), moved, turned, sized)
        return Skeleton(unique_names(names), parents, moved, turned, sized)

    @staticmethod
    def extended(
        count: int, translations: Floats, rotations: Floats, scales: Floats
    ) -> tuple[Floats, Floats, Floats]:
        """Append identity transforms for so many copies of joints to local transforms."""
        still = (np.zeros(3), np.array([0.0, 0.0, 0.0, 1.0]), np.ones(3))
        parts = []
        for values, rest in zip((translations, rotations, scales), still, strict=True):
            shape = (*values.shape[:-2], count, len(rest))
            parts.append(np.concatenate([values, np.broadcast_to(rest, shape)], axis=-2))
        return parts[0], parts[1], parts[2]


@dataclass
class _Fold:
    """Transforms of nodes that are no joints, as part of the joints below: similarities.

    Attributes
    ----------
    joints : (k,) int array
        Those that have such nodes above them.
    moves, turns : (k, 3), (k, 4) arrays
        Of the similarity above each of them.
    scales : (j,) array
        Its scale, of all joints; 1 for none.
    """

    joints: Ints
    moves: Floats
    turns: Floats
    scales: Floats

    @classmethod
    def of(cls, places: list[Floats]) -> _Fold:
        """Take similarities (4, 4), one above each joint, apart."""
        matrices = np.array(places).reshape(-1, 4, 4)
        joints = np.flatnonzero((matrices != np.eye(4)).any(axis=(1, 2)))
        scales = np.ones(len(matrices))
        scales[joints] = np.cbrt(np.linalg.det(matrices[joints, :3, :3]))
        sound = np.isfinite(matrices).all() and (scales > 1e-30).all() and (scales < 1e30).all()
        if not sound:
            raise FormatError("its nodes are moved or scaled beyond all measure; save it again")
        turns = from_matrix(matrices[joints, :3, :3] / scales[joints, None, None])
        return cls(joints, matrices[joints, :3, 3], turns, scales)

    def folded(self, translations: Floats, rotations: Floats) -> tuple[Floats, Floats]:
        """Return transforms of nodes, (…, j, 3 or 4), as transforms of joints."""
        if not len(self.joints):
            return translations, rotations
        moved, turned, rows = translations.copy(), rotations.copy(), self.joints
        longer = translations[..., rows, :] * self.scales[rows, None]
        moved[..., rows, :] = rotate(self.turns, longer) + self.moves
        turned[..., rows, :] = multiply(self.turns, rotations[..., rows, :])
        return moved, turned

    def unfolded(self, translations: Floats, rotations: Floats) -> tuple[Floats, Floats]:
        """Return transforms of joints, (…, j, 3 or 4), as transforms of nodes."""
        if not len(self.joints):
            return translations, rotations
        moved, turned, rows = translations.copy(), rotations.copy(), self.joints
        back = inverse(self.turns)
        there = rotate(back, translations[..., rows, :] - self.moves)
        moved[..., rows, :] = there / self.scales[rows, None]
        turned[..., rows, :] = multiply(back, rotations[..., rows, :])
        return moved, turned


def joint_nodes(
    forest: NodeForest, listed: Collection[int], shown: Collection[int], moving: Container[int]
) -> Ints:
    """Return the nodes that are joints, parents first; see `supple.rig.motion.root_policy`.

    Parameters
    ----------
    forest
        All nodes.
    listed
        The joints of skins.
    shown
        Nodes of meshes without a skin; those below no other joint are none.
    moving
        Nodes that a clip moves.
    """
    everything = forest.with_ancestors([*listed, *shown]).tolist()
    kept = {node for node in everything if node in listed or node in moving}
    below: set[int] = set()
    for node in everything:
        if int(forest.parents[node]) in below or int(forest.parents[node]) in kept:
            below.add(node)
    kept |= below & set(shown)
    above: set[int] = set()
    for node in reversed(everything):
        # What scales unevenly cannot be a part of what it scales.
        if node in above and not _is_even(forest.scales[node]):
            kept.add(node)
        if node in kept or node in above:
            above.add(int(forest.parents[node]))
    return np.array([node for node in everything if node in kept], dtype=np.int64)


def _is_even(scale: Floats) -> bool:
    return bool(scale[0] > 1e-9 and np.abs(scale - scale[0]).max() <= UNIFORM * scale[0])


class Binding:
    """One inverse bind matrix for each joint, though every skin has its own.

    A skin S with matrices B_j is bound in a space of its own. When X exists with B_j = C_j X
    for all its joints, its vertices are moved by X, and C_j serves all skins. Where it does
    not, a copy of the joint takes the other matrix.
    """

    def __init__(self, frames: JointFrames, size: float) -> None:
        self._frames, self._size = frames, size
        self._matrices: dict[int, Floats] = {}
        self._copies: list[int] = []
        self._copied: dict[int, list[tuple[int, Floats]]] = {}

    @property
    def copies(self) -> Ints:
        """The joint that each copy sits on."""
        return np.array(self._copies, dtype=np.int64)

    def inverse_bind(self) -> Floats:
        """Return one matrix for each joint and copy."""
        rest = self._frames.rest_world
        result = np.empty((len(rest) + len(self._copies), 4, 4))
        for joint, world in enumerate(rest):
            found = self._matrices.get(joint)
            result[joint] = found if found is not None else _inverse(world, np.eye(4))
        for copy, matrix in (pair for pairs in self._copied.values() for pair in pairs):
            result[copy] = matrix
        return result

    def bind(self, joints: Ints, matrices: Floats, corners: Floats) -> tuple[Floats, Ints]:
        """Move a skin into the common space.

        Parameters
        ----------
        joints : (k,) int array
            The joints that have weight in it.
        matrices : (k, 4, 4) array
            Its inverse bind matrices, in the file's units.
        corners : (8, 3) array
            Of the box around its vertices, to see what a difference matters.

        Returns
        -------
        (4, 4) array
            From the skin's space to the common one: X.
        (k,) int array
            The joint, or the copy of it, that serves each.
        """
        own = matrices * self._frames.sizes[joints][:, None, None]
        own[:, 3] = (0, 0, 0, 1)
        move = self._common_space(joints, own)
        back = np.linalg.inv(move)
        serving = joints.copy()
        for number, joint in enumerate(joints.tolist()):
            wanted = own[number] @ back
            if joint not in self._matrices:
                self._matrices[joint] = wanted
            elif not self._agree(joint, self._matrices[joint] @ move, own[number], corners):
                serving[number] = self._copy(joint, wanted, move, own[number], corners)
        return move, serving

    def _common_space(self, joints: Ints, own: Floats) -> Floats:
        for joint, matrix in zip(joints.tolist(), own, strict=True):
            if joint in self._matrices:
                known = _inverse(self._matrices[joint], None)
                if known is not None and _inverse(known @ matrix, None) is not None:
                    return known @ matrix
        # None is known: let the bound shape lie where its topmost joint rests.
        for number in np.argsort(joints):
            move = self._frames.rest_world[joints[number]] @ own[number]
            if _inverse(move, None) is not None:
                return move
        return np.eye(4)

    def _agree(self, joint: int, one: Floats, other: Floats, corners: Floats) -> bool:
        difference = self._frames.rest_world[joint][:3, :3] @ (one - other)[:3]
        off = np.abs(corners @ difference[:, :3].T + difference[:, 3]).max()
        return bool(off <= SAME_BINDING * self._size)

    def _copy(self, joint: int, wanted: Floats, move: Floats, own: Floats, corners: Floats) -> int:
        pairs = self._copied.setdefault(joint, [])
        for copy, matrix in pairs:
            if self._agree(joint, matrix @ move, own, corners):
                return copy
        if len(self._copies) == MOST_COPIES:
            raise FormatError(
                f"more than {MOST_COPIES} joints are bound in several ways; simplify it"
            )
        self._copies.append(joint)
        copy = len(self._frames.nodes) + len(self._copies) - 1
        pairs.append((copy, wanted))
        return copy


def _inverse(matrix: Floats, otherwise: Floats | None) -> Floats | None:
    """Return the inverse, or `otherwise` if the matrix flattens space."""
    sizes = np.linalg.svd(matrix[:3, :3], compute_uv=False)
    if not sizes[-1] > 1e-9 * sizes[0]:
        return otherwise
    return np.asarray(np.linalg.inv(matrix), dtype=np.float64)
