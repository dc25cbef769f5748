"""Solving with the factor of `multifrontal_kernels`: forward and backward through the tree.

The right-hand sides stand in elimination order, one after another, in one array. Going up the
tree, what a front takes from the rows below it travels to its parent as a vector, as updates do
in the factorisation, so that subtrees can run at the same time and sums keep their order.
"""
# mypy: disallow_untyped_defs=False

from __future__ import annotations

import numpy as np
from numba import prange

from supple.compiled import compiled, compiled_parallel
from supple.linalg.fortran import LEFT, NO, YES, gemm, gemv, take_ticket, trsm, trsv
from supple.linalg.multifrontal_kernels import TILE, tiles_in

__all__ = ["solve"]

# Fronts with fewer numbers than this are not worth waking other threads for.
SMALL = 50_000
FORWARD_TASK, FORWARD_ROWS, BACKWARD_COLUMNS, BACKWARD_TASK = range(4)


@compiled
def _triangle(blas, trans, front, factor, x, n, count):
    """Solve with the square on top of a front's columns."""
    corner, height = (factor, front.panel), front.width + front.below
    if count == 1:
        trsv(blas, trans, front.width, corner, height, (x, front.first))
    else:
        trsm(blas, LEFT, trans, front.width, count, corner, height, (x, front.first), n)


@compiled
def _forward_begin(blas, plan, front, factor, x, n, count, vectors):
    """Collect what the children took from a front's rows, and solve for its columns."""
    width, below = front.width, front.below
    for i in range(front.vector * count, (front.vector + below) * count):
        vectors[i] = 0.0
    c = front.child
    while c >= 0:
        child = plan.fronts[c]
        for k in range(count):
            taken = child.vector * count + k * child.below
            for i in range(child.below):
                at = plan.place[child.rows + i]
                if at < width:
                    x[k * n + front.first + at] += vectors[taken + i]
                else:
                    vectors[front.vector * count + k * below + at - width] += vectors[taken + i]
        c = child.sibling
    _triangle(blas, NO, front, factor, x, n, count)


@compiled
def _forward_rows(blas, front, start, stop, factor, x, n, count, vectors):
    """Take the solved columns from rows start:stop below them."""
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
    """Copy the solution at the rows below a front's columns."""
    for k in range(count):
        at = front.vector * count + k * front.below
        for i in range(front.below):
            vectors[at + i] = x[k * n + plan.rows[front.rows + i]]


@compiled
def _backward_columns(blas, front, start, stop, factor, x, n, count, vectors):
    """Take the rows below from columns start:stop."""
    if front.below == 0:
        return
    below, height = front.below, front.width + front.below
    columns = (factor, front.panel + start * height + front.width)
    known, target = (vectors, front.vector * count), (x, front.first + start)
    if count == 1:
        gemv(blas, YES, below, stop - start, columns, height, known, target)
    else:
        gemm(blas, YES, NO, stop - start, count, below, columns, height, known, below, target, n)


@compiled_parallel
def _in_parallel(step, tiles, threads, s, blas, plan, factor, x, n, count, vectors):
    """Do the tiles of a step; one loop for all, as in the factorisation."""
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
    """Go up or down a range of fronts."""
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
    """Solve in place for `count` right-hand sides in elimination order."""
    n = len(plan.order)
    work = (blas, plan, factor, x, n, count, vectors)
    _in_parallel(FORWARD_TASK, len(plan.tasks), threads, 0, *work)
    for s in plan.top:
        front = plan.fronts[s]
        _forward_begin(blas, plan, front, factor, x, n, count, vectors)
        below = front.below
        if below * front.width < SMALL:
            _forward_rows(blas, front, np.int64(0), below, factor, x, n, count, vectors)
        else:
            _in_parallel(FORWARD_ROWS, tiles_in(below), threads, s, *work)
    for s in plan.top[::-1]:
        front = plan.fronts[s]
        width = front.width
        _backward_begin(plan, front, x, n, count, vectors)
        if front.below * width < SMALL:
            _backward_columns(blas, front, np.int64(0), width, factor, x, n, count, vectors)
        else:
            _in_parallel(BACKWARD_COLUMNS, tiles_in(width), threads, s, *work)
        _triangle(blas, YES, front, factor, x, n, count)
    _in_parallel(BACKWARD_TASK, len(plan.tasks), threads, 0, *work)
