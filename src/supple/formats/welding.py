"""Welding of vertices that a file repeats at seams of textures and normals."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from supple.arrays import Floats, Ints
from supple.mesh.topology import in_order_of_appearance

# Largest distance of vertices that are merged, as a fraction of the size, and of their weights.
NEAR = 1e-6
# Pairs of near vertices per vertex, above which only equal ones are merged.
MOST_PAIRS = 50


def weld(points: Floats, weights: csr_array, deltas: Floats, size: float) -> Ints:
    """Return the welded vertex of each vertex, (n,), numbered in order of appearance.

    Vertices are merged if they coincide in every pose: equal vertices first, then near ones.
    `points` (n, 3) are bound positions, `weights` an (n, J) CSR array, sorted and without stored
    zeros, `deltas` (b, n, 3) morph targets, and `size` is the character's.
    """
    exact = _equal_rows([points, *padded(weights), *deltas])
    first = np.unique(exact, return_index=True)[1]
    near = _near(points[first], weights[first], deltas[:, first], size)
    return near[exact]


def padded(weights: csr_array) -> tuple[Ints, Floats]:
    """Return joints and weights of each row, (n, k) each, padded with joint 0 and weight 0."""
    counts = np.diff(weights.indptr)
    width = max(int(counts.max(initial=0)), 1)
    row = np.repeat(np.arange(len(counts)), counts)
    column = np.arange(len(weights.indices)) - np.repeat(weights.indptr[:-1], counts)
    joints = np.zeros((len(counts), width), dtype=np.int64)
    values = np.zeros((len(counts), width))
    joints[row, column] = weights.indices
    values[row, column] = weights.data
    return joints, values


def _equal_rows(tables: list[NDArray[Any]]) -> Ints:
    labels = np.zeros(len(tables[0]), dtype=np.int64)
    for table in tables:
        # Adding zero makes -0.0 and 0.0 one number.
        rows = np.column_stack([table.astype(np.float64) + 0.0, labels.astype(np.float64)])
        packed = np.ascontiguousarray(rows).view(np.dtype((np.void, 8 * rows.shape[1]))).ravel()
        labels = in_order_of_appearance(packed)
    return labels


def _near(points: Floats, weights: csr_array, deltas: Floats, size: float) -> Ints:
    n, tolerance = len(points), NEAR * size
    tree = cKDTree(points)
    if size == 0 or tree.count_neighbors(tree, tolerance) > MOST_PAIRS * n + 1000:
        return np.arange(n)
    pairs = tree.query_pairs(tolerance, output_type="ndarray")
    if len(pairs) == 0:
        return np.arange(n)
    a, b = pairs.T
    apart = abs(weights[a] - weights[b]).max(axis=1).toarray().ravel()
    same = apart <= NEAR
    if len(deltas):
        same &= np.abs(deltas[:, a] - deltas[:, b]).max(axis=(0, 2)) <= tolerance
    graph = coo_array((np.ones(same.sum(), dtype=bool), (a[same], b[same])), (n, n))
    return in_order_of_appearance(connected_components(graph, directed=False)[1])
