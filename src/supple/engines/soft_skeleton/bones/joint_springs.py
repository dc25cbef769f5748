"""Springs of the joints: towards the pose, towards rest, and back into limits.

Limits are given by bone, or by the range of the character's motions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from supple.arrays import Floats, Ints
from supple.checks import checked_choice, owned_array, shown
from supple.compiled.jit import compiled, compiled_fused
from supple.engines.soft_skeleton.bones.bone_chain import write_joint_rotation
from supple.engines.soft_skeleton.bones.rig_bones import RigBones
from supple.errors import SuppleError
from supple.rig.motion.motion import Motion

#: Highest frequency in Hz of springs to the pose.
HIGHEST = 1000.0
#: Frequency in Hz of the springs that enforce joint limits.
LIMIT_FREQUENCY = 30.0
#: Angle in rad beyond which springs towards the pose have constant torque, so that a body that
#: walks into a wall is not pushed through it.
MAX_ANGLE = 0.5

#: Option value for limits from the motions.
MOTIONS = "motions"
#: Margin in rad beyond the range of the motions.
MARGIN = 0.5
#: Largest number of keys sampled from a motion.
MOST_KEYS = 200


class JointLimits(NamedTuple):
    """Bounds in rad of each joint's rotation vector relative to its parent since the bind pose."""

    lowest: Floats  # (K, 3), −∞ for none
    highest: Floats  # (K, 3), ∞ for none
    yields: bool  # whether the limits extend to poses beyond them


def joint_limits(
    limits: Mapping[str, Any] | str | None, bones: RigBones, motions: Mapping[str, Motion]
) -> JointLimits:
    """Return limits for the option `joint_limits`: by bone, ``"motions"``, or None for none."""
    wide = np.full((len(bones.parents), 3), np.inf)
    if limits is None or (isinstance(limits, str) and limits == MOTIONS):
        if limits is None or not motions:
            return JointLimits(-wide, wide, False)
        return _motion_range(bones, motions.values())
    if not isinstance(limits, Mapping):
        raise SuppleError(
            f'joint_limits is {shown(limits)}; use "{MOTIONS}", None, or the lowest and highest'
            " angles by bone name"
        )
    boxes = JointLimits(-wide, wide, False)
    for name, box in limits.items():
        bone = bones.names.index(checked_choice("bone for joint_limits", name, bones.names))
        low, high = owned_array(f"limits of {name}", box, (2, 3))
        if (low > high).any():
            raise SuppleError(f"limits of {name}: a lowest angle is above the highest")
        boxes.lowest[bone], boxes.highest[bone] = low, high
    return boxes


