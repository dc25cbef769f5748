"""Elastic cubature: a few weighted tets whose forces stand for all (xu2016 §5.3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.checks import checked_array
from supple.elastic.body import ElasticBody
from supple.errors import SuppleError, warn
from supple.linalg.fortran import single_threaded
from supple.reduction.cubature import pursue
from supple.reduction.cubature_fit import nonnegative_fit
from supple.reduction.cubature_forces import PoseForces
from supple.reduction.cubature_problem import ElasticProblem, reduced_columns
from supple.reduction.elastic_kernels import KEPT, REMAINDER, WHOLE
from supple.reduction.region import Region
from supple.reduction.samples import AMPLITUDE, checked_count, force_samples, reduced_stiffness

__all__ = ["ElasticCubature", "elastic_cubature", "fit_weights", "force_error"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
LocalBasis = Sequence[NDArray[np.float64]]
Progress = Callable[[float, str], None]

#: Samples for each weight and column, and at least so many: what keeps the error on fresh
#: samples below 1.5 times the training error on the published characters.
_SAMPLES_PER_WEIGHT = 40
_LEAST_SAMPLES = 60
_MOST_SAMPLES = 400
#: Mixtures of samples for each weight and column that tets are chosen with, and at least so many.
_MIXTURES_PER_WEIGHT = 8
_LEAST_MIXTURES = 20


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
        (m, r, r) ΔK_i = K̃_i − Σ v_e U_eᵀ K_e U_e at rest, by which cubature misses the exact
        reduced stiffness: forces are Σ v_e U_eᵀ f_e + ΔK q, and stiffnesses have ΔK added. Between
        poses ΔK is blended like the weights. None for the paper's forces, Σ v_e U_eᵀ f_e (eq. 21).
    train_errors, held_out_errors
        (m,) relative error ‖Av − b‖ / ‖b‖ of each pose, with every sample's rows divided by the
        norm of its force (eq. 18); on the samples of the fit, and on fresh ones.
    """

    tets: Ints
    weights: Floats
    corrections: Floats | None
    train_errors: Floats
    held_out_errors: Floats

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
    rests: Sequence[ArrayLike] | NDArray[np.float64],
    bases: Sequence[LocalBasis],
    regions: Sequence[Region],
    count: int,
    *,
    linear: Literal["cubature", "exact"] = "cubature",
    samples: int | None = None,
    amplitude: float = AMPLITUDE,
    stiffnesses: Sequence[Floats] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> ElasticCubature:
    """Choose cubature tets and fit their weights at every pose (xu2016 eq. 17–19).

    Tets are chosen by a thresholding pursuit (see `supple.reduction.cubature`) on random
    mixtures of the samples' forces, which embed them in fewer numbers; nothing but sums of
    element forces is ever formed for all tets. Weights are then fitted to all samples.

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
    linear
        ``"cubature"``: the paper's, Σ v_e U_eᵀ f_e. ``"exact"``: weights are fitted to what is
        left of forces without most of their linear part, and a correction ΔK makes the linear part
        exact at every pose. Small vibrations are then exact, and with the same tets errors were
        2 to 7 times smaller on the published characters.
    samples
        How many for each pose; by default enough for the number of weights.
    amplitude
        Largest displacement of a typical sample, as a part of the body's size.
    stiffnesses
        Reduced stiffnesses (r, r) at rest, if known already.
    seed
        The same seed gives the same bits, whatever the number of threads.
    progress
        Called with the part done, 0 to 1, and what is being done.
    """
    tell = progress or (lambda part, what: None)
    count = checked_count("the number of cubature tets", count)
    checked_count("the seed", seed, 0)
    _check_linear(linear)
    poses = _checked_poses(bodies, rests, bases, regions)
    if samples is None:
        wanted = -(-_SAMPLES_PER_WEIGHT * count // poses[0].rank)
        samples = min(_MOST_SAMPLES, max(_LEAST_SAMPLES, wanted))
    samples = checked_count("the number of samples", samples)
    mixtures = max(_LEAST_MIXTURES, -(-_MIXTURES_PER_WEIGHT * count // poses[0].rank))
    with single_threaded():
        stiff = _checked_stiffnesses(poses, stiffnesses)
        exact = stiff if linear == "exact" else None
        tell(0.0, "sampling elastic forces")
        drawn = [_draw(pose, stiff[i], samples, amplitude, seed, i) for i, pose in enumerate(poses)]
        problem = ElasticProblem(poses, drawn, min(samples, mixtures), seed, exact, tell)
        if count > problem.norms.shape[1]:
            warn(
                f"{count} cubature tets asked for and only {problem.norms.shape[1]} touch a "
                "region; all are used"
            )
        tell(0.5, "choosing cubature tets")
        tets = poses[0].tets[pursue(problem, count)]
        del problem
        tell(0.8, "fitting cubature weights")
        fits = [
            _fit(pose, tets, drawn[i], None if exact is None else exact[i])
            for i, pose in enumerate(poses)
        ]
        held = []
        for i, pose in enumerate(poses):
            q = _draw(pose, stiff[i], max(20, samples // 3), amplitude, seed, i, 1)
            approximate = _cubature(pose.only(tets), q, *fits[i][:2])
            held.append(_relative(pose.reduced(q), approximate))
    tell(1.0, f"{len(tets)} cubature tets")
    return ElasticCubature(
        tets,
        np.array([fit[0] for fit in fits]),
        None if exact is None else np.array([fit[1] for fit in fits]),
        np.array([fit[2] for fit in fits]),
        np.array(held),
    )


def fit_weights(
    body: ElasticBody,
    rest: ArrayLike,
    basis: LocalBasis,
    regions: Sequence[Region],
    tets: ArrayLike,
    samples: ArrayLike,
    *,
    linear: Literal["cubature", "exact"] = "cubature",
) -> tuple[Floats, Floats | None, float]:
    """Fit given tets at one pose (xu2016 eq. 19).

    Parameters are those of `force_error` and `elastic_cubature`.

    Returns
    -------
    weights, correction, error
        (c,) v ≥ 0; ΔK (r, r), or None for ``linear="cubature"``; and the relative error.
    """
    _check_linear(linear)
    pose = PoseForces.of(body, rest, basis, regions)
    chosen = PoseForces.of(body, rest, basis, regions, tets=tets).tets
    with single_threaded():
        K = pose.stiffness() if linear == "exact" else None
        return _fit(pose, chosen, _checked_samples(samples, pose), K)


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
    """Relative error of cubature at any pose: the root mean square over samples of ‖Δf̃‖/‖f̃‖.

    Parameters
    ----------
    body, rest, basis, regions
        The pose: material, rest shape (n, 3), localised basis.
    tets, weights
        (c,) cubature tets and their weights there.
    samples
        (r, t) reduced displacements, such as `force_samples` draws.
    correction
        ΔK (r, r) there, such as the blend of those at the poses; None for the paper's cubature.
    """
    pose = PoseForces.of(body, rest, basis, regions)
    chosen = PoseForces.of(body, rest, basis, regions, tets=tets)
    v = checked_array("cubature weights", weights, (len(chosen.tets),))
    if correction is not None:
        correction = checked_array("correction", correction, (pose.rank, pose.rank))
    q = _checked_samples(samples, pose)
    with single_threaded():
        return _relative(pose.reduced(q), _cubature(chosen, q, v, correction))


def _check_linear(linear: str) -> None:
    if linear not in ("cubature", "exact"):
        raise SuppleError(f'linear "{linear}"; use "cubature" or "exact"')


def _checked_poses(
    bodies: ElasticBody | Sequence[ElasticBody],
    rests: Sequence[ArrayLike] | NDArray[np.float64],
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


def _checked_stiffnesses(poses: list[PoseForces], given: Sequence[Floats] | None) -> list[Floats]:
    if given is None:
        return [reduced_stiffness(p.body, p.rest, p.basis, p.regions) for p in poses]
    if len(given) != len(poses):
        raise SuppleError(f"{len(given)} stiffnesses for {len(poses)} poses")
    shape = (poses[0].rank, poses[0].rank)
    return [checked_array(f"stiffness of pose {i}", K, shape) for i, K in enumerate(given)]


def _draw(
    pose: PoseForces, stiffness: Floats, count: int, amplitude: float, seed: int, *which: int
) -> Floats:
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


def _checked_samples(samples: ArrayLike, pose: PoseForces) -> Floats:
    shape = np.shape(samples)
    if len(shape) != 2 or shape[1] == 0:
        raise SuppleError(f"samples of shape {shape}; expected ({pose.rank}, t)")
    return checked_array("samples", samples, (pose.rank, shape[1]))


def _fit(
    pose: PoseForces, tets: Ints, q: Floats, stiffness: Floats | None
) -> tuple[Floats, Floats | None, float]:
    """Weights, correction and error, by the Gram matrix summed over chunks of samples."""
    chosen = pose.only(tets)
    total = pose.reduced(q)
    scale = 1 / np.linalg.norm(total, axis=0)
    target = (total if stiffness is None else total - (1 - KEPT) * stiffness @ q) * scale
    gram, right = np.zeros((len(tets), len(tets))), np.zeros(len(tets))
    for batch in chosen.of_part(WHOLE if stiffness is None else REMAINDER).batches(q):
        forces = batch.elements * scale[batch.samples]
        columns = reduced_columns(chosen.basis, chosen.regions, chosen.corners, forces)
        gram += columns @ columns.T
        right += columns @ target[:, batch.samples].ravel()
    weights = nonnegative_fit(gram, right)
    correction = None if stiffness is None else stiffness - chosen.stiffness(weights)
    return weights, correction, _relative(total, _cubature(chosen, q, weights, correction))


def _cubature(chosen: PoseForces, q: Floats, weights: Floats, correction: Floats | None) -> Floats:
    """Σ v_e U_eᵀ f_e + ΔK q, (r, t)."""
    forces = chosen.reduced(q, weights)
    return forces if correction is None else forces + correction @ q


def _relative(exact: Floats, approximate: Floats) -> float:
    norms = np.linalg.norm(exact, axis=0)
    if not (norms > 0).all():
        raise SuppleError("a sample makes no elastic force; draw others")
    return float(np.sqrt(((np.linalg.norm(approximate - exact, axis=0) / norms) ** 2).mean()))
