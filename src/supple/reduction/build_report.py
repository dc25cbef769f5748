"""The figures of a build that a model takes along."""

from __future__ import annotations

from typing import Any

import numpy as np

from supple.reduction.elastic_cubature import ElasticCubature
from supple.reduction.inertial_cubature import InertialCubature
from supple.reduction.pose_family import Middle, PoseFamily
from supple.reduction.regions import stored_fraction

__all__ = ["build_report"]


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
