"""Jacobians of rigs, analytic where the rig's kind is known and differences otherwise."""

from __future__ import annotations

import itertools

import numpy as np

from supple.arrays import Floats, Ints, ShortInts
from supple.compiled.jit import compiled
from supple.maths.quaternions import exponential, to_matrix
from supple.rig.deformers.blend_shapes import BlendShapeRig
from supple.rig.deformers.chain import RigChain
from supple.rig.deformers.pose_blend_shapes import PoseBlendShapeRig
from supple.rig.deformers.pose_space_deformation import PoseSpaceDeformation
from supple.rig.deformers.wire import Wire
from supple.rig.jacobians.chain_jacobian import ChainJacobian, DifferencedLink, LinkJacobian
from supple.rig.jacobians.differences import DifferencedJacobian, Jacobian
from supple.rig.jacobians.skin_jacobian import (
    SkinJacobian,
    blend_frames,
    right_jacobian_column,
)
from supple.rig.jacobians.wire_jacobian import WireJacobian
from supple.rig.placement.placement import DeformingPlacement, Positions, placement
from supple.rig.poses.pose_weights import PoseWeights
from supple.rig.protocol import Rig
from supple.rig.skeleton.skinning import SkinnedRig
from supple.rig.stored.tet_parts import RestoredCarriedRig, RestoredShepardRig
from supple.rig.tets.carried_weights import CarriedRig
from supple.rig.tets.shepard import ShepardRig
from supple.rig.tets.tet_rig import TetRig


def rig_jacobian(
    rig: Rig, entries: Ints, vertices: Ints | None = None, *, differences: bool = False
) -> Jacobian:
    """Return the Jacobian of a rig's vertices by some of its parameters.

    Parameters
    ----------
    rig
        Linear skinning, blend shapes and pose blend shapes on it, wires, pose-space corrections and
        chains of these have derivatives of their own, also carried to tets; all others are
        differenced, in a chain each by its own parameters.
    entries
        (k,) places of the parameters in the pose.
    vertices
        Indices of vertices (m,); None for all.
    differences
        Take differences whatever the rig is: two placements for each parameter.

    Examples
    --------
    >>> from supple.rig import Wire
    >>> wire = Wire([[0.5, 0, 0]], [[0, 0, 0], [1, 0, 0]], dropoff=1)
    >>> found = np.empty((1, 3, 2))
    >>> rig_jacobian(wire, np.array([2, 5])).evaluate(np.zeros(6), found)
    >>> found[0, 2]
    array([0.5, 0.5])
    """
    entries = np.asarray(entries, np.int64)
    if not differences:
        found = _analytic(rig, entries, vertices)
        if found is not None:
            return found
    return DifferencedJacobian(rig, entries, vertices)


def _analytic(rig: Rig, entries: Ints, vertices: Ints | None) -> Jacobian | None:
    """Return a Jacobian for a rig of a known class: a subclass may do something else."""
    kind = type(rig)
    if kind is TetRig:
        return _analytic_tets(rig, entries, vertices)  # type: ignore[arg-type]
    if kind in (ShepardRig, RestoredShepardRig):
        return _FollowedJacobian(rig, entries, vertices)  # type: ignore[arg-type]
    if kind in (CarriedRig, RestoredCarriedRig) and rig._core.method == "linear":  # type: ignore[attr-defined]
        return _CarriedJacobian(rig, entries, vertices)  # type: ignore[arg-type]
    if kind is SkinnedRig and rig.method == "linear":  # type: ignore[attr-defined]
        return SkinJacobian(rig, entries, vertices)  # type: ignore[arg-type]
    if kind is Wire:
        return WireJacobian(rig, entries, vertices)  # type: ignore[arg-type]
    if kind is BlendShapeRig:
        base = rig.base  # type: ignore[attr-defined]
        if type(base) is SkinnedRig and base.method == "linear":
            return ShapeJacobian(rig, entries, vertices)  # type: ignore[arg-type]
    if kind is PoseBlendShapeRig and rig.base.method == "linear":  # type: ignore[attr-defined]
        return _PoseBlendJacobian(rig, entries, vertices)  # type: ignore[arg-type]
    if kind is RigChain:
        return _chained(rig, entries, vertices)  # type: ignore[arg-type]
    if kind is PoseSpaceDeformation:
        return _CorrectedJacobian(rig, entries, vertices)  # type: ignore[arg-type]
    return None


