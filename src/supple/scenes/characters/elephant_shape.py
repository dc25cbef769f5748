"""The elephant's body: solids for each of its joints, and its colours.

An African one: it stands facing +z, its back 2 m above the ground, the trunk down to it.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from supple.arrays import Floats
from supple.scenes.modelling.solids import (
    Solid,
    ball,
    ellipsoid,
    smooth_subtraction,
    smooth_union,
    tapered_limb,
)

BOUNDS = [(-1.35, -0.12, -1.75), (1.35, 2.5, 2.35)]

#: Joint: parent and place in the rest pose.
JOINTS: dict[str, tuple[str | None, tuple[float, float, float]]] = {
    "pelvis": (None, (0.0, 1.38, -0.72)),
    "spine": ("pelvis", (0.0, 1.45, -0.15)),
    "chest": ("spine", (0.0, 1.42, 0.42)),
    "head": ("chest", (0.0, 1.62, 0.86)),
    "tail": ("pelvis", (0.0, 1.52, -1.15)),
    "tail tip": ("tail", (0.0, 1.12, -1.34)),
}
for _side, _sign in (("L", 1.0), ("R", -1.0)):
    JOINTS |= {
        f"ear.{_side}": ("head", (0.34 * _sign, 1.72, 0.98)),
        f"shoulder.{_side}": ("chest", (0.36 * _sign, 1.12, 0.50)),
        f"elbow.{_side}": (f"shoulder.{_side}", (0.36 * _sign, 0.62, 0.46)),
        f"wrist.{_side}": (f"elbow.{_side}", (0.36 * _sign, 0.22, 0.50)),
        f"hip.{_side}": ("pelvis", (0.34 * _sign, 1.15, -0.74)),
        f"knee.{_side}": (f"hip.{_side}", (0.35 * _sign, 0.66, -0.66)),
        f"ankle.{_side}": (f"knee.{_side}", (0.35 * _sign, 0.24, -0.78)),
    }


#: The trunk from the head to the tip, with its radii.
TRUNK = (
    ((0.0, 1.60, 1.36), 0.225),
    ((0.0, 1.35, 1.60), 0.195),
    ((0.0, 1.09, 1.70), 0.165),
    ((0.0, 0.84, 1.73), 0.140),
    ((0.0, 0.61, 1.74), 0.118),
    ((0.0, 0.43, 1.81), 0.102),
    ((0.0, 0.34, 1.97), 0.094),
)


def elephant_solid() -> Solid:
    """Return the whole body, standing on flat feet."""
    parts = elephant_parts()
    trunk = smooth_union(_proboscis(), 0.05)
    legs = [
        smooth_union([solid for joint in limb for solid in parts[joint]], 0.06) for limb in _LIMBS
    ]
    middle = [solid for joint in ("pelvis", "spine", "chest") for solid in parts[joint]]
    body = smooth_union([smooth_union(middle, 0.16), *legs], 0.10)
    head = smooth_union([smooth_union(_skull(), 0.06), trunk], 0.05)
    tail = smooth_union(parts["tail"] + parts["tail tip"], 0.03)
    whole = smooth_union([body, head, tail], 0.06)
    small = [smooth_union(_ear(sign), 0.05) for sign in (1.0, -1.0)]
    small += [smooth_union(_tusk(sign), 0.02) for sign in (1.0, -1.0)]
    small += [solid for sign in (1.0, -1.0) for solid in _nails(sign)]
    small += [ball((0.285 * sign, 1.66, 1.385), 0.050) for sign in (1.0, -1.0)]  # eyes
    whole = smooth_union([whole, *small], 0.03)
    return smooth_subtraction(whole, lambda points: 0.0 - points[:, 1], 0.02)


_LIMBS = [
    tuple(f"{joint}.{side}" for joint in limb)
    for side in "LR"
    for limb in (("shoulder", "elbow", "wrist"), ("hip", "knee", "ankle"))
]


def elephant_parts() -> dict[str, list[Solid]]:
    """Return solids of each joint, in the order of `JOINTS`."""
    parts: dict[str, list[Solid]] = {
        "pelvis": [
            ellipsoid((0, 1.34, -0.78), (0.47, 0.54, 0.44)),
            ellipsoid((0, 1.58, -0.66), (0.33, 0.34, 0.50), _tilted(14)),  # the high rump
        ],
        "spine": [
            ellipsoid((0, 1.22, -0.15), (0.57, 0.60, 0.78)),
            ellipsoid((0, 1.06, -0.12), (0.50, 0.50, 0.62)),  # the belly
            ellipsoid((0, 1.62, -0.16), (0.34, 0.38, 0.66)),  # the arched back
        ],
        "chest": [
            ellipsoid((0, 1.30, 0.44), (0.47, 0.52, 0.40)),
            ellipsoid((0, 1.56, 0.46), (0.34, 0.36, 0.40), _tilted(10)),
            tapered_limb((0, 1.46, 0.50), (0, 1.60, 0.92), 0.42, 0.36),
        ],
        "head": [*_skull(), *_proboscis()],
        "tail": [tapered_limb((0, 1.56, -1.13), (0, 1.10, -1.36), 0.070, 0.048)],
        "tail tip": [
            tapered_limb((0, 1.10, -1.36), (0, 0.78, -1.40), 0.048, 0.045),
            ellipsoid((0, 0.74, -1.40), (0.060, 0.13, 0.060)),
        ],
    }
    for side, sign in (("L", 1.0), ("R", -1.0)):
        parts |= {f"{name}.{side}": solids for name, solids in (_fore(sign) | _hind(sign)).items()}
        parts[f"ear.{side}"] = _ear(sign)
        parts["head"] += _tusk(sign)
    return {name: parts[name] for name in JOINTS}


def _skull() -> list[Solid]:
    return [
        ellipsoid((0, 1.70, 1.08), (0.355, 0.40, 0.36)),
        ellipsoid((0, 1.92, 1.08), (0.27, 0.22, 0.25)),
        ball((0.13, 1.99, 1.08), 0.165),  # the two domes of the forehead
        ball((-0.13, 1.99, 1.08), 0.165),
        ellipsoid((0, 1.80, 1.26), (0.24, 0.30, 0.20)),
        ellipsoid((0.20, 1.50, 1.20), (0.17, 0.22, 0.24)),  # cheeks
        ellipsoid((-0.20, 1.50, 1.20), (0.17, 0.22, 0.24)),
        tapered_limb((0.15, 1.54, 1.24), (0.27, 1.36, 1.41), 0.13, 0.092),  # sockets of tusks
        tapered_limb((-0.15, 1.54, 1.24), (-0.27, 1.36, 1.41), 0.13, 0.092),
        tapered_limb((0, 1.38, 1.06), (0, 1.24, 1.22), 0.17, 0.085),  # the lower lip
    ]


def _proboscis() -> list[Solid]:
    return [tapered_limb(a, b, first, last) for (a, first), (b, last) in pairwise(TRUNK)]


def trunk_and_rest() -> tuple[list[Solid], list[Solid]]:
    """Return solids of what the wire moves, and of all else."""
    parts = elephant_parts()
    others = [solid for joint in JOINTS if joint != "head" for solid in parts[joint]]
    head = [*_skull(), *_tusk(1.0), *_tusk(-1.0), *_proboscis()[:1]]
    return _proboscis()[1:], [*head, *others]


def _tusk(sign: float) -> list[Solid]:
    places = [(0.28, 1.35, 1.42), (0.45, 1.18, 1.60), (0.53, 1.10, 1.86), (0.50, 1.17, 2.12)]
    radii = [0.070, 0.066, 0.056, 0.030]
    at = [np.array([sign, 1, 1]) * place for place in places]
    return [tapered_limb(at[k], at[k + 1], radii[k], radii[k + 1]) for k in range(3)]


def _ear(sign: float) -> list[Solid]:
    """Return an ear: broad above, a lobe below, thin, spread outwards and a little back."""
    out = np.array([0.86 * sign, 0.0, -0.51])
    axes = np.stack([out, [0.0, 1.0, 0.0], np.cross(out, [0.0, 1.0, 0.0])])
    root = np.array([0.30 * sign, 1.66, 1.00])

    def flat(along: float, up: float, wide: float, high: float, thick: float) -> Solid:
        return ellipsoid(root + along * out + [0.0, up, 0.0], (wide, high, thick), axes)

    return [
        flat(0.40, 0.10, 0.44, 0.42, 0.074),
        flat(0.55, 0.14, 0.38, 0.34, 0.070),
        flat(0.34, -0.26, 0.28, 0.40, 0.070),
        flat(0.12, 0.02, 0.20, 0.34, 0.085),  # where it is grown on
    ]


def _fore(sign: float) -> dict[str, list[Solid]]:
    def at(x: float, y: float, z: float) -> Floats:
        return np.array([sign * x, y, z])

    return {
        "shoulder": [
            tapered_limb(at(0.34, 1.14, 0.50), at(0.36, 0.66, 0.47), 0.265, 0.200),
            ellipsoid(at(0.34, 1.20, 0.46), (0.20, 0.34, 0.28)),
        ],
        "elbow": [
            tapered_limb(at(0.36, 0.64, 0.47), at(0.36, 0.25, 0.50), 0.200, 0.178),
        ],
        "wrist": [
            tapered_limb(at(0.36, 0.25, 0.50), at(0.36, 0.09, 0.51), 0.180, 0.215),
            tapered_limb(at(0.36, 0.09, 0.51), at(0.36, -0.05, 0.52), 0.215, 0.215),
        ],
    }


def _hind(sign: float) -> dict[str, list[Solid]]:
    def at(x: float, y: float, z: float) -> Floats:
        return np.array([sign * x, y, z])

    return {
        "hip": [
            tapered_limb(at(0.31, 1.20, -0.80), at(0.35, 0.70, -0.68), 0.315, 0.215),
        ],
        "knee": [
            tapered_limb(at(0.35, 0.68, -0.67), at(0.35, 0.26, -0.79), 0.212, 0.172),
        ],
        "ankle": [
            tapered_limb(at(0.35, 0.26, -0.79), at(0.35, 0.09, -0.77), 0.175, 0.205),
            tapered_limb(at(0.35, 0.09, -0.77), at(0.35, -0.05, -0.76), 0.205, 0.205),
        ],
    }


def _nails(sign: float) -> list[Solid]:
    """Return toenails of both feet of a side."""
    found = []
    for x, z, radius in ((0.36, 0.51, 0.21), (0.35, -0.77, 0.20)):
        for angle in (-48, 0, 48):
            turn = np.radians(angle)
            place = (sign * x + radius * np.sin(turn), 0.06, z + radius * np.cos(turn))
            found.append(ellipsoid(place, (0.050, 0.060, 0.050)))
    return found


def _tilted(degrees: float) -> Floats:
    """Return axes turned about x: positive lifts the front."""
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    return np.array([[1, 0, 0], [0, c, -s], [0, s, c]])


GREY, IVORY, NAIL, EYE, PINK = (
    (0.50, 0.50, 0.53),
    (0.95, 0.92, 0.82),
    (0.80, 0.76, 0.68),
    (0.08, 0.06, 0.06),
    (0.57, 0.51, 0.53),
)


def elephant_colours(points: Floats) -> Floats:
    """Return colours (n, 3) of places on the skin: ivory tusks, pale nails, dark eyes."""
    colours = np.tile(GREY, (len(points), 1))
    for sign in (1.0, -1.0):
        ear = smooth_union(_ear(sign), 0.05)(points) > -0.03
        colours[ear & (np.abs(points[:, 0]) > 0.40)] = PINK
        tusk = smooth_union(_tusk(sign), 0.02)(points) > -0.02
        beyond = points[:, 2] > 1.46
        colours[tusk & beyond & (np.abs(points[:, 0]) > 0.17)] = IVORY
        for nail in _nails(sign):
            colours[nail(points) > -0.010] = NAIL
        colours[ball((0.300 * sign, 1.66, 1.40), 0.045)(points) > -0.012] = EYE
    return colours
