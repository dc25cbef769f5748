"""Chains of rigs: each moves the points placed by the one before it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.compiled.jit import compiled_fused
from supple.errors import SuppleError
from supple.rig.jacobian import (
    DifferencedLink,
    Jacobian,
    LinkJacobian,
    link_jacobian,
    rig_jacobian,
)
from supple.rig.placement.placement import (
    CalledPlacement,
    DeformingPlacement,
    Placement,
    Positions,
    called,
    placement,
    writable,
)
from supple.rig.protocol import (
    Deformer,
    Parameter,
    Rig,
    TetTransfer,
    checked_deformer,
    checked_parameters,
    checked_pose,
    checked_subset,
    optional_method,
    rest_values,
)
from supple.rig.skeleton.joints import unique_names
from supple.rig.stored.field_reader import Field
from supple.rig.stored.schema import PARAMETER_COST, Cost, PartOf


class RigChain:
    """Rigs in a row; each moves the points placed by the one before it.

    The pose is the concatenation of the rigs' poses. A repeated parameter name gets a number.

    Parameters
    ----------
    *rigs : Rig
        Rigs of the same vertices. Those after the first must be `Deformer`s.

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
        for number, rig in enumerate(rigs):
            if rig.n_vertices != rigs[0].n_vertices:
                counts = f"{rig.n_vertices:,} vertices; the first has {rigs[0].n_vertices:,}"
                raise SuppleError(f"rig {number} of the chain has {counts}")
            if number:
                checked_deformer(f"rig {number} of the chain", rig)
        self.rigs = rigs
        parameters = [parameter for rig in rigs for parameter in rig.parameters]
        names = unique_names(parameter.name for parameter in parameters)
        self.parameters = checked_parameters(
            [Parameter(n, p.unit, p.rest) for n, p in zip(names, parameters, strict=True)]
        )
        self.rest_pose = rest_values(self.parameters)
        self._ends = np.cumsum([0, *(len(rig.parameters) for rig in rigs)])
        self.n_vertices = rigs[0].n_vertices

    def __repr__(self) -> str:
        return f"RigChain({', '.join(type(rig).__name__ for rig in self.rigs)})"

    @property
    def rest_points(self) -> Floats:
        """Rest points of the first rig."""
        return self._first().rest_points

    def __call__(self, pose: ArrayLike, vertices: ArrayLike | None = None) -> Floats:
        """Return positions of all vertices, or of the listed vertices."""
        return self._run(self.rigs[0], pose, vertices)

    def deform(
        self, points: ArrayLike, pose: ArrayLike, vertices: ArrayLike | None = None
    ) -> Floats:
        """Return positions of the vertices if they start at `points`; see `Deformer`."""
        first = self._first()
        return self._run(lambda part, listed: first.deform(points, part, listed), pose, vertices)

    def _first(self) -> Deformer:
        return checked_deformer("the first rig of the chain", self.rigs[0])

    def _run(
        self, begin: Callable[..., Floats], pose: ArrayLike, vertices: ArrayLike | None
    ) -> Floats:
        values = checked_pose(self.parameters, pose)
        subset = checked_subset(vertices, self.n_vertices)
        parts = [values[a:b] for a, b in itertools.pairwise(self._ends)]
        points = called(self.rigs[0], begin, parts[0], subset)
        for rig, part in zip(self.rigs[1:], parts[1:], strict=True):
            points = called(rig, rig.deform, points, part, subset)  # type: ignore[attr-defined]
        return points

    def placement(self, vertices: Ints | None = None, *, single: bool = False) -> Placement:
        """Return a placement of the listed vertices, or of all.

        Consecutive rigs with the same static method ``joint_placement(rigs, vertices, *, single)``,
        such as wires, have one placement together.
        """
        stages: list[Placement] = []
        ends = [0]
        grouped = itertools.groupby(self.rigs, lambda rig: optional_method(rig, "joint_placement"))
        runs = [(make, list(run)) for make, run in grouped]
        # Only without other stages, which could amplify the rounding of single precision.
        alone = single and len(runs) == 1
        for make, run in runs:
            if make is None:
                stages += [placement(rig, vertices) for rig in run]
                widths = [len(rig.parameters) for rig in run]
            else:
                stages.append(make(run, vertices, single=alone))
                widths = [sum(len(rig.parameters) for rig in run)]
            ends += (ends[-1] + np.cumsum(widths)).tolist()
        if not all(isinstance(stage, DeformingPlacement) for stage in stages[1:]):
            return CalledPlacement(self, vertices)
        if len(stages) == 1:
            return stages[0]
        deforming = isinstance(stages[0], DeformingPlacement)
        return (_DeformingChainPlacement if deforming else ChainPlacement)(stages, ends)

    def jacobian(self, entries: Ints, vertices: Ints | None = None) -> ChainJacobian | None:
        """Return the Jacobian by the chain rule; links without an analytic one are differenced.

        Return None if the placement of a rig after the first cannot move given points.
        """
        placements = [placement(link, vertices) for link in self.rigs]
        after_first = placements[1:]
        if not all(isinstance(stage, DeformingPlacement) for stage in after_first):
            return None
        ranges = itertools.pairwise(self._ends)
        by_link = [entries[(entries >= a) & (entries < b)] - a for a, b in ranges]
        links: list[LinkJacobian] = []
        for link, placed, chosen in zip(self.rigs[1:], after_first, by_link[1:], strict=True):
            analytic = link_jacobian(link, chosen, vertices)
            links.append(DifferencedLink(placed, chosen) if analytic is None else analytic)  # type: ignore[arg-type]
        first = rig_jacobian(self.rigs[0], by_link[0], vertices)
        return ChainJacobian(first, links, placements, self._ends, entries)

    def on_tets(self, transfer: TetTransfer) -> RigChain | None:
        """Return the chain of the links' rigs on tets; None if one of them has none."""
        links = [transfer.rig(link) for link in self.rigs]
        if any(link is None for link in links):
            return None
        return RigChain(*links)  # type: ignore[arg-type]

    stored_fields: ClassVar[tuple[Field, ...]] = (
        PartOf(
            "rigs",
            Rig,
            lambda rigs: {"parameters": sum(len(rig.parameters) for rig in rigs)},
            many=True,
        ),
        Cost("its parameters", lambda sizes: PARAMETER_COST * sizes["parameters"]),
    )

    @classmethod
    def restored(cls, rigs: Sequence[Rig]) -> RigChain:
        """Make the rig from its stored fields."""
        return cls(*rigs)


