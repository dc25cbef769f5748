"""In which order to eliminate a graph's nodes so that little fills in: nested dissection.

A *separator* cuts the graph in two; both sides are eliminated before it, each in the same way
(George 1973), so that nothing fills in between them.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components, dijkstra

__all__ = ["level_dissection", "nested_dissection"]

Ints = NDArray[np.int64]

LEAF = 40  # nodes that are not worth cutting further


def nested_dissection(adjacency: sp.csr_array) -> Ints:
    """Return METIS' order of a symmetric graph (no diagonal), the same on every run.

    Without pymetis, which has no wheel for every system, it is `level_dissection`'s.
    """
    if adjacency.nnz == 0:
        return np.arange(adjacency.shape[0], dtype=np.int64)
    try:
        import pymetis
    except ImportError:
        return level_dissection(adjacency)
    width = pymetis.zero_copy_dtype()
    lists = pymetis.CSRAdjacency(adjacency.indptr.astype(width), adjacency.indices.astype(width))
    order, _ = pymetis.nested_dissection(lists, options=pymetis.Options(seed=1))
    return np.asarray(order, dtype=np.int64)


def level_dissection(adjacency: sp.csr_array) -> Ints:
    """Return the order whose separators are middle levels of distance from a far end.

    George & Liu's automatic nested dissection (1978).
    """
    separators = []
    parts = [np.arange(adjacency.shape[0])]
    while parts:
        nodes = parts.pop()
        if len(nodes) <= LEAF:
            separators.append(nodes)
            continue
        graph = adjacency[nodes][:, nodes]
        count, label = connected_components(graph, directed=False)
        if count > 1:
            ends = np.cumsum(np.bincount(label))[:-1]
            parts += np.split(nodes[np.argsort(label, kind="stable")], ends)
            continue
        side = _cut(graph)
        separators.append(nodes[side == 0])
        parts += [nodes[side < 0], nodes[side > 0]]
    return np.concatenate(separators[::-1])


def _cut(graph: sp.csr_array) -> NDArray[np.int8]:
    """Return −1 and 1 for the two sides of a connected graph, 0 for what separates them."""
    start = 0
    for _ in range(2):  # the node farthest from the farthest is near the graph's end
        start = int(np.argmax(dijkstra(graph, indices=start, unweighted=True)))
    level = dijkstra(graph, indices=start, unweighted=True).astype(np.int64)
    if level.max() < 2:
        return np.zeros(len(level), dtype=np.int8)
    middle = int(np.searchsorted(np.cumsum(np.bincount(level)), len(level) / 2))
    middle = min(max(middle, 1), int(level.max()) - 1)
    side = np.sign(level - middle).astype(np.int8)
    # What lies on the middle level without a neighbour above belongs below.
    side[(side == 0) & (graph @ (side > 0).astype(np.int64) == 0)] = -1
    return side
