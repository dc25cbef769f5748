"""Principal directions of many shapes in the metric of mass (mass-PCA)."""

from __future__ import annotations

from typing import Literal

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.checks import checked_array, checked_count, checked_masses, checked_number, numbers
from supple.errors import SuppleError
from supple.linalg.blas import single_threaded
from supple.reduction.signs import with_fixed_signs

#: Directions whose singular value is below this part of the largest are made of rounding.
_NOTHING_NEW = 1e-11
#: A shape of which others leave less than this part is not worth a vector of its own.
_MOSTLY_NEW = 0.3


def scaled_candidates(
    eigenvalues: ArrayLike, modes: ArrayLike, derivatives: ArrayLike, swing: float | None = None
) -> Floats:
    """Scale modes and derivatives to the size they occur in, for `mass_pca` to choose from.

    A load that is the same for all modes moves mode j by q_j = (λ₁/λ_j) q₁, and the body by
    Σ q_j ψ_j + ½ Σ q_i q_j φ_ij. How derivatives compare with modes thus depends on how far the
    first mode swings.

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
        there it is 1 in whatever the units of mass are, often far more than a body ever moves,
        and derivatives crowd out the modes.
    """
    shapes, bent = _columns("modes", modes), _columns("derivatives", derivatives)
    rows, count = shapes.shape
    values = checked_array("eigenvalues", eigenvalues, (count,))
    if not (values > 0).all():
        raise SuppleError("eigenvalues must be positive; leave rigid motions out")
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
    """Check that vectors are (3n, c) and finite."""
    given = numbers(what, vectors)
    if given.ndim != 2 or given.shape[0] % 3:
        raise SuppleError(f"{what} of shape {given.shape}; they need three rows a vertex")
    return checked_array(what, given, given.shape)


def mass_pca(
    vectors: ArrayLike, mass: ArrayLike, count: int, *, beside: ArrayLike | None = None
) -> tuple[Floats, Floats]:
    """Find the `count` mass-orthonormal vectors nearest to all given ones (barbic2005 §5).

    The singular value decomposition of √M V, by way of a QR factorisation.

    Parameters
    ----------
    vectors
        (3n, c) V.
    mass
        (n,) vertex masses.
    count
        How many to keep.
    beside
        (3n, b) the rows here of vectors that are in use already and mass-orthonormal on a larger
        body: what they hold need not be held twice. The basis is still made of V alone, so that
        it lives where V lives.

    Returns
    -------
    basis : (3n, count) array
        U with UᵀMU = I, the largest part of V first.
    singular_values : (count,) array
        Descending.

    Raises
    ------
    SuppleError
        If V does not have so many independent columns.
    """
    shapes = _columns("vectors", vectors)
    masses = checked_masses(mass, len(shapes) // 3)
    count = checked_count("the number of basis vectors", count)
    held = None if beside is None else _columns("vectors beside", beside)
    if held is not None and len(held) != len(shapes):
        raise SuppleError(f"vectors beside have {len(held)} rows, and the vectors {len(shapes)}")
    root = np.repeat(np.sqrt(masses), 3)[:, None]
    moving = np.flatnonzero(root[:, 0] > 0)  # vertices of no tet have no mass, and do not move
    with single_threaded():
        if held is None:
            sizes, turn = _directions(_weighed(shapes, root, moving, "F"))
            lengths = sizes
        else:
            near = _weighed(held, root, moving)
            sizes, turn, lengths = _novel_directions(_weighed(shapes, root, moving, "F"), near)
        there = int((sizes > _NOTHING_NEW * sizes.max(initial=0.0)).sum())
        if count > there:
            raise SuppleError(
                f"{count} basis vectors asked for, and {shapes.shape[1]} shapes have only "
                f"{there} independent directions; ask for fewer, or start from more modes"
            )
        # Q of V is not needed: V times the right vectors is nearly orthonormal, and then exactly.
        chosen = _weighed(shapes, root, moving) @ (turn[:count].T / lengths[:count])
        kept = scipy.linalg.qr(chosen, mode="economic")[0]
    basis = np.zeros((len(shapes), count))
    basis[moving] = kept / root[moving]
    return with_fixed_signs(basis), sizes[:count]


def _weighed(vectors: Floats, root: Floats, moving: Ints, order: Literal["C", "F"] = "C") -> Floats:
    """√M V on the rows that move: made twice rather than kept beside its factors."""
    rows = vectors if len(moving) == len(vectors) else vectors[moving]
    return np.multiply(root[moving], rows, order=order)


def _directions(shapes: Floats) -> tuple[Floats, Floats]:
    """Return singular values and right vectors, a row each, of shapes, which are used up."""
    # In Fortran's order they are factored in place; "raw" leaves Q as reflectors, and copies no
    # more of R than its triangle.
    _, triangle = scipy.linalg.qr(shapes, mode="raw", overwrite_a=True)
    _, sizes, turn = scipy.linalg.svd(triangle, full_matrices=False)
    return sizes, turn


def _novel_directions(shapes: Floats, held: Floats) -> tuple[Floats, Floats, Floats]:
    """Combine shapes, which are used up, by the part that orthonormal vectors leave of them.

    Returns
    -------
    sizes : (c,) array
        Of what is left, descending among those that are mostly new, and then among the others.
    combinations : (c, c) array
        Their coefficients, a row each.
    lengths : (c,) array
        Of the combinations as they are.
    """
    frame, triangle = scipy.linalg.qr(shapes, mode="economic", overwrite_a=True)
    shared = frame.T @ held
    # ‖(I − HHᵀ) Q x‖² = xᵀ(I − CCᵀ)x, and a square root of that makes the rest one more SVD.
    parts, turned = np.linalg.eigh(np.eye(len(shared)) - shared @ shared.T)
    left = np.sqrt(np.maximum(parts, 0.0))[:, None] * (turned.T @ triangle)
    _, sizes, turn = scipy.linalg.svd(left, full_matrices=False)
    lengths = np.linalg.norm(triangle @ turn.T, axis=0)
    known = sizes < _MOSTLY_NEW * lengths
    order = np.lexsort((-sizes, known))
    return sizes[order], turn[order], lengths[order]
