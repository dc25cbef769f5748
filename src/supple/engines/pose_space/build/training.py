"""Last stages of a build: training of the cubature, its errors, the report and the model."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from supple.anatomy.painted_material import interpolated_material
from supple.arrays import Floats
from supple.engines.pose_space.build.aligned_poses import split_basis
from supple.engines.pose_space.build.sampled_poses import Midpoint, SampledPoses
from supple.engines.pose_space.interpolation import column_scales
from supple.engines.pose_space.model.model import PoseSpaceModel, packed_products
from supple.errors import SuppleError
from supple.reduction.cubature.accuracy import blended_correction, force_error
from supple.reduction.cubature.elastic_cubature import Between, ElasticCubature, elastic_cubature
from supple.reduction.cubature.inertial_cubature import InertialCubature, inertial_cubature
from supple.reduction.cubature.samples import force_samples
from supple.reduction.cubature.training import MotionForces
from supple.reduction.regions.region import Region
from supple.reduction.regions.region_weights import stored_fraction
from supple.rig.protocol import Rig
from supple.rig.stored_rigs import GIVEN, stored_rigs
from supple.rig.tets.vertex_frames import unrotate_basis

#: Samples of forces at the poses at which cubature is tested.
_SAMPLES = 60
#: Error of a shaken body's forces, at poses or midpoints, above which modes are used instead: the
#: fit is then no better than none. A rat has 0.2, a bull 0.25. A swordfish has 0.99: its swimming
#: is off by 0.13, with modes by 0.17, and with modes its violent clips were unstable.
WELL_FITTED = 1.0


def train_model(
    sampled: SampledPoses, elastic_count: int, inertial_count: int, seed: int
) -> PoseSpaceModel | None:
    """Train cubature on all poses, test it between them, and make the model.

    Returns None if a shaken body's forces cannot be fitted well.
    """
    setup, aligned, log = sampled.setup, sampled.aligned, sampled.log
    tet_rig = setup.flesh.tet_rig
    recipe = setup.recipe
    bases = [aligned.world_bases(pose) for pose in range(sampled.n_poses)]
    # Forces are not tested where bases could not be compared.
    assessed = [midpoint for midpoint in sampled.midpoints if midpoint.assessment is not None]
    between = [_between(sampled, midpoint.pose, midpoint.ends) for midpoint in assessed]
    with log.stage("elastic cubature"):
        trained = _elastic(sampled, bases, between, assessed, elastic_count, seed)
    if trained is None:
        return None
    elastic, motions = trained
    with log.stage("inertial cubature"):
        inertial = inertial_cubature(
            tet_rig,
            sampled.weights.poses,
            bases,
            setup.regions,
            sampled.mass,
            inertial_count,
            fit=recipe.inertial_fit,
            selection=recipe.selection,
            root=recipe.train_root,
            shapes=None if motions is None else [(motion.shapes,) for motion in motions],
            seed=seed,
            threads=sampled.workers.threads if is_thread_safe(tet_rig) else None,
            progress=log.report,
        )
    with log.stage("cubature between poses"):
        errors: dict[str, Any] = {"forces": "samples" if motions is None else "motions"}
        if motions is None:
            errors |= _errors_between(sampled, elastic, assessed, between, seed)
        else:  # samples would measure another fit than that to motions
            worst = elastic.between_errors.max(initial=0.0) if assessed else None
            errors |= {"between_poses": worst, "retrained": None, "quarter_way": None}
    with log.stage("model"):
        return _model(sampled, elastic, inertial, errors, seed)


def _elastic(
    sampled: SampledPoses,
    bases: list[tuple[Floats, ...]],
    between: list[Between],
    assessed: list[Midpoint],
    count: int,
    seed: int,
) -> tuple[ElasticCubature, list[MotionForces] | None] | None:
    """Train elastic cubature on motions of the shaken body, or on samples for a basis of modes.

    Returns the cubature, and the motions at the poses or None. If motions cannot be fitted,
    for instance because the basis is too small, returns None instead of the pair.
    """
    train = partial(
        elastic_cubature,
        sampled.setup.elastic(sampled.materials),
        [model.rest for model in sampled.models],
        bases,
        sampled.setup.regions,
        count,
        between=between if sampled.setup.recipe.train_between else (),
        linear=sampled.setup.recipe.linear_forces,
        selection=sampled.setup.recipe.selection,
        seed=seed,
        threads=sampled.workers.threads,
        progress=sampled.log.report,
    )
    motions = sampled.motions(
        [basis[0] for basis in bases], assessed, [pose.basis[0] for pose in between]
    )
    if motions is not None:
        trained = train(motions=motions)
        if max(trained.held_out_error, trained.between_errors.max(initial=0.0)) < WELL_FITTED:
            return trained, motions[: sampled.n_poses]
    return (train(), None) if sampled.shapes is None else None


def is_thread_safe(rig: Rig) -> bool:
    """Return whether a rig may be called from several threads.

    Only Supple's rigs are known to have no state between calls.
    """
    try:
        header, _ = stored_rigs({"rig": rig})
    except SuppleError:
        return False
    return all(part["kind"] != GIVEN for part in header["parts"])


def _between(sampled: SampledPoses, pose: Floats, ends: tuple[int, int]) -> Between:
    """Return a pose between two sampled poses, with its interpolated basis."""
    setup, aligned = sampled.setup, sampled.aligned
    shares = sampled.weights(pose)
    (elastic,) = setup.elastic([interpolated_material(sampled.materials, shares)])
    rest = setup.flesh.tet_rig(pose)
    basis = split_basis(aligned.basis(shares, len(rest)), setup.regions, setup.modes)
    scales = column_scales(aligned.products, shares)
    return Between(elastic, rest, basis, ends, shares, scales)


def _errors_between(
    sampled: SampledPoses,
    elastic: ElasticCubature,
    assessed: list[Midpoint],
    between: list[Between],
    seed: int,
) -> dict[str, Any]:
    """Return errors of cubature between poses, and of cubature trained there alone (fig. 10).

    The latter is trained at the worst midpoint. A pose a quarter along the same edge, which no
    stage has used, is tested, too.
    """
    if not assessed:
        return {"between_poses": None, "retrained": None, "quarter_way": None}
    regions, errors = sampled.setup.regions, elastic.between_errors
    if not len(errors):  # cubature was trained at the poses alone
        errors = np.array([_error_at(pose, elastic, regions, seed) for pose in between])
    at = int(np.argmax(errors))
    worst, halfway = assessed[at], between[at]
    case = halfway.body, [halfway.rest], [halfway.basis], regions
    recipe = sampled.setup.recipe
    retrained = elastic_cubature(
        *case,
        len(elastic.tets),
        linear=recipe.linear_forces,
        selection=recipe.selection,
        seed=seed,
    )
    return {
        "between_poses": float(errors.max()),
        "retrained": retrained.held_out_error,
        "quarter_way": _quarter_way(sampled, elastic, worst.ends, seed),
        "worst_between": list(worst.edge),
    }


def _quarter_way(
    sampled: SampledPoses, elastic: ElasticCubature, ends: tuple[int, int], seed: int
) -> float | None:
    """Return the force error a quarter along an edge; None if tets are inverted or bases vanish."""
    poses, (i, j) = sampled.weights.poses, ends
    pose = 0.75 * poses[i] + 0.25 * poses[j]
    if len(sampled.setup.flesh.tet_rig.inversions(pose[None])[0]):
        return None
    try:
        return _error_at(_between(sampled, pose, ends), elastic, sampled.setup.regions, seed)
    except SuppleError:
        return None


def _error_at(
    pose: Between, elastic: ElasticCubature, regions: tuple[Region, ...], seed: int
) -> float:
    samples = force_samples(pose.body, pose.rest, pose.basis, regions, _SAMPLES, seed=seed + 1)
    weights = np.maximum(np.asarray(pose.shares) @ elastic.weights, 0.0)
    correction = None
    if elastic.corrections is not None:
        correction = blended_correction(elastic.corrections, elastic.ends, pose.shares, pose.scales)
    case = pose.body, pose.rest, pose.basis, regions
    return force_error(*case, elastic.tets, weights, samples, correction=correction)


def _model(
    sampled: SampledPoses,
    elastic: ElasticCubature,
    inertial: InertialCubature,
    errors: dict[str, Any],
    seed: int,
) -> PoseSpaceModel:
    setup, aligned = sampled.setup, sampled.aligned
    character, flesh = setup.character, setup.flesh
    packed, ends = None, elastic.ends
    if elastic.corrections is None:
        ends = ()
    else:
        packed = packed_products(elastic.corrections)
    return PoseSpaceModel.make(
        name=character.name,
        surface=character.surface,
        rig=character.rig,
        motions=character.motions,
        mesh=flesh.mesh,
        tet_rig=flesh.tet_rig,
        embedding=flesh.embedding,
        fixed=flesh.fixed,
        material=sampled.materials,
        pose_weights=sampled.weights,
        interpolation=aligned.variant,
        regions=setup.regions,
        bases=aligned.bases,
        rotations=aligned.rotations,
        root_eigenvalues=aligned.eigenvalues,
        mass_products=aligned.products,
        elastic_tets=elastic.tets,
        elastic_weights=elastic.weights,
        stiffness_corrections=packed,
        correction_ends=np.array(ends, np.int64).reshape(-1, 2),
        trained_energies=elastic.trained_energies,
        inertial_vertices=inertial.vertices,
        inertial_weights=inertial.weights,
        inertial_corrections=_in_frames(sampled, inertial),
        parents=aligned.parents,
        seed=seed,
        report=_report(sampled, elastic, inertial, errors),
    )


def _in_frames(sampled: SampledPoses, inertial: InertialCubature) -> Floats | None:
    """Return corrections of basis rows (m, c, 3, r) in the frames of the bases, or None."""
    rotations = sampled.aligned.rotations
    if inertial.corrections is None or rotations is None:
        return inertial.corrections
    pairs = zip(rotations[:, inertial.vertices], inertial.corrections, strict=True)
    return np.array([unrotate_basis(quaternions, rows) for quaternions, rows in pairs])


def _report(
    sampled: SampledPoses,
    elastic: ElasticCubature,
    inertial: InertialCubature,
    errors: dict[str, Any],
) -> dict[str, Any]:
    """Return the figures of a build for the model's report; equal seeds give equal figures."""
    setup, aligned = sampled.setup, sampled.aligned
    angles = np.degrees(aligned.angles)
    rows = _pose_rows(sampled, elastic)
    ratios = [row["frequency_ratio"] for row in rows if row["frequency_ratio"] is not None]
    free = len(setup.flesh.mesh.vertices) - len(setup.flesh.fixed)
    return _plain(
        {
            "name": setup.character.name,
            "tets": len(setup.flesh.mesh.tets),
            "tet_vertices": len(setup.flesh.mesh.vertices),
            "fixed_vertices": len(setup.flesh.fixed),
            "surface_vertices": len(setup.character.surface.vertices),
            "poses": sampled.n_poses,
            "modes": aligned.n_columns,
            "shaken_poses": sampled.n_shaken,
            "regions": [
                {"name": region.name, "vertices": len(region.vertices), "modes": count}
                for region, count in zip(setup.regions, setup.modes, strict=True)
            ],
            "elastic_tets": len(elastic.tets),
            "inertial_vertices": len(inertial.vertices),
            "elastic_error": {
                "train": elastic.train_error,
                "held_out": elastic.held_out_error,
                **errors,
            },
            "inertial_error": {
                "train": inertial.train_error,
                "held_out": inertial.held_out_error,
                "root": inertial.root_error,
            },
            "subspace_angles": {
                "median": [float(np.median(angles[i])) for i in range(1, len(angles))],
                "largest": [float(angles[i].max()) for i in range(1, len(angles))],
            },
            "mid_pose_frequency_ratio": max(ratios, default=None),
            "mid_poses": [_midpoint_row(midpoint) for midpoint in sampled.midpoints],
            "contacts": {
                name: 0 if model.contacts is None else len(model.contacts)
                for name, model in zip(sampled.weights.names, sampled.models, strict=True)
            },
            "stored_fraction": stored_fraction(setup.regions, setup.modes, free),
            "pose_rows": rows,
        }
    )


