"""Elastic cubature step by step: samples, tets, weights, and what they miss (xu2016 §5.3)."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from supple.errors import warn
from supple.reduction.cubature import pursue
from supple.reduction.cubature_accuracy import normal_equations
from supple.reduction.cubature_fit import joint_fit
from supple.reduction.cubature_forces import PoseForces
from supple.reduction.cubature_problem import ElasticProblem
from supple.reduction.linear_correction import midway_corrections
from supple.reduction.samples import force_samples

__all__ = ["Training", "choose_tets", "draw", "fit_poses", "missed_stiffness"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Progress = Callable[[float, str], None]

#: Mixtures of samples for each weight and column that tets are chosen with, and at least so many.
_MIXTURES_PER_WEIGHT = 8
_LEAST_MIXTURES = 20


@dataclass(frozen=True, eq=False)
class Training:
    """Poses, then those between, with samples (r, t) of each.

    `exact` are their reduced stiffnesses if cubature leaves the linear part to corrections.
    """

    poses: list[PoseForces]
    drawn: list[Floats]
    exact: list[Floats] | None


def choose_tets(
    training: Training,
    count: int,
    samples: int,
    seed: int,
    threads: Executor | None,
    tell: Progress,
) -> tuple[Ints, list[Floats]]:
    """The tets, and the forces (r, t) of all samples at every pose (eq. 17–18)."""
    poses = training.poses
    mixtures = max(_LEAST_MIXTURES, -(-_MIXTURES_PER_WEIGHT * count // poses[0].rank))
    problem = ElasticProblem(
        poses, training.drawn, min(samples, mixtures), seed, training.exact, tell
    )
    if count > problem.norms.shape[1]:
        warn(
            f"{count} cubature tets asked for and only {problem.norms.shape[1]} touch a "
            "region; all are used"
        )
    tell(0.5, "choosing cubature tets")
    return poses[0].tets[pursue(problem, count, threads=threads)], problem.totals


def fit_poses(training: Training, tets: Ints, totals: list[Floats], shares: Floats) -> Floats:
    """Weights (m, c) of the poses, which serve at those between too (eq. 19)."""
    grams, rights = [], []
    for i, pose in enumerate(training.poses):
        exact = None if training.exact is None else training.exact[i]
        gram, right = normal_equations(pose, tets, training.drawn[i], exact, totals[i])
        grams.append(gram)
        rights.append(right)
    return joint_fit(grams, rights, shares)


def missed_stiffness(
    training: Training,
    tets: Ints,
    blended: Floats,
    ends: tuple[tuple[int, int], ...],
    shares: Floats,
    scales: list[Floats],
) -> Floats | None:
    """(m + k, r, r) what weights miss of the exact stiffnesses; None where nothing is exact."""
    if training.exact is None:
        return None
    missed = [
        (training.exact[i] - pose.only(tets).stiffness(blended[i])) / np.outer(scales[i], scales[i])
        for i, pose in enumerate(training.poses)
    ]
    m = shares.shape[1]
    own = np.array(missed[:m])
    return np.concatenate([own, midway_corrections(missed[m:], own, ends, list(shares[m:]))])


def draw(
    pose: PoseForces, stiffness: Floats, count: int, amplitude: float, seed: int, *which: int
) -> Floats:
    """Samples (r, count) of a pose, with a stream of random numbers of its own."""
    return force_samples(
        pose.body,
        pose.rest,
        pose.basis,
        pose.regions,
        count,
        amplitude=amplitude,
        stiffness=stiffness,
        seed=np.random.default_rng([seed, *which]),
    )
