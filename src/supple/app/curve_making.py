"""`supple curves`: a character in, the same file out with curves on its free controls.

The way of a file: `_checked_target` ▸ `read_character` and `prepared_model` (character_models) ▸
`supple.curves` (playback.secondary_motion) ▸ `supple.save` (formats.save).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from rich.markup import escape
from rich.table import Table

from supple.app.command_files import check_place, checked_sheet
from supple.app.model_request import command_model, flesh_values, free_names
from supple.app.options import CurveOptions, by_parameter
from supple.app.removing import run_removal
from supple.engines.engine import FIRST_ENGINE, Engine
from supple.errors import SuppleError
from supple.formats.curve_keys import checked_error
from supple.formats.registry import FREE_CURVES
from supple.formats.save import curve_format, remove_curves, save
from supple.mesh.topology import counted
from supple.playback.bake_plan import flesh_damping
from supple.playback.baking import bake
from supple.playback.character_models import prepared_model
from supple.playback.character_sources import CharacterSource, read_character
from supple.playback.progress_bar import console, first_use_message, task_bar, working
from supple.playback.secondary_motion import SHAKEN, curve_plan, curves, moving_engine
from supple.rig.baked_motion import BakedMotion
from supple.rig.free_curves import FreeCurves
from supple.rig.motion.motion import Motion


def run_curves(
    given: str,
    output: Path | None = None,
    options: CurveOptions | None = None,
    *,
    quiet: bool = False,
    look: Callable[[FreeCurves], None] | None = None,
) -> dict[str, Any]:
    """Make curves of a motion of a file, a scene or a model; write them, and return figures.

    Parameters
    ----------
    given
        A file, or the name of a scene; a file of that name goes first.
    output
        Where to; by default the name with "_curves" in the current folder.
    options
        As given on the command line; by default none.
    quiet
        Show nothing.
    look
        Called with the curves, once they are written.
    """
    began = perf_counter()
    options = options or CurveOptions()
    if options.remove:
        return run_removal(remove_curves, "curves", Path(given), output, quiet=quiet)
    row = moving_engine(options.engine)
    target = _checked_target(given, output, options)
    stepping = _stepping(options, row)
    free_names(options.free)
    first_use_message(quiet)
    with working("reading", quiet):
        source = read_character(given, options.unit, curves=False, **options.reading())
        options = replace(options, motion=options.motion_name())
        plan = curve_plan(source.character, options.motion, **options.playing())
    _say_what(source, plan.motion, options, quiet)
    ready = command_model(given, source, options, row.name, quiet=quiet)
    with task_bar(quiet) as tell:
        found = curves(
            source.character,
            plan.motion,
            ready.model,
            engine=row.name,
            settle=options.settle,
            smooth=options.smooth,
            strength=options.strength,
            simulation=stepping | {"scaled_loads": ready.scaled_loads},
            progress=tell,
            **options.playing(),
        )
    with working("writing", quiet):
        written = save(target, found, **options.saving())
    written.pop("path", None)
    if look is not None:
        look(found)
    figures = found.report | {
        "flesh": options.flesh,
        "strength": options.strength,
        "loop": found.loop,
        "free_names": list(found.free),
        "build_s": round(ready.seconds, 3),
        "model_kept": ready.kept,
        **written,
        "output": str(target),
    }
    if options.plot is not None:
        figures["plot"] = _plotted(options.plot, found, quiet)
    if options.page is not None:
        figures["page"] = _paged(options, source, found, figures, quiet)
    figures["curves_s"] = round(perf_counter() - began, 3)
    if not quiet:
        _print_summary(figures)
    return figures


def _stepping(options: CurveOptions, row: Engine) -> dict[str, Any]:
    """Return options of the simulator: the flesh's damping, and what is said of controls."""
    told: dict[str, Any] = {
        name: by_parameter(f"--{name}", words)
        for name in ("follow", "firmness", "damping")
        if (words := getattr(options, name)) is not None
    }
    if isinstance(told.get("damping"), float):  # of all flesh, not of some controls
        told.pop("damping")
    damping = flesh_damping(options.flesh, options.flesh_damping())
    told |= {} if options.tolerance is None else {"tolerance": options.tolerance}
    for name in told:
        if name not in row.step_options:
            raise SuppleError(f"--{name}: the engine {row.name} has no such option")
    known = {name: value for name, value in damping.items() if name in row.step_options}
    return known | told


def _checked_target(given: str, output: Path | None, options: CurveOptions) -> Path:
    """Return the path of the result; SuppleError when it cannot be written, before any work."""
    file = Path(given)
    if output is None:
        stem = file.stem.removesuffix("_curves")
        suffix = file.suffix.lower()
        known = FREE_CURVES.find(file) is not None and suffix != ".json"
        output = Path(f"{stem}_curves{suffix if known else '.json'}")
    row = curve_format(output)
    for name in options.saving():
        if name not in row.options():
            name = name.replace("_", "-")
            raise SuppleError(f"{output}: --{name} is not for {output.suffix.lower()} files")
    if options.error is not None:
        checked_error(options.error)
    # Nothing of its own file is lost: curves can be taken out again.
    check_place(output)
    if options.plot is not None:
        checked_sheet(options.plot)
    if options.page is not None:
        if options.page.suffix.lower() not in (".html", ".htm"):
            raise SuppleError(f"{options.page}: a page ends in .html")
        check_place(options.page)
    return output


