"""Root of a character: the rigid transform from its rig's frame to the world."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats
from supple.checks import checked_array, numbers
from supple.errors import SuppleError
from supple.maths.rotations import from_matrix, to_matrix
from supple.rig.motion.motion import RIGID
from supple.rig.protocol import LARGEST_VALUE

GravityMode = Literal["relative", "absolute", "none"]

GRAVITY_MODES = ("relative", "absolute", "none")


def checked_root(root: ArrayLike | None) -> Floats:
    """Return a copy of a root transform (4, 4), rigid to rounding; the identity for None.
    A rotation in float32 precision is made exact, as `supple.rig.Motion` does.

    >>> checked_root(None)[3]
    array([0., 0., 0., 1.])
    """
    if root is None:
        return np.eye(4)
    shape = numbers("root", root).shape
    if shape != (4, 4):
        raise SuppleError(f"root of shape {shape}; give a rigid transform of shape (4, 4)")
    checked = checked_array("root", root, (4, 4)).copy()
    far = float(np.abs(checked[:3, 3]).max())
    if far > LARGEST_VALUE:
        raise SuppleError(f"root: {far:.3g} m from the origin; use at most {LARGEST_VALUE:.0e}")
    rotation = checked[:3, :3]
    # Huge entries, which no rotation has, would overflow in the products below.
    error = np.inf
    if np.abs(checked[:, :3]).max() < 2:
        error = np.abs(rotation @ rotation.T - np.eye(3)).max()
        error = max(error, np.abs(checked[3] - [0, 0, 0, 1]).max())
    if not error <= RIGID or np.linalg.det(rotation) < 0:
        raise SuppleError("root is not a rigid transform; put scale in the pose")
    if error > 1e-12:
        checked[:3, :3] = to_matrix(from_matrix(rotation))
        checked[3] = [0, 0, 0, 1]
    return checked


def to_world(root: Floats, points: Floats) -> Floats:
    """Return positions R x + t in the world, (n, 3), of points (n, 3) in the root's frame."""
    return points @ root[:3, :3].T + root[:3, 3]


def checked_gravity_mode(mode: str) -> str:
    """Return the mode if it is one of `GRAVITY_MODES`; raise an error otherwise."""
    if mode not in GRAVITY_MODES:
        raise SuppleError(f"no gravity mode {mode!r}; there are {', '.join(GRAVITY_MODES)}")
    return mode


def acting_gravity(mode: str, gravity: Floats, root: Floats) -> Floats:
    """Return the acceleration (3,), in the world, with which gravity acts on the displacement.

    A sculpted shape already sags, so that ``"relative"`` gravity is only the change by the root's
    rotation, g − R g. ``"absolute"`` is g, ``"none"`` is zero.
    """
    if mode == "relative":
        return gravity - root[:3, :3] @ gravity
    return gravity.copy() if mode == "absolute" else np.zeros(3)
