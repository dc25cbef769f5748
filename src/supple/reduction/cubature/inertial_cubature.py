"""Inertial cubature: a few weighted vertices that approximate inertia (xu2016 §5.4)."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints, Singles
from supple.checks import checked_array, checked_count, checked_indices, checked_masses
from supple.errors import SuppleError, warn
from supple.linalg.blas import single_threaded
from supple.linalg.nnls import nonnegative_fit
from supple.progress import Progress, unreported
from supple.reduction.cubature.inertial_forces import (
    InertialProblem,
    candidates,
    correction,
    normalised,
    pose_accelerations,
    root_accelerations,
    rows_of,
    summed,
    vertex_equations,
)
from supple.reduction.cubature.samples import checked_basis
from supple.reduction.cubature.selection import Selection, chosen_columns
from supple.reduction.regions.region import Region
from supple.rig.protocol import Rig

LocalBasis = Sequence[Floats]
#: Weights and corrected rows at each pose, weights at each pose, or one set of weights for all.
InertialFit = Literal["corrected", "weights", "one set"]
#: Samples of each kind, the rig's and the root's, per pose: their least number, and the number per
#: parameter of the rig.
_LEAST_SAMPLES = 60
_SAMPLES_PER_PARAMETER = 1.25
#: Largest memory of the sampled positions of one pose, in bytes.
_MOST_BYTES = 150_000_000
#: The same for all poses; beyond it, samples are drawn again when weights are fitted.
_MOST_KEPT_BYTES = 200_000_000
#: Mixtures of samples per weight and column for choosing vertices, and their least number.
_MIXTURES_PER_WEIGHT = 12
_LEAST_MIXTURES = 40
#: Normalised forces (n, 3, t) and their projected sums (r, t).
Forces = tuple[Singles, Floats]


@dataclass(frozen=True, eq=False, repr=False)
class InertialCubature:
    """Cubature vertices and weights of their inertial forces: f̃ = Σ (v_s U_s + C_s)ᵀ m_s a_s.

    Attributes
    ----------
    vertices
        (c,) ascending; the same at all poses.
    weights
        (m, c) v ≥ 0 (xu2016 eq. 23); between poses they are blended as in elastic
        cubature.
    corrections
        (m, c, 3, r) C, corrections of the basis rows that fit training accelerations, zero outside
        of a column's region; between poses they are rotated and blended like the basis. None for
        the paper's cubature.
    train_errors, held_out_errors
        (m,) relative errors of accelerations by the rig, on the samples of the fit and on fresh
        ones; the rows of every sample are divided by the norm of its force (eq. 25).
    root_errors
        (m,) relative errors of accelerations of the whole body (uniform, angular, centrifugal and
        Coriolis) on fresh samples.
    """

    vertices: Ints
    weights: Floats
    corrections: Floats | None
    train_errors: Floats
    held_out_errors: Floats
    root_errors: Floats

    @property
    def train_error(self) -> float:
        """Root mean square of `train_errors` over all poses."""
        return _mean(self.train_errors)

    @property
    def held_out_error(self) -> float:
        """Root mean square of `held_out_errors` over all poses."""
        return _mean(self.held_out_errors)

    @property
    def root_error(self) -> float:
        """Root mean square of `root_errors` over all poses."""
        return _mean(self.root_errors)

    def __repr__(self) -> str:
        errors = f"{100 * self.train_error:.2g} %, held out {100 * self.held_out_error:.2g} %"
        size = f"{len(self.vertices)} vertices, {len(self.weights)} poses"
        return f"InertialCubature({size}, error {errors}, root {100 * self.root_error:.2g} %)"


def inertial_cubature(
    rig: Rig,
    poses: ArrayLike,
    bases: Sequence[LocalBasis],
    regions: Sequence[Region],
    mass: ArrayLike,
    count: int,
    *,
    shapes: Sequence[LocalBasis] | None = None,
    fit: InertialFit = "corrected",
    selection: Selection = "exchange",
    root: bool = True,
    samples: int | None = None,
    seed: int = 0,
    threads: Executor | None = None,
    progress: Progress | None = None,
) -> InertialCubature:
    """Choose cubature vertices and fit their weights at every pose (xu2016 eq. 23–25).

    Training samples are accelerations of two kinds: of random small changes of the pose,
    taken as consecutive frames, and of the whole body, which at run time result from the
    root's motion and gravity.

    Parameters
    ----------
    rig
        Φ: rest shapes of the tets, (n, 3) at any pose.
    poses
        (m, s) poses of the bases.
    bases, regions
        m localised bases.
    mass
        (n,) lumped masses.
    count
        Number of vertices. Fewer are used if the regions have fewer.
    shapes
        m localised bases V of the same sizes, to which loads are projected, f̃ = VᵀMa; by default
        `bases`.
    fit
        ``"corrected"``: weights and corrections of the basis rows at the chosen vertices. A weight
        scales the whole contribution of a vertex and cannot fit all r sums; a correction has as
        many numbers as the rows, costs nothing at run time and removes most of the error.
        ``"weights"``: weights at each pose. ``"one set"``: the same weights for all poses, as in
        the paper.
    selection
        Choice of the vertices: see `supple.reduction.cubature.selection`.
    root
        Whether to train on accelerations of the whole body, too.
    samples
        Number of samples of each kind per pose; by default enough for the rig's parameters.
    seed
        The same seed gives the same result, bit for bit, for any number of threads.
    threads
        Threads that process poses in parallel; the rig is then called from several threads.
    progress
        Function of the fraction done and a description.
    """
    report = progress or unreported
    count = checked_count("the number of cubature vertices", count)
    if fit not in get_args(InertialFit):
        raise SuppleError(f'fit "{fit}"; use {", ".join(get_args(InertialFit))}')
    checked_count("the seed", seed, 0)
    draws = _checked_draws(rig, poses, bases, shapes or bases, regions, mass, seed)
    draws = [replace(draw, root=root) for draw in draws]
    samples = _sample_count(samples, rig)
    with single_threaded():
        mixed = _mixed_samples(draws, samples, count, threads, report)
        report(0.5, "choosing cubature vertices")
        vertices = _choose(draws, mixed, count, threads, selection)
        drawn = [each.drawn for each in mixed]
        del mixed
        fits = _fits(draws, drawn, samples, vertices, fit, (threads, report))
    report(1.0, f"{len(vertices)} cubature vertices")
    errors = np.array([each[2] for each in fits])
    corrections = np.array([each[1] for each in fits]) if fit == "corrected" else None
    weights = np.array([each[0] for each in fits])
    return InertialCubature(vertices, weights, corrections, *errors.T)


def _mixed_samples(
    draws: Sequence[_Draw], samples: int, count: int, threads: Executor | None, progress: Progress
) -> list[_Mixed]:
    """Draw and mix samples of every pose, enough to choose `count` vertices."""
    n, m = draws[0].rig.n_vertices, len(draws)
    rank = sum(array.shape[2] for array in draws[0].basis)
    # At most the number of samples of both kinds.
    target = min(2 * samples, -(-_MIXTURES_PER_WEIGHT * count // rank))
    mixtures = max(_LEAST_MIXTURES, target)
    keep = 24 * n * samples * m <= _MOST_KEPT_BYTES

    def mixed(draw: _Draw) -> _Mixed:
        return _mixed_forces(draw, samples, mixtures, keep)

    mixtures_of_poses = []
    for i, result in enumerate((map if threads is None else threads.map)(mixed, draws)):
        progress(0.5 * (i + 1) / m, f"accelerations of {i + 1} poses")
        mixtures_of_poses.append(result)
    return mixtures_of_poses


def _fits(
    draws: Sequence[_Draw],
    drawn: Sequence[tuple[Forces, Forces] | None],
    samples: int,
    vertices: Ints,
    fit: InertialFit,
    run: tuple[Executor | None, Progress],
) -> list[tuple[Floats, Floats, list[float]]]:
    """Return `_fit_pose` of every pose; its samples are drawn again if they were not stored."""
    threads, progress = run
    common = None
    if fit == "one set":
        equations = [
            vertex_equations(*_samples_at(draw, kinds or draw.forces(samples), vertices))
            for draw, kinds in zip(draws, drawn, strict=True)
        ]
        grams, rights = zip(*equations, strict=True)
        common = nonnegative_fit(np.asarray(sum(grams)), np.asarray(sum(rights)))

    def fitted(i: int) -> tuple[Floats, Floats, list[float]]:
        kinds = drawn[i] or draws[i].forces(samples)
        return _fit_pose(draws[i], kinds, vertices, fit == "corrected", common)

    fits = []
    for i, each in enumerate((map if threads is None else threads.map)(fitted, range(len(draws)))):
        progress(0.7 + 0.3 * (i + 1) / len(draws), f"inertial weights of {i + 1} poses")
        fits.append(each)
    return fits


def _samples_at(
    draw: _Draw, drawn: tuple[Forces, Forces], vertices: Ints
) -> tuple[Floats, Floats, Floats]:
    """Return the basis rows and the forces at some vertices, and the sums of all forces."""
    fitted = drawn if draw.root else drawn[:1]
    forces = np.concatenate([kind[0][vertices] for kind in fitted], axis=2).astype(np.float64)
    target = np.concatenate([kind[1] for kind in fitted], axis=1)
    return rows_of(draw.basis, draw.regions, vertices), forces, target


def inertial_error(
    basis: LocalBasis,
    regions: Sequence[Region],
    mass: ArrayLike,
    vertices: ArrayLike,
    weights: ArrayLike,
    accelerations: ArrayLike,
    *,
    corrections: ArrayLike | None = None,
) -> float:
    """Return the relative error of inertial cubature at any pose, over accelerations.

    The root mean square over samples of ‖Σ_s (v_s U_s + C_s)ᵀ m_s a_s − f̃‖ / ‖f̃‖, with
    f̃ = UᵀMa of all vertices (xu2016 eq. 23, rows divided by ‖f̃‖ as in eq. 25). Samples without
    force do not count.

    Parameters
    ----------
    basis, regions
        The localised basis at the pose: for each region an array (k, 3, r).
    mass
        (n,) masses of all vertices.
    vertices, weights
        (c,) distinct cubature vertices, and their weights at the pose.
    accelerations
        (n, 3, t).
    corrections
        (c, 3, r) C at the pose; None for the paper's cubature.
    """
    mass = checked_masses(mass, np.size(mass))
    shape = np.shape(accelerations)
    if len(shape) != 3 or shape[2] == 0:
        raise SuppleError(f"accelerations of shape {shape}; expected (n, 3, t)")
    a = checked_array("accelerations", accelerations, (len(mass), 3, shape[2]))
    checked = checked_basis("basis", basis, regions, len(mass))
    chosen = checked_indices("cubature vertex", vertices, len(mass))
    if len(np.unique(chosen)) < len(chosen):
        raise SuppleError("a cubature vertex is listed twice; add its weights")
    v = checked_array("cubature weights", weights, chosen.shape)
    blocks = v[:, None, None] * rows_of(checked, regions, chosen)
    if corrections is not None:
        blocks = blocks + checked_array("corrections", corrections, blocks.shape)
    with single_threaded():
        forces, target = normalised(checked, regions, mass[:, None, None] * a)
        return _relative_error(target, summed(blocks, forces[chosen]))


@dataclass(frozen=True)
class _Draw:
    """Source of the samples of one pose: its rig, masses, basis and random numbers.
    Loads are projected by `shapes`, which weighted rows of `basis` approximate.
    """

    rig: Rig
    pose: Floats
    mass: Floats
    basis: tuple[Floats, ...]
    shapes: tuple[Floats, ...]
    regions: Sequence[Region]
    seed: int
    index: int
    root: bool = True

    def forces(self, count: int, *fresh: int) -> tuple[Forces, Forces]:
        """Draw normalised forces m_s a_s and their sums, of the rig's and of the root's motion."""
        random = np.random.default_rng([self.seed, self.index, *fresh])
        relative, velocities = pose_accelerations(self.rig, self.pose, count, random)
        body_accelerations = root_accelerations(self.rig(self.pose), velocities, random)
        return self._normalised(relative), self._normalised(body_accelerations)

    def _normalised(self, accelerations: Floats) -> Forces:
        accelerations *= self.mass[:, None, None]
        forces, sums = normalised(self.shapes, self.regions, accelerations)
        return forces.astype(np.float32), sums


class _Mixed(NamedTuple):
    """Mixed forces of one pose, (k, 3, t′) of the candidates, and their sums (r, t′)."""

    forces: Floats
    target: Floats
    #: The forces themselves, if those of all poses fit in memory.
    drawn: tuple[Forces, Forces] | None


def _mixed_forces(draw: _Draw, samples: int, mixtures: int, keep: bool) -> _Mixed:
    kinds = draw.forces(samples)
    random = np.random.default_rng([draw.seed, draw.index, 3])
    inside = candidates(draw.regions)
    forces = np.zeros((3 * len(inside), mixtures))
    target = np.zeros((len(kinds[0][1]), mixtures))
    for force, sums in kinds if draw.root else kinds[:1]:
        signs = random.choice([-1.0, 1.0], (sums.shape[1], mixtures)) / np.sqrt(mixtures)
        forces += force[inside].reshape(-1, len(signs)) @ signs.astype(np.float32)
        target += sums @ signs
    return _Mixed(forces.reshape(-1, 3, mixtures), target, kinds if keep else None)


def _fit_pose(
    draw: _Draw,
    drawn: tuple[Forces, Forces],
    vertices: Ints,
    corrected: bool,
    common: Floats | None,
) -> tuple[Floats, Floats, list[float]]:
    """Return weights (c,), corrections (c, 3, r) and errors (train, fresh, root) at one pose.

    `common` are weights for all poses, or None to fit them here.
    """
    rows, forces, target = _samples_at(draw, drawn, vertices)
    weights = common
    if weights is None:
        weights = nonnegative_fit(*vertex_equations(rows, forces, target))
    blocks = weights[:, None, None] * rows
    added = np.zeros_like(blocks)
    if corrected:
        widths = [array.shape[2] for array in draw.basis]
        added = correction(rows, widths, forces, target - summed(blocks, forces))
    samples = drawn[0][1].shape[1]
    errors = [
        _relative_error(total, summed(blocks + added, force[vertices].astype(np.float64)))
        for force, total in (drawn[0], *draw.forces(max(10, samples // 6), 1))
    ]
    return weights, added, errors


def _relative_error(target: Floats, sums: Floats) -> float:
    """Return the root mean square error over samples with force; targets are normalised."""
    samples = max(1, int((target != 0).any(axis=0).sum()))
    return float(np.linalg.norm(sums - target) / np.sqrt(samples))


def _checked_draws(
    rig: Rig,
    poses: ArrayLike,
    bases: Sequence[LocalBasis],
    shapes: Sequence[LocalBasis],
    regions: Sequence[Region],
    mass: ArrayLike,
    seed: int,
) -> list[_Draw]:
    n, m = rig.n_vertices, len(bases)
    masses = checked_masses(mass, n)
    rows = checked_array("poses", poses, (m, len(rig.parameters)))
    checked = [checked_basis(f"basis of pose {i}", b, regions, n) for i, b in enumerate(bases)]
    projections = [
        checked_basis(f"shapes of pose {i}", b, regions, n) for i, b in enumerate(shapes)
    ]
    if len(projections) != m:
        raise SuppleError(f"{len(projections)} bases `shapes` for {m} poses; give one per pose")
    every = checked + projections
    if m == 0 or any([a.shape for a in b] != [a.shape for a in checked[0]] for b in every):
        raise SuppleError("inertial cubature needs one basis per pose, all of equal shapes")
    return [
        _Draw(rig, rows[i], masses, checked[i], projections[i], regions, seed, i) for i in range(m)
    ]


def _choose(
    draws: Sequence[_Draw],
    mixed: Sequence[_Mixed],
    count: int,
    threads: Executor | None,
    selection: Selection,
) -> Ints:
    """Return the chosen cubature vertices (c,), ascending."""
    problem = InertialProblem(
        [draw.basis for draw in draws],
        draws[0].regions,
        [each.forces for each in mixed],
        [each.target for each in mixed],
    )
    if count > len(problem.vertices):
        warn(f"{count} cubature vertices requested; all {len(problem.vertices)} are used")
    return problem.vertices[chosen_columns(problem, count, selection, threads=threads)]


def _sample_count(samples: int | None, rig: Rig) -> int:
    if samples is not None:
        return checked_count("the number of samples", samples)
    target = max(_LEAST_SAMPLES, round(_SAMPLES_PER_PARAMETER * len(rig.parameters)))
    return min(target, max(20, _MOST_BYTES // (24 * rig.n_vertices)))


def _mean(errors: Floats) -> float:
    return float(np.sqrt((errors**2).mean()))
