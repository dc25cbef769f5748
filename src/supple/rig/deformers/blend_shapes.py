"""Blend shapes, also called morph targets, and the base classes of rigs that displace points."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.checks import checked_array, owned_array
from supple.compiled.jit import compiled, compiled_plain
from supple.compiled.program import KernelCall
from supple.rig.deformers.point_deformer import PointRig
from supple.rig.jacobian import LinkJacobian, analytic_jacobian
from supple.rig.placement.placement import (
    CalledPlacement,
    DeformingPlacement,
    Forkable,
    Placement,
    Positions,
    copy_numbers,
    deform_calls,
    placement,
    writable,
)
from supple.rig.placement.pose_corrections import add_sum
from supple.rig.protocol import (
    Deformer,
    Parameter,
    TetTransfer,
    checked_deformer,
    checked_parameters,
    rest_values,
)
from supple.rig.skeleton.skinning import skinned_core
from supple.rig.stored.field_reader import DOUBLE, Field
from supple.rig.stored.schema import Array, PackedRows, PartOf, Value, vertex_count

#: Shapes are listed by vertex if less than this fraction of (vertex, shape) pairs is nonzero.
LOCAL = 0.25
NO_SUBSET = np.empty(0, dtype=np.int64)


class DisplacingRig(PointRig):
    """Base class of rigs that displace the points of another rig before it moves them.

    Its pose begins with the base's. A subclass sets `parameters` and `rest_pose`.
    """

    base: Deformer

    @property
    def rest_points(self) -> Floats:  # type: ignore[override]
        """Rest points of the base, to which displacements are added."""
        return self.base.rest_points

    def _move(self, points: Floats, pose: Floats, subset: Ints | None) -> Floats:
        base, shaped, values = self.without_shapes(points, pose, subset)
        return base.deform(shaped, values, subset)

    def without_shapes(
        self, points: Floats, pose: Floats, subset: Ints | None = None
    ) -> tuple[Deformer, Floats, Floats]:
        """Return the base, the displaced points, and the base's part of the pose."""
        return self.base, self.shaped_at(points, pose, subset), pose[: len(self.base.parameters)]

    @abstractmethod
    def shaped_at(self, points: Floats, pose: Floats, subset: Ints | None = None) -> Floats:
        """Return `points` plus the displacements of the vertices at a pose."""


class DisplacingPlacement(Forkable, ABC):
    """Base class of placements of a `DisplacingRig`; the base has the first `split` parameters."""

    _forked = ("_base",)

    def __init__(self, base: DeformingPlacement, points: Floats, split: int) -> None:
        self._base, self._points, self._split = base, np.ascontiguousarray(points), split
        self.n_points = base.n_points
        self._allocate()

    def _allocate(self) -> None:
        self._shaped = np.zeros((self.n_points, 3))

    def place(self, pose: Floats, out: Positions) -> None:
        """Write the positions (k, 3) at a pose."""
        self.deform(self._points, pose, out)

    def deform(self, points: Floats, pose: Floats, out: Positions) -> None:
        """Displace `points` (k, 3) and move them by the base."""
        values = writable(pose)
        self._displace(points, values)
        self._base.deform(self._shaped, values[: self._split], out)

    def calls(self, pose: Floats, out: Positions) -> list[KernelCall]:
        """Return the calls of `place`."""
        return self.deform_calls(self._points, pose, out)

    def deform_calls(self, points: Floats, pose: Floats, out: Positions) -> list[KernelCall]:
        """Return the calls of `deform`."""
        moved = deform_calls(self._base, self._shaped, pose[: self._split], out)
        return self._displacing_calls(points, pose) + moved

    @abstractmethod
    def _displacing_calls(self, points: Floats, pose: Floats) -> list[KernelCall]:
        """Return the calls of `_displace`."""

    @abstractmethod
    def _displace(self, points: Floats, pose: Floats) -> None:
        """Write the displaced points into `_shaped`."""


