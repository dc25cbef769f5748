"""What a pose's weights make of the stored tables: sums over poses, and frames.

All tables have a row for each pose, so that one loop, streaming through memory once, serves
bases, rotations, mass and corrections alike.
"""

from __future__ import annotations

import numpy as np

from supple.arrays import Floats, Ints, Singles
from supple.compiled.jit import compiled_fused
from supple.rig.tets.vertex_frames import CANCELLED

__all__ = ["blend_rows", "correction_shares", "fade_out", "frames_of", "pair_shares"]


#: A chunk of the sum stays in the first-level cache while rows stream past it.
CHUNK = 2048
#: Rows that count less than this change nothing that float32 could hold.
NEGLIGIBLE = 1e-7


@compiled_fused
def blend_rows(table: Singles, shares: Singles, active: Ints, out: Singles) -> None:
    """Σ shares_i table_i into `out`; `active` (rows,) is room to work in."""
    count = 0
    for i in range(len(shares)):
        if abs(shares[i]) > NEGLIGIBLE:
            active[count] = i
            count += 1
    length = len(out)
    for begin in range(0, length, CHUNK):
        end = min(begin + CHUNK, length)
        total = out[begin:end]
        k = count % 4
        if k == 0:
            total[:] = np.float32(0)
        elif k == 1:
            _set_one(table[active[0], begin:end], shares[active[0]], total)
        else:
            _set_one(table[active[0], begin:end], shares[active[0]], total)
            for i in range(1, k):
                _add_one(table[active[i], begin:end], shares[active[i]], total)
        while k < count:
            a, b, c, d = active[k], active[k + 1], active[k + 2], active[k + 3]
            _add_four(
                table[a, begin:end],
                table[b, begin:end],
                table[c, begin:end],
                table[d, begin:end],
                shares[a],
                shares[b],
                shares[c],
                shares[d],
                total,
            )
            k += 4


@compiled_fused
def _set_one(row, share, out):  # type: ignore[no-untyped-def]
    for j in range(len(out)):
        out[j] = share * row[j]


@compiled_fused
def _add_one(row, share, out):  # type: ignore[no-untyped-def]
    for j in range(len(out)):
        out[j] += share * row[j]


@compiled_fused
def _add_four(p, q, r, s, a, b, c, d, out):  # type: ignore[no-untyped-def]
    for j in range(len(out)):
        out[j] += (a * p[j] + b * q[j]) + (c * r[j] + d * s[j])


@compiled_fused
def fade_out(weights: Floats, negligible: float) -> None:
    """Let weights below `negligible` fade to nothing at a quarter of it; the sum stays 1.

    Far poses count a little nearly everywhere, and cost as much as near ones.
    """
    if not negligible > 0:
        return
    # The largest is at least 1/m: it must stay whole, or nothing might be left.
    negligible = min(negligible, 0.5 / len(weights))
    total = 0.0
    for i in range(len(weights)):
        part = min(max((4 * abs(weights[i]) / negligible - 1) / 3, 0.0), 1.0)
        weights[i] *= part * part * (3 - 2 * part)
        total += weights[i]
    for i in range(len(weights)):
        weights[i] /= total


@compiled_fused
def pair_shares(weights: Floats, out: Singles) -> None:
    """w_i w_j of the pairs i ≤ j: what each product of bases counts in the mass (eq. 16)."""
    at = 0
    for i in range(len(weights)):
        for j in range(i, len(weights)):
            out[at] = weights[i] * weights[j]
            at += 1


@compiled_fused
def correction_shares(weights: Floats, ends: Ints, out: Singles) -> None:
    """What each stored correction of the stiffness counts; see `reduction.linear_correction`."""
    m = len(weights)
    for i in range(m):
        out[i] = weights[i]
    for k in range(len(ends)):
        out[m + k] = 4 * max(weights[ends[k, 0]], 0.0) * max(weights[ends[k, 1]], 0.0)


@compiled_fused
def frames_of(blend: Singles, turns: Singles, weights: Floats, out: Singles) -> None:
    """Rotation matrices (k, 9), row by row, of blended quaternions (4k,).

    Where the blend cancels, the rotation of the pose that counts most is taken.
    """
    total, strongest = 0.0, 0
    for pose in range(len(weights)):
        total += abs(weights[pose])
        if abs(weights[pose]) > abs(weights[strongest]):
            strongest = pose
    for k in range(len(out)):
        x, y, z, w = blend[4 * k], blend[4 * k + 1], blend[4 * k + 2], blend[4 * k + 3]
        squared = x * x + y * y + z * z + w * w
        if not squared > (CANCELLED * total) ** 2:
            row = turns[strongest]
            x, y, z, w = row[4 * k], row[4 * k + 1], row[4 * k + 2], row[4 * k + 3]
            squared = x * x + y * y + z * z + w * w
        s = 2 / squared
        out[k, 0], out[k, 1], out[k, 2] = (
            1 - s * (y * y + z * z),
            s * (x * y - z * w),
            s * (x * z + y * w),
        )
        out[k, 3], out[k, 4], out[k, 5] = (
            s * (x * y + z * w),
            1 - s * (x * x + z * z),
            s * (y * z - x * w),
        )
        out[k, 6], out[k, 7], out[k, 8] = (
            s * (x * z - y * w),
            s * (y * z + x * w),
            1 - s * (x * x + y * y),
        )


def unit_frames(count: int) -> Singles:
    """(count, 9) identities: the frames of bases that are blended in the world."""
    return np.tile(np.eye(3, dtype=np.float32).reshape(9), (count, 1))