class ChainPlacement:
    """Placement of a chain: the stages in series, each with its part of the pose.

    `ends` has the start of each stage's part of the pose, and the end of the last. Stages after
    the first can move given points.
    """

    def __init__(self, stages: Sequence[Placement], ends: Sequence[int]) -> None:
        self._stages, self._ends, self.n_points = tuple(stages), tuple(ends), stages[0].n_points
        self._scratch = np.empty((self.n_points, 3))

    def place(self, pose: Floats, out: Positions) -> None:
        """Write the positions (k, 3) at a pose."""
        values = writable(pose)
        self._stages[0].place(values[: self._ends[1]], self._scratch)
        self._run_stages(values, 1, out)

    def _run_stages(self, pose: Floats, begin: int, out: Positions) -> None:
        last = len(self._stages) - 1
        for k in range(begin, last + 1):
            part = pose[self._ends[k] : self._ends[k + 1]]
            self._stages[k].deform(self._scratch, part, out if k == last else self._scratch)  # type: ignore[attr-defined]

    def fork(self) -> Self:
        """Return a copy with forked stages and its own scratch memory."""
        return type(self)([stage.fork() for stage in self._stages], self._ends)


class _DeformingChainPlacement(ChainPlacement):
    """Placement of a chain whose first stage can also move given points."""

    def deform(self, points: Floats, pose: Floats, out: Positions) -> None:
        """Move vertices from `points` (k, 3); `out` may be `points`."""
        np.copyto(self._scratch, points)
        self._run_stages(writable(pose), 0, out)