def _pose_rows(sampled: SampledPoses, elastic: ElasticCubature) -> list[dict[str, Any]]:
    names, parents = sampled.weights.names, sampled.aligned.parents
    ratios = {
        midpoint.edge: midpoint.worst for midpoint in sampled.midpoints if midpoint.assessment
    }
    return [
        {
            "name": name,
            "parent": names[parents[i]] if parents[i] >= 0 else None,
            "contacts": 0 if model.contacts is None else len(model.contacts),
            "constraints": model.constraints,
            "angle_degrees": float(np.degrees(np.median(sampled.aligned.angles[i]))),
            "elastic_error": float(elastic.train_errors[i]),
            "frequency_ratio": ratios.get((names[parents[i]], name)) if parents[i] >= 0 else None,
        }
        for i, (name, model) in enumerate(zip(names, sampled.models, strict=True))
    ]


def _midpoint_row(midpoint: Midpoint) -> dict[str, Any]:
    assessment = midpoint.assessment
    row: dict[str, Any] = {"between": list(midpoint.edge)}
    if midpoint.trouble is not None:
        row["trouble"] = midpoint.trouble
    if midpoint.model is not None:
        row["constraints"] = midpoint.model.constraints
    if assessment is not None:
        angles = np.degrees(assessment.angles)
        row |= {
            "to_recomputed": assessment.to_recomputed,
            "to_exact": assessment.to_exact,
            "angle_degrees": {"median": float(np.median(angles)), "largest": float(angles.max())},
        }
    return row


def _plain(value: Any) -> Any:
    """Return a value for JSON, with numbers rounded to six digits."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(each) for each in value]
    if isinstance(value, float | np.floating):
        return float(f"{value:.6g}")
    return int(value) if isinstance(value, np.integer) else value
