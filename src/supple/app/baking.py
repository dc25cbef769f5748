"""`supple bake`: write a character's file again, with moving flesh.

The steps are `checked_target` ▸ `read_character` ▸ `command_model` ▸ `BakeRequest.bake` ▸
`supple.save`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

from supple.app.bake_summary import print_summary, reported_bakes
from supple.app.command_files import check_place, checked_page, print_chosen_motion
from supple.app.contact_options import ContactOptions
from supple.app.model_request import (
    bake_plans,
    command_model,
    command_quality,
    flesh_values,
    with_kept_feel,
)
from supple.app.options import BakeOptions
from supple.checks import checked_number
from supple.engines.engine import ENGINES, Engine, engine_named
from supple.errors import SuppleError, SuppleWarning, warn
from supple.formats.readings_table import write_readings
from supple.formats.registry import BAKED_MOTIONS, CHARACTERS
from supple.formats.save import check_target, clip_targets, holds_flesh, save
from supple.playback.bake_plan import (
    RATE,
    BakePlan,
    check_unreduced,
    flesh_damping,
    played_engine,
)
from supple.playback.character_models import PreparedModel, kept_model, stepped_by
from supple.playback.character_sources import CharacterSource, read_character
from supple.playback.final_take import (
    Checkpoint,
    content_of,
    displacement_change,
    known_distance,
    remember_distance,
)
from supple.playback.progress_bar import task_bar, working
from supple.playback.request import BakeRequest
from supple.playback.swing.goals import swing_goals
from supple.rig.baked_motion import BakedMotion
from supple.rig.character import WIGGLE, Character


def run_bake(
    given: str,
    output: Path | None = None,
    options: BakeOptions | None = None,
    touch: ContactOptions | None = None,
    *,
    quiet: bool = False,
    look: Callable[[Sequence[BakedMotion]], None] | None = None,
    use_cache: bool = True,
) -> dict[str, Any]:
    """Bake a motion of a file, a scene or a model, or all of them; write it, and return figures.

    An existing file named `given` precedes a scene of that name. `output` is by default the name
    with "_soft" in the current folder. `look` is called with the bakes after they are written.
    Without `use_cache` models in the cache do not change the choice of the quality "auto".
    """
    began = perf_counter()
    options, touch = options or BakeOptions(), touch or ContactOptions()
    live = engine_named(options.engine, "character")
    check_unreduced(live, options.quality, options.flesh_words(), {})
    target = checked_target(given, output)
    _check_options(target, options, touch)
    options = with_kept_feel(options)
    with working("reading", quiet):
        source = read_character(given, options.unit, **options.reading())
        options = replace(options, motion=options.motion_name(), rate=_rate(source, options))
        plans = _checked_plans(source.character, options, live, touch)
        built = source.model is None and options.model is None
        row = played_engine(live, options.quality)
        stepping = _stepping(options, touch, row, live) if built else {}
        values = flesh_values(source, options, options.model)
        choice = command_quality(
            source, options, live, plans, stepping, use_cache=use_cache, values=values
        )
        row = played_engine(live, choice.quality)
        stepping = _stepping(options, touch, row, live) if built else {}
        plans = [plan.stepped_by(row.name) for plan in plans]
        targets = _checked_files(target, source.character, plans, Path(given), options)
    if not quiet and options.motion is None and len(plans) == 1:
        hint = "--all for all of them, --motion for one"
        print_chosen_motion(list(source.character.motions), plans[0].motion.name, WIGGLE, hint)
    model_of = partial(command_model, given, source, options, quiet=quiet, values=values)
    ready = model_of(row.name)
    if not built:  # a model file determines the engine
        live = stepped_by(live, ready.model)
        row = played_engine(live, choice.quality)
        stepping = _stepping(options, touch, row, live)
        plans = [plan.stepped_by(row.name) for plan in plans]
    stepping["scaled_loads"] = ready.scaled_loads
    live_stepping = stepping if row is live else stepping | _stepping(options, touch, live, live)
    checkpoints: list[Checkpoint] = []
    request = BakeRequest(source, ready.model, live, stepping, anatomy=values["anatomy"])
    request = replace(request, feel=ready.feel).with_choice(choice)
    if options.swing is not None:
        request = _swinging(request, options, live_stepping, model_of)
    reduced_models: list[PreparedModel] = []

    def in_live_quality() -> BakeRequest:
        reduced_models.append(reduced := model_of(live.name))
        steps = live_stepping | {"scaled_loads": reduced.scaled_loads}
        how: dict[str, Any] = {"simulation": steps, "feel": reduced.feel}
        return replace(request.in_live_quality(), model=reduced.model, **how)

    with task_bar(quiet) as progress:
        bakes = request.bake(plans, progress, checkpoints, in_live_quality)
    with working("writing", quiet):
        written = _write(target, bakes, options)
    for each in checkpoints:
        each.remove()
    if look is not None:
        look(bakes)
    # Computed last, so that a failure here cannot lose the bake.
    kept: PreparedModel | None = ready
    if row is not live and built:
        kept = kept_model(source, flesh=options.flesh, engine=live.name, **values)
    _measure_distances(bakes, plans, BakeRequest(source, None, live, live_stepping), kept, quiet)
    if reduced_models and all(each.report["quality"] == "live" for each in bakes):
        ready = reduced_models[0]  # no clip was baked in full
    written |= {**ready.figures(), **_files(targets)}
    written["bake_s"] = round(perf_counter() - began, 3)
    return _reported(bakes, options, written, quiet)


def _checked_plans(
    character: Character, options: BakeOptions, live: Engine, touch: ContactOptions
) -> list[BakePlan]:
    """Return the plans; SuppleError for an invalid plan, obstacle or swing, before a build."""
    plans = bake_plans(character, options, live)
    for plan in plans:
        touch.check_obstacles(plan.place_of(character))
    if options.swing is not None:
        swing_goals(character, options.swing)
    return plans


def _swinging(
    request: BakeRequest,
    options: BakeOptions,
    stepping: dict[str, Any],
    model_of: Callable[[str], PreparedModel],
) -> BakeRequest:
    """Return a request with a swing; `stepping` are options of the live simulator of its search.

    `model_of` returns the model of an engine.
    """
    request, live, source = replace(request, swing=options.swing), request.live, request.source
    if request.played is live:
        return request
    reduced = model_of(live.name)
    search = BakeRequest(source, reduced.model, live, stepping, feel=reduced.feel)
    return replace(request, search=search)


def _reported(
    bakes: Sequence[BakedMotion], options: BakeOptions, written: dict[str, Any], quiet: bool
) -> dict[str, Any]:
    """Return all figures of a bake; write its report page and print its summary."""
    figures = reported_bakes(bakes) | {"flesh": options.flesh, "loop": bakes[0].loop} | written
    if options.report is not None:
        figures["report"] = _write_report(options, bakes, figures, quiet)
    if options.video is not None:
        figures["video"] = _write_video(options, bakes, quiet)
    if not quiet:
        print_summary(figures)
    return figures


def _rate(source: CharacterSource, options: BakeOptions) -> float:
    """Return the frames per second of the option, or else of the file."""
    usual = getattr(source.character.source, "frame_rate", RATE)
    return usual if options.rate is None else options.rate


def _checked_files(
    target: Path,
    character: Character,
    plans: Sequence[BakePlan],
    source: Path,
    options: BakeOptions,
) -> list[Path]:
    """Return the files that will be written; SuppleError if one cannot be written."""
    names = [plan.motion.name for plan in plans]
    files = clip_targets(target, character, names, **options.saving())
    for file in files:
        if file != target:  # checked before
            check_place(file, source)
        check_target(file, character, names)
    return files


def _measure_distances(
    bakes: Sequence[BakedMotion],
    plans: Sequence[BakePlan],
    live: BakeRequest,
    kept: PreparedModel | None,
    quiet: bool,
) -> None:
    """Add the distance between live and final quality to each report, measured or cached.

    `live` is the request of live bakes, with the reduced model `kept`, for comparison; without a
    reduced model nothing is added. Errors become warnings, because the bakes are already complete.
    """
    if kept is None or kept.model.engine != live.live.name:
        return
    live = replace(live, model=kept.model, feel=kept.feel)
    if any("swing" in each.report for each in bakes):
        return  # with another stiffness
    for baked, plan in zip(bakes, plans, strict=True):
        try:
            is_live = baked.report["quality"] == "live"
            shown = baked if is_live else _live_bake(live, plan, baked.loop, quiet)
            played = shown.motion, shown.rate, shown.loop, live.simulation, live.feel
            content = content_of(live.model, *played, reduced=True)
            distance = known_distance(content)
            if not is_live:
                distance = float(f"{displacement_change(shown, baked):.4g}")
                remember_distance(content, distance)
        except Exception as error:
            why = str(error).partition("\n")[0] or type(error).__name__
            warn(f'motion "{plan.motion.name}": live and final quality cannot be compared: {why}')
            continue
        if distance is not None:
            baked.report["live_distance"] = distance


def _live_bake(live: BakeRequest, plan: BakePlan, loop: bool, quiet: bool) -> BakedMotion:
    """Return the live bake of a plan, without its warnings."""
    live_plan = replace(plan, loop=loop).stepped_by(live.live.name)
    with warnings.catch_warnings(), task_bar(quiet) as progress:
        warnings.simplefilter("ignore", SuppleWarning)
        return live.bake([live_plan], progress, None)[0]


def _stepping(
    options: BakeOptions, touch: ContactOptions, row: Engine, live: Engine
) -> dict[str, Any]:
    """Return options of the simulator; with --young, the stiffness is never changed."""
    if options.readings is not None and not hasattr(row.simulate, "contacts"):
        rows = (each for each in ENGINES.values() if each.moves == "character")
        having = " or ".join(each.name for each in rows if hasattr(each.simulate, "contacts"))
        raise SuppleError(f"--readings: {row.name} has no contacts; use --engine {having}")
    contact = touch.stepping(row, live)
    stepping = flesh_damping(options.flesh, options.damping)
    if options.young is not None:
        stepping["stiffness"] = 1.0
    return {name: value for name, value in stepping.items() if name in row.step_options} | contact


def _write_report(
    options: BakeOptions, bakes: Sequence[BakedMotion], figures: dict[str, Any], quiet: bool
) -> str:
    from supple.app.report.report_page import write_page

    assert options.report is not None
    with working("drawing", quiet):
        write_page(options.report, bakes, figures, clay=options.clay)
    return str(options.report)


def _write_video(options: BakeOptions, bakes: Sequence[BakedMotion], quiet: bool) -> str:
    from supple.app.pictures.video import video, video_size

    assert options.video is not None
    size = video_size(options.video_size)
    with task_bar(quiet) as progress:
        video(
            bakes,
            options.video,
            show=options.video_show,
            size=size,
            clay=options.clay,
            progress=lambda part: progress(part, "drawing the video"),
        )
    return str(options.video)


def checked_target(given: str, output: Path | None) -> Path:
    """Return the path of the result; SuppleError when it cannot be written, before any work."""
    file = Path(given)
    again = holds_flesh(file)
    if output is None:
        reader = CHARACTERS.find(file)
        suffix = ".glb" if reader is None else reader.baked_suffix or file.suffix.lower()
        stem = file.stem.removesuffix("_soft") if again else file.stem
        output = Path(f"{stem}_soft{suffix}")
    row = BAKED_MOTIONS.find(output)
    if row is None:
        suffixes = ", ".join(BAKED_MOTIONS.suffixes())
        raise SuppleError(
            f'{output}: "{output.suffix}" files are not written; use one of {suffixes}'
        )
    if row.library and find_spec(row.library) is None:
        raise SuppleError(f"{output}: needs an extra; run pip install 'supple[{row.extra}]'")
    check_place(output, None if again else file)  # a baked file contains the original
    return output


def _files(targets: Sequence[Path]) -> dict[str, Any]:
    """Return names and total size of the files that were written."""
    size = sum(file.stat().st_size for file in targets)
    figures: dict[str, Any] = {"output": str(targets[0]), "bytes": size}
    if len(targets) > 1:
        figures["outputs"] = [str(file) for file in targets]
    return figures


def _check_options(target: Path, options: BakeOptions, touch: ContactOptions) -> None:
    """Refuse options that the files to be written cannot have, before any work."""
    _check_saving(target, options.saving())
    if options.with_obstacles and touch.obstacle is touch.ground is touch.object is None:
        raise SuppleError("--with-obstacles: there are none; add --ground, --obstacle or --object")
    if options.report is not None:
        checked_page(options.report, "a report")
    if options.video is not None:
        from supple.app.pictures.video import check_video, video_size

        check_video(options.video)
        video_size(options.video_size)
        check_place(options.video)
    if options.readings is not None:
        if options.readings.suffix.lower() != ".csv":
            raise SuppleError(f"{options.readings}: readings are written to a .csv file")
        check_place(options.readings)


def _check_saving(target: Path, options: dict[str, Any]) -> None:
    row = BAKED_MOTIONS.find(target)
    for name in ("points", "drop_springs", "with_obstacles"):
        if name in options and row is not None and name not in row.options():
            having = [each for each in BAKED_MOTIONS.rows if name in each.options()]
            suffixes = ", ".join(suffix for each in having for suffix in each.suffixes)
            raise SuppleError(f"{target}: --{name.replace('_', '-')} is for {suffixes}")
    error = checked_number("error", options.get("error", 0.002))
    if not 1e-6 <= error <= 0.5:
        raise SuppleError(f"--error is {error:g} of the size; use 0.000001 to 0.5")


def _write(target: Path, bakes: Sequence[BakedMotion], options: BakeOptions) -> dict[str, Any]:
    written = save(target, bakes, **options.saving())
    for name in ("path", "paths"):
        written.pop(name, None)
    if options.readings is not None:
        write_readings(options.readings, bakes)
        written["readings"] = str(options.readings)
    return {"shapes" if key == "n_shapes" else key: value for key, value in written.items()}
