"""Pose blend shapes: displacements before skinning that are linear in the joints' rotations.

Bodies in the layouts of SMPL and MANO have them: x = W(X + Σ_j Δ_j vec(R_j − 1), θ), with R_j the
rotation of joint j relative to its rest and nine displacements Δ_j of every vertex for it.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.arrays import Floats, Ints, ShortInts
from supple.checks import owned_array
from supple.compiled.jit import compiled, compiled_plain
from supple.compiled.program import KernelCall
from supple.errors import SuppleError
from supple.maths.quaternions import exponential, to_matrix
from supple.rig.deformers.blend_shapes import DisplacingPlacement, DisplacingRig, apply_frames
from supple.rig.jacobian import Jacobian, LinkJacobian, analytic_jacobian
from supple.rig.placement.placement import (
    DeformingPlacement,
    Placement,
    Positions,
    copy_numbers,
    placement,
    writable,
)
from supple.rig.placement.pose_corrections import single_if_exact
from supple.rig.protocol import TetTransfer
from supple.rig.skeleton.skin_jacobian import right_jacobian_column
from supple.rig.skeleton.skinning import SkinnedRig
from supple.rig.stored.field_reader import INDEX, Field
from supple.rig.stored.schema import Array, PackedRows, PartOf, vertex_count

#: Entries of R − 1 of each joint.
FEATURES = 9
#: Joints whose entries of R − 1 are at most this are skipped: they would be lost in rounding.
NEGLIGIBLE = 1e-14
#: Vertices of a block, whose sums stay in the nearest cache.
BLOCK = 256
#: Displacements below this fraction of the size do not show in single precision.
INVISIBLE = 1e-9


class PoseBlendShapeRig(DisplacingRig):
    """A skinned rig whose bound positions are displaced by the rotations of its joints.

    Parameters
    ----------
    base : SkinnedRig
        Rig that moves the displaced points and defines the parameters.
    deltas : (d, 9, n, 3) array
        Displacement of every vertex for each entry of R_j − 1, row by row, of d joints.
    joints : (d,) ints
        Indices of the d joints, without repetition.

    Examples
    --------
    >>> from supple.rig import JointPose, Skeleton
    >>> arm = Skeleton(["upper", "fore"], [-1, 0], [[0, 0, 0], [1.0, 0, 0]])
    >>> bind = np.linalg.inv(arm.rest_world())
    >>> skin = SkinnedRig(JointPose(arm), [[0.5, 0.1, 0]], [[0]], [[1.0]], bind)
    >>> deltas = np.zeros((1, 9, 1, 3))
    >>> deltas[0, 0, 0, 1] = -0.1  # bulges as the elbow bends: R_xx − 1 = −1 at a right angle
    >>> rig = PoseBlendShapeRig(skin, deltas, [1])
    >>> rig([0, 0, 0, 0, 0, np.pi / 2]).round(3)
    array([[0.5, 0.2, 0. ]])
    """

    base: SkinnedRig

    def __init__(self, base: SkinnedRig, deltas: ArrayLike, joints: ArrayLike) -> None:
        if not isinstance(base, SkinnedRig):
            kind = type(base).__name__
            raise SuppleError(f"pose blend shapes need a skinned rig, not a {kind}")
        self.base = base
        self.joints = _checked_joints(joints, base.skeleton.n_joints)
        shape = (len(self.joints), FEATURES, base.n_vertices, 3)
        self.deltas = owned_array("pose blend shapes", deltas, shape)
        self.parameters = base.parameters
        self.rest_pose = base.rest_pose
        #: Indices of the joints' rotation vectors in the pose, (d, 3); -1 for locked channels.
        self.entries: Ints = np.ascontiguousarray(base.joint_pose.entries()[self.joints, :3])
        self._all_vertices: _Table | None = None

    def __repr__(self) -> str:
        return f"PoseBlendShapeRig({len(self.joints)} joints on {self.base!r})"

    def shaped_at(self, points: Floats, pose: Floats, subset: Ints | None = None) -> Floats:
        """Return `points` plus the displacements of the vertices at a pose."""
        values, out = writable(pose), points.copy()
        if subset is not None:
            _add_listed(values, self.entries, self.deltas, subset, out)
            return out
        if self._all_vertices is None:
            self._all_vertices = _table(self.deltas, self.entries, _size(self.rest_points), False)
        _add_posed(
            values, self._all_vertices, np.empty((len(self.joints), FEATURES)), _block(), out
        )
        return out

    def placement(self, vertices: Ints | None = None, *, single: bool = False) -> Placement:
        """Return a placement of the listed vertices, or of all; see `Placement`."""
        base = placement(self.base, vertices, single=single)
        assert isinstance(base, DeformingPlacement)
        rows = slice(None) if vertices is None else vertices
        table = _table(self.deltas[:, :, rows], self.entries, _size(self.rest_points), single)
        return PoseBlendPlacement(base, self.rest_points[rows], table, len(self.parameters))

    def rotation_displacements(self) -> RotationDisplacements:
        """Return the displacements as a function of the joints' rotations, without a pose."""
        table = _table(self.deltas, self.entries, _size(self.rest_points), False)
        return RotationDisplacements(table)

    def jacobian(self, entries: Ints, vertices: Ints | None = None) -> Jacobian | None:
        """Return the analytic Jacobian on a linear skin; None for dual quaternions."""
        skin = analytic_jacobian(self.base, entries, vertices)
        if not isinstance(skin, LinkJacobian):
            return None
        return _PoseBlendJacobian(self, skin, entries, vertices)

    def on_tets(self, transfer: TetTransfer) -> PoseBlendShapeRig:
        """Return the rig of the tet vertices, with displacements extended from the surface."""
        base = self.base.on_tets(transfer)
        return PoseBlendShapeRig(base, transfer.extended_displacements(self.deltas), self.joints)

    stored_fields: ClassVar[tuple[Field, ...]] = (
        PartOf("base", SkinnedRig, vertex_count),
        Array("joints", INDEX, ("joints",)),
        PackedRows("deltas", ("joints", FEATURES, "n", 3)),
    )


