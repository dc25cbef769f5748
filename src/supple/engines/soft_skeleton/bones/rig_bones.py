"""Bones of a rig: joints and poses as rotations, and corrective shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from supple.arrays import Floats, Ints
from supple.compiled.jit import compiled
from supple.engines.soft_skeleton.bones.body_points import PointTables
from supple.engines.soft_skeleton.bones.bone_chain import BoneChain, write_joint_rotation
from supple.errors import SuppleError
from supple.maths.rotations import to_matrix
from supple.maths.small_matrices import cofactors, determinant, times, times_transposed
from supple.rig.deformers.pose_blend_shapes import FEATURES, PoseBlendShapeRig
from supple.rig.placement.placement import placement
from supple.rig.protocol import Rig, optional_method
from supple.rig.skeleton.joint_pose import JointPose, PartialJointPose
from supple.rig.skeleton.skinning import skinned_core

#: Tolerance of RᵀR = 1 for a rotation.
RIGID = 1e-13


class RigBones:
    """Joints of a rig with one skeleton and linear skinning that move skin, as rotating bones.

    Rotations are relative to the bind pose: x = G_k X + t_k for vertices X of that pose. Many files
    rest in another pose. `joints` (K, 3) are positions in the bind pose, `joint_indices` (K,)
    indices in the rig's skeleton, `weights` (n̄, K) the skinning weights; parents precede children.

    If several joints have no parent, the one with most skin below it is the first bone. Each of the
    others follows the bone that it shares most skin with, by the offset that the rig gives it.
    """

    def __init__(self, rig: Rig) -> None:
        core = skinned_core(rig)
        if core is None or core.rig.method != "linear":
            raise SuppleError(
                "a soft skeleton needs a rig with one skeleton and linear skinning; "
                'for others use engine="pose-space"'
            )
        self._rig, self._core, skeleton = rig, core, core.rig.skeleton
        weights = sp.csc_array(core.rig.weight_matrix())
        moving = _moving(skeleton.parents, np.diff(weights.indptr) > 0)
        place = np.full(skeleton.n_joints + 1, -1, np.int64)
        place[moving] = np.arange(len(moving))
        parents: Ints = place[skeleton.parents[moving]]
        order = np.arange(len(moving))
        #: Bones, other than the first, whose joints have no parent among the bones.
        self._roots: Ints = np.zeros(0, np.int64)
        if (parents < 0).sum() > 1:
            joined, order = _joined(parents, sp.csr_array(weights[:, moving]))
            place[order], place[-1] = np.arange(len(order)), -1
            self._roots = np.flatnonzero(parents[order] < 0)[1:]
            parents = place[joined[order]]
        self.parents, self.joint_indices = parents, moving[order]
        self.names: Sequence[str] = tuple(skeleton.names[joint] for joint in self.joint_indices)
        bind: Floats = np.linalg.inv(core.rig.inverse_bind[self.joint_indices]).astype(np.float64)
        self.joints: Floats = bind[:, :3, 3].copy()
        self._bound = _rotations(bind[:, :3, :3])
        self.weights = sp.csr_array(weights[:, self.joint_indices])
        self._entries = core.rig.joint_pose.entries()[self.joint_indices]
        self.rest_pose: Floats = np.asarray(rig.rest_pose, np.float64)
        self._rest_inverse = np.swapaxes(to_matrix(skeleton.rotations[self.joint_indices]), 1, 2)

    @property
    def is_plain_skin(self) -> bool:
        """Whether the rig is linear skinning alone."""
        return self._core.rig is self._rig

    def rotations(self, pose: Floats) -> tuple[Floats, Floats, Floats]:
        """Return bone rotations (K, 3, 3) since the bind pose, the first joint (3,), and slides.

        Slides (K, 3) are changes of each joint's offset from its parent since the bind pose, in the
        parent's bind frame; zero for the root.
        """
        world = self._core.rig.joint_pose.matrices(pose[self._core.entries])
        rotations, slides = np.empty_like(self._bound), np.zeros((len(self.parents), 3))
        bones = self.joint_indices, self.parents, self.joints, self._bound
        if not _write_rotations(world, *bones, rotations, slides):
            rigid = np.eye(4) + np.zeros((len(world), 1, 1))
            rigid[:, :3, :3] = _rotations(world[:, :3, :3])
            rigid[:, :3, 3] = world[:, :3, 3]
            _write_rotations(rigid, *bones, rotations, slides)
        return rotations, world[self.joint_indices[0], :3, 3], slides

    def unposed(self, points: Floats, weights: sp.csr_array, pose: Floats) -> Floats:
        """Return the positions in the bind pose of points (n, 3) at `pose`.

        (Σ_k w_k G_k)⁻¹ (x − Σ_k w_k t_k), with weights (n, K) of the bones.
        """
        rotations, first, slides = self.rotations(pose)
        chain = BoneChain(self.parents, self.joints)
        chain.place(rotations, first, slides)
        blend = (weights @ chain.rotations.reshape(-1, 9)).reshape(-1, 3, 3)
        shifted = points - weights @ chain.translations
        return np.linalg.solve(blend, shifted[:, :, None])[:, :, 0]

    def pose(self, rotations: Floats, first: Floats, near: Floats) -> Floats:
        """Return `near` (s,) changed to these bone rotations and a first joint at `first`."""
        result = near.copy()
        pose = result[self._core.entries]
        world = rotations @ self._bound
        above = self._core.rig.joint_pose.matrices(pose)
        skeleton = self._core.rig.skeleton
        parents = skeleton.parents[self.joint_indices]
        frames = np.where(parents[:, None, None] < 0, np.eye(3), above[parents, :3, :3])
        stays = ~((self.parents >= 0) & (parents == self.joint_indices[self.parents]))
        frames[stays] = _rotations(frames[stays])
        frames[~stays] = world[self.parents[~stays]]
        vectors = np.empty((len(world), 3))
        _write_vectors(self._rest_inverse @ np.swapaxes(frames, 1, 2) @ world, vectors)
        rows = self._entries[:, :3]
        pose[rows[rows >= 0]] = vectors[rows >= 0]
        firsts = [first]
        if len(self._roots):
            chain = BoneChain(self.parents, self.joints)
            chain.place(rotations, first, self.rotations(near)[2])
            firsts += list(chain.positions[self._roots])
        for bone, position in zip((0, *self._roots), firsts, strict=True):
            rows = self._entries[bone, 3:6]
            if (rows >= 0).all():
                pose[rows] = pose[rows] + self._shift(above, bone, position)
        result[self._core.entries] = pose
        return result

    def posed(self, chain: BoneChain, root: Floats, near: Floats) -> Floats:
        """Return `near` (s,) changed to the pose of a chain's bones relative to a root."""
        rotation, shift = root[:3, :3], root[:3, 3]
        return self.pose(
            rotation.T @ chain.rotations, (chain.positions[0] - shift) @ rotation, near
        )

    def shaped(self) -> PoseBlendShapeRig | None:
        """Return the rig if its pose blend shapes follow from bone rotations alone, else None."""
        rig: Any = self._rig
        pose = self._core.rig.joint_pose
        if optional_method(rig, "rotation_displacements") is None or rig.base is not self._core.rig:
            return None
        rigid = np.abs(pose.skeleton.scales - 1).max() < 1e-12 and not len(pose.scaling)
        free = (self._entries[:, :3] >= 0).all() and np.isin(
            rig.joints, self.joint_indices[1:]
        ).all()
        above = (
            pose.skeleton.parents[self.joint_indices[1:]] == self.joint_indices[self.parents[1:]]
        ).all()
        known = type(pose) in (JointPose, PartialJointPose)
        return rig if rigid and free and above and known else None

    def local_frames(self, joints: Ints) -> tuple[Ints, Floats, Floats]:
        """Return bones (d,) of joints, and L, R: L G_pᵀG R is a joint's rotation since rest."""
        bones = np.searchsorted(self.joint_indices, joints)
        above = np.swapaxes(self._bound[self.parents[bones]], 1, 2)
        return bones, self._rest_inverse[bones] @ above, self._bound[bones]

    def _shift(self, above: Floats, bone: int, position: Floats) -> Floats:
        """Return the change of a joint's offset, in its parent's axes, to reach `position`."""
        parent = self._core.rig.skeleton.parents[self.joint_indices[bone]]
        move = position - above[self.joint_indices[bone], :3, 3]
        if parent < 0:
            return move
        shift: Floats = np.linalg.solve(above[parent, :3, :3], move).astype(np.float64)
        return shift


