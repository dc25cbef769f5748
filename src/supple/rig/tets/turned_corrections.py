"""Corrections that turn with the flesh: the rig on the tets between example poses."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.checks import checked_array, owned_array
from supple.compiled.jit import compiled
from supple.errors import SuppleError
from supple.maths.rotations import inverse, rotate
from supple.mesh.tets import TetMesh
from supple.rig.poses.pose_tree import alignment_tree
from supple.rig.poses.pose_weights import PoseWeights
from supple.rig.protocol import checked_pose, checked_subset
from supple.rig.tets.shepard import ShepardRig
from supple.rig.tets.vertex_frames import CANCELLED, IDENTITY, pose_rotations

if TYPE_CHECKING:
    from supple.rig.placement.shepard_placement import TurnedPlacement

__all__ = ["TurnedCorrections", "add_turned"]


NO_SUBSET = np.empty(0, dtype=np.int64)
#: Quaternions this far from a length of 1, or farther, are none.
UNIT = 1e-3


class TurnedCorrections:
    """Shepard's interpolation with corrections in frames that turn from pose to pose.

    Φ(p) = S Φ̄(p) + R(p) (o + Σ w_i(p) d_i): the surface's positions, interpolated, and what they
    leave of a vertex's own, o = X − S X̄ at the neutral pose. That part turns with the limb. Added
    up without turning, the corrections of a limb bent to both sides cancel it halfway, and swell
    or crush the tets there. With no rotation at all this is the plain sum start(p) + Σ w_i d_i.

    Parameters
    ----------
    start
        Where tet vertices go before correction.
    weights
        Of the example poses, the neutral one first.
    corrections
        (m, n, 3) d, as the neutral pose's frames see them; zero for that pose.
    rotations
        (m, n, 4) R from the neutral pose to each, unit quaternions (x, y, z, w) with consistent
        signs; see `pose_rotations`.
    """

    def __init__(
        self,
        start: ShepardRig,
        weights: PoseWeights,
        corrections: ArrayLike,
        rotations: ArrayLike,
    ) -> None:
        self.start, self.pose_weights = start, weights
        if weights.poses.shape[1] != len(start.parameters):
            wrong = f"{weights.poses.shape[1]} numbers a pose"
            raise SuppleError(f"{wrong}; the rig has {len(start.parameters)} parameters")
        shape = (weights.n_poses, start.n_vertices)
        self.corrections = owned_array("pose corrections", corrections, (*shape, 3))
        self.rotations = owned_array("vertex rotations", rotations, (*shape, 4))
        if not np.abs(np.sum(self.rotations**2, axis=2) - 1).max() < UNIT:
            raise SuppleError("vertex rotations of a rig on tets must be unit quaternions")
        self._offsets = start.offsets

    @classmethod
    def of(
        cls, mesh: TetMesh, start: ShepardRig, weights: PoseWeights, away: ArrayLike
    ) -> TurnedCorrections:
        """Such that the tets are `away` (m, n, 3) from their start at the example poses.

        Parameters
        ----------
        mesh
            The tets at the neutral pose, the first of the example poses.
        start, weights
            As above.
        away
            δ_i = fitted − start in the world; zero for the neutral pose.
        """
        shape = (weights.n_poses, *mesh.vertices.shape)
        deltas = checked_array("pose corrections", away, shape)
        shapes = [start(pose) + delta for pose, delta in zip(weights.poses, deltas, strict=True)]
        parents = alignment_tree(weights.distances(), weights.poses)
        rotations = pose_rotations(mesh, [mesh.vertices, *shapes[1:]], parents)
        rotations[0] = IDENTITY  # but for rounding it is
        offsets = start.offsets
        corrections = rotate(inverse(rotations), offsets + deltas) - offsets
        return cls(start, weights, corrections, rotations)

    def in_world(self) -> Floats:
        """How far the tets are from their start at the example poses, δ (m, n, 3)."""
        return rotate(self.rotations, self._offsets + self.corrections) - self._offsets

    def __call__(self, pose: ArrayLike, vertices: ArrayLike | None = None) -> Floats:
        """Positions of all tet vertices or of the listed ones."""
        values = checked_pose(self.start.parameters, pose)
        subset = checked_subset(vertices, self.start.n_vertices)
        out = np.array(self.start(values, subset), np.float64, order="C")
        rows = NO_SUBSET if subset is None else subset
        weights = self.pose_weights.weights(values)
        add_turned(self._offsets, self.corrections, self.rotations, weights, rows, out)
        return out

    def placement(self, vertices: Ints | None = None, *, single: bool = False) -> TurnedPlacement:
        """Places the listed tet vertices, or all, again and again."""
        from supple.rig.placement.shepard_placement import TurnedPlacement

        return TurnedPlacement(self, vertices)


@compiled
def add_turned(
    offsets: Floats,
    corrections: Floats,
    rotations: Floats,
    weights: Floats,
    rows: Ints,
    out: Floats,
) -> None:
    """Add R (o + Σ w d) − o to `out` for the listed vertices, or for all; R from Σ w q.

    Where the blend of rotations cancels, that of the pose that counts most is taken.
    """
    everything = len(rows) == 0
    total, strongest = 0.0, 0
    for pose in range(len(weights)):
        total += abs(weights[pose])
        if abs(weights[pose]) > abs(weights[strongest]):
            strongest = pose
    for i in range(len(out)):
        row = i if everything else rows[i]
        cx, cy, cz = 0.0, 0.0, 0.0
        qx, qy, qz, qw = 0.0, 0.0, 0.0, 0.0
        for pose in range(len(weights)):
            weight, correction, turn = weights[pose], corrections[pose, row], rotations[pose, row]
            cx += weight * correction[0]
            cy += weight * correction[1]
            cz += weight * correction[2]
            qx += weight * turn[0]
            qy += weight * turn[1]
            qz += weight * turn[2]
            qw += weight * turn[3]
        size = math.sqrt(qx * qx + qy * qy + qz * qz + qw * qw)
        if not size > CANCELLED * total:
            turn = rotations[strongest, row]
            qx, qy, qz, qw = turn[0], turn[1], turn[2], turn[3]
            size = math.sqrt(qx * qx + qy * qy + qz * qz + qw * qw)
        qx, qy, qz, qw = qx / size, qy / size, qz / size, qw / size
        x, y, z = offsets[row, 0] + cx, offsets[row, 1] + cy, offsets[row, 2] + cz
        # R v = v + w t + q × t with t = 2 q × v, and v − o is Σ w d, free of rounding.
        tx, ty, tz = 2 * (qy * z - qz * y), 2 * (qz * x - qx * z), 2 * (qx * y - qy * x)
        out[i, 0] += cx + (qw * tx + (qy * tz - qz * ty))
        out[i, 1] += cy + (qw * ty + (qz * tx - qx * tz))
        out[i, 2] += cz + (qw * tz + (qx * ty - qy * tx))
