"""Bend deformer: an axis becomes an arc."""

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

#: Curvature times length below which float64 shows no bend.
STRAIGHT = 1e-30


class Bend(PointDeformer):
    """A rig that bends points so that an axis becomes an arc of the same length.

    One parameter, "<name>.angle": rotation of the axis between its bounds, in radians. Beyond
    the bounds points move rigidly. The origin, or the bound nearest to it, stays fixed.

    Parameters
    ----------
    points : (n, 3) array
        Rest points.
    origin, axis : (3,) arrays
        The line that is bent.
    direction : (3,) array
        Direction towards which a positive angle bends the upper part of the axis.
    low, high : float
        Ends of the bent part, in metres along the axis from the origin.

    Examples
    --------
    A quarter of a circle of length π/2 has radius 1:

    >>> rig = Bend([[0, np.pi / 2, 0]], low=0, high=np.pi / 2)
    >>> np.round(rig([np.pi / 2]), 12)
    array([[1., 1., 0.]])
    """

    def __init__(
        self,
        points: ArrayLike,
        origin: ArrayLike = (0.0, 0.0, 0.0),
        axis: ArrayLike = (0.0, 1.0, 0.0),
        direction: ArrayLike = (1.0, 0.0, 0.0),
        *,
        low: float = -1.0,
        high: float = 1.0,
        name: str = "bend",
    ) -> None:
        super().__init__(points, [Parameter(f"{name}.angle", "rad")])
        self.origin = owned_array(f"{name}: origin", origin, (3,))
        self.frame = checked_frame(name, axis, direction)
        self.low, self.high = checked_bounds(name, low, high)

    def _move(self, points: Floats, pose: Floats, subset: Ints | None) -> Floats:
        out = np.empty_like(points)
        curvature = pose[0] / (self.high - self.low)
        _bend_points(points, self.origin, self.frame, curvature, self.low, self.high, out)
        return out

    def placement(self, vertices: Ints | None = None, *, single: bool = False) -> BendPlacement:
        """Return a placement of the listed vertices, or of all; see `Placement`."""
        return BendPlacement(self, vertices)

    def on_tets(self, transfer: TetTransfer) -> Bend:
        """Return the same bend of the tet vertices."""
        return self.with_rest_points(transfer.vertices)

    stored_fields: ClassVar[tuple[Field, ...]] = (Array("frame", DOUBLE, (3, 3)), *axis_fields())

    @classmethod
    def restored(cls, points: Floats, origin: Floats, frame: Floats, **values: Any) -> Bend:
        """Make the rig from its stored fields."""
        rig = cls(points, origin, frame[1], frame[0], **values)
        keep_bits("its frame", rig.frame, frame)
        return rig


class BendPlacement(PointPlacement[Bend]):
    """Placement of bent vertices, with precomputed coordinates in the bend's frame."""

    def __init__(self, rig: Bend, vertices: Ints | None = None) -> None:
        super().__init__(rig, vertices)
        x, y, z = rig.frame @ (self._rest - rig.origin).T
        bent = np.clip(y, rig.low, rig.high)
        fixed = min(max(0.0, rig.low), rig.high)
        self._local = np.column_stack([bent - fixed, x, y - bent]).ravel()
        still = rig.origin + z[:, None] * rig.frame[2] + fixed * rig.frame[1]
        self._still = np.ascontiguousarray(still).ravel()

    def place(self, pose: Floats, out: Positions) -> None:
        rig = self._rig
        angle = float(pose[0])
        curvature = angle / (rig.high - rig.low)
        size = max(abs(rig.low), abs(rig.high))
        if abs(curvature) * size > LARGEST_ANGLE or abs(curvature) * size < STRAIGHT:
            self.deform(self._rest, pose, out)
        else:
            _bend_local(self._local, self._still, rig.frame, curvature, out.reshape(-1))

    def deform(self, points: Floats, pose: Floats, out: Positions) -> None:
        rig = self._rig
        curvature = float(pose[0]) / (rig.high - rig.low)
        _bend_points(points, rig.origin, rig.frame, curvature, rig.low, rig.high, out)

    def calls(self, pose: Floats, out: Positions) -> list[KernelCall]:
        """Return the calls of `place`."""
        rig = self._rig
        shape = self._rest, rig.origin, rig.frame, rig.low, rig.high
        arguments = pose, *shape, self._local, self._still, out
        return [KernelCall(_bend_either, arguments, (out,))]

    def deform_calls(self, points: Floats, pose: Floats, out: Positions) -> list[KernelCall]:
        """Return the calls of `deform`."""
        rig = self._rig
        arguments = (pose, points, rig.origin, rig.frame, rig.low, rig.high, out)
        return [KernelCall(_bend_at, arguments, (out,))]


@compiled
def _bend_at(
    pose: Floats,
    points: Floats,
    origin: Floats,
    frame: Floats,
    low: float,
    high: float,
    out: Positions,
) -> None:
    _bend_points(points, origin, frame, pose[0] / (high - low), low, high, out)


@compiled
def _bend_either(
    pose: Floats,
    points: Floats,
    origin: Floats,
    frame: Floats,
    low: float,
    high: float,
    local: Floats,
    still: Floats,
    out: Positions,
) -> None:
    """Bend points as `BendPlacement.place` does."""
    curvature = pose[0] / (high - low)
    most = abs(curvature) * max(abs(low), abs(high))
    if most > LARGEST_ANGLE or most < STRAIGHT:
        _bend_points(points, origin, frame, curvature, low, high, out)
    else:
        _bend_local(local, still, frame, curvature, out.reshape(out.size))


@compiled_fused
def _bend_local(
    local: Floats, still: Floats, frame: Floats, curvature: float, out: Positions
) -> None:
    """Write positions from arc length, x and length beyond the arc, and a fixed part."""
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


@compiled
def _bend_points(
    points: Floats,
    origin: Floats,
    frame: Floats,
    curvature: float,
    low: float,
    high: float,
    out: Positions,
) -> None:
    fixed = min(max(0.0, low), high)
    for i in range(len(points)):
        dx, dy, dz = points[i, 0] - origin[0], points[i, 1] - origin[1], points[i, 2] - origin[2]
        x = frame[0, 0] * dx + frame[0, 1] * dy + frame[0, 2] * dz
        y = frame[1, 0] * dx + frame[1, 1] * dy + frame[1, 2] * dz
        z = frame[2, 0] * dx + frame[2, 1] * dy + frame[2, 2] * dz
        along = min(max(y, low), high)
        length = along - fixed
        half = 0.5 * curvature * length
        # The chord of an arc: its length times sin(half)/half, rotated by half of the angle.
        ratio = 1 - half * half / 6 if abs(half) < 1e-4 else math.sin(half) / half
        chord = length * ratio
        cosine, sine = math.cos(2 * half), math.sin(2 * half)
        beyond = y - along
        bent_x = chord * math.sin(half) + cosine * x + sine * beyond
        bent_y = fixed + chord * math.cos(half) - sine * x + cosine * beyond
        for k in range(3):
            out[i, k] = origin[k] + bent_x * frame[0, k] + bent_y * frame[1, k] + z * frame[2, k]