def skin_correction(
    rig: Rig, bones: RigBones, tables: PointTables
) -> SkinCorrection | ShapedSkin | None:
    """Return a writer of the rig's offsets from linear skinning; None if there are none."""
    if bones.is_plain_skin:
        return None
    shaped = bones.shaped()
    if shaped is not None:
        return ShapedSkin(shaped, bones, tables)
    return SkinCorrection(rig, bones, tables)


class ShapedSkin:
    """Pose blend shapes, evaluated from the rotations of bones; see `RigBones.shaped`."""

    def __init__(self, rig: PoseBlendShapeRig, bones: RigBones, tables: PointTables) -> None:
        self._shapes, self._frames = rig.rotation_displacements(), bones.local_frames(rig.joints)
        self._features = np.empty((len(rig.joints), FEATURES))
        self._first = rig.rest_points - tables.rest

    def write(self, chain: BoneChain, root: Floats, near: Floats, out: Floats) -> None:
        """Write offsets (n, 3) in the bind pose for the current bones; `root`, `near` unused."""
        _write_features(chain.parents, chain.rotations, *self._frames, self._features)
        out[:] = self._first
        self._shapes.add(self._features, out)


class SkinCorrection:
    """Displacements of any rig, by inverse skinning of its surface."""

    def __init__(self, rig: Rig, bones: RigBones, tables: PointTables) -> None:
        self._placement, self._bones, self._tables = placement(rig), bones, tables
        self._skin = np.empty_like(tables.rest)

    def write(self, chain: BoneChain, root: Floats, near: Floats, out: Floats) -> None:
        """Write offsets (n, 3) in the bind pose for the current bones, whose pose is near `near`.

        (Σ w G)⁻¹ (Φ(p) − Σ w (G X + t)), with Φ(p) the rig's surface at the pose of the bones.
        """
        pose = self._bones.posed(chain, root, near)
        # Not every rig has a free root: align its first bone.
        rotations, first, _ = self._bones.rotations(pose)
        frame = np.eye(4)
        frame[:3, :3] = chain.rotations[0] @ rotations[0].T
        frame[:3, 3] = chain.positions[0] - frame[:3, :3] @ first
        self._placement.place(pose, self._skin)
        _write_offsets(self._tables, self._skin, frame, chain.rotations, chain.translations, out)