class BlendShapeRig(DisplacingRig):
    """A rig that adds weighted displacements to the rest points of another, before it moves them.

    Parameters
    ----------
    base : Deformer
        Usually a skinned rig.
    deltas : (b, n, 3) array
        Displacement of every vertex for each shape at weight 1, in the rest space of `base`.
    names : sequence of str
        Parameter names of the shapes, with unit "1"; they follow the base's parameters.
    rest : (b,) array, optional
        Weights in the rest pose; 0 by default.
    """

    def __init__(
        self,
        base: Deformer,
        deltas: ArrayLike,
        names: Sequence[str],
        *,
        rest: ArrayLike | None = None,
    ) -> None:
        self.base = checked_deformer("the rig under blend shapes", base)
        self.names = tuple(str(name) for name in names)
        shape = (len(self.names), base.n_vertices, 3)
        self.deltas = owned_array("blend shapes", deltas, shape)
        begin = np.zeros(len(self.names)) if rest is None else rest
        weights = checked_array("rest weights of blend shapes", begin, (len(self.names),))
        added = [Parameter(n, "1", float(w)) for n, w in zip(self.names, weights, strict=True)]
        self.parameters = checked_parameters([*base.parameters, *added])
        self.rest_pose = rest_values(self.parameters)

    def __repr__(self) -> str:
        return f"BlendShapeRig({len(self.names)} shapes on {self.base!r})"

    def shaped_at(self, points: Floats, pose: Floats, subset: Ints | None = None) -> Floats:
        """Return `points` plus the weighted displacements of the vertices at a pose."""
        out, weights = points.copy(), pose[len(self.base.parameters) :]
        add_weighted(self.deltas, weights, NO_SUBSET if subset is None else subset, out)
        return out

    def placement(self, vertices: Ints | None = None, *, single: bool = False) -> Placement:
        """Return a placement of the listed vertices, or of all; see `Placement`.

        The rig is called if the placement of its base cannot move given points.
        """
        base = placement(self.base, vertices, single=single)
        if not isinstance(base, DeformingPlacement):
            return CalledPlacement(self, vertices)
        rows = slice(None) if vertices is None else vertices
        split = len(self.base.parameters)
        return BlendShapePlacement(base, self.rest_points[rows], self.deltas[:, rows], split)

    def jacobian(self, entries: Ints, vertices: Ints | None = None) -> ShapeJacobian | None:
        """Return the analytic Jacobian if the base is a linear skin; None if it is not."""
        core = skinned_core(self.base)
        if core is None or core.rig is not self.base:
            return None
        of_base = entries[entries < len(self.base.parameters)]
        skin = analytic_jacobian(self.base, of_base, vertices)
        if not isinstance(skin, LinkJacobian):
            return None
        return ShapeJacobian(self, skin, entries, vertices)

    def on_tets(self, transfer: TetTransfer) -> BlendShapeRig | None:
        """Return the rig of the tet vertices, with displacements extended from the surface."""
        base = transfer.rig(self.base)
        if base is None:
            return None
        deltas = transfer.extended_displacements(self.deltas)
        rest = self.rest_pose[len(self.base.parameters) :]
        core = skinned_core(base)
        if np.any(rest) and core is not None and core.rig is base:
            bound = core.rig.vertices - np.einsum("b,bvi->vi", rest, deltas)
            base = core.rig.with_influences(bound, core.rig.joints, core.rig.weights)
        return BlendShapeRig(base, deltas, self.names, rest=rest)  # type: ignore[arg-type]

    stored_fields: ClassVar[tuple[Field, ...]] = (
        PartOf("base", Deformer, vertex_count),
        Value("names", "texts", size="shapes"),
        PackedRows("deltas", ("shapes", "n", 3)),
        Array("rest", DOUBLE, ("shapes",), lambda rig: rig.rest_pose[len(rig.base.parameters) :]),
    )


class BlendShapePlacement(DisplacingPlacement):
    """Placement of blend shapes with displacements `deltas` (b, k, 3) at weight 1."""

    def __init__(
        self, base: DeformingPlacement, points: Floats, deltas: Floats, split: int
    ) -> None:
        displaced = np.any(deltas, axis=2).T
        self._local: tuple[Ints, Ints, Floats] | None = None
        if displaced.size and displaced.mean() < LOCAL:
            vertices, shapes = np.nonzero(displaced)
            starts = np.searchsorted(vertices, np.arange(len(displaced) + 1))
            self._local = starts, shapes, np.ascontiguousarray(deltas[shapes, vertices])
        else:
            self._rows = np.flatnonzero(displaced.any(axis=0))
            self._table = np.ascontiguousarray(deltas.reshape(len(deltas), -1)[self._rows])
        super().__init__(base, points, split)

    def _displace(self, points: Floats, pose: Floats) -> None:
        weights = pose[self._split :]
        if self._local is not None:
            _add_local(*self._local, weights, points, self._shaped)
        else:
            np.copyto(self._shaped, points)
            add_sum(self._table, self._rows, weights, self._shaped.reshape(-1))

    def _displacing_calls(self, points: Floats, pose: Floats) -> list[KernelCall]:
        weights, shaped = pose[self._split :], self._shaped
        if self._local is not None:
            return [KernelCall(_add_local, (*self._local, weights, points, shaped), (shaped,))]
        arguments = self._table, self._rows, weights, shaped.reshape(-1)
        return [
            KernelCall(copy_numbers, (points, shaped), (shaped,)),
            KernelCall(add_sum, arguments, (shaped,)),
        ]


