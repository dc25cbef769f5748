"""`supple bench soft-skeleton --growth`: times as handles, cubature and contacts grow."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from matplotlib.figure import Figure

from supple.app.pictures.drawing import INK, PAPER
from supple.app.processes import with_cores
from supple.engines.soft_skeleton.model import SoftSkeletonModel
from supple.lab.bench.case_runner import (
    Cells,
    Growth,
    check_steps,
    growth_axes,
    growth_caption,
    measure_growth,
    plot_growth,
    print_rows,
)
from supple.lab.bench.soft_skeleton.soft_bench import run_figures, timed_build
from supple.lab.bench.soft_skeleton.soft_cases import pressed
from supple.scenes.characters.character_scene import scene

HANDLES = (20, 41, 82, 176)
CUBATURE = (125, 250, 500, 1_000, 2_000)
#: Radii of the ball that is pressed into the body, in parts of its height.
BALLS = (0.01, 0.02, 0.04, 0.08, 0.16)
#: Fixed numbers while another grows, those of the paper's body.
_HANDLES, _CUBATURE, _BALL = 82, 500, 0.06
STEPS = 180
_LINES = {
    "handles": "handles",
    "cubature": "cubature tets, 82 handles",
    "contacts": "contacts, 82 handles",
}
_PARTS = {
    "step_ms": ("a step", "#2b2b33"),
    "force_ms": ("force", "#7a9e57"),
    "hessian_ms": ("Hessian", "#3d7ab8"),
    "solve_ms": ("solution", "#8a6bb0"),
    "contact_ms": ("contact", "#c8453b"),
    "skin_ms": ("skin", "#c9a13b"),
}
_KEYS = ("handles", "cubature", "coordinates", "contacts", "most_contacts", "step_in_dgemm")
GROWTH = Growth(
    over={"handles": "handles", "cubature": "cubature", "contacts": "most_contacts"},
    # The number of contacts varies too little for a fit.
    fitted=(("handles", "cubature"), tuple(key for key in _PARTS if key != "skin_ms")),
    required=(*_PARTS, *_KEYS),
)


def measure(
    path: Path,
    *,
    handles: Sequence[int] = HANDLES,
    cubature: Sequence[int] = CUBATURE,
    balls: Sequence[float] = BALLS,
    body: str = "human",
    tets: int | None = None,
    steps: int = STEPS,
    quiet: bool = False,
) -> dict[str, Any]:
    """Time steps by number of handles, of cubature tets and of contacts; draw and write the times.

    `balls` are radii of the pressed ball, `body` is the name of a scene; see `measure_growth`.
    """
    check_steps(steps)
    cases = [("handles", h, _CUBATURE if h <= _HANDLES else 6 * h, _BALL) for h in handles]
    cases += [("cubature", _HANDLES, c, _BALL) for c in cubature]
    cases += [("contacts", _HANDLES, _CUBATURE, ball) for ball in balls]
    with TemporaryDirectory() as folder:
        measured = {
            f"{body} of {tets} tets, {line}: {h} handles, {c} tets, ball {ball:g}": (
                line,
                partial(_row, Path(folder), body, tets, h, c, ball, steps),
            )
            for line, h, c, ball in cases
        }
        return measure_growth(path, measured, GROWTH, growth_picture, steps=steps, quiet=quiet)


def _row(
    folder: Path, body: str, tets: int | None, handles: int, cubature: int, ball: float, steps: int
) -> dict[str, Any]:
    """Measure a model's build on all cores, and its steps on one; lines share models."""
    path, times = folder / f"{handles}-{cubature}.supple", folder / f"{handles}-{cubature}.txt"
    if not times.exists():
        sizes = {"handles": handles, "cubature": cubature}
        sizes |= {} if tets is None else {"tets": tets}
        times.write_text(f"{with_cores(None, _built, body, sizes, path):.3f}")
    return {"build_s": float(times.read_text())} | with_cores(1, _stepped, path, ball, steps)


def _built(body: str, sizes: dict[str, Any], path: Path) -> float:
    shown = scene(body)
    return timed_build(shown.character, shown.recipe("soft-skeleton") | sizes, path)


def _stepped(path: Path, ball: float, steps: int) -> dict[str, Any]:
    model = SoftSkeletonModel.load(path)
    figures = dict(model.figures) | run_figures(lambda: pressed(model, ball), steps)
    return {key: round(figures[key], 4) for key in (*_KEYS, *_PARTS)}


def table(figures: dict[str, Any]) -> None:
    """Print times by number of handles, of cubature tets and of contacts."""
    columns: Cells = {
        **{key.replace("_", " "): (key, ",") for key in (*_KEYS[:3], "most_contacts")},
        "in dgemm": ("step_in_dgemm", ".2f"),
        **{key.replace("_", " "): (key, ".2f") for key in _PARTS},
        "build s": ("build_s", ".1f"),
    }
    for line, title in _LINES.items():
        powers = figures["exponents"].get(line, {})
        caption = growth_caption(powers, {key: name for key, (name, _) in _PARTS.items()})
        title = f"As {title.partition(',')[0]} grow"
        print_rows(figures[line], columns, title, f"Growth: {caption}" if caption else None)


def growth_picture(figures: dict[str, Any]) -> Figure:
    """Draw milliseconds of a step and its parts over each growing number; logarithmic axes."""
    figure = Figure(figsize=(12.6, 4.6), facecolor=PAPER, layout="constrained")
    figure.suptitle("Soft skeletons: a step as handles, cubature and contacts grow", color=INK)
    for axes, line in zip(figure.subplots(1, 3, sharey=True), _LINES, strict=True):
        over = GROWTH.over[line]
        for key, (name, colour) in _PARTS.items():
            style = {"color": colour, "lw": 2.2 if key == "step_ms" else 1.2, "ms": 4}
            plot_growth(axes, figures, line, over, key, name, least=1e-3, **style)
        ticks = sorted({max(row[over], 1) for row in figures[line]})
        growth_axes(axes, _LINES[line], "milliseconds" if line == "handles" else "", ticks)
    return figure
