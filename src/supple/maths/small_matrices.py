"""Kernels on 3 × 3 matrices: products, singular values, eigenvalues."""

from __future__ import annotations

import math

from supple.arrays import Floats
from supple.compiled.jit import compiled_fused


@compiled_fused
def green_strain(F: Floats, E: Floats) -> None:
    """Write the Green strain E = ½(FᵀF − I)."""
    for i in range(3):
        for j in range(3):
            E[i, j] = 0.5 * (F[0, i] * F[0, j] + F[1, i] * F[1, j] + F[2, i] * F[2, j])
        E[i, i] -= 0.5


@compiled_fused
def cofactors(F: Floats, C: Floats) -> None:
    """Write the cofactors C = ∂ det F / ∂F."""
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


_TINY = 1e-300


@compiled_fused
def straighten(R: Floats, scratch: Floats) -> None:
    """Orthonormalise R up to rounding: R ← R (3 − RᵀR) / 2.

    Without this, rounding errors of a chain of twelve bones grew tenfold with every change.
    """
    for i in range(3):
        for k in range(3):
            inner = R[0, i] * R[0, k] + R[1, i] * R[1, k] + R[2, i] * R[2, k]
            scratch[i, k] = (1.5 if i == k else 0.0) - 0.5 * inner
    for i in range(3):
        a, b, c = R[i, 0], R[i, 1], R[i, 2]
        for k in range(3):
            R[i, k] = a * scratch[0, k] + b * scratch[1, k] + c * scratch[2, k]


@compiled_fused
def write_exponential(vector: Floats, out: Floats) -> None:
    """Write exp([v]×) by Rodrigues' formula."""
    x, y, z = vector[0], vector[1], vector[2]
    square = x * x + y * y + z * z
    if square < 1e-8:
        sine, versine = 1.0 - square / 6.0, 0.5 - square / 24.0
    else:
        angle = math.sqrt(square)
        sine, versine = math.sin(angle) / angle, (1.0 - math.cos(angle)) / square
    out[0, 0] = 1.0 - versine * (y * y + z * z)
    out[1, 1] = 1.0 - versine * (x * x + z * z)
    out[2, 2] = 1.0 - versine * (x * x + y * y)
    out[0, 1], out[1, 0] = versine * x * y - sine * z, versine * x * y + sine * z
    out[0, 2], out[2, 0] = versine * x * z + sine * y, versine * x * z - sine * y
    out[1, 2], out[2, 1] = versine * y * z - sine * x, versine * y * z + sine * x


@compiled_fused
def rotation_svd(F: Floats, U: Floats, sigma: Floats, V: Floats) -> None:
    """Decompose F = U diag(σ) Vᵀ with *rotations* U and V; only the last σ may be negative.
    One-sided Jacobi iteration orthogonalises the columns of F V, which keeps small singular values
    accurate, as nearly inverted elements need. The convention is from Irving et al. 2004.
    """
    for i in range(3):
        for j in range(3):
            U[i, j] = F[i, j]
            V[i, j] = 1.0 if i == j else 0.0
    for _ in range(12):
        if _orthogonalise_columns(U, V) < 1e-15:
            break
    _sort_columns(U, V)
    _normalise_columns(U, sigma)


@compiled_fused
def _orthogonalise_columns(B: Floats, V: Floats) -> float:
    worst = 0.0
    for p in range(2):
        for q in range(p + 1, 3):
            a = b = c = 0.0
            for i in range(3):
                a += B[i, p] * B[i, p]
                b += B[i, q] * B[i, q]
                c += B[i, p] * B[i, q]
            size = math.sqrt(a * b)
            if abs(c) <= 1e-16 * size or size < _TINY:
                continue
            worst = max(worst, abs(c) / size)
            zeta = (b - a) / (2.0 * c)
            t = math.copysign(1.0, zeta) / (abs(zeta) + math.sqrt(1.0 + zeta * zeta))
            cosine = 1.0 / math.sqrt(1.0 + t * t)
            sine = cosine * t
            for i in range(3):
                for M in (B, V):
                    m = M[i, p]
                    M[i, p] = cosine * m - sine * M[i, q]
                    M[i, q] = sine * m + cosine * M[i, q]
    return worst


