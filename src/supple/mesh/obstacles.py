"""Obstacles: a half space, a sphere, a capsule, a box, a convex hull."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import ConvexHull, QhullError

from supple.arrays import Floats, Ints
from supple.checks import checked_array, checked_number, numbers, owned_array, without_overflow
from supple.compiled.jit import compiled_fused
from supple.errors import SuppleError
from supple.mesh.surface import SurfaceMesh

#: Kinds of obstacles, as in `supple.mesh.shape_tables`.
OTHER, PLANE, SPHERE, CAPSULE = range(4)
#: Largest number of obstacles, as each is tested against every vertex of a skin.
MOST_OBSTACLES = 64
#: Largest distance and size, in m, for accurate squares.
FARTHEST = 1e9
#: Tolerance of the orthonormality of a rotation.
RIGHT_ANGLES = 1e-6
#: Largest number of faces of a hull, as each is tested for every point.
MOST_FACES = 2000


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
        axis, offsets = np.asarray(self.end) - start, points - start
        squared = float(axis @ axis)
        along = (
            np.clip(offsets @ axis / squared, 0.0, 1.0) if squared > 0 else np.zeros(len(points))
        )
        return _around(offsets - along[:, None] * axis, self.radius)


@dataclass(frozen=True, eq=False, init=False)
class Box:
    """Solid box of any orientation.

    Parameters
    ----------
    centre
        (3,)
    half
        (3,) half of the sides, positive.
    turn
        (3, 3) rotation whose columns are the directions of the sides; by default the identity.

    Examples
    --------
    >>> crate = Box((0, 0.5, 0), (1, 0.5, 1))
    >>> crate.distances(np.array([[0.0, 1.25, 0.0]]))[0]
    array([0.25])
    """

    centre: Floats
    half: Floats
    turn: Floats

    def __init__(self, centre: ArrayLike, half: ArrayLike, turn: ArrayLike | None = None) -> None:
        rotation = np.eye(3) if turn is None else owned_array("turn of the box", turn, (3, 3))
        small = np.clip(rotation, -2.0, 2.0)  # nothing overflows
        if np.abs(small.T @ small - np.eye(3)).max() > RIGHT_ANGLES or np.linalg.det(small) < 0:
            raise SuppleError("`turn` of a box is not a rotation; give orthonormal columns")
        sides = owned_array("half sides of the box", half, (3,))
        if sides.min() <= 0:
            raise SuppleError(f"a half side of a box is {sides.min():g}; all must be positive")
        middle = owned_array("centre of the box", centre, (3,))
        if max(np.abs(middle).max(), sides.max()) > FARTHEST:
            raise SuppleError(f"a box is farther away or larger than {FARTHEST:.0e} m")
        for name, array in (("centre", middle), ("half", sides), ("turn", rotation)):
            object.__setattr__(self, name, _frozen(array))

    def corners(self) -> Floats:
        """Return the corners, (8, 3)."""
        signs = np.array(np.meshgrid([-1.0, 1], [-1.0, 1], [-1.0, 1], indexing="ij"))
        return self.centre + (signs.reshape(3, 8).T * self.half) @ self.turn.T

    def distances(self, points: Floats) -> tuple[Floats, Floats]:
        """Return signed distances (k,) of points, negative inside, and unit normals (k, 3)."""
        local = np.ascontiguousarray((points - self.centre) @ self.turn, np.float64)
        gaps, normals = np.empty(len(local)), np.empty((len(local), 3))
        _box_distances(np.array(self.half), local, gaps, normals)
        return gaps, normals @ self.turn.T


@dataclass(frozen=True, eq=False, init=False)
class Convex:
    """Solid convex hull of points.

    Distances are exact: to the nearest face from inside, to the nearest point of the faces from
    outside.

    Parameters
    ----------
    points
        (n, 3) not all in a plane; interior points are left out.

    Attributes
    ----------
    points
        (n′, 3) corners.
    triangles
        (f, 3) faces, counterclockwise from outside.
    """

    points: Floats
    triangles: Ints

    def __init__(self, points: ArrayLike) -> None:
        coordinates = numbers("points of the hull", points)
        coordinates = checked_array(
            "points of the hull", coordinates, (len(np.atleast_1d(coordinates)), 3)
        )
        if np.abs(coordinates).max(initial=0.0) > FARTHEST:
            raise SuppleError(f"a point of the hull is farther away than {FARTHEST:.0e} m")
        try:
            hull = ConvexHull(coordinates)
        except (QhullError, ValueError):
            raise SuppleError(
                "the points of a hull lie in one plane, or are fewer than four; "
                "give points that enclose a volume"
            ) from None
        if len(hull.simplices) > MOST_FACES:
            raise SuppleError(
                f"the hull has {len(hull.simplices)} faces, more than {MOST_FACES}; "
                "give fewer points, or a Solid"
            )
        used, faces = np.unique(hull.simplices, return_inverse=True)
        corners, faces = coordinates[used].copy(), faces.reshape(-1, 3)
        a, b, c = (corners[faces[:, k]] for k in range(3))
        turned = np.einsum("ij,ij->i", np.cross(b - a, c - a), hull.equations[:, :3]) < 0
        faces[turned] = faces[turned][:, ::-1]
        planes = hull.equations[:, :3], -hull.equations[:, 3]
        rows = np.column_stack([*planes, corners[faces].reshape(-1, 9)])
        object.__setattr__(self, "points", _frozen(corners))
        object.__setattr__(self, "triangles", faces)
        object.__setattr__(self, "_faces", np.ascontiguousarray(rows))

    def face_rows(self) -> Floats:
        """Return faces as rows (f, 13) for `hull_distance`: normal, level, three corners."""
        rows: Floats = self.__dict__["_faces"]
        return rows

    def surface(self) -> SurfaceMesh:
        """Return the surface mesh."""
        return SurfaceMesh(self.points, self.triangles)

    def distances(self, points: Floats) -> tuple[Floats, Floats]:
        """Return signed distances (k,) of points, negative inside, and unit normals (k, 3)."""
        where = np.ascontiguousarray(points, np.float64)
        gaps, normals = np.empty(len(where)), np.empty((len(where), 3))
        _hull_distances(self.face_rows(), where, gaps, normals)
        return gaps, normals


def check_obstacle(number: int, obstacle: object) -> None:
    """Raise an error unless `obstacle`, with index `number`, has a method `distances`."""
    if not isinstance(obstacle, Obstacle) or isinstance(obstacle, type):
        raise SuppleError(
            f"obstacle {number} is a {type(obstacle).__name__}, which has no distances; "
            "give a Plane, a Sphere, a Capsule, a Box, a Convex or a Solid"
        )


def checked_obstacles(
    obstacles: Iterable[Obstacle], most: int | None = MOST_OBSTACLES
) -> tuple[Obstacle, ...]:
    """Return obstacles as a tuple; refuse objects without `distances`, and more than `most`."""
    if isinstance(obstacles, Obstacle) or not isinstance(obstacles, Iterable):
        raise SuppleError("obstacles must be a list, even if there is only one")
    listed = tuple(islice(obstacles, None if most is None else most + 1))
    if most is not None and len(listed) > most:
        raise SuppleError(f"there are more than {most} obstacles; give those that are near")
    for number, each in enumerate(listed):
        check_obstacle(number, each)
    return listed


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


@compiled_fused
def box_distance(hx, hy, hz, x, y, z):  # type: ignore[no-untyped-def]
    """Return signed distance and normal of a point to a box at 0 with half sides hx, hy, hz."""
    a, b, c = abs(x) - hx, abs(y) - hy, abs(z) - hz
    sx = 1.0 if x >= 0 else -1.0
    sy = 1.0 if y >= 0 else -1.0
    sz = 1.0 if z >= 0 else -1.0
    if a <= 0 and b <= 0 and c <= 0:  # inside: by the nearest side
        if a >= b and a >= c:
            return a, sx, 0.0, 0.0
        if b >= c:
            return b, 0.0, sy, 0.0
        return c, 0.0, 0.0, sz
    a, b, c = max(a, 0.0), max(b, 0.0), max(c, 0.0)
    length = math.sqrt(a * a + b * b + c * c)
    if length == 0.0:  # too small to square
        return 0.0, 0.0, sy, 0.0
    return length, sx * a / length, sy * b / length, sz * c / length


@compiled_fused
def hull_distance(faces, first, last, x, y, z):  # type: ignore[no-untyped-def]
    """Return signed distance and normal of a point to the hull of faces `first` to `last` - 1.

    For a point outside, the nearest face is visible from it, so only visible faces are tested.
    """
    level, best = -math.inf, first
    for f in range(first, last):
        height = faces[f, 0] * x + faces[f, 1] * y + faces[f, 2] * z - faces[f, 3]
        if height > level:
            level, best = height, f
    if level <= 0.0:
        return level, faces[best, 0], faces[best, 1], faces[best, 2]
    # The farthest plane gives a lower bound, exact above its face.
    p, q, r = _from_triangle(faces, best, x, y, z)
    least = p * p + q * q + r * r
    if math.sqrt(least) <= level * (1.0 + 1e-12):
        return level, faces[best, 0], faces[best, 1], faces[best, 2]
    for f in range(first, last):
        height = faces[f, 0] * x + faces[f, 1] * y + faces[f, 2] * z - faces[f, 3]
        if height > 0.0 and height * height < least:
            u, v, w = _from_triangle(faces, f, x, y, z)
            squared = u * u + v * v + w * w
            if squared < least:
                least, p, q, r = squared, u, v, w
    length = math.sqrt(least)
    if length <= 0.0:  # too small to square
        return level, faces[best, 0], faces[best, 1], faces[best, 2]
    return length, p / length, q / length, r / length


@compiled_fused
def _from_triangle(faces, f, x, y, z):  # type: ignore[no-untyped-def]
    """Return the vector from the nearest point of face `f` to a point (Ericson 2005, §5.1.5)."""
    ax, ay, az = faces[f, 4], faces[f, 5], faces[f, 6]
    ux, uy, uz = faces[f, 7] - ax, faces[f, 8] - ay, faces[f, 9] - az
    vx, vy, vz = faces[f, 10] - ax, faces[f, 11] - ay, faces[f, 12] - az
    x, y, z = x - ax, y - ay, z - az
    d1, d2 = ux * x + uy * y + uz * z, vx * x + vy * y + vz * z
    uu, uv, vv = (
        ux * ux + uy * uy + uz * uz,
        ux * vx + uy * vy + uz * vz,
        vx * vx + vy * vy + vz * vz,
    )
    d3, d4, d5, d6 = d1 - uu, d2 - uv, d1 - uv, d2 - vv
    va, vb, vc = d3 * d6 - d5 * d4, d5 * d2 - d1 * d6, d1 * d4 - d3 * d2
    if d1 <= 0 and d2 <= 0:
        s, t = 0.0, 0.0
    elif d3 >= 0 and d4 <= d3:
        s, t = 1.0, 0.0
    elif d6 >= 0 and d5 <= d6:
        s, t = 0.0, 1.0
    elif vc <= 0 and d1 >= 0 and d3 <= 0:
        s, t = d1 / (d1 - d3), 0.0
    elif vb <= 0 and d2 >= 0 and d6 <= 0:
        s, t = 0.0, d2 / (d2 - d6)
    elif va <= 0 and d4 - d3 >= 0 and d5 - d6 >= 0:
        t = (d4 - d3) / ((d4 - d3) + (d5 - d6))
        s = 1.0 - t
    else:
        s, t = vb / (va + vb + vc), vc / (va + vb + vc)
    return x - s * ux - t * vx, y - s * uy - t * vy, z - s * uz - t * vz


@compiled_fused
def _box_distances(half, points, gaps, normals):  # type: ignore[no-untyped-def]
    for k in range(len(points)):
        gaps[k], normals[k, 0], normals[k, 1], normals[k, 2] = box_distance(
            half[0], half[1], half[2], points[k, 0], points[k, 1], points[k, 2]
        )


@compiled_fused
def _hull_distances(faces, points, gaps, normals):  # type: ignore[no-untyped-def]
    for k in range(len(points)):
        gaps[k], normals[k, 0], normals[k, 1], normals[k, 2] = hull_distance(
            faces, 0, len(faces), points[k, 0], points[k, 1], points[k, 2]
        )
