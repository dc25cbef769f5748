"""Body-centred cubic (BCC) lattice and the stencils that clip it to a surface.

This is the core of isosurface stuffing (F. Labelle and J. R. Shewchuk, "Isosurface Stuffing:
Fast Tetrahedral Meshes with Good Dihedral Angles", SIGGRAPH 2007). Its inputs are lattice points
with a sign each, and a cut point on every edge whose ends differ in sign. For any input the
dihedral angles are within 10.78° and 164.74°.

A lattice point has three integer coordinates, in halves of a cell, all even (a cell's corner)
or all odd (a cell's centre). It is packed into one int64 key, so sets of points are sorted
arrays and lexicographic order is key order.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from supple.arrays import Floats, Ints
from supple.compiled.jit import compiled

FindCuts = Callable[[Floats, Floats, Floats, Floats], Floats]

_BITS = 21
AXIS_LIMIT = 1 << _BITS
"""Lattice coordinates run from 0 to less than this."""

_HALF = [(1, 1, 1), (1, 1, -1), (1, -1, 1), (1, -1, -1), (2, 0, 0), (0, 2, 0), (0, 0, 2)]
OFFSETS = np.array(_HALF + [(-x, -y, -z) for x, y, z in _HALF], dtype=np.int64)
"""Offsets to the 14 neighbours: slots 0-3 short edges, 4-6 long ones, and slot + 7 the opposite."""

# A vertex nearer to a cut point than this fraction of the edge (short, long) is moved onto it.
# Found by search over the worst cases of every stencil: these two give the paper's best bound,
# 10.784° to 164.743°; the pair (0.41189, 0.24999) would give 9.318° to 161.644°.
_ALPHA = np.array([0.3988] * 4 + [0.28513] * 3)
_LENGTH = np.array([np.sqrt(3.0)] * 4 + [2.0] * 3)
# The slot of the offset (x, y, z) is at [x + 2, y + 2, z + 2].
_SLOT = np.full((5, 5, 5), -1, dtype=np.int64)
_SLOT[tuple((OFFSETS + 2).T)] = np.arange(14)
# The four cell corners around the long edge from a centre along each axis, in cyclic order.
_RING = np.array(
    [
        [np.roll((1, u, v), axis) for u, v in ((1, 1), (-1, 1), (-1, -1), (1, -1))]
        for axis in range(3)
    ]
)
_RING_SLOT = _SLOT[_RING[..., 0] + 2, _RING[..., 1] + 2, _RING[..., 2] + 2]


def pack(coords: Ints) -> Ints:
    """Pack lattice coordinates (n, 3), each at least 0 and below `AXIS_LIMIT`, into keys."""
    return (coords[..., 0] << 2 * _BITS) + (coords[..., 1] << _BITS) + coords[..., 2]


def unpack(keys: Ints) -> Ints:
    """Unpack keys (n,) into lattice coordinates (n, 3)."""
    mask = AXIS_LIMIT - 1
    return np.stack([keys >> 2 * _BITS, (keys >> _BITS) & mask, keys & mask], axis=-1)


def morton(points: Floats) -> Ints:
    """Return positions along the Z-curve through unit cells; coordinates have 21 bits each."""
    x = points.astype(np.int64).clip(0, AXIS_LIMIT - 1)
    for shift, mask in (
        (32, 0x1F00000000FFFF),
        (16, 0x1F0000FF0000FF),
        (8, 0x100F00F00F00F00F),
        (4, 0x10C30C30C30C30C3),
        (2, 0x1249249249249249),
    ):
        x = (x | x << shift) & mask
    return x[:, 0] << 2 | x[:, 1] << 1 | x[:, 2]


def closure(keys: Ints) -> Ints:
    """Return sorted keys of points and all their neighbours; coordinates are at least 2."""
    return np.unique(np.concatenate([keys, *(keys + d for d in pack(OFFSETS))]))


@compiled
def _neighbours(keys, deltas):  # type: ignore[no-untyped-def]
    """Find the index of each point's 14 neighbours, -1 if absent, by merging sorted keys."""
    n = len(keys)
    indices = np.full((n, 14), -1, np.int32)
    for slot in range(7):
        j = 0
        for i in range(n):
            key = keys[i] + deltas[slot]
            while j < n and keys[j] < key:
                j += 1
            if j < n and keys[j] == key:
                indices[i, slot] = j
                indices[j, slot + 7] = i
    return indices


