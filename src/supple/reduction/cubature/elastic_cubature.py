"""Elastic cubature: a few weighted tets whose forces stand for all (xu2016 §5.3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.checks import checked_array, checked_count, checked_whole_numbers
from supple.elastic.body import ElasticBody
from supple.errors import SuppleError, warn
from supple.linalg.blas import single_threaded
from supple.linalg.nnls import joint_fit
from supple.reduction.cubature.accuracy import (
    blended_correction,
    check_linear,
    cubature_error,
    midway_corrections,
    normal_equations,
)
from supple.reduction.cubature.condensed_forces import MotionForces
from supple.reduction.cubature.elastic_forces import ElasticProblem, PoseForces
from supple.reduction.cubature.force_kernels import LINEAR
from supple.reduction.cubature.samples import AMPLITUDE
from supple.reduction.cubature.selection import pursue
from supple.reduction.cubature.training_set import (
    Training,
    TrainingOptions,
    checked_stiffnesses,
    draw,
    drawn_training,
    motion_training,
    sample_count,
)
from supple.reduction.regions.region import Region

LocalBasis = Sequence[Floats]
Progress = Callable[[float, str], None]

#: Mixtures of samples for each weight and column that tets are chosen with, and at least so many.
_MIXTURES_PER_WEIGHT = 8
_LEAST_MIXTURES = 20


@dataclass(frozen=True, eq=False)
class Between:
    """A pose between the poses, where blended weights should serve too.

    Attributes
    ----------
    body, rest, basis
        Its material, rest shape (n, 3) and the localised basis that is interpolated there.
    ends
        The two poses.
    shares
        (m,) weights of the poses.
    scales
        (r,) by which interpolation stretched the columns; for blends of corrections.
    """

    body: ElasticBody
    rest: ArrayLike
    basis: LocalBasis
    ends: tuple[int, int]
    shares: ArrayLike
    scales: ArrayLike | None = None


@dataclass(frozen=True, eq=False, repr=False)
class ElasticCubature:
    """Tets and their weights at every pose.

    Attributes
    ----------
    tets
        (c,) ascending; the same at all poses.
    weights
        (m, c) v_i ≥ 0 (xu2016 eq. 19); between poses they are blended and clamped at 0 (eq. 20).
    corrections
        (m + k, r, r) ΔK = K̃ − Σ v_e U_eᵀ K_e U_e at rest, by which cubature misses the exact
        reduced stiffness: forces are Σ v_e U_eᵀ f_e + ΔK q, and stiffnesses have ΔK added. Of each
        pose, then of each pair of `ends`; see `blended_correction`. None for the paper's forces,
        Σ v_e U_eᵀ f_e (eq. 21).
    ends
        k pairs of poses, those of the poses between.
    train_errors, held_out_errors
        (m,) relative error ‖Av − b‖ / ‖b‖ of each pose, with every sample's rows divided by the
        norm of its force (eq. 18); on the samples of the fit, and on fresh ones.
    between_errors
        (k,) of blended weights and corrections at the poses between, on fresh samples.
    """

    tets: Ints
    weights: Floats
    corrections: Floats | None
    ends: tuple[tuple[int, int], ...]
    train_errors: Floats
    held_out_errors: Floats
    between_errors: Floats

    @property
    def train_error(self) -> float:
        """Relative error over all poses."""
        return float(np.sqrt((self.train_errors**2).mean()))

    @property
    def held_out_error(self) -> float:
        """Relative error over all poses, on samples that were not used."""
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
    linear: Literal["cubature", "exact"] = "cubature",
    samples: int | None = None,
    amplitude: float = AMPLITUDE,
    stiffnesses: Sequence[Floats] | None = None,
    motions: Sequence[MotionForces] | None = None,
    seed: int = 0,
    threads: Executor | None = None,
    progress: Progress | None = None,
) -> ElasticCubature:
    """Choose cubature tets and fit their weights at every pose (xu2016 eq. 17–19).

    Tets are chosen by a thresholding pursuit (see `supple.reduction.cubature.selection`) on random
    mixtures of the samples' forces, which embed them in fewer numbers. Weights are then fitted to
    all samples.

    Parameters
    ----------
    bodies
        The body, or one for each pose when materials change with it; all of one mesh.
    rests
        m rest shapes (n, 3).
    bases
        m localised bases: for each region an array (k, 3, r).
    regions
        Where they live.
    count
        How many tets. Fewer are used when fewer make a force.
    between
        Poses between those, to be served by blended weights. An interpolated basis can be stiff in
        ways that no pose shows, and cubature that never saw it is wrong by tens of percent.
    linear
        ``"cubature"``: the paper's, Σ v_e U_eᵀ f_e. ``"exact"``: weights are fitted to what forces
        are beyond their linear part, and a correction ΔK makes that exact at every pose: with the
        same tets errors were 2 to 7 times smaller on the published characters.
    samples, amplitude
        How many for each pose, by default enough for the number of weights; and the largest
        displacement of a typical one, as a part of the body's size.
    stiffnesses
        Reduced stiffnesses (r, r) at rest, if known already.
    motions
        Motions of the whole body at the poses, then at those between, to fit to in place of random
        samples: what the basis cannot hold gives way in their forces.
    seed
        The same seed gives the same bits, whatever the number of threads.
    threads, progress
        Threads to fit poses beside each other; called with the part done, and what is being done.
    """
    count = checked_count("the number of cubature tets", count)
    checked_count("the seed", seed, 0)
    check_linear(linear)
    poses = _checked_poses(bodies, rests, bases, regions)
    m = len(poses)
    poses += _checked_between(between, poses, regions)
    blends = _checked_blends(between, m, poses[0].rank)
    samples = sample_count(samples, count, poses[0].rank)
    tell = progress or (lambda part, what: None)
    options = TrainingOptions(samples, amplitude, seed, threads, tell)
    with single_threaded():
        if motions is not None:
            training = motion_training(poses, motions)
        else:
            training = drawn_training(poses, checked_stiffnesses(poses, m, stiffnesses), options)
        found = _trained(training, blends, linear == "exact", count, options)
    options.tell(1.0, f"{len(found.tets)} cubature tets")
    return found


def _trained(
    training: Training, blends: _Blends, linear: bool, count: int, options: TrainingOptions
) -> ElasticCubature:
    """Choose tets, fit their weights and see what they miss; `linear` is left to corrections."""
    exact, m = training.stiffnesses if linear else None, blends.shares.shape[1]
    tets, totals = _choose_tets(training, exact, count, blends.shares, options)
    options.tell(0.8, "fitting cubature weights")
    weights = _fit_poses(training, exact, tets, totals, blends.shares)
    blended = np.maximum(blends.shares @ weights, 0.0)
    deltas = blends.corrections(_missed_stiffness(training, exact, tets, blended, blends))
    errors = _errors(training, tets, totals, blended, deltas, options)
    held = None if exact is None else training.held
    corrections = _missed_stiffness(training, held, tets, blended, blends)
    return ElasticCubature(
        tets, weights, corrections, blends.ends, errors[0, :m], errors[1, :m], errors[1, m:]
    )


@dataclass(frozen=True, eq=False)
class _Blends:
    """Weights of the m poses at all m + k poses, those between included.

    `shares` (m + k, m); `ends` are the two poses of each pose between; `scales` (r,) of each.
    """

    shares: Floats
    ends: tuple[tuple[int, int], ...]
    scales: list[Floats]

    def corrections(self, stored: Floats | None) -> list[Floats | None]:
        """Blend the stored corrections at each of the m + k poses; None where none are stored."""
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

    `exact` are the reduced stiffnesses if cubature leaves the linear part to corrections.
    """
    poses, tell = training.poses, options.tell
    mixtures = max(_LEAST_MIXTURES, -(-_MIXTURES_PER_WEIGHT * count // poses[0].rank))
    problem = ElasticProblem(
        poses,
        training.drawn,
        min(options.samples, mixtures),
        options.seed,
        exact,
        training.totals,
        tell,
    )
    if count > problem.norms.shape[1]:
        warn(
            f"{count} cubature tets asked for and only {problem.norms.shape[1]} touch a "
            "region; all are used"
        )
    tell(0.5, "choosing cubature tets")
    chosen = pursue(problem, count, threads=options.threads, shares=shares)
    return poses[0].tets[chosen], problem.totals


def _fit_poses(
    training: Training,
    exact: list[Floats] | None,
    tets: Ints,
    totals: list[Floats],
    shares: Floats,
) -> Floats:
    """Fit weights (m, c) of the poses, which serve at those between too (eq. 19)."""
    grams, rights = [], []
    for i, pose in enumerate(training.poses):
        stiffness = None if exact is None else exact[i]
        gram, right = normal_equations(pose, tets, training.drawn[i], stiffness, totals[i])
        if training.totals is not None and stiffness is not None:
            # Weights that say little of the linear part leave it all to corrections, which are
            # blended between poses: a man who hardly moves was then off by 0.8, not 0.2.
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
    """Return (m + k, r, r) what weights miss of the exact stiffnesses; None without those."""
    if exact is None:
        return None
    shares, scales = blends.shares, blends.scales
    missed = [
        (exact[i] - pose.only(tets).stiffness(blended[i])) / np.outer(scales[i], scales[i])
        for i, pose in enumerate(training.poses)
    ]
    m = shares.shape[1]
    own = np.array(missed[:m])
    return np.concatenate([own, midway_corrections(missed[m:], own, blends.ends, list(shares[m:]))])


def _errors(
    training: Training,
    tets: Ints,
    totals: list[Floats],
    blended: Floats,
    deltas: Sequence[Floats | None],
    options: TrainingOptions,
) -> Floats:
    """Return relative errors (2, m + k) of all poses: on the samples of the fit, and on fresh."""
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
        raise SuppleError(f"{len(listed)} bodies, {m} rest shapes and {len(bases)} bases; one each")
    poses = [
        PoseForces.of(listed[i], rests[i], bases[i], regions, name=f"pose {i}") for i in range(m)
    ]
    for i, pose in enumerate(poses):
        if [a.shape for a in pose.basis] != [a.shape for a in poses[0].basis]:
            raise SuppleError(f"pose {i} has other numbers of columns than pose 0")
        if not np.array_equal(pose.body.mesh.tets, poses[0].body.mesh.tets):
            raise SuppleError(f"the body of pose {i} has other tets than that of pose 0")
    return poses


def _checked_between(
    between: Sequence[Between], poses: Sequence[PoseForces], regions: Sequence[Region]
) -> list[PoseForces]:
    middles = []
    for k, given in enumerate(between):
        name = f"pose {k} between"
        middle = PoseForces.of(given.body, given.rest, given.basis, regions, name=name)
        if [a.shape for a in middle.basis] != [a.shape for a in poses[0].basis]:
            raise SuppleError(f"{name} has other numbers of columns than pose 0")
        if not np.array_equal(middle.body.mesh.tets, poses[0].body.mesh.tets):
            raise SuppleError(f"the body of {name} has other tets than that of pose 0")
        ends = checked_whole_numbers(f"ends of {name}", given.ends)
        if len(ends) != 2:
            raise SuppleError(f"{name} has {len(ends)} ends; give two of the poses")
        first, second = ends
        if first == second or not 0 <= min(first, second) <= max(first, second) < len(poses):
            raise SuppleError(f"{name} is between {first} and {second}; give two of the poses")
        middles.append(middle)
    return middles


def _checked_blends(between: Sequence[Between], m: int, rank: int) -> _Blends:
    """Check shares and scales of the poses between; the first m poses are themselves."""
    shares = np.vstack([np.eye(m), *(checked_array("shares", b.shares, (m,)) for b in between)])
    given = [np.ones(rank) if b.scales is None else b.scales for b in between]
    scales = [np.ones(rank)] * m + [checked_array("scales", each, (rank,)) for each in given]
    return _Blends(shares, tuple(b.ends for b in between), scales)
