"""The command `supple build`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from supple.app.options import BuildOptions
from supple.cli.common_options import DISPLAY, Output, Shown


def build(
    source: str,
    /,
    *,
    output: Output = None,
    options: Annotated[BuildOptions | None, Parameter(name="*")] = None,
    display: Shown = DISPLAY,
) -> None:
    """Reduce a character at several poses, into a model file that can be stepped in real time.

    Parameters
    ----------
    source
        A character (.glb .gltf .vrm .usd .usda .usdc .usdz, .blend and .fbx through Blender), a
        body model (.npz .pkl), or arm, x, bear, gorilla, elephant, sumo, hand or human.
    output
        The model file, NAME.supple; by default the character's name in this folder.
    """
    from supple.app.compiling import compiled_for

    with compiled_for("build", display.silent):
        from supple.app.building import run_build

        figures = run_build(source, output, options, quiet=display.silent)
    display.show(figures)
