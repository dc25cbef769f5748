"""Errors and weights of cubature tets at a pose (xu2016 eq. 19)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.checks import checked_array, numbers
from supple.elastic.body import ElasticBody
from supple.errors import SuppleError
from supple.linalg.blas import single_threaded
from supple.linalg.nnls import nonnegative_fit
from supple.reduction.cubature.elastic_forces import PoseForces, force_norms, reduced_columns
from supple.reduction.cubature.force_kernels import REMAINDER
from supple.reduction.regions.region import Region

LocalBasis = Sequence[Floats]
#: Linear part of forces: that of the cubature tets, or exact by a correction ΔK.
LinearForces = Literal["cubature", "exact"]


def fit_weights(
    body: ElasticBody,
    rest: ArrayLike,
    basis: LocalBasis,
    regions: Sequence[Region],
    tets: ArrayLike,
    samples: ArrayLike,
) -> tuple[Floats, float]:
    """Fit weights v ≥ 0, (c,), of tets at one pose; return them and their error (xu2016 eq. 19).

    v minimises ‖A v − b‖ with the rows of A, U_eᵀ f_e(q), and b, f̃(q), divided by ‖f̃(q)‖ sample
    by sample (eq. 17–18). Parameters are as for `force_error`.

    Raises
    ------
    SuppleError
        If a sample has no force, or one that is not finite.
    """
    pose = PoseForces.of(body, rest, basis, regions)
    chosen = PoseForces.of(body, rest, basis, regions, tets=tets).tets
    q = _checked_samples(samples, pose)
    with single_threaded(), np.errstate(over="ignore", invalid="ignore"):
        total = pose.reduced(q)
        weights = nonnegative_fit(*normal_equations(pose, chosen, q, None, total))
        return weights, cubature_error(pose, chosen, q, weights, None, total)


def force_error(
    body: ElasticBody,
    rest: ArrayLike,
    basis: LocalBasis,
    regions: Sequence[Region],
    tets: ArrayLike,
    weights: ArrayLike,
    samples: ArrayLike,
    *,
    correction: ArrayLike | None = None,
) -> float:
    """Return the error of cubature at any pose: the root mean square of ‖Δf̃‖/‖f̃‖ over samples.

    f̃(q) = Σ U_eᵀ f_e over all tets, and Δf̃ is the error Σ v_e U_eᵀ f_e + ΔK q − f̃ of cubature:
    with rows divided by ‖f̃‖ as in xu2016 eq. 18, that is ‖A v − b‖ / ‖b‖ of eq. 17 and 19.

    Parameters
    ----------
    body, rest, basis, regions
        The pose: material, rest shape (n, 3), localised basis.
    tets, weights
        (c,) cubature tets and their weights at the pose.
    samples
        (r, t) reduced displacements, such as `force_samples` draws.
    correction
        ΔK (r, r) at the pose, such as the result of `blended_correction`; None for the paper's
        cubature (eq. 21).

    Raises
    ------
    SuppleError
        If a sample has no force, or one that is not finite.
    """
    pose = PoseForces.of(body, rest, basis, regions)
    chosen = PoseForces.of(body, rest, basis, regions, tets=tets)
    v = checked_array("cubature weights", weights, (len(chosen.tets),))
    if correction is not None:
        correction = checked_array("correction", correction, (pose.rank, pose.rank))
    q = _checked_samples(samples, pose)
    with single_threaded(), np.errstate(over="ignore", invalid="ignore"):
        return _relative(pose.reduced(q), _cubature(chosen, q, v, correction))


def check_linear(linear: str) -> None:
    """Raise an error for an unknown value of `LinearForces`."""
    if linear not in get_args(LinearForces):
        raise SuppleError(f'linear "{linear}"; use "cubature" or "exact"')


def _checked_samples(samples: ArrayLike, pose: PoseForces) -> Floats:
    shape = np.shape(samples)
    if len(shape) != 2 or shape[1] == 0:
        raise SuppleError(f"samples of shape {shape}; expected ({pose.rank}, t)")
    return checked_array("samples", samples, (pose.rank, shape[1]))


def normal_equations(
    pose: PoseForces,
    tets: Ints,
    q: Floats,
    stiffness: Floats | None,
    total: Floats | None = None,
    beside: Floats | None = None,
) -> tuple[Floats, Floats]:
    """Return AᵀA (c, c) and Aᵀb (c,) of xu2016 eq. 19, for samples q (r, t).
    With a `stiffness` (r, r) at rest, A and b are without their linear parts. `total` (r, t) are
    the forces of all tets at q, computed by default. Rows are divided by the norms of `beside`, by
    default of the same forces.
    """
    chosen = pose.only(tets)
    total = pose.reduced(q) if total is None else total
    scale = 1 / force_norms(total if beside is None else beside)
    target = (total if stiffness is None else total - stiffness @ q) * scale
    gram, right = np.zeros((len(tets), len(tets))), np.zeros(len(tets))
    part = pose.part if stiffness is None else REMAINDER
    for batch in chosen.of_part(part).batches(q):
        forces = batch.elements * scale[batch.samples]
        columns = reduced_columns(chosen.basis, chosen.regions, chosen.corners, forces)
        gram += columns @ columns.T
        right += columns @ target[:, batch.samples].ravel()
    return gram, right


def cubature_error(
    pose: PoseForces,
    tets: Ints,
    q: Floats,
    weights: Floats,
    correction: Floats | None,
    total: Floats | None = None,
) -> float:
    """Return the relative error of forces at samples q; `total` is as for `normal_equations`."""
    exact = pose.reduced(q) if total is None else total
    return _relative(exact, _cubature(pose.only(tets), q, weights, correction))


def _cubature(chosen: PoseForces, q: Floats, weights: Floats, correction: Floats | None) -> Floats:
    """Return the forces of cubature Σ v_e U_eᵀ f_e + ΔK q, (r, t); `correction` is ΔK or None."""
    forces = chosen.reduced(q, weights)
    return forces if correction is None else forces + correction @ q


def _relative(exact: Floats, approximate: Floats) -> float:
    norms = force_norms(exact)
    return float(np.sqrt(((np.linalg.norm(approximate - exact, axis=0) / norms) ** 2).mean()))


# Corrections of the reduced stiffness at any pose.


Ends = Sequence[tuple[int, int]]


def correction_weights(shares: ArrayLike, ends: Ends) -> Floats:
    """Return the weight of each stored correction at a pose, (m + k,): those of the m poses have
    the weights `shares` (m,) of the poses, and those of the k pairs `ends` 4 w_i w_j: 1 halfway
    between the two, 0 at every pose.
    """
    w = numbers("pose weights", shares)
    positive = np.maximum(w, 0.0)
    return np.concatenate([w, [4 * positive[i] * positive[j] for i, j in ends]])


def blended_correction(
    corrections: Floats, ends: Ends, shares: ArrayLike, scales: ArrayLike | None = None
) -> Floats:
    """Return ΔK (r, r) at a pose: the stored corrections (m + k, r, r), weighted and scaled.

    Parameters
    ----------
    corrections, ends
        Corrections of the poses, then of pairs of them.
    shares
        (m,) weights of the poses.
    scales
        (r,) ϒ, by which interpolation scales the columns of the basis (xu2016 eq. 15).
    """
    blend = np.tensordot(correction_weights(shares, ends), corrections, 1)
    if scales is None:
        return blend
    factors = checked_array("scales", scales, blend.shape[:1])
    return factors[:, None] * blend * factors


def midway_corrections(
    targets: Sequence[Floats], at_poses: Floats, ends: Ends, shares: Sequence[Floats]
) -> Floats:
    """Return one correction (k, r, r) per pair of poses, for exact blends at k intermediate poses.

    `targets` are the k exact matrices, divided elementwise by ϒϒᵀ; `at_poses` (m, r, r) are the
    corrections of the example poses; `ends` are the two poses of each pair; `shares` are k arrays
    (m,) of pose weights at the intermediate poses.
    """
    if len(targets) == 0:
        return np.empty((0, *at_poses.shape[1:]))
    m = len(at_poses)
    remainders = np.array(
        [matrix - np.tensordot(w, at_poses, 1) for matrix, w in zip(targets, shares, strict=True)]
    )
    # Corrections of other pairs have weights at an intermediate pose, too.
    reach = np.array([correction_weights(w, ends)[m:] for w in shares])
    return np.tensordot(np.linalg.pinv(reach, rcond=1e-3), remainders, 1)