class ChainJacobian:
    """Jacobian of a chain: ∂x/∂p of each link, multiplied by ∂x/∂X of the links after it.

    `ends` has the start of each rig's part of the pose, and the end of the last; `entries` (k,) are
    indices of the parameters in the pose.
    """

    def __init__(
        self,
        first: Jacobian,
        links: Sequence[LinkJacobian],
        placements: Sequence[Placement],
        ends: Ints,
        entries: Ints,
    ) -> None:
        self._first, self._links, self._placements = first, links, placements
        #: Whether a link has derivatives by finite differences.
        self.differenced = any(getattr(each, "differenced", False) for each in (first, *links))
        self._parts = [slice(int(a), int(b)) for a, b in itertools.pairwise(ends)]
        link_of = np.searchsorted(ends, entries, side="right") - 1
        self._columns = [np.flatnonzero(link_of == rig) for rig in range(len(placements))]
        count = placements[0].n_points
        self._link_columns = [np.empty((count, 3, len(columns))) for columns in self._columns]
        self._points, self._slopes = np.empty((count, 3)), np.empty((count, 3, 3))
        self._total = np.empty((count, 3, 3))
        self._mover = int(link_of.max(initial=0))
        alone = len(np.unique(link_of)) <= 1
        moving: Any = (first, *links)[self._mover]
        behind = links[self._mover :]
        self.affine = alone and moving.affine and all(link.straight for link in behind)
        #: (m, 3, k) δ of an affine chain that moves vertices by A δ, else None.
        self.deltas: Floats | None = getattr(moving, "deltas", None) if self.affine else None

    def evaluate(self, pose: Floats, out: Floats) -> None:
        """Write ∂x/∂p (m, 3, k) at a pose."""
        points, parts = self._points, [pose[part].copy() for part in self._parts]
        out[...] = 0.0
        if len(self._columns[0]):
            self._first.evaluate(parts[0], self._link_columns[0])
            out[:, :, self._columns[0]] = self._link_columns[0]
        self._placements[0].place(parts[0], points)
        started = len(self._columns[0]) > 0
        for k, link in enumerate(self._links, start=1):
            if started:
                link.write_slopes(points, parts[k], self._slopes)
                _multiply_columns(self._slopes, out)
            if len(self._columns[k]):
                link.evaluate_points(points, parts[k], self._link_columns[k])
                out[:, :, self._columns[k]] = self._link_columns[k]
                started = True
            self._placements[k].deform(points, parts[k], points)  # type: ignore[attr-defined]

    def write_frames(self, pose: Floats, out: Positions) -> None:
        """Write A (m, 3, 3) with ∂x/∂p = A δ at a pose; only if δ, `deltas`, is not None."""
        points, parts = self._points, [pose[part].copy() for part in self._parts]
        moving: Any = (self._first, *self._links)[self._mover]
        moving.write_frames(parts[self._mover], self._total)
        for k, link in enumerate(self._links, start=1):
            if k > self._mover:  # these links are straight: the points do not matter
                link.write_slopes(points, parts[k], self._slopes)
                _multiply_columns(self._slopes, self._total)
        np.copyto(out, self._total, casting="same_kind")


@compiled_fused
def _multiply_columns(slopes: Floats, out: Floats) -> None:
    """Multiply columns (m, 3, k) by slopes (m, 3, 3)."""
    for v in range(len(out)):
        s, columns = slopes[v], out[v]
        for k in range(out.shape[2]):
            x, y, z = columns[0, k], columns[1, k], columns[2, k]
            for i in range(3):
                columns[i, k] = s[i, 0] * x + s[i, 1] * y + s[i, 2] * z
