"""Numba's cache on disk, which notices when any function that was compiled in has changed.

Numba looks at the file of the function itself only: after a change in what it calls, it goes on
running the old code, and where a class is gone that was an argument's, it fails. Here a function
is as old as all it calls, the numbers it uses, and the options it is compiled with.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import numpy as np
from numba.core.caching import FunctionCache
from numba.core.dispatcher import Dispatcher

__all__ = ["SourceCache", "source_stamp"]

_PACKAGE = __name__.partition(".")[0]
_PLAIN = (bool, int, float, complex, str, bytes, tuple, np.generic, type(None))


class SourceCache(FunctionCache):
    """What is kept of a dispatcher between runs.

    Parameters
    ----------
    dispatcher
        Of a compiled function, whose cache it becomes.
    """

    def __init__(self, dispatcher: Any) -> None:
        super().__init__(dispatcher.py_func)
        self._dispatcher, self._stamped = dispatcher, False

    def _stamp(self) -> None:
        # Not before the first call: until then functions it calls may not be there.
        if not self._stamped:
            self._cache_file._source_stamp = source_stamp(self._dispatcher)
            self._stamped = True

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        self._stamp()
        try:
            return super()._load_overload(sig, target_context)
        except Exception:  # written by another version, or not whole: it is compiled anew
            self._cache_file.flush()
            return None

    def _save_overload(self, sig: Any, data: Any) -> None:
        self._stamp()
        super()._save_overload(sig, data)


def source_stamp(dispatcher: Any) -> str:
    """What changes whenever a function, or anything it was compiled from, does."""
    parts: dict[str, str] = {}
    waiting = [dispatcher]
    while waiting:
        each = waiting.pop()
        function = each.py_func
        name = f"{function.__module__}.{function.__qualname__}"
        if name in parts:
            continue
        options = sorted((key, repr(value)) for key, value in each.targetoptions.items())
        told = [repr(options), *_code_parts(function.__code__, function.__doc__)]
        for global_name, value in _globals_used(function.__code__, function.__globals__):
            if isinstance(value, Dispatcher):
                waiting.append(value)
            else:
                told.append(f"{global_name} {_described(value)}")
        parts[name] = " ".join(told)
    whole = "\n".join(f"{name} {parts[name]}" for name in sorted(parts))
    return hashlib.sha256(whole.encode()).hexdigest()


def _code_parts(code: CodeType, documentation: str | None) -> Iterator[str]:
    yield code.co_code.hex()
    yield repr((code.co_names, code.co_varnames, code.co_freevars))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code_parts(constant, None)
        elif constant != documentation or documentation is None:
            yield repr(constant)


def _globals_used(code: CodeType, known: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name in code.co_names:
        if name in known:
            yield name, known[name]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _globals_used(constant, known)


def _described(value: Any) -> str:
    """A number is what it is; whatever else of ours stands for all of its file."""
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
    if isinstance(value, ModuleType):
        return value.__name__
    module = getattr(value, "__module__", None) or ""
    if module.partition(".")[0] != _PACKAGE:
        return f"{module}.{getattr(value, '__qualname__', type(value).__name__)}"
    return _contents(module)


@cache
def _contents(name: str) -> str:
    """Of a module's file, and of those that it takes something of ours from."""
    module = sys.modules[name]
    others = {getattr(value, "__module__", None) or "" for value in vars(module).values()}
    ours = sorted({name, *(each for each in others if each.partition(".")[0] == _PACKAGE)})
    digest = hashlib.sha256()
    for each in ours:
        source = getattr(sys.modules.get(each), "__file__", None)
        digest.update(Path(source).read_bytes() if source else each.encode())
    return digest.hexdigest()
