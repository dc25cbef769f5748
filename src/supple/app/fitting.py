"""`supple fit`: find stiffness and damping by region from a motion of the same skin.

The steps are `_checked_output` ▸ `read_character` ▸ `fitted` ▸ `Fit.save`.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from supple.anatomy.region_entries import ENTRIES_SUFFIX
from supple.app.command_files import check_place, checked_sheet, print_chosen_motion, print_rows
from supple.app.model_request import read_stiffness
from supple.app.options import FitOptions
from supple.errors import SuppleError
from supple.formats.length_units import metres_in
from supple.mesh.topology import counted
from supple.playback.character_sources import read_character
from supple.playback.fit.fit import Fit, fitted
from supple.playback.motion_choice import chosen_motion
from supple.playback.progress_bar import console, first_use_message, working
from supple.rig.character import WIGGLE


def run_fit(
    given: str,
    target: str | Path,
    output: Path | None = None,
    options: FitOptions | None = None,
    *,
    quiet: bool = False,
) -> dict[str, Any]:
    """Fit flesh to a target, write an anatomy file, and return figures.

    `output` is by default the character's name with "_fit.anatomy.json" in the current folder.
    """
    options = options or FitOptions()
    output = _checked_output(given, output, [target, options.stiffness])
    if options.plot is not None:
        checked_sheet(options.plot)
    if not Path(target).is_file():
        raise SuppleError(f"{target}: there is no such file; give a motion of the skin")
    first_use_message(quiet)
    with working("reading", quiet):
        source = read_character(given, options.unit, **options.reading())
        character = source.character
        clip = chosen_motion(character, options.motion_name())
        values = options.flesh_words() | options.playing()
        if options.stiffness is not None:
            values["stiffness"] = read_stiffness(options.stiffness, character)
        if options.anatomy is not None:
            values["anatomy"] = None if options.anatomy == "none" else options.anatomy
    if not quiet and options.motion is None:
        hint = "--motion for another"
        print_chosen_motion(list(character.motions), clip.name, WIGGLE, hint)
    metres = None if options.unit is None else metres_in(options.unit)
    result = fitted(
        source,
        target,
        clip,
        options.regions,
        not quiet,
        keep=True,
        metres_per_unit=metres,
        engine=options.engine,
        flesh=options.flesh,
        **values,
    )
    with working("writing", quiet):
        result.save(output)
        figures = result.report | {"output": str(output), "bytes": output.stat().st_size}
        if options.plot is not None:
            from supple.app.pictures.fit_plot import plot_fit

            plot_fit(options.plot, result)
            figures["plot"] = str(options.plot)
    if not quiet:
        _print_summary(given, result, figures, options)
    return figures


def _checked_output(given: str, output: Path | None, inputs: Sequence[str | Path | None]) -> Path:
    """Return the path of the anatomy file; SuppleError if it cannot be written, or is an input."""
    if output is None:
        output = Path(f"{Path(given).stem}_fit{ENTRIES_SUFFIX}")
    if output.suffix != ".json":  # `bake` takes no other spelling
        raise SuppleError(f"{output}: a fit writes an anatomy file; use NAME{ENTRIES_SUFFIX}")
    for each in (given, *inputs):
        check_place(output, None if each is None else Path(each))
    return output


def _print_summary(given: str, result: Fit, figures: dict[str, Any], options: FitOptions) -> None:
    size = result.character.surface.size
    part = f"{figures['begin']:.3g} to {figures['end']:.3g} s"
    read_as = f", read as {figures['read_as']}" if "read_as" in figures else ""
    frames = f"{counted(figures['frames'], 'frame')} at {figures['rate']:.4g} per second"
    rows = [
        ("target", f"{figures['target']}{read_as}: {figures['motion']}, {part}, {frames}"),
        *(
            (
                row.region,
                f"stiffness × {row.stiffness:.3g}, damping × {row.damping:.3g}; "
                f"{100 * row.distance:.3g} % of its motion from the target, "
                f"{100 * row.before:.3g} % before; swings by {100 * row.swing / size:.2g} % of "
                "the size",
            )
            for row in result.regions
        ),
        ("in all", f"{100 * result.distance:.3g} % from the target, {_percent(figures)} before"),
        ("time", f"{figures['fit_s']:.1f} s in all, {figures['runs']} runs"),
    ]
    print_rows(rows)
    beside = f" and {figures['plot']}" if "plot" in figures else ""
    console.print(f"wrote {figures['output']}{beside}", markup=False)
    words = ["supple", "bake", given, *_repeated(options), "--quality", "live"]
    hint = shlex.join([*words, "--anatomy", figures["output"]])
    console.print(f"to bake with it: {hint}", markup=False, soft_wrap=True)


def _repeated(options: FitOptions) -> list[str]:
    """Return the options of the model that a bake with the result needs, too."""
    words = []
    for name in ("unit", "betas", "armature", "young", "poisson", "stiffness", "modes", "tets"):
        value = getattr(options, name)
        if value is not None:
            words += [f"--{name}", str(value)]
    return [*words, "--poses", *map(str, options.poses)] if options.poses else words


def _percent(figures: dict[str, Any]) -> str:
    return f"{100 * figures['before']:.3g} %"
