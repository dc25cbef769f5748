"""Pose-space deformation: sculpted corrections over any rig (METHOD: xu2016 §3)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.checks import owned_array
from supple.errors import SuppleError
from supple.rig.deformers.blend_shapes import add_weighted
from supple.rig.placement.placement import CalledPlacement, Placement, placement
from supple.rig.placement.pose_corrections import (
    PoseCorrections,
    combined_corrections,
    corrected_placement,
)
from supple.rig.poses.pose_weights import PoseWeights, parameter_scales
from supple.rig.protocol import Deformer, Rig, checked_deformer, checked_pose, checked_subset
from supple.rig.skeleton.skin_placement import skinned_placement
from supple.rig.skeleton.skinning import SkinnedRig

NO_SUBSET = np.empty(0, dtype=np.int64)


class PoseSpaceDeformation:
    """A rig plus corrections sculpted at example poses, Φ̄(p) + Σ w_i(p) δ̄_i.

    Parameters
    ----------
    base : Rig
        What is corrected; its parameters are this rig's.
    poses : (m, s) array
        Where corrections were sculpted, all different. List the poses at which nothing is to be
        corrected, such as the rest pose, too, with a correction of zero.
    corrections : (m, n, 3) array
        Added to the base's positions at each pose.
    scales : (s,) array or PoseWeights, optional
        The pose metric, or weights already made; without it `parameter_scales` of the base.
    names : sequence of str, optional
        Of the poses, for messages.
    """

    def __init__(
        self,
        base: Rig,
        poses: ArrayLike,
        corrections: ArrayLike,
        scales: ArrayLike | PoseWeights | None = None,
        *,
        names: Sequence[str] | None = None,
    ) -> None:
        self.base = base
        if isinstance(scales, PoseWeights):
            self.pose_weights = scales
        else:
            metric = parameter_scales(base) if scales is None else scales
            self.pose_weights = PoseWeights(poses, metric, names=names)
        if self.pose_weights.poses.shape[1] != len(base.parameters):
            wrong = f"{self.pose_weights.poses.shape[1]} numbers a pose"
            raise SuppleError(f"{wrong}; the rig has {len(base.parameters)} parameters")
        if not np.array_equal(self.pose_weights.poses, poses):
            raise SuppleError("the pose weights were made for other poses")
        shape = (self.pose_weights.n_poses, base.n_vertices, 3)
        self.corrections = owned_array("pose corrections", corrections, shape)
        self.parameters = base.parameters
        self.rest_pose = base.rest_pose

    def __repr__(self) -> str:
        return f"PoseSpaceDeformation({self.pose_weights.n_poses} poses on {self.base!r})"

    @property
    def poses(self) -> Floats:
        """Example poses, (m, s)."""
        return self.pose_weights.poses

    @property
    def n_vertices(self) -> int:
        """Number of vertices."""
        return self.base.n_vertices

    @property
    def rest_points(self) -> Floats:
        """Points that the base moves."""
        return self._deformer().rest_points

    def weights(self, pose: ArrayLike) -> Floats:
        """Return the weights of the example poses, (m,)."""
        return self.pose_weights.weights(pose)

    def __call__(self, pose: ArrayLike, vertices: ArrayLike | None = None) -> Floats:
        """Return positions of all vertices or of the listed ones."""
        values = checked_pose(self.parameters, pose)
        subset = checked_subset(vertices, self.n_vertices)
        return self._corrected(self.base(values, subset), values, subset)

    def deform(
        self, points: ArrayLike, pose: ArrayLike, vertices: ArrayLike | None = None
    ) -> Floats:
        """Return positions of the vertices were they at `points`; the base must allow it."""
        values = checked_pose(self.parameters, pose)
        subset = checked_subset(vertices, self.n_vertices)
        moved = self._deformer().deform(points, values, subset)
        return self._corrected(moved, values, subset)

    def placement(self, vertices: Ints | None = None, *, single: bool = False) -> Placement:
        """Return a placement of the listed vertices, or of all; see `Placement`."""
        base, sets = split_corrections(self, vertices)
        if base is self:
            return CalledPlacement(self, vertices)
        count = self.n_vertices if vertices is None else len(vertices)
        corrections = combined_corrections(count, sets)
        if type(base) is SkinnedRig:
            return skinned_placement(base, vertices, corrections, single=single)
        return corrected_placement(placement(base, vertices, single=single), corrections, single)

    def _deformer(self) -> Deformer:
        return checked_deformer("the corrected rig", self.base)

    def _corrected(self, points: Floats, pose: Floats, subset: Ints | None) -> Floats:
        out = np.array(points, dtype=np.float64, order="C")
        rows = NO_SUBSET if subset is None else subset
        add_weighted(self.corrections, self.weights(pose), rows, out)
        return out


def split_corrections(rig: Rig, vertices: Ints | None) -> tuple[Rig, list[PoseCorrections]]:
    """Return the rig below a pile of pose-space deformations, and their corrections of vertices."""
    rows, found = slice(None) if vertices is None else vertices, []
    while type(rig) is PoseSpaceDeformation:  # a subclass may do something else
        found.append(PoseCorrections(rig.pose_weights, rig.corrections[:, rows]))
        rig = rig.base
    return rig, found
