"""The skin: displacements of the vertices that carry it, added to the rig (xu2016 §4.2).

u = R(p) Σ w_i Ũ_i (ϒ q), column by column over all vertices of a region at once: U(p) is never
formed. Columns are read as they are stored, in 16 bits, which halves the memory that streams by.
Forces on the skin go the same way back.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Floats, Ints, Singles
from supple.compiled.argument_tables import ArgumentTable, table_contents
from supple.compiled.jit import compiled, compiled_fused
from supple.compiled.simd_rows import add_carried_rows, rotate_rows, transform_rows
from supple.engines.pose_space.blend import Blend, blend_rows, frames_of, replace_cancelled
from supple.engines.pose_space.rest_shape_rotations import FrameTables, turn_further

#: Stages of the skin's displacement: sums of columns in frames, their turns, and the skin's own.
DISPLACE, TURN, CARRY = 1, 2, 4
SKIN = DISPLACE | TURN | CARRY
NEGLIGIBLE = 1e-7
#: Entries of a region, whole vertices, that stay in the first-level cache while columns stream by.
CHUNK = 3 * 2048


class SurfaceTables(NamedTuple):
    """Bases at the b vertices that carry the skin, and how they carry it; read only."""

    basis: NDArray
    """Flat: for each region, pose and column entries of its vertices; int16 steps or float32."""
    steps: Singles
    """(m, r) length of a step of each column."""
    tops: Floats
    """(m, r) the longest displacement of a vertex for a unit of each column."""
    start: Ints
    """(regions + 1,) where each region begins in `basis`."""
    column: Ints
    """(regions + 1,) first column of each region."""
    row_start: Ints
    """(regions + 1,) where each region's vertices begin in `rows`."""
    rows: Ints
    """Vertices of each region, as rows of the carrying ones."""
    turns: Singles
    """(m, 4b) quaternions at the b carrying vertices, or (m, 0) in the world."""
    carriers: NDArray[np.int32]
    shares: Singles
    """(n̄, 4) the vertices that carry each of the skin's, and their shares; b is a still one."""


class SkinScratch(NamedTuple):
    """Scratch arrays of the vertices that carry the skin, b of them."""

    z: Floats
    """(r,) reduced coordinates, stretched by ϒ."""
    carriers: Singles
    """(b + 1, 4) displacements; see `displace_carriers`."""
    turns: Singles
    """(4b,) quaternions of their frames, or none in the world."""
    frames: Singles
    """(b, 9) their rotation matrices for forces and contacts, or none in the world."""
    columns: Singles
    """(16,) those of the root."""
    world: Singles
    """(4b + 4,) displacements in the world."""
    factors: Singles
    listed: Ints
    """Columns of a region that move anything, and their factors."""
    chunk: Singles
    """(`CHUNK`,) a sum that stays in the cache."""

    @classmethod
    def of(cls, tables: SurfaceTables, n_carriers: int, in_frames: bool) -> Self:
        """Make arrays for the tables; frames only where bases are blended in them."""
        m, r = tables.steps.shape
        longest = int(np.diff(tables.column).max(initial=1))
        return cls(
            z=np.zeros(r),
            carriers=np.zeros((n_carriers + 1, 4), np.float32),
            turns=np.zeros(tables.turns.shape[1], np.float32),
            frames=np.zeros((n_carriers if in_frames else 0, 9), np.float32),
            columns=np.zeros(16, np.float32),
            world=np.zeros(4 * n_carriers + 4, np.float32),
            factors=np.zeros(m * longest, np.float32),
            listed=np.zeros(m * longest, np.int64),
            chunk=np.zeros(CHUNK, np.float32),
        )


class SkinWork(NamedTuple):
    """Tables of the skin and scratch arrays of a thread, as `displace_skin` takes them."""

    tables: SurfaceTables
    follow: FrameTables
    blend: Blend
    scratch: SkinScratch


@compiled_fused
def displace_skin(
    stages: int,
    bound: ArgumentTable,
    unframed: bool,
    unseen: float,
    limit: float,
    q: Floats,
    root: Floats,
    skin: Singles,
) -> None:
    """Add displacements of q (r,) to `skin` (n̄, 3), as the rig placed it, and move it by the root.

    `stages` says which parts a call takes; `bound` is of `SkinWork`. Turns of the carriers are
    found first where they are not yet (`unframed`); displacements below `unseen` are left out, and
    none of a carrier is longer than `limit`, both in m.
    """
    work: SkinWork = table_contents(bound)
    tables, blend, scratch = work.tables, work.blend, work.scratch
    if stages & DISPLACE:
        for i in range(len(q)):
            scratch.z[i] = blend.column_scale[i] * q[i]
        displace_carriers(
            tables,
            blend.weights,
            scratch.z,
            unseen,
            scratch.listed,
            scratch.factors,
            scratch.chunk,
            scratch.carriers,
        )
    if stages & TURN:
        if unframed:
            carrier_turns(tables, work.follow, blend, scratch.turns)
        turn_carriers(scratch.turns, limit, scratch.carriers)
    if stages & CARRY:
        carry_skin(tables, scratch.carriers, root, scratch, skin)


