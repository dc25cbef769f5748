"""An iron lattice tower on four legs, as it stands in Paris."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np

from supple.arrays import Floats
from supple.elastic.material import Material
from supple.scenes.bodies.elastic_scene import ElasticScene, PaperBody
from supple.scenes.modelling.framework import Framework
from supple.scenes.modelling.voxel_lists import voxels_around

HEIGHT = 1.0
CUBE = HEIGHT / 140
#: Heights, and distances of the legs' outer and inner edges from the axis.
_HEIGHTS = np.array([0.0, 0.09, 0.173, 0.26, 0.35, 0.45, 0.6, 0.72, 0.836, 0.9])
_OUTER = np.array([0.164, 0.118, 0.085, 0.062, 0.045, 0.035, 0.026, 0.0205, 0.016, 0.0135])
_INNER = np.array([0.111, 0.077, 0.050, 0.034, 0.018, 0.0, 0.0, 0.0, 0.0, 0.0])
_FIRST, _SECOND, _THIRD = 0.173, 0.35, 0.836
#: Height at which the four legs join.
_JOINED = 0.45


def assemble() -> ElasticScene:
    """Return the tower along y, standing on y = 0."""
    frame = _frame()
    points = frame.points(0.45 * CUBE)
    # Points at the very ends would add a layer of cubes.
    voxels = voxels_around(points[np.abs(points[:, 1] - HEIGHT / 2) < HEIGHT / 2 - 1e-6], CUBE)
    y = voxels.vertices[:, 1]
    return ElasticScene(
        name="tower",
        surface=frame.surface(0.0028),
        voxels=voxels,
        material=Material("stvk", young=1.2e6, poisson=0.35, density=500.0),
        fixed=np.flatnonzero(y < 2.5 * CUBE),
        pulled=int(np.argmax(y)),
        modes=30,
        linear_modes=20,
        dt=1 / 1000,
        paper=PaperBody(45882, 105788, 140, 20713, 11304, 30),
        description="a soft lattice tower on four legs, pulled over at its top",
    )


def _edge(y: float, which: int) -> float:
    return float(np.interp(y, _HEIGHTS, (_INNER, _OUTER)[which]))


def _frame() -> Framework:
    frame = Framework()
    for sides in product((-1, 1), repeat=2):
        _add_leg(frame, sides)
    _add_shaft(frame)
    for height, wider, thick in ((_FIRST, 0.012, 0.018), (_SECOND, 0.010, 0.014)):
        _add_platform(frame, height, _edge(height, 1) + wider, thick)
    _add_top(frame)
    for quarter in range(4):
        _add_arch(frame, quarter)
    return frame


def _add_leg(frame: Framework, sides: tuple[int, ...]) -> None:
    """Add a leg of four edges with crossed panels between them."""
    levels = [*np.linspace(0.0, _FIRST, 4), *np.linspace(_FIRST, _SECOND, 3)[1:], _JOINED]
    corners = ((0, 0), (1, 0), (1, 1), (0, 1))

    def corner(y: float, which: tuple[int, int]) -> Floats:
        return np.array([sides[0] * _edge(y, which[0]), y, sides[1] * _edge(y, which[1])])

    for low, high in pairwise(levels):
        for k, corner_a in enumerate(corners):
            corner_b = corners[(k + 1) % 4]
            frame.add(corner(low, corner_a), corner(high, corner_a), 0.006)
            panel = [corner(y, which) for y in (low, high) for which in (corner_a, corner_b)]
            if 1 in (corner_a[0] * corner_b[0], corner_a[1] * corner_b[1]):  # an outer face
                frame.add_crossed(panel, 0.0025)
                frame.add(panel[2], panel[3], 0.0025)
    for k, corner_a in enumerate(corners):  # a footing
        frame.add(corner(0.004, corner_a), corner(0.004, corners[(k + 1) % 4]), 0.010, 0.008)


def _add_shaft(frame: Framework) -> None:
    """Add the shaft above the legs, up to the third platform."""
    levels = np.linspace(_JOINED, 0.9, 8)
    signs = ((-1, -1), (1, -1), (1, 1), (-1, 1))

    def corner(y: float, k: int) -> Floats:
        return np.array([signs[k][0] * _edge(y, 1), y, signs[k][1] * _edge(y, 1)])

    for low, high in pairwise(levels):
        for k in range(4):
            ahead = (k + 1) % 4
            frame.add(corner(low, k), corner(high, k), 0.0065)
            panel = [corner(y, which) for y in (low, high) for which in (k, ahead)]
            frame.add_crossed(panel, 0.0025)
            frame.add(panel[2], panel[3], 0.0025)


def _add_platform(frame: Framework, y: float, half: float, thick: float) -> None:
    """Add a gallery around the legs and the beams that close it."""
    inner = _edge(y, 0)
    for quarter in range(4):
        c, s = (1, 0, -1, 0)[quarter], (0, 1, 0, -1)[quarter]

        def at(along: float, out: float, c: int = c, s: int = s) -> Floats:
            return np.array([c * along - s * out, y, s * along + c * out])

        frame.add(at(-half, half), at(half, half), 0.008, thick)
        frame.add(at(-half, inner), at(half, inner), 0.008, 0.6 * thick)
        for part in np.linspace(-1.0, 1.0, 5):
            frame.add(at(part * half, inner), at(part * half, half), 0.006, 0.4 * thick)


def _add_top(frame: Framework) -> None:
    """Add the third platform, a lantern and the mast."""
    half = _edge(_THIRD, 1) + 0.010
    for y, size, thick in ((_THIRD, half, 0.010), (_THIRD + 0.012, 0.8 * half, 0.006)):
        frame.add([-size, y, 0.0], [size, y, 0.0], 2 * size, thick)
    frame.add([0, 0.885, 0], [0, 0.925, 0], 0.032)
    frame.add([0, 0.925, 0], [0, 0.945, 0], 0.020)
    frame.add([0, 0.945, 0], [0, HEIGHT, 0], 0.010)


def _add_arch(frame: Framework, quarter: int) -> None:
    """Add an arch under the first platform, with spokes up to the gallery."""
    c, s = (1, 0, -1, 0)[quarter], (0, 1, 0, -1)[quarter]

    def at(along: float, y: float) -> Floats:
        out = _edge(y, 1)
        return np.array([c * along - s * out, y, s * along + c * out])

    angles = np.linspace(0.0, np.pi, 21)
    reach, foot, crown = 0.086, 0.052, 0.152
    bow = [at(reach * np.cos(a), foot + (crown - foot) * np.sin(a)) for a in angles]
    frame.add_chain(bow, 0.007)
    for a in angles[3:-3:2]:
        along, y = reach * np.cos(a), foot + (crown - foot) * np.sin(a)
        frame.add(at(along, y), at(along, _FIRST), 0.0025)
