"""The person's shape: solids for each of the 24 joints of SMPL, bones, and colours.

Stands with arms stretched to both sides, palms down, facing +z with the left hand at +x, 1.70 m
tall, feet on y = 0.
"""

from __future__ import annotations

import numpy as np

from supple.arrays import Floats
from supple.mesh.surface import SurfaceMesh
from supple.scenes.characters.hand_shape import hand_solid
from supple.scenes.modelling.lathe import bone_shape, ellipsoid_shape
from supple.scenes.modelling.sculpting import ramp
from supple.scenes.modelling.solids import (
    Solid,
    ball,
    ellipsoid,
    smooth_subtraction,
    smooth_union,
    tapered_limb,
)

BOUNDS = [(-0.90, -0.02, -0.17), (0.90, 1.74, 0.20)]
#: Places of joints; those of limbs are the left ones.
_MIDDLE = {
    "pelvis": (None, (0.0, 0.945, -0.005)),
    "spine1": ("pelvis", (0.0, 1.045, -0.025)),
    "spine2": ("spine1", (0.0, 1.150, -0.030)),
    "spine3": ("spine2", (0.0, 1.240, -0.028)),
    "neck": ("spine3", (0.0, 1.430, -0.035)),
    "head": ("neck", (0.0, 1.510, -0.005)),
}
_LIMBS = {
    "hip": ("pelvis", (0.088, 0.880, 0.000)),
    "knee": ("hip", (0.115, 0.475, 0.005)),
    "ankle": ("knee", (0.130, 0.085, -0.030)),
    "foot": ("ankle", (0.142, 0.028, 0.085)),
    "collar": ("spine3", (0.065, 1.365, -0.020)),
    "shoulder": ("collar", (0.172, 1.385, -0.035)),
    "elbow": ("shoulder", (0.430, 1.378, -0.045)),
    "wrist": ("elbow", (0.675, 1.375, -0.032)),
    "hand": ("wrist", (0.763, 1.3785, -0.0272)),
}
_ORDER = ["pelvis", "hip", "spine1", "knee", "spine2", "ankle", "spine3", "foot", "neck"]
_ORDER += ["collar", "head", "shoulder", "elbow", "wrist", "hand"]
_SIDES = (("left", 1.0), ("right", -1.0))
#: Joint: parent and place, in the order of SMPL.
JOINTS: dict[str, tuple[str | None, tuple[float, float, float]]] = {}
for _name in _ORDER:
    if _name in _MIDDLE:
        JOINTS[_name] = _MIDDLE[_name]
        continue
    _parent, (_x, _y, _z) = _LIMBS[_name]
    for _side, _sign in _SIDES:
        _above = _parent if _parent in _MIDDLE else f"{_side}_{_parent}"
        JOINTS[f"{_side}_{_name}"] = _above, (_sign * _x, _y, _z)
#: Hands are those of the scene "hand", a little smaller.
HAND_SIZE = 0.94


def _of_hand(sign: float) -> Solid:
    wrist, solid = np.array(_LIMBS["wrist"][1]), hand_solid()

    def depth(points: Floats) -> Floats:
        local = (points * [sign, 1.0, 1.0] - wrist) * [-1.0, 1.0, 1.0] / HAND_SIZE
        return HAND_SIZE * solid(local)

    return _beyond(depth, 0, sign, 0.58)


def _beyond(solid: Solid, axis: int, sign: float, from_here: float) -> Solid:
    """Return a solid with many parts that lies beyond a plane, asked for nothing before it."""

    def depth(points: Floats) -> Floats:
        over = sign * points[:, axis] - from_here
        near = np.flatnonzero(over > 0)
        depths = np.minimum(over, 0.0) - 0.05
        if len(near):
            depths[near] = solid(points[near])
        return depths

    return depth


def human_parts() -> dict[str, list[Solid]]:
    """Return solids of each joint, in the order of `JOINTS`; for weights, hands are coarse."""
    parts = _trunk() | {"neck": [_neck()], "head": _head()}
    for side, sign in _SIDES:
        parts |= {f"{side}_{n}": solids for n, solids in (_arm(sign) | _leg(sign)).items()}
    return {name: parts[name] for name in JOINTS}


