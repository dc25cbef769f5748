"""Loops over all elements: energy, force and stiffness, in Numba, over coloured chunks.

`elements` (m, 4) or (m, 8) and `parameters` come in the order of the `Partition`. `weights` (g,)
is what the integration points count; they add up to 1. `slopes` (g, 8, 3) are the derivatives of
a hexahedron's shape functions there, and None for tets, whose one point has weight 1. The rest
shape is read on every call, because it changes every frame; its gradients cost little beside the
stress derivative.
"""

from __future__ import annotations

import numpy as np
from numba import prange
from numpy.typing import NDArray

from supple.compiled import compiled_parallel
from supple.elastic.density import ORTHOTROPIC, energy_density, stress, stress_derivative
from supple.elastic.element_kernels import (
    add_element_forces,
    add_point_stiffness,
    complete_stiffness,
    corner_count,
    gradients_at,
    point_count,
    position_gradient,
    scatter_stiffness,
)
from supple.elastic.svd import project_psd

__all__ = ["add_forces", "add_stiffness", "element_energies"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@compiled_parallel
def element_energies(
    kind: int,
    x: Floats,
    rest: Floats,
    elements: Ints,
    parameters: Floats,
    slopes: Floats | None,
    weights: Floats | None,
    out: Floats,
) -> float:
    """Energy of each element into `out`; returns the smallest rest volume seen from a point."""
    smallest = np.inf
    n_chunks = (len(elements) + 255) // 256
    for k in prange(n_chunks):
        g, F, scratch = np.empty((corner_count(slopes), 3)), np.empty((3, 3)), np.empty((6, 3, 3))
        lowest = np.inf
        for e in range(256 * k, min(256 * k + 256, len(elements))):
            total = 0.0
            for point in range(point_count(slopes)):
                volume = gradients_at(point, rest, elements, e, slopes, weights, g)
                lowest = min(lowest, volume)
                position_gradient(x, elements, e, slopes, g, F)
                density = energy_density(kind, F, parameters[e], scratch)
                total += volume * density
            out[e] = total
        smallest = min(smallest, lowest)
    return smallest


@compiled_parallel
def add_forces(
    kind: int,
    x: Floats,
    rest: Floats,
    elements: Ints,
    parameters: Floats,
    slopes: Floats | None,
    weights: Floats | None,
    chunk_start: Ints,
    colour_start: Ints,
    out: Floats,
) -> float:
    """Add ∂W/∂x to `out` (n, 3); returns the smallest rest volume seen from a point."""
    smallest = np.inf
    for colour in range(len(colour_start) - 1):
        for k in prange(colour_start[colour], colour_start[colour + 1]):
            g, F, P = np.empty((corner_count(slopes), 3)), np.empty((3, 3)), np.empty((3, 3))
            scratch = np.empty((6, 3, 3))
            lowest = np.inf
            for e in range(chunk_start[k], chunk_start[k + 1]):
                for point in range(point_count(slopes)):
                    volume = gradients_at(point, rest, elements, e, slopes, weights, g)
                    lowest = min(lowest, volume)
                    position_gradient(x, elements, e, slopes, g, F)
                    stress(kind, F, parameters[e], P, scratch)
                    add_element_forces(volume, g, P, elements, e, slopes, out)
            smallest = min(smallest, lowest)
    return smallest


@compiled_parallel
def add_stiffness(
    kind: int,
    x: Floats,
    rest: Floats,
    elements: Ints,
    parameters: Floats,
    slopes: Floats | None,
    weights: Floats | None,
    chunk_start: Ints,
    colour_start: Ints,
    psd: bool,
    block_start: Ints,
    slots: NDArray[np.int32],
    out: Floats,
) -> float:
    """Add ∂²W/∂x² to the CSR values `out`; returns the smallest rest volume seen from a point.

    Vertex i owns the values from 9·block_start[i], as three rows of its blocks side by side;
    slots[e, n·a + b] is where in that list corner b of element e stands for corner a of its n.
    """
    smallest = np.inf
    for colour in range(len(colour_start) - 1):
        for k in prange(colour_start[colour], colour_start[colour + 1]):
            n = corner_count(slopes)
            g, F, H = np.empty((n, 3)), np.empty((3, 3)), np.empty((9, 9))
            K, scratch, frames = np.empty((3 * n, 3 * n)), np.empty((6, 3, 3)), np.empty((2, 9, 9))
            lowest = np.inf
            for e in range(chunk_start[k], chunk_start[k + 1]):
                for point in range(point_count(slopes)):
                    volume = gradients_at(point, rest, elements, e, slopes, weights, g)
                    lowest = min(lowest, volume)
                    position_gradient(x, elements, e, slopes, g, F)
                    stress_derivative(kind, F, parameters[e], H, scratch)
                    if psd:
                        project_psd(F, kind != ORTHOTROPIC, H, frames)
                    add_point_stiffness(point, volume, g, H, slopes, K)
                complete_stiffness(slopes, K)
                scatter_stiffness(K, elements, e, slopes, block_start, slots, out)
            smallest = min(smallest, lowest)
    return smallest
