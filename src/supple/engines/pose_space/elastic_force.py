"""Reduced elastic forces and stiffness from cubature (xu2016 eq. 21 and 22).

Every cubature tet has a block of basis rows, 12 by the columns of the regions that reach it.
Its displacement gradient is G z with G = B R Ũ (9 rows), its force Gᵀ vec(V P), its stiffness
Gᵀ (V ∂P/∂F) G; v is the cubature weight. Stiffness of tets that meet the same regions is one
matrix product, which is what makes it quick.
"""

from __future__ import annotations

from typing import Any

from supple.arrays import Floats, Ints, Singles
from supple.compiled.jit import compiled_fused
from supple.compiled.simd import (
    add_outer_products,
    add_weighted_rows,
    gradient_rows,
    matrix_times_rows,
    rows_times_vector,
)
from supple.elastic.densities.dispatch import (
    is_isotropic,
    resists_inversion,
    stress_and_derivative,
    stress_derivative,
)
from supple.elastic.material import pose_parameters
from supple.engines.pose_space.runtime import ElasticTables
from supple.maths.svd import project_psd

__all__ = ["MOST_ROWS", "add_elastic"]


#: Rows of G whose products are summed at once: a dozen tets', which stay in the cache.
MOST_ROWS = 9 * 12
#: A rest tet that keeps less than this part of its neutral volume is left out: the pose is far
#: from any that was trained, and forces of a flat tet have no bound.
FLATTEST = 0.01
#: Of its volume at rest, what a tet keeps where it begins to be taken for linear, and where it is
#: so entirely: strain that knows of no reflection hardly resists there.
SQUEEZED, FLAT = 0.4, 0.2


@compiled_fused
def _tet_turns(frames, corners, tet, g, out):  # type: ignore[no-untyped-def]
    """What `gradient_rows` wants of each corner: its rotation, and ∇N of its shape function."""
    for k in range(3):
        g[0, k] = -(g[1, k] + g[2, k] + g[3, k])
    for a in range(4):
        corner = corners[tet, a]
        for i in range(9):
            out[12 * a + i] = frames[corner, i]
        for k in range(3):
            out[12 * a + 9 + k] = g[a, k]


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
    stiffness, force
        (r, r) and (r,), added to.
    """
    left_out, squeezed = 0, 0
    for group in range(len(tables.width)):
        width, columns = tables.width[group], tables.columns[group]
        for j in range(width):
            room.z[j] = z[columns[j]] if columns[j] >= 0 else 0.0
        room.force[:width] = 0
        room.product[: width * width] = 0
        filled, offset = 0, tables.start[group]
        for tet in range(tables.first[group], tables.first[group + 1]):
            scale = _tet_rows(
                tables, weights, points, frames, basis, tet, offset, width, filled, room
            )
            offset += 12 * width
            left_out += scale < 0
            if not scale > 0:
                continue
            pose_parameters(
                kind, tables.young, tables.poisson, weights, tet, tables.parameters, room.parameters
            )
            squeezed += _tet_response(kind, projected, scale, width, filled, room)
            filled += 9 * width
            if filled >= MOST_ROWS * width:
                add_outer_products(room.rows, room.images, filled // width, width, room.product)
                filled = 0
        add_outer_products(room.rows, room.images, filled // width, width, room.product)
        _scatter(columns, width, room.product, room.force, room.ends, stiffness, force)
    return left_out, squeezed


@compiled_fused
def _tet_rows(  # type: ignore[no-untyped-def]
    tables, weights, points, frames, basis, tet, start, width, at, room
):
    """Rows of G at `room.rows[at]` and F; weight times volume, 0 for none, −1 where it is flat."""
    share = 0.0
    for pose in range(len(weights)):
        share += weights[pose] * tables.weights[pose, tet]
    g, flattest = room.gradients, FLATTEST * tables.volumes[tet]
    volume = _rest_gradients(points, tables.corners, tet, flattest, g)
    if volume == 0:
        return -1.0
    if not share > 0:
        return 0.0
    _tet_turns(frames, tables.corners, tet, g, room.turns)
    gradient_rows(basis, start, width, room.turns, room.rows, at)
    rows_times_vector(room.rows, at, width, room.z, room.deformation.reshape(9))
    for i in range(3):
        room.deformation[i, i] += 1.0
    return share * volume


@compiled_fused
def _tet_response(kind, projected, scale, width, at, room):  # type: ignore[no-untyped-def]
    """Add a tet's force to the group's; images of its rows under ∂P/∂F. Whether it is squeezed."""
    F, P, H, parameters = room.deformation, room.stress, room.derivative, room.parameters
    stress_and_derivative(kind, F, parameters, P, H, room.scratch)
    if projected:
        project_psd(F, is_isotropic(kind), H, room.projection)
    squeezed = False
    # Others do not resist being turned inside out, and may rest so for ever.
    if not resists_inversion(kind):
        kept = _volume_kept(F)
        if kept < SQUEEZED:
            squeezed = True
            part = min((SQUEEZED - kept) / (SQUEEZED - FLAT), 1.0)
            _lead_back(kind, F, part, parameters, room)
    for i in range(9):
        room.pull[i] = scale * P[i // 3, i % 3]
        for j in range(9):
            room.factors[9 * i + j] = scale * H[i, j]
    add_weighted_rows(room.pull, room.rows, at, width, room.force)
    matrix_times_rows(room.factors, room.rows, at, width, room.images)
    return squeezed
