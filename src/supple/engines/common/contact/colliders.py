"""Colliders of a character: obstacles, rigid objects and its own parts, as tables of shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from supple.arrays import Floats
from supple.checks import numbers
from supple.compiled.jit import compiled_fused, compiled_plain
from supple.compiled.tables import ArgumentTable, table_contents
from supple.dynamics.rigid_object import RigidObject
from supple.errors import SuppleError
from supple.mesh.distance_field import Solid
from supple.mesh.obstacles import OTHER, PLANE, Box, Capsule, Convex, Obstacle, Sphere
from supple.mesh.shape_tables import PlacedShape, shape_tables, signed_distance

#: Added to the kind of a shape that has a place, in `ColliderShapes.kinds`.
PLACED = 100
#: Tolerance of the length of a unit normal.
UNIT = 1e-3


class ColliderShapes:
    """Shapes of colliders as tables, in the world and in the frame of a root.

    Attributes
    ----------
    colliders
        Obstacles, then rigid objects, then parts of the body.
    n_obstacles, n_outside
        Number of obstacles, and of obstacles and objects.
    kinds
        A number for each collider; new colliders with the same numbers count as the old ones,
        moved.
    world
        `ShapeTables` in the world.
    in_root
        The same tables in the root's frame, after `update_places`, as an `ArgumentTable`.
    in_world
        The tables `world` as an `ArgumentTable`.
    bounds
        (c, 4) bounding balls in the root's frame, centre and radius; of planes normal and level.
    motions
        (c, 9) velocity, spin and centre of rigid objects in the root's frame; zeros for others.
    others
        Indices of obstacles that implement distances() alone.
    """

    def __init__(self) -> None:
        self.colliders: tuple[Any, ...] = ()
        self._shapes: list[Obstacle] | None = None
        self.set(())

    def set(
        self,
        obstacles: Sequence[Obstacle],
        objects: Sequence[RigidObject] = (),
        parts: Sequence[Obstacle] = (),
    ) -> None:
        """Replace the colliders; tables of unchanged shapes are reused, as meshes may be large."""
        self.n_obstacles, self.n_outside = len(obstacles), len(obstacles) + len(objects)
        self.colliders = listed = (*obstacles, *objects, *parts)
        shapes = [each.shape if isinstance(each, PlacedShape) else each for each in listed]
        known = self._shapes or []
        if self._shapes is None or list(map(id, shapes)) != list(map(id, known)):
            self._shapes, self.world = shapes, shape_tables(shapes)
            rotations, translations = self.world.rotations.copy(), self.world.translations.copy()
            self._in_root = self.world._replace(rotations=rotations, translations=translations)
            self.in_root, self.in_world = ArgumentTable(self._in_root), ArgumentTable(self.world)
        self.world.rotations[:], self.world.translations[:] = np.eye(3), 0.0
        self._placed = [(k, each) for k, each in enumerate(listed) if isinstance(each, PlacedShape)]
        self._moving = [(k, each) for k, each in self._placed if isinstance(each, RigidObject)]
        kinds = self.world.kinds.copy()
        kinds[[k for k, _ in self._placed]] += PLACED
        self.kinds: tuple[int, ...] = tuple(kinds.tolist())
        self.others = tuple(np.flatnonzero(self.world.kinds == OTHER).tolist())
        self.motions, self.bounds = np.zeros((len(listed), 9)), np.zeros((len(listed), 4))
        self.place()

    def place(self) -> None:
        """Place shapes in the world where the obstacles and objects are."""
        for k, each in self._placed:
            self.world.rotations[k] = each.place[:3, :3]
            self.world.translations[k] = each.place[:3, 3]

    def update_places(self, root: Floats) -> None:
        """Write the world's places in the frame of a root (4, 4)."""
        world, out = self.world, self._in_root
        _places_into_root(
            world.rotations, world.translations, root, out.rotations, out.translations
        )
        _write_bounds(self.in_root, self.bounds)

    def update_motions(self, root: Floats) -> None:
        """Update the motions of rigid objects in the frame of a root (4, 4)."""
        rotation, translation = root[:3, :3], root[:3, 3]
        for k, each in self._moving:
            out = self.motions[k]
            out[:3], out[3:6] = each.velocity @ rotation, each.spin @ rotation
            out[6:] = (each.centre - translation) @ rotation

    def name(self, collider: int) -> str:
        """Return the name of an obstacle or object; equal names of objects get their numbers."""
        if collider < self.n_obstacles:
            return f"obstacle {collider}"
        number, name = collider - self.n_obstacles, self.colliders[collider].name
        names = [each.name for each in self.colliders[self.n_obstacles : self.n_outside]]
        if not name:
            return f"object {number}"
        return name if names.count(name) == 1 else f"{name} {number}"

    @property
    def half_extents(self) -> Floats:
        """The two smallest half extents of each collider in m, (c, 2)."""
        return np.array([half_extents(each) for each in self._shapes or ()]).reshape(-1, 2)


