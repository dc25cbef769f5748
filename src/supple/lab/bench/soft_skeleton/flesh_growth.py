"""`supple bench soft-skeleton --growth`: times as handles, cubature and contacts grow."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from supple.app.pictures.drawing import INK, PAPER, save_picture
from supple.app.processes import with_cores
from supple.engines.soft_skeleton.model import SoftSkeletonModel
from supple.lab.bench.bench_runs import (
    check_steps,
    checked_figures,
    exponent,
    growth_axes,
    growth_caption,
    measure_growth,
    write_figures,
)
from supple.lab.bench.soft_skeleton.soft_bench import run_figures, timed_build
from supple.lab.bench.soft_skeleton.soft_cases import pressed
from supple.scenes.characters.character_scene import scene

HANDLES = (20, 41, 82, 176)
CUBATURE = (125, 250, 500, 1_000, 2_000)
#: Radii of a ball that is pressed into the body, in parts of its height: more contacts each.
BALLS = (0.01, 0.02, 0.04, 0.08, 0.16)
#: What stays while the others grow: the paper's body.
_HANDLES, _CUBATURE, _BALL = 82, 500, 0.06
STEPS = 180
#: Lines: what grows, and the key of the row that says how far.
_LINES = {
    "handles": "handles",
    "cubature": "cubature tets, 82 handles",
    "contacts": "contacts, 82 handles",
}
_OVER = {"handles": "handles", "cubature": "cubature", "contacts": "most_contacts"}
_PARTS = {
    "step_ms": ("a step", "#2b2b33"),
    "force_ms": ("force", "#7a9e57"),
    "hessian_ms": ("Hessian", "#3d7ab8"),
    "solve_ms": ("solution", "#8a6bb0"),
    "contact_ms": ("contact", "#c8453b"),
    "skin_ms": ("skin", "#c9a13b"),
}
_KEPT = ("handles", "cubature", "coordinates", "contacts", "most_contacts", "step_in_dgemm")


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
    """Time steps of our person as handles, cubature and contacts grow; draw and write the times.

    Parameters
    ----------
    path
        The picture, a .png file; figures are written beside it as .json, after each case: a run
        that was ended goes on where it was.
    handles, cubature, balls
        How many of each, and radii of the ball.
    body, tets
        Scene, and how many tets to fill it with; by default the scene's own.
    steps
        Length of a run of steps.
    quiet
        Show no progress.
    """
    check_steps(steps)
    kept = checked_figures(path)
    cases = [("handles", h, _CUBATURE if h <= _HANDLES else 6 * h, _BALL) for h in handles]
    cases += [("cubature", _HANDLES, c, _BALL) for c in cubature]
    cases += [("contacts", _HANDLES, _CUBATURE, ball) for ball in balls]
    with TemporaryDirectory() as folder:
        where = Path(folder), body, tets
        measured = {
            f"{body} of {tets} tets, {line}: {h} handles, {c} tets, ball {ball:g}": (
                line,
                partial(_row, *where, h, c, ball, steps),
            )
            for line, h, c, ball in cases
        }
        rows = measure_growth(kept, measured, (*_PARTS, *_KEPT), steps=steps, quiet=quiet)
    wanted = [rows[name] for name in measured]
    figures: dict[str, Any] = {
        line: [row for row in wanted if row["line"] == line] for line in _LINES
    }
    figures["exponents"] = {
        line: {key: exponent(figures[line], _OVER[line], key) for key in _PARTS if key != "skin_ms"}
        for line in ("handles", "cubature")  # contacts do not vary by enough
    }
    save_picture(growth_picture(figures), path)
    write_figures(kept, {"steps": steps, "complete": True, "rows": rows} | figures)
    return figures


def _row(
    folder: Path, body: str, tets: int | None, handles: int, cubature: int, ball: float, steps: int
) -> dict[str, Any]:
    """Measure one: its build on all cores, its steps on one. Lines share what is built."""
    path, told = folder / f"{handles}-{cubature}.supple", folder / f"{handles}-{cubature}.txt"
    if not told.exists():
        sizes = {"handles": handles, "cubature": cubature}
        sizes |= {} if tets is None else {"tets": tets}
        told.write_text(f"{with_cores(None, _built, body, sizes, path):.3f}")
    return {"build_s": float(told.read_text())} | with_cores(1, _stepped, path, ball, steps)


def _built(body: str, sizes: dict[str, Any], path: Path) -> float:
    shown = scene(body)
    return timed_build(shown.character, shown.recipe("soft-skeleton") | sizes, path)


def _stepped(path: Path, ball: float, steps: int) -> dict[str, Any]:
    model = SoftSkeletonModel.load(path)
    found = dict(model.figures) | run_figures(lambda: pressed(model, ball), steps)
    return {key: round(found[key], 4) for key in (*_KEPT, *_PARTS)}


def table(figures: dict[str, Any]) -> None:
    """Print the figures for people."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    for line, title in _LINES.items():
        powers = figures["exponents"].get(line, {})
        caption = growth_caption(powers, {key: name for key, (name, _) in _PARTS.items()})
        grid = Table(
            title=f"As {title.partition(',')[0]} grow",
            caption=f"Growth: {caption}" if caption else None,
        )
        headings = {"handles": ",", "cubature": ",", "coordinates": ",", "most_contacts": ","}
        for heading in (*headings, "in dgemm", *_PARTS, "build s"):
            grid.add_column(heading.replace("_", " "), justify="right")
        for row in figures[line]:
            sizes = [format(row[name], look) for name, look in headings.items()]
            times = [f"{row['step_in_dgemm']:.2f}", *(f"{row[key]:.2f}" for key in _PARTS)]
            grid.add_row(*sizes, *times, f"{row['build_s']:.1f}")
        console.print(grid)


def growth_picture(figures: dict[str, Any]) -> Figure:
    """Draw milliseconds of a step and its parts over each of the three; logarithmic."""
    figure = Figure(figsize=(12.6, 4.6), facecolor=PAPER, layout="constrained")
    figure.suptitle("Soft skeletons: a step as handles, cubature and contacts grow", color=INK)
    for axes, line in zip(figure.subplots(1, 3, sharey=True), _LINES, strict=True):
        _draw(axes, figures, line)
    return figure


def _draw(axes: Axes, figures: dict[str, Any], line: str) -> None:
    rows = sorted(figures[line], key=lambda row: row[_OVER[line]])
    over = [max(row[_OVER[line]], 1) for row in rows]
    for key, (name, colour) in _PARTS.items():
        power = figures["exponents"].get(line, {}).get(key)
        said = name if power is None else f"{name}, power {power:.2f}"
        wide = 2.2 if key == "step_ms" else 1.2
        values = [max(row[key], 1e-3) for row in rows]
        axes.plot(over, values, "o-", color=colour, lw=wide, ms=4, label=said)
    beside = "milliseconds" if line == "handles" else ""
    growth_axes(axes, _LINES[line], beside, sorted(set(over)))
