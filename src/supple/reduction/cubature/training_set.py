"""Training samples of elastic cubature: reduced displacements and their forces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np

from supple.arrays import Floats
from supple.checks import checked_array, checked_count
from supple.errors import SuppleError
from supple.reduction.cubature.condensed_forces import MotionForces
from supple.reduction.cubature.elastic_forces import PoseForces
from supple.reduction.cubature.samples import force_samples, rest_stiffness

Progress = Callable[[float, str], None]

#: Samples per weight and column, and their least number, such that the error on fresh samples is
#: below 1.5 times the training error for the published characters.
_SAMPLES_PER_WEIGHT = 22
_LEAST_SAMPLES = 60
_MOST_SAMPLES = 400
#: Relative force below which samples are ignored: those of a body that hardly moves yet.
_LEAST_FORCE = 1e-3


@dataclass(frozen=True, eq=False)
class TrainingOptions:
    """Number and size of the samples of a pose, and how they are computed."""

    samples: int
    amplitude: float
    seed: int
    threads: Executor | None
    tell: Progress


@dataclass(frozen=True, eq=False)
class Training:
    """Poses, then intermediate poses, with samples (r, t) and reduced stiffness (r, r) of each.

    `held` are the stiffnesses that corrections complete: with contacts, which samples may lack.
    `totals` are forces (r, t) of the samples where they are not those of their displacements, and
    `fresh` are other samples with such forces.
    """

    poses: list[PoseForces]
    drawn: list[Floats]
    stiffnesses: list[Floats]
    held: list[Floats]
    totals: list[Floats] | None = None
    fresh: list[tuple[Floats, Floats]] | None = None


def drawn_training(
    poses: list[PoseForces], stiffnesses: list[Floats], options: TrainingOptions
) -> Training:
    """Return random samples at each pose, drawn by its reduced stiffness."""
    options.tell(0.0, "sampling elastic forces")
    drawn = [
        draw(pose, stiffnesses[i], options.samples, options, i) for i, pose in enumerate(poses)
    ]
    return Training(poses, drawn, stiffnesses, stiffnesses)


def motion_training(poses: list[PoseForces], motions: Sequence[MotionForces]) -> Training:
    """Return motions as samples; the last third of each measures errors on fresh samples."""
    drawn, totals, fresh = [], [], []
    for motion in motions:
        lengths = np.linalg.norm(motion.forces, axis=0)
        real = lengths > _LEAST_FORCE * lengths.max()  # excludes the start from rest
        q, total = motion.q[:, real], motion.forces[:, real]
        end = -(-2 * q.shape[1] // 3)
        drawn.append(np.ascontiguousarray(q[:, :end]))
        totals.append(total[:, :end])
        fresh.append((np.ascontiguousarray(q[:, end:]), total[:, end:]))
    stiffnesses, held = [each.stiffness for each in motions], [each.held for each in motions]
    return Training(poses, drawn, stiffnesses, held, totals, fresh)


def draw(
    pose: PoseForces, stiffness: Floats, count: int, options: TrainingOptions, *which: int
) -> Floats:
    """Draw samples (r, count) of a pose, with a separate stream of random numbers."""
    return force_samples(
        pose.body,
        pose.rest,
        pose.basis,
        pose.regions,
        count,
        amplitude=options.amplitude,
        stiffness=stiffness,
        seed=np.random.default_rng([options.seed, *which]),
    )


def sample_count(samples: int | None, count: int, rank: int) -> int:
    if samples is not None:
        return checked_count("the number of samples", samples)
    return min(_MOST_SAMPLES, max(_LEAST_SAMPLES, -(-_SAMPLES_PER_WEIGHT * count // rank)))


def checked_stiffnesses(
    poses: list[PoseForces], m: int, stiffnesses: Sequence[Floats] | None
) -> list[Floats]:
    """Return checked stiffnesses of the first m poses, and computed ones of the others."""
    if stiffnesses is not None and len(stiffnesses) != m:
        raise SuppleError(f"{len(stiffnesses)} stiffnesses for {m} poses")
    shape = (poses[0].rank, poses[0].rank)
    checked = [
        checked_array(f"stiffness of pose {i}", K, shape) for i, K in enumerate(stiffnesses or ())
    ]
    others = poses[len(checked) :]
    return checked + [rest_stiffness(p.body, p.rest, p.basis, p.regions) for p in others]