def _analytic_tets(rig: TetRig, entries: Ints, vertices: Ints | None) -> Jacobian | None:
    if np.any(rig.corrections):  # fitted ones turn with the flesh
        return None
    return rig_jacobian(rig.start, entries, vertices)


def _chained(rig: RigChain, entries: Ints, vertices: Ints | None) -> Jacobian | None:
    placements = [placement(link, vertices) for link in rig.rigs]
    behind = placements[1:]
    if not all(isinstance(each, DeformingPlacement) for each in behind):
        return None
    ends = np.cumsum([0, *(len(link.parameters) for link in rig.rigs)])
    own = [entries[(entries >= a) & (entries < b)] - a for a, b in itertools.pairwise(ends)]
    links: list[LinkJacobian] = []
    for link, placed, each in zip(rig.rigs[1:], behind, own[1:], strict=True):
        found = _analytic(link, each, vertices)
        known = isinstance(found, (SkinJacobian, ShapeJacobian, WireJacobian))
        links.append(found if known else DifferencedLink(placed, each))  # type: ignore[arg-type]
    first = rig_jacobian(rig.rigs[0], own[0], vertices)
    return ChainJacobian(first, links, placements, ends, entries)


class _FollowedJacobian:
    """S ∂Φ̄/∂p: tet vertices follow their nearest surface vertices."""

    def __init__(self, rig: ShepardRig, entries: Ints, vertices: Ints | None) -> None:
        needed, rows = rig._rows.of(vertices)
        self._inner = rig_jacobian(rig.rig, entries, needed.copy())
        self.affine = self._inner.affine
        self._rows = rows.indptr.astype(np.int32), rows.indices.astype(np.int32), rows.data
        self._surface = np.empty((len(needed), 3, len(entries)))

    def evaluate(self, pose: Floats, out: Floats) -> None:
        """Write ∂Φ/∂p (m, 3, k)."""
        self._inner.evaluate(pose, self._surface)
        out[...] = 0.0
        add_rows(*self._rows, self._surface, out)


class _CarriedJacobian:
    """∂x/∂p of skinned tets, and S times what a chain adds to the skinning of the surface."""

    def __init__(self, rig: CarriedRig, entries: Ints, vertices: Ints | None) -> None:
        start, stop = rig._own.start, rig._own.stop
        skeletal = np.flatnonzero((entries >= start) & (entries < stop))
        self._own = slice(start, stop)
        self._skin = SkinJacobian(rig.skinned, entries[skeletal] - start, vertices)
        self._skeletal = skeletal
        count = rig.n_vertices if vertices is None else len(vertices)
        self._skinned = np.empty((count, 3, len(skeletal)))
        self._inner: Jacobian | None = None
        if rig._rows is not None:
            needed, rows = rig._rows.of(vertices)
            self._inner = rig_jacobian(rig.rig, entries, needed.copy())
            self._core = SkinJacobian(rig._core, entries[skeletal] - start, needed.copy())
            self._rows = rows.indptr.astype(np.int32), rows.indices.astype(np.int32), rows.data
            self._surface = np.empty((len(needed), 3, len(entries)))
            self._bare = np.empty((len(needed), 3, len(skeletal)))
        self.affine = not len(skeletal) and (self._inner is None or self._inner.affine)

    def evaluate(self, pose: Floats, out: Floats) -> None:
        """Write ∂Φ/∂p (m, 3, k)."""
        out[...] = 0.0
        own = np.ascontiguousarray(pose[self._own])
        if len(self._skeletal):
            self._skin.evaluate(own, self._skinned)
            out[:, :, self._skeletal] = self._skinned
        if self._inner is None:
            return
        self._inner.evaluate(pose, self._surface)
        if len(self._skeletal):
            self._core.evaluate(own, self._bare)
            self._surface[:, :, self._skeletal] -= self._bare
        add_rows(*self._rows, self._surface, out)


