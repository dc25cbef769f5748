"""Elimination trees and the structure of the factor: kernels of the symbolic analysis.

The algorithms are from Davis, *Direct Methods for Sparse Linear Systems* (SIAM 2006),
chapter 4. Columns are numbered by their position in the elimination order.
"""
# mypy: disallow_untyped_defs=False

from __future__ import annotations

import numpy as np

from supple.compiled.jit import compiled


@compiled
def elimination_tree(starts, neighbours, order, position):
    """Return each column's parent: the first later column that it updates, or −1.
    Liu's algorithm with path compression (Davis §4.1).
    """
    n = len(order)
    parent = np.full(n, -1)
    ancestor = np.full(n, -1)
    for column in range(n):
        node = order[column]
        for e in range(starts[node], starts[node + 1]):
            i = position[neighbours[e]]
            while i != -1 and i < column:
                above = ancestor[i]
                ancestor[i] = column
                if above == -1:
                    parent[i] = column
                i = above
    return parent


@compiled
def children(parent):
    """Return each node's first child and next sibling; the roots' parent is an extra node."""
    n = len(parent)
    head = np.full(n + 1, -1)
    following = np.full(n, -1)
    for node in range(n - 1, -1, -1):
        above = parent[node] if parent[node] >= 0 else n
        following[node] = head[above]
        head[above] = node
    return head, following


@compiled
def postorder(parent):
    """Return an order of the forest in which each subtree is contiguous and its root last."""
    n = len(parent)
    head, following = children(parent)
    visit = np.empty(n, np.int64)
    stack = np.empty(n + 1, np.int64)
    stack[0], depth, done = n, 1, 0
    while depth > 0:
        node = stack[depth - 1]
        child = head[node]
        if child == -1:
            depth -= 1
            if node < n:
                visit[done] = node
                done += 1
        else:
            head[node] = following[child]
            stack[depth] = child
            depth += 1
    return visit


@compiled
def column_counts(starts, neighbours, order, position, parent):
    """Return the number of entries of each column of the factor below its diagonal.
    Row i of the factor is the part of the tree between i's neighbours and i (Davis §4.2), so
    traversing it visits each entry once; on the graph of blocks that is cheap.
    """
    n = len(order)
    counts = np.zeros(n, np.int64)
    visited = np.full(n, -1)
    for row in range(n):
        visited[row] = row
        node = order[row]
        for e in range(starts[node], starts[node + 1]):
            i = position[neighbours[e]]
            if i < row:
                while visited[i] != row:
                    visited[i] = row
                    counts[i] += 1
                    i = parent[i]
    return counts


@compiled
def front_rows(starts, neighbours, order, position, first, parent, row_start):
    """Return each front's rows below its columns, unsorted: its neighbours, its children's rows."""
    fronts = len(parent)
    rows = np.empty(row_start[fronts], np.int64)
    visited = np.full(len(order), -1)
    head, following = children(parent)
    for s in range(fronts):
        last, count = first[s + 1], row_start[s]
        for column in range(first[s], last):
            node = order[column]
            for e in range(starts[node], starts[node + 1]):
                count = _add_row(rows, count, position[neighbours[e]], last, visited, s)
        child = head[s]
        while child != -1:
            for e in range(row_start[child], row_start[child + 1]):
                count = _add_row(rows, count, rows[e], last, visited, s)
            child = following[child]
    return rows


@compiled
def _add_row(rows, count, row, last, seen, front):
    if row >= last and seen[row] != front:
        seen[row] = front
        rows[count] = row
        count += 1
    return count


@compiled
def entries(indptr, indices, order, position, first, row_start, rows):
    """Return starts of each front's entries, their indices in the matrix and places in the front.

    Row i of a symmetric matrix is its column i, so the lower triangle's column is read from the
    row.
    """
    n, fronts = len(order), len(first) - 1
    start = np.zeros(fronts + 1, np.int64)
    source = np.empty(len(indices), np.int32)
    target = np.empty(len(indices), np.int32)
    place = np.zeros(n, np.int64)
    count = 0
    for s in range(fronts):
        width = first[s + 1] - first[s]
        height = width + row_start[s + 1] - row_start[s]
        for j in range(width):
            place[first[s] + j] = j
        for e in range(row_start[s], row_start[s + 1]):
            place[rows[e]] = width + e - row_start[s]
        for j in range(width):
            column = order[first[s] + j]
            for e in range(indptr[column], indptr[column + 1]):
                i = position[indices[e]]
                if i >= first[s] + j:
                    source[count] = e
                    target[count] = j * height + place[i]
                    count += 1
        start[s + 1] = count
    return start, source[:count], target[:count]
