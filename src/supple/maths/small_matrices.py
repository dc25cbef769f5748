"""3×3 matrices in Numba, written out: results go into the caller's arrays."""

from __future__ import annotations

from supple.arrays import Floats
from supple.compiled.jit import compiled_fused


@compiled_fused
def green_strain(F: Floats, E: Floats) -> None:
    """E = ½(FᵀF − I)."""
    for i in range(3):
        for j in range(3):
            E[i, j] = 0.5 * (F[0, i] * F[0, j] + F[1, i] * F[1, j] + F[2, i] * F[2, j])
        E[i, i] -= 0.5


@compiled_fused
def cofactors(F: Floats, C: Floats) -> None:
    """∂ det F / ∂F."""
    for i in range(3):
        for j in range(3):
            i1, i2, j1, j2 = (i + 1) % 3, (i + 2) % 3, (j + 1) % 3, (j + 2) % 3
            C[i, j] = F[i1, j1] * F[i2, j2] - F[i1, j2] * F[i2, j1]


@compiled_fused
def determinant(F: Floats) -> float:
    return (
        F[0, 0] * (F[1, 1] * F[2, 2] - F[1, 2] * F[2, 1])
        + F[0, 1] * (F[1, 2] * F[2, 0] - F[1, 0] * F[2, 2])
        + F[0, 2] * (F[1, 0] * F[2, 1] - F[1, 1] * F[2, 0])
    )


@compiled_fused
def squared_norm(F: Floats) -> float:
    total = 0.0
    for i in range(3):
        for j in range(3):
            total += F[i, j] * F[i, j]
    return total


@compiled_fused
def times(A: Floats, B: Floats, C: Floats) -> None:
    for i in range(3):
        for j in range(3):
            C[i, j] = A[i, 0] * B[0, j] + A[i, 1] * B[1, j] + A[i, 2] * B[2, j]


@compiled_fused
def times_transposed(A: Floats, B: Floats, C: Floats) -> None:
    for i in range(3):
        for j in range(3):
            C[i, j] = A[i, 0] * B[j, 0] + A[i, 1] * B[j, 1] + A[i, 2] * B[j, 2]
