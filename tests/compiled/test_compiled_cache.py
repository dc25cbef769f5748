"""What was compiled is kept, until anything it was compiled from changes."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from supple.compiled.code_files import source_stamp
from supple.engines.pose_space.elastic_force import add_elastic
from supple.engines.pose_space.step import take_steps

INNER = """
from supple.compiled.jit import compiled_fused

@compiled_fused
def inner(x, power={power}):
    '''{words}'''
    return {factor} * x ** power

@compiled_fused
def other(x):
    return -x

def made(factor):
    @compiled_fused
    def times(x):
        return factor * x
    return times

once, twice = made(1.0), made({twice})
"""
OUTER = """
from inner_module import {names}, twice, once
from numbers_module import SHIFT, Pair
from supple.compiled.jit import compiled_fused

@compiled_fused
def outer(x):
    return first(x) + second(0.0) + SHIFT

@compiled_fused
def both(x):
    return once(x) + twice(x)

@compiled_fused
def less(pair):
    return pair.high - pair.low
"""
NUMBERS = """
from typing import NamedTuple

SHIFT = {shift}

class Pair(NamedTuple):
    {fields[0]}: float
    {fields[1]}: float
"""
USUAL: dict[str, Any] = {
    "factor": 2.0,
    "power": 1,
    "words": "Doubled.",
    "twice": 2.0,
    "shift": 0.0,
    "fields": ("high", "low"),
    "names": "inner as first, other as second",
}


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """A function that imports modules anew, as another run would."""
    names = ("inner_module", "numbers_module", "outer_module")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def fresh(**changed: Any) -> ModuleType:
        told = USUAL | changed
        texts = {"inner": INNER, "numbers": NUMBERS, "outer": OUTER}
        for name, text in texts.items():
            (tmp_path / f"{name}_module.py").write_text(text.format(**told))
        for name in names:
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        return importlib.import_module("outer_module")

    yield fresh
    for name in names:
        sys.modules.pop(name, None)


def hits(function: Any) -> int:
    return sum(function.stats.cache_hits.values())


def test_unchanged_functions_are_not_compiled_again(load):
    assert load().outer(3.0) == 6.0
    again = load(words="Twice as much.").outer  # words are no code
    assert again(3.0) == 6.0
    assert hits(again) == 1


@pytest.mark.parametrize(
    ("changed", "result"),
    [
        ({"factor": 5.0}, 15.0),
        ({"shift": 4.0}, 10.0),
        ({"power": 2}, 18.0),
        ({"names": "other as first, inner as second"}, -3.0),
    ],
    ids=["a called function", "a number", "a default", "a name"],
)
def test_a_change_in_another_file_is_noticed(load, changed, result):
    assert load().outer(3.0) == 6.0
    assert load(**changed).outer(3.0) == result


def test_functions_of_the_same_factory_are_distinguished(load):
    assert load().both(3.0) == 9.0
    assert load(twice=7.0).both(3.0) == 24.0


def test_fields_in_another_order_are_noticed(load):
    module = load()
    assert module.less(module.Pair(3.0, 1.0)) == 2.0
    module = load(fields=("low", "high"))
    assert module.less(module.Pair(3.0, 1.0)) == -2.0


def test_a_file_that_cannot_be_read_is_written_anew(load, tmp_path):
    assert load().outer(3.0) == 6.0
    (kept,) = (tmp_path / "__pycache__").glob("outer_module.outer.*.nbc")
    whole = kept.read_bytes()
    kept.write_bytes(whole[: len(whole) // 2])
    damaged = load().outer
    assert damaged(3.0) == 6.0
    assert hits(damaged) == 0
    mended = load().outer
    assert mended(3.0) == 6.0
    assert hits(mended) == 1


def test_files_of_an_older_version_are_removed(load, tmp_path):
    load().outer(3.0)
    old = {each.name for each in (tmp_path / "__pycache__").glob("outer_module.outer.*")}
    load(factor=5.0).outer(3.0)
    new = {each.name for each in (tmp_path / "__pycache__").glob("outer_module.outer.*")}
    assert len(old) == len(new) == 2  # the function, and the way to it from Python
    assert not old & new


def test_a_folder_that_cannot_be_written_to_is_no_error(load, tmp_path, monkeypatch):
    """Nor is one beside the source that is not even a folder: the user's cache is used then."""
    home = tmp_path / "home"
    monkeypatch.setenv("SUPPLE_CACHE", str(home))
    (tmp_path / "__pycache__").write_text("in the way")
    assert load().outer(3.0) == 6.0
    again = load().outer
    assert again(3.0) == 6.0
    assert hits(again) == 1
    assert list((home / "kernels").glob("*/outer_module.outer.*.nbc"))


