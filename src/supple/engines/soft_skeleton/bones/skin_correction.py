"""Displacements of the skin before bones by which a rig differs from linear skinning."""

from __future__ import annotations

import numpy as np

from supple.arrays import Floats, Ints
from supple.compiled.jit import compiled
from supple.engines.soft_skeleton.bones.body_points import PointTables
from supple.engines.soft_skeleton.bones.bone_chain import BoneChain, write_joint_turns
from supple.engines.soft_skeleton.bones.rig_bones import RigBones
from supple.maths.small_matrices import cofactors, determinant, times
from supple.rig.deformers.pose_blend_shapes import FEATURES, PoseBlendShapeRig
from supple.rig.placement.placement import placement
from supple.rig.protocol import Rig
from supple.rig.skeleton.skinning import SkinnedRig

__all__ = ["ShapedSkin", "SkinCorrection", "skin_correction"]


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
