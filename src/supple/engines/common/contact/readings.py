"""Readings of contacts: points, forces and pressures, and sums by collider."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

from supple.arrays import Floats, Ints


class Contacts(NamedTuple):
    """Contacts of the skin in a step."""

    points: Ints
    """(c,) nearest vertices of the skin."""
    places: Floats
    """(c, 3) positions in the world, in m."""
    forces: Floats
    """(c, 3) forces on the body, in N."""
    pressures: Floats
    """(c,) pressures on the skin, in Pa."""
    colliders: Ints
    """(c,) indices of the colliders: obstacles, then objects, then bones."""

    @property
    def things(self) -> Ints:
        """Old name of `colliders`."""
        warnings.warn("things is deprecated; use colliders", DeprecationWarning, stacklevel=2)
        return self.colliders


def no_contacts() -> Contacts:
    """Return a record without contacts."""
    none, vectors = np.zeros(0, np.int64), np.zeros((0, 3))
    return Contacts(none, vectors, vectors.copy(), np.zeros(0), none.copy())


def summed_pressure(contacts: Contacts, vertices: int) -> Floats:
    """Return the pressure on each of a number of skin vertices, (n̄,) in Pa."""
    pressure = np.zeros(vertices)
    np.add.at(pressure, contacts.points, contacts.pressures)
    return pressure
