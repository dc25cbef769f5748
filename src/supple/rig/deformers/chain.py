"""Chains of rigs: each moves the points that the one before has placed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.errors import SuppleError
from supple.rig.deformers.wire import Wire, WiresPlacement
from supple.rig.placement.placement import (
    CalledPlacement,
    DeformingPlacement,
    Placement,
    Positions,
    placement,
    writable,
)
from supple.rig.protocol import (
    Deformer,
    Parameter,
    Rig,
    checked_deformer,
    checked_parameters,
    checked_pose,
    checked_subset,
    rest_values,
)
from supple.rig.skeleton.joints import unique_names


class RigChain:
    """Rigs of which each moves the points that the one before has placed.

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
        """Return positions of all vertices or of the listed ones."""
        return self._run(self.rigs[0], pose, vertices)

    def deform(
        self, points: ArrayLike, pose: ArrayLike, vertices: ArrayLike | None = None
    ) -> Floats:
        """Return positions of the vertices were they at `points`; the first rig must allow it."""
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
        """Return a placement of the listed vertices, or of all; wires in a row are one stage."""
        stages: list[Placement] = []
        ends = [0]
        # Other stages can enlarge what rounding in single precision leaves.
        alone = single and all(type(rig) is Wire for rig in self.rigs)
        for are_wires, group in itertools.groupby(self.rigs, lambda rig: type(rig) is Wire):
            rigs: list[Rig] = list(group)
            for each in [rigs] if are_wires else [[rig] for rig in rigs]:
                stages.append(
                    WiresPlacement(each, vertices, single=alone)  # type: ignore[arg-type]
                    if are_wires
                    else placement(each[0], vertices)
                )
                ends.append(ends[-1] + sum(len(rig.parameters) for rig in each))
        if not all(isinstance(stage, DeformingPlacement) for stage in stages[1:]):
            return CalledPlacement(self, vertices)
        if len(stages) == 1:
            return stages[0]
        deforming = isinstance(stages[0], DeformingPlacement)
        return (_DeformingChainPlacement if deforming else ChainPlacement)(stages, ends)


class ChainPlacement:
    """Placements one after another, each with its part of the pose.

    Parameters
    ----------
    stages
        Of the same vertices; those after the first can move given points.
    ends
        Start of each stage's part of the pose, and the end of the last.
    """

    def __init__(self, stages: Sequence[Placement], ends: Sequence[int]) -> None:
        self._stages, self._ends = tuple(stages), tuple(ends)
        self._scratch = np.empty((self.n_points, 3))

    @property
    def n_points(self) -> int:
        """Number of vertices placed."""
        return self._stages[0].n_points

    def place(self, pose: Floats, out: Positions) -> None:
        """Write the positions (k, 3) at a pose."""
        own = writable(pose)
        self._stages[0].place(own[: self._ends[1]], self._scratch)
        self._move_on(own, 1, out)

    def _move_on(self, pose: Floats, begin: int, out: Positions) -> None:
        last = len(self._stages) - 1
        for k in range(begin, last + 1):
            part = pose[self._ends[k] : self._ends[k + 1]]
            self._stages[k].deform(self._scratch, part, out if k == last else self._scratch)  # type: ignore[attr-defined]

    def fork(self) -> Self:
        """Return a twin whose stages are forked, with its own scratch memory."""
        return type(self)([stage.fork() for stage in self._stages], self._ends)


class _DeformingChainPlacement(ChainPlacement):
    """A chain whose first stage, too, can move given points."""

    def deform(self, points: Floats, pose: Floats, out: Positions) -> None:
        """Move vertices from `points` (k, 3); `out` may be `points`."""
        np.copyto(self._scratch, points)
        self._move_on(writable(pose), 0, out)
