"""Cache of results in the user's cache folder.

The folder is ``$SUPPLE_CACHE``, or ``supple`` in the system's folder for caches. A file's name has
a label, a hash of options and a hash of the code that computes the result, so that other versions
do not read it; files of other versions are removed. A file that cannot be read or written is not an
error: the result is computed again.

Scenes and models of characters and elastic bodies are cached, each a `CacheKind`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from supple.errors import SuppleError
from supple.saving import write_chunks

Arrays = dict[str, NDArray]
Result = TypeVar("Result")

#: Largest file of a scene's arrays.
LARGEST_FILE = 256 * 2**20
HASH_LENGTH = 20
#: Packages that a scene's arrays depend on.
_MODELLING = ("scenes", "rig", "mesh", "linalg", "maths", "compiled")
#: Packages that a model's bytes depend on.
BUILDING = (*_MODELLING, "playback", "engines", "anatomy", "reduction", "dynamics", "elastic")


@dataclass(frozen=True)
class CacheKind(Generic[Result]):
    """Storage of results of one kind.

    `suffix` is the extension of the files; `packages` are Supple's packages whose source the
    results depend on; ``read(path)`` raises an exception for an invalid file; ``write(path,
    result)`` is atomic; `most` is the largest number of files of a label, of which the least
    recently used are removed, or None for one file per label and options.
    """

    suffix: str
    packages: tuple[str, ...]
    read: Callable[[Path], Result]
    write: Callable[[Path, Result], None]
    most: int | None = None


class Cached(NamedTuple):
    """Result, its file (None if it cannot be stored), and whether it came from the cache."""

    value: Any
    path: Path | None
    was_cached: bool


def cache_folder() -> Path:
    """Return the cache folder; raise RuntimeError if the user has no home folder."""
    override = os.environ.get("SUPPLE_CACHE")
    if override:
        return Path(override)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "supple"


def cached_file(kind: CacheKind, label: str, options: str | None = "") -> Path | None:
    """Return the path of a result, which may not exist.

    None if `options` is None or there is no home folder: the result is not stored.
    """
    if options is None:
        return None
    try:
        folder = cache_folder()
    except RuntimeError:  # there is no home folder
        return None
    parts = [label, options, code_hash(kind.packages)]
    return folder / f"{'-'.join(part for part in parts if part)}{kind.suffix}"


def cached(
    kind: CacheKind[Result], label: str, make: Callable[[], Result], options: str | None = ""
) -> Cached:
    """Return a result from the cache, or compute it by `make` and store it.

    `label` is the beginning of the file's name, `options` a hash of the options (`content_hash`),
    or None if the result must not be stored.
    """
    path = cached_file(kind, label, options)
    if path is not None and path.is_file():
        # A damaged file may raise any exception; the result is then computed again.
        with contextlib.suppress(Exception):
            value = kind.read(path)
            os.utime(path)
            return Cached(value, path, True)
    result = make()
    if path is not None and not _stored(kind, path, label, result):
        path = None
    return Cached(result, path, False)


def keep(
    kind: CacheKind[Result],
    label: str,
    value: Result,
    options: str | None = "",
    spared: Collection[Path | None] = (),
) -> None:
    """Store a result where `cached` finds it, if the file can be written.

    Files in `spared` count towards `most`, but are not removed.
    """
    path = cached_file(kind, label, options)
    if path is not None:
        _stored(kind, path, label, value, spared)


def _stored(
    kind: CacheKind[Result],
    path: Path,
    label: str,
    made: Result,
    spared: Collection[Path | None] = (),
) -> bool:
    """Write a result and remove files that it replaces; return whether it was written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        kind.write(path, made)
    except (OSError, SuppleError):
        return False
    with contextlib.suppress(OSError):
        if kind.most is None:
            key = path.name.removesuffix(kind.suffix)[: -HASH_LENGTH - 1]
            replaced = list(path.parent.glob(f"{key}-{'[0-9a-f]' * HASH_LENGTH}{kind.suffix}"))
        else:
            replaced = list(path.parent.glob(f"{label}-*{kind.suffix}"))
            protected = {path, *spared}
            replaced.sort(key=lambda file: (file in protected, file.stat().st_mtime), reverse=True)
            replaced = [file for file in replaced[kind.most :] if file not in protected]
        for other in replaced:
            if other != path:
                other.unlink(missing_ok=True)
    return True


