"""Balls inscribed in a body: how thick it is around each point, and how deep a point lies.

The thickness of a body at a point is the radius R of the largest inscribed ball that covers the
point (T. Hildebrand and P. Rüegsegger, "A new method for the model-independent assessment of
thickness in three-dimensional images", 1997). The balls come from the skin: each touches it at a
sample and is shrunk until it holds no other part of it (J. Ma, S. Bae and S. Choi, "3D medial axis
point approximation using nearest neighbors and the normal field", 2012). No grid is needed, so that
a finger is measured as well as the belly, and a turned body as one that stands upright.
"""

from __future__ import annotations

import igl
import numpy as np

from supple.arrays import Bools, Floats, Ints
from supple.compiled.jit import compiled
from supple.mesh.filling.signed_distance import SoupDistance, outward_triangles
from supple.mesh.surface import SurfaceMesh

__all__ = ["InscribedBalls"]

#: Places of the skin that a ball is inscribed at, spread evenly over its area.
SAMPLES = 3000
#: Rounds of shrinking; radii of the assets' characters change by less than 1 % after 8.
ROUNDS = 12
#: A ball that misses a point by this part of its radius covers it: at the edges of a coarse mesh,
#: where faces meet at 60°, no ball comes nearer than 0.15 of its radius.
REACH = 0.15
#: The skin is outside where the winding number this part of the size above it is below a half;
#: eyes and teeth inside a head, or skin below cloth, do not bound the body.
ABOVE = 2e-3


class InscribedBalls:
    """Measure thickness and depth of the body inside of a surface.

    Parameters
    ----------
    surface
        Any triangles; parts inside of others do not count.

    Attributes
    ----------
    centres, radii
        (k, 3), (k,) of the balls, largest first.
    """

    def __init__(self, surface: SurfaceMesh) -> None:
        self._size = max(surface.size, np.finfo(float).tiny)
        # A unit size: the trees' tolerances are absolute.
        self._origin = surface.vertices.mean(axis=0)
        welded, _ = SurfaceMesh(
            (surface.vertices - self._origin) / self._size, surface.triangles
        ).welded()
        sound = np.delete(welded.triangles, welded.degenerate_triangles(), axis=0)
        self._vertices = welded.vertices
        facing = outward_triangles(welded.vertices, sound) if len(sound) else sound
        self._skin = _exposed(welded.vertices, facing)
        bounding = self._skin if len(self._skin) else sound
        self._distance = SoupDistance(welded.vertices, bounding, facing) if len(sound) else None
        centres, radii = self._inscribed()
        order = np.argsort(-radii, kind="stable")
        self._centres, self._radii = centres[order], radii[order]

    @property
    def centres(self) -> Floats:
        """(k, 3) where the balls are, the largest first."""
        return self._centres * self._size + self._origin

    @property
    def radii(self) -> Floats:
        """(k,) in metres, descending."""
        return self._radii * self._size

    def thickness(self, points: Floats) -> Floats:
        """(n,) R: the radius of the largest ball that covers each point, in metres.

        Points that no ball covers have that of the ball which misses them least.
        """
        if not len(self._radii):
            return np.full(len(points), 0.05 * self._size)
        return self._size * _covering(self._local(points), self._centres, self._radii)

    def skin_thickness(self, surface: SurfaceMesh) -> Floats:
        """(n̄,) R of the surface's vertices, in metres.

        No ball comes near a sharp corner. The middles of the triangles around it know better, so
        that a coarse box is as thick as a fine one.
        """
        corners = surface.triangles
        middles = self.thickness(surface.vertices[corners].mean(axis=1))
        area, n = np.maximum(surface.areas(), 1e-300), len(surface.vertices)
        total = np.bincount(corners.ravel(), np.repeat(area, 3), n)
        summed = np.bincount(corners.ravel(), np.repeat(area * middles, 3), n)
        around: Floats = summed / np.maximum(total, 1e-300)
        return np.maximum(self.thickness(surface.vertices), around)

    def depth(self, points: Floats) -> Floats:
        """(n,) metres below the skin, negative outside."""
        if self._distance is None:
            return np.zeros(len(points))
        return self._size * self._distance(self._local(points))

    def buried(self, surface: SurfaceMesh) -> Bools:
        """(n̄,) vertices of the surface that have the body on both sides of them."""
        corners = surface.triangles
        normals = np.zeros_like(surface.vertices)
        for k in range(3):
            np.add.at(normals, corners[:, k], surface.areas()[:, None] * surface.normals())
        normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-300)
        points, within = self._local(surface.vertices), np.ones(len(normals), bool)
        for sign in (1, -1):
            within &= self._turns(points + sign * ABOVE * normals) > 0.5
        return within

    def _local(self, points: Floats) -> Floats:
        return np.ascontiguousarray((points - self._origin) / self._size)

    def _inscribed(self) -> tuple[Floats, Floats]:
        """Centres and radii of balls that touch the skin and hold none of it."""
        vertices, triangles = self._vertices, self._skin
        if not len(triangles):
            return np.empty((0, 3)), np.empty(0)
        corners = vertices[triangles]
        doubled = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        areas = np.linalg.norm(doubled, axis=1)
        chosen, shares = _spread(areas, SAMPLES)
        touched = np.einsum("kc,kci->ki", shares, corners[chosen])
        inward = -doubled[chosen] / areas[chosen, None]
        tree = igl.AABB()
        tree.init(vertices, triangles)
        radii = np.full(len(touched), 0.3)
        shrinking = np.arange(len(touched))
        for _ in range(ROUNDS):
            centres = touched[shrinking] + radii[shrinking, None] * inward[shrinking]
            squared, _, nearest = tree.squared_distance(vertices, triangles, centres)
            inside = np.sqrt(squared) < radii[shrinking] * (1 - 5e-3)
            shrinking, nearest = shrinking[inside], nearest[inside]
            if not len(shrinking):
                break
            away = nearest - touched[shrinking]
            along = np.einsum("ij,ij->i", away, inward[shrinking])
            length = np.einsum("ij,ij->i", away, away)
            # The ball that touches both places; a place on the same facet leaves none smaller.
            fits = np.where(along > 1e-9, length / np.maximum(2 * along, 1e-9), 0.0)
            radii[shrinking] = np.minimum(fits, radii[shrinking])
        centres = touched + radii[:, None] * inward
        within = self._turns(centres) > 0.5
        kept = within & (radii > 1e-4)
        return centres[kept], radii[kept]

    def _turns(self, points: Floats) -> Floats:
        if self._distance is None:
            return np.zeros(len(points))
        return self._distance._turns(points)


