"""Reduced elastic forces and stiffness from cubature (xu2016 eq. 21 and 22).

Every cubature tet has a block of basis rows, 12 by the columns of the regions that reach it.
Its displacement gradient is G z with G = B R Ũ (9 rows), its force Gᵀ vec(V P), its stiffness
Gᵀ (V ∂P/∂F) G; v is the cubature weight. Stiffness of tets that meet the same regions is one
matrix product, which is what makes it quick.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from supple.compiled import compiled
from supple.dynamics.runtime_model import ElasticTables
from supple.elastic.density import stress, stress_derivative
from supple.elastic.material_kernels import pose_parameters
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

fast = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})


def scratch_rows(widest: int) -> int:
    """Rows that one matrix product of this width may have: whole tets."""
    return max(9, MOST_PRODUCTS // max(widest, 1) ** 2 // 9 * 9)


@fast
def _dot(a, b):  # type: ignore[no-untyped-def]
    total = np.float32(0)
    for j in range(len(a)):
        total += a[j] * b[j]
    return total


@compiled
def _turned_rows(frame, rows, width, out):  # type: ignore[no-untyped-def]
    """Three basis rows of a vertex, turned from the neutral pose's frame."""
    a, b, c = rows[:width], rows[width : 2 * width], rows[2 * width : 3 * width]
    x, y, z = out[:width], out[width : 2 * width], out[2 * width : 3 * width]
    f0, f1, f2, f3, f4, f5, f6, f7, f8 = (
        frame[0], frame[1], frame[2], frame[3], frame[4], frame[5], frame[6], frame[7], frame[8],
    )
    for j in range(width):
        p, q, r = a[j], b[j], c[j]
        x[j] = f0 * p + f1 * q + f2 * r
        y[j] = f3 * p + f4 * q + f5 * r
        z[j] = f6 * p + f7 * q + f8 * r


@compiled
def _gradient_rows(g, turned, width, out):  # type: ignore[no-untyped-def]
    """Rows of G (9) from turned rows (12): differences to the first vertex times ∇N."""
    for i in range(3):
        o = turned[i * width : (i + 1) * width]
        p = turned[(3 + i) * width : (4 + i) * width]
        q = turned[(6 + i) * width : (7 + i) * width]
        r = turned[(9 + i) * width : (10 + i) * width]
        for k in range(3):
            a, b, c = np.float32(g[1, k]), np.float32(g[2, k]), np.float32(g[3, k])
            d = -(a + b + c)
            row = out[(3 * i + k) * width : (3 * i + k + 1) * width]
            for j in range(width):
                row[j] = (a * p[j] + b * q[j]) + (c * r[j] + d * o[j])


@compiled
def _times_rows(H, scale, rows, width, out):  # type: ignore[no-untyped-def]
    """scale · H (9 × 9) times nine rows."""
    r0, r1, r2 = rows[:width], rows[width : 2 * width], rows[2 * width : 3 * width]
    r3, r4, r5 = (
        rows[3 * width : 4 * width], rows[4 * width : 5 * width], rows[5 * width : 6 * width],
    )
    r6, r7, r8 = (
        rows[6 * width : 7 * width], rows[7 * width : 8 * width], rows[8 * width : 9 * width],
    )
    for i in range(9):
        a, b, c = np.float32(scale * H[i, 0]), np.float32(scale * H[i, 1]), np.float32(scale * H[i, 2])
        d, e, f = np.float32(scale * H[i, 3]), np.float32(scale * H[i, 4]), np.float32(scale * H[i, 5])
        k, l, m = np.float32(scale * H[i, 6]), np.float32(scale * H[i, 7]), np.float32(scale * H[i, 8])
        row = out[i * width : (i + 1) * width]
        for j in range(width):
            row[j] = (
                (a * r0[j] + b * r1[j] + c * r2[j])
                + (d * r3[j] + e * r4[j] + f * r5[j])
                + (k * r6[j] + l * r7[j] + m * r8[j])
            )


@compiled
def _rest_gradients(points: Floats, corners: Ints, flattest: float, g: Floats) -> float:
    """Gradients of the shape functions, rows 1 to 3 of `g`; the volume, 0 where it is flat."""
    a, b, c, d = corners[0], corners[1], corners[2], corners[3]
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


@compiled
def add_elastic(
    tables: ElasticTables,
    kind: int,
    at_rest: bool,
    weights: Floats,
    points: Floats,
    frames: Singles,
    basis: Singles,
    z: Floats,
    room: Any,
    blas: Ints,
    stiffness: Floats,
    force: Floats,
) -> int:
    """Add K̂ to the upper triangle of `stiffness` and f̂ to `force`; how many tets were left out.

    Parameters
    ----------
    tables, kind
        The cubature, and its material.
    at_rest
        Take the stiffness of the undeformed tets, which is never indefinite.
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
    """
    local_z, local_force, product = room.z, room.force, room.product
    rows, images, turned = room.rows, room.images, room.turned
    F, P, g, H = room.deformation, room.stress, room.gradients, room.derivative
    scratch, parameters = room.scratch, room.parameters
    left_out = 0
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
            block = basis[offset : offset + 12 * width]
            offset += 12 * width
            share = 0.0
            for pose in range(len(weights)):
                share += weights[pose] * tables.weights[pose, tet]
            corners = tables.corners[tet]
            volume = _rest_gradients(points, corners, FLATTEST * tables.volumes[tet], g)
            left_out += volume == 0
            if not (share > 0 and volume > 0):
                continue
            scale = share * volume
            G = rows[filled : filled + 9 * width]
            for a in range(4):
                _turned_rows(
                    frames[corners[a]],
                    block[3 * a * width : 3 * (a + 1) * width],
                    width,
                    turned[3 * a * width : 3 * (a + 1) * width],
                )
            _gradient_rows(g, turned, width, G)
            for i in range(3):
                for k in range(3):
                    at = 3 * i + k
                    F[i, k] = _dot(G[at * width : (at + 1) * width], zl)
                F[i, i] += 1.0
            pose_parameters(kind, tables.young, tables.poisson, weights, tet, tables.parameters, parameters)
            stress(kind, F, parameters, P, scratch)
            for i in range(3):
                for k in range(3):
                    value = scale * P[i, k]
                    row = G[(3 * i + k) * width : (3 * i + k + 1) * width]
                    for j in range(width):
                        fl[j] += value * row[j]
            if at_rest:
                F[:] = 0.0
                F[0, 0], F[1, 1], F[2, 2] = 1.0, 1.0, 1.0
            stress_derivative(kind, F, parameters, H, scratch)
            _times_rows(H, scale, G, width, images[filled : filled + 9 * width])
            filled += 9 * width
            if filled >= most:
                sgemm_outer(blas, width, filled // width, rows, images, product)
                filled = 0
        if filled > 0:
            sgemm_outer(blas, width, filled // width, rows, images, product)
        for i in range(width):
            row = columns[i]
            if row < 0:
                continue
            force[row] += fl[i]
            for j in range(i, width):
                if columns[j] >= 0:
                    stiffness[row, columns[j]] += product[i * width + j]
    return left_out
