"""`supple build`: a file or a scene in, a model file out, and figures about it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from supple.app.body_options import body_options
from supple.app.character_models import CharacterSource, chosen_anatomy, read_any_character
from supple.app.command_files import CHARACTER_MODEL, checked_sheet, model_target
from supple.app.options import BuildOptions
from supple.app.processes import peak_megabytes, worker_processes
from supple.app.progress_bar import build_log, console, working
from supple.engines.engine import engine_named
from supple.engines.factory import build
from supple.errors import SuppleError
from supple.mesh.obstacles import Plane
from supple.mesh.topology import counted
from supple.playback.bake_model import (
    TETS,
    GivenAnatomy,
    body_plan_of,
    usual_building,
    usual_material,
)
from supple.playback.secondary_motion import moving_engine


def run_build(
    given: str, output: Path | None, options: BuildOptions | None = None, *, quiet: bool = False
) -> dict[str, Any]:
    """Build a model of a character file or a scene, save it, and return figures.

    Parameters
    ----------
    given
        A character file, or the name of a scene; see `read_any_character`.
    output
        Path of the model file; by default the character's name in the current folder.
    options
        By default none are set.
    quiet
        Show neither progress nor the summary.
    """
    options = options or BuildOptions()
    row = engine_named(options.engine, "character")  # what cannot be is refused before any work
    if options.free is not None:
        moving_engine(row.name)
    options.building()
    sheet = options.sheet
    target = model_target(given, output, CHARACTER_MODEL)
    if sheet is not None:
        checked_sheet(sheet)
    with working("reading", quiet):
        told = body_options(options.motion, options.betas, options.armature)
        if options.motion is not None and "motion" not in told:
            raise SuppleError(f"--motion {options.motion}: use a file of a body's motion (.npz)")
        source = read_any_character(given, options.unit, **told)
        anatomy = chosen_anatomy(options.anatomy, source)
    with build_log(quiet) as log, _executor(options.processes) as executor:
        with nullcontext() if anatomy is None else log.stage("anatomy"):
            chosen = _chosen(source, options, anatomy, row.name)
        offered = row.taken(**chosen, executor=executor, log=log)
        model = build(source.character, engine=row.name, **offered)
    with working("writing", quiet):
        model.save(target)
    if sheet is not None:
        from supple.app.pictures.model_sheet import write_model_sheet

        with working("drawing", quiet):
            write_model_sheet(model, sheet)
    figures = {
        "seconds": round(log.seconds, 3),
        "stages": {name: round(seconds, 3) for name, seconds in log.stages.items()},
        "peak_mb": _rounded(peak_megabytes()),
        "model_mb": round(target.stat().st_size / 1e6, 3),
        "output": str(target),
        **getattr(model, "report", model.figures),
    }
    if not quiet:
        _print_summary(figures)
        console.print(f"wrote {target}" + ("" if sheet is None else f" and {sheet}"))
    return figures


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def _chosen(
    source: CharacterSource, options: BuildOptions, anatomy: GivenAnatomy, engine: str
) -> dict[str, Any]:
    """Return the builder's options: a scene's own, and before those what was asked for."""
    chosen = source.recipe(engine) | options.building()
    if not source.scene and options.regions != "none":
        usual_options = usual_building(engine_named(engine), chosen)
        if "basis" in usual_options:
            chosen["basis"] = usual_options["basis"]
    plan = body_plan_of(source.character, anatomy, chosen.get("tets", TETS))
    if options.ground is not None:
        chosen["obstacles"] = (Plane((0.0, options.ground, 0.0), (0.0, 1.0, 0.0)),)
    constants = options.material_constants()
    usual = usual_material(source.character, plan, engine_named(engine))
    if plan is None:
        usual = chosen.get("material") or usual
    else:
        chosen |= {
            "tets": plan.mesh,
            "bones": plan.held,
            "young": plan.factors * np.asarray(usual.young),
        }
        if "bones" not in engine_named(engine).build_options:  # which follow from it
            chosen["anatomy"] = plan.anatomy
    if "stiffness" in source.character.painted:
        factors = source.character.painted["stiffness"]
        chosen["young"] = factors * np.asarray(chosen.get("young", usual.young))
    if constants or plan is not None or "young" in chosen:
        chosen["material"] = replace(usual, **constants)
    if "young" in constants:
        chosen.pop("young", None)  # in place of what a scene has painted
    return chosen


@contextmanager
def _executor(processes: int | None) -> Iterator[Executor | None]:
    if processes is None:
        yield None
        return
    if processes < 1:
        raise SuppleError(f"--processes {processes}; use 1 or more")
    with worker_processes(processes) as executor:
        yield executor


def _print_summary(figures: dict[str, Any]) -> None:
    """Print a table of poses and one of totals, on standard error."""
    if "pose_rows" not in figures:  # of an engine that has no poses
        console.print(f"{figures['seconds']:.1f} s, {figures['model_mb']:.1f} MB")
        return
    console.print(_poses_table(figures))
    console.print(_totals_table(figures))


def _poses_table(figures: dict[str, Any]) -> Table:
    table = Table(title=f"{figures['name']}: poses", title_justify="left")
    table.add_column("pose")
    table.add_column("aligned to")
    for heading in ("contacts", "angle °", "elastic %", "frequency ×"):
        table.add_column(heading, justify="right")
    for row in figures["pose_rows"]:
        ratio = row["frequency_ratio"]
        table.add_row(
            row["name"],
            row["parent"] or "–",
            str(row["contacts"]),
            f"{row['angle_degrees']:.1f}",
            f"{100 * row['elastic_error']:.2f}",
            "–" if ratio is None else f"{ratio:.3f}",
        )
    table.caption = "angle: median to the parent's basis; frequency: worst halfway to the parent"
    return table


def _totals_table(figures: dict[str, Any]) -> Table:
    elastic, inertial = figures["elastic_error"], figures["inertial_error"]
    between = elastic["between_poses"]
    halfway = "" if between is None else f", halfway between poses {100 * between:.2f} %"
    if elastic["quarter_way"] is not None:
        halfway += f", a quarter of the way {100 * elastic['quarter_way']:.2f} %"
    table = Table(show_header=False, box=None)
    rows = {
        "tets": f"{figures['tets']:,}",
        "modes": f"{figures['modes']} in {counted(len(figures['regions']), 'region')}, "
        f"{100 * figures['stored_fraction']:.0f} % stored",
        "elastic error": f"{100 * elastic['train']:.2f} % trained, "
        f"{100 * elastic['held_out']:.2f} % held out{halfway}",
        "inertial error": f"{100 * inertial['train']:.2f} % trained, "
        f"{100 * inertial['held_out']:.2f} % held out",
        "model": f"{figures['model_mb']:.1f} MB",
        "time": f"{figures['seconds']:.1f} s, peak memory {figures['peak_mb']} MB",
    }
    for name, value in rows.items():
        table.add_row(name, value)
    return table
