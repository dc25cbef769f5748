"""The command `supple demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from supple.cli.common_options import DISPLAY, Shown


def demo(
    scene: str = "gorilla",
    *,
    output: Annotated[Path, Parameter(name=["--output", "-o"])] = Path("supple-demo"),
    tets: int | None = None,
    display: Shown = DISPLAY,
) -> None:
    """Give the built-in gorilla flesh, and report: a page with a player, pictures and figures.

    Parameters
    ----------
    scene
        Another built-in character: arm, x, bear, gorilla, elephant or sumo; hand or human, which
        touch things; or one of hand-ball, hand-pin, hand-bars, body-bench, body-fall, body-hang.
    output
        Folder for report.html, filmstrip.png and gorilla_soft.glb.
    tets
        How many tetrahedra to simulate; by default as many as the paper.
    """
    from supple.app.compiling import compiled_for

    with compiled_for("demo", display.silent):
        from supple.app.demo import run_demo

        figures = run_demo(output, scene=scene, tets=tets, quiet=display.silent)
    display.show(figures)
