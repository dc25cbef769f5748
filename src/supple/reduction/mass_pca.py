"""Principal component analysis of shapes in the inner product of mass (mass-PCA)."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.checks import checked_array, checked_count, checked_masses, checked_number, numbers
from supple.errors import SuppleError
from supple.linalg.blas import single_threaded
from supple.linalg.krylov import with_fixed_signs

#: Relative singular value below which a direction is a rounding error.
_ROUNDING = 1e-11
#: Fraction of a shape outside of the span of others from which it counts as new.
_MOSTLY_NEW = 0.3


def scaled_candidates(
    eigenvalues: ArrayLike, modes: ArrayLike, derivatives: ArrayLike, swing: float | None = None
) -> Floats:
    """Scale modes and derivatives to the amplitudes at which they occur, for `mass_pca`.

    A load that is equal for all modes displaces mode j by q_j = (λ₁/λ_j) q₁, and the body by
    Σ q_j ψ_j + ½ Σ q_i q_j φ_ij. The size of derivatives relative to modes thus depends on the
    amplitude of the first mode.

    Parameters
    ----------
    eigenvalues
        (c,) λ, ascending, positive.
    modes
        (3n, c).
    derivatives
        (3n, c(c + 1)/2), in the order of `modal_derivatives`.
    swing
        q₁. None gives {(λ₁/λ_j) ψ_j} ∪ {(λ₁²/(λ_i λ_j)) φ_ij}, i ≤ j, as in barbic2005 eq. 16:
        there q₁ is 1 in units that depend on mass, often far more than a body ever moves, and
        derivatives displace the modes.
    """
    shapes, bent = _columns("modes", modes), _columns("derivatives", derivatives)
    rows, count = shapes.shape
    values = checked_array("eigenvalues", eigenvalues, (count,))
    if not (values > 0).all():
        raise SuppleError("eigenvalues must be positive; omit rigid motions")
    if bent.shape != (rows, count * (count + 1) // 2):
        raise SuppleError(f"derivatives of shape {bent.shape} for {count} modes of {rows} rows")
    q = values[0] / values * (1.0 if swing is None else checked_number("swing", swing))
    i, j = np.triu_indices(count)
    halved = np.where((i == j) & (swing is not None), 0.5, 1.0)
    scaled = np.empty((rows, count + bent.shape[1]))
    np.multiply(shapes, q, out=scaled[:, :count])
    np.multiply(bent, halved * q[i] * q[j], out=scaled[:, count:])
    return scaled


def _columns(what: str, vectors: ArrayLike) -> Floats:
    """Return vectors, checked to be (3n, c) and finite."""
    array = numbers(what, vectors)
    if array.ndim != 2 or array.shape[0] % 3:
        raise SuppleError(f"{what} of shape {array.shape}; they need three rows per vertex")
    return checked_array(what, array, array.shape)


def mass_pca(
    vectors: ArrayLike,
    mass: ArrayLike | sp.sparray,
    count: int,
    *,
    beside: ArrayLike | None = None,
) -> tuple[Floats, Floats]:
    """Compute the `count` mass-orthonormal vectors that best represent V (barbic2005 §5).

    They follow from a singular value decomposition of √M V, after a QR factorisation.

    Parameters
    ----------
    vectors
        (3n, c) V.
    mass
        (n,) vertex masses; or a sparse (n, n) or (3n, 3n) mass matrix, symmetric and positive
        definite where V is not zero.
    count
        Number of vectors.
    beside
        (3n, b) rows of existing vectors that are mass-orthonormal on a larger body and whose span
        need not be represented again. The basis is still in the span of V, so that it has the
        support of V.

    Returns
    -------
    basis : (3n, count) array
        U with UᵀMU = I, in the order of singular values.
    singular_values : (count,) array
        Descending.

    Raises
    ------
    SuppleError
        If V has fewer than `count` independent columns.
    """
    shapes = _columns("vectors", vectors)
    if sp.issparse(mass):
        if beside is not None:
            raise SuppleError("existing vectors need vertex masses, not a mass matrix")
        return _matrix_pca(shapes, mass, checked_count("the number of basis vectors", count))
    masses = checked_masses(mass, len(shapes) // 3)
    count = checked_count("the number of basis vectors", count)
    existing = None if beside is None else _columns("existing vectors", beside)
    if existing is not None and len(existing) != len(shapes):
        rows = len(existing)
        raise SuppleError(f"existing vectors have {rows} rows; the vectors have {len(shapes)}")
    root = np.repeat(np.sqrt(masses), 3)[:, None]
    moving = np.flatnonzero(root[:, 0] > 0)  # vertices of no tet have no mass and do not move
    with single_threaded():
        if existing is None:
            sizes, right = _directions(_weighted(shapes, root, moving, "F"))
            lengths = sizes
        else:
            beside = _weighted(existing, root, moving)
            sizes, right, lengths = _novel_directions(_weighted(shapes, root, moving, "F"), beside)
        independent = int((sizes > _ROUNDING * sizes.max(initial=0.0)).sum())
        if count > independent:
            raise SuppleError(
                f"{count} basis vectors requested, but {shapes.shape[1]} shapes have only "
                f"{independent} independent directions; request fewer, or start from more modes"
            )
        # Q of V is not needed: V times the right vectors is nearly orthonormal; QR completes that.
        chosen = _weighted(shapes, root, moving) @ (right[:count].T / lengths[:count])
        orthonormal = scipy.linalg.qr(chosen, mode="economic")[0]
    basis = np.zeros((len(shapes), count))
    basis[moving] = orthonormal / root[moving]
    return with_fixed_signs(basis), sizes[:count]


def _matrix_pca(shapes: Floats, mass: Any, count: int) -> tuple[Floats, Floats]:
    """Return mass-PCA in the metric of a matrix M = LLᵀ (appendix A).

    z = LᵀV, and U = L⁻ᵀ times its principal directions, in the span of V: with V = QR only the
    factor of QᵀMQ is needed.
    """
    matrix = sp.csr_array(mass)
    if 3 * matrix.shape[0] == len(shapes):
        matrix = sp.csr_array(sp.kron(matrix, sp.eye_array(3)))
    if matrix.shape != (len(shapes), len(shapes)):
        raise SuppleError(f"a mass matrix of shape {matrix.shape} for {len(shapes)} rows")
    with single_threaded():
        frame, triangle = scipy.linalg.qr(shapes, mode="economic")
        inner = frame.T @ (matrix @ frame)
        try:
            lower = np.linalg.cholesky((inner + inner.T) / 2)
        except np.linalg.LinAlgError:
            raise SuppleError("the mass matrix is not positive definite on the shapes") from None
        left, sizes, _ = scipy.linalg.svd(lower.T @ triangle, full_matrices=False)
        independent = int((sizes > _ROUNDING * sizes.max(initial=0.0)).sum())
        if count > independent:
            raise SuppleError(
                f"{count} basis vectors requested, but {shapes.shape[1]} shapes have only "
                f"{independent} independent directions; request fewer"
            )
        basis = frame @ scipy.linalg.solve_triangular(lower.T, left[:, :count])
    return with_fixed_signs(basis), sizes[:count]


def _weighted(
    vectors: Floats, root: Floats, moving: Ints, order: Literal["C", "F"] = "C"
) -> Floats:
    """Return √M V on the rows `moving`, which have mass. `root` (3n, 1) is √M."""
    rows = vectors if len(moving) == len(vectors) else vectors[moving]
    return np.multiply(root[moving], rows, order=order)


def _directions(shapes: Floats) -> tuple[Floats, Floats]:
    """Return singular values (c,) and right singular vectors (c, c), rows; overwrite `shapes`."""
    # In Fortran's order they are factored in place; "raw" returns Q as reflectors and only the
    # triangle of R.
    _, triangle = scipy.linalg.qr(shapes, mode="raw", overwrite_a=True)
    _, sizes, right = scipy.linalg.svd(triangle, full_matrices=False)
    return sizes, right


def _novel_directions(shapes: Floats, existing: Floats) -> tuple[Floats, Floats, Floats]:
    """Combine shapes by their part outside of the span of existing orthonormal vectors. Returns the
    sizes (c,) of these parts, descending among combinations that are mostly new, then among others;
    the coefficients (c, c) of the combinations, a row each; and their lengths. `shapes` is
    overwritten.
    """
    frame, triangle = scipy.linalg.qr(shapes, mode="economic", overwrite_a=True)
    shared = frame.T @ existing
    # ‖(I − HHᵀ) Q x‖² = xᵀ(I − CCᵀ)x, whose square root reduces the problem to an SVD.
    parts, vectors = np.linalg.eigh(np.eye(len(shared)) - shared @ shared.T)
    remainder = np.sqrt(np.maximum(parts, 0.0))[:, None] * (vectors.T @ triangle)
    _, sizes, right = scipy.linalg.svd(remainder, full_matrices=False)
    lengths = np.linalg.norm(triangle @ right.T, axis=0)
    old = sizes < _MOSTLY_NEW * lengths
    order = np.lexsort((-sizes, old))
    return sizes[order], right[order], lengths[order]
