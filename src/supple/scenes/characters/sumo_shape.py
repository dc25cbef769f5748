"""The wrestler's body: solids for each of his joints, and his colours.

He stands facing +z with his feet apart, 1.95 m tall with the top-knot, arms away from the belly.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from supple.arrays import Floats
from supple.scenes.modelling.sculpting import ramp
from supple.scenes.modelling.solids import (
    Solid,
    ball,
    ellipsoid,
    smooth_subtraction,
    smooth_union,
    tapered_limb,
)

BOUNDS = [(-1.05, -0.1, -0.65), (1.05, 2.22, 0.85)]

#: Joint: parent and place in the rest pose.
JOINTS: dict[str, tuple[str | None, tuple[float, float, float]]] = {
    "pelvis": (None, (0.0, 0.74, -0.02)),
    "spine": ("pelvis", (0.0, 0.94, -0.04)),
    "chest": ("spine", (0.0, 1.18, -0.04)),
    "head": ("chest", (0.0, 1.42, 0.0)),
}
for _side, _sign in (("L", 1.0), ("R", -1.0)):
    JOINTS |= {
        f"shoulder.{_side}": ("chest", (0.34 * _sign, 1.30, -0.03)),
        f"elbow.{_side}": (f"shoulder.{_side}", (0.62 * _sign, 1.06, 0.0)),
        f"wrist.{_side}": (f"elbow.{_side}", (0.78 * _sign, 0.80, 0.12)),
        f"hip.{_side}": ("pelvis", (0.20 * _sign, 0.68, 0.0)),
        f"knee.{_side}": (f"hip.{_side}", (0.32 * _sign, 0.40, 0.06)),
        f"ankle.{_side}": (f"knee.{_side}", (0.36 * _sign, 0.10, -0.02)),
    }


#: The head is modelled in a space of its own, and made larger: scale, and the place that stays.
HEAD = 1.3, (0.0, 1.42, -0.04)


def head_space(points: Floats) -> Floats:
    """Return places (n, 3) in the space that the head is modelled in."""
    scale, stays = HEAD
    return stays + (points - np.array(stays)) / scale


def _on_body(solid: Solid) -> Solid:
    return lambda points: HEAD[0] * solid(head_space(points))


def sumo_solid() -> Solid:
    """Return the whole body with his belt on, standing on flat feet."""
    parts = sumo_parts()
    limbs = [
        smooth_union([solid for joint in limb for solid in parts[joint]], 0.05) for limb in _LIMBS
    ]
    middle = [solid for joint in ("pelvis", "spine", "chest") for solid in parts[joint]]
    body = smooth_union([smooth_union(middle, 0.07), *limbs], 0.045)
    body = smooth_subtraction(body, ball((0, 0.93, 0.535), 0.030), 0.03)  # the navel
    body = smooth_union([body, _on_body(_carved_head())], 0.04)
    whole = smooth_union([body, sumo_belt()], 0.012)
    return smooth_subtraction(whole, lambda points: 0.0 - points[:, 1], 0.015)


_LIMBS = [
    tuple(f"{joint}.{side}" for joint in limb)
    for side in "LR"
    for limb in (("shoulder", "elbow", "wrist"), ("hip", "knee", "ankle"))
]


def sumo_parts() -> dict[str, list[Solid]]:
    """Return solids of each joint, in the order of `JOINTS`."""
    parts = _trunk() | {"head": [_on_body(solid) for solid in (*_head(), *_hair())]}
    for side, sign in (("L", 1.0), ("R", -1.0)):
        parts |= {f"{name}.{side}": solids for name, solids in (_arm(sign) | _leg(sign)).items()}
    return {name: parts[name] for name in JOINTS}


def _trunk() -> dict[str, list[Solid]]:
    pelvis = [
        ellipsoid((0, 0.70, -0.02), (0.33, 0.19, 0.26)),
        ball((0.15, 0.66, -0.17), 0.19),  # the seat
        ball((-0.15, 0.66, -0.17), 0.19),
    ]
    spine = [
        ellipsoid((0, 0.94, 0.11), (0.42, 0.29, 0.38)),  # the belly
        ellipsoid((0, 0.87, 0.17), (0.36, 0.23, 0.36)),
        ellipsoid((0, 1.00, -0.08), (0.36, 0.30, 0.27)),
    ]
    chest = [
        ellipsoid((0, 1.22, -0.03), (0.36, 0.22, 0.24)),
        ellipsoid((0, 1.36, -0.04), (0.30, 0.13, 0.19)),  # shoulders
        ellipsoid((0.165, 1.20, 0.15), (0.17, 0.135, 0.14)),  # breasts
        ellipsoid((-0.165, 1.20, 0.15), (0.17, 0.135, 0.14)),
        ellipsoid((0.33, 1.20, -0.02), (0.10, 0.13, 0.15)),  # no hollow in the armpit
        ellipsoid((-0.33, 1.20, -0.02), (0.10, 0.13, 0.15)),
    ]
    return {"pelvis": pelvis, "spine": spine, "chest": chest}


def sumo_belt() -> Solid:
    """Return the mawashi as one solid."""
    return smooth_union(_belt(), 0.02)


def _belt() -> list[Solid]:
    """Return the mawashi: turns around the waist, a fold in front and one between the legs."""
    found = []
    for height, wide in ((0.715, 0.372), (0.775, 0.385)):
        around = np.linspace(0, 2 * np.pi, 25)
        ring = np.stack(
            [
                wide * np.cos(around),
                height - 0.035 * np.sin(around),
                0.02 + (wide - 0.035) * np.sin(around),
            ],
            axis=1,
        )
        found += [tapered_limb(a, b, 0.050, 0.050) for a, b in pairwise(ring)]
    found.append(ellipsoid((0, 0.755, 0.02), (0.40, 0.205, 0.35)))  # no hollow behind it
    front = [(0, 0.72, 0.34), (0, 0.60, 0.27), (0, 0.52, 0.12), (0, 0.51, -0.08), (0, 0.60, -0.29)]
    found += [tapered_limb(a, b, 0.085, 0.080) for a, b in pairwise(front)]
    found.append(tapered_limb((0, 0.64, -0.32), (0, 0.79, -0.31), 0.075, 0.085))  # the knot
    return found


def _head() -> list[Solid]:
    return [
        tapered_limb((0, 1.38, -0.04), (0, 1.52, 0.0), 0.155, 0.135),  # the neck
        ellipsoid((0, 1.60, 0.02), (0.155, 0.165, 0.165)),
        ellipsoid((0.095, 1.535, 0.085), (0.090, 0.080, 0.085)),  # cheeks
        ellipsoid((-0.095, 1.535, 0.085), (0.090, 0.080, 0.085)),
        ellipsoid((0, 1.475, 0.085), (0.105, 0.060, 0.085)),  # chins
        ellipsoid((0, 1.44, 0.06), (0.135, 0.050, 0.095)),
        ellipsoid((0, 1.585, 0.188), (0.030, 0.034, 0.032)),  # nose
        ball((0.022, 1.572, 0.190), 0.022),
        ball((-0.022, 1.572, 0.190), 0.022),
        tapered_limb((0.030, 1.662, 0.166), (0.098, 1.672, 0.140), 0.020, 0.016),  # brows
        tapered_limb((-0.030, 1.662, 0.166), (-0.098, 1.672, 0.140), 0.020, 0.016),
        ellipsoid((0.160, 1.585, 0.0), (0.028, 0.050, 0.035)),  # ears
        ellipsoid((-0.160, 1.585, 0.0), (0.028, 0.050, 0.035)),
    ]


def _hair() -> list[Solid]:
    """Return combed hair and the top-knot, which lies forward over the crown."""
    return [
        ellipsoid((0, 1.655, -0.035), (0.158, 0.130, 0.150)),
        ellipsoid((0, 1.60, -0.125), (0.110, 0.095, 0.065)),
        tapered_limb((0, 1.745, -0.11), (0, 1.845, -0.085), 0.050, 0.042),
        tapered_limb((0, 1.845, -0.085), (0, 1.855, 0.02), 0.044, 0.050),
        ellipsoid((0, 1.838, 0.055), (0.066, 0.030, 0.046)),  # spread like a leaf
    ]


def _carved_head() -> Solid:
    head = smooth_union([smooth_union(_head(), 0.028), smooth_union(_hair(), 0.02)], 0.015)
    for sign in (1, -1):
        head = smooth_subtraction(head, ball((0.062 * sign, 1.628, 0.190), 0.026), 0.015)
    corners = [(0.052 * side, 1.520, 0.170) for side in (1, -1)]
    lips = [tapered_limb((0, 1.526, 0.196), corner, 0.012, 0.010) for corner in corners]
    head = smooth_subtraction(head, smooth_union(lips, 0.005), 0.010)
    eyes = [ellipsoid((0.062 * sign, 1.628, 0.150), (0.030, 0.020, 0.022)) for sign in (1, -1)]
    return smooth_union([head, *eyes], 0.006)


def _arm(sign: float) -> dict[str, list[Solid]]:
    def at(x: float, y: float, z: float) -> Floats:
        return np.array([sign * x, y, z])

    hand = [
        ellipsoid(at(0.80, 0.745, 0.15), (0.060, 0.085, 0.060)),
        tapered_limb(at(0.755, 0.755, 0.19), at(0.735, 0.70, 0.235), 0.030, 0.024),  # thumb
    ]
    for finger in range(4):
        z = 0.195 - 0.034 * finger
        hand.append(tapered_limb(at(0.805, 0.70, z), at(0.815, 0.615, z + 0.01), 0.029, 0.023))
    return {
        "shoulder": [
            ellipsoid(at(0.36, 1.30, -0.03), (0.15, 0.15, 0.15)),
            tapered_limb(at(0.38, 1.27, -0.03), at(0.60, 1.07, 0.0), 0.135, 0.110),
            ellipsoid(at(0.52, 1.14, -0.02), (0.11, 0.12, 0.11)),
        ],
        "elbow": [tapered_limb(at(0.62, 1.06, 0.0), at(0.77, 0.82, 0.11), 0.108, 0.066)],
        "wrist": hand,
    }


def _leg(sign: float) -> dict[str, list[Solid]]:
    def at(x: float, y: float, z: float) -> Floats:
        return np.array([sign * x, y, z])

    foot = [
        tapered_limb(at(0.36, 0.10, -0.02), at(0.365, 0.055, -0.04), 0.092, 0.085),
        tapered_limb(at(0.365, 0.050, -0.05), at(0.395, 0.040, 0.14), 0.080, 0.078),
    ]
    for toe in range(4):
        x, far = 0.345 + 0.036 * toe, 0.215 - 0.012 * toe
        radius = 0.034 if toe == 0 else 0.027
        foot.append(tapered_limb(at(x, 0.032, 0.14), at(x + 0.005, 0.030, far), radius, radius))
    return {
        "hip": [
            tapered_limb(at(0.20, 0.66, 0.0), at(0.31, 0.42, 0.05), 0.205, 0.150),
            ellipsoid(at(0.25, 0.56, 0.02), (0.18, 0.19, 0.18)),
        ],
        "knee": [
            tapered_limb(at(0.32, 0.40, 0.06), at(0.36, 0.14, -0.01), 0.148, 0.088),
            ellipsoid(at(0.345, 0.29, -0.02), (0.110, 0.13, 0.110)),  # calf
        ],
        "ankle": foot,
    }


SKIN, HAIR, BELT, LIP, BLUSH = (
    (0.93, 0.74, 0.60),
    (0.10, 0.08, 0.09),
    (0.20, 0.16, 0.42),
    (0.72, 0.40, 0.36),
    (0.92, 0.60, 0.52),
)


def sumo_colours(points: Floats) -> Floats:
    """Return colours (n, 3) of places on him: black hair and eyes, a dark belt, red cheeks."""
    colours = np.tile(SKIN, (len(points), 1))
    colours[sumo_belt()(points) > -0.014] = BELT
    points = head_space(points)
    hair = smooth_union(_hair(), 0.02)(points)
    head = smooth_union(_head(), 0.028)(points)
    colours[(hair > -0.012) & (hair > head - 0.006)] = HAIR
    for sign in (1.0, -1.0):
        cheek = np.linalg.norm(points - [0.115 * sign, 1.54, 0.15], axis=1)
        colours[cheek < 0.04] = BLUSH
        eye = ellipsoid((0.062 * sign, 1.626, 0.165), (0.026, 0.012, 0.040))
        colours[eye(points) > -0.006] = HAIR
        ends = (0.036 * sign, 1.672, 0.170), (0.098 * sign, 1.684, 0.142)
        colours[tapered_limb(*ends, 0.010, 0.008)(points) > -0.008] = HAIR
    lips = np.abs(points - [0.0, 1.524, 0.19]) < [0.045, 0.012, 0.04]
    colours[lips.all(axis=1)] = LIP
    return colours


def enlarged(points: Floats) -> Floats:
    """Return points with the head larger still, where the details are."""
    above = points - [0.0, 1.40, 0.0]
    return points + 0.6 * ramp(points[:, 1], 1.36, 1.46)[:, None] * above
