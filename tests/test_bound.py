"""Tables that are bound once are, to compiled functions, the tuples they were."""

from __future__ import annotations

import gc
from typing import NamedTuple

import numpy as np
import pytest
from numba.core.errors import TypingError
from numpy.typing import NDArray

from supple.compiled import compiled_fused
from supple.linalg.bound import Bound, opened


class Inner(NamedTuple):
    grid: NDArray[np.float32]
    yes: bool


class Outer(NamedTuple):
    numbers: NDArray[np.float64]
    inner: Inner
    factor: float
    size: int


@compiled_fused
def add_all(bound, out):
    content = opened(bound)
    total = 0.0
    for j in range(content.size):
        total += content.numbers[j]
    if content.inner.yes:
        for i in range(content.inner.grid.shape[0]):
            for j in range(content.inner.grid.shape[1]):
                total += content.inner.grid[i, j]
    out[0] = content.factor * total


def tables(yes: bool = True) -> Outer:
    grid = np.arange(6, dtype=np.float32).reshape(2, 3)
    return Outer(np.arange(4.0), Inner(grid, yes), 2.0, 3)


@pytest.mark.parametrize(("yes", "total"), [(True, 2 * (3 + 15)), (False, 2 * 3)])
def test_compiled_functions_see_arrays_numbers_and_nested_tuples(yes, total):
    out = np.zeros(1)
    add_all(Bound(tables(yes)), out)
    assert out[0] == total


def test_what_is_bound_is_the_array_itself_not_a_copy():
    content, out = tables(), np.zeros(1)
    bound = Bound(content)
    content.numbers[:] = 1
    add_all(bound, out)
    assert out[0] == 2 * (3 + 15)
    assert bound.content is content


def test_bound_arrays_live_as_long_as_what_binds_them():
    bounds = [Bound(tables()) for _ in range(50)]
    gc.collect()
    filler = [np.full(4, np.nan) for _ in range(500)]
    out = np.zeros(1)
    for bound in bounds:
        add_all(bound, out)
        assert out[0] == 2 * (3 + 15)
    del filler


def test_others_cannot_be_opened():
    with pytest.raises(TypingError):
        add_all(tables(), np.zeros(1))
