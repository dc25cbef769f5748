"""The hand's shape: solids for each of its joints, 27 bones, and colours.

A right hand, flat, palm down, as at the end of an arm that points to −x: fingers to −x, thumb to
+z. The wrist's joint is the origin, and the tip of the middle finger 19 cm away from it.
"""

from __future__ import annotations

import numpy as np

from supple.arrays import Floats
from supple.mesh.surface import SurfaceMesh
from supple.scenes.modelling.lathe import bone_shape, ellipsoid_shape
from supple.scenes.modelling.sculpting import bell, ramp
from supple.scenes.modelling.solids import (
    Solid,
    ball,
    ellipsoid,
    smooth_subtraction,
    smooth_union,
    tapered_limb,
)

BOUNDS = [(-0.205, -0.045, -0.07), (0.045, 0.032, 0.11)]
#: Fingers in the order of MANO.
FINGERS = ("index", "middle", "pinky", "ring", "thumb")


def _at(along: float, across: float, up: float) -> Floats:
    """Return a place by metres towards the fingertips, towards the thumb, and up."""
    return np.array([-along, up, across])


#: First joint of each finger, degrees it points towards the thumb, lengths from joint to joint
#: and to the tip, and radii at the joints and the tip.
_LONG = {
    "index": ((0.091, 0.0270, 0.003), 7.0, (0.041, 0.025, 0.023), (10.0, 9.1, 8.2, 6.8)),
    "middle": ((0.094, 0.0050, 0.005), 0.5, (0.045, 0.029, 0.024), (10.1, 9.3, 8.4, 7.0)),
    "ring": ((0.089, -0.0155, 0.003), -6.0, (0.041, 0.027, 0.024), (9.7, 8.8, 8.0, 6.7)),
    "pinky": ((0.080, -0.0340, -0.002), -15.0, (0.033, 0.020, 0.020), (8.6, 7.6, 6.9, 5.8)),
}
_THUMB = (
    _at(0.024, 0.024, -0.010),
    _at(0.058, 0.054, -0.017),
    _at(0.082, 0.073, -0.020),
    _at(0.106, 0.085, -0.022),
)
_THUMB_RADII = (14.0, 11.0, 10.2, 7.8)


def _chain(finger: str) -> Floats:
    """Return the three joints and the tip, (4, 3)."""
    if finger == "thumb":
        return np.array(_THUMB)
    first, degrees, lengths, _ = _LONG[finger]
    angle = np.radians(degrees)
    way = _at(np.cos(angle), np.sin(angle), -0.03)
    way /= np.linalg.norm(way)
    return _at(*first) + np.concatenate([[0.0], np.cumsum(lengths)])[:, None] * way


#: Joint: parent and place, in the order of MANO.
JOINTS: dict[str, tuple[str | None, tuple[float, float, float]]] = {"wrist": (None, (0, 0, 0))}
for _finger in FINGERS:
    for _k, _place in enumerate(_chain(_finger)[:3].tolist()):
        _above = "wrist" if _k == 0 else f"{_finger}{_k}"
        JOINTS[f"{_finger}{_k + 1}"] = _above, (_place[0], _place[1], _place[2])
TIPS = {finger: _chain(finger)[3] for finger in FINGERS}
#: Where the thumb's pad looks: down, and at the fingers.
_PAD = _at(0.30, -0.62, -0.72)


def finger_axes(finger: str) -> Floats:
    """Return rows: the way a finger points, out of its pad, and the axis that bends it inwards."""
    chain = _chain(finger)
    way = chain[3] - chain[0] if finger != "thumb" else chain[3] - chain[1]
    way = way / np.linalg.norm(way)
    pad = np.array([0.0, -1.0, 0.0]) if finger != "thumb" else _PAD
    pad = pad - (pad @ way) * way
    pad /= np.linalg.norm(pad)
    return np.stack([way, pad, np.cross(way, pad)])


