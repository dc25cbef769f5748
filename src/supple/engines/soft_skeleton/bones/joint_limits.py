"""Limits of joints: given by bone, or as far as the motions of a character turn them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from supple.arrays import Floats
from supple.checks import owned_array, shown
from supple.engines.soft_skeleton.bones.rig_bones import RigBones
from supple.errors import SuppleError
from supple.rig.motion.motion import Motion

__all__ = ["JointLimits", "joint_limits"]

#: Word for limits by the motions.
MOTIONS = "motions"
#: Joints turn so much further than motions do, in rad.
MARGIN = 0.3
#: Keys of a motion that are looked at.
MOST_KEYS = 200


class JointLimits(NamedTuple):
    """Box of each joint's rotation vector on its parent, since the skin was bound."""

    lowest: Floats
    highest: Floats
    """(K, 3), infinite for none."""
    yields: bool
    """Whether a pose beyond them is followed."""


def joint_limits(
    given: Mapping[str, Any] | str | None, bones: RigBones, motions: Mapping[str, Motion]
) -> JointLimits:
    """Return limits that are given by name of bone, or ``"motions"`` for theirs; None for none."""
    wide = np.full((len(bones.parents), 3), np.inf)
    if given is None or given == MOTIONS:
        if given is None or not motions:
            return JointLimits(-wide, wide, False)
        return _reached(bones, motions.values())
    if not isinstance(given, Mapping):
        raise SuppleError(
            f'joint_limits is {shown(given)}; use "{MOTIONS}", None, or the lowest and highest by'
            " name of bone"
        )
    found = JointLimits(-wide, wide, False)
    for name, box in given.items():
        bone = _bone_named(name, bones.names)
        low, high = owned_array(f"limits of {name}", box, (2, 3))
        if (low > high).any():
            raise SuppleError(f"limits of {name}: the lowest are above the highest")
        found.lowest[bone], found.highest[bone] = low, high
    return found


def _bone_named(name: str, names: Sequence[str]) -> int:
    if name not in names:
        near = difflib.get_close_matches(str(name), names, 1)
        hint = f'did you mean "{near[0]}"?' if near else f"there are {', '.join(names)}"
        raise SuppleError(f'joint_limits: no bone "{name}"; {hint}')
    return list(names).index(name)


def _reached(bones: RigBones, motions: Iterable[Motion]) -> JointLimits:
    """Return how far joints turn in motions and at rest, and a margin."""
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
    """(K, 3) rotation vectors of joints on their parents."""
    turns = bones.turns(np.asarray(pose, np.float64))[0]
    own, above = turns.copy(), bones.parents[1:]
    own[1:] = np.swapaxes(turns[above], 1, 2) @ turns[1:]
    found: Floats = Rotation.from_matrix(own).as_rotvec()
    return found


def _nearest(vectors: Floats, to: Floats) -> Floats:
    """Take of r and r − 2π r/|r|, which are one rotation, the nearer one."""
    angles = np.linalg.norm(vectors, axis=1, keepdims=True)
    other = vectors * (1.0 - 2.0 * np.pi / np.maximum(angles, 1e-9))
    nearer = np.linalg.norm(other - to, axis=1) < np.linalg.norm(vectors - to, axis=1)
    return np.where(nearer[:, None] & (angles > 1e-6), other, vectors)
