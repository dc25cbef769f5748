"""A human heart that hangs on its great vessels."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats
from supple.elastic.material import Material
from supple.mesh.surface import SurfaceMesh
from supple.scenes.bodies.elastic_scene import ElasticScene, PaperBody
from supple.scenes.modelling.scene_data import scene_data
from supple.scenes.modelling.solids import (
    Solid,
    ellipsoid,
    polygonise,
    relaxed,
    smooth_union,
    tapered_limb,
)
from supple.scenes.modelling.voxel_lists import surface_points, voxels_around

#: Edge of a cube in m; 80 cubes from the apex to the top of the arteries.
CUBE = 0.00202
DATA = scene_data("heart")
#: Direction from the base to the apex: down, left and forward.
_AXIS = np.array([0.52, -0.80, 0.30]) / np.linalg.norm([0.52, -0.80, 0.30])


def assemble() -> ElasticScene:
    """Return the hollow heart, its front towards +z and its left side at +x."""
    surface = _surface()
    voxels = voxels_around(surface_points(surface, 0.5 * CUBE), CUBE)
    y = voxels.vertices[:, 1]
    return ElasticScene(
        name="heart",
        surface=surface,
        voxels=voxels,
        material=Material("stvk", young=2e5, poisson=0.4, density=1050.0),
        fixed=np.flatnonzero(y > y.max() - 4.5 * CUBE),
        pulled=int(np.argmax(voxels.vertices @ _AXIS)),
        modes=30,
        linear_modes=20,
        dt=1 / 1000,
        paper=PaperBody(12186, 23616, 80, 28041, 14444, 30),
        description="a hollow heart that hangs on its great vessels, poked at its apex",
    )


def _surface() -> SurfaceMesh:
    solid = smooth_union([_chambers(), *_vessels()], 0.004)
    return relaxed(polygonise(solid, DATA["bounds"], 0.00225), solid, 5)


def _chambers() -> Solid:
    """Return two ventricles around the axis, and two atria with their auricles above."""
    across = np.cross(_AXIS, [0.0, 0.0, 1.0])
    across /= np.linalg.norm(across)
    axes = np.stack([_AXIS, across, np.cross(_AXIS, across)])
    left, right = np.array([0.012, -0.026, 0.000]), np.array([-0.006, -0.024, 0.012])
    return smooth_union(
        [
            ellipsoid(left, (0.050, 0.031, 0.030), axes),
            ellipsoid(right, (0.044, 0.029, 0.024), axes),
            tapered_limb(left, left + 0.046 * _AXIS, 0.022, 0.008),  # the apex
            ellipsoid((-0.030, 0.012, -0.004), (0.021, 0.024, 0.022)),  # right atrium
            ellipsoid((0.022, 0.014, -0.014), (0.022, 0.019, 0.019)),  # left atrium
            ellipsoid((-0.018, 0.020, 0.018), (0.013, 0.011, 0.010)),  # auricles
            ellipsoid((0.032, 0.012, 0.012), (0.012, 0.009, 0.011)),
        ],
        0.010,
    )


def _vessels() -> list[Solid]:
    """Return the aorta, and the other vessels and coronary arteries from the data file."""
    angles = np.radians(np.linspace(200, -35, 12))
    x, y = 0.010 + 0.019 * np.cos(angles), 0.045 + 0.019 * np.sin(angles)
    arch = np.stack([x, y, -0.019 * np.cos(angles) / 2], axis=1)
    aorta = np.vstack([[-0.004, 0.000, 0.008], [-0.007, 0.022, 0.012], arch])
    return [
        _tube(aorta, 0.0115, 0.0085),
        *(_tube(*row) for row in (*DATA["vessels"], *DATA["coronaries"])),
    ]


def _tube(points: ArrayLike, start: float, end: float) -> Solid:
    """Return a round tube through points with linearly varying radius."""
    places = np.asarray(points, float)
    marks = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(places, axis=0), axis=1))])
    radii = start + (end - start) * marks / marks[-1]
    limbs = [
        tapered_limb(places[k], places[k + 1], radii[k], radii[k + 1])
        for k in range(len(places) - 1)
    ]

    def depth(points: Floats) -> Floats:
        deepest: Floats = np.max([limb(points) for limb in limbs], axis=0)
        return deepest

    return depth
