"""Blending at a pose: weights of the stored poses, and weighted sums of their tables.

All tables have a row for each pose, so that one loop, which streams through memory once, serves
bases, rotations, mass and corrections (xu2016 eq. 14 to 16).
"""

from __future__ import annotations

import math
from typing import NamedTuple, Self

import numpy as np

from supple.arrays import Floats, Ints, Singles
from supple.compiled.jit import compiled_fused
from supple.compiled.simd import add_four_scaled, add_one_scaled, add_two_scaled
from supple.engines.pose_space.elastic_force import ElasticTables
from supple.engines.pose_space.inertia import InertialTables
from supple.engines.pose_space.rest_shape_rotations import (
    FrameTables,
    rotate_by_tets,
    write_tet_rotations,
)
from supple.rig.poses.pose_weights import evaluate_weights
from supple.rig.tets.vertex_frames import CANCELLED

#: Entries of a sum that stay in the first-level cache while rows stream by.
CHUNK = 2048
#: Weight below which a row is skipped: it changes nothing in float32.
NEGLIGIBLE = 1e-7


class PoseTables(NamedTuple):
    """Tables of the poses, read only: weights, frames at cubature vertices, reduced mass."""

    scales: Floats
    scaled_poses: Floats
    matrix: Floats
    constant: Floats
    """Fields of `supple.rig.poses.pose_weights.PoseWeights`."""
    quaternions: Singles
    """(m, 4k) quaternions at the k cubature vertices; (m, 0) if interpolation is "world"."""
    products: Singles
    """(m(m+1)/2, r(r+1)/2) `PoseSpaceModel.mass_products`."""
    corrections: Singles
    """(m + pairs, r(r+1)/2) packed ΔK, or K₀ if there are trained energies, of poses and pairs."""
    ends: Ints
    """(pairs, 2) poses of each pair."""
    trained_energies: Floats
    """(m,) largest ½zᵀK₀z of the training motions at each pose; empty for random samples."""
    damping: Singles
    """(m(m+1)/2, r(r+1)/2) products of `local_damping`; (0, r(r+1)/2) without local damping."""


class Blend(NamedTuple):
    """Tables at the current pose, and scratch arrays of the blending."""

    weights: Floats
    """(m,) weights of the poses."""
    distances: Floats
    """(m,) scratch of the weights."""
    shares: Singles
    """(m,) weights in float32."""
    pairs: Singles
    """(m(m+1)/2,) w_i w_j."""
    corrections: Singles
    """(m + pairs,) weights of the stiffness corrections."""
    active: Ints
    """Rows of a table whose weight is not negligible."""
    factors: Singles
    """(m · widest,) scratch of blended blocks."""
    quaternions: Singles
    """(4k,) blended quaternions of the cubature's vertices."""
    frames: Singles
    """(k, 9) rotation matrices of `quaternions`; identities if interpolation is "world"."""
    tet_quaternions: Singles
    """(4t,) blended quaternions of the tets of `FrameTables`."""
    tet_rotations: Singles
    """(t, 4) quaternions of the rotations of the tets of `FrameTables` relative to the blend."""
    matrix: Floats
    quaternion: Floats
    """(3, 3) and (4,) scratch of one tet's rotation."""
    basis: Singles
    """Blended blocks of the elastic cubature."""
    inertial: Singles
    """Blended blocks of the inertial cubature."""
    mass: Singles
    correction: Singles
    """(r(r+1)/2,) packed M̂ and ΔK, or K₀."""
    damping: Singles
    """(r(r+1)/2,) packed stiffness that damps in addition to K̂; (0,) without local damping."""
    trained_energy: Floats
    """(1,) blended `PoseTables.trained_energies`; 0 if there are none."""
    column_scale: Floats
    """(r,) ϒ, which normalises the blended columns by mass (xu2016 eq. 15)."""

    @classmethod
    def of(
        cls,
        poses: PoseTables,
        elastic: ElasticTables,
        inertial: InertialTables,
        follow: FrameTables,
        n_vertices: int,
        n_modes: int,
    ) -> Self:
        """Make arrays for tables of k cubature vertices and r modes."""
        m, packed = len(elastic.basis), n_modes * (n_modes + 1) // 2
        rows = max(len(poses.products), len(poses.corrections), m)
        widest = int(max(elastic.width.max(initial=0), inertial.width.max(initial=0)))
        return cls(
            weights=np.zeros(m),
            distances=np.zeros(m),
            shares=np.zeros(m, np.float32),
            pairs=np.zeros(len(poses.products), np.float32),
            corrections=np.zeros(len(poses.corrections), np.float32),
            active=np.zeros(rows, np.int64),
            factors=np.zeros(m * widest, np.float32),
            quaternions=np.zeros(poses.quaternions.shape[1], np.float32),
            frames=np.tile(np.eye(3, dtype=np.float32).reshape(9), (n_vertices, 1)),
            tet_quaternions=np.zeros(follow.quaternions.shape[1], np.float32),
            tet_rotations=np.zeros((len(follow.corners), 4), np.float32),
            matrix=np.zeros((3, 3)),
            quaternion=np.zeros(4),
            basis=np.zeros(elastic.basis.shape[1], np.float32),
            inertial=np.zeros(inertial.plain.shape[1], np.float32),
            mass=np.zeros(packed, np.float32),
            correction=np.zeros(packed, np.float32),
            damping=np.zeros(packed if len(poses.damping) else 0, np.float32),
            trained_energy=np.zeros(1),
            column_scale=np.ones(n_modes),
        )


