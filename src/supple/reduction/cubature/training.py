"""Training samples of elastic cubature: random, or motions of the whole body.

Forces of motions use static condensation of displacements that a basis cannot represent. A body
restricted to a basis is too stiff. With u = U q + c, where c is the displacement outside of the
basis at the same q = (UᵀMU)⁻¹UᵀMu, the force at q is the force at u, not at U q, and loads act on
c, too. The shapes V = K⁻¹MU (UᵀMK⁻¹MU)⁻¹ UᵀMU, which have the least energy at each unit q, account
for both: Vᵀ(Mü + f(u)) = Vᵀ(load) has the mass VᵀMU = UᵀMU, and for small u the force VᵀKu = VᵀKV q
for any c, so that the equilibrium q is the whole body's. Inertia and gravity are projected by V;
external forces and contacts on the skin are projected by U, by which the skin moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from supple.arrays import Floats
from supple.checks import checked_count
from supple.elastic.body import ElasticBody
from supple.linalg.sparse import principal_submatrix
from supple.progress import Progress
from supple.reduction.compliance import Compliance
from supple.reduction.cubature.elastic_forces import PoseForces
from supple.reduction.cubature.samples import force_samples, rest_stiffness
from supple.reduction.cubature.selection import Selection
from supple.reduction.null_space import NullSpace
from supple.reduction.regions.region import Region
from supple.reduction.shaking import Shaking


class MotionForces(NamedTuple):
    """Motion of the body projected to a basis V: the mass projection q (r, t) of its displacements,
    and its forces Vᵀf (r, t). `stiffness` is VᵀKV at rest, and `held` the same with contacts, which
    the simulated motion does not have; `shapes` (k, 3, r) is V with contacts, by which loads are
    projected.
    """

    q: Floats
    forces: Floats
    stiffness: Floats
    held: Floats
    shapes: Floats


def motion_forces(
    body: ElasticBody,
    rest: Floats,
    basis: Floats,
    region: Region,
    shaking: Shaking,
    allowed: NullSpace | None = None,
) -> MotionForces:
    """Project a motion to a basis (k, 3, r) of a region; contacts, if any, leave `allowed`."""
    rows = len(region.vertices)
    columns = basis.reshape(3 * rows, -1)
    weighted = np.repeat(body.vertex_masses()[region.vertices], 3)[:, None] * columns
    displacement, forces = (
        each[region.vertices].reshape(3 * rows, -1).astype(np.float64) for each in shaking[:2]
    )
    q = np.asarray(np.linalg.solve(columns.T @ weighted, weighted.T @ displacement), np.float64)
    shapes, free = condensed_shapes(body, rest, basis, region)
    projected, held = shapes.reshape(columns.shape).T @ forces, free
    if allowed is not None and allowed.rank:
        shapes, held = condensed_shapes(body, rest, basis, region, allowed)
    return MotionForces(q, projected, free, held, shapes)


def condensed_shapes(
    body: ElasticBody,
    rest: Floats,
    basis: Floats,
    region: Region,
    allowed: NullSpace | None = None,
) -> tuple[Floats, Floats]:
    """Return shapes V (k, 3, r) of least energy at each unit q, and VᵀKV (r, r).

    VᵀKV = G (UᵀM K⁻¹ MU)⁻¹ G with G = UᵀMU of the basis U (k, 3, r) of a region. For modes these
    are U and UᵀKU; for other bases the energy is less than with U. K⁻¹ is restricted to `allowed`
    displacements, by default all.
    """
    stiffness = body.stiffness(rest, rest, out=body.pattern.zeros())  # threads may share the body
    masses = body.vertex_masses()[region.vertices]
    columns = basis.reshape(3 * len(masses), -1)
    weighted = np.repeat(masses, 3)[:, None] * columns
    gram = columns.T @ weighted
    inner = principal_submatrix(stiffness, region.unknowns)
    static = Compliance(inner, masses, allowed)(weighted)
    flexibility = weighted.T @ static
    share = np.linalg.solve((flexibility + flexibility.T) / 2, gram)
    condensed = gram @ share
    return (static @ share).reshape(basis.shape), (condensed + condensed.T) / 2


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
    progress: Progress
    selection: Selection = "exchange"


@dataclass(frozen=True, eq=False)
class Training:
    """Poses, then intermediate poses, with samples (r, t) and reduced stiffness (r, r) of each.
    `held` are the stiffnesses with contacts, for corrections; samples may be without contacts.
    `totals` are forces (r, t) of the samples where they differ from those of the displacements, and
    `fresh` are other samples with such forces.
    """

    poses: list[PoseForces]
    drawn: list[Floats]
    stiffnesses: list[Floats]
    held: list[Floats]
    totals: list[Floats] | None = None
    fresh: list[tuple[Floats, Floats]] | None = None


def drawn_training(poses: list[PoseForces], options: TrainingOptions) -> Training:
    """Return random samples at each pose, drawn by its reduced stiffness."""
    options.progress(0.0, "sampling elastic forces")
    stiffnesses = [rest_stiffness(p.body, p.rest, p.basis, p.regions) for p in poses]
    drawn = [
        draw(pose, stiffnesses[i], options.samples, options, i) for i, pose in enumerate(poses)
    ]
    return Training(poses, drawn, stiffnesses, stiffnesses)


def motion_training(poses: list[PoseForces], motions: Sequence[MotionForces]) -> Training:
    """Return motions as samples; the last third of each is held out to measure errors."""
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
    """Draw samples (r, count) of a pose; `which` selects the stream of random numbers."""
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
