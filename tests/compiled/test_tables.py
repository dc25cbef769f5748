"""Tables that are bound once are, to compiled functions, the tuples they were."""

from __future__ import annotations

import copy
import gc
import pickle

import numpy as np
import pytest
from numba.core.errors import TypingError

from supple.compiled.jit import compiled_fused
from supple.compiled.tables import ArgumentTable, table_contents


@compiled_fused
def add_all(bound, out):
    numbers, (grid, yes), factor, size = table_contents(bound)
    total = 0.0
    for j in range(size):
        total += numbers[j]
    if yes:
        for i in range(grid.shape[0]):
            for j in range(grid.shape[1]):
                total += grid[i, j]
    out[0] = factor * total


def tables(yes: bool = True) -> tuple:
    # Plain tuples: Numba's cache on disk could not be read where a class of this file is unknown.
    grid = np.arange(6, dtype=np.float32).reshape(2, 3)
    return np.arange(4.0), (grid, yes), 2.0, 3


@pytest.mark.parametrize(("yes", "total"), [(True, 2 * (3 + 15)), (False, 2 * 3)])
def test_compiled_functions_read_arrays_numbers_and_nested_tuples(yes, total):
    out = np.zeros(1)
    add_all(ArgumentTable(tables(yes)), out)
    assert out[0] == total


def test_a_bound_argument_is_the_array_itself_not_a_copy():
    content, out = tables(), np.zeros(1)
    bound = ArgumentTable(content)
    content[0][:] = 1
    add_all(bound, out)
    assert out[0] == 2 * (3 + 15)
    assert bound.content is content


def test_bound_arrays_live_as_long_as_what_binds_them():
    bounds = [ArgumentTable(tables()) for _ in range(50)]
    gc.collect()
    filler = [np.full(4, np.nan) for _ in range(500)]
    out = np.zeros(1)
    for bound in bounds:
        add_all(bound, out)
        assert out[0] == 2 * (3 + 15)
    del filler


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda bound: pickle.loads(pickle.dumps(bound))])
def test_a_copy_binds_arrays_of_its_own(copied):
    bound, out = ArgumentTable(tables()), np.zeros(1)
    twin = copied(bound)
    assert twin.address != bound.address
    bound.content[0][:] = np.nan
    add_all(twin, out)
    assert out[0] == 2 * (3 + 15)
    twin.content[0][:] = 1
    del bound
    add_all(twin, out)
    assert out[0] == 2 * (3 + 15)
    twin.content[0][:] = 2
    add_all(twin, out)
    assert out[0] == 2 * (6 + 15)


def test_others_cannot_be_opened():
    with pytest.raises(TypingError):
        add_all(tables(), np.zeros(1))
