"""Free-form deformation in a box of control points (Sederberg & Parry 1986)."""

from __future__ import annotations

import math
from itertools import product
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.checks import owned_array
from supple.compiled.jit import compiled
from supple.errors import SuppleError
from supple.rig.deformers.point_deformer import (
    PointDeformer,
    PointPlacement,
    name_field,
    points_field,
)
from supple.rig.placement.placement import Forkable, Positions, writable
from supple.rig.protocol import Parameter, TetTransfer
from supple.rig.stored.field_reader import DOUBLE, INDEX, Field, FieldReader, Values
from supple.rig.stored.schema import PARAMETER_COST, Array

#: Bernstein polynomials of higher degree hardly follow their control points.
MOST_PER_AXIS = 32


class _Divisions(Array):
    """Stored numbers of control points along each axis."""

    def read(self, reader: FieldReader) -> Values:
        """Read the numbers; count the parameters against the budget."""
        values = super().read(reader)
        if reader.budget is not None:
            count = 3 * math.prod(values["divisions"].tolist())
            reader.budget.take("its parameters", PARAMETER_COST * count)
        return values


class Lattice(PointDeformer):
    """A rig whose points follow the control points of a box, by Bernstein polynomials.

    Three parameters for each control point, "<name>.i.j.k.tx" and so on: its offset in metres.
    A point outside the box moves like the nearest point of the box, continuously.

    Parameters
    ----------
    points : (n, 3) array
        Rest points.
    divisions : three ints
        Control points along x, y and z, 2 to 32 each.
    low, high : (3,) arrays, optional
        Corners of the box; by default the corners of the points' bounding box.

    Examples
    --------
    >>> rig = Lattice([[0.5, 0.5, 0.5]], (2, 2, 2), low=(0, 0, 0), high=(1, 1, 1))
    >>> pose = rig.rest_pose.copy()
    >>> pose[0] = 0.8  # "lattice.0.0.0.tx"
    >>> rig(pose)
    array([[0.6, 0.5, 0.5]])
    """

    def __init__(
        self,
        points: ArrayLike,
        divisions: tuple[int, int, int] = (3, 3, 3),
        *,
        low: ArrayLike | None = None,
        high: ArrayLike | None = None,
        name: str = "lattice",
    ) -> None:
        counts = np.asarray(divisions)
        if counts.shape != (3,) or counts.dtype.kind not in "iu":
            raise SuppleError(f"{name}: divisions must be three whole numbers")
        if not (counts.min() >= 2 and counts.max() <= MOST_PER_AXIS):
            shown = " × ".join(str(count) for count in counts)
            raise SuppleError(f"{name}: {shown} control points; use 2 to {MOST_PER_AXIS} per axis")
        self.divisions: tuple[int, int, int] = tuple(int(count) for count in counts)  # type: ignore[assignment]
        cells = product(*(range(count) for count in self.divisions))
        parameters = [
            Parameter(f"{name}.{i}.{j}.{k}.t{axis}", "m") for i, j, k in cells for axis in "xyz"
        ]
        super().__init__(points, parameters)
        corners = (self.rest_points.min(axis=0), self.rest_points.max(axis=0))
        self.low = owned_array(f"{name}: low corner", corners[0] if low is None else low, (3,))
        self.high = owned_array(f"{name}: high corner", corners[1] if high is None else high, (3,))
        if not (self.high > self.low).all():
            flat = "xyz"[int(np.argmin(self.high - self.low))]
            raise SuppleError(f"{name}: the box has no extent along {flat}; give low and high")

    def _move(self, points: Floats, pose: Floats, subset: Ints | None) -> Floats:
        out = np.empty_like(points)
        offsets = pose.reshape(*self.divisions, 3)
        _pull_points(points, self.low, self.high, offsets, np.empty((3, max(self.divisions))), out)
        return out

    def placement(self, vertices: Ints | None = None, *, single: bool = False) -> LatticePlacement:
        """Return a placement of the listed vertices, or of all; see `Placement`."""
        return LatticePlacement(self, vertices)

    def on_tets(self, transfer: TetTransfer) -> Lattice:
        """Return the same lattice of the tet vertices."""
        return self.with_rest_points(transfer.vertices)

    stored_fields: ClassVar[tuple[Field, ...]] = (
        _Divisions("divisions", INDEX, (3,)),
        points_field(),
        Array("low", DOUBLE, (3,)),
        Array("high", DOUBLE, (3,)),
        name_field(4),
    )


class LatticePlacement(Forkable, PointPlacement[Lattice]):
    """Placement of vertices in a lattice, with precomputed Bernstein polynomials."""

    def __init__(self, rig: Lattice, vertices: Ints | None = None) -> None:
        super().__init__(rig, vertices)
        parts = np.clip((self._rest - rig.low) / (rig.high - rig.low), 0.0, 1.0)
        self._bases = tuple(np.empty((len(parts), count)) for count in rig.divisions)
        for axis, basis in enumerate(self._bases):
            _all_bernstein(np.ascontiguousarray(parts[:, axis]), basis)
        self._allocate()

    def _allocate(self) -> None:
        self._scratch = np.empty((3, max(self._rig.divisions)))

    def place(self, pose: Floats, out: Positions) -> None:
        offsets = writable(pose).reshape(*self._rig.divisions, 3)
        _pull_with(self._rest, *self._bases, offsets, out)

    def deform(self, points: Floats, pose: Floats, out: Positions) -> None:
        rig = self._rig
        offsets = writable(pose).reshape(*rig.divisions, 3)
        _pull_points(points, rig.low, rig.high, offsets, self._scratch, out)


@compiled
def _all_bernstein(parts: Floats, out: Floats) -> None:
    for i in range(len(parts)):
        _bernstein(parts[i], out[i])


@compiled
def _pull_with(
    rest: Floats, first: Floats, second: Floats, third: Floats, offsets: Floats, out: Positions
) -> None:
    for i in range(len(rest)):
        _pull(rest[i], first[i], second[i], third[i], offsets, out[i])


@compiled
def _pull_points(
    points: Floats, low: Floats, high: Floats, offsets: Floats, basis: Floats, out: Positions
) -> None:
    first, second = basis[0, : offsets.shape[0]], basis[1, : offsets.shape[1]]
    third = basis[2, : offsets.shape[2]]
    for i in range(len(points)):
        for axis in range(3):
            part = (points[i, axis] - low[axis]) / (high[axis] - low[axis])
            _bernstein(min(max(part, 0.0), 1.0), basis[axis, : offsets.shape[axis]])
        _pull(points[i], first, second, third, offsets, out[i])


@compiled
def _pull(
    point: Floats, first: Floats, second: Floats, third: Floats, offsets: Floats, out: Positions
) -> None:
    """Write a point plus Σ B_a B_b B_c offset_abc, with the polynomials of its place in the box."""
    x = y = z = 0.0
    for a in range(len(first)):
        for b in range(len(second)):
            across = first[a] * second[b]
            for c in range(len(third)):
                weight = across * third[c]
                x += weight * offsets[a, b, c, 0]
                y += weight * offsets[a, b, c, 1]
                z += weight * offsets[a, b, c, 2]
    out[0], out[1], out[2] = point[0] + x, point[1] + y, point[2] + z


@compiled
def _bernstein(part: float, out: Floats) -> None:
    """Write all Bernstein polynomials of degree len(out) - 1, by recursion over the degree."""
    out[0] = 1.0
    for degree in range(1, len(out)):
        out[degree] = part * out[degree - 1]
        for k in range(degree - 1, 0, -1):
            out[k] = (1 - part) * out[k] + part * out[k - 1]
        out[0] *= 1 - part
