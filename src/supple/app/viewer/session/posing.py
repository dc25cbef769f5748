"""Posing a rig by hand: targets that are followed softly, and inverse-kinematics handles."""

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

#: Rate of following, in 1/s: nine tenths of the way take a fifth of a second.
QUICKNESS = 18.0
#: Joints that bend along with a handle, at most.
MOST_JOINTS = 8
#: Part of its reach over which a limb yields before it is straight.
SOFTNESS = 0.05


class DampedFollower:
    """Value that follows a target like a critically damped spring, exactly at every step.

    Sliders jump; a pose that jumped along would hit the flesh like a hammer.

    Parameters
    ----------
    value, velocity
        (s,) at first, and its change per second.

    Attributes
    ----------
    target
        (s,) to be set at any time.
    """

    def __init__(self, value: Floats, velocity: Floats | None = None) -> None:
        self.value = np.array(value, np.float64)
        self.target = self.value.copy()
        self._velocity = np.zeros_like(self.value) if velocity is None else velocity.copy()

    def step(self, dt: float) -> Floats:
        """Return the value after so many seconds."""
        away = self.value - self.target
        push = self._velocity + QUICKNESS * away
        left = math.exp(-QUICKNESS * dt)
        self.value = self.target + (away + push * dt) * left
        self._velocity = (self._velocity - push * QUICKNESS * dt) * left
        return self.value


class IKHandles:
    """Joints of a rig that a handle can move, each with the limb above it.

    A limb reaches from its joint up to where the skeleton branches: a wrist takes its arm along
    and leaves the chest. What is no skeleton, or has another rig after it, has no limbs.

    Parameters
    ----------
    rig
        Of the character.

    Attributes
    ----------
    joints
        Names, those at the ends of the skeleton first.
    """

    def __init__(self, rig: Rig) -> None:
        self._skin = _skinned(rig)
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

    def position(self, joint: str, pose: ArrayLike) -> Floats:
        """Return where a joint is in a pose, (3,) in the rig's space."""
        return self._chain(joint).end(np.asarray(pose, np.float64)[self._places])

    def solve(self, joint: str, pose: Floats, target: ArrayLike) -> Floats:
        """Bend a limb so that its joint comes as near to a place as it can.

        Parameters
        ----------
        joint
            One of `joints`.
        pose
            (s,) to begin with.
        target
            (3,) in the rig's space.

        Returns
        -------
        (s,) array
            The pose; all that is not of the limb stays.
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
        """Return the limb that ends there; none for a joint that nothing above can move."""
        assert self._skin is not None
        skeleton = self._skin.skeleton
        top, count = tip, 1
        while (above := int(skeleton.parents[top])) >= 0 and count < MOST_JOINTS:
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
    """Return the skinned rig that this is, or corrects."""
    inside: Any = rig
    while inside is not None and not isinstance(inside, SkinnedRig):
        inside = getattr(inside, "base", None)
    return inside
