"""Placements of bends, twists, lattices, and of rigs one after another."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from supple.arrays import Floats
from supple.compiled.jit import compiled, compiled_fused
from supple.maths.point_rotations import sine_and_versine
from supple.rig.deformers.bend import Bend, bend_points
from supple.rig.deformers.free_form import Lattice, bernstein, pull_points
from supple.rig.deformers.twist import Twist, twist_points
from supple.rig.deformers.wire import Wire
from supple.rig.placement.placement import (
    CalledPlacement,
    DeformingPlacement,
    Placement,
    Positions,
    placement,
    writable,
)
from supple.rig.placement.wires import WiresPlacement
from supple.rig.protocol import Ints, Rig

if TYPE_CHECKING:
    from supple.rig.deformers.chain import RigChain

__all__ = [
    "BendPlacement",
    "ChainPlacement",
    "LatticePlacement",
    "TwistPlacement",
    "chain_placement",
]


#: Beyond some turns polynomials of an angle lose digits; library functions do not.
LARGEST_ANGLE = 100.0
#: Curvatures times lengths below this bend nothing that float64 could hold.
STRAIGHT = 1e-30


class BendPlacement:
    """A list of vertices that are bent, with their coordinates in the bend's frame at hand."""

    def __init__(self, rig: Bend, vertices: Ints | None = None) -> None:
        self._rig = rig
        self._rest = _listed(rig.rest_points, vertices)
        x, y, z = rig.frame @ (self._rest - rig.origin).T
        bent = np.clip(y, rig.low, rig.high)
        held = min(max(0.0, rig.low), rig.high)
        self._local = np.column_stack([bent - held, x, y - bent]).ravel()
        still = rig.origin + z[:, None] * rig.frame[2] + held * rig.frame[1]
        self._still = np.ascontiguousarray(still).ravel()

    @property
    def n_points(self) -> int:
        """How many vertices are placed."""
        return len(self._rest)

    def place(self, pose: Floats, out: Positions) -> None:
        """Where the vertices are at a pose."""
        rig = self._rig
        angle = float(pose[0])
        curvature = angle / (rig.high - rig.low)
        size = max(abs(rig.low), abs(rig.high))
        if abs(curvature) * size > LARGEST_ANGLE or abs(curvature) * size < STRAIGHT:
            self.deform(self._rest, pose, out)
        else:
            _bend_local(self._local, self._still, rig.frame, curvature, out.reshape(-1))

    def deform(self, points: Floats, pose: Floats, out: Positions) -> None:
        """Where the vertices go, were they at `points`; `out` may be `points`."""
        rig = self._rig
        curvature = float(pose[0]) / (rig.high - rig.low)
        bend_points(points, rig.origin, rig.frame, curvature, rig.low, rig.high, out)

    def fork(self) -> BendPlacement:
        """The same: nothing is kept between calls."""
        return self