def human_solid() -> Solid:
    """Return the whole body, standing on flat soles."""
    parts = human_parts()
    middle = [s for name in ("pelvis", "spine1", "spine2", "spine3") for s in parts[name]]
    trunk = smooth_union(middle, 0.040)
    limbs: list[Solid] = []
    for side, sign in _SIDES:
        leg = [s for n in ("hip", "knee", "ankle", "foot") for s in parts[f"{side}_{n}"]]
        arm = [s for n in ("collar", "shoulder", "elbow") for s in parts[f"{side}_{n}"]]
        whole_arm = smooth_union([smooth_union(arm, 0.020), _of_hand(sign)], 0.012)
        limbs.append(_beyond(smooth_union(leg, 0.018), 1, -1.0, -1.02))
        limbs.append(_beyond(whole_arm, 0, sign, -0.07))
    grown = smooth_union([_beyond(trunk, 1, 1.0, 0.73), *limbs, _neck()], 0.030)

    def body(points: Floats) -> Floats:
        return grown(points) + 0.002 * ramp(-np.abs(points[:, 0]), -0.62, -0.5)

    navel = ball((0, 1.035, 0.133), 0.007)
    whole = smooth_subtraction(body, navel, 0.012)
    whole = smooth_union([whole, _beyond(_carved_head(), 1, 1.0, 1.42)], 0.016)
    return smooth_subtraction(whole, lambda points: 0.0 - points[:, 1], 0.010)


def _both(place: tuple[float, float, float], radii: tuple[float, float, float]) -> list[Solid]:
    x, y, z = place
    return [ellipsoid((sign * x, y, z), radii) for _, sign in _SIDES]


def _trunk() -> dict[str, list[Solid]]:
    return {
        "pelvis": [
            ellipsoid((0, 0.930, -0.008), (0.158, 0.104, 0.108)),
            ellipsoid((0, 0.860, 0.005), (0.070, 0.060, 0.065)),
            *_both((0.070, 0.885, -0.062), (0.082, 0.087, 0.072)),  # the seat
        ],
        "spine1": [
            ellipsoid((0, 1.055, -0.004), (0.141, 0.118, 0.100)),
            ellipsoid((0, 1.020, 0.020), (0.120, 0.118, 0.092)),
        ],
        "spine2": [ellipsoid((0, 1.160, -0.006), (0.148, 0.124, 0.110))],
        "spine3": [
            ellipsoid((0, 1.255, -0.012), (0.160, 0.132, 0.114)),
            ellipsoid((0, 1.335, -0.022), (0.154, 0.072, 0.086)),
            *_both((0.070, 1.285, 0.058), (0.076, 0.054, 0.036)),  # chest
            *_both((0.112, 1.245, -0.045), (0.050, 0.110, 0.052)),  # back
        ],
    }


def _neck() -> Solid:
    return tapered_limb((0, 1.395, -0.038), (0, 1.520, -0.008), 0.060, 0.052)


def _head() -> list[Solid]:
    found = [
        ellipsoid((0, 1.612, -0.004), (0.076, 0.084, 0.094)),
        ellipsoid((0, 1.568, 0.032), (0.061, 0.080, 0.062)),
        ellipsoid((0, 1.500, 0.064), (0.026, 0.022, 0.026)),  # the chin
        tapered_limb((0, 1.606, 0.088), (0, 1.566, 0.107), 0.0085, 0.0120),  # the nose
        ellipsoid((0, 1.528, 0.082), (0.022, 0.012, 0.014)),  # lips
    ]
    for _, sign in _SIDES:
        found += [
            tapered_limb((0.052 * sign, 1.545, 0.010), (0.020 * sign, 1.502, 0.060), 0.020, 0.018),
            ellipsoid((0.038 * sign, 1.562, 0.062), (0.024, 0.022, 0.024)),  # cheeks
            ball((0.011 * sign, 1.563, 0.101), 0.0085),  # wings of the nose
            tapered_limb((0.014 * sign, 1.611, 0.090), (0.050 * sign, 1.610, 0.070), 0.010, 0.009),
            ellipsoid((0.077 * sign, 1.575, -0.004), (0.009, 0.030, 0.018)),  # ears
        ]
    return [*found, *_hair()]


def _hair() -> list[Solid]:
    return [
        ellipsoid((0, 1.621, -0.010), (0.082, 0.082, 0.094)),
        ellipsoid((0, 1.580, -0.060), (0.066, 0.070, 0.045)),
    ]


