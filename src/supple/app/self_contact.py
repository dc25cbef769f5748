"""How deep a skin goes into itself, and forces that press it there."""

from __future__ import annotations

from dataclasses import dataclass

import igl
import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.mesh import SurfaceMesh
from supple.mesh.contact_search import PosedBoundary, facing_triangles, posed_boundary

__all__ = ["Touching", "outline", "penetration", "touching_skin"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Parts that touch are at least this many of the skin's edges apart at the neutral pose.
FAR = 2.0
#: The deepest that is looked for, as a part of the size.
DEEPEST = 0.05
#: How far out of the skin winding numbers are taken, as a part of twice the size.
_OUT = 1e-5


@dataclass(frozen=True, eq=False)
class Touching:
    """Vertices of a posed skin that face another part of it nearby.

    Attributes
    ----------
    vertices
        (k,) ascending.
    normals
        (k, 3) outward, and so towards what they touch.
    areas
        (k,) of the skin around each, in m².
    """

    vertices: Ints
    normals: Floats
    areas: Floats

    def pressed(self, pressure: float, only: NDArray[np.bool_] | None = None) -> dict[int, Floats]:
        """Forces in N of a pressure in Pa towards what is touched; on some of the skin `only`."""
        chosen = np.arange(len(self.vertices)) if only is None else np.flatnonzero(only)
        forces = pressure * self.areas[chosen, None] * self.normals[chosen]
        return dict(zip(self.vertices[chosen].tolist(), forces, strict=True))


def touching_skin(surface: SurfaceMesh, posed: ArrayLike, distance: float) -> Touching:
    """Vertices of the skin within a distance of another part that they face."""
    unit, boundary = _scaled(surface, posed)
    touches = facing_triangles(boundary, surface.vertices / unit, distance / unit, _far(surface))
    near = touches.triangle >= 0
    vertices = boundary.vertices[near]
    areas = igl.massmatrix(np.asarray(posed, np.float64), surface.triangles).diagonal()
    return Touching(vertices, boundary.normals[near], areas[vertices])


def penetration(surface: SurfaceMesh, posed: ArrayLike) -> Floats:
    """How deep each vertex of a posed skin is inside of another part of it, (n,) in metres.

    By the winding number a little way out of the skin, so that it does not matter whether a
    contact was expected there; the depth is the distance to the nearest skin that faces it.
    """
    unit, boundary = _scaled(surface, posed)
    tree = igl.FastWindingNumberBVH()
    tree.init(boundary.points, boundary.triangles)
    outside = boundary.points[boundary.vertices] + _OUT * boundary.normals
    inside = np.asarray(tree.winding_number(outside)) > 0.5
    depths = np.zeros(len(surface.vertices))
    if not inside.any():
        return depths
    within = boundary._replace(
        vertices=boundary.vertices[inside], normals=np.ascontiguousarray(boundary.normals[inside])
    )
    touches = facing_triangles(within, surface.vertices / unit, 0.5 * DEEPEST, _far(surface))
    found = (touches.triangle >= 0) & (touches.gap < 0)
    depths[within.vertices[found]] = -unit * touches.gap[found]
    return depths


def _scaled(surface: SurfaceMesh, posed: ArrayLike) -> tuple[float, PosedBoundary]:
    """A unit in which nothing is larger than 1, winding numbers being of float32, and the skin."""
    unit = 2.0 * surface.size
    return unit, posed_boundary(np.asarray(posed, np.float64) / unit, surface.triangles)


def _far(surface: SurfaceMesh) -> float:
    """How far apart touching parts are at the neutral pose, in that unit."""
    corners = surface.vertices[surface.triangles]
    edge = float(np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2).mean())
    return FAR * edge / (2.0 * surface.size)


def outline(points: ArrayLike, triangles: Ints, origin: Floats, normal: Floats) -> Floats:
    """Where a plane cuts a surface: (k, 2, 3), the ends of a segment for each triangle it cuts."""
    corners = np.asarray(points, np.float64)[triangles]
    heights = (corners - origin) @ normal
    heights = np.where(heights == 0, 1e-300, heights)  # no corner lies in the plane
    above = heights > 0
    cut = np.flatnonzero(above.any(axis=1) & ~above.all(axis=1))
    ends = []
    for a, b in ((0, 1), (1, 2), (2, 0)):
        ha, hb = heights[cut, a], heights[cut, b]
        crossed = (ha > 0) != (hb > 0)
        along = np.where(crossed, ha / np.where(crossed, ha - hb, 1.0), np.nan)
        start, stop = corners[cut, a], corners[cut, b]
        ends.append(start + along[:, None] * (stop - start))
    both = np.stack(ends, axis=1)  # one of three is missing in each
    kept = ~np.isnan(both[:, :, 0])
    return both[kept].reshape(-1, 2, 3)