class _Table(NamedTuple):
    """Displacements by joint, of those vertices only that the joint displaces."""

    entries: Ints
    """(d, 3) indices of rotation vectors in the pose."""
    starts: Ints
    """(d + 1,) first entry of each joint in `vertices`, and the end of the last."""
    vertices: ShortInts
    """Vertices that each joint displaces, one joint after another."""
    rows: NDArray[np.floating]
    """Displacements of `vertices`: (9, 3 k) for each joint, flat."""


def _table(deltas: Floats, entries: Ints, size: float, single: bool) -> _Table:
    """Return the table of displacements (d, 9, k, 3).

    With `single`, vertices displaced by at most `INVISIBLE` times `size` metres are left out.
    """
    least = INVISIBLE * size if single else 0.0
    touched = np.asarray((np.abs(deltas) > least).any(axis=(1, 3)))
    listed = [np.flatnonzero(row).astype(np.int32) for row in touched]
    pieces = [deltas[j][:, vertices].ravel() for j, vertices in enumerate(listed)]
    rows = np.concatenate([np.empty(0), *pieces])
    counts = [len(vertices) for vertices in listed]
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    displaced = np.concatenate([np.empty(0, np.int32), *listed])
    return _Table(entries, starts, displaced, single_if_exact(rows, single))


class PoseBlendPlacement(DisplacingPlacement):
    """Placement of pose blend shapes; `table` has the displacements of its vertices."""

    def __init__(self, base: DeformingPlacement, points: Floats, table: _Table, split: int) -> None:
        self._table = table
        super().__init__(base, points, split)

    def _allocate(self) -> None:
        super()._allocate()
        self._block = _block()
        self._features = np.zeros((len(self._table.entries), FEATURES))

    def _displace(self, points: Floats, pose: Floats) -> None:
        np.copyto(self._shaped, points)
        _add_posed(pose, self._table, self._features, self._block, self._shaped)

    def _displacing_calls(self, points: Floats, pose: Floats) -> list[KernelCall]:
        written = self._features, self._block, self._shaped
        return [
            KernelCall(copy_numbers, (points, self._shaped), (self._shaped,)),
            KernelCall(_add_posed, (pose, self._table, *written), written),
        ]


