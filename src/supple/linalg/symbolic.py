"""Symbolic analysis of a multifrontal Cholesky factorisation, from the pattern alone.

The multifrontal method (Duff & Reid 1983; Liu, SIAM Review 34, 1992) eliminates groups of
columns with equal structure, *supernodes*, each in a small dense matrix, its *front*. The Schur
complement of a front, its *update*, is added to its parent's front. The parents form a tree, the
elimination tree, whose branches are independent.

The analysis works on the graph of *blocks* (one node per mesh vertex when three unknowns
belong to a vertex), which is nine times smaller than the matrix.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components, dijkstra

from supple.arrays import Floats, Ints, ShortInts
from supple.linalg import elimination_tree as trees

# Subtrees with at most this share of all operations are one task each. The split must not depend
# on the number of threads, because it determines the order of additions.
TASK_SHARE = 1 / 16
TASK_FLOPS = 2e7  # smaller tasks, below about a millisecond, are merged
LEAF = 40  # largest part that is not divided further


FRONT = np.dtype(
    [
        (name, np.int64)
        for name in (
            "first",  # its first column
            "width",  # number of columns
            "below",  # number of rows below the columns, which are the update's rows
            "rows",  # where these rows begin in Plan.rows and Plan.place
            "entries",  # where its entries begin in Plan.entry_from, and end
            "entries_stop",
            "child",  # a child, and another front with the same parent; −1: no more
            "sibling",
            "panel",  # where its columns begin in the factor
            "update",  # where its update begins in the workspace
            "vector",  # where its update of a right-hand side begins in the workspace
        )
    ]
)


class Plan(NamedTuple):
    """Symbolic factor: positions of all entries. Fronts are numbered children first."""

    fronts: NDArray[np.void]  # of type FRONT
    order: Ints  # the original row that is eliminated i-th
    rows: ShortInts  # rows below each front's columns
    place: ShortInts  # position of each of `rows` in the parent's front
    entry_from: ShortInts  # index of an entry among the matrix's values
    entry_to: ShortInts  # its position in the front's columns
    tasks: Ints  # (tasks, 2): ranges of fronts that are independent of each other
    top: Ints  # fronts above the tasks, in order


class Sizes(NamedTuple):
    """Memory of a factorisation, in float64 numbers."""

    factor: int
    updates: int
    vectors: int


def block_adjacency(pattern: sp.csr_array, block: int) -> sp.csr_array:
    """Return the adjacency matrix of blocks of `block` unknowns, without the diagonal."""
    nodes = pattern.shape[0] // block
    rows = np.repeat(np.arange(pattern.shape[0]) // block, np.diff(pattern.indptr))
    columns = pattern.indices // block
    off = rows != columns
    ones = np.ones(np.count_nonzero(off), dtype=np.int32)
    adjacency = sp.csr_array((ones, (rows[off], columns[off])), shape=(nodes, nodes))
    adjacency.sum_duplicates()
    return adjacency


def analyse(pattern: sp.csr_array, block: int) -> tuple[Plan, Sizes]:
    """Return the symbolic factor of a symmetric pattern, and the memory that it needs.

    Unknowns come in blocks of `block` with equal structure.
    """
    adjacency = block_adjacency(pattern, block)
    starts, neighbours = adjacency.indptr.astype(np.int64), adjacency.indices.astype(np.int64)
    order = _nested_dissection(adjacency)

    # Reorder so that children directly precede their parents, then group columns.
    tree = trees.elimination_tree(starts, neighbours, order, _inverse(order))
    order = order[trees.postorder(tree)]
    position = _inverse(order)
    tree = trees.elimination_tree(starts, neighbours, order, position)
    counts = trees.column_counts(starts, neighbours, order, position, tree)
    group = _supernodes(tree, counts, block)
    order, first, parent, below = _order_by_group(order, tree, group, counts)
    row_start = _starts(below)
    rows = trees.front_rows(starts, neighbours, order, _inverse(order), first, parent, row_start)
    rows, place = _sort_rows(first, parent, row_start, rows)
    return _expand(pattern, block, order, first, parent, row_start, rows, place)


def _order_by_group(order: Ints, parent: Ints, group: Ints, counts: Ints) -> tuple[Ints, ...]:
    """Make each supernode's columns contiguous, and number supernodes children first.
    `group` has for each column the last column of its supernode. Returns the new order, the first
    column of each supernode, its parent, and its number of rows below its columns.
    """
    last, label = np.unique(group, return_inverse=True)
    above = parent[last]
    tree = np.where(above < 0, -1, label[above])
    visit = trees.postorder(tree)
    rank = _inverse(visit)
    tree = np.where(tree[visit] < 0, -1, rank[tree[visit]])
    columns = np.argsort(rank[label], kind="stable")
    sizes = np.bincount(rank[label], minlength=len(last))
    return order[columns], _starts(sizes), tree, counts[last][visit]


def _sort_rows(first: Ints, parent: Ints, row_start: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """Sort each front's rows, and return their positions in the parent's front, columns first."""
    n = first[-1]
    front = np.repeat(np.arange(len(parent)), np.diff(row_start))
    keys = np.sort(front * n + rows)
    rows = keys - front * n
    above = parent[front]  # a front with rows has a parent
    among_columns = rows < first[above + 1]
    among_rows = np.searchsorted(keys, above * n + rows) - row_start[above]
    place = np.where(
        among_columns, rows - first[above], first[above + 1] - first[above] + among_rows
    )
    return rows, place


def _expand(
    pattern: sp.csr_array,
    block: int,
    order: Ints,
    first: Ints,
    parent: Ints,
    row_start: Ints,
    rows: Ints,
    place: Ints,
) -> tuple[Plan, Sizes]:
    """Expand blocks to unknowns, and lay out the memory."""
    within = np.arange(block)
    order = (order[:, None] * block + within).ravel()
    rows = (rows[:, None] * block + within).ravel()
    place = (place[:, None] * block + within).ravel()
    first, row_start = first * block, row_start * block
    width, below = np.diff(first), np.diff(row_start)

    fronts = np.zeros(len(parent), dtype=FRONT)
    fronts["first"], fronts["width"] = first[:-1], width
    fronts["rows"], fronts["below"] = row_start[:-1], below
    child, fronts["sibling"] = trees.children(parent)
    fronts["child"] = child[:-1]
    entries, entry_from, entry_to = trees.entries(
        pattern.indptr, pattern.indices, order, _inverse(order), first, row_start, rows
    )
    fronts["entries"], fronts["entries_stop"] = entries[:-1], entries[1:]
    flops = width**3 / 3 + width**2 * below + width * below.astype(float) ** 2
    tasks, top = _split_into_tasks(parent, flops, TASK_SHARE, TASK_FLOPS)
    fronts["update"], update_size = _place_updates(parent, below**2, tasks)
    fronts["vector"], vector_size = _place_updates(parent, below, tasks)
    panels = _starts(width * (width + below))
    fronts["panel"] = panels[:-1]
    plan = Plan(
        fronts,
        order,
        rows.astype(np.int32),
        place.astype(np.int32),
        entry_from,
        entry_to,
        tasks,
        top,
    )
    return plan, Sizes(int(panels[-1]), update_size, vector_size)


def _starts(sizes: Ints) -> Ints:
    """Return the start of each run of the given sizes, and the end of the last."""
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])


def _inverse(order: Ints) -> Ints:
    inverse = np.empty_like(order)
    inverse[order] = np.arange(len(order))
    return inverse


# Supernodes, parallel tasks and the layout of updates. These loops are plain Python, as there are
# only a few thousand fronts.


def _supernodes(parent: Ints, counts: Ints, block: int) -> Ints:
    """Return for each column the last column of its supernode, of columns of `block` unknowns.

    Columns that follow each other with the same structure share a front (fundamental supernodes);
    then children are merged into parents where that stores few zeros (relaxed amalgamation,
    Ashcraft & Grimes 1989). `parent` (n,) is the elimination tree, children first.
    """
    n = len(parent)
    ends = np.ones(n, dtype=bool)
    ends[:-1] = (parent[:-1] != np.arange(1, n)) | (counts[:-1] != counts[1:] + 1)
    last = np.flatnonzero(ends)
    label = np.cumsum(ends) - ends
    above = np.where(parent[last] < 0, -1, label[parent[last]])
    merged = _merge_into_parents(above, np.diff(last, prepend=-1), counts[last], block)
    return last[merged[label]]


def _merge_into_parents(parent: Ints, widths: Ints, counts: Ints, block: int) -> Ints:
    """Return for each supernode the supernode into which it is merged, or itself."""
    into = list(range(len(parent)))
    width, below, above = widths.tolist(), counts.tolist(), parent.tolist()
    zeros = [0] * len(into)
    children: list[list[int]] = [[] for _ in into]
    for s in into.copy():
        # Children precede parents, so the children of `s` have been merged with theirs.
        for c in children[s]:
            together = width[c] + width[s]
            size = _stored(together, below[s])
            empty = size - _stored(width[c], below[c]) - _stored(width[s], below[s])
            empty += zeros[c] + zeros[s]
            if _worth_merging(together * block, empty / size):
                into[c], width[s], zeros[s] = s, together, empty
        if above[s] >= 0:
            children[above[s]].append(s)
    for s in reversed(range(len(into))):
        into[s] = into[into[s]]
    return np.array(into, dtype=np.int64)


def _stored(width: int, below: int) -> int:
    return width * (width + 1) // 2 + width * below


def _worth_merging(width: int, share: float) -> bool:
    """Return whether a front of `width` unknowns may have this share of stored zeros. Dense kernels
    are slow on few columns, so narrow fronts may have more. The limits were measured on tet
    elasticity.
    """
    return (
        share < 0.02
        or (width <= 16 and share < 0.8)
        or (width <= 48 and share < 0.3)
        or (width <= 128 and share < 0.1)
    )


def _split_into_tasks(parent: Ints, flops: Floats, share: float, least: float) -> tuple[Ints, Ints]:
    """Divide the tree into ranges of whole subtrees that can run in parallel, and fronts above.
    A range costs at most `share` of all operations or `least`, whichever is more.
    """
    below, size, above = flops.tolist(), [1] * len(parent), parent.tolist()
    for s, p in enumerate(above):
        if p >= 0:
            below[p] += below[s]
            size[p] += size[s]
    limit = max(share * float(flops.sum()), least)
    tasks: list[list[int]] = []
    load = 0.0
    for s, p in enumerate(above):
        if below[s] <= limit and (p < 0 or below[p] > limit):
            begin = s + 1 - size[s]
            if tasks and tasks[-1][1] == begin and load + below[s] <= limit:
                tasks[-1][1] = s + 1
                load += below[s]
            else:
                tasks.append([begin, s + 1])
                load = below[s]
    top = [s for s in range(len(above)) if below[s] > limit]
    return np.array(tasks, dtype=np.int64).reshape(-1, 2), np.array(top, dtype=np.int64)


def _place_updates(parent: Ints, sizes: Ints, tasks: Ints) -> tuple[Ints, int]:
    """Place the updates in one array; return the start of each update, and the length of the array.

    A front frees its children's updates once it has added them to its own. With one stack for even
    depths and one for odd, the children are always on top of one stack while the front's own update
    is pushed on the other, so no update is moved. Each task has its own pair of stacks, and so have
    the fronts above the tasks.
    """
    owner = np.full(len(parent), len(tasks))
    for task, (start, stop) in enumerate(tasks):
        owner[start:stop] = task
    above, owners = parent.tolist(), owner.tolist()
    depth = [0] * len(above)
    for s in reversed(range(len(above))):
        depth[s] = depth[above[s]] + 1 if above[s] >= 0 else 0
    level = [[0, 0] for _ in range(len(tasks) + 1)]
    peak = [[0, 0] for _ in range(len(tasks) + 1)]
    starts = [0] * len(above)
    children_start: dict[int, int] = {}
    for s, size in enumerate(sizes.tolist()):
        side, stack, most = depth[s] % 2, level[owners[s]], peak[owners[s]]
        stack[1 - side] = children_start.get(s, stack[1 - side])
        starts[s] = stack[side]
        stack[side] += size
        most[side] = max(most[side], stack[side])
        if above[s] >= 0 and owners[above[s]] == owners[s]:
            children_start.setdefault(above[s], starts[s])
    peaks = np.array(peak).ravel()
    base = np.cumsum(peaks) - peaks
    return np.array(starts, dtype=np.int64) + base[2 * owner + np.array(depth) % 2], int(
        peaks.sum()
    )


# Nested dissection: an elimination order with little fill-in.
#
# A *separator* divides the graph in two; both sides are eliminated before it, each in the same way
# (George 1973), so that there is no fill-in between them.


def _nested_dissection(adjacency: sp.csr_array) -> Ints:
    """Return METIS' order of a symmetric graph without diagonal, the same on every run.
    Without pymetis, which has no wheels for some systems, `level_dissection` is used.
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
    """Return the order whose separators are the middle levels of distance from a peripheral node:
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
    """Return −1 and 1 for the two sides of a connected graph, 0 for the separator."""
    start = 0
    for _ in range(2):  # the node farthest from the farthest is nearly peripheral
        start = int(np.argmax(dijkstra(graph, indices=start, unweighted=True)))
    level = dijkstra(graph, indices=start, unweighted=True).astype(np.int64)
    if level.max() < 2:
        return np.zeros(len(level), dtype=np.int8)
    middle = int(np.searchsorted(np.cumsum(np.bincount(level)), len(level) / 2))
    middle = min(max(middle, 1), int(level.max()) - 1)
    side = np.sign(level - middle).astype(np.int8)
    # Nodes of the middle level without a neighbour above belong to the lower side.
    side[(side == 0) & (graph @ (side > 0).astype(np.int64) == 0)] = -1
    return side
