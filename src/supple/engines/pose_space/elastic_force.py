"""Reduced elastic forces and stiffness from cubature (xu2016 eq. 21 and 22).

Every cubature tet has a block of basis rows, 12 by the columns of the regions that reach it. Its
displacement gradient is G z with G = B R Ũ (9 rows), its force Gᵀ vec(V P), its stiffness
Gᵀ (V ∂P/∂F) G, with V its volume times its cubature weight. The stiffness of all tets with the same
regions is one matrix product, for speed.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Floats, Ints, Singles
from supple.compiled.jit import compiled_fused
from supple.compiled.simd import (
    add_outer_products,
    add_weighted_rows,
    gradient_rows,
    matrix_times_rows,
    rows_times_vector,
)
from supple.elastic.body import LEAST_REST_VOLUME
from supple.elastic.densities.dispatch import (
    is_isotropic,
    resists_inversion,
    stress_and_derivative,
    stress_derivative,
)
from supple.elastic.material import blended_moduli, pose_parameters
from supple.maths.small_matrices import project_psd

#: Rows of G in one product: those of a dozen tets, which stay in the cache.
MOST_ROWS = 9 * 12
#: Ratios det F of volumes at which a tet's forces begin to blend to linear ones, and below which
#: they are linear: Green strain hardly resists inversion.
SQUEEZED, FLAT = 0.4, 0.2


class ElasticTables(NamedTuple):
    """Elastic cubature, read only; tets are ordered by the regions that reach them."""

    basis: NDArray
    """(m, …) blocks of 12 rows a tet, as int16 steps or float32."""
    steps: Singles
    """(m, Σ width) lengths of a step."""
    first: Ints
    width: Ints
    start: Ints
    columns: Ints
    """Fields of `RegionGroups`."""
    corners: Ints
    """(c, 4) rows of the cubature's vertices."""
    weights: Floats
    """(m, c) cubature weights at the poses."""
    volumes: Floats
    """(c,) volumes at the neutral pose, in m³."""
    parameters: Floats
    """(c, …) parameters of a material that is the same at all poses."""
    moduli: Floats
    """(c, 2) Lamé's μ and λ where K₀ has the linear part of forces, else (0, 2)."""
    young: Floats
    poisson: Floats
    """(m, c) moduli of a material that changes with the pose, else (0, c)."""


class ElasticScratch(NamedTuple):
    """Scratch arrays of the loop over cubature tets.

    They are sized for the widest group and for `MOST_ROWS` rows.
    """

    z: Singles
    """(w,) reduced coordinates of the group, scaled by ϒ; w is the width of the widest group."""
    force: Floats
    product: Singles
    """(w,) and (w · w,) force and stiffness of the group."""
    rows: Singles
    images: Singles
    """(`MOST_ROWS` · w,) rows of G, and of V ∂P/∂F G."""
    corner_frames: Singles
    """(48,) rotation of each corner, and ∇N of its shape function."""
    pull: Singles
    factors: Singles
    """(9,) and (81,) V P and V ∂P/∂F in float32."""
    deformation: Floats
    stress: Floats
    gradients: Floats
    derivative: Floats
    """(3, 3) F and P, (4, 3) ∇N and (9, 9) ∂P/∂F."""
    projection: Floats
    material: Floats
    """(2, 9, 9) and (6, 3, 3) scratch of the projection and of the material."""
    parameters: Floats
    """Parameters of the tet's material."""
    ends: Ints
    """(w, 2) runs of consecutive columns."""

    @classmethod
    def of(cls, tables: ElasticTables) -> Self:
        """Make arrays for the widest group of the tables."""
        widest = int(tables.width.max(initial=8))
        rows = np.zeros(MOST_ROWS * widest, np.float32)
        return cls(
            z=np.zeros(widest, np.float32),
            force=np.zeros(widest),
            product=np.zeros(widest * widest, np.float32),
            rows=rows,
            images=rows.copy(),
            corner_frames=np.zeros(48, np.float32),
            pull=np.zeros(9, np.float32),
            factors=np.zeros(81, np.float32),
            deformation=np.zeros((3, 3)),
            stress=np.zeros((3, 3)),
            gradients=np.zeros((4, 3)),
            derivative=np.zeros((9, 9)),
            projection=np.zeros((2, 9, 9)),
            material=np.zeros((6, 3, 3)),
            parameters=np.zeros(tables.parameters.shape[1]),
            ends=np.zeros((widest, 2), np.int64),
        )


