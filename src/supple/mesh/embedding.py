"""Points embedded in a tet mesh: location, and interpolation of its motion."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, vstack

from supple.arrays import Bools, Floats, Ints
from supple.compiled.jit import compiled
from supple.errors import MeshError
from supple.mesh.filling.bcc_lattice import AXIS_LIMIT, morton
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import OUTWARD_FACES, TetMesh
from supple.mesh.topology import face_keys

# Tets in a leaf of the tree.
_LEAF = 4
# Relative difference below which distances are equal: a nearest point may belong to several tets.
_TIE = 1e-9
# Tolerance of coordinates inside a tet, so that rounding opens no gap between neighbours.
_GAP = 1e-10


class Location(NamedTuple):
    """Locations of points in a tet mesh."""

    tet: Ints
    """Tet that contains each point, or the nearest one, (k,)."""
    barycentric: Floats
    """Barycentric coordinates in that tet, (k, 4), of sum 1; negative outside."""
    distance: Floats
    """Distance of each point from the tets, (k,); 0 inside."""


def embed(points: ArrayLike, mesh: TetMesh) -> csr_array:
    """Return the matrix that interpolates points from a mesh's vertices.

    Points outside are extrapolated from the nearest tet, so that they follow any affine motion of
    the mesh exactly; `locate` returns their distances.

    Parameters
    ----------
    points : (k, 3) array
        Positions of the points for the given mesh.
    mesh : TetMesh
        The mesh of n vertices.

    Returns
    -------
    (k, n) csr_array
        Barycentric coordinates, four to a row; ``embed(points, mesh) @ mesh.vertices`` are the
        points.

    Examples
    --------
    >>> mesh = TetMesh([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], [[0, 1, 2, 3]])
    >>> embed([[0.5, 0.25, 0.0]], mesh).toarray()
    array([[0.25, 0.5 , 0.25, 0.  ]])
    """
    where = locate(points, mesh)
    return corner_matrix(mesh.tets[where.tet], where.barycentric, len(mesh.vertices))


def corner_matrix(corners: Ints, weights: Floats, n_vertices: int) -> csr_array:
    """Return the (k, n_vertices) matrix with weights (k, c) at the corners (k, c) of each row."""
    order = np.argsort(corners, axis=1)
    values = np.take_along_axis(weights, order, axis=1)
    columns = np.take_along_axis(corners, order, axis=1)
    starts = np.arange(0, corners.size + 1, corners.shape[1])
    shape = (len(corners), n_vertices)
    return csr_array((values.ravel(), columns.ravel(), starts), shape=shape)


def locate(points: ArrayLike, mesh: TetMesh) -> Location:
    """Find the tet that contains each point, or else the nearest.

    If several tets are equally near, the one that extrapolates least is chosen, then the first.
    Flat tets are skipped.

    Parameters
    ----------
    points : (k, 3) array
        The points to find.
    mesh : TetMesh
        Where to look; tets may be inverted.

    Raises
    ------
    MeshError
        If points are not finite coordinates, or no tet has a volume.
    """
    queries = np.ascontiguousarray(points, dtype=np.float64)
    if queries.ndim != 2 or queries.shape[1] != 3:
        raise MeshError(f"points have shape {queries.shape}, not (k, 3)")
    if not np.isfinite(queries).all():
        bad = int(np.flatnonzero(~np.isfinite(queries).all(axis=1))[0])
        raise MeshError(f"point {bad} is not finite")
    usable = np.ones(len(mesh.tets), dtype=bool)
    usable[mesh.degenerate_tets()] = False
    index = np.flatnonzero(usable)
    if len(index) == 0:
        raise MeshError("no tet of the mesh has a volume; nothing can be embedded in it")
    tree = _tree(mesh, index)
    tet, barycentric = _holding(queries, *tree)
    outside = np.flatnonzero(tet < 0)
    distance = np.zeros(len(queries))
    if len(outside):
        # The nearest point is on the boundary, so only tets there are searched.
        at_boundary = index[_boundary_faces(mesh.tets[index], len(mesh.vertices)).any(axis=1)]
        tree = _tree(mesh, at_boundary)
        tet[outside], barycentric[outside], squared = _nearest(
            queries[outside], *tree, OUTWARD_FACES
        )
        distance[outside] = np.sqrt(np.maximum(squared, 0.0))
    return Location(tet, barycentric, distance)


def _boundary_faces(tets: Ints, n_vertices: int) -> Bools:
    """Return whether each face of each tet, (m, 4), is on the boundary."""
    keys = face_keys(tets, OUTWARD_FACES, n_vertices)
    _, face, uses = np.unique(keys, return_inverse=True, return_counts=True)
    return (uses[face] == 1).reshape(-1, 4)


class _Tree(NamedTuple):
    """Tets in Morton order, and the boxes of a complete binary tree over runs of them.
    Node i has the children 2 i + 1 and 2 i + 2. The last nodes hold `_LEAF` tets each; the
    boxes of nodes without tets are empty, that is inverted.
    """

    tets: Ints
    corners: Floats
    to_barycentric: Floats
    slopes: Floats
    lows: Floats
    highs: Floats


def _tree(mesh: TetMesh, index: Ints) -> _Tree:
    corners = mesh.vertices[mesh.tets[index]]
    centres = corners.mean(axis=1)
    low = centres.min(axis=0)
    extent = max(float(np.ptp(centres, axis=0).max()), np.finfo(float).tiny)
    order = np.argsort(morton((centres - low) / extent * (AXIS_LIMIT - 1)), kind="stable")
    corners = np.ascontiguousarray(corners[order])
    inverses = np.linalg.inv((corners[:, 1:] - corners[:, :1]).transpose(0, 2, 1))
    gradients = np.concatenate([-inverses.sum(axis=1, keepdims=True), inverses], axis=1)
    slopes = np.einsum("ijk,ijk->ij", gradients, gradients)
    return _Tree(index[order], corners, inverses, slopes, *_boxes(corners))


def _boxes(corners: Floats) -> tuple[Floats, Floats]:
    """Return the lowest and highest corners of the nodes' boxes, from the root to the leaves."""
    leaves = 1
    while leaves * _LEAF < len(corners):
        leaves *= 2
    low = np.full((leaves * _LEAF, 3), np.inf)
    high = np.full((leaves * _LEAF, 3), -np.inf)
    low[: len(corners)] = corners.min(axis=1)
    high[: len(corners)] = corners.max(axis=1)
    lows = [low.reshape(leaves, _LEAF, 3).min(axis=1)]
    highs = [high.reshape(leaves, _LEAF, 3).max(axis=1)]
    while len(lows[-1]) > 1:
        lows.append(lows[-1].reshape(-1, 2, 3).min(axis=1))
        highs.append(highs[-1].reshape(-1, 2, 3).max(axis=1))
    return np.concatenate(lows[::-1]), np.concatenate(highs[::-1])


