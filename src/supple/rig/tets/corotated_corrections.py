"""Corotated corrections: corrections of the rig on tets that rotate with the flesh."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.arrays import Floats, Ints
from supple.checks import checked_array, owned_array
from supple.compiled.jit import compiled, compiled_fused
from supple.compiled.program import KernelCall
from supple.errors import SuppleError
from supple.maths.rotations import inverse, rotate
from supple.mesh.tets import TetMesh
from supple.rig.placement.placement import Forkable, Positions, writable
from supple.rig.placement.pose_corrections import NEGLIGIBLE_WEIGHT
from supple.rig.poses.example_poses import alignment_tree
from supple.rig.poses.pose_weights import PoseWeights, evaluate_weights
from supple.rig.protocol import Rig, checked_pose, checked_subset
from supple.rig.tets.shepard import ShepardPlacement, ShepardRig, follow_surface
from supple.rig.tets.vertex_frames import CANCELLED, IDENTITY, pose_rotations

NO_SUBSET = np.empty(0, dtype=np.int64)
#: Largest deviation of a squared quaternion length from 1.
UNIT = 1e-3


class CorotatedCorrections:
    """Shepard interpolation with corrections in frames that rotate from pose to pose.

    Φ(p) = S Φ̄(p) + R(p) (o + Σ w_i(p) d_i): the interpolated surface positions, and the offset
    o = X − S X̄ of a vertex at the neutral pose, which rotates with the limb. Without rotation the
    corrections of a limb bent to both sides would cancel halfway, and swell or crush the tets
    there. With R = 1 this is the plain sum start(p) + Σ w_i d_i.

    `weights` are of the example poses, the neutral one first; `corrections` (m, n, 3) are d in the
    frames of the neutral pose, zero for that pose; `rotations` (m, n, 4) are R from the neutral
    pose to each, unit quaternions (x, y, z, w) with consistent signs (see `pose_rotations`).
    """

    def __init__(
        self, start: ShepardRig, weights: PoseWeights, corrections: ArrayLike, rotations: ArrayLike
    ) -> None:
        self.start, self.pose_weights = start, weights
        if weights.poses.shape[1] != len(start.parameters):
            wrong = f"example poses have {weights.poses.shape[1]} numbers"
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
    ) -> CorotatedCorrections:
        """Make corrections from displacements `away` (m, n, 3) of the tets at the example poses.

        They are δ_i = fitted − start in world coordinates, zero for the first pose, the neutral
        one, at which `mesh` is.
        """
        shape = (weights.n_poses, *mesh.vertices.shape)
        deltas = checked_array("pose corrections", away, shape)
        shapes = [start(pose) + delta for pose, delta in zip(weights.poses, deltas, strict=True)]
        parents = alignment_tree(weights.distances(), weights.poses)
        rotations = pose_rotations(mesh, [mesh.vertices, *shapes[1:]], parents)
        rotations[0] = IDENTITY  # exactly, without rounding
        offsets = start.offsets
        corrections = rotate(inverse(rotations), offsets + deltas) - offsets
        return cls(start, weights, corrections, rotations)

    def in_world(self) -> Floats:
        """Return the displacements δ (m, n, 3) from the start at the example poses."""
        return rotate(self.rotations, self._offsets + self.corrections) - self._offsets

    def __call__(self, pose: ArrayLike, vertices: ArrayLike | None = None) -> Floats:
        """Return positions of all tet vertices, or of the listed vertices."""
        values = checked_pose(self.start.parameters, pose)
        subset = checked_subset(vertices, self.start.n_vertices)
        out = np.array(self.start(values, subset), np.float64, order="C")
        rows, weights = NO_SUBSET if subset is None else subset, self.pose_weights.weights(values)
        _add_corotated(self._offsets, self.corrections, self.rotations, weights, rows, out)
        return out

    def placement(
        self, vertices: Ints | None = None, *, single: bool = False
    ) -> CorotatedPlacement:
        """Return a placement of the listed tet vertices, or of all; see `Placement`."""
        return CorotatedPlacement(self, vertices)

    def shared_placement(self, rig: Rig, vertices: Ints | None) -> CorotatedPlacement | None:
        """Return a placement that shares `rig`'s positions; None unless the tets follow `rig`."""
        return CorotatedPlacement(self, vertices, share=True) if self.start.rig is rig else None


class CorotatedPlacement(Forkable):
    """Placement of tet vertices that follow the surface, with corotated corrections."""

    _forked = ("surface",)

    def __init__(
        self, rig: CorotatedCorrections, vertices: Ints | None = None, share: bool = False
    ) -> None:
        #: Placement that evaluates the surface.
        self.surface = ShepardPlacement(rig.start, vertices, share)
        self._weighing, poses = rig.pose_weights.tables, rig.pose_weights.n_poses
        listed = slice(None) if vertices is None else vertices
        tables = (
            rig.corrections[:, listed].reshape(poses, -1),
            rig.rotations[:, listed].reshape(poses, -1),
        )
        # Models from files hold single precision; float32 tables halve the memory to read.
        exact = all(np.array_equal(each.astype(np.float32), each) for each in tables)
        kind = np.float32 if exact else np.float64
        self._tables = tuple(np.ascontiguousarray(each, kind) for each in tables)
        self.n_points = self.surface.n_points
        self._allocate()

    def _allocate(self) -> None:
        poses, count = len(self._tables[0]), self.surface.n_points
        self._scratch = tuple(np.zeros(size) for size in (poses, poses, 3 * count, 4 * count))

    def place(self, pose: Floats, out: Positions) -> None:
        """Write the positions (k, 3) of the tet vertices at a pose."""
        surface, values = self.surface, writable(pose)
        surface.place_surface(values)
        _follow_corotated(
            values,
            self._weighing,
            surface.positions,
            surface.neighbours,
            surface.shares,
            surface.offsets,
            self._tables,
            self._scratch,
            out,
        )

    def calls(self, pose: Floats, out: Positions) -> list[KernelCall]:
        """Return the calls of `place`."""
        surface = self.surface
        followed = surface.positions, surface.neighbours, surface.shares, surface.offsets
        arguments = pose, self._weighing, *followed, self._tables, self._scratch, out
        written = (self._scratch, out)
        return [*surface.surface_calls(pose), KernelCall(_follow_corotated, arguments, written)]


