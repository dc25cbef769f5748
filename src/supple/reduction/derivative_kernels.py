"""Second derivatives of the internal force along pairs of displacements, for all tets, in Numba."""

from __future__ import annotations

import numpy as np
from numba import prange
from numpy.typing import NDArray

from supple.compiled import compiled, compiled_parallel
from supple.elastic.density import STVK, stress_derivative
from supple.elastic.kernels import _gradients

__all__ = ["add_second_forces"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Strain at which the stiffness of materials other than StVK is differenced: the error of the
#: difference is about its square, that of rounding 1e-16 divided by it.
_STRAIN = 1e-5


@compiled_parallel
def add_second_forces(
    kind: int,
    rest: Floats,
    tets: Ints,
    parameters: Floats,
    chunk_start: Ints,
    colour_start: Ints,
    first: Floats,
    second: Floats,
    out: Floats,
) -> float:
    """Add (H : a_i) b_j for i ≤ j to `out` (n, 3, pairs); returns the smallest rest volume.

    `first` and `second` are (n, 3, r): displacements a_i and b_j. Column (i, j) of `out` is
    number i·r − i(i − 1)/2 + j − i.
    """
    smallest = np.inf
    r = first.shape[2]
    for colour in range(len(colour_start) - 1):
        for k in prange(colour_start[colour], colour_start[colour + 1]):
            g, A, B = np.empty((4, 3)), np.empty((3, 3, r)), np.empty((3, 3, r))
            SB, P = np.empty((3, 3, r)), np.empty((3, 3, r))
            small, H, scratch = np.empty((3, 3, 3)), np.empty((2, 9, 9)), np.empty((6, 3, 3))
            lowest = np.inf
            for e in range(chunk_start[k], chunk_start[k + 1]):
                volume = _gradients(rest, tets[e], g)
                lowest = min(lowest, volume)
                _displacement_gradients(first, tets[e], g, A)
                _displacement_gradients(second, tets[e], g, B)
                if kind == STVK:
                    _linear_stresses(B, parameters[e, 0], parameters[e, 1], SB)
                column = 0
                for i in range(r):
                    if kind == STVK:
                        _second_stvk(A, B, SB, i, parameters[e, 0], parameters[e, 1], small, P)
                    else:
                        _second_differenced(kind, A, B, i, parameters[e], H, small, scratch, P)
                    _scatter(volume, g, P, i, tets[e], column, out)
                    column += r - i
            smallest = min(smallest, lowest)
    return smallest


@compiled
def _displacement_gradients(u: Floats, tet: Ints, g: Floats, G: Floats) -> None:
    """∂u/∂X of all columns, (3, 3, r): differences first, as elsewhere."""
    for c in range(3):
        u0, u1, u2, u3 = u[tet[0], c], u[tet[1], c], u[tet[2], c], u[tet[3], c]
        for d in range(3):
            g1, g2, g3 = g[1, d], g[2, d], g[3, d]
            row = G[c, d]
            for j in range(len(row)):
                row[j] = (u1[j] - u0[j]) * g1 + (u2[j] - u0[j]) * g2 + (u3[j] - u0[j]) * g3


@compiled
def _linear_stresses(G: Floats, mu: float, lam: float, S: Floats) -> None:
    """S(sym G) = μ(G + Gᵀ) + λ tr(G) I of all columns."""
    x, y, z = G[0, 0], G[1, 1], G[2, 2]
    for c in range(3):
        for d in range(3):
            there, back, row = G[c, d], G[d, c], S[c, d]
            if c == d:
                for j in range(len(row)):
                    row[j] = 2.0 * mu * there[j] + lam * (x[j] + y[j] + z[j])
            else:
                for j in range(len(row)):
                    row[j] = mu * (there[j] + back[j])


@compiled
def _second_stvk(
    A: Floats, B: Floats, SB: Floats, i: int, mu: float, lam: float, small: Floats, P: Floats
) -> None:
    """∂²P/∂F² : A_i : B_j = A S(B) + B S(A) + S(AᵀB) at F = I, for all j ≥ i."""
    r = B.shape[2]
    a, sa = small[0], small[1]
    for c in range(3):
        for d in range(3):
            a[c, d] = A[c, d, i]
    trace = a[0, 0] + a[1, 1] + a[2, 2]
    for c in range(3):
        for d in range(3):
            sa[c, d] = mu * (a[c, d] + a[d, c])
        sa[c, c] += lam * trace
    for c in range(3):
        a0, a1, a2 = a[c, 0], a[c, 1], a[c, 2]
        b0, b1, b2 = B[c, 0], B[c, 1], B[c, 2]
        for d in range(3):
            s0, s1, s2 = SB[0, d], SB[1, d], SB[2, d]
            t0, t1, t2 = sa[0, d], sa[1, d], sa[2, d]
            # 2 sym(AᵀB) at (c, d): column c of A with column d of B, and the other way round
            p0, p1, p2 = mu * a[0, c], mu * a[1, c], mu * a[2, c]
            q0, q1, q2 = mu * a[0, d], mu * a[1, d], mu * a[2, d]
            x0, x1, x2, y0, y1, y2 = B[0, d], B[1, d], B[2, d], B[0, c], B[1, c], B[2, c]
            row = P[c, d]
            for j in range(i, r):
                row[j] = (
                    (a0 * s0[j] + a1 * s1[j] + a2 * s2[j])
                    + (b0[j] * t0 + b1[j] * t1 + b2[j] * t2)
                    + (p0 * x0[j] + p1 * x1[j] + p2 * x2[j])
                    + (q0 * y0[j] + q1 * y1[j] + q2 * y2[j])
                )
    for c in range(3):
        for d in range(3):  # λ tr(AᵀB)
            pressure, row = lam * a[c, d], B[c, d]
            for n in range(3):
                target = P[n, n]
                for j in range(i, r):
                    target[j] += pressure * row[j]


@compiled
def _second_differenced(
    kind: int,
    A: Floats,
    B: Floats,
    i: int,
    p: Floats,
    H: Floats,
    small: Floats,
    scratch: Floats,
    P: Floats,
) -> None:
    """The same for any material: ∂P/∂F at I ± hA_i, half their difference, divided by h."""
    r = B.shape[2]
    size = 0.0
    for c in range(3):
        for d in range(3):
            size = max(size, abs(A[c, d, i]))
    if size == 0.0:
        P[:, :, i:] = 0.0
        return
    F = small[0]
    h = _STRAIN / size
    for side in range(2):
        step = h if side == 0 else -h
        for c in range(3):
            for d in range(3):
                F[c, d] = step * A[c, d, i]
            F[c, c] += 1.0
        stress_derivative(kind, F, p, H[side], scratch)
    for m in range(9):
        row = P[m // 3, m % 3]
        row[i:] = 0.0
        for n in range(9):
            factor, along = (H[0, m, n] - H[1, m, n]) * (0.5 / h), B[n // 3, n % 3]
            for j in range(i, r):
                row[j] += factor * along[j]


@compiled
def _scatter(
    volume: float, g: Floats, P: Floats, i: int, tet: Ints, column: int, out: Floats
) -> None:
    r = P.shape[2]
    for c in range(3):
        p0, p1, p2 = P[c, 0, i:], P[c, 1, i:], P[c, 2, i:]
        for n in range(4):
            g0, g1, g2 = volume * g[n, 0], volume * g[n, 1], volume * g[n, 2]
            row = out[tet[n], c, column : column + r - i]
            for j in range(len(row)):
                row[j] += p0[j] * g0 + p1[j] * g1 + p2[j] * g2