class ShapeJacobian:
    """Weights move a vertex by A δ, with A the blend of its joints' linear parts.

    Parameters
    ----------
    rig
        Shapes on a linear skin.
    entries
        (k,) places of the parameters in its pose.
    vertices
        Indices of the vertices; None for all.
    """

    straight = True

    def __init__(self, rig: BlendShapeRig, entries: Ints, vertices: Ints | None) -> None:
        rows = slice(None) if vertices is None else vertices
        base: SkinnedRig = rig.base  # type: ignore[assignment]
        self._split = len(base.parameters)
        self._shapes = np.flatnonzero(entries >= self._split)
        self._bones = np.flatnonzero(entries < self._split)
        self._skin = SkinJacobian(base, entries[self._bones], vertices)
        chosen = rig.deltas[entries[self._shapes] - self._split][:, rows]
        #: (m, 3, b) δ of those parameters that are weights.
        self.deltas = np.ascontiguousarray(chosen.transpose(1, 2, 0))
        self._rig, self._vertices = rig, vertices
        self._points = np.ascontiguousarray(rig.rest_points[rows])
        self._joints = np.ascontiguousarray(base.joints[rows])
        self._weights = np.ascontiguousarray(base.weights[rows])
        count = len(self._points)
        self._frames = np.empty((count, 3, 3))
        self._own = np.empty((count, 3, len(self._shapes) if len(self._bones) else 0))
        self._other = np.empty((count, 3, len(self._bones)))
        self.affine = not len(self._bones)

    def write_frames(self, pose: Floats, out: Positions) -> None:
        """Write A (m, 3, 3) of every vertex at a pose."""
        bones = np.ascontiguousarray(pose[: self._split])
        matrices = self._rig.base.skin_matrices(bones)  # type: ignore[attr-defined]
        blend_frames(self._joints, self._weights, matrices, out)

    def write_slopes(self, points: Floats, pose: Floats, out: Positions) -> None:
        """Write ∂x/∂X (m, 3, 3), which is A wherever points are."""
        self.write_frames(pose, out)

    def evaluate(self, pose: Floats, out: Floats) -> None:
        """Write ∂x/∂p (m, 3, k) at a pose."""
        self.evaluate_points(self._points, pose, out)

    def evaluate_points(self, points: Floats, pose: Floats, out: Floats) -> None:
        """Write ∂x/∂p (m, 3, k) for vertices that are at `points` (m, 3) before."""
        self.write_frames(pose, self._frames)
        alone = not len(self._bones)
        _turned_deltas(self._frames, self.deltas, out if alone else self._own)
        if alone:
            return
        shaped = self._rig.shaped(points, pose[self._split :].copy(), self._vertices)
        self._skin.evaluate_points(shaped, pose[: self._split].copy(), self._other)
        out[:, :, self._shapes] = self._own
        out[:, :, self._bones] = self._other


class _PoseBlendJacobian:
    """The skin's at the displaced points, and A Δ_j vec(∂R_j/∂p) of pose blend shapes."""

    affine = False

    def __init__(self, rig: PoseBlendShapeRig, entries: Ints, vertices: Ints | None) -> None:
        rows = slice(None) if vertices is None else vertices
        self._rig, self._vertices = rig, vertices
        self._skin = SkinJacobian(rig.base, entries, vertices)
        self._points = np.ascontiguousarray(rig.rest_points[rows])
        self._frames = np.empty((len(self._points), 3, 3))
        places = {int(at): (j, a) for (j, a), at in np.ndenumerate(rig.entries) if at >= 0}
        #: Columns of the Jacobian whose parameter turns a joint that displaces.
        self._columns = np.array([k for k, e in enumerate(entries) if int(e) in places], np.int64)
        turning = [places[int(entries[k])] for k in self._columns]
        self._turning = np.array(turning, np.int64).reshape(-1, 2)
        self._deltas = [
            np.ascontiguousarray(rig.deltas[j][:, rows].reshape(9, -1).T) for j, _ in turning
        ]
        self._slopes = np.empty((len(turning), 9))
        self._moves = np.empty((len(self._points), 3, len(turning)))
        self._turned = np.empty_like(self._moves)

    def evaluate(self, pose: Floats, out: Floats) -> None:
        """Write ∂x/∂p (m, 3, k) at a pose."""
        shaped = self._rig.shaped(self._points, pose, self._vertices)
        self._skin.evaluate_points(shaped, pose, out)
        if not len(self._columns):
            return
        _rotation_slopes(pose, self._rig.entries, self._turning, self._slopes)
        for column, (deltas, slope) in enumerate(zip(self._deltas, self._slopes, strict=True)):
            self._moves[:, :, column] = (deltas @ slope).reshape(-1, 3)
        self._skin.write_slopes(shaped, pose, self._frames)
        _turned_deltas(self._frames, self._moves, self._turned)
        out[:, :, self._columns] += self._turned


