"""`supple build`: build a model of a file or a scene, save it, and print a summary."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.table import Table

from supple.app.command_files import checked_sheet, model_target, print_rows
from supple.app.model_request import flesh_values, with_kept_feel
from supple.app.options import BuildOptions
from supple.app.processes import peak_megabytes, worker_processes
from supple.engines.common.accuracy import accuracy_words
from supple.engines.engine import CHARACTER_MODEL, Engine, engine_named
from supple.errors import SuppleError
from supple.mesh.obstacles import Plane
from supple.mesh.topology import counted
from supple.playback.bake_model import SCALED_LOADS, model_options, usual_material
from supple.playback.character_sources import CharacterSource, read_any_character
from supple.playback.model_accuracy import Comparison
from supple.playback.progress_bar import build_log, console, working
from supple.playback.secondary_motion import moving_engine
from supple.scenes.characters.character_scene import scene


def run_build(
    name: str, output: Path | None, options: BuildOptions | None = None, *, quiet: bool = False
) -> dict[str, Any]:
    """Build a model of a character file or a scene, save it, and return sizes, errors and times.

    `output` is by default the character's name in the current folder.
    """
    options = with_kept_feel(options or BuildOptions())
    row = engine_named(options.engine, "character")
    if options.free is not None:
        moving_engine(row.name)
    options.flesh_words()
    sheet = options.sheet
    target = model_target(name, output, CHARACTER_MODEL)
    if sheet is not None:
        checked_sheet(sheet)
    with working("reading", quiet):
        body = options.reading()
        if options.motion is not None and "motion" not in body:
            raise SuppleError(
                f"--motion {options.motion}: use a motion file of a body model (.npz)"
            )
        source = read_any_character(name, options.unit, **body)
        values = flesh_values(source, options)
    with build_log(quiet) as log, _executor(options.processes) as executor:
        with nullcontext() if values["anatomy"] is None else log.stage("anatomy"):
            chosen = _builder_options(source, options, row, values)
        chosen |= row.accepted_options(executor=executor, log=log)
        scaled = SCALED_LOADS if source.scene else values["anatomy"] is not None
        given = source.recipe(row.name) | values | options.building()
        comparison = Comparison.of(row.name, options.flesh, scaled, given)
        model = comparison.checked(
            lambda **changes: row.build_model(source.character, **(chosen | changes)), log
        )
    with working("writing", quiet):
        model.save(target)
    if sheet is not None:
        from supple.app.pictures.model_sheet import write_model_sheet

        with working("drawing", quiet):
            write_model_sheet(model, sheet)
    peak = peak_megabytes()
    figures = {
        "seconds": round(log.seconds, 3),
        "stages": {name: round(seconds, 3) for name, seconds in log.stages.items()},
        "peak_mb": None if peak is None else round(peak, 1),
        "model_mb": round(target.stat().st_size / 1e6, 3),
        "output": str(target),
        **getattr(model, "report", model.figures),
    }
    if not quiet:
        _print_summary(figures)
        console.print(f"wrote {target}" + ("" if sheet is None else f" and {sheet}"))
    return figures


def _builder_options(
    source: CharacterSource, options: BuildOptions, row: Engine, values: dict[str, Any]
) -> dict[str, Any]:
    """Return the builder's options.

    Options of the command override those of a scene, which override those of the flesh preset.
    `values` is the result of `flesh_values`.
    """
    given = options.building()
    if options.ground is not None:
        given["obstacles"] = (Plane((0.0, options.ground, 0.0), (0.0, 1.0, 0.0)),)
    recipe = row.accepted_options(**source.recipe(row.name))
    if source.scene and options.recipe == "printed":
        recipe |= scene(source.scene).printed_counts()
    other_flesh = options.flesh != "normal" or "stiffness" in values
    if source.scene and not other_flesh and values["anatomy"] is None:
        return _scene_options(source, recipe, row, values | given)
    defaults = {}
    printed = options.recipe == "printed"
    if not (source.scene or printed) and options.regions != "none" and "basis" in row.bake_options:
        defaults["basis"] = row.bake_options["basis"]
    request = {"painted": recipe.pop("young", None), **recipe, **values, **given}
    return model_options(source.character, options.flesh, row.name, defaults=defaults, **request)


def _scene_options(
    source: CharacterSource, recipe: dict[str, Any], row: Engine, given: dict[str, Any]
) -> dict[str, Any]:
    """Return a scene's recipe, updated by the given options; the recipe determines the flesh."""
    given = {name: value for name, value in given.items() if name != "anatomy"}
    constants = {name: given.pop(name) for name in ("kind", "young", "poisson") if name in given}
    if "young" in constants:
        recipe.pop("young", None)
    if constants or "young" in recipe:
        usual = recipe.get("material") or usual_material(source.character, None, row)
        recipe["material"] = replace(usual, **constants)
    return recipe | given


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
    if "pose_rows" not in figures:  # an engine without poses
        console.print(f"{figures['seconds']:.1f} s, {figures['model_mb']:.1f} MB")
        return
    console.print(_poses_table(figures))
    print_rows(_totals(figures))


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


def _totals(figures: dict[str, Any]) -> list[tuple[str, str]]:
    elastic, inertial = figures["elastic_error"], figures["inertial_error"]
    between = elastic["between_poses"]
    halfway = "" if between is None else f", halfway between poses {100 * between:.2f} %"
    if elastic["quarter_way"] is not None:
        halfway += f", a quarter of the way {100 * elastic['quarter_way']:.2f} %"
    regions = counted(len(figures["regions"]), "region")
    stored = f"{100 * figures['stored_fraction']:.0f} % stored"
    trained, held_out = (
        [f"{100 * error[part]:.2f} %" for error in (elastic, inertial)]
        for part in ("train", "held_out")
    )
    return [
        ("tets", f"{figures['tets']:,}"),
        ("modes", f"{figures['modes']} in {regions}, {stored}"),
        ("elastic error", f"{trained[0]} trained, {held_out[0]} held out{halfway}"),
        ("inertial error", f"{trained[1]} trained, {held_out[1]} held out"),
        ("accuracy", accuracy_words(figures) or "not compared with the full simulation"),
        ("model", f"{figures['model_mb']:.1f} MB"),
        ("time", f"{figures['seconds']:.1f} s, peak memory {figures['peak_mb']} MB"),
    ]
