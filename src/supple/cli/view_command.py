"""The command `supple view`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from supple.app.body_options import ArmatureName, BetaWords
from supple.app.contact_options import ContactOptions
from supple.app.options import AnatomyName, EngineName, FleshName, UnitName, Words
from supple.cli.common_options import DISPLAY, Flag, Shown
from supple.engines.engine import FIRST_ENGINE


def view(
    source: str,
    /,
    *,
    motion: str | None = None,
    betas: BetaWords = None,
    armature: ArmatureName = None,
    flesh: FleshName = "normal",
    anatomy: AnatomyName = None,
    engine: EngineName = FIRST_ENGINE,
    free: Words = None,
    unit: UnitName = None,
    model: Path | None = None,
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
        human. What has no model yet gets one, which is kept for the next time.
        Or an elastic body: what `supple stvk` wrote (.stvk), a mesh (.obj .ply .stl .off .veg .msh
        .mesh .vtk), or spoon, bridge, tower or heart.
    motion
        Name of the one to begin with, as for bake, or a pattern that matches one; by default the
        liveliest. Of a body model a file of AMASS or of a hand's poses (.npz).
    flesh
        How soft a model that is built gets.
    free
        Controls that physics moves, with --engine rig-space: names with *, such as 'tail*' belly;
        by default those that move flesh and that no motion keys. Their curves are drawn live.
    model
        A model file of this character to use instead of building one.
    folder
        Where recordings are saved, and nowhere else; by default this folder.
    clay
        Begin in clay, rather than in the character's own colours.
    host
        Address to serve at. By default only this computer can see the page.
    port
        The next free one is taken if this is not.
    stats
        Print every few seconds what steps and updates of the page cost.
    seconds
        End after so long; by default Ctrl-C ends it.
    """
    from supple.app.viewer.serve import run_view

    figures = run_view(
        source,
        motion=motion,
        betas=betas,
        armature=armature,
        flesh=flesh,
        anatomy=anatomy,
        engine=engine,
        free=free,
        unit=unit,
        model=model,
        touch=touch,
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
