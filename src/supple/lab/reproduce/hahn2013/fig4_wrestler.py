"""hahn2013 fig. 4: a frame of the input, and the same with secondary motion."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from supple.app.pictures.drawing import INK, PAPER, save_picture
from supple.lab.reproduce.hahn2013.renderings import draw_character
from supple.lab.reproduce.hahn2013.takes import SUBJECTS, Tell, model_of, played

#: Frames beside each other.
SHOWN = 4


def fig4(folder: Path, *, quick: bool = False, tell: Tell) -> dict[str, Any]:
    """Draw the wrestler as he is keyed above, and with curves on 174 parameters below."""
    subject = SUBJECTS["sumo"]
    take = played(subject, "condensed", lambda part: tell(0.8 * part, "stamping"), quick=quick)
    keys, character = subject.keys, subject.shown.character
    placed = []
    for i in range(len(take.skins)):
        pose, root = keys.at(subject.time(i))
        placed.append(character.rig(pose) @ root[:3, :3].T + root[:3, 3])
    away = np.linalg.norm(take.skins - np.array(placed), axis=2)
    chosen = _liveliest(away.max(axis=1), 1 if quick else SHOWN)
    tell(0.85, "drawing")
    figure = Figure(figsize=(2.6 * len(chosen), 5.4), facecolor=PAPER, layout="constrained")
    figure.suptitle("Input above; belly, chest, cheeks and hair free below", color=INK, fontsize=11)
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
        "message": f"Skin goes up to {100 * away.max() / height:.3g} % of the height from the key, "
        f"{100 * away.max(axis=1)[-1] / height:.2g} % at the end.",
        "free_parameters": {"ours": len(model.entries), "paper": 174},
        "largest_weight": float(np.abs(take.free).max()),
        "weights_in_bounds": bool(
            (take.free >= low - 1e-9).all() and (take.free <= high + 1e-9).all()
        ),
        "pairs_not_zero_percent": 100 * _filled(subject.scene),
        "note": "Pairs: of skin vertices and parameters that move them.",
    }


def _liveliest(far: np.ndarray, count: int) -> list[int]:
    """Return steps in which flesh is far from its key, not all of one swing."""
    left, chosen = far.copy(), []
    for _ in range(count):
        best = int(np.argmax(left))
        chosen.append(best)
        left[max(0, best - 8) : best + 9] = -1.0
    return sorted(chosen)


def _filled(name: str) -> float:
    from supple.scenes.characters.character_scene import scene

    deltas = scene(name).character.rig.deltas  # type: ignore[attr-defined]
    return float(deltas.any(axis=2).mean())
