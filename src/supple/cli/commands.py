"""The commands of `supple`, except `supple bench`.

Commands import what they need when they run, so that ``supple --help`` is instant.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from supple.app.batch.batch_options import BatchOptions
from supple.app.bodies.body_options import BodyOptions
from supple.app.contact_options import ContactOptions, ObstacleOptions
from supple.app.options import BakeOptions, BuildOptions, CurveOptions, ViewOptions
from supple.cli.common_options import DISPLAY, Flag, Output, Shown
from supple.engines.options import SourceOptions

OutputFolder = Annotated[Path, Parameter(name=["--output", "-o"])]
#: Largest number of failures that `supple batch` prints; its page lists all.
_MOST_FAILURES = 20

# Characters


def bake(
    source: str,
    /,
    *,
    output: Output = None,
    options: Annotated[BakeOptions | None, Parameter(name="*")] = None,
    touch: Annotated[ContactOptions | None, Parameter(name="*")] = None,
    display: Shown = DISPLAY,
) -> None:
    """Simulate the flesh of an animated character, and add it to a copy of the file.

    Parameters
    ----------
    source
        A character (.glb .gltf .vrm .usd .usda .usdc .usdz, .blend and .fbx through Blender, or the
        .json of a small one), a body model (.npz .pkl), a model (.supple), or arm, x, bear,
        gorilla, elephant, sumo, hand or human.
        Flesh of an earlier bake is replaced.
    output
        By default NAME_soft with the source's extension (.glb, .vrm, .blend, .fbx, .usd…): the
        original file with shapes added. .pc2 .mdd .npz .abc have every vertex at every frame.
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


def build(
    source: str,
    /,
    *,
    output: Output = None,
    options: Annotated[BuildOptions | None, Parameter(name="*")] = None,
    display: Shown = DISPLAY,
) -> None:
    """Build a reduced model of a character: a file that can be stepped in real time.

    Parameters
    ----------
    source
        A character (.glb .gltf .vrm .usd .usda .usdc .usdz, .blend and .fbx through Blender), a
        body model (.npz .pkl), or arm, x, bear, gorilla, elephant, sumo, hand or human.
    output
        The model file, NAME.supple; by default with the character's name, in the current folder.
    """
    from supple.app.compiling import compiled_for

    with compiled_for("build", display.silent):
        from supple.app.building import run_build

        figures = run_build(source, output, options, quiet=display.silent)
    display.show(figures)