def _carved_head() -> Solid:
    hair = smooth_union(_hair(), 0.020)
    head = smooth_union([smooth_union(_head()[:-2], 0.014), hair], 0.006)
    for _, sign in _SIDES:
        head = smooth_subtraction(head, ball((0.032 * sign, 1.592, 0.101), 0.0145), 0.008)
    lids = [ellipsoid((0.031 * sign, 1.591, 0.076), (0.015, 0.011, 0.013)) for _, sign in _SIDES]
    mouth = tapered_limb((-0.019, 1.527, 0.0925), (0.019, 1.527, 0.0925), 0.0028, 0.0028)
    head = smooth_subtraction(head, mouth, 0.004)
    return smooth_union([head, *lids], 0.004)


def _arm(sign: float) -> dict[str, list[Solid]]:
    def at(x: float, y: float, z: float) -> Floats:
        return np.array([sign * x, y, z])

    return {
        "collar": [
            tapered_limb(at(0.030, 1.420, -0.045), at(0.145, 1.395, -0.038), 0.042, 0.046),
        ],
        "shoulder": [
            ellipsoid(at(0.185, 1.382, -0.036), (0.068, 0.060, 0.058)),
            tapered_limb(at(0.180, 1.380, -0.037), at(0.425, 1.378, -0.045), 0.056, 0.042),
            ellipsoid(at(0.300, 1.382, -0.036), (0.090, 0.050, 0.051)),
        ],
        "elbow": [
            tapered_limb(at(0.430, 1.378, -0.045), at(0.655, 1.375, -0.033), 0.041, 0.0255),
            ellipsoid(at(0.500, 1.376, -0.041), (0.088, 0.043, 0.044)),
        ],
        "wrist": [
            ellipsoid(at(0.720, 1.372, -0.030), (0.055, 0.016, 0.036)),
            tapered_limb(at(0.700, 1.365, -0.005), at(0.765, 1.357, 0.045), 0.014, 0.010),
        ],
        "hand": [ellipsoid(at(0.815, 1.370, -0.030), (0.060, 0.013, 0.042))],
    }


def _leg(sign: float) -> dict[str, list[Solid]]:
    def at(x: float, y: float, z: float) -> Floats:
        return np.array([sign * x, y, z])

    toes = [
        tapered_limb(
            at(0.118 + 0.0165 * k, 0.017, 0.105),
            at(0.117 + 0.0175 * k, 0.013, 0.152 - 0.0065 * k - (0.004 if k == 0 else 0.0)),
            0.0155 if k == 0 else 0.0120,
            0.0125 if k == 0 else 0.0095,
        )
        for k in range(5)
    ]
    return {
        "hip": [
            tapered_limb(at(0.090, 0.860, -0.004), at(0.114, 0.490, 0.006), 0.095, 0.060),
            ellipsoid(at(0.104, 0.700, 0.014), (0.080, 0.155, 0.081)),
        ],
        "knee": [
            tapered_limb(at(0.115, 0.475, 0.004), at(0.130, 0.100, -0.030), 0.056, 0.036),
            ellipsoid(at(0.125, 0.355, -0.028), (0.053, 0.108, 0.054)),  # the calf
            ellipsoid(at(0.115, 0.482, 0.034), (0.033, 0.040, 0.026)),
        ],
        "ankle": [
            tapered_limb(at(0.130, 0.090, -0.032), at(0.130, 0.040, -0.048), 0.036, 0.034),
            tapered_limb(at(0.131, 0.070, -0.015), at(0.139, 0.036, 0.070), 0.036, 0.030),
            ball(at(0.160, 0.072, -0.036), 0.011),
            ball(at(0.101, 0.080, -0.026), 0.011),
        ],
        "foot": [ellipsoid(at(0.145, 0.024, 0.080), (0.043, 0.024, 0.044)), *toes],
    }


