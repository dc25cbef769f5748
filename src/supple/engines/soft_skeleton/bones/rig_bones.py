"""Bones of a rig: its skeleton as turning bones, its poses as turns, and its shapes beside them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from supple.arrays import Floats, Ints
from supple.compiled.jit import compiled
from supple.engines.soft_skeleton.bones.body_points import PointTables
from supple.engines.soft_skeleton.bones.bone_chain import BoneChain, write_joint_turns
from supple.errors import SuppleError
from supple.maths.rotations import to_matrix
from supple.maths.small_matrices import cofactors, determinant, times, times_transposed
from supple.rig.deformers.pose_blend_shapes import FEATURES, PoseBlendShapeRig
from supple.rig.placement.placement import placement
from supple.rig.protocol import Rig
from supple.rig.skeleton.joint_pose import JointPose, PartialJointPose
from supple.rig.skeleton.skinning import SkinnedRig, skinned_core

#: RᵀR of a rotation is the identity but for this.
RIGID = 1e-13


class RigBones:
    """Joints that move skin, as bones that turn; what moves none is left out.

    Turns are since the skin was bound: x = G_k X + t_k of its vertices X then. Many files rest in
    another pose.

    Parameters
    ----------
    rig
        A rig built on one skeleton with linear skinning.

    Attributes
    ----------
    names, parents, joints
        Of the K bones, parents before children; joints (K, 3) where they were bound.
    kept
        (K,) their places in the rig's skeleton.
    weights
        (n̄, K) of the skin.
    rest_pose
        (s,) of the rig.
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
        self.kept: Ints = _moving(skeleton.parents, np.diff(weights.indptr) > 0)
        place = np.full(skeleton.n_joints + 1, -1, np.int64)
        place[self.kept] = np.arange(len(self.kept))
        self.names: Sequence[str] = tuple(skeleton.names[joint] for joint in self.kept)
        self.parents: Ints = place[skeleton.parents[self.kept]]
        if (self.parents < 0).sum() != 1:
            raise SuppleError("its skeleton has several roots that move skin; join them to one")
        bind: Floats = np.linalg.inv(core.rig.inverse_bind[self.kept]).astype(np.float64)
        self.joints: Floats = bind[:, :3, 3].copy()
        self._bound = _rotations(bind[:, :3, :3])
        self.weights = sp.csr_array(weights[:, self.kept])
        self._entries = core.rig.joint_pose.entries()[self.kept]
        self.rest_pose: Floats = np.asarray(rig.rest_pose, np.float64)
        self._unrested = np.swapaxes(to_matrix(skeleton.rotations[self.kept]), 1, 2)

    def turns(self, pose: Floats) -> tuple[Floats, Floats, Floats]:
        """Return turns (K, 3, 3) at a pose, the place of the first joint, and slides (K, 3).

        A joint slides where keys move it on its parent: see `BoneChain`.
        """
        world = self._core.rig.joint_pose.matrices(pose[self._core.entries])
        turned, slides = np.empty_like(self._bound), np.zeros((len(self.parents), 3))
        bones = self.kept, self.parents, self.joints, self._bound
        if not _write_turns(world, *bones, turned, slides):
            own = np.eye(4) + np.zeros((len(world), 1, 1))
            own[:, :3, :3] = _rotations(world[:, :3, :3])
            own[:, :3, 3] = world[:, :3, 3]
            _write_turns(own, *bones, turned, slides)
        return turned, world[self.kept[0], :3, 3], slides

    def unposed(self, points: Floats, weights: sp.csr_array, pose: Floats) -> Floats:
        """Return points (n, 3) of a pose where they were when the skin was bound.

        (Σ_k w_k G_k)⁻¹ (x − Σ_k w_k t_k), with weights (n, K) of the bones.
        """
        turned, first, slides = self.turns(pose)
        chain = BoneChain(self.parents, self.joints)
        chain.place(turned, first, slides)
        blend = (weights @ chain.turns.reshape(-1, 9)).reshape(-1, 3, 3)
        moved = points - weights @ chain.shifts
        return np.linalg.solve(blend, moved[:, :, None])[:, :, 0]

    def pose(self, turns: Floats, first: Floats, near: Floats) -> Floats:
        """Return the pose (s,) near another whose bones are turned so; what it lacks stays."""
        found = near.copy()
        own = found[self._core.entries]
        world = turns @ self._bound
        above = self._core.rig.joint_pose.matrices(own)
        skeleton = self._core.rig.skeleton
        parents = skeleton.parents[self.kept]
        frames = np.where(parents[:, None, None] < 0, np.eye(3), above[parents, :3, :3])
        stays = ~((self.parents >= 0) & (parents == self.kept[self.parents]))
        frames[stays] = _rotations(frames[stays])
        frames[~stays] = world[self.parents[~stays]]
        vectors = np.empty((len(world), 3))
        _write_vectors(self._unrested @ np.swapaxes(frames, 1, 2) @ world, vectors)
        rows = self._entries[:, :3]
        own[rows[rows >= 0]] = vectors[rows >= 0]
        rows = self._entries[0, 3:6]
        if (rows >= 0).all():
            own[rows] = own[rows] + self._shift(above, first)
        found[self._core.entries] = own
        return found

    def posed(self, chain: BoneChain, root: Floats, near: Floats) -> Floats:
        """Return the pose (s,) near another with bones where a chain has them, in a root (4, 4)."""
        turn, shift = root[:3, :3], root[:3, 3]
        return self.pose(turn.T @ chain.turns, (chain.places[0] - shift) @ turn, near)

    def shaped(self) -> PoseBlendShapeRig | None:
        """Return the rig where it is linear skinning of turning bones after pose blend shapes."""
        rig, pose = self._rig, self._core.rig.joint_pose
        if type(rig) is not PoseBlendShapeRig or rig.base is not self._core.rig:
            return None
        rigid = np.abs(pose.skeleton.scales - 1).max() < 1e-12 and not len(pose.scaling)
        free = (self._entries[:, :3] >= 0).all() and np.isin(rig.joints, self.kept[1:]).all()
        above = (pose.skeleton.parents[self.kept[1:]] == self.kept[self.parents[1:]]).all()
        known = type(pose) in (JointPose, PartialJointPose)
        return rig if rigid and free and above and known else None

    def local_frames(self, joints: Ints) -> tuple[Ints, Floats, Floats]:
        """Return bones of joints, and L and R by which L G_pᵀG R is the turn since rest of each."""
        bones = np.searchsorted(self.kept, joints)
        above = np.swapaxes(self._bound[self.parents[bones]], 1, 2)
        return bones, self._unrested[bones] @ above, self._bound[bones]

    def _shift(self, above: Floats, first: Floats) -> Floats:
        """Return the change of the first joint's offset that puts it where it is."""
        parent = self._core.rig.skeleton.parents[self.kept[0]]
        move = first - above[self.kept[0], :3, 3]
        if parent < 0:
            return move
        found: Floats = np.linalg.solve(above[parent, :3, :3], move).astype(np.float64)
        return found


