"""Things to touch: balls, bars, benches, pins and ropes, and their surfaces for pictures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints, Singles
from supple.dynamics.rigid_object import RigidObject
from supple.mesh.distance_field import Solid
from supple.mesh.obstacles import Capsule, Obstacle, Plane, Sphere
from supple.mesh.polyhedra import Box
from supple.mesh.surface import SurfaceMesh
from supple.scenes.modelling.lathe import capsule_shape


def at(place: ArrayLike, turn: ArrayLike | None = None) -> Floats:
    """Return the transform (4, 4) that puts a thing there."""
    found = np.eye(4)
    found[:3, 3] = place
    if turn is not None:
        found[:3, :3] = turn
    return found


def floor(height: float = 0.0) -> Plane:
    """Return the ground."""
    return Plane((0, height, 0), (0, 1, 0))


def ball(centre: ArrayLike, radius: float, mass: float) -> RigidObject:
    """Return a ball that moves as it is pushed."""
    return RigidObject(Sphere((0, 0, 0), radius), mass=mass, place=at(centre), name="ball")


def pin(tip: ArrayLike, radius: float = 0.003, length: float = 0.05) -> RigidObject:
    """Return an upright pin with a round tip at the top, which is led."""
    shape = Capsule((0, -length, 0), (0, -radius, 0), radius)
    return RigidObject(shape, mass=0.01, place=at(tip), moved=True, name="pin")


def bars(
    first: ArrayLike, step: ArrayLike, along: ArrayLike, count: int, radius: float
) -> tuple[Capsule, ...]:
    """Return parallel bars, `step` apart, each from its middle both ways by `along`."""
    start, shift, half = (np.asarray(each, float) for each in (first, step, along))
    middles = [start + k * shift for k in range(count)]
    return tuple(Capsule(middle - half, middle + half, radius) for middle in middles)


def bench(centre: ArrayLike, length: float, width: float, thick: float = 0.08) -> Box:
    """Return the board of a bench along z, `centre` in the middle of its top."""
    x, y, z = np.asarray(centre, float)
    return Box((x, y - thick / 2, z), (width / 2, thick / 2, length / 2))


@dataclass(frozen=True, eq=False)
class Rope:
    """Elastic rope from a place in the world to a patch of skin: it pulls, and never pushes.

    It pulls with the force of where the skin was a step ago, so it must be soft: the stiffness is
    to be below mass/dt² of what it holds.

    Attributes
    ----------
    vertices
        (k,) of the skin, which share the force.
    anchor
        (3,) where it is tied.
    length
        In m, when it does not pull.
    stiffness, damping
        In N/m and N s/m.
    """

    vertices: Ints
    anchor: Floats
    length: float
    stiffness: float
    damping: float

    def forces(self, places: Floats | Singles, velocities: Floats | Singles) -> Floats:
        """Return forces (k, 3) on the patch, from places and velocities (n̄, 3) of the skin."""
        away = self.anchor - places[self.vertices].mean(axis=0)
        far = float(np.linalg.norm(away))
        way = away / max(far, 1e-12)
        closing = float(way @ velocities[self.vertices].mean(axis=0))
        pull = max(self.stiffness * (far - self.length) - self.damping * closing, 0.0)
        return np.tile(pull * way / len(self.vertices), (len(self.vertices), 1))


def thing_surface(thing: Obstacle, around: int = 32) -> SurfaceMesh | None:
    """Return what is drawn of an obstacle or object, where it is now; None for a plane."""
    if isinstance(thing, RigidObject):
        own = thing_surface(thing.shape, around)
        if own is None:
            return None
        return SurfaceMesh(own.vertices @ thing.turn.T + thing.place[:3, 3], own.triangles)
    if isinstance(thing, Sphere):
        return capsule_shape(thing.centre, thing.centre, thing.radius, around)
    if isinstance(thing, Capsule):
        return capsule_shape(thing.start, thing.end, thing.radius, around)
    if isinstance(thing, Box):
        return _box_surface(thing)
    return thing.surface if isinstance(thing, Solid) else None


def _box_surface(box: Box) -> SurfaceMesh:
    """Return a box with faces that share no vertices, so that it is drawn with edges."""
    faces: list[Floats] = []
    for axis in range(3):
        for sign in (-1.0, 1.0):
            u, v = np.eye(3)[(axis + 1) % 3], sign * np.eye(3)[(axis + 2) % 3]
            middle = sign * np.eye(3)[axis]
            faces.append(np.array([middle - u - v, middle + u - v, middle + u + v, middle - u + v]))
    corners = np.concatenate(faces) * box.half @ box.turn.T + box.centre
    quads = 4 * np.arange(6)[:, None, None] + np.array([[0, 1, 2], [0, 2, 3]])
    return SurfaceMesh(corners, quads.reshape(-1, 3))
