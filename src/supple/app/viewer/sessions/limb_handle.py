"""Handles for joints: the limb above one bends so that it comes to a place."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.errors import SuppleError
from supple.rig.protocol import Rig
from supple.rig.skeleton.inverse_kinematics import InverseKinematics
from supple.rig.skeleton.skinning import SkinnedRig

__all__ = ["Limbs"]


#: Joints that bend along, at most.
LONGEST = 8
#: Part of its reach over which a limb yields before it is straight.
SOFTNESS = 0.05


class Limbs:
    """The joints of a rig that a handle can move, if it has any.

    A limb reaches from its joint up to where the skeleton branches: a wrist takes its arm along
    and leaves the chest. What is no skeleton, or has another rig after it, has no limbs.

    Parameters
    ----------
    rig
        Whose.

    Attributes
    ----------
    joints
        Names, those at the ends of the skeleton first.
    """

    def __init__(self, rig: Rig) -> None:
        self._rig, self._skin = rig, _skinned(rig)
        self._chains: dict[str, InverseKinematics] = {}
        self._places: Ints = np.zeros(0, np.int64)
        if self._skin is None:
            self.joints: tuple[str, ...] = ()
            return
        places = {parameter.name: k for k, parameter in enumerate(rig.parameters)}
        own = [parameter.name for parameter in self._skin.joint_pose.parameters]
        if not all(name in places for name in own):  # its pose is made from something else
            self.joints = ()
            return
        self._places = np.array([places[name] for name in own], np.int64)
        parents = self._skin.skeleton.parents
        children = np.bincount(parents[parents >= 0], minlength=len(parents))
        below = np.argsort(children > 0, kind="stable")
        names = self._skin.skeleton.names
        self.joints = tuple(
            names[joint] for joint in below if self._found(int(joint), children) is not None
        )

    def place(self, joint: str, pose: ArrayLike) -> Floats:
        """(3,) where a joint is in a pose, in the rig's space."""
        return self._chain(joint).end(np.asarray(pose, np.float64)[self._places])

    def reached(self, joint: str, pose: Floats, target: ArrayLike) -> Floats:
        """(s,) the pose that is like this one, but has the joint nearest to a place.

        Parameters
        ----------
        joint
            One of `joints`.
        pose
            (s,) to begin with.
        target
            (3,) in the rig's space.
        """
        chain = self._chain(joint)
        found = pose.copy()
        solution = chain.solve(target, pose=pose[self._places], softness=SOFTNESS)
        found[self._places] = solution.pose
        return found

    def _chain(self, joint: str) -> InverseKinematics:
        if joint not in self._chains:
            raise SuppleError(f'no limb ends at "{joint}"')
        return self._chains[joint]

    def _found(self, tip: int, children: Ints) -> InverseKinematics | None:
        """The limb that ends there; none for a joint that nothing above can move."""
        assert self._skin is not None
        skeleton = self._skin.skeleton
        top, count = tip, 1
        while (above := int(skeleton.parents[top])) >= 0 and count < LONGEST:
            if count > 1 and children[above] > 1:
                break
            top, count = above, count + 1
        if count == 1:
            return None
        try:
            chain = InverseKinematics(self._skin.joint_pose, top, tip)
        except SuppleError:  # no length, or all its joints are locked
            return None
        self._chains[skeleton.names[tip]] = chain
        return chain


def _skinned(rig: Rig) -> SkinnedRig | None:
    """The skinned rig that this is, or corrects."""
    inside: Any = rig
    while inside is not None and not isinstance(inside, SkinnedRig):
        inside = getattr(inside, "base", None)
    return inside