def _motion_range(bones: RigBones, motions: Iterable[Motion]) -> JointLimits:
    """Return the range of rotation vectors in motions and at rest, plus `MARGIN`."""
    before = rest = _vectors(bones, bones.rest_pose)
    low, high = rest.copy(), rest.copy()
    for motion in motions:
        for pose in motion.poses[:: max(1, len(motion.poses) // MOST_KEYS)]:
            before = _nearest(_vectors(bones, pose), before)
            np.minimum(low, before, out=low)
            np.maximum(high, before, out=high)
        before = rest
    return JointLimits(low - MARGIN, high + MARGIN, True)


def _vectors(bones: RigBones, pose: Floats) -> Floats:
    """Return rotation vectors (K, 3) in rad of the joints relative to their parents at a pose."""
    rotations = bones.rotations(np.asarray(pose, np.float64))[0]
    relative, above = rotations.copy(), bones.parents[1:]
    relative[1:] = np.swapaxes(rotations[above], 1, 2) @ rotations[1:]
    vectors: Floats = Rotation.from_matrix(relative).as_rotvec()
    return vectors


def _nearest(vectors: Floats, to: Floats) -> Floats:
    """Return each vector r, or r − 2π r/|r| (the same rotation) if that is nearer to `to`."""
    angles = np.linalg.norm(vectors, axis=1, keepdims=True)
    other = vectors * (1.0 - 2.0 * np.pi / np.maximum(angles, 1e-9))
    nearer = np.linalg.norm(other - to, axis=1) < np.linalg.norm(vectors - to, axis=1)
    return np.where(nearer[:, None] & (angles > 1e-6), other, vectors)


class JointSprings(NamedTuple):
    """Stiffness and damping of each joint, and the bounds of its rotation vector in rad."""

    springs: Floats  # (K,) towards the pose, N m/rad
    dampers: Floats  # (K,) against rotation relative to the pose's motion, N m s/rad
    drags: Floats  # (K,) against rotation relative to the parent, N m s/rad
    rest: Floats  # (K,) towards the bind pose, N m/rad
    lowest: Floats  # (K, 3) rotation vectors relative to the parent; −∞ for none
    highest: Floats  # (K, 3) likewise; ∞ for none
    stops: Floats  # (K,) stiffness of the limits, N m/rad
    yields: bool  # whether limits extend to poses beyond them


def joint_springs(inertias: Floats, limits: JointLimits) -> JointSprings:
    """Return springs of zero stiffness for joints with inertias (K,), and limits."""
    springs, dampers, drags, rest = np.zeros((4, len(inertias)))
    stops = inertias * (2 * math.pi * LIMIT_FREQUENCY) ** 2
    return JointSprings(springs, dampers, drags, rest, *limits[:2], stops, limits.yields)


def write_tracking(joints: JointSprings, inertias: Floats, frequency: float, least: Floats) -> None:
    """Write critically damped springs towards the pose, by a frequency in Hz.

    They have at least the stiffness `least` (K,) in N m/rad, up to that of the `HIGHEST` frequency.
    """
    omega = 2 * math.pi * frequency
    joints.springs[:] = inertias * omega**2
    joints.dampers[:] = 2 * inertias * omega
    least = np.minimum(least, inertias * (2 * math.pi * HIGHEST) ** 2)
    stronger = least > joints.springs
    joints.springs[stronger] = least[stronger]
    joints.dampers[stronger] = 2 * np.sqrt(inertias * least)[stronger]


@compiled
def add_joint_terms(
    joints: JointSprings,
    parents: Ints,
    rotations: Floats,
    target: Floats,
    target_before: Floats,
    start: Floats,
    h: float,
    first: int,
    gradient: Floats,
    hessian: Floats,
    torques: Floats,
    stiffness: Floats,
) -> int:
    """Add springs, dampers and limits of joints; return the number of joints beyond limits.

    The terms are ½k|log(R R̂ᵀ)|² towards the pose R̂, the same towards rest, c/(2h) |log(R (R̂ R̂₀ᵀ
    R₀)ᵀ)|² against rotation relative to the pose since the step began at R₀, R̂₀, the same against
    all rotation, and ½k|r − [r]|² for a rotation vector r beyond its limits. Springs towards the
    pose have constant torque beyond `MAX_ANGLE`. `first` is 0 if springs hold the root as well,
    else 1. Derivatives are added to the gradient and the upper triangle of the Hessian from row 3
    on; `torques` (K, 3) and `stiffness` (K, 3, 3) are written for each joint.
    """
    rotation, goal, small = np.empty((3, 3)), np.empty((3, 3)), np.empty((3, 3))
    back, goal_moved, deviation = np.empty((3, 3)), np.empty((3, 3)), np.empty(3)
    acting = 0
    for j in range(first, len(parents)):
        p = parents[j]
        torque, stiff = torques[j], stiffness[j]
        torque[:], stiff[:] = 0.0, 0.0
        write_joint_rotation(parents, rotations, j, rotation)
        if joints.springs[j] > 0:
            write_joint_rotation(parents, target, j, goal)
            _write_away(rotation, goal, deviation)
            far = math.sqrt(deviation[0] ** 2 + deviation[1] ** 2 + deviation[2] ** 2)
            spring = joints.springs[j] * min(1.0, MAX_ANGLE / max(far, 1e-9))
            _pull(spring, deviation, torque, stiff)
            write_joint_rotation(parents, target_before, j, small)
            write_joint_rotation(parents, start, j, back)
            _write_moved_goal(goal, small, back, goal_moved)
            _write_away(rotation, goal_moved, deviation)
            _pull(joints.dampers[j] / h, deviation, torque, stiff)
        if joints.drags[j] > 0:
            write_joint_rotation(parents, start, j, goal)
            _write_away(rotation, goal, deviation)
            _pull(joints.drags[j] / h, deviation, torque, stiff)
        if joints.rest[j] > 0:
            _write_identity(goal)
            _write_away(rotation, goal, deviation)
            _pull(joints.rest[j], deviation, torque, stiff)
        if p >= 0:
            if joints.yields:
                write_joint_rotation(parents, target, j, goal)
            acting += _stop(joints, j, rotation, goal, deviation, small, torque, stiff)
            _to_world(rotations[p], torque, stiff, deviation, small)
        row = 3 + 3 * j
        for i in range(3):
            gradient[row + i] += torque[i]
            for k in range(i, 3):
                hessian[row + i, row + k] += stiff[i, k]
    return acting


@compiled_fused
def _write_identity(out: Floats) -> None:
    for i in range(3):
        for k in range(3):
            out[i, k] = 1.0 if i == k else 0.0


@compiled_fused
def _write_moved_goal(goal: Floats, before: Floats, start: Floats, out: Floats) -> None:
    """Write R̂ R̂₀ᵀ R₀: rotation R₀ at a step's start, rotated by the pose's change R̂ R̂₀ᵀ."""
    for i in range(3):
        for k in range(3):
            total = 0.0
            for a in range(3):
                for b in range(3):
                    total += goal[i, a] * before[b, a] * start[b, k]
            out[i, k] = total


@compiled_fused
def _pull(stiffness: float, away: Floats, torque: Floats, stiff: Floats) -> None:
    for i in range(3):
        torque[i] += stiffness * away[i]
        stiff[i, i] += stiffness


@compiled_fused
def _write_away(rotation: Floats, goal: Floats, out: Floats) -> None:
    """Write log(R R̂ᵀ) of `rotation` R and `goal` R̂ as a vector (3,)."""
    x = y = z = trace = 0.0
    for k in range(3):
        x += rotation[2, k] * goal[1, k] - rotation[1, k] * goal[2, k]
        y += rotation[0, k] * goal[2, k] - rotation[2, k] * goal[0, k]
        z += rotation[1, k] * goal[0, k] - rotation[0, k] * goal[1, k]
        trace += (
            rotation[0, k] * goal[0, k] + rotation[1, k] * goal[1, k] + rotation[2, k] * goal[2, k]
        )
    sine = 0.5 * math.sqrt(x * x + y * y + z * z)
    angle = math.atan2(sine, 0.5 * (trace - 1.0))
    if sine <= 1e-9 and trace < 1.0:
        _write_half_turn(rotation, goal, out)
        return
    scale = 0.5 * (angle / sine if sine > 1e-9 else 1.0)
    out[0], out[1], out[2] = scale * x, scale * y, scale * z


@compiled_fused
def _write_half_turn(rotation: Floats, goal: Floats, out: Floats) -> None:
    """Write the vector π a, of either sign, of a half turn M = R R̂ᵀ = 2 a aᵀ − 1."""
    best, largest = 0, -2.0
    for i in range(3):
        entry = 0.0
        for k in range(3):
            entry += rotation[i, k] * goal[i, k]
        if entry > largest:
            best, largest = i, entry
    first = math.sqrt(0.5 * (largest + 1.0))
    for i in range(3):
        entry = 1.0 if i == best else 0.0
        for k in range(3):
            entry += rotation[best, k] * goal[i, k]
        out[i] = math.pi * 0.5 * entry / first


@compiled_fused
def _stop(
    joints: JointSprings,
    j: int,
    rotation: Floats,
    goal: Floats,
    r: Floats,
    left: Floats,
    torque: Floats,
    stiff: Floats,
) -> int:
    """Add the terms of joint j's limits, in its parent's axes; return 1 if it is beyond, else 0.

    dr = J⁻¹ ω with J⁻¹ = 1 − [r]×/2 + c [r]×², c = 1/|r|² − (1 + cos|r|)/(2|r| sin|r|). Of the
    equivalent vectors r and r − 2π r/|r|, the one nearer to the middle of the limits is used.
    If `joints.yields`, limits extend to the vector of `goal`, in its form nearer to r. `r` (3,) and
    `left` (3, 3) are work arrays.
    """
    low, high = joints.lowest[j], joints.highest[j]
    if not (low[0] > -math.inf or low[1] > -math.inf or low[2] > -math.inf):
        return 0
    g0 = g1 = g2 = 0.0
    x, y, z = 0.5 * (low[0] + high[0]), 0.5 * (low[1] + high[1]), 0.5 * (low[2] + high[2])
    angle = _write_vector(rotation, x, y, z, left, r)
    x, y, z = r[0], r[1], r[2]
    if joints.yields:
        _write_vector(goal, x, y, z, left, r)
        g0, g1, g2 = r[0], r[1], r[2]
        r[0], r[1], r[2] = x, y, z
    beyond0 = _beyond(r[0], low[0], high[0], g0, joints.yields)
    beyond1 = _beyond(r[1], low[1], high[1], g1, joints.yields)
    beyond2 = _beyond(r[2], low[2], high[2], g2, joints.yields)
    if beyond0 == 0.0 and beyond1 == 0.0 and beyond2 == 0.0:
        return 0
    c = 1.0 / 12.0
    if angle > 1e-3:
        c = 1.0 / angle**2 - (1.0 + math.cos(angle)) / (2.0 * angle * math.sin(angle))
    left[0, 0], left[1, 1] = 1.0 - c * (y * y + z * z), 1.0 - c * (x * x + z * z)
    left[2, 2] = 1.0 - c * (x * x + y * y)
    left[0, 1], left[1, 0] = 0.5 * z + c * x * y, -0.5 * z + c * x * y
    left[0, 2], left[2, 0] = -0.5 * y + c * x * z, 0.5 * y + c * x * z
    left[1, 2], left[2, 1] = 0.5 * x + c * y * z, -0.5 * x + c * y * z
    stop = joints.stops[j]
    for a in range(3):
        beyond = beyond0 if a == 0 else beyond1 if a == 1 else beyond2
        if beyond == 0.0:
            continue
        for i in range(3):
            torque[i] += stop * left[a, i] * beyond
            for k in range(3):
                stiff[i, k] += stop * left[a, i] * left[a, k]
    return 1


@compiled_fused
def _write_vector(
    rotation: Floats, x: float, y: float, z: float, small: Floats, r: Floats
) -> float:
    """Write to `r` the form of the rotation vector nearest to (x, y, z); return its length."""
    _write_identity(small)
    _write_away(rotation, small, r)
    angle = math.sqrt(r[0] * r[0] + r[1] * r[1] + r[2] * r[2])
    if angle <= 1e-6:
        return angle
    other = 1.0 - 2.0 * math.pi / angle
    near = (r[0] - x) ** 2 + (r[1] - y) ** 2 + (r[2] - z) ** 2
    far = (other * r[0] - x) ** 2 + (other * r[1] - y) ** 2 + (other * r[2] - z) ** 2
    if far >= near:
        return angle
    for i in range(3):
        r[i] *= other
    return 2.0 * math.pi - angle


@compiled_fused
def _beyond(r: float, low: float, high: float, goal: float, yields: bool) -> float:
    if yields:
        low, high = min(low, goal), max(high, goal)
    return r - min(max(r, low), high)


@compiled_fused
def _to_world(turn: Floats, torque: Floats, stiff: Floats, v: Floats, m: Floats) -> None:
    """Replace `torque` v by G v and `stiff` M by G M Gᵀ, from the parent's axes to the world."""
    for i in range(3):
        v[i] = turn[i, 0] * torque[0] + turn[i, 1] * torque[1] + turn[i, 2] * torque[2]
        for k in range(3):
            m[i, k] = turn[i, 0] * stiff[0, k] + turn[i, 1] * stiff[1, k] + turn[i, 2] * stiff[2, k]
    for i in range(3):
        torque[i] = v[i]
        for k in range(3):
            stiff[i, k] = m[i, 0] * turn[k, 0] + m[i, 1] * turn[k, 1] + m[i, 2] * turn[k, 2]


@compiled
def write_torques(
    first: int, torques: Floats, stiffness: Floats, change: Floats, out: Floats
) -> None:
    """Write torques (K, 3) in N m of springs and limits after Newton's `change` was subtracted."""
    out[:] = 0.0
    for j in range(first, len(out)):
        for i in range(3):
            value = torques[j, i]
            for k in range(3):
                value -= stiffness[j, i, k] * change[3 + 3 * j + k]
            out[j, i] = -value
