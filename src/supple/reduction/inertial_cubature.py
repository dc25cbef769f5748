"""Inertial cubature: a few weighted vertices whose accelerations stand for all (xu2016 §5.4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.checks import checked_array
from supple.errors import SuppleError, warn
from supple.linalg.fortran import single_threaded
from supple.reduction.checks import checked_count, checked_indices, checked_masses
from supple.reduction.cubature import pursue
from supple.reduction.cubature_inertia import InertialProblem, normalised, rows_of, summed
from supple.reduction.inertial_training import Draw, Mixed, fit_pose, mixed_forces, relative_error
from supple.reduction.region import Region
from supple.reduction.samples import checked_basis
from supple.rig.protocol import Rig

__all__ = ["InertialCubature", "inertial_cubature", "inertial_error"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
LocalBasis = Sequence[NDArray[np.float64]]
Progress = Callable[[float, str], None]

#: Samples of each kind, the rig's and the root's, for each pose: at least so many, and so many
#: for each of the rig's parameters.
_LEAST_SAMPLES = 60
_SAMPLES_PER_PARAMETER = 1.25
#: Sampled positions of one pose held at once, in bytes.
_MOST_BYTES = 150_000_000
#: And of all poses; beyond, they are drawn once more, the same, when weights are fitted.
_MOST_KEPT_BYTES = 200_000_000
#: Mixtures of samples for each weight and column that vertices are chosen with.
_MIXTURES_PER_WEIGHT = 12
_LEAST_MIXTURES = 40


@dataclass(frozen=True, eq=False, repr=False)
class InertialCubature:
    """Vertices and what their inertial forces count: f̃ = Σ (v_s U_s + C_s)ᵀ m_s a_s.

    Attributes
    ----------
    vertices
        (c,) ascending; the same at all poses.
    weights
        (m, c) v ≥ 0 (xu2016 eq. 23); between poses they are blended like those of elastic
        cubature.
    corrections
        (m, c, 3, r) C, what must be added to the basis rows so that training accelerations
        come out right, zero where a column's region does not reach; between poses they are
        rotated and blended like the basis. None for the paper's cubature.
    train_errors, held_out_errors
        (m,) relative errors of accelerations that come from the rig, on the samples of the fit
        and on fresh ones; every sample's rows are divided by the norm of its force (eq. 25).
    root_errors
        (m,) likewise of accelerations of the whole body: uniform (gravity too), angular,
        centrifugal and Coriolis; on fresh samples.
    """

    vertices: Ints
    weights: Floats
    corrections: Floats | None
    train_errors: Floats
    held_out_errors: Floats
    root_errors: Floats

    @property
    def train_error(self) -> float:
        """Relative error of the rig's accelerations over all poses."""
        return _mean(self.train_errors)

    @property
    def held_out_error(self) -> float:
        """The same on samples that were not used."""
        return _mean(self.held_out_errors)

    @property
    def root_error(self) -> float:
        """Relative error of the root's accelerations over all poses, on fresh samples."""
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
    corrected: bool = True,
    samples: int | None = None,
    seed: int = 0,
    threads: Executor | None = None,
    progress: Progress | None = None,
) -> InertialCubature:
    """Choose cubature vertices and fit their weights at every pose (xu2016 eq. 23–25).

    Accelerations of two kinds are trained on: those of small random changes of the pose, read
    as consecutive frames, and those of a body that moves as a whole, which at run time come
    from the root's motion and from gravity. Weights are separate for each pose, as for elastic
    forces; the paper has one set for all.

    Parameters
    ----------
    rig
        Φ: rest shapes of the tets, (n, 3) at any pose.
    poses
        (m, s) the poses that have bases.
    bases, regions
        m localised bases.
    mass
        (n,) lumped masses.
    count
        How many vertices. Fewer are used when the regions have fewer.
    corrected
        Also fit corrections of the basis rows at the chosen vertices. A weight scales one
        vertex' whole contribution and cannot make all r sums right; a correction has as many
        numbers as the rows, costs nothing at run time and leaves a small part of the error.
    samples
        Of each kind, for each pose; by default enough for the rig's parameters.
    seed
        The same seed gives the same bits, whatever the number of threads.
    threads
        Threads to work on poses beside each other; the rig is then called from several.
    progress
        Called with the part done, 0 to 1, and what is being done.
    """
    tell = progress or (lambda part, what: None)
    each = map if threads is None else threads.map
    count = checked_count("the number of cubature vertices", count)
    checked_count("the seed", seed, 0)
    draws = _checked_draws(rig, poses, bases, regions, mass, seed)
    m, samples = len(draws), _sample_count(samples, rig)
    rank = sum(array.shape[2] for array in draws[0].basis)
    # No more than there are samples of both kinds, whatever count is asked for.
    wanted = min(2 * samples, -(-_MIXTURES_PER_WEIGHT * count // rank))
    mixtures = max(_LEAST_MIXTURES, wanted)
    keep = 24 * rig.n_vertices * samples * m <= _MOST_KEPT_BYTES

    def mixed(draw: Draw) -> Mixed:
        return mixed_forces(draw, samples, mixtures, keep)

    with single_threaded():
        found = []
        for i, own in enumerate(each(mixed, draws)):
            tell(0.5 * (i + 1) / m, f"accelerations of {i + 1} poses")
            found.append(own)
        tell(0.5, "choosing cubature vertices")
        vertices = _choose(draws, found, count, threads)
        drawn = [own.drawn for own in found]
        del found

        def fitted(i: int) -> tuple[Floats, Floats, list[float]]:
            return fit_pose(draws[i], drawn[i] or draws[i].forces(samples), vertices, corrected)

        fits = []
        for i, fit in enumerate(each(fitted, range(m))):
            tell(0.7 + 0.3 * (i + 1) / m, f"inertial weights of {i + 1} poses")
            fits.append(fit)
    tell(1.0, f"{len(vertices)} cubature vertices")
    errors = np.array([fit[2] for fit in fits])
    corrections = np.array([fit[1] for fit in fits]) if corrected else None
    weights = np.array([fit[0] for fit in fits])
    return InertialCubature(vertices, weights, corrections, *errors.T)


def _checked_draws(
    rig: Rig,
    poses: ArrayLike,
    bases: Sequence[LocalBasis],
    regions: Sequence[Region],
    mass: ArrayLike,
    seed: int,
) -> list[Draw]:
    n, m = rig.n_vertices, len(bases)
    masses = checked_masses(mass, n)
    rows = checked_array("poses", poses, (m, len(rig.parameters)))
    checked = [checked_basis(f"basis of pose {i}", b, regions, n) for i, b in enumerate(bases)]
    if m == 0 or any([a.shape for a in b] != [a.shape for a in checked[0]] for b in checked):
        raise SuppleError("inertial cubature needs one basis a pose, with columns alike")
    return [Draw(rig, rows[i], masses, checked[i], regions, seed, i) for i in range(m)]


def _choose(
    draws: Sequence[Draw], mixed: Sequence[Mixed], count: int, threads: Executor | None
) -> Ints:
    """The cubature vertices, ascending."""
    problem = InertialProblem(
        [draw.basis for draw in draws],
        draws[0].regions,
        [own.forces for own in mixed],
        [own.target for own in mixed],
    )
    if count > len(problem.vertices):
        warn(f"{count} cubature vertices asked for; all {len(problem.vertices)} are used")
    return problem.vertices[pursue(problem, count, threads=threads)]


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
    """Relative error of inertial cubature at any pose, over accelerations.

    The root mean square over samples of ‖Σ_s (v_s U_s + C_s)ᵀ m_s a_s − f̃‖ / ‖f̃‖, with
    f̃ = UᵀMa of all vertices (xu2016 eq. 23, rows divided by ‖f̃‖ as in eq. 25). Samples without
    force ask nothing.

    Parameters
    ----------
    basis, regions
        The localised basis at the pose: for each region an array (k, 3, r).
    mass
        (n,) of all vertices.
    vertices, weights
        (c,) cubature vertices, each once, and their weights there.
    accelerations
        (n, 3, t).
    corrections
        (c, 3, r) C there; None for the paper's cubature.
    """
    mass = checked_masses(mass, np.size(mass))
    shape = np.shape(accelerations)
    if len(shape) != 3 or shape[2] == 0:
        raise SuppleError(f"accelerations of shape {shape}; expected (n, 3, t)")
    a = checked_array("accelerations", accelerations, (len(mass), 3, shape[2]))
    checked = checked_basis("basis", basis, regions, len(mass))
    chosen = checked_indices("cubature vertex", vertices, len(mass))
    if len(np.unique(chosen)) < len(chosen):
        raise SuppleError("a cubature vertex is listed twice; add up its weights")
    v = checked_array("cubature weights", weights, chosen.shape)
    blocks = v[:, None, None] * rows_of(checked, regions, chosen)
    if corrections is not None:
        blocks = blocks + checked_array("corrections", corrections, blocks.shape)
    with single_threaded():
        forces, target = normalised(checked, regions, mass[:, None, None] * a)
        return relative_error(target, summed(blocks, forces[chosen]))


def _sample_count(samples: int | None, rig: Rig) -> int:
    if samples is not None:
        return checked_count("the number of samples", samples)
    wanted = max(_LEAST_SAMPLES, round(_SAMPLES_PER_PARAMETER * len(rig.parameters)))
    return min(wanted, max(20, _MOST_BYTES // (24 * rig.n_vertices)))


def _mean(errors: Floats) -> float:
    return float(np.sqrt((errors**2).mean()))
