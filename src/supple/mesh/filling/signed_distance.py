"""Signed distance of a triangle soup.

Distances come from libigl's box tree, signs from the generalized winding number (A. Jacobson,
L. Kavan and O. Sorkine-Hornung, "Robust Inside-Outside Segmentation using Generalized Winding
Numbers", SIGGRAPH 2013; G. Barill et al., "Fast Winding Numbers for Soups and Clouds", 2018).
Winding numbers need triangles that face outward, so patches are oriented first.
"""

from __future__ import annotations

from typing import NamedTuple

import igl
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from supple.arrays import Bools, Floats, Ints
from supple.errors import MeshError
from supple.mesh.surface import SurfaceMesh
from supple.mesh.topology import FLAT, half_edges, row_keys

# Ratio of the summed area vectors to the area above which a patch is a sheet without volume: a
# hemisphere has ½, a flat patch 1, a closed surface 0.
_SHEET = 0.6
# Ratio below which several sheets are the panels of one body.
_PANELS = 0.1


def welded_at_unit_size(surface: SurfaceMesh) -> tuple[SurfaceMesh, Ints, float]:
    """Return the surface welded and scaled to a size of about 1, its triangles with an area, and
    the length of the unit: a power of two, so that scaling rounds nothing.
    """
    index, triangles = np.unique(surface.triangles, return_inverse=True)
    used = surface.vertices[index]
    length = float(np.ptp(used, axis=0).max())
    if not length > FLAT * float(np.abs(used).max()):
        raise MeshError("the surface is a single point; nothing can be filled")
    unit = float(np.ldexp(1.0, int(np.frexp(length)[1])))
    welded, _ = SurfaceMesh(used / unit, triangles.reshape(-1, 3)).welded()
    return welded, np.delete(welded.triangles, welded.degenerate_triangles(), axis=0), unit


class TriangleTree:
    """Unsigned distances to triangles."""

    def __init__(self, vertices: Floats, triangles: Ints) -> None:
        self._vertices, self._triangles = vertices, triangles
        self._tree = igl.AABB()
        self._tree.init(vertices, triangles)

    def distance(self, points: Floats) -> Floats:
        """Return the distance of each point to the nearest triangle, (k,)."""
        if len(points) == 0:
            return np.empty(0)
        squared, _, _ = self._tree.squared_distance(self._vertices, self._triangles, points)
        return np.sqrt(squared)


class SoupDistance:
    """Signed distance of a triangle soup, positive inside. `facing` are triangles that bound
    volumes; see `outward_triangles`. At holes of the surface the winding number ½ closes them, and
    the values are blended so that the level set is continuous.
    """

    def __init__(self, vertices: Floats, triangles: Ints, facing: Ints) -> None:
        self._surface = TriangleTree(vertices, triangles)
        self._winding = None
        if len(facing):
            self._winding = igl.FastWindingNumberBVH()
            self._winding.init(vertices, facing)

    def _winding_numbers(self, points: Floats) -> Floats:
        """Return the absolute winding number of each point."""
        if self._winding is None or len(points) == 0:
            return np.zeros(len(points))
        return np.abs(self._winding.winding_number(points))

    def __call__(self, points: Floats) -> Floats:
        """Evaluate the level set at points (k, 3)."""
        side = np.clip(4.0 * (self._winding_numbers(points) - 0.5), -1.0, 1.0)
        return self._surface.distance(points) * side

    def uniform_sign(self, points: Floats, radius: float) -> NDArray[np.int8]:
        """Return ±1 if the level set has that sign in a ball around a point, else 0."""
        sign = np.zeros(len(points), dtype=np.int8)
        distance = self._surface.distance(points)
        free = np.flatnonzero(distance > radius)
        winding = self._winding_numbers(points[free])
        # Away from triangles winding numbers are harmonic: integers without holes, otherwise
        # varying over the distance to the rim of a hole.
        is_integer = np.abs(winding - np.round(winding)) < 0.1
        known = is_integer | ((distance[free] > 1.5 * radius) & (np.abs(winding - 0.5) > 0.35))
        sign[free[known]] = np.where(winding[known] > 0.5, 1, -1)
        return sign


