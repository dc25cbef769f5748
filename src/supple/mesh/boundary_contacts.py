"""Contacts of the boundary of a posed tet mesh with itself and with obstacles."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import igl
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import cKDTree

from supple.arrays import Bools, Floats, Ints
from supple.checks import checked_array, checked_number, numbers
from supple.compiled.jit import compiled
from supple.errors import SuppleError
from supple.mesh.obstacles import Obstacle, checked_obstacles
from supple.mesh.tets import TetMesh
from supple.mesh.topology import LARGEST_COORDINATE

#: Smallest ratio of the distances of touching points at the neutral pose and at the pose.
APART = 3.0
# Crease angle in degrees: corners of triangles within it share a normal.
_CREASE = 40.0
# Two sides face each other when their normals are within 60 degrees of opposed.
_OPPOSED = -0.5
# Largest tangential fraction of the offset of a vertex from its nearest point on a triangle.
_SIDEWAYS = 0.7
# Tolerance of the side of a triangle, as a fraction of the distance.
_SLACK = 0.01
# Largest number of pairs of vertices and triangles processed together: 8 MB.
_MOST_PAIRS = 1_000_000
#: Contact distance, as a fraction of the boundary's mean edge at the neutral pose.
TOUCHING = 0.5
#: Smallest distance of touching parts at the neutral pose, in mean edges of the boundary.
FAR = 2.0
#: Tolerance of the length of an obstacle's normals.
UNIT = 1e-4


class PosedBoundary(NamedTuple):
    """Boundary of tets at a pose: vertices, triangles of nonzero area, and normals."""

    points: Floats  # (n, 3) of all tet vertices, around their middle
    triangles: Ints  # (m, 3)
    vertices: Ints  # (k,) that the triangles use, ascending
    normals: Floats  # (k, 3) unit, outward
    corner_normals: Floats  # (m, 3, 3) unit, outward


class NearestTriangles(NamedTuple):
    """Touched triangle of each of k vertices, or -1, and the nearest point on it."""

    triangle: Ints  # (k,)
    barycentric: Floats  # (k, 3)
    normal: Floats  # (k, 3) unit, out of the touched part
    gap: Floats  # (k,) signed


def posed_boundary(posed: Floats, triangles: Ints) -> PosedBoundary:
    """Return the boundary at a pose, with normals; flat triangles are left out."""
    # Centred, so that a character far from the origin does not lose digits.
    points = np.ascontiguousarray(posed - posed.mean(axis=0))
    a, b, c = (points[triangles[:, k]] for k in range(3))
    doubled = np.linalg.norm(np.cross(b - a, c - a), axis=1)
    longest = np.sqrt(np.max([((q - p) ** 2).sum(axis=1) for p, q in ((a, b), (b, c), (c, a))], 0))
    kept = np.ascontiguousarray(triangles[doubled > 1e-9 * longest**2])
    vertices = np.unique(kept)
    if len(kept) == 0:
        return PosedBoundary(points, kept, vertices, np.empty((0, 3)), np.empty((0, 3, 3)))
    # Weighted by angle, as area weights depend on the number of triangles.
    weighting = igl.PER_VERTEX_NORMALS_WEIGHTING_TYPE_ANGLE
    normals = np.nan_to_num(igl.per_vertex_normals(points, kept, weighting)[vertices])
    corners = np.nan_to_num(igl.per_corner_normals(points, kept, _CREASE)).reshape(-1, 3, 3)
    return PosedBoundary(points, kept, vertices, normals, corners)


def facing_triangles(
    boundary: PosedBoundary, rest: Floats, distance: float, far: float
) -> NearestTriangles:
    """Find the nearest triangle that each vertex touches: at most `distance` away at the pose. At
    the neutral pose, with tet vertices `rest` (n, 3), the same points are at least `far` apart, and
    at least `APART` times their distance at the pose.
    """
    count = len(boundary.vertices)
    nearest = NearestTriangles(
        np.full(count, -1, np.int64), np.zeros((count, 3)), np.zeros((count, 3)), np.zeros(count)
    )
    if count == 0:  # libigl's trees must not be empty
        return nearest
    inside = _inside_another_part(boundary, _SLACK * distance)
    for first, starts, candidates in _candidates(boundary, distance):
        _nearest_facing(first, starts, candidates, boundary, inside, rest, distance, far, nearest)
    return nearest


def _inside_another_part(boundary: PosedBoundary, step: float) -> Bools:
    """Return whether the body contains a point slightly outside the surface at each vertex."""
    tree = igl.FastWindingNumberBVH()
    tree.init(boundary.points, boundary.triangles)
    outside = boundary.points[boundary.vertices] + step * boundary.normals
    return np.asarray(tree.winding_number(outside)) > 0.5


def _candidates(boundary: PosedBoundary, distance: float) -> Iterator[tuple[int, Ints, Ints]]:
    """Yield the first vertex of each block, and CSR lists of triangles that may be near each."""
    corners = boundary.points[boundary.triangles]
    middles = corners.mean(axis=1)
    radius = np.linalg.norm(corners - middles[:, None], axis=2).max()
    reach = (distance + radius) * (1 + 1e-9)
    tree, points = cKDTree(middles), boundary.points[boundary.vertices]
    ends = np.cumsum(tree.query_ball_point(points, reach, return_length=True))
    first = 0
    while first < len(points):
        before = ends[first - 1] if first else 0
        last = max(int(np.searchsorted(ends, before + _MOST_PAIRS, "right")), first + 1)
        lists = tree.query_ball_point(points[first:last], reach, return_sorted=True)
        starts = np.append(0, ends[first:last] - before)
        yield first, starts, np.fromiter(chain.from_iterable(lists), np.int64, starts[-1])
        first = last


@compiled
def _dot(a: Floats, b: Floats) -> float:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@compiled
def _dot_from(o: Floats, a: Floats, b: Floats) -> float:
    """Return (a − o) · (b − o)."""
    return (
        (a[0] - o[0]) * (b[0] - o[0])
        + (a[1] - o[1]) * (b[1] - o[1])
        + (a[2] - o[2]) * (b[2] - o[2])
    )


@compiled
def nearest_on_triangle(p: Floats, a: Floats, b: Floats, c: Floats) -> tuple[float, float, float]:
    """Return barycentric coordinates of the point of a triangle nearest to p, by the region of the
    triangle's plane below p: of a corner, an edge or the inside.
    """
    bb, bc, cc = _dot_from(a, b, b), _dot_from(a, b, c), _dot_from(a, c, c)
    b_a, c_a = _dot_from(a, b, p), _dot_from(a, c, p)  # p along ab and ac, seen from a,
    b_b, c_b = b_a - bb, c_a - bc  # from b
    b_c, c_c = b_a - bc, c_a - cc  # and from c
    if b_a <= 0.0 and c_a <= 0.0:
        return 1.0, 0.0, 0.0
    if b_b >= 0.0 and c_b <= b_b:
        return 0.0, 1.0, 0.0
    if c_c >= 0.0 and b_c <= c_c:
        return 0.0, 0.0, 1.0
    over_c = b_a * c_b - b_b * c_a
    if over_c <= 0.0 and b_a >= 0.0 and b_b <= 0.0:
        along = b_a / (b_a - b_b)
        return 1.0 - along, along, 0.0
    over_b = b_c * c_a - b_a * c_c
    if over_b <= 0.0 and c_a >= 0.0 and c_c <= 0.0:
        along = c_a / (c_a - c_c)
        return 1.0 - along, 0.0, along
    over_a = b_b * c_c - b_c * c_b
    if over_a <= 0.0 and c_b >= b_b and b_c >= c_c:
        along = (c_b - b_b) / ((c_b - b_b) + (b_c - c_c))
        return 0.0, 1.0 - along, along
    total = over_a + over_b + over_c
    return 1.0 - over_b / total - over_c / total, over_b / total, over_c / total


@compiled
def _mix(u: float, v: float, w: float, a: Floats, b: Floats, c: Floats, out: Floats) -> None:
    for x in range(3):
        out[x] = u * a[x] + v * b[x] + w * c[x]


@compiled
def _signed_gap(
    point: Floats, foot: Floats, point_normal: Floats, normal: Floats, inside: bool, distance: float
) -> float:
    """Return the signed gap of a point to its foot on a triangle, or inf without contact.
    `point_normal` is the unit normal at the point, `normal` the unit normal at the foot.
    """
    if _dot(point_normal, normal) > _OPPOSED:
        return np.inf
    gap = math.sqrt(_dot_from(foot, point, point))
    over = _dot(point, normal) - _dot(foot, normal)
    # From outside, the vertex is in front of the triangle; across a thin part it is behind.
    if (over if inside else -over) > _SLACK * distance:
        return np.inf
    if gap * gap - over * over > max(_SIDEWAYS * gap, 10 * _SLACK * distance) ** 2:
        return np.inf
    return math.copysign(gap, over)


@compiled
def _nearest_facing(
    first: int,
    starts: Ints,
    candidates: Ints,
    boundary: PosedBoundary,
    inside: Bools,
    rest: Floats,
    distance: float,
    far: float,
    out: NearestTriangles,
) -> None:
    """Write the nearest triangles of the vertices from `first` on; the first of equally near."""
    points, triangles, normals = boundary.points, boundary.triangles, boundary.normals
    corner_normals, vertices = boundary.corner_normals, boundary.vertices
    foot, rest_foot, normal = np.empty(3), np.empty(3), np.empty(3)
    for i in range(len(starts) - 1):
        k = first + i
        vertex, nearest = vertices[k], distance * (1 + 1e-12)
        for t in candidates[starts[i] : starts[i + 1]]:
            a, b, c = triangles[t]
            if vertex in (a, b, c):
                continue
            u, v, w = nearest_on_triangle(points[vertex], points[a], points[b], points[c])
            _mix(u, v, w, rest[a], rest[b], rest[c], rest_foot)
            _mix(u, v, w, points[a], points[b], points[c], foot)
            apart = APART * math.sqrt(_dot_from(foot, points[vertex], points[vertex]))
            if _dot_from(rest_foot, rest[vertex], rest[vertex]) < max(far, apart) ** 2:
                continue
            _mix(u, v, w, corner_normals[t, 0], corner_normals[t, 1], corner_normals[t, 2], normal)
            normal /= max(math.sqrt(_dot(normal, normal)), 1e-300)
            gap = _signed_gap(points[vertex], foot, normals[k], normal, inside[k], distance)
            if abs(gap) < nearest:
                nearest = abs(gap)
                out.triangle[k], out.gap[k] = t, gap
                out.barycentric[k, 0], out.barycentric[k, 1], out.barycentric[k, 2] = u, v, w
                out.normal[k] = normal


@dataclass(frozen=True, eq=False, repr=False)
class BoundaryContacts:
    """Vertices of a posed tet mesh in contact, c of them.

    Contacts of the body with itself come first, then contacts with each obstacle, both ordered
    by vertex. A vertex has at most one contact with the body, and one with each obstacle.

    Attributes
    ----------
    vertices
        (c,) tet vertices.
    others
        (c, 3) vertices of the touched boundary triangle, or -1 for an obstacle.
    barycentric
        (c, 3) barycentric weights on the triangle; zero for an obstacle.
    normals
        (c, 3) unit normals of the touched surface, in world coordinates at the pose.
    gaps
        (c,) distance in metres, negative for a vertex inside.
    obstacles
        (c,) index of the obstacle, or -1 for the body itself.
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
        count = int((self.obstacles < 0).sum())
        return f"BoundaryContacts({count} with the body itself, {len(self) - count} with obstacles)"

    def __getitem__(self, chosen: NDArray) -> BoundaryContacts:
        """Return some of the contacts, by mask or by indices."""
        return BoundaryContacts(*(values[chosen] for values in vars(self).values()))