@compiled_fused
def _bend_local(
    local: Floats, still: Floats, frame: Floats, curvature: float, out: Positions
) -> None:
    """Positions from (length of arc, x, what is beyond the arc) and what does not move."""
    fx, fy, fz = frame[0, 0], frame[0, 1], frame[0, 2]
    gx, gy, gz = frame[1, 0], frame[1, 1], frame[1, 2]
    radius = 1.0 / curvature
    for i in range(len(local) // 3):
        x, beyond = local[3 * i + 1], local[3 * i + 2]
        sine, versine = sine_and_versine(curvature * local[3 * i], np.float64)
        across = radius * versine + (x - versine * x) + sine * beyond
        along = radius * sine - sine * x + (beyond - versine * beyond)
        out[3 * i] = still[3 * i] + (across * fx + along * gx)
        out[3 * i + 1] = still[3 * i + 1] + (across * fy + along * gy)
        out[3 * i + 2] = still[3 * i + 2] + (across * fz + along * gz)


class TwistPlacement:
    """A list of vertices that are twisted, with their places along the axis at hand."""

    def __init__(self, rig: Twist, vertices: Ints | None = None) -> None:
        self._rig = rig
        self._rest = _listed(rig.rest_points, vertices)
        along = (self._rest - rig.origin) @ rig.axis
        self._parts = np.clip((along - rig.low) / (rig.high - rig.low), 0.0, 1.0)

    @property
    def n_points(self) -> int:
        """How many vertices are placed."""
        return len(self._rest)

    def place(self, pose: Floats, out: Positions) -> None:
        """Where the vertices are at a pose."""
        start, end, rig = float(pose[0]), float(pose[1]), self._rig
        if max(abs(start), abs(end)) > LARGEST_ANGLE:
            self.deform(self._rest, pose, out)
        else:
            flat = self._rest.reshape(-1)
            _twist_parts(self._parts, flat, rig.origin, rig.axis, start, end, out.reshape(-1))

    def deform(self, points: Floats, pose: Floats, out: Positions) -> None:
        """Where the vertices go, were they at `points`; `out` may be `points`."""
        rig = self._rig
        start, end = float(pose[0]), float(pose[1])
        twist_points(points, rig.origin, rig.axis, start, end, rig.low, rig.high, out)

    def fork(self) -> TwistPlacement:
        """The same: nothing is kept between calls."""
        return self


@compiled_fused
def _twist_parts(
    parts: Floats,
    rest: Floats,
    origin: Floats,
    axis: Floats,
    start: float,
    end: float,
    out: Positions,
) -> None:
    ax, ay, az = axis[0], axis[1], axis[2]
    ox, oy, oz = origin[0], origin[1], origin[2]
    for i in range(len(parts)):
        sine, versine = sine_and_versine(start + parts[i] * (end - start), np.float64)
        x, y, z = rest[3 * i], rest[3 * i + 1], rest[3 * i + 2]
        dx, dy, dz = x - ox, y - oy, z - oz
        ex, ey, ez = ay * dz - az * dy, az * dx - ax * dz, ax * dy - ay * dx
        out[3 * i] = x + (sine * ex + versine * (ay * ez - az * ey))
        out[3 * i + 1] = y + (sine * ey + versine * (az * ex - ax * ez))
        out[3 * i + 2] = z + (sine * ez + versine * (ax * ey - ay * ex))


class LatticePlacement:
    """A list of vertices in a lattice, with their Bernstein polynomials at hand."""

    def __init__(self, rig: Lattice, vertices: Ints | None = None) -> None:
        self._rig = rig
        self._rest = _listed(rig.rest_points, vertices)
        parts = np.clip((self._rest - rig.low) / (rig.high - rig.low), 0.0, 1.0)
        self._bases = tuple(np.empty((len(parts), count)) for count in rig.divisions)
        for axis, basis in enumerate(self._bases):
            _all_bernstein(np.ascontiguousarray(parts[:, axis]), basis)
        self._room = np.empty((3, max(rig.divisions)))

    @property
    def n_points(self) -> int:
        """How many vertices are placed."""
        return len(self._rest)

    def place(self, pose: Floats, out: Positions) -> None:
        """Where the vertices are at a pose."""
        offsets = writable(pose).reshape(*self._rig.divisions, 3)
        _pull_with(self._rest, *self._bases, offsets, out)

    def deform(self, points: Floats, pose: Floats, out: Positions) -> None:
        """Where the vertices go, were they at `points`; `out` may be `points`."""
        rig = self._rig
        offsets = writable(pose).reshape(*rig.divisions, 3)
        pull_points(points, rig.low, rig.high, offsets, self._room, out)

    def fork(self) -> LatticePlacement:
        """The same tables with other room to work in."""
        other = object.__new__(LatticePlacement)
        other.__dict__.update(self.__dict__)
        other._room = np.empty_like(self._room)
        return other


@compiled
def _all_bernstein(parts: Floats, out: Floats) -> None:
    for i in range(len(parts)):
        bernstein(parts[i], out[i])


@compiled
def _pull_with(
    rest: Floats, first: Floats, second: Floats, third: Floats, offsets: Floats, out: Positions
) -> None:
    for i in range(len(rest)):
        x = y = z = 0.0
        for a in range(first.shape[1]):
            for b in range(second.shape[1]):
                across = first[i, a] * second[i, b]
                for c in range(third.shape[1]):
                    weight = across * third[i, c]
                    x += weight * offsets[a, b, c, 0]
                    y += weight * offsets[a, b, c, 1]
                    z += weight * offsets[a, b, c, 2]
        out[i, 0], out[i, 1], out[i, 2] = rest[i, 0] + x, rest[i, 1] + y, rest[i, 2] + z


class ChainPlacement:
    """Placements one after another, each with its part of the pose.

    Parameters
    ----------
    stages
        Of the same vertices; those after the first can move given points.
    ends
        Where their parts of the pose begin, and the last one ends.
    """

    def __init__(self, stages: Sequence[Placement], ends: Sequence[int]) -> None:
        self._stages, self._ends = tuple(stages), tuple(ends)
        self._room = np.empty((self.n_points, 3))

    @property
    def n_points(self) -> int:
        """How many vertices are placed."""
        return self._stages[0].n_points

    def place(self, pose: Floats, out: Positions) -> None:
        """Where the vertices are at a pose."""
        own = writable(pose)
        self._stages[0].place(own[: self._ends[1]], self._room)
        self._move_on(own, 1, out)

    def _move_on(self, pose: Floats, begin: int, out: Positions) -> None:
        last = len(self._stages) - 1
        for k in range(begin, last + 1):
            part = pose[self._ends[k] : self._ends[k + 1]]
            self._stages[k].deform(self._room, part, out if k == last else self._room)  # type: ignore[attr-defined]

    def fork(self) -> ChainPlacement:
        """The same tables with other room to work in."""
        return type(self)([stage.fork() for stage in self._stages], self._ends)


class DeformingChainPlacement(ChainPlacement):
    """A chain of which the first can move given points, too."""

    def deform(self, points: Floats, pose: Floats, out: Positions) -> None:
        """Where the vertices go, were they at `points`; `out` may be `points`."""
        np.copyto(self._room, points)
        self._move_on(writable(pose), 0, out)


def chain_placement(
    chain: RigChain, vertices: Ints | None = None, *, single: bool = False
) -> Placement:
    """The placement of a chain; wires in a row are one stage."""
    stages: list[Placement] = []
    ends = [0]
    # Other stages can enlarge what rounding in single precision leaves.
    alone = single and all(type(rig) is Wire for rig in chain.rigs)
    for wires, group in itertools.groupby(chain.rigs, lambda rig: type(rig) is Wire):
        rigs: list[Rig] = list(group)
        for each in [rigs] if wires else [[rig] for rig in rigs]:
            many = (
                WiresPlacement(each, vertices, single=alone)  # type: ignore[arg-type]
                if wires
                else placement(each[0], vertices)
            )
            stages.append(many)
            ends.append(ends[-1] + sum(len(rig.parameters) for rig in each))
    if not all(isinstance(stage, DeformingPlacement) for stage in stages[1:]):
        return CalledPlacement(chain, vertices)
    if len(stages) == 1:
        return stages[0]
    deforming = isinstance(stages[0], DeformingPlacement)
    return (DeformingChainPlacement if deforming else ChainPlacement)(stages, ends)


def _listed(points: Floats, vertices: Ints | None) -> Floats:
    # A copy: for read-only arrays compiled loops would be compiled anew.
    return np.array(points if vertices is None else points[vertices], order="C")
