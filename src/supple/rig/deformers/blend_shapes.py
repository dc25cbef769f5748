"""Blend shapes, also called morph targets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats
from supple.checks import checked_array, owned_array
from supple.compiled.jit import compiled
from supple.rig.protocol import (
    Deformer,
    Ints,
    Parameter,
    checked_deformer,
    checked_parameters,
    checked_points,
    checked_pose,
    checked_subset,
    rest_values,
)

if TYPE_CHECKING:
    from supple.rig.placement.placement import Placement

__all__ = ["BlendShapeRig"]


NO_SUBSET = np.empty(0, dtype=np.int64)


class BlendShapeRig:
    """Adds weighted displacements to the rest points of another rig, before it moves them.

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
        """The base's, to which displacements are added."""
        return self.base.rest_points

    def __call__(self, pose: ArrayLike, vertices: ArrayLike | None = None) -> Floats:
        """Positions of all vertices or of the listed ones."""
        subset = checked_subset(vertices, self.n_vertices)
        points = self.rest_points if subset is None else self.rest_points[subset]
        return self._run(points, pose, subset)

    def deform(
        self, points: ArrayLike, pose: ArrayLike, vertices: ArrayLike | None = None
    ) -> Floats:
        """Where the vertices go, were they at `points`; see `Deformer`."""
        subset = checked_subset(vertices, self.n_vertices)
        return self._run(checked_points(points, subset, self.n_vertices), pose, subset)

    def placement(self, vertices: Ints | None = None, *, single: bool = False) -> Placement:
        """Places these vertices again and again; see `supple.rig.placement.placement`."""
        from supple.rig.placement.corrected import blend_shape_placement

        return blend_shape_placement(self, vertices, single=single)

    def _run(self, points: Floats, pose: ArrayLike, subset: Ints | None) -> Floats:
        values = checked_pose(self.parameters, pose)
        split = len(self.base.parameters)
        return self.base.deform(self.shaped(points, values[split:], subset), values[:split], subset)

    def shaped(self, points: Floats, weights: Floats, subset: Ints | None = None) -> Floats:
        """Points with the weighted displacements of their vertices added."""
        out = points.copy()
        add_weighted(self.deltas, weights, NO_SUBSET if subset is None else subset, out)
        return out


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