def _say_what(source: CharacterSource, motion: Motion, options: CurveOptions, quiet: bool) -> None:
    """Say which motion was chosen where none was asked for."""
    if quiet or options.motion is not None:
        return
    known = source.character.motions
    if not known:
        console.print(f'it has no motion; "{SHAKEN}" shakes and tilts it', markup=False)
    elif len(known) > 1:
        others = [name for name in known if name != motion.name]
        more = ", ".join(others[:8]) + (" …" if len(others) > 8 else "")
        said = (
            f'motion "{motion.name}", the liveliest of {len(known)}; --motion for another: {more}'
        )
        console.print(said, markup=False)


def _plotted(path: Path, found: FreeCurves, quiet: bool) -> str:
    from supple.app.pictures.curve_plots import plot_curves

    with working("drawing", quiet):
        plot_curves(path, found)
    return str(path)


def _paged(
    options: CurveOptions,
    source: CharacterSource,
    found: FreeCurves,
    figures: dict[str, Any],
    quiet: bool,
) -> str:
    """Write the page: rig alone, with curves, and beside them pose-space flesh on the same clip."""
    from supple.app.pictures.curve_plots import plot_curves
    from supple.app.pictures.filmstrip import filmstrip
    from supple.app.report.report_page import write_page

    assert options.page is not None
    values = flesh_values(source, options)
    material = ("anatomy", "young", "poisson", "stiffness")
    same = {name: values[name] for name in material if name in values}
    ready = prepared_model(source, flesh=options.flesh, quiet=quiet, **same)
    own = _named(found.baked(), f"{found.name}, curves")
    start, end = float(found.times[0]), float(found.times[-1])
    how: dict[str, Any] = {"rate": max(found.rate, 24.0), "start": start, "end": end}
    simulation = flesh_damping(options.flesh, options.flesh_damping())
    if options.young is not None:  # a given stiffness is never changed
        simulation["stiffness"] = 1.0
    with task_bar(quiet) as tell:
        flesh = bake(
            source.character,
            _whole(found, source, options),
            ready.model,
            simulation=simulation | {"scaled_loads": ready.scaled_loads},
            progress=tell,
            loop=found.loop,
            **how,
        )
    other = _named(flesh, f"{found.name}, {FIRST_ENGINE}")
    with working("drawing", quiet), TemporaryDirectory() as folder:
        strips = {"curves": own, FIRST_ENGINE: other}
        for name, baked in strips.items():
            filmstrip(Path(folder) / f"{name}.png", baked)
        plot_curves(Path(folder) / "plot.png", found)
        pictures: dict[str, Path | bytes] = {
            "rig alone, and with curves": Path(folder) / "curves.png",
            "rig alone, and with pose-space flesh": Path(folder) / f"{FIRST_ENGINE}.png",
            "curves": Path(folder) / "plot.png",
        }
        shown = {name: value for name, value in figures.items() if name != "free_names"}
        write_page(options.page, [own, other], shown, pictures)
    return str(options.page)


def _whole(found: FreeCurves, source: CharacterSource, options: CurveOptions) -> Motion:
    """Return the clip that curves were made of."""
    return curve_plan(source.character, options.motion, **options.playing()).motion


def _named(baked: BakedMotion, name: str) -> BakedMotion:
    motion = baked.motion
    renamed = Motion(motion.times, motion.poses, motion.roots, name, motion.cuts)
    return replace(baked, motion=renamed)


def _print_summary(figures: dict[str, Any]) -> None:
    built = f"built in {figures['build_s']:.1f} s"
    kept = "kept from before" if figures["model_kept"] else built
    most = ", ".join(figures["liveliest"])
    cycles = f", {figures['cycles']} cycles" if "cycles" in figures else ""
    frames = f"{figures['frames']} frames at {figures['rate']:.4g} a second{cycles}"
    reached = f"within {100 * figures['error']:.3f} % of the size"
    keys = f"{figures['n_keys']:,} of {figures['n_samples']:,}, {figures['keys']}, {reached}"
    rows = [
        ("character", f"{figures['vertices']:,} vertices"),
        ("model", f"{figures['engine']}, {counted(figures['free'], 'free parameter')}, {kept}"),
        ("motion", f"{figures['motion']}, {frames}, {figures['step_ms']:.2f} ms a step"),
        ("curves", f"move skin by {100 * figures['moves']:.2g} % of the size; most: {most}"),
        ("keys", keys),
        ("time", f"{figures['curves_s']:.1f} s in all"),
    ]
    if figures.get("animation"):
        new = "new" if figures.get("new") else "changed"
        channels = counted(figures["channels"], "channel")
        rows.insert(4, ("animation", f"{figures['animation']}, {new}, {channels}"))
    if "substeps" in figures:
        cut = figures["substeps"]
        told = f"{cut['least']} to {cut['most']} a step, {cut['mean']} on average"
        error = f"{100 * figures['error_per_second']:.2g} % of the size a second at most"
        rows.insert(4, ("sub-steps", f"{told}; estimated error {error}"))
    if figures["limits"]:
        acted = ", ".join(f"{name} in {count}" for name, count in figures["limits"].items())
        rows.insert(4, ("limits", f"{acted} of {figures['steps']} steps"))
    table = Table(show_header=False, box=None)
    for name, value in rows:
        table.add_row(name, escape(value))
    console.print(table)
    beside = "".join(f" and {figures[name]}" for name in ("plot", "page") if name in figures)
    console.print(f"wrote {figures['output']}{beside}", markup=False)
