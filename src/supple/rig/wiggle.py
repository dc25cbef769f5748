"""Default motion of characters without motions: shaken, tilted, then at rest."""

from __future__ import annotations

import numpy as np

from supple.arrays import Floats
from supple.maths.rotations import exponential, to_matrix
from supple.rig.character import Character
from supple.rig.motion.motion import Motion

#: Name of the motion.
WIGGLE = "wiggle"
SECONDS, RATE = 3.0, 30
#: Amplitude of the shaking, relative to the size, and its frequency in Hz.
SHAKEN, SHAKES = 0.05, 2.5
#: Amplitude of the tilting in radians, and its frequency in Hz.
TILTED, TILTS = 0.2, 1.5


def wiggle(character: Character) -> Motion:
    """Return a root motion about the middle: sideways shake, tilt, then rest for half a second."""
    surface = character.surface
    times = np.arange(round(SECONDS * RATE) + 1) / RATE
    shaken = SHAKEN * surface.size * _pulse(times, 0.0, 1.4) * np.sin(2 * np.pi * SHAKES * times)
    tilted = TILTED * _pulse(times, 1.2, 2.5) * np.sin(2 * np.pi * TILTS * (times - 1.2))
    roots = np.tile(np.eye(4), (len(times), 1, 1))
    roots[:, :3, :3] = to_matrix(exponential(tilted[:, None] * [0.0, 0.0, 1.0]))
    middle = 0.5 * (surface.vertices.min(axis=0) + surface.vertices.max(axis=0))
    roots[:, :3, 3] = middle - roots[:, :3, :3] @ middle
    roots[:, 0, 3] += shaken
    poses = np.tile(np.asarray(character.rig.rest_pose, np.float64), (len(times), 1))
    return Motion(times, poses, roots, WIGGLE)


def _pulse(times: Floats, start: float, stop: float) -> Floats:
    """Return a pulse up to 1 and back to 0, without a kink in its velocity."""
    return np.sin(np.pi * np.clip((times - start) / (stop - start), 0, 1)) ** 2
