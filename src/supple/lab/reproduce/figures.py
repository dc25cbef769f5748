"""Figures of reproduced items: empty sheets, charts, and views of bodies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from supple.app.pictures.drawing import INK, PAPER
from supple.progress import Progress


def new_figure(size: tuple[float, float], title: str | None = None, fontsize: int = 11) -> Figure:
    """Return an empty figure of a size in inches, with a title."""
    figure = Figure(figsize=size, facecolor=PAPER, layout="constrained")
    if title is not None:
        figure.suptitle(title, color=INK, fontsize=fontsize)
    return figure


def label_chart(axes: Axes, below: str, beside: str, title: str | None = None) -> None:
    """Add labels, a title and grid lines to a chart."""
    axes.set_xlabel(below, color=INK)
    axes.set_ylabel(beside, color=INK)
    if title is not None:
        axes.set_title(title, color=INK, fontsize=10)
    axes.grid(alpha=0.25)
    axes.set_facecolor(PAPER)


def frame_view(axes: Axes, low: Any, high: Any, title: str | None = None) -> None:
    """Show the rectangle from `low` to `high` at equal scales, without axes."""
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
    axes.set_axis_off()
    if title is not None:
        axes.set_title(title, color=INK, fontsize=10)


def part_of(progress: Progress, start: float, share: float, text: str) -> Callable[[float], None]:
    """Return a function of the fraction p done of a part, which reports start + share · p."""
    return lambda part: progress(start + share * part, text)
