"""Descriptions of models, elastic bodies and VegaFEM files for `supple info`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from supple.errors import FormatError, SuppleError
from supple.formats.registry import MODAL_MATRIX_SUFFIXES

if TYPE_CHECKING:
    from supple.formats.meshes.veg import VegFile

#: Most frequencies in a printed line.
SHOWN = 8


def rounded(values: Iterable[float]) -> list[float]:
    """Return numbers with five significant digits."""
    return [float(f"{value:.5g}") for value in values]


def printable(text: str) -> str:
    """Replace control characters by question marks; names come from files."""
    return "".join(c if c.isprintable() else "?" for c in text)


def describe_stvk_file(path: Path) -> dict[str, Any]:
    """Return sizes, frequencies and materials of a body or a VegaFEM file, as plain values."""
    return STVK_FILES[path.suffix.lower()](path)


def _body(path: Path) -> dict[str, Any]:
    from supple.app.bodies.make_body import body_frequencies
    from supple.engines.stvk.model import StvkModel

    model = StvkModel.load(path)
    low, high = model.surface.bounds
    groups = model.groups
    counts = np.bincount(groups.of_element, minlength=len(groups))
    try:
        frequencies = body_frequencies(model).tolist()
    except SuppleError as error:
        raise FormatError(f"{path.name}: {error}") from None
    return {
        "format": "Supple elastic body (StVK)",
        "size": rounded(high - low),
        "body": {
            "vertices": len(model.rest),
            "held": int((~model.basis.any(axis=(1, 2))).sum()),
            "elements": len(groups.of_element),
            "modes": model.modes,
            "surface_vertices": len(model.surface.vertices),
            "triangles": len(model.surface.triangles),
        },
        "frequencies_hz": rounded(frequencies),
        "materials": [
            {
                "name": f"group {number}",
                "elements": int(counts[number]),
                "young": float(groups.young[number]),
                "poisson": float(groups.poisson[number]),
                "density": float(groups.density[number]),
            }
            for number in range(len(groups))
        ],
    }


def _polynomials(path: Path) -> dict[str, Any]:
    from supple.formats.vega.reduced_files import read_cub

    force = read_cub(path)
    linear = (force.linear + force.linear.T) / 2
    asymmetry = float(np.abs(force.linear - force.linear.T).max())
    squares = np.linalg.eigvalsh(linear)
    defects = []
    if asymmetry > 1e-6 * float(np.abs(linear).max()):
        what = "has linear coefficients that are not symmetric"
        defects.append({"what": what, "consequence": "the force has no potential energy"})
    if squares[0] <= 0:
        defects.append(
            {"what": "has zero or negative stiffness at rest", "consequence": "it may drift"}
        )
    return {
        "format": "VegaFEM reduced StVK force",
        "polynomials": {
            "modes": force.r,
            "linear": force.linear.size,
            "quadratic": force.quadratic.size,
            "cubic": force.cubic.size,
        },
        # VegaFEM's modes have unit mass: eigenvalues of the stiffness are squared frequencies.
        "frequencies_hz": rounded(np.sqrt(np.maximum(squares, 0.0)) / (2 * np.pi)),
        "defects": defects,
    }


def _matrix(path: Path) -> dict[str, Any]:
    from supple.formats.vega.reduced_files import read_modal_matrix

    basis = read_modal_matrix(path)
    columns = basis.reshape(-1, basis.shape[2]).astype(np.float64)
    sizes = np.abs(columns).max(axis=0)
    still = np.flatnonzero(sizes == 0)
    defects = []
    if len(still):
        defects.append(
            {
                "what": f"has {len(still)} modes that move nothing (first: mode {still[0]})",
                "consequence": "no model can be built with it; remove these modes",
            }
        )
    return {
        "format": "VegaFEM modal matrix",
        "matrix": {
            "vertices": len(basis),
            "modes": basis.shape[2],
            "held": int((~basis.any(axis=(1, 2))).sum()),
            "precision": str(basis.dtype),
            "largest": float(sizes.max()),
        },
        "defects": defects,
    }


def _list(path: Path) -> dict[str, Any]:
    from supple.formats.meshes.veg import read_bou

    held = read_bou(path)
    first, last = (int(held[0]), int(held[-1])) if len(held) else (None, None)
    return {
        "format": "VegaFEM fixed vertices",
        "fixed": {"vertices": len(held), "first": first, "last": last},
    }


#: Functions that describe a file, by suffix.
STVK_FILES: dict[str, Callable[[Path], dict[str, Any]]] = {
    ".stvk": _body,
    ".cub": _polynomials,
    **dict.fromkeys(MODAL_MATRIX_SUFFIXES, _matrix),
    ".bou": _list,
}


def materials_of(veg: VegFile[Any]) -> list[dict[str, Any]]:
    """Return materials of a .veg file, with their numbers of elements."""
    from supple.formats.vega.vega_model import veg_material_groups

    groups = veg_material_groups(veg)
    return [
        {
            "name": name,
            "kind": material.kind,
            "elements": int((groups == number).sum()),
            "young": material.young,
            "poisson": material.poisson,
            "density": material.density,
        }
        for number, (name, material) in enumerate(veg.materials.items())
    ]


def stvk_lines(described: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield titles and texts of the result of `describe_stvk_file`."""
    if "body" in described:
        b = described["body"]
        fixed_text = f"{b['held']:,} held" if b["held"] else "free"
        yield "elements", f"{b['elements']:,} elements, {b['vertices']:,} vertices, {fixed_text}"
        yield "modes", str(b["modes"])
        yield "surface", f"{b['surface_vertices']:,} vertices, {b['triangles']:,} triangles"
    if "polynomials" in described:
        p = described["polynomials"]
        counts = ", ".join(f"{p[part]:,} {part}" for part in ("linear", "quadratic", "cubic"))
        yield "modes", str(p["modes"])
        yield "coefficients", counts
    if "matrix" in described:
        m = described["matrix"]
        yield "modes", f"{m['modes']} of {m['vertices']:,} vertices, {m['precision']}"
        yield "held", f"{m['held']:,} vertices do not move"
    if "fixed" in described:
        f = described["fixed"]
        numbers = f", {f['first']} to {f['last']} counted from 0" if f["vertices"] else ""
        yield "held", f"{f['vertices']:,} vertices{numbers}"
    if "frequencies_hz" in described:
        listed = " ".join(f"{value:.3g}" for value in described["frequencies_hz"][:SHOWN])
        more = " …" if len(described["frequencies_hz"]) > SHOWN else ""
        unit = " (if modes have unit mass)" if "polynomials" in described else ""
        yield "hertz", f"{listed}{more}{unit}"
    for material in described.get("materials", ()):
        yield "material", _material(material)


