"""Pose blend shapes: displacements before skinning that are linear in the joints' rotations.

Bodies in the layouts of SMPL and MANO have them: x = W(X + Σ_j Δ_j vec(R_j − 1), θ), with R_j the
rotation of joint j relative to its rest and nine displacements Δ_j of every vertex for it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.arrays import Floats, Ints, ShortInts
from supple.checks import owned_array
from supple.compiled.jit import compiled, compiled_plain
from supple.errors import SuppleError
from supple.maths.quaternions import exponential, to_matrix
from supple.rig.placement.placement import (
    DeformingPlacement,
    Forkable,
    Placement,
    Positions,
    placement,
    writable,
)
from supple.rig.protocol import checked_points, checked_pose, checked_subset
from supple.rig.skeleton.skinning import SkinnedRig

#: Entries of R − 1 of each joint.
FEATURES = 9
#: Joints turned less than this move nothing: R − 1 would be lost in rounding.
NEGLIGIBLE = 1e-14
#: Vertices taken at a time: their sums stay in the nearest cache.
BLOCK = 256
#: Displacements below this part of the body do not show in single precision.
INVISIBLE = 1e-9


class PoseBlendShapeRig:
    """A skinned rig whose bound positions are displaced by the rotations of its joints.

    Parameters
    ----------
    base : SkinnedRig
        Moves the displaced points; it has the pose, which stays as it is.
    deltas : (d, 9, n, 3) array
        Displacement of every vertex for each entry of R_j − 1, row by row, of d joints.
    joints : (d,) ints
        The joints that displace; each of them once.

    Examples
    --------
    >>> from supple.rig import JointPose, Skeleton
    >>> arm = Skeleton(["upper", "fore"], [-1, 0], [[0, 0, 0], [1.0, 0, 0]])
    >>> bind = np.linalg.inv(arm.rest_world())
    >>> skin = SkinnedRig(JointPose(arm), [[0.5, 0.1, 0]], [[0]], [[1.0]], bind)
    >>> deltas = np.zeros((1, 9, 1, 3))
    >>> deltas[0, 0, 0, 1] = -0.1  # bulges as the elbow turns: R_xx − 1 = −1 at a right angle
    >>> rig = PoseBlendShapeRig(skin, deltas, [1])
    >>> rig([0, 0, 0, 0, 0, np.pi / 2]).round(3)
    array([[0.5, 0.2, 0. ]])
    """

    def __init__(self, base: SkinnedRig, deltas: ArrayLike, joints: ArrayLike) -> None:
        if not isinstance(base, SkinnedRig):
            kind = type(base).__name__
            raise SuppleError(f"pose blend shapes stand on a skinned rig; a {kind} is none")
        self.base = base
        self.joints = _checked_joints(joints, base.skeleton.n_joints)
        shape = (len(self.joints), FEATURES, base.n_vertices, 3)
        self.deltas = owned_array("pose blend shapes", deltas, shape)
        self.parameters = base.parameters
        self.rest_pose = base.rest_pose
        #: Places of the joints' rotation vectors in the pose, (d, 3); -1 for locked channels.
        self.entries: Ints = np.ascontiguousarray(base.joint_pose.entries()[self.joints, :3])
        self._whole: _Table | None = None

    def __repr__(self) -> str:
        return f"PoseBlendShapeRig({len(self.joints)} joints on {self.base!r})"

    @property
    def n_vertices(self) -> int:
        """Number of vertices."""
        return self.base.n_vertices

    @property
    def rest_points(self) -> Floats:
        """Bound positions of the skin, to which displacements are added."""
        return self.base.rest_points

    def __call__(self, pose: ArrayLike, vertices: ArrayLike | None = None) -> Floats:
        """Return positions of all vertices or of the listed ones."""
        subset = checked_subset(vertices, self.n_vertices)
        points = self.rest_points if subset is None else self.rest_points[subset]
        return self._run(points, pose, subset)

    def deform(
        self, points: ArrayLike, pose: ArrayLike, vertices: ArrayLike | None = None
    ) -> Floats:
        """Return positions of the vertices were they bound at `points`; see `Deformer`."""
        subset = checked_subset(vertices, self.n_vertices)
        return self._run(checked_points(points, subset, self.n_vertices), pose, subset)

    def placement(self, vertices: Ints | None = None, *, single: bool = False) -> Placement:
        """Return a placement of the listed vertices, or of all; see `Placement`."""
        base = placement(self.base, vertices, single=single)
        assert isinstance(base, DeformingPlacement)
        rows = slice(None) if vertices is None else vertices
        table = _table(self.deltas[:, :, rows], self.entries, _size(self.rest_points), single)
        return PoseBlendPlacement(base, self.rest_points[rows], table)

    def by_turns(self) -> TurnDisplacements:
        """Return the displacements by turns of the joints, for whoever has these and no pose."""
        table = _table(self.deltas, self.entries, _size(self.rest_points), False)
        return TurnDisplacements(table)

    def _run(self, points: Floats, pose: ArrayLike, subset: Ints | None) -> Floats:
        values = checked_pose(self.parameters, pose)
        return self.base.deform(self.shaped(points, values, subset), values, subset)

    def shaped(self, points: Floats, pose: Floats, subset: Ints | None = None) -> Floats:
        """Add the displacements of the vertices at a pose to `points`."""
        own, out = writable(pose), points.copy()
        if subset is not None:
            _add_listed(own, self.entries, self.deltas, subset, out)
            return out
        if self._whole is None:
            self._whole = _table(self.deltas, self.entries, _size(self.rest_points), False)
        _add_posed(own, *self._whole, np.empty((len(self.joints), FEATURES)), _block(), out)
        return out


class _Table(NamedTuple):
    """Displacements by joint: only the vertices that a joint displaces are listed."""

    entries: Ints
    """(d, 3) places of rotation vectors in the pose."""
    starts: Ints
    """(d + 1,) first entry of each joint in `moved`, and the end of the last."""
    moved: ShortInts
    """Vertices that each joint displaces, one joint after another."""
    rows: NDArray[np.floating]
    """Their displacements: of each joint (9, 3 k), flat."""


def _table(deltas: Floats, entries: Ints, size: float, single: bool) -> _Table:
    """Return the table of displacements (d, 9, k, 3)."""
    least = INVISIBLE * size if single else 0.0
    touched = np.asarray((np.abs(deltas) > least).any(axis=(1, 3)))
    listed = [np.flatnonzero(row).astype(np.int32) for row in touched]
    pieces = [deltas[j][:, own].ravel() for j, own in enumerate(listed)]
    rows = np.concatenate([np.empty(0), *pieces])
    half = rows.astype(np.float32)
    # Half as much to read where single precision is all there is, as in most files.
    kept: NDArray[np.floating] = half if single or np.array_equal(half, rows) else rows
    starts = np.concatenate([[0], np.cumsum([len(own) for own in listed])]).astype(np.int64)
    return _Table(entries, starts, np.concatenate([np.empty(0, np.int32), *listed]), kept)


class PoseBlendPlacement(Forkable):
    """Placement of pose blend shapes: displaced points, moved by the skin behind.

    Parameters
    ----------
    base
        Placement of the skin.
    points
        (k, 3) bound positions.
    table
        Displacements of these vertices.
    """

    _forked = ("_base",)

    def __init__(self, base: DeformingPlacement, points: Floats, table: _Table) -> None:
        self._base, self._points, self._table = base, np.ascontiguousarray(points), table
        self._allocate()

    def _allocate(self) -> None:
        self._shaped, self._block = np.empty((self.n_points, 3)), _block()
        self._features = np.empty((len(self._table.entries), FEATURES))

    @property
    def n_points(self) -> int:
        """Number of vertices placed."""
        return self._base.n_points

    def place(self, pose: Floats, out: Positions) -> None:
        """Write the positions (k, 3) at a pose."""
        self.deform(self._points, pose, out)

    def deform(self, points: Floats, pose: Floats, out: Positions) -> None:
        """Displace and move vertices from `points` (k, 3)."""
        own = writable(pose)
        np.copyto(self._shaped, points)
        _add_posed(own, *self._table, self._features, self._block, self._shaped)
        self._base.deform(self._shaped, own, out)


class TurnDisplacements:
    """Displacements of pose blend shapes by turns of their joints.

    Parameters
    ----------
    table
        Displacements of the vertices.
    """

    def __init__(self, table: _Table) -> None:
        self._table, self._block = table, _block()

    def add(self, features: Floats, out: Floats) -> None:
        """Add Σ_j Δ_j vec(R_j − 1) to `out` (n, 3), of features vec(R_j − 1) (d, 9)."""
        _add_displacements(features, *self._table[1:], self._block, out)


def _checked_joints(joints: ArrayLike, count: int) -> Ints:
    listed = np.asarray(joints)
    if listed.size == 0:
        return np.empty(0, np.int64)
    if listed.ndim != 1 or listed.dtype.kind not in "iu":
        raise SuppleError("the joints of pose blend shapes must be a list of indices")
    if int(listed.min()) < 0 or int(listed.max()) >= count:
        raise SuppleError(f"pose blend shapes of joint {listed.max()}; the skeleton has {count}")
    if len(np.unique(listed)) < len(listed):
        raise SuppleError("a joint has two sets of pose blend shapes; add them up")
    return listed.astype(np.int64)


def _block() -> Floats:
    return np.empty(3 * BLOCK)


def _size(points: Floats) -> float:
    return float(np.abs(points).max(initial=0.0))


@compiled
def rotation_features(pose: Floats, entries: Ints, joint: int, out: Floats) -> float:
    """Write vec(R − 1) (9,) of one joint at a pose, and return its largest entry."""
    vector, turn, matrix = np.zeros(3), np.empty(4), np.empty((3, 3))
    for axis in range(3):
        if entries[joint, axis] >= 0:
            vector[axis] = pose[entries[joint, axis]]
    exponential(vector, turn)
    to_matrix(turn, matrix)
    largest = 0.0
    for i in range(3):
        for k in range(3):
            much = matrix[i, k] - (1.0 if i == k else 0.0)
            out[3 * i + k] = much
            largest = max(largest, abs(much))
    return largest


@compiled
def _add_posed(
    pose: Floats,
    entries: Ints,
    starts: Ints,
    moved: ShortInts,
    rows: Positions,
    features: Floats,
    block: Floats,
    out: Floats,
) -> None:
    """Add Σ_j Δ_j vec(R_j − 1) at a pose to `out` (k, 3); see `_Table`."""
    for joint in range(len(entries)):
        rotation_features(pose, entries, joint, features[joint])
    _add_displacements(features, starts, moved, rows, block, out)


@compiled_plain
def _add_displacements(
    features: Floats, starts: Ints, moved: ShortInts, rows: Positions, block: Floats, out: Floats
) -> None:
    """Add Σ_j Δ_j f_j of features (d, 9) to `out` (k, 3)."""
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
                vertex = moved[first + begin + i]
                for axis in range(3):
                    out[vertex, axis] += piece[3 * i + axis]


@compiled
def _add_listed(pose: Floats, entries: Ints, deltas: Floats, listed: Ints, out: Floats) -> None:
    """Add Σ_j Δ_j vec(R_j − 1) of the listed vertices to `out` (k, 3), to the same bits."""
    features = np.empty(9)
    for joint in range(len(entries)):
        if rotation_features(pose, entries, joint, features) <= NEGLIGIBLE:
            continue
        for i in range(len(listed)):
            for axis in range(3):
                much = 0.0
                for k in range(9):
                    much += features[k] * deltas[joint, k, listed[i], axis]
                out[i, axis] += much


@compiled_plain
def _add_three(much: Floats, rows: Positions, start: int, stride: int, out: Floats) -> None:
    """Add three rows, each times its number."""
    a, b, c, count = much[0], much[1], much[2], len(out)
    first = rows[start : start + count]
    second = rows[start + stride : start + stride + count]
    third = rows[start + 2 * stride : start + 2 * stride + count]
    for i in range(count):
        out[i] = out[i] + a * first[i] + b * second[i] + c * third[i]
