"""Compiled code on disk, in files named by a hash of everything that it was compiled from.

The hash covers the function, all functions that it calls, the constants that it uses, compiler
options, types of arguments, the processor and Numba's version. So processes share files without an
index. A file is complete or absent, and is read only if its digest is right. Numba's own cache
hashes the file of a function only: after a change in a function that it calls, it runs old code.

Files are in `__pycache__` next to the source or, where that is read-only, in the user's cache;
`NUMBA_CACHE_DIR` sets another folder. Code in the package's folder `kernels` has priority.
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
from types import CodeType, ModuleType
from typing import IO, Any

import llvmlite
import numba
import numpy as np
from numba.core.dispatcher import Dispatcher
from numba.core.registry import cpu_target
from numba.core.serialize import dumps

from supple.compiled.kernel_library import EnvironmentObjects, Unit
from supple.compiled.shipped_code import shipped_folder, shipped_target
from supple.user_cache import cache_folder

try:
    import fcntl
except ImportError:  # without file locks (Windows) each process compiles its own copy
    fcntl = None  # type: ignore[assignment]

#: Suffixes of files: entries are called from Python, parts from other compiled functions.
ENTRY, PART = ".nbc", ".nbp"
_DIGEST = 16
_PACKAGE = Path(__file__).resolve().parents[1]
#: Longest total time in seconds that a process waits for others that compile the same functions,
#: and the time between two checks. A stopped process may hold many locks.
_PATIENCE, _PAUSE = 120.0, 0.01
_waited = 0.0


@dataclass
class StoredPart:
    """Part as stored in a file; its unit refers by name to the units that it calls."""

    unit: Unit
    signature: Any
    fndesc: Any
    environment: Any
    annotation: str


@dataclass
class StoredEntry:
    """Entry in a file: self-contained machine code."""

    name: str
    code: bytes
    symbols: set[str]
    needs: tuple[str, ...]
    reload: tuple[Any, ...]
    environments: tuple[EnvironmentObjects, ...]
    signature: Any
    fndesc: Any
    environment: Any
    annotation: str


@cache
def kernel_folders(source: str) -> tuple[Path, ...]:
    """Return the folders with compiled code of a source file, in the order of priority."""
    path = Path(source)
    if not path.is_file():  # source from a prompt or an archive
        return ()
    parent = path.resolve().parent
    subfolder = f"{parent.name}_{hashlib.sha256(str(parent).encode()).hexdigest()[:16]}"
    override = os.environ.get("NUMBA_CACHE_DIR")
    if override:
        return (Path(override) / subfolder,)
    folders = [parent / "__pycache__"]
    with suppress(RuntimeError):  # there is no home folder
        folders.append(cache_folder() / "kernels" / subfolder)
    return tuple(folders)


#: Units by name; units that call them refer to these objects.
_units: dict[str, Unit] = {}


class CodeFiles:
    """Files BASE.STAMP.KEY with the compiled code of a dispatcher's function."""

    def __init__(self, dispatcher: Any) -> None:
        self._dispatcher = dispatcher
        function = dispatcher.py_func
        self._source, self._home = function.__code__.co_filename, function.__module__
        version = f"py{sys.version_info[0]}{sys.version_info[1]}{getattr(sys, 'abiflags', '')}"
        qualified = f"{Path(self._source).stem}.{function.__qualname__}"
        self._base = f"{qualified.replace('<', '').replace('>', '')}.{version}"
        self._stamp: str | None = None

    @property
    def stamp(self) -> str:
        """Hash of everything that the function is compiled from, except its arguments."""
        # Computed at the first call, when all functions that it calls are defined.
        if self._stamp is None:
            self._stamp = source_stamp(self._dispatcher)[:16]
        return self._stamp

    def name(self, args: tuple[Any, ...], target: tuple[str, ...] | None = None) -> str:
        """Return the name of the code for types of arguments, on this machine or a target."""
        settings = (*compiler_settings(target), args, sorted(set(_fields_of(args))))
        key = hashlib.sha256(repr(settings).encode()).hexdigest()[:16]
        return f"{self._base}.{self.stamp}.{key}"

    def has_entry(self, args: tuple[Any, ...]) -> bool:
        """Return whether an entry is on disk."""
        return self.entry_size(args) > 0

    def entry_size(self, args: tuple[Any, ...]) -> int:
        """Return the size of an entry in bytes; 0 if it is not on disk."""
        for path in self._entries(args):
            with suppress(OSError):
                return path.stat().st_size
        return 0

    def _entries(self, args: tuple[Any, ...]) -> Iterator[Path]:
        """Yield the paths at which an entry may be."""
        target = shipped_target()
        if target is not None:
            yield shipped_folder() / (self.name(args, target) + ENTRY)
        for folder in kernel_folders(self._source):
            yield folder / (self.name(args) + ENTRY)

    def is_busy(self, args: tuple[Any, ...]) -> bool:
        """Return whether another process is compiling an entry."""
        name = f"{self.name(args)}{ENTRY}.lock"
        for folder in kernel_folders(self._source):
            with suppress(OSError), (folder / name).open() as lock:
                return fcntl is not None and not _locked(lock)
        return False

    def load_entry(self, args: tuple[Any, ...]) -> StoredEntry | None:
        """Return an entry from disk, or None."""
        entry = _read(self._entries(args))
        return entry if isinstance(entry, StoredEntry) else None

    def save_entry(self, args: tuple[Any, ...], entry: StoredEntry) -> None:
        """Write an entry to disk."""
        self._save(self.name(args) + ENTRY, entry)

    def load_part(self, args: tuple[Any, ...]) -> StoredPart | None:
        """Return a part from disk, or None unless all parts that it calls are on disk, too."""
        return _part(self._source, self.name(args))

    def save_part(self, args: tuple[Any, ...], part: StoredPart) -> None:
        """Write a part to disk, with the names of the parts that it calls."""
        _units[part.unit.name] = part.unit
        calls: Any = tuple((each.home, each.name) for each in part.unit.calls)
        self._save(self.name(args) + PART, replace(part, unit=replace(part.unit, calls=calls)))

    @contextmanager
    def exclusive(self, args: tuple[Any, ...], ending: str) -> Iterator[None]:
        """Lock a file that this process writes, after waiting for another that writes it."""
        with ExitStack() as locks:
            for folder in kernel_folders(self._source):
                try:
                    folder.mkdir(parents=True, exist_ok=True)
                    path = folder / f"{self.name(args)}{ending}.lock"
                    lock = locks.enter_context(path.open("w"))
                except OSError:
                    continue
                locks.callback(path.unlink, missing_ok=True)
                _wait_for(lock)
                break
            yield

    def _save(self, name: str, stored: Any) -> None:
        """Write a file, and remove files of older versions of the function."""
        data = dumps(stored)
        data = hashlib.blake2b(data, digest_size=_DIGEST).digest() + data
        for folder in kernel_folders(self._source):
            temporary = folder / f"{name}.{uuid.uuid4().hex[:8]}"
            try:
                folder.mkdir(parents=True, exist_ok=True)
                temporary.write_bytes(data)
                os.replace(temporary, folder / name)
                self._remove_old(folder)
                return
            except OSError:  # read-only or full: try the next folder
                with suppress(OSError):
                    temporary.unlink(missing_ok=True)

    def _remove_old(self, folder: Path) -> None:
        if "<locals>" in self._dispatcher.py_func.__qualname__:
            return  # several functions may have this name
        for old in folder.glob(f"{self._base}.*"):
            if not old.name.startswith(f"{self._base}.{self._stamp}."):
                old.unlink(missing_ok=True)


