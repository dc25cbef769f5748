"""Blend shapes, also called morph targets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.checks import checked_array, owned_array
from supple.compiled.jit import compiled, compiled_plain
from supple.rig.placement.placement import (
    CalledPlacement,
    DeformingPlacement,
    Forkable,
    Placement,
    Positions,
    placement,
    writable,
)
from supple.rig.placement.pose_corrections import add_sum
from supple.rig.protocol import (
    Deformer,
    Parameter,
    checked_deformer,
    checked_parameters,
    checked_points,
    checked_pose,
    checked_subset,
    rest_values,
)

#: Below this part of (vertex, shape) pairs that are not zero, shapes are listed by vertices.
LOCAL = 0.25


NO_SUBSET = np.empty(0, dtype=np.int64)


class BlendShapeRig:
    """A rig that adds weighted displacements to the rest points of another, before it moves them.

    Parameters
    ----------
    base : Deformer
        Usually a skinned rig.
    deltas : (b, n, 3) array
        Displacement of every vertex for each shape at weight 1, in the rest space of `base`.
    names : sequence of str
        One for each shape; they follow the base's parameters, with unit "1".
    rest : (b,) array, optional
        Weights in the rest pose; 0 without.
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
        own = [Parameter(n, "1", float(w)) for n, w in zip(self.names, weights, strict=True)]
        self.parameters = checked_parameters([*base.parameters, *own])
        self.rest_pose = rest_values(self.parameters)

    def __repr__(self) -> str:
        return f"BlendShapeRig({len(self.names)} shapes on {self.base!r})"

    @property
    def n_vertices(self) -> int:
        """Number of vertices."""
        return self.base.n_vertices

    @property
    def rest_points(self) -> Floats:
        """Rest points of the base, to which displacements are added."""
        return self.base.rest_points

    def __call__(self, pose: ArrayLike, vertices: ArrayLike | None = None) -> Floats:
        """Return positions of all vertices or of the listed ones."""
        subset = checked_subset(vertices, self.n_vertices)
        points = self.rest_points if subset is None else self.rest_points[subset]
        return self._run(points, pose, subset)

    def deform(
        self, points: ArrayLike, pose: ArrayLike, vertices: ArrayLike | None = None
    ) -> Floats:
        """Return positions of the vertices were they at `points` at rest; see `Deformer`."""
        subset = checked_subset(vertices, self.n_vertices)
        return self._run(checked_points(points, subset, self.n_vertices), pose, subset)

    def placement(self, vertices: Ints | None = None, *, single: bool = False) -> Placement:
        """Return a placement of the listed vertices, or of all; see `Placement`.

        The rig is called if its base has no placement that deforms.
        """
        base = placement(self.base, vertices, single=single)
        if not isinstance(base, DeformingPlacement):
            return CalledPlacement(self, vertices)
        rows = slice(None) if vertices is None else vertices
        split = len(self.base.parameters)
        return BlendShapePlacement(base, self.rest_points[rows], self.deltas[:, rows], split)

    def _run(self, points: Floats, pose: ArrayLike, subset: Ints | None) -> Floats:
        values = checked_pose(self.parameters, pose)
        split = len(self.base.parameters)
        return self.base.deform(self.shaped(points, values[split:], subset), values[:split], subset)

    def shaped(self, points: Floats, weights: Floats, subset: Ints | None = None) -> Floats:
        """Add the weighted displacements of the vertices to `points`."""
        out = points.copy()
        add_weighted(self.deltas, weights, NO_SUBSET if subset is None else subset, out)
        return out


class BlendShapePlacement(Forkable):
    """Placement of blend shapes: displaced rest points, moved by the rig behind.

    Parameters
    ----------
    base
        Placement of the rig behind.
    points
        (k, 3) rest points.
    deltas
        (b, k, 3) displacements at weight 1.
    split
        Place of the first weight in the pose.
    """

    _forked = ("_base",)

    def __init__(
        self, base: DeformingPlacement, points: Floats, deltas: Floats, split: int
    ) -> None:
        self._base, self._points, self._split = base, np.ascontiguousarray(points), split
        moved = np.any(deltas, axis=2).T
        self._local: tuple[Ints, Ints, Floats] | None = None
        if moved.size and moved.mean() < LOCAL:
            vertices, shapes = np.nonzero(moved)
            starts = np.searchsorted(vertices, np.arange(len(moved) + 1))
            self._local = starts, shapes, np.ascontiguousarray(deltas[shapes, vertices])
        else:
            self._rows = np.flatnonzero(moved.any(axis=0))
            self._table = np.ascontiguousarray(deltas.reshape(len(deltas), -1)[self._rows])
        self._allocate()

    def _allocate(self) -> None:
        self._shaped = np.empty((self.n_points, 3))

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
        weights = own[self._split :]
        if self._local is not None:
            _add_local(*self._local, weights, points, self._shaped)
        else:
            np.copyto(self._shaped, points)
            add_sum(self._table, self._rows, weights, self._shaped.reshape(-1))
        self._base.deform(self._shaped, own[: self._split], out)


@compiled_plain
def _add_local(
    starts: Ints, shapes: Ints, deltas: Floats, weights: Floats, points: Floats, out: Floats
) -> None:
    """Write points and Σ w Δ of the shapes that move each: listed by vertices, and many."""
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
    """Add Σ w Δ to `out` for the listed rows of Δ, or for all; zero weights cost nothing."""
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
