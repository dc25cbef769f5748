"""Interactive posing of a rig: damped followers of targets, and inverse-kinematics handles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.errors import SuppleError
from supple.rig.protocol import Rig
from supple.rig.skeleton.inverse_kinematics import InverseKinematics
from supple.rig.skeleton.skinning import SkinnedRig

#: Rate of a follower in 1/s: it covers 9/10 of the distance in 0.2 s.
RATE = 18.0
#: Most joints of a handle's limb.
MOST_JOINTS = 8
#: Name of the handle at the far end of the skin of the last joint of a limb, such as a hand.
END = "{} end"
#: Least distance of that end from the joint, relative to the rest of the limb, and part of the
#: joint's skin that is its end.
_FAR_END, _END_PART = 0.4, 0.1
#: Softness of a limb near full extension, relative to its reach.
SOFTNESS = 0.05


class DampedFollower:
    """Value (s,) that follows a target like a critically damped spring, integrated exactly.

    It smooths the jumps of sliders, which would otherwise be impacts on the flesh. `target` may be
    set at any time.
    """

    def __init__(self, value: Floats, velocity: Floats | None = None) -> None:
        self.value = np.array(value, np.float64)
        self.target = self.value.copy()
        self._velocity = np.zeros_like(self.value) if velocity is None else velocity.copy()

    def step(self, dt: float) -> Floats:
        """Advance by `dt` seconds and return the value."""
        offset = self.value - self.target
        push = self._velocity + RATE * offset
        decay = math.exp(-RATE * dt)
        self.value = self.target + (offset + push * dt) * decay
        self._velocity = (self._velocity - push * RATE * dt) * decay
        return self.value


class IKHandles:
    """Joints of a rig that a handle can move, each with the limb above it.

    A limb extends from its joint up to the next branch of the skeleton: a wrist moves the arm but
    not the chest. The last joint of a limb whose skin reaches far, such as a forearm with its hand,
    has a second handle at the end of the skin, `END`. Only skinned rigs have limbs. `joints` has
    names, ends of the skeleton first.
    """

    def __init__(self, rig: Rig) -> None:
        self._skin = _skinned(rig)
        self._chains: dict[str, InverseKinematics] = {}
        self._places: Ints = np.zeros(0, np.int64)
        if self._skin is None:
            self.joints: tuple[str, ...] = ()
            return
        places = {parameter.name: k for k, parameter in enumerate(rig.parameters)}
        entries = [parameter.name for parameter in self._skin.joint_pose.parameters]
        if not all(name in places for name in entries):  # a control rig computes its pose
            self.joints = ()
            return
        self._places = np.array([places[name] for name in entries], np.int64)
        parents = self._skin.skeleton.parents
        children = np.bincount(parents[parents >= 0], minlength=len(parents))
        ends_first = np.argsort(children > 0, kind="stable")
        ends = [joint for joint in ends_first.tolist() if not children[joint]]
        ends = [joint for joint in ends if self._add_end(joint, children)]
        moved = [joint for joint in ends_first.tolist() if self._limb(joint, children) is not None]
        names = self._skin.skeleton.names
        self.joints = (*(END.format(names[joint]) for joint in ends), *(names[k] for k in moved))

    def position(self, joint: str, pose: ArrayLike) -> Floats:
        """Return the position of a joint in a pose, (3,) in the rig's space."""
        return self._chain(joint).end(np.asarray(pose, np.float64)[self._places])

    def solve(self, joint: str, pose: Floats, target: ArrayLike) -> Floats:
        """Return the pose (s,) that brings a joint as near to a target as its limb allows.

        The target (3,) is in the rig's space. Parameters of other joints keep their values in
        `pose`.
        """
        chain = self._chain(joint)
        solved = pose.copy()
        solution = chain.solve(target, pose=pose[self._places], softness=SOFTNESS)
        solved[self._places] = solution.pose
        return solved

    def _chain(self, joint: str) -> InverseKinematics:
        if joint not in self._chains:
            raise SuppleError(f'no limb ends at "{joint}"')
        return self._chains[joint]

    def _add_end(self, joint: int, children: Ints) -> bool:
        """Add the limb that ends at the end of a joint's skin; return whether it reaches far."""
        assert self._skin is not None
        follows = self._skin.weight_matrix()[:, [joint]].toarray()[:, 0] > 0.5
        top = self._top(joint, children)
        if not follows.any():
            return False
        skeleton = self._skin.skeleton
        world = skeleton.rest_world()
        points = (self._skin.vertices[follows] - world[joint, :3, 3]) @ np.linalg.inv(
            world[joint, :3, :3]
        ).T
        distances = np.linalg.norm(points, axis=1)
        offset = points[distances >= np.quantile(distances, 1 - _END_PART)].mean(axis=0)
        try:
            chain = InverseKinematics(self._skin.joint_pose, top, joint, offset=offset)
        except SuppleError:
            return False
        alone = float(np.linalg.norm(world[joint, :3, :3] @ offset))
        if not chain.can_move or alone < _FAR_END * (chain.length - alone):
            return False
        self._chains[END.format(skeleton.names[joint])] = chain
        return True

    def _top(self, tip: int, children: Ints) -> int:
        """Return the first joint of the limb that ends at a joint."""
        assert self._skin is not None
        parents = self._skin.skeleton.parents
        top, count = tip, 1
        while (above := int(parents[top])) >= 0 and count < MOST_JOINTS:
            if count > 1 and children[above] > 1:
                break
            top, count = above, count + 1
        return top

    def _limb(self, tip: int, children: Ints) -> InverseKinematics | None:
        """Return the limb that ends at a joint; None if no joint above can move it."""
        assert self._skin is not None
        skeleton, top = self._skin.skeleton, self._top(tip, children)
        if top == tip:
            return None
        try:
            chain = InverseKinematics(self._skin.joint_pose, top, tip)
        except SuppleError:  # it has no length, or all its joints are locked
            return None
        if not chain.can_move:
            return None
        self._chains[skeleton.names[tip]] = chain
        return chain


def _skinned(rig: Rig) -> SkinnedRig | None:
    """Return the skinned rig at the base of a rig, or None."""
    inside: Any = rig
    while inside is not None and not hasattr(inside, "joint_pose"):
        inside = getattr(inside, "base", None)
    return inside