def _material(material: dict[str, Any]) -> str:
    text = f"{material['name']}: {material['elements']:,} elements, {material['density']:g} kg/m³"
    if material["young"] is None:
        return f"{text}, {material['kind']}"
    return f"{text}, Young {material['young']:.4g} Pa, Poisson {material['poisson']:g}"


# Models of characters --------------------------------------------------------------------------

#: Error figures of the report.
FIGURES = ("elastic_error", "inertial_error", "mid_pose_frequency_ratio", "subspace_angles")


def describe_model(path: Path) -> dict[str, Any]:
    """Return a model's sizes, poses, regions and errors, as plain values."""
    from supple.engines.factory import load_model

    model = load_model(path)
    low, high = model.surface.bounds
    common = {"format": "Supple model", "size": rounded(high - low)}
    motions = [
        {"name": name, "seconds": round(motion.duration, 4), "keys": motion.n_frames}
        for name, motion in model.motions.items()
    ]
    if model.engine != "pose-space":
        return common | {
            "engine": model.engine,
            "name": model.name,
            "surface_vertices": len(model.surface.vertices),
            "parameters": len(model.rig.parameters),
            "motions": motions,
            "figures": dict(model.figures),
        }
    entries = sum(basis[0].size for basis in model.bases)
    return common | {
        "model": {
            "name": model.name,
            "seed": model.seed,
            "surface_vertices": len(model.surface.vertices),
            "tet_vertices": len(model.mesh.vertices),
            "tets": len(model.mesh.tets),
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
        "motions": motions,
        "bytes_by_part": model.sizes(),
        "report": dict(model.report),
    }


def engine_lines(described: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield titles and texts of the result of `describe_model` for engines except pose-space."""
    yield "model", f"{described['name']}, engine {described['engine']}"
    yield _surface_line(described)
    for name, value in described["figures"].items():
        yield name.replace("_", " "), _figures(value)
    yield from _motion_lines(described)


def _surface_line(model: dict[str, Any]) -> tuple[str, str]:
    return "surface", f"{model['surface_vertices']:,} vertices, {model['parameters']} parameters"


def _motion_lines(described: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for motion in described["motions"]:
        yield "motion", f"{motion['name']}: {motion['seconds']:.3g} s, {motion['keys']} keys"


def model_lines(described: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield titles and texts of the result of `describe_model` for a pose-space model."""
    from supple.engines.common.accuracy import accuracy_words

    model = described["model"]
    yield "model", f"{model['name']}, {model['material']}, interpolated in {model['interpolation']}"
    yield _surface_line(model)
    fixed_text = f"{model['fixed_vertices']:,} held by bones"
    yield "tets", f"{model['tets']:,} tets, {model['tet_vertices']:,} vertices, {fixed_text}"
    yield "poses", f"{len(described['poses'])}: {', '.join(described['poses'])}"
    share = 100 * model["stored_fraction"]
    yield "modes", f"{model['modes']}, {share:.0f} % of the dense entries stored"
    for region in described["regions"]:
        counts = f"{region['vertices']:,} vertices, {region['modes']} modes"
        yield "region", f"{region['name']}: {counts}"
    points = f"{model['elastic_cubature']} tets, {model['inertial_cubature']} vertices"
    yield "cubature", points
    yield from _motion_lines(described)
    for part, size in described["bytes_by_part"].items():
        if size >= 0.01 * described["bytes"]:
            yield "megabytes", f"{size / 1e6:.3f} {part}"
    if words := accuracy_words(described["report"]):
        yield "accuracy", words
    for name in FIGURES:
        if name in described["report"]:
            yield name.replace("_", " "), _figures(described["report"][name])


def _figures(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(
            f"{name.replace('_', ' ')} {_figures(each)}" for name, each in value.items()
        )
    if isinstance(value, list):
        return " ".join(_figures(each) for each in value[:12]) + (" …" if len(value) > 12 else "")
    return f"{value:.3g}" if isinstance(value, float) else str(value)
