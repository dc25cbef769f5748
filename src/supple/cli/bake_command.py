"""The command `supple bake`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from supple.cli.common_options import Json, Quiet, print_json

__all__ = ["bake"]


def bake(
    source: str,
    /,
    *,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    motion: str | None = None,
    start: Annotated[float | None, Parameter(name="--from")] = None,
    end: Annotated[float | None, Parameter(name="--to")] = None,
    rate: float = 30.0,
    loop: Annotated[bool, Parameter(name="--loop", negative="")] = False,
    flesh: Literal["firm", "normal", "soft", "jelly"] = "normal",
    young: float | None = None,
    poisson: float | None = None,
    damping: float = 1.0,
    stiffness: str | None = None,
    method: Literal["pose-space", "full"] = "pose-space",
    model: Annotated[Path | None, Parameter(name="--model")] = None,
    poses: Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")] = None,
    modes: int | None = None,
    tets: int | None = None,
    error: float | None = None,
    normals: Annotated[bool, Parameter(name="--normals", negative="")] = False,
    points: Literal["blend-shapes", "cache"] | None = None,
    report: Annotated[Path | None, Parameter(name="--report")] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Give a character flesh: the same file back, with its motion alive.

    Parameters
    ----------
    source
        A character (.glb .gltf .usd .usda .usdc .usdz, or the .json of a small one), a model
        (.supple), or arm, x, bear or gorilla.
    output
        NAME_soft.glb or .usd… by default. Of .glb and .usd… the original is kept, and shapes
        are added; .pc2 .mdd .npz .abc hold every vertex at every frame.
    motion
        Which; by default the first. "wiggle" shakes and tilts, also what has no motion.
    start
        Second of the motion to begin at.
    end
        Second of the motion to end at.
    rate
        Frames per second.
    loop
        Play until the cycle closes: the last frame leads into the first.
    flesh
        How stiff it is: firm swings twice as fast as normal, jelly at a third.
    young
        Young's modulus in Pa, in place of the flesh's; 20000 is normal for a body of 2 m.
    poisson
        Poisson's ratio: how little its volume changes, below 0.5; by default 0.45.
    damping
        Times the flesh's: 2 comes to rest sooner, 0.5 later.
    stiffness
        Where it is stiffer or softer: color:COLOR_0, a vertex colour whose brightness is a
        factor (color:COLOR_0:red for a channel), or a JSON file such as {"joints": {"Tail*":
        0.3, "Head": 5}, "vertices": {"10-20": 2}, "default": 1}.
    method
        "full" steps all tets, which takes minutes.
    model
        A model file of this character, in place of building one.
    poses
        As for supple build: how many, auto, or frames such as Run:12.
    modes
        How many in all.
    tets
        How many tetrahedra to fill the character with.
    error
        How far shapes may be from the simulation, as a part of the size; by default 0.002.
    normals
        Shapes of normals, too.
    points
        USD only: "cache" for points at every frame in place of blend shapes.
    report
        .html file that plays the result in a browser, beside the rig alone.
    """
    from supple.app.bake_files import run_bake
    from supple.app.build_files import build_options

    words = build_options(poses=poses, modes=None if modes is None else [modes], tets=tets)
    del words["constants"]
    saving: dict[str, Any] = {"error": error, "points": points, "normals": normals or None}
    figures = run_bake(
        source,
        output,
        model=model,
        motion=motion,
        stiffness=stiffness,
        flesh=flesh,
        damping=damping,
        saving={name: value for name, value in saving.items() if value is not None},
        building={"young": young, "poisson": poisson, **words},
        page=report,
        quiet=quiet or json,
        rate=rate,
        start=start,
        end=end,
        loop=loop,
        method=method,
    )
    if json:
        print_json(figures)