def human_bones() -> dict[str, list[SurfaceMesh]]:
    """Return closed bones that follow each joint: of limbs, spine, ribs, pelvis and skull."""
    places = {name: np.array(place) for name, (_, place) in JOINTS.items()}
    found: dict[str, list[SurfaceMesh]] = {name: [] for name in JOINTS}
    found["pelvis"] = [ellipsoid_shape((0, 0.940, -0.015), (0.105, 0.055, 0.055))]
    for name, above in (("spine1", "spine2"), ("spine2", "spine3")):
        found[name] = [bone_shape(places[name], places[above], 0.021, 0.018, 0.021)]
    found["spine3"] = [ellipsoid_shape((0, 1.285, -0.020), (0.110, 0.095, 0.068))]
    found["neck"] = [bone_shape(places["neck"], places["head"], 0.018, 0.016, 0.018)]
    found["head"] = [
        ellipsoid_shape((0, 1.612, -0.004), (0.065, 0.072, 0.082)),
        ellipsoid_shape((0, 1.545, 0.045), (0.040, 0.045, 0.030)),
    ]
    thick = {
        "hip": (0.026, 0.015, 0.030),
        "knee": (0.028, 0.014, 0.020),
        "ankle": (0.018, 0.015, 0.013),
        "collar": (0.010, 0.008, 0.012),
        "shoulder": (0.022, 0.012, 0.019),
        "elbow": (0.018, 0.010, 0.012),
        "wrist": (0.009, 0.0075, 0.008),
    }
    below = {parent: name for name, (parent, _) in _LIMBS.items()}
    for side, sign in _SIDES:
        for name, radii in thick.items():
            start, end = places[f"{side}_{name}"], places[f"{side}_{below[name]}"]
            found[f"{side}_{name}"] = [bone_shape(start, end, *radii)]
        toes = np.array([0.143 * sign, 0.020, 0.125])
        found[f"{side}_foot"] = [bone_shape(places[f"{side}_foot"], toes, 0.012, 0.009, 0.007)]
        tip = np.array([0.835 * sign, 1.3772, -0.0267])
        found[f"{side}_hand"] = [bone_shape(places[f"{side}_hand"], tip, 0.0045, 0.0035, 0.003)]
    return found


SKIN, HAIR, SHIRT, SHORTS, LIP, EYE = (
    (0.87, 0.67, 0.55),
    (0.23, 0.16, 0.12),
    (0.72, 0.30, 0.27),
    (0.19, 0.25, 0.38),
    (0.76, 0.46, 0.42),
    (0.16, 0.13, 0.12),
)


def human_colours(points: Floats) -> Floats:
    """Return colours (n, 3) of places on the body: skin, hair, a shirt and shorts."""
    x, y, z = np.abs(points[:, 0]), points[:, 1], points[:, 2]
    collar = 1.420 - 0.35 * np.maximum(z + 0.02, 0.0) - y
    hair = smooth_union(_hair(), 0.020)(points)
    line = y - 1.640 - 0.10 * np.maximum(0.0, x - 0.045) + 1.1 * np.maximum(0.03 - z, 0.0)
    eyes = [ellipsoid((0.031 * s, 1.591, 0.088), (0.0115, 0.0048, 0.012)) for _, s in _SIDES]
    lips = ellipsoid((0.0, 1.528, 0.092), (0.019, 0.007, 0.014))(points)
    # What is painted over what: depths inside of it, and over how far it ends.
    layers = [
        (SHIRT, np.minimum(0.31 - x, np.where(x > 0.08, 1.46 - y, collar)), 0.012),
        (SHORTS, 0.955 - y, 0.006),
        (SKIN, 0.61 - y, 0.010),
        (HAIR, np.minimum(np.minimum(hair + 0.006, line), y - 1.535), 0.005),
        (LIP, lips, 0.004),
        *((EYE, eye(points), 0.002) for eye in eyes),
    ]
    colours = np.tile(SKIN, (len(points), 1))
    for colour, depth, over in layers:
        colours += ramp(depth, -over, over)[:, None] * (np.array(colour) - colours)
    return colours


def enlarged(points: Floats) -> Floats:
    """Return points with head, hands and feet larger, where the details are."""
    out = points + 1.2 * ramp(points[:, 1], 1.46, 1.54)[:, None] * (points - [0, 1.5, 0])
    for sign in (1.0, -1.0):
        wrist, ankle = np.array([sign * 0.68, 1.375, -0.03]), np.array([sign * 0.13, 0.1, -0.03])
        out += 1.9 * ramp(sign * points[:, 0], 0.66, 0.72)[:, None] * (points - wrist)
        foot = ramp(-points[:, 1], -0.10, -0.05) * (sign * points[:, 0] > 0)
        out += 0.6 * foot[:, None] * (points - ankle)
    return out
