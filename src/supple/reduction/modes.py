"""Linear vibration modes of a body at a pose, with constraints and region weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.checks import checked_array, checked_count, checked_masses
from supple.errors import SolverError, SuppleError
from supple.linalg.blas import single_threaded
from supple.linalg.krylov import EIGEN_TOLERANCE, lowest_eigenpairs, with_fixed_signs
from supple.reduction.compliance import NO_RESISTANCE, Compliance
from supple.reduction.null_space import NullSpace

#: Number of unknowns up to which a dense eigensolver is used.
_DENSE = 300
#: The dense eigensolver is also used, up to this number of unknowns, for more than this fraction of
#: all modes.
_DENSE_PART, _DENSE_MOST = 0.2, 3000
#: Relative asymmetry of the stiffness that is accepted.
_ASYMMETRY = 1e-7


@dataclass(frozen=True, eq=False, repr=False)
class Modes:
    """Lowest modes in the order of eigenvalues.

    Attributes
    ----------
    eigenvalues
        (c,) λ = ω², in rad²/s².
    vectors
        (3n, c) φ = W Z y; φᵀMφ = 1.
    unweighted
        (3n, c) Z y; the same array without weights.
    residuals
        (c,) ‖Zᵀ(K Zy − λ WMW Zy)‖ / ‖Zᵀ λ WMW Zy‖.
    weights
        (n,) W′, or None if all are 1.
    compliance
        Factorisation, which modal derivatives need.
    """

    eigenvalues: Floats
    vectors: Floats
    unweighted: Floats
    residuals: Floats
    weights: Floats | None
    compliance: Compliance

    def __repr__(self) -> str:
        low, high = np.sqrt(self.eigenvalues[[0, -1]]) / (2 * np.pi)
        return f"Modes({len(self.eigenvalues)} from {low:.3g} to {high:.3g} Hz)"


def linear_modes(
    stiffness: sp.csr_array,
    mass: ArrayLike,
    count: int,
    *,
    null_space: NullSpace | None = None,
    weights: ArrayLike | None = None,
    factor: Compliance | None = None,
    tolerance: float = EIGEN_TOLERANCE,
) -> Modes:
    """Compute the lowest `count` modes (ZᵀKZ) y = λ (ZᵀWMWZ) y, φ = W Z y (xu2016 eq. 10, 27, 34).

    Rigid motions of a free body are excluded (barbic2005 appendix D).

    Parameters
    ----------
    stiffness
        (3n, 3n) K.
    mass
        (n,) lumped masses; unknowns 3v to 3v + 2 belong to vertex v.
    count
        Number of modes.
    null_space
        Null space of constraints and fixed vertices; by default there are none. With weights, the
        null space of the weighted constraints CW.
    weights
        (n,) W′ of a region, positive at vertices that move; by default 1.
    factor
        Compliance of the same matrices, to avoid another factorisation.
    tolerance
        Relative error of a vector before the final solve.

    Raises
    ------
    SuppleError
        If there are fewer modes, or a part of the body moves without resistance.
    """
    masses = _checked_masses(mass, stiffness)
    stiffness = sp.csr_array(stiffness)
    stretch = checked_weights(weights, len(masses))
    inertia = masses if stretch is None else masses * stretch**2
    if null_space is not None and null_space.matrix.shape[0] != stiffness.shape[0]:
        raise SuppleError(
            f"the null space has {null_space.matrix.shape[0]} unknowns, but the stiffness has "
            f"{stiffness.shape[0]}"
        )
    compliance = Compliance(stiffness, inertia, null_space) if factor is None else factor
    count = checked_count("the number of modes", count)
    if count > compliance.n_unknowns:
        raise SuppleError(
            f"{count} modes requested, but there are {compliance.n_unknowns}; request fewer, "
            "use a finer mesh or fewer constraints"
        )
    eigenvalues, reduced = _lowest(compliance, count, tolerance)
    if eigenvalues[0] < NO_RESISTANCE * compliance.typical_eigenvalue:
        raise compliance.mechanism()
    unweighted = with_fixed_signs(compliance.displacement(reduced))
    vectors = unweighted if stretch is None else np.repeat(stretch, 3)[:, None] * unweighted
    pull = np.repeat(inertia, 3)[:, None] * unweighted * eigenvalues
    wrong = compliance.allowed_part(stiffness @ unweighted - pull)
    residuals = np.linalg.norm(wrong, axis=0) / np.linalg.norm(
        compliance.allowed_part(pull), axis=0
    )
    return Modes(eigenvalues, vectors, unweighted, residuals, stretch, compliance)


def checked_weights(weights: ArrayLike | None, n_vertices: int) -> Floats | None:
    """Return weights (n,), checked not to be negative; None if they are None or all 1."""
    if weights is None:
        return None
    checked = checked_array("weights", weights, (n_vertices,))
    if (checked < 0).any():
        raise SuppleError(f"weight of vertex {int(checked.argmin())} is negative; use 0 or more")
    return None if (checked == 1).all() else checked


def _checked_masses(mass: ArrayLike, stiffness: sp.csr_array) -> Floats:
    if not sp.issparse(stiffness) or stiffness.shape[0] != stiffness.shape[1]:
        raise SuppleError("the stiffness must be a sparse, square matrix")
    if stiffness.shape[0] % 3 or stiffness.shape[0] == 0:
        raise SuppleError(f"the stiffness has {stiffness.shape[0]} rows; use three per vertex")
    if not np.isfinite(stiffness.data).all():
        raise SuppleError("the stiffness is not finite; check the rest shape for flat tets")
    if (stiffness.diagonal() < 0).any():
        raise SuppleError("the stiffness has negative entries on its diagonal; check its sign")
    _check_symmetric(sp.csr_array(stiffness))
    return checked_masses(mass, stiffness.shape[0] // 3)


def _check_symmetric(stiffness: sp.csr_array) -> None:
    """Raise SuppleError if K is not symmetric: K x and Kᵀ x are compared for a random x."""
    x = np.random.default_rng(0).uniform(0.5, 1.5, stiffness.shape[0])
    across = stiffness.T
    sizes = abs(stiffness) @ x + abs(across) @ x
    wrong = ~(np.abs(stiffness @ x - across @ x) <= _ASYMMETRY * sizes)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise SuppleError(f"the stiffness is not symmetric in row {row}; fill both triangles")


def _lowest(compliance: Compliance, count: int, tolerance: float) -> tuple[Floats, Floats]:
    used = np.flatnonzero(~compliance.unused)
    many = count > _DENSE_PART * len(used) and len(used) <= _DENSE_MOST
    if len(used) > _DENSE and not many:
        return lowest_eigenpairs(compliance.solve, compliance.inertia, count, tolerance)
    with single_threaded():
        try:
            eigenvalues, vectors = _dense(compliance, used, count)
        except (np.linalg.LinAlgError, ValueError):
            raise SolverError(
                "the modes could not be computed; check that the stiffness is symmetric and "
                "positive definite and that masses are of similar size"
            ) from None
    reduced = np.zeros((len(compliance.unused), count))
    reduced[used] = vectors
    return eigenvalues, reduced


def _dense(compliance: Compliance, used: Ints, count: int) -> tuple[Floats, Floats]:
    stiff, heavy = (
        part[used][:, used].toarray() for part in (compliance.stiffness, compliance.inertia)
    )
    first = compliance.rigid.shape[1]
    if first:
        some = [first, first + count - 1]
        values, vectors = scipy.linalg.eigh(stiff, heavy, subset_by_index=some)
        return values, vectors
    # M y = θ K y, as small weights make M nearly singular, but not K.
    some = [len(used) - count, len(used) - 1]
    inverse, vectors = scipy.linalg.eigh(heavy, stiff, subset_by_index=some)
    accurate = int((inverse > 1e-13 * inverse[-1]).sum())
    if accurate < count:
        raise SolverError(f"only {accurate} of {count} modes exceed rounding; request fewer")
    inverse, vectors = inverse[::-1], vectors[:, ::-1]
    return 1 / inverse, vectors / np.sqrt(inverse)
