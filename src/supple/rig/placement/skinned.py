"""Placements of skinned rigs: a pose becomes transforms of joints, and these move vertices."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from supple.arrays import Floats
from supple.rig.placement.joint_kernels import rigid_duals, skin_transforms
from supple.rig.placement.placement import Positions, writable
from supple.rig.protocol import Ints
from supple.rig.skeleton.joint_pose import JointPose
from supple.rig.skeleton.partial_pose import PartialJointPose
from supple.rig.skeleton.skinning import SkinnedRig
from supple.rig.skeleton.skinning_kernels import (
    dual_quaternions,
    multiply_all,
    skin_dual,
    skin_linear,
    turn_over,
)

__all__ = ["SkinTransforms", "SkinnedPlacement"]


NO_SUBSET = np.empty(0, dtype=np.int64)


class SkinTransforms:
    """What the joints of a skinned rig do to its vertices, pose after pose.

    Stretched joints under dual quaternions are decomposed by NumPy, which allocates.

    Parameters
    ----------
    rig
        Whose joints.

    Attributes
    ----------
    matrices
        (J, 4, 4) from bound to posed, after `update`.
    duals
        (J, 8) their rigid parts, after `update_duals`.
    stretches
        (J, 4, 4) what is applied before those, if `stretched`.
    """

    def __init__(self, rig: SkinnedRig) -> None:
        self.rig = rig
        self._tables = _joint_tables(rig.joint_pose)
        self._make_room()

    def _make_room(self) -> None:
        count = self.rig.skeleton.n_joints
        self.matrices = np.empty((count, 4, 4))
        self.duals = np.empty((count, 8))
        self.stretches = np.zeros((count, 4, 4))
        self.stretched = False
        self._world = np.zeros((count + 1, 4, 4))

    def fork(self) -> SkinTransforms:
        """The same joints with room of their own."""
        twin = object.__new__(SkinTransforms)
        twin.__dict__.update(self.__dict__)
        twin._make_room()
        return twin

    def update(self, pose: Floats) -> None:
        """Set `matrices`."""
        bind = self.rig.inverse_bind
        if self._tables is None:  # a stranger's meaning of the pose
            world = np.ascontiguousarray(self.rig.joint_pose.matrices(pose))
            multiply_all(world, bind, self.matrices)
        else:
            skin_transforms(pose, *self._tables, bind, self._world, self.matrices)

    def update_duals(self, pose: Floats) -> None:
        """Set `duals`, `stretches` and `stretched`."""
        self.update(pose)
        self.stretched = not rigid_duals(self.matrices, self.duals)
        if self.stretched:
            self.duals, self.stretches[:, :3, :3], _ = dual_quaternions(self.matrices)


def _joint_tables(joint_pose: JointPose) -> tuple[Ints, Floats] | None:
    """What `skin_transforms` calls entries and rest; None for a pose of another kind."""
    skeleton = joint_pose.skeleton
    count = skeleton.n_joints
    entries = np.full((count, 10), -1, np.int64)
    entries[:, 0] = skeleton.parents
    if type(joint_pose) is PartialJointPose:
        whole, kept = joint_pose._whole, joint_pose._kept
    elif type(joint_pose) is JointPose:
        whole, kept = joint_pose, np.arange(joint_pose.n_parameters)
    else:
        return None
    places = np.full(whole.n_parameters, -1, np.int64)
    places[kept] = np.arange(len(kept))
    ends = 3 * np.cumsum([0, count, len(whole.translating), len(whole.scaling)])
    turns, moves, sizes = (places[a:b].reshape(-1, 3) for a, b in pairwise(ends))
    entries[:, 1:4] = turns
    entries[whole.translating, 4:7] = moves
    entries[whole.scaling, 7:10] = sizes
    rest = np.hstack([skeleton.translations, skeleton.rotations, skeleton.scales])
    return entries, np.ascontiguousarray(rest)


class SkinnedPlacement:
    """The placement of a skinned rig, vertex after vertex; in double precision, as the rig.

    Parameters
    ----------
    rig
        A `SkinnedRig`.
    vertices
        Which of its vertices; None for all.
    transforms
        Those of the rig's joints, if another placement has them already.
    """

    def __init__(
        self, rig: SkinnedRig, vertices: Ints | None, transforms: SkinTransforms | None = None
    ) -> None:
        rows = slice(None) if vertices is None else vertices
        self._points = np.ascontiguousarray(rig.vertices[rows])
        self._joints = np.ascontiguousarray(rig.joints[rows])
        self._weights = np.ascontiguousarray(rig.weights[rows])
        self._linear = rig.method == "linear"
        self._transforms = SkinTransforms(rig) if transforms is None else transforms

    @property
    def n_points(self) -> int:
        """How many vertices are placed."""
        return len(self._points)

    def place(self, pose: Floats, out: Positions) -> None:
        """Where the vertices are at a pose, (k, 3)."""
        self.deform(self._points, pose, out)

    def deform(self, points: Floats, pose: Floats, out: Positions) -> None:
        """Where the vertices go, had they been bound at `points`."""
        own, transforms = writable(pose), self._transforms
        influences = (points, NO_SUBSET, self._joints, self._weights, NO_SUBSET)
        if self._linear:
            transforms.update(own)
            turn_over(transforms.matrices)
            skin_linear(*influences, transforms.matrices, out)
            return
        transforms.update_duals(own)
        turning = (transforms.duals, transforms.stretches, transforms.stretched)
        skin_dual(*influences, *turning, out)

    def fork(self) -> SkinnedPlacement:
        """The same tables with other room to work in."""
        twin = object.__new__(SkinnedPlacement)
        twin.__dict__.update(self.__dict__)
        twin._transforms = self._transforms.fork()
        return twin
