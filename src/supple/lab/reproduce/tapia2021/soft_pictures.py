"""Pictures of soft skeletons: skin with a field on it, and what it touches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from supple.app.pictures.drawing import INK, PAPER, view_axes
from supple.app.pictures.render import Body, Camera, cavities, render
from supple.arrays import Floats
from supple.mesh.surface import SurfaceMesh, vertex_normals

SKIN = np.array([0.87, 0.70, 0.61])
THING = np.array([0.56, 0.62, 0.70])
#: Colours of a length, and of something with a sign.
LENGTHS, SIGNED = "YlOrRd", "RdBu_r"
#: Width and height of a picture.
PIXELS = 340
#: Where light suits, in degrees.
_FRONT = 20.0, 12.0
_PAPER = np.array([0.984, 0.98, 0.969])


def sheet(title: str, rows: int, columns: int, size: float = 2.7) -> tuple[Figure, Any]:
    """Return a figure and its (rows, columns) axes."""
    figure = Figure(
        figsize=(size * columns + 0.3, size * rows + 0.6), facecolor=PAPER, layout="constrained"
    )
    figure.suptitle(title, color=INK, fontsize=11)
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.ravel():
        axes.set_axis_off()
    return figure, grid


def window_of(points: ArrayLike, margin: float = 1.1) -> tuple[Floats, float]:
    """Return the middle of some points, and metres across them."""
    own = np.asarray(points, np.float64).reshape(-1, 3)
    low, high = own.min(axis=0), own.max(axis=0)
    return (low + high) / 2, margin * float((high - low).max())


def draw_body(
    axes: Axes,
    surface: SurfaceMesh,
    points: ArrayLike,
    caption: str = "",
    *,
    values: ArrayLike | None = None,
    most: float = 1.0,
    signed: bool = False,
    things: Sequence[SurfaceMesh] = (),
    azimuth: float = 25.0,
    elevation: float = 9.0,
    window: tuple[Floats, float] | None = None,
    pixels: int | None = None,
) -> Camera:
    """Render skin and things into axes; return the camera.

    Parameters
    ----------
    axes, caption
        Where to, and what is written above.
    surface, points
        Its triangles, and where its vertices are.
    values, most, signed
        A field (n̄,) in place of skin's colour, what is drawn full, and whether it has a sign.
    things
        Drawn grey.
    azimuth, elevation, window, pixels
        Of the camera, in degrees; place in the middle and metres across, by default all of it;
        width and height.
    """
    placed, wide = np.ascontiguousarray(points, np.float64), pixels or PIXELS
    colours = np.tile(SKIN, (len(placed), 1))
    if values is not None:
        colours = _coloured(np.asarray(values, np.float64), most, signed)
    whole, tones, faces = [placed], [colours], [surface.triangles]
    for each in things:
        faces.append(each.triangles + sum(map(len, whole)))
        whole.append(each.vertices)
        tones.append(np.tile(THING, (len(each.vertices), 1)))
    vertices, triangles = np.concatenate(whole), np.concatenate(faces)
    view = view_axes(azimuth, elevation)
    centre, across = window_of(placed) if window is None else window
    camera = Camera(view, np.asarray(centre, np.float64), wide / across, (wide, wide))
    # Turned rather than looked at from elsewhere: light comes from above and before the picture.
    front = view_axes(*_FRONT)
    vertices = (vertices - camera.centre) @ view.T @ front
    lit = Camera(front, np.zeros(3), camera.scale, camera.pixels)
    shaded = np.ones(len(vertices))
    shaded[: len(placed)] = cavities(SurfaceMesh(placed, surface.triangles))
    body = Body(
        vertices, triangles, vertex_normals(vertices, triangles), np.concatenate(tones), shaded
    )
    picture, _ = render(body, lit, -50 * across, _PAPER)
    axes.imshow(picture)
    axes.set_axis_off()
    if caption:
        axes.set_title(caption, color=INK, fontsize=8.5, pad=2)
    return camera


def _coloured(values: Floats, most: float, signed: bool) -> Floats:
    low = -most if signed else 0.0
    share = np.clip((values - low) / max(most - low, 1e-300), 0.0, 1.0)
    return np.asarray(matplotlib.colormaps[SIGNED if signed else LENGTHS](share))[:, :3]


def key_of(figure: Figure, axes: Any, most: float, text: str, *, signed: bool = False) -> None:
    """Add a bar of colours beside axes."""
    scale = Normalize(-most if signed else 0.0, most)
    bar = figure.colorbar(
        ScalarMappable(scale, SIGNED if signed else LENGTHS), ax=axes, shrink=0.6, pad=0.01
    )
    bar.set_label(text, color=INK, fontsize=8)
    bar.ax.tick_params(labelsize=7, colors=INK)
