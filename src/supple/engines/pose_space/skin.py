"""The skin: displacements of its carriers, added to the rig (xu2016 §4.2).

Carriers are the tet vertices in which the skin is embedded. u = R(p) Σ w_i Ũ_i (ϒ q) is summed
column by column over all vertices of a region, and U(p) is never formed. Columns are read in their
stored 16 bits, which halves the memory traffic. Forces on the skin use the transposed operations.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Floats, Ints, Singles
from supple.compiled.jit import compiled, compiled_fused
from supple.compiled.simd_rows import add_carried_rows, rotate_rows, transform_rows
from supple.compiled.tables import ArgumentTable, table_contents
from supple.engines.pose_space.blend import Blend, blend_rows, frames_of, replace_cancelled
from supple.engines.pose_space.rest_shape_rotations import FrameTables, rotate_by_tets

#: Stages: displacements of carriers in frames, their rotation, and the interpolation on the skin.
DISPLACE, ROTATE, INTERPOLATE = 1, 2, 4
SKIN = DISPLACE | ROTATE | INTERPOLATE
NEGLIGIBLE = 1e-7
#: Number of entries of a sum over columns that fits the first-level cache.
CHUNK = 3 * 2048


class SurfaceTables(NamedTuple):
    """Bases at the b carriers, and the embedding of the skin in them; read only."""

    basis: NDArray
    """Flat, by region, pose, column and vertex: int16 multiples of a step, or float32."""
    steps: Singles
    """(m, r) quantisation step of each column."""
    tops: Floats
    """(m, r) largest displacement of a vertex for a unit of each column."""
    start: Ints
    """(regions + 1,) first entry of each region in `basis`."""
    column: Ints
    """(regions + 1,) first column of each region."""
    row_start: Ints
    """(regions + 1,) first vertex of each region in `rows`."""
    rows: Ints
    """Vertices of each region, as indices of carriers."""
    quaternions: Singles
    """(m, 4b) quaternions at the carriers; (m, 0) if interpolation is "world"."""
    carriers: NDArray[np.int32]
    shares: Singles
    """(n̄, 4) carriers of each skin vertex, and weights; b for a carrier that no basis moves."""


class SkinScratch(NamedTuple):
    """Scratch arrays of the b carriers."""

    z: Floats
    """(r,) reduced coordinates, scaled by ϒ."""
    carriers: Singles
    """(b + 1, 4) displacements of the carriers; see `displace_carriers`."""
    quaternions: Singles
    """(4b,) quaternions of the carriers' frames; empty if interpolation is "world"."""
    frames: Singles
    """(b, 9) rotation matrices of the carriers' frames; empty if interpolation is "world"."""
    columns: Singles
    """(16,) entries of the root."""
    world: Singles
    """(4b + 4,) displacements in world axes."""
    factors: Singles
    listed: Ints
    """Columns of a region whose displacements are visible, and their factors."""
    chunk: Singles
    """(`CHUNK`,) partial sum."""

    @classmethod
    def of(cls, tables: SurfaceTables, n_carriers: int, in_frames: bool) -> Self:
        """Make arrays for the tables; `frames` is empty unless `in_frames`."""
        m, r = tables.steps.shape
        longest = int(np.diff(tables.column).max(initial=1))
        return cls(
            z=np.zeros(r),
            carriers=np.zeros((n_carriers + 1, 4), np.float32),
            quaternions=np.zeros(tables.quaternions.shape[1], np.float32),
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
    """Add displacements of q (r,) to `skin` (n̄, 3), as the rig placed it, and apply the root.

    `stages` are bits of `SKIN`; `bound` holds `SkinWork`. If `unframed`, quaternions of the
    carriers are computed first. Displacements below `unseen` are skipped, and those of carriers are
    clamped to `limit`, both in m.
    """
    work: SkinWork = table_contents(bound)
    tables, blend, scratch = work.tables, work.blend, work.scratch
    if stages & DISPLACE:
        for i in range(len(q)):
            scratch.z[i] = blend.column_scale[i] * q[i]
        displace_carriers(tables, blend.weights, scratch.z, unseen, scratch, scratch.carriers)
    if stages & ROTATE:
        if unframed:
            carrier_quaternions(tables, work.follow, blend, scratch.quaternions)
        rotate_carriers(scratch.quaternions, limit, scratch.carriers)
    if stages & INTERPOLATE:
        interpolate_skin(tables, scratch.carriers, root, scratch, skin)


@compiled_fused
def displace_carriers(
    tables: SurfaceTables,
    weights: Floats,
    z: Floats,
    least: float,
    scratch: SkinScratch,
    out: Singles,
) -> None:
    """Write the carriers' displacements Σ w_i Ũ_i z, in their frames, to `out` (b + 1, 4).

    The last row, for carriers that no basis moves, is zero.

    The fourth column is zero, so that a row is one load. Columns that move no vertex by more than
    `least` in m are skipped.
    """
    listed, factors, chunk = scratch.listed, scratch.factors, scratch.chunk
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
        basis = tables.basis[tables.start[region] : tables.start[region + 1]]
        rows = tables.rows[low:high]
        for begin in range(0, length, CHUNK):
            end = min(begin + CHUNK, length)
            total = chunk[: end - begin]
            total[:] = 0
            _add_columns(basis, listed, factors, count, length, begin, total)
            first_row = begin // 3
            for k in range((end - begin) // 3):
                at = rows[first_row + k]
                out[at, 0] += total[3 * k]
                out[at, 1] += total[3 * k + 1]
                out[at, 2] += total[3 * k + 2]


@compiled_fused
def _add_columns(basis, listed, factors, count, length, begin, total):  # type: ignore[no-untyped-def]
    """Add columns to `total`, four at a time, to read and write the sum less often."""
    size, k = len(total), 0
    while k + 4 <= count:
        at, bt = listed[k] * length + begin, listed[k + 1] * length + begin
        ct, dt = listed[k + 2] * length + begin, listed[k + 3] * length + begin
        p, q = basis[at : at + size], basis[bt : bt + size]
        r, s = basis[ct : ct + size], basis[dt : dt + size]
        a, b, c, d = factors[k], factors[k + 1], factors[k + 2], factors[k + 3]
        for j in range(size):
            total[j] += (a * np.float32(p[j]) + b * np.float32(q[j])) + (
                c * np.float32(r[j]) + d * np.float32(s[j])
            )
        k += 4
    while k < count:
        at = listed[k] * length + begin
        p, a = basis[at : at + size], factors[k]
        for j in range(size):
            total[j] += a * np.float32(p[j])
        k += 1


@compiled_fused
def carrier_quaternions(
    skin: SurfaceTables, follow: FrameTables, blend: Blend, quaternions: Singles
) -> None:
    """Write quaternions (4b,) of the carriers at the pose of `blend`."""
    blend_rows(skin.quaternions, blend.shares, blend.active, quaternions)
    if len(follow.corners):
        rotate_by_tets(blend.tet_rotations, follow.carrier_near, follow.carrier_shares, quaternions)
    replace_cancelled(skin.quaternions, blend.weights, quaternions)


@compiled_fused
def carrier_frames(
    skin: SurfaceTables, follow: FrameTables, blend: Blend, quaternions: Singles, frames: Singles
) -> None:
    """Write quaternions (4b,) and frames (b, 9) of the carriers."""
    carrier_quaternions(skin, follow, blend, quaternions)
    frames_of(quaternions, frames)


@compiled_fused
def rotate_carriers(quaternions: Singles, limit: float, u: Singles) -> bool:
    """Clamp displacements u (b + 1, 4) to `limit`; rotate them from their frames to root axes.

    `quaternions` (4b,) are the frames' rotations; empty if interpolation is "world". Returns
    whether any displacement was clamped.
    """
    most, over = np.float32(limit * limit), 0
    for k in range(len(u) - 1):
        squared = u[k, 0] * u[k, 0] + u[k, 1] * u[k, 1] + u[k, 2] * u[k, 2]
        over += not squared <= most
    if over > 0:
        _shorten(limit, u)
    if len(quaternions):
        rotate_rows(quaternions, u.reshape(4 * len(u)), len(u) - 1)
    return over > 0


@compiled_fused
def _shorten(limit: float, u: Singles) -> None:
    """Clamp displacements to `limit`; set displacements that are not finite to zero."""
    for k in range(len(u) - 1):
        x, y, z = u[k, 0], u[k, 1], u[k, 2]
        squared = x * x + y * y + z * z
        if not squared <= np.float32(limit * limit):
            finite = math.isfinite(squared)
            part = np.float32(limit / math.sqrt(squared)) if finite else np.float32(0)
            for i in range(3):
                u[k, i] = part * u[k, i] if finite else np.float32(0)


@compiled_fused
def interpolate_skin(
    tables: SurfaceTables, u: Singles, root: Floats, scratch: SkinScratch, skin: Singles
) -> None:
    """Add the interpolated displacements of the carriers to `skin` (n̄, 3), and apply the root."""
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
    """Add the reduced forces of `forces` (k, 3), in world axes on skin vertices (k,), to `out`.

    `frames` (b, 9) are rotations of the carriers; empty if the bases are not in their frames.
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
    """Add Ũᵀ f to `force` (r,), for f = (x, y, z) on one carrier, in its frame."""
    for region in range(len(tables.start) - 1):
        rows = tables.rows[tables.row_start[region] : tables.row_start[region + 1]]
        at = np.searchsorted(rows, carrier)
        if at == len(rows) or rows[at] != carrier:
            continue
        first, last = tables.column[region], tables.column[region + 1]
        stride = 3 * len(rows)
        for pose in range(len(weights)):
            for column in range(first, last):
                block = (pose * (last - first) + column - first) * stride
                entry = tables.start[region] + block + 3 * at
                axes = tables.basis[entry : entry + 3]
                along = axes[0] * x + axes[1] * y + axes[2] * z
                force[column] += weights[pose] * tables.steps[pose, column] * along
