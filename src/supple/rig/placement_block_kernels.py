"""The loops of placements over vertices sorted by the joints they follow.

Vertices that follow the same joints stand in blocks, coordinate by coordinate, so that a loop
over them reads its transforms once and runs in vector instructions. A block is a stretch of one
flat table, n numbers to a row: x, y, z, the weights of its joints one after another, then x, y,
z of each correction. It is `BLOCK` vertices at most, whose sums stay in the nearest cache.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from supple.compiled import compiled
from supple.rig.placement_kernels import (
    BLOCK,
    NEGLIGIBLE_WEIGHT,
    Floats,
    Ints,
    Number,
    Table,
    add_times,
)

__all__ = ["BLOCK", "ROOMS", "place_blocks"]

#: Rows of `BLOCK` numbers that `place_blocks` works in.
ROOMS = 15


@compiled
def place_blocks(
    table: Table,
    blocks: Ints,
    joints: Ints,
    active: NDArray[np.bool_],
    order: NDArray[np.uint32],
    matrices: Floats,
    duals: Floats,
    coefficients: Floats,
    room: Table,
    out: Table,
) -> None:
    """Skinned positions plus Σ c δ of all vertices, block by block.

    Parameters
    ----------
    table
        Flat, the blocks one after another; all arithmetic is in its precision.
    blocks
        (b, 4): where a block starts in the table, its vertices' in `order`, how many these
        are, and how many joints they follow.
    joints
        (b, most): the joints of each block; for dual quaternions the heaviest first.
    active
        (b, m): which corrections are not zero throughout a block.
    order
        Row of `out` of each vertex.
    matrices
        (J, 4, 4) transforms, or the stretches before dual quaternions move; the latter are
        left out where there are none.
    duals
        (J, 8) dual quaternions; none for linear skinning.
    coefficients
        (m,) c.
    room
        (`ROOMS`, `BLOCK`) to work in.
    out
        (k, 3) written.
    """
    for block in range(len(blocks)):
        start, first, n, slots = blocks[block]
        rows = table[start : start + n * (3 + slots + 3 * len(coefficients))]
        x, y, z = rows[:n], rows[n : 2 * n], rows[2 * n : 3 * n]
        weights = rows[3 * n : (3 + slots) * n]
        follow = joints[block, :slots]
        if len(duals) == 0:
            _blend_linear(x, y, z, weights, follow, matrices, room[:3])
        else:
            if len(matrices):
                _blend_linear(x, y, z, weights, follow, matrices, room[12:])
                x, y, z = room[12, :n], room[13, :n], room[14, :n]
            _blend_dual(x, y, z, weights, follow, duals, room)
        deltas = rows[(3 + slots) * n :]
        a, b, c = room[0, :n], room[1, :n], room[2, :n]
        for m in range(len(coefficients)):
            if active[block, m] and abs(coefficients[m]) >= NEGLIGIBLE_WEIGHT:
                own = deltas[3 * m * n : 3 * (m + 1) * n]
                much = table.dtype.type(coefficients[m])
                add_times(much, own[:n], a)
                add_times(much, own[n : 2 * n], b)
                add_times(much, own[2 * n :], c)
        _write(order[first : first + n], a, b, c, out)


@compiled
def _blend_linear(
    x: Table, y: Table, z: Table, weights: Table, follow: Ints, matrices: Floats, out: Table
) -> None:
    """Σ w T x of a block, coordinates as the first rows of `out`."""
    n = len(x)
    kind = x.dtype.type
    a, b, c = out[0, :n], out[1, :n], out[2, :n]
    for slot in range(len(follow)):
        m, w = matrices[follow[slot]], weights[slot * n : (slot + 1) * n]
        _affine(kind(m[0, 0]), kind(m[0, 1]), kind(m[0, 2]), kind(m[0, 3]), x, y, z, w, slot, a)
        _affine(kind(m[1, 0]), kind(m[1, 1]), kind(m[1, 2]), kind(m[1, 3]), x, y, z, w, slot, b)
        _affine(kind(m[2, 0]), kind(m[2, 1]), kind(m[2, 2]), kind(m[2, 3]), x, y, z, w, slot, c)


@compiled
def _affine(
    p: Number,
    q: Number,
    r: Number,
    s: Number,
    x: Table,
    y: Table,
    z: Table,
    w: Table,
    slot: int,
    out: Table,
) -> None:
    """One coordinate; a loop with one array written is short enough in checks to vectorise."""
    if slot == 0:
        for i in range(len(out)):
            out[i] = w[i] * (p * x[i] + q * y[i] + r * z[i] + s)
    else:
        for i in range(len(out)):
            out[i] += w[i] * (p * x[i] + q * y[i] + r * z[i] + s)


@compiled
def _write(order: NDArray[np.uint32], a: Table, b: Table, c: Table, out: Table) -> None:
    for i in range(len(order)):
        row = order[i]
        out[row, 0] = a[i]
        out[row, 1] = b[i]
        out[row, 2] = c[i]


@compiled
def _blend_dual(
    px: Table, py: Table, pz: Table, weights: Table, follow: Ints, duals: Floats, room: Table
) -> None:
    """Kavan et al. 2008, the formulas of `skin_dual`; coordinates as the first rows of `room`."""
    n = len(px)
    kind = px.dtype.type
    pivot = duals[follow[0]]
    for slot in range(len(follow)):
        dual, w = duals[follow[slot]], weights[slot * n : (slot + 1) * n]
        along = dual[0] * pivot[0] + dual[1] * pivot[1] + dual[2] * pivot[2] + dual[3] * pivot[3]
        sign = -1.0 if along < 0 else 1.0
        for entry in range(8):
            _scaled(kind(sign * dual[entry]), w, slot, room[3 + entry, :n])
    x, y, z, w = room[3, :n], room[4, :n], room[5, :n], room[6, :n]
    e, f, g, h = room[7, :n], room[8, :n], room[9, :n], room[10, :n]
    twice = room[11, :n]
    a, b, c = room[0, :n], room[1, :n], room[2, :n]
    _twice_over_square(x, y, z, w, twice)
    _moved(x, y, z, w, e, f, g, h, twice, a)
    _moved(y, z, x, w, f, g, e, h, twice, b)
    _moved(z, x, y, w, g, e, f, h, twice, c)
    _turned(x, y, z, w, px, py, pz, twice, a)
    _turned(y, z, x, w, py, pz, px, twice, b)
    _turned(z, x, y, w, pz, px, py, twice, c)


@compiled
def _scaled(much: Number, w: Table, slot: int, out: Table) -> None:
    if slot == 0:
        for i in range(len(out)):
            out[i] = much * w[i]
    else:
        for i in range(len(out)):
            out[i] += much * w[i]


@compiled
def _twice_over_square(x: Table, y: Table, z: Table, w: Table, out: Table) -> None:
    two = out.dtype.type(2)
    for i in range(len(out)):
        out[i] = two / (x[i] * x[i] + y[i] * y[i] + z[i] * z[i] + w[i] * w[i])


@compiled
def _moved(
    x: Table,
    y: Table,
    z: Table,
    w: Table,
    e: Table,
    f: Table,
    g: Table,
    h: Table,
    twice: Table,
    out: Table,
) -> None:
    """One coordinate of the translation, that along x: the others by cyclic exchange."""
    for i in range(len(out)):
        out[i] = twice[i] * (w[i] * e[i] - h[i] * x[i] + y[i] * g[i] - z[i] * f[i])


@compiled
def _turned(
    x: Table,
    y: Table,
    z: Table,
    w: Table,
    px: Table,
    py: Table,
    pz: Table,
    twice: Table,
    out: Table,
) -> None:
    """Add one coordinate of the turned point."""
    for i in range(len(out)):
        cy = z[i] * px[i] - x[i] * pz[i] + w[i] * py[i]
        cz = x[i] * py[i] - y[i] * px[i] + w[i] * pz[i]
        out[i] += px[i] + twice[i] * (y[i] * cz - z[i] * cy)
