"""Reduced elastic forces and stiffness from cubature (xu2016 eq. 21 and 22).

Every cubature tet has a block of basis rows, 12 by the columns of the regions that reach it.
Its displacement gradient is G z with G = B R Ũ (9 rows), its force Gᵀ vec(V P), its stiffness
Gᵀ (V ∂P/∂F) G; v is the cubature weight. Stiffness of tets that meet the same regions is one
matrix product, which is what makes it quick.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.compiled import compiled_fused, compiled_sums
from supple.dynamics.runtime_model import ElasticTables
from supple.elastic.density import (
    COROTATIONAL,
    NEO_HOOKEAN,
    ORTHOTROPIC,
    stress,
    stress_derivative,
)
from supple.elastic.material_kernels import pose_parameters
from supple.elastic.svd import project_psd
from supple.linalg.fortran import sgemm_outer

__all__ = ["MOST_PRODUCTS", "add_elastic", "scratch_rows"]

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Ints = NDArray[np.int64]

#: Multiplications of one matrix product, at most: larger ones OpenBLAS would give to threads.
MOST_PRODUCTS = 200_000
#: A rest tet that keeps less than this part of its neutral volume is left out: the pose is far
#: from any that was trained, and forces of a flat tet have no bound.
FLATTEST = 0.01
#: Of its volume at rest, what a tet keeps where it begins to be taken for linear, and where it is
#: so entirely: strain that knows of no reflection hardly resists there.
SQUEEZED, FLAT = 0.4, 0.2


def scratch_rows(widest: int) -> int:
    """Rows that one matrix product of this width may have: whole tets."""
    return max(9, MOST_PRODUCTS // max(widest, 1) ** 2 // 9 * 9)


@compiled_fused
def _turned_rows(frames, corner, basis, start, width, slot, out):  # type: ignore[no-untyped-def]
    """Three basis rows of a vertex, turned from the neutral pose's frame."""
    a = basis[start : start + width]
    b = basis[start + width : start + 2 * width]
    c = basis[start + 2 * width : start + 3 * width]
    at = 3 * slot * width
    x, y, z = (
        out[at : at + width],
        out[at + width : at + 2 * width],
        out[at + 2 * width : at + 3 * width],
    )
    f0, f1, f2 = frames[corner, 0], frames[corner, 1], frames[corner, 2]
    f3, f4, f5 = frames[corner, 3], frames[corner, 4], frames[corner, 5]
    f6, f7, f8 = frames[corner, 6], frames[corner, 7], frames[corner, 8]
    for j in range(width):
        p, q, r = a[j], b[j], c[j]
        x[j] = f0 * p + f1 * q + f2 * r
        y[j] = f3 * p + f4 * q + f5 * r
        z[j] = f6 * p + f7 * q + f8 * r


@compiled_fused
def _gradient_rows(g, turned, width, start, out):  # type: ignore[no-untyped-def]
    """Rows of G (9) from turned rows (12): differences to the first vertex times ∇N."""
    for i in range(3):
        o = turned[i * width : (i + 1) * width]
        p = turned[(3 + i) * width : (4 + i) * width]
        q = turned[(6 + i) * width : (7 + i) * width]
        r = turned[(9 + i) * width : (10 + i) * width]
        for k in range(3):
            a, b, c = np.float32(g[1, k]), np.float32(g[2, k]), np.float32(g[3, k])
            d = -(a + b + c)
            at = start + (3 * i + k) * width
            row = out[at : at + width]
            for j in range(width):
                row[j] = (a * p[j] + b * q[j]) + (c * r[j] + d * o[j])


@compiled_fused
def _times_rows(H, scale, rows, start, width, out):  # type: ignore[no-untyped-def]
    """Scale · H (9 × 9) times nine rows."""
    own = rows[start : start + 9 * width]
    r0, r1, r2 = own[:width], own[width : 2 * width], own[2 * width : 3 * width]
    r3, r4, r5 = (
        own[3 * width : 4 * width],
        own[4 * width : 5 * width],
        own[5 * width : 6 * width],
    )
    r6, r7, r8 = (
        own[6 * width : 7 * width],
        own[7 * width : 8 * width],
        own[8 * width : 9 * width],
    )
    for i in range(9):
        a, b, c = scale * H[i, 0], scale * H[i, 1], scale * H[i, 2]
        d, e, f = scale * H[i, 3], scale * H[i, 4], scale * H[i, 5]
        k, l, m = scale * H[i, 6], scale * H[i, 7], scale * H[i, 8]
        a, b, c = np.float32(a), np.float32(b), np.float32(c)
        d, e, f = np.float32(d), np.float32(e), np.float32(f)
        k, l, m = np.float32(k), np.float32(l), np.float32(m)
        at = start + i * width
        row = out[at : at + width]
        for j in range(width):
            row[j] = (
                (a * r0[j] + b * r1[j] + c * r2[j])
                + (d * r3[j] + e * r4[j] + f * r5[j])
                + (k * r6[j] + l * r7[j] + m * r8[j])
            )


