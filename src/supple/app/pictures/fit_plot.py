"""Charts of a fit: displacements of the target, the fitted and the initial flesh, by region."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from supple.app.pictures.drawing import INK, PAPER, label, plain_axes, save_picture
from supple.playback.fit.fit import Fit, FitCurve, FittedRegion

#: Height of a chart, and of the title and the axis below, in inches.
CHART, AROUND = 1.7, 1.0
TARGET, FITTED, BEFORE = "#2b2b33", "#c2453d", "#c9c9cf"


def plot_fit(path: str | Path, fit: Fit) -> None:
    """Draw a chart of each region into a PNG file, atomically.

    It shows the vertex that moves most in the target, along the direction in which it does, in
    percent of the size.
    """
    count = len(fit.curves)
    height = count * CHART + AROUND
    figure = Figure(figsize=(8.0, height), facecolor=PAPER)
    charts = figure.subplots(count, 1, squeeze=False, sharex=True)[:, 0]
    plain_axes(*charts)
    for axes, curve, row in zip(charts, fit.curves, fit.regions, strict=True):
        part = 100 / fit.character.surface.size
        axes.axhline(0.0, color="#e2e0da", linewidth=0.8, zorder=0)
        for values, colour, width, style, name in _lines(curve):
            axes.plot(curve.times, part * values, style, color=colour, linewidth=width, label=name)
        axes.set_ylim(*_window(part * np.concatenate([curve.target, curve.fitted])))
        axes.set_title(_title(row, curve), fontsize=8, color=INK, loc="left", pad=3)
        axes.set_ylabel("% of the size", fontsize=7, color=INK)
        axes.tick_params(labelsize=7, length=2, colors=INK)
        axes.margins(x=0.01)
    charts[-1].set_xlabel("s", fontsize=7, color=INK, labelpad=1)
    name, motion = label(fit.character.name, 40), label(fit.motion, 40)
    title = f"{name}, “{motion}”: {100 * fit.distance:.3g} % of its motion from the target"
    figure.suptitle(title, fontsize=10, color=INK, x=0.01, y=1 - 0.1 / height, ha="left")
    handles, labels = charts[0].get_legend_handles_labels()
    place = (0.99, 1 - 0.32 / height)
    figure.legend(
        handles, labels, loc="upper right", bbox_to_anchor=place, ncols=3, fontsize=7, frameon=False
    )
    figure.subplots_adjust(
        left=0.08, right=0.98, top=1 - 0.75 / height, bottom=0.4 / height, hspace=0.32
    )
    save_picture(figure, Path(path), 130)


def _lines(curve: FitCurve) -> Sequence[tuple[np.ndarray, str, float, str, str]]:
    return (
        (curve.before, BEFORE, 1.2, "-", "initial flesh"),
        (curve.target, TARGET, 1.8, "-", "target"),
        (curve.fitted, FITTED, 1.2, "--", "fit"),
    )


def _window(values: np.ndarray) -> tuple[float, float]:
    """Return limits that show the target and the fit; initial flesh may be cut off."""
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    margin = max(0.15 * (high - low), 0.01)
    return low - margin, high + margin


def _title(row: FittedRegion, curve: FitCurve) -> str:
    factors = f"stiffness × {row.stiffness:.3g}, damping × {row.damping:.3g}"
    distance = f"{100 * row.distance:.3g} % from the target, {100 * row.before:.3g} % before"
    return f"{label(row.region, 30)}, vertex {curve.vertex}: {factors}; {distance}"
