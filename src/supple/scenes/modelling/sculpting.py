"""Sculpting of a posed surface: relax the skin, bulge muscles, part what overlaps.

All functions take posed points (n, 3) and return new ones; a correction is the difference.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.arrays import Floats, Ints
from supple.mesh.surface import SurfaceMesh, vertex_normals

Mask = NDArray[np.bool_]


def bell(rest: Floats, centre: ArrayLike, radii: ArrayLike) -> Floats:
    """Return a smooth bump (n,) around a place of the rest shape: exp(−½ Σ (Δ/r)²)."""
    offset = (rest - np.asarray(centre, float)) / np.asarray(radii, float)
    return np.exp(-0.5 * (offset**2).sum(axis=1))


def ramp(values: Floats, low: float, high: float) -> Floats:
    """Return 0 below `low`, 1 above `high`, C² between."""
    t = np.clip((values - low) / (high - low), 0.0, 1.0)
    return t**3 * (10 - 15 * t + 6 * t * t)


def bulged(points: Floats, triangles: Ints, amount: Floats) -> Floats:
    """Move points along their normals, by metres (n,)."""
    return points + amount[:, None] * vertex_normals(points, triangles)


class SkinRelaxer:
    """Skin that keeps its details while the creases of skinning are smoothed away.

    Remembers how every vertex stands out from the smoothed rest shape, in a frame of that
    shape, and puts the same detail back on a smoothed posed shape.
    """

    def __init__(self, surface: SurfaceMesh, rounds: int = 12) -> None:
        from scipy.sparse import coo_array, diags_array

        self.triangles, self.rounds = surface.triangles, rounds
        n = len(surface.vertices)
        ends = surface.triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
        graph = coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), (n, n)).tocsr()
        self._average = diags_array(1 / np.maximum(graph.sum(axis=1), 1)) @ graph
        self._neighbour = graph.indices[graph.indptr[:-1]]
        smooth = self.smoothed(surface.vertices, rounds)
        offsets = surface.vertices - smooth
        self._details = np.einsum("nij,nj->ni", self._frames(smooth), offsets)

    def smoothed(self, values: Floats, rounds: int) -> Floats:
        """Average values (n, …) with their neighbours' again and again."""
        for _ in range(rounds):
            values = 0.5 * values + 0.5 * (self._average @ values)
        return values

    def _frames(self, points: Floats) -> Floats:
        """Return frames, with rows tangent, bitangent and normal."""
        normals = vertex_normals(points, self.triangles)
        along = points[self._neighbour] - points
        along -= np.einsum("ij,ij->i", along, normals)[:, None] * normals
        along /= np.maximum(np.linalg.norm(along, axis=1, keepdims=True), 1e-30)
        return np.stack([along, np.cross(normals, along), normals], axis=1)

    def __call__(self, points: Floats) -> Floats:
        """Return the posed points with their creases relaxed."""
        smooth = self.smoothed(points, self.rounds)
        return smooth + np.einsum("nij,ni->nj", self._frames(smooth), self._details)


def folded(
    points: Floats,
    side: Floats,
    hinge: ArrayLike,
    towards: tuple[ArrayLike, ArrayLike],
    *,
    gap: float,
    softness: float,
) -> Floats:
    """Press the halves of a bent limb flat against each other instead of overlapping.

    Both halves stay on their sides of the plane through the hinge that halves the angle.

    Parameters
    ----------
    points
        Posed points.
    side
        (n,) −1 for the first half to +1 for the second, 0 between them.
    hinge
        Posed place of the joint.
    towards
        Unit vectors from the hinge along the first and the second half.
    gap
        Distance to keep from the plane.
    softness
        Over what distance the flattening sets in.
    """
    first, second = (np.asarray(vector, float) for vector in towards)
    across = (second - first) / np.linalg.norm(second - first)
    inward = (second + first) / np.linalg.norm(second + first)
    offset = points - np.asarray(hinge, float)
    height = (offset @ across) * np.sign(side)
    wanted = gap + softness * np.logaddexp(0.0, (height - gap) / softness)
    # Behind the hinge the halves meet in one piece of skin, and nothing is to be parted.
    inside = ramp(offset @ inward, 0.0, 4 * softness)
    push = (wanted - height) * inside * np.sign(side)
    return points + push[:, None] * across