@compiled_sums
def _deform(rows, start, width, z, F):  # type: ignore[no-untyped-def]
    """F = I + G z."""
    for i in range(3):
        for k in range(3):
            at = start + (3 * i + k) * width
            row = rows[at : at + width]
            total = np.float32(0)
            for j in range(width):
                total += row[j] * z[j]
            F[i, k] = total
        F[i, i] += 1.0


@compiled_fused
def _volume_kept(F):  # type: ignore[no-untyped-def]
    """Det F."""
    return (
        F[0, 0] * (F[1, 1] * F[2, 2] - F[1, 2] * F[2, 1])
        + F[0, 1] * (F[1, 2] * F[2, 0] - F[1, 0] * F[2, 2])
        + F[0, 2] * (F[1, 0] * F[2, 1] - F[1, 1] * F[2, 0])
    )


@compiled_fused
def _lead_back(kind, F, part, parameters, room):  # type: ignore[no-untyped-def]
    """Replace a part of the stress and its derivative by the linear ones, ∂P/∂F(I) : (F − I)."""
    P, H, linear, kept = room.stress, room.derivative, room.projection[0], room.projection[1]
    for i in range(9):
        kept[0, i] = P[i // 3, i % 3]
        kept[1, i] = F[i // 3, i % 3] - (1.0 if i % 4 == 0 else 0.0)
    P[:] = 0.0
    P[0, 0], P[1, 1], P[2, 2] = 1.0, 1.0, 1.0
    stress_derivative(kind, P, parameters, linear, room.scratch)
    for i in range(9):
        total = 0.0
        for j in range(9):
            total += linear[i, j] * kept[1, j]
            H[i, j] += part * (linear[i, j] - H[i, j])
        P[i // 3, i % 3] = kept[0, i] + part * (total - kept[0, i])


@compiled_fused
def _add_stress(rows, start, width, scale, P, out):  # type: ignore[no-untyped-def]
    """Add Gᵀ vec(scale P)."""
    for i in range(3):
        at = start + 3 * i * width
        a, b, c = scale * P[i, 0], scale * P[i, 1], scale * P[i, 2]
        p = rows[at : at + width]
        q = rows[at + width : at + 2 * width]
        r = rows[at + 2 * width : at + 3 * width]
        for j in range(width):
            out[j] += a * p[j] + b * q[j] + c * r[j]


@compiled_fused
def _scatter(columns, width, product, local, ends, stiffness, force):  # type: ignore[no-untyped-def]
    """Add a group's block to the whole, run by run of consecutive columns."""
    count, used = 0, 0
    while used < width and columns[used] >= 0:  # padding comes last
        begin = used
        used += 1
        while used < width and columns[used] == columns[used - 1] + 1:
            used += 1
        ends[count, 0], ends[count, 1] = begin, used
        count += 1
    for i in range(used):
        force[columns[i]] += local[i]
    for a in range(count):
        for b in range(a, count):
            at, size = columns[ends[b, 0]], ends[b, 1] - ends[b, 0]
            for i in range(ends[a, 0], ends[a, 1]):
                # Of a run with itself the lower triangle comes along; nobody reads it.
                target = stiffness[columns[i], at : at + size]
                start = i * width + ends[b, 0]
                part = product[start : start + size]
                for k in range(size):
                    target[k] += part[k]


@compiled_fused
def _rest_gradients(points: Floats, corners: Ints, tet: int, flattest: float, g: Floats) -> float:
    """Gradients of the shape functions, rows 1 to 3 of `g`; the volume, 0 where it is flat."""
    a, b, c, d = corners[tet, 0], corners[tet, 1], corners[tet, 2], corners[tet, 3]
    ox, oy, oz = points[a, 0], points[a, 1], points[a, 2]
    e00, e01, e02 = points[b, 0] - ox, points[b, 1] - oy, points[b, 2] - oz
    e10, e11, e12 = points[c, 0] - ox, points[c, 1] - oy, points[c, 2] - oz
    e20, e21, e22 = points[d, 0] - ox, points[d, 1] - oy, points[d, 2] - oz
    c00, c01, c02 = e11 * e22 - e12 * e21, e12 * e20 - e10 * e22, e10 * e21 - e11 * e20
    six = e00 * c00 + e01 * c01 + e02 * c02
    if not six > 6 * flattest:
        return 0.0
    inverse = 1 / six
    g[1, 0], g[1, 1], g[1, 2] = c00 * inverse, c01 * inverse, c02 * inverse
    g[2, 0] = (e21 * e02 - e22 * e01) * inverse
    g[2, 1] = (e22 * e00 - e20 * e02) * inverse
    g[2, 2] = (e20 * e01 - e21 * e00) * inverse
    g[3, 0] = (e01 * e12 - e02 * e11) * inverse
    g[3, 1] = (e02 * e10 - e00 * e12) * inverse
    g[3, 2] = (e00 * e11 - e01 * e10) * inverse
    return six / 6


@compiled_fused
def add_elastic(
    tables: ElasticTables,
    kind: int,
    projected: bool,
    weights: Floats,
    points: Floats,
    frames: Singles,
    basis: Singles,
    z: Floats,
    room: Any,
    blas: Ints,
    stiffness: Floats,
    force: Floats,
) -> tuple[int, int]:
    """Add K̂ to the upper triangle of `stiffness` and f̂ to `force`.

    How many tets were left out, and how many are squeezed flat or inside out, is returned.

    Parameters
    ----------
    tables, kind
        The cubature, and its material.
    projected
        Make the stiffness of every tet positive semi-definite.
    weights
        (m,) of the poses.
    points, frames
        (k, 3) rest positions and (k, 9) rotations of the cubature's vertices.
    basis
        Blended blocks.
    z
        (r,) reduced coordinates, stretched by ϒ.
    room
        To work in; see `Workspace`.
    blas
        Addresses.
    stiffness, force
        (r, r) and (r,), added to.
    """
    local_z, local_force, product = room.z, room.force, room.product
    rows, images, turned = room.rows, room.images, room.turned
    F, P, g, H = room.deformation, room.stress, room.gradients, room.derivative
    scratch, parameters = room.scratch, room.parameters
    left_out, squeezed = 0, 0
    # Others do not resist being turned inside out, and may rest so for ever.
    recovers = kind in (NEO_HOOKEAN, COROTATIONAL)
    for group in range(len(tables.width)):
        width = tables.width[group]
        columns = tables.columns[group]
        zl, fl = local_z[:width], local_force[:width]
        for j in range(width):
            zl[j] = z[columns[j]] if columns[j] >= 0 else 0.0
        fl[:] = 0
        product[: width * width] = 0
        most = max(9, MOST_PRODUCTS // (width * width) // 9 * 9) * width
        filled = 0
        offset = tables.start[group]
        for tet in range(tables.first[group], tables.first[group + 1]):
            begin = offset
            offset += 12 * width
            share = 0.0
            for pose in range(len(weights)):
                share += weights[pose] * tables.weights[pose, tet]
            volume = _rest_gradients(points, tables.corners, tet, FLATTEST * tables.volumes[tet], g)
            left_out += volume == 0
            if not (share > 0 and volume > 0):
                continue
            scale = share * volume
            for a in range(4):
                _turned_rows(
                    frames, tables.corners[tet, a], basis, begin + 3 * a * width, width, a, turned
                )
            _gradient_rows(g, turned, width, filled, rows)
            _deform(rows, filled, width, zl, F)
            pose_parameters(
                kind, tables.young, tables.poisson, weights, tet, tables.parameters, parameters
            )
            stress(kind, F, parameters, P, scratch)
            stress_derivative(kind, F, parameters, H, scratch)
            if projected:
                project_psd(F, kind != ORTHOTROPIC, H, room.projection)
            if not recovers:
                kept = _volume_kept(F)
                if kept < SQUEEZED:
                    squeezed += 1
                    part = min((SQUEEZED - kept) / (SQUEEZED - FLAT), 1.0)
                    _lead_back(kind, F, part, parameters, room)
            _add_stress(rows, filled, width, scale, P, fl)
            _times_rows(H, scale, rows, filled, width, images)
            filled += 9 * width
            if filled >= most:
                sgemm_outer(blas, width, filled // width, rows, images, product)
                filled = 0
        if filled > 0:
            sgemm_outer(blas, width, filled // width, rows, images, product)
        _scatter(columns, width, product, fl, room.ends, stiffness, force)
    return left_out, squeezed
