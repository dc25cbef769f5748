"""hahn2013 fig. 3: errors against rig-space physics over time, and a frame beside its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from supple.app.pictures.drawing import INK, PAPER, plain_axes, save_picture
from supple.lab.reproduce.hahn2013.renderings import draw_character
from supple.lab.reproduce.hahn2013.takes import STEP, SUBJECTS, Errors, Take, Tell, played

#: Solvers of each subject; IV1 and IV2 only where the paper has them.
_PAPERS = {"IV1, JE1": "iv1-je1", "IV2, JE1": "iv2-je1", "IV2 with rest right": "iv2-offset-je1"}
#: Steps of those: they are slow, and a stride tells enough.
PAPERS_STEPS = 120
SOLVERS: dict[str, dict[str, str]] = {
    "trunk": _PAPERS | {"ours": "condensed"},
    "belly": _PAPERS | {"ours": "condensed"},
    "gentle trunk": {"ours": "condensed"},
    "violent trunk": {"ours": "condensed"},
}
COLOURS = {
    "IV1, JE1": "#3d7ab8",
    "IV2, JE1": "#8a6bb0",
    "IV2 with rest right": "#7a9e57",
    "ours": "#c8453b",
}
#: What the paper says of the belly: mean and largest error stay below, in % of the height.
PAPER_ERRORS = 0.08, 1.4


def fig3(folder: Path, *, quick: bool = False, tell: Tell) -> dict[str, Any]:
    """Measure errors of the paper's solvers and ours against rig-space physics, step by step."""
    subjects = ("trunk",) if quick else tuple(SOLVERS)
    truths: dict[str, Take] = {}
    ours: dict[str, Take] = {}
    errors: dict[str, dict[str, Errors]] = {}
    rows = []
    for at, name in enumerate(subjects):
        subject = SUBJECTS[name]
        solvers = {"RSP": "rsp"} | SOLVERS[name]
        takes = {}
        for number, (solver, code) in enumerate(solvers.items()):
            begun = at + number / len(solvers)

            def told(part: float, begun: float = begun, n: int = len(solvers)) -> None:
                tell(0.95 * (begun + part / n) / len(subjects), "playing")

            steps = PAPERS_STEPS if solver in _PAPERS else None
            takes[solver] = played(subject, code, told, quick=quick, steps=steps)
        truths[name], ours[name] = takes.pop("RSP"), takes["ours"]
        errors[name] = {
            solver: take.errors(truths[name], subject.height) for solver, take in takes.items()
        }
        rows += [_row(name, solver, each) for solver, each in errors[name].items()]
    tell(0.96, "drawing")
    save_picture(_curves(errors), folder / "hahn2013-fig3-errors.png")
    save_picture(_frames(truths, ours, errors), folder / "hahn2013-fig3-frames.png")
    own = ", ".join(
        f"{row['subject']} {row['mean_percent']:.2g} / {row['largest_percent']:.2g} %"
        for row in rows
        if row["solver"] == "ours"
    )
    return {
        "title": "hahn2013 fig. 3: errors against rig-space physics",
        "message": f"Ours, mean / largest: {own} of the height.",
        "rows": rows,
        "note": "Mean over vertices and steps; highest mean of a step; largest of all. The paper "
        "says of its belly that the mean is below 0.08 % and the largest below 1.4 % always.",
    }


def _row(name: str, solver: str, errors: Errors) -> dict[str, Any]:
    papers = PAPER_ERRORS if (name, solver) == ("belly", "IV2, JE1") else (None, None)
    return {
        "subject": name,
        "solver": solver,
        "mean_percent": float(errors.mean.mean()),
        "highest_mean_percent": {"ours": float(errors.mean.max()), "paper": papers[0]},
        "largest_percent": float(errors.most.max()),
        "paper_largest_percent": papers[1],
    }


def _curves(errors: dict[str, dict[str, Errors]]) -> Figure:
    figure = Figure(figsize=(3.4 * len(errors) + 1, 5.0), facecolor=PAPER, layout="constrained")
    figure.suptitle("Distance from rig-space physics, % of the height", color=INK, fontsize=11)
    grid = figure.subplots(2, len(errors), squeeze=False, sharex="col")
    for column, (name, own) in enumerate(errors.items()):
        for row, what in enumerate(("mean", "most")):
            axes = grid[row, column]
            for solver, each in own.items():
                values = np.maximum(getattr(each, what), 1e-5)
                times = STEP * np.arange(1, len(values) + 1)
                axes.semilogy(times, values, color=COLOURS[solver], lw=1.2, label=solver)
            axes.axhline(PAPER_ERRORS[row], color=INK, lw=0.7, ls=":", label="paper's bound")
            plain_axes(axes)
        grid[0, column].set_title(name, color=INK, fontsize=10)
        grid[1, column].set_xlabel("seconds", color=INK)
    grid[0, 0].set_ylabel("mean over the skin", color=INK)
    grid[1, 0].set_ylabel("largest", color=INK)
    grid[0, 0].legend(frameon=False, fontsize=7)
    return figure


def _frames(
    truths: dict[str, Take], ours: dict[str, Take], errors: dict[str, dict[str, Errors]]
) -> Figure:
    """Draw RSP and ours where they differ most."""
    figure = Figure(figsize=(2.8 * len(truths), 5.6), facecolor=PAPER, layout="constrained")
    grid = figure.subplots(2, len(truths), squeeze=False)
    for column, name in enumerate(truths):
        worst = int(np.argmax(errors[name]["ours"].most))
        character = SUBJECTS[name].shown.character
        for row, (said, take) in enumerate((("RSP", truths[name]), ("ours", ours[name]))):
            caption = f"{name}, {STEP * (worst + 1):.2f} s: {said}"
            draw_character(grid[row, column], character, take.skins[worst], caption, azimuth=40.0)
    return figure
