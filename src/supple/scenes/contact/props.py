"""Things to touch: balls, bars, benches, pins and cuffs, and their surfaces for pictures."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats
from supple.dynamics.rigid_object import RigidObject
from supple.mesh.distance_field import Solid
from supple.mesh.obstacles import Capsule, Obstacle, Plane, Sphere
from supple.mesh.polyhedra import Box
from supple.mesh.surface import SurfaceMesh
from supple.scenes.modelling.lathe import capsule_shape

__all__ = ["at", "ball", "bars", "bench", "cuff", "floor", "pin", "thing_surface"]


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


def pin(tip: ArrayLike, radius: float = 0.002, length: float = 0.05) -> RigidObject:
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


def cuff(
    centre: ArrayLike, along: ArrayLike, inner: tuple[float, float], thick: float, sides: int = 10
) -> tuple[Capsule, ...]:
    """Return a ring of capsules around an arm.

    Parameters
    ----------
    centre
        Where it is.
    along
        Direction of the arm.
    inner
        Half of its opening sideways, across z and `along`, and towards z.
    thick
        Radius of the ring itself.
    sides
        Capsules that it is made of.
    """
    way = np.asarray(along, float) / np.linalg.norm(along)
    side = np.cross(way, [0.0, 0.0, 1.0])
    side /= np.linalg.norm(side)
    angle = np.linspace(0, 2 * np.pi, sides + 1)[:, None]
    out = (inner[0] + thick) * np.cos(angle) * side
    out = out + (inner[1] + thick) * np.sin(angle) * np.cross(side, way)
    corners = np.asarray(centre, float) + out
    return tuple(Capsule(start, end, thick) for start, end in pairwise(corners))


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
