"""Elastic cubature: a few weighted tets that approximate the reduced force (xu2016 §5.3)."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.checks import checked_array, checked_count, checked_whole_numbers
from supple.elastic.body import ElasticBody
from supple.errors import SuppleError, warn
from supple.linalg.blas import single_threaded
from supple.linalg.nnls import joint_fit
from supple.progress import Progress, unreported
from supple.reduction.cubature.accuracy import (
    LinearForces,
    blended_correction,
    check_linear,
    cubature_error,
    midway_corrections,
    normal_equations,
)
from supple.reduction.cubature.elastic_forces import ElasticProblem, PoseForces
from supple.reduction.cubature.force_kernels import LINEAR
from supple.reduction.cubature.samples import AMPLITUDE
from supple.reduction.cubature.selection import Selection, chosen_columns
from supple.reduction.cubature.training import (
    MotionForces,
    Training,
    TrainingOptions,
    draw,
    drawn_training,
    motion_training,
    sample_count,
)
from supple.reduction.regions.region import Region

LocalBasis = Sequence[Floats]

#: Mixtures of samples per weight and column for choosing tets, and their least number.
_MIXTURES_PER_WEIGHT = 8
_LEAST_MIXTURES = 20


@dataclass(frozen=True, eq=False)
class Between:
    """Intermediate pose, at which blended weights must be accurate too.

    Attributes
    ----------
    body, rest, basis
        Its material, rest shape (n, 3) and interpolated localised basis.
    ends
        Indices of the two poses around it.
    shares
        (m,) weights of the poses at this pose.
    scales
        (r,) factors by which interpolation scaled the columns; for blended corrections.
    """

    body: ElasticBody
    rest: ArrayLike
    basis: LocalBasis
    ends: tuple[int, int]
    shares: ArrayLike
    scales: ArrayLike | None = None


@dataclass(frozen=True, eq=False, repr=False)
class ElasticCubature:
    """Cubature tets and their weights at every pose.

    Attributes
    ----------
    tets
        (c,) ascending; the same at all poses.
    weights
        (m, c) v_i ≥ 0 (xu2016 eq. 19); between poses they are blended and clamped at 0 (eq. 20).
    corrections
        (m + k, r, r) ΔK = K̃ − Σ v_e U_eᵀ K_e U_e at rest, the error of the reduced stiffness:
        forces are Σ v_e U_eᵀ f_e + ΔK q, and ΔK is added to stiffnesses. For each pose, then for
        each pair of `ends`; see `blended_correction`. With `trained_energies` it is K̃ itself, and
        forces are Σ v_e U_eᵀ (f_e − K_e U_e q) + K̃ q: the same at the poses, but between them
        blends of K̃ are positive definite, which blends of differences need not be. None for the
        paper's forces, Σ v_e U_eᵀ f_e (eq. 21).
    ends
        k pairs of poses, one for each intermediate pose.
    trained_energies
        (m,) largest ½qᵀK̃q of the motions at each pose; None for random samples.
    train_errors, held_out_errors
        (m,) relative error ‖Av − b‖ / ‖b‖ of each pose, with the rows of every sample divided by
        the norm of its force (eq. 18); on the samples of the fit, and on fresh samples.
    between_errors
        (k,) errors of blended weights and corrections at intermediate poses, on fresh samples.
    """

    tets: Ints
    weights: Floats
    corrections: Floats | None
    ends: tuple[tuple[int, int], ...]
    trained_energies: Floats | None
    train_errors: Floats
    held_out_errors: Floats
    between_errors: Floats

    @property
    def train_error(self) -> float:
        """Root mean square of `train_errors` over all poses."""
        return float(np.sqrt((self.train_errors**2).mean()))

    @property
    def held_out_error(self) -> float:
        """Root mean square of `held_out_errors` over all poses."""
        return float(np.sqrt((self.held_out_errors**2).mean()))

    def __repr__(self) -> str:
        errors = f"{100 * self.train_error:.2g} %, held out {100 * self.held_out_error:.2g} %"
        return f"ElasticCubature({len(self.tets)} tets, {len(self.weights)} poses, error {errors})"


def elastic_cubature(
    bodies: ElasticBody | Sequence[ElasticBody],
    rests: Sequence[ArrayLike] | Floats,
    bases: Sequence[LocalBasis],
    regions: Sequence[Region],
    count: int,
    *,
    between: Sequence[Between] = (),
    linear: LinearForces = "cubature",
    selection: Selection = "exchange",
    samples: int | None = None,
    amplitude: float = AMPLITUDE,
    motions: Sequence[MotionForces] | None = None,
    seed: int = 0,
    threads: Executor | None = None,
    progress: Progress | None = None,
) -> ElasticCubature:
    """Choose cubature tets and fit their weights at every pose (xu2016 eq. 17–19).

    Tets are chosen by a thresholding pursuit (see `supple.reduction.cubature.selection`) on random
    mixtures of the samples' forces, a random projection to fewer numbers. Weights are then fitted
    to all samples.

    Parameters
    ----------
    bodies
        The body, or one for each pose if materials differ; all of one mesh.
    rests
        m rest shapes (n, 3).
    bases
        m localised bases: for each region an array (k, 3, r).
    regions
        Regions of the bases.
    count
        Number of tets. Fewer are used if fewer have a force.
    between
        Intermediate poses, at which blended weights must be accurate. An interpolated basis can be
        stiff in directions in which no pose is, and cubature that is not trained there has errors
        of tens of percent.
    linear
        ``"cubature"``: the paper's, Σ v_e U_eᵀ f_e. ``"exact"``: weights are fitted to the
        nonlinear part of forces, and a correction ΔK makes the linear part exact at every pose:
        with the same tets, errors were 2 to 7 times smaller for the published characters.
    selection
        Choice of the tets: see `supple.reduction.cubature.selection`.
    samples, amplitude
        Number of samples per pose, by default enough for the number of weights; and the largest
        displacement of a typical sample, relative to the body's size.
    motions
        Motions of the whole body at the poses, then at intermediate poses, that replace random
        samples: their forces account for displacements outside of the basis.
    seed
        The same seed gives the same result, bit for bit, for any number of threads.
    threads, progress
        Threads that fit poses in parallel; function of the fraction done and a description.
    """
    count = checked_count("the number of cubature tets", count)
    checked_count("the seed", seed, 0)
    check_linear(linear)
    poses = _checked_poses(bodies, rests, bases, regions)
    m = len(poses)
    poses += _checked_between(between, poses, regions)
    blends = _checked_blends(between, m, poses[0].rank)
    samples = sample_count(samples, count, poses[0].rank)
    report = progress or unreported
    options = TrainingOptions(samples, amplitude, seed, threads, report, selection)
    with single_threaded():
        if motions is not None:
            training = motion_training(poses, motions)
        else:
            training = drawn_training(poses, options)
        cubature = _trained(training, blends, linear == "exact", count, options)
    options.progress(1.0, f"{len(cubature.tets)} cubature tets")
    return cubature


def _trained(
    training: Training, blends: _Blends, linear: bool, count: int, options: TrainingOptions
) -> ElasticCubature:
    """Choose tets, fit weights, measure errors; if `linear`, corrections hold the linear part."""
    exact, m = training.stiffnesses if linear else None, blends.shares.shape[1]
    tets, totals = _choose_tets(training, exact, count, blends.shares, options)
    options.progress(0.8, "fitting cubature weights")
    weights = _fit_poses(training, exact, tets, totals, blends.shares)
    blended = np.maximum(blends.shares @ weights, 0.0)
    deltas = blends.corrections(_missed_stiffness(training, exact, tets, blended, blends))
    errors = _errors(training, tets, totals, blended, deltas, options)
    held = None if exact is None else training.held
    energies = None
    if held is None or training.totals is None:
        corrections = _missed_stiffness(training, held, tets, blended, blends)
    else:
        corrections = _at_poses_and_pairs(held, blends)
        pairs = zip(training.drawn[:m], held[:m], strict=True)
        energies = np.array([0.5 * (q * (K @ q)).sum(axis=0).max() for q, K in pairs])
    parts = errors[0, :m], errors[1, :m], errors[1, m:]
    return ElasticCubature(tets, weights, corrections, blends.ends, energies, *parts)


@dataclass(frozen=True, eq=False)
class _Blends:
    """Weights `shares` (m + k, m) of the m poses at all m + k poses, including intermediate poses.
    `ends` are the two poses of each intermediate pose; `scales` are ϒ (r,) at all m + k poses.
    """

    shares: Floats
    ends: tuple[tuple[int, int], ...]
    scales: list[Floats]

    def corrections(self, stored: Floats | None) -> list[Floats | None]:
        """Return the blended correction (r, r) at each of the m + k poses, or None for each."""
        if stored is None:
            return [None] * len(self.shares)
        return [
            blended_correction(stored, self.ends, *at)
            for at in zip(self.shares, self.scales, strict=True)
        ]


def _choose_tets(
    training: Training,
    exact: list[Floats] | None,
    count: int,
    shares: Floats,
    options: TrainingOptions,
) -> tuple[Ints, list[Floats]]:
    """Choose the tets; also return the forces (r, t) of all samples at every pose (eq. 17–18).
    `exact` are the reduced stiffnesses if corrections hold the linear part, else None.
    """
    poses, progress = training.poses, options.progress
    mixtures = max(_LEAST_MIXTURES, -(-_MIXTURES_PER_WEIGHT * count // poses[0].rank))
    problem = ElasticProblem(
        poses,
        training.drawn,
        min(options.samples, mixtures),
        options.seed,
        exact,
        training.totals,
        progress,
    )
    if count > problem.norms.shape[1]:
        warn(
            f"{count} cubature tets requested, but only {problem.norms.shape[1]} touch a "
            "region; all are used"
        )
    progress(0.5, "choosing cubature tets")
    chosen = chosen_columns(
        problem, count, options.selection, threads=options.threads, shares=shares
    )
    return poses[0].tets[chosen], problem.totals


def _fit_poses(
    training: Training,
    exact: list[Floats] | None,
    tets: Ints,
    totals: list[Floats],
    shares: Floats,
) -> Floats:
    """Fit weights (m, c) of the poses, which are blended at intermediate poses (eq. 19)."""
    grams, rights = [], []
    for i, pose in enumerate(training.poses):
        stiffness = None if exact is None else exact[i]
        gram, right = normal_equations(pose, tets, training.drawn[i], stiffness, totals[i])
        if training.totals is not None and stiffness is not None:
            # Weights that ignore the linear part leave it to corrections, which are less accurate
            # between poses: the error of a man who hardly moves was then 0.8 instead of 0.2.
            linear = stiffness @ training.drawn[i]
            more = normal_equations(
                pose.of_part(LINEAR), tets, training.drawn[i], None, linear, totals[i]
            )
            gram, right = gram + more[0], right + more[1]
        grams.append(gram)
        rights.append(right)
    return joint_fit(grams, rights, shares)


def _missed_stiffness(
    training: Training,
    exact: list[Floats] | None,
    tets: Ints,
    blended: Floats,
    blends: _Blends,
) -> Floats | None:
    """Return the error (m + k, r, r) of the stiffnesses of cubature; None if `exact` is None."""
    if exact is None:
        return None
    missed = [
        exact[i] - pose.only(tets).stiffness(blended[i]) for i, pose in enumerate(training.poses)
    ]
    return _at_poses_and_pairs(missed, blends)


def _at_poses_and_pairs(matrices: list[Floats], blends: _Blends) -> Floats:
    """Return the stored matrices (m + k, r, r) whose blends are the given matrices at all poses."""
    unscaled = [K / np.outer(s, s) for K, s in zip(matrices, blends.scales, strict=True)]
    m = blends.shares.shape[1]
    at_poses, rows = np.array(unscaled[:m]), list(blends.shares[m:])
    between = midway_corrections(unscaled[m:], at_poses, blends.ends, rows)
    return np.concatenate([at_poses, between])


def _errors(
    training: Training,
    tets: Ints,
    totals: list[Floats],
    blended: Floats,
    deltas: Sequence[Floats | None],
    options: TrainingOptions,
) -> Floats:
    """Return relative errors (2, m + k) at all poses, on samples of the fit and fresh samples."""
    errors = np.empty((2, len(training.poses)))
    for i, pose in enumerate(training.poses):
        weights, delta = blended[i], deltas[i]
        if training.fresh is None:
            count = max(20, options.samples // 3)
            q, total = draw(pose, training.stiffnesses[i], count, options, i, 1), None
        else:
            q, total = training.fresh[i]
        errors[0, i] = cubature_error(pose, tets, training.drawn[i], weights, delta, totals[i])
        errors[1, i] = cubature_error(pose, tets, q, weights, delta, total)
    return errors


def _checked_poses(
    bodies: ElasticBody | Sequence[ElasticBody],
    rests: Sequence[ArrayLike] | Floats,
    bases: Sequence[LocalBasis],
    regions: Sequence[Region],
) -> list[PoseForces]:
    m = len(rests)
    listed = [bodies] * m if isinstance(bodies, ElasticBody) else list(bodies)
    if m == 0 or len(listed) != m or len(bases) != m:
        raise SuppleError(
            f"{len(listed)} bodies, {m} rest shapes and {len(bases)} bases; "
            "give one of each per pose"
        )
    poses = [
        PoseForces.of(listed[i], rests[i], bases[i], regions, name=f"pose {i}") for i in range(m)
    ]
    for i, pose in enumerate(poses):
        if [a.shape for a in pose.basis] != [a.shape for a in poses[0].basis]:
            raise SuppleError(f"the basis of pose {i} and that of pose 0 differ in shape")
        if not np.array_equal(pose.body.mesh.tets, poses[0].body.mesh.tets):
            raise SuppleError(f"the bodies of pose {i} and pose 0 have different tets")
    return poses


def _checked_between(
    between: Sequence[Between], poses: Sequence[PoseForces], regions: Sequence[Region]
) -> list[PoseForces]:
    middles = []
    for k, pose in enumerate(between):
        name = f"intermediate pose {k}"
        middle = PoseForces.of(pose.body, pose.rest, pose.basis, regions, name=name)
        if [a.shape for a in middle.basis] != [a.shape for a in poses[0].basis]:
            raise SuppleError(f"the basis of {name} and that of pose 0 differ in shape")
        if not np.array_equal(middle.body.mesh.tets, poses[0].body.mesh.tets):
            raise SuppleError(f"the bodies of {name} and pose 0 have different tets")
        ends = checked_whole_numbers(f"ends of {name}", pose.ends)
        if len(ends) != 2:
            raise SuppleError(f"{name} has {len(ends)} ends; use two of the poses")
        first, second = ends
        if first == second or not 0 <= min(first, second) <= max(first, second) < len(poses):
            raise SuppleError(f"{name} is between {first} and {second}; use two of the poses")
        middles.append(middle)
    return middles


def _checked_blends(between: Sequence[Between], m: int, rank: int) -> _Blends:
    """Return checked weights and scales of all poses; weights of the first m are the identity."""
    shares = np.vstack([np.eye(m), *(checked_array("shares", b.shares, (m,)) for b in between)])
    middle = [np.ones(rank) if b.scales is None else b.scales for b in between]
    scales = [np.ones(rank)] * m + [checked_array("scales", each, (rank,)) for each in middle]
    return _Blends(shares, tuple(b.ends for b in between), scales)