class _CorrectedJacobian:
    """The base's, and Σ δ_i ∂w_i/∂p of pose-space corrections."""

    affine = False

    def __init__(self, rig: PoseSpaceDeformation, entries: Ints, vertices: Ints | None) -> None:
        rows = slice(None) if vertices is None else vertices
        self._inner = rig_jacobian(rig.base, entries, vertices)
        self._weights, self._entries = rig.pose_weights, entries
        self._deltas = np.ascontiguousarray(rig.corrections[:, rows].reshape(len(rig.poses), -1).T)

    def evaluate(self, pose: Floats, out: Floats) -> None:
        """Write ∂x/∂p (m, 3, k) at a pose."""
        self._inner.evaluate(pose, out)
        slopes = weight_slopes(self._weights, pose, self._entries)
        out += (self._deltas @ slopes).reshape(out.shape)


def weight_slopes(weights: PoseWeights, pose: Floats, entries: Ints) -> Floats:
    """∂w/∂p (m, k) of pose weights w = (C d + c) / Σ, d_j = ‖p − p_j‖ in the pose metric.

    Distances have no slope at their pose, and count as level there.
    """
    if (weights.scales < 0).any():
        return _weight_differences(weights, pose, entries)
    away = pose * weights.scales - weights.scaled_poses
    distances = np.sqrt((away**2).sum(axis=1))
    safe = np.where(distances > 0, distances, 1.0)
    slopes = away[:, entries] * weights.scales[entries] / safe[:, None]
    slopes[distances == 0] = 0.0
    raw, change = weights.matrix @ distances + weights.constant, weights.matrix @ slopes
    if not weights.normalise:
        return np.asarray(change)
    total = raw.sum()
    return np.asarray((change - np.outer(raw / total, change.sum(axis=0))) / total)


def _weight_differences(weights: PoseWeights, pose: Floats, entries: Ints) -> Floats:
    """∂w/∂p (m, k) by central differences, for metrics of rotations that turn far."""
    slopes, step = np.empty((weights.n_poses, len(entries))), 1e-6
    for column, entry in enumerate(entries):
        ahead, behind = pose.copy(), pose.copy()
        ahead[entry] += step
        behind[entry] -= step
        slopes[:, column] = (weights(ahead) - weights(behind)) / (2 * step)
    return slopes


@compiled
def _rotation_slopes(pose: Floats, entries: Ints, turning: Ints, out: Floats) -> None:
    """Write vec(∂R_j/∂ω_a) (k, 9) of joints and axes (k, 2): R [J(ω) e_a]ₓ."""
    vector, q, none = np.empty(3), np.empty(4), np.array([0.0, 0.0, 0.0, 1.0])
    matrix, generator = np.empty((3, 3)), np.zeros((3, 3))
    for k in range(len(turning)):
        joint, axis = turning[k]
        for i in range(3):
            vector[i] = pose[entries[joint, i]] if entries[joint, i] >= 0 else 0.0
        exponential(vector, q)
        to_matrix(q, matrix)
        right_jacobian_column(q, none, axis, generator)
        out[k] = (matrix @ generator).ravel()


@compiled
def add_rows(
    starts: ShortInts, columns: ShortInts, shares: Floats, values: Floats, out: Floats
) -> None:
    """Add a sparse matrix times `values` (n, 3, k) to `out` (m, 3, k)."""
    for v in range(len(out)):
        for entry in range(starts[v], starts[v + 1]):
            row, share = values[columns[entry]], shares[entry]
            for i in range(3):
                for k in range(out.shape[2]):
                    out[v, i, k] += share * row[i, k]


@compiled
def _turned_deltas(frames: Floats, deltas: Floats, out: Floats) -> None:
    """Write A δ (m, 3, k)."""
    for v in range(len(out)):
        a, d = frames[v], deltas[v]
        for i in range(3):
            for k in range(out.shape[2]):
                out[v, i, k] = a[i, 0] * d[0, k] + a[i, 1] * d[1, k] + a[i, 2] * d[2, k]
