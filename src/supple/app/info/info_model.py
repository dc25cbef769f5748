"""Description of a model file for `supple info`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

#: Figures of the report that say how good a model is.
FIGURES = ("elastic_error", "inertial_error", "mid_pose_frequency_ratio", "subspace_angles")


def describe_model(path: Path) -> dict[str, Any]:
    """A model's sizes, poses, regions and errors, as plain values."""
    from supple.engines.factory import load_model

    model = load_model(path)
    if model.engine != "pose-space":
        low, high = model.surface.bounds
        return {
            "format": "Supple model",
            "size": [float(f"{value:.5g}") for value in high - low],
            "engine": model.engine,
            "name": model.name,
            "surface_vertices": len(model.surface.vertices),
            "parameters": len(model.rig.parameters),
            "motions": _motions(model),
            "figures": dict(model.figures),
        }
    low, high = model.surface.bounds
    n_tets = len(model.mesh.tets)
    entries = sum(basis[0].size for basis in model.bases)
    return {
        "format": "Supple model",
        "size": [float(f"{value:.5g}") for value in high - low],
        "model": {
            "name": model.name,
            "seed": model.seed,
            "surface_vertices": len(model.surface.vertices),
            "tet_vertices": len(model.mesh.vertices),
            "tets": n_tets,
            "fixed_vertices": len(model.fixed),
            "parameters": len(model.rig.parameters),
            "material": model.material_kind,
            "painted": [name for name in ("young", "poisson") if np.ndim(getattr(model, name))],
            "interpolation": model.interpolation,
            "modes": model.n_modes,
            "stored_fraction": entries / (3 * len(model.mesh.vertices) * model.n_modes),
            "elastic_cubature": len(model.elastic_tets),
            "inertial_cubature": len(model.inertial_vertices),
        },
        "poses": list(model.pose_names),
        "regions": [
            {"name": region.name, "vertices": len(region.vertices), "modes": basis.shape[3]}
            for region, basis in zip(model.regions, model.bases, strict=True)
        ],
        "motions": _motions(model),
        "bytes_by_part": model.sizes(),
        "report": dict(model.report),
    }


def _motions(model: Any) -> list[dict[str, Any]]:
    return [
        {"name": name, "seconds": round(motion.duration, 4), "keys": motion.n_frames}
        for name, motion in model.motions.items()
    ]


def engine_lines(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Give titles and texts of a model of any engine, for people."""
    yield "model", f"{found['name']}, for the engine {found['engine']}"
    yield "surface", f"{found['surface_vertices']:,} vertices, {found['parameters']} parameters"
    for name, value in found["figures"].items():
        yield name.replace("_", " "), _figures(value)
    for motion in found["motions"]:
        yield "motion", f"{motion['name']}: {motion['seconds']:.3g} s, {motion['keys']} keys"


def model_lines(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Give titles and texts of a described model, for people."""
    model = found["model"]
    yield "model", f"{model['name']}, {model['material']}, interpolated in {model['interpolation']}"
    yield "surface", f"{model['surface_vertices']:,} vertices, {model['parameters']} parameters"
    held = f"{model['fixed_vertices']:,} held by bones"
    yield "tets", f"{model['tets']:,} tets, {model['tet_vertices']:,} vertices, {held}"
    yield "poses", f"{len(found['poses'])}: {', '.join(found['poses'])}"
    share = 100 * model["stored_fraction"]
    yield "modes", f"{model['modes']}, {share:.0f} % of the dense entries stored"
    for region in found["regions"]:
        yield (
            "region",
            f"{region['name']}: {region['vertices']:,} vertices, {region['modes']} modes",
        )
    points = f"{model['elastic_cubature']} tets, {model['inertial_cubature']} vertices"
    yield "cubature", points
    for motion in found["motions"]:
        yield "motion", f"{motion['name']}: {motion['seconds']:.3g} s, {motion['keys']} keys"
    for part, size in found["bytes_by_part"].items():
        if size >= 0.01 * found["bytes"]:
            yield "megabytes", f"{size / 1e6:.3f} {part}"
    for name in FIGURES:
        if name in found["report"]:
            yield name.replace("_", " "), _figures(found["report"][name])


def _figures(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name.replace('_', ' ')} {_figures(own)}" for name, own in value.items())
    if isinstance(value, list):
        return " ".join(_figures(own) for own in value[:12]) + (" …" if len(value) > 12 else "")
    return f"{value:.3g}" if isinstance(value, float) else str(value)