@compiled
def _add_corotated(
    offsets: Floats,
    corrections: Floats,
    rotations: Floats,
    weights: Floats,
    rows: Ints,
    out: Floats,
) -> None:
    """Add R (o + Σ w d) − o to `out` (k, 3), with R the rotation of Σ w q, for vertices `rows`.

    An empty list means all vertices. Where the blend of rotations cancels, the rotation of the
    strongest pose replaces it.
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
            weight, correction, q = weights[pose], corrections[pose, row], rotations[pose, row]
            cx += weight * correction[0]
            cy += weight * correction[1]
            cz += weight * correction[2]
            qx += weight * q[0]
            qy += weight * q[1]
            qz += weight * q[2]
            qw += weight * q[3]
        size = math.sqrt(qx * qx + qy * qy + qz * qz + qw * qw)
        if not size > CANCELLED * total:
            q = rotations[strongest, row]
            qx, qy, qz, qw = q[0], q[1], q[2], q[3]
            size = math.sqrt(qx * qx + qy * qy + qz * qz + qw * qw)
        qx, qy, qz, qw = qx / size, qy / size, qz / size, qw / size
        x, y, z = offsets[row, 0] + cx, offsets[row, 1] + cy, offsets[row, 2] + cz
        # R v = v + w t + q × t with t = 2 q × v; v − o = Σ w d is added without cancellation.
        tx, ty, tz = 2 * (qy * z - qz * y), 2 * (qz * x - qx * z), 2 * (qx * y - qy * x)
        out[i, 0] += cx + (qw * tx + (qy * tz - qz * ty))
        out[i, 1] += cy + (qw * ty + (qz * tx - qx * tz))
        out[i, 2] += cz + (qw * tz + (qx * ty - qy * tx))


@compiled_fused
def _follow_corotated(
    pose: Floats,
    weighing: tuple,
    positions: Floats,
    neighbours: NDArray[np.uint32],
    shares: Floats,
    offsets: Floats,
    tables: tuple,
    scratch: tuple,
    out: Positions,
) -> None:
    distances, weights, displacements, quaternions = scratch
    corrections, rotations = tables
    evaluate_weights(pose, *weighing, distances, weights)
    total, strongest = 0.0, 0
    for i in range(len(weights)):
        total += abs(weights[i])
        if abs(weights[i]) > abs(weights[strongest]):
            strongest = i
    _blend(corrections, weights, displacements)
    _blend(rotations, weights, quaternions)
    _replace_cancelled(rotations[strongest], (CANCELLED * total) ** 2, quaternions)
    _rotate(quaternions, offsets.reshape(-1), displacements)
    follow_surface(positions, neighbours, shares, displacements.reshape(offsets.shape), out)


@compiled_fused
def _replace_cancelled(strongest: Positions, least: float, quaternions: Floats) -> None:
    """Replace blended rotations that cancel out by the rotation of the pose of largest weight."""
    for i in range(len(quaternions) // 4):
        x, y = quaternions[4 * i], quaternions[4 * i + 1]
        z, w = quaternions[4 * i + 2], quaternions[4 * i + 3]
        if not x * x + y * y + z * z + w * w > least:
            for k in range(4 * i, 4 * i + 4):
                quaternions[k] = strongest[k]


@compiled_fused
def _blend(table: Positions, weights: Floats, out: Floats) -> None:
    """Write Σ w t into `out`, without poses of negligible weight."""
    out[:] = 0.0
    for pose in range(len(weights)):
        weight = weights[pose]
        if abs(weight) < NEGLIGIBLE_WEIGHT:
            continue
        row = table[pose]
        for i in range(len(out)):
            out[i] += weight * row[i]


@compiled_fused
def _rotate(quaternions: Floats, offsets: Floats, moved: Floats) -> None:
    """Replace d in `moved` by R (o + d); the quaternions need not have unit length."""
    for i in range(len(moved) // 3):
        qx, qy = quaternions[4 * i], quaternions[4 * i + 1]
        qz, qw = quaternions[4 * i + 2], quaternions[4 * i + 3]
        # R v = v + (w t + q × t) with t = 2 q × v / |q|².
        double = 2.0 / (qx * qx + qy * qy + qz * qz + qw * qw)
        x, y = offsets[3 * i] + moved[3 * i], offsets[3 * i + 1] + moved[3 * i + 1]
        z = offsets[3 * i + 2] + moved[3 * i + 2]
        tx, ty, tz = qy * z - qz * y, qz * x - qx * z, qx * y - qy * x
        moved[3 * i] = x + double * (qw * tx + (qy * tz - qz * ty))
        moved[3 * i + 1] = y + double * (qw * ty + (qz * tx - qx * tz))
        moved[3 * i + 2] = z + double * (qw * tz + (qx * ty - qy * tx))
