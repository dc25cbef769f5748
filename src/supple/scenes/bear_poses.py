"""The bear's six wires, their 48 control points, and how it is posed: like a puppet.

The wires have no joints. To write poses as turns of shoulders and knees, the control points are
moved as if there were some; what a pose consists of is the control points' offsets.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.transform import Rotation

from supple.scenes.bear_shape import PARTS

__all__ = ["ORDER", "POSES", "TURNS", "WIRES", "WireShape", "offsets", "turn_vector"]

Floats = NDArray[np.float64]
Turns = dict[str, tuple[float, float, float]]

POINTS = 8


@dataclass(frozen=True)
class WireShape:
    """A wire along a chain of places, about which its control points are turned."""

    joints: Floats
    softness: float = 0.35

    @property
    def control_points(self) -> Floats:
        """Eight points spread evenly over the chain."""
        lengths = np.linalg.norm(np.diff(self.joints, axis=0), axis=1)
        marks = np.concatenate([[0.0], np.cumsum(lengths)])
        wanted = np.linspace(0, marks[-1], POINTS)
        return np.stack([np.interp(wanted, marks, axis) for axis in self.joints.T], axis=1)

    def turned(self, turns: ArrayLike) -> Floats:
        """Control points after the turns (j, 3), rotation vectors, about all places but the last.

        A turn takes hold over a part of the way around its place, the softness, so that the
        wire bends and does not break.
        """
        points = self.control_points
        lengths = np.linalg.norm(np.diff(self.joints, axis=0), axis=1)
        marks = np.concatenate([[0.0], np.cumsum(lengths)])
        along = np.linspace(0, marks[-1], POINTS)
        # From the tip to the root, so that outer turns are carried along by inner ones.
        for place in range(len(self.joints) - 2, -1, -1):
            width = self.softness * lengths[place] if place else 1e-9
            part = np.clip((along - marks[place]) / width + (0.5 if place else 0), 0, 1)
            vectors = part[:, None] * np.asarray(turns, float)[place]
            centre = self.joints[place]
            points = centre + Rotation.from_rotvec(vectors).apply(points - centre)
        return points


def _limb(places: list[tuple[float, float, float]], side: float) -> WireShape:
    return WireShape(np.array(places) * [side, 1, 1])


_ARM = [(0.13, 0.74, 0.0), (0.36, 0.62, 0.02), (0.62, 0.47, 0.06)]
_LEG = [(0.13, 0.40, 0.0), (0.165, 0.20, 0.005), (0.18, 0.03, 0.06)]

WIRES: dict[str, WireShape] = {
    "body": WireShape(np.array([(0, 0.24, 0.0), (0, 0.50, 0.0), (0, 0.84, 0.0)]), 1.1),
    "head": WireShape(np.array([(0, 0.84, 0.0), (0, 1.0, 0.02), (0, 1.17, 0.0)])),
    "arm.L": _limb(_ARM, 1),
    "arm.R": _limb(_ARM, -1),
    "leg.L": _limb(_LEG, 1),
    "leg.R": _limb(_LEG, -1),
}
#: First every limb's wire, about the resting body; then the body's, which carries all.
ORDER = (*(part for part in PARTS if part != "body"), "body")

#: A pose as turns: two for each wire, then the body's stretch.
TURNS = (*(f"{part} {place}" for part in PARTS for place in ("root", "middle")), "stretch")

#: Degrees about x, y and z; "arm" and "leg" stand for both sides; "stretch" is in centimetres.
POSES: dict[str, Turns] = {
    "at ease": {},
    "hug": {
        "arm.L root": (-15, -36, 0),
        "arm.L middle": (-7, -86, 3),
        "arm.R root": (-7, 47, 10),
        "arm.R middle": (6, 65, -3),
        "head root": (12, 0, 0),
    },
    "hurray": {
        "arm root": (0, 0, 72),
        "arm middle": (0, 0, 18),
        "head root": (-14, 0, 0),
        "body middle": (-8, 0, 0),
        "stretch": (0, 5, 0),
    },
    "wave": {
        "arm.L root": (0, 0, 66),
        "arm.L middle": (0, 0, 42),
        "arm.R root": (0, 0, 16),
        "head root": (0, 0, -10),
        "body middle": (0, 0, -10),
    },
    "sit": {
        "leg root": (-84, 8, 4),
        "leg middle": (-4, 0, 0),
        "arm root": (-18, -25, -8),
        "body middle": (6, 0, 0),
    },
    "bow": {
        "body middle": (26, 0, 0),
        "head root": (14, 0, 0),
        "arm root": (28, 12, 10),
    },
    "kick": {
        "leg.L root": (-62, 0, 6),
        "leg.L middle": (-12, 0, 0),
        "body middle": (-10, 0, 6),
        "arm.L root": (20, 20, 20),
        "arm.R root": (-20, 25, -20),
        "head root": (8, 0, 0),
    },
    "squat": {
        "body middle": (12, 0, 0),
        "leg root": (-46, 12, 8),
        "leg middle": (58, 0, 0),
        "arm root": (0, 22, 18),
        "arm middle": (0, -20, 0),
        "stretch": (0, -7, 0),
    },
}


def turn_vector(turns: Turns) -> Floats:
    """The turns as a flat vector, radians and metres, in the order of `TURNS`."""
    vector = np.zeros((len(TURNS), 3))
    for name, values in turns.items():
        for full in TURNS:
            limb, _, place = full.partition(" ")
            if full == name or f"{limb.split('.')[0]} {place}" == name:
                flip = np.array([1, -1, -1]) if limb.endswith(".R") and full != name else 1
                unit = 0.01 if name == "stretch" else np.pi / 180
                vector[TURNS.index(full)] = unit * flip * np.array(values)
    return vector.ravel()


def offsets(vector: ArrayLike) -> Floats:
    """A pose of the wires, (144,): the control points' offsets for a vector of turns."""
    turns = np.asarray(vector, float).reshape(-1, 3)
    pose = []
    for name in ORDER:
        wire, index = WIRES[name], 2 * PARTS.index(name)
        own = turns[index : index + 2]
        moved = wire.turned(own) if own.any() else wire.control_points  # zero is exactly zero
        if name == "body":  # it stretches from the seat up
            moved = moved + np.linspace(0, 1, POINTS)[:, None] * turns[-1]
        pose.append(moved - wire.control_points)
    return np.concatenate(pose).ravel()