def skin_correction(
    rig: Rig, bones: RigBones, tables: PointTables
) -> SkinCorrection | ShapedSkin | None:
    """Return what a rig does beside linear skinning by its bones; None for nothing."""
    if isinstance(rig, SkinnedRig):
        return None
    shaped = bones.shaped()
    if shaped is not None:
        return ShapedSkin(shaped, bones, tables)
    return SkinCorrection(rig, bones, tables)


class ShapedSkin:
    """Pose blend shapes by the bones' own turns: no pose is looked for, and no skin placed.

    Parameters
    ----------
    rig, bones, tables
        See `RigBones.shaped`; the skin by bones.
    """

    def __init__(self, rig: PoseBlendShapeRig, bones: RigBones, tables: PointTables) -> None:
        self._shapes, self._frames = rig.by_turns(), bones.local_frames(rig.joints)
        self._features = np.empty((len(rig.joints), FEATURES))
        self._first = rig.rest_points - tables.rest

    def write(self, chain: BoneChain, root: Floats, near: Floats, out: Floats) -> None:
        """Write offsets (n, 3) of the skin with bones as they are."""
        _write_features(chain.parents, chain.turns, *self._frames, self._features)
        out[:] = self._first
        self._shapes.add(self._features, out)


class SkinCorrection:
    """Displacements of any rig, found by taking the bones off its skin.

    Parameters
    ----------
    rig, bones, tables
        The rig, its bones, and its skin by them.
    """

    def __init__(self, rig: Rig, bones: RigBones, tables: PointTables) -> None:
        self._placement, self._bones, self._tables = placement(rig), bones, tables
        self._skin = np.empty_like(tables.rest)

    def write(self, chain: BoneChain, root: Floats, near: Floats, out: Floats) -> None:
        """Write offsets (n, 3) of the skin at the pose near another that the bones are in.

        (Σ w G)⁻¹ (Φ(p) − Σ w (G X + t)).
        """
        pose = self._bones.posed(chain, root, near)
        # Not every rig can be put anywhere: where it cannot, its first bone is brought along.
        turns, first, _ = self._bones.turns(pose)
        frame = np.eye(4)
        frame[:3, :3] = chain.turns[0] @ turns[0].T
        frame[:3, 3] = chain.places[0] - frame[:3, :3] @ first
        self._placement.place(pose, self._skin)
        _write_offsets(self._tables, self._skin, frame, chain.turns, chain.shifts, out)


