"""`supple bake`: a character in, the same character out with flesh that moves.

The way of a file: `checked_target` ▸ `read_character` and `prepared_model` (character_models) ▸
`supple.bake` (playing.bake) ▸ `supple.save` (formats.save).
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

from rich.markup import escape
from rich.table import Table

from supple.app.character_models import CharacterSource, prepared_model, read_character
from supple.app.command_files import check_place
from supple.app.options import BakeOptions
from supple.app.progress_bar import console, first_use_message, task_bar, working
from supple.app.stiffness_maps import read_stiffness
from supple.checks import checked_number
from supple.engines.engine import Engine, engine_named
from supple.errors import SuppleError
from supple.formats.registry import BAKED_MOTIONS, CHARACTERS
from supple.formats.save import check_target, save
from supple.mesh.topology import counted
from supple.playing.bake import bake, bake_plan, flesh_damping
from supple.playing.wiggle import WIGGLE
from supple.rig.baked_motion import BakedMotion

__all__ = ["run_bake"]


def run_bake(
    given: str,
    output: Path | None = None,
    options: BakeOptions | None = None,
    *,
    quiet: bool = False,
) -> dict[str, Any]:
    """Bake a motion of a file, a scene or a model, write it, and return figures.

    Parameters
    ----------
    given
        A file, or the name of a scene; a file of that name goes first.
    output
        Where to; by default the name with "_soft" in the current folder.
    options
        As given on the command line; by default none.
    quiet
        Show nothing.
    """
    began = perf_counter()
    options = options or BakeOptions()
    row = engine_named(options.chosen_engine(), "character")
    engine = row.name
    target = checked_target(given, output)
    _check_saving(target, options.saving())
    if options.report is not None:
        _check_page(options.report)
    first_use_message(quiet)
    with working("reading", quiet):
        source = read_character(given, options.unit)
        check_target(target, source.character)
        told = options.building()
        if options.stiffness is not None:
            told["stiffness"] = read_stiffness(options.stiffness, source.character)
    plan = bake_plan(source.character, options.motion, **options.playing())
    stepping = _stepping(options, row)
    _say_what(source, plan.motion.name, options.motion, quiet)
    ready = prepared_model(
        source, model=options.model, flesh=options.flesh, engine=engine, quiet=quiet, **told
    )
    with task_bar(quiet) as tell:
        baked = bake(
            source.character,
            plan.motion,
            ready.model,
            engine=engine,
            simulation=stepping,
            progress=tell,
            **options.playing(),
        )
    with working("writing", quiet):
        written = _write(target, baked, options.saving())
    figures = baked.report | {
        "flesh": options.flesh,
        "loop": baked.loop,
        "build_s": round(ready.seconds, 3),
        "model_kept": ready.kept,
        "bake_s": round(perf_counter() - began, 3),
        **written,
        "output": str(target),
        "bytes": target.stat().st_size,
    }
    if options.report is not None:
        figures["report"] = _write_report(options.report, baked, figures, quiet)
    if not quiet:
        _print_summary(figures)
    return figures


def _stepping(options: BakeOptions, row: Engine) -> dict[str, float]:
    """Return options of the simulator: the flesh's damping, and no change of a given stiffness."""
    stepping = flesh_damping(options.flesh, options.damping)
    if options.young is not None:
        stepping["stiffness"] = 1.0
    return {name: value for name, value in stepping.items() if name in row.step_options}


def _write_report(page: Path, baked: BakedMotion, figures: dict[str, Any], quiet: bool) -> str:
    from supple.app.report.report_page import write_page

    with working("drawing", quiet):
        write_page(page, baked, figures)
    return str(page)


def checked_target(given: str, output: Path | None) -> Path:
    """Return the path of the result; SuppleError when it cannot be written, before any work."""
    file = Path(given)
    if output is None:
        came = CHARACTERS.find(file)
        suffix = ".glb" if came is None else came.baked_suffix or file.suffix.lower()
        output = Path(f"{file.stem}_soft{suffix}")
    row = BAKED_MOTIONS.find(output)
    if row is None:
        wanted = ", ".join(BAKED_MOTIONS.suffixes())
        raise SuppleError(f'{output}: "{output.suffix}" files are not written; use one of {wanted}')
    if row.library and find_spec(row.library) is None:
        raise SuppleError(f"{output}: needs an extra; run pip install 'supple[{row.extra}]'")
    check_place(output, file)
    return output


def _check_page(page: Path) -> None:
    if page.suffix.lower() not in (".html", ".htm"):
        raise SuppleError(f"{page}: a report ends in .html")
    check_place(page, Path())


def _check_saving(target: Path, options: dict[str, Any]) -> None:
    row = BAKED_MOTIONS.find(target)
    if "points" in options and row is not None and "points" not in row.options():
        having = [each for each in BAKED_MOTIONS.rows if "points" in each.options()]
        suffixes = ", ".join(suffix for each in having for suffix in each.suffixes)
        raise SuppleError(f"{target}: --points is for {suffixes}")
    error = checked_number("error", options.get("error", 0.002))
    if not 1e-6 <= error <= 0.5:
        raise SuppleError(f"--error is {error:g} of the size; use 0.000001 to 0.5")


def _say_what(source: CharacterSource, name: str, asked: str | None, quiet: bool) -> None:
    if quiet or asked is not None:
        return
    others = [each for each in source.character.motions if each != name]
    if not source.character.motions:
        console.print(f'it has no motion; "{WIGGLE}" shakes and tilts it', markup=False)
    elif others:
        more = ", ".join(others[:8]) + (" …" if len(others) > 8 else "")
        console.print(f'motion "{name}"; --motion for another: {more}', markup=False)


def _write(target: Path, baked: BakedMotion, options: dict[str, Any]) -> dict[str, Any]:
    written = save(target, baked, **options)
    written.pop("path", None)
    return {"shapes" if key == "n_shapes" else key: value for key, value in written.items()}


def _sizes(figures: dict[str, Any], *names: str) -> str:
    """List sizes of a model, as far as its engine has them."""
    found = [counted(figures[name], name[:-1]) for name in names if name in figures]
    return "".join(f", {each}" for each in found)


def _print_summary(figures: dict[str, Any]) -> None:
    table = Table(show_header=False, box=None)
    cycles = f", {figures['cycles']} cycles" if figures["loop"] else ""
    rows = {
        "character": f"{figures['vertices']:,} vertices{_sizes(figures, 'tets')}",
        "model": f"{figures['engine']}{_sizes(figures, 'poses', 'modes')}, "
        + ("kept from before" if figures["model_kept"] else f"built in {figures['build_s']:.1f} s"),
        "motion": f"{figures['motion']}, {figures['frames']} frames at {figures['rate']:.4g} a "
        f"second{cycles}",
        "step": f"{figures['step_ms']:.2f} ms",
    }
    reached = 100 * float(figures.get("error") or 0)
    if figures.get("shapes"):
        rows["shapes"] = f"{figures['shapes']}, within {reached:.2f} % of the size"
    elif figures.get("shapes") == 0:
        rows["shapes"] = (
            f"none: flesh moves by {reached:.2g} % of the size only; try a livelier motion, "
            "softer flesh or a smaller --error"
        )
    rows["time"] = f"{figures['bake_s']:.1f} s in all"
    for name, value in rows.items():
        table.add_row(name, escape(value))
    console.print(table)
    beside = [str(figures[name]) for name in ("mesh", "report") if name in figures]
    shown = "".join(f" and {each}" for each in beside)
    console.print(f"wrote {figures['output']}{shown}", markup=False)