@compiled_fused
def displace_carriers(
    tables: SurfaceTables,
    weights: Floats,
    z: Floats,
    least: float,
    listed: Ints,
    factors: Singles,
    chunk: Singles,
    out: Singles,
) -> None:
    """Write displacements in frames to `out` (b + 1, 4); the last row is that of still vertices.

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
            total = chunk[: end - begin]
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
    """Add columns to `total`, four at a time: the sum is read and written a quarter as often."""
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
def carrier_turns(skin: SurfaceTables, follow: FrameTables, blend: Blend, turns: Singles) -> None:
    """Write quaternions (4b,) of the vertices that carry the skin, at the pose of `blend`."""
    blend_rows(skin.turns, blend.shares, blend.active, turns)
    if len(follow.corners):
        turn_further(blend.further, follow.carrier_near, follow.carrier_shares, turns)
    replace_cancelled(skin.turns, blend.weights, turns)


@compiled_fused
def carrier_frames(
    skin: SurfaceTables, follow: FrameTables, blend: Blend, turns: Singles, frames: Singles
) -> None:
    """Write quaternions (4b,) and frames (b, 9) of the vertices that carry the skin."""
    carrier_turns(skin, follow, blend, turns)
    frames_of(turns, frames)


@compiled_fused
def turn_carriers(turns: Singles, limit: float, u: Singles) -> bool:
    """Turn displacements out of their frames, none longer than `limit`; return whether any was.

    `turns` (4b,) are the frames' quaternions, or none in the world.
    """
    most, over = np.float32(limit * limit), 0
    for k in range(len(u) - 1):
        squared = u[k, 0] * u[k, 0] + u[k, 1] * u[k, 1] + u[k, 2] * u[k, 2]
        over += not squared <= most
    if over > 0:
        _shorten(limit, u)
    if len(turns):
        rotate_rows(turns, u.reshape(4 * len(u)), len(u) - 1)
    return over > 0


@compiled_fused
def _shorten(limit: float, u: Singles) -> None:
    """Cut displacements to `limit`; those that are no numbers become none."""
    for k in range(len(u) - 1):
        x, y, z = u[k, 0], u[k, 1], u[k, 2]
        squared = x * x + y * y + z * z
        if not squared <= np.float32(limit * limit):
            finite = math.isfinite(squared)
            part = np.float32(limit / math.sqrt(squared)) if finite else np.float32(0)
            for i in range(3):
                u[k, i] = part * u[k, i] if finite else np.float32(0)


@compiled_fused
def carry_skin(
    tables: SurfaceTables, u: Singles, root: Floats, scratch: SkinScratch, skin: Singles
) -> None:
    """Add the carriers' displacements to `skin` (n̄, 3) and move it by the root."""
    columns, world = scratch.columns, scratch.world
    for j in range(4):
        for i in range(3):
            columns[4 * j + i] = root[i, j]
    transform_rows(columns, u.reshape(4 * len(u)), world, len(u))
    near, shares = tables.carriers, tables.shares
    add_carried_rows(
        world,
        near.reshape(near.size),
        shares.reshape(shares.size),
        columns,
        skin.reshape(skin.size),
        len(skin),
    )


@compiled
def add_skin_forces(
    tables: SurfaceTables,
    weights: Floats,
    frames: Singles,
    vertices: Ints,
    forces: Floats,
    root: Floats,
    out: Floats,
) -> None:
    """Add Ũᵀ Rᵀ Aᵀ f to `out`, forces (k, 3) on skin vertices (k,) being given in the world.

    `frames` are those of the carriers, (b, 9), or none in the world.
    """
    for k in range(len(vertices)):
        f, v = forces[k], vertices[k]
        p = root[0, 0] * f[0] + root[1, 0] * f[1] + root[2, 0] * f[2]
        q = root[0, 1] * f[0] + root[1, 1] * f[1] + root[2, 1] * f[2]
        r = root[0, 2] * f[0] + root[1, 2] * f[1] + root[2, 2] * f[2]
        for slot in range(4):
            carrier, share = tables.carriers[v, slot], tables.shares[v, slot]
            if share == 0:
                continue
            x, y, z = p, q, r
            if carrier < len(frames):
                t = frames[carrier]
                x = t[0] * p + t[3] * q + t[6] * r
                y = t[1] * p + t[4] * q + t[7] * r
                z = t[2] * p + t[5] * q + t[8] * r
            _add_carrier_force(tables, weights, carrier, share * x, share * y, share * z, out)


@compiled_fused
def _add_carrier_force(
    tables: SurfaceTables,
    weights: Floats,
    carrier: int,
    x: float,
    y: float,
    z: float,
    force: Floats,
) -> None:
    """Add Ũᵀ f to `force` (r,), f = (x, y, z) on one carrying vertex being seen from its frame."""
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