class ThickenedDistance:
    """Level set `base` united with neighbourhoods of `coats`: sets of triangles with a
    thickness.
    """

    def __init__(self, base: SoupDistance, coats: list[tuple[TriangleTree, float]]) -> None:
        self._base, self._coats = base, coats

    def __call__(self, points: Floats) -> Floats:
        """Evaluate the level set at points (k, 3)."""
        level = self._base(points)
        for tree, thickness in self._coats:
            np.maximum(level, thickness - tree.distance(points), out=level)
        return level

    def uniform_sign(self, points: Floats, radius: float) -> NDArray[np.int8]:
        """Return ±1 if the level set has that sign in a ball around a point, else 0."""
        sign = self._base.uniform_sign(points, radius)
        for tree, thickness in self._coats:
            outside = np.flatnonzero(sign < 0)
            near = tree.distance(points[outside]) < thickness + radius
            sign[outside[near]] = 0
        return sign


class _Patches(NamedTuple):
    """Patches of a surface, connected through manifold edges."""

    triangles: Ints  # consistently oriented within a patch
    patch: Ints  # of each triangle
    closed: Bools
    volume: Floats  # with holes closed by a cone
    area: Floats
    area_vector: Floats


def unbalanced(triangles: Ints, group: Ints, n_vertices: int) -> Bools:
    """Return whether half-edges (3 m,) lack an opposite in their group of triangles."""
    ends = half_edges(triangles)
    keys = row_keys(np.column_stack([np.sort(ends, axis=1), np.repeat(group, 3)]), n_vertices)
    _, edge = np.unique(keys, return_inverse=True)
    return np.bincount(edge, np.where(ends[:, 0] < ends[:, 1], 1, -1))[edge] != 0


def _area_vectors(vertices: Floats, triangles: Ints) -> Floats:
    a, b, c = (vertices[triangles[:, k]] for k in range(3))
    return 0.5 * np.cross(b - a, c - a)


def _sum_by(group: Ints, values: Floats, count: int) -> Floats:
    total = np.zeros((count, *values.shape[1:]))
    np.add.at(total, group, values)
    return total


def _patches(vertices: Floats, triangles: Ints) -> _Patches:
    oriented, patch = igl.bfs_orient(triangles)
    count = int(patch.max()) + 1
    rim = unbalanced(oriented, patch, max(len(vertices), count))
    open_edges = np.bincount(np.repeat(patch, 3)[rim], minlength=count)
    # Cones to the middle of the rim close an open patch; for a closed one any point works.
    middles = vertices[half_edges(oriented)].mean(axis=1)
    weight = np.where(open_edges[np.repeat(patch, 3)] > 0, rim, True).astype(float)
    total = _sum_by(
        np.repeat(patch, 3), np.column_stack([middles * weight[:, None], weight]), count
    )
    apex = total[:, :3] / total[:, 3:]
    vectors = _area_vectors(vertices, oriented)
    cones = np.einsum("ij,ij->i", vertices[oriented[:, 0]] - apex[patch], vectors) / 3
    area = _sum_by(patch, np.linalg.norm(vectors, axis=1), count)
    volume = _sum_by(patch, cones, count)
    return _Patches(oriented, patch, open_edges == 0, volume, area, _sum_by(patch, vectors, count))


