"""Loops that move points along with wires, written so that they run several points at a time.

Points are rows x, y, z in one flat array, and within one loop all follow the same polynomials:
the only other thing that differs from point to point is its influence and its place. Sines and
arcs are polynomials of the accuracy of float64, as calls of library functions keep a loop from
being vectorised. Nothing depends on neighbours, so that a subset has the same bits.

A run is filled up with points that follow it and belong to others: their influence is 0 there.
"""

from __future__ import annotations

import math

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = [
    "AT_ONE_PLACE",
    "FULLY",
    "LANES",
    "PARTLY",
    "compiled_contracting",
    "follow_wires",
    "sine_and_versine",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Kinds of runs: all points at one place of the curve; spread along it, turning in part; fully.
AT_ONE_PLACE, PARTLY, FULLY = 0, 1, 2

#: Runs are as long as a multiple of this: what remained would be moved one by one.
LANES = 4

QUARTER = math.pi / 4
PER_TURN = 2 / math.pi

# As `compiled`, and products are added without being rounded first where the machine can do so.
compiled_contracting = numba.njit(
    cache=True, nogil=True, error_model="numpy", fastmath={"contract"}
)


@compiled_contracting
def sine_and_versine(angle: float) -> tuple[float, float]:
    """Sine and versine, 1 − cos, of an angle: from those of its quarter, doubled twice."""
    quarter = 0.25 * angle
    # Influences above 1 can turn a point farther than half around.
    quarter -= math.pi / 2 * np.rint(quarter * PER_TURN)
    z = quarter * quarter
    # Summed in pairs: what waits for each other in a row takes longer than what it computes.
    zz = z * z
    low = -0.16666666666666616 + 0.008333333333320363 * z
    middle = -0.000198412698286503 + 2.755731337640013e-06 * z
    high = -2.5050716974102758e-08 + 1.5894736651849782e-10 * z
    sine = quarter + quarter * z * (low + zz * (middle + zz * high))
    low = -0.04166666666666664 + 0.0013888888888880775 * z
    middle = -2.480158729369346e-05 + 2.7557315566341895e-07 * z
    high = -2.087588673804706e-09 + 1.1367998654022923e-11 * z
    cosine = 1.0 - (0.5 * z + zz * (low + zz * (middle + zz * high)))
    half = 2.0 * sine * cosine
    return 2.0 * half * (1.0 - 2.0 * sine * sine), 2.0 * half * half


@compiled_contracting
def arc(opposite: float, adjacent: float, size: float) -> float:
    """Angle from 0 to π of a triangle; `opposite` ≥ 0, and `size` is the hypotenuse, not 0."""
    # Half of the angle to the nearer side of the adjacent's line has a tangent in [0, 1].
    below = size + abs(adjacent)
    steep = opposite > 0.41421356237309503 * below
    top = opposite - below if steep else opposite
    bottom = opposite + below if steep else below
    w = top / bottom
    z = w * w
    zz = z * z
    first = -0.3333333333332844 + 0.1999999999885511 * z
    second = -0.14285714180976467 + 0.11111106180455946 * z
    third = -0.09090773074808416 + 0.07689953496306899 * z
    fourth = -0.06640233930429887 + 0.05688349226812046 * z
    fifth = -0.04348052215726629 + 0.021135373157833683 * z
    low, high = first + zz * second, third + zz * fourth
    series = low + zz * zz * (high + zz * zz * fifth)
    half = w + w * z * series
    half = half + QUARTER if steep else half
    return 2.0 * half if adjacent >= 0 else math.pi - 2.0 * half


@compiled_contracting
def follow_wires(
    pose: Floats,
    powers: Floats,
    rest: Floats,
    first: Ints,
    turning: Floats,
    runs: Ints,
    places: Floats,
    influence: Floats,
    moved: Floats,
    points: Floats,
) -> None:
    """Move points along with several wires, one after another.

    Parameters
    ----------
    pose
        (s,) offsets of the control points.
    powers
        (g, 4, 4) of each piece of a curve, from its control points to powers of the place.
    rest
        (g, 12) the pieces at rest, four powers of x, y, z each.
    first
        (g,) where in the pose the first of a piece's control points is.
    turning
        (g,) part of the tangent's rotation that is followed.
    runs
        (r, 5) first and last + 1 of the points, piece, kind, and where their tables begin.
    places, influence
        Tables of all runs: place within the piece, and influence.
    moved
        (g, 12) room for the pieces' shifts.
    points
        (3 k,) moved in place; `LANES` more of them than there are vertices.
    """
    for piece in range(len(powers)):
        _shift(pose[first[piece] :], powers[piece], moved[piece])
    for k in range(len(runs)):
        begin, end, piece, kind, table = runs[k]
        those = points[3 * begin : 3 * end]
        parts = influence[table : table + end - begin]
        if kind == AT_ONE_PLACE:
            _follow_place(those, parts, places[table], moved[piece], rest[piece], turning[piece])
            continue
        along = places[table : table + end - begin]
        if kind == FULLY:
            _follow_fully(those, parts, along, moved[piece], rest[piece])
        else:
            _follow_partly(those, parts, along, moved[piece], rest[piece], turning[piece])


@compiled_contracting
def _shift(offsets: Floats, powers: Floats, out: Floats) -> None:
    """A piece's shift as a polynomial, from the offsets of its control points."""
    acting = min(4, len(offsets) // 3)
    for power in range(4):
        for axis in range(3):
            total = 0.0
            for k in range(acting):
                total += powers[power, k] * offsets[3 * k + axis]
            out[3 * power + axis] = total


@compiled_contracting
def shortest_turn(
    tx: float, ty: float, tz: float, dx: float, dy: float, dz: float
) -> tuple[float, float, float, float, float]:
    """Of the shortest rotation from a tangent t to t + d: t × (t + d), t · (t + d), its size²."""
    cx, cy, cz = ty * dz - tz * dy, tz * dx - tx * dz, tx * dy - ty * dx
    inner = (tx * tx + ty * ty + tz * tz) + (tx * dx + ty * dy + tz * dz)
    return cx, cy, cz, inner, cx * cx + cy * cy + cz * cz


@compiled_contracting
def _follow_place(
    points: Floats, parts: Floats, place: float, moved: Floats, rest: Floats, turning: float
) -> None:
    u = place
    u2, u3 = 2.0 * u, 3.0 * u * u
    sx = moved[0] + u * (moved[3] + u * (moved[6] + u * moved[9]))
    sy = moved[1] + u * (moved[4] + u * (moved[7] + u * moved[10]))
    sz = moved[2] + u * (moved[5] + u * (moved[8] + u * moved[11]))
    px = rest[0] + u * (rest[3] + u * (rest[6] + u * rest[9]))
    py = rest[1] + u * (rest[4] + u * (rest[7] + u * rest[10]))
    pz = rest[2] + u * (rest[5] + u * (rest[8] + u * rest[11]))
    cx, cy, cz, inner, squared = shortest_turn(
        rest[3] + u2 * rest[6] + u3 * rest[9],
        rest[4] + u2 * rest[7] + u3 * rest[10],
        rest[5] + u2 * rest[8] + u3 * rest[11],
        moved[3] + u2 * moved[6] + u3 * moved[9],
        moved[4] + u2 * moved[7] + u3 * moved[10],
        moved[5] + u2 * moved[8] + u3 * moved[11],
    )
    length = math.sqrt(squared)
    # No tangent, or one that did not turn. Opposite ones have no shortest rotation: none then.
    whole = turning * math.atan2(length, inner) if length > 0 else 0.0
    inverse = 1.0 / length if length > 0 else 0.0
    x, y, z = cx * inverse, cy * inverse, cz * inverse
    for i in range(len(parts)):
        part = parts[i]
        sine, versine = sine_and_versine(part * whole)
        ax, ay, az = points[3 * i] - px, points[3 * i + 1] - py, points[3 * i + 2] - pz
        ex, ey, ez = y * az - z * ay, z * ax - x * az, x * ay - y * ax
        points[3 * i] += part * sx + (sine * ex + versine * (y * ez - z * ey))
        points[3 * i + 1] += part * sy + (sine * ey + versine * (z * ex - x * ez))
        points[3 * i + 2] += part * sz + (sine * ez + versine * (x * ey - y * ex))


@compiled_contracting
def _follow_partly(
    points: Floats, parts: Floats, along: Floats, moved: Floats, rest: Floats, turning: float
) -> None:
    s0x, s0y, s0z, s1x, s1y, s1z = moved[0], moved[1], moved[2], moved[3], moved[4], moved[5]
    s2x, s2y, s2z, s3x, s3y, s3z = moved[6], moved[7], moved[8], moved[9], moved[10], moved[11]
    r0x, r0y, r0z, r1x, r1y, r1z = rest[0], rest[1], rest[2], rest[3], rest[4], rest[5]
    r2x, r2y, r2z, r3x, r3y, r3z = rest[6], rest[7], rest[8], rest[9], rest[10], rest[11]
    for i in range(len(parts)):
        u, part = along[i], parts[i]
        u2, u3 = 2.0 * u, 3.0 * u * u
        cx, cy, cz, inner, squared = shortest_turn(
            r1x + u2 * r2x + u3 * r3x,
            r1y + u2 * r2y + u3 * r3y,
            r1z + u2 * r2z + u3 * r3z,
            s1x + u2 * s2x + u3 * s3x,
            s1y + u2 * s2y + u3 * s3y,
            s1z + u2 * s2z + u3 * s3z,
        )
        length = math.sqrt(squared)
        size = math.sqrt(squared + inner * inner)
        turns = length > 0
        angle = arc(length, inner, size if turns else 1.0)
        sine, versine = sine_and_versine(part * turning * angle)
        inverse = (1.0 if turns else 0.0) / (length if turns else 1.0)
        sine, versine = sine * inverse, versine * inverse * inverse
        ax = points[3 * i] - (r0x + u * (r1x + u * (r2x + u * r3x)))
        ay = points[3 * i + 1] - (r0y + u * (r1y + u * (r2y + u * r3y)))
        az = points[3 * i + 2] - (r0z + u * (r1z + u * (r2z + u * r3z)))
        ex, ey, ez = cy * az - cz * ay, cz * ax - cx * az, cx * ay - cy * ax
        sx = s0x + u * (s1x + u * (s2x + u * s3x))
        sy = s0y + u * (s1y + u * (s2y + u * s3y))
        sz = s0z + u * (s1z + u * (s2z + u * s3z))
        points[3 * i] += part * sx + (sine * ex + versine * (cy * ez - cz * ey))
        points[3 * i + 1] += part * sy + (sine * ey + versine * (cz * ex - cx * ez))
        points[3 * i + 2] += part * sz + (sine * ez + versine * (cx * ey - cy * ex))


@compiled_contracting
def _follow_fully(
    points: Floats, parts: Floats, along: Floats, moved: Floats, rest: Floats
) -> None:
    """As partly, with a turning of 1 and influences 1 or 0: the angle itself is not needed."""
    s0x, s0y, s0z, s1x, s1y, s1z = moved[0], moved[1], moved[2], moved[3], moved[4], moved[5]
    s2x, s2y, s2z, s3x, s3y, s3z = moved[6], moved[7], moved[8], moved[9], moved[10], moved[11]
    r0x, r0y, r0z, r1x, r1y, r1z = rest[0], rest[1], rest[2], rest[3], rest[4], rest[5]
    r2x, r2y, r2z, r3x, r3y, r3z = rest[6], rest[7], rest[8], rest[9], rest[10], rest[11]
    for i in range(len(parts)):
        u, part = along[i], parts[i]
        u2, u3 = 2.0 * u, 3.0 * u * u
        cx, cy, cz, inner, squared = shortest_turn(
            r1x + u2 * r2x + u3 * r3x,
            r1y + u2 * r2y + u3 * r3y,
            r1z + u2 * r2z + u3 * r3z,
            s1x + u2 * s2x + u3 * s3x,
            s1y + u2 * s2y + u3 * s3y,
            s1z + u2 * s2z + u3 * s3z,
        )
        size = math.sqrt(squared + inner * inner)
        turns = squared > 0
        blunt = inner < 0
        # (1 − cos) / |c|², of two equal forms the one that does not cancel.
        top = part * (size - inner) if blunt else part
        bottom = size * squared if blunt else size * (size + inner)
        sine = (part if turns else 0.0) / (size if turns else 1.0)
        versine = (top if turns else 0.0) / (bottom if turns else 1.0)
        ax = points[3 * i] - (r0x + u * (r1x + u * (r2x + u * r3x)))
        ay = points[3 * i + 1] - (r0y + u * (r1y + u * (r2y + u * r3y)))
        az = points[3 * i + 2] - (r0z + u * (r1z + u * (r2z + u * r3z)))
        ex, ey, ez = cy * az - cz * ay, cz * ax - cx * az, cx * ay - cy * ax
        sx = s0x + u * (s1x + u * (s2x + u * s3x))
        sy = s0y + u * (s1y + u * (s2y + u * s3y))
        sz = s0z + u * (s1z + u * (s2z + u * s3z))
        points[3 * i] += part * sx + (sine * ex + versine * (cy * ez - cz * ey))
        points[3 * i + 1] += part * sy + (sine * ey + versine * (cz * ex - cx * ez))
        points[3 * i + 2] += part * sz + (sine * ez + versine * (cx * ey - cy * ex))
