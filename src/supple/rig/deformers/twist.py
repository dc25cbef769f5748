"""Twist deformer: points rotate about an axis, by an angle that changes along it."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.checks import owned_array
from supple.compiled.jit import compiled, compiled_fused
from supple.compiled.program import KernelCall
from supple.maths.point_rotations import sine_and_versine
from supple.rig.deformers.point_deformer import (
    LARGEST_ANGLE,
    PointDeformer,
    PointPlacement,
    axis_fields,
    checked_bounds,
    checked_frame,
)
from supple.rig.placement.placement import Positions
from supple.rig.protocol import Parameter, TetTransfer
from supple.rig.stored.field_reader import DOUBLE, Field
from supple.rig.stored.schema import Array, keep_bits


class Twist(PointDeformer):
    """A rig that rotates points about an axis, by an angle that changes along it.

    Two parameters, "<name>.start" and "<name>.end": the angles at and below the low bound, and at
    and above the high bound, in radians. Between the bounds the angle changes linearly.

    Parameters
    ----------
    points : (n, 3) array
        Rest points.
    origin, axis : (3,) arrays
        Axis of rotation, by the right-hand rule.
    low, high : float
        Ends of the twisted part, in metres along the axis from the origin.

    Examples
    --------
    >>> rig = Twist([[1, 0.5, 0]], low=0, high=1)
    >>> np.round(rig([0, np.pi]), 12)
    array([[ 0. ,  0.5, -1. ]])
    """

    def __init__(
        self,
        points: ArrayLike,
        origin: ArrayLike = (0.0, 0.0, 0.0),
        axis: ArrayLike = (0.0, 1.0, 0.0),
        *,
        low: float = -1.0,
        high: float = 1.0,
        name: str = "twist",
    ) -> None:
        parameters = [Parameter(f"{name}.start", "rad"), Parameter(f"{name}.end", "rad")]
        super().__init__(points, parameters)
        self.origin = owned_array(f"{name}: origin", origin, (3,))
        self.axis = checked_frame(name, axis)[1]
        self.low, self.high = checked_bounds(name, low, high)

    def _move(self, points: Floats, pose: Floats, subset: Ints | None) -> Floats:
        out = np.empty_like(points)
        _twist_points(points, self.origin, self.axis, pose[0], pose[1], self.low, self.high, out)
        return out

    def placement(self, vertices: Ints | None = None, *, single: bool = False) -> TwistPlacement:
        """Return a placement of the listed vertices, or of all; see `Placement`."""
        return TwistPlacement(self, vertices)

    def on_tets(self, transfer: TetTransfer) -> Twist:
        """Return the same twist of the tet vertices."""
        return self.with_rest_points(transfer.vertices)

    stored_fields: ClassVar[tuple[Field, ...]] = (Array("axis", DOUBLE, (3,)), *axis_fields())

    @classmethod
    def restored(cls, points: Floats, origin: Floats, axis: Floats, **values: Any) -> Twist:
        """Make the rig from its stored fields."""
        rig = cls(points, origin, axis, **values)
        keep_bits("its axis", rig.axis, axis)
        return rig


class TwistPlacement(PointPlacement[Twist]):
    """Placement of twisted vertices, with precomputed positions along the axis."""

    def __init__(self, rig: Twist, vertices: Ints | None = None) -> None:
        super().__init__(rig, vertices)
        along = (self._rest - rig.origin) @ rig.axis
        self._parts = np.clip((along - rig.low) / (rig.high - rig.low), 0.0, 1.0)

    def place(self, pose: Floats, out: Positions) -> None:
        start, end, rig = float(pose[0]), float(pose[1]), self._rig
        if max(abs(start), abs(end)) > LARGEST_ANGLE:
            self.deform(self._rest, pose, out)
        else:
            flat = self._rest.reshape(-1)
            _twist_parts(self._parts, flat, rig.origin, rig.axis, start, end, out.reshape(-1))

    def deform(self, points: Floats, pose: Floats, out: Positions) -> None:
        rig = self._rig
        start, end = float(pose[0]), float(pose[1])
        _twist_points(points, rig.origin, rig.axis, start, end, rig.low, rig.high, out)

    def calls(self, pose: Floats, out: Positions) -> list[KernelCall]:
        """Return the calls of `place`."""
        rig = self._rig
        shape = self._rest, rig.origin, rig.axis, rig.low, rig.high
        return [KernelCall(_twist_either, (pose, *shape, self._parts, out), (out,))]

    def deform_calls(self, points: Floats, pose: Floats, out: Positions) -> list[KernelCall]:
        """Return the calls of `deform`."""
        rig = self._rig
        arguments = (pose, points, rig.origin, rig.axis, rig.low, rig.high, out)
        return [KernelCall(_twist_at, arguments, (out,))]


@compiled
def _twist_at(
    pose: Floats,
    points: Floats,
    origin: Floats,
    axis: Floats,
    low: float,
    high: float,
    out: Positions,
) -> None:
    _twist_points(points, origin, axis, pose[0], pose[1], low, high, out)


@compiled
def _twist_either(
    pose: Floats,
    points: Floats,
    origin: Floats,
    axis: Floats,
    low: float,
    high: float,
    parts: Floats,
    out: Positions,
) -> None:
    """Twist points as `TwistPlacement.place` does."""
    start, end = pose[0], pose[1]
    if max(abs(start), abs(end)) > LARGEST_ANGLE:
        _twist_points(points, origin, axis, start, end, low, high, out)
    else:
        flat = points.reshape(points.size)
        _twist_parts(parts, flat, origin, axis, start, end, out.reshape(out.size))


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


@compiled
def _twist_points(
    points: Floats,
    origin: Floats,
    axis: Floats,
    start: float,
    end: float,
    low: float,
    high: float,
    out: Positions,
) -> None:
    ax, ay, az = axis[0], axis[1], axis[2]
    for i in range(len(points)):
        dx, dy, dz = points[i, 0] - origin[0], points[i, 1] - origin[1], points[i, 2] - origin[2]
        along = ax * dx + ay * dy + az * dz
        part = min(max((along - low) / (high - low), 0.0), 1.0)
        angle = start + part * (end - start)
        cosine, sine = math.cos(angle), math.sin(angle)
        # Rodrigues' formula: the component along the axis stays.
        fixed = (1 - cosine) * along
        out[i, 0] = origin[0] + cosine * dx + sine * (ay * dz - az * dy) + fixed * ax
        out[i, 1] = origin[1] + cosine * dy + sine * (az * dx - ax * dz) + fixed * ay
        out[i, 2] = origin[2] + cosine * dz + sine * (ax * dy - ay * dx) + fixed * az
