"""Obstacles: a half space, a sphere, a capsule."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats
from supple.checks import checked_number, owned_array, without_overflow
from supple.errors import SuppleError

#: Kinds of obstacles, as in `plain_numbers`.
OTHER, PLANE, SPHERE, CAPSULE = range(4)
#: Largest number of obstacles, as each is tested against every vertex of a skin.
MOST_OBSTACLES = 64
#: Largest distance and size, in m, for accurate squares.
FARTHEST = 1e9


@runtime_checkable
class Obstacle(Protocol):
    """Shape with signed distances of points."""

    def distances(self, points: Floats) -> tuple[Floats, Floats]:
        """Return signed distances (k,) of points, negative inside, and unit normals (k, 3)."""


@dataclass(frozen=True, eq=False)
class Plane:
    """Half space behind a plane.

    Parameters
    ----------
    point
        (3,) anywhere on the plane.
    normal
        (3,) out of the solid; normalised.

    Examples
    --------
    >>> ground = Plane((0, 0, 0), (0, 1, 0))
    >>> ground.distances(np.array([[5.0, -0.25, 3.0]]))[0]
    array([-0.25])
    """

    point: ArrayLike
    normal: ArrayLike

    def __post_init__(self) -> None:
        object.__setattr__(self, "point", _place("point of the plane", self.point))
        normal = without_overflow(owned_array("normal of the plane", self.normal, (3,)))
        length = float(np.linalg.norm(normal))
        if length == 0.0:
            raise SuppleError("the normal of a plane is zero; give the direction out of the solid")
        object.__setattr__(self, "normal", _frozen(normal / length))

    def distances(self, points: Floats) -> tuple[Floats, Floats]:
        """Return signed distances (k,) of points, negative inside, and unit normals (k, 3)."""
        normal = np.asarray(self.normal)
        return (points - np.asarray(self.point)) @ normal, np.tile(normal, (len(points), 1))


@dataclass(frozen=True, eq=False)
class Sphere:
    """Solid ball.

    Parameters
    ----------
    centre
        (3,)
    radius
        In metres, positive.
    """

    centre: ArrayLike
    radius: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "centre", _place("centre of the sphere", self.centre))
        object.__setattr__(self, "radius", _radius("sphere", self.radius))

    def distances(self, points: Floats) -> tuple[Floats, Floats]:
        """Return signed distances (k,) of points, negative inside, and unit normals (k, 3)."""
        return _around(points - np.asarray(self.centre), self.radius)


@dataclass(frozen=True, eq=False)
class Capsule:
    """Solid cylinder with round ends.

    Parameters
    ----------
    start, end
        (3,) centres of the round ends; they may coincide.
    radius
        In metres, positive.
    """

    start: ArrayLike
    end: ArrayLike
    radius: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", _place("start of the capsule", self.start))
        object.__setattr__(self, "end", _place("end of the capsule", self.end))
        object.__setattr__(self, "radius", _radius("capsule", self.radius))

    def distances(self, points: Floats) -> tuple[Floats, Floats]:
        """Return signed distances (k,) of points, negative inside, and unit normals (k, 3)."""
        start = np.asarray(self.start)
        axis, away = np.asarray(self.end) - start, points - start
        squared = float(axis @ axis)
        along = np.clip(away @ axis / squared, 0.0, 1.0) if squared > 0 else np.zeros(len(points))
        return _around(away - along[:, None] * axis, self.radius)


def check_obstacle(number: int, obstacle: object) -> None:
    """Raise an error unless `obstacle`, with index `number`, has distances."""
    if not isinstance(obstacle, Obstacle) or isinstance(obstacle, type):
        raise SuppleError(
            f"obstacle {number} is a {type(obstacle).__name__}, which has no distances; "
            "give a Plane, a Sphere, a Capsule, a Box, a Convex or a Solid"
        )


def checked_obstacles(obstacles: Iterable[Obstacle]) -> tuple[Obstacle, ...]:
    """Return obstacles as a tuple; refuse objects without `distances`, and too many of them."""
    if isinstance(obstacles, Obstacle) or not isinstance(obstacles, Iterable):
        raise SuppleError("obstacles must be a list, even if there is only one")
    listed = tuple(islice(obstacles, MOST_OBSTACLES + 1))
    if len(listed) > MOST_OBSTACLES:
        raise SuppleError(
            f"there are more than {MOST_OBSTACLES} obstacles; give those that are near"
        )
    for number, each in enumerate(listed):
        check_obstacle(number, each)
    return listed


def plain_numbers(obstacles: Iterable[Obstacle]) -> Floats:
    """Return obstacles as numbers (o, 8), for compiled loops: kind, a point, then a plane's normal
    or a capsule's other end, and a radius. ``OTHER`` is any other obstacle, also of a derived
    class.
    """
    rows = []
    for each in obstacles:
        if type(each) is Plane:
            rows.append([PLANE, *np.asarray(each.point), *np.asarray(each.normal), 0.0])
        elif type(each) is Sphere:
            rows.append([SPHERE, *np.asarray(each.centre), 0.0, 0.0, 0.0, each.radius])
        elif type(each) is Capsule:
            rows.append([CAPSULE, *np.asarray(each.start), *np.asarray(each.end), each.radius])
        else:
            rows.append([OTHER, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    return np.array(rows, np.float64).reshape(-1, 8)


def _around(away: Floats, radius: float) -> tuple[Floats, Floats]:
    """Return distances and normals for vectors `away` from the centre to each point."""
    length = np.linalg.norm(away, axis=1)
    middle = length == 0.0  # any normal
    normals = np.divide(away, length[:, None], where=~middle[:, None], out=np.zeros_like(away))
    normals[middle] = [0.0, 1.0, 0.0]
    return length - radius, normals


def _frozen(array: Floats) -> Floats:
    array.setflags(write=False)
    return array


def _place(what: str, value: ArrayLike) -> Floats:
    place = owned_array(what, value, (3,))
    if np.abs(place).max() > FARTHEST:
        raise SuppleError(f"the {what} is farther away than {FARTHEST:.0e} m")
    return _frozen(place)


def _radius(what: str, value: float) -> float:
    radius = checked_number(f"radius of the {what}", value)
    if radius <= 0.0:
        raise SuppleError(f"the radius of a {what} is {radius:g}; it must be positive")
    if radius > FARTHEST:
        raise SuppleError(f"a {what} is larger than {FARTHEST:.0e} m")
    return radius
