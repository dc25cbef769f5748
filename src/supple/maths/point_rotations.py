"""Sine, arc tangent and rotations by polynomials, for kernels that vectorise.

`kind` is the type of all numbers, np.float64 or np.float32. The series is chosen when a kernel is
compiled.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from supple.arrays import Floats
from supple.compiled.jit import compiled_fused

#: Largest angle for which sine and versine are short Taylor series in float64.
FAINT = 0.02

#: Single precision gives a rotation axis to a few roundings unless the tangent is nearly reversed:
#: the cosines of its angles to its rest direction and to neighbours are at least
LEAST_COSINE, LEAST_STRAIGHT = -0.5, 0.5
#: and it keeps at least this fraction of its length; its square is between these bounds.
LEAST_PART, SMALLEST, LARGEST = 0.25, 1e-8, 1e8


@compiled_fused
def is_single(kind: Any) -> bool:
    """Return whether a number type is float32; evaluated at compile time."""
    return kind(1.0) + kind(1e-10) == kind(1.0)


@compiled_fused
def sine_and_versine(angle: Any, kind: Any) -> tuple[Any, Any]:
    """Return sine and versine, 1 − cos, of an angle, by doubling a quarter of the angle twice."""
    one, two = kind(1.0), kind(2.0)
    quarter = kind(0.25) * angle
    # Influences above 1 can rotate a point by more than π.
    quarter -= kind(math.pi / 2) * np.rint(quarter * kind(2 / math.pi))
    z = quarter * quarter
    # Sums in pairs have shorter dependency chains than Horner's scheme.
    zz = z * z
    if is_single(kind):
        odd = kind(-0.166666507) + kind(0.00833197858) * z + kind(-0.000194956279) * zz
        even = kind(-0.0416666469) + kind(0.00138873674) * z + kind(-2.44384418e-05) * zz
    else:
        low = kind(-0.16666666666666616) + kind(0.008333333333320363) * z
        middle = kind(-0.000198412698286503) + kind(2.755731337640013e-06) * z
        high = kind(-2.5050716974102758e-08) + kind(1.5894736651849782e-10) * z
        odd = low + zz * (middle + zz * high)
        low = kind(-0.04166666666666664) + kind(0.0013888888888880775) * z
        middle = kind(-2.480158729369346e-05) + kind(2.7557315566341895e-07) * z
        high = kind(-2.087588673804706e-09) + kind(1.1367998654022923e-11) * z
        even = low + zz * (middle + zz * high)
    sine = quarter + quarter * z * odd
    cosine = one - (kind(0.5) * z + zz * even)
    half = two * sine * cosine
    return two * half * (one - two * sine * sine), two * half * half


@compiled_fused
def faint_sine_and_versine(angle: Any, kind: Any) -> tuple[Any, Any]:
    """Return sine and versine of an angle up to `FAINT`, by Taylor series."""
    z = angle * angle
    sine = angle + angle * z * (kind(-1 / 6) + kind(1 / 120) * z)
    return sine, z * (kind(0.5) + z * (kind(-1 / 24) + kind(1 / 720) * z))


@compiled_fused
def arc(opposite: Any, adjacent: Any, size: Any, kind: Any) -> tuple[Any, Any]:
    """Return atan2(opposite, adjacent), from 0 to π, and 1 / opposite.
    `opposite` is positive, and `size` is the hypotenuse.
    """
    # Half the angle to the nearer direction of the adjacent side has a tangent in [0, 1].
    below = size + abs(adjacent)
    steep = opposite > kind(0.41421356237309503) * below
    top = opposite - below if steep else opposite
    bottom = opposite + below if steep else below
    # One division for two quotients.
    both = kind(1.0) / (bottom * opposite)
    w = top * (opposite * both)
    z = w * w
    zz = z * z
    if is_single(kind):
        low = kind(-0.33333303) + kind(0.199978952) * z
        high = kind(-0.142345053) + kind(0.105360962) * z
        series = low + zz * (high + kind(-0.0594831023) * zz)
    else:
        first = kind(-0.3333333333332844) + kind(0.1999999999885511) * z
        second = kind(-0.14285714180976467) + kind(0.11111106180455946) * z
        third = kind(-0.09090773074808416) + kind(0.07689953496306899) * z
        fourth = kind(-0.06640233930429887) + kind(0.05688349226812046) * z
        fifth = kind(-0.04348052215726629) + kind(0.021135373157833683) * z
        series = (first + zz * second) + zz * zz * ((third + zz * fourth) + zz * zz * fifth)
    half = w + w * z * series
    half = half + kind(math.pi / 4) if steep else half
    twice = half + half
    return twice if adjacent >= kind(0.0) else kind(math.pi) - twice, bottom * both


@compiled_fused
def shortest_turn(
    tx: Any, ty: Any, tz: Any, dx: Any, dy: Any, dz: Any
) -> tuple[Any, Any, Any, Any, Any]:
    """Return t × (t + d), t · (t + d) and |t × (t + d)|² of the smallest rotation of t to t + d."""
    cx, cy, cz = ty * dz - tz * dy, tz * dx - tx * dz, tx * dy - ty * dx
    inner = (tx * tx + ty * ty + tz * tz) + (tx * dx + ty * dy + tz * dz)
    return cx, cy, cz, inner, cx * cx + cy * cy + cz * cz


@compiled_fused
def turns_little(rest: Floats, shift: Floats) -> bool:
    """Return whether single precision suffices for the tangents of a displaced cubic.

    `rest` and `shift` (12,) are coefficients of the cubic and of its displacement, in ascending
    powers. Their tangents t and e = t + d are quadratic along the cubic: each is a convex
    combination of three vectors, which are compared here.
    """
    longest, shortest, most = 0.0, np.inf, 0.0
    for i in range(3):
        tx, ty, tz = _tangent(rest, i)
        dx, dy, dz = _tangent(shift, i)
        ex, ey, ez = tx + dx, ty + dy, tz + dz
        squared = ex * ex + ey * ey + ez * ez
        longest = max(longest, tx * tx + ty * ty + tz * tz)
        shortest, most = min(shortest, squared), max(most, squared)
        length = math.sqrt(squared)
        for k in range(3):
            bx, by, bz = _tangent(rest, k)
            gx, gy, gz = _tangent(shift, k)
            least = LEAST_COSINE * length * math.sqrt(bx * bx + by * by + bz * bz)
            if not bx * ex + by * ey + bz * ez >= least:
                return False
            gx, gy, gz = gx + bx, gy + by, gz + bz
            least = LEAST_STRAIGHT * length * math.sqrt(gx * gx + gy * gy + gz * gz)
            if not gx * ex + gy * ey + gz * ez >= least:
                return False
    return shortest >= max(LEAST_PART**2 * longest, SMALLEST) and max(longest, most) <= LARGEST


@compiled_fused
def _tangent(cubic: Floats, i: int) -> tuple[float, float, float]:
    """Return the i-th of three vectors whose hull contains a cubic's derivative on [0, 1]."""
    a, b = 1.0 * min(i, 1), 1.0 * max(i - 1, 0)
    # p₁, p₁ + p₂ and p₁ + 2 p₂ + 3 p₃ of the powers p.
    return (
        cubic[3] + (a + b) * cubic[6] + 3.0 * b * cubic[9],
        cubic[4] + (a + b) * cubic[7] + 3.0 * b * cubic[10],
        cubic[5] + (a + b) * cubic[8] + 3.0 * b * cubic[11],
    )
