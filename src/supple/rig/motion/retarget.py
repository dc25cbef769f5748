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

#: Limbs, whose direction at rest may differ (arms out or down): the bone from the first role to
#: the second is turned to the source's direction before the source's rotation is applied.
BONES = {"upperarm": "forearm", "forearm": "hand", "thigh": "shin", "shin": "foot"}
#: Feet stand flat at rest in either skeleton, however the legs are spread.
LEVEL = {"foot", "toe"}
#: Bodies whose rest frames differ by less than this face the same way.
SAME_FACING = np.deg2rad(40)


def retarget(
    motion: Motion,
    source: JointPose,
    target: JointPose,
    names: Mapping[str, str] | None = None,
) -> Motion:
    """Transfer a motion from one skeleton to another.

    Parameters
    ----------
    motion : Motion
        With poses of `source`.
    source, target : JointPose
        Both skeletons at rest in some standing pose.
    names : mapping of str to str, optional
        Target joints and their source joints, where names alone do not tell. What was matched
        is what `match_joints` returns for the same arguments.

    Returns
    -------
    Motion
        With poses of `target`. Joints without a match keep their rest rotation relative to
        their parent, and all keep their rest translations and scales. The root's way is
        scaled by the ratio of the heights of the hips above the feet.

    Notes
    -----
    A matched joint turns in the world as its source does: R = D A R₀, with D the source's
    rotation relative to its rest, R₀ the target's rest rotation, and A the rotation that brings
    the target's limb at rest to the direction of the source's (so arms at rest out and down
    come to the same). Bodies at rest that face different ways are brought to the target's.
    """
    if motion.poses.shape[1] != source.n_parameters:
        raise SuppleError(
            f"the motion has {motion.poses.shape[1]} numbers a pose, its skeleton"
            f" {source.n_parameters}; give the joint pose it was made with"
        )
    if motion.tracks is not None:
        motion = motion.sampled(motion.tracks.sample_times(motion.times))
    old, new = source.skeleton, target.skeleton
    matched = {
        new.joint(ours): old.joint(theirs) for ours, theirs in match_joints(old, new, names).items()
    }
    facing = _facing(old, new, matched)
    _, turned, _ = source.unpack(motion.poses)
    world_turns = _world_rotations(old, turned)
    rest_turns = _world_rotations(old, old.rotations)
    deltas = multiply(world_turns, inverse(rest_turns))
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
    """Return world quaternions (…, J, 4) of local ones, scales left aside."""
    world = np.array(rotations, dtype=np.float64)
    for joint, parent in enumerate(skeleton.parents):
        if parent >= 0:
            world[..., joint, :] = multiply(world[..., parent, :], world[..., joint, :])
    return world


def _local_rotations(
    skeleton: Skeleton, matched: Mapping[int, int], deltas: Floats, aligned: Floats
) -> Floats:
    """Return local quaternions of the target (t, J, 4) in the root's frame."""
    world = np.empty((len(deltas), skeleton.n_joints, 4))
    local = np.tile(skeleton.rotations, (len(deltas), 1, 1))
    for joint, parent in enumerate(skeleton.parents):
        above = world[:, parent] if parent >= 0 else np.array([0.0, 0, 0, 1])
        if joint in matched:
            world[:, joint] = multiply(deltas[:, matched[joint]], aligned[joint])
            local[:, joint] = multiply(inverse(above), world[:, joint])
        else:
            world[:, joint] = multiply(above, local[:, joint])
    return local


def _alignments(old: Skeleton, new: Skeleton, matched: Mapping[int, int], facing: Floats) -> Floats:
    """Return rotations A (J, 4) that bring the target's limbs at rest to the source's."""
    roles = joint_roles(new)
    ends = {
        joints[0]: roles[side, BONES[role]][0]
        for (side, role), joints in roles.items()
        if role in BONES and (side, BONES[role]) in roles
    }
    level = {joints[0] for (_, role), joints in roles.items() if role in LEVEL}
    ours, theirs = (skeleton.rest_world()[:, :3, 3] for skeleton in (new, old))
    theirs = rotate(facing, theirs)
    turns = np.tile([0.0, 0, 0, 1], (new.n_joints, 1))
    for joint, parent in enumerate(new.parents):
        if parent >= 0 and joint not in level:
            turns[joint] = turns[parent]
        end = ends.get(joint)
        if end is None or joint not in matched or end not in matched:
            continue
        mine = rotate(turns[joint], ours[end] - ours[joint])
        wanted = theirs[matched[end]] - theirs[matched[joint]]
        if np.linalg.norm(mine) > 0 and np.linalg.norm(wanted) > 0:
            turns[joint] = multiply(between(mine, wanted), turns[joint])
    return turns