# The kernels below write out sums of three numbers, which NumPy would make a hundred times slower.


@compiled
def _box_squared(x, y, z, low, high, node):  # type: ignore[no-untyped-def]
    u = max(low[node, 0] - x, x - high[node, 0], 0.0)
    v = max(low[node, 1] - y, y - high[node, 1], 0.0)
    w = max(low[node, 2] - z, z - high[node, 2], 0.0)
    return u * u + v * v + w * w


@compiled
def _segment_squared(along, squared, to_start):  # type: ignore[no-untyped-def]
    """Return the squared distance of a point to a segment of squared length `squared`.

    With w the vector from the segment's start to the point, `along` is its dot product with the
    segment, and `to_start` is w · w.
    """
    if along <= 0.0 or squared <= 0.0:
        return to_start
    if along >= squared:
        return to_start + squared - 2.0 * along
    return max(to_start - along * along / squared, 0.0)


@compiled
def _triangle_squared(x, y, z, c, i, j, k):  # type: ignore[no-untyped-def]
    """Return the squared distance of (x, y, z) to the triangle of corners i, j and k of `c`."""
    ux, uy, uz = c[j, 0] - c[i, 0], c[j, 1] - c[i, 1], c[j, 2] - c[i, 2]
    vx, vy, vz = c[k, 0] - c[i, 0], c[k, 1] - c[i, 1], c[k, 2] - c[i, 2]
    wx, wy, wz = x - c[i, 0], y - c[i, 1], z - c[i, 2]
    uu = ux * ux + uy * uy + uz * uz
    uv = ux * vx + uy * vy + uz * vz
    vv = vx * vx + vy * vy + vz * vz
    wu = wx * ux + wy * uy + wz * uz
    wv = wx * vx + wy * vy + wz * vz
    area = uu * vv - uv * uv
    s, t = wu * vv - wv * uv, wv * uu - wu * uv
    if area > 0.0 and s >= 0.0 and t >= 0.0 and s + t <= area:
        s, t = s / area, t / area
        fx, fy, fz = wx - s * ux - t * vx, wy - s * uy - t * vy, wz - s * uz - t * vz
        return fx * fx + fy * fy + fz * fz
    ww = wx * wx + wy * wy + wz * wz
    opposite = _segment_squared(wv - wu - uv + uu, uu + vv - 2.0 * uv, ww + uu - 2.0 * wu)
    return min(_segment_squared(wu, uu, ww), _segment_squared(wv, vv, ww), opposite)