def parted(
    points: Floats,
    triangles: Ints,
    pair: tuple[Mask, Mask],
    relaxer: SkinRelaxer,
    *,
    gap: float,
    share: float = 0.5,
    deepest: float = 0.04,
    rounds: int = 12,
) -> Floats:
    """Press two parts of the body apart until they touch with a gap.

    Parameters
    ----------
    points, triangles
        The posed surface.
    pair
        Vertices (n,) of the one and of the other part; not neighbours along the surface.
    relaxer
        Whose smoothing spreads the dents.
    gap
        Distance that remains.
    share
        How much of the way the first part makes.
    deepest
        Overlap beyond which a vertex is taken to be outside, behind the other part.
    rounds
        Times that both are pressed.
    """
    for _ in range(rounds):
        push = np.zeros_like(points)
        for own, other, part in ((*pair, share), (*pair[::-1], 1 - share)):
            push[own] += part * _way_out(points, triangles, own, other, gap, deepest)
        if np.abs(push).max() < 0.02 * gap:
            break
        spread = relaxer.smoothed(push, 4)
        # Where a vertex is pushed itself, smoothing must not take its push away.
        keep = np.linalg.norm(push, axis=1, keepdims=True) > 0
        points = points + np.where(keep, 0.7 * push + 0.3 * spread, spread)
    return points


def _way_out(
    points: Floats, triangles: Ints, own: Mask, other: Mask, gap: float, deepest: float
) -> Floats:
    """Return moves (k, 3) that bring a part's vertices to `gap` in front of the other's surface."""
    import igl

    faces = triangles[other[triangles].all(axis=1)]
    mine = points[own]
    squared, face, nearest = igl.point_mesh_squared_distance(mine, points, faces)
    a, b, c = (points[faces[face][:, k]] for k in range(3))
    normal = np.cross(b - a, c - a)
    normal /= np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-30)
    height = np.einsum("ij,ij->i", mine - nearest, normal)
    distance = np.sqrt(squared)
    # Only heights straight above or below a face say on which side a vertex is; and far below
    # is the other side of something thin.
    clear = (np.abs(height) > 0.7 * distance) & (height > -deepest)
    return np.where(clear, np.maximum(gap - height, 0.0), 0.0)[:, None] * normal


def untangled(
    points: Floats, surface: SurfaceMesh, relaxer: SkinRelaxer, *, gap: float, rounds: int = 10
) -> Floats:
    """Push folds of a surface out of each other, wherever they are.

    A vertex is inside of another fold when the place `gap` in front of it has a winding number
    other than zero. It is then moved along the normal of the nearest piece of surface that faces
    it and is not its own neighbourhood; that piece does the same.

    Parameters
    ----------
    points
        Posed points.
    surface
        The rest shape, which tells neighbours from what merely came near.
    relaxer
        Whose smoothing spreads the dents.
    gap
        Distance that remains.
    rounds
        Times that everything is looked at.
    """
    import igl

    triangles, rest = surface.triangles, surface.vertices
    edge = float(np.linalg.norm(rest[triangles[:, 0]] - rest[triangles[:, 1]], axis=1).mean())
    doubtful = np.arange(len(points))
    for turn in range(rounds):
        normals = vertex_normals(points, triangles)
        before = points[doubtful] + gap * normals[doubtful]
        inside = doubtful[np.abs(igl.fast_winding_number(points, triangles, before)) > 0.5]
        if len(inside) == 0:
            break
        if turn == 0:  # what is inside later is near to what is inside now
            mark = np.zeros(len(points))
            mark[inside] = 1.0
            doubtful = np.flatnonzero(relaxer.smoothed(mark, 6) > 0)
        for _ in range(3):  # looking is dearer than pushing
            normals = vertex_normals(points, triangles)
            push = np.zeros_like(points)
            push[inside] = _away_from_facing(points, normals, rest, inside, gap, edge)
            spread = relaxer.smoothed(push, 3)
            keep = np.linalg.norm(push, axis=1, keepdims=True) > 0
            points = points + np.where(keep, 0.5 * push + 0.8 * spread, spread)
    return points


def _away_from_facing(
    points: Floats, normals: Floats, rest: Floats, inside: Ints, gap: float, edge: float
) -> Floats:
    """Return half of each inside vertex's way out, (k, 3), at most an edge long."""
    from scipy.spatial import cKDTree

    _, near = cKDTree(points).query(points[inside], k=min(64, len(points)))
    apart = np.linalg.norm(rest[near] - rest[inside][:, None], axis=2) > 2.5 * edge
    facing = np.einsum("nkc,nc->nk", normals[near], normals[inside]) < 0.0
    found = apart & facing
    first = near[np.arange(len(inside)), found.argmax(axis=1)]
    across = np.einsum("nc,nc->n", points[inside] - points[first], normals[first])
    way = np.clip(gap - across, 0.0, edge)
    out = 0.5 * way[:, None] * normals[first]
    # In the bottom of a fold nothing faces it: it gives way backwards.
    return np.where(found.any(axis=1)[:, None], out, -0.15 * edge * normals[inside])
