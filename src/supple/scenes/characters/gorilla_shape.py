"""The gorilla's body: solids for each of its sixteen joints.

It stands on its knuckles, facing +z, 1.4 m tall at the crest.
"""

from __future__ import annotations

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

BOUNDS = [(-0.75, -0.06, -0.75), (0.75, 1.5, 0.95)]

#: Joint: parent and place in the rest pose; those of the left side stand for both.
JOINTS: dict[str, tuple[str | None, tuple[float, float, float]]] = {
    "pelvis": (None, (0.0, 0.62, -0.36)),
    "spine": ("pelvis", (0.0, 0.74, -0.18)),
    "chest": ("spine", (0.0, 0.92, 0.04)),
    "head": ("chest", (0.0, 1.12, 0.30)),
    "shoulder.L": ("chest", (0.31, 1.00, 0.16)),
    "elbow.L": ("shoulder.L", (0.44, 0.58, 0.20)),
    "wrist.L": ("elbow.L", (0.40, 0.18, 0.31)),
    "shoulder.R": ("chest", (-0.31, 1.00, 0.16)),
    "elbow.R": ("shoulder.R", (-0.44, 0.58, 0.20)),
    "wrist.R": ("elbow.R", (-0.40, 0.18, 0.31)),
    "hip.L": ("pelvis", (0.16, 0.56, -0.36)),
    "knee.L": ("hip.L", (0.26, 0.34, -0.12)),
    "ankle.L": ("knee.L", (0.25, 0.10, -0.30)),
    "hip.R": ("pelvis", (-0.16, 0.56, -0.36)),
    "knee.R": ("hip.R", (-0.26, 0.34, -0.12)),
    "ankle.R": ("knee.R", (-0.25, 0.10, -0.30)),
}


LIMBS = [
    tuple(f"{joint}.{side}" for joint in limb)
    for side in "LR"
    for limb in (("shoulder", "elbow", "wrist"), ("hip", "knee", "ankle"))
]


def gorilla_solid() -> Solid:
    """Return the whole body."""
    parts = gorilla_parts()
    head = _carved_head(parts.pop("head"))
    trunk = [solid for name in ("pelvis", "spine", "chest") for solid in parts.pop(name)]
    limbs = [smooth_union(_of_limb(parts, limb), 0.04) for limb in LIMBS]
    return smooth_union([smooth_union(trunk, 0.10), head, *limbs], 0.045)


def _of_limb(parts: dict[str, list[Solid]], joints: tuple[str, ...]) -> list[Solid]:
    return [solid for joint in joints for solid in parts[joint]]


def gorilla_parts() -> dict[str, list[Solid]]:
    """Return solids of each joint, in the order of `JOINTS`."""
    parts = _trunk() | {"head": _head()}
    for side, sign in (("L", 1.0), ("R", -1.0)):
        parts |= {f"{name}.{side}": solids for name, solids in (_arm(sign) | _leg(sign)).items()}
    return {name: parts[name] for name in JOINTS}


def _trunk() -> dict[str, list[Solid]]:
    pelvis = [
        ellipsoid((0, 0.62, -0.38), (0.215, 0.19, 0.21), _tilted(35)),
        ball((0.11, 0.55, -0.46), 0.13),
        ball((-0.11, 0.55, -0.46), 0.13),
    ]
    spine = [
        ellipsoid((0, 0.62, -0.10), (0.275, 0.235, 0.30), _tilted(20)),  # the belly
        ellipsoid((0, 0.77, -0.17), (0.25, 0.185, 0.33), _tilted(36)),
    ]
    chest = [
        ellipsoid((0, 0.89, 0.06), (0.325, 0.235, 0.31), _tilted(38)),
        ellipsoid((0, 1.03, 0.10), (0.25, 0.155, 0.25), _tilted(30)),  # the hump of the neck
        ellipsoid((0.135, 0.86, 0.255), (0.15, 0.125, 0.085), _tilted(25)),  # breast muscles
        ellipsoid((-0.135, 0.86, 0.255), (0.15, 0.125, 0.085), _tilted(25)),
    ]
    return {"pelvis": pelvis, "spine": spine, "chest": chest}


