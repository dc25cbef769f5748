"""The command `supple`.

Commands import what they need when they run, so that `supple --help` is instant.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Literal, TextIO

from cyclopts import App, CycloptsError, Parameter

import supple
from supple.cli.bake_command import bake
from supple.cli.bench_command import bench
from supple.cli.common_options import Json, Quiet, print_json
from supple.cli.demo_command import demo
from supple.cli.reproduce_command import reproduce
from supple.cli.stvk_command import stvk
from supple.cli.view_command import view
from supple.errors import SuppleError, SuppleWarning

__all__ = ["app", "main"]

app = App(
    name="supple",
    help="Physically based soft tissue for any rigged character, in real time.",
    version=supple.__version__,
    suppress_keyboard_interrupt=False,
)


@app.command
def info(file: Path, /, *, json: Json = False, quiet: Quiet = False) -> None:
    """Say what is in a file, and what is wrong with it.

    Parameters
    ----------
    file
        A character (.glb .gltf .usd .usda .usdc .usdz), a motion (.bvh), a mesh (.obj .ply .stl
        .off .veg .msh .mesh .vtk), a model (.supple), an elastic body (.stvk), or one of VegaFEM's
        files (.cub, .U, .bou).
    """
    from supple.app.info.info import describe, print_info

    found = describe(file)
    if json:
        print_json(found)
    elif not quiet:
        print_info(found)


@app.command
def scene(
    name: str,
    /,
    *,
    sheet: Annotated[Path | None, Parameter(name="--sheet")] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make one of the built-in characters, and draw it.

    Parameters
    ----------
    name
        arm, x, bear or gorilla.
    sheet
        PNG to draw all its poses and frames of its motion into.
    """
    from supple.app.pictures.drawing import checked_sheet
    from supple.app.pictures.scene_sheet import summary, write_sheet
    from supple.app.progress_bar import working

    sheet = None if sheet is None else checked_sheet(sheet)
    silent = quiet or json
    with working(f"making the {name}", silent):
        figures = summary(name)
    if sheet is not None:
        with working("drawing", silent):
            write_sheet(name, sheet)
    if json:
        print_json(figures)
    elif not quiet:
        for key, value in figures.items():
            print(f"{key.replace('_', ' ')}: {value}")
        if sheet is not None:
            print(f"wrote {sheet}")


@app.command
def build(
    source: str,
    /,
    *,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    poses: Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")] = None,
    modes: Annotated[list[int] | None, Parameter(consume_multiple=True, negative="")] = None,
    regions: Literal["auto", "none"] | None = None,
    tets: int | None = None,
    material: Literal["stvk", "neo-hookean", "corotational", "stvk-volume"] | None = None,
    young: float | None = None,
    poisson: float | None = None,
    contacts: Literal["two-sided", "one-sided", "fixed", "none"] | None = None,
    ground: float | None = None,
    elastic: int | None = None,
    inertial: int | None = None,
    interpolation: Literal["frames", "world"] | None = None,
    most_poses: int | None = None,
    fit: float | None = None,
    seed: int = 0,
    sheet: Annotated[Path | None, Parameter(name="--sheet")] = None,
    processes: int | None = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Reduce a character at several poses, into a model file that can be stepped in real time.

    Parameters
    ----------
    source
        A character (.glb .gltf .usd .usda .usdc .usdz), or arm, x, bear or gorilla.
    output
        The model file, NAME.supple; by default the character's name in this folder.
    poses
        How many, to be chosen from the motions; "auto", as many as it takes; or frames of
        motions, such as Run:12 Idle:0.
    modes
        In all, or for each region.
    regions
        "auto" follows the bones; "none" is one basis for the whole body.
    tets
        How many tetrahedra to fill the character with.
    material
        What the flesh is made of; by default StVK, or what the scene has.
    young
        Young's modulus in Pa: how stiff it is; by default 20000 for a body of 2 m, and more for
        larger ones, so that all swing alike.
    poisson
        Poisson's ratio: how little its volume changes, below 0.5; by default 0.45.
    contacts
        How parts that touch at a pose bind each other there.
    ground
        Height of a floor that poses may stand on, in metres.
    elastic
        How many cubature tets a step evaluates; by default three a mode.
    inertial
        How many cubature vertices a step evaluates; by default three for two modes.
    interpolation
        What bases are blended in: "frames", or "world" as Xu and Barbič 2016 do.
    most_poses
        How many poses "auto" may end with.
    fit
        What elasticity counts when tets are fitted to a pose; more keeps them from inverting.
    seed
        The same seed gives the same bytes.
    sheet
        PNG to draw the model into: regions, softest motions, cubature, and how poses were aligned.
    processes
        Compute poses in so many processes, rather than in threads.
    """
    from supple.app.build_files import build_options, run_build

    options = build_options(
        poses=poses,
        modes=modes,
        regions=regions,
        tets=tets,
        kind=material,
        young=young,
        poisson=poisson,
        contacts=contacts,
        ground=ground,
        elastic_cubature=elastic,
        inertial_cubature=inertial,
        interpolation=interpolation,
        most_poses=most_poses,
        gamma=fit,
        seed=seed,
    )
    silent = quiet or json
    figures = run_build(source, output, sheet=sheet, processes=processes, quiet=silent, **options)
    if json:
        print_json(figures)


app.command(bake)
app.command(stvk)
app.command(view)
app.command(demo)
app.command(bench)
app.command(reproduce)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; exit with 0, 1 (cannot), 2 (wrong usage) or 130 (Ctrl-C)."""
    warnings.showwarning = _show_warning
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a pipe that knows no "×" gets a "?"
            stream.reconfigure(errors="replace")
    try:
        tokens = sys.argv[1:] if arguments is None else arguments
        app(tokens, exit_on_error=False, result_action="return_value")
        sys.stdout.flush()
    except CycloptsError:
        sys.exit(2)
    except SuppleError as error:
        print(f"supple: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("supple: stopped", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # whoever read our output has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        print(f"supple: output cannot be written ({error.strerror})", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    if issubclass(category, SuppleWarning):
        print(f"supple: warning: {message}", file=sys.stderr)
    elif not issubclass(category, DeprecationWarning):
        print(warnings.formatwarning(message, category, filename, lineno, line), file=sys.stderr)


if __name__ == "__main__":
    main()
