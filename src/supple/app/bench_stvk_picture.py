"""The picture of `supple bench stvk --growth`: times over modes and over elements."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from supple.app.bench_stvk import CASES, PAPER
from supple.app.drawing import INK
from supple.app.drawing import PAPER as SHEET

__all__ = ["growth_picture"]

_COLOURS = {"modes": "#2f6f8f", "tets": "#2f6f8f", "voxels": "#b5483a", "paper": "#8a8375"}
_WHAT = {"precompute_s": "precomputing, s", "step_us": "a step, µs"}


def growth_picture(figures: dict[str, Any]) -> Figure:
    """Above seconds to precompute, below microseconds of a step; logarithmic."""
    figure = Figure(figsize=(9.6, 7.4), facecolor=SHEET, layout="constrained")
    figure.suptitle("StVK bodies as modes and elements grow", color=INK, fontsize=13)
    parts: Any = figure.subplots(2, 2)
    for row, (key, what) in enumerate(_WHAT.items()):
        modes, elements = parts[row]
        _draw(modes, figures, "modes", "modes", key)
        printed = [(CASES[name].modes, PAPER[name][row]) for name in PAPER]
        grey = _COLOURS["paper"]
        modes.plot(*np.transpose(printed), "D", color=grey, ms=5, label="barbic2005, its bodies")
        for kind in ("tets", "voxels"):
            _draw(elements, figures, kind, "elements", key)
        for axes, name in ((modes, "modes"), (elements, "elements")):
            _dress(axes, f"{name}{_fixed(figures, name)}", what)
            ticks = sorted({row[name] for row in figures["modes" if axes is modes else "tets"]})
            axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    return figure


def _draw(axes: Axes, figures: dict[str, Any], name: str, over: str, key: str) -> None:
    rows, power = figures[name], figures["exponents"][name][key]
    label = "Supple" if name == "modes" else name
    label += "" if power is None else f": power {power:.2f}"
    x, y = [row[over] for row in rows], [row[key] for row in rows]
    axes.plot(x, y, "o-", color=_COLOURS[name], ms=5, lw=1.5, label=label)
    if key == "step_us" and name == "modes":
        reads = [row["gemv_us"] for row in rows]
        axes.plot(x, reads, ":", color=INK, lw=1.2, label="reading its coefficients (gemv)")


def _fixed(figures: dict[str, Any], name: str) -> str:
    """What does not grow."""
    if name == "modes":
        return f" ({figures['modes'][0]['elements']:,} tets)" if figures["modes"] else ""
    return f" ({figures['tets'][0]['modes']} modes)" if figures["tets"] else ""


def _dress(axes: Axes, below: str, beside: str) -> None:
    axes.set(xscale="log", yscale="log", facecolor=SHEET)
    axes.set_xlabel(below, color=INK, fontsize=9)
    axes.set_ylabel(beside, color=INK, fontsize=9)
    for along in (axes.xaxis, axes.yaxis):
        along.set_minor_formatter(NullFormatter())
    low, high = axes.get_ylim()
    middle = np.sqrt(low * high)  # what does not grow must not look as if it did
    axes.set_ylim(min(low, middle / 10), max(high, middle * 10))
    axes.grid(True, which="major", color="#e4e0d6", lw=0.7)
    axes.tick_params(colors=INK, labelsize=8)
    for side in axes.spines.values():
        side.set_color("#c9c4b8")
    axes.legend(framealpha=0.9, facecolor=SHEET, edgecolor="none", fontsize=8)
