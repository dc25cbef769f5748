"""`supple bench --budget`: where the error of the real-time step comes from, on real characters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from supple.app.character_models import chosen_anatomy, prepared_model, read_character
from supple.app.command_files import checked_sheet
from supple.app.pictures.drawing import INK, PAPER, plain_axes, save_picture
from supple.app.progress_bar import first_use_message, task_bar
from supple.checks import checked_number
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.engines.pose_space.step_options import INTEGRATOR
from supple.errors import SuppleError
from supple.lab.fidelity.budget import BASES, PLAYS, Budget
from supple.playback.bake import bake_plan, bake_simulator, stable_stiffness
from supple.playback.motion_choice import chosen_motion
from supple.progress import Progress
from supple.rig.motion.motion import Motion
from supple.scenes.characters.character_scene import PAPERS
from supple.user_cache import cache_folder

RATE = 90.0
#: Seconds of a motion at most, and frames at least.
LONGEST, FEWEST = 60.0, 10
#: Parts of the budget: name, row and figure it is, and whether it is a distance from the truth
#: or between two plays.
PARTS = (
    ("all of it", "live", "error"),
    ("time step, full", "full", "error"),
    ("time step, reduced", "fine", "change"),
    ("all but the time step", "fine", "error"),
    ("  and without cubature", "whole", "error"),
    ("basis, blended", "basis", "error"),
    ("  at a few frames", "basis sampled", "error"),
    ("basis of the very pose", "basis own", "error"),
    ("  contact ignored", "basis free", "error"),
    ("cubature", "whole", "change"),
    ("  elastic", "whole elastic", "change"),
    ("  inertial", "whole inertial", "change"),
    ("limits", "limits", "change"),
    ("one Newton iteration", "newton", "change"),
    ("were frames not followed", "frames", "change"),
    ("were flesh carried around", "fine paper", "change"),
)
#: Parts that are drawn.
DRAWN = tuple(
    part for part in PARTS if not part[0].startswith("  ") or part[0].endswith("without cubature")
)


@dataclass(frozen=True)
class BudgetOptions:
    """Options of `measure`.

    Attributes
    ----------
    motion
        Name of a motion of each character; by default the one that `supple bake` picks.
    seconds
        Length of the motion's beginning that is played.
    tets
        Number of tets in place of those that `supple bake` makes.
    modes, most_poses
        In place of those of `supple bake`.
    cubature
        Elastic cubature tets of each mode, and half as many vertices; by default three.
    accuracy
        Change by the last halving of the truth's step, relative to the displacement.
    folder
        Where truths and finished rows are kept; by default in the user's cache.
    """

    motion: str | None = None
    seconds: float = 1.0
    tets: int | None = None
    modes: int | None = None
    most_poses: int | None = None
    cubature: int | None = None
    accuracy: float = 0.05
    folder: Path | None = None

    def __post_init__(self) -> None:
        for name, most in (("seconds", LONGEST), ("accuracy", 1.0)):
            value = checked_number(name, getattr(self, name))
            if not 0 < value <= most:
                raise SuppleError(f"{name} is {value:g}; give more than 0 and at most {most:g}")

    @property
    def kept(self) -> Path:
        """Folder of truths and rows."""
        return cache_folder() / "fidelity" if self.folder is None else self.folder

    def building(self) -> dict[str, Any]:
        """Return options of the build that differ from those of `supple bake`."""
        names = ("tets", "modes", "most_poses")
        told = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        if self.cubature is not None:
            columns = self.modes or 60
            told["elastic_cubature"] = self.cubature * columns
            told["inertial_cubature"] = (self.cubature * columns + 1) // 2
        return told


def measure(
    given: Sequence[str] = (),
    options: BudgetOptions | None = None,
    *,
    picture: Path | None = None,
    quiet: bool = False,
) -> list[dict[str, Any]]:
    """Return the budget of each character, baked as `supple bake` does; draw them if asked to.

    Parameters
    ----------
    given
        Files of characters, and scenes; by default the built-in scenes. One that cannot be
        measured has a row that says why as ``failed``.
    options
        Motion, length and sizes.
    picture
        A .png file, drawn anew after each character.
    quiet
        Show no progress.
    """
    told = options or BudgetOptions()
    if picture is not None:
        checked_sheet(picture)
    first_use_message(quiet)
    found: list[dict[str, Any]] = []
    for each in list(given) or list(PAPERS["xu2016"]):
        try:
            found.append(_measured(each, told, quiet))
        except SuppleError as error:
            found.append({"character": Path(each).stem, "failed": str(error)})
        if picture is not None:
            draw(picture, found)
    return found


def _measured(given: str, told: BudgetOptions, quiet: bool) -> dict[str, Any]:
    began = perf_counter()
    source = read_character(given)
    clip = chosen_motion(source.character, told.motion)
    plan = bake_plan(source.character, clip)
    ready = prepared_model(
        source, anatomy=chosen_anatomy(None, source), quiet=quiet, **told.building()
    )
    model: PoseSpaceModel = ready.model
    motion = _beginning(clip, told.seconds)
    live = bake_simulator(model, 1 / RATE, scaled_loads=ready.scaled_loads).options
    names = ("alpha", "beta", "gravity", "acceleration_limit")
    options = {name: _plain(getattr(live, name)) for name in names}
    row: dict[str, Any] = {
        "character": Path(given).stem,
        "motion": clip.name,
        "start": round(float(motion.times[0] - clip.times[0]), 4),
        "seconds": round(motion.duration, 4),
        **model.figures,
        "forces": model.report.get("elastic_error", {}),
        "firmer": stable_stiffness(model, plan, scaled_loads=ready.scaled_loads),
    }
    with task_bar(quiet) as tell:
        named = _named(tell, row["character"])
        budget = Budget(model, motion, RATE, options, told.accuracy, told.kept, named)
        row["truth"] = budget.figures
        row["plays"] = {name: budget.play(name) for name in budget.plays}
        row["bases"] = {name: budget.basis(name) for name in BASES}
    row["took_s"] = round(perf_counter() - began, 1)
    return _rounded(row)


def _named(tell: Progress, character: str) -> Progress:
    return lambda part, what: tell(part, f"{character}, {what}")


def _beginning(clip: Motion, seconds: float) -> Motion:
    """Return the first seconds of a clip."""
    last = clip.times[0] + min(seconds, clip.duration)
    if (last - clip.times[0]) * RATE < FEWEST - 1:
        raise SuppleError(f'motion "{clip.name}" lasts {clip.duration:.2g} s; use another --motion')
    return clip.slice(float(clip.times[0]), float(last))


def _plain(value: Any) -> Any:
    return value if isinstance(value, float) else np.asarray(value).tolist()


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, float | np.floating):
        return float(f"{value:.4g}") if np.isfinite(value) else None
    return value


def _figure(row: dict[str, Any], name: str, key: str) -> float | None:
    """Return a figure of a play or a basis; None where there is none."""
    found = (row.get("plays", {}) | row.get("bases", {})).get(name, {}).get(key)
    return None if found is None else float(found)


def table(rows: list[dict[str, Any]]) -> None:
    """Print the budgets for people, a column for each character, and what other steps would do."""
    from rich.console import Console

    console = Console()
    whole = [row for row in rows if "failed" not in row]
    if whole:
        console.print(_parts_table(whole))
        console.print(_steps_table(whole))
    for row in rows:
        if "failed" in row:
            console.print(f"{row['character']}: {row['failed']}", markup=False)


def _parts_table(rows: list[dict[str, Any]]) -> Any:
    from rich.markup import escape
    from rich.table import Table

    grid = Table(
        title="Where the error comes from, % of the RMS true displacement",
        caption="From the truth, all tets at a converged step: directly. Δ: by difference, between "
        "two plays that differ by this one switch. Parts point in different directions, and do "
        "not add up. Basis: the true motion from the nearest that the basis holds.",
    )
    grid.add_column("")
    for row in rows:
        grid.add_column(escape(row["character"]), justify="right")
    facts = {
        "motion": [escape(row["motion"]) for row in rows],
        "seconds": [_span(row) for row in rows],
        "tets, modes, poses": [f"{row['tets']}, {row['modes']}, {row['poses']}" for row in rows],
        "truth: steps a frame": [str(row["truth"]["substeps"]) for row in rows],
        "  last halving changed": [_percent(row["truth"]["change"]) for row in rows],
        "forces off, held out": [_percent(row["forces"].get("held_out")) for row in rows],
        "forces off between poses": [_percent(row["forces"].get("between_poses")) for row in rows],
        "displacement, % of size": [
            f"{100 * row['truth']['displacement'] / row['truth']['size']:.2f}" for row in rows
        ],
    }
    for name, cells in facts.items():
        grid.add_row(name, *cells)
    grid.add_section()
    for part, key, kind in PARTS:
        title = f"{part} Δ" if kind == "change" else part
        grid.add_row(title, *(_percent(_figure(row, key, kind)) for row in rows))
    grid.add_section()
    for name in ("live", "full", "fine", "whole", "basis"):
        shown = [_percent(_figure(row, name, "amplitude")) for row in rows]
        grid.add_row(f"amplitude, {name}", *shown)
    for name in ("live", "full", "fine"):
        shown = [_percent(_figure(row, name, "frequency_error")) for row in rows]
        grid.add_row(f"frequency off, {name}", *shown)
    grid.add_row("baked so many times as stiff", *(f"{row['firmer']:g}" for row in rows))
    grid.add_row("limits acted", *(_limits(row) for row in rows))
    return grid


def _steps_table(rows: list[dict[str, Any]]) -> Any:
    from rich.table import Table

    grid = Table(
        title="Other steps: % from the truth (amplitude %, ms a frame)",
        caption="Steps a frame have a pose each; sub-steps go with the frame's. Milliseconds are "
        "of the processor, with the rig and the skin.",
    )
    grid.add_column("")
    for row in rows:
        grid.add_column(row["character"], justify="right")
    for name in _STEPS:
        cells = []
        for row in rows:
            figures = (_figure(row, name, key) for key in ("error", "amplitude", "ms_a_frame"))
            error, amplitude, spent = figures
            cells.append(f"{_percent(error)} ({_percent(amplitude)}, {spent or 0:.2f})")
        grid.add_row(PLAYS[name].about, *cells)
    return grid


_STEPS = tuple(
    name for name, play in PLAYS.items() if play.beside == "live" and name not in ("fine",)
)


def _span(row: dict[str, Any]) -> str:
    start = f" from {row['start']:.2f} on" if row["start"] else ""
    return f"{row['seconds']:.2f}{start}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}"


def _limits(row: dict[str, Any]) -> str:
    acted = row["plays"]["live"]["limits"]
    return ", ".join(f"{count} {name}" for name, count in acted.items()) or "none"


def draw(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Draw the parts of each budget as bars beside each other, and errors over costs of steps."""
    whole = [row for row in rows if "failed" not in row]
    figure = Figure(figsize=(3.2 + 2.4 * max(len(whole), 1), 7.6), facecolor=PAPER)
    axes = np.atleast_2d(
        figure.subplots(2, max(len(whole), 1), sharey="row", squeeze=False, height_ratios=(3, 2))
    )
    colours = {"live": "#c0392b", "full": "#7f8c8d"}
    for at, row in enumerate(whole):
        bars, curve = axes[0, at], axes[1, at]
        values = [100 * (_figure(row, key, kind) or 0.0) for _, key, kind in DRAWN]
        tints = [
            colours.get(key, "#d98880" if kind == "error" else "#5d8aa8") for _, key, kind in DRAWN
        ]
        places = np.arange(len(DRAWN))[::-1]
        bars.barh(places, values, color=tints, height=0.72)
        for place, (_, key, kind) in zip(places, DRAWN, strict=True):
            value = _figure(row, key, kind)
            at_end = 100 * (value or 0.0) + 1
            bars.text(at_end, place, _percent(value), va="center", fontsize=7, color=INK)
        bars.set_yticks(places, [name.strip() for name, _, _ in DRAWN], fontsize=8)
        bars.set_xlim(0, max(100.0, 1.18 * max(values)))
        bars.set_title(f"{row['character']}\n{row['motion']}", fontsize=9, color=INK)
        _draw_steps(curve, row, legend=at == 0)
    axes[1, 0].set_ylim(bottom=0)  # of all, once their highest is known
    axes[0, 0].set_xlabel("% of the RMS true displacement", fontsize=8, color=INK)
    plain_axes(*axes.ravel())
    figure.text(
        0.01,
        0.005,
        "red, grey: distance from the truth; rose: the same with parts switched off; "
        "blue: between plays that differ by one switch",
        fontsize=7,
        color=INK,
    )
    figure.tight_layout(rect=(0, 0.02, 1, 1))
    save_picture(figure, path)


def _draw_steps(axes: Any, row: dict[str, Any], legend: bool) -> None:
    """Draw errors over times of a frame, a line for each integrator."""
    for method, colour in (
        ("backward-euler", "#c0392b"),
        ("bdf2", "#2e7d5b"),
        ("newmark", "#5d8aa8"),
    ):
        for ending, line in (("", "-o"), (" inner", ":^")):
            names = [f"{method} {steps}{ending}" for steps in (1, 2, 4)]
            if method == INTEGRATOR and not ending:
                names[1] = "live"
            if ending:
                names[0] = f"{method} 1"
            spent = [_figure(row, name, "ms_a_frame") or np.nan for name in names]
            error = [100 * (_figure(row, name, "error") or np.nan) for name in names]
            label = f"{method}{', sub-steps' if ending else ''}"
            axes.plot(spent, error, line, color=colour, ms=4, lw=1.2, label=label)
    axes.set_xlabel("ms a frame", fontsize=8, color=INK)
    if legend:
        axes.set_ylabel("% from the truth", fontsize=8, color=INK)
        axes.legend(fontsize=6, frameon=False)
