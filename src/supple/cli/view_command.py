"""The command `supple view`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from supple.app.contact_options import ContactOptions
from supple.app.options import ViewOptions
from supple.cli.common_options import DISPLAY, Flag, Shown


def view(
    source: str,
    /,
    *,
    options: Annotated[ViewOptions | None, Parameter(name="*")] = None,
    touch: Annotated[ContactOptions | None, Parameter(name="*")] = None,
    folder: Path | None = None,
    clay: Flag = False,
    host: str = "127.0.0.1",
    port: int = 8080,
    stats: Flag = False,
    seconds: float | None = None,
    display: Shown = DISPLAY,
) -> None:
    """Open a page with the character or the elastic body alive: play it, pose it, drag its skin.

    Parameters
    ----------
    source
        A character (.glb .gltf .vrm .usd .usda .usdc .usdz, .blend and .fbx through Blender), a
        body model (.npz .pkl), a model (.supple), or arm, x, bear, gorilla, elephant, sumo, hand or
        human. A model that does not exist yet is built, and kept for the next time.
        Or an elastic body: a file of `supple stvk` (.stvk), a mesh (.obj .ply .stl .off .veg .msh
        .mesh .vtk), or spoon, bridge, tower or heart.
    folder
        Folder for recordings; by default the current one.
    clay
        Show the character in clay at first, in place of its own colours.
    host
        Address to serve at. By default only this computer can open the page.
    port
        Port to serve at; if it is taken, the next free one.
    stats
        Print the cost of steps and page updates every few seconds.
    seconds
        Seconds until the command ends; by default Ctrl-C ends it.
    """
    from supple.app.viewer.serve import run_view

    figures = run_view(
        source,
        options,
        touch,
        folder=folder,
        clay=clay,
        host=host,
        port=port,
        stats=stats,
        seconds=seconds,
        quiet=display.silent,
    )
    display.show(figures, _print_costs)


def _print_costs(figures: dict[str, Any]) -> None:
    if figures.get("update_ms") is not None:
        print(
            f"{figures['steps']} steps of {figures['step_ms']} ms, "
            f"{figures['updates']} updates of {figures['update_ms']} ms"
        )