def outward_triangles(vertices: Floats, triangles: Ints) -> Ints:
    """Return the triangles of a welded soup that bound volumes, oriented outward.
    Closed parts are oriented one by one, so that cavities count as filled. Parts that meet in edges
    of three or more triangles keep a consistent orientation. Open parts that enclose a volume are
    oriented, too. Sheets are left out, unless together they enclose a volume.
    """
    triangles = _without_repetition(triangles, len(vertices))
    p = _patches(vertices, triangles)
    outward = np.where((p.volume < 0)[p.patch][:, None], p.triangles[:, ::-1], p.triangles)
    keep = np.ones(len(triangles), dtype=bool)
    single = ~p.closed[p.patch]
    is_sound = single.copy()
    if single.any():
        group = _edge_groups(triangles, len(vertices))
        is_sound &= _sound_groups(triangles, group, single, len(vertices))
        double = is_sound & _flat_groups(vertices, triangles, group)
        if double.any():  # both sides of every triangle: use one of them
            once = _without_repetition(triangles[double], len(vertices), either_side=True)
            if len(once) < np.count_nonzero(double):
                return outward_triangles(vertices, np.concatenate([triangles[~double], once]))
        outward[is_sound] = _outward_by_group(vertices, triangles, group)[is_sound]
    sheet = single & ~is_sound & (np.linalg.norm(p.area_vector, axis=1) > _SHEET * p.area)[p.patch]
    vectors = _area_vectors(vertices, triangles[sheet])
    if np.linalg.norm(vectors.sum(axis=0)) > _PANELS * np.linalg.norm(vectors, axis=1).sum():
        keep &= ~sheet
    else:
        outward[sheet] = triangles[sheet]
    return np.ascontiguousarray(outward[keep])


def _without_repetition(triangles: Ints, n_vertices: int, either_side: bool = False) -> Ints:
    if either_side:
        rows = np.sort(triangles, axis=1)
    else:
        start = np.argmin(triangles, axis=1)[:, None]
        rows = np.take_along_axis(triangles, (start + np.arange(3)) % 3, axis=1)
    _, first = np.unique(row_keys(rows, n_vertices), return_index=True)
    return triangles[np.sort(first)]


def _edge_groups(triangles: Ints, n_vertices: int) -> Ints:
    """Label triangles by connection through edges."""
    keys = row_keys(np.sort(half_edges(triangles), axis=1), n_vertices)
    _, edge = np.unique(keys, return_inverse=True)
    m = len(triangles)
    owner = np.repeat(np.arange(m), 3)
    shape = (m + int(edge.max()) + 1,) * 2
    graph = coo_array((np.ones(3 * m, dtype=bool), (owner, m + edge)), shape)
    return connected_components(graph, directed=False)[1][:m]


def _sound_groups(triangles: Ints, group: Ints, members: Bools, n_vertices: int) -> Bools:
    """Return a mask of triangles in `members` whose group has each edge in both directions."""
    sound = np.zeros(len(triangles), dtype=bool)
    bad = unbalanced(triangles[members], group[members], max(n_vertices, len(triangles) * 4))
    bad_group = np.zeros(int(group.max()) + 1, dtype=bool)
    bad_group[np.repeat(group[members], 3)[bad]] = True
    sound[members] = ~bad_group[group[members]]
    return sound


def _group_volumes(vertices: Floats, triangles: Ints, group: Ints) -> tuple[Floats, Floats]:
    vectors = _area_vectors(vertices, triangles)
    centred = vertices[triangles[:, 0]] - vertices.mean(axis=0)
    count = int(group.max()) + 1
    volume = _sum_by(group, np.einsum("ij,ij->i", centred, vectors) / 3, count)
    return volume, _sum_by(group, np.linalg.norm(vectors, axis=1), count)


def _flat_groups(vertices: Floats, triangles: Ints, group: Ints) -> Bools:
    volume, area = _group_volumes(vertices, triangles, group)
    size = np.linalg.norm(np.ptp(vertices, axis=0))
    return (np.abs(volume) <= 1e-9 * area * size)[group]


def _outward_by_group(vertices: Floats, triangles: Ints, group: Ints) -> Ints:
    volume, _ = _group_volumes(vertices, triangles, group)
    return np.where((volume < 0)[group][:, None], triangles[:, ::-1], triangles)
