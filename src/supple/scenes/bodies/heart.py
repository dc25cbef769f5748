"""A human heart with its great vessels, hung up by them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats
from supple.elastic.material import Material
from supple.mesh.surface import SurfaceMesh
from supple.scenes.bodies.elastic_scene import ElasticScene, PaperBody
from supple.scenes.modelling.solids import (
    Solid,
    ellipsoid,
    polygonise,
    relaxed,
    smooth_union,
    tapered_limb,
)
from supple.scenes.modelling.voxel_lists import surface_points, voxels_around

#: Edge of a cube; 80 of them from the apex to the top of the arteries.
CUBE = 0.00202
_BOUNDS = [(-0.064, -0.084, -0.060), (0.064, 0.094, 0.060)]
#: From the base to the apex, which points down, to its own left and to the front.
_AXIS = np.array([0.52, -0.80, 0.30]) / np.linalg.norm([0.52, -0.80, 0.30])


def assemble() -> ElasticScene:
    """Make the heart, seen from the front along −z, its left side at +x; a hollow body."""
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
    solid = smooth_union([_chambers(), *_vessels(), *_coronaries()], 0.004)
    return relaxed(polygonise(solid, _BOUNDS, 0.00225), solid, 5)


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
            ellipsoid((-0.018, 0.020, 0.018), (0.013, 0.011, 0.010)),  # their auricles
            ellipsoid((0.032, 0.012, 0.012), (0.012, 0.009, 0.011)),
        ],
        0.010,
    )


def _vessels() -> list[Solid]:
    turns = np.radians(np.linspace(200, -35, 12))
    arch = np.stack(
        [0.010 + 0.019 * np.cos(turns), 0.045 + 0.019 * np.sin(turns), -0.019 * np.cos(turns) / 2],
        axis=1,
    )
    aorta = np.vstack([[-0.004, 0.000, 0.008], [-0.007, 0.022, 0.012], arch])
    trunk = [(0.006, 0.000, 0.022), (0.011, 0.020, 0.022), (0.014, 0.032, 0.008)]
    return [
        _tube(aorta, 0.0115, 0.0085),
        _tube([(-0.002, 0.058, 0.002), (-0.006, 0.080, 0.002)], 0.0055, 0.0050),
        _tube([(0.009, 0.062, 0.000), (0.011, 0.080, -0.001)], 0.0045, 0.0042),
        _tube([(0.021, 0.058, -0.004), (0.027, 0.080, -0.006)], 0.0048, 0.0044),
        _tube(trunk, 0.0110, 0.0095),  # the pulmonary trunk, and its two branches
        _tube([trunk[-1], (0.034, 0.036, -0.006), (0.054, 0.036, -0.014)], 0.0085, 0.0055),
        _tube([trunk[-1], (-0.010, 0.032, -0.016), (-0.050, 0.030, -0.020)], 0.0080, 0.0055),
        _tube(
            [(-0.030, 0.010, -0.004), (-0.031, 0.040, -0.002), (-0.028, 0.080, 0.000)],
            0.0095,
            0.0080,
        ),
        _tube([(-0.028, 0.000, -0.010), (-0.026, -0.038, -0.022)], 0.0095, 0.0085),
        _tube([(0.024, 0.014, -0.018), (0.052, 0.016, -0.028)], 0.0065, 0.0055),
        _tube([(0.022, 0.006, -0.020), (0.050, 0.000, -0.030)], 0.0060, 0.0052),
    ]


def _coronaries() -> list[Solid]:
    """Return arteries on the front of the ventricles."""
    down = [
        (0.016, 0.010, 0.026),
        (0.022, -0.012, 0.034),
        (0.030, -0.036, 0.030),
        (0.036, -0.056, 0.021),
    ]
    aside = [(-0.006, 0.008, 0.030), (-0.024, -0.006, 0.030), (-0.032, -0.024, 0.022)]
    branch = [down[1], (0.036, -0.026, 0.018), (0.042, -0.044, 0.008)]
    return [
        _tube(down, 0.0034, 0.0024),
        _tube(aside, 0.0034, 0.0026),
        _tube(branch, 0.0028, 0.0022),
    ]


def _tube(points: ArrayLike, start: float, end: float) -> Solid:
    """Return a round tube through points, its radius changing evenly from end to end."""
    places = np.asarray(points, float)
    way = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(places, axis=0), axis=1))])
    radii = start + (end - start) * way / way[-1]
    limbs = [
        tapered_limb(places[k], places[k + 1], radii[k], radii[k + 1])
        for k in range(len(places) - 1)
    ]

    def depth(points: Floats) -> Floats:
        deepest: Floats = np.max([limb(points) for limb in limbs], axis=0)
        return deepest

    return depth
