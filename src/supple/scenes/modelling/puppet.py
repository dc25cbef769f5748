"""Skeletons that are posed by joint names and degrees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from supple.arrays import Floats, Ints
from supple.rig.skeleton.joint_pose import JointPose
from supple.rig.skeleton.joints import Skeleton
from supple.rig.skeleton.skinning import SkinnedRig
from supple.scenes.modelling.scene_data import Joints
from supple.scenes.modelling.skin_weights import rest_skeleton_arrays

#: Degrees about x, y and z for each joint; metres for "+name".
Rotations = Mapping[str, tuple[float, float, float]]


class Puppet:
    """Skeleton without rotations at rest, and its poses.

    `joints` maps names, with suffixes ".L" and ".R" for two sides, to (parent or None, position).
    """

    def __init__(self, joints: Joints, translating: Sequence[str] = ()) -> None:
        self.joints = joints
        names, parents, local, self._bind = rest_skeleton_arrays(joints)
        self.joint_pose = JointPose(Skeleton(names, parents, local), translating=translating)

    @cached_property
    def places(self) -> dict[str, int]:
        """Indices of the parameters in the pose, by name."""
        return {entry.name: place for place, entry in enumerate(self.joint_pose.parameters)}

    def pose(self, rotations: Rotations) -> Floats:
        """Return the pose of named rotations; a name without a side stands for both sides.

        The right side is then mirrored at x = 0: rotations about y and z and translations along x
        change their signs.
        """
        pose = np.zeros(len(self.places))
        for name, values in rotations.items():
            kind, joint = ("t", name[1:]) if name.startswith("+") else ("r", name)
            scale = 1.0 if kind == "t" else np.pi / 180
            sides = [joint] if joint in self.joints else [f"{joint}.L", f"{joint}.R"]
            for side in sides:
                flip = np.ones(3)
                if joint not in self.joints and side.endswith(".R"):
                    flip = np.array([1, -1, -1]) if kind == "r" else np.array([-1, 1, 1])
                for axis, value in zip("xyz", scale * flip * values, strict=True):
                    pose[self.places[f"{side}.{kind}{axis}"]] = value
        return pose

    def skinned(self, vertices: Floats, joints: Ints, weights: Floats) -> SkinnedRig:
        """Return the rig of vertices that follow joints (n, k) with weights (n, k)."""
        return SkinnedRig(self.joint_pose, vertices, joints, weights, self._bind)
