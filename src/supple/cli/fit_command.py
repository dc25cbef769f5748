"""The commands `supple fit` and `supple fit-body`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from supple.app.options import FitOptions
from supple.cli.common_options import DISPLAY, Output, Shown


def fit(
    source: str,
    target: Path,
    /,
    *,
    output: Output = None,
    options: Annotated[FitOptions | None, Parameter(name="*")] = None,
    display: Shown = DISPLAY,
) -> None:
    """Find stiffness and damping by region from a motion of the same skin; write an anatomy file.

    Parameters
    ----------
    source
        A character (.glb .gltf .vrm .usd .usda .usdc .usdz, .blend and .fbx through Blender), a
        body model (.npz .pkl), or arm, x, bear, gorilla, elephant, sumo, hand or human.
    target
        A motion of its skin from any software: the baked character (.glb .usd …), or a point cache
        with the same vertices in the same order (.pc2 .mdd .npz .abc).
    output
        The anatomy file, by default NAME_fit.anatomy.json in the current folder; bake, view and
        batches take it with --anatomy.
    """
    from supple.app.compiling import compiled_for

    with compiled_for("bake", display.silent):
        from supple.app.fitting import run_fit

        figures = run_fit(source, target, output, options, quiet=display.silent)
    display.show(figures)


def fit_body(
    body: Path,
    scan: Path,
    /,
    *,
    output: Output = None,
    unit: str | None = None,
    display: Shown = DISPLAY,
) -> None:
    """Find the shape coefficients of a body model from a scan; write a body of this shape.

    Parameters
    ----------
    body
        A body or hand with shape directions, in the layout of SMPL or MANO (.npz .pkl).
    scan
        A mesh (.obj .ply .stl .off …) of a person or a hand, in nearly any pose, upright. It may
        have any vertices, holes, and only a part of the body.
    output
        The body model (.npz), by default BODY_SCAN.npz in the current folder: a source of bake,
        build and view.
    unit
        Unit of the scan: m, cm, mm, in, ft, or the number of metres; by default m.
    """
    from supple.app.body_fitting import run_fit_body

    display.show(run_fit_body(body, scan, output, unit, quiet=display.silent))
