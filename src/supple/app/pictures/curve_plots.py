"""Charts of free curves and of their keys, over time."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from supple.app.pictures.drawing import INK, PAPER, label, plain_axes, save_picture
from supple.rig.free_curves import FreeCurves

#: Most charts of a picture; those that move the skin most.
MOST = 180
WIDTH, HEIGHT = 2.6, 1.25
CURVE, KEY, FILL = "#c2453d", "#8d8d97", "#f3cfc6"
UNITS = {"rad": "°", "m": " m", "1": ""}


def plot_curves(path: str | Path, curves: FreeCurves) -> None:
    """Draw a chart of each curve into a PNG file, atomically.

    Angles are in degrees. Keys are grey; the motion added by physics is the filled area.
    """
    moved = np.abs(curves.added).max(axis=0, initial=0.0) * curves.reach
    chosen = np.sort(np.argsort(-moved, kind="stable")[:MOST])
    columns = min(6, max(1, math.ceil(math.sqrt(0.6 * len(chosen)))))
    rows = max(1, math.ceil(len(chosen) / columns))
    height = rows * HEIGHT + 0.75
    figure = Figure(figsize=(max(columns * WIDTH, 5.2), height), facecolor=PAPER)
    charts = figure.subplots(rows, columns, squeeze=False, sharex=True)
    plain_axes(*charts.ravel())
    for axes in charts.ravel()[len(chosen) :]:
        axes.set_visible(False)
    for axes, k in zip(charts.ravel(), chosen, strict=False):
        parameter = curves.character.rig.parameters[curves.columns[k]]
        factor = 180 / math.pi if parameter.unit == "rad" else 1.0
        key = factor * curves.keyed[:, curves.columns[k]]
        value = factor * curves.values[:, k]
        axes.fill_between(curves.times, key, value, color=FILL, linewidth=0)
        axes.plot(curves.times, key, color=KEY, linewidth=0.8, linestyle=(0, (3, 2)))
        axes.plot(curves.times, value, color=CURVE, linewidth=1.2)
        axes.set_title(label(parameter.name, 30), fontsize=7, color=INK, loc="left", pad=2)
        axes.tick_params(labelsize=6, length=2, colors=INK)
        axes.margins(x=0)
        axes.yaxis.set_major_formatter(f"{{x:.3g}}{UNITS[parameter.unit]}")
        low, high = axes.get_ylim()
        least = 0.02 * factor  # keeps tiny motions flat
        if high - low < least:
            middle = 0.5 * (low + high)
            axes.set_ylim(middle - 0.5 * least, middle + 0.5 * least)
    for axes in charts[-1]:
        axes.set_xlabel("s", fontsize=6, color=INK, labelpad=1)
    name, count = label(curves.character.name, 40), len(curves.free)
    more = f", the {len(chosen)} that move most" if len(chosen) < count else ""
    title = f"{name}, “{label(curves.name, 40)}”: {count} free{more}; dashed: keys"
    figure.suptitle(title, fontsize=9, color=INK, x=0.01, y=1 - 0.12 / height, ha="left")
    figure.subplots_adjust(
        left=0.55 / figure.get_figwidth(),
        right=1 - 0.1 / figure.get_figwidth(),
        top=1 - 0.5 / height,
        bottom=0.32 / height,
        hspace=0.5,
        wspace=0.3,
    )
    save_picture(figure, Path(path), 130)
