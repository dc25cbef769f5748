"""How fig. 12 of barbic2005 is drawn: the tip through time, and the spoon now and then."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from supple.app.drawing import INK, PAPER
from supple.app.reproduce_stvk_picture import draw_body
from supple.scenes.elastic_scene import ElasticScene

__all__ = ["picture"]

Floats = NDArray[np.float64]

_STYLES: dict[str, dict[str, Any]] = {
    "full": {"color": INK, "lw": 2.4, "label": "full simulation"},
    "basis from full motion": {"color": "#7a9e57", "lw": 1.3, "ls": "-"},
    "modal derivatives": {"color": "#c8453b", "lw": 1.3, "ls": "--"},
    "sketch": {"color": "#3d7ab8", "lw": 1.3, "ls": "-."},
}
_POSES = 5


def picture(
    scene: ElasticScene, times: Floats, curves: dict[str, Floats], frames: Floats, embedding: Any
) -> Figure:
    """Curves of the tip's height below the full body at a few moments."""
    figure = Figure(figsize=(10.5, 6.2), facecolor=PAPER)
    figure.set_layout_engine("constrained")
    figure.suptitle("A spoon after a push at its end, reduced and full", color=INK, fontsize=12)
    grid = figure.add_gridspec(2, _POSES, height_ratios=(1, 2.2))
    axes = figure.add_subplot(grid[1, :])
    for name, heights in curves.items():
        how = {"label": f"{name}, r = {scene.modes}"} | _STYLES[name]
        axes.plot(times, 1e3 * heights, **how)
    when = times[-1] * np.arange(1, len(frames) + 1) / len(frames)
    chosen = np.linspace(0, len(frames) - 1, 2 * _POSES + 1).astype(int)[1::2]
    shapes = [scene.surface.vertices + embedding @ frames[k] for k in chosen]
    for at, (k, shape) in enumerate(zip(chosen, shapes, strict=True)):
        part = figure.add_subplot(grid[0, at])
        draw_body(part, "spoon", scene.surface, shape, f"{when[k]:.2f} s", limits=shapes)
        axes.axvline(when[k], color=INK, lw=0.5, alpha=0.35)
    axes.axhline(0.0, color=INK, lw=0.5)
    axes.set_xlim(0, times[-1])
    axes.set_xlabel("time (s)", color=INK)
    axes.set_ylabel("vertical displacement of the tip (mm)", color=INK)
    axes.legend(frameon=False, fontsize=9, loc="upper right", ncols=2)
    low, high = axes.get_ylim()
    axes.set_ylim(low, high + 0.18 * (high - low))
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_facecolor(PAPER)
    return figure