@compiled
def _write_features(
    parents: Ints, turns: Floats, bones: Ints, lefts: Floats, rights: Floats, out: Floats
) -> None:
    """vec(L G_pᵀG R − 1) (d, 9) of some bones."""
    own, half, whole = np.empty((3, 3)), np.empty((3, 3)), np.empty((3, 3))
    for d in range(len(bones)):
        write_joint_turns(parents, turns, bones[d], own)
        times(lefts[d], own, half)
        times(half, rights[d], whole)
        for i in range(3):
            for k in range(3):
                out[d, 3 * i + k] = whole[i, k] - (1.0 if i == k else 0.0)


@compiled
def _write_offsets(
    tables: PointTables, skin: Floats, root: Floats, turns: Floats, shifts: Floats, out: Floats
) -> None:
    blend, adjoint, away = np.empty((3, 3)), np.empty((3, 3)), np.empty(3)
    for i in range(len(skin)):
        blend[:] = 0.0
        for a in range(3):
            away[a] = root[a, 3]
            for b in range(3):
                away[a] += root[a, b] * skin[i, b]
        for at in range(tables.bone_starts[i], tables.bone_starts[i + 1]):
            w, k = tables.weights[at], tables.bones[at]
            for a in range(3):
                away[a] -= w * shifts[k, a]
                for b in range(3):
                    blend[a, b] += w * turns[k, a, b]
        # F⁻¹ = cof(F)ᵀ / det F.
        cofactors(blend, adjoint)
        scale = 1.0 / determinant(blend)
        for a in range(3):
            out[i, a] = -tables.rest[i, a]
            for b in range(3):
                out[i, a] += scale * adjoint[b, a] * away[b]


@compiled
def _write_turns(
    world: Floats,
    kept: Ints,
    parents: Ints,
    joints: Floats,
    bound: Floats,
    turned: Floats,
    slides: Floats,
) -> bool:
    """Write turns since the skin was bound, and slides; tell whether all joints just turn."""
    rigid, inner = True, np.empty((3, 3))
    for k in range(len(kept)):
        own, p = world[kept[k]], parents[k]
        times_transposed(own[:3, :3].T, own[:3, :3].T, inner)
        for i in range(3):
            for j in range(3):
                rigid &= abs(inner[i, j] - (1.0 if i == j else 0.0)) < RIGID
        times_transposed(own[:3, :3], bound[k], turned[k])
        if p >= 0:
            for i in range(3):
                slides[k, i] = joints[p, i] - joints[k, i]
                for j in range(3):
                    slides[k, i] += turned[p, j, i] * (own[j, 3] - world[kept[p], j, 3])
    return rigid


def _moving(parents: Ints, used: Floats) -> Ints:
    """Return joints with skin that follows them or what hangs on them, ascending."""
    moves = np.array(used, bool)
    for joint in range(len(parents) - 1, -1, -1):
        if parents[joint] >= 0:
            moves[parents[joint]] |= moves[joint]
    found = np.flatnonzero(moves)
    # A root that only carries another root moves nothing by itself.
    while len(found) > 1 and not used[found[0]] and (parents[found] == found[0]).sum() == 1:
        found = found[1:]
    return found


@compiled
def _write_vectors(matrices: Floats, out: Floats) -> None:
    """Log R as vectors (k, 3), by the quaternion with the largest entry.

    SciPy's way takes a millisecond for the joints of a body, as long as a step's forces.
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
    """Return the nearest rotations of matrices (…, 3, 3)."""
    if np.abs(np.swapaxes(matrices, -1, -2) @ matrices - np.eye(3)).max(initial=0.0) < RIGID:
        return matrices.copy()
    u, _, v = np.linalg.svd(matrices)
    u[..., :, 2] *= np.sign(np.linalg.det(u @ v))[..., None]
    return u @ v
