"""Compiled code kept on disk, under a name that says what it was compiled from.

Numba's own cache looks at the file of a function only: after a change in what it calls, it goes on
running the old code, and where a class is gone that was an argument's, it fails. Its index can
also point to what another process wrote. Here the name of a file tells of the function, of all that
it calls, of the numbers it uses, of the options it is compiled with and of its arguments; so there
is no index, and whatever has that name fits.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
import uuid
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import numba
import numpy as np
from numba.core.caching import FunctionCache
from numba.core.dispatcher import Dispatcher
from numba.core.serialize import dumps

__all__ = ["SourceCache", "source_stamp"]

_PACKAGE = __name__.partition(".")[0]
_PLAIN = (bool, int, float, complex, str, bytes, tuple, np.generic, type(None))


class SourceCache(FunctionCache):
    """Compiled code of a dispatcher, kept between runs.

    Parameters
    ----------
    dispatcher
        Of a compiled function, whose cache it becomes.
    """

    def __init__(self, dispatcher: Any) -> None:
        super().__init__(dispatcher.py_func)
        folder, base = Path(self._cache_path), self._impl.filename_base
        self._cache_file: Any = _CodeFiles(dispatcher, folder, base)

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        return (*super()._index_key(sig, codegen), sorted(set(_fields_of(sig))))


class _CodeFiles:
    """Files BASE.STAMP.KEY.nbc of one function in the folder that Numba chose."""

    def __init__(self, dispatcher: Any, folder: Path, base: str) -> None:
        self._dispatcher, self._folder, self._base = dispatcher, folder, base
        self._stamp: str | None = None

    def _path(self, key: Any) -> Path:
        # Not before the first call: until then functions it calls may not be there.
        if self._stamp is None:
            self._stamp = source_stamp(self._dispatcher)[:16]
        name = hashlib.sha256(repr((numba.__version__, key)).encode()).hexdigest()[:16]
        return self._folder / f"{self._base}.{self._stamp}.{name}.nbc"

    def load(self, key: Any) -> Any:
        """Return the data saved for a key, or None."""
        try:
            return pickle.loads(self._path(key).read_bytes())
        except Exception:  # not there, or not whole: it is compiled anew
            return None

    def save(self, key: Any, data: Any) -> None:
        """Save data under a key, and remove what older versions of the function left."""
        path = self._path(key)
        beside = path.with_suffix(f".{uuid.uuid4().hex}")
        try:
            beside.write_bytes(dumps(data))
            os.replace(beside, path)
            for old in self._folder.glob(f"{self._base}.*"):
                if not old.name.startswith(f"{self._base}.{self._stamp}."):
                    old.unlink(missing_ok=True)
        except OSError:
            beside.unlink(missing_ok=True)

    def flush(self) -> None:
        """Remove all files of the function."""
        for old in self._folder.glob(f"{self._base}.*"):
            old.unlink(missing_ok=True)


def _fields_of(kind: Any) -> Iterator[str]:
    """List the names of all fields in a signature: a tuple's type tells their types alone."""
    for inner in kind if isinstance(kind, tuple) else ():
        yield from _fields_of(inner)
    if hasattr(kind, "content"):  # an argument table
        yield from _fields_of(kind.content)
    if hasattr(kind, "fields") and hasattr(kind, "instance_class"):
        yield f"{kind.instance_class.__module__}.{kind.instance_class.__qualname__} {kind.fields}"
    for inner in getattr(kind, "types", ()):
        yield from _fields_of(inner)


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
        source = getattr(sys.modules.get(each), "__file__", None)
        digest.update(Path(source).read_bytes() if source else each.encode())
    return digest.hexdigest()
