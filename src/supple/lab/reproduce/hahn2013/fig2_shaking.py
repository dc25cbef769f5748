"""hahn2013 fig. 2: shaking gives examples of surfaces and of the flesh inside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from supple.app.pictures.drawing import INK, PAPER, save_picture
from supple.engines.rig_space.simulator import RigSpaceSimulator
from supple.lab.reproduce.hahn2013.renderings import draw_character
from supple.lab.reproduce.hahn2013.takes import STEP, SUBJECTS, Tell, model_of

#: Steps of the push and of the swing, how many are shown, and the push in N on all of the trunk.
PUSHED, SWUNG, SHOWN, PUSH = 8, 72, 6, 1500.0


def fig2(folder: Path, *, quick: bool = False, tell: Tell) -> dict[str, Any]:
    """Push the trunk sideways, and let it swing."""
    subject = SUBJECTS["trunk"]
    model = model_of(subject, quick)
    simulator = RigSpaceSimulator(
        model, STEP, solver="rsp", substep=STEP, integrator="backward-euler"
    )
    rest = model.surface.vertices
    trunk = np.flatnonzero((rest[:, 2] > 1.55) & (np.abs(rest[:, 0]) < 0.2) & (rest[:, 1] < 1.2))
    push = {int(vertex): np.array([PUSH / len(trunk), 0.0, 0.0]) for vertex in trunk}
    skins, ways, count = [], [], PUSHED + (4 if quick else SWUNG)
    for i in range(count):
        simulator.step(forces=push if i < PUSHED else None)
        skins.append(simulator.surface().copy())
        ways.append(float((skins[-1] - rest)[trunk, 0].mean()))
        tell(0.9 * (i + 1) / count, "shaking the trunk")
    chosen = np.linspace(0, count - 1, 3 if quick else SHOWN).astype(int)
    figure = Figure(figsize=(2.1 * len(chosen), 2.6), facecolor=PAPER, layout="constrained")
    figure.suptitle("A push along x, and what follows", color=INK, fontsize=11)
    for axes, k in zip(figure.subplots(1, len(chosen)), chosen, strict=True):
        window = np.array([0.0, 1.15, 1.4]), 2.5
        character = subject.shown.character
        draw_character(
            axes, character, skins[k], f"{STEP * (k + 1):.2f} s", azimuth=0.0, window=window
        )
    save_picture(figure, folder / "hahn2013-fig2.png")
    crossings = int((np.diff(np.sign(ways)) != 0).sum())
    return {
        "title": "hahn2013 fig. 2: an impulse makes the trunk swing",
        "message": f"The trunk goes {100 * max(ways) / subject.height:.3g} % of the height to one "
        f"side and {-100 * min(ways) / subject.height:.3g} % to the other.",
        "shapes": count,
        "passages_through_rest": crossings,
        "note": "Rig-space physics with all interior vertices unknown; every step is an example of "
        "a surface with the flesh inside.",
    }
