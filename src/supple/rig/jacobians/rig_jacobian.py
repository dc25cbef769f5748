"""Jacobians of rigs, analytic where the rig's kind is known and differences otherwise."""

from __future__ import annotations

import numpy as np

from supple.arrays import Floats, Ints, ShortInts
from supple.compiled.jit import compiled
from supple.rig.deformers.blend_shapes import BlendShapeRig
from supple.rig.deformers.chain import RigChain
from supple.rig.deformers.pose_space_deformation import PoseSpaceDeformation
from supple.rig.deformers.wire import Wire
from supple.rig.jacobians.differences import DifferencedJacobian, Jacobian
from supple.rig.jacobians.skin_jacobian import SkinJacobian
from supple.rig.jacobians.wire_jacobian import WireJacobian
from supple.rig.poses.pose_weights import PoseWeights
from supple.rig.protocol import Rig
from supple.rig.skeleton.skinning import SkinnedRig
from supple.rig.stored.tet_parts import RestoredCarriedRig, RestoredShepardRig
from supple.rig.tets.carried_weights import CarriedRig
from supple.rig.tets.shepard import ShepardRig
from supple.rig.tets.tet_rig import TetRig

__all__ = ["rig_jacobian"]


def rig_jacobian(
    rig: Rig, entries: Ints, vertices: Ints | None = None, *, differences: bool = False
) -> Jacobian:
    """Return the Jacobian of a rig's vertices by some of its parameters.

    Parameters
    ----------
    rig
        Linear skinning, blend shapes on it, wires, wires or shapes that a skin carries, and
        pose-space corrections have derivatives of their own, also carried to tets; all others are
        differenced.
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
            return _BlendJacobian(rig, entries, vertices)  # type: ignore[arg-type]
    if kind is RigChain and _is_carried_by_skin(rig, entries):  # type: ignore[arg-type]
        return _SkinnedChainJacobian(rig, entries, vertices)  # type: ignore[arg-type]
    if kind is PoseSpaceDeformation:
        return _CorrectedJacobian(rig, entries, vertices)  # type: ignore[arg-type]
    return None


def _is_carried_by_skin(rig: RigChain, entries: Ints) -> bool:
    """Tell whether a chain is a wire that a linear skin carries, and no joint is asked for."""
    if len(rig.rigs) != 2 or type(rig.rigs[0]) is not Wire:
        return False
    skin = _skin_of(rig.rigs[1])
    if type(skin) is not SkinnedRig or skin.method != "linear":
        return False
    joints = np.asarray(entries) - len(rig.rigs[0].parameters)
    return not ((joints >= 0) & (joints < len(skin.parameters))).any()


def _skin_of(rig: Rig) -> Rig:
    return rig.base if type(rig) is BlendShapeRig else rig


def _analytic_tets(rig: TetRig, entries: Ints, vertices: Ints | None) -> Jacobian | None:
    if np.any(rig.corrections):  # fitted ones turn with the flesh
        return None
    return rig_jacobian(rig.start, entries, vertices)


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


class _BlendJacobian:
    """Weights move a vertex by A δ, with A the blend of its joints' linear parts."""

    def __init__(self, rig: BlendShapeRig, entries: Ints, vertices: Ints | None) -> None:
        rows = slice(None) if vertices is None else vertices
        base: SkinnedRig = rig.base  # type: ignore[assignment]
        self._split = len(base.parameters)
        self._shapes = np.flatnonzero(entries >= self._split)
        self._bones = np.flatnonzero(entries < self._split)
        self._skin = SkinJacobian(base, entries[self._bones], vertices)
        chosen = rig.deltas[entries[self._shapes] - self._split][:, rows]
        self._deltas = np.ascontiguousarray(chosen.transpose(1, 2, 0))
        self._rig, self._vertices = rig, vertices
        self._points = np.ascontiguousarray(rig.rest_points[rows])
        self._joints = np.ascontiguousarray(base.joints[rows])
        self._weights = np.ascontiguousarray(base.weights[rows])
        count = len(self._points)
        self._own = np.empty((count, 3, len(self._shapes)))
        self._other = np.empty((count, 3, len(self._bones)))
        self.affine = not len(self._bones)

    def evaluate(self, pose: Floats, out: Floats) -> None:
        """Write ∂x/∂p (m, 3, k) at a pose."""
        bones = np.ascontiguousarray(pose[: self._split])
        matrices = self._rig.base.skin_matrices(bones)  # type: ignore[attr-defined]
        alone = not len(self._bones)
        target = out if alone else self._own
        _turned_deltas(self._joints, self._weights, matrices, self._deltas, target)
        if alone:
            return
        shaped = self._rig.shaped(self._points, pose[self._split :].copy(), self._vertices)
        self._skin.evaluate_points(shaped, bones, self._other)
        out[:, :, self._shapes] = self._own
        out[:, :, self._bones] = self._other


class _SkinnedChainJacobian:
    """A ∂x₀/∂p of points x₀ that a wire has moved, A the blend of their joints' linear parts."""

    def __init__(self, rig: RigChain, entries: Ints, vertices: Ints | None) -> None:
        rows = slice(None) if vertices is None else vertices
        first, last = rig.rigs
        skin: SkinnedRig = _skin_of(last)  # type: ignore[assignment]
        self._skin, self._split = skin, len(first.parameters)
        self._wired = np.flatnonzero(entries < self._split)
        self._shapes = np.flatnonzero(entries >= self._split)
        self._wire = rig_jacobian(first, entries[self._wired], vertices)
        self._joints = np.ascontiguousarray(skin.joints[rows])
        self._weights = np.ascontiguousarray(skin.weights[rows])
        self._moved = np.zeros((len(self._joints), 3, len(entries)))
        self._own = np.empty((len(self._joints), 3, len(self._wired)))
        if len(self._shapes):
            chosen = entries[self._shapes] - self._split - len(skin.parameters)
            deltas = last.deltas[chosen][:, rows]  # type: ignore[attr-defined]
            self._moved[:, :, self._shapes] = deltas.transpose(1, 2, 0)
        self.affine = not len(self._wired)

    def evaluate(self, pose: Floats, out: Floats) -> None:
        """Write ∂x/∂p (m, 3, k) at a pose."""
        split, joints = self._split, len(self._skin.parameters)
        matrices = self._skin.skin_matrices(np.ascontiguousarray(pose[split : split + joints]))
        if len(self._wired):
            self._wire.evaluate(np.ascontiguousarray(pose[:split]), self._own)
            self._moved[:, :, self._wired] = self._own
        _turned_deltas(self._joints, self._weights, matrices, self._moved, out)


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
def _turned_deltas(
    joints: ShortInts, weights: Floats, matrices: Floats, deltas: Floats, out: Floats
) -> None:
    """Write A δ (m, 3, k) with A = Σ w M of each vertex."""
    a = np.empty((3, 3))
    for v in range(len(out)):
        a[:] = 0.0
        for s in range(joints.shape[1]):
            m, w = matrices[joints[v, s]], weights[v, s]
            for i in range(3):
                for j in range(3):
                    a[i, j] += w * m[i, j]
        d = deltas[v]
        for i in range(3):
            for k in range(out.shape[2]):
                out[v, i, k] = a[i, 0] * d[0, k] + a[i, 1] * d[1, k] + a[i, 2] * d[2, k]
