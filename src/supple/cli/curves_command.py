"""The command `supple curves`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from supple.app.options import CurveOptions
from supple.cli.common_options import DISPLAY, Output, Shown


def curves(
    source: str,
    /,
    *,
    output: Output = None,
    options: Annotated[CurveOptions | None, Parameter(name="*")] = None,
    display: Shown = DISPLAY,
) -> None:
    """Move controls of the rig by physics, and write them as animation curves to edit.

    Parameters
    ----------
    source
        A character (.glb .gltf .vrm .usd .usda .usdc .usdz, or the .json of a small one), a body
        model (.npz .pkl), a model (.supple), or arm, x, bear, gorilla, elephant, sumo, hand or
        human.
        Curves that are in it already are replaced.
    output
        NAME_curves.glb, .usd… by default: the same file with new keys on free channels alone;
        .bvh has the skeleton's motion, .csv and .json hold curves of any rig.
    """
    from supple.app.curve_making import run_curves

    display.show(run_curves(source, output, options, quiet=display.silent))