def curves(
    source: str,
    /,
    *,
    output: Output = None,
    options: Annotated[CurveOptions | None, Parameter(name="*")] = None,
    touch: Annotated[ObstacleOptions | None, Parameter(name="*")] = None,
    display: Shown = DISPLAY,
) -> None:
    """Simulate controls of a rig, and write their motion as animation curves to edit.

    Parameters
    ----------
    source
        A character (.glb .gltf .vrm .usd .usda .usdc .usdz, .blend and .fbx through Blender, or the
        .json of a small one), a body model (.npz .pkl), a model (.supple), or arm, x, bear,
        gorilla, elephant, sumo, hand or human.
        Curves of an earlier run are replaced.
    output
        By default NAME_curves with the source's extension (.glb, .blend, .fbx, .usd…): the same
        file with new keys on free channels only. .bvh has the skeleton's motion; .csv and .json
        have curves of any rig.
    """
    from supple.app.curve_making import run_curves

    display.show(run_curves(source, output, options, touch, quiet=display.silent))


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
    stream: int | None = None,
    display: Shown = DISPLAY,
) -> None:
    """Simulate a character or an elastic body live on a page: play it, pose it, drag its skin.

    Parameters
    ----------
    source
        A character (.glb .gltf .vrm .usd .usda .usdc .usdz, .blend and .fbx through Blender), a
        body model (.npz .pkl), a model (.supple), or arm, x, bear, gorilla, elephant, sumo, hand or
        human. A model is built if there is none, and cached.
        Or an elastic body: a file of `supple stvk` (.stvk), a mesh (.obj .ply .stl .off .veg .msh
        .mesh .vtk), or spoon, bridge, tower or heart.
    folder
        Folder for recordings; by default the current folder.
    clay
        Show the character in grey clay when the page opens, not in the colours of its file.
    host
        Address to serve at. By default only this computer can open the page.
    port
        Port to serve at; if it is taken, the next free port.
    stats
        Print the cost of steps and page updates every few seconds.
    seconds
        Seconds until the command ends; by default Ctrl-C ends it.
    stream
        UDP port at which poses arrive, from this computer only: JSON datagrams of parameters, or of
        joint rotations of another skeleton, which are retargeted; see `supple.rig.PoseStream`.
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
        stream=stream,
        quiet=display.silent,
    )
    display.show(figures, _print_costs)


def _print_costs(figures: dict[str, Any]) -> None:
    if figures.get("update_ms") is not None:
        print(
            f"{figures['steps']} steps of {figures['step_ms']} ms, "
            f"{figures['updates']} updates of {figures['update_ms']} ms"
        )


def info(
    file: Path,
    /,
    *,
    anatomy: Annotated[list[Path] | None, Parameter(consume_multiple=True, negative="")] = None,
    regions: Path | None = None,
    options: Annotated[SourceOptions | None, Parameter(name="*")] = None,
    display: Shown = DISPLAY,
) -> None:
    """Describe the content of a file, and its defects.

    Parameters
    ----------
    file
        A character (.glb .gltf .vrm .usd .usda .usdc .usdz, .blend and .fbx through Blender), a
        body model (.npz .pkl), a motion (.bvh, of a body model .npz .pkl .smpl), a mesh (.obj .ply
        .stl .off .veg .msh .mesh .vtk), a model (.supple), an elastic body (.stvk), or one of
        VegaFEM's files (.cub, .U, .bou).
    anatomy
        List a character's regions: which are bone, flesh, hard or separate, and why. A file
        sheet.png gets a drawing of them; NAME.anatomy.json a table to edit for bake, build and
        view.
    regions
        List the anatomy with the regions of this file, NAME.anatomy.json, as bake --anatomy uses
        them.
    """
    from supple.app.info.info import describe, print_info

    display.show(
        describe(file, anatomy, regions=regions, **vars(options or SourceOptions())), print_info
    )


# Built-in characters, bodies without a rig


def scene(name: str, /, *, sheet: Path | None = None, display: Shown = DISPLAY) -> None:
    """Describe a built-in character, and draw it.

    Parameters
    ----------
    name
        arm, x, bear, gorilla, elephant, sumo, hand or human.
    sheet
        PNG file to draw its poses and frames of its motion into.
    """
    from supple.app.pictures.scene_sheet import run_scene

    figures = run_scene(name, sheet, quiet=display.silent)
    display.show(figures, _print_lines)
    if sheet is not None and not display.silent:
        print(f"wrote {sheet}")


def _print_lines(figures: dict[str, Any]) -> None:
    for key, value in figures.items():
        print(f"{key.replace('_', ' ')}: {value}")


def demo(
    scene: str = "gorilla",
    *,
    output: OutputFolder = Path("supple-demo"),
    tets: int | None = None,
    display: Shown = DISPLAY,
) -> None:
    """Simulate the flesh of the built-in gorilla; write a page with a player, and pictures.

    Parameters
    ----------
    scene
        Another built-in character: arm, x, bear, gorilla, elephant or sumo; hand or human, which
        touch things; or one of hand-ball, hand-pin, hand-bars, body-bench, body-fall, body-hang.
    output
        Folder for report.html, filmstrip.png and gorilla_soft.glb.
    tets
        Number of tetrahedra; by default the paper's.
    """
    from supple.app.compiling import compiled_for

    with compiled_for("demo", display.silent):
        from supple.app.demo import run_demo

        figures = run_demo(output, scene=scene, tets=tets, quiet=display.silent)
    display.show(figures)


def stvk(
    source: str,
    /,
    *,
    output: Output = None,
    options: Annotated[BodyOptions | None, Parameter(name="*")] = None,
    display: Shown = DISPLAY,
) -> None:
    """Build an elastic body from a mesh without a rig; it takes thousands of steps per second.

    Parameters
    ----------
    source
        A surface (.obj .ply .stl .off .glb .usd …), which is filled; a mesh of tets (.veg .msh
        .mesh .vtk) or hexahedra (.veg); or spoon, bridge, tower or heart.
    output
        The body's file, NAME.stvk; by default with the mesh's name, in the current folder.
    """
    from supple.app.compiling import compiled_for

    with compiled_for("stvk", display.silent):
        from supple.app.bodies.make_body import run_stvk

        figures = run_stvk(source, output, options, quiet=display.silent)
    display.show(figures)


# Many jobs, papers


def batch(
    *sources: str,
    output: OutputFolder,
    options: Annotated[BatchOptions | None, Parameter(name="*")] = None,
    display: Shown = DISPLAY,
) -> None:
    """Run a command on many characters, clips and settings, on this machine or a cluster.

    Parameters
    ----------
    sources
        Folders, patterns such as 'rats/*.glb', files, scenes, or lists (.csv, .json, .jsonl) with a
        source, an output and options in each row. Without sources, only the page of the existing
        results is written.
    output
        Folder of the results, of the journal (batch.jsonl) and of the page (batch.html). Existing
        results are kept: after an interruption, run the same command again.
    """
    from supple.app.batch.batch import print_batch, run_batch
    from supple.app.compiling import compiled_for

    options = options or BatchOptions()
    if sources and options.command in ("bake", "build") and not options.dry_run:
        with compiled_for(options.command, display.silent):
            figures = run_batch(sources, output, options, quiet=display.silent)
    else:
        figures = run_batch(sources, output, options, quiet=display.silent)
    display.show(figures, print_batch)
    failures = figures.get("failures", ())
    for failure in failures[:_MOST_FAILURES]:
        name = f"{failure['output']}: "  # most lines begin with the file's name already
        print(f"supple: {name}{failure['line'].removeprefix(name)}", file=sys.stderr)
    if len(failures) > _MOST_FAILURES:
        more = f"and {len(failures) - _MOST_FAILURES} more failed"
        print(f"supple: {more}; see {figures['page']}", file=sys.stderr)
    if failures:
        sys.exit(1)


def reproduce(
    *what: str,
    output: OutputFolder = Path("supple-reproduce"),
    quick: Flag = False,
    display: Shown = DISPLAY,
) -> None:
    """Reproduce tables and figures of the papers, next to the published results.

    Parameters
    ----------
    what
        Of xu2016: table1, table2, table3, fig4, fig5, fig6, fig7, fig10, fig11, fig14, fig15,
        projection and beam. Of barbic2005: barbic2005-fig5, -fig8, -fig10, -fig11 and -fig12,
        also written barbic2005/fig12. Of hahn2013: hahn2013-table1, -fig2, -fig3, -fig4, -fig5,
        -skinning and -jacobians. Of tapia2021: tapia2021-table1, -modes, -points, -betas, and
        -fig1 to -fig16 except -fig11, a live demonstration. A paper's name selects all of it; by
        default all papers.
    output
        Folder for NAME.png, NAME.json and the page reproduce.md.
    quick
        Use smaller bodies and fewer steps, as a test that everything runs.
    """
    from supple.lab.reproduce.reproduce import run_reproduce

    display.show(run_reproduce(what, output, quick=quick, quiet=display.silent))


COMMANDS = (bake, build, curves, view, info, scene, demo, stvk, batch, reproduce)
