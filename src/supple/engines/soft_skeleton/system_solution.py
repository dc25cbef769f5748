"""Solution of a step's system: block elimination of flesh, then bones and objects."""

from __future__ import annotations

import numpy as np

from supple.arrays import Bools, Floats, Ints
from supple.compiled.jit import compiled_fused, compiled_sums
from supple.compiled.simd import LANES
from supple.linalg.upper_triangle import cholesky_of_blocks, padded_identity, solve_by_blocks

#: Relative regularisation of the diagonal.
HOLD = 1e-12
#: Number of coordinates of the first bone, which a driven root fixes.
ROOT = 6


class SystemSolution:
    """Cholesky factor of the Hessian of bones, flesh and objects, and the Newton change.

    Bones move everything, a handle the flesh around it. With bones last, most blocks of the factor
    stay zero and are skipped (a sixth of the time with 176 handles).
    """

    def __init__(self, bones: int, flesh: int, objects: int) -> None:
        sizes = np.array([flesh, bones, objects])
        wide = -(-sizes // LANES) * LANES
        firsts = np.array([bones, 0, bones + flesh])
        #: Flesh, bones and objects: first rows in the factor and in the system, and how many.
        self._parts = np.stack([np.cumsum(wide) - wide, firsts, sizes], axis=1).astype(np.int64)
        self._factor = padded_identity(int(wide.sum()))
        blocks = len(self._factor) // LANES
        self._of_part = np.repeat(np.arange(3), wide // LANES)
        self._filled = np.zeros((blocks, blocks), np.bool_)
        self._listed = np.zeros(2 * blocks, np.int64)
        self._full = np.zeros(len(self._factor))
        #: (N,) H⁻¹ of the gradient.
        self.change = np.zeros(sizes.sum())

    def solve(self, hessian: Floats, gradient: Floats, driven: bool) -> bool:
        """Set `change` = H⁻¹ g from the upper triangle of H, and g; return whether it succeeded.

        It fails if H is not positive definite. A `driven` first bone does not change.
        """
        parts, held = (self._parts, self._of_part), ROOT if driven else 0
        work = self._factor, self._filled, self._listed, self._full
        return bool(_solve(hessian, gradient, *parts, held, *work, self.change))


@compiled_fused
def _solve(
    hessian: Floats,
    gradient: Floats,
    parts: Ints,
    of_part: Ints,
    held: int,
    factor: Floats,
    filled: Bools,
    listed: Ints,
    full: Floats,
    change: Floats,
) -> bool:
    for j in range(len(of_part)):
        for i in range(j + 1):
            first, second = parts[of_part[i]], parts[of_part[j]]
            filled[j, i] = _copy_block(hessian, first, second, LANES * i, LANES * j, factor)
    largest = 0.0
    for i in range(len(gradient)):
        largest = max(largest, hessian[i, i])
    for i in range(len(full)):
        full[i] = 0.0
    for p in range(len(parts)):
        at, first, count = parts[p]
        for i in range(count):
            factor[at + i, at + i] += HOLD * (factor[at + i, at + i] + 0.1 * largest)
            full[at + i] = gradient[first + i]
    _hold(parts[1, 0], held, factor, full)
    if not cholesky_of_blocks(factor, filled, listed):
        return False
    solve_by_blocks(factor, filled, full)
    good = True
    for p in range(len(parts)):
        at, first, count = parts[p]
        for i in range(count):
            change[first + i] = full[at + i]
            good &= abs(full[at + i]) < np.inf
    return good


@compiled_fused
def _hold(first: int, count: int, factor: Floats, full: Floats) -> None:
    """Replace `count` rows and columns from `first` on by the identity, with zero right side."""
    for k in range(first, first + count):
        for i in range(k):
            factor[i, k] = 0.0
        for j in range(k + 1, len(factor)):
            factor[k, j] = 0.0
        factor[k, k], full[k] = 1.0, 0.0


@compiled_sums
def _copy_block(
    hessian: Floats, first: Ints, second: Ints, row: int, column: int, out: Floats
) -> bool:
    """Copy a block of the Hessian to `out`; return False if it is off the diagonal and zero.

    The upper triangle stores rows of bones beside columns of flesh, which are transposed.
    """
    high, wide = first[2] - (row - first[0]), second[2] - (column - second[0])
    a, b = first[1] + row - first[0], second[1] + column - second[0]
    turned = a > b
    if high >= LANES and wide >= LANES:
        top, left = min(a, b), max(a, b)
        block, total = hessian[top : top + LANES, left : left + LANES], 0.0
        for i in range(LANES):
            for j in range(LANES):
                total += abs(block[i, j])
        if total == 0.0 and row != column:
            return False
        for i in range(LANES):
            for j in range(LANES):
                out[row + i, column + j] = block[j, i] if turned else block[i, j]
        return True
    some = row == column
    for i in range(LANES):
        for j in range(LANES):
            value = 1.0 if row + i == column + j else 0.0
            if i < high and j < wide:
                value = hessian[b + j, a + i] if turned else hessian[a + i, b + j]
                some |= value != 0.0
            out[row + i, column + j] = value
    return some