def _facing(old: Skeleton, new: Skeleton, matched: Mapping[int, int]) -> Floats:
    """Return the rotation from the facing direction of the source at rest to the target's."""
    frames = []
    roles = joint_roles(new)
    pairs = [
        (roles["L", role][0], roles["R", role][0])
        for role in ("thigh", "upperarm")
        if ("L", role) in roles and ("R", role) in roles
    ]
    pairs = [pair for pair in pairs if pair[0] in matched and pair[1] in matched]
    low = [roles[side, "foot"][0] for side in ("L", "R") if (side, "foot") in roles]
    low = [joint for joint in low if joint in matched]
    if not pairs or not low:
        return np.array([0.0, 0, 0, 1])
    for skeleton, of in ((old, matched), (new, {joint: joint for joint in matched})):
        places = skeleton.rest_world()[:, :3, 3]
        left, right = (of[joint] for joint in pairs[0])
        side = places[left] - places[right]
        up = 0.5 * (places[left] + places[right]) - places[[of[joint] for joint in low]].mean(
            axis=0
        )
        up = up - side * (up @ side) / max(side @ side, 1e-300)
        frame = np.column_stack([side, up, np.cross(side, up)])
        lengths = np.linalg.norm(frame, axis=0)
        if not (lengths > 0).all():
            return np.array([0.0, 0, 0, 1])
        frames.append(frame / lengths)
    turn = frames[1] @ frames[0].T
    if np.arccos(np.clip((np.trace(turn) - 1) / 2, -1, 1)) < SAME_FACING:
        return np.array([0.0, 0, 0, 1])
    return from_matrix(_nearest_axis_turn(turn))


def _nearest_axis_turn(turn: Floats) -> Floats:
    """Return the nearest rotation by quarter turns: files differ by those, anatomy by the rest."""
    signs = np.array(np.meshgrid(*[[-1.0, 1]] * 3)).reshape(3, -1).T
    orders = ([0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0])
    turns = [np.diag(sign)[order] for sign in signs for order in orders]
    proper = [matrix for matrix in turns if np.linalg.det(matrix) > 0]
    return max(proper, key=lambda matrix: float(np.sum(matrix * turn)))


def _roots(
    motion: Motion,
    source: JointPose,
    target: JointPose,
    poses: Floats,
    matched: Mapping[int, int],
    facing: Floats,
) -> Floats:
    """Return root transforms that bring the target's hips to the source's, scaled."""
    new = target.skeleton
    hips = _hips(new, matched)
    ratio = _height_ratio(source.skeleton, new, matched, hips, facing)
    there = source.matrices(motion.poses)[:, matched[hips], :3, 3]
    there = np.einsum("tij,tj->ti", motion.roots[:, :3, :3], there) + motion.roots[:, :3, 3]
    frame = to_matrix(facing)
    turns = frame @ motion.roots[:, :3, :3] @ frame.T
    here = target.matrices(poses)[:, hips, :3, 3]
    roots = np.zeros((motion.n_frames, 4, 4))
    roots[:, :3, :3] = turns
    # Scaled about the world's origin, which is on the floor: feet on it stay on it.
    roots[:, :3, 3] = ratio * there @ frame.T - np.einsum("tij,tj->ti", turns, here)
    roots[:, 3, 3] = 1
    return roots


def _hips(skeleton: Skeleton, matched: Mapping[int, int]) -> int:
    hips = joint_roles(skeleton).get(("", "hips"), [])
    return hips[0] if hips and hips[0] in matched else min(matched)


def _height_ratio(
    old: Skeleton, new: Skeleton, matched: Mapping[int, int], hips: int, facing: Floats
) -> float:
    """Return the height of the target's hips above its lowest matched joint over the source's."""
    pairs = list(matched.items())
    ours = new.rest_world()[[joint for joint, _ in pairs], :3, 3]
    theirs = rotate(facing, old.rest_world()[[joint for _, joint in pairs], :3, 3])
    here = new.rest_world()[hips, 1, 3] - ours[:, 1].min()
    there = rotate(facing, old.rest_world()[matched[hips], :3, 3])[1] - theirs[:, 1].min()
    size, other = np.ptp(ours, axis=0).max(), np.ptp(theirs, axis=0).max()
    if here > 0.1 * size and there > 0.1 * other:
        return float(here / there)
    # Without legs below the hips, the whole size.
    return float(size / other) if other > 0 and size > 0 else 1.0