@cache
def code_hash(packages: tuple[str, ...]) -> str:
    """Return a hash of the source of Supple's `packages` and of the versions of NumPy and SciPy."""
    digest = hashlib.sha256(f"numpy {np.__version__} scipy {version('scipy')} ".encode())
    root = Path(str(files("supple")))
    for package in packages:
        for file in sorted((root / package).rglob("*.*")):
            if file.suffix not in (".py", ".json"):
                continue
            digest.update(f"{file.relative_to(root).as_posix()} ".encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()[:HASH_LENGTH]


def content_hash(*values: Any) -> str | None:
    """Return a hash of plain values, arrays, and mappings, lists and dataclasses of these.

    None if a value has another type. An object with a method ``content()`` is hashed by its result.
    """
    digest = hashlib.sha256()
    try:
        for value in values:
            _add(digest, value)
    except TypeError:
        return None
    return digest.hexdigest()[:32]


def _add(digest: Any, value: Any) -> None:
    digest.update(f"{type(value).__name__} ".encode())
    if isinstance(value, np.ndarray):
        digest.update(f"{value.dtype.str} {value.shape} ".encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    elif value is None or isinstance(value, str | int | float | np.number):
        digest.update(f"{value!r} ".encode())
    elif isinstance(value, Mapping):
        digest.update(f"{len(value)} ".encode())
        for key in sorted(value, key=str):
            digest.update(f"{key!r} ".encode())
            _add(digest, value[key])
    elif isinstance(value, list | tuple):
        digest.update(f"{len(value)} ".encode())
        for item in value:
            _add(digest, item)
    elif hasattr(value, "content"):
        _add(digest, value.content())
    elif is_dataclass(value):
        for field in fields(value):
            digest.update(f"{field.name} ".encode())
            _add(digest, getattr(value, field.name))
    else:
        raise TypeError(type(value).__name__)


# Models


def model_cache(
    suffix: str, read: Callable[[Path], Any], most: int | None = None
) -> CacheKind[Any]:
    """Return the `CacheKind` of models, which have a method ``save(path)``."""
    return CacheKind(suffix, BUILDING, read, lambda path, model: model.save(path), most)


# Arrays: checkpoints of running work, and scenes


def running_cache(suffix: str, most: int) -> CacheKind[Arrays]:
    """Return the `CacheKind` of arrays by name, such as checkpoints, with at most `most` files."""
    return CacheKind(suffix, BUILDING, _read_arrays, _write_arrays, most)


def cached_arrays(name: str, make: Callable[[], Arrays]) -> Arrays:
    """Return the arrays of a scene from the cache, or compute them by `make` and store them."""
    arrays: Arrays = cached(_SCENES, name, make).value
    return arrays


def _write_arrays(path: Path, arrays: Arrays) -> None:
    """Write arrays and their digest to an .npz file; equal arrays give equal bytes."""
    digest = np.frombuffer(_digest(arrays), np.uint8)
    write_chunks(path, (), into=lambda file: np.savez(file, **arrays, digest=digest))  # type: ignore[arg-type]


def _read_arrays(path: Path) -> Arrays:
    """Read an .npz file; raise ValueError if its arrays do not match its digest."""
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    digest = arrays.pop("digest", None)
    if digest is None or digest.tobytes() != _digest(arrays):
        raise ValueError("the arrays have changed since they were written")
    return arrays


def _digest(arrays: Arrays) -> bytes:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype.str} {arrays[name].shape} ".encode())
        digest.update(np.ascontiguousarray(arrays[name]).reshape(-1).view(np.uint8).data)
    return digest.digest()


def _read_scene(path: Path) -> Arrays:
    if path.stat().st_size > LARGEST_FILE:
        raise ValueError("too large for a scene's arrays")
    return _read_arrays(path)


_SCENES: CacheKind[Arrays] = CacheKind(".npz", _MODELLING, _read_scene, _write_arrays)
