"""`supple bench --budget`: parts of the error of the real-time step, for real characters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from supple.app.command_files import checked_sheet
from supple.app.model_request import chosen_anatomy
from supple.app.pictures.drawing import INK, PAPER, plain_axes, save_picture
from supple.checks import checked_number
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.engines.pose_space.step_options import INTEGRATOR
from supple.errors import SuppleError
from supple.lab.bench.case_runner import Cells, print_columns, rounded
from supple.lab.fidelity.budget import BASES, VARIANTS, Budget
from supple.lab.fidelity.truth import plain_option
from supple.playback.bake_plan import bake_plan, bake_simulator, stable_stiffness
from supple.playback.character_models import prepared_model
from supple.playback.character_sources import read_character
from supple.playback.motion_choice import chosen_motion
from supple.playback.progress_bar import first_use_message, task_bar
from supple.rig.motion.motion import Motion
from supple.scenes.characters.character_scene import PAPERS
from supple.user_cache import cache_folder

RATE = 90.0
_PERCENT = ".1%"
#: Longest duration of a motion in s, and fewest frames.
LONGEST, FEWEST = 60.0, 10
#: Parts of the budget: name, variant or basis, key of the row: ``error`` is the distance from the
#: reference, ``change`` the distance between two simulations.
PARTS = (
    ("all of it", "live", "error"),
    ("time step, full", "full", "error"),
    ("time step, reduced", "fine", "change"),
    ("all but the time step", "fine", "error"),
    ("  and without cubature", "whole", "error"),
    ("basis, blended", "basis", "error"),
    ("  at a few frames", "basis sampled", "error"),
    ("basis computed at the pose", "basis own", "error"),
    ("  without contact", "basis free", "error"),
    ("cubature", "whole", "change"),
    ("  elastic", "whole elastic", "change"),
    ("  inertial", "whole inertial", "change"),
    ("limits", "limits", "change"),
    ("one Newton iteration", "newton", "change"),
    ("frames blended, not rotated", "frames", "change"),
    ("without transport of the flesh", "fine paper", "change"),
)
#: Parts in the picture.
DRAWN = tuple(
    part for part in PARTS if not part[0].startswith("  ") or part[0].endswith("without cubature")
)


@dataclass(frozen=True)
class BudgetOptions:
    """Options of `measure`; None stands for the default of `supple bake`."""

    #: Name of a motion of each character; by default as in `supple bake`.
    motion: str | None = None
    seconds: float = 1.0
    tets: int | None = None  # number of tets; by default as in `supple bake`
    #: Numbers of modes and poses; by default as in `supple bake`.
    modes: int | None = None
    most_poses: int | None = None
    #: Elastic cubature tets for each mode, and half as many vertices; by default three.
    cubature: int | None = None
    #: Change by the last halving of the reference's step, relative to the displacement.
    accuracy: float = 0.05
    #: Folder of references and finished rows; by default in the user's cache.
    folder: Path | None = None

    def __post_init__(self) -> None:
        for name, largest in (("seconds", LONGEST), ("accuracy", 1.0)):
            value = checked_number(name, getattr(self, name))
            if not 0 < value <= largest:
                raise SuppleError(f"{name} is {value:g}; give more than 0 and at most {largest:g}")

    @property
    def storage(self) -> Path:
        """Folder of references and rows."""
        return cache_folder() / "fidelity" if self.folder is None else self.folder

    def building(self) -> dict[str, Any]:
        """Return options of the build that differ from the defaults of `supple bake`."""
        names = ("tets", "modes", "most_poses")
        changes = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        if self.cubature is not None:
            columns = self.modes or 60
            changes["elastic_cubature"] = self.cubature * columns
            changes["inertial_cubature"] = (self.cubature * columns + 1) // 2
        return changes


def measure(
    sources: Sequence[str] = (),
    options: BudgetOptions | None = None,
    *,
    picture: Path | None = None,
    quiet: bool = False,
) -> list[dict[str, Any]]:
    """Return the error budget of each file or scene, baked as `supple bake` does.

    `picture`, a .png file, is updated after each character. The row of a character that cannot be
    measured has the error as ``failed``.
    """
    chosen = options or BudgetOptions()
    if picture is not None:
        checked_sheet(picture)
    first_use_message(quiet)
    rows: list[dict[str, Any]] = []
    for source in list(sources) or list(PAPERS["xu2016"]):
        try:
            rows.append(_measured(source, chosen, quiet))
        except SuppleError as error:
            rows.append({"character": Path(source).stem, "failed": str(error)})
        if picture is not None:
            draw(picture, rows)
    return rows


def _measured(name: str, options: BudgetOptions, quiet: bool) -> dict[str, Any]:
    began = perf_counter()
    source = read_character(name)
    clip = chosen_motion(source.character, options.motion)
    plan = bake_plan(source.character, clip)
    ready = prepared_model(
        source, anatomy=chosen_anatomy(None, source), quiet=quiet, **options.building()
    )
    model: PoseSpaceModel = ready.model
    motion = _beginning(clip, options.seconds)
    live = bake_simulator(model, 1 / RATE, scaled_loads=ready.scaled_loads).options
    names = ("alpha", "beta", "gravity", "acceleration_limit")
    settings = {each: plain_option(getattr(live, each)) for each in names}
    row: dict[str, Any] = {
        "character": Path(name).stem,
        "motion": clip.name,
        "start": round(float(motion.times[0] - clip.times[0]), 4),
        "seconds": round(motion.duration, 4),
        **model.figures,
        "forces": model.report.get("elastic_error", {}),
        "firmer": stable_stiffness(model, plan, scaled_loads=ready.scaled_loads),
    }
    with task_bar(quiet) as progress:

        def report(part: float, text: str) -> None:
            progress(part, f"{row['character']}, {text}")

        budget = Budget(model, motion, RATE, settings, options.accuracy, options.storage, report)
        row["truth"] = budget.figures
        row["plays"] = {name: budget.variant_row(name) for name in budget.variants}
        row["bases"] = {name: budget.basis(name) for name in BASES}
    row["took_s"] = round(perf_counter() - began, 1)
    return rounded(row, 4)


def _beginning(clip: Motion, seconds: float) -> Motion:
    """Return the first `seconds` of a clip; refuse a clip of fewer than `FEWEST` frames."""
    last = clip.times[0] + min(seconds, clip.duration)
    if (last - clip.times[0]) * RATE < FEWEST - 1:
        raise SuppleError(f'motion "{clip.name}" lasts {clip.duration:.2g} s; use another --motion')
    return clip.slice(float(clip.times[0]), float(last))


def _figure(row: dict[str, Any], name: str, key: str) -> float | None:
    """Return a number of a simulation or a basis in `row`; None if it is missing."""
    value = (row.get("plays", {}) | row.get("bases", {})).get(name, {}).get(key)
    return None if value is None else float(value)


def table(rows: list[dict[str, Any]]) -> None:
    """Print the error budget and the errors of variants of the live step.

    There is one column per character; characters that failed are listed below.
    """
    measured = [row for row in rows if "failed" not in row]
    if measured:
        _print_parts(measured)
        print_columns(
            measured,
            [{VARIANTS[name].about: (partial(_step_text, name), "") for name in _STEPS}],
            "Other steps: % from the reference (amplitude %, ms a frame)",
            "Steps of a frame have a pose each; sub-steps share the frame's pose. Milliseconds are "
            "processor time, with the rig and the skin.",
            "character",
        )
    for row in rows:
        if "failed" in row:
            print(f"{row['character']}: {row['failed']}")


def _print_parts(rows: list[dict[str, Any]]) -> None:
    facts: Cells = {
        "motion": ("motion", ""),
        "seconds": (_span, ""),
        "tets, modes, poses": (lambda row: f"{row['tets']}, {row['modes']}, {row['poses']}", ""),
        "reference: steps a frame": (lambda row: row["truth"]["substeps"], ""),
        "  change by the last halving": (lambda row: row["truth"]["change"], _PERCENT),
        "force error, held out": (lambda row: row["forces"].get("held_out"), _PERCENT),
        "force error between poses": (lambda row: row["forces"].get("between_poses"), _PERCENT),
        "displacement, % of size": (
            lambda row: row["truth"]["displacement"] / row["truth"]["size"],
            ".2%",
        ),
    }
    parts: Cells = {
        f"{part} Δ" if kind == "change" else part: (partial(_figure, name=key, key=kind), _PERCENT)
        for part, key, kind in PARTS
    }
    more: Cells = {
        **_named_figures("amplitude", ("live", "full", "fine", "whole", "basis"), "amplitude"),
        **_named_figures("frequency error", ("live", "full", "fine"), "frequency_error"),
        "stiffness factor of the bake": ("firmer", "g"),
        "limits acted": (lambda row: row["plays"]["live"]["limits"], ""),
    }
    print_columns(
        rows,
        (facts, parts, more),
        "Parts of the error, % of the RMS displacement of the reference",
        "The reference is the simulation of all tets at a converged step. Δ: difference of two "
        "simulations that differ in this option. Parts differ in direction and do not add up. "
        "Basis: distance of the reference from the nearest motion in the basis.",
        "character",
    )


def _named_figures(title: str, names: Sequence[str], key: str) -> Cells:
    return {f"{title}, {name}": (partial(_figure, name=name, key=key), _PERCENT) for name in names}


def _step_text(name: str, row: dict[str, Any]) -> str:
    error, amplitude, spent = (_figure(row, name, k) for k in ("error", "amplitude", "ms_a_frame"))
    return f"{_percent(error)} ({_percent(amplitude)}, {spent or 0:.2f})"


_STEPS = tuple(k for k, v in VARIANTS.items() if v.compared_to == "live" and k != "fine")


def _span(row: dict[str, Any]) -> str:
    start = f" from {row['start']:.2f} s" if row["start"] else ""
    return f"{row['seconds']:.2f}{start}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}"


def draw(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Draw the parts of each budget as bars, and errors over the computing time of steps."""
    measured = [row for row in rows if "failed" not in row]
    figure = Figure(figsize=(3.2 + 2.4 * max(len(measured), 1), 7.6), facecolor=PAPER)
    axes = np.atleast_2d(
        figure.subplots(2, max(len(measured), 1), sharey="row", squeeze=False, height_ratios=(3, 2))
    )
    colours = {"live": "#c0392b", "full": "#7f8c8d"}
    for at, row in enumerate(measured):
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
    axes[1, 0].set_ylim(bottom=0)  # shared by all, after all are drawn
    axes[0, 0].set_xlabel("% of the reference's RMS displacement", fontsize=8, color=INK)
    plain_axes(*axes.ravel())
    figure.text(
        0.01,
        0.005,
        "red, grey: distance from the reference; rose: the same with parts switched off; "
        "blue: difference of two simulations that differ in one option",
        fontsize=7,
        color=INK,
    )
    figure.tight_layout(rect=(0, 0.02, 1, 1))
    save_picture(figure, path)


def _draw_steps(axes: Any, row: dict[str, Any], legend: bool) -> None:
    """Draw errors over the computing time of a frame, with a line for each integrator."""
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
        axes.set_ylabel("% from the reference", fontsize=8, color=INK)
        axes.legend(fontsize=6, frameon=False)
