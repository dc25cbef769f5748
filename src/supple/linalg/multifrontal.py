"""Numerical factorisation and solution, front by front, by Numba kernels that call BLAS.

Matrices are stored by columns. A front's columns (*panel*) are factored where they stay, in the
factor; its update is a square in the workspace, of which the lower triangle is used. Subtrees of
the elimination tree are parallel tasks; the fronts above them, which are large, are processed
one after another in parallel tiles. Tasks and tiles are the same for every number of threads, and
each is computed by one thread in a fixed order, so that results are reproducible bit for bit.
"""

# mypy: disallow_untyped_defs=False

from __future__ import annotations

import numpy as np
from numba import prange

from supple.compiled.jit import compiled, compiled_parallel
from supple.linalg.blas import (
    LEFT,
    NO,
    RIGHT,
    YES,
    gemm,
    gemv,
    potrf,
    syrk,
    take_ticket,
    trsm,
    trsv,
)

TILE = 256


# Ratio of a pivot to its diagonal entry below which the matrix counts as singular.
PIVOT_EPS = 8 * np.finfo(np.float64).eps


TASK, ASSEMBLE, PANEL_UPDATE, PANEL_SOLVE, UPDATE = range(5)


@compiled
def tiles_in(length):
    """Return the number of tiles that cover a length."""
    return (length + TILE - 1) // TILE


@compiled
def _assemble(plan, s, start, stop, data, factor, updates, diagonal):
    """Fill columns start:stop of a front with entries of the matrix and the children's updates."""
    front = plan.fronts[s]
    width, below = front.width, front.below
    height = width + below
    split = max(start, min(stop, width))
    # Only the lower triangle is ever read.
    for j in range(start, split):
        factor[front.panel + j * (height + 1) : front.panel + (j + 1) * height] = 0.0
    for j in range(split - width, stop - width):
        updates[front.update + j * (below + 1) : front.update + (j + 1) * below] = 0.0
    if start < split:
        for e in range(front.entries, front.entries_stop):
            to = plan.entry_to[e]
            if start * height <= to and to < split * height:
                factor[front.panel + to] += data[plan.entry_from[e]]
        for j in range(start, split):
            diagonal[front.first + j] = factor[front.panel + j * (height + 1)]
    c = front.child
    while c >= 0:
        child = plan.fronts[c]
        place = plan.place[child.rows : child.rows + child.below]
        for j in range(child.below):
            t = place[j]
            values = updates[child.update + j * (child.below + 1) :]
            if start <= t and t < split:
                _add_to(factor[front.panel + t * height :], place[j:], 0, values)
            elif split <= t and t < stop:
                _add_to(updates[front.update + (t - width) * below :], place[j:], width, values)
        c = child.sibling


@compiled
def _add_to(column, rows, skip, values):
    """Add values to rows of a column that begins at row `skip` (extend-add, Liu 1992)."""
    for i in range(len(rows)):
        column[rows[i] - skip] += values[i]


@compiled
def _bad_pivot(front, start, stop, factor, diagonal, info):
    """Return the first of the front's pivots start:stop that is not positive, or −1."""
    if info > 0:
        stop = start + info - 1
    for j in range(start, stop):
        pivot = factor[front.panel + j * (front.width + front.below + 1)]
        if not (pivot * pivot > PIVOT_EPS * diagonal[front.first + j] and pivot < np.inf):
            return front.first + j
    return front.first + stop if info > 0 else -1


@compiled
def _factor_task(blas, plan, task, data, factor, updates, diagonal):
    """Factor a range of fronts; return the first column that failed, or −1."""
    info = np.zeros(1, np.int32)
    for s in range(plan.tasks[task, 0], plan.tasks[task, 1]):
        front = plan.fronts[s]
        width, below = front.width, front.below
        height = width + below
        corner, left = (factor, front.panel), (factor, front.panel + width)
        _assemble(plan, s, np.int64(0), height, data, factor, updates, diagonal)
        potrf(blas, width, corner, height, info)
        bad = _bad_pivot(front, np.int64(0), width, factor, diagonal, info[0])
        if bad >= 0:
            return bad
        if below > 0:
            trsm(blas, RIGHT, YES, below, width, corner, height, left, height)
            syrk(blas, below, width, left, height, (updates, front.update), below)
    return -1


@compiled
def _update_tile(blas, front, tile, factor, updates):
    """Subtract one tile of the panel's outer product from the update; tiles form a triangle."""
    row = 0
    while tile > row:
        row += 1
        tile -= row
    i, j = row * TILE, tile * TILE
    width, below = front.width, front.below
    height = width + below
    h, w = min(TILE, below - i), min(TILE, below - j)
    base = front.panel + width
    left, right = (factor, base + i), (factor, base + j)
    target = (updates, front.update + j * below + i)
    if i == j:
        syrk(blas, h, width, left, height, target, below)
    else:
        gemm(blas, NO, YES, h, w, width, left, height, right, height, target, below)


