"""The bear's body: solids for head, trunk, arms and legs.

It stands upright like a toy, facing +z, 1.3 m tall, its arms away from its belly.
"""

from __future__ import annotations

import numpy as np

from supple.arrays import Floats
from supple.scenes.modelling import solids
from supple.scenes.modelling.solids import Solid

BOUNDS = [(-0.72, -0.08, -0.48), (0.72, 1.42, 0.62)]
PARTS = ("body", "head", "arm.L", "arm.R", "leg.L", "leg.R")


def bear_solid() -> Solid:
    """Return the whole body, with eye sockets, a mouth and a navel."""
    parts = bear_parts()
    head = _carved_head(parts.pop("head"))
    grown = [solids.smooth_union(part, 0.06) for part in parts.values()]
    body = solids.smooth_subtraction(grown[0], solids.ball((0, 0.50, 0.340), 0.032), 0.05)
    return solids.smooth_union([body, head, *grown[1:]], 0.05)


def bear_parts() -> dict[str, list[Solid]]:
    """Return solids of each part, in the order of `PARTS`."""
    return {
        "body": _body(),
        "head": _head(),
        "arm.L": _arm(1.0),
        "arm.R": _arm(-1.0),
        "leg.L": _leg(1.0),
        "leg.R": _leg(-1.0),
    }


def _body() -> list[Solid]:
    return [
        solids.ellipsoid((0, 0.50, 0.02), (0.275, 0.27, 0.26)),
        solids.ellipsoid((0, 0.47, 0.10), (0.225, 0.215, 0.215)),  # the belly
        solids.ellipsoid((0, 0.70, 0.0), (0.20, 0.17, 0.175)),
        solids.ellipsoid((0.10, 0.36, -0.12), (0.13, 0.12, 0.13)),  # the seat
        solids.ellipsoid((-0.10, 0.36, -0.12), (0.13, 0.12, 0.13)),
        solids.ball((0, 0.38, -0.27), 0.060),  # the tail
    ]


def _head() -> list[Solid]:
    return [
        solids.tapered_limb((0, 0.76, 0.0), (0, 0.90, 0.02), 0.135, 0.145),  # the neck
        solids.ellipsoid((0, 1.02, 0.02), (0.215, 0.195, 0.19)),
        solids.ellipsoid((0.115, 0.965, 0.075), (0.105, 0.10, 0.11)),  # cheeks
        solids.ellipsoid((-0.115, 0.965, 0.075), (0.105, 0.10, 0.11)),
        solids.ellipsoid((0, 0.965, 0.190), (0.108, 0.088, 0.130)),  # snout
        solids.ellipsoid((0, 0.900, 0.180), (0.080, 0.048, 0.100)),  # lower jaw
        *_ear(1.0),
        *_ear(-1.0),
    ]


def _ear(side: float) -> list[Solid]:
    return [
        solids.ellipsoid((0.165 * side, 1.205, -0.01), (0.086, 0.088, 0.050)),
        solids.tapered_limb((0.12 * side, 1.12, 0.0), (0.16 * side, 1.19, -0.01), 0.05, 0.05),
    ]


def _carved_head(parts: list[Solid]) -> Solid:
    """Carve features no finer than the mesh can show: three edges and more."""
    head = solids.smooth_union(parts, 0.035)
    for side in (1, -1):
        head = solids.smooth_subtraction(
            head, solids.ball((0.170 * side, 1.212, 0.080), 0.062), 0.04
        )
        smile = solids.tapered_limb((0, 0.915, 0.330), (0.115 * side, 0.945, 0.225), 0.028, 0.016)
        head = solids.smooth_subtraction(head, smile, 0.03)
    eyes: list[Solid] = [solids.ball((0.088 * side, 1.062, 0.172), 0.036) for side in (1, -1)]
    nose = solids.ellipsoid((0, 1.005, 0.305), (0.055, 0.040, 0.040))
    return solids.smooth_union([head, *eyes, nose], 0.015)


def _arm(side: float) -> list[Solid]:
    mirror = np.array([side, 1.0, 1.0])

    def at(x: float, y: float, z: float) -> Floats:
        return mirror * (x, y, z)

    arm: list[Solid] = [
        solids.tapered_limb(at(0.16, 0.74, 0.0), at(0.36, 0.62, 0.02), 0.118, 0.098),
        solids.tapered_limb(at(0.36, 0.62, 0.02), at(0.52, 0.52, 0.05), 0.098, 0.092),
        solids.ellipsoid(at(0.545, 0.505, 0.055), (0.098, 0.090, 0.088)),  # the paw
    ]
    for finger in range(4):
        arm.append(solids.ball(at(0.610, 0.460, -0.017 + 0.048 * finger), 0.036))
    return arm


def _leg(side: float) -> list[Solid]:
    mirror = np.array([side, 1.0, 1.0])

    def at(x: float, y: float, z: float) -> Floats:
        return mirror * (x, y, z)

    leg: list[Solid] = [
        solids.tapered_limb(at(0.14, 0.36, 0.0), at(0.175, 0.12, 0.01), 0.142, 0.110),
        solids.ellipsoid(at(0.18, 0.070, 0.075), (0.112, 0.080, 0.165)),  # the foot
    ]
    for toe in range(4):
        leg.append(
            solids.ball(at(0.099 + 0.054 * toe, 0.070, 0.225 - 0.014 * (toe in (0, 3))), 0.038)
        )
    return leg
