"""A tied-arch bridge, resting on both banks."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from supple.arrays import Floats
from supple.elastic.material import Material
from supple.scenes.bodies.elastic_scene import ElasticScene, PaperBody
from supple.scenes.modelling.framework import Framework
from supple.scenes.modelling.voxel_lists import voxels_around

LENGTH = 1.0
CUBE = LENGTH / 128
_RISE, _HALF_WIDTH, _CAMBER = 0.19, 0.050, 0.02
_PANELS = 12


def assemble() -> ElasticScene:
    """Return the bridge along x, fixed at the ends of its cambered deck."""
    frame = _frame()
    points = frame.points(0.45 * CUBE)
    # Points at the very ends would add a layer of cubes.
    voxels = voxels_around(points[np.abs(points[:, 0]) < LENGTH / 2 - 1e-6], CUBE)
    x, y, z = voxels.vertices.T
    middle = np.lexsort((np.abs(z), -y, np.abs(x)))
    below = y[middle] < _CAMBER + 2 * CUBE
    return ElasticScene(
        name="bridge",
        surface=frame.surface(0.0030),
        voxels=voxels,
        material=Material("stvk", young=1.5e6, poisson=0.35, density=500.0),
        fixed=np.flatnonzero(np.abs(x) > LENGTH / 2 - 2.5 * CUBE),
        pulled=int(middle[below][0]),
        modes=15,
        linear_modes=10,
        dt=1 / 1000,
        paper=PaperBody(41361, 59630, 128, 11829, 5854, 15),
        description="a soft arch bridge on two banks, with a deck to bounce a ball on",
    )


def _deck(x: float, z: float = 0.0, above: float = 0.0) -> Floats:
    return np.array([x, _CAMBER * (1 - (2 * x / LENGTH) ** 2) + above, z])


def _arch(x: float, z: float) -> Floats:
    """Return the point (3,) at `x` of the arch at `z`, which leans inwards."""
    rise = _RISE * (1 - (2 * x / LENGTH) ** 2)
    return np.array([x, rise, z * (1 - 1.2 * rise)])


def _frame() -> Framework:
    frame = Framework()
    nodes = np.linspace(-LENGTH / 2, LENGTH / 2, _PANELS + 1)
    lanes = np.linspace(-_HALF_WIDTH, _HALF_WIDTH, 9)
    for lane in (lanes[1:] + lanes[:-1]) / 2:  # planks side by side
        planks = [_deck(x, lane) for x in nodes]
        frame.add_chain(planks, 2 * _HALF_WIDTH / 8, height=0.004)
    for side in (-1, 1):
        _add_side(frame, nodes, side * _HALF_WIDTH)
    for x in nodes[1:-1]:  # cross beams below the deck
        frame.add(_deck(x, -_HALF_WIDTH, -0.004), _deck(x, _HALF_WIDTH, -0.004), 0.004)
    across = [x for x in nodes if abs(x) < 0.36 * LENGTH]
    for near, far in pairwise(across):  # wind bracing of the arches
        corners = [_arch(x, z) for x in (near, far) for z in (-_HALF_WIDTH, _HALF_WIDTH)]
        frame.add_crossed(corners, 0.003)
    for x in across:
        frame.add(_arch(x, -_HALF_WIDTH), _arch(x, _HALF_WIDTH), 0.004)
    return frame


def _add_side(frame: Framework, nodes: Floats, z: float) -> None:
    """Add an arch with hangers, the girder that ties it and a railing."""
    fine = np.linspace(nodes[0], nodes[-1], 4 * _PANELS + 1)
    frame.add_chain([_arch(x, z) for x in fine], 0.010)
    frame.add_chain([_deck(x, z, -0.002) for x in fine], 0.006, height=0.006)
    for x in nodes[1:-1]:
        if _arch(x, z)[1] > _deck(x)[1] + 0.02:
            frame.add(_deck(x, z), _arch(x, z), 0.003)
    frame.add_chain([_deck(x, z, 0.014) for x in fine], 0.003)
    for x in fine[1:-1:2]:
        frame.add(_deck(x, z), _deck(x, z, 0.014), 0.0025)