@compiled_fused
def add_elastic(tables, kind, projected, points, blend, system, beyond, scratch):  # type: ignore[no-untyped-def]
    """Add K̂ and f̂ at `system.z` to `system.stiffness`, upper triangle, and `system.force`.

    With `tables.moduli`, the linear part (in K₀) is subtracted from the force and, unless
    `projected`, from the stiffness.

    `points` (k, 3) are rest positions of the cubature's vertices, `blend` is a `Blend` at the pose,
    `system` a `System`, and `kind` the number of the material. If `projected`, the stiffness of
    every tet is made positive semi-definite. `beyond` is the factor on z of the actual flesh, in
    which tets count as inverted. Returns the number of tets skipped because the pose
    flattens them, and the number of inverted tets, for materials that do not resist inversion also
    of nearly flat ones (xu2016 eq. 21, 22).
    """
    left_out, squeezed = 0, 0
    for group in range(len(tables.width)):
        width, columns = tables.width[group], tables.columns[group]
        for j in range(width):
            scratch.z[j] = system.z[columns[j]] if columns[j] >= 0 else 0.0
        scratch.force[:width] = 0
        scratch.product[: width * width] = 0
        filled, offset = 0, tables.start[group]
        for tet in range(tables.first[group], tables.first[group + 1]):
            scale = _tet_rows(tables, points, blend, tet, offset, width, filled, scratch)
            offset += 12 * width
            left_out += scale < 0
            if not scale > 0:
                continue
            young, poisson, fixed = tables.young, tables.poisson, tables.parameters
            pose_parameters(kind, young, poisson, blend.weights, tet, fixed, scratch.parameters)
            squeezed += _add_tet(
                tables, blend.weights, kind, projected, tet, scale, width, filled, beyond, scratch
            )
            filled += 9 * width
            if filled >= MOST_ROWS * width:
                add_outer_products(
                    scratch.rows, scratch.images, filled // width, width, scratch.product
                )
                filled = 0
        add_outer_products(scratch.rows, scratch.images, filled // width, width, scratch.product)
        _scatter(columns, width, scratch, system.stiffness, system.force)
    return left_out, squeezed


@compiled_fused
def _tet_rows(tables, points, blend, tet, start, width, at, scratch):  # type: ignore[no-untyped-def]
    """Write G to `scratch.rows[at:]` and F to `scratch.deformation`; return weight times volume.

    Returns 0 if the weight is not positive, −1 if the tet is flat at rest.
    """
    share, weights = 0.0, blend.weights
    for pose in range(len(weights)):
        share += weights[pose] * tables.weights[pose, tet]
    g, flattest = scratch.gradients, LEAST_REST_VOLUME * tables.volumes[tet]
    volume = _rest_gradients(points, tables.corners, tet, flattest, g)
    if volume == 0:
        return -1.0
    if not share > 0:
        return 0.0
    _write_corner_frames(blend.frames, tables.corners, tet, g, scratch.corner_frames)
    gradient_rows(blend.basis, start, width, scratch.corner_frames, scratch.rows, at)
    rows_times_vector(scratch.rows, at, width, scratch.z, scratch.deformation.reshape(9))
    for i in range(3):
        scratch.deformation[i, i] += 1.0
    return share * volume


@compiled_fused
def _rest_gradients(points: Floats, corners: Ints, tet: int, flattest: float, g: Floats) -> float:
    """Write ∇N of corners 1 to 3 to rows of `g`; return the volume, 0 if it is up to `flattest`."""
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
def _write_corner_frames(frames, corners, tet, g, out):  # type: ignore[no-untyped-def]
    """Write rotation and ∇N of each corner to `out` (48,), for `gradient_rows`."""
    for k in range(3):
        g[0, k] = -(g[1, k] + g[2, k] + g[3, k])
    for a in range(4):
        corner = corners[tet, a]
        for i in range(9):
            out[12 * a + i] = frames[corner, i]
        for k in range(3):
            out[12 * a + 9 + k] = g[a, k]


@compiled_fused
def _add_tet(tables, weights, kind, projected, tet, scale, width, at, beyond, scratch):  # type: ignore[no-untyped-def]
    """Add a tet's force to `scratch.force`; write V ∂P/∂F G; return whether it is squeezed.

    Tets of materials that resist inversion count as squeezed where they are inverted, others where
    linear forces restore them.
    """
    F, P, H = scratch.deformation, scratch.stress, scratch.derivative
    parameters = scratch.parameters
    stress_and_derivative(kind, F, parameters, P, H, scratch.material)
    if projected:
        project_psd(F, is_isotropic(kind), H, scratch.projection)
    ratio = _volume_ratio(F)
    squeezed = ratio < 0.0 if beyond == 1.0 else _is_inverted(F, beyond, scratch.material[0])
    # Other materials do not resist inversion, and a tet could stay inverted.
    if ratio < SQUEEZED and not resists_inversion(kind):
        squeezed = True
        part = min((SQUEEZED - ratio) / (SQUEEZED - FLAT), 1.0)
        _blend_with_linear(kind, F, part, parameters, scratch)
    if len(tables.moduli):
        mu, lam = tables.moduli[tet, 0], tables.moduli[tet, 1]
        if len(tables.young):
            mu, lam = blended_moduli(tables.young, tables.poisson, weights, tet)
        _subtract_linear(F, mu, lam, projected, P, H)
    for i in range(9):
        scratch.pull[i] = scale * P[i // 3, i % 3]
        for j in range(9):
            scratch.factors[9 * i + j] = scale * H[i, j]
    add_weighted_rows(scratch.pull, scratch.rows, at, width, scratch.force)
    matrix_times_rows(scratch.factors, scratch.rows, at, width, scratch.images)
    return squeezed


@compiled_fused
def _subtract_linear(F, mu, lam, projected, P, H):  # type: ignore[no-untyped-def]
    """Subtract C : D from P and, unless `projected`, C from H = ∂P/∂F, with D = F − I.

    C is ∂P/∂F at rest, which is λ tr(D) I + μ (D + Dᵀ) of every isotropic material.
    """
    trace = F[0, 0] + F[1, 1] + F[2, 2] - 3.0
    for i in range(3):
        P[i, i] -= lam * trace - 2.0 * mu
        for j in range(3):
            P[i, j] -= mu * (F[i, j] + F[j, i])
            if not projected:
                H[4 * i, 4 * j] -= lam
                H[3 * i + j, 3 * i + j] -= mu
                H[3 * i + j, 3 * j + i] -= mu


@compiled_fused
def _volume_ratio(F):  # type: ignore[no-untyped-def]
    """Return det F."""
    return (
        F[0, 0] * (F[1, 1] * F[2, 2] - F[1, 2] * F[2, 1])
        + F[0, 1] * (F[1, 2] * F[2, 0] - F[1, 0] * F[2, 2])
        + F[0, 2] * (F[1, 0] * F[2, 1] - F[1, 1] * F[2, 0])
    )


@compiled_fused
def _is_inverted(F, beyond, actual):  # type: ignore[no-untyped-def]
    """Return whether I + `beyond` (F − I), which is written to `actual`, is inverted."""
    for i in range(3):
        for j in range(3):
            actual[i, j] = beyond * F[i, j]
        actual[i, i] += 1.0 - beyond
    return _volume_ratio(actual) < 0.0


@compiled_fused
def _blend_with_linear(kind, F, part, parameters, scratch):  # type: ignore[no-untyped-def]
    """Blend P and ∂P/∂F with C : (F − I) and C = ∂P/∂F(I), which have the weight `part`."""
    P, H = scratch.stress, scratch.derivative
    linear, rows = scratch.projection[0], scratch.projection[1]
    for i in range(9):
        rows[0, i] = P[i // 3, i % 3]
        rows[1, i] = F[i // 3, i % 3] - (1.0 if i % 4 == 0 else 0.0)
    P[:] = 0.0
    P[0, 0], P[1, 1], P[2, 2] = 1.0, 1.0, 1.0
    stress_derivative(kind, P, parameters, linear, scratch.material)
    for i in range(9):
        total = 0.0
        for j in range(9):
            total += linear[i, j] * rows[1, j]
            H[i, j] += part * (linear[i, j] - H[i, j])
        P[i // 3, i % 3] = rows[0, i] + part * (total - rows[0, i])


@compiled_fused
def _scatter(columns, width, scratch, stiffness, force):  # type: ignore[no-untyped-def]
    """Add a group's force and stiffness to the whole system, by runs of consecutive columns."""
    product, local, ends = scratch.product, scratch.force, scratch.ends
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
                # The lower triangle of a run with itself is added, too, but not read.
                target = stiffness[columns[i], at : at + size]
                start = i * width + ends[b, 0]
                part = product[start : start + size]
                for k in range(size):
                    target[k] += part[k]
