"""Accelerations to train inertial cubature with: of the rig, and of the body as a whole."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from supple.errors import SuppleError
from supple.rig.protocol import Rig

__all__ = ["perturbation_sizes", "pose_accelerations", "root_accelerations"]

Floats = NDArray[np.float64]

#: Largest change of a rotation and, for a human of this height, of a translation (xu2016 §5.4).
ANGLE = np.deg2rad(1.0)
SHIFT = 1e-3
HUMAN = 1.7
# Step of a pure number by which it is seen how far it moves the body.
_PROBE = 1e-3


def perturbation_sizes(rig: Rig, pose: Floats) -> Floats:
    """(s,) largest change of each parameter.

    1° for rotations, 1 mm for translations of a human-sized character, scaled with the body;
    pure numbers change as much as moves some vertex that far.
    """
    start = rig(pose)
    shift = SHIFT * float(np.linalg.norm(np.ptp(start, axis=0))) / HUMAN
    sizes = np.empty(len(rig.parameters))
    for k, parameter in enumerate(rig.parameters):
        if parameter.unit == "rad":
            sizes[k] = ANGLE
        elif parameter.unit == "m":
            sizes[k] = shift
        else:
            moved = pose.copy()
            moved[k] += _PROBE
            away = float(np.linalg.norm(rig(moved) - start, axis=1).max())
            sizes[k] = min(1.0, shift * _PROBE / away) if away > 0 else 0.0
    return sizes


def pose_accelerations(
    rig: Rig, pose: Floats, count: int, random: np.random.Generator
) -> tuple[Floats, Floats]:
    """Second and first differences (n, 3, count) of count + 2 random poses in a row (eq. 24).

    A frame lasts a unit of time: what follows is normalised sample by sample.
    """
    sizes = perturbation_sizes(rig, pose)
    changes = random.uniform(-1.0, 1.0, (count + 2, len(sizes))) * sizes
    frames = np.stack([rig(pose + change) for change in changes], axis=2)
    if not np.isfinite(frames).all():
        raise SuppleError("the rig is not finite near a pose; check its parameters")
    accelerations = frames[:, :, 2:] - 2 * frames[:, :, 1:-1] + frames[:, :, :-2]
    return accelerations, (frames[:, :, 2:] - frames[:, :, :-2]) / 2


def root_accelerations(rest: Floats, velocities: Floats, random: np.random.Generator) -> Floats:
    """Accelerations (n, 3, t) in the frame of a root that moves: b + α×x + ω×(ω×x) + 2ω×v.

    One for each of the rig's velocities (n, 3, t). Uniform, angular and centrifugal parts are
    alike in size on average; Coriolis' is an eighth of them, as v of a whole body is small.
    """
    middle = (rest.min(axis=0) + rest.max(axis=0)) / 2
    arm = (rest - middle) / max(float(np.linalg.norm(np.ptp(rest, axis=0))) / 2, 1e-300)
    speed = np.linalg.norm(velocities, axis=1).max(axis=0)
    out = np.empty_like(velocities)
    for t in range(velocities.shape[2]):
        linear, angular, spin = random.standard_normal((3, 3))
        v = velocities[:, :, t] / (16 * speed[t]) if speed[t] > 0 else velocities[:, :, t]
        out[:, :, t] = linear + np.cross(angular, arm)
        out[:, :, t] += np.cross(spin, np.cross(spin, arm)) + 2 * np.cross(spin, v)
    return out
