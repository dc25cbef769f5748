"""The command `supple stvk`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from supple.app.bodies.body_options import BodyOptions
from supple.cli.common_options import DISPLAY, Output, Shown


def stvk(
    source: str,
    /,
    *,
    output: Output = None,
    options: Annotated[BodyOptions | None, Parameter(name="*")] = None,
    display: Shown = DISPLAY,
) -> None:
    """Make an elastic body of any mesh that steps thousands of times a second: no rig needed.

    Parameters
    ----------
    source
        A surface (.obj .ply .stl .off .glb .usd …), which is filled; a mesh of tets (.veg .msh
        .mesh .vtk) or hexahedra (.veg); or spoon, bridge, tower or heart.
    output
        The body's file, NAME.stvk; by default the mesh's name in this folder.
    """
    from supple.app.compiling import compiled_for

    with compiled_for("stvk", display.silent):
        from supple.app.bodies.make_body import run_stvk

        figures = run_stvk(source, output, options, quiet=display.silent)
    display.show(figures)