class _PoseBlendJacobian:
    """Jacobian of the skin at the displaced points, plus A Δ_j vec(∂R_j/∂p).

    A (m, 3, 3) is the blend of the joints' linear parts for each vertex.
    """

    affine = False

    def __init__(
        self, rig: PoseBlendShapeRig, skin: LinkJacobian, entries: Ints, vertices: Ints | None
    ) -> None:
        rows = slice(None) if vertices is None else vertices
        self._rig, self._skin, self._vertices = rig, skin, vertices
        self._points = np.ascontiguousarray(rig.rest_points[rows])
        self._frames = np.empty((len(self._points), 3, 3))
        channels = {int(at): (j, a) for (j, a), at in np.ndenumerate(rig.entries) if at >= 0}
        #: Columns of the Jacobian whose parameter rotates a joint with displacements.
        self._columns = np.array([k for k, e in enumerate(entries) if int(e) in channels], np.int64)
        rotating = [channels[int(entries[k])] for k in self._columns]
        self._rotating = np.array(rotating, np.int64).reshape(-1, 2)
        self._deltas = [
            np.ascontiguousarray(rig.deltas[j][:, rows].reshape(9, -1).T) for j, _ in rotating
        ]
        self._slopes = np.empty((len(rotating), 9))
        self._moves = np.empty((len(self._points), 3, len(rotating)))
        self._skinned_moves = np.empty_like(self._moves)

    def evaluate(self, pose: Floats, out: Floats) -> None:
        """Write ∂x/∂p (m, 3, k) at a pose."""
        shaped = self._rig.shaped_at(self._points, pose, self._vertices)
        self._skin.evaluate_points(shaped, pose, out)
        if not len(self._columns):
            return
        _rotation_slopes(pose, self._rig.entries, self._rotating, self._slopes)
        for column, (deltas, slope) in enumerate(zip(self._deltas, self._slopes, strict=True)):
            self._moves[:, :, column] = (deltas @ slope).reshape(-1, 3)
        self._skin.write_slopes(shaped, pose, self._frames)
        apply_frames(self._frames, self._moves, self._skinned_moves)
        out[:, :, self._columns] += self._skinned_moves


@compiled
def _rotation_slopes(pose: Floats, entries: Ints, rotating: Ints, out: Floats) -> None:
    """Write vec(∂R_j/∂ω_a) (k, 9) of joints and axes (k, 2): R [J(ω) e_a]ₓ."""
    vector, q, none = np.empty(3), np.empty(4), np.array([0.0, 0.0, 0.0, 1.0])
    matrix, generator = np.empty((3, 3)), np.zeros((3, 3))
    for k in range(len(rotating)):
        joint, axis = rotating[k]
        for i in range(3):
            vector[i] = pose[entries[joint, i]] if entries[joint, i] >= 0 else 0.0
        exponential(vector, q)
        to_matrix(q, matrix)
        right_jacobian_column(q, none, axis, generator)
        out[k] = (matrix @ generator).ravel()


class RotationDisplacements:
    """Displacements of pose blend shapes as a function of their joints' rotations."""

    def __init__(self, table: _Table) -> None:
        self._table, self._block = table, _block()

    def add(self, features: Floats, out: Floats) -> None:
        """Add Σ_j Δ_j vec(R_j − 1) to `out` (n, 3), of features vec(R_j − 1) (d, 9)."""
        _add_displacements(features, self._table, self._block, out)


