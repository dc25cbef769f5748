"""Stamps that tell what a function was compiled from: itself and all that it calls and uses.

Numba's own cache looks at the file of a function only: after a change in what it calls, it goes on
running the old code, and where a class is gone that was an argument's, it fails.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from functools import cache
from types import CodeType, ModuleType
from typing import Any

import numpy as np
from numba.core.dispatcher import Dispatcher

_PACKAGE = __name__.partition(".")[0]
_PLAIN = (bool, int, float, complex, str, bytes, tuple, np.generic, type(None))


def source_stamp(dispatcher: Any) -> str:
    """Return a hash that changes whenever a function, or anything it was compiled from, does."""
    numbers: dict[int, int] = {id(dispatcher): 0}
    waiting, told = [dispatcher], []
    for each in waiting:  # which grows
        function = each.py_func
        told.append(f"\n{numbers[id(each)]} {function.__module__}.{function.__qualname__}")
        told.append(
            repr(sorted((key, _spelled(value)) for key, value in each.targetoptions.items()))
        )
        told += _code_parts(function.__code__, function.__doc__)
        used = [*_globals_used(function.__code__, function.__globals__)]
        used += enumerate(cell.cell_contents for cell in function.__closure__ or ())
        used += [("defaults", function.__defaults__), ("more", function.__kwdefaults__)]
        for name, value in used:
            if not isinstance(value, Dispatcher):
                told.append(f"{name} {_described(value)}")
                continue
            if id(value) not in numbers:
                numbers[id(value)] = len(numbers)
                waiting.append(value)
            told.append(f"{name} is {numbers[id(value)]}")
    return hashlib.sha256(" ".join(told).encode()).hexdigest()


def _spelled(value: Any) -> str:
    """Return a text that is the same in every run, which the order of a set is not."""
    if isinstance(value, set | frozenset):
        return repr(sorted(map(repr, value)))
    return repr(value)


def _code_parts(code: CodeType, documentation: str | None) -> Iterator[str]:
    yield code.co_code.hex()
    yield repr((code.co_names, code.co_varnames, code.co_freevars))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code_parts(constant, None)
        elif documentation is None or constant != documentation:
            yield _spelled(constant)


def _globals_used(code: CodeType, known: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    for name in code.co_names:
        if name in known:
            yield name, known[name]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _globals_used(constant, known)


def _described(value: Any) -> str:
    """Describe a value that a function uses: a number by itself, other things by their file."""
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
    named = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", "")
    if (named or "").partition(".")[0] == _PACKAGE:
        return _contents(named)
    return f"{named}.{getattr(value, '__qualname__', type(value).__name__)}"


@cache
def _contents(name: str) -> str:
    """Hash a module's file, and those of modules that it takes something of ours from."""
    module = sys.modules[name]
    others = {getattr(value, "__module__", None) or "" for value in vars(module).values()}
    ours = sorted({name, *(each for each in others if each.partition(".")[0] == _PACKAGE)})
    digest = hashlib.sha256()
    for each in ours:
        digest.update(_source(sys.modules.get(each)) or each.encode())
    return digest.hexdigest()


def _source(module: ModuleType | None) -> bytes | None:
    """Return a module's file, which may be inside an archive; None if there is none."""
    path = getattr(module, "__file__", None)
    loader: Any = getattr(getattr(module, "__spec__", None), "loader", None)
    if path is None or not hasattr(loader, "get_data"):
        return None
    return bytes(loader.get_data(path))
