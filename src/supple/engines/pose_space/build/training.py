"""The last stages of a build: cubature, how well it does, and the model."""

from __future__ import annotations

from typing import Any

import numpy as np

from supple.anatomy.painted_material import interpolated_material
from supple.arrays import Floats
from supple.engines.pose_space.build.assessment import split_basis
from supple.engines.pose_space.build.pose_family import Middle, PoseFamily
from supple.engines.pose_space.interpolation import column_scales
from supple.engines.pose_space.model.built_fields import packed_products
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.errors import SuppleError
from supple.reduction.cubature.accuracy import blended_correction, force_error
from supple.reduction.cubature.elastic_cubature import Between, ElasticCubature, elastic_cubature
from supple.reduction.cubature.inertial_cubature import InertialCubature, inertial_cubature
from supple.reduction.cubature.samples import force_samples
from supple.reduction.regions.region import Region
from supple.reduction.regions.region_weights import stored_fraction
from supple.rig.protocol import Rig
from supple.rig.stored.rigs import GIVEN, stored_rigs
from supple.rig.tets.vertex_frames import unrotate

__all__ = ['build_report', 'finish']


# ----------------------------------------------------------------------------
# The figures of a build that a model takes along.


def build_report(
    family: PoseFamily,
    elastic: ElasticCubature,
    inertial: InertialCubature,
    tried: dict[str, Any],
) -> dict[str, Any]:
    """Figures that are the same for the same seed."""
    body, agreement = family.body, family.agreement
    angles = np.degrees(agreement.angles)
    rows = _pose_rows(family, elastic)
    ratios = [row["frequency_ratio"] for row in rows if row["frequency_ratio"] is not None]
    free = len(body.flesh.mesh.vertices) - len(body.flesh.fixed)
    return _plain(
        {
            "name": body.character.name,
            "tets": len(body.flesh.mesh.tets),
            "tet_vertices": len(body.flesh.mesh.vertices),
            "fixed_vertices": len(body.flesh.fixed),
            "surface_vertices": len(body.character.surface.vertices),
            "poses": family.n_poses,
            "modes": agreement.n_columns,
            "regions": [
                {"name": region.name, "vertices": len(region.vertices), "modes": count}
                for region, count in zip(body.regions, body.modes, strict=True)
            ],
            "elastic_tets": len(elastic.tets),
            "inertial_vertices": len(inertial.vertices),
            "elastic_error": {
                "train": elastic.train_error,
                "held_out": elastic.held_out_error,
                **tried,
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
            "mid_poses": [_middle_row(middle) for middle in family.middles],
            "contacts": {
                name: 0 if model.contacts is None else len(model.contacts)
                for name, model in zip(family.weights.names, family.models, strict=True)
            },
            "stored_fraction": stored_fraction(body.regions, body.modes, free),
            "pose_rows": rows,
        }
    )


def _pose_rows(family: PoseFamily, elastic: ElasticCubature) -> list[dict[str, Any]]:
    names, parents = family.weights.names, family.agreement.parents
    ratios = {middle.edge: middle.worst for middle in family.middles if middle.assessment}
    return [
        {
            "name": name,
            "parent": names[parents[i]] if parents[i] >= 0 else None,
            "contacts": 0 if model.contacts is None else len(model.contacts),
            "constraints": model.constraints,
            "angle_degrees": float(np.degrees(np.median(family.agreement.angles[i]))),
            "elastic_error": float(elastic.train_errors[i]),
            "frequency_ratio": ratios.get((names[parents[i]], name)) if parents[i] >= 0 else None,
        }
        for i, (name, model) in enumerate(zip(names, family.models, strict=True))
    ]


def _middle_row(middle: Middle) -> dict[str, Any]:
    found = middle.assessment
    row: dict[str, Any] = {"between": list(middle.edge)}
    if middle.trouble is not None:
        row["trouble"] = middle.trouble
    if middle.model is not None:
        row["constraints"] = middle.model.constraints
    if found is not None:
        angles = np.degrees(found.angles)
        row |= {
            "to_recomputed": found.to_recomputed,
            "to_exact": found.to_exact,
            "angle_degrees": {"median": float(np.median(angles)), "largest": float(angles.max())},
        }
    return row


def _plain(value: Any) -> Any:
    """As JSON holds it, six digits of every number: a report, not data."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(each) for each in value]
    if isinstance(value, float | np.floating):
        return float(f"{value:.6g}")
    return int(value) if isinstance(value, np.integer) else value




#: Samples of forces at poses that cubature is tried at.
_SAMPLES = 60


def finish(
    family: PoseFamily, elastic_count: int, inertial_count: int, seed: int
) -> PoseSpaceModel:
    """Train cubature on all poses, try it between them, and put the model together."""
    body, agreement, log = family.body, family.agreement, family.log
    tet_rig = body.flesh.tet_rig
    bases = [agreement.world_bases(pose) for pose in range(family.n_poses)]
    # Where bases could not even be compared, forces that are blended mean nothing either.
    sound = [middle for middle in family.middles if middle.assessment is not None]
    between = [_between(family, middle.pose, middle.ends) for middle in sound]
    with log.stage("elastic cubature"):
        elastic = elastic_cubature(
            body.elastic(family.materials),
            [model.rest for model in family.models],
            bases,
            body.regions,
            elastic_count,
            between=between,
            linear="exact",
            seed=seed,
            threads=family.workers.threads,
            progress=log.tell,
        )
    with log.stage("inertial cubature"):
        inertial = inertial_cubature(
            tet_rig,
            family.weights.poses,
            bases,
            body.regions,
            family.mass,
            inertial_count,
            seed=seed,
            threads=family.workers.threads if may_run_beside_itself(tet_rig) else None,
            progress=log.tell,
        )
    with log.stage("cubature between poses"):
        tried = _tried_between(family, elastic, sound, between, seed)
    with log.stage("model"):
        return _model(family, elastic, inertial, tried, seed)


def may_run_beside_itself(rig: Rig) -> bool:
    """Whether a rig may be called from several threads: all of it is Supple's own.

    Nobody knows what somebody else's class keeps from call to call.
    """
    try:
        header, _ = stored_rigs({"rig": rig})
    except SuppleError:
        return False
    return all(part["kind"] != GIVEN for part in header["parts"])


def _between(family: PoseFamily, pose: Floats, ends: tuple[int, int]) -> Between:
    """A pose between two of the family, with the basis that is interpolated there."""
    body, agreement = family.body, family.agreement
    shares = family.weights(pose)
    (elastic,) = body.elastic([interpolated_material(family.materials, shares)])
    rest = body.flesh.tet_rig(pose)
    basis = split_basis(agreement.basis(shares, len(rest)), body.regions, body.modes)
    scales = column_scales(agreement.products, shares)
    return Between(elastic, rest, basis, ends, shares, scales)


def _tried_between(
    family: PoseFamily,
    elastic: ElasticCubature,
    sound: list[Middle],
    between: list[Between],
    seed: int,
) -> dict[str, Any]:
    """The worst pose between once more with cubature trained there alone (xu2016 fig. 10).

    And a quarter of the way along the same edge, a pose that no stage has seen.
    """
    if not sound:
        return {"between_poses": None, "retrained": None, "quarter_way": None}
    at = int(np.argmax(elastic.between_errors))
    worst, halfway, regions = sound[at], between[at], family.body.regions
    alone = elastic_cubature(
        halfway.body,
        [halfway.rest],
        [halfway.basis],
        regions,
        len(elastic.tets),
        linear="exact",
        seed=seed,
    )
    return {
        "between_poses": float(elastic.between_errors.max()),
        "retrained": alone.held_out_error,
        "quarter_way": _quarter_way(family, elastic, worst.ends, seed),
        "worst_between": list(worst.edge),
    }


def _quarter_way(
    family: PoseFamily, elastic: ElasticCubature, ends: tuple[int, int], seed: int
) -> float | None:
    """The error there, None where tets are inverted or bases vanish: a figure ends no build."""
    poses, (i, j) = family.weights.poses, ends
    pose = 0.75 * poses[i] + 0.25 * poses[j]
    if len(family.body.flesh.tet_rig.inversions(pose[None])[0]):
        return None
    try:
        return _error_at(_between(family, pose, ends), elastic, family.body.regions, seed)
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
    return force_error(
        pose.body,
        pose.rest,
        pose.basis,
        regions,
        elastic.tets,
        weights,
        samples,
        correction=correction,
    )


def _model(
    family: PoseFamily,
    elastic: ElasticCubature,
    inertial: InertialCubature,
    tried: dict[str, Any],
    seed: int,
) -> PoseSpaceModel:
    body, agreement = family.body, family.agreement
    character, flesh = body.character, body.flesh
    return PoseSpaceModel.make(
        name=character.name,
        surface=character.surface,
        rig=character.rig,
        motions=character.motions,
        mesh=flesh.mesh,
        tet_rig=flesh.tet_rig,
        embedding=flesh.embedding,
        fixed=flesh.fixed,
        material=family.materials,
        pose_weights=family.weights,
        interpolation=agreement.variant,
        regions=body.regions,
        bases=agreement.bases,
        rotations=agreement.rotations,
        root_eigenvalues=agreement.eigenvalues,
        mass_products=agreement.products,
        elastic_tets=elastic.tets,
        elastic_weights=elastic.weights,
        stiffness_corrections=_packed(elastic.corrections),
        correction_ends=np.array(elastic.ends, np.int64).reshape(-1, 2),
        inertial_vertices=inertial.vertices,
        inertial_weights=inertial.weights,
        inertial_corrections=_in_frames(family, inertial),
        parents=agreement.parents,
        seed=seed,
        report=build_report(family, elastic, inertial, tried),
    )


def _packed(matrices: Floats | None) -> Floats | None:
    return None if matrices is None else packed_products(matrices)


def _in_frames(family: PoseFamily, inertial: InertialCubature) -> Floats | None:
    """Corrections of basis rows (m, c, 3, r), turned back as the basis is."""
    turns = family.agreement.rotations
    if inertial.corrections is None or turns is None:
        return inertial.corrections
    pairs = zip(turns[:, inertial.vertices], inertial.corrections, strict=True)
    return np.array([unrotate(turn, rows) for turn, rows in pairs])
