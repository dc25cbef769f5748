"""`supple curves`: write a character's file again, with curves on its free controls.

The steps are `_checked_target` ▸ `read_character` ▸ `command_model` ▸ `supple.curves` ▸
`supple.save`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np

from supple.app.command_files import (
    check_place,
    checked_page,
    checked_sheet,
    print_chosen_motion,
    print_rows,
    run_removal,
)
from supple.app.contact_options import ObstacleOptions
from supple.app.model_request import command_model, flesh_values, free_names, with_kept_feel
from supple.app.options import CurveOptions, by_parameter
from supple.engines.engine import FIRST_ENGINE, Engine
from supple.engines.options import without_none
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

#: Fraction of values at bounds from which the summary suggests wider bounds.
MANY_BOUNDED = 0.25


def run_curves(
    given: str,
    output: Path | None = None,
    options: CurveOptions | None = None,
    touch: ObstacleOptions | None = None,
    *,
    quiet: bool = False,
    look: Callable[[FreeCurves], None] | None = None,
) -> dict[str, Any]:
    """Compute curves for a motion of a file, a scene or a model; write them; return a summary.

    An existing file named `given` precedes a scene of that name. `output` is by default the name
    with "_curves" in the current folder. `look` is called with the curves after they are written.
    """
    began = perf_counter()
    options = with_kept_feel(options or CurveOptions())
    if options.remove:
        return run_removal(remove_curves, "curves", Path(given), output, quiet=quiet)
    row = moving_engine(options.engine)
    target = _checked_target(given, output, options)
    touch = touch or ObstacleOptions()
    stepping = _stepping(options, row) | touch.stepping(row)
    free_names(options.free)
    first_use_message(quiet)
    with working("reading", quiet):
        source = read_character(given, options.unit, curves=False, **options.reading())
        options = replace(options, motion=options.motion_name())
        plan = curve_plan(source.character, options.motion, **options.playing())
        touch.check_obstacles(plan.place_of(source.character))
    if not quiet and options.motion is None:
        names = list(source.character.motions)
        print_chosen_motion(names, plan.motion.name, SHAKEN, "--motion for another")
    ready = command_model(given, source, options, row.name, quiet=quiet)
    with task_bar(quiet) as progress:
        result = curves(
            source.character,
            plan.motion,
            ready.model,
            engine=row.name,
            settle=options.settle,
            smooth=options.smooth,
            strength=options.strength,
            simulation=stepping | {"scaled_loads": ready.scaled_loads, "feel": ready.feel},
            progress=progress,
            **options.playing(),
        )
    with working("writing", quiet):
        written = save(target, result, **options.saving())
    written.pop("path", None)
    key_times = written.pop("key_times", {})
    if look is not None:
        look(result)
    figures = result.report | {
        "flesh": options.flesh,
        "strength": options.strength,
        "loop": result.loop,
        "free_names": list(result.free),
        **ready.figures(),
        **written,
        "output": str(target),
    }
    if options.plot is not None:
        with working("drawing", quiet):
            plot_curves(options.plot, result, key_times)
        figures["plot"] = str(options.plot)
    if options.page is not None:
        _write_page(options.page, options, source, result, key_times, figures, quiet)
        figures["page"] = str(options.page)
    figures["curves_s"] = round(perf_counter() - began, 3)
    if not quiet:
        _print_summary(figures)
    return figures


def _stepping(options: CurveOptions, row: Engine) -> dict[str, Any]:
    """Return options of the simulator: damping of the flesh, and options by control."""
    given: dict[str, Any] = {
        name: by_parameter(f"--{name}", words)
        for name in ("follow", "firmness", "damping")
        if (words := getattr(options, name)) is not None
    }
    if isinstance(given.get("damping"), float):  # for all flesh, not for some controls
        given.pop("damping")
    damping = flesh_damping(options.flesh, options.flesh_damping())
    others = {name: getattr(options, name) for name in ("tolerance", "solver", "deferral")}
    given |= without_none(others)
    for name in given:
        if name not in row.step_options:
            raise SuppleError(f"--{name}: the engine {row.name} has no such option")
    known = {name: value for name, value in damping.items() if name in row.step_options}
    return known | given


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
    check_place(output)  # may be the source: curves can be removed again
    if options.plot is not None:
        checked_sheet(options.plot)
    if options.page is not None:
        checked_page(options.page, "a page")
    return output


def _write_page(
    page: Path,
    options: CurveOptions,
    source: CharacterSource,
    result: FreeCurves,
    key_times: Mapping[str, Sequence[float]],
    figures: dict[str, Any],
    quiet: bool,
) -> None:
    """Write a page of two motions: with curves, and with pose-space flesh on the same clip."""
    from supple.app.pictures.filmstrip import filmstrip
    from supple.app.report.report_page import write_page

    values = flesh_values(source, options)
    material = ("anatomy", "young", "poisson", "stiffness")
    same = {name: values[name] for name in material if name in values}
    ready = prepared_model(source, flesh=options.flesh, quiet=quiet, **same)
    with_curves = _renamed(result.baked(), f"{result.name}, curves")
    simulation = flesh_damping(options.flesh, options.flesh_damping())
    if options.young is not None:  # a given stiffness is never changed
        simulation["stiffness"] = 1.0
    with task_bar(quiet) as progress:
        flesh = bake(
            source.character,
            curve_plan(source.character, options.motion, **options.playing()).motion,
            ready.model,
            simulation=simulation | {"scaled_loads": ready.scaled_loads, "feel": ready.feel},
            progress=progress,
            loop=result.loop,
            rate=max(result.rate, 24.0),
            start=float(result.times[0]),
            end=float(result.times[-1]),
        )
    with_flesh = _renamed(flesh, f"{result.name}, {FIRST_ENGINE}")
    with working("drawing", quiet), TemporaryDirectory() as folder:
        for name, baked in (("curves", with_curves), (FIRST_ENGINE, with_flesh)):
            filmstrip(Path(folder) / f"{name}.png", baked)
        plot_curves(Path(folder) / "plot.png", result, key_times)
        pictures: dict[str, Path | bytes] = {
            "rig alone, and with curves": Path(folder) / "curves.png",
            "rig alone, and with pose-space flesh": Path(folder) / f"{FIRST_ENGINE}.png",
            "curves": Path(folder) / "plot.png",
        }
        shown = {name: value for name, value in figures.items() if name != "free_names"}
        write_page(page, [with_curves, with_flesh], shown, pictures)


def _renamed(baked: BakedMotion, name: str) -> BakedMotion:
    motion = baked.motion
    renamed = Motion(motion.times, motion.poses, motion.roots, name, motion.cuts)
    return replace(baked, motion=renamed)


def _print_summary(figures: dict[str, Any]) -> None:
    built = f"built in {figures['build_s']:.1f} s"
    origin = "from the cache" if figures["model_kept"] else built
    liveliest = ", ".join(figures["liveliest"])
    cycles = f", {figures['cycles']} cycles" if "cycles" in figures else ""
    frames = f"{figures['frames']} frames at {figures['rate']:.4g} per second{cycles}"
    reached = f"within {100 * figures['error']:.3f} % of the size"
    keys = f"{figures['n_keys']:,} of {figures['n_samples']:,}, {figures['keys']}, {reached}"
    rows = [
        ("character", f"{figures['vertices']:,} vertices"),
        ("model", f"{figures['engine']}, {counted(figures['free'], 'free parameter')}, {origin}"),
        ("motion", f"{figures['motion']}, {frames}, {figures['step_ms']:.2f} ms per step"),
        ("curves", f"move skin by {100 * figures['moves']:.2g} % of the size; most: {liveliest}"),
        ("keys", keys),
        ("time", f"{figures['curves_s']:.1f} s in all"),
    ]
    if figures.get("animation"):
        new = "new" if figures.get("new") else "changed"
        channels = counted(figures["channels"], "channel")
        rows.insert(4, ("animation", f"{figures['animation']}, {new}, {channels}"))
    if figures.get("at_bounds", 0.0) > MANY_BOUNDED:
        text = f"{100 * figures['at_bounds']:.0f} % of the weights' values are at a bound"
        rows.insert(4, ("bounds", f"{text}; with --bounds=-1,1 they swing both ways"))
    if "substeps" in figures:
        counts = "{least} to {most} per step, {mean} on average".format(**figures["substeps"])
        error = f"{100 * figures['error_per_second']:.2g} % of the size per second at most"
        rows.insert(4, ("sub-steps", f"{counts}; estimated error {error}"))
    if figures["limits"]:
        acted = ", ".join(f"{name} in {count}" for name, count in figures["limits"].items())
        rows.insert(4, ("limits", f"{acted} of {figures['steps']} steps"))
    print_rows(rows)
    beside = "".join(f" and {figures[name]}" for name in ("plot", "page") if name in figures)
    console.print(f"wrote {figures['output']}{beside}", markup=False)


# Charts of curves ------------------------------------------------------------------------------

#: Most charts of a picture, which shows the parameters that move the skin most.
MOST_CHARTS = 180
WIDTH, HEIGHT = 2.6, 1.25
CURVE, KEY, FILL = "#c2453d", "#8d8d97", "#f3cfc6"
UNITS = {"rad": "°", "m": " m", "1": ""}


def plot_curves(
    path: str | Path, curves: FreeCurves, key_times: Mapping[str, Sequence[float]] | None = None
) -> None:
    """Draw a chart of each curve into a PNG file, atomically.

    Angles are in degrees. The animator's keys are grey; the motion added by physics is the filled
    area. `key_times` are the times of the written keys by free parameter, drawn as dots.
    """
    from matplotlib.figure import Figure

    from supple.app.pictures.drawing import INK, PAPER, label, plain_axes, save_picture

    drawn = curves.fine or curves
    displacement = np.abs(curves.added).max(axis=0, initial=0.0) * curves.reach
    chosen = np.sort(np.argsort(-displacement, kind="stable")[:MOST_CHARTS])
    columns = min(6, max(1, math.ceil(math.sqrt(0.6 * len(chosen)))))
    rows = max(1, math.ceil(len(chosen) / columns))
    height = rows * HEIGHT + 0.75
    figure = Figure(figsize=(max(columns * WIDTH, 5.2), height), facecolor=PAPER)
    charts = figure.subplots(rows, columns, squeeze=False, sharex=True)
    plain_axes(*charts.ravel())
    for axes in charts.ravel()[len(chosen) :]:
        axes.set_visible(False)
    for axes, k in zip(charts.ravel(), chosen, strict=False):
        parameter = curves.character.rig.parameters[curves.columns[k]]
        factor = 180 / math.pi if parameter.unit == "rad" else 1.0
        key = factor * drawn.keyed[:, curves.columns[k]]
        value = factor * drawn.values[:, k]
        axes.fill_between(drawn.times, key, value, color=FILL, linewidth=0)
        axes.plot(drawn.times, key, color=KEY, linewidth=0.8, linestyle=(0, (3, 2)))
        axes.plot(drawn.times, value, color=CURVE, linewidth=1.2)
        if at := (key_times or {}).get(curves.free[k]):
            axes.plot(at, np.interp(at, drawn.times, value), ".", color=CURVE, markersize=4)
        axes.set_title(label(parameter.name, 30), fontsize=7, color=INK, loc="left", pad=2)
        axes.tick_params(labelsize=6, length=2, colors=INK)
        axes.margins(x=0)
        axes.yaxis.set_major_formatter(f"{{x:.3g}}{UNITS[parameter.unit]}")
        low, high = axes.get_ylim()
        narrowest = 0.02 * factor  # keeps tiny motions flat
        if high - low < narrowest:
            middle = 0.5 * (low + high)
            axes.set_ylim(middle - 0.5 * narrowest, middle + 0.5 * narrowest)
    for axes in charts[-1]:
        axes.set_xlabel("s", fontsize=6, color=INK, labelpad=1)
    name, count = label(curves.character.name, 40), len(curves.free)
    more = f", the {len(chosen)} that move most" if len(chosen) < count else ""
    title = (
        f"{name}, “{label(curves.name, 40)}”: {count} free{more}; dots: keys; dashed: the rig alone"
    )
    figure.suptitle(title, fontsize=9, color=INK, x=0.01, y=1 - 0.12 / height, ha="left")
    figure.subplots_adjust(
        left=0.55 / figure.get_figwidth(),
        right=1 - 0.1 / figure.get_figwidth(),
        top=1 - 0.5 / height,
        bottom=0.32 / height,
        hspace=0.5,
        wspace=0.3,
    )
    save_picture(figure, Path(path), 130)
