"""What of a motion is deformation: frames moved rigidly back onto the rest shape."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

__all__ = ["rigid_motions", "without_rigid_motion"]

Floats = NDArray[np.float64]


def without_rigid_motion(rest: Floats, displacements: Floats, masses: Floats) -> Floats:
    """Displacements (t, n, 3) of frames after each is turned and moved onto the rest shape.

    What is left has neither momentum nor, about the mass centre of the rest shape, angular
    momentum: it is orthogonal in the metric of mass to all infinitesimal rigid motions.
    """
    share = masses / masses.sum()
    arms = rest - share @ rest
    shapes = np.empty_like(displacements)
    for shape, moved in zip(shapes, displacements, strict=True):
        placed = rest + moved
        placed = placed - share @ placed
        shape[:] = placed @ _turn(arms, placed, share) - arms
    rigid = rigid_motions(rest, masses)
    heavy = np.repeat(masses, 3)
    flat = shapes.reshape(len(shapes), -1)
    flat -= ((flat * heavy) @ rigid) @ rigid.T
    return shapes


def rigid_motions(rest: Floats, masses: Floats) -> Floats:
    """(3n, 6) infinitesimal rigid motions, orthonormal in the metric of mass."""
    arms = rest - masses @ rest / masses.sum()
    fields = np.zeros((len(rest), 3, 6))
    fields[:, range(3), range(3)] = 1.0
    for axis in range(3):
        fields[:, :, 3 + axis] = np.cross(np.eye(3)[axis], arms)
    root = np.repeat(np.sqrt(masses), 3)[:, None]
    weighed = scipy.linalg.qr(root * fields.reshape(-1, 6), mode="economic")[0]
    unit: Floats = np.divide(weighed, root, out=np.zeros_like(weighed), where=root > 0)
    return unit


def _turn(arms: Floats, placed: Floats, share: Floats) -> Floats:
    """R that turns `placed` rows onto `arms` best, placed @ R ≈ arms (Kabsch)."""
    u, _, vt = np.linalg.svd(placed.T @ (share[:, None] * arms))
    keep = np.diag([1.0, 1.0, np.sign(np.linalg.det(u @ vt))])
    turn: Floats = u @ keep @ vt
    return turn
