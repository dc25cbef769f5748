"""Compiled code kept on disk, under a name that says what it was compiled from.

A name tells of the function, of all that it calls, of the numbers it uses, of the options it is
compiled with, of its arguments, of the processor and of Numba's version. So there is no index that
several processes would have to agree on: whatever has that name fits. Files are written whole or
not at all, and read only if they are whole.

They lie in `__pycache__` beside the source, or where that cannot be written, in the user's cache;
`NUMBA_CACHE_DIR` names another folder. Code that came with the package, in its folder `kernels`,
goes first.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import IO, Any

import llvmlite
import numba
import numpy as np
from numba.core.registry import cpu_target
from numba.core.serialize import dumps

from supple.compiled.kernel_library import KnownObjects, Unit
from supple.compiled.shipped_code import shipped_folder, shipped_target
from supple.compiled.source_stamp import source_stamp
from supple.user_cache import cache_folder

try:
    import fcntl
except ImportError:  # Windows: everybody compiles for himself
    fcntl = None  # type: ignore[assignment]

#: Endings of files.
ENTRY, PART = ".nbc", ".nbp"
_DIGEST = 16
_PACKAGE = Path(__file__).resolve().parents[1]
#: Seconds that a process waits in all for others that compile the same, and between two looks: one
#: that is stopped holds many files.
_PATIENCE, _PAUSE = 120.0, 0.01
_waited = 0.0


@dataclass
class KeptPart:
    """Part as it is kept; its unit names those that it calls."""

    unit: Unit
    signature: Any
    fndesc: Any
    environment: Any
    annotation: str


@dataclass
class KeptEntry:
    """Entry as it is kept: machine code that needs nothing else."""

    name: str
    code: bytes
    symbols: set[str]
    needs: tuple[str, ...]
    reload: tuple[Any, ...]
    environments: tuple[KnownObjects, ...]
    signature: Any
    fndesc: Any
    environment: Any
    annotation: str


@cache
def kernel_folders(source: str) -> tuple[Path, ...]:
    """List the folders that hold the code of functions in a source file, best first."""
    path = Path(source)
    if not path.is_file():  # typed at a prompt, or in an archive
        return ()
    parent = path.resolve().parent
    own = f"{parent.name}_{hashlib.sha256(str(parent).encode()).hexdigest()[:16]}"
    given = os.environ.get("NUMBA_CACHE_DIR")
    if given:
        return (Path(given) / own,)
    folders = [parent / "__pycache__"]
    with suppress(RuntimeError):  # there is no home
        folders.append(cache_folder() / "kernels" / own)
    return tuple(folders)


#: Units by their names: those of functions that are called are found here.
_units: dict[str, Unit] = {}


class CodeFiles:
    """Files BASE.STAMP.KEY of one function.

    Parameters
    ----------
    dispatcher
        Of the function.
    """

    def __init__(self, dispatcher: Any) -> None:
        self._dispatcher = dispatcher
        function = dispatcher.py_func
        self._source, self._home = function.__code__.co_filename, function.__module__
        version = f"py{sys.version_info[0]}{sys.version_info[1]}{getattr(sys, 'abiflags', '')}"
        named = f"{Path(self._source).stem}.{function.__qualname__}"
        self._base = f"{named.replace('<', '').replace('>', '')}.{version}"
        self._stamp: str | None = None

    @property
    def stamp(self) -> str:
        """Tell all that the function is compiled from but its arguments."""
        # Not before the first call: until then functions it calls may not be there.
        if self._stamp is None:
            self._stamp = source_stamp(self._dispatcher)[:16]
        return self._stamp

    def name(self, args: tuple[Any, ...], target: tuple[str, ...] | None = None) -> str:
        """Return the name of what is compiled for types of arguments, here or for a target."""
        told = (*compiler_told(target), args, sorted(set(_fields_of(args))))
        key = hashlib.sha256(repr(told).encode()).hexdigest()[:16]
        return f"{self._base}.{self.stamp}.{key}"

    def has_entry(self, args: tuple[Any, ...]) -> bool:
        """Tell whether an entry is kept."""
        return self.entry_size(args) > 0

    def entry_size(self, args: tuple[Any, ...]) -> int:
        """Return how many bytes an entry takes; 0 if it is not kept."""
        for path in self._entries(args):
            with suppress(OSError):
                return path.stat().st_size
        return 0

    def _entries(self, args: tuple[Any, ...]) -> Iterator[Path]:
        """List where an entry may be."""
        target = shipped_target()
        if target is not None:
            yield shipped_folder() / (self.name(args, target) + ENTRY)
        for folder in kernel_folders(self._source):
            yield folder / (self.name(args) + ENTRY)

    def is_busy(self, args: tuple[Any, ...]) -> bool:
        """Tell whether another process is making an entry."""
        name = f"{self.name(args)}{ENTRY}.lock"
        for folder in kernel_folders(self._source):
            with suppress(OSError), (folder / name).open() as lock:
                return fcntl is not None and not _locked(lock)
        return False

    def load_entry(self, args: tuple[Any, ...]) -> KeptEntry | None:
        """Return what is kept of an entry, or None."""
        found = _read(self._entries(args))
        return found if isinstance(found, KeptEntry) else None

    def save_entry(self, args: tuple[Any, ...], entry: KeptEntry) -> None:
        """Keep an entry."""
        self._save(self.name(args) + ENTRY, entry)

    def load_part(self, args: tuple[Any, ...]) -> KeptPart | None:
        """Return what is kept of a part, if all is there that it calls."""
        return _part(self._source, self.name(args))

    def save_part(self, args: tuple[Any, ...], part: KeptPart) -> None:
        """Keep a part."""
        _units[part.unit.name] = part.unit
        calls: Any = tuple((each.home, each.name) for each in part.unit.calls)
        self._save(self.name(args) + PART, replace(part, unit=replace(part.unit, calls=calls)))

    @contextmanager
    def alone(self, args: tuple[Any, ...], ending: str) -> Iterator[None]:
        """Wait for another process that makes the same file, if there is one."""
        with ExitStack() as held:
            for folder in kernel_folders(self._source):
                try:
                    folder.mkdir(parents=True, exist_ok=True)
                    path = folder / f"{self.name(args)}{ending}.lock"
                    lock = held.enter_context(path.open("w"))
                except OSError:
                    continue
                held.callback(path.unlink, missing_ok=True)
                _wait_for(lock)
                break
            yield

    def _save(self, name: str, kept: Any) -> None:
        """Write a file, and remove what older versions of the function left."""
        data = dumps(kept)
        data = hashlib.blake2b(data, digest_size=_DIGEST).digest() + data
        for folder in kernel_folders(self._source):
            beside = folder / f"{name}.{uuid.uuid4().hex[:8]}"
            try:
                folder.mkdir(parents=True, exist_ok=True)
                beside.write_bytes(data)
                os.replace(beside, folder / name)
                self._remove_old(folder)
                return
            except OSError:  # read-only, or full: it is kept elsewhere, or not at all
                with suppress(OSError):
                    beside.unlink(missing_ok=True)

    def _remove_old(self, folder: Path) -> None:
        if "<locals>" in self._dispatcher.py_func.__qualname__:
            return  # one of several that are made alike
        for old in folder.glob(f"{self._base}.*"):
            if not old.name.startswith(f"{self._base}.{self._stamp}."):
                old.unlink(missing_ok=True)


def _wait_for(lock: IO[str]) -> None:
    """Lock a file, or go on without it in the end: two may wait for each other."""
    if fcntl is None:
        return
    global _waited
    while not _locked(lock) and _waited < _PATIENCE:
        time.sleep(_PAUSE)
        _waited += _PAUSE


def _locked(lock: IO[str]) -> bool:
    """Lock a file if nobody else has; it counts as locked where that is not known."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a disk that knows no locks
        return True
    return True


