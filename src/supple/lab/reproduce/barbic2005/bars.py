"""Pictures for tables of barbic2005: bodies, and the paper's figures as bars beside ours."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from supple.app.pictures.drawing import INK, PAPER, draw_surface, plain_axes, view_axes
from supple.arrays import Floats
from supple.mesh.surface import SurfaceMesh

OURS, PRINTED = "#2f6f8f", "#b9b3a6"
_VIEW = (25.0, 18.0)
#: Where they show best: azimuth and elevation in degrees.
_VIEWS = {"spoon": (35.0, 28.0), "bridge": (28.0, 16.0), "tower": (30.0, 10.0)}
_METAL, _FLESH = np.array([0.55, 0.66, 0.74]), np.array([0.80, 0.40, 0.36])


def picture(title: str, columns: int, *, height: float = 3.4) -> tuple[Figure, list[Axes]]:
    """Make an empty picture with so many parts beside each other."""
    figure = Figure(figsize=(max(6.0, 3.2 * columns), height), facecolor=PAPER)
    figure.set_layout_engine("constrained")
    figure.suptitle(title, color=INK, fontsize=12)
    return figure, list(figure.subplots(1, columns, squeeze=False)[0])


def draw_body(
    axes: Axes,
    name: str,
    surface: SurfaceMesh,
    shape: Floats,
    caption: str,
    *,
    limits: Sequence[Floats] = (),
) -> None:
    """Draw a body in a shape, seen from where it shows best; all of `limits` fit in as well."""
    colour = _FLESH if name == "heart" else _METAL
    draw_surface(axes, shape, surface.triangles, colour=colour, view=_view(name))
    low, high = _extent(name, [shape, *limits])
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
    axes.set_axis_off()
    axes.set_title(caption, color=INK, fontsize=9)


def height_to_width(name: str, shapes: Sequence[Floats]) -> float:
    """Return the height over the width of a picture in which all shapes of a body fit."""
    low, high = _extent(name, shapes)
    return float((high - low)[1] / (high - low)[0])


def _view(name: str) -> Floats:
    return view_axes(*_VIEWS.get(name, _VIEW))


def _extent(name: str, shapes: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Return the lower left and upper right corner of what shapes cover, with a margin."""
    flat = np.concatenate([np.asarray(each, float) @ _view(name)[:2].T for each in shapes])
    low, high = flat.min(axis=0), flat.max(axis=0)
    margin = 0.04 * float((high - low).max())
    return low - margin, high + margin


def bars(
    axes: Axes,
    names: Sequence[str],
    pairs: Sequence[tuple[float, float | None]],
    unit: str,
    title: str,
) -> None:
    """Draw our figures and the paper's side by side on a logarithmic scale; None is left out."""
    places = np.arange(len(names), dtype=float)
    for shift, which, colour, called in ((-0.2, 1, PRINTED, "paper"), (0.2, 0, OURS, "ours")):
        there = [(x, pair[which]) for x, pair in zip(places, pairs, strict=True)]
        shown = [(x, value) for x, value in there if value is not None]
        drawn = axes.bar(
            [x + shift for x, _ in shown],
            [value for _, value in shown],
            0.38,
            color=colour,
            label=called,
        )
        labels = [f"{value:,.0f}" if value >= 100 else f"{value:.2g}" for _, value in shown]
        axes.bar_label(drawn, labels, fontsize=7, color=INK, padding=1)
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.set_ylim(low / 1.5, high * 6)  # room for labels and the legend
    axes.set_xticks(places, list(names))
    axes.tick_params(labelsize=8)
    axes.set_ylabel(unit, color=INK, fontsize=9)
    axes.set_title(title, color=INK, fontsize=10)
    plain_axes(axes)
    axes.legend(frameon=False, fontsize=8, loc="upper left", ncols=2)
