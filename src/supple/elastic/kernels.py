"""Element loops: energy, force and stiffness of all tets, in Numba, over coloured chunks.

`tets` and `parameters` come in the order of the `Partition`. The rest shape is read on every
call, because it changes every frame; its gradients cost little beside the stress derivative.
"""

from __future__ import annotations

import numpy as np
from numba import prange
from numpy.typing import NDArray

from supple.compiled import compiled, compiled_parallel
from supple.elastic.density import ORTHOTROPIC, energy_density, stress, stress_derivative
from supple.elastic.svd import project_psd

__all__ = ["add_forces", "add_stiffness", "element_energies"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@compiled
def _gradients(rest: Floats, tet: Ints, g: Floats) -> float:
    """Rows of `g` ← gradients ∇N_a of the four shape functions; returns the signed volume."""
    a, b, c, d = tet[0], tet[1], tet[2], tet[3]
    e00, e01, e02 = rest[b, 0] - rest[a, 0], rest[b, 1] - rest[a, 1], rest[b, 2] - rest[a, 2]
    e10, e11, e12 = rest[c, 0] - rest[a, 0], rest[c, 1] - rest[a, 1], rest[c, 2] - rest[a, 2]
    e20, e21, e22 = rest[d, 0] - rest[a, 0], rest[d, 1] - rest[a, 1], rest[d, 2] - rest[a, 2]
    g[1, 0], g[1, 1], g[1, 2] = e11 * e22 - e12 * e21, e12 * e20 - e10 * e22, e10 * e21 - e11 * e20
    g[2, 0], g[2, 1], g[2, 2] = e21 * e02 - e22 * e01, e22 * e00 - e20 * e02, e20 * e01 - e21 * e00
    g[3, 0], g[3, 1], g[3, 2] = e01 * e12 - e02 * e11, e02 * e10 - e00 * e12, e00 * e11 - e01 * e10
    six_volumes = e00 * g[1, 0] + e01 * g[1, 1] + e02 * g[1, 2]
    inverse = 1.0 / six_volumes if six_volumes > 0.0 else 0.0
    for j in range(3):
        for n in range(1, 4):
            g[n, j] *= inverse
        g[0, j] = -(g[1, j] + g[2, j] + g[3, j])
    return six_volumes / 6.0


@compiled
def _deformation_gradient(x: Floats, tet: Ints, g: Floats, F: Floats) -> None:
    """F = Σ (x_b − x_a) ⊗ ∇N_b: differences first, so far-away bodies lose no digits."""
    a, b, c, d = tet[0], tet[1], tet[2], tet[3]
    for i in range(3):
        origin = x[a, i]
        p, q, r = x[b, i] - origin, x[c, i] - origin, x[d, i] - origin
        for j in range(3):
            F[i, j] = p * g[1, j] + q * g[2, j] + r * g[3, j]


@compiled_parallel
def element_energies(
    kind: int, x: Floats, rest: Floats, tets: Ints, parameters: Floats, out: Floats
) -> float:
    """Energy of each tet into `out`; returns the smallest rest volume."""
    smallest = np.inf
    n_chunks = (len(tets) + 255) // 256
    for k in prange(n_chunks):
        g, F, scratch = np.empty((4, 3)), np.empty((3, 3)), np.empty((6, 3, 3))
        lowest = np.inf
        for e in range(256 * k, min(256 * k + 256, len(tets))):
            volume = _gradients(rest, tets[e], g)
            lowest = min(lowest, volume)
            _deformation_gradient(x, tets[e], g, F)
            out[e] = volume * energy_density(kind, F, parameters[e], scratch)
        smallest = min(smallest, lowest)
    return smallest


@compiled_parallel
def add_forces(
    kind: int,
    x: Floats,
    rest: Floats,
    tets: Ints,
    parameters: Floats,
    chunk_start: Ints,
    colour_start: Ints,
    out: Floats,
) -> float:
    """Add ∂W/∂x to `out` (n, 3); returns the smallest rest volume."""
    smallest = np.inf
    for colour in range(len(colour_start) - 1):
        for k in prange(colour_start[colour], colour_start[colour + 1]):
            g, F, P = np.empty((4, 3)), np.empty((3, 3)), np.empty((3, 3))
            scratch = np.empty((6, 3, 3))
            lowest = np.inf
            for e in range(chunk_start[k], chunk_start[k + 1]):
                tet = tets[e]
                volume = _gradients(rest, tet, g)
                lowest = min(lowest, volume)
                _deformation_gradient(x, tet, g, F)
                stress(kind, F, parameters[e], P, scratch)
                for i in range(3):
                    p0, p1, p2 = volume * P[i, 0], volume * P[i, 1], volume * P[i, 2]
                    total = 0.0
                    for n in range(1, 4):
                        force = p0 * g[n, 0] + p1 * g[n, 1] + p2 * g[n, 2]
                        out[tet[n], i] += force
                        total += force
                    out[tet[0], i] -= total
            smallest = min(smallest, lowest)
    return smallest


@compiled_parallel
def add_stiffness(
    kind: int,
    x: Floats,
    rest: Floats,
    tets: Ints,
    parameters: Floats,
    chunk_start: Ints,
    colour_start: Ints,
    psd: bool,
    block_start: Ints,
    slots: NDArray[np.int32],
    out: Floats,
) -> float:
    """Add ∂²W/∂x² to the CSR values `out`; returns the smallest rest volume.

    Vertex i owns the values from 9·block_start[i], as three rows of its blocks side by side;
    slots[e, 4a + b] is where in that list vertex b of tet e stands for vertex a.
    """
    smallest = np.inf
    for colour in range(len(colour_start) - 1):
        for k in prange(colour_start[colour], colour_start[colour + 1]):
            g, F, H = np.empty((4, 3)), np.empty((3, 3)), np.empty((9, 9))
            K, scratch, frames = np.empty((12, 12)), np.empty((6, 3, 3)), np.empty((2, 9, 9))
            lowest = np.inf
            for e in range(chunk_start[k], chunk_start[k + 1]):
                volume = _gradients(rest, tets[e], g)
                lowest = min(lowest, volume)
                _deformation_gradient(x, tets[e], g, F)
                stress_derivative(kind, F, parameters[e], H, scratch)
                if psd:
                    project_psd(F, kind != ORTHOTROPIC, H, frames)
                _element_stiffness(volume, g, H, K)
                _scatter(K, tets[e], block_start, slots[e], out)
            smallest = min(smallest, lowest)
    return smallest


@compiled
def _element_stiffness(volume: float, g: Floats, H: Floats, K: Floats) -> None:
    """K (12×12) = Bᵀ (V ∂P/∂F) B, using that the gradients sum to zero and K is symmetric."""
    for b in range(1, 4):
        g0, g1, g2 = volume * g[b, 0], volume * g[b, 1], volume * g[b, 2]
        for i in range(3):
            r0, r1, r2 = H[3 * i], H[3 * i + 1], H[3 * i + 2]
            for k in range(3):
                t0 = r0[3 * k] * g0 + r0[3 * k + 1] * g1 + r0[3 * k + 2] * g2
                t1 = r1[3 * k] * g0 + r1[3 * k + 1] * g1 + r1[3 * k + 2] * g2
                t2 = r2[3 * k] * g0 + r2[3 * k + 1] * g1 + r2[3 * k + 2] * g2
                for a in range(1, b + 1):
                    value = g[a, 0] * t0 + g[a, 1] * t1 + g[a, 2] * t2
                    K[3 * a + i, 3 * b + k] = value
                    K[3 * b + k, 3 * a + i] = value
    for i in range(3, 12):
        for k in range(3):
            value = -(K[i, 3 + k] + K[i, 6 + k] + K[i, 9 + k])
            K[i, k] = value
            K[k, i] = value
    for i in range(3):
        for k in range(i + 1):
            value = -(K[3 + i, k] + K[6 + i, k] + K[9 + i, k])
            K[i, k] = value
            K[k, i] = value


@compiled
def _scatter(
    K: Floats, tet: Ints, block_start: Ints, slots: NDArray[np.int32], out: Floats
) -> None:
    for a in range(4):
        start = block_start[tet[a]]
        width = 3 * (block_start[tet[a] + 1] - start)
        for i in range(3):
            first = 9 * start + i * width
            row, source = out[first : first + width], K[3 * a + i]
            for b in range(4):
                at = 3 * slots[4 * a + b]
                row[at] += source[3 * b]
                row[at + 1] += source[3 * b + 1]
                row[at + 2] += source[3 * b + 2]