@compiled_fused
def _sort_columns(B: Floats, V: Floats) -> None:
    for p, q in ((0, 1), (1, 2), (0, 1)):
        a = B[0, p] ** 2 + B[1, p] ** 2 + B[2, p] ** 2
        b = B[0, q] ** 2 + B[1, q] ** 2 + B[2, q] ** 2
        if a < b:
            for i in range(3):  # swap and negate: still a rotation
                for M in (B, V):
                    m = M[i, p]
                    M[i, p] = M[i, q]
                    M[i, q] = -m


@compiled_fused
def _normalise_columns(B: Floats, sigma: Floats) -> None:
    first = math.sqrt(B[0, 0] ** 2 + B[1, 0] ** 2 + B[2, 0] ** 2)
    second = math.sqrt(B[0, 1] ** 2 + B[1, 1] ** 2 + B[2, 1] ** 2)
    b0, b1, b2 = B[0, 2], B[1, 2], B[2, 2]
    if first < _TINY:  # F = 0
        for i in range(3):
            for j in range(3):
                B[i, j] = 1.0 if i == j else 0.0
        sigma[:] = 0.0
        return
    for i in range(3):
        B[i, 0] /= first
    if second > 1e-14 * first:
        dot = 0.0
        for i in range(3):
            B[i, 1] /= second
            dot += B[i, 0] * B[i, 1]
        norm = 0.0
        for i in range(3):
            B[i, 1] -= dot * B[i, 0]
            norm += B[i, 1] ** 2
        norm = math.sqrt(norm)
        for i in range(3):
            B[i, 1] /= norm
    else:  # rank one: any perpendicular direction
        x, y, z = B[0, 0], B[1, 0], B[2, 0]
        if abs(x) < 0.6:
            norm = math.sqrt(y * y + z * z)
            B[0, 1], B[1, 1], B[2, 1] = 0.0, z / norm, -y / norm
        else:
            norm = math.sqrt(x * x + y * y)
            B[0, 1], B[1, 1], B[2, 1] = y / norm, -x / norm, 0.0
    B[0, 2] = B[1, 0] * B[2, 1] - B[2, 0] * B[1, 1]
    B[1, 2] = B[2, 0] * B[0, 1] - B[0, 0] * B[2, 1]
    B[2, 2] = B[0, 0] * B[1, 1] - B[1, 0] * B[0, 1]
    sigma[0] = first
    sigma[1] = second
    sigma[2] = b0 * B[0, 2] + b1 * B[1, 2] + b2 * B[2, 2]


@compiled_fused
def project_psd(F: Floats, isotropic: bool, H: Floats, scratch: Floats) -> None:
    """Replace H = ∂P/∂F (9, 9) by the nearest positive semi-definite matrix, in place.

    `scratch` is (2, 9, 9). Most elements are positive definite already, which an attempted Cholesky
    factorisation detects at a fraction of the cost.
    """
    if _is_positive_definite(H, scratch[0]):
        return
    if isotropic:
        _project_isotropic(F, H, scratch)
        return
    A, Q = scratch[0], scratch[1]
    for i in range(9):
        for j in range(9):
            A[i, j] = H[i, j]
    jacobi_eigen(A, Q)
    for k in range(9):
        if A[k, k] < 0.0:
            _subtract_rank_one(A[k, k], Q[:, k], H)


