"""Sculpting and painting of surfaces: relax the skin, bulge muscles, separate overlapping parts.

Sculpting functions take posed points (n, 3) and return new points; a correction is the difference.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.arrays import Floats, Ints
from supple.mesh.appearance import Appearance, SurfaceMaterial
from supple.mesh.surface import SurfaceMesh, vertex_normals
from supple.scenes.modelling.solids import neighbour_average

Mask = NDArray[np.bool_]


def bell(rest: Floats, centre: ArrayLike, radii: ArrayLike) -> Floats:
    """Return a Gaussian bump (n,) around a point of the rest shape: exp(−½ Σ (Δ/r)²)."""
    offset = (rest - np.asarray(centre, float)) / np.asarray(radii, float)
    return np.exp(-0.5 * (offset**2).sum(axis=1))


def ramp(values: Floats, low: float, high: float) -> Floats:
    """Return 0 below `low`, 1 above `high` and a C² transition between."""
    t = np.clip((values - low) / (high - low), 0.0, 1.0)
    return t**3 * (10 - 15 * t + 6 * t * t)


def points_along(places: ArrayLike, count: int) -> Floats:
    """Return points (count, 3) at equal distances along a chain of places (k, 3)."""
    chain = np.array(places)
    marks = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(chain, axis=0), axis=1))])
    samples = np.linspace(0, marks[-1], count)
    return np.stack([np.interp(samples, marks, axis) for axis in chain.T], axis=1)


def bulged(points: Floats, triangles: Ints, amount: Floats) -> Floats:
    """Return points moved along their normals by distances (n,)."""
    return points + amount[:, None] * vertex_normals(points, triangles)


class SkinRelaxer:
    """Smoothing of posed skin that removes creases of skinning and preserves details.

    Details are offsets of the vertices from the smoothed rest shape, in its local frames; they are
    added to the smoothed posed shape.
    """

    def __init__(self, surface: SurfaceMesh, rounds: int = 12) -> None:
        self.triangles, self.rounds = surface.triangles, rounds
        graph, self._average = neighbour_average(surface)
        self._neighbour = graph.indices[graph.indptr[:-1]]
        smooth = self.smoothed(surface.vertices, rounds)
        offsets = surface.vertices - smooth
        self._details = np.einsum("nij,nj->ni", self._frames(smooth), offsets)

    def smoothed(self, values: Floats, rounds: int) -> Floats:
        """Return values (n, …) after `rounds` averages over neighbouring vertices."""
        for _ in range(rounds):
            values = 0.5 * values + 0.5 * (self._average @ values)
        return values

    def _frames(self, points: Floats) -> Floats:
        """Return frames (n, 3, 3) at vertices, with rows tangent, bitangent and normal."""
        normals = vertex_normals(points, self.triangles)
        along = points[self._neighbour] - points
        along -= np.einsum("ij,ij->i", along, normals)[:, None] * normals
        along /= np.maximum(np.linalg.norm(along, axis=1, keepdims=True), 1e-30)
        return np.stack([along, np.cross(normals, along), normals], axis=1)

    def __call__(self, points: Floats) -> Floats:
        """Return the posed points without creases."""
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
    """Return points of a bent limb whose halves are flattened where they would overlap.

    Both halves stay at distance `gap` from the bisecting plane through the posed `hinge`; the
    flattening sets in over the distance `softness`. `side` (n,) runs from −1 in the first half to
    +1 in the second; `towards` are unit vectors from the hinge along the halves.
    """
    first, second = (np.asarray(vector, float) for vector in towards)
    across = (second - first) / np.linalg.norm(second - first)
    inward = (second + first) / np.linalg.norm(second + first)
    offset = points - np.asarray(hinge, float)
    height = (offset @ across) * np.sign(side)
    target = gap + softness * np.logaddexp(0.0, (height - gap) / softness)
    # Behind the hinge the halves are connected and stay as they are.
    inside = ramp(offset @ inward, 0.0, 4 * softness)
    push = (target - height) * inside * np.sign(side)
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
    """Return points (n, 3), with two body parts pushed apart until a distance `gap` remains.

    The masks (n,) of `pair` are not connected along the surface; the first part takes `share` of
    the displacement. A vertex deeper than `deepest` counts as outside, behind the other part.
    """
    for _ in range(rounds):
        push = np.zeros_like(points)
        for part, other, weight in ((*pair, share), (*pair[::-1], 1 - share)):
            push[part] += weight * _way_out(points, triangles, part, other, gap, deepest)
        if np.abs(push).max() < 0.02 * gap:
            break
        spread = relaxer.smoothed(push, 4)
        # Smoothing must not cancel the push of a vertex itself.
        pushed = np.linalg.norm(push, axis=1, keepdims=True) > 0
        points = points + np.where(pushed, 0.7 * push + 0.3 * spread, spread)
    return points


def _way_out(
    points: Floats, triangles: Ints, part: Mask, other: Mask, gap: float, deepest: float
) -> Floats:
    """Return displacements (k, 3) of a part's vertices to `gap` in front of the other part."""
    import igl

    faces = triangles[other[triangles].all(axis=1)]
    vertices = points[part]
    squared, face, nearest = igl.point_mesh_squared_distance(vertices, points, faces)
    a, b, c = (points[faces[face][:, k]] for k in range(3))
    normal = np.cross(b - a, c - a)
    normal /= np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-30)
    height = np.einsum("ij,ij->i", vertices - nearest, normal)
    distance = np.sqrt(squared)
    # The sign of the height is reliable straight above or below a face only. A large depth
    # means that the vertex is behind a thin part.
    clear = (np.abs(height) > 0.7 * distance) & (height > -deepest)
    return np.where(clear, np.maximum(gap - height, 0.0), 0.0)[:, None] * normal


