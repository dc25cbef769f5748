"""The picture of xu2016 fig. 15: bears at one moment, curves of two vertices, and errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from numpy.typing import NDArray

from supple.app.drawing import INK, PAPER, draw_surface, view_axes
from supple.scenes import Scene

if TYPE_CHECKING:
    from supple.app.reproduce_coarse import Played

__all__ = ["coarse_picture"]

Singles = NDArray[np.float32]

_COLOURS = ("#2f6f8f", INK, "#b5483a", "#d9a07a", "#b9b08a")
#: Where to look at the rest shape: the middle of the belly and the tip of the left ear, in metres.
_PLACES = {"belly": (0.0, 0.44, 0.30), "left ear": (0.2, 1.3, 0.0)}


def coarse_picture(
    bear: Scene, played: Sequence[Played], rig: Singles, rows: list[dict[str, Any]], rate: float
) -> Figure:
    """Above bears coloured by how far they are from the fine simulation, below curves and bars."""
    figure = Figure(figsize=(14.0, 8.2), facecolor=PAPER, layout="constrained")
    figure.suptitle(
        "The bear's motion, reduced and in full simulations of fewer tets, beside the fine one",
        color=INK,
        fontsize=13,
    )
    halves: Any = figure.subfigures(2, 1, height_ratios=(1.05, 1))
    above, below = halves
    _draw_bears(above, bear, played, rig, rate)
    belly, ear, bars = below.subplots(1, 3, width_ratios=(1.25, 1.25, 1))
    vertices = bear.character.surface.vertices
    for axes, (name, place) in zip((belly, ear), _PLACES.items(), strict=True):
        vertex = int(np.linalg.norm(vertices - np.array(place), axis=1).argmin())
        _draw_curves(axes, name, vertex, played, rig, rate)
    belly.legend(framealpha=0.9, facecolor=PAPER, edgecolor="none", fontsize=8)
    _draw_bars(bars, rows)
    return figure


def _draw_bears(
    above: Any, bear: Scene, played: Sequence[Played], rig: Singles, rate: float
) -> None:
    true = played[1].frames
    moved = np.sqrt(((true - rig) ** 2).sum(axis=2).mean(axis=1))
    frame = int(moved.argmax())
    others = [each for each in played if each is not played[1]]
    away = [np.linalg.norm(each.frames[frame] - true[frame], axis=1) for each in others]
    norm, colours = Normalize(0.0, 1000 * float(np.percentile(away, 99.5))), colormaps["YlOrRd"]
    view, triangles = view_axes(20.0, 10.0), bear.character.surface.triangles
    turn = _turned_by(bear.character.surface.vertices, rig[frame])
    flat = true[frame] @ turn @ view[:2].T
    low, high = flat.min(axis=0) - 0.04, flat.max(axis=0) + 0.04
    panels = above.subplots(1, len(others), squeeze=False)[0]
    for axes, each, far in zip(panels, others, away, strict=True):
        tint = colours(norm(1000 * far[triangles].mean(axis=1)))[:, :3]
        draw_surface(axes, each.frames[frame] @ turn, triangles, colour=tint, view=view, shadow=0.3)
        axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
        axes.set_axis_off()
        axes.set_title(f"{each.name}\n{each.milliseconds:.2g} ms", color=INK, fontsize=10)
    above.colorbar(
        ScalarMappable(norm, colours),
        ax=panels,
        shrink=0.8,
        label=f"mm away from the fine simulation, at {frame / rate:.2f} s",
    )


def _turned_by(rest: NDArray, posed: NDArray) -> NDArray:
    """The best rotation R from one shape to another; posed @ R faces as the rest does."""
    first, second = rest - rest.mean(axis=0), posed - posed.mean(axis=0)
    u, _, vt = np.linalg.svd(second.T @ first)
    flip = np.diag([1.0, 1.0, np.sign(np.linalg.det(u @ vt))])
    return u @ flip @ vt


def _draw_curves(
    axes: Axes, name: str, vertex: int, played: Sequence[Played], rig: Singles, rate: float
) -> None:
    """Displacement away from the rig along the direction in which the fine one moves most."""
    moved = [(each.frames[:, vertex] - rig[:, vertex]).astype(np.float64) for each in played]
    direction = np.linalg.svd(moved[1], full_matrices=False)[2][0]
    direction = direction * np.sign(direction[np.argmax(np.abs(direction))])
    time = np.arange(len(rig)) / rate
    for each, path, colour in zip(played, moved, _COLOURS, strict=False):
        width = 2.6 if each is played[1] else 1.3
        axes.plot(
            time,
            1000 * path @ direction,
            color=colour,
            lw=width,
            alpha=0.55 if each is played[1] else 1.0,
            label=each.name,
        )
    axes.set_title(f"a vertex of the {name}", color=INK, fontsize=10)
    axes.set_xlabel("time, s", color=INK)
    axes.set_ylabel("away from the rig, mm", color=INK)
    axes.grid(alpha=0.25)
    axes.set_facecolor(PAPER)


def _draw_bars(axes: Axes, rows: list[dict[str, Any]]) -> None:
    shown = [
        (row, colour)
        for row, colour in zip(rows, _COLOURS, strict=False)
        if row["rms_to_full"] is not None
    ]
    names = [
        f"{row['simulation'].replace(', ', chr(10))}\n{row['time_to_ours']:.2g} ×\nour time"
        for row, _ in shown
    ]
    heights = [100 * row["rms_to_full"] for row, _ in shown]
    bars = axes.bar(names, heights, color=[colour for _, colour in shown])
    axes.bar_label(bars, fmt="%.0f %%", color=INK)
    axes.margins(y=0.1)
    axes.tick_params(axis="x", labelsize=8)
    axes.set_ylabel("RMS away from the fine simulation,\n% of its own motion", color=INK)
    axes.set_facecolor(PAPER)