@compiled
def _write_features(
    parents: Ints, rotations: Floats, bones: Ints, lefts: Floats, rights: Floats, out: Floats
) -> None:
    """Write the entries (d, 9) of L G_pᵀG R − 1, row by row, of bones (d,)."""
    relative, half, product = np.empty((3, 3)), np.empty((3, 3)), np.empty((3, 3))
    for d in range(len(bones)):
        write_joint_rotation(parents, rotations, bones[d], relative)
        times(lefts[d], relative, half)
        times(half, rights[d], product)
        for i in range(3):
            for k in range(3):
                out[d, 3 * i + k] = product[i, k] - (1.0 if i == k else 0.0)


@compiled
def _write_offsets(
    tables: PointTables,
    skin: Floats,
    root: Floats,
    rotations: Floats,
    translations: Floats,
    out: Floats,
) -> None:
    """Write the inverse-skinned `skin` (n, 3), transformed by `root`, minus rest positions."""
    blend, adjoint, difference = np.empty((3, 3)), np.empty((3, 3)), np.empty(3)
    for i in range(len(skin)):
        blend[:] = 0.0
        for a in range(3):
            difference[a] = root[a, 3]
            for b in range(3):
                difference[a] += root[a, b] * skin[i, b]
        for at in range(tables.bone_starts[i], tables.bone_starts[i + 1]):
            w, k = tables.weights[at], tables.bones[at]
            for a in range(3):
                difference[a] -= w * translations[k, a]
                for b in range(3):
                    blend[a, b] += w * rotations[k, a, b]
        # F⁻¹ = cof(F)ᵀ / det F.
        cofactors(blend, adjoint)
        scale = 1.0 / determinant(blend)
        for a in range(3):
            out[i, a] = -tables.rest[i, a]
            for b in range(3):
                out[i, a] += scale * adjoint[b, a] * difference[b]