def _checked_joints(joints: ArrayLike, count: int) -> Ints:
    listed = np.asarray(joints)
    if listed.size == 0:
        return np.empty(0, np.int64)
    if listed.ndim != 1 or listed.dtype.kind not in "iu":
        raise SuppleError("the joints of pose blend shapes must be a list of indices")
    if int(listed.min()) < 0 or int(listed.max()) >= count:
        raise SuppleError(f"joints of pose blend shapes must be 0 to {count - 1}")
    if len(np.unique(listed)) < len(listed):
        raise SuppleError("a joint has two sets of pose blend shapes; add them up")
    return listed.astype(np.int64)


def _block() -> Floats:
    return np.zeros(3 * BLOCK)


def _size(points: Floats) -> float:
    return float(np.abs(points).max(initial=0.0))


@compiled
def rotation_features(pose: Floats, entries: Ints, joint: int, out: Floats) -> float:
    """Write vec(R − 1) (9,) of one joint at a pose, and return its largest absolute entry."""
    # The result's memory is scratch for the vector and the quaternion.
    vector, quaternion, matrix = out[:3], out[4:8], out.reshape(3, 3)
    for axis in range(3):
        vector[axis] = pose[entries[joint, axis]] if entries[joint, axis] >= 0 else 0.0
    exponential(vector, quaternion)
    to_matrix(quaternion, matrix)
    largest = 0.0
    for i in range(3):
        for k in range(3):
            entry = matrix[i, k] - (1.0 if i == k else 0.0)
            out[3 * i + k] = entry
            largest = max(largest, abs(entry))
    return largest


@compiled
def _add_posed(pose: Floats, table: _Table, features: Floats, block: Floats, out: Floats) -> None:
    """Add Σ_j Δ_j vec(R_j − 1) at a pose to `out` (k, 3); see `_Table`."""
    for joint in range(len(table.entries)):
        rotation_features(pose, table.entries, joint, features[joint])
    _add_displacements(features, table, block, out)


@compiled_plain
def _add_displacements(features: Floats, table: _Table, block: Floats, out: Floats) -> None:
    """Add Σ_j Δ_j f_j of features (d, 9) to `out` (k, 3)."""
    starts, vertices, rows = table.starts, table.vertices, table.rows
    for joint in range(len(features)):
        first, count, largest = starts[joint], starts[joint + 1] - starts[joint], 0.0
        for k in range(9):
            largest = max(largest, abs(features[joint, k]))
        if count == 0 or largest <= NEGLIGIBLE:
            continue
        at = 27 * first
        for begin in range(0, count, BLOCK):
            many = min(BLOCK, count - begin)
            piece = block[: 3 * many]
            piece[:] = 0.0
            for k in range(0, 9, 3):
                start = at + 3 * (k * count + begin)
                _add_three(features[joint, k : k + 3], rows, start, 3 * count, piece)
            for i in range(many):
                vertex = vertices[first + begin + i]
                for axis in range(3):
                    out[vertex, axis] += piece[3 * i + axis]


@compiled
def _add_listed(pose: Floats, entries: Ints, deltas: Floats, listed: Ints, out: Floats) -> None:
    """Add Σ_j Δ_j vec(R_j − 1) of listed vertices to `out` (k, 3), same bits as `_add_posed`."""
    features = np.empty(9)
    for joint in range(len(entries)):
        if rotation_features(pose, entries, joint, features) <= NEGLIGIBLE:
            continue
        for i in range(len(listed)):
            for axis in range(3):
                total = 0.0
                for k in range(9):
                    total += features[k] * deltas[joint, k, listed[i], axis]
                out[i, axis] += total


@compiled_plain
def _add_three(factors: Floats, rows: Positions, start: int, stride: int, out: Floats) -> None:
    """Add three rows of a table, `stride` apart from `start`, each times its factor, to `out`."""
    a, b, c, count = factors[0], factors[1], factors[2], len(out)
    first = rows[start : start + count]
    second = rows[start + stride : start + stride + count]
    third = rows[start + 2 * stride : start + 2 * stride + count]
    for i in range(count):
        out[i] = out[i] + a * first[i] + b * second[i] + c * third[i]