def _exposed(vertices: Floats, facing: Ints) -> Ints:
    """The triangles that have the outside above them."""
    if not len(facing):
        return facing
    corners = vertices[facing]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-300)
    winding = igl.FastWindingNumberBVH()
    winding.init(vertices, facing)
    above = np.abs(winding.winding_number(corners.mean(axis=1) + ABOVE * normals))
    seen = facing[above < 0.5]
    return np.ascontiguousarray(seen) if len(seen) else facing


def _spread(areas: Floats, count: int) -> tuple[Ints, Floats]:
    """Places evenly over the area: triangles (k,), and shares of their corners (k, 3)."""
    ends, number = np.cumsum(areas), np.arange(count)
    wanted = (number + 0.5) / count * ends[-1]
    chosen = np.minimum(np.searchsorted(ends, wanted), len(areas) - 1)
    # Points of an even sequence in a square (Roberts 2018), folded into the triangle.
    first, second = (0.5 + number * 0.7548776662466927) % 1, (0.5 + number * 0.5698402909980532) % 1
    outside = first + second > 1
    first, second = np.where(outside, 1 - first, first), np.where(outside, 1 - second, second)
    return chosen, np.column_stack([1 - first - second, first, second])


@compiled
def _covering(points: Floats, centres: Floats, radii: Floats) -> Floats:
    """The radius of the first ball that covers each point; of the least missing where none does."""
    found = np.empty(len(points))
    for k in range(len(points)):
        least, best = np.inf, 0.0
        for b in range(len(radii)):
            x = points[k, 0] - centres[b, 0]
            y = points[k, 1] - centres[b, 1]
            z = points[k, 2] - centres[b, 2]
            missed = np.sqrt(x * x + y * y + z * z) - (1 + REACH) * radii[b]
            if missed <= 0.0:
                best = radii[b]
                break
            if missed < least:
                least, best = missed, radii[b]
        found[k] = best
    return found
