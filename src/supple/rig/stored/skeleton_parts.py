"""Stored fields of skeletons, poses, skinned rigs, and rigs that inverse kinematics drives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from supple.arrays import Floats, Ints
from supple.rig.poses.pose_weights import PoseWeights
from supple.rig.protocol import Rig
from supple.rig.skeleton.handle_rig import HandleRig
from supple.rig.skeleton.inverse_kinematics import InverseKinematics
from supple.rig.skeleton.joint_pose import JointPose, PartialJointPose
from supple.rig.skeleton.joints import Skeleton
from supple.rig.skeleton.skinning import SkinnedRig
from supple.rig.stored.field_reader import DOUBLE, INDEX, SINGLE
from supple.rig.stored.schema import (
    PARAMETER_COST,
    Array,
    Cost,
    Kind,
    PartOf,
    Value,
    Weights,
    keep_bits,
)


def _joints(pose: JointPose) -> dict[str, int]:
    return {"joints": pose.skeleton.n_joints}


def _skeleton(
    names: tuple[str, ...], parents: Ints, translations: Floats, rotations: Floats, scales: Floats
) -> Skeleton:
    skeleton = Skeleton(names, parents, translations, rotations, scales)
    keep_bits("a rotation", skeleton.rotations, rotations)
    return skeleton


def _parameter_names(pose: JointPose) -> list[str]:
    return [parameter.name for parameter in pose.parameters]


def _pose_weights(poses: Floats, scales: Floats, kind: str, names: tuple[str, ...]) -> PoseWeights:
    return PoseWeights(poses, scales, kind=kind, names=names)


def _skinned(
    method: str,
    joint_pose: JointPose,
    vertices: Floats,
    influence: sp.csr_array,
    inverse_bind: Floats,
) -> SkinnedRig:
    counts = np.diff(influence.indptr)
    used = np.arange(counts.max()) < counts[:, None]
    joints, weights = np.zeros(used.shape, np.int32), np.zeros(used.shape)
    joints[used], weights[used] = influence.indices, influence.data
    return SkinnedRig(joint_pose, vertices, joints, weights, inverse_bind, method)


def _limits(chain: InverseKinematics, limits: Floats, unlimited: float) -> Floats:
    """Return limits (joints, 3); rotations without a limit have ±π, others stay at rest."""
    entries = np.full(3 * len(chain.joints), unlimited)
    entries[chain._rotations] = limits
    return entries.reshape(-1, 3)


def _solver(
    joint_pose: JointPose, top: float, tip: float, low: Floats, high: Floats, offset: Floats
) -> InverseKinematics:
    joints = joint_pose.skeleton.path(int(top), int(tip))
    limits: Mapping[str | int, Any] = {
        int(joint): (low[k], high[k]) for k, joint in zip(range(len(low)), joints, strict=True)
    }
    return InverseKinematics(joint_pose, int(top), int(tip), offset=offset, limits=limits)


def _handle(
    base: Rig, chain: InverseKinematics, extra: tuple[str, ...], softness: float, name: str
) -> HandleRig:
    return HandleRig(base, chain, extra, softness=softness, name=name)


_SKELETON = PartOf("skeleton", Skeleton)
_JOINT_POSE = PartOf("joint_pose", JointPose, _joints)

SKELETONS = (
    Kind(
        "skeleton",
        Skeleton,
        (
            Value("names", "texts", size="joints"),
            Cost("its parameters", lambda sizes: 9 * PARAMETER_COST * sizes["joints"]),
            Array("rotations", DOUBLE, ("joints", 4)),
            Array("parents", INDEX, ("joints",), shift=1),
            Array("translations", DOUBLE, ("joints", 3)),
            Array("scales", DOUBLE, ("joints", 3)),
        ),
        _skeleton,
    ),
    Kind(
        "joint pose",
        JointPose,
        (_SKELETON, Array("translating", INDEX, (None,)), Array("scaling", INDEX, (None,))),
        JointPose,
    ),
    Kind(
        "partial joint pose",
        PartialJointPose,
        (
            _SKELETON,
            Value("free", "texts", _parameter_names),
            Array("translating", INDEX, (None,)),
        ),
        PartialJointPose,
    ),
    Kind(
        "pose weights",
        PoseWeights,
        (
            Array("poses", DOUBLE, ("poses", "parameters")),
            Cost(
                "distances between example poses",
                lambda sizes: sizes["poses"] ** 2 * sizes["parameters"],
            ),
            Array("scales", DOUBLE, ("parameters",)),
            Value("kind", "text"),
            Value("names", "texts", lambda weights: [str(name) for name in weights.names]),
        ),
        _pose_weights,
    ),
    Kind(
        "skinned",
        SkinnedRig,
        (
            _JOINT_POSE,
            Array("vertices", SINGLE, ("n", 3)),
            Weights("influence", "n", "joints", lambda rig: rig.weight_matrix()),
            Array("inverse_bind", DOUBLE, ("joints", 4, 4)),
            Value("method", "text"),
        ),
        _skinned,
    ),
    Kind(
        "inverse kinematics",
        InverseKinematics,
        (
            _JOINT_POSE,
            Value("top", "number", lambda chain: int(chain.joints[0])),
            Value("tip", "number", lambda chain: int(chain.joints[-1])),
            Array("low", DOUBLE, ("chain", 3), lambda chain: _limits(chain, chain.low, -np.pi)),
            Array("high", DOUBLE, ("chain", 3), lambda chain: _limits(chain, chain.high, np.pi)),
            Array("offset", DOUBLE, (3,)),
        ),
        _solver,
    ),
    Kind(
        "handle",
        HandleRig,
        (
            PartOf("base", Rig),
            PartOf("chain", InverseKinematics),
            Value("extra", "texts", lambda rig: [each.name for each in rig.parameters[3:]]),
            Value("softness", "number"),
            Value("name", "text", lambda rig: rig.parameters[0].name.removesuffix(".x")),
        ),
        _handle,
    ),
)