def _phalanges(finger: str) -> list[list[Solid]]:
    """Return the solids of a finger's three phalanges."""
    chain, (way, pad, _) = _chain(finger), finger_axes(finger)
    millimetres = _THUMB_RADII if finger == "thumb" else _LONG[finger][3]
    radii = 1e-3 * np.array(millimetres)
    phalanges = []
    for k in range(3):
        a, b = chain[k], chain[k + 1]
        if k == 2:  # a tip is a rounded end, flatter than it is wide
            b = b - radii[3] * way
        limb = [tapered_limb(a, b, radii[k] * 0.97, radii[k + 1] * 0.98)]
        if k > 0:  # knuckles are a little thicker than what is between them
            limb.append(ball(a - 0.0004 * pad, radii[k] * 1.01))
        if k == 2:
            middle = 0.45 * a + 0.55 * b + 0.0008 * pad
            span = np.linalg.norm(b - a)
            size = (0.55 * span, radii[3] * 1.04, radii[3] * 1.16)
            limb.append(ellipsoid(middle, size, finger_axes(finger)))
        elif finger != "thumb" or k == 1:  # pads of the phalanges
            middle = 0.5 * (a + b) + 0.0016 * pad
            span = np.linalg.norm(b - a)
            r = 0.5 * (radii[k] + radii[k + 1])
            limb.append(ellipsoid(middle, (0.42 * span, 0.92 * r, 0.97 * r), finger_axes(finger)))
        phalanges.append(limb)
    if finger != "thumb":  # the knuckle itself
        phalanges[0].append(ball(chain[0] + [0.0, 0.0016, 0.0], radii[0] * 1.02))
    return phalanges


def _palm() -> list[Solid]:
    """Return the wrist's solids: metacarpals, balls of thumb and little finger, a forearm."""
    found: list[Solid] = []
    for finger in _LONG:
        knuckle = _chain(finger)[0]
        from_wrist = _at(0.012, 0.32 * knuckle[2], -0.001)
        found.append(tapered_limb(from_wrist, knuckle - [0, 0.0045, 0], 0.0150, 0.0105))
    found += [
        ellipsoid(_at(0.050, 0.004, -0.004), (0.046, 0.0135, 0.034)),
        ellipsoid(_at(0.046, -0.022, -0.0095), (0.036, 0.0125, 0.0145)),  # beside the little finger
        ellipsoid(_at(0.083, -0.003, -0.0070), (0.020, 0.0105, 0.036)),  # below the fingers
        ellipsoid(_at(0.070, 0.034, -0.007), (0.020, 0.0085, 0.0095)),  # between thumb and index
    ]
    wrist = [
        ellipsoid(_at(0.004, -0.001, -0.001), (0.040, 0.0170, 0.0260)),
        ellipsoid(_at(-0.030, -0.002, 0.0), (0.060, 0.0180, 0.0245)),
        ball(_at(-0.012, -0.019, 0.009), 0.0085),  # the ulna's head
    ]
    return found + wrist


def _thumb_ball() -> list[Solid]:
    """Return the ball of the thumb, along its metacarpal."""
    a, b = _THUMB[0], _THUMB[1]
    way = (b - a) / np.linalg.norm(b - a)
    across = np.cross(way, [0.0, 1.0, 0.0])
    across /= np.linalg.norm(across)
    axes = np.stack([way, np.cross(across, way), across])
    middle = 0.55 * a + 0.45 * b + _at(0.0, -0.003, -0.003)
    return [
        tapered_limb(a, b, 0.0135, 0.0112),
        ellipsoid(middle, (0.031, 0.0150, 0.0165), axes),
    ]


def hand_parts() -> dict[str, list[Solid]]:
    """Return solids of each joint, in the order of `JOINTS`."""
    parts = {"wrist": _palm()}
    for finger in FINGERS:
        for k, limb in enumerate(_phalanges(finger)):
            parts[f"{finger}{k + 1}"] = limb
    parts["thumb1"] = _thumb_ball()
    return parts


def hand_solid() -> Solid:
    """Return the whole hand, cut off above the wrist."""
    parts = hand_parts()
    palm = smooth_union(parts["wrist"], 0.016)
    fingers = [
        smooth_union([s for k in (1, 2, 3) for s in parts[f"{finger}{k}"]], 0.0035)
        for finger in FINGERS[:4]
    ]
    thumb = smooth_union([s for k in (1, 2, 3) for s in parts[f"thumb{k}"]], 0.005)
    hand = smooth_union([palm, thumb], 0.014)
    hand = smooth_union([hand, *fingers], 0.0055)
    for finger in FINGERS:  # a groove behind each nail
        hand = smooth_subtraction(hand, _nail_groove(finger), 0.0012)
    hollow = ellipsoid(_at(0.052, 0.000, -0.0300), (0.030, 0.0135, 0.020))
    hand = smooth_subtraction(hand, hollow, 0.010)
    return smooth_subtraction(hand, lambda points: points[:, 0] - 0.034, 0.008)


