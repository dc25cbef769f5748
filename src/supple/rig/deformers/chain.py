"""Rigs one after another."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats
from supple.errors import SuppleError
from supple.rig.protocol import (
    Deformer,
    Ints,
    Parameter,
    Rig,
    checked_deformer,
    checked_parameters,
    checked_pose,
    checked_subset,
    rest_values,
)
from supple.rig.skeleton.joints import unique_names

if TYPE_CHECKING:
    from supple.rig.placement.placement import Placement

__all__ = ["RigChain"]


class RigChain:
    """Rigs of which each moves what the one before has placed.

    The pose is the rigs' poses one after another; a parameter name that occurs again gets a
    number.

    Parameters
    ----------
    *rigs : Rig
        Of the same vertices. Those after the first must be able to move given points
        (`Deformer`).

    Examples
    --------
    >>> from supple.rig import Bend, Twist
    >>> points = [[0, 1, 0], [0, 2, 0]]
    >>> chain = RigChain(Twist(points), Bend(points), Bend(points))
    >>> [parameter.name for parameter in chain.parameters]
    ['twist.start', 'twist.end', 'bend.angle', 'bend.angle_2']
    """

    def __init__(self, *rigs: Rig) -> None:
        if not rigs:
            raise SuppleError("a chain needs at least one rig")
        for place, rig in enumerate(rigs):
            if rig.n_vertices != rigs[0].n_vertices:
                counts = f"{rig.n_vertices:,} vertices, the first {rigs[0].n_vertices:,}"
                raise SuppleError(f"rig {place} of the chain has {counts}")
            if place:
                checked_deformer(f"rig {place} of the chain", rig)
        self.rigs = rigs
        own = [parameter for rig in rigs for parameter in rig.parameters]
        names = unique_names(parameter.name for parameter in own)
        self.parameters = checked_parameters(
            [Parameter(n, p.unit, p.rest) for n, p in zip(names, own, strict=True)]
        )
        self.rest_pose = rest_values(self.parameters)
        self._ends = np.cumsum([0, *(len(rig.parameters) for rig in rigs)])

    def __repr__(self) -> str:
        return f"RigChain({', '.join(type(rig).__name__ for rig in self.rigs)})"

    @property
    def n_vertices(self) -> int:
        """Number of vertices."""
        return self.rigs[0].n_vertices

    @property
    def rest_points(self) -> Floats:
        """The points the first rig moves."""
        return self._first().rest_points

    def __call__(self, pose: ArrayLike, vertices: ArrayLike | None = None) -> Floats:
        """Positions of all vertices or of the listed ones."""
        return self._run(self.rigs[0], pose, vertices)

    def deform(
        self, points: ArrayLike, pose: ArrayLike, vertices: ArrayLike | None = None
    ) -> Floats:
        """Where the vertices go, were they at `points`; the first rig must allow it."""
        first = self._first()
        return self._run(lambda own, listed: first.deform(points, own, listed), pose, vertices)

    def _first(self) -> Deformer:
        return checked_deformer("the first rig of the chain", self.rigs[0])

    def _run(
        self, begin: Callable[..., Floats], pose: ArrayLike, vertices: ArrayLike | None
    ) -> Floats:
        values = checked_pose(self.parameters, pose)
        subset = checked_subset(vertices, self.n_vertices)
        parts = [values[a:b] for a, b in zip(self._ends[:-1], self._ends[1:], strict=True)]
        points = begin(parts[0], subset)
        for rig, part in zip(self.rigs[1:], parts[1:], strict=True):
            points = rig.deform(points, part, subset)  # type: ignore[attr-defined]
        return points

    def placement(self, vertices: Ints | None = None, *, single: bool = False) -> Placement:
        """Places the listed vertices, or all, again and again."""
        from supple.rig.placement.deformers import chain_placement

        return chain_placement(self, vertices, single=single)
