"""Colliders of the contact scenes: balls, bars, benches, pins and ropes, and their surfaces."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints, Singles
from supple.dynamics.rigid_object import RigidObject
from supple.mesh.distance_field import Solid
from supple.mesh.obstacles import Box, Capsule, Obstacle, Plane, Sphere
from supple.mesh.surface import SurfaceMesh
from supple.scenes.modelling.lathe import capsule_shape


def at(place: ArrayLike, rotation: ArrayLike | None = None) -> Floats:
    """Return the transform (4, 4) with translation `place` and rotation (3, 3), or none."""
    transform = np.eye(4)
    transform[:3, 3] = place
    if rotation is not None:
        transform[:3, :3] = rotation
    return transform


def floor(height: float = 0.0) -> Plane:
    """Return the ground: a horizontal plane at a height in m."""
    return Plane((0, height, 0), (0, 1, 0))


def ball(centre: ArrayLike, radius: float, mass: float) -> RigidObject:
    """Return a ball that contact forces move."""
    return RigidObject(Sphere((0, 0, 0), radius), mass=mass, place=at(centre), name="ball")


def pin(tip: ArrayLike, radius: float = 0.003, length: float = 0.05) -> RigidObject:
    """Return an upright kinematic pin with a round tip at the top."""
    shape = Capsule((0, -length, 0), (0, -radius, 0), radius)
    return RigidObject(shape, mass=0.01, place=at(tip), kinematic=True, name="pin")


def bars(
    first: ArrayLike, step: ArrayLike, along: ArrayLike, count: int, radius: float
) -> tuple[Capsule, ...]:
    """Return parallel bars, `step` apart, each from −`along` to +`along` around its centre."""
    start, shift, half = (np.asarray(each, float) for each in (first, step, along))
    middles = [start + k * shift for k in range(count)]
    return tuple(Capsule(middle - half, middle + half, radius) for middle in middles)


def bench(centre: ArrayLike, length: float, width: float, thick: float = 0.08) -> Box:
    """Return the board of a bench along z; `centre` is the middle of its top face."""
    x, y, z = np.asarray(centre, float)
    return Box((x, y - thick / 2, z), (width / 2, thick / 2, length / 2))


@dataclass(frozen=True, eq=False)
class Rope:
    """Elastic rope from an anchor in the world to a patch of skin; it pulls and never pushes.

    The force is explicit in time, so the stiffness must be below mass/dt² of the held body.
    """

    vertices: Ints  # (k,) indices of skin vertices, which share the force
    anchor: Floats  # (3,) position of the anchor
    length: float  # rest length in m
    #: In N/m and N s/m.
    stiffness: float
    damping: float

    def forces(self, places: Floats | Singles, velocities: Floats | Singles) -> Floats:
        """Return forces (k, 3) on the patch from positions and velocities (n̄, 3) of the skin."""
        offset = self.anchor - places[self.vertices].mean(axis=0)
        distance = float(np.linalg.norm(offset))
        direction = offset / max(distance, 1e-12)
        closing = float(direction @ velocities[self.vertices].mean(axis=0))
        pull = max(self.stiffness * (distance - self.length) - self.damping * closing, 0.0)
        return np.tile(pull * direction / len(self.vertices), (len(self.vertices), 1))


def collider_surface(collider: Obstacle, around: int = 32) -> SurfaceMesh | None:
    """Return the surface of an obstacle or object at its present position; None for a plane."""
    if isinstance(collider, RigidObject):
        shape = collider_surface(collider.shape, around)
        if shape is None:
            return None
        return SurfaceMesh(
            shape.vertices @ collider.turn.T + collider.place[:3, 3], shape.triangles
        )
    if isinstance(collider, Sphere):
        return capsule_shape(collider.centre, collider.centre, collider.radius, around)
    if isinstance(collider, Capsule):
        return capsule_shape(collider.start, collider.end, collider.radius, around)
    if isinstance(collider, Box):
        return _box_surface(collider)
    return collider.surface if isinstance(collider, Solid) else None


def _box_surface(box: Box) -> SurfaceMesh:
    """Return a box whose faces share no vertices, so that pictures show sharp edges."""
    faces: list[Floats] = []
    for axis in range(3):
        for sign in (-1.0, 1.0):
            u, v = np.eye(3)[(axis + 1) % 3], sign * np.eye(3)[(axis + 2) % 3]
            middle = sign * np.eye(3)[axis]
            faces.append(np.array([middle - u - v, middle + u - v, middle + u + v, middle - u + v]))
    corners = np.concatenate(faces) * box.half @ box.turn.T + box.centre
    quads = 4 * np.arange(6)[:, None, None] + np.array([[0, 1, 2], [0, 2, 3]])
    return SurfaceMesh(corners, quads.reshape(-1, 3))
