"""Retargeting: transfer of a motion from one skeleton to another."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from supple.arrays import Floats
from supple.errors import SuppleError
from supple.maths.rotations import between, from_matrix, inverse, multiply, rotate, to_matrix
from supple.rig.motion.joint_names import joint_roles, match_joints
from supple.rig.motion.motion import Motion
from supple.rig.motion.motion_tracks import sampled_tracks
from supple.rig.skeleton.joint_pose import JointPose
from supple.rig.skeleton.joints import Skeleton

#: Limb bones, as first and second joint, whose rest directions may differ (arms out or down). They
#: are rotated to the source's direction before the source's rotation is applied.
BONES = {"upperarm": "forearm", "forearm": "hand", "thigh": "shin", "shin": "foot"}
#: Feet are flat at rest in both skeletons, so they do not follow the alignment of the legs.
LEVEL = {"foot", "toe"}
#: Largest angle between rest frames of bodies that face the same direction.
SAME_FACING = np.deg2rad(40)
IDENTITY = np.array([0.0, 0, 0, 1])


def retarget(
    motion: Motion, source: JointPose, target: JointPose, names: Mapping[str, str] | None = None
) -> Motion:
    """Transfer a motion from one skeleton to another.

    Parameters
    ----------
    motion : Motion
        Motion with poses of `source`.
    source, target : JointPose
        Pose vectors of both skeletons; the rest pose of each is standing.
    names : mapping of str to str, optional
        Source joint of target joints that names alone do not match. `match_joints` returns all
        matches for the same arguments.

    Returns
    -------
    Motion
        Motion with poses of `target`. Joints without a match keep their rest rotation relative
        to their parent; all joints keep their rest translations and scales. The root's path is
        scaled by the ratio of the heights of the hips above the feet.

    Notes
    -----
    The world rotation of a matched joint is R = D A R₀, where D is the source's rotation relative
    to its rest, R₀ the target's rest rotation, and A the rotation from the rest direction of the
    target's limb to the direction of the source's. If the bodies face different directions at rest,
    the motion is rotated to the target's.
    """
    if motion.poses.shape[1] != source.n_parameters:
        counts = f"{motion.poses.shape[1]} numbers, those of its skeleton {source.n_parameters}"
        advice = "give the joint pose that it was made with"
        raise SuppleError(f"poses of the motion have {counts}; {advice}")
    if motion.tracks is not None:
        motion = motion.sampled(motion.tracks.sample_times(motion.times))
    old, new = source.skeleton, target.skeleton
    matched = {
        new.joint(target_name): old.joint(source_name)
        for target_name, source_name in match_joints(old, new, names).items()
    }
    facing = _facing(old, new, matched)
    _, rotations, _ = source.unpack(motion.poses)
    world_rotations = _world_rotations(old, rotations)
    rest_rotations = _world_rotations(old, old.rotations)
    deltas = multiply(world_rotations, inverse(rest_rotations))
    deltas = multiply(multiply(facing, deltas), inverse(facing))
    aligned = multiply(_alignments(old, new, matched, facing), _world_rotations(new, new.rotations))
    locals_ = _local_rotations(new, matched, deltas, aligned)
    poses = target.pack(rotations=locals_)
    roots = _roots(motion, source, target, poses, matched, facing)
    tracks = None
    if motion.tracks is not None:
        tracks = sampled_tracks(target, motion.times, poses, roots, _hips(new, matched))
    return Motion(motion.times, poses, roots, motion.name, motion.cuts, tracks)


def _world_rotations(skeleton: Skeleton, rotations: Floats) -> Floats:
    """Return world quaternions (…, J, 4) of local quaternions; scales are ignored."""
    world = np.array(rotations, dtype=np.float64)
    for joint, parent in enumerate(skeleton.parents):
        if parent >= 0:
            world[..., joint, :] = multiply(world[..., parent, :], world[..., joint, :])
    return world


def _local_rotations(
    skeleton: Skeleton, matched: Mapping[int, int], deltas: Floats, aligned: Floats
) -> Floats:
    """Return local quaternions (t, J, 4) of the target, in the root's frame."""
    world = np.empty((len(deltas), skeleton.n_joints, 4))
    local = np.tile(skeleton.rotations, (len(deltas), 1, 1))
    for joint, parent in enumerate(skeleton.parents):
        parent_rotations = world[:, parent] if parent >= 0 else IDENTITY
        if joint in matched:
            world[:, joint] = multiply(deltas[:, matched[joint]], aligned[joint])
            local[:, joint] = multiply(inverse(parent_rotations), world[:, joint])
        else:
            world[:, joint] = multiply(parent_rotations, local[:, joint])
    return local