def half_extents(shape: Obstacle) -> tuple[float, float]:
    """Return the two smallest half extents of a shape in m, infinite for a plane."""
    if isinstance(shape, Sphere | Capsule):
        return shape.radius, shape.radius
    if isinstance(shape, Box):
        thin, wide, _ = np.sort(shape.half)
        return float(thin), float(wide)
    if isinstance(shape, Convex | Solid):
        points = shape.points if isinstance(shape, Convex) else shape.surface.vertices
        # Along the two principal axes of least variance.
        centred = points - points.mean(axis=0)
        thin, wide = np.ptp(centred @ np.linalg.eigh(centred.T @ centred)[1][:, :2], axis=0) / 2
        return max(float(thin), 1e-4), max(float(wide), 1e-4)
    return math.inf, math.inf


def checked_distances(obstacle: Obstacle, points: Floats) -> tuple[Floats, Floats]:
    """Return checked distances (k,) and normals (k, 3) by an obstacle of any type.

    Normals are checked only inside, where they are used.
    """
    what = f"obstacle {type(obstacle).__name__}"
    try:
        gaps, normals = obstacle.distances(points)
    except Exception as error:
        raise SuppleError(f"{what}: its method distances failed: {error}") from error
    gaps, normals = numbers(f"distances of {what}", gaps), numbers(f"normals of {what}", normals)
    if gaps.shape != points.shape[:1] or normals.shape != points.shape:
        raise SuppleError(
            f"{what} returned distances {gaps.shape} and normals {normals.shape} for "
            f"{len(points)} points; expected {points.shape[:1]} and {points.shape}"
        )
    if not (gaps > -np.inf).all():  # infinite distances outside are valid
        raise SuppleError(f"{what} returned a distance that is not a number")
    lengths = np.linalg.norm(normals[gaps < 0], axis=1)
    if not (np.abs(lengths - 1) < UNIT).all():
        raise SuppleError(f"{what} returned normals that are not of length 1")
    return gaps, normals


@compiled_plain
def into_root_axes(root, p, q, r):  # type: ignore[no-untyped-def]
    """Return the vector (p, q, r) of the world in the axes of `root` (4, 4)."""
    return (
        root[0, 0] * p + root[1, 0] * q + root[2, 0] * r,
        root[0, 1] * p + root[1, 1] * q + root[2, 1] * r,
        root[0, 2] * p + root[1, 2] * q + root[2, 2] * r,
    )


@compiled_plain
def out_of_root_axes(root, p, q, r):  # type: ignore[no-untyped-def]
    """Return the vector (p, q, r) in the axes of `root` (4, 4) in those of the world."""
    return (
        root[0, 0] * p + root[0, 1] * q + root[0, 2] * r,
        root[1, 0] * p + root[1, 1] * q + root[1, 2] * r,
        root[2, 0] * p + root[2, 1] * q + root[2, 2] * r,
    )


@compiled_plain
def _places_into_root(rotations, translations, root, out_rotations, out_translations):  # type: ignore[no-untyped-def]
    """Write rotations (o, 3, 3) and translations (o, 3) of shapes in the root's frame."""
    for o in range(len(rotations)):
        r, t, out_r, out_t = rotations[o], translations[o], out_rotations[o], out_translations[o]
        for j in range(3):
            out_r[0, j], out_r[1, j], out_r[2, j] = into_root_axes(root, r[0, j], r[1, j], r[2, j])
        x, y, z = t[0] - root[0, 3], t[1] - root[1, 3], t[2] - root[2, 3]
        out_t[0], out_t[1], out_t[2] = into_root_axes(root, x, y, z)


@compiled_fused
def table_distance(shapes, o, x, y, z):  # type: ignore[no-untyped-def]
    """Return the signed distance of a point to shape `o` of an `ArgumentTable`, and the normal."""
    return signed_distance(table_contents(shapes), o, x, y, z)


@compiled_fused
def _write_bounds(shapes, out):  # type: ignore[no-untyped-def]
    """Write `ColliderShapes.bounds` of an `ArgumentTable`."""
    tables = table_contents(shapes)
    for o in range(len(out)):
        ball, r, t = tables.bounds[o], tables.rotations[o], tables.translations[o]
        if tables.kinds[o] == PLANE:
            gap, p, q, w = signed_distance(tables, o, 0.0, 0.0, 0.0)
            out[o, 0], out[o, 1], out[o, 2], out[o, 3] = p, q, w, -gap
            continue
        for i in range(3):
            out[o, i] = r[i, 0] * ball[0] + r[i, 1] * ball[1] + r[i, 2] * ball[2] + t[i]
        out[o, 3] = ball[3]
