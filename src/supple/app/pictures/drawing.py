"""Drawing of surfaces, charts and labels with Matplotlib."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from supple.arrays import Floats
from supple.saving import write_whole

FLESH = np.array([0.86, 0.47, 0.42])
INK, PAPER = "#2b2b33", "#fbfaf7"
PAPER_RGB = np.array(to_rgb(PAPER))
#: Colours of the first regions, of bones, and of elastic and inertial cubature points.
PALETTE = ("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1", "#edc948", "#76b7b2", "#9c6b4f")
BONE, ELASTIC, INERTIAL = "#a9a9ac", "#c8443c", "#2f6fb0"
Colour = tuple[int, int, int]
_LIGHT = np.array([-0.35, 0.8, 0.65]) / np.linalg.norm([-0.35, 0.8, 0.65])


def rgb(colour: str) -> Colour:
    """Return red, green and blue, 0 to 255, of a colour such as "#4e79a7"."""
    red, green, blue = bytes.fromhex(colour[1:])
    return red, green, blue


def view_axes(azimuth: float = 25.0, elevation: float = 15.0) -> Floats:
    """Return unit vectors as rows: right, up and towards the viewer; angles are in degrees."""
    a, e = np.radians([azimuth, elevation])
    towards = np.array([np.sin(a) * np.cos(e), np.sin(e), np.cos(a) * np.cos(e)])
    right = np.cross([0.0, 1.0, 0.0], towards)
    right /= np.linalg.norm(right)
    return np.stack([right, np.cross(towards, right), towards])


def view_window(group: Sequence[Floats], view: Floats) -> tuple[Floats, Floats]:
    """Return the lower and upper corner (2,) of several point sets in a view, with a margin."""
    flat = np.concatenate([points @ view[:2].T for points in group])
    low, high = flat.min(axis=0), flat.max(axis=0)
    margin = 0.03 * max(float((high - low).max()), 1e-30)
    return low - margin, high + margin


def show_window(axes: Axes, window: tuple[Floats, Floats]) -> None:
    """Set the limits of 2D axes to a result of `view_window`."""
    low, high = window
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")


def draw_surface(
    axes: Axes,
    vertices: ArrayLike,
    triangles: NDArray[np.int64],
    *,
    colour: ArrayLike = FLESH,
    view: Floats | None = None,
    shadow: float = 0.5,
) -> None:
    """Add a shaded surface to 2D axes, nearest triangles last; limits are not changed.

    There is one colour, or one per triangle. `view` is a result of `view_axes`, `shadow` the
    darkening of unlit triangles, 0 to 1.
    """
    view = view_axes() if view is None else view
    corners = np.asarray(vertices, float)[triangles]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-30)
    facing = normals @ view[2]
    visible = np.flatnonzero(facing > 0)
    visible = visible[np.argsort(corners[visible].mean(axis=1) @ view[2])]
    lit = 1 - shadow + shadow * np.clip(normals[visible] @ _LIGHT, 0.0, 1.0)
    rim = 0.85 + 0.15 * facing[visible]
    shade = (lit * rim)[:, None]
    base = np.broadcast_to(np.asarray(colour, float), (len(triangles), 3))[visible]
    gloss = 0.22 * np.clip(normals[visible] @ _LIGHT, 0, 1)[:, None] ** 18
    colours = np.clip(base * shade + gloss, 0.0, 1.0)
    shapes: Any = corners[visible] @ view[:2].T
    drawn = PolyCollection(shapes, facecolors=colours, edgecolors=colours, lw=0.3)
    drawn.set_in_layout(False)  # measuring it for the layout takes long
    axes.add_collection(drawn)


def vertex_means(values: Floats, elements: NDArray[np.int64], count: int) -> Floats:
    """Return the means (count, …) of the values (k, …) of the elements at each vertex."""
    total, number = np.zeros((count, *values.shape[1:])), np.zeros(count)
    for corner in elements.T:
        np.add.at(total, corner, values)
        np.add.at(number, corner, 1.0)
    return total / np.maximum(number, 1.0).reshape(-1, *[1] * (values.ndim - 1))


def plain_axes(*charts: Axes) -> None:
    """Remove the top and right axis of charts, and set the background."""
    for axes in charts:
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_facecolor(PAPER)


def label(name: str, length: int = 24) -> str:
    """Return a name on one line, with the middle of a long one replaced by an ellipsis."""
    shown = "".join(c if c.isprintable() else "?" for c in name)
    half = (length - 1) // 2
    return shown if len(shown) <= length else f"{shown[:half]}…{shown[-half:]}"


def save_picture(figure: Figure, path: Path, dpi: int = 110) -> None:
    """Write a PNG file atomically."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi, facecolor=figure.get_facecolor())
    write_whole(path, buffer.getvalue())


def length_label(metres: float, digits: int = 3) -> str:
    """Return a length with a suitable unit, such as ``"1.2 cm"``.

    Examples
    --------
    >>> length_label(0.0123), length_label(1.04, 2)
    ('1.23 cm', '1 m')
    """
    unit, name = next(
        (each for each in ((1.0, "m"), (0.01, "cm"), (0.001, "mm")) if metres >= each[0]),
        (1e-6, "µm"),
    )
    return f"{metres / unit:.{digits}g} {name}"