def _alignments(old: Skeleton, new: Skeleton, matched: Mapping[int, int], facing: Floats) -> Floats:
    """Return the rotations A (J, 4) of the target's limbs at rest to the source's."""
    roles = joint_roles(new)
    ends = {
        joints[0]: roles[side, BONES[role]][0]
        for (side, role), joints in roles.items()
        if role in BONES and (side, BONES[role]) in roles
    }
    level = {joints[0] for (_, role), joints in roles.items() if role in LEVEL}
    target_positions = new.rest_world()[:, :3, 3]
    source_positions = rotate(facing, old.rest_world()[:, :3, 3])
    rotations = np.tile(IDENTITY, (new.n_joints, 1))
    for joint, parent in enumerate(new.parents):
        if parent >= 0 and joint not in level:
            rotations[joint] = rotations[parent]
        end = ends.get(joint)
        if end is None or joint not in matched or end not in matched:
            continue
        direction = rotate(rotations[joint], target_positions[end] - target_positions[joint])
        source_direction = source_positions[matched[end]] - source_positions[matched[joint]]
        if np.linalg.norm(direction) > 0 and np.linalg.norm(source_direction) > 0:
            rotations[joint] = multiply(between(direction, source_direction), rotations[joint])
    return rotations


def _facing(old: Skeleton, new: Skeleton, matched: Mapping[int, int]) -> Floats:
    """Return the quaternion from the facing direction of the source at rest to the target's."""
    frames = []
    roles = joint_roles(new)
    pairs = [
        (roles["L", role][0], roles["R", role][0])
        for role in ("thigh", "upperarm")
        if ("L", role) in roles and ("R", role) in roles
    ]
    pairs = [pair for pair in pairs if pair[0] in matched and pair[1] in matched]
    feet = [roles[side, "foot"][0] for side in ("L", "R") if (side, "foot") in roles]
    feet = [joint for joint in feet if joint in matched]
    if not pairs or not feet:
        return IDENTITY
    for skeleton, joint_of in ((old, matched), (new, {joint: joint for joint in matched})):
        positions = skeleton.rest_world()[:, :3, 3]
        left, right = (joint_of[joint] for joint in pairs[0])
        side = positions[left] - positions[right]
        ground = positions[[joint_of[joint] for joint in feet]].mean(axis=0)
        upward = 0.5 * (positions[left] + positions[right]) - ground
        upward = upward - side * (upward @ side) / max(side @ side, 1e-300)
        frame = np.column_stack([side, upward, np.cross(side, upward)])
        lengths = np.linalg.norm(frame, axis=0)
        if not (lengths > 0).all():
            return IDENTITY
        frames.append(frame / lengths)
    rotation = frames[1] @ frames[0].T
    if np.arccos(np.clip((np.trace(rotation) - 1) / 2, -1, 1)) < SAME_FACING:
        return IDENTITY
    return from_matrix(_nearest_axis_rotation(rotation))


def _nearest_axis_rotation(rotation: Floats) -> Floats:
    """Return the nearest rotation by multiples of 90°, by which files differ."""
    signs = np.array(np.meshgrid(*[[-1.0, 1]] * 3)).reshape(3, -1).T
    orders = ([0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0])
    candidates = [np.diag(sign)[order] for sign in signs for order in orders]
    proper = [matrix for matrix in candidates if np.linalg.det(matrix) > 0]
    return max(proper, key=lambda matrix: float(np.sum(matrix * rotation)))


def _roots(
    motion: Motion,
    source: JointPose,
    target: JointPose,
    poses: Floats,
    matched: Mapping[int, int],
    facing: Floats,
) -> Floats:
    """Return root transforms that move the target's hips along the source's scaled path."""
    new = target.skeleton
    hips = _hips(new, matched)
    ratio = _height_ratio(source.skeleton, new, matched, hips, facing)
    source_hips = source.matrices(motion.poses)[:, matched[hips], :3, 3]
    source_hips = np.einsum("tij,tj->ti", motion.roots[:, :3, :3], source_hips)
    source_hips += motion.roots[:, :3, 3]
    frame = to_matrix(facing)
    rotations = frame @ motion.roots[:, :3, :3] @ frame.T
    target_hips = target.matrices(poses)[:, hips, :3, 3]
    roots = np.zeros((motion.n_frames, 4, 4))
    roots[:, :3, :3] = rotations
    # Scaled about the world's origin, which is on the floor, so that feet stay on the floor.
    offsets = np.einsum("tij,tj->ti", rotations, target_hips)
    roots[:, :3, 3] = ratio * source_hips @ frame.T - offsets
    roots[:, 3, 3] = 1
    return roots


def _hips(skeleton: Skeleton, matched: Mapping[int, int]) -> int:
    hips = joint_roles(skeleton).get(("", "hips"), [])
    return hips[0] if hips and hips[0] in matched else min(matched)


def _height_ratio(
    old: Skeleton, new: Skeleton, matched: Mapping[int, int], hips: int, facing: Floats
) -> float:
    """Return the ratio, target to source, of the hips' height above the lowest matched joint."""
    target_positions = new.rest_world()[list(matched), :3, 3]
    source_positions = rotate(facing, old.rest_world()[list(matched.values()), :3, 3])
    source_hips = rotate(facing, old.rest_world()[matched[hips], :3, 3])
    target_height = new.rest_world()[hips, 1, 3] - target_positions[:, 1].min()
    source_height = source_hips[1] - source_positions[:, 1].min()
    size, source_size = (np.ptp(p, axis=0).max() for p in (target_positions, source_positions))
    if target_height > 0.1 * size and source_height > 0.1 * source_size:
        return float(target_height / source_height)
    # Without legs below the hips: the ratio of sizes.
    return float(size / source_size) if source_size > 0 and size > 0 else 1.0