def test_where_nothing_can_be_kept_everything_still_runs(load, tmp_path, monkeypatch):
    (tmp_path / "home").write_text("in the way")
    (tmp_path / "__pycache__").write_text("in the way")
    monkeypatch.setenv("SUPPLE_CACHE", str(tmp_path / "home"))
    assert load().outer(3.0) == 6.0
    again = load().outer
    assert again(3.0) == 6.0
    assert hits(again) == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_leaves_nothing_half_written(load, tmp_path, monkeypatch):
    whole = Path.write_bytes

    def half(self: Path, data: bytes) -> int:
        if ".nb" not in self.name:
            return whole(self, data)
        whole(self, data[: len(data) // 2])
        return Path("/dev/full").write_bytes(data)  # raises

    monkeypatch.setenv("SUPPLE_CACHE", str(tmp_path / "home"))
    monkeypatch.setattr(Path, "write_bytes", half)
    assert load().outer(3.0) == 6.0
    assert not list(tmp_path.rglob("outer_module.*"))[1:]  # but the source


def test_code_of_another_processor_or_numba_is_left_alone(load, monkeypatch):
    from supple.compiled import code_files

    assert load().outer(3.0) == 6.0
    for what, there in (("llvmlite", "0.1"), ("numba", "0.2")):
        with monkeypatch.context() as patch:
            patch.setattr(getattr(code_files, what), "__version__", there)
            other = load().outer
            assert other(3.0) == 6.0
            assert hits(other) == 0
    context = load().outer.targetctx
    kind = type(context.codegen())
    monkeypatch.setattr(kind, "_get_host_cpu_name", lambda self: "some-other-processor")
    other = load().outer
    assert other(3.0) == 6.0
    assert hits(other) == 0


def test_a_step_is_as_old_as_its_innermost_kernel(monkeypatch):
    from supple.engines.pose_space import elastic_force

    before = source_stamp(take_steps)
    assert before == source_stamp(take_steps) != source_stamp(add_elastic)
    monkeypatch.setattr(elastic_force, "FLAT", np.float64(0.21))
    assert source_stamp(take_steps) != before


def test_a_stamp_is_the_same_in_every_process():
    program = (
        "from supple.compiled.code_files import source_stamp\n"
        "from supple.engines.pose_space.step import take_steps\n"
        "print(source_stamp(take_steps))"
    )
    stamps = {
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": seed},
            check=True,
            timeout=120,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")  # which order {"reassoc", "contract"} differently
    }
    assert stamps == {source_stamp(take_steps) + "\n"}


def test_library_functions_do_not_inherit_how_their_first_caller_rounds():
    """Numba compiles `int_power` once for all callers; the fused caller here is the first."""
    code = (
        "from llvmlite import binding\n"
        "from supple.compiled.jit import compiled_fused\n"
        "def power(x, n):\n"
        "    return x ** n\n"
        "power = compiled_fused(power)\n"
        "assert power(2.0, 3) == 8.0\n"
        "(part,) = power._parts.values()\n"
        "print(str(binding.parse_bitcode(part.library.unit.bitcode)))\n"
    )
    llvm = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "int_power" in llvm.stdout
    assert " contract " not in llvm.stdout
