"""Inertial cubature: a few weighted vertices whose accelerations stand for all (xu2016 §5.4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.arrays import Floats, Ints
from supple.checks import checked_array, checked_count, checked_indices, checked_masses
from supple.errors import SuppleError, warn
from supple.linalg.blas import single_threaded
from supple.reduction.cubature.inertial_forces import (
    InertialProblem,
    candidates,
    correction,
    fit_vertices,
    normalised,
    rows_of,
    summed,
)
from supple.reduction.cubature.samples import checked_basis
from supple.reduction.cubature.selection import pursue
from supple.reduction.regions.region import Region
from supple.rig.protocol import Rig

__all__ = [
    "Draw",
    "InertialCubature",
    "Mixed",
    "fit_pose",
    "inertial_cubature",
    "inertial_error",
    "mixed_forces",
    "perturbation_sizes",
    "pose_accelerations",
    "relative_error",
    "root_accelerations",
]


# ----------------------------------------------------------------------------
# Accelerations to train inertial cubature with: of the rig, and of the body as a whole.


#: Largest change of a rotation and, for a human of this height, of a translation (xu2016 §5.4).
ANGLE = np.deg2rad(1.0)


SHIFT = 1e-3


HUMAN = 1.7


# Step of a pure number by which it is seen how far it moves the body.
_PROBE = 1e-3


def perturbation_sizes(rig: Rig, pose: Floats) -> Floats:
    """(s,) largest change of each parameter.

    1° for rotations, 1 mm for translations of a human-sized character, scaled with the body;
    pure numbers change as much as moves some vertex that far.
    """
    start = rig(pose)
    shift = SHIFT * float(np.linalg.norm(np.ptp(start, axis=0))) / HUMAN
    sizes = np.empty(len(rig.parameters))
    for k, parameter in enumerate(rig.parameters):
        if parameter.unit == "rad":
            sizes[k] = ANGLE
        elif parameter.unit == "m":
            sizes[k] = shift
        else:
            moved = pose.copy()
            moved[k] += _PROBE
            away = float(np.linalg.norm(rig(moved) - start, axis=1).max())
            sizes[k] = min(1.0, shift * _PROBE / away) if away > 0 else 0.0
    return sizes


def pose_accelerations(
    rig: Rig, pose: Floats, count: int, random: np.random.Generator
) -> tuple[Floats, Floats]:
    """Second and first differences (n, 3, count) of count + 2 random poses in a row (eq. 24).

    A frame lasts a unit of time: what follows is normalised sample by sample.
    """
    sizes = perturbation_sizes(rig, pose)
    changes = random.uniform(-1.0, 1.0, (count + 2, len(sizes))) * sizes
    frames = np.stack([rig(pose + change) for change in changes], axis=2)
    if not np.isfinite(frames).all():
        raise SuppleError("the rig is not finite near a pose; check its parameters")
    accelerations = frames[:, :, 2:] - 2 * frames[:, :, 1:-1] + frames[:, :, :-2]
    return accelerations, (frames[:, :, 2:] - frames[:, :, :-2]) / 2


def root_accelerations(rest: Floats, velocities: Floats, random: np.random.Generator) -> Floats:
    """Accelerations (n, 3, t) in the frame of a root that moves: b + α×x + ω×(ω×x) + 2ω×v.

    One for each of the rig's velocities (n, 3, t). Uniform, angular and centrifugal parts are
    alike in size on average; Coriolis' is an eighth of them, as v of a whole body is small.
    """
    middle = (rest.min(axis=0) + rest.max(axis=0)) / 2
    arm = (rest - middle) / max(float(np.linalg.norm(np.ptp(rest, axis=0))) / 2, 1e-300)
    speed = np.linalg.norm(velocities, axis=1).max(axis=0)
    out = np.empty_like(velocities)
    for t in range(velocities.shape[2]):
        linear, angular, spin = random.standard_normal((3, 3))
        v = velocities[:, :, t] / (16 * speed[t]) if speed[t] > 0 else velocities[:, :, t]
        out[:, :, t] = linear + np.cross(angular, arm)
        out[:, :, t] += np.cross(spin, np.cross(spin, arm)) + 2 * np.cross(spin, v)
    return out


# ----------------------------------------------------------------------------
# Inertial cubature at one pose: its samples, their mixtures, and the fit (xu2016 §5.4).


#: Normalised forces (n, 3, t) and their projected sums (r, t).
Forces = tuple[NDArray[np.float32], Floats]


@dataclass(frozen=True)
class Draw:
    """Where samples of one pose come from."""

    rig: Rig
    pose: Floats
    mass: Floats
    basis: tuple[Floats, ...]
    regions: Sequence[Region]
    seed: int
    index: int

    def forces(self, count: int, *fresh: int) -> tuple[Forces, Forces]:
        """Normalised forces m_s a_s and their sums: of the rig's motion, and of the root's."""
        random = np.random.default_rng([self.seed, self.index, *fresh])
        own, velocities = pose_accelerations(self.rig, self.pose, count, random)
        whole = root_accelerations(self.rig(self.pose), velocities, random)
        return self._normalised(own), self._normalised(whole)

    def _normalised(self, accelerations: Floats) -> Forces:
        accelerations *= self.mass[:, None, None]
        forces, sums = normalised(self.basis, self.regions, accelerations)
        return forces.astype(np.float32), sums


class Mixed(NamedTuple):
    """Both kinds of forces of one pose, mixed: candidates' (k, 3, t′) and their sum (r, t′)."""

    forces: Floats
    target: Floats
    #: The forces themselves, where there is room for those of all poses.
    drawn: tuple[Forces, Forces] | None


def mixed_forces(draw: Draw, samples: int, mixtures: int, keep: bool) -> Mixed:
    kinds = draw.forces(samples)
    random = np.random.default_rng([draw.seed, draw.index, 3])
    inside = candidates(draw.regions)
    forces = np.zeros((3 * len(inside), mixtures))
    target = np.zeros((len(kinds[0][1]), mixtures))
    for own, sums in kinds:
        signs = random.choice([-1.0, 1.0], (sums.shape[1], mixtures)) / np.sqrt(mixtures)
        forces += own[inside].reshape(-1, len(signs)) @ signs.astype(np.float32)
        target += sums @ signs
    return Mixed(forces.reshape(-1, 3, mixtures), target, kinds if keep else None)


def fit_pose(
    draw: Draw, drawn: tuple[Forces, Forces], vertices: Ints, corrected: bool
) -> tuple[Floats, Floats, list[float]]:
    """Weights, corrections and errors (train, fresh, root) at one pose."""
    rows = rows_of(draw.basis, draw.regions, vertices)
    forces = np.concatenate([kind[0][vertices] for kind in drawn], axis=2).astype(np.float64)
    target = np.concatenate([kind[1] for kind in drawn], axis=1)
    weights = fit_vertices(rows, forces, target)
    blocks = weights[:, None, None] * rows
    added = np.zeros_like(blocks)
    if corrected:
        widths = [array.shape[2] for array in draw.basis]
        added = correction(rows, widths, forces, target - summed(blocks, forces))
    samples = drawn[0][1].shape[1]
    errors = [
        relative_error(total, summed(blocks + added, force[vertices].astype(np.float64)))
        for force, total in (drawn[0], *draw.forces(max(10, samples // 6), 1))
    ]
    return weights, added, errors


def relative_error(target: Floats, sums: Floats) -> float:
    """Root mean square over samples with force of the error; targets are normalised."""
    samples = max(1, int((target != 0).any(axis=0).sum()))
    return float(np.linalg.norm(sums - target) / np.sqrt(samples))


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
