"""Skeletons that are posed by joint names and degrees, and skinning weights of modelled parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.mesh.surface import SurfaceMesh
from supple.rig.skeleton.joint_pose import JointPose
from supple.rig.skeleton.joints import Skeleton
from supple.rig.skeleton.skinning import SkinnedRig
from supple.scenes.modelling.scene_data import Joints
from supple.scenes.modelling.solids import Solid


def part_weights(
    surface: SurfaceMesh, parts: Sequence[Sequence[Solid]], length: ArrayLike, rounds: int = 2
) -> Floats:
    """Return weights (n, parts) by heat diffusion over the surface.

    A vertex starts with weight 1 for the part whose solids are deepest there; the weights then
    diffuse over `length`, in m, for all vertices or for each, in `rounds` steps. Parts that touch
    in space but not along the surface (an arm beside the belly) do not mix.
    """
    import igl
    import scipy.sparse as sp

    from supple.linalg.cholesky import SparseCholesky

    depths = np.stack(
        [np.max([solid(surface.vertices) for solid in solids], axis=0) for solids in parts], axis=1
    )
    weights = np.eye(len(parts))[depths.argmax(axis=1)]
    stiffness = -igl.cotmatrix(surface.vertices, surface.triangles)
    areas = igl.massmatrix(surface.vertices, surface.triangles).diagonal()
    masses = sp.diags_array(areas * rounds / np.asarray(length, float) ** 2)
    matrix = sp.csr_array(stiffness + masses)
    solver = SparseCholesky(matrix).factorise(matrix)
    for _ in range(rounds):
        weights = solver.solve(np.ascontiguousarray(masses @ weights))
    # Obtuse triangles let the cotangent Laplacian overshoot a little.
    weights = np.clip(weights, 0.0, None)
    return weights / weights.sum(axis=1, keepdims=True)


def strongest(weights: Floats, count: int) -> tuple[Ints, Floats]:
    """Return joints (n, count) and weights (n, count) of each vertex's strongest influences.

    The next weaker weight is subtracted first, so that weights are continuous.
    """
    count = min(count, weights.shape[1])
    order = np.argsort(-weights, axis=1, kind="stable")
    joints = order[:, :count]
    values = np.take_along_axis(weights, joints, axis=1)
    if count < weights.shape[1]:
        weaker = np.take_along_axis(weights, order[:, count : count + 1], axis=1)
        values = values - weaker
    return joints.astype(np.int64), values / values.sum(axis=1, keepdims=True)


def rest_skeleton_arrays(joints: Joints) -> tuple[list[str], list[int], Floats, Floats]:
    """Return names, parents, local translations (K, 3) and inverse bind matrices (K, 4, 4)."""
    names = list(joints)
    parents = [-1 if parent is None else names.index(parent) for parent, _ in joints.values()]
    places = np.array([place for _, place in joints.values()])
    local = places - np.where(np.array(parents)[:, None] < 0, 0.0, places[parents])
    inverse = np.tile(np.eye(4), (len(names), 1, 1))
    inverse[:, :3, 3] = -places
    return names, parents, local, inverse


#: Degrees about x, y and z for each joint; metres for "+name".
Rotations = Mapping[str, tuple[float, float, float]]


class Puppet:
    """Skeleton without rotations at rest, and its poses.

    `joints` maps names, with suffixes ".L" and ".R" for two sides, to (parent or None, position).
    All joints rotate; those in `translating` also translate.
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