def find_boundary_contacts(
    mesh: TetMesh,
    rest: ArrayLike | None,
    posed: ArrayLike,
    *,
    distance: float | None = None,
    obstacles: Iterable[Obstacle] = (),
) -> BoundaryContacts:
    """Find the contacts of the boundary of a tet mesh at a pose (xu2016 §6).

    A boundary vertex touches another part of the body if it is within `distance` of a boundary
    triangle or inside, the two face each other, and at the neutral pose they are at least two mean
    edges apart and three times as far as at the pose. So neighbours on the same patch of skin, both
    sides of a thin part, and folds of the neutral pose are not contacts.

    Parameters
    ----------
    mesh
        The tets, whose boundary may touch.
    rest
        (n, 3) vertices at the neutral pose, or None for the mesh's vertices.
    posed
        (n, 3) vertices at the pose.
    distance
        Contact distance in metres; by default half the mean edge of the boundary.
    obstacles
        Obstacles at the pose: vertices within the distance, or inside, touch them.

    Raises
    ------
    SuppleError
        For positions of the wrong shape or not finite, a distance that is not positive, or an
        invalid obstacle.
    """
    points = _positions("posed vertices", posed, mesh)
    neutral = mesh.vertices if rest is None else _positions("rest vertices", rest, mesh)
    triangles = mesh.boundary()
    edge = _mean_edge(neutral, triangles)
    near = TOUCHING * edge
    if distance is not None:
        near = checked_number("distance of contacts", distance)
        if near <= 0.0:
            raise SuppleError(f"the distance of contacts is {near:g}; it must be positive")
    contacts_by_collider = [_self_contacts(points, neutral, triangles, near, FAR * edge)]
    vertices = np.unique(triangles)
    for number, obstacle in enumerate(checked_obstacles(obstacles, most=None)):
        contacts_by_collider.append(_obstacle_contacts(points, vertices, obstacle, number, near))
    columns = zip(*(vars(contacts).values() for contacts in contacts_by_collider), strict=True)
    return BoundaryContacts(*(np.concatenate(parts) for parts in columns))


