"""The skin: displacements of the vertices that carry it, added to the rig (xu2016 §4.2).

u = R(p) Σ w_i Ũ_i (ϒ q), column by column over all vertices of a region at once: U(p) is never
formed. Columns are read as they are stored, in 16 bits, which halves the memory that streams by.
"""

from __future__ import annotations

import math

import numpy as np

from supple.arrays import Floats, Ints, Singles
from supple.compiled.jit import compiled_fused
from supple.compiled.simd import weighted_row_sum
from supple.engines.pose_space.runtime import SurfaceTables

__all__ = ["carry_skin", "displace_carriers", "pull_back", "turn_carriers"]


NEGLIGIBLE = 1e-7
#: Entries of a region, whole vertices, that stay in the first-level cache while columns stream by.
CHUNK = 3 * 2048


@compiled_fused
def displace_carriers(
    tables: SurfaceTables,
    weights: Floats,
    z: Floats,
    least: float,
    listed: Ints,
    factors: Singles,
    room: Singles,
    out: Singles,
) -> None:
    """Displacements in frames into `out` (b + 1, 4); the last row is that of still vertices.

    The fourth column is zero, so that a row is one load.

    Columns that move no vertex by a visible amount, `least` in m, are left out: of a hundred
    many rest most of the time.
    """
    out[:] = 0
    m = len(weights)
    for region in range(len(tables.start) - 1):
        first, last = tables.column[region], tables.column[region + 1]
        low, high = tables.row_start[region], tables.row_start[region + 1]
        length = 3 * (high - low)
        columns = last - first
        count = 0
        for pose in range(m):
            if abs(weights[pose]) < NEGLIGIBLE:
                continue
            for c in range(first, last):
                factor = weights[pose] * z[c]
                if abs(factor) * tables.tops[pose, c] > least:
                    factors[count] = factor * tables.steps[pose, c]
                    listed[count] = pose * columns + c - first
                    count += 1
        whole = tables.basis[tables.start[region] : tables.start[region + 1]]
        rows = tables.rows[low:high]
        for begin in range(0, length, CHUNK):
            end = min(begin + CHUNK, length)
            total = room[: end - begin]
            total[:] = 0
            _add_columns(whole, listed, factors, count, length, begin, total)
            first_row = begin // 3
            for k in range((end - begin) // 3):
                at = rows[first_row + k]
                out[at, 0] += total[3 * k]
                out[at, 1] += total[3 * k + 1]
                out[at, 2] += total[3 * k + 2]


@compiled_fused
def _add_columns(whole, listed, factors, count, length, begin, total):  # type: ignore[no-untyped-def]
    """Four columns at a time: the sum is read and written a quarter as often."""
    size, k = len(total), 0
    while k + 4 <= count:
        at, bt = listed[k] * length + begin, listed[k + 1] * length + begin
        ct, dt = listed[k + 2] * length + begin, listed[k + 3] * length + begin
        p, q = whole[at : at + size], whole[bt : bt + size]
        r, s = whole[ct : ct + size], whole[dt : dt + size]
        a, b, c, d = factors[k], factors[k + 1], factors[k + 2], factors[k + 3]
        for j in range(size):
            total[j] += (a * np.float32(p[j]) + b * np.float32(q[j])) + (
                c * np.float32(r[j]) + d * np.float32(s[j])
            )
        k += 4
    while k < count:
        at = listed[k] * length + begin
        p, a = whole[at : at + size], factors[k]
        for j in range(size):
            total[j] += a * np.float32(p[j])
        k += 1


@compiled_fused
def turn_carriers(frames: Singles, limit: float, u: Singles) -> bool:
    """Turn displacements out of their frames, none longer than `limit`; whether any was."""
    limited = False
    turned = len(frames) > 0
    most = np.float32(limit * limit)
    for k in range(len(u) - 1):
        x, y, z = u[k, 0], u[k, 1], u[k, 2]
        squared = x * x + y * y + z * z
        if not squared <= most:
            limited = True
            if math.isfinite(squared):
                part = np.float32(limit / math.sqrt(squared))
                x, y, z = part * x, part * y, part * z
            else:
                x, y, z = np.float32(0), np.float32(0), np.float32(0)
        if turned:
            f = frames[k]
            u[k, 0] = f[0] * x + f[1] * y + f[2] * z
            u[k, 1] = f[3] * x + f[4] * y + f[5] * z
            u[k, 2] = f[6] * x + f[7] * y + f[8] * z
        else:
            u[k, 0], u[k, 1], u[k, 2] = x, y, z
    return limited


@compiled_fused
def carry_skin(tables: SurfaceTables, u: Singles, root: Floats, skin: Singles) -> None:
    """Add the carriers' displacements to `skin` (n̄, 3) and move it by the root."""
    a, b, c, p = _singles(root[0])
    d, e, f, q = _singles(root[1])
    g, h, i, r = _singles(root[2])
    carriers, shares = tables.carriers, tables.shares
    table = u.reshape(4 * len(u))
    for v in range(len(skin)):
        x, y, z, _ = weighted_row_sum(
            table,
            carriers[v, 0],
            carriers[v, 1],
            carriers[v, 2],
            carriers[v, 3],
            shares[v, 0],
            shares[v, 1],
            shares[v, 2],
            shares[v, 3],
        )
        x, y, z = x + skin[v, 0], y + skin[v, 1], z + skin[v, 2]
        skin[v, 0] = (a * x + b * y) + (c * z + p)
        skin[v, 1] = (d * x + e * y) + (f * z + q)
        skin[v, 2] = (g * x + h * y) + (i * z + r)


@compiled_fused
def _singles(row: Floats) -> tuple[float, float, float, float]:
    """Float32 constants, lest all products become float64."""
    return np.float32(row[0]), np.float32(row[1]), np.float32(row[2]), np.float32(row[3])  # type: ignore[return-value]


@compiled_fused
def pull_back(
    tables: SurfaceTables,
    weights: Floats,
    carrier: int,
    x: float,
    y: float,
    z: float,
    force: Floats,
) -> None:
    """Add to `force` what a force on one carrying vertex, seen from its frame, does: Ũᵀ f."""
    for region in range(len(tables.start) - 1):
        rows = tables.rows[tables.row_start[region] : tables.row_start[region + 1]]
        at = np.searchsorted(rows, carrier)
        if at == len(rows) or rows[at] != carrier:
            continue
        first, last = tables.column[region], tables.column[region + 1]
        stride = 3 * len(rows)
        for pose in range(len(weights)):
            for column in range(first, last):
                entry = (
                    tables.start[region]
                    + (pose * (last - first) + column - first) * stride
                    + 3 * at
                )
                along = (
                    tables.basis[entry] * x
                    + tables.basis[entry + 1] * y
                    + tables.basis[entry + 2] * z
                )
                force[column] += weights[pose] * tables.steps[pose, column] * along
