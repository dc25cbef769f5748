"""Descriptions of elastic bodies, and of VegaFEM's files, for `supple info`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from supple.errors import FormatError, SuppleError
from supple.formats.registry import MODAL_MATRIX_SUFFIXES

if TYPE_CHECKING:
    from supple.formats.meshes.veg import VegFile
    from supple.mesh.hexes import HexMesh

#: Frequencies that a person is shown.
SHOWN = 8


def describe_stvk_file(path: Path) -> dict[str, Any]:
    """Return sizes, frequencies and materials of a body or of a part of one, as plain values."""
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
        "size": [float(f"{value:.5g}") for value in high - low],
        "body": {
            "vertices": len(model.rest),
            "held": int((~model.basis.any(axis=(1, 2))).sum()),
            "elements": len(groups.of_element),
            "modes": model.modes,
            "surface_vertices": len(model.surface.vertices),
            "triangles": len(model.surface.triangles),
        },
        "frequencies_hz": [float(f"{value:.5g}") for value in frequencies],
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
    apart = float(np.abs(force.linear - force.linear.T).max())
    squares = np.linalg.eigvalsh(linear)
    defects = []
    if apart > 1e-6 * float(np.abs(linear).max()):
        what = "has linear coefficients that are not symmetric"
        defects.append({"what": what, "consequence": "its force has no energy"})
    if squares[0] <= 0:
        defects.append(
            {"what": "is not stiff at rest in every direction", "consequence": "it may drift"}
        )
    return {
        "format": "VegaFEM reduced StVK force",
        "polynomials": {
            "modes": force.r,
            "linear": force.linear.size,
            "quadratic": force.quadratic.size,
            "cubic": force.cubic.size,
        },
        # With modes of unit mass, as VegaFEM's are, stiffness is frequency.
        "frequencies_hz": [
            float(f"{value:.5g}") for value in np.sqrt(np.maximum(squares, 0.0)) / (2 * np.pi)
        ],
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
                "consequence": "no model can be made in it; leave them out",
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
    from supple.formats.vega.bou import read_bou

    held = read_bou(path)
    first, last = (int(held[0]), int(held[-1])) if len(held) else (None, None)
    return {
        "format": "VegaFEM fixed vertices",
        "fixed": {"vertices": len(held), "first": first, "last": last},
    }


#: How files are described, by their ending.
STVK_FILES: dict[str, Callable[[Path], dict[str, Any]]] = {
    ".stvk": _body,
    ".cub": _polynomials,
    **dict.fromkeys(MODAL_MATRIX_SUFFIXES, _matrix),
    ".bou": _list,
}


def hex_parts(mesh: HexMesh) -> dict[str, Any]:
    """Return the sizes of a mesh of hexahedra."""
    low, high = mesh.bounds
    return {
        "size": [float(f"{value:.5g}") for value in high - low],
        "hexes": {
            "vertices": len(mesh.vertices),
            "hexes": len(mesh.hexes),
            "cubic_metres": float(mesh.volumes().sum()),
        },
    }


def materials_of(veg: VegFile[Any]) -> list[dict[str, Any]]:
    """Return materials of a .veg file, with how many elements each has."""
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


def stvk_lines(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Give titles and texts of a described body or part, for people."""
    if "body" in found:
        b = found["body"]
        held = f"{b['held']:,} held" if b["held"] else "free"
        yield "elements", f"{b['elements']:,} elements, {b['vertices']:,} vertices, {held}"
        yield "modes", str(b["modes"])
        yield "surface", f"{b['surface_vertices']:,} vertices, {b['triangles']:,} triangles"
    if "polynomials" in found:
        p = found["polynomials"]
        counts = ", ".join(f"{p[part]:,} {part}" for part in ("linear", "quadratic", "cubic"))
        yield "modes", str(p["modes"])
        yield "coefficients", counts
    if "matrix" in found:
        m = found["matrix"]
        yield "modes", f"{m['modes']} of {m['vertices']:,} vertices, {m['precision']}"
        yield "held", f"{m['held']:,} vertices do not move"
    if "fixed" in found:
        f = found["fixed"]
        numbers = f", {f['first']} to {f['last']} counted from 0" if f["vertices"] else ""
        yield "held", f"{f['vertices']:,} vertices{numbers}"
    if "hexes" in found:
        h = found["hexes"]
        counts = f"{h['hexes']:,} hexes, {h['vertices']:,} vertices"
        yield "hexes", f"{counts}, {h['cubic_metres']:.4g} m³"
    if "frequencies_hz" in found:
        listed = " ".join(f"{value:.3g}" for value in found["frequencies_hz"][:SHOWN])
        more = " …" if len(found["frequencies_hz"]) > SHOWN else ""
        unit = " (if modes have unit mass)" if "polynomials" in found else ""
        yield "hertz", f"{listed}{more}{unit}"
    for material in found.get("materials", ()):
        yield "material", _material(material)


def _material(material: dict[str, Any]) -> str:
    text = f"{material['name']}: {material['elements']:,} elements, {material['density']:g} kg/m³"
    if material["young"] is None:
        return f"{text}, {material['kind']}"
    return f"{text}, Young {material['young']:.4g} Pa, Poisson {material['poisson']:g}"
