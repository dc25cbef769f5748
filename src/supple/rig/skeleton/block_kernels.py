"""Compiled kernels of skinning over vertices sorted by their joints.

Vertices with the same joints form blocks, coordinate by coordinate, so that a loop over a block
reads its transforms once and is vectorised. A block is a range of one flat table, n numbers to a
row: x, y, z, the weights of its joints one after another, then x, y, z of each correction. It has
at most `BLOCK` vertices, whose sums stay in the nearest cache.

Results are in rows `BLOCK` apart: with this distance known at compile time, one loop writes several
rows. Indices are unsigned, so that loops do not test their sign.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Bools, Floats, Ints
from supple.compiled.jit import compiled, compiled_fused
from supple.rig.placement.placement import Positions
from supple.rig.placement.pose_corrections import BLOCK, NEGLIGIBLE_WEIGHT

#: Rows of `BLOCK` numbers that `place_blocks` works in: stretched points, dual quaternions.
SCRATCH_ROWS = 11

# Distances between rows.
ONE, TWO, THREE = np.uint64(BLOCK), np.uint64(2 * BLOCK), np.uint64(3 * BLOCK)
FOUR, FIVE, SIX, SEVEN = (np.uint64(rows * BLOCK) for rows in (4, 5, 6, 7))


@compiled
def place_blocks(
    table: Positions,
    blocks: Ints,
    joints: Ints,
    active: Bools,
    ranks: NDArray[np.uint32],
    matrices: Floats,
    duals: Floats,
    coefficients: Floats,
    scratch: Positions,
    placed: Positions,
    out: Positions,
) -> None:
    """Write skinned positions (k, 3) plus Σ c δ of all vertices, block by block.

    `table` is flat, one block after another; all arithmetic is in its precision. `blocks` (b, 3)
    are a block's start in the table and its numbers of vertices and of joints; `joints` (b, most)
    are its joints, for dual quaternions the heaviest first; `active` (b, m) marks corrections that
    are not zero throughout it. `ranks` (k,) are the indices in `placed` of each vertex's x.
    `matrices` (J, 4, 4) are the transforms or, for dual quaternions, the stretches before them, or
    empty; `duals` (J, 8) are empty for linear skinning; `coefficients` (m,) are c. `scratch` has
    `SCRATCH_ROWS` * `BLOCK` numbers, `placed` 3 * `BLOCK` for each block.
    """
    for block in range(len(blocks)):
        start, n, slots = blocks[block]
        rows = table[start : start + n * (3 + slots + 3 * len(coefficients))]
        x, y, z = rows[:n], rows[n : 2 * n], rows[2 * n : 3 * n]
        weights = rows[3 * n : (3 + slots) * n]
        follow = joints[block, :slots]
        target = placed[3 * BLOCK * block : 3 * BLOCK * (block + 1)]
        if len(duals) == 0:
            _blend_linear(x, y, z, weights, follow, matrices, target)
        else:
            if len(matrices):
                _blend_linear(x, y, z, weights, follow, matrices, scratch)
                x, y = scratch[:n], scratch[BLOCK : BLOCK + n]
                z = scratch[2 * BLOCK : 2 * BLOCK + n]
            _blend_duals(n, weights, follow, duals, scratch[3 * BLOCK :])
            _move_dual(x, y, z, scratch[3 * BLOCK :], target)
        _correct(rows[(3 + slots) * n :], active[block], coefficients, n, target)
    _write(ranks, placed, out)


@compiled
def place_blocks_if_stretched(
    table: Positions,
    blocks: Ints,
    joints: Ints,
    active: Bools,
    ranks: NDArray[np.uint32],
    stretches: Floats,
    duals: Floats,
    stretched: Ints,
    coefficients: Floats,
    scratch: Positions,
    placed: Positions,
    out: Positions,
) -> None:
    """Call `place_blocks` for dual quaternions, with stretches if `stretched` (1,) is not 0."""
    matrices = stretches[: len(stretches) if stretched[0] else 0]
    place_blocks(
        table,
        blocks,
        joints,
        active,
        ranks,
        matrices,
        duals,
        coefficients,
        scratch,
        placed,
        out,
    )


@compiled
def _blend_linear(
    x: Positions,
    y: Positions,
    z: Positions,
    weights: Positions,
    follow: Ints,
    matrices: Floats,
    out: Positions,
) -> None:
    """Write Σ w T x of a block, coordinates in rows of `out`; two joints per loop iteration."""
    n, slots = len(x), len(follow)
    for row in range(3):
        out[row * BLOCK : row * BLOCK + n] = 0
    for slot in range(0, slots, 2):
        other = min(slot + 1, slots - 1)
        counts = 1.0 if other > slot else 0.0
        w, v = weights[slot * n : (slot + 1) * n], weights[other * n : (other + 1) * n]
        _add_affine(x, y, z, w, v, matrices[follow[slot]], matrices[follow[other]], counts, out)


@compiled_fused
def _add_affine(
    x: Positions,
    y: Positions,
    z: Positions,
    w: Positions,
    v: Positions,
    first: Floats,
    second: Floats,
    counts: float,
    out: Positions,
) -> None:
    """Add w (first x) + v (second x), the latter times `counts`."""
    kind = x.dtype.type
    axx, axy, axz, ax = _row(first[0], 1.0, kind)
    ayx, ayy, ayz, ay = _row(first[1], 1.0, kind)
    azx, azy, azz, az = _row(first[2], 1.0, kind)
    bxx, bxy, bxz, bx = _row(second[0], counts, kind)
    byx, byy, byz, by = _row(second[1], counts, kind)
    bzx, bzy, bzz, bz = _row(second[2], counts, kind)
    for i in range(np.uint64(len(x))):
        px, py, pz, a, b = x[i], y[i], z[i], w[i], v[i]
        out[i] += a * (axx * px + axy * py + axz * pz + ax) + b * (
            bxx * px + bxy * py + bxz * pz + bx
        )
        out[i + ONE] += a * (ayx * px + ayy * py + ayz * pz + ay) + b * (
            byx * px + byy * py + byz * pz + by
        )
        out[i + TWO] += a * (azx * px + azy * py + azz * pz + az) + b * (
            bzx * px + bzy * py + bzz * pz + bz
        )


@compiled_fused
def _row(v: Floats, factor: float, kind: Any) -> tuple[float, float, float, float]:
    a, b, c, d = factor * v[0], factor * v[1], factor * v[2], factor * v[3]
    return kind(a), kind(b), kind(c), kind(d)


@compiled
def _blend_duals(n: int, weights: Positions, follow: Ints, duals: Floats, out: Positions) -> None:
    """Write Σ w d of a block, the eight entries in rows of `out`; two joints per iteration."""
    slots, pivot = len(follow), duals[follow[0]]
    for row in range(8):
        out[row * BLOCK : row * BLOCK + n] = 0
    for slot in range(0, slots, 2):
        other = min(slot + 1, slots - 1)
        first, second = duals[follow[slot]], duals[follow[other]]
        counts = _side(second, pivot) if other > slot else 0.0
        w, v = weights[slot * n : (slot + 1) * n], weights[other * n : (other + 1) * n]
        _add_duals(w, v, first, second, _side(first, pivot), counts, out)


@compiled
def _side(dual: Floats, pivot: Floats) -> float:
    """Return the sign that brings a dual quaternion to the hemisphere of another."""
    along = dual[0] * pivot[0] + dual[1] * pivot[1] + dual[2] * pivot[2] + dual[3] * pivot[3]
    return -1.0 if along < 0 else 1.0


@compiled_fused
def _add_duals(
    w: Positions,
    v: Positions,
    first: Floats,
    second: Floats,
    sign: float,
    counts: float,
    out: Positions,
) -> None:
    kind = w.dtype.type
    ax, ay, az, aw = _row(first[:4], sign, kind)
    ae, af, ag, ah = _row(first[4:], sign, kind)
    bx, by, bz, bw = _row(second[:4], counts, kind)
    be, bf, bg, bh = _row(second[4:], counts, kind)
    for i in range(np.uint64(len(w))):
        a, b = w[i], v[i]
        out[i] += a * ax + b * bx
        out[i + ONE] += a * ay + b * by
        out[i + TWO] += a * az + b * bz
        out[i + THREE] += a * aw + b * bw
        out[i + FOUR] += a * ae + b * be
        out[i + FIVE] += a * af + b * bf
        out[i + SIX] += a * ag + b * bg
        out[i + SEVEN] += a * ah + b * bh


@compiled_fused
def _move_dual(
    px: Positions, py: Positions, pz: Positions, duals: Positions, out: Positions
) -> None:
    """Move points by dual quaternions, as `skin_dual` does; coordinates in rows of `out`."""
    two = px.dtype.type(2.0)
    for i in range(np.uint64(len(px))):
        x, y, z, w = duals[i], duals[i + ONE], duals[i + TWO], duals[i + THREE]
        e, f, g, h = duals[i + FOUR], duals[i + FIVE], duals[i + SIX], duals[i + SEVEN]
        twice = two / (x * x + y * y + z * z + w * w)
        a, b, c = px[i], py[i], pz[i]
        cx = y * c - z * b + w * a + e
        cy = z * a - x * c + w * b + f
        cz = x * b - y * a + w * c + g
        out[i] = a + twice * (y * cz - z * cy + w * e - h * x)
        out[i + ONE] = b + twice * (z * cx - x * cz + w * f - h * y)
        out[i + TWO] = c + twice * (x * cy - y * cx + w * g - h * z)


@compiled
def _correct(
    deltas: Positions, active: Bools, coefficients: Floats, n: int, out: Positions
) -> None:
    """Add Σ c δ of a block, two corrections per loop iteration."""
    kind, waiting = out.dtype.type, -1
    for m in range(len(coefficients)):
        if not active[m] or abs(coefficients[m]) < NEGLIGIBLE_WEIGHT:
            continue
        if waiting < 0:
            waiting = m
            continue
        _add_two(kind(coefficients[waiting]), kind(coefficients[m]), deltas, waiting, m, n, out)
        waiting = -1
    if waiting >= 0:
        _add_two(kind(coefficients[waiting]), kind(0.0), deltas, waiting, waiting, n, out)


@compiled_fused
def _add_two(
    first_factor: float,
    second_factor: float,
    deltas: Positions,
    first: int,
    second: int,
    n: int,
    out: Positions,
) -> None:
    for axis in range(3):
        row = out[axis * BLOCK : axis * BLOCK + n]
        a = deltas[(3 * first + axis) * n : (3 * first + axis + 1) * n]
        b = deltas[(3 * second + axis) * n : (3 * second + axis + 1) * n]
        for i in range(n):
            row[i] += first_factor * a[i] + second_factor * b[i]


@compiled_fused
def _write(ranks: NDArray[np.uint32], placed: Positions, out: Positions) -> None:
    """Gather positions into `out`; sequential writes are faster than scattered writes."""
    for i in range(len(ranks)):
        at = np.uint64(ranks[i])
        out[i, 0], out[i, 1], out[i, 2] = placed[at], placed[at + ONE], placed[at + TWO]
