"""What a multifrontal Cholesky factorisation can know before it sees numbers.

The multifrontal method (Duff & Reid 1983; Liu, SIAM Review 34, 1992) eliminates groups of
columns with equal structure, *supernodes*, each in a small dense matrix, its *front*. What a
front leaves behind, its *update*, is added to its parent's front. The parents form a tree, the
elimination tree, and separate branches do not touch each other.

Everything here works on the graph of *blocks* (one node per mesh vertex when three unknowns
belong to a vertex), which is nine times smaller than the matrix.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from supple.linalg import multifrontal_fronts as fronts_of
from supple.linalg import multifrontal_graph as graph
from supple.linalg.ordering import nested_dissection

__all__ = ["Plan", "Sizes", "analyse"]

# Subtrees that cost at most this share of the whole run as one task each. The split must not
# depend on the number of threads, because it decides the order of additions.
TASK_SHARE = 1 / 16
TASK_FLOPS = 2e7  # and smaller tasks than this, about a millisecond, are not worth handing out

Ints = NDArray[np.int64]
ShortInts = NDArray[np.int32]


FRONT = np.dtype(
    [
        (name, np.int64)
        for name in (
            "first",  # column
            "width",  # columns
            "below",  # rows below the columns, which are the update's rows
            "rows",  # where those begin in Plan.rows and Plan.place
            "entries",  # where its numbers begin in Plan.entry_from, and end
            "entries_stop",
            "child",  # a child, and another front with the same parent; −1: no more
            "sibling",
            "panel",  # where its columns begin in the factor
            "update",  # where its update begins in the workspace
            "vector",  # the same for a right-hand side
        )
    ]
)


class Plan(NamedTuple):
    """The symbolic factor: where each number goes. Fronts are numbered children first."""

    fronts: NDArray[np.void]  # of type FRONT
    order: Ints  # the original row that is eliminated i-th
    rows: ShortInts  # below each front's columns
    place: ShortInts  # of each of `rows` in the parent's front
    entry_from: ShortInts  # which of the matrix's numbers
    entry_to: ShortInts  # goes where in the front's columns
    tasks: Ints  # (tasks, 2): ranges of fronts that are independent of each other
    top: Ints  # fronts above the tasks, in order


class Sizes(NamedTuple):
    """How much memory a factorisation takes, in numbers."""

    factor: int
    updates: int
    vectors: int


def block_adjacency(pattern: sp.csr_array, block: int) -> sp.csr_array:
    """Return which blocks of `block` unknowns are coupled, without the diagonal."""
    nodes = pattern.shape[0] // block
    rows = np.repeat(np.arange(pattern.shape[0]) // block, np.diff(pattern.indptr))
    columns = pattern.indices // block
    off = rows != columns
    ones = np.ones(np.count_nonzero(off), dtype=np.int32)
    adjacency = sp.csr_array((ones, (rows[off], columns[off])), shape=(nodes, nodes))
    adjacency.sum_duplicates()
    return adjacency


def analyse(pattern: sp.csr_array, block: int) -> tuple[Plan, Sizes]:
    """Analyse a symmetric pattern whose unknowns come in blocks of equal structure."""
    adjacency = block_adjacency(pattern, block)
    starts, neighbours = adjacency.indptr.astype(np.int64), adjacency.indices.astype(np.int64)
    order = nested_dissection(adjacency)

    # Reorder so that children stand right before their parents, then group columns.
    tree = graph.elimination_tree(starts, neighbours, order, _inverse(order))
    order = order[graph.postorder(tree)]
    position = _inverse(order)
    tree = graph.elimination_tree(starts, neighbours, order, position)
    counts = graph.column_counts(starts, neighbours, order, position, tree)
    group = fronts_of.supernodes(tree, counts, block)
    order, first, parent, below = _order_by_group(order, tree, group, counts)
    row_start = _starts(below)
    rows = graph.front_rows(starts, neighbours, order, _inverse(order), first, parent, row_start)
    rows, place = _sort_rows(first, parent, row_start, rows)
    return _expand(pattern, block, order, first, parent, row_start, rows, place)


def _order_by_group(order: Ints, parent: Ints, group: Ints, counts: Ints) -> tuple[Ints, ...]:
    """Make each supernode's columns contiguous, and number supernodes children first.

    `group` names, for each column, the last column of its supernode. Returns the new order, where
    each supernode begins, its parent, and how many rows it has below its columns.
    """
    last, label = np.unique(group, return_inverse=True)
    above = parent[last]
    tree = np.where(above < 0, -1, label[above])
    visit = graph.postorder(tree)
    rank = _inverse(visit)
    tree = np.where(tree[visit] < 0, -1, rank[tree[visit]])
    columns = np.argsort(rank[label], kind="stable")
    sizes = np.bincount(rank[label], minlength=len(last))
    return order[columns], _starts(sizes), tree, counts[last][visit]


def _sort_rows(first: Ints, parent: Ints, row_start: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """Sort each front's rows, and find them in its parent's front, its columns counted first."""
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
    """Go from blocks to unknowns, and lay out the memory."""
    within = np.arange(block)
    order = (order[:, None] * block + within).ravel()
    rows = (rows[:, None] * block + within).ravel()
    place = (place[:, None] * block + within).ravel()
    first, row_start = first * block, row_start * block
    width, below = np.diff(first), np.diff(row_start)

    fronts = np.zeros(len(parent), dtype=FRONT)
    fronts["first"], fronts["width"] = first[:-1], width
    fronts["rows"], fronts["below"] = row_start[:-1], below
    child, fronts["sibling"] = graph.children(parent)
    fronts["child"] = child[:-1]
    entries, entry_from, entry_to = graph.entries(
        pattern.indptr, pattern.indices, order, _inverse(order), first, row_start, rows
    )
    fronts["entries"], fronts["entries_stop"] = entries[:-1], entries[1:]
    flops = width**3 / 3 + width**2 * below + width * below.astype(float) ** 2
    tasks, top = fronts_of.split_into_tasks(parent, flops, TASK_SHARE, TASK_FLOPS)
    fronts["update"], update_size = fronts_of.place_updates(parent, below**2, tasks)
    fronts["vector"], vector_size = fronts_of.place_updates(parent, below, tasks)
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
    """Return where runs of the given sizes begin, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])


def _inverse(order: Ints) -> Ints:
    inverse = np.empty_like(order)
    inverse[order] = np.arange(len(order))
    return inverse