@compiled
def _write_rotations(
    world: Floats,
    indices: Ints,
    parents: Ints,
    joints: Floats,
    bound: Floats,
    rotations: Floats,
    slides: Floats,
) -> bool:
    """Write rotations since the bind pose, and slides; return whether all `world` are rigid."""
    rigid, inner = True, np.empty((3, 3))
    for k in range(len(indices)):
        joint, p = world[indices[k]], parents[k]
        times_transposed(joint[:3, :3].T, joint[:3, :3].T, inner)
        for i in range(3):
            for j in range(3):
                rigid &= abs(inner[i, j] - (1.0 if i == j else 0.0)) < RIGID
        times_transposed(joint[:3, :3], bound[k], rotations[k])
        if p >= 0:
            for i in range(3):
                slides[k, i] = joints[p, i] - joints[k, i]
                for j in range(3):
                    slides[k, i] += rotations[p, j, i] * (joint[j, 3] - world[indices[p], j, 3])
    return rigid


def _moving(parents: Ints, used: Floats) -> Ints:
    """Return joints that move skin directly or through their descendants, ascending."""
    moves = np.array(used, bool)
    for joint in range(len(parents) - 1, -1, -1):
        if parents[joint] >= 0:
            moves[parents[joint]] |= moves[joint]
    moving = np.flatnonzero(moves)
    # Skip a root that moves no skin itself and has a single child among these.
    while len(moving) > 1 and not used[moving[0]] and (parents[moving] == moving[0]).sum() == 1:
        moving = moving[1:]
    return moving


def _joined(parents: Ints, weights: sp.csr_array) -> tuple[Ints, Ints]:
    """Return parents (K,) with a single root, and the bones in an order that follows them.

    The root is that with most skin below it, by `weights` (n̄, K). The others are joined to it one
    by one, the one first that shares most skin with a bone that is joined already.
    """
    parents, shared = parents.copy(), (weights.T @ weights).toarray()
    roots = np.arange(len(parents))
    for k, parent in enumerate(parents):
        if parent >= 0:
            roots[k] = roots[parent]
    skin = np.bincount(roots, np.asarray(weights.sum(axis=0)).ravel(), len(parents))
    first = int(skin.argmax())
    joined = roots == first
    while not joined.all():
        between = np.where(joined[:, None] & ~joined, shared, -1.0)
        bone, other = np.unravel_index(between.argmax(), between.shape)
        root = roots[other]
        parents[root] = bone if between[bone, other] > 0 else first
        joined |= roots == root
    order, listed = [first], np.arange(len(parents)) == first
    while len(order) < len(parents):
        ready = np.flatnonzero(~listed & listed[parents] & (parents >= 0))
        listed[ready] = True
        order += ready.tolist()
    return parents, np.array(order, np.int64)


@compiled
def _write_vectors(matrices: Floats, out: Floats) -> None:
    """Write rotation vectors (k, 3) of `matrices`, from the largest entry of each quaternion.

    SciPy takes a millisecond for the joints of a body, as long as a step's forces.
    """
    q = np.empty(4)
    for n in range(len(matrices)):
        R = matrices[n]
        trace = R[0, 0] + R[1, 1] + R[2, 2]
        big = 3
        for i in range(3):
            if R[i, i] > (trace if big == 3 else R[big, big]):
                big = i
        if big == 3:
            q[3] = 1.0 + trace
            q[0], q[1], q[2] = R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]
        else:
            j, k = (big + 1) % 3, (big + 2) % 3
            q[big] = 1.0 - trace + 2.0 * R[big, big]
            q[j], q[k] = R[j, big] + R[big, j], R[k, big] + R[big, k]
            q[3] = R[k, j] - R[j, k]
        sign = 1.0 if q[3] >= 0 else -1.0
        length = math.sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2])
        angle = 2.0 * math.atan2(length, abs(q[3]))
        scale = sign * (angle / length if length > 0 else 0.0)
        for i in range(3):
            out[n, i] = scale * q[i]


def _rotations(matrices: Floats) -> Floats:
    """Return the nearest rotations to matrices (…, 3, 3)."""
    if np.abs(np.swapaxes(matrices, -1, -2) @ matrices - np.eye(3)).max(initial=0.0) < RIGID:
        return matrices.copy()
    u, _, v = np.linalg.svd(matrices)
    u[..., :, 2] *= np.sign(np.linalg.det(u @ v))[..., None]
    return u @ v