@compiled
def _tet_squared(x, y, z, corners, b, faces):  # type: ignore[no-untyped-def]
    """Return the squared distance to a tet from a point with barycentric coordinates `b`."""
    nearest = np.inf
    for k in range(4):
        if b[k] < 0.0:
            squared = _triangle_squared(x, y, z, corners, faces[k, 0], faces[k, 1], faces[k, 2])
            nearest = min(nearest, squared)
    return nearest if nearest < np.inf else 0.0


@compiled
def _barycentric(x, y, z, corners, inverse, b):  # type: ignore[no-untyped-def]
    """Write the coordinates in a tet to b and return the least."""
    x, y, z = x - corners[0, 0], y - corners[0, 1], z - corners[0, 2]
    for k in range(3):
        b[k + 1] = inverse[k, 0] * x + inverse[k, 1] * y + inverse[k, 2] * z
    b[0] = 1.0 - b[1] - b[2] - b[3]
    return min(b[0], b[1], b[2], b[3])


@compiled
def _planes_squared(b, slopes):  # type: ignore[no-untyped-def]
    """Return a lower bound of the squared distance to a tet, from the farthest plane."""
    farthest = 0.0
    for k in range(4):
        if b[k] < 0.0:
            farthest = max(farthest, b[k] * b[k] / slopes[k])
    return farthest


@compiled
def _holding(points, tets, corners, inverses, slopes, lows, highs):  # type: ignore[no-untyped-def]
    """Find the tet that contains each point, or -1; on a common face, where it is deepest."""
    n, first_leaf = len(points), len(lows) // 2
    containing = np.full(n, -1, np.int64)
    barycentric = np.zeros((n, 4))
    stack = np.empty(64, np.int64)
    b = np.empty(4)
    for i in range(n):
        x, y, z = points[i, 0], points[i, 1], points[i, 2]
        depth, stack[0], best = 1, 0, -_GAP
        while depth:
            depth -= 1
            node = stack[depth]
            if (
                not (lows[node, 0] <= x <= highs[node, 0])
                or not (lows[node, 1] <= y <= highs[node, 1])
                or not (lows[node, 2] <= z <= highs[node, 2])
            ):
                continue
            if node < first_leaf:
                stack[depth], stack[depth + 1] = 2 * node + 1, 2 * node + 2
                depth += 2
                continue
            start = _LEAF * (node - first_leaf)
            for t in range(start, min(start + _LEAF, len(corners))):
                lowest = _barycentric(x, y, z, corners[t], inverses[t], b)
                first = lowest == best and (containing[i] < 0 or tets[t] < containing[i])
                if lowest > best or first:
                    best, containing[i] = lowest, tets[t]
                    for k in range(4):
                        barycentric[i, k] = b[k]
            if best > _TIE:
                break
    return containing, barycentric


