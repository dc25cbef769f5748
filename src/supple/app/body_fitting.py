"""`supple fit-body`: shape coefficients of a body model from a scan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from supple.app.command_files import check_place, print_rows
from supple.errors import FormatError, SuppleError
from supple.formats.length_units import metres_in
from supple.formats.meshes.read_mesh import read_surface
from supple.formats.smpl.body_model import read_body_model, write_body_model
from supple.formats.smpl.fit_shape import ShapeFit, fit_shape
from supple.mesh.surface import SurfaceMesh
from supple.playback.progress_bar import console, task_bar, working


def run_fit_body(
    body: Path,
    scan: Path,
    output: Path | None = None,
    unit: str | None = None,
    *,
    quiet: bool = False,
) -> dict[str, Any]:
    """Fit a body to a scan, write the body of this shape, and return figures."""
    output = Path(f"{body.stem}_{scan.stem}.npz") if output is None else output
    if output.suffix.lower() != ".npz":
        raise SuppleError(f"{output}: body models are written as .npz; use that suffix")
    for each in (body, scan):
        check_place(output, each)
    with working("reading", quiet):
        model, surface = read_body_model(body), read_surface(scan)
        metres = 1.0 if unit is None else metres_in(unit)
        surface = SurfaceMesh(metres * surface.vertices, surface.triangles)
    try:
        with task_bar(quiet) as progress:
            fitted = fit_shape(model, surface, progress)
    except SuppleError as error:
        raise FormatError(f"{scan.name}: {error}") from None
    write_body_model(output, fitted.body)
    figures = _figures(fitted) | {"output": str(output)}
    if not quiet:
        print_rows(
            [
                ("betas", ",".join(f"{each:.3f}" for each in figures["betas"])),
                (
                    "distance",
                    f"{figures['median_mm']:.2g} mm in the median, 95 % within "
                    f"{figures['largest_mm']:.2g} mm",
                ),
                ("covered", f"{figures['covered']:.0%} of the body"),
            ]
        )
        console.print(f"wrote {output}", markup=False)
    return figures


def _figures(fitted: ShapeFit) -> dict[str, Any]:
    return {
        "betas": np.round(fitted.betas, 6).tolist(),
        "pose": np.round(fitted.pose, 6).tolist(),
        "translation": np.round(fitted.translation, 6).tolist(),
        "same_vertices": fitted.same_vertices,
        "median_mm": 1e3 * fitted.median,
        "largest_mm": 1e3 * fitted.largest,
        "covered": fitted.covered,
    }