def _wait_for(lock: IO[str]) -> None:
    """Lock a file; return without the lock after a timeout, as two processes may deadlock."""
    if fcntl is None:
        return
    global _waited
    while not _locked(lock) and _waited < _PATIENCE:
        time.sleep(_PAUSE)
        _waited += _PAUSE


def _locked(lock: IO[str]) -> bool:
    """Try to lock a file; return False if another process has locked it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a disk without locks
        return True
    return True


def _read(paths: Iterable[Path]) -> Any:
    """Return the content of the first valid file; None if there is none."""
    for path in paths:
        try:
            if not _is_trusted(path):
                continue
            data = path.read_bytes()
            if hashlib.blake2b(data[_DIGEST:], digest_size=_DIGEST).digest() == data[:_DIGEST]:
                return pickle.loads(data[_DIGEST:])
        except Exception:  # for instance a class no longer exists; compile again
            continue
    return None


def _is_trusted(path: Path) -> bool:
    """Return whether no other user can have written a file, as its code will be run.
    Files in the package are trusted like its source.
    """
    if _PACKAGE in path.parents or not hasattr(os, "getuid"):
        return True
    return all(
        status.st_uid in (0, os.getuid()) and not status.st_mode & 0o002
        for status in (path.stat(), path.parent.stat())
    )


def _part(source: str, name: str) -> StoredPart | None:
    part = _read(folder / (name + PART) for folder in kernel_folders(source))
    if not isinstance(part, StoredPart):
        return None
    called: Any = part.unit.calls  # modules and names of the called units
    calls = [_unit(home, name) for home, name in called]
    if None in calls:
        return None
    part.unit.calls = tuple(each for each in calls if each is not None)
    _units[name] = part.unit
    return part


def _unit(home: str, name: str) -> Unit | None:
    if name not in _units:
        source = getattr(sys.modules.get(home), "__file__", None)
        part = None if source is None else _part(source, name)
        if part is None:
            return None
    return _units[name]


def compiler_settings(target: tuple[str, ...] | None = None) -> tuple[Any, ...]:
    """Return Numba's version and settings and the target, by default this machine."""
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
    return (*versions, *settings, _compiler_source(), target or _this_machine())


