"""Rigid objects with a mass, a place and a velocity."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.transform import Rotation

from supple.arrays import Floats
from supple.checks import checked_number, owned_array
from supple.dynamics.root_frame import checked_root
from supple.errors import SuppleError
from supple.mesh.distance_field import Solid
from supple.mesh.obstacles import Box, Capsule, Convex, Obstacle, Plane, Sphere
from supple.mesh.surface import SurfaceMesh

#: Largest number of contact samples on a surface.
MOST_SAMPLES = 200
#: Samples per edge of a box, less one.
EDGE_PARTS = 4
#: Largest number of balls that approximate a capsule.
MOST_BALLS = 33


class MassProperties(NamedTuple):
    """Volume in m³, centroid (3,) and second moments (3, 3) about it, at density 1."""

    volume: float
    centre: Floats
    moments: Floats

    @property
    def inertia(self) -> Floats:
        """Inertia tensor (3, 3) ∫ |x|² 1 − x xᵀ about the centroid, at density 1."""
        return np.trace(self.moments) * np.eye(3) - self.moments


class RigidObject:
    """A rigid body that forces move, or a kinematic one that the caller moves.

    It is an obstacle as well, at its current place. Engines without rigid objects collide with it,
    and their friction takes its velocity into account.

    Parameters
    ----------
    shape
        A `Sphere`, `Capsule`, `Box`, `Convex` or `Solid` in local axes.
    mass
        In kg; by default volume times density.
    density
        In kg/m³; unused if a mass is given.
    place
        (4, 4) rigid, from local axes to the world.
    velocity, spin
        Velocity (3,) of the centre of mass in m/s, and angular velocity (3,) in rad/s, in the
        world.
    kinematic
        Whether forces do not move it; `moved_to` moves it. `moved` is the old name.
    name
        Name in the readings of a step.
    path
        Place (4, 4) at a time of the clip in s: a `Player`, and so `supple.bake` and the viewer,
        moves the object along it. It is then kinematic.

    Attributes
    ----------
    mass
        In kg.
    offset
        (3,) centre of mass in local axes.
    inertia
        (3, 3) about the centre of mass in local axes, kg m².
    samples, sample_radii
        (s, 3) points in local axes about the centre of mass, and (s,) radii of balls around them,
        which approximate the surface in contact. A sphere is one point with its radius.

    Examples
    --------
    >>> ball = RigidObject(Sphere((0, 0, 0), 0.05), mass=0.2)
    >>> ball
    RigidObject(Sphere, 0.2 kg)
    >>> round(float(ball.inertia[0, 0]), 9)
    0.0002
    """

    def __init__(
        self,
        shape: Obstacle,
        mass: float | None = None,
        density: float = 500.0,
        place: ArrayLike | None = None,
        velocity: ArrayLike = (0.0, 0.0, 0.0),
        spin: ArrayLike = (0.0, 0.0, 0.0),
        kinematic: bool = False,
        name: str = "",
        *,
        path: Callable[[float], ArrayLike] | None = None,
        moved: bool | None = None,
    ) -> None:
        if moved is not None:
            _warn_of_moved()
            kinematic = moved
        if path is not None and not callable(path):
            raise SuppleError("the path of an object is a function of seconds that returns (4, 4)")
        self.shape, self.name, self.path = shape, str(name), path
        self.kinematic = bool(kinematic) or path is not None
        properties = mass_properties(shape)
        if mass is None:
            mass = properties.volume * _positive("density of an object", density)
        self.mass = _positive("mass of an object", mass)
        self.offset = properties.centre
        self.inertia = self.mass / properties.volume * properties.inertia
        self.samples, self.sample_radii = surface_samples(shape)
        self.samples = self.samples - self.offset
        self._place = _checked_place(np.eye(4) if place is None else place)
        self.velocity, self.spin = velocity, spin

    def __repr__(self) -> str:
        name = f"{self.name!r}, " if self.name else ""
        return f"RigidObject({name}{type(self.shape).__name__}, {self.mass:.4g} kg)"

    @property
    def moved(self) -> bool:
        """Old name of `kinematic`."""
        _warn_of_moved()
        return self.kinematic

    @moved.setter
    def moved(self, kinematic: bool) -> None:
        _warn_of_moved()
        self.kinematic = bool(kinematic)

    @property
    def place(self) -> Floats:
        """Transform (4, 4) from local axes to the world; setting it keeps the velocity."""
        return self._place

    @place.setter
    def place(self, place: ArrayLike) -> None:
        self._place[:] = _checked_place(place)

    @property
    def turn(self) -> Floats:
        """Rotation (3, 3) from local axes to the world."""
        return self._place[:3, :3]

    @property
    def centre(self) -> Floats:
        """(3,) centre of mass in the world."""
        return self.turn @ self.offset + self._place[:3, 3]

    @property
    def velocity(self) -> Floats:
        """Velocity (3,) of the centre of mass in m/s."""
        return self._velocity

    @velocity.setter
    def velocity(self, velocity: ArrayLike) -> None:
        self._velocity = owned_array("velocity of an object", velocity, (3,))

    @property
    def spin(self) -> Floats:
        """Angular velocity (3,) in the world, in rad/s."""
        return self._spin

    @spin.setter
    def spin(self, spin: ArrayLike) -> None:
        self._spin = owned_array("spin of an object", spin, (3,))

    def put(self, centre: Floats, turn: Floats) -> None:
        """Set centre of mass and rotation, unchecked, for engines."""
        self._place[:3, :3] = turn
        self._place[:3, 3] = centre - turn @ self.offset

    def moved_to(self, place: ArrayLike, dt: float) -> None:
        """Move to a place within `dt` seconds, and set velocity and spin to match."""
        if not self.kinematic:
            raise SuppleError("forces move this object; use kinematic=True to move it yourself")
        seconds = _positive("time of a move", dt)
        goal = _checked_place(place)
        start, before = self.centre, self.turn.copy()
        self._place[:] = goal
        self._velocity = (self.centre - start) / seconds
        self._spin = Rotation.from_matrix(self.turn @ before.T).as_rotvec() / seconds

    def distances(self, points: Floats) -> tuple[Floats, Floats]:
        """Return signed distances (k,) of points, negative inside, and unit normals (k, 3)."""
        local = (np.asarray(points, np.float64) - self._place[:3, 3]) @ self.turn
        gaps, normals = self.shape.distances(local)
        return gaps, normals @ self.turn.T

    def velocities(self, points: Floats) -> Floats:
        """Return velocities v + ω × (x − c) (k, 3) at points in the world."""
        return self._velocity + np.cross(self._spin, points - self.centre)

    def copy(self) -> Self:
        """Return a copy that moves independently and shares the shape."""
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__)
        for name in ("_place", "_velocity", "_spin"):
            new.__dict__[name] = self.__dict__[name].copy()
        return new

    def __copy__(self) -> Self:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Self:
        return self.copy()


def mass_properties(shape: Obstacle) -> MassProperties:
    """Return volume, centroid and second moments of a bounded shape; refuse other shapes."""
    if isinstance(shape, Sphere):
        volume = 4 / 3 * math.pi * shape.radius**3
        moments = volume / 5 * shape.radius**2 * np.eye(3)
        return MassProperties(volume, np.array(shape.centre, np.float64), moments)
    if isinstance(shape, Capsule):
        return _capsule_properties(shape)
    if isinstance(shape, Box):
        volume = 8 * float(np.prod(shape.half))
        moments = shape.turn @ np.diag(volume / 3 * shape.half**2) @ shape.turn.T
        return MassProperties(volume, np.array(shape.centre), moments)
    if isinstance(shape, Convex):
        return _enclosed_properties(shape.surface())
    if isinstance(shape, Solid):
        return _enclosed_properties(shape.surface)
    if isinstance(shape, Plane):
        raise SuppleError("a plane has no mass; give it as an obstacle, not as an object")
    raise SuppleError(
        f"an object cannot be a {type(shape).__name__}; "
        "give a Sphere, a Capsule, a Box, a Convex or a Solid"
    )


def _capsule_properties(shape: Capsule) -> MassProperties:
    """Return mass properties of a capsule: a cylinder and two half balls (centroids 3/8 r off)."""
    start, end, r = np.asarray(shape.start), np.asarray(shape.end), shape.radius
    length = float(np.linalg.norm(end - start))
    axis = (end - start) / length if length > 0 else np.array([0.0, 1.0, 0.0])
    tube, ends = math.pi * r**2 * length, 4 / 3 * math.pi * r**3
    across = tube * r**2 / 4 + ends * r**2 / 5
    half = length / 2
    along = tube * length**2 / 12 + ends * (r**2 / 5 + half**2 + 2 * half * 3 / 8 * r)
    out = np.outer(axis, axis)
    moments = across * (np.eye(3) - out) + along * out
    return MassProperties(tube + ends, (start + end) / 2, moments)


def _enclosed_properties(surface: SurfaceMesh) -> MassProperties:
    """Return mass properties of the inside of a closed surface.

    They are sums over tets between the middle of the bounding box and each triangle.
    """
    origin = surface.bounds.mean(axis=0)
    corners = surface.vertices[surface.triangles] - origin  # (m, 3, 3)
    volumes = np.linalg.det(corners) / 6
    volume = float(volumes.sum())
    if not volume > 0:
        raise SuppleError("an object's surface must be closed, with normals that point outwards")
    sums = corners.sum(axis=1)
    centre = volumes @ sums / (4 * volume)
    moments = np.einsum("t,tki,tkj->ij", volumes, corners, corners) / 20
    moments += np.einsum("t,ti,tj->ij", volumes, sums, sums) / 20
    return MassProperties(volume, origin + centre, moments - volume * np.outer(centre, centre))


def surface_samples(shape: Obstacle) -> tuple[Floats, Floats]:
    """Return centres (s, 3) and radii (s,) of balls that approximate the surface in contact."""
    if isinstance(shape, Sphere):
        return np.array(shape.centre, np.float64)[None], np.array([shape.radius])
    if isinstance(shape, Capsule):
        start, end = np.asarray(shape.start), np.asarray(shape.end)
        parts = math.ceil(float(np.linalg.norm(end - start)) / shape.radius)
        along = np.linspace(0, 1, min(parts + 1, MOST_BALLS) if parts else 1)
        return start + along[:, None] * (end - start), np.full(len(along), shape.radius)
    if isinstance(shape, Box):
        grid = np.linspace(-1, 1, EDGE_PARTS + 1)
        cells = np.stack(np.meshgrid(grid, grid, grid, indexing="ij"), axis=-1).reshape(-1, 3)
        edges = cells[(np.abs(cells) == 1).sum(axis=1) >= 2]
        points = shape.centre + (edges * shape.half) @ shape.turn.T
    elif isinstance(shape, Convex):
        points = np.concatenate([shape.points, _middles_of_edges(shape)])
    elif isinstance(shape, Solid):
        points = shape.surface.vertices
    else:
        mass_properties(shape)  # raises the error
        points = np.zeros((0, 3))
    chosen = _spread(points, MOST_SAMPLES)
    return chosen, np.zeros(len(chosen))


def _middles_of_edges(shape: Convex) -> Floats:
    """Return midpoints (e, 3) of edges between faces of different planes."""
    ends = np.sort(shape.triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
    pairs, edge = np.unique(ends, axis=0, return_inverse=True)
    beside = np.argsort(edge.reshape(-1), kind="stable").reshape(-1, 2) // 3
    normals = shape.face_rows()[:, :3]
    bent = np.einsum("ij,ij->i", normals[beside[:, 0]], normals[beside[:, 1]]) < 1 - 1e-9
    middles: Floats = shape.points[pairs[bent]].mean(axis=1)
    return middles


def _spread(points: Floats, most: int) -> Floats:
    """Return at most `most` points, chosen by farthest-point sampling."""
    if len(points) <= most:
        return points.copy()
    chosen = [int(np.argmax(np.linalg.norm(points - points.mean(axis=0), axis=1)))]
    near = np.linalg.norm(points - points[chosen[0]], axis=1)
    while len(chosen) < most:
        chosen.append(int(np.argmax(near)))
        np.minimum(near, np.linalg.norm(points - points[chosen[-1]], axis=1), out=near)
    return points[np.sort(chosen)]


def _warn_of_moved() -> None:
    warnings.warn("moved is deprecated; use kinematic", DeprecationWarning, stacklevel=3)


def _positive(what: str, value: float) -> float:
    number = checked_number(what, value)
    if number <= 0:
        raise SuppleError(f"the {what} is {number:g}; it must be positive")
    return number


def _checked_place(place: ArrayLike) -> Floats:
    try:
        return checked_root(place).copy()
    except SuppleError as error:
        raise SuppleError(str(error).replace("root", "place of an object", 1)) from None
