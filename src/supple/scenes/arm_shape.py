"""The arm's body: solids for the shoulder girdle, the upper arm and the forearm with its hand.

A left arm held out along +x, palm and biceps up, the body facing +z; the shoulder joint is the
origin.
"""

from __future__ import annotations

import numpy as np

from supple.scenes.modelling import Solid, ball, box, ellipsoid, smooth_union, tapered_limb

__all__ = ["BOUNDS", "ELBOW", "HAND", "PARTS", "arm_parts", "arm_solid"]

BOUNDS = [(-0.32, -0.34, -0.22), (0.84, 0.26, 0.22)]
PARTS = ("girdle", "upper arm", "forearm")
ELBOW, WRIST, HAND = (0.29, 0.0, 0.0), (0.545, 0.0, 0.0), (0.62, 0.0, 0.0)


def arm_solid() -> Solid:
    """The whole arm, with the part of the body it hangs on."""
    parts = arm_parts()
    hand = smooth_union(_hand(), 0.011)
    flesh = [smooth_union(parts[name], 0.030) for name in PARTS]
    return smooth_union([*flesh, hand], 0.022)


def arm_parts() -> dict[str, list[Solid]]:
    """Solids of each part, in the order of `PARTS`; the hand grows onto the forearm."""
    return {"girdle": _girdle(), "upper arm": _upper_arm(), "forearm": _forearm()}


def _girdle() -> list[Solid]:
    return [
        ellipsoid((-0.115, -0.090, -0.005), (0.085, 0.120, 0.090)),  # ribs
        ellipsoid((-0.075, -0.055, 0.058), (0.115, 0.070, 0.046), _rolled(24)),  # breast muscle
        ellipsoid((-0.085, -0.075, -0.060), (0.085, 0.095, 0.042), _rolled(-25)),  # shoulder blade
        tapered_limb((-0.150, 0.060, -0.012), (-0.03, 0.040, -0.005), 0.062, 0.056),  # trapezius
        ellipsoid((-0.160, 0.0, 0.0), (0.050, 0.110, 0.080)),
    ]


def _upper_arm() -> list[Solid]:
    return [
        ellipsoid((0.022, 0.010, 0.002), (0.090, 0.078, 0.082), _rolled(-10)),  # deltoid
        tapered_limb((0.0, 0.0, 0.0), ELBOW, 0.054, 0.040),
        ellipsoid((0.165, 0.036, 0.004), (0.092, 0.044, 0.046)),  # biceps
        ellipsoid((0.140, -0.030, -0.020), (0.108, 0.040, 0.040)),  # triceps, two heads
        ellipsoid((0.155, -0.030, 0.022), (0.095, 0.038, 0.038)),
    ]


def _forearm() -> list[Solid]:
    return [
        tapered_limb(ELBOW, (0.54, 0.001, 0.013), 0.038, 0.024),  # ulna
        tapered_limb((0.30, 0.004, -0.008), (0.54, 0.001, -0.013), 0.036, 0.024),  # radius
        ellipsoid((0.368, 0.014, -0.032), (0.088, 0.038, 0.036)),  # brachioradialis
        ellipsoid((0.380, 0.006, 0.030), (0.092, 0.040, 0.035)),  # flexors
        ellipsoid((0.380, -0.020, 0.0), (0.085, 0.033, 0.042)),  # extensors
        ball((0.284, -0.034, 0.004), 0.018),  # the point of the elbow
        *_hand(),
    ]


def _hand() -> list[Solid]:
    solids: list[Solid] = [
        tapered_limb((0.52, 0.0, 0.010), (0.575, 0.0, 0.014), 0.025, 0.021),
        tapered_limb((0.52, 0.0, -0.010), (0.575, 0.0, -0.014), 0.025, 0.021),
        box((0.606, 0.001, 0.001), (0.053, 0.019, 0.050), 0.017),  # the palm
        ellipsoid((0.584, 0.012, -0.030), (0.038, 0.021, 0.021)),  # ball of the thumb
        ellipsoid((0.590, 0.012, 0.032), (0.038, 0.016, 0.017)),
    ]
    lengths = (0.050, 0.057, 0.053, 0.042)
    for finger, length in enumerate(lengths):  # from the forefinger to the little one
        z = -0.040 + 0.0265 * finger
        solids += _finger(np.array([0.650, 0.0, z]), length, -9 + 6.0 * finger, 0.0125)
    solids += [
        tapered_limb((0.577, 0.008, -0.034), (0.618, 0.014, -0.076), 0.018, 0.0145),
        tapered_limb((0.618, 0.014, -0.076), (0.656, 0.026, -0.092), 0.0145, 0.0120),
    ]
    return solids


def _finger(root: np.ndarray, length: float, spread: float, radius: float) -> list[Solid]:
    """Three bones, each curled a little more towards the palm."""
    solids: list[Solid] = []
    start = root
    for bone, (part, curl) in enumerate(((1.0, 8.0), (0.62, 28.0), (0.5, 46.0))):
        turn, lift = np.radians([spread, curl])
        along = np.array([np.cos(lift) * np.cos(turn), np.sin(lift), np.cos(lift) * np.sin(turn)])
        end = start + part * length * along
        solids.append(
            tapered_limb(start, end, radius - 0.0006 * bone, radius - 0.0006 * (bone + 1))
        )
        start = end
    return solids


def _rolled(degrees: float) -> np.ndarray:
    """Axes turned about z: positive lifts the +x end."""
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    return np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]])