@compiled
def _warp(sign, neighbours, cuts, alpha, length):  # type: ignore[no-untyped-def]
    """Choose near cut points to move vertices onto, in order; return their slots and fractions.
    `cuts[i, slot]` is the position of the cut point from i to its neighbour, NaN without one. A
    moved vertex gets sign zero and its edges' cut points vanish, so the result depends on the
    order.
    """
    n = len(sign)
    warp_slot = np.full(n, -1, np.int8)
    warp_fraction = np.zeros(n)
    for i in range(n):
        nearest = np.inf
        for slot in range(14):
            j = neighbours[i, slot]
            if j < 0:
                continue
            kind = slot % 7
            t = cuts[i, kind] if slot < 7 else 1.0 - cuts[j, kind]
            if t < alpha[kind] and t * length[kind] < nearest:  # False for NaN
                nearest = t * length[kind]
                warp_slot[i] = slot
                warp_fraction[i] = t
        if warp_slot[i] >= 0:
            sign[i] = 0
            for slot in range(14):
                j = neighbours[i, slot]
                if j >= 0:
                    if slot < 7:
                        cuts[i, slot] = np.nan
                    else:
                        cuts[j, slot - 7] = np.nan
    return warp_slot, warp_fraction


@compiled
def _lattice_tets(coords, sign, neighbours, ring_slots):  # type: ignore[no-untyped-def]
    """List all lattice tets with a positive vertex; corners 0 and 1 are cell centres."""
    count = 0
    tets = np.empty((0, 4), np.int32)
    for fill in range(2):
        if fill:
            tets = np.empty((count, 4), np.int32)
            count = 0
        for a in range(len(coords)):
            if coords[a, 0] % 2 == 0:
                continue
            for axis in range(3):
                b = neighbours[a, 4 + axis]
                if b < 0:
                    continue
                for k in range(4):
                    c = neighbours[a, ring_slots[axis, k]]
                    d = neighbours[a, ring_slots[axis, (k + 1) % 4]]
                    if c < 0 or d < 0:
                        continue
                    if sign[a] > 0 or sign[b] > 0 or sign[c] > 0 or sign[d] > 0:
                        if fill:
                            tets[count, 0], tets[count, 1] = a, b
                            tets[count, 2], tets[count, 3] = c, d
                        count += 1
    return tets


@compiled
def _emit(out, count, p, q, r, s, where):  # type: ignore[no-untyped-def]
    """Append a tet, oriented by its corners' positions on the unwarped lattice (`where`)."""
    u, v, w = where[q] - where[p], where[r] - where[p], where[s] - where[p]
    volume = (
        u[0] * (v[1] * w[2] - v[2] * w[1])
        + u[1] * (v[2] * w[0] - v[0] * w[2])
        + u[2] * (v[0] * w[1] - v[1] * w[0])
    )
    if volume < 0:
        r, s = s, r
    out[count, 0], out[count, 1], out[count, 2], out[count, 3] = p, q, r, s
    return count + 1


@compiled
def _emit_pyramid(out, count, a, b, c, d, apex, where, rank):  # type: ignore[no-untyped-def]
    """Split a pyramid over the quad a b c d; the diagonal starts at the highest rank."""
    if max(rank[a], rank[c]) >= max(rank[b], rank[d]):
        count = _emit(out, count, a, b, c, apex, where)
        return _emit(out, count, a, c, d, apex, where)
    count = _emit(out, count, b, c, d, apex, where)
    return _emit(out, count, b, d, a, apex, where)


@compiled
def _emit_prism(out, count, p, q, where, rank):  # type: ignore[no-untyped-def]
    """Split the prism between triangles p and q, fanning from its highest-ranking corner."""
    top = 0
    for k in range(1, 6):
        if rank[p[k] if k < 3 else q[k - 3]] > rank[p[top] if top < 3 else q[top - 3]]:
            top = k
    if top >= 3:
        p, q, top = q, p, top - 3
    i, j = (top + 1) % 3, (top + 2) % 3
    count = _emit(out, count, p[top], q[0], q[1], q[2], where)
    return _emit_pyramid(out, count, p[i], p[j], q[j], q[i], p[top], where, rank)