@compiled_fused
def blend_frames(pose, points, step_tables, negligible, blend):  # type: ignore[no-untyped-def]
    """Compute the weights of the poses and the frames of the cubature's vertices at a pose (s,).

    `points` (k, 3) are rest positions of these vertices; weights below `negligible` fade out.
    """
    tables, follow = step_tables.poses, step_tables.frames
    weights, shares = blend.weights, blend.shares
    evaluate_weights(
        pose,
        tables.scales,
        tables.scaled_poses,
        tables.matrix,
        tables.constant,
        step_tables.normalise,
        blend.distances,
        weights,
    )
    fade_out(weights, negligible)
    for i in range(len(weights)):
        shares[i] = weights[i]
    if len(blend.quaternions) == 0:
        return
    blend_rows(tables.quaternions, shares, blend.active, blend.quaternions)
    if len(follow.corners):
        blend_rows(follow.quaternions, shares, blend.active, blend.tet_quaternions)
        write_tet_rotations(follow, points, blend)
        rotate_by_tets(blend.tet_rotations, follow.near, follow.near_shares, blend.quaternions)
    replace_cancelled(tables.quaternions, weights, blend.quaternions)
    frames_of(blend.quaternions, blend.frames)


@compiled_fused
def blend_bases(elastic: ElasticTables, inertial: InertialTables, blend: Blend) -> None:
    """Blend basis rows of the cubature by the poses' weights."""
    _blend_blocks(elastic.basis, elastic, blend, blend.basis)
    _blend_blocks(inertial.plain, inertial, blend, blend.inertial)


@compiled_fused
def blend_mass(tables: PoseTables, blend: Blend) -> None:
    """Blend the reduced mass, ΔK and local damping by the poses' weights; compute ϒ."""
    weights = blend.weights
    _pair_shares(weights, blend.pairs)
    blend_rows(tables.products, blend.pairs, blend.active, blend.mass)
    if len(tables.corrections):
        _correction_shares(weights, tables.ends, blend.corrections)
        blend_rows(tables.corrections, blend.corrections, blend.active, blend.correction)
    if len(tables.damping):
        blend_rows(tables.damping, blend.pairs, blend.active, blend.damping)
    blend.trained_energy[0] = _positive_mean(weights, tables.trained_energies)
    n, at = len(blend.column_scale), 0
    for i in range(n):
        # Column norms of the blend (xu2016 eq. 15); a column that vanishes is not scaled.
        squared_norm = blend.mass[at]
        blend.column_scale[i] = 1 / math.sqrt(squared_norm) if squared_norm > 1e-12 else 1.0
        at += n - i


@compiled_fused
def blend_rows(table: Singles, shares: Singles, active: Ints, out: Singles) -> None:
    """Write Σ shares_i table_i to `out`; `active` (rows,) is scratch."""
    count = _list_active(shares, active)
    length = len(out)
    for begin in range(0, length, CHUNK):
        end = min(begin + CHUNK, length)
        total = out[begin:end]
        k = count % 4
        if k == 0:
            total[:] = np.float32(0)
        else:
            _set_one(table[active[0], begin:end], shares[active[0]], total)
            for i in range(1, k):
                _add_one(table[active[i], begin:end], shares[active[i]], total)
        while k < count:
            a, b, c, d = active[k], active[k + 1], active[k + 2], active[k + 3]
            p, q = table[a, begin:end], table[b, begin:end]
            r, s = table[c, begin:end], table[d, begin:end]
            _add_four(p, q, r, s, shares[a], shares[b], shares[c], shares[d], total)
            k += 4


@compiled_fused
def _list_active(shares: Singles, active: Ints) -> int:
    """Write the indices of shares that are not negligible to `active`; return their number."""
    count = 0
    for i in range(len(shares)):
        if abs(shares[i]) > NEGLIGIBLE:
            active[count] = i
            count += 1
    return count