def _head() -> list[Solid]:
    return [
        tapered_limb((0, 1.05, 0.20), (0, 1.16, 0.40), 0.185, 0.140),  # the neck
        ellipsoid((0, 1.20, 0.43), (0.130, 0.135, 0.15)),
        ellipsoid((0, 1.285, 0.365), (0.075, 0.115, 0.16), _tilted(18)),  # sagittal crest
        ellipsoid((0, 1.10, 0.555), (0.096, 0.085, 0.100)),  # muzzle
        ellipsoid((0, 1.05, 0.535), (0.085, 0.055, 0.088)),  # chin
        tapered_limb((-0.095, 1.236, 0.535), (0, 1.240, 0.556), 0.036, 0.036),  # brow
        tapered_limb((0.095, 1.236, 0.535), (0, 1.240, 0.556), 0.036, 0.036),
        tapered_limb((0, 1.20, 0.56), (0, 1.145, 0.628), 0.022, 0.034),  # nose
        ball((0.032, 1.140, 0.628), 0.027),
        ball((-0.032, 1.140, 0.628), 0.027),
        ellipsoid((0.140, 1.20, 0.375), (0.022, 0.042, 0.030)),  # ears
        ellipsoid((-0.140, 1.20, 0.375), (0.022, 0.042, 0.030)),
        ellipsoid((0.10, 1.12, 0.42), (0.07, 0.09, 0.10)),  # jaw muscles
        ellipsoid((-0.10, 1.12, 0.42), (0.07, 0.09, 0.10)),
    ]


def _carved_head(solids: list[Solid]) -> Solid:
    """Carve eye sockets, nostrils and a mouth."""
    head = smooth_union(solids, 0.026)
    for sign in (1, -1):
        head = smooth_subtraction(head, ball((0.050 * sign, 1.190, 0.604), 0.030), 0.014)
        head = smooth_subtraction(head, ball((0.026 * sign, 1.138, 0.664), 0.018), 0.008)
    corners = [(0.085 * side, 1.074, 0.60) for side in (1, -1)]
    lips = [tapered_limb((0, 1.066, 0.664), corner, 0.014, 0.010) for corner in corners]
    mouth = smooth_union(lips, 0.005)
    return smooth_union(
        [
            smooth_subtraction(head, mouth, 0.012),
            ball((0.047, 1.190, 0.562), 0.024),  # eyes
            ball((-0.047, 1.190, 0.562), 0.024),
        ],
        0.006,
    )


def _arm(sign: float) -> dict[str, list[Solid]]:
    mirror = np.array([sign, 1.0, 1.0])

    def at(x: float, y: float, z: float) -> Floats:
        return mirror * (x, y, z)

    upper = [
        ellipsoid(at(0.33, 0.99, 0.14), (0.165, 0.165, 0.165)),  # deltoid
        tapered_limb(at(0.35, 0.97, 0.16), at(0.44, 0.60, 0.20), 0.135, 0.098),
        ellipsoid(at(0.405, 0.77, 0.255), (0.085, 0.15, 0.075)),  # biceps
        ellipsoid(at(0.42, 0.76, 0.125), (0.085, 0.16, 0.075)),  # triceps
    ]
    fore = [
        tapered_limb(at(0.44, 0.58, 0.20), at(0.40, 0.20, 0.30), 0.105, 0.074),
        ellipsoid(at(0.45, 0.45, 0.235), (0.115, 0.16, 0.11)),
    ]
    hand = [ellipsoid(at(0.40, 0.13, 0.315), (0.080, 0.085, 0.072))]
    for finger in range(4):  # bent under, the middle bones on the ground
        x = 0.343 + 0.038 * finger
        hand.append(tapered_limb(at(x, 0.10, 0.345), at(x, 0.030, 0.372), 0.030, 0.027))
        hand.append(tapered_limb(at(x, 0.028, 0.370), at(x, 0.028, 0.305), 0.027, 0.024))
    hand.append(tapered_limb(at(0.335, 0.15, 0.32), at(0.318, 0.075, 0.36), 0.028, 0.022))
    return {"shoulder": upper, "elbow": fore, "wrist": hand}


def _leg(sign: float) -> dict[str, list[Solid]]:
    mirror = np.array([sign, 1.0, 1.0])

    def at(x: float, y: float, z: float) -> Floats:
        return mirror * (x, y, z)

    thigh = [
        tapered_limb(at(0.17, 0.54, -0.38), at(0.26, 0.35, -0.13), 0.150, 0.105),
        ellipsoid(at(0.20, 0.44, -0.34), (0.12, 0.15, 0.13)),
    ]
    shin = [
        tapered_limb(at(0.26, 0.34, -0.12), at(0.25, 0.12, -0.29), 0.100, 0.068),
        ellipsoid(at(0.26, 0.25, -0.24), (0.085, 0.11, 0.080)),  # calf
    ]
    foot = [
        tapered_limb(at(0.25, 0.065, -0.33), at(0.27, 0.045, -0.09), 0.068, 0.052),
        tapered_limb(at(0.20, 0.045, -0.20), at(0.17, 0.035, -0.09), 0.036, 0.029),  # big toe
    ]
    for toe in range(4):
        x = 0.235 + 0.029 * toe
        foot.append(tapered_limb(at(x, 0.040, -0.10), at(x + 0.01, 0.03, -0.035), 0.028, 0.023))
    return {"hip": thigh, "knee": shin, "ankle": foot}


def _tilted(degrees: float) -> Floats:
    """Return axes turned about x: positive lifts the front."""
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    return np.array([[1, 0, 0], [0, c, -s], [0, s, c]])
