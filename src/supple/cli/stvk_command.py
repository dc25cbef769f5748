"""The command `supple stvk`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from supple.cli.common_options import Json, Quiet, print_json

__all__ = ["stvk"]


def stvk(
    source: str,
    /,
    *,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    modes: int | None = None,
    basis: Literal["derivatives", "modes"] = "derivatives",
    fixed: Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")] = None,
    young: float | None = None,
    frequency: float | None = None,
    poisson: float | None = None,
    density: float | None = None,
    elements: Literal["voxels", "tets"] | None = None,
    count: int | None = None,
    resolution: int | None = None,
    scale: float = 1.0,
    surface: Annotated[Path | None, Parameter(name="--surface")] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make an elastic body of any mesh that steps thousands of times a second: no rig needed.

    Parameters
    ----------
    source
        A surface (.obj .ply .stl .off .glb .usd …), which is filled; a mesh of tets (.veg .msh
        .mesh .vtk) or hexahedra (.veg); or spoon, bridge, tower or heart.
    output
        The body's file, NAME.stvk; by default the mesh's name in this folder.
    modes
        How many ways it can move in; by default 20, or what the scene has. Twice as many make a
        step sixteen times as dear.
    basis
        "derivatives" for large motion; "modes" for small.
    fixed
        Where it is held: bottom, top, left, right, back, front (the outermost 5 % there; or
        bottom:20%), places such as "y<0.05" in m, a list of vertices (FILE.bou), or none. By
        default what NAME.bou beside NAME.veg lists, or else the bottom.
    young
        Young's modulus in Pa: how stiff it is.
    frequency
        How fast the slowest swing shall be, in Hz, instead; 2 for what has no material.
    poisson
        Poisson's ratio, below 0.5; by default 0.4, or what the file says.
    density
        In kg/m³; by default 1000, or what the file says.
    elements
        What to fill a surface with; by default cubes.
    count
        How many; by default 4000.
    resolution
        Cells along the longest side, instead.
    scale
        Metres a unit of the file: 0.001 for millimetres.
    surface
        A surface in the same place (.obj .ply .stl .off) to be seen instead.
    """
    from supple.app.bodies.make_body import BodyOptions, run_stvk
    from supple.app.bodies.surface_filling import Filling

    options = BodyOptions(
        modes=modes,
        basis=basis,
        fixed=fixed,
        young=young,
        poisson=poisson,
        density=density,
        frequency=frequency,
        filling=Filling(elements, count, resolution),
        scale=scale,
        surface=surface,
    )
    figures = run_stvk(source, output, options, quiet=quiet or json)
    if json:
        print_json(figures)
