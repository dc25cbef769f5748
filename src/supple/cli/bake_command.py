"""The command `supple bake`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from supple.app.contact_options import ContactOptions
from supple.app.options import BakeOptions
from supple.cli.common_options import DISPLAY, Output, Shown


def bake(
    source: str,
    /,
    *,
    output: Output = None,
    options: Annotated[BakeOptions | None, Parameter(name="*")] = None,
    touch: Annotated[ContactOptions | None, Parameter(name="*")] = None,
    display: Shown = DISPLAY,
) -> None:
    """Give a character flesh: the same file back, with its motion alive.

    Parameters
    ----------
    source
        A character (.glb .gltf .vrm .usd .usda .usdc .usdz, .blend and .fbx through Blender, or the
        .json of a small one), a body model (.npz .pkl), a model (.supple), or arm, x, bear,
        gorilla, elephant, sumo, hand or human.
        Flesh that is in it already is replaced.
    output
        NAME_soft.glb, .vrm, .blend, .fbx or .usd… by default. Of these the original is kept, and
        shapes are added; .pc2 .mdd .npz .abc hold every vertex at every frame.
    """
    if options is not None and options.remove:
        from supple.app.command_files import run_removal
        from supple.formats.save import remove_flesh

        quiet = display.silent
        display.show(run_removal(remove_flesh, "flesh", Path(source), output, quiet=quiet))
        return
    from supple.app.compiling import compiled_for

    with compiled_for("bake", display.silent):
        from supple.app.baking import run_bake

        figures = run_bake(source, output, options, touch, quiet=display.silent)
    display.show(figures)
