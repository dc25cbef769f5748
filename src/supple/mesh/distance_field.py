"""Closed surfaces as solids: signed distances on a grid."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from supple.arrays import Floats, Ints, Singles
from supple.checks import checked_count
from supple.compiled.jit import compiled_fused
from supple.errors import SuppleError
from supple.mesh.filling.signed_distance import SoupDistance, outward_triangles
from supple.mesh.obstacles import FARTHEST
from supple.mesh.surface import SurfaceMesh
from supple.mesh.topology import counted

#: Default and largest number of grid nodes (16 MB).
NODES, MOST_NODES = 100_000, 4_000_000
#: Margin of the grid in cells, so that normals are defined near the surface.
MARGIN = 3
#: Number of points per evaluation.
AT_A_TIME = 50_000


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Solid:
    """Interior of a closed surface, by signed distances on a grid.

    Distances of the nodes come from the triangles and their winding numbers; between nodes they
    are trilinear, so that edges are rounded by about a cell. Cavities count as filled.

    Parameters
    ----------
    surface
        Closed surface; vertices at the same position are joined.
    nodes
        Approximate number of grid nodes.

    Attributes
    ----------
    surface
        Surface with joined vertices, facing outward.
    distance
        (a, b, c) at the nodes, negative inside.
    origin, spacing
        (3,) first node, and the side of a cell, in m.
    """

    surface: SurfaceMesh
    distance: Singles
    origin: Floats
    spacing: float

    def __init__(self, surface: SurfaceMesh, nodes: int = NODES) -> None:
        if not isinstance(surface, SurfaceMesh):
            raise SuppleError(f"a solid needs a SurfaceMesh, not a {type(surface).__name__}")
        count = checked_count("the number of nodes", nodes, 1000)
        if count > MOST_NODES:
            raise SuppleError(f"a solid has {count} nodes; use at most {MOST_NODES}")
        facing = _facing(surface)
        origin, shape, spacing = _grid(facing.bounds, count)
        object.__setattr__(self, "surface", facing)
        object.__setattr__(self, "origin", origin)
        object.__setattr__(self, "spacing", spacing)
        object.__setattr__(self, "distance", _sampled(facing, origin, shape, spacing))
        if not (self.distance < 0).any():
            raise SuppleError(
                f"the solid is thinner than the cells of its grid, {spacing:.3g} m; "
                f"give it more than {count} nodes, or a thickness"
            )

    def __repr__(self) -> str:
        grid = " x ".join(map(str, self.distance.shape))
        return f"Solid({counted(len(self.surface.triangles), 'triangle')}, grid of {grid})"

    def distances(self, points: Floats) -> tuple[Floats, Floats]:
        """Return signed distances (k,) of points, negative inside, and unit normals (k, 3)."""
        where = np.ascontiguousarray(points, np.float64)
        gaps, normals = np.empty(len(where)), np.empty((len(where), 3))
        flat, sizes = self.distance.reshape(-1), np.array(self.distance.shape)
        _grid_distances(flat, sizes, self.origin, self.spacing, where, gaps, normals)
        return gaps, normals


def _facing(surface: SurfaceMesh) -> SurfaceMesh:
    """Return the surface welded and facing outward; raise an error if it is not closed."""
    if np.abs(surface.vertices).max() > FARTHEST:
        raise SuppleError(f"a vertex of the solid is farther than {FARTHEST:.0e} m from the origin")
    welded, _ = surface.welded()
    has_area = np.ones(len(welded.triangles), bool)
    has_area[welded.degenerate_triangles()] = False
    if not has_area.any():
        raise SuppleError("the surface of the solid has no area; check its unit and its scale")
    used, triangles = np.unique(welded.triangles[has_area], return_inverse=True)
    cleaned = SurfaceMesh(welded.vertices[used], triangles.reshape(-1, 3))
    for defect in cleaned.defects():
        if defect.kind == "open edges":
            raise SuppleError(
                f"the surface of a solid must be closed; it {defect.message}: "
                "fill its holes, or use Convex(surface.vertices)"
            )
    return SurfaceMesh(cleaned.vertices, outward_triangles(cleaned.vertices, cleaned.triangles))


def _grid(bounds: Floats, nodes: int) -> tuple[Floats, Ints, float]:
    """Return position (3,) of the first node, numbers of nodes (3,), and side of a cell in m."""
    sides = bounds[1] - bounds[0]
    spacing = float((np.maximum(sides, 1e-3 * sides.max()).prod() / nodes) ** (1 / 3))
    for _ in range(100):  # the margin adds nodes
        shape = np.ceil(sides / spacing).astype(np.int64) + 1 + 2 * MARGIN
        if shape.prod() <= nodes:
            break
        spacing *= 1.05
    middle = (bounds[0] + bounds[1]) / 2
    return middle - spacing * (shape - 1) / 2, shape, spacing


def _sampled(surface: SurfaceMesh, origin: Floats, shape: Ints, spacing: float) -> Singles:
    level = SoupDistance(surface.vertices, surface.triangles, surface.triangles)
    out = np.empty(int(shape.prod()), np.float32)
    for start in range(0, len(out), AT_A_TIME):
        nodes = np.arange(start, min(start + AT_A_TIME, len(out)))
        places = np.column_stack(np.unravel_index(nodes, tuple(shape)))
        out[nodes] = -level(origin + spacing * places)
    return out.reshape(tuple(shape))


@compiled_fused
def grid_distance(values, first, sizes, origin, spacing, x, y, z):  # type: ignore[no-untyped-def]
    """Return the signed distance of a point by a grid of sizes (a, b, c), and the normal.

    Inside the grid, the distance is interpolated trilinearly and the normal is its normalised
    gradient. Outside, the distance is measured to the surface point p − d n estimated at the
    nearest point p of the grid (distance d, normal n): continuous, and a few per cent too large if
    another part of the surface is nearer.
    """
    a, b, c = sizes[0], sizes[1], sizes[2]
    u, v, w = (x - origin[0]) / spacing, (y - origin[1]) / spacing, (z - origin[2]) / spacing
    if 0.0 * u + 0.0 * v + 0.0 * w != 0.0:  # not finite: the grid must not be read
        return math.nan, 0.0, 1.0, 0.0
    fu, fv, fw = min(max(u, 0.0), a - 1.0), min(max(v, 0.0), b - 1.0), min(max(w, 0.0), c - 1.0)
    i, j, k = min(int(fu), a - 2), min(int(fv), b - 2), min(int(fw), c - 2)
    p, q, r = fu - i, fv - j, fw - k
    at = first + (i * b + j) * c + k
    v000, v001 = np.float64(values[at]), np.float64(values[at + 1])
    v010, v011 = np.float64(values[at + c]), np.float64(values[at + c + 1])
    at += b * c
    v100, v101 = np.float64(values[at]), np.float64(values[at + 1])
    v110, v111 = np.float64(values[at + c]), np.float64(values[at + c + 1])
    e00, e01 = v000 + r * (v001 - v000), v010 + r * (v011 - v010)
    e10, e11 = v100 + r * (v101 - v100), v110 + r * (v111 - v110)
    f0, f1 = e00 + q * (e01 - e00), e10 + q * (e11 - e10)
    level = f0 + p * (f1 - f0)
    gx = f1 - f0
    gy = (1 - p) * (e01 - e00) + p * (e11 - e10)
    gz = (1 - p) * ((1 - q) * (v001 - v000) + q * (v011 - v010)) + p * (
        (1 - q) * (v101 - v100) + q * (v111 - v110)
    )
    length = math.sqrt(gx * gx + gy * gy + gz * gz)
    if length > 0.0:
        gx, gy, gz = gx / length, gy / length, gz / length
    else:  # midway between two sides: any normal
        gx, gy, gz = 0.0, 1.0, 0.0
    if u == fu and v == fv and w == fw:
        return level, gx, gy, gz
    gx, gy, gz = (
        (u - fu) * spacing + level * gx,
        (v - fv) * spacing + level * gy,
        (w - fw) * spacing + level * gz,
    )
    length = math.sqrt(gx * gx + gy * gy + gz * gz)
    return length, gx / length, gy / length, gz / length


@compiled_fused
def _grid_distances(values, sizes, origin, spacing, points, gaps, normals):  # type: ignore[no-untyped-def]
    for k in range(len(points)):
        x, y, z = points[k, 0], points[k, 1], points[k, 2]
        gaps[k], normals[k, 0], normals[k, 1], normals[k, 2] = grid_distance(
            values, 0, sizes, origin, spacing, x, y, z
        )