@compiled
def _panel_tile(blas, front, step, tile, j, factor):
    """Update or solve (by `step`) one tile of rows of the panel's columns j:j+TILE."""
    height = front.width + front.below
    w = min(TILE, front.width - j)
    i = tile * TILE + (j if step == PANEL_UPDATE else j + w)
    h = min(TILE, height - i)
    target = (factor, front.panel + j * height + i)
    if step == PANEL_UPDATE:
        left, right = (factor, front.panel + i), (factor, front.panel + j)
        gemm(blas, NO, YES, h, w, j, left, height, right, height, target, height)
    else:
        corner = (factor, front.panel + j * (height + 1))
        trsm(blas, RIGHT, YES, h, w, corner, height, target, height)


@compiled_parallel
def _in_parallel(step, tiles, threads, s, j, blas, plan, data, factor, updates, diagonal, failed):
    """Process the tiles of a step; each thread takes the next tile when it is free.
    One loop serves all steps, because a parallel loop takes seconds to compile.
    """
    counter = np.zeros(1, np.int64)
    for _ in prange(min(tiles, threads)):
        front = plan.fronts[s]
        tile = take_ticket(counter)
        while tile < tiles:
            if step == TASK:
                failed[tile] = _factor_task(blas, plan, tile, data, factor, updates, diagonal)
            elif step == ASSEMBLE:
                stop = min(front.width + front.below, (tile + 1) * TILE)
                _assemble(plan, s, tile * TILE, stop, data, factor, updates, diagonal)
            elif step == UPDATE:
                _update_tile(blas, front, tile, factor, updates)
            else:
                _panel_tile(blas, front, step, tile, j, factor)
            tile = take_ticket(counter)


