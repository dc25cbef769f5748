"""A soup spoon, held at the end of its handle."""

from __future__ import annotations

import numpy as np

from supple.arrays import Floats
from supple.elastic.material import Material
from supple.mesh.surface import SurfaceMesh
from supple.scenes.bodies.elastic_scene import ElasticScene, PaperBody
from supple.scenes.modelling.sculpting import ramp
from supple.scenes.modelling.voxel_lists import voxels_around

LENGTH = 0.25
CUBE = LENGTH / 100
#: Centre, half length and half width of the bowl.
_BOWL, _HALF_LENGTH, _HALF_WIDTH = 0.2, 0.05, 0.0206
_STATIONS, _AROUND = 100, 33


def assemble(cube: float = CUBE) -> ElasticScene:
    """Return the spoon along x, its bowl open towards +y, of cubes with edge `cube` in m."""
    voxels = voxels_around(_solid_points(), cube)
    x = voxels.vertices[:, 0]
    tip = np.abs(voxels.vertices - [x.max(), voxels.vertices[:, 1].max(), 0.0])
    return ElasticScene(
        name="spoon",
        surface=_surface(),
        voxels=voxels,
        material=Material("stvk", young=5.5e7, poisson=0.4, density=1000.0),
        fixed=np.flatnonzero(x < 0.02),
        pulled=int(np.lexsort((tip[:, 1], tip[:, 2], tip[:, 0]))[0]),
        modes=12,
        linear_modes=6,
        dt=1 / 3500,
        paper=PaperBody(3321, 6638, 100, 3698, 2005, 12),
        description="a soft spoon, held at the end of its handle and flicked at its tip",
    )


def _half_width(x: Floats) -> Floats:
    """Return the half width in m at `x`: a flared handle, a neck and an oval bowl."""
    flare = 0.0052 + 0.0036 * (1 - ramp(x, 0.0, 0.11))
    end = np.sqrt(np.clip(1 - ((0.012 - x) / 0.012).clip(0.0, 1.0) ** 2, 0.0, 1.0))
    handle = flare * end * (1 - ramp(x, 0.16, 0.2))
    oval = np.clip(1 - ((x - _BOWL) / _HALF_LENGTH) ** 2, 0.0, 1.0)
    bowl = _HALF_WIDTH * np.sqrt(oval) * (1 + 0.08 * (_BOWL - x) / _HALF_LENGTH)
    return np.cbrt(bowl**3 + handle**3)


def _height(x: Floats, z: Floats) -> Floats:
    """Return the height y in m of the midsurface: an arched handle and a hollow bowl."""
    arch = 0.016 * np.sin(np.pi * np.clip(x / 0.165, 0.0, 1.0)) ** 2
    rho = ((x - _BOWL) / _HALF_LENGTH) ** 2 + (z / _HALF_WIDTH) ** 2
    return arch - 0.017 * ramp(1 - rho, 0.0, 1.3) / ramp(np.ones(1), 0.0, 1.3)


def _half_thickness(x: Floats) -> Floats:
    return 0.0010 - 0.0003 * ramp(x, 0.15, 0.2)


def _stations(count: int) -> Floats:
    """Return positions along the spoon, denser at the round ends."""
    return LENGTH * (0.5 - 0.5 * np.cos(np.pi * np.linspace(0.0, 1.0, count)))


def _surface() -> SurfaceMesh:
    """Return the surface: rings around the spoon and a vertex at either end."""
    x = _stations(_STATIONS + 2)[1:-1, None]
    angle = 2 * np.pi * np.arange(_AROUND) / _AROUND
    z = _half_width(x) * np.cos(angle)
    up = np.sign(np.sin(angle)) * np.abs(np.sin(angle)) ** 0.6
    y = _height(x, z) + _half_thickness(x) * up
    rings = np.stack(np.broadcast_arrays(x, y, z), axis=-1).reshape(-1, 3)
    ends = np.array([0.0, LENGTH])
    points = np.stack([ends, _height(ends, np.zeros(2)), np.zeros(2)], axis=1)
    at = np.arange(_AROUND)
    ahead = (at + 1) % _AROUND
    first = _AROUND * np.arange(_STATIONS - 1)[:, None]
    a, b = first + at, first + ahead
    sides = np.stack([a, a + _AROUND, b, b, a + _AROUND, b + _AROUND], axis=-1).reshape(-1, 3)
    n, last = len(rings), _AROUND * (_STATIONS - 1)
    near = np.stack([np.full(_AROUND, n), at, ahead], axis=1)
    far = np.stack([np.full(_AROUND, n + 1), last + ahead, last + at], axis=1)
    surface = SurfaceMesh(np.concatenate([rings, points]), np.concatenate([sides, near, far]))
    if surface.volume() < 0:
        return SurfaceMesh(surface.vertices, surface.triangles[:, ::-1])
    return surface


def _solid_points() -> Floats:
    """Return points throughout the spoon, closer than half a cube."""
    x = np.clip(_stations(500), 1e-6, LENGTH - 1e-6)[:, None, None]
    z = _half_width(x) * np.linspace(-1, 1, 61)[:, None]
    y = _height(x, z) + _half_thickness(x) * np.linspace(-1, 1, 4)
    return np.stack(np.broadcast_arrays(x, y, z), axis=-1).reshape(-1, 3)
