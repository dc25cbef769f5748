"""hahn2013 figs 2, 3 and 4: example shapes, errors against rig-space physics, and a wrestler."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from supple.app.pictures.drawing import INK, plain_axes, save_picture
from supple.engines.rig_space.simulator import RigSpaceSimulator
from supple.lab.reproduce.figures import Tell, new_figure, part_of
from supple.lab.reproduce.hahn2013.takes import (
    STEP,
    SUBJECTS,
    Errors,
    Take,
    draw_character,
    model_of,
    played,
)

#: Numbers of steps of the push and the swing, and of frames in the picture; total push in N.
PUSHED, SWUNG, SHOWN, PUSH = 8, 72, 6, 1500.0


def fig2(folder: Path, *, quick: bool = False, tell: Tell) -> dict[str, Any]:
    """Push the trunk sideways, let it swing, and draw frames."""
    subject = SUBJECTS["trunk"]
    model = model_of(subject, quick)
    simulator = RigSpaceSimulator(
        model, STEP, solver="rsp", substep=STEP, integrator="backward-euler"
    )
    rest = model.surface.vertices
    trunk = np.flatnonzero((rest[:, 2] > 1.55) & (np.abs(rest[:, 0]) < 0.2) & (rest[:, 1] < 1.2))
    push = {int(vertex): np.array([PUSH / len(trunk), 0.0, 0.0]) for vertex in trunk}
    skins, offsets, count = [], [], PUSHED + (4 if quick else SWUNG)
    for i in range(count):
        simulator.step(forces=push if i < PUSHED else None)
        skins.append(simulator.surface().copy())
        offsets.append(float((skins[-1] - rest)[trunk, 0].mean()))
        tell(0.9 * (i + 1) / count, "shaking the trunk")
    chosen = np.linspace(0, count - 1, 3 if quick else SHOWN).astype(int)
    figure = new_figure((2.1 * len(chosen), 2.6), "A push along x, and the swing after it")
    for axes, k in zip(figure.subplots(1, len(chosen)), chosen, strict=True):
        window = np.array([0.0, 1.15, 1.4]), 2.5
        character = subject.shown.character
        draw_character(
            axes, character, skins[k], f"{STEP * (k + 1):.2f} s", azimuth=0.0, window=window
        )
    save_picture(figure, folder / "hahn2013-fig2.png")
    crossings = int((np.diff(np.sign(offsets)) != 0).sum())
    return {
        "title": "hahn2013 fig. 2: an impulse makes the trunk swing",
        "message": f"The trunk swings by {100 * max(offsets) / subject.height:.3g} % of the height "
        f"to one side and {-100 * min(offsets) / subject.height:.3g} % to the other.",
        "shapes": count,
        "passages_through_rest": crossings,
        "note": "Rig-space physics with all interior vertices unknown; every step is an example of "
        "surface and interior.",
    }


#: Solvers of each subject; IV1 and IV2 for those of the paper.
_PAPERS = {"IV1, JE1": "iv1-je1", "IV2, JE1": "iv2-je1", "IV2 with rest offset": "iv2-offset-je1"}
#: Number of steps of the paper's solvers, which are slow: one stride.
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
    "IV2 with rest offset": "#7a9e57",
    "ours": "#c8453b",
}
#: The paper's bounds of mean and largest error of the belly, in % of the height.
PAPER_ERRORS = 0.08, 1.4


def fig3(folder: Path, *, quick: bool = False, tell: Tell) -> dict[str, Any]:
    """Measure errors of the paper's solvers and ours against rig-space physics at each step."""
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
            share = 0.95 / len(subjects)
            report = part_of(
                tell, share * (at + number / len(solvers)), share / len(solvers), "playing"
            )
            steps = PAPERS_STEPS if solver in _PAPERS else None
            takes[solver] = played(subject, code, report, quick=quick, steps=steps)
        truths[name], ours[name] = takes.pop("RSP"), takes["ours"]
        errors[name] = {
            solver: take.errors(truths[name], subject.height) for solver, take in takes.items()
        }
        rows += [_row(name, solver, each) for solver, each in errors[name].items()]
    tell(0.96, "drawing")
    save_picture(_curves(errors), folder / "hahn2013-fig3-errors.png")
    save_picture(_frames(truths, ours, errors), folder / "hahn2013-fig3-frames.png")
    summary = ", ".join(
        f"{row['subject']} {row['mean_percent']:.2g} / {row['largest_percent']:.2g} %"
        for row in rows
        if row["solver"] == "ours"
    )
    return {
        "title": "hahn2013 fig. 3: errors against rig-space physics",
        "message": f"Ours, mean / largest: {summary} of the height.",
        "rows": rows,
        "note": "Mean over vertices and steps; highest mean of a step; largest of all. In the "
        "paper the mean of the belly is always below 0.08 % and the largest below 1.4 %.",
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
    figure = new_figure(
        (3.4 * len(errors) + 1, 5.0), "Distance from rig-space physics, % of the height"
    )
    grid = figure.subplots(2, len(errors), squeeze=False, sharex="col")
    for column, (name, by_solver) in enumerate(errors.items()):
        for row, key in enumerate(("mean", "most")):
            axes = grid[row, column]
            for solver, each in by_solver.items():
                values = np.maximum(getattr(each, key), 1e-5)
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
    """Draw RSP and ours at the step where they differ most."""
    figure = new_figure((2.8 * len(truths), 5.6))
    grid = figure.subplots(2, len(truths), squeeze=False)
    for column, name in enumerate(truths):
        worst = int(np.argmax(errors[name]["ours"].most))
        character = SUBJECTS[name].shown.character
        for row, (solver, take) in enumerate((("RSP", truths[name]), ("ours", ours[name]))):
            caption = f"{name}, {STEP * (worst + 1):.2f} s: {solver}"
            draw_character(grid[row, column], character, take.skins[worst], caption, azimuth=40.0)
    return figure


#: Number of frames in the picture.
FRAMES_SHOWN = 4


def fig4(folder: Path, *, quick: bool = False, tell: Tell) -> dict[str, Any]:
    """Draw the keyed wrestler above, and with 174 simulated parameters below."""
    subject = SUBJECTS["sumo"]
    take = played(subject, "condensed", lambda part: tell(0.8 * part, "stamping"), quick=quick)
    keys, character = subject.keys, subject.shown.character
    placed = []
    for i in range(len(take.skins)):
        pose, root = keys.at(subject.time(i))
        placed.append(character.rig(pose) @ root[:3, :3].T + root[:3, 3])
    away = np.linalg.norm(take.skins - np.array(placed), axis=2)
    chosen = _liveliest(away.max(axis=1), 1 if quick else FRAMES_SHOWN)
    tell(0.85, "drawing")
    figure = new_figure(
        (2.6 * len(chosen), 5.4), "Input above; belly, chest, cheeks and hair free below"
    )
    grid = figure.subplots(2, len(chosen), squeeze=False)
    for column, k in enumerate(chosen):
        time = subject.time(k)
        for row, points in enumerate((placed[k], take.skins[k])):
            draw_character(
                grid[row, column], character, points, f"{time:.2f} s" if row == 0 else ""
            )
    save_picture(figure, folder / "hahn2013-fig4.png")
    model = model_of(subject, quick)
    low, high = model.lower, model.upper
    height = subject.height
    return {
        "title": "hahn2013 fig. 4: the wrestler with and without secondary motion",
        "message": f"The skin is up to {100 * away.max() / height:.3g} % of the height off the "
        f"key, {100 * away.max(axis=1)[-1] / height:.2g} % at the end.",
        "free_parameters": {"ours": len(model.entries), "paper": 174},
        "largest_weight": float(np.abs(take.free).max()),
        "weights_in_bounds": bool(
            (take.free >= low - 1e-9).all() and (take.free <= high + 1e-9).all()
        ),
        "pairs_not_zero_percent": 100 * _filled(subject.scene),
        "note": "Pairs of a skin vertex and a parameter that moves it.",
    }


def _liveliest(far: np.ndarray, count: int) -> list[int]:
    """Return steps in which the flesh is far from its key, from different swings."""
    remaining, chosen = far.copy(), []
    for _ in range(count):
        best = int(np.argmax(remaining))
        chosen.append(best)
        remaining[max(0, best - 8) : best + 9] = -1.0
    return sorted(chosen)


def _filled(name: str) -> float:
    from supple.scenes.characters.character_scene import scene

    deltas = scene(name).character.rig.deltas  # type: ignore[attr-defined]
    return float(deltas.any(axis=2).mean())