@cache
def _compiler_source() -> str:
    """Hash the modules that compile and store code; files of other versions are not read."""
    digest = hashlib.sha256()
    for name in ("code_files", "kernel_dispatcher", "kernel_library"):
        digest.update(files("supple.compiled").joinpath(f"{name}.py").read_bytes())
    return digest.hexdigest()[:16]


def _this_machine() -> tuple[str, ...]:
    return tuple(cpu_target.target_context.codegen().magic_tuple())


def _fields_of(kind: Any) -> Iterator[str]:
    """Yield class and field names of all named tuples in a signature; its text lacks them."""
    for inner in kind if isinstance(kind, tuple) else ():
        yield from _fields_of(inner)
    if hasattr(kind, "content"):  # an argument table
        yield from _fields_of(kind.content)
    if hasattr(kind, "fields") and hasattr(kind, "instance_class"):
        yield f"{kind.instance_class.__module__}.{kind.instance_class.__qualname__} {kind.fields}"
    for inner in getattr(kind, "types", ()):
        yield from _fields_of(inner)


_PACKAGE_NAME = __name__.partition(".")[0]
_PLAIN = (bool, int, float, complex, str, bytes, tuple, np.generic, type(None))


def source_stamp(dispatcher: Any) -> str:
    """Return a hash of a function and of everything that it is compiled from."""
    numbers: dict[int, int] = {id(dispatcher): 0}
    waiting, texts = [dispatcher], []
    for each in waiting:  # grows during the loop
        function = each.py_func
        texts.append(f"\n{numbers[id(each)]} {function.__module__}.{function.__qualname__}")
        texts.append(
            repr(sorted((key, _stable_text(value)) for key, value in each.targetoptions.items()))
        )
        texts += _code_parts(function.__code__, function.__doc__)
        used = [*_globals_used(function.__code__, function.__globals__)]
        used += enumerate(cell.cell_contents for cell in function.__closure__ or ())
        used += [("defaults", function.__defaults__), ("more", function.__kwdefaults__)]
        for name, value in used:
            if not isinstance(value, Dispatcher):
                texts.append(f"{name} {_described(value)}")
                continue
            if id(value) not in numbers:
                numbers[id(value)] = len(numbers)
                waiting.append(value)
            texts.append(f"{name} is {numbers[id(value)]}")
    return hashlib.sha256(" ".join(texts).encode()).hexdigest()


def _stable_text(value: Any) -> str:
    """Return a text that is the same in every run, also of a set."""
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
            yield _stable_text(constant)


def _globals_used(code: CodeType, names: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    for name in code.co_names:
        if name in names:
            yield name, names[name]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _globals_used(constant, names)


def _described(value: Any) -> str:
    """Return a text for a value that a function uses: a number itself, or the hash of a file."""
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
    module = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", "")
    if (module or "").partition(".")[0] == _PACKAGE_NAME:
        return _contents(module)
    return f"{module}.{getattr(value, '__qualname__', type(value).__name__)}"


@cache
def _contents(name: str) -> str:
    """Hash the files of a module and of Supple's modules that it imports from."""
    module = sys.modules[name]
    others = {getattr(value, "__module__", None) or "" for value in vars(module).values()}
    ours = sorted({name, *(each for each in others if each.partition(".")[0] == _PACKAGE_NAME)})
    digest = hashlib.sha256()
    for each in ours:
        digest.update(_source(sys.modules.get(each)) or each.encode())
    return digest.hexdigest()


def _source(module: ModuleType | None) -> bytes | None:
    """Return the source of a module, which may be in an archive; None if there is none."""
    path = getattr(module, "__file__", None)
    loader: Any = getattr(getattr(module, "__spec__", None), "loader", None)
    if path is None or not hasattr(loader, "get_data"):
        return None
    return bytes(loader.get_data(path))