def _nail_place(finger: str) -> tuple[Floats, Floats, float]:
    """Return the middle of a nail, axes of the finger, and the tip's radius."""
    chain, axes = _chain(finger), finger_axes(finger)
    radius = 1e-3 * (_THUMB_RADII if finger == "thumb" else _LONG[finger][3])[3]
    return chain[3] - 1.35 * radius * axes[0] - 0.80 * radius * axes[1], axes, radius


def _nail_groove(finger: str) -> Solid:
    middle, axes, radius = _nail_place(finger)
    behind = middle - 0.98 * radius * axes[0] - 0.40 * radius * axes[1]
    side = 0.45 * radius * axes[2]
    return tapered_limb(behind - side, behind + side, 0.12 * radius, 0.12 * radius)


# Bones


def hand_bones() -> dict[str, list[SurfaceMesh]]:
    """Return closed bones that follow each joint: 8 carpals and 5 metacarpals, 14 phalanges."""
    found: dict[str, list[SurfaceMesh]] = {name: [] for name in JOINTS}
    carpals = [
        (_at(0.006, 0.011, -0.001), 6.0),
        (_at(0.006, 0.000, -0.001), 5.5),
        (_at(0.007, -0.010, -0.001), 5.0),
        (_at(0.009, -0.015, -0.005), 3.6),
        (_at(0.019, 0.016, -0.003), 5.2),
        (_at(0.019, 0.008, 0.000), 4.6),
        (_at(0.020, -0.001, 0.000), 5.8),
        (_at(0.019, -0.011, -0.001), 5.6),
    ]
    found["wrist"] += [ellipsoid_shape(place, 3 * [1e-3 * r]) for place, r in carpals]
    for finger in FINGERS:
        chain, (way, _, _) = _chain(finger), finger_axes(finger)
        thick = 1e-3 * np.array(_THUMB_RADII if finger == "thumb" else _LONG[finger][3])
        if finger != "thumb":
            base = _at(0.027, 0.42 * chain[0][2] + 0.001, 0.001)
            end = chain[0] - 0.002 * way
            found["wrist"].append(bone_shape(base, end, 0.0048, 0.0030, 0.0052))
        for k in range(3):
            a, b = chain[k] + 0.0015 * way, chain[k + 1] - 0.0015 * way
            head, foot = 0.52 * thick[k], 0.46 * thick[k + 1]
            if finger == "thumb" and k == 0:
                head, foot = 0.0056, 0.0056
                step = (chain[1] - chain[0]) / np.linalg.norm(chain[1] - chain[0])
                a, b = chain[0] + 0.002 * step, chain[1] - 0.0015 * step
            if k == 2:
                b, foot = chain[3] - 0.72 * thick[3] * way, 0.34 * thick[3]
            found[f"{finger}{k + 1}"].append(bone_shape(a, b, head, 0.30 * thick[k + 1], foot))
    return found


# Colours


SKIN, PALM, NAIL, CREASE = (
    (0.87, 0.67, 0.55),
    (0.93, 0.71, 0.62),
    (0.96, 0.80, 0.76),
    (0.74, 0.50, 0.42),
)


def hand_colours(points: Floats) -> Floats:
    """Return colours (n, 3) of places on the hand: a paler palm, nails, creases, knuckles."""
    inside = ramp(-points[:, 1], 0.000, 0.014)[:, None]
    colours = (1 - inside) * np.array(SKIN) + inside * np.array(PALM)
    for finger in FINGERS:
        chain, axes = _chain(finger), finger_axes(finger)
        for place in chain[:3] if finger != "thumb" else chain[1:3]:
            local = (points - place) @ axes.T
            fold = np.exp(-0.5 * (local[:, 0] / 0.0016) ** 2) * (np.abs(local[:, 2]) < 0.013)
            fold *= (np.abs(local[:, 1]) < 0.014) * (0.35 if finger != "thumb" else 0.25)
            colours += fold[:, None] * (np.array(CREASE) - colours)
        red = 0.5 * bell(points, chain[3], (0.010,) * 3)[:, None]
        colours += red * (np.array((0.93, 0.60, 0.53)) - colours)
        middle, _, radius = _nail_place(finger)
        local = (points - middle) @ axes.T / radius
        nail = ((local[:, 0] / 1.02) ** 4 + (local[:, 2] / 0.80) ** 4 < 1) & (local[:, 1] < 0.35)
        colours[nail & (np.abs(local[:, 1]) < 1.2)] = NAIL
    return colours
