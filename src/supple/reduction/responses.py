"""How flesh gives way when the body is accelerated, which few modes alone do not sum up to."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from supple.reduction.compliance import Compliance

__all__ = ["inertial_responses", "largest_displacements"]

Floats = NDArray[np.float64]


def inertial_responses(
    held: Compliance, places: Floats, mass: Floats, weights: Floats | None = None
) -> Floats:
    """Static displacements under accelerations of the whole region, (3k, 6).

    Inertial forces −Ma are what drives soft tissue (xu2016 §4.2), and those of a body that is
    carried along are nearly those of a rigid motion: three accelerations along the axes and
    three about them. W Z (ZᵀKZ)⁻¹ Zᵀ W M a holds what all modes together answer to such a force
    at low frequency; few of the lowest modes hold little of it.

    Parameters
    ----------
    held
        The region, and what holds it.
    places
        (k, 3) its vertices at rest.
    mass
        (k,) of the vertices.
    weights
        (k,) W′ of the region; 1 without.

    Returns
    -------
    (3k, 6) array
        For 1 m/s², at the farthest vertex where it turns. Zero for a body that nothing holds and
        that is moved along: it follows.
    """
    arms = places - np.average(places, axis=0, weights=mass)
    fields = np.zeros((len(places), 3, 6))
    fields[:, range(3), range(3)] = 1.0
    farthest = float(np.linalg.norm(arms, axis=1).max())
    for axis in range(3):
        fields[:, :, 3 + axis] = np.cross(np.eye(3)[axis], arms) / (farthest or 1.0)
    local = np.ones(len(places)) if weights is None else weights
    forces = (mass * local)[:, None, None] * fields
    return np.repeat(local, 3)[:, None] * held(forces.reshape(-1, 6))


def largest_displacements(vectors: Floats) -> Floats:
    """How far the vertex that moves farthest moves in each of the shapes (3k, c), (c,)."""
    return np.linalg.norm(vectors.reshape(-1, 3, vectors.shape[1]), axis=1).max(axis=0)
