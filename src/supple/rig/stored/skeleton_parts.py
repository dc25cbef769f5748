"""Skeletons, poses, skinned rigs, and rigs that inverse kinematics drives, as stored parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from supple.rig.poses.pose_weights import PoseWeights
from supple.rig.protocol import Rig
from supple.rig.skeleton.handle_rig import HandleRig
from supple.rig.skeleton.inverse_kinematics import InverseKinematics
from supple.rig.skeleton.joint_pose import JointPose, PartialJointPose
from supple.rig.skeleton.joints import Skeleton
from supple.rig.skeleton.skinning import SkinnedRig
from supple.rig.stored.packed_arrays import narrowed, rounded
from supple.rig.stored.stored_part import (
    Fields,
    Kind,
    PartReader,
    Store,
    keep_bits,
    read_weights,
    weights_of,
)


def _store_skeleton(skeleton: Skeleton, store: Store) -> Fields:
    return Fields(
        {"names": list(skeleton.names)},
        arrays={
            "parents": narrowed(skeleton.parents + 1),
            "translations": skeleton.translations,
            "rotations": skeleton.rotations,
            "scales": skeleton.scales,
        },
    )


def _restore_skeleton(part: PartReader) -> Skeleton:
    names = part.texts("names")
    part.take_parameters(9 * len(names))
    rotations = part.floats("rotations", (len(names), 4), single=False)
    skeleton = Skeleton(
        names,
        part.indices("parents", (len(names),)) - 1,
        part.floats("translations", (len(names), 3), single=False),
        rotations,
        part.floats("scales", (len(names), 3), single=False),
    )
    keep_bits(part, "a rotation", skeleton.rotations, rotations)
    return skeleton


def _store_joint_pose(pose: JointPose, store: Store) -> Fields:
    moving = {"translating": narrowed(pose.translating), "scaling": narrowed(pose.scaling)}
    return Fields(parts={"skeleton": store(pose.skeleton)}, arrays=moving)


def _restore_joint_pose(part: PartReader) -> JointPose:
    skeleton = part.part("skeleton", Skeleton)
    translating, scaling = (part.indices(name, (None,)) for name in ("translating", "scaling"))
    return JointPose(skeleton, translating, scaling)


def _store_partial(pose: PartialJointPose, store: Store) -> Fields:
    return Fields(
        {"free": [parameter.name for parameter in pose.parameters]},
        {"skeleton": store(pose.skeleton)},
        {"translating": narrowed(pose.translating)},
    )


def _restore_partial(part: PartReader) -> PartialJointPose:
    skeleton = part.part("skeleton", Skeleton)
    return PartialJointPose(skeleton, part.texts("free"), part.indices("translating", (None,)))


def _store_pose_weights(weights: PoseWeights, store: Store) -> Fields:
    return Fields(
        {"kind": weights.kind, "names": [str(name) for name in weights.names]},
        arrays={"poses": weights.poses, "scales": weights.scales},
    )


def _restore_pose_weights(part: PartReader) -> PoseWeights:
    poses = part.floats("poses", (None, None), single=False)
    part.budget.take("distances between example poses", len(poses) * poses.size)
    scales = part.floats("scales", (poses.shape[1],), single=False)
    return PoseWeights(poses, scales, kind=part.text("kind"), names=part.texts("names"))


def _store_skinned(rig: SkinnedRig, store: Store) -> Fields:
    return Fields(
        {"method": rig.method},
        {"joint_pose": store(rig.joint_pose)},
        {
            "vertices": rounded(rig.vertices),
            "inverse_bind": rig.inverse_bind,
            **weights_of("influence", rig.weight_matrix()),
        },
    )


def _restore_skinned(part: PartReader) -> SkinnedRig:
    pose = part.part("joint_pose", JointPose)
    count = pose.skeleton.n_joints
    vertices = part.floats("vertices", (None, 3))
    matrix = read_weights(part, "influence", len(vertices), count)
    counts = np.diff(matrix.indptr)
    there = np.arange(counts.max()) < counts[:, None]
    joints, weights = np.zeros(there.shape, np.int32), np.zeros(there.shape)
    joints[there], weights[there] = matrix.indices, matrix.data
    bind = part.floats("inverse_bind", (count, 4, 4), single=False)
    return SkinnedRig(pose, vertices, joints, weights, bind, part.text("method"))


def _store_solver(chain: InverseKinematics, store: Store) -> Fields:
    # Entries without a limit of their own have ±π; those the pose does not have stay at rest.
    low = np.full(3 * len(chain.joints), -np.pi)
    high = -low
    low[chain._rotations], high[chain._rotations] = chain.low, chain.high
    arrays = {"offset": chain.offset, "low": low.reshape(-1, 3), "high": high.reshape(-1, 3)}
    ends = {"top": int(chain.joints[0]), "tip": int(chain.joints[-1])}
    return Fields(dict(ends), {"joint_pose": store(chain.joint_pose)}, arrays)


def _restore_solver(part: PartReader) -> InverseKinematics:
    pose = part.part("joint_pose", JointPose)
    top, tip = (int(part.number(name)) for name in ("top", "tip"))
    joints = pose.skeleton.path(top, tip)
    low, high = (part.floats(name, (len(joints), 3), single=False) for name in ("low", "high"))
    limits: Mapping[str | int, Any] = {
        int(joint): (low[k], high[k]) for k, joint in enumerate(joints)
    }
    offset = part.floats("offset", (3,), single=False)
    return InverseKinematics(pose, top, tip, offset=offset, limits=limits)


def _store_handle(rig: HandleRig, store: Store) -> Fields:
    return Fields(
        {
            "extra": [parameter.name for parameter in rig.parameters[3:]],
            "softness": rig.softness,
            "name": rig.parameters[0].name.removesuffix(".x"),
        },
        {"base": store(rig.base), "chain": store(rig.chain)},
    )


def _restore_handle(part: PartReader) -> HandleRig:
    return HandleRig(
        part.part("base", Rig),  # type: ignore[type-abstract]
        part.part("chain", InverseKinematics),
        part.texts("extra"),
        softness=part.number("softness"),
        name=part.text("name"),
    )


SKELETONS = (
    Kind("skeleton", Skeleton, _store_skeleton, _restore_skeleton),
    Kind("joint pose", JointPose, _store_joint_pose, _restore_joint_pose),
    Kind("partial joint pose", PartialJointPose, _store_partial, _restore_partial),
    Kind("pose weights", PoseWeights, _store_pose_weights, _restore_pose_weights),
    Kind("skinned", SkinnedRig, _store_skinned, _restore_skinned),
    Kind("inverse kinematics", InverseKinematics, _store_solver, _restore_solver),
    Kind("handle", HandleRig, _store_handle, _restore_handle),
)
