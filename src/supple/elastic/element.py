"""Kernels on one tet or hexahedron: shape gradients, deformation, force and stiffness.

`slopes` is None for a tet, and for a hexahedron the (g, 8, 3) derivatives of its shape functions at
its integration points. Its type is known at compile time, so that loops over corners have a fixed
length and are unrolled.
"""

from __future__ import annotations

from supple.arrays import Floats, Ints, ShortInts
from supple.compiled.jit import compiled_plain, compiled_plain_inline


@compiled_plain
def corner_count(slopes: Floats | None) -> int:
    """Return the number of corners, 4 or 8."""
    if slopes is None:
        return 4
    return 8


@compiled_plain
def point_count(slopes: Floats | None) -> int:
    """Return the number of integration points."""
    if slopes is None:
        return 1
    return len(slopes)


@compiled_plain_inline
def deformation_at(
    point: int,
    x: Floats,
    rest: Floats,
    elements: Ints,
    e: int,
    slopes: Floats | None,
    weights: Floats | None,
    g: Floats,
    F: Floats,
) -> float:
    """Write ∇N_a at a point to rows of `g` and ∂x/∂X to F; return the point's volume in m³."""
    if slopes is None or weights is None:
        volume = tet_gradients(rest, elements, e, g)
    else:
        volume = weights[point] * _hex_gradients(rest, elements, e, slopes, point, g)
    position_gradient(x, elements, e, slopes, g, F)
    return volume


@compiled_plain
def tet_gradients(rest: Floats, tets: Ints, e: int, g: Floats) -> float:
    """Write gradients ∇N_a of the four shape functions to rows of `g`; return the signed volume."""
    first = tets[e, 0]
    for a in range(1, 4):
        v = tets[e, a]
        for c in range(3):
            g[a, c] = rest[v, c] - rest[first, c]
    six_volumes = _reciprocal(g, 1)
    for c in range(3):
        g[0, c] = -(g[1, c] + g[2, c] + g[3, c])
    return six_volumes / 6.0


@compiled_plain
def _hex_gradients(
    rest: Floats, hexes: Ints, e: int, slopes: Floats, point: int, g: Floats
) -> float:
    """Write gradients ∇N_a of a hexahedron at a point to rows of `g`; return det ∂X/∂ξ."""
    slope = slopes[point]
    position_gradient(rest, hexes, e, slopes, slope, g)  # ∂X/∂ξ into the first three rows
    volume = _reciprocal(g, 0)
    u0, u1, u2 = g[0, 0], g[0, 1], g[0, 2]
    v0, v1, v2 = g[1, 0], g[1, 1], g[1, 2]
    w0, w1, w2 = g[2, 0], g[2, 1], g[2, 2]
    for a in range(8):
        s0, s1, s2 = slope[a, 0], slope[a, 1], slope[a, 2]
        g[a, 0] = u0 * s0 + u1 * s1 + u2 * s2
        g[a, 1] = v0 * s0 + v1 * s1 + v2 * s2
        g[a, 2] = w0 * s0 + w1 * s1 + w2 * s2
    return volume


@compiled_plain
def _reciprocal(g: Floats, at: int) -> float:
    """Replace three rows of `g` from `at` by their transposed inverse; return the determinant.
    The inverse is zero if the determinant is not positive; callers refuse such an element.
    """
    u, v, w = at, at + 1, at + 2
    u0, u1, u2 = g[u, 0], g[u, 1], g[u, 2]
    v0, v1, v2 = g[v, 0], g[v, 1], g[v, 2]
    w0, w1, w2 = g[w, 0], g[w, 1], g[w, 2]
    c0, c1, c2 = v1 * w2 - v2 * w1, v2 * w0 - v0 * w2, v0 * w1 - v1 * w0
    determinant = u0 * c0 + u1 * c1 + u2 * c2
    inverse = 1.0 / determinant if determinant > 0.0 else 0.0
    g[u, 0], g[u, 1], g[u, 2] = c0 * inverse, c1 * inverse, c2 * inverse
    g[v, 0] = (w1 * u2 - w2 * u1) * inverse
    g[v, 1] = (w2 * u0 - w0 * u2) * inverse
    g[v, 2] = (w0 * u1 - w1 * u0) * inverse
    g[w, 0] = (u1 * v2 - u2 * v1) * inverse
    g[w, 1] = (u2 * v0 - u0 * v2) * inverse
    g[w, 2] = (u0 * v1 - u1 * v0) * inverse
    return determinant