def _positions(what: str, values: ArrayLike, mesh: TetMesh) -> Floats:
    points = checked_array(what, values, mesh.vertices.shape)
    if np.abs(points).max() > LARGEST_COORDINATE:
        raise SuppleError(f"{what}: a point is farther than {LARGEST_COORDINATE:g} from the origin")
    return points


def _mean_edge(points: Floats, triangles: Ints) -> float:
    ends = points[triangles]
    return float(np.linalg.norm(ends - np.roll(ends, 1, axis=1), axis=2).mean())


def _self_contacts(
    posed: Floats, rest: Floats, triangles: Ints, near: float, far: float
) -> BoundaryContacts:
    # Scaled to at most 1, as winding numbers are computed in float32.
    _, exponent = np.frexp(max(np.ptp(posed, axis=0).max(), np.ptp(rest, axis=0).max()))
    unit = float(np.ldexp(1.0, exponent))
    boundary = posed_boundary(posed / unit, triangles)
    # Bounded by the size of the body.
    near = min(near, float(np.linalg.norm(np.ptp(rest, axis=0))) / APART)
    nearest = facing_triangles(boundary, rest / unit, near / unit, far / unit)
    touching = np.flatnonzero(nearest.triangle >= 0)
    return BoundaryContacts(
        boundary.vertices[touching],
        boundary.triangles[nearest.triangle[touching]],
        nearest.barycentric[touching],
        nearest.normal[touching],
        nearest.gap[touching] * unit,
        np.full(len(touching), -1),
    )


