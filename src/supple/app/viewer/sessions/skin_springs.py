"""Hands that hold the skin: springs from a patch of it to where a pointer is."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints, Singles
from supple.engines.pose_space.model.model import PoseSpaceModel

__all__ = ["Hands", "Patch", "Pull", "grab", "patch_around"]


#: Radius of what a hand takes hold of, and how far it may pull, as parts of the body's size.
GRIP, REACH = 0.04, 0.3
#: Vertices of the patch; more only cost time.
MOST = 24
#: Stiffness of a hand, in times that of the flesh it holds: it wins, but does not tear.
STRENGTH = 3.0
#: The hand's force is that of the skin a step ago, so that a stiffer one would feed a swing: the
#: most of k dt² / m, where m is what it holds.
STEADY = 0.8


class Patch(NamedTuple):
    """A round piece of skin."""

    vertex: int
    """Of the skin: the nearest to where it was taken."""
    vertices: Ints
    """(k,) all of it."""
    shares: Floats
    """(k,) how much of a force each takes; they add up to 1."""
    radius: float
    """In m."""


def patch_around(skin: Singles, where: Floats, size: float) -> Patch:
    """The piece of skin (n̄, 3) nearest to a point, of a body of this size."""
    away = np.linalg.norm(skin - where, axis=1)
    radius = GRIP * size
    nearest = int(np.argmin(away))
    around = np.linalg.norm(skin - skin[nearest], axis=1)
    close = np.argsort(around, kind="stable")[:MOST]
    shares = np.clip(1 - (around[close] / radius) ** 2, 0, None) ** 2
    held = shares > 0  # at least the nearest is
    shares = np.asarray(shares[held] / shares[held].sum(), np.float64)
    return Patch(nearest, close[held].astype(np.int64), shares, radius)


@dataclass(eq=False)
class Pull:
    """One hand.

    Attributes
    ----------
    vertex
        Of the skin: the nearest to where it was taken.
    vertices, shares
        (k,) what is held, and how much of the force each takes.
    stiffness
        In N/m.
    target
        (3,) where the hand is, in the world.
    longest
        Metres that it reaches.
    """

    vertex: int
    vertices: Ints
    shares: Floats
    stiffness: float
    target: Floats
    longest: float

    def forces(self, skin: Singles) -> dict[int, Floats]:
        """In N, at each vertex that is held, for the skin as it is now."""
        way = self.target - self.shares @ skin[self.vertices]
        length = float(np.linalg.norm(way))
        if length > self.longest:
            way *= self.longest / length
        force = self.stiffness * way
        return dict(zip(self.vertices.tolist(), self.shares[:, None] * force, strict=True))

    def held(self, skin: Singles) -> Floats:
        """(3,) the middle of what is held."""
        return np.asarray(self.shares @ skin[self.vertices])


def grab(model: PoseSpaceModel, skin: Singles, point: ArrayLike, dt: float) -> Pull:
    """Take hold of the skin near a point.

    Parameters
    ----------
    model
        Whose skin it is.
    skin
        (n̄, 3) where it is.
    point
        (3,) in the world.
    dt
        Seconds of a step.
    """
    where = np.asarray(point, np.float64)
    nearest, vertices, shares, radius = patch_around(skin, where, model.surface.size)
    # A round patch pressed on flesh gives way by F / (2 E a), but for Poisson's ratio.
    stiffness = STRENGTH * 2 * float(np.median(model.young)) * radius
    mass = float(np.median(model.density)) * 2 / 3 * np.pi * radius**3
    return Pull(
        nearest,
        vertices,
        shares,
        min(stiffness, STEADY * mass / dt**2),
        where,
        REACH * model.surface.size,
    )


class Hands(dict[Hashable, Pull]):
    """Who holds what."""

    def forces(self, skin: Singles) -> dict[int, Floats]:
        """In N, of all hands together, for the skin as it is now."""
        total: dict[int, Floats] = {}
        for pull in self.values():
            for vertex, force in pull.forces(skin).items():
                total[vertex] = total[vertex] + force if vertex in total else force
        return total
