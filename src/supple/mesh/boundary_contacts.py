"""Contacts of the boundary of a posed tet mesh with itself and with obstacles."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.arrays import Floats, Ints
from supple.checks import checked_array, checked_number, numbers
from supple.errors import SuppleError
from supple.mesh.contact_search import APART, facing_triangles, posed_boundary
from supple.mesh.obstacles import Obstacle, check_obstacle
from supple.mesh.tets import TetMesh
from supple.mesh.topology import LARGEST_COORDINATE

#: How near touching parts are, as a part of the boundary's mean edge at the neutral pose.
TOUCHING = 0.5
#: How far apart they are there at the neutral pose, in such edges.
FAR = 2.0
#: How far an obstacle's way out may be from a unit vector.
UNIT = 1e-4


@dataclass(frozen=True, eq=False, repr=False)
class BoundaryContacts:
    """Vertices of a posed tet mesh that touch something, c of them.

    BoundaryContacts with the body itself come first, then those with each obstacle in turn; both by
    vertex. A vertex touches the body at one place at most, and each obstacle once.

    Attributes
    ----------
    vertices
        (c,) the tet vertices.
    others
        (c, 3) the vertices of the boundary triangle touched, or -1 for an obstacle.
    barycentric
        (c, 3) where on the triangle; zero for an obstacle.
    normals
        (c, 3) unit, out of what is touched, in world coordinates at the pose.
    gaps
        (c,) distance in metres, negative where the vertex is inside what it touches.
    obstacles
        (c,) number of the obstacle, or -1 for the body itself.
    """

    vertices: Ints
    others: Ints
    barycentric: Floats
    normals: Floats
    gaps: Floats
    obstacles: Ints

    def __len__(self) -> int:
        return len(self.vertices)

    def __repr__(self) -> str:
        own = int((self.obstacles < 0).sum())
        return f"BoundaryContacts({own} with the body itself, {len(self) - own} with obstacles)"

    def __getitem__(self, chosen: NDArray) -> BoundaryContacts:
        """Return some of the contacts, by mask or by number."""
        return BoundaryContacts(*(values[chosen] for values in self._columns()))

    def _columns(self) -> tuple[NDArray, ...]:
        return (
            self.vertices,
            self.others,
            self.barycentric,
            self.normals,
            self.gaps,
            self.obstacles,
        )


def find_boundary_contacts(
    mesh: TetMesh,
    rest: ArrayLike | None,
    posed: ArrayLike,
    *,
    distance: float | None = None,
    obstacles: Iterable[Obstacle] = (),
) -> BoundaryContacts:
    """Find the contacts of the boundary of a tet mesh at a pose (xu2016 §6).

    A boundary vertex touches another part of the body where it is within `distance` of a
    boundary triangle, in front of it or inside, the two face each other, and at the neutral
    pose they are two mean edges apart, and three times as far as at the pose. So neighbours on
    the same patch of skin, both sides of a thin part and folds that are there at the neutral
    pose are no contacts; the neutral pose itself has none.

    Parameters
    ----------
    mesh
        The tets; their boundary is what touches.
    rest
        (n, 3) vertices at the neutral pose, or None for the mesh's own.
    posed
        (n, 3) vertices at the pose.
    distance
        How near is touching, in metres; by default half the mean edge of the boundary.
    obstacles
        Things the boundary may touch, as the pose has them: vertices within the distance of
        one, or inside however deep, touch it.

    Raises
    ------
    SuppleError
        For positions of the wrong shape or not finite, a distance that is not positive, or
        something that is no obstacle.
    """
    here = _positions("posed vertices", posed, mesh)
    neutral = mesh.vertices if rest is None else _positions("rest vertices", rest, mesh)
    triangles = mesh.boundary()
    edge = _mean_edge(neutral, triangles)
    near = TOUCHING * edge if distance is None else _checked(distance)
    found = [_own_contacts(here, neutral, triangles, near, FAR * edge)]
    vertices = np.unique(triangles)
    for number, obstacle in enumerate(_listed(obstacles)):
        found.append(_obstacle_contacts(here, vertices, obstacle, number, near))
    columns = zip(*(contacts._columns() for contacts in found), strict=True)
    return BoundaryContacts(*(np.concatenate(parts) for parts in columns))


def _positions(what: str, values: ArrayLike, mesh: TetMesh) -> Floats:
    points = checked_array(what, values, mesh.vertices.shape)
    if np.abs(points).max() > LARGEST_COORDINATE:
        raise SuppleError(f"{what}: farther than {LARGEST_COORDINATE:g} from the origin")
    return points


def _checked(distance: float) -> float:
    near = checked_number("distance of contacts", distance)
    if near <= 0.0:
        raise SuppleError(f"the distance of contacts is {near:g}; it must be positive")
    return near


def _listed(obstacles: Iterable[Obstacle]) -> tuple[Obstacle, ...]:
    if isinstance(obstacles, Obstacle) or not isinstance(obstacles, Iterable):
        raise SuppleError("obstacles must be a list, even if there is only one")
    return tuple(obstacles)


def _mean_edge(points: Floats, triangles: Ints) -> float:
    ends = points[triangles]
    return float(np.linalg.norm(ends - np.roll(ends, 1, axis=1), axis=2).mean())


def _own_contacts(
    posed: Floats, rest: Floats, triangles: Ints, near: float, far: float
) -> BoundaryContacts:
    # In a unit in which the body is not larger than 1: winding numbers are taken in float32.
    _, exponent = np.frexp(max(np.ptp(posed, axis=0).max(), np.ptp(rest, axis=0).max()))
    unit = float(np.ldexp(1.0, exponent))
    boundary = posed_boundary(posed / unit, triangles)
    # Nothing is farther apart than the body is long: no need to look at every pair.
    near = min(near, float(np.linalg.norm(np.ptp(rest, axis=0))) / APART)
    touches = facing_triangles(boundary, rest / unit, near / unit, far / unit)
    kept = np.flatnonzero(touches.triangle >= 0)
    return BoundaryContacts(
        boundary.vertices[kept],
        boundary.triangles[touches.triangle[kept]],
        touches.barycentric[kept],
        touches.normal[kept],
        touches.gap[kept] * unit,
        np.full(len(kept), -1),
    )


def _obstacle_contacts(
    posed: Floats, vertices: Ints, obstacle: Obstacle, number: int, near: float
) -> BoundaryContacts:
    check_obstacle(number, obstacle)
    gaps, normals = _checked_distances(obstacle, posed[vertices], number)
    touching = np.flatnonzero(gaps <= near)
    gaps, normals = gaps[touching], normals[touching]
    lengths = np.linalg.norm(normals, axis=1)
    wrong = ~(np.isfinite(gaps) & (np.abs(lengths - 1) <= UNIT))
    if wrong.any():
        vertex = vertices[touching[int(np.argmax(wrong))]]
        raise SuppleError(
            f"obstacle {number} has no distance or no way out of length 1 at vertex {vertex}"
        )
    count = len(touching)
    return BoundaryContacts(
        vertices[touching],
        np.full((count, 3), -1),
        np.zeros((count, 3)),
        normals,
        gaps,
        np.full(count, number),
    )


def _checked_distances(obstacle: Obstacle, points: Floats, number: int) -> tuple[Floats, Floats]:
    """Ask an obstacle for distances, and check the answer: anybody may write one."""
    try:
        gaps, normals = obstacle.distances(points)
    except (TypeError, ValueError):
        raise SuppleError(
            f"obstacle {number} does not give two arrays, distances and ways out"
        ) from None
    gaps = numbers(f"distances of obstacle {number}", gaps)
    normals = numbers(f"ways out of obstacle {number}", normals)
    if gaps.shape != (len(points),) or normals.shape != points.shape:
        raise SuppleError(
            f"obstacle {number} gives distances of shape {gaps.shape} and ways out of shape "
            f"{normals.shape}; expected {(len(points),)} and {points.shape}"
        )
    if np.isnan(gaps).any():
        raise SuppleError(f"distances of obstacle {number} are no numbers somewhere")
    return gaps, normals
