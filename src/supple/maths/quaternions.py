"""Kernels on single unit quaternions (x, y, z, w) and rotation vectors.

`supple.maths.rotations` has functions of whole arrays.
"""

from __future__ import annotations

import math

from supple.arrays import Floats
from supple.compiled.jit import compiled

#: Sine of the half angle below which the axis is rounding noise, for float32 input too.
AXIS_IS_NOISE = 1e-6
#: Squares of numbers between this and its inverse neither overflow nor underflow.
LARGEST_SQUARED = 1e150


@compiled
def multiply(a: Floats, b: Floats, out: Floats) -> None:
    """Write the quaternion product a b, which rotates by b first; `out` must be another array."""
    out[0] = a[3] * b[0] + a[0] * b[3] + a[1] * b[2] - a[2] * b[1]
    out[1] = a[3] * b[1] - a[0] * b[2] + a[1] * b[3] + a[2] * b[0]
    out[2] = a[3] * b[2] + a[0] * b[1] - a[1] * b[0] + a[2] * b[3]
    out[3] = a[3] * b[3] - a[0] * b[0] - a[1] * b[1] - a[2] * b[2]


@compiled
def exponential(vector: Floats, out: Floats) -> None:
    """Write the unit quaternion of a rotation vector."""
    largest = max(abs(vector[0]), abs(vector[1]), abs(vector[2]))
    if largest > LARGEST_SQUARED:
        x, y, z = vector[0] / largest, vector[1] / largest, vector[2] / largest
        length = math.sqrt(x * x + y * y + z * z)
        half = 0.5 * largest * length
        sine = math.sin(half) / length
        out[0], out[1], out[2], out[3] = sine * x, sine * y, sine * z, math.cos(half)
        return
    angle = math.sqrt(vector[0] ** 2 + vector[1] ** 2 + vector[2] ** 2)
    # sin(a/2)/a; for small angles the series is exact to the last digit and the quotient is not.
    ratio = 0.5 - angle * angle / 48 if angle < 1e-4 else math.sin(0.5 * angle) / angle
    for axis in range(3):
        out[axis] = ratio * vector[axis]
    out[3] = math.cos(0.5 * angle)


@compiled
def logarithm_near(quaternion: Floats, near: Floats, out: Floats) -> None:
    """Write the rotation vector of a unit quaternion that is nearest to `near`; its length is at
    most π for a zero `near`.
    """
    x, y, z, w = quaternion
    sine = math.sqrt(x * x + y * y + z * z)
    length = math.sqrt(near[0] ** 2 + near[1] ** 2 + near[2] ** 2)
    angle = 2 * math.atan2(sine, w)
    if sine < AXIS_IS_NOISE and length > math.pi:
        # Full turns: any axis will do, so the axis of `near` is kept.
        turns = round(length / (2 * math.pi))
        for axis in range(3):
            out[axis] = 2 * math.pi * turns * near[axis] / length
        return
    if sine == 0:
        out[:] = 0
        return
    along = (near[0] * x + near[1] * y + near[2] * z) / sine
    angle += 2 * math.pi * round((along - angle) / (2 * math.pi))
    # A tiny angle over a tiny sine is 2 to the last digit, times the sign of w.
    ratio = angle / sine
    out[0], out[1], out[2] = ratio * x, ratio * y, ratio * z


@compiled
def to_matrix(quaternion: Floats, out: Floats) -> None:
    """Write the rotation matrix of a quaternion of any length; zero gives the identity."""
    x, y, z, w = quaternion
    largest = max(max(abs(x), abs(y)), max(abs(z), abs(w)))
    if largest > LARGEST_SQUARED or 0 < largest < 1 / LARGEST_SQUARED:
        x, y, z, w = x / largest, y / largest, z / largest, w / largest
    squared = x * x + y * y + z * z + w * w
    s = 2 / squared if squared > 0 else 0.0
    out[0, 0], out[0, 1], out[0, 2] = (
        1 - s * (y * y + z * z),
        s * (x * y - z * w),
        s * (x * z + y * w),
    )
    out[1, 0], out[1, 1], out[1, 2] = (
        s * (x * y + z * w),
        1 - s * (x * x + z * z),
        s * (y * z - x * w),
    )
    out[2, 0], out[2, 1], out[2, 2] = (
        s * (x * z - y * w),
        s * (y * z + x * w),
        1 - s * (x * x + y * y),
    )
