"""Pose-space deformation: sculpted corrections over any rig (METHOD: xu2016 §3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.checks import owned_array
from supple.errors import SuppleError
from supple.rig.deformers.blend_shapes import add_weighted
from supple.rig.jacobian import rig_jacobian
from supple.rig.placement.placement import CalledPlacement, Placement, placement
from supple.rig.placement.pose_corrections import (
    PoseCorrections,
    combined_corrections,
    corrected_placement,
)
from supple.rig.poses.pose_weights import PoseWeights, parameter_scales
from supple.rig.protocol import (
    Deformer,
    Rig,
    TetTransfer,
    checked_deformer,
    checked_pose,
    checked_subset,
    optional_method,
)
from supple.rig.stored.field_reader import Field
from supple.rig.stored.schema import PackedRows, PartOf, vertex_count

NO_SUBSET = np.empty(0, dtype=np.int64)


class PoseSpaceDeformation:
    """A rig plus corrections sculpted at example poses, Φ̄(p) + Σ w_i(p) δ̄_i.

    Parameters
    ----------
    base : Rig
        The corrected rig, which defines the parameters.
    poses : (m, s) array
        Example poses, all different. Poses without a correction, such as the rest pose, need a
        correction of zero.
    corrections : (m, n, 3) array
        Added to the base's positions at each pose.
    scales : (s,) array or PoseWeights, optional
        The pose metric, or pose weights; by default `parameter_scales` of the base.
    names : sequence of str, optional
        Names of the poses, for messages.
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
            wrong = f"example poses have {self.pose_weights.poses.shape[1]} numbers"
            raise SuppleError(f"{wrong}; the rig has {len(base.parameters)} parameters")
        if not np.array_equal(self.pose_weights.poses, poses):
            raise SuppleError("the pose weights were made for other poses; use the same poses")
        shape = (self.pose_weights.n_poses, base.n_vertices, 3)
        self.corrections = owned_array("pose corrections", corrections, shape)
        self.parameters, self.rest_pose = base.parameters, base.rest_pose
        self.n_vertices = base.n_vertices

    def __repr__(self) -> str:
        return f"PoseSpaceDeformation({self.pose_weights.n_poses} poses on {self.base!r})"

    @property
    def poses(self) -> Floats:
        """Example poses, (m, s)."""
        return self.pose_weights.poses

    @property
    def rest_points(self) -> Floats:
        """Points that the base moves."""
        return self._deformer().rest_points

    def weights(self, pose: ArrayLike) -> Floats:
        """Return the weights of the example poses, (m,)."""
        return self.pose_weights.weights(pose)

    def __call__(self, pose: ArrayLike, vertices: ArrayLike | None = None) -> Floats:
        """Return positions of all vertices, or of the listed vertices."""
        values = checked_pose(self.parameters, pose)
        subset = checked_subset(vertices, self.n_vertices)
        return self._corrected(self.base(values, subset), values, subset)

    def deform(
        self, points: ArrayLike, pose: ArrayLike, vertices: ArrayLike | None = None
    ) -> Floats:
        """Return positions of vertices that start at `points`; the base must be a `Deformer`."""
        values = checked_pose(self.parameters, pose)
        subset = checked_subset(vertices, self.n_vertices)
        positions = self._deformer().deform(points, values, subset)
        return self._corrected(positions, values, subset)

    def placement(self, vertices: Ints | None = None, *, single: bool = False) -> Placement:
        """Return a placement of the listed vertices, or of all; see `Placement`."""
        base, sets = split_corrections(self, vertices)
        if base is self:
            return CalledPlacement(self, vertices)
        count = self.n_vertices if vertices is None else len(vertices)
        merged = optional_method(base, "corrected_placement")
        if merged is not None:
            return merged(vertices, sets, single=single)
        corrections = combined_corrections(count, sets)
        return corrected_placement(placement(base, vertices, single=single), corrections, single)

    def pose_corrections(self, vertices: Ints | None) -> PoseCorrections:
        """Return the corrections of the listed vertices, or of all."""
        rows = slice(None) if vertices is None else vertices
        return PoseCorrections(self.pose_weights, self.corrections[:, rows])

    def jacobian(self, entries: Ints, vertices: Ints | None = None) -> CorrectedJacobian:
        """Return the sum of the Jacobians of the base (`rig_jacobian`) and of the corrections."""
        return CorrectedJacobian(self, entries, vertices)

    def on_tets(self, transfer: TetTransfer) -> PoseSpaceDeformation | None:
        """Return the rig of the tet vertices, with corrections extended from the surface."""
        base = transfer.rig(self.base)
        if base is None:
            return None
        flat = self.corrections.transpose(1, 0, 2).reshape(self.n_vertices, -1)
        extended = transfer.extended(flat).reshape(len(transfer.vertices), -1, 3)
        deltas = np.ascontiguousarray(extended.transpose(1, 0, 2))
        return PoseSpaceDeformation(base, self.poses, deltas, self.pose_weights)

    stored_fields: ClassVar[tuple[Field, ...]] = (
        PartOf("base", Rig, vertex_count),
        PartOf("pose_weights", PoseWeights, lambda weights: {"poses": weights.n_poses}),
        PackedRows("corrections", ("poses", "n", 3)),
    )

    @classmethod
    def restored(
        cls, base: Rig, pose_weights: PoseWeights, corrections: Floats
    ) -> PoseSpaceDeformation:
        """Make the rig from its stored fields."""
        return cls(base, pose_weights.poses, corrections, pose_weights)

    def _deformer(self) -> Deformer:
        return checked_deformer("the corrected rig", self.base)

    def _corrected(self, points: Floats, pose: Floats, subset: Ints | None) -> Floats:
        out = np.array(points, dtype=np.float64, order="C")
        rows = NO_SUBSET if subset is None else subset
        add_weighted(self.corrections, self.weights(pose), rows, out)
        return out


def split_corrections(rig: Rig, vertices: Ints | None) -> tuple[Rig, list[PoseCorrections]]:
    """Return the rig below nested pose-space deformations, and their corrections of vertices."""
    sets = []
    while (corrections := optional_method(rig, "pose_corrections")) is not None:
        sets.append(corrections(vertices))
        rig = rig.base  # type: ignore[attr-defined]
    return rig, sets


class CorrectedJacobian:
    """Jacobian of the base plus Σ δ_i ∂w_i/∂p."""

    affine = False

    def __init__(self, rig: PoseSpaceDeformation, entries: Ints, vertices: Ints | None) -> None:
        rows = slice(None) if vertices is None else vertices
        self._inner = rig_jacobian(rig.base, entries, vertices)
        self._weights, self._entries = rig.pose_weights, entries
        self._deltas = np.ascontiguousarray(rig.corrections[:, rows].reshape(len(rig.poses), -1).T)

    def evaluate(self, pose: Floats, out: Floats) -> None:
        """Write ∂x/∂p (m, 3, k) at a pose."""
        self._inner.evaluate(pose, out)
        slopes = self._weights.slopes(pose, self._entries)
        out += (self._deltas @ slopes).reshape(out.shape)
