"""Points carried by a tet mesh: where they are in it, and how they follow it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from supple.errors import MeshError
from supple.mesh.lattice import morton
from supple.mesh.tets import OUTWARD_FACES, TetMesh

__all__ = ["Location", "embed", "locate"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_LEAF = 4
# Distances this much apart (relative) are the same: the nearest place belongs to several tets.
_TIE = 1e-9


class Location(NamedTuple):
    """Where points are in a tet mesh."""

    tet: Ints
    """The tet that holds each point, or the nearest one, (k,)."""
    barycentric: Floats
    """Coordinates in that tet, (k, 4), adding up to 1; negative ones are outside."""
    distance: Floats
    """How far outside of all tets each point is, (k,)."""


def embed(points: ArrayLike, mesh: TetMesh) -> csr_array:
    """The matrix that carries points along with a mesh's vertices.

    Points outside are carried by the nearest tet, extrapolated, so that any affine motion of
    the mesh is followed exactly, however far away they are; `locate` tells how far.

    Parameters
    ----------
    points : (k, 3) array
        Where the points are while the mesh is as given.
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
    columns = mesh.tets[where.tet]
    order = np.argsort(columns, axis=1)
    values = np.take_along_axis(where.barycentric, order, axis=1)
    indices = np.take_along_axis(columns, order, axis=1)
    starts = np.arange(0, 4 * len(columns) + 1, 4)
    shape = (len(columns), len(mesh.vertices))
    return csr_array((values.ravel(), indices.ravel(), starts), shape=shape)