def _obstacle_contacts(
    posed: Floats, vertices: Ints, obstacle: Obstacle, number: int, near: float
) -> BoundaryContacts:
    gaps, normals = _checked_distances(obstacle, posed[vertices], number)
    touching = np.flatnonzero(gaps <= near)
    gaps, normals = gaps[touching], normals[touching]
    lengths = np.linalg.norm(normals, axis=1)
    wrong = ~(np.isfinite(gaps) & (np.abs(lengths - 1) <= UNIT))
    if wrong.any():
        vertex = vertices[touching[int(np.argmax(wrong))]]
        raise SuppleError(f"obstacle {number} has no distance or no unit normal at vertex {vertex}")
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
    """Return checked distances (k,) and normals (k, 3): users may implement obstacles."""
    try:
        gaps, normals = obstacle.distances(points)
    except (TypeError, ValueError):
        raise SuppleError(
            f"obstacle {number} does not return two arrays, distances and normals"
        ) from None
    gaps = numbers(f"distances of obstacle {number}", gaps)
    normals = numbers(f"normals of obstacle {number}", normals)
    if gaps.shape != (len(points),) or normals.shape != points.shape:
        raise SuppleError(
            f"obstacle {number} returns distances of shape {gaps.shape} and normals of shape "
            f"{normals.shape}; expected {(len(points),)} and {points.shape}"
        )
    if np.isnan(gaps).any():
        raise SuppleError(f"distances of obstacle {number} contain NaN")
    return gaps, normals
