"""Tables of shapes for compiled loops, signed distances to them, and their surfaces."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from supple.arrays import Floats, Ints, Singles
from supple.compiled.jit import compiled_fused_inline
from supple.errors import SuppleError
from supple.mesh.distance_field import Solid, grid_distance
from supple.mesh.obstacles import (
    CAPSULE,
    OTHER,
    PLANE,
    SPHERE,
    Box,
    Capsule,
    Convex,
    Obstacle,
    Plane,
    Sphere,
    box_distance,
    hull_distance,
)
from supple.mesh.surface import SurfaceMesh

# All functions here are inlined: passing the tables costs ten times the distance to a plane (77
# instead of 7 ns).

#: Kinds in addition to those of `supple.mesh.obstacles`.
BOX, CONVEX, SOLID = range(4, 7)
#: Number of points on a ball.
ROUND = 400


@runtime_checkable
class PlacedShape(Protocol):
    """Shape in local axes, with a place (4, 4) in the world."""

    @property
    def shape(self) -> Obstacle:
        """Shape in local axes."""

    @property
    def place(self) -> Floats:
        """(4, 4) rigid transform."""


class ShapeTables(NamedTuple):
    """Shapes as numbers. Rotations and translations may be changed between steps."""

    kinds: Ints
    """(o,) kind of each; ``OTHER`` for obstacles that implement distances() alone."""
    numbers: Floats
    """(o, 15) plane: point, normal; sphere: centre, radius; capsule: ends, radius; box: centre,
    half sides, rotation by rows."""
    rotations: Floats
    """(o, 3, 3) rotations from local axes to the world."""
    translations: Floats
    """(o, 3) positions of the local origins."""
    bounds: Floats
    """(o, 4) bounding ball in local axes, centre and radius; infinite for planes and ``OTHER``."""
    faces: Floats
    """(f, 13) faces of hulls: normal, level, three corners."""
    face_starts: Ints
    """(o + 1,) first face of each."""
    grids: Singles
    """Distances at all nodes of all solids."""
    grid_starts: Ints
    grid_sizes: Ints
    grid_origins: Floats
    grid_spacings: Floats
    """(o,), (o, 3), (o, 3) and (o,): first node, size, origin and spacing of each grid."""


def shape_tables(obstacles: Sequence[Obstacle | None]) -> ShapeTables:
    """Return the tables of obstacles, in their order; None becomes ``OTHER``. A `PlacedShape`
    contributes its shape at its place. Subclasses of our shapes are ``OTHER``, as they may override
    distances.
    """
    shapes = [each.shape if isinstance(each, PlacedShape) else each for each in obstacles]
    o = len(shapes)
    faces = [each.face_rows() for each in shapes if type(each) is Convex]
    grids = [each.distance.reshape(-1) for each in shapes if type(each) is Solid]
    tables = ShapeTables(
        kinds=np.zeros(o, np.int64),
        numbers=np.zeros((o, 15)),
        rotations=np.tile(np.eye(3), (o, 1, 1)),
        translations=np.zeros((o, 3)),
        bounds=np.zeros((o, 4)),
        faces=np.concatenate([np.zeros((0, 13)), *faces]),
        face_starts=np.zeros(o + 1, np.int64),
        grids=np.concatenate([np.zeros(0, np.float32), *grids]),
        grid_starts=np.zeros(o, np.int64),
        grid_sizes=np.zeros((o, 3), np.int64),
        grid_origins=np.zeros((o, 3)),
        grid_spacings=np.ones(o),
    )
    node = 0
    for number, shape in enumerate(shapes):
        kind, row, ball = _row(shape)
        tables.kinds[number] = kind
        tables.numbers[number, : len(row)] = row
        tables.bounds[number] = ball
        n_faces = len(shape.face_rows()) if type(shape) is Convex else 0
        tables.face_starts[number + 1] = tables.face_starts[number] + n_faces
        if type(shape) is Solid:
            tables.grid_starts[number], node = node, node + shape.distance.size
            tables.grid_sizes[number] = shape.distance.shape
            tables.grid_origins[number] = shape.origin
            tables.grid_spacings[number] = shape.spacing
    place_shapes(tables, obstacles)
    return tables


def place_shapes(tables: ShapeTables, obstacles: Sequence[Obstacle | None]) -> None:
    """Write current rotations and translations of the placed shapes to the tables."""
    for number, each in enumerate(obstacles):
        if isinstance(each, PlacedShape):
            tables.rotations[number] = each.place[:3, :3]
            tables.translations[number] = each.place[:3, 3]


def _row(shape: Obstacle | None) -> tuple[int, list[float], list[float]]:
    """Return kind, numbers and bounding ball of a shape."""
    if type(shape) is Plane:
        return PLANE, [*np.asarray(shape.point), *np.asarray(shape.normal)], [0, 0, 0, math.inf]
    if type(shape) is Sphere:
        row = [*np.asarray(shape.centre), shape.radius]
        return SPHERE, row, row
    if type(shape) is Capsule:
        start, end = np.asarray(shape.start), np.asarray(shape.end)
        reach = shape.radius + float(np.linalg.norm(end - start)) / 2
        return CAPSULE, [*start, *end, shape.radius], [*(start + end) / 2, reach]
    if type(shape) is Box:
        row = [*shape.centre, *shape.half, *shape.turn.reshape(-1)]
        return BOX, row, [*shape.centre, float(np.linalg.norm(shape.half))]
    if type(shape) is Convex:
        return CONVEX, [], _ball(shape.points)
    if type(shape) is Solid:
        return SOLID, [], _ball(shape.surface.vertices)
    return OTHER, [], [0, 0, 0, math.inf]


def _ball(points: Floats) -> list[float]:
    middle = (points.min(axis=0) + points.max(axis=0)) / 2
    return [*middle, float(np.linalg.norm(points - middle, axis=1).max())]


@compiled_fused_inline
def signed_distance(tables, o, x, y, z):  # type: ignore[no-untyped-def]
    """Return the signed distance of a point in the world to shape `o`, and the normal.
    ``OTHER`` is infinitely far away.
    """
    rotation, shift = tables.rotations[o], tables.translations[o]
    x, y, z = x - shift[0], y - shift[1], z - shift[2]
    x, y, z = (
        rotation[0, 0] * x + rotation[1, 0] * y + rotation[2, 0] * z,
        rotation[0, 1] * x + rotation[1, 1] * y + rotation[2, 1] * z,
        rotation[0, 2] * x + rotation[1, 2] * y + rotation[2, 2] * z,
    )
    gap, p, q, r = _local_distance(tables, o, x, y, z)
    return (
        gap,
        rotation[0, 0] * p + rotation[0, 1] * q + rotation[0, 2] * r,
        rotation[1, 0] * p + rotation[1, 1] * q + rotation[1, 2] * r,
        rotation[2, 0] * p + rotation[2, 1] * q + rotation[2, 2] * r,
    )


@compiled_fused_inline
def _local_distance(tables, o, x, y, z):  # type: ignore[no-untyped-def]
    """Return signed distance and normal of a point to shape `o`, all in local axes."""
    kind, row = tables.kinds[o], tables.numbers[o]
    if kind == PLANE:
        p, q, r = row[3], row[4], row[5]
        return (x - row[0]) * p + (y - row[1]) * q + (z - row[2]) * r, p, q, r
    if kind == SPHERE:
        return _around(x - row[0], y - row[1], z - row[2], row[3])
    if kind == CAPSULE:
        x, y, z = x - row[0], y - row[1], z - row[2]
        p, q, r = row[3] - row[0], row[4] - row[1], row[5] - row[2]
        squared = p * p + q * q + r * r
        along = (x * p + y * q + z * r) / squared if squared > 0 else 0.0
        along = min(max(along, 0.0), 1.0)
        return _around(x - along * p, y - along * q, z - along * r, row[6])
    if kind == BOX:
        return _rotated_box(row, x - row[0], y - row[1], z - row[2])
    if kind == CONVEX:
        first, last = tables.face_starts[o], tables.face_starts[o + 1]
        return hull_distance(tables.faces, first, last, x, y, z)
    if kind == SOLID:
        first, spacing = tables.grid_starts[o], tables.grid_spacings[o]
        sizes, origin = tables.grid_sizes[o], tables.grid_origins[o]
        return grid_distance(tables.grids, first, sizes, origin, spacing, x, y, z)
    return math.inf, 0.0, 1.0, 0.0


@compiled_fused_inline
def _around(x, y, z, radius):  # type: ignore[no-untyped-def]
    length = math.sqrt(x * x + y * y + z * z)
    if length == 0:  # any normal
        return -radius, 0.0, 1.0, 0.0
    return length - radius, x / length, y / length, z / length


@compiled_fused_inline
def _rotated_box(row, x, y, z):  # type: ignore[no-untyped-def]
    x, y, z = (
        row[6] * x + row[9] * y + row[12] * z,
        row[7] * x + row[10] * y + row[13] * z,
        row[8] * x + row[11] * y + row[14] * z,
    )
    gap, p, q, r = box_distance(row[3], row[4], row[5], x, y, z)
    return (
        gap,
        row[6] * p + row[7] * q + row[8] * r,
        row[9] * p + row[10] * q + row[11] * r,
        row[12] * p + row[13] * q + row[14] * r,
    )


def shape_surface(shape: Obstacle) -> SurfaceMesh:
    """Return triangles that show a shape, in local axes; refuse planes and obstacles that implement
    distances() alone.

    >>> shape_surface(Box((0, 0, 0), (1, 1, 1)))
    SurfaceMesh(8 vertices, 12 triangles)
    """
    if isinstance(shape, Solid):
        return shape.surface
    if isinstance(shape, Convex):
        return shape.surface()
    if isinstance(shape, Box):
        return Convex(shape.corners()).surface()
    if isinstance(shape, Sphere):
        return Convex(np.asarray(shape.centre) + shape.radius * _unit_ball_points()).surface()
    if isinstance(shape, Capsule):
        ends = np.array([shape.start, shape.end], np.float64)
        return Convex((ends[:, None] + shape.radius * _unit_ball_points()).reshape(-1, 3)).surface()
    raise SuppleError(f"a {type(shape).__name__} has no surface to draw")


def _unit_ball_points() -> Floats:
    """Return points spread over a unit sphere, (n, 3), by the golden angle."""
    k = np.arange(ROUND)
    height = 1 - (2 * k + 1) / ROUND
    angle = np.pi * (3 - np.sqrt(5)) * k
    radius = np.sqrt(1 - height**2)
    return np.column_stack([radius * np.cos(angle), height, radius * np.sin(angle)])
