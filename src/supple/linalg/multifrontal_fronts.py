"""Which columns share a front, which fronts run at the same time, and where updates stand.

These loops go over fronts, of which there are a few thousand, so they are plain Python.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["place_updates", "split_into_tasks", "supernodes"]

Ints = NDArray[np.int64]


def supernodes(parent: Ints, counts: Ints, block: int) -> Ints:
    """Return for each column the last column of its supernode.

    Columns that follow each other with the same structure share a front (fundamental
    supernodes); then children are merged into parents where few zeros are stored for it
    (relaxed amalgamation, Ashcraft & Grimes 1989).

    Parameters
    ----------
    parent, counts : (n,) arrays
        The elimination tree, children first, and the entries below each column's diagonal.
    block : int
        Unknowns per column.
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
    """Return for each supernode the one it ends up in."""
    into = list(range(len(parent)))
    width, below, above = widths.tolist(), counts.tolist(), parent.tolist()
    zeros = [0] * len(into)
    children: list[list[int]] = [[] for _ in into]
    for s in into.copy():
        # Children come before parents, so those of `s` have taken in their own already.
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
    """Decide whether a front of `width` unknowns may hold this share of stored zeros.

    Dense kernels are slow on few columns, so narrow fronts may waste more. The limits were
    found by timing tet elasticity.
    """
    return (
        share < 0.02
        or (width <= 16 and share < 0.8)
        or (width <= 48 and share < 0.3)
        or (width <= 128 and share < 0.1)
    )


def split_into_tasks(
    parent: Ints, flops: NDArray[np.float64], share: float, least: float
) -> tuple[Ints, Ints]:
    """Cut the tree into ranges of whole subtrees that may run at the same time, and the rest.

    A range costs at most `share` of the whole or `least`, whichever is more.
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


def place_updates(parent: Ints, sizes: Ints, tasks: Ints) -> tuple[Ints, int]:
    """Place the updates in one array, so that a finished front's room is used again.

    A front frees its children's updates once it has added them to its own. With two stacks, one
    for even depths and one for odd, the children are always on top of one stack while the
    front's own update goes on the other, so nothing is ever moved. Each task has its own pair,
    and so have the fronts above the tasks.

    Returns where each update begins, and the length of the array.
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
    where = [0] * len(above)
    children_start: dict[int, int] = {}
    for s, size in enumerate(sizes.tolist()):
        side, stack, most = depth[s] % 2, level[owners[s]], peak[owners[s]]
        stack[1 - side] = children_start.get(s, stack[1 - side])
        where[s] = stack[side]
        stack[side] += size
        most[side] = max(most[side], stack[side])
        if above[s] >= 0 and owners[above[s]] == owners[s]:
            children_start.setdefault(above[s], where[s])
    room = np.array(peak).ravel()
    base = np.cumsum(room) - room
    return np.array(where, dtype=np.int64) + base[2 * owner + np.array(depth) % 2], int(room.sum())
