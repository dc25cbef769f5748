"""hahn2013 §5: how often the Jacobian is made anew, and steps are taken again, with a predictor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from supple.app.pictures.drawing import INK, PAPER, plain_axes, save_picture
from supple.lab.reproduce.hahn2013.takes import STEP, SUBJECTS, Take, Tell, played

#: Solvers by name, and the updates and repeated steps of 360 that the paper has of its trunk.
SOLVERS = {
    "IV2, with the predictor": ("iv2-je2", 280, None),
    "IV2, without": ("iv2-je2-unpredicted", None, 281),
    "IV2, the predictor as printed": ("iv2-je2-printed", None, None),
    "IV1, with the predictor": ("iv1-je2", None, None),
    "IV1, without": ("iv1-je2-unpredicted", None, None),
}


def jacobian_updates(folder: Path, *, quick: bool = False, tell: Tell) -> dict[str, Any]:
    """Count Jacobians and repeated steps of trunk and belly in the walk."""
    found: dict[str, Any] = {"title": "hahn2013 §5: deferred Jacobians and roll-backs"}
    parts = ("trunk",) if quick else ("trunk", "belly")
    takes: dict[str, Take] = {}
    for at, part in enumerate(parts):
        solvers = SOLVERS if part == "trunk" and not quick else dict(list(SOLVERS.items())[:2])
        rows = []
        for number, (name, (solver, updates, repeated)) in enumerate(solvers.items()):
            begun = at + number / len(solvers)

            def told(done: float, begun: float = begun, text: str = f"{part}: {name}") -> None:
                tell((begun + done / len(SOLVERS)) / len(parts), text)

            take = takes[f"{part}: {name}"] = played(SUBJECTS[part], solver, told, quick=quick)
            of_trunk = part == "trunk"
            rows.append(
                {
                    "solver": name,
                    "steps": len(take.milliseconds),
                    "updates": {
                        "ours": int((take.counts["jacobians"] > 0).sum()),
                        "paper": updates if of_trunk else None,
                    },
                    "repeated": {
                        "ours": int(take.counts["rollbacks"].sum()),
                        "paper": repeated if of_trunk else None,
                    },
                    "step_ms": take.step_ms,
                }
            )
        found[part] = rows
    save_picture(_picture(takes), folder / "hahn2013-jacobians.png")
    trunk = {row["solver"]: row for row in found["trunk"]}
    first, second = (trunk[f"IV2, with{rest}"] for rest in (" the predictor", "out"))
    found["message"] = (
        f"Of {first['steps']} steps of the trunk, {first['updates']['ours']} made a new Jacobian "
        f"with the predictor, and {first['repeated']['ours']} were taken again; without it "
        f"{second['repeated']['ours']} were (paper: 280 updates of 360, and 281 taken again)."
    )
    found["note"] = (
        "A Jacobian is kept while the rig's nonlinearity in a step has less than 1e-4 J/kg (eq. 7 "
        "with 1/(2h²)). The paper prints its predictor with 1/h, which looks a hundred steps ahead."
    )
    return found


def _picture(takes: dict[str, Take]) -> Figure:
    """Draw a line for each solver, with a tick where the Jacobian is new and a dot for repeats."""
    figure = Figure(figsize=(9.0, 0.9 + 0.36 * len(takes)), facecolor=PAPER, layout="constrained")
    axes = figure.subplots()
    for row, take in enumerate(takes.values()):
        times = STEP * np.arange(1, len(take.milliseconds) + 1)
        new = times[take.counts["jacobians"] > 0]
        again = times[take.counts["rollbacks"] > 0]
        axes.vlines(new, row - 0.32, row + 0.32, color="#3d7ab8", lw=0.9)
        axes.plot(again, np.full(len(again), row), ".", color="#c8453b", ms=4)
    axes.set_yticks(range(len(takes)), list(takes), fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("seconds of the walk; blue: a new Jacobian, red: taken again", color=INK)
    plain_axes(axes)
    return figure