@compiled_plain
def position_gradient(
    x: Floats, elements: Ints, e: int, slopes: Floats | None, g: Floats, F: Floats
) -> None:
    """Write F = Σ (x_a − x_0) ⊗ g_a; differences keep the digits of bodies far from the origin."""
    first = elements[e, 0]
    x0, x1, x2 = x[first, 0], x[first, 1], x[first, 2]
    f00 = f01 = f02 = f10 = f11 = f12 = f20 = f21 = f22 = 0.0
    for a in range(1, corner_count(slopes)):
        v = elements[e, a]
        d0, d1, d2 = x[v, 0] - x0, x[v, 1] - x1, x[v, 2] - x2
        g0, g1, g2 = g[a, 0], g[a, 1], g[a, 2]
        f00, f01, f02 = f00 + d0 * g0, f01 + d0 * g1, f02 + d0 * g2
        f10, f11, f12 = f10 + d1 * g0, f11 + d1 * g1, f12 + d1 * g2
        f20, f21, f22 = f20 + d2 * g0, f21 + d2 * g1, f22 + d2 * g2
    F[0, 0], F[0, 1], F[0, 2] = f00, f01, f02
    F[1, 0], F[1, 1], F[1, 2] = f10, f11, f12
    F[2, 0], F[2, 1], F[2, 2] = f20, f21, f22


@compiled_plain
def add_element_forces(
    volume: float, g: Floats, P: Floats, elements: Ints, e: int, slopes: Floats | None, out: Floats
) -> None:
    """Add V P ∇N_a to `out` (n, 3) at each corner; the first gets minus the sum of the others."""
    p00, p01, p02 = volume * P[0, 0], volume * P[0, 1], volume * P[0, 2]
    p10, p11, p12 = volume * P[1, 0], volume * P[1, 1], volume * P[1, 2]
    p20, p21, p22 = volume * P[2, 0], volume * P[2, 1], volume * P[2, 2]
    sum0 = sum1 = sum2 = 0.0
    for a in range(1, corner_count(slopes)):
        g0, g1, g2 = g[a, 0], g[a, 1], g[a, 2]
        f0 = p00 * g0 + p01 * g1 + p02 * g2
        f1 = p10 * g0 + p11 * g1 + p12 * g2
        f2 = p20 * g0 + p21 * g1 + p22 * g2
        v = elements[e, a]
        out[v, 0] += f0
        out[v, 1] += f1
        out[v, 2] += f2
        sum0, sum1, sum2 = sum0 + f0, sum1 + f1, sum2 + f2
    v = elements[e, 0]
    out[v, 0] -= sum0
    out[v, 1] -= sum1
    out[v, 2] -= sum2


@compiled_plain
def add_point_stiffness(
    point: int, volume: float, g: Floats, H: Floats, slopes: Floats | None, K: Floats
) -> None:
    """Add ∇N_aᵀ (V ∂P/∂F) ∇N_b to the blocks a, b ≥ 1 of K; the first point overwrites them."""
    for b in range(1, corner_count(slopes)):
        g0, g1, g2 = volume * g[b, 0], volume * g[b, 1], volume * g[b, 2]
        for i in range(3):
            r0, r1, r2 = H[3 * i], H[3 * i + 1], H[3 * i + 2]
            for k in range(3):
                t0 = r0[3 * k] * g0 + r0[3 * k + 1] * g1 + r0[3 * k + 2] * g2
                t1 = r1[3 * k] * g0 + r1[3 * k + 1] * g1 + r1[3 * k + 2] * g2
                t2 = r2[3 * k] * g0 + r2[3 * k + 1] * g1 + r2[3 * k + 2] * g2
                # K is symmetric: of a diagonal block the lower half suffices.
                for a in range(1, b + 1 if k <= i else b):
                    value = g[a, 0] * t0 + g[a, 1] * t1 + g[a, 2] * t2
                    if point > 0:
                        value += K[3 * a + i, 3 * b + k]
                    K[3 * a + i, 3 * b + k] = value
                    K[3 * b + k, 3 * a + i] = value


@compiled_plain
def complete_stiffness(slopes: Floats | None, K: Floats) -> None:
    """Fill rows and columns of the first corner: blocks of each row and column add up to zero."""
    n = corner_count(slopes)
    for i in range(3, 3 * n):
        for k in range(3):
            total = 0.0
            for b in range(1, n):
                total += K[i, 3 * b + k]
            K[i, k] = -total
            K[k, i] = -total
    for i in range(3):
        for k in range(i + 1):
            total = 0.0
            for b in range(1, n):
                total += K[3 * b + i, k]
            K[i, k] = -total
            K[k, i] = -total


@compiled_plain
def scatter_stiffness(
    K: Floats,
    elements: Ints,
    e: int,
    slopes: Floats | None,
    block_start: Ints,
    slots: ShortInts,
    out: Floats,
) -> None:
    """Add K of element e to the CSR values `out`; `add_stiffness` describes their order."""
    n = corner_count(slopes)
    for a in range(n):
        start = block_start[elements[e, a]]
        width = 3 * (block_start[elements[e, a] + 1] - start)
        for i in range(3):
            first = 9 * start + i * width
            row, source = out[first : first + width], K[3 * a + i]
            for b in range(n):
                at = 3 * slots[e, n * a + b]
                row[at] += source[3 * b]
                row[at + 1] += source[3 * b + 1]
                row[at + 2] += source[3 * b + 2]