class ShapeJacobian:
    """Jacobian of blend shapes on a linear skin: a weight moves a vertex by A δ.

    A is the blend of the joints' linear parts. `skin` is the Jacobian of the skin with respect to
    its share of the parameters; `entries` (k,) are indices of all parameters in the pose.
    """

    straight = True

    def __init__(
        self, rig: BlendShapeRig, skin: LinkJacobian, entries: Ints, vertices: Ints | None
    ) -> None:
        rows = slice(None) if vertices is None else vertices
        self._split = len(rig.base.parameters)
        self._shapes = np.flatnonzero(entries >= self._split)
        self._bones = np.flatnonzero(entries < self._split)
        self._skin = skin
        chosen = rig.deltas[entries[self._shapes] - self._split][:, rows]
        #: (m, 3, b) δ of those parameters that are weights.
        self.deltas = np.ascontiguousarray(chosen.transpose(1, 2, 0))
        self._rig, self._vertices = rig, vertices
        self._points = np.ascontiguousarray(rig.rest_points[rows])
        count = len(self._points)
        self._frames = np.empty((count, 3, 3))
        self._by_weights = np.empty((count, 3, len(self._shapes) if len(self._bones) else 0))
        self._by_bones = np.empty((count, 3, len(self._bones)))
        self.affine = not len(self._bones)

    def write_frames(self, pose: Floats, out: Positions) -> None:
        """Write the blend A (m, 3, 3) of the joints' linear parts for every vertex at a pose."""
        bones = np.ascontiguousarray(pose[: self._split])
        self._skin.write_slopes(self._points, bones, out)

    def write_slopes(self, points: Floats, pose: Floats, out: Positions) -> None:
        """Write ∂x/∂X (m, 3, 3): the blend of the joints' linear parts, the same at any points."""
        self.write_frames(pose, out)

    def evaluate(self, pose: Floats, out: Floats) -> None:
        """Write ∂x/∂p (m, 3, k) at a pose."""
        self.evaluate_points(self._points, pose, out)

    def evaluate_points(self, points: Floats, pose: Floats, out: Floats) -> None:
        """Write ∂x/∂p (m, 3, k) of vertices that start at `points` (m, 3)."""
        self.write_frames(pose, self._frames)
        only_weights = not len(self._bones)
        apply_frames(self._frames, self.deltas, out if only_weights else self._by_weights)
        if only_weights:
            return
        shaped = self._rig.shaped_at(points, pose, self._vertices)
        self._skin.evaluate_points(shaped, pose[: self._split].copy(), self._by_bones)
        out[:, :, self._shapes] = self._by_weights
        out[:, :, self._bones] = self._by_bones


@compiled
def apply_frames(frames: Floats, deltas: Floats, out: Floats) -> None:
    """Write A δ (m, 3, k) from frames A (m, 3, 3) and displacements δ (m, 3, k)."""
    for v in range(len(out)):
        a, d = frames[v], deltas[v]
        for i in range(3):
            for k in range(out.shape[2]):
                out[v, i, k] = a[i, 0] * d[0, k] + a[i, 1] * d[1, k] + a[i, 2] * d[2, k]


@compiled_plain
def _add_local(
    starts: Ints, shapes: Ints, deltas: Floats, weights: Floats, points: Floats, out: Floats
) -> None:
    """Write points plus Σ w Δ over the shapes that move each vertex."""
    for v in range(len(out)):
        x, y, z = points[v, 0], points[v, 1], points[v, 2]
        for at in range(starts[v], starts[v + 1]):
            weight = weights[shapes[at]]
            x += weight * deltas[at, 0]
            y += weight * deltas[at, 1]
            z += weight * deltas[at, 2]
        out[v, 0], out[v, 1], out[v, 2] = x, y, z


@compiled
def add_weighted(deltas: Floats, weights: Floats, rows: Ints, out: Floats) -> None:
    """Add Σ w Δ of displacements Δ (b, n, 3) to `out` (k, 3) for vertices `rows`; all if empty."""
    everything = len(rows) == 0
    for shape in range(len(weights)):
        weight = weights[shape]
        if weight == 0:
            continue
        delta = deltas[shape]
        for i in range(len(out)):
            row = delta[i if everything else rows[i]]
            for axis in range(3):
                out[i, axis] += weight * row[axis]