@compiled_fused
def _blend_blocks(basis, tables, blend, out):  # type: ignore[no-untyped-def]
    """Write Σ shares_i basis_i to `out`, blocks of all groups one after another.

    `basis` (m, …) has multiples of `tables.steps`, in blocks by the `RegionGroups` of `tables`.
    """
    steps, width, start = tables.steps, tables.width, tables.start
    shares, active, factors = blend.shares, blend.active, blend.factors
    count = _list_active(shares, active)
    at, length, table = 0, basis.shape[1], basis.reshape(basis.size)
    for group in range(len(width)):
        columns = width[group]
        for k in range(count):
            lengths, share = steps[active[k], at : at + columns], shares[active[k]]
            for j in range(columns):
                factors[k * columns + j] = share * lengths[j]
        at += columns
        begin, end = start[group], start[group + 1]
        stride = max(CHUNK // columns, 1) * columns
        for first in range(begin, end, stride):
            rows = (min(first + stride, end) - first) // columns
            if count == 0:
                out[first : first + rows * columns] = np.float32(0)
            _blend_chunk(table, length, active, count, factors, first, rows, columns, out)


@compiled_fused
def _blend_chunk(table, length, active, count, factors, first, rows, columns, out):  # type: ignore[no-untyped-def]
    k = 0
    while k < count:
        more, offset = k > 0, k * columns
        a = active[k] * length
        if count - k >= 4:
            b, c, d = active[k + 1] * length, active[k + 2] * length, active[k + 3] * length
            four = (a, b, c, d)
            add_four_scaled(table, four, factors, offset, first, rows, columns, more, out)
            k += 4
        elif count - k >= 2:
            two = (a, active[k + 1] * length)
            add_two_scaled(table, two, factors, offset, first, rows, columns, more, out)
            k += 2
        else:
            add_one_scaled(table, (a,), factors, offset, first, rows, columns, more, out)
            k += 1


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
    """Scale down weights below `negligible`, to zero at a quarter of it; normalise their sum to 1.

    Far poses have small weights nearly everywhere, and cost as much as near poses.
    """
    if not negligible > 0:
        return
    # The largest weight is at least 1/m and must not fade, or all might.
    negligible = min(negligible, 0.5 / len(weights))
    total = 0.0
    for i in range(len(weights)):
        part = min(max((4 * abs(weights[i]) / negligible - 1) / 3, 0.0), 1.0)
        weights[i] *= part * part * (3 - 2 * part)
        total += weights[i]
    for i in range(len(weights)):
        weights[i] /= total


@compiled_fused
def _pair_shares(weights: Floats, out: Singles) -> None:
    """Write the weights w_i w_j of pairs of poses i ≤ j to `out`, for mass products (eq. 16)."""
    at = 0
    for i in range(len(weights)):
        for j in range(i, len(weights)):
            out[at] = weights[i] * weights[j]
            at += 1


@compiled_fused
def _correction_shares(weights: Floats, ends: Ints, out: Singles) -> None:
    """Write the weight of each stored ΔK: w_i of poses, 4 w_i w_j of pairs.

    See `supple.reduction.cubature.accuracy.blended_correction`.
    """
    m = len(weights)
    for i in range(m):
        out[i] = weights[i]
    for k in range(len(ends)):
        out[m + k] = 4 * max(weights[ends[k, 0]], 0.0) * max(weights[ends[k, 1]], 0.0)


@compiled_fused
def _positive_mean(weights: Floats, values: Floats) -> float:
    """Return the mean of values (m,) with the weights that are positive; 0 without values."""
    total, share = 0.0, 0.0
    for i in range(len(values)):
        total += max(weights[i], 0.0) * values[i]
        share += max(weights[i], 0.0)
    return total / share if share > 0 else 0.0


@compiled_fused
def replace_cancelled(table: Singles, weights: Floats, quats: Singles) -> None:
    """Replace blended quaternions (4k,) that cancel out by the pose's of the largest weight.

    `table` (m, 4k) has the quaternions of the poses.
    """
    total, strongest = 0.0, 0
    for pose in range(len(weights)):
        total += abs(weights[pose])
        if abs(weights[pose]) > abs(weights[strongest]):
            strongest = pose
    least, cancelled = np.float32((CANCELLED * total) ** 2), 0
    for k in range(len(quats) // 4):
        x, y, z, w = quats[4 * k], quats[4 * k + 1], quats[4 * k + 2], quats[4 * k + 3]
        cancelled += not x * x + y * y + z * z + w * w > least
    if cancelled == 0:
        return
    for k in range(len(quats) // 4):
        x, y, z, w = quats[4 * k], quats[4 * k + 1], quats[4 * k + 2], quats[4 * k + 3]
        if not x * x + y * y + z * z + w * w > least:
            for i in range(4 * k, 4 * k + 4):
                quats[i] = table[strongest, i]


@compiled_fused
def frames_of(quats: Singles, out: Singles) -> None:
    """Write rotation matrices (k, 9), row by row, of quaternions (4k,) of any length above 0."""
    one, two = np.float32(1), np.float32(2)
    for k in range(len(out)):
        x, y, z, w = quats[4 * k], quats[4 * k + 1], quats[4 * k + 2], quats[4 * k + 3]
        s = two / (x * x + y * y + z * z + w * w)
        xx, yy, zz = one - s * (y * y + z * z), one - s * (x * x + z * z), one - s * (x * x + y * y)
        out[k, 0], out[k, 1], out[k, 2] = xx, s * (x * y - z * w), s * (x * z + y * w)
        out[k, 3], out[k, 4], out[k, 5] = s * (x * y + z * w), yy, s * (y * z - x * w)
        out[k, 6], out[k, 7], out[k, 8] = s * (x * z - y * w), s * (y * z + x * w), zz
