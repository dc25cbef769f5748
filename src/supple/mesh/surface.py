"""Triangle surfaces."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from supple.arrays import Floats, Ints
from supple.errors import MeshError
from supple.mesh import topology
from supple.mesh.topology import Bounded, Defect, counted


@dataclass(frozen=True, eq=False, repr=False, init=False)
class SurfaceMesh(Bounded):
    """Triangle surface, in checked arrays.

    Parameters
    ----------
    vertices : (n, 3) array
        Finite coordinates, in metres.
    triangles : (m, 3) int array
        Vertices of each triangle, counterclockwise seen from outside.

    Raises
    ------
    MeshError
        For a wrong shape, no triangles, a coordinate that is not finite or an index out
        of range. `defects` lists other problems.

    Notes
    -----
    Arrays of the right type are not copied: do not change them.

    Examples
    --------
    >>> SurfaceMesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    SurfaceMesh(3 vertices, 1 triangle)
    """

    vertices: np.ndarray
    triangles: np.ndarray

    def __init__(self, vertices: ArrayLike, triangles: ArrayLike) -> None:
        points = topology.checked_vertices(vertices)
        corners = topology.checked_elements(triangles, 3, len(points), "triangle")
        object.__setattr__(self, "vertices", points)
        object.__setattr__(self, "triangles", corners)

    def __repr__(self) -> str:
        vertices = counted(len(self.vertices), "vertex", "vertices")
        return f"SurfaceMesh({vertices}, {counted(len(self.triangles), 'triangle')})"

    def _area_vectors(self) -> np.ndarray:
        a, b, c = (self.vertices[self.triangles[:, k]] for k in range(3))
        return 0.5 * np.cross(b - a, c - a)

    def areas(self) -> np.ndarray:
        """Return the area of each triangle, (m,)."""
        return np.linalg.norm(self._area_vectors(), axis=1)

    def vertex_areas(self) -> np.ndarray:
        """Return a third of the area of the triangles around each vertex, (n,)."""
        thirds = np.repeat(self.areas() / 3, 3)
        total = np.bincount(self.triangles.ravel(), thirds, len(self.vertices))
        return total.astype(np.float64)

    def normals(self) -> np.ndarray:
        """Return the unit normal of each triangle, (m, 3); zero for zero area."""
        vectors = self._area_vectors()
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)

    def _cone_volumes(self) -> np.ndarray:
        # From the middle of the box, to avoid cancellation far from the origin.
        middle = self.bounds.mean(axis=0)
        return np.einsum(
            "ij,ij->i", self.vertices[self.triangles[:, 0]] - middle, self._area_vectors() / 3
        )

    def volume(self) -> float:
        """Return the volume inside a closed surface, negative if it is inside out."""
        return float(self._cone_volumes().sum())

    def components(self) -> np.ndarray:
        """Label triangles by component, (m,); triangles with a common vertex are connected."""
        return topology.components(self.triangles, len(self.vertices))

    def welded(self, tolerance: float = 0.0) -> tuple[SurfaceMesh, np.ndarray]:
        """Return the mesh with vertices at the same position joined.

        Parameters
        ----------
        tolerance : float
            Vertices no farther apart than this are joined, also in chains; 0 joins only equal
            coordinates.

        Returns
        -------
        mesh : SurfaceMesh
            Each joined vertex has the position of its first original. Triangles keep their order
            and number; `defects` lists collapsed triangles.
        new_of_old : (n,) int array
            The new vertex of each old vertex.
        """
        if not (np.isfinite(tolerance) and tolerance >= 0):
            raise MeshError(f"welding tolerance is {tolerance}; use a finite length, at least 0")
        exact = _equal_points(self.vertices)
        first = _first_of_each(exact)
        if tolerance > 0:
            exact = _near_points(self.vertices[first], tolerance)[exact]
            first = _first_of_each(exact)
        return SurfaceMesh(self.vertices[first], exact[self.triangles]), exact

    def degenerate_triangles(self) -> np.ndarray:
        """Return the indices of triangles with a repeated vertex or nearly zero height."""
        longest = topology.longest_edges(self.vertices, self.triangles)
        flat = self.areas() <= topology.FLAT * longest * self.size
        return np.flatnonzero(flat | _has_repeated_corner(self.triangles))

    def defects(self) -> list[Defect]:
        """List defects of the surface; it may still be usable.

        Returns
        -------
        list of Defect
            Of the kinds ``degenerate triangles``, ``duplicate triangles``, ``unreferenced
            vertices``, ``open edges``, ``non-manifold edges``, ``inconsistent edges`` (two
            triangles run along them the same way) and ``inside-out components``.
        """
        candidates = [*self._triangle_defects(), *self._edge_defects()]
        return [defect for defect in candidates if defect.count]

    def _triangle_defects(self) -> Iterator[Defect]:
        n = len(self.vertices)
        yield topology.defect("degenerate triangles", self.degenerate_triangles(), "triangle")
        yield topology.defect(
            "duplicate triangles", topology.repeated_rows(self.triangles, n), "triangle"
        )
        yield topology.defect(
            "unreferenced vertices", topology.unreferenced(self.triangles, n), "vertex"
        )

    def _edge_defects(self) -> Iterator[Defect]:
        n = len(self.vertices)
        distinct = np.flatnonzero(~_has_repeated_corner(self.triangles))
        if len(distinct) == 0:
            return
        triangles = self.triangles[distinct]
        ends = topology.half_edges(triangles)
        forward = ends[:, 0] < ends[:, 1]
        keys, edge_of, uses = np.unique(
            topology.row_keys(np.sort(ends, axis=1), n), return_inverse=True, return_counts=True
        )
        lowest = keys // n
        balance = np.bincount(edge_of, np.where(forward, 1, -1))
        inconsistent = (uses == 2) & (balance != 0)
        yield topology.defect("open edges", lowest[uses == 1], "vertex")
        yield topology.defect("non-manifold edges", lowest[uses > 2], "vertex")
        yield topology.defect("inconsistent edges", lowest[inconsistent], "vertex")
        regular = (uses == 2) & ~inconsistent
        closed = regular[edge_of].reshape(-1, 3).all(axis=1)
        yield self._inside_out(distinct, closed)

    def _inside_out(self, distinct: np.ndarray, closed: np.ndarray) -> Defect:
        labels = self.components()
        is_closed = np.ones(labels.max() + 1, dtype=bool)
        is_closed[labels[distinct[~closed]]] = False
        volumes = np.bincount(labels, self._cone_volumes())
        noise = topology.FLAT * np.bincount(labels, self.areas()) * self.size
        inverted = np.flatnonzero(is_closed & (volumes < -noise))
        if len(inverted) == 0:
            return topology.defect("inside-out components", inverted, "triangle")
        first = int(np.argmax(labels == inverted[0]))
        number = counted(len(inverted), "closed component")
        message = f"has {number} inside out, or bounding a cavity (first at triangle {first})"
        return Defect("inside-out components", len(inverted), first, message)


def vertex_normals(vertices: ArrayLike, triangles: Ints) -> Floats:
    """Return unit normals (n, 3): area-weighted means of the triangles around each vertex."""
    points = np.asarray(vertices, np.float64)
    corners = points[triangles]
    areas = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    corner = triangles.reshape(-1)
    repeated = np.repeat(areas, 3, axis=0)
    summed = [np.bincount(corner, repeated[:, axis], len(points)) for axis in range(3)]
    normals = np.stack(summed, axis=1)
    return normals / np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-30)


class VertexNormals:
    """Unit normals at the vertices of a deforming surface, weighted by area.

    `flat` is the normal of a vertex whose triangles have no area, or that has no triangles.
    """

    def __init__(self, triangles: Ints, n_vertices: int, flat: ArrayLike = (0.0, 1.0, 0.0)) -> None:
        self._triangles, self._flat = triangles, np.asarray(flat, np.float64)
        count = len(triangles)
        rows, columns = triangles.ravel(), np.repeat(np.arange(count), 3)
        self._sum = csr_array((np.ones(3 * count), (rows, columns)), (n_vertices, count))

    def __call__(self, positions: Floats) -> Floats:
        """Return the normals (n, 3) for vertices at `positions`, (n, 3)."""
        a, b, c = (positions[corner] for corner in self._triangles.T)
        normals = np.asarray(self._sum @ np.cross(b - a, c - a))
        lengths = np.linalg.norm(normals, axis=1, keepdims=True)
        return np.where(lengths > 1e-300, normals / np.maximum(lengths, 1e-300), self._flat)


def _has_repeated_corner(triangles: np.ndarray) -> np.ndarray:
    a, b, c = triangles.T
    return (a == b) | (b == c) | (c == a)


def _first_of_each(labels: np.ndarray) -> np.ndarray:
    return np.unique(labels, return_index=True)[1]


def _equal_points(points: np.ndarray) -> np.ndarray:
    """Label points in the order of first appearance; equal points have equal labels."""
    # Adding zero makes -0.0 equal to 0.0.
    rows = np.ascontiguousarray(points + 0.0).view(np.dtype((np.void, 24))).ravel()
    return topology.in_order_of_appearance(rows)


def _near_points(points: np.ndarray, tolerance: float) -> np.ndarray:
    tree = cKDTree(points)
    n = len(points)
    if tree.count_neighbors(tree, tolerance) > 100 * n + 10_000:
        raise MeshError(
            f"welding tolerance {tolerance:g} joins most of the mesh's {n} vertices; lower it"
        )
    pairs = tree.query_pairs(tolerance, output_type="ndarray")
    graph = coo_array((np.ones(len(pairs), dtype=bool), tuple(pairs.T)), (n, n))
    labels = connected_components(graph, directed=False)[1]
    return topology.in_order_of_appearance(labels)