@compiled
def factorise(blas, threads, plan, data, factor, updates, diagonal):
    """Factor a matrix; return the first column in elimination order that failed, or −1."""
    tasks = len(plan.tasks)
    failed = np.full(tasks, -1)
    work = (blas, plan, data, factor, updates, diagonal, failed)
    _in_parallel(TASK, tasks, threads, 0, 0, *work)
    for bad in failed:
        if bad >= 0:
            return bad
    info = np.zeros(1, np.int32)
    for s in plan.top:
        front = plan.fronts[s]
        width, below = front.width, front.below
        height = width + below
        _in_parallel(ASSEMBLE, tiles_in(height), threads, s, 0, *work)
        # Left-looking inside the panel: long inner products, and each tile is written once.
        for j in range(0, width, TILE):
            w = min(TILE, width - j)
            if j > 0:
                _in_parallel(PANEL_UPDATE, tiles_in(height - j), threads, s, j, *work)
            potrf(blas, w, (factor, front.panel + j * (height + 1)), height, info)
            bad = _bad_pivot(front, j, j + w, factor, diagonal, info[0])
            if bad >= 0:
                return bad
            _in_parallel(PANEL_SOLVE, tiles_in(height - j - w), threads, s, j, *work)
        _in_parallel(UPDATE, tiles_in(below) * (tiles_in(below) + 1) // 2, threads, s, 0, *work)
    return -1


# Solving with the factor: forward and backward through the tree.
#
# The right-hand sides are stored one after another in elimination order. In the forward pass a
# front passes the products for the rows below it to its parent as a vector, as updates are passed
# in the factorisation, so that subtrees can run in parallel and sums keep their order.


# Fronts with fewer entries are processed by one thread.
SMALL = 50_000


FORWARD_TASK, FORWARD_ROWS, BACKWARD_COLUMNS, BACKWARD_TASK = range(4)


@compiled
def _triangle(blas, trans, front, factor, x, n, count):
    """Solve with the triangle at the top of a front's columns."""
    corner, height = (factor, front.panel), front.width + front.below
    if count == 1:
        trsv(blas, trans, front.width, corner, height, (x, front.first))
    else:
        trsm(blas, LEFT, trans, front.width, count, corner, height, (x, front.first), n)


@compiled
def _forward_begin(blas, plan, front, factor, x, n, count, vectors):
    """Add the children's vectors to a front's rows, and solve for its columns."""
    width, below = front.width, front.below
    for i in range(front.vector * count, (front.vector + below) * count):
        vectors[i] = 0.0
    c = front.child
    while c >= 0:
        child = plan.fronts[c]
        for k in range(count):
            offset = child.vector * count + k * child.below
            for i in range(child.below):
                at = plan.place[child.rows + i]
                if at < width:
                    x[k * n + front.first + at] += vectors[offset + i]
                else:
                    vectors[front.vector * count + k * below + at - width] += vectors[offset + i]
        c = child.sibling
    _triangle(blas, NO, front, factor, x, n, count)


@compiled
def _forward_rows(blas, front, start, stop, factor, x, n, count, vectors):
    """Subtract the products of the solved columns from rows start:stop below them."""
    if start == stop:
        return
    height = front.width + front.below
    rows = (factor, front.panel + front.width + start)
    solved, target = (x, front.first), (vectors, front.vector * count + start)
    if count == 1:
        gemv(blas, NO, stop - start, front.width, rows, height, solved, target)
    else:
        size = stop - start
        gemm(blas, NO, NO, size, count, front.width, rows, height, solved, n, target, front.below)


@compiled
def _backward_begin(plan, front, x, n, count, vectors):
    """Copy the solution at the rows below a front's columns to `vectors`."""
    for k in range(count):
        at = front.vector * count + k * front.below
        for i in range(front.below):
            vectors[at + i] = x[k * n + plan.rows[front.rows + i]]


@compiled
def _backward_columns(blas, front, start, stop, factor, x, n, count, vectors):
    """Subtract the products of the rows below from columns start:stop."""
    if front.below == 0:
        return
    below, height = front.below, front.width + front.below
    columns = (factor, front.panel + start * height + front.width)
    solved, target = (vectors, front.vector * count), (x, front.first + start)
    if count == 1:
        gemv(blas, YES, below, stop - start, columns, height, solved, target)
    else:
        gemm(blas, YES, NO, stop - start, count, below, columns, height, solved, below, target, n)


@compiled_parallel
def _solve_in_parallel(step, tiles, threads, s, blas, plan, factor, x, n, count, vectors):
    """Process the tiles of a step; one loop for all steps, as in the factorisation."""
    counter = np.zeros(1, np.int64)
    for _ in prange(min(tiles, threads)):
        tile = take_ticket(counter)
        while tile < tiles:
            start, stop = tile * TILE, (tile + 1) * TILE
            if step == FORWARD_ROWS:
                front = plan.fronts[s]
                stop = min(stop, front.below)
                _forward_rows(blas, front, start, stop, factor, x, n, count, vectors)
            elif step == BACKWARD_COLUMNS:
                front = plan.fronts[s]
                stop = min(stop, front.width)
                _backward_columns(blas, front, start, stop, factor, x, n, count, vectors)
            else:
                _task(step, blas, plan, tile, factor, x, n, count, vectors)
            tile = take_ticket(counter)


@compiled
def _task(step, blas, plan, task, factor, x, n, count, vectors):
    """Process a range of fronts, forward or backward."""
    first, last = plan.tasks[task, 0], plan.tasks[task, 1] - 1
    for i in range(last - first + 1):
        if step == FORWARD_TASK:
            front = plan.fronts[first + i]
            _forward_begin(blas, plan, front, factor, x, n, count, vectors)
            below = front.below
            _forward_rows(blas, front, np.int64(0), below, factor, x, n, count, vectors)
        else:
            front = plan.fronts[last - i]
            width = front.width
            _backward_begin(plan, front, x, n, count, vectors)
            _backward_columns(blas, front, np.int64(0), width, factor, x, n, count, vectors)
            _triangle(blas, YES, front, factor, x, n, count)


@compiled
def solve(blas, threads, plan, factor, x, count, vectors):
    """Solve in place for the `count` right-hand sides `x`, stored in elimination order."""
    n = len(plan.order)
    work = (blas, plan, factor, x, n, count, vectors)
    _solve_in_parallel(FORWARD_TASK, len(plan.tasks), threads, 0, *work)
    for s in plan.top:
        front = plan.fronts[s]
        _forward_begin(blas, plan, front, factor, x, n, count, vectors)
        below = front.below
        if below * front.width < SMALL:
            _forward_rows(blas, front, np.int64(0), below, factor, x, n, count, vectors)
        else:
            _solve_in_parallel(FORWARD_ROWS, tiles_in(below), threads, s, *work)
    for s in plan.top[::-1]:
        front = plan.fronts[s]
        width = front.width
        _backward_begin(plan, front, x, n, count, vectors)
        if front.below * width < SMALL:
            _backward_columns(blas, front, np.int64(0), width, factor, x, n, count, vectors)
        else:
            _solve_in_parallel(BACKWARD_COLUMNS, tiles_in(width), threads, s, *work)
        _triangle(blas, YES, front, factor, x, n, count)
    _solve_in_parallel(BACKWARD_TASK, len(plan.tasks), threads, 0, *work)
