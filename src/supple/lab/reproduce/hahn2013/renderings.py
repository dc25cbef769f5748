"""Small pictures of the scenes' characters in their own colours."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from supple.app.pictures.drawing import INK, view_axes
from supple.app.pictures.render import Body, Camera, cavities, render
from supple.arrays import Floats
from supple.mesh.surface import SurfaceMesh, vertex_normals
from supple.rig.character import Character

_PAPER = np.array([0.984, 0.98, 0.969])


def draw_character(
    axes: Axes,
    character: Character,
    points: ArrayLike,
    caption: str,
    *,
    azimuth: float = 25.0,
    window: tuple[Floats, float] | None = None,
    pixels: int = 320,
) -> None:
    """Render a character into axes.

    Parameters
    ----------
    axes, caption
        Where to, and what is written above.
    character, points
        Whose triangles and colours, and where its vertices are.
    azimuth
        Of the camera, in degrees.
    window
        Place in the middle and metres across; by default all of it.
    pixels
        Width and height.
    """
    placed = np.ascontiguousarray(points, np.float64)
    triangles, view = character.surface.triangles, view_axes(azimuth, 9.0)
    flat = placed @ view[:2].T
    low, high = flat.min(axis=0), flat.max(axis=0)
    centre, across = view[:2].T @ ((low + high) / 2), float((high - low).max()) / 0.9
    if window is not None:
        centre, across = window
    camera = Camera(view, np.asarray(centre, np.float64), pixels / across, (pixels, pixels))
    body = Body(
        placed,
        triangles,
        vertex_normals(placed, triangles),
        np.full((len(placed), 3), 0.7),
        cavities(SurfaceMesh(placed, triangles)),
        character.appearance,
    )
    picture, _ = render(body, camera, float(placed[:, 1].min()), _PAPER)
    axes.imshow(picture)
    axes.set_axis_off()
    axes.set_title(caption, color=INK, fontsize=9, pad=2)