@compiled
def _nearest(points, tets, corners, inverses, slopes, lows, highs, faces):  # type: ignore[no-untyped-def]
    """Find the tet nearest to each point, barycentric coordinates in it, and squared distances."""
    n, first_leaf = len(points), len(lows) // 2
    nearest_tets = np.zeros(n, np.int64)
    barycentric = np.zeros((n, 4))
    squared = np.full(n, np.inf)
    stack = np.empty(64, np.int64)
    reach = np.empty(64)
    b = np.empty(4)
    for i in range(n):
        x, y, z = points[i, 0], points[i, 1], points[i, 2]
        depth, stack[0], reach[0] = 1, 0, 0.0
        best, least = np.inf, -np.inf
        while depth:
            depth -= 1
            node = stack[depth]
            if reach[depth] > best * (1.0 + _TIE):
                continue
            if node < first_leaf:
                far, near = 2 * node + 1, 2 * node + 2
                to_far = _box_squared(x, y, z, lows, highs, far)
                to_near = _box_squared(x, y, z, lows, highs, near)
                if to_far < to_near:
                    far, near, to_far, to_near = near, far, to_near, to_far
                stack[depth], reach[depth] = far, to_far
                stack[depth + 1], reach[depth + 1] = near, to_near
                depth += 2
                continue
            start = _LEAF * (node - first_leaf)
            for t in range(start, min(start + _LEAF, len(corners))):
                lowest = _barycentric(x, y, z, corners[t], inverses[t], b)
                if _planes_squared(b, slopes[t]) > best * (1.0 + _TIE):
                    continue
                distance_squared = _tet_squared(x, y, z, corners[t], b, faces)
                if distance_squared > best * (1.0 + _TIE):
                    continue
                if distance_squared >= best * (1.0 - _TIE) and (
                    lowest < least or (lowest == least and tets[t] > nearest_tets[i])
                ):
                    continue
                best, least, nearest_tets[i] = min(best, distance_squared), lowest, tets[t]
                for k in range(4):
                    barycentric[i, k] = b[k]
        squared[i] = best
    return nearest_tets, barycentric, squared


#: Prefix of names of tet sets that carry certain components of a surface.
MARK = "carries component "


def part_set(components: Iterable[int]) -> str:
    """Return the name of the set of tets that carry only these components.

    >>> part_set([2, 5])
    'carries component 2,5'
    """
    return MARK + ",".join(str(int(each)) for each in components)


def embed_parts(surface: SurfaceMesh, points: Floats, owners: Ints, mesh: TetMesh) -> csr_array:
    """Return the matrix (k, n) that embeds points (k, 3) in tets of their surface component.

    `owners` (k,) are surface vertices of the same components as the points. Sets of tets that carry
    a component are named by `part_set`; without such sets, all tets carry all components.
    """
    sets = {name: tets for name, tets in mesh.sets.items() if name.startswith(MARK)}
    if not sets:
        return embed(points, mesh)
    part = np.zeros(len(surface.vertices), np.int64)
    part[surface.triangles] = surface.components()[:, None]
    rows, blocks = [], []
    unassigned = np.ones(len(points), bool)
    for name, tets in sets.items():
        members = np.isin(part[owners], [int(each) for each in name[len(MARK) :].split(",")])
        rows.append(np.flatnonzero(members & unassigned))
        unassigned &= ~members
        blocks.append(embed(points[rows[-1]], TetMesh(mesh.vertices, mesh.tets[tets])))
    rows.append(np.flatnonzero(unassigned))
    blocks.append(embed(points[rows[-1]], mesh))
    order = np.argsort(np.concatenate(rows), kind="stable")
    matrix = csr_array(vstack(blocks, format="csr"))
    return csr_array(matrix[order])