def untangled(
    points: Floats, surface: SurfaceMesh, relaxer: SkinRelaxer, *, gap: float, rounds: int = 10
) -> Floats:
    """Return points without self-intersections, with a gap between folds.

    A vertex is inside another fold when the point `gap` in front of it has a nonzero winding
    number. It then moves along the normal of the nearest surface that faces it and is not in its
    neighbourhood on the rest shape; that surface moves likewise.
    """
    import igl

    triangles, rest = surface.triangles, surface.vertices
    edge = float(np.linalg.norm(rest[triangles[:, 0]] - rest[triangles[:, 1]], axis=1).mean())
    doubtful = np.arange(len(points))
    for iteration in range(rounds):
        normals = vertex_normals(points, triangles)
        before = points[doubtful] + gap * normals[doubtful]
        inside = doubtful[np.abs(igl.fast_winding_number(points, triangles, before)) > 0.5]
        if len(inside) == 0:
            break
        if iteration == 0:  # later intersections are near the first ones
            mark = np.zeros(len(points))
            mark[inside] = 1.0
            doubtful = np.flatnonzero(relaxer.smoothed(mark, 6) > 0)
        for _ in range(3):  # winding numbers cost more than displacements
            normals = vertex_normals(points, triangles)
            push = np.zeros_like(points)
            push[inside] = _away_from_facing(points, normals, rest, inside, gap, edge)
            spread = relaxer.smoothed(push, 3)
            pushed = np.linalg.norm(push, axis=1, keepdims=True) > 0
            points = points + np.where(pushed, 0.5 * push + 0.8 * spread, spread)
    return points


def _away_from_facing(
    points: Floats, normals: Floats, rest: Floats, inside: Ints, gap: float, edge: float
) -> Floats:
    """Return half of the displacements (k, 3) that move inside vertices out, at most an edge."""
    from scipy.spatial import cKDTree

    _, near = cKDTree(points).query(points[inside], k=min(64, len(points)))
    apart = np.linalg.norm(rest[near] - rest[inside][:, None], axis=2) > 2.5 * edge
    facing = np.einsum("nkc,nc->nk", normals[near], normals[inside]) < 0.0
    candidates = apart & facing
    first = near[np.arange(len(inside)), candidates.argmax(axis=1)]
    across = np.einsum("nc,nc->n", points[inside] - points[first], normals[first])
    distance = np.clip(gap - across, 0.0, edge)
    out = 0.5 * distance[:, None] * normals[first]
    # At the bottom of a fold no surface faces the vertex: it moves backwards.
    return np.where(candidates.any(axis=1)[:, None], out, -0.15 * edge * normals[inside])


def painted(surface: SurfaceMesh, colours: Callable[[Floats], Floats]) -> Appearance:
    """Return the appearance of a surface with colours at its vertices.

    `colours` maps points (n, 3) of the rest shape to sRGB colours (n, 3), 0 to 1.
    """
    light = colours(surface.vertices) ** 2.2
    tints = np.ones((len(surface.triangles), 3, 4), np.float32)
    tints[:, :, :3] = light[surface.triangles]
    material = np.zeros(len(surface.triangles), np.int64)
    return Appearance((SurfaceMaterial("skin"),), material, tints=tints)
