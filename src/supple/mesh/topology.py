"""Functions for surfaces and meshes: row keys, edges, components, defects."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from supple.errors import MeshError

# Largest coordinate, so that volumes are finite.
LARGEST_COORDINATE = 1e100
# Relative height below which a triangle or tet counts as flat.
FLAT = 1e-12


@dataclass(frozen=True)
class Defect:
    """Problem of a mesh that does not prevent its use.

    Attributes
    ----------
    kind : str
        Kind in one or two words: ``"open edges"``.
    count : int
        Number of occurrences.
    first : int or None
        First element or vertex.
    message : str
        Description: ``"has 12 open edges (first at vertex 3)"``.
    """

    kind: str
    count: int
    first: int | None
    message: str


def counted(count: int, singular: str, plural: str | None = None) -> str:
    """Write a number with its noun: ``1 tet``, ``12 tets``."""
    return f"{count} {singular if count == 1 else plural or singular + 's'}"


def defect(kind: str, where: np.ndarray, noun: str) -> Defect:
    """Describe the defect of the vertices or elements `where`, called `noun`."""
    if len(where) == 0:
        return Defect(kind, 0, None, f"has no {kind}")
    singular = kind.replace("vertices", "vertex").replace("hexes", "hex").removesuffix("s")
    message = f"has {counted(len(where), singular, kind)} (first at {noun} {where[0]})"
    return Defect(kind, len(where), int(where[0]), message)


def checked_vertices(vertices: ArrayLike) -> np.ndarray:
    """Return the vertices as (n, 3) contiguous float64, or raise a `MeshError`."""
    try:
        points = np.ascontiguousarray(vertices, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise MeshError(f"vertices are not an (n, 3) array of numbers ({error})") from error
    if points.size == 0:
        raise MeshError("has no vertices")
    if points.ndim != 2 or points.shape[1] != 3:
        raise MeshError(f"vertices have shape {points.shape}, not (n, 3)")
    bad = np.flatnonzero(~np.isfinite(points).all(axis=1))
    if len(bad):
        where = ", ".join(f"{x:g}" for x in points[bad[0]])
        raise MeshError(
            f"{counted(len(bad), 'vertex has', 'vertices have')} a coordinate that is not finite"
            f" (first: vertex {bad[0]}, at {where})"
        )
    far = np.flatnonzero((np.abs(points) > LARGEST_COORDINATE).any(axis=1))
    if len(far):
        raise MeshError(f"vertex {far[0]} is farther than {LARGEST_COORDINATE:g} from the origin")
    return points


def checked_elements(
    elements: ArrayLike, corners: int, n_vertices: int, noun: str, plural: str | None = None
) -> np.ndarray:
    """Return the elements as (m, corners) contiguous int64, or raise a `MeshError`."""
    plural = plural or f"{noun}s"
    try:
        array = np.asarray(elements)
    except ValueError as error:
        raise MeshError(f"{plural} are not an (m, {corners}) array of integers") from error
    if array.size == 0:
        raise MeshError(f"has no {plural}")
    if array.ndim != 2 or array.shape[1] != corners:
        raise MeshError(f"{plural} have shape {array.shape}, not (m, {corners})")
    if array.dtype.kind not in "iu":
        raise MeshError(f"{plural} are {array.dtype}, not integers")
    wrong = (array < 0) | (array >= n_vertices)
    if wrong.any():
        element, corner = np.argwhere(wrong)[0]
        raise MeshError(
            f"{noun} {element} refers to vertex {array[element, corner]},"
            f" but there are {n_vertices} vertices (0 to {n_vertices - 1})"
        )
    return np.ascontiguousarray(array, dtype=np.int64)


def row_keys(rows: np.ndarray, n_values: int) -> np.ndarray:
    """Return an int64 per row, equal for equal rows; far faster than ``unique(axis=0)``.
    The values of `rows` lie in [0, n_values).
    """
    keys = rows[:, 0].astype(np.int64)
    largest = n_values
    for column in rows.T[1:]:
        if largest * n_values >= 2**63:
            _, keys = np.unique(keys, return_inverse=True)
            largest = len(rows)
        keys = keys * n_values + column
        largest *= n_values
    return keys


def half_edges(triangles: np.ndarray) -> np.ndarray:
    """Return the edges of triangles in their direction, three for each, (3 m, 2)."""
    return triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)


def face_keys(elements: np.ndarray, faces: np.ndarray, n_vertices: int) -> np.ndarray:
    """Return an int64 for each face of each element, equal for faces with the same vertices.
    `faces` (f, k) are the corners of an element's faces.
    """
    rows = elements[:, faces].reshape(-1, faces.shape[1])
    return row_keys(np.sort(rows, axis=1), n_vertices)


def repeated_rows(rows: np.ndarray, n_values: int) -> np.ndarray:
    """Return the indices of rows with the same members, in any order, as an earlier row."""
    keys = row_keys(np.sort(rows, axis=1), n_values)
    _, first = np.unique(keys, return_index=True)
    repeated = np.ones(len(rows), dtype=bool)
    repeated[first] = False
    return np.flatnonzero(repeated)


def components(elements: np.ndarray, n_vertices: int) -> np.ndarray:
    """Return the component of each element; elements with a common vertex are connected.
    Labels count from 0 in the order of first appearance.
    """
    first = np.repeat(elements[:, 0], elements.shape[1] - 1)
    others = elements[:, 1:].ravel()
    graph = coo_array((np.ones(len(first), dtype=bool), (first, others)), (n_vertices,) * 2)
    labels = connected_components(graph, directed=False)[1]
    return in_order_of_appearance(labels[elements[:, 0]])


def in_order_of_appearance(values: np.ndarray) -> np.ndarray:
    """Label values 0, 1, … in the order of first appearance; equal values have equal labels."""
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse]


def unreferenced(elements: np.ndarray, n_vertices: int) -> np.ndarray:
    """Return the indices of vertices that no element uses."""
    used = np.zeros(n_vertices, dtype=bool)
    used[elements] = True
    return np.flatnonzero(~used)


def fan_triangles(sizes: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """Cut polygons into triangles (m, 3), as fans from their first corners. `sizes` (p,) are the
    numbers of corners; below three gives no triangle. `corners` lists one polygon after the other.
    """
    n_triangles = np.maximum(sizes - 2, 0)
    start = np.repeat(np.cumsum(sizes) - sizes, n_triangles)
    within = np.arange(n_triangles.sum()) - np.repeat(
        np.cumsum(n_triangles) - n_triangles, n_triangles
    )
    return np.column_stack(
        [corners[start], corners[start + within + 1], corners[start + within + 2]]
    )


def longest_edges(vertices: np.ndarray, elements: np.ndarray) -> np.ndarray:
    """Return the length of each element's longest edge."""
    longest = np.zeros(len(elements))
    n = elements.shape[1]
    for i in range(n):
        for j in range(i + 1, n):
            edge = vertices[elements[:, j]] - vertices[elements[:, i]]
            np.maximum(longest, np.linalg.norm(edge, axis=1), out=longest)
    return longest


class Bounded:
    """Base of meshes: vertices with a bounding box."""

    vertices: np.ndarray

    @property
    def bounds(self) -> np.ndarray:
        """Lowest and highest corner of the bounding box, (2, 3)."""
        return np.stack([self.vertices.min(axis=0), self.vertices.max(axis=0)])

    @property
    def size(self) -> float:
        """Diagonal of the bounding box."""
        low, high = self.bounds
        return float(np.linalg.norm(high - low))
