"""Element loops: energy, force and stiffness of all hexahedra, in Numba, over coloured chunks.

The same as `kernels` for tets, except that each element has several integration points.
`slopes` (g, 8, 3) are the shape functions' derivatives on the unit cube at these points, and
`weights` (g,) what the points count. All are read on every call, as the rest shape may change.
"""

from __future__ import annotations

import numpy as np
from numba import prange
from numpy.typing import NDArray

from supple.compiled import compiled, compiled_fused, compiled_parallel
from supple.elastic.density import ORTHOTROPIC, energy_density, stress, stress_derivative
from supple.elastic.svd import project_psd

__all__ = ["add_forces", "add_stiffness", "element_energies"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@compiled_fused
def _edges_from_first(x: Floats, hexahedron: Ints, e: Floats) -> None:
    """Rows of `e` (8, 3) ← corners as seen from the first: far-away bodies lose no digits."""
    first = hexahedron[0]
    for a in range(8):
        for c in range(3):
            e[a, c] = x[hexahedron[a], c] - x[first, c]


@compiled_fused
def _spatial_gradients(e: Floats, slope: Floats, J: Floats, g: Floats) -> float:
    """Rows of `g` (8, 3) ← ∇N_a at a point of the element with edges `e`; returns det ∂X/∂ξ."""
    for c in range(3):
        for d in range(3):
            total = 0.0
            for a in range(1, 8):
                total += e[a, c] * slope[a, d]
            J[c, d] = total
    c00 = J[1, 1] * J[2, 2] - J[1, 2] * J[2, 1]
    c01 = J[1, 2] * J[2, 0] - J[1, 0] * J[2, 2]
    c02 = J[1, 0] * J[2, 1] - J[1, 1] * J[2, 0]
    determinant = J[0, 0] * c00 + J[0, 1] * c01 + J[0, 2] * c02
    inverse = 1.0 / determinant if determinant > 0.0 else 0.0
    c10 = J[0, 2] * J[2, 1] - J[0, 1] * J[2, 2]
    c11 = J[0, 0] * J[2, 2] - J[0, 2] * J[2, 0]
    c12 = J[0, 1] * J[2, 0] - J[0, 0] * J[2, 1]
    c20 = J[0, 1] * J[1, 2] - J[0, 2] * J[1, 1]
    c21 = J[0, 2] * J[1, 0] - J[0, 0] * J[1, 2]
    c22 = J[0, 0] * J[1, 1] - J[0, 1] * J[1, 0]
    for a in range(8):
        s0, s1, s2 = slope[a, 0] * inverse, slope[a, 1] * inverse, slope[a, 2] * inverse
        g[a, 0] = c00 * s0 + c01 * s1 + c02 * s2
        g[a, 1] = c10 * s0 + c11 * s1 + c12 * s2
        g[a, 2] = c20 * s0 + c21 * s1 + c22 * s2
    return determinant


@compiled_fused
def _deformation_gradient(d: Floats, g: Floats, F: Floats) -> None:
    """F = Σ (x_a − x_0) ⊗ ∇N_a, with the deformed edges `d`."""
    for i in range(3):
        for j in range(3):
            total = 0.0
            for a in range(1, 8):
                total += d[a, i] * g[a, j]
            F[i, j] = total


@compiled_parallel
def element_energies(
    kind: int,
    x: Floats,
    rest: Floats,
    hexes: Ints,
    parameters: Floats,
    slopes: Floats,
    weights: Floats,
    out: Floats,
) -> float:
    """Energy of each hex into `out`; returns the smallest det ∂X/∂ξ at a point."""
    smallest = np.inf
    n_chunks = (len(hexes) + 63) // 64
    for k in prange(n_chunks):
        e, d, g = np.empty((8, 3)), np.empty((8, 3)), np.empty((8, 3))
        J, F, scratch = np.empty((3, 3)), np.empty((3, 3)), np.empty((6, 3, 3))
        lowest = np.inf
        for h in range(64 * k, min(64 * k + 64, len(hexes))):
            _edges_from_first(rest, hexes[h], e)
            _edges_from_first(x, hexes[h], d)
            total = 0.0
            for point in range(len(weights)):
                volume = _spatial_gradients(e, slopes[point], J, g)
                lowest = min(lowest, volume)
                _deformation_gradient(d, g, F)
                density = energy_density(kind, F, parameters[h], scratch)
                total += weights[point] * volume * density
            out[h] = total
        smallest = min(smallest, lowest)
    return smallest


@compiled_parallel
def add_forces(
    kind: int,
    x: Floats,
    rest: Floats,
    hexes: Ints,
    parameters: Floats,
    slopes: Floats,
    weights: Floats,
    chunk_start: Ints,
    colour_start: Ints,
    out: Floats,
) -> float:
    """Add ∂W/∂x to `out` (n, 3); returns the smallest det ∂X/∂ξ at a point."""
    smallest = np.inf
    for colour in range(len(colour_start) - 1):
        for k in prange(colour_start[colour], colour_start[colour + 1]):
            e, d, g = np.empty((8, 3)), np.empty((8, 3)), np.empty((8, 3))
            J, F, P = np.empty((3, 3)), np.empty((3, 3)), np.empty((3, 3))
            scratch = np.empty((6, 3, 3))
            lowest = np.inf
            for h in range(chunk_start[k], chunk_start[k + 1]):
                _edges_from_first(rest, hexes[h], e)
                _edges_from_first(x, hexes[h], d)
                for point in range(len(weights)):
                    volume = _spatial_gradients(e, slopes[point], J, g)
                    lowest = min(lowest, volume)
                    _deformation_gradient(d, g, F)
                    stress(kind, F, parameters[h], P, scratch)
                    _scatter_force(weights[point] * volume, g, P, hexes[h], out)
            smallest = min(smallest, lowest)
    return smallest


@compiled_fused
def _scatter_force(volume: float, g: Floats, P: Floats, hexahedron: Ints, out: Floats) -> None:
    """Add V P ∇N_a to each corner; the first gets what makes the sum vanish."""
    for i in range(3):
        p0, p1, p2 = volume * P[i, 0], volume * P[i, 1], volume * P[i, 2]
        total = 0.0
        for a in range(1, 8):
            force = p0 * g[a, 0] + p1 * g[a, 1] + p2 * g[a, 2]
            out[hexahedron[a], i] += force
            total += force
        out[hexahedron[0], i] -= total


@compiled_parallel
def add_stiffness(
    kind: int,
    x: Floats,
    rest: Floats,
    hexes: Ints,
    parameters: Floats,
    slopes: Floats,
    weights: Floats,
    chunk_start: Ints,
    colour_start: Ints,
    psd: bool,
    block_start: Ints,
    slots: NDArray[np.int32],
    out: Floats,
) -> float:
    """Add ∂²W/∂x² to the CSR values `out`; returns the smallest det ∂X/∂ξ at a point.

    Vertex i owns the values from 9·block_start[i], as three rows of its blocks side by side;
    slots[h, 8a + b] is where in that list corner b of hex h stands for corner a.
    """
    smallest = np.inf
    for colour in range(len(colour_start) - 1):
        for k in prange(colour_start[colour], colour_start[colour + 1]):
            e, d, g = np.empty((8, 3)), np.empty((8, 3)), np.empty((8, 3))
            J, F, H, T = np.empty((3, 3)), np.empty((3, 3)), np.empty((9, 9)), np.empty((3, 9))
            K, scratch, frames = np.empty((24, 24)), np.empty((6, 3, 3)), np.empty((2, 9, 9))
            lowest = np.inf
            for h in range(chunk_start[k], chunk_start[k + 1]):
                _edges_from_first(rest, hexes[h], e)
                _edges_from_first(x, hexes[h], d)
                K[:] = 0.0
                for point in range(len(weights)):
                    volume = _spatial_gradients(e, slopes[point], J, g)
                    lowest = min(lowest, volume)
                    _deformation_gradient(d, g, F)
                    stress_derivative(kind, F, parameters[h], H, scratch)
                    if psd:
                        project_psd(F, kind != ORTHOTROPIC, H, frames)
                    _add_point_stiffness(weights[point] * volume, g, H, T, K)
                _complete(K)
                _scatter(K, hexes[h], block_start, slots[h], out)
            smallest = min(smallest, lowest)
    return smallest


@compiled_fused
def _add_point_stiffness(volume: float, g: Floats, H: Floats, T: Floats, K: Floats) -> None:
    """Add ∇N_aᵀ (V ∂P/∂F) ∇N_b to the blocks 1 ≤ a ≤ b of K; H is symmetric."""
    for b in range(1, 8):
        g0, g1, g2 = volume * g[b, 0], volume * g[b, 1], volume * g[b, 2]
        for k in range(3):
            r0, r1, r2, t = H[3 * k], H[3 * k + 1], H[3 * k + 2], T[k]
            for m in range(9):
                t[m] = r0[m] * g0 + r1[m] * g1 + r2[m] * g2
        for a in range(1, b + 1):
            a0, a1, a2 = g[a, 0], g[a, 1], g[a, 2]
            for i in range(3):
                row = K[3 * a + i]
                for k in range(3):
                    t = T[k]
                    row[3 * b + k] += a0 * t[3 * i] + a1 * t[3 * i + 1] + a2 * t[3 * i + 2]


@compiled_fused
def _complete(K: Floats) -> None:
    """Mirror what is above the diagonal; the first corner's rows make all sums vanish."""
    for i in range(3, 24):
        for k in range(3, i):
            K[i, k] = K[k, i]
    for i in range(3, 24):
        for k in range(3):
            total = 0.0
            for b in range(1, 8):
                total += K[i, 3 * b + k]
            K[i, k] = -total
            K[k, i] = -total
    for i in range(3):
        for k in range(i + 1):
            total = 0.0
            for b in range(1, 8):
                total += K[3 * b + i, k]
            K[i, k] = -total
            K[k, i] = -total


@compiled
def _scatter(
    K: Floats, hexahedron: Ints, block_start: Ints, slots: NDArray[np.int32], out: Floats
) -> None:
    for a in range(8):
        start = block_start[hexahedron[a]]
        width = 3 * (block_start[hexahedron[a] + 1] - start)
        for i in range(3):
            first = 9 * start + i * width
            row, source = out[first : first + width], K[3 * a + i]
            for b in range(8):
                at = 3 * slots[8 * a + b]
                row[at] += source[3 * b]
                row[at + 1] += source[3 * b + 1]
                row[at + 2] += source[3 * b + 2]
