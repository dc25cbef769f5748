"""Compiled loops that move several points at a time along with wires.

Points are moved in blocks that stay in the nearest cache, x, y and z in rows `STRIDE` apart: with
this distance known, compiled loops need no overlap checks. Within one loop all points follow the
same polynomials and differ only in influence and place. Sines and arcs are polynomials of the
accuracy of the arithmetic, as calls of library functions keep a loop from being vectorised. A point
does not depend on its neighbours, so that a subset has the same bits.

A run is padded with points of the next runs, whose influence is 0 there.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from supple.arrays import Floats, Ints
from supple.compiled.jit import compiled_fused
from supple.maths.point_rotations import (
    FAINT,
    arc,
    faint_sine_and_versine,
    shortest_turn,
    sine_and_versine,
    turns_little,
)
from supple.rig.placement.placement import Positions

#: The piece of vertices without influence.
UNMOVED = -1
#: Kinds of runs: all points at one place of the curve; the same, rotated by at most `FAINT`; spread
#: along the curve and rotated in part; spread and rotated fully.
AT_ONE_PLACE, FAINTLY, PARTLY, FULLY = 0, 1, 2, 3

#: Points of a block, and the distance of their rows of coordinates: padded runs may end beyond.
BLOCK, STRIDE = 512, 544
#: Size of the coordinates of a block.
SCRATCH = 3 * STRIDE
#: Numbers that `shift_pieces` writes for a piece.
SHIFTS = 13


@compiled_fused
def shift_pieces(
    pose: Floats, powers: Floats, rest: Floats, first: Ints, where: Floats, shifts: Floats
) -> None:
    """Write the shift and rotation (g, `SHIFTS`) of each piece of the wires at a pose (s,).

    `powers` (g, 4, 4) map a piece's control points to powers of the place; `rest` (g, 12) are the
    pieces at rest, four powers of x, y, z each; `first` (g,) is the index in the pose of a piece's
    first control point; `where` (g, 2) is the one place of all points of a piece, or -1, and the
    part of the tangent's rotation that is followed. Where points are spread, `shifts` are the
    shift, four powers of x, y, z, and whether the tangent turns little; at one place: shift, axis,
    axis × place, and angle.
    """
    for piece in range(len(powers)):
        shift = shifts[piece]
        _shift(pose[first[piece] :], powers[piece], shift)
        if where[piece, 0] < 0:
            shift[12] = 1.0 if turns_little(rest[piece], shift) else 0.0
        else:
            _settle(where[piece, 0], where[piece, 1], rest[piece], shift)


@compiled_fused
def _shift(offsets: Floats, powers: Floats, out: Floats) -> None:
    """Write a piece's shift as a polynomial, from the offsets of its control points."""
    acting = min(4, len(offsets) // 3)
    for power in range(4):
        x = y = z = 0.0
        for k in range(acting):
            factor = powers[power, k]
            x += factor * offsets[3 * k]
            y += factor * offsets[3 * k + 1]
            z += factor * offsets[3 * k + 2]
        out[3 * power], out[3 * power + 1], out[3 * power + 2] = x, y, z


@compiled_fused
def _settle(u: float, turning: float, rest: Floats, shift: Floats) -> None:
    """Replace a shift's polynomial by shift, axis, axis × place and angle at one place."""
    px, py, pz, tx, ty, tz = _place_and_slope(u, rest)
    sx, sy, sz, dx, dy, dz = _place_and_slope(u, shift)
    cx, cy, cz, inner, squared = shortest_turn(tx, ty, tz, dx, dy, dz)
    length = math.sqrt(squared)
    # No rotation without a tangent, for an unchanged one, and for an opposite one (no axis).
    inverse = 1.0 / length if length > 0 else 0.0
    x, y, z = cx * inverse, cy * inverse, cz * inverse
    shift[0], shift[1], shift[2], shift[3], shift[4], shift[5] = sx, sy, sz, x, y, z
    shift[6], shift[7], shift[8] = y * pz - z * py, z * px - x * pz, x * py - y * px
    shift[9] = turning * math.atan2(length, inner) if length > 0 else 0.0


@compiled_fused
def _place_and_slope(u: float, c: Floats) -> tuple[float, float, float, float, float, float]:
    """Return x, y, z of a cubic with coefficients c (12,) at u, and their derivatives."""
    u2, u3 = 2.0 * u, 3.0 * u * u
    return (
        c[0] + u * (c[3] + u * (c[6] + u * c[9])),
        c[1] + u * (c[4] + u * (c[7] + u * c[10])),
        c[2] + u * (c[5] + u * (c[8] + u * c[11])),
        c[3] + u2 * c[6] + u3 * c[9],
        c[4] + u2 * c[7] + u3 * c[10],
        c[5] + u2 * c[8] + u3 * c[11],
    )


@compiled_fused
def follow_wires(
    runs: Ints, rest: Floats, where: Floats, shifts: Floats, table: Positions, points: Positions
) -> None:
    """Move a block of points (`SCRATCH`,) along with several wires, one after another, in place.

    `runs` (r, 5) are first and last + 1 of the points, piece, kind, and the start of their `table`:
    influences and, where points are spread, places in the piece. `rest`, `where` and `shifts` are
    as for `shift_pieces`. Arithmetic is in the precision of `points`, except for pieces whose
    tangent turns so far that the axis needs more.
    """
    kind = points.dtype.type
    for k in range(len(runs)):
        begin, end, piece, how, at = runs[k]
        count = end - begin
        parts, first = table[at : at + count], np.uint64(begin)
        if how == AT_ONE_PLACE:
            _follow_place(points, first, parts, shifts[piece], None, kind)
        elif how == FAINTLY:
            _follow_place(points, first, parts, shifts[piece], FAINT, kind)
        else:
            along = table[at + count : at + 2 * count]
            spread = (points, first, parts, along, shifts[piece], rest[piece])
            turning = where[piece, 1]
            if how == FULLY:
                if shifts[piece, 12] > 0:
                    _follow_spread(*spread, None, kind)
                else:
                    _follow_spread(*spread, None, np.float64)
            elif shifts[piece, 12] > 0:
                _follow_spread(*spread, turning, kind)
            else:
                _follow_spread(*spread, turning, np.float64)


@compiled_fused
def _follow_place(
    points: Positions, first: int, parts: Positions, shift: Floats, most: float | None, kind: Any
) -> None:
    sx, sy, sz = kind(shift[0]), kind(shift[1]), kind(shift[2])
    x, y, z = kind(shift[3]), kind(shift[4]), kind(shift[5])
    px, py, pz = kind(shift[6]), kind(shift[7]), kind(shift[8])
    angle = kind(shift[9])
    for i in range(np.uint64(len(parts))):
        # Unsigned: compiled loops would test the sign of other indices.
        at = first + i
        part = parts[i]
        if most is not None:
            sine, versine = faint_sine_and_versine(part * angle, kind)
        else:
            sine, versine = sine_and_versine(part * angle, kind)
        ax, ay, az = points[at], points[at + np.uint64(STRIDE)], points[at + np.uint64(2 * STRIDE)]
        ex, ey, ez = y * az - z * ay - px, z * ax - x * az - py, x * ay - y * ax - pz
        points[at] = ax + (part * sx + (sine * ex + versine * (y * ez - z * ey)))
        points[at + np.uint64(STRIDE)] = ay + (
            part * sy + (sine * ey + versine * (z * ex - x * ez))
        )
        points[at + np.uint64(2 * STRIDE)] = az + (
            part * sz + (sine * ez + versine * (x * ey - y * ex))
        )


@compiled_fused
def _follow_spread(
    points: Positions,
    first: int,
    parts: Positions,
    along: Positions,
    shift: Floats,
    rest: Floats,
    turning: float | None,
    kind: Any,
) -> None:
    s0x, s0y, s0z, s1x, s1y, s1z = _in_kind(shift[:6], kind)
    s2x, s2y, s2z, s3x, s3y, s3z = _in_kind(shift[6:12], kind)
    r0x, r0y, r0z, r1x, r1y, r1z = _in_kind(rest[:6], kind)
    r2x, r2y, r2z, r3x, r3y, r3z = _in_kind(rest[6:], kind)
    none, one = kind(0.0), kind(1.0)
    for i in range(np.uint64(len(parts))):
        at = first + i
        u, part = kind(along[i]), kind(parts[i])
        u2, u3 = kind(2.0) * u, kind(3.0) * u * u
        cx, cy, cz, inner, squared = shortest_turn(
            r1x + u2 * r2x + u3 * r3x,
            r1y + u2 * r2y + u3 * r3y,
            r1z + u2 * r2z + u3 * r3z,
            s1x + u2 * s2x + u3 * s3x,
            s1y + u2 * s2y + u3 * s3y,
            s1z + u2 * s2z + u3 * s3z,
        )
        if turning is None:
            sine, versine = _whole_turn(part, inner, squared, kind)
        else:
            # Written here: as a function it would be called, and the loop not vectorised.
            turns = squared > none
            length, size = math.sqrt(squared), math.sqrt(squared + inner * inner)
            angle, inverse = arc(length if turns else one, inner, size if turns else one, kind)
            sine, versine = sine_and_versine(part * kind(turning) * angle, kind)
            inverse = inverse if turns else none
            sine, versine = sine * inverse, versine * inverse * inverse
        x, y, z = (
            kind(points[at]),
            kind(points[at + np.uint64(STRIDE)]),
            kind(points[at + np.uint64(2 * STRIDE)]),
        )
        ax = x - (r0x + u * (r1x + u * (r2x + u * r3x)))
        ay = y - (r0y + u * (r1y + u * (r2y + u * r3y)))
        az = z - (r0z + u * (r1z + u * (r2z + u * r3z)))
        ex, ey, ez = cy * az - cz * ay, cz * ax - cx * az, cx * ay - cy * ax
        sx = s0x + u * (s1x + u * (s2x + u * s3x))
        sy = s0y + u * (s1y + u * (s2y + u * s3y))
        sz = s0z + u * (s1z + u * (s2z + u * s3z))
        points[at] = x + (part * sx + (sine * ex + versine * (cy * ez - cz * ey)))
        points[at + np.uint64(STRIDE)] = y + (
            part * sy + (sine * ey + versine * (cz * ex - cx * ez))
        )
        points[at + np.uint64(2 * STRIDE)] = z + (
            part * sz + (sine * ez + versine * (cx * ey - cy * ex))
        )


@compiled_fused
def _in_kind(c: Floats, kind: Any) -> tuple[Any, Any, Any, Any, Any, Any]:
    return kind(c[0]), kind(c[1]), kind(c[2]), kind(c[3]), kind(c[4]), kind(c[5])


@compiled_fused
def _whole_turn(part: Any, inner: Any, squared: Any, kind: Any) -> tuple[Any, Any]:
    """Return sine / |c| and versine / |c|² of the rotation about c; no rotation for part 0.

    `squared` is |c|². The angle itself is not needed.
    """
    none, one = kind(0.0), kind(1.0)
    size = math.sqrt(squared + inner * inner)
    turns = squared > none
    blunt = inner < none
    # (1 − cos) / |c|², of two equal forms the one that does not cancel.
    top = part * (size - inner) if blunt else part
    bottom = size * squared if blunt else size * (size + inner)
    sine = (part if turns else none) / (size if turns else one)
    versine = (top if turns else none) / (bottom if turns else one)
    return sine, versine