@compiled
def _clip(tets, coords, sign, cut_index, slots):  # type: ignore[no-untyped-def]
    """Cut the positive part of each lattice tet into tets.

    Local corners are 0-3; the cut point on edge (i, j) is local corner 4 + 4 i + j, i < j. Where
    a quadrilateral face must be split, both tets that share it must choose the same diagonal:
    it starts at the cut point of higher rank, and a rank depends on the edge alone. Cut points
    on long edges rank highest; two on short edges of one face always differ in parity (the
    paper's Parity Rule: how many coordinates fall from the + to the - end). Fanning from the
    highest rank also never meets the prism split (Schönhardt's) that no tets can fill.
    """
    out = np.empty((3 * len(tets), 4), np.int64)
    local = np.empty((3 * len(tets), 4), np.int64)
    where = np.zeros((20, 3), np.int64)
    rank = np.full(20, -1, np.int64)
    ids = np.zeros(20, np.int64)
    corner = np.arange(4)  # constants would compile further versions
    total = np.int64(0)
    for t in range(len(tets)):
        tet = tets[t]
        plus, minus, zero = np.zeros(4, np.int64), np.zeros(4, np.int64), np.zeros(4, np.int64)
        n_plus = n_minus = n_zero = 0
        for k in range(4):
            ids[k] = tet[k]
            for axis in range(3):
                where[k, axis] = 2 * coords[tet[k], axis]
            if sign[tet[k]] > 0:
                plus[n_plus], n_plus = k, n_plus + 1
            elif sign[tet[k]] < 0:
                minus[n_minus], n_minus = k, n_minus + 1
            else:
                zero[n_zero], n_zero = k, n_zero + 1
        start = total
        if n_minus == 0:
            total = _emit(local, total, corner[0], corner[1], corner[2], corner[3], where)
        else:
            cut = np.zeros((n_plus, n_minus), np.int64)
            for i in range(n_plus):
                for j in range(n_minus):
                    a, b = plus[i], minus[j]
                    code = 4 + 4 * min(a, b) + max(a, b)
                    cut[i, j] = code
                    step = coords[tet[b]] - coords[tet[a]]
                    slot = slots[step[0] + 2, step[1] + 2, step[2] + 2]
                    falls = (step[0] < 0) + (step[1] < 0) + (step[2] < 0)
                    rank[code] = 2 if slot % 7 >= 4 else falls % 2
                    where[code] = coords[tet[a]] + coords[tet[b]]
                    base = tet[a] if slot < 7 else tet[b]
                    ids[code] = cut_index[base, slot % 7]
            if n_plus == 1:
                corners = np.empty(3, np.int64)
                corners[:n_minus] = cut[0]
                corners[n_minus:] = zero[:n_zero]
                total = _emit(local, total, plus[0], corners[0], corners[1], corners[2], where)
            elif n_plus == 2 and n_minus == 1:
                total = _emit_pyramid(
                    local, total, plus[0], plus[1], cut[1, 0], cut[0, 0], zero[0], where, rank
                )
            elif n_plus == 2:
                p = np.array([plus[0], cut[0, 0], cut[0, 1]])
                q = np.array([plus[1], cut[1, 0], cut[1, 1]])
                total = _emit_prism(local, total, p, q, where, rank)
            else:
                total = _emit_prism(local, total, plus[:3].copy(), cut[:, 0].copy(), where, rank)
        for row in range(start, total):
            for k in range(4):
                out[row, k] = ids[local[row, k]]
    return out[:total]


def clipped_tets(
    keys: Ints, level: Floats, origin: Floats, cell: float, find_cuts: FindCuts
) -> tuple[Floats, Ints]:
    """Clip lattice tets to where the level set is positive; return vertices and tets.

    `keys` are sorted lattice points with all neighbours of every positive one, and `level` the
    level set there, positive inside. `find_cuts` is called with the ends (k, 3), (k, 3) of the
    edges that change sign and the levels there; it returns the positions of the surface along them,
    from 0 to 1.
    """
    coords = unpack(keys)
    points = origin + 0.5 * cell * coords
    sign = np.sign(level).astype(np.int8)
    neighbours = _neighbours(keys, pack(OFFSETS))
    ahead = neighbours[:, :7]
    a, slot = np.nonzero((ahead >= 0) & (sign[:, None] * sign[ahead] < 0))
    b = ahead[a, slot]
    cuts = np.full((len(keys), 7), np.nan)
    fraction = find_cuts(points[a], points[b], level[a], level[b])
    cuts[a, slot] = np.clip(fraction, 1e-9, 1.0 - 1e-9)
    warp_slot, warp_fraction = _warp(sign, neighbours, cuts, _ALPHA, _LENGTH)
    is_warped = warp_slot >= 0
    points[is_warped] += 0.5 * cell * warp_fraction[is_warped, None] * OFFSETS[warp_slot[is_warped]]

    a, slot = np.nonzero(~np.isnan(cuts))
    cut_index = np.full(cuts.shape, -1, dtype=np.int64)
    cut_index[a, slot] = len(points) + np.arange(len(a))
    cut_points = points[a] + 0.5 * cell * cuts[a, slot][:, None] * OFFSETS[slot]
    lattice = _lattice_tets(coords, sign, neighbours, _RING_SLOT)
    tets = _clip(lattice, coords, sign, cut_index, _SLOT)
    return np.concatenate([points, cut_points]), tets