@compiled_fused
def _project_isotropic(F: Floats, H: Floats, scratch: Floats) -> None:
    """Project ∂P/∂F of an isotropic material; see `project_psd`.

    In the frame of F's singular vectors, ∂P/∂F of any isotropic material is block diagonal: a
    3×3 block of stretches uᵢvᵢᵀ and three 2×2 blocks of uᵢvⱼᵀ, uⱼvᵢᵀ whose eigenvectors are
    their sum and difference (Smith et al. 2019), so no 9×9 eigenproblem is solved.
    """
    small, rotated = scratch[0], scratch[1]
    U, V, A, Q = small[0:3, 0:3], small[0:3, 3:6], small[3:6, 0:3], small[3:6, 3:6]
    sigma, mode, half = small[6], small[7], small[8]
    rotation_svd(F, U, sigma, V)
    for r in range(9):  # rotated[r, 3a + b] = H[r] : u_a v_bᵀ
        for b in range(3):
            for k in range(3):
                half[k] = (
                    H[r, 3 * k] * V[0, b] + H[r, 3 * k + 1] * V[1, b] + H[r, 3 * k + 2] * V[2, b]
                )
            for a in range(3):
                rotated[r, 3 * a + b] = half[0] * U[0, a] + half[1] * U[1, a] + half[2] * U[2, a]
    for a in range(3):
        for b in range(3):
            A[a, b] = _project_on(U, V, a, a, rotated, 4 * b)
    jacobi_eigen(A, Q)
    for k in range(3):
        if A[k, k] < 0.0:
            for i in range(9):
                m, n = i // 3, i % 3
                mode[i] = (
                    Q[0, k] * U[m, 0] * V[n, 0]
                    + Q[1, k] * U[m, 1] * V[n, 1]
                    + Q[2, k] * U[m, 2] * V[n, 2]
                )
            _subtract_rank_one(A[k, k], mode, H)
    for a in range(3):
        b = (a + 1) % 3
        same = _project_on(U, V, a, b, rotated, 3 * a + b)
        cross = _project_on(U, V, a, b, rotated, 3 * b + a)
        for sign in (1.0, -1.0):
            value = same + sign * cross
            if value < 0.0:
                for i in range(9):
                    m, n = i // 3, i % 3
                    mode[i] = math.sqrt(0.5) * (U[m, a] * V[n, b] + sign * U[m, b] * V[n, a])
                _subtract_rank_one(value, mode, H)


@compiled_fused
def _project_on(U: Floats, V: Floats, a: int, b: int, rotated: Floats, column: int) -> float:
    total = 0.0
    for i in range(9):
        total += U[i // 3, a] * V[i % 3, b] * rotated[i, column]
    return total


@compiled_fused
def _subtract_rank_one(value: float, mode: Floats, H: Floats) -> None:
    for i in range(len(mode)):
        scaled = value * mode[i]
        for j in range(len(mode)):
            H[i, j] -= scaled * mode[j]


@compiled_fused
def _is_positive_definite(H: Floats, L: Floats) -> bool:
    n = H.shape[0]
    for j in range(n):
        pivot = H[j, j]
        for k in range(j):
            pivot -= L[j, k] * L[j, k]
        if not pivot > 0.0:
            return False
        pivot = math.sqrt(pivot)
        L[j, j] = pivot
        for i in range(j + 1, n):
            value = H[i, j]
            for k in range(j):
                value -= L[i, k] * L[j, k]
            L[i, j] = value / pivot
    return True


@compiled_fused
def jacobi_eigen(A: Floats, Q: Floats) -> None:
    """Diagonalise symmetric A in place by cyclic Jacobi; columns of Q become its eigenvectors."""
    n = A.shape[0]
    for i in range(n):
        for j in range(n):
            Q[i, j] = 1.0 if i == j else 0.0
    for _ in range(30):
        off = diagonal = 0.0
        for i in range(n):
            diagonal += A[i, i] ** 2
            for j in range(i):
                off += A[i, j] ** 2
        if off <= 1e-30 * diagonal or off < _TINY:
            return
        for p in range(n - 1):
            for q in range(p + 1, n):
                apq = A[p, q]
                if abs(apq) < 1e-17 * math.sqrt(abs(A[p, p] * A[q, q]) + _TINY):
                    continue
                theta = (A[q, q] - A[p, p]) / (2.0 * apq)
                t = math.copysign(1.0, theta) / (abs(theta) + math.sqrt(1.0 + theta * theta))
                c = 1.0 / math.sqrt(1.0 + t * t)
                s = c * t
                for k in range(n):
                    akp, akq = A[k, p], A[k, q]
                    A[k, p], A[k, q] = c * akp - s * akq, s * akp + c * akq
                for k in range(n):
                    apk, aqk = A[p, k], A[q, k]
                    A[p, k], A[q, k] = c * apk - s * aqk, s * apk + c * aqk
                    qkp, qkq = Q[k, p], Q[k, q]
                    Q[k, p], Q[k, q] = c * qkp - s * qkq, s * qkp + c * qkq
