"""Kernels of elastic cubature: element forces of many samples at once.

Samples are the last, contiguous axis: displacements are (n, 3, t), element forces (e, 9, t). The
force of a tet's first corner is minus the sum of the others and is not stored; row 3a + i is axis i
of corner a + 1. Every loop writes to separate entries, so that results do not depend on the number
of threads.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from supple.arrays import Floats, Ints, Singles
from supple.compiled.jit import compiled, compiled_parallel
from supple.elastic.densities.dispatch import stress, stress_derivative

#: Parts of a force.
WHOLE, LINEAR, REMAINDER = range(3)
#: Tets per task: enough to hide the cost of starting it.
_CHUNK = 64
DETERMINANT_CHUNK = 512


@compiled
def _edge_inverse(rest: Floats, tet: Ints, inverse: Floats) -> float:
    """Write the inverse of the matrix with the edges from corner 0 as rows; return the volume."""
    e = np.empty((3, 3))
    for a in range(3):
        for i in range(3):
            e[a, i] = rest[tet[a + 1], i] - rest[tet[0], i]
    for a in range(3):
        b, c = (a + 1) % 3, (a + 2) % 3
        for i in range(3):
            j, k = (i + 1) % 3, (i + 2) % 3
            inverse[i, a] = e[b, j] * e[c, k] - e[b, k] * e[c, j]
    six_volumes = e[0, 0] * inverse[0, 0] + e[0, 1] * inverse[1, 0] + e[0, 2] * inverse[2, 0]
    scale = 1.0 / six_volumes if six_volumes > 0.0 else 0.0
    for a in range(3):
        for i in range(3):
            inverse[i, a] *= scale
    return six_volumes / 6.0


@compiled
def _displacement_gradient(
    displacements: Floats, tet: Ints, inverse: Floats, t: int, D: Floats
) -> None:
    """Write D = ∂u/∂X = F − I of sample t; F itself would round small displacements."""
    first = displacements[tet[0]]
    for i in range(3):
        origin = first[i, t]
        x = displacements[tet[1], i, t] - origin
        y = displacements[tet[2], i, t] - origin
        z = displacements[tet[3], i, t] - origin
        for j in range(3):
            D[i, j] = x * inverse[j, 0] + y * inverse[j, 1] + z * inverse[j, 2]


@compiled
def _add_linear_stress(sign: float, H: Floats, D: Floats, P: Floats) -> None:
    for i in range(3):
        for j in range(3):
            row, total = H[3 * i + j], 0.0
            for k in range(3):
                for n in range(3):
                    total += row[3 * k + n] * D[k, n]
            P[i, j] += sign * total


@compiled_parallel
def element_forces(
    kind: int,
    rest: Floats,
    displacements: Floats,
    tets: Ints,
    parameters: Floats,
    part: int,
    out: Floats,
) -> float:
    """Write forces ∂W_e/∂x of `tets` at rest + each displacement to `out` (e, 9, t); return the
    smallest rest volume. `part` is WHOLE; LINEAR, K_e(0) u; or REMAINDER, f_e without the linear
    part.
    """
    smallest = np.inf
    for chunk in prange((len(tets) + _CHUNK - 1) // _CHUNK):
        inverse, D, F, P = np.empty((3, 3)), np.empty((3, 3)), np.empty((3, 3)), np.empty((3, 3))
        scratch, H = np.empty((6, 3, 3)), np.empty((9, 9))
        lowest = np.inf
        for e in range(_CHUNK * chunk, min(_CHUNK * chunk + _CHUNK, len(tets))):
            volume = _edge_inverse(rest, tets[e], inverse)
            lowest = min(lowest, volume)
            if part != WHOLE:
                stress_derivative(kind, np.eye(3), parameters[e], H, scratch)
            for t in range(displacements.shape[2]):
                _displacement_gradient(displacements, tets[e], inverse, t, D)
                for i in range(3):
                    for j in range(3):
                        F[i, j] = D[i, j] + (1.0 if i == j else 0.0)
                if part == LINEAR:
                    P[...] = 0.0
                else:
                    stress(kind, F, parameters[e], P, scratch)
                if part != WHOLE:
                    _add_linear_stress(1.0 if part == LINEAR else -1.0, H, D, P)
                for a in range(3):
                    for i in range(3):
                        total = P[i, 0] * inverse[0, a]
                        total += P[i, 1] * inverse[1, a] + P[i, 2] * inverse[2, a]
                        out[e, 3 * a + i, t] = volume * total
        smallest = min(smallest, lowest)
    return smallest


@compiled_parallel
def smallest_determinants(rest: Floats, displacements: Floats, tets: Ints, out: Floats) -> None:
    """Write the smallest det F of each chunk of `DETERMINANT_CHUNK` tets to `out` (chunks, t)."""
    samples = displacements.shape[2]
    for chunk in prange(len(out)):
        inverse, D = np.empty((3, 3)), np.empty((3, 3))
        for t in range(samples):
            out[chunk, t] = np.inf
        begin = DETERMINANT_CHUNK * chunk
        for e in range(begin, min(begin + DETERMINANT_CHUNK, len(tets))):
            _edge_inverse(rest, tets[e], inverse)
            for t in range(samples):
                _displacement_gradient(displacements, tets[e], inverse, t, D)
                for i in range(3):
                    D[i, i] += 1.0
                out[chunk, t] = min(out[chunk, t], _determinant(D))


@compiled
def _determinant(F: Floats) -> float:
    return (
        F[0, 0] * (F[1, 1] * F[2, 2] - F[1, 2] * F[2, 1])
        - F[0, 1] * (F[1, 0] * F[2, 2] - F[1, 2] * F[2, 0])
        + F[0, 2] * (F[1, 0] * F[2, 1] - F[1, 1] * F[2, 0])
    )


@compiled_parallel
def gather_at_vertices(forces: Floats, start: Ints, corners: Ints, out: Floats) -> None:
    """Write the sum of element forces at each vertex to `out` (n, 3, t).
    `corners[start[v]:start[v + 1]]` lists 4e + corner of the tets around vertex v.
    """
    axes, samples = out.shape[1], forces.shape[2]
    for v in prange(len(start) - 1):
        sums = out[v]
        for i in range(axes):
            for t in range(samples):
                sums[i, t] = 0.0
        for k in range(start[v], start[v + 1]):
            f, corner = forces[corners[k] // 4], corners[k] % 4
            for i in range(axes):
                row = sums[i]
                if corner == 0:
                    x, y, z = f[i], f[3 + i], f[6 + i]
                    for t in range(samples):
                        row[t] -= x[t] + y[t] + z[t]
                else:
                    x = f[3 * corner - 3 + i]
                    for t in range(samples):
                        row[t] += x[t]


@compiled_parallel
def element_dots(forces: Singles, y: Singles, tets: Ints, out: Floats) -> None:
    """Write the inner product of each tet's forces with the field y (n, 3, t) to `out` (e,)."""
    samples = forces.shape[2]
    for chunk in prange((len(tets) + _CHUNK - 1) // _CHUNK):
        for e in range(_CHUNK * chunk, min(_CHUNK * chunk + _CHUNK, len(tets))):
            total = 0.0
            first = y[tets[e, 0]]
            for a in range(3):
                other = y[tets[e, a + 1]]
                for i in range(3):
                    f, p, q = forces[e, 3 * a + i], other[i], first[i]
                    # Four partial sums are vectorised; one would be a dependency chain.
                    s0 = s1 = s2 = s3 = np.float32(0.0)
                    vectorised_end = samples - samples % 4
                    for t in range(0, vectorised_end, 4):
                        s0 += f[t] * (p[t] - q[t])
                        s1 += f[t + 1] * (p[t + 1] - q[t + 1])
                        s2 += f[t + 2] * (p[t + 2] - q[t + 2])
                        s3 += f[t + 3] * (p[t + 3] - q[t + 3])
                    for t in range(vectorised_end, samples):
                        s0 += f[t] * (p[t] - q[t])
                    total += float((s0 + s1) + (s2 + s3))
            out[e] = total


@compiled_parallel
def element_norms(forces: Singles, basis: Singles, tets: Ints, out: Floats) -> None:
    """Write the squared norms Σ ‖U_eᵀ f_e‖² of the columns, summed over samples, to `out` (e,)."""
    # Nine is not a constant here: the compiler would unroll the loops over pairs, which takes 20 s.
    nine, samples, columns = forces.shape[1], forces.shape[2], basis.shape[2]
    for chunk in prange((len(tets) + _CHUNK - 1) // _CHUNK):
        D, B = np.empty((9, columns), np.float32), np.empty((9, 9))
        for e in range(_CHUNK * chunk, min(_CHUNK * chunk + _CHUNK, len(tets))):
            for a in range(3):
                for i in range(3):
                    d, p, q = D[3 * a + i], basis[tets[e, a + 1], i], basis[tets[e, 0], i]
                    for k in range(columns):
                        d[k] = p[k] - q[k]
            for a in range(nine):
                for b in range(a + 1):
                    p, q, gram = D[a], D[b], np.float32(0.0)
                    for k in range(columns):
                        gram += p[k] * q[k]
                    B[a, b] = gram
            f = forces[e]
            total = 0.0
            for a in range(nine):
                for b in range(a + 1):
                    dot: float = 0.0
                    for t in range(samples):
                        dot += float(f[a, t]) * float(f[b, t])
                    total += (1.0 if a == b else 2.0) * B[a, b] * dot
            out[e] = total
