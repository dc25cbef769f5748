"""barbic2005 figs 5, 8 and 11: times of precomputation and steps of reduced bodies."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from supple.app.pictures.drawing import save_picture
from supple.lab.reproduce.barbic2005.bodies import (
    bars,
    body_costs,
    draw_body,
    pair,
    picture,
    shown_scene,
)
from supple.progress import Progress
from supple.scenes.bodies.elastic_scene import STVK_SCENES

_MINUTE = 60.0


class PaperCosts(NamedTuple):
    """Printed numbers of a body; None for missing or illegible numbers."""

    coefficients_s: float
    coefficients_kb: float
    #: Seconds of linear modes, right sides and solutions.
    derivatives_s: tuple[float, float | None, float] | None
    force_us: float
    stiffness_us: float
    system_us: float
    step_us: float
    steps_a_frame: int
    surface_us: float
    #: Frames in a second, drawn without the graphics card's shaders.
    frames: float


#: Times of the two bodies with r = 30 in µs, and their steps a frame.
_R30 = (550.0, 770.0, 75.0, 1395.0, 15)
PAPER = {
    "spoon": PaperCosts(60.0, 98.0, (24.0, 6.5, 33.0), 8.2, 9.5, 12.5, 30.2, 25, 565.0, 275.0),
    "bridge": PaperCosts(186.0, 223.0, None, 22.0, 25.0, 18.4, 65.4, 10, 14500.0, 38.0),
    "tower": PaperCosts(79.2 * _MINUTE, 3072.0, (65.0, None, 26 * _MINUTE), *_R30, 25500.0, 17.0),
    "heart": PaperCosts(97.4 * _MINUTE, 3072.0, (111.0, 201.0, 58 * _MINUTE), *_R30, 6500.0, 31.0),
}
#: Names of the parts of derivatives in rows, and in the measured costs.
_DERIVATIVES = {"linear_modes_s": "modes_s", "right_sides_s": "right_sides_s", "solve_s": "solve_s"}
_NOTE = "Measured on one core, in seconds of the processor; the paper's: a 3.0 GHz Pentium. "
_UNITS = "In this run a product of 256³ took {:.2g} ms. "


def fig5(folder: Path, *, quick: bool = False, progress: Progress) -> dict[str, Any]:
    """Return the table of polynomial coefficients: seconds and bytes."""
    costs = _costs(quick, progress)
    rows: list[dict[str, Any]] = [
        {
            "body": name,
            "r": pair(results["modes"], shown_scene(name, False).paper.modes, quick),
            "elements": pair(results["elements"], shown_scene(name, False).paper.elements, quick),
            "seconds": pair(results["coefficients_s"], PAPER[name].coefficients_s, quick),
            "kilobytes": pair(
                results["coefficient_bytes"] / 1024, PAPER[name].coefficients_kb, quick
            ),
        }
        for name, results in costs.items()
    ]
    progress(0.9, "drawing")
    figure, parts = picture("Precomputing polynomial coefficients", len(costs) + 1)
    for axes, (name, results) in zip(parts, costs.items(), strict=False):
        caption = f"{name}: {results['elements']:,} cubes, r = {results['modes']}"
        draw_body(axes, name, shown_scene(name, quick).surface, results["shape"], caption)
    _draw_bars(parts[-1], rows, "seconds", "s", "coefficients")
    save_picture(figure, folder / "barbic2005-fig5.png")
    return {
        "title": "barbic2005 fig. 5: precomputing polynomial coefficients",
        "message": _summary("The coefficients take", rows, "seconds", "s"),
        "rows": rows,
        "note": _NOTE
        + _dense(costs)
        + "Kilobytes of float64; the paper also stores coefficients of the force, which follow "
        "from the stiffness by Euler's theorem.",
    }


def fig8(folder: Path, *, quick: bool = False, progress: Progress) -> dict[str, Any]:
    """Return the table of modal derivatives: seconds of modes, right sides and solutions."""
    costs = {
        name: results
        for name, results in _costs(quick, progress).items()
        if PAPER[name].derivatives_s is not None
    }
    rows: list[dict[str, Any]] = []
    for name, results in costs.items():
        printed = PAPER[name].derivatives_s or (None, None, None)
        rows.append(
            {"body": name, "k": results["linear_modes"]}
            | {
                column: pair(results[key], theirs, quick)
                for (column, key), theirs in zip(_DERIVATIVES.items(), printed, strict=True)
            }
            | {"mass_pca_s": results["pca_s"]}
        )
    progress(0.9, "drawing")
    shown = {key: key.removesuffix("_s").replace("_", " ") for key in _DERIVATIVES}
    figure = _bar_charts("Computing modal derivatives", rows, shown, "s")
    save_picture(figure, folder / "barbic2005-fig8.png")
    return {
        "title": "barbic2005 fig. 8: computation of modal derivatives",
        "message": _summary("Solving for the derivatives takes", rows, "solve_s", "s"),
        "rows": rows,
        "note": _NOTE
        + _dense(costs)
        + "Our linear modes include the sparse factorisation, which also solves for the "
        "derivatives; the paper uses preconditioned iterations. Its time of the tower's right "
        "sides is illegible.",
    }


def fig11(folder: Path, *, quick: bool = False, progress: Progress) -> dict[str, Any]:
    """Return the table of an integration step, its parts, and the surface."""
    costs = _costs(quick, progress)
    rows = []
    for name, results in costs.items():
        paper = PAPER[name]
        steps = paper.steps_a_frame
        frame = steps * results["step_us"] + results["surface_us"]
        rows.append(
            {
                "body": name,
                "r": results["modes"],
                "force_and_stiffness_us": pair(
                    results["evaluation_us"], paper.force_us + paper.stiffness_us, quick
                ),
                "linear_system_us": pair(results["system_us"], paper.system_us, quick),
                "step_us": pair(results["step_us"], paper.step_us, quick),
                "surface_us": pair(results["surface_us"], paper.surface_us, quick),
                "steps_a_frame": steps,
                "frame_us": pair(frame, steps * paper.step_us + paper.surface_us, quick),
                "frames_a_second": pair(1e6 / frame, paper.frames, quick),
            }
        )
    progress(0.9, "drawing")
    shown = {"step_us": "one step", "surface_us": "u = Uq", "frame_us": "steps and u of a frame"}
    figure = _bar_charts("Runtime computation performance", rows, shown, "µs")
    save_picture(figure, folder / "barbic2005-fig11.png")
    return {
        "title": "barbic2005 fig. 11: runtime computation performance",
        "message": _summary("An implicit Newmark step takes", rows, "step_us", "µs"),
        "rows": rows,
        "note": _NOTE
        + _dense(costs)
        + "Force and stiffness, and the linear system, are measured alone and repeatedly. A "
        "frame has the paper's number of steps and one surface; frames a second are without "
        "drawing, the paper's with it. Force and stiffness come from one evaluation, so they have "
        "one time.",
    }


def _bar_charts(title: str, rows: list[dict[str, Any]], shown: dict[str, str], unit: str) -> Figure:
    """Draw a chart for each column: our bars and the paper's, for each body."""
    figure, parts = picture(title, len(shown))
    for axes, (key, caption) in zip(parts, shown.items(), strict=True):
        _draw_bars(axes, rows, key, unit, caption)
    return figure


def _draw_bars(axes: Axes, rows: list[dict[str, Any]], key: str, unit: str, title: str) -> None:
    pairs = [(row[key]["ours"], row[key]["paper"]) for row in rows]
    bars(axes, [row["body"] for row in rows], pairs, unit, title)


def _costs(quick: bool, progress: Progress) -> dict[str, dict[str, Any]]:
    names = ("spoon",) if quick else STVK_SCENES
    results = {}
    for at, name in enumerate(names):
        progress(0.9 * at / len(names), f"{name}, reduced and stepped on one core")
        results[name] = body_costs(name, quick)
    return results


def _dense(costs: dict[str, dict[str, Any]]) -> str:
    return _UNITS.format(1e-3 * min(results["dgemm256_us"] for results in costs.values()))


def _summary(begin: str, rows: list[dict[str, Any]], key: str, unit: str) -> str:
    times = ", ".join(f"{row[key]['ours']:.2g} {unit} ({row['body']})" for row in rows)
    ratios = [row[key]["paper"] / row[key]["ours"] for row in rows if row[key]["paper"]]
    if not ratios:
        return f"{begin} {times}."
    return f"{begin} {times}: {min(ratios):,.0f} to {max(ratios):,.0f} times less than printed."