def _read(paths: Iterable[Path]) -> Any:
    """Return what the first whole file holds; None if there is none."""
    for path in paths:
        try:
            if not _is_ours(path):
                continue
            data = path.read_bytes()
            if hashlib.blake2b(data[_DIGEST:], digest_size=_DIGEST).digest() == data[:_DIGEST]:
                return pickle.loads(data[_DIGEST:])
        except Exception:  # a class is gone, say: it is compiled anew
            continue
    return None


def _is_ours(path: Path) -> bool:
    """Tell whether nobody else could have written a file: code is run from it.

    What lies in the package is trusted as its source is.
    """
    if _PACKAGE in path.parents or not hasattr(os, "getuid"):
        return True
    return all(
        told.st_uid in (0, os.getuid()) and not told.st_mode & 0o002
        for told in (path.stat(), path.parent.stat())
    )


def _part(source: str, name: str) -> KeptPart | None:
    kept = _read(folder / (name + PART) for folder in kernel_folders(source))
    if not isinstance(kept, KeptPart):
        return None
    called: Any = kept.unit.calls  # their homes and names
    calls = [_unit(home, name) for home, name in called]
    if None in calls:
        return None
    kept.unit.calls = tuple(each for each in calls if each is not None)
    _units[name] = kept.unit
    return kept


def _unit(home: str, name: str) -> Unit | None:
    if name not in _units:
        source = getattr(sys.modules.get(home), "__file__", None)
        part = None if source is None else _part(source, name)
        if part is None:
            return None
    return _units[name]


def compiler_told(target: tuple[str, ...] | None = None) -> tuple[Any, ...]:
    """Tell what else code depends on: Numba, its settings and the target, by default this one."""
    config: Any = numba.config
    names = [
        "OPT",
        "LOOP_VECTORIZE",
        "SLP_VECTORIZE",
        "BOUNDSCHECK",
        "DEBUGINFO_DEFAULT",
        "USING_SVML",
    ]
    settings = (str(getattr(config, name, None)) for name in names)
    versions = (numba.__version__, llvmlite.__version__, np.__version__.split(".")[0])
    return (*versions, *settings, _way_of_compiling(), target or _here())


@cache
def _way_of_compiling() -> str:
    """Hash the modules that put code together and keep it: what others made is not read."""
    digest = hashlib.sha256()
    for name in ("code_files", "kernel_dispatcher", "kernel_library"):
        digest.update(files("supple.compiled").joinpath(f"{name}.py").read_bytes())
    return digest.hexdigest()[:16]


def _here() -> tuple[str, ...]:
    return tuple(cpu_target.target_context.codegen().magic_tuple())


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
