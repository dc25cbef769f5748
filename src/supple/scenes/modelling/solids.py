"""Solids as depth functions: primitives, smooth unions and their polygonisation.

A solid is a function from points (k, 3) to depths (k,), the distances to its surface, positive
inside.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats
from supple.mesh.surface import SurfaceMesh

Solid = Callable[[Floats], Floats]


def _length(vectors: Floats) -> Floats:
    return np.sqrt(np.einsum("ij,ij->i", vectors, vectors))


def ball(centre: ArrayLike, radius: float) -> Solid:
    """Return a ball, as a function from points to depths."""
    return lambda points: radius - _length(points - np.asarray(centre, float))


def ellipsoid(centre: ArrayLike, radii: ArrayLike, axes: ArrayLike | None = None) -> Solid:
    """Return an ellipsoid; rows of `axes` are the directions of its radii, by default x, y, z.

    The depth is exact to first order at the surface and has the right sign everywhere.
    """
    middle, r = np.asarray(centre, float), np.asarray(radii, float)
    frame = np.eye(3) if axes is None else np.asarray(axes, float)

    def depth(points: Floats) -> Floats:
        local = (points - middle) @ frame.T
        once = _length(local / r)
        twice = _length(local / r**2)
        return (1 - once) * np.where(twice > 0, once / np.maximum(twice, 1e-30), r.min())

    return depth


def box(
    centre: ArrayLike, half: ArrayLike, rounding: float, axes: ArrayLike | None = None
) -> Solid:
    """Return a box with rounded edges; `half` are its half sizes with the rounding."""
    middle = np.asarray(centre, float)
    core = np.asarray(half, float) - rounding
    frame = np.eye(3) if axes is None else np.asarray(axes, float)

    def depth(points: Floats) -> Floats:
        beyond = np.abs((points - middle) @ frame.T) - core
        outside = _length(np.maximum(beyond, 0.0))
        return rounding - outside - np.minimum(beyond.max(axis=1), 0.0)

    return depth


def tapered_limb(start: ArrayLike, end: ArrayLike, start_radius: float, end_radius: float) -> Solid:
    """Return a limb with round ends between two points, its radius linear along the axis."""
    a, b = np.asarray(start, float), np.asarray(end, float)
    along = (b - a) / ((b - a) @ (b - a))

    def depth(points: Floats) -> Floats:
        t = np.clip((points - a) @ along, 0.0, 1.0)
        axis = a + t[:, None] * (b - a)
        radius = start_radius + t * (end_radius - start_radius)
        return radius - _length(points - axis)

    return depth


def smooth_union(solids: list[Solid], blend: float) -> Solid:
    """Return the union of solids, with creases rounded over about `blend`.

    Soft maximum of the depths; it exceeds the largest depth by at most blend·log(count)/4.
    """
    sharpness = 4 / blend

    def depth(points: Floats) -> Floats:
        depths = np.empty((len(solids), len(points)))
        for row, solid in zip(depths, solids, strict=True):
            row[:] = solid(points)
        deepest = depths.max(axis=0)
        depths -= deepest
        depths *= sharpness
        return deepest + np.log(np.exp(depths, out=depths).sum(axis=0)) / sharpness

    return depth


def smooth_subtraction(solid: Solid, tool: Solid, blend: float) -> Solid:
    """Return a solid minus another solid, with the rim rounded over about `blend`."""
    sharpness = 4 / blend

    def depth(points: Floats) -> Floats:
        return -np.logaddexp(-sharpness * solid(points), sharpness * tool(points)) / sharpness

    return depth


def polygonise(solid: Solid, bounds: ArrayLike, spacing: float) -> SurfaceMesh:
    """Return triangles of a solid's surface, outward, by marching cubes on a grid.

    Parameters
    ----------
    solid
        The solid.
    bounds
        Lowest and highest corner, (2, 3), with the solid well inside.
    spacing
        Distance between grid points.
    """
    import igl

    low, high = np.asarray(bounds, float)
    shape = np.ceil((high - low) / spacing).astype(int) + 1
    x, y, z = (low[i] + spacing * np.arange(shape[i]) for i in range(3))
    # In libigl's order x varies fastest.
    grid = np.stack(np.meshgrid(z, y, x, indexing="ij"), axis=-1).reshape(-1, 3)[:, ::-1]
    points = np.ascontiguousarray(grid)
    depths = _depths_near_surface(solid, points, tuple(shape[::-1]), spacing)
    vertices, triangles, _ = igl.marching_cubes(-depths, points, *map(int, shape), 0.0)
    mesh = SurfaceMesh(vertices, triangles)
    return mesh if mesh.volume() > 0 else SurfaceMesh(vertices, triangles[:, ::-1])


def _depths_near_surface(
    solid: Solid, points: Floats, shape: tuple[int, ...], spacing: float
) -> Floats:
    """Return depths at grid points, exact near the surface.

    Elsewhere only the sign matters, and the depth of the nearest point of a coarse grid is
    taken. That costs a tenth of the whole grid.
    """
    stride = 4
    counts = [-(-(n - 1) // stride) for n in shape]
    coarse_index, nearest = [], []
    for count, n in zip(counts, shape, strict=True):
        samples = np.minimum(stride * np.arange(count + 1), n - 1)
        coarse_index.append(samples)
        nearest.append(np.abs(np.arange(n)[:, None] - samples).argmin(axis=1))
    index = np.arange(len(points)).reshape(shape)
    coarse = solid(points[index[np.ix_(*coarse_index)].ravel()])
    coarse = coarse.reshape([c + 1 for c in counts])
    depths = coarse[np.ix_(*nearest)].ravel()
    # Depths are Lipschitz with constant 1, those of blends and flat ellipsoids a little more.
    reach = 1.4 * np.sqrt(3) * stride / 2 * spacing + spacing
    near = np.flatnonzero(np.abs(depths) < reach)
    for chunk in np.array_split(near, len(near) // 8192 + 1):  # a chunk fits in cache
        depths[chunk] = solid(points[chunk])
    return depths


def relaxed(surface: SurfaceMesh, solid: Solid, steps: int = 8) -> SurfaceMesh:
    """Return a surface with vertices spread evenly over the solid's surface.

    Marching cubes produces slivers where the surface passes close to a grid point. Each step
    moves vertices towards the mean of their neighbours and then along the depth's gradient back
    to the solid's surface.
    """
    _, average = neighbour_average(surface)
    ends = surface.triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
    edge = np.linalg.norm(np.diff(surface.vertices[ends], axis=1), axis=2).mean()
    points = surface.vertices
    for _ in range(steps):
        points = points + 0.6 * (average @ points - points)
        chunks = np.array_split(points, len(points) // 8192 + 1)
        points = np.concatenate([_onto_surface(solid, chunk, edge) for chunk in chunks])
    return SurfaceMesh(points, surface.triangles)


def neighbour_average(surface: SurfaceMesh) -> tuple[Any, Any]:
    """Return sparse matrices (n, n): the graph of edges, and means over neighbours."""
    from scipy.sparse import coo_array, diags_array

    n = len(surface.vertices)
    ends = surface.triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
    graph = coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), (n, n)).tocsr()
    return graph, diags_array(1 / np.maximum(graph.sum(axis=1), 1)) @ graph


def coarsened(
    surface: SurfaceMesh,
    solid: Solid,
    vertices: int,
    enlarged: Callable[[Floats], Floats] | None = None,
    even: bool = False,
) -> SurfaceMesh:
    """Return a surface decimated to a number of vertices, denser where it is curved.

    Edges collapse by quadric errors (Garland and Heckbert 1997), or shortest edges first if
    `even`, which suits contact; the result is relaxed on the solid. `enlarged` maps points to a
    shape with enlarged details, such as a face, which then keep more vertices.
    """
    import igl

    points = surface.vertices if enlarged is None else enlarged(surface.vertices)
    collapse = igl.decimate if even else igl.qslim
    _, triangles, _, indices = collapse(points, surface.triangles, 2 * vertices - 4)
    coarse = SurfaceMesh(surface.vertices[indices], triangles.astype(np.int64))
    return relaxed(coarse, solid, 3)


def _onto_surface(solid: Solid, points: Floats, edge: float) -> Floats:
    """Return points after one Newton step to the solid's surface, at most half an edge long."""
    step, depths = 1e-3 * edge, solid(points)
    gradient = np.stack([(solid(points + step * e) - depths) / step for e in np.eye(3)], axis=1)
    length = np.maximum(_length(gradient), 0.3)
    move = np.clip(-depths / length, -0.5 * edge, 0.5 * edge)
    return points + (move / length)[:, None] * gradient
