"""What was compiled is kept, until anything it was compiled from changes."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from supple.compiled_cache import source_stamp
from supple.dynamics.reduced_elastic import add_elastic
from supple.dynamics.whole_step import take_steps

INNER = """
from supple.compiled import compiled_fused

@compiled_fused
def inner(x):
    '''{words}'''
    return {factor} * x
"""
OUTER = """
from inner_module import inner
from numbers_module import SHIFT
from supple.compiled import compiled_fused

@compiled_fused
def outer(x):
    return inner(x) + SHIFT
"""


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """A function that imports modules anew, as another run would."""
    names = ("inner_module", "numbers_module", "outer_module")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def fresh(factor: float, shift: float = 0.0, words: str = "Doubled.") -> ModuleType:
        (tmp_path / "inner_module.py").write_text(INNER.format(factor=factor, words=words))
        (tmp_path / "numbers_module.py").write_text(f"SHIFT = {shift}\n")
        if not (tmp_path / "outer_module.py").exists():
            (tmp_path / "outer_module.py").write_text(OUTER)
        for name in names:
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        return importlib.import_module("outer_module")

    yield fresh
    for name in names:
        sys.modules.pop(name, None)


def hits(function: Any) -> int:
    return sum(function.stats.cache_hits.values())


def test_a_change_in_a_called_function_of_another_file_is_noticed(load):
    assert load(2.0).outer(3.0) == 6.0
    assert load(5.0).outer(3.0) == 15.0
    assert hits(load(5.0).outer) == 0  # not called yet
    again = load(5.0).outer
    assert again(3.0) == 15.0
    assert hits(again) == 1


def test_a_change_in_a_number_of_another_file_is_noticed(load):
    assert load(2.0, 1.0).outer(3.0) == 7.0
    assert load(2.0, 4.0).outer(3.0) == 10.0


def test_words_alone_change_nothing(load):
    assert load(2.0).outer(3.0) == 6.0
    reworded = load(2.0, words="Twice as much.").outer
    assert reworded(3.0) == 6.0
    assert hits(reworded) == 1


def test_a_cache_that_cannot_be_read_is_written_anew(load, tmp_path):
    assert load(2.0).outer(3.0) == 6.0
    (index,) = (tmp_path / "__pycache__").glob("outer_module.outer-*.nbi")
    whole = index.read_bytes()
    index.write_bytes(whole[: len(whole) // 2])
    damaged = load(2.0).outer
    assert damaged(3.0) == 6.0
    assert hits(damaged) == 0
    mended = load(2.0).outer
    assert mended(3.0) == 6.0
    assert hits(mended) == 1


def test_a_step_is_as_old_as_its_innermost_kernel(monkeypatch):
    from supple.dynamics import reduced_elastic

    before = source_stamp(take_steps)
    assert before == source_stamp(take_steps) != source_stamp(add_elastic)
    monkeypatch.setattr(reduced_elastic, "FLAT", np.float64(0.21))
    assert source_stamp(take_steps) != before
