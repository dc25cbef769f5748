"""Cover of a surface by tets: points left out, bodies torn apart, tets not needed."""

from __future__ import annotations

import igl
import numpy as np
from scipy.spatial import cKDTree

from supple.arrays import Bools, Floats, Ints
from supple.mesh.filling.signed_distance import TriangleTree
from supple.mesh.tets import TetMesh
from supple.mesh.topology import components, row_keys

REACH = 0.45
"""A point is covered within this many cells of the tets; half a cell is promised."""


def bisected(vertices: Floats, triangles: Ints, longest: float) -> tuple[Floats, Ints]:
    """Halve triangles across their longest edge until no edge is longer than `longest`.

    The first vertices are the given ones; the given triangles lose their order.
    """
    done = []
    while len(triangles):
        corners = vertices[triangles]
        lengths = np.linalg.norm(corners - np.roll(corners, -1, axis=1), axis=2)
        side = np.argmax(lengths, axis=1)
        long = lengths.max(axis=1) > longest
        done.append(triangles[~long])
        turned = np.take_along_axis(
            triangles[long], (side[long][:, None] + np.arange(3)) % 3, axis=1
        )
        a, b, c = turned.T
        keys = row_keys(np.sort(turned[:, :2], axis=1), len(vertices))
        _, first, edge = np.unique(keys, return_index=True, return_inverse=True)
        middle = len(vertices) + edge
        vertices = np.concatenate([vertices, 0.5 * (vertices[a[first]] + vertices[b[first]])])
        triangles = np.concatenate(
            [np.column_stack([a, middle, c]), np.column_stack([middle, b, c])]
        )
    return vertices, np.concatenate(done)


def bundled(vertices: Floats, triangles: Ints, spacing: float) -> Ints:
    """Make all vertices of a grid cell one; return the triangles, each once.

    Around a needle or in a dense scan, thousands of triangles are equally near to a point,
    and a box tree has to look at all of them.
    """
    rounded = np.round((vertices - vertices.min(axis=0)) / spacing).astype(np.int64)
    keys = row_keys(rounded, int(rounded.max()) + 1)
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    rows = first[place.reshape(-1)][triangles]
    _, once = np.unique(row_keys(np.sort(rows, axis=1), len(vertices)), return_index=True)
    return rows[np.sort(once)]


def uncovered(points: Floats, vertices: Floats, tets: Ints, cell: float) -> Bools:
    """Mark the points that are neither inside the tets nor within `REACH` cells of them."""
    far = np.ones(len(points), dtype=bool)
    if len(tets) == 0:
        return far
    reach = REACH * cell
    used = np.unique(tets)
    # Most points lie near a vertex; only for the rest is it worth asking precisely.
    far = np.isinf(cKDTree(vertices[used]).query(points, distance_upper_bound=reach)[0])
    rest = np.flatnonzero(far)
    if len(rest) == 0:
        return far
    boundary = TetMesh(vertices, tets).boundary()
    outside = TriangleTree(vertices, boundary).distance(points[rest]) > reach
    far[rest[~outside]] = False
    rest = rest[outside]
    if len(rest):
        far[rest] = np.abs(igl.fast_winding_number(vertices, boundary, points[rest])) < 0.5
    return far


def pinched_edges(vertices: Floats, tets: Ints) -> Ints:
    """Find edges (k, 2) in which more than two faces of the boundary meet.

    `supple.mesh.filling.stuffing.split_pinches` has parted all bodies that only touch; what is left
    are slits one edge long, between tets that are connected around both ends of it.
    """
    boundary = TetMesh(vertices, tets).boundary()
    edges = np.sort(boundary[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
    keys = row_keys(edges, len(vertices))
    _, first, uses = np.unique(keys, return_index=True, return_counts=True)
    return edges[first[uses > 2]]


def torn(points: Floats, triangles: Ints, vertices: Floats, tets: Ints) -> Bools:
    """Find the surface triangles that run between separate bodies of tets that should be one.

    A body belongs to the surface component most of whose points are next to it. Bodies of
    different components may well be near each other; those of one must hang together, and so
    must those of two if one's surface begins inside the other's body.
    """
    bodies, label, nearest = _bodies(points, vertices, tets)
    at = label[nearest]
    across = np.flatnonzero(np.ptp(at[triangles], axis=1) > 0)
    apart = np.zeros(len(triangles), dtype=bool)
    if len(across) == 0:
        return apart
    surface = components(triangles, len(points))
    owner = _owners(surface, triangles, at, bodies)
    guests = np.flatnonzero(np.isin(surface, surface[across]))
    guests = guests[(owner[at[triangles[guests]]] != surface[guests, None]).any(axis=1)]
    linked = {(int(owner[body]), body) for body in range(bodies)}
    boundary = TetMesh(vertices, tets).boundary()
    for body in np.unique(at[triangles[guests]]):
        here = at[triangles[guests]] == body
        visitors, row = np.unique(triangles[guests][here], return_index=True)
        skin = boundary[label[boundary[:, 0]] == body]
        inside = np.abs(igl.fast_winding_number(vertices, skin, points[visitors])) > 0.5
        origin = np.broadcast_to(surface[guests, None], here.shape)[here][row]
        linked |= {(int(component), int(body)) for component in origin[inside]}
    for triangle in across:
        apart[triangle] = all(
            (int(surface[triangle]), int(at[corner])) in linked for corner in triangles[triangle]
        )
    return apart


def _owners(surface: Ints, triangles: Ints, at: Ints, bodies: int) -> Ints:
    """Find the surface component that has most triangle corners at each body."""
    n_surfaces = int(surface.max()) + 1
    pairs, votes = np.unique(at[triangles] * n_surfaces + surface[:, None], return_counts=True)
    order = np.argsort(votes, kind="stable")
    owner = np.full(bodies, -1, dtype=np.int64)
    owner[pairs[order] // n_surfaces] = pairs[order] % n_surfaces  # the last one stays
    return owner


def _bodies(points: Floats, vertices: Floats, tets: Ints) -> tuple[int, Ints, Ints]:
    """Number of connected bodies, the body of each vertex, and each point's nearest vertex."""
    of_tet = components(tets, len(vertices))
    label = np.full(len(vertices), -1, dtype=np.int64)
    label[tets] = of_tet[:, None]
    used = np.flatnonzero(label >= 0)
    nearest = used[cKDTree(vertices[used]).query(points)[1]]
    return int(of_tet.max()) + 1, label, nearest


def without_crumbs(points: Floats, vertices: Floats, tets: Ints, cell: float) -> Ints:
    """Drop bodies smaller than a cell that no point needs to be covered."""
    of_tet = components(tets, len(vertices))
    a, b, c, d = (vertices[tets[:, k]] for k in range(4))
    volumes = np.einsum("ij,ij->i", b - a, np.cross(c - a, d - a)) / 6
    crumb = np.bincount(of_tet, volumes) < cell**3
    if not crumb.any():
        return tets
    _, label, nearest = _bodies(points, vertices, tets)
    at = label[nearest]
    beside = np.flatnonzero(crumb[at])
    needed = uncovered(points[beside], vertices, tets[~crumb[of_tet]], cell)
    crumb[at[beside[needed]]] = False
    return tets[~crumb[of_tet]] if not crumb.all() else tets
