"""Colours of what was modelled."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from supple.arrays import Floats
from supple.mesh.appearance import Appearance, SurfaceMaterial
from supple.mesh.surface import SurfaceMesh


def painted(surface: SurfaceMesh, colours: Callable[[Floats], Floats]) -> Appearance:
    """Return the appearance of a surface that is painted vertex by vertex.

    Parameters
    ----------
    surface
        The rest shape.
    colours
        From places (n, 3) to sRGB colours (n, 3), 0 to 1.
    """
    light = colours(surface.vertices) ** 2.2
    tints = np.ones((len(surface.triangles), 3, 4), np.float32)
    tints[:, :, :3] = light[surface.triangles]
    nothing = np.zeros(len(surface.triangles), np.int64)
    return Appearance((SurfaceMaterial("skin"),), nothing, tints=tints)