def locate(points: ArrayLike, mesh: TetMesh) -> Location:
    """Find the tet that holds each point, or else the nearest.

    Of several equally near tets it is the one that extrapolates least, then the first. Tets
    without volume are passed over.

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
    places = np.ascontiguousarray(points, dtype=np.float64)
    if places.ndim != 2 or places.shape[1] != 3:
        raise MeshError(f"points have shape {places.shape}, not (k, 3)")
    if not np.isfinite(places).all():
        bad = int(np.flatnonzero(~np.isfinite(places).all(axis=1))[0])
        raise MeshError(f"point {bad} is not finite")
    usable = np.ones(len(mesh.tets), dtype=bool)
    usable[mesh.degenerate_tets()] = False
    index = np.flatnonzero(usable)
    if len(index) == 0:
        raise MeshError("no tet of the mesh has a volume; nothing can be embedded in it")
    corners = mesh.vertices[mesh.tets[index]]
    order, lows, highs = _tree(corners)
    corners, index = np.ascontiguousarray(corners[order]), index[order]
    to_barycentric = np.linalg.inv((corners[:, 1:] - corners[:, :1]).transpose(0, 2, 1))
    gradients = np.concatenate([-to_barycentric.sum(axis=1, keepdims=True), to_barycentric], axis=1)
    slopes = np.einsum("ijk,ijk->ij", gradients, gradients)
    found, barycentric, squared = _locate(
        places, corners, to_barycentric, slopes, index, lows, highs, OUTWARD_FACES
    )
    return Location(index[found], barycentric, np.sqrt(squared))


def _tree(corners: Floats) -> tuple[Ints, Floats, Floats]:
    """Tets in Morton order, and the boxes of a complete binary tree over runs of them.

    Node i has the children 2 i + 1 and 2 i + 2; the last nodes hold `_LEAF` tets each, the
    boxes of leaves without tets are empty (inverted).
    """
    centres = corners.mean(axis=1)
    low = centres.min(axis=0)
    extent = max(float(np.ptp(centres, axis=0).max()), np.finfo(float).tiny)
    order = np.argsort(morton((centres - low) / extent * ((1 << 21) - 1)), kind="stable")
    leaves = 1
    while leaves * _LEAF < len(corners):
        leaves *= 2
    padded_low = np.full((leaves * _LEAF, 3), np.inf)
    padded_high = np.full((leaves * _LEAF, 3), -np.inf)
    padded_low[: len(corners)] = corners[order].min(axis=1)
    padded_high[: len(corners)] = corners[order].max(axis=1)
    lows = [padded_low.reshape(leaves, _LEAF, 3).min(axis=1)]
    highs = [padded_high.reshape(leaves, _LEAF, 3).max(axis=1)]
    while len(lows[-1]) > 1:
        lows.append(lows[-1].reshape(-1, 2, 3).min(axis=1))
        highs.append(highs[-1].reshape(-1, 2, 3).max(axis=1))
    return order, np.concatenate(lows[::-1]), np.concatenate(highs[::-1])


# The kernels below write out their sums: for three numbers, NumPy's dot and temporaries cost a
# hundred times the arithmetic.


@njit(cache=True, nogil=True)
def _box_squared(x, y, z, low, high, node):  # type: ignore[no-untyped-def]
    u = max(low[node, 0] - x, x - high[node, 0], 0.0)
    v = max(low[node, 1] - y, y - high[node, 1], 0.0)
    w = max(low[node, 2] - z, z - high[node, 2], 0.0)
    return u * u + v * v + w * w


@njit(cache=True, nogil=True)
def _segment_squared(along, squared, to_start):  # type: ignore[no-untyped-def]
    """Squared distance to a segment: projection on it, its squared length, that to its start."""
    if along <= 0.0 or squared <= 0.0:
        return to_start
    if along >= squared:
        return to_start + squared - 2.0 * along
    return max(to_start - along * along / squared, 0.0)


@njit(cache=True, nogil=True)
def _triangle_squared(x, y, z, c, i, j, k):  # type: ignore[no-untyped-def]
    """Squared distance to triangle i j k: to its plane if the foot is inside, else to an edge."""
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


@njit(cache=True, nogil=True)
def _tet_squared(x, y, z, corners, b, faces):  # type: ignore[no-untyped-def]
    """Squared distance to a tet: a face can be nearest only if the point is beyond it."""
    nearest = np.inf
    for k in range(4):
        if b[k] < 0.0:
            away = _triangle_squared(x, y, z, corners, faces[k, 0], faces[k, 1], faces[k, 2])
            nearest = min(nearest, away)
    return nearest if nearest < np.inf else 0.0


@njit(cache=True, nogil=True)
def _barycentric(x, y, z, corners, inverse, b):  # type: ignore[no-untyped-def]
    """Fill b with the coordinates in a tet and return the least."""
    x, y, z = x - corners[0, 0], y - corners[0, 1], z - corners[0, 2]
    for k in range(3):
        b[k + 1] = inverse[k, 0] * x + inverse[k, 1] * y + inverse[k, 2] * z
    b[0] = 1.0 - b[1] - b[2] - b[3]
    return min(b[0], b[1], b[2], b[3])


@njit(cache=True, nogil=True)
def _planes_squared(b, slopes):  # type: ignore[no-untyped-def]
    """A bound below the squared distance to a tet: that to the farthest plane it is beyond."""
    farthest = 0.0
    for k in range(4):
        if b[k] < 0.0:
            farthest = max(farthest, b[k] * b[k] / slopes[k])
    return farthest


@njit(cache=True, nogil=True)
def _locate(points, corners, inverses, slopes, index, lows, highs, faces):  # type: ignore[no-untyped-def]
    n, first_leaf = len(points), len(lows) // 2
    found = np.zeros(n, np.int64)
    barycentric = np.zeros((n, 4))
    squared = np.full(n, np.inf)
    stack = np.empty(128, np.int64)
    reach = np.empty(128)
    b = np.empty(4)
    for i in range(n):
        x, y, z = points[i, 0], points[i, 1], points[i, 2]
        depth = 1
        stack[0], reach[0] = 0, 0.0
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
                away = 0.0
                if lowest < 0.0:
                    if _planes_squared(b, slopes[t]) > best * (1.0 + _TIE):
                        continue
                    away = _tet_squared(x, y, z, corners[t], b, faces)
                if away > best * (1.0 + _TIE):
                    continue
                if away >= best * (1.0 - _TIE) and (
                    lowest < least or (lowest == least and index[t] > index[found[i]])
                ):
                    continue
                best, least = min(best, away), lowest
                found[i] = t
                for k in range(4):
                    barycentric[i, k] = b[k]
            if least > _TIE:
                break
        squared[i] = best
    return found, barycentric, squared
