"""Arrays that take seconds to make, kept in the user's cache folder.

The folder is ``$SUPPLE_CACHE``, or else ``supple`` in the system's folder for caches. A file is
named by a hash of the code that made it, so that another version never reads it, and holds
plain arrays; files of other versions are removed. A file that cannot be read or written is no
error: the arrays are made again.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import sys
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from supple.errors import FormatError
from supple.saving import write_whole

__all__ = ["cache_folder", "cached_arrays", "packed", "unpacked"]

Arrays = dict[str, NDArray]

#: No scene's arrays take more; a larger file is not ours.
LARGEST_FILE = 256 * 2**20
HASH_LENGTH = 20
#: Packages that a scene's arrays depend on.
_MODELLING = ("scenes", "rig", "mesh", "linalg", "maths", "compiled")


def cache_folder() -> Path:
    """Return the folder that scenes are kept in."""
    given = os.environ.get("SUPPLE_CACHE")
    if given:
        return Path(given)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "supple"


def cached_arrays(name: str, make: Callable[[], Arrays]) -> Arrays:
    """Return the arrays that `make` makes, from the cache if the same code made them before."""
    try:
        path = cache_folder() / f"{name}-{code_hash(_MODELLING)}.npz"
    except RuntimeError:  # there is no home, and so no place to keep anything
        return make()
    # Whatever is wrong with what is there, it can be made again: a damaged archive raises
    # nearly anything, and its digest decides in the end.
    with contextlib.suppress(Exception):
        if path.stat().st_size <= LARGEST_FILE:
            return unpacked(path.read_bytes())
    arrays = make()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, packed(arrays))
        _forget_others(path, name)
    except (OSError, FormatError):
        pass
    return arrays


def _forget_others(path: Path, name: str) -> None:
    """Remove what other versions of the code left of this scene."""
    for other in path.parent.glob(f"{name}-{'[0-9a-f]' * HASH_LENGTH}.npz"):
        if other != path:
            other.unlink(missing_ok=True)


def packed(arrays: Arrays) -> bytes:
    """Return the arrays as bytes of a .npz file; the same arrays give the same bytes."""
    buffer = io.BytesIO()
    checks = {"digest": np.frombuffer(_digest(arrays), np.uint8)}
    np.savez(buffer, **arrays, **checks)  # type: ignore[arg-type]
    return buffer.getvalue()


def unpacked(data: bytes) -> Arrays:
    """Return the arrays of `packed`; raise ValueError when they are not as they were."""
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    digest = arrays.pop("digest", None)
    if digest is None or digest.tobytes() != _digest(arrays):
        raise ValueError("the arrays have changed since they were packed")
    return arrays


def _digest(arrays: Arrays) -> bytes:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype.str} {arrays[name].shape} ".encode())
        digest.update(np.ascontiguousarray(arrays[name]).tobytes())
    return digest.digest()


@cache
def code_hash(packages: tuple[str, ...]) -> str:
    """Hash the source of these packages, folders inside them too, and the libraries' versions."""
    digest = hashlib.sha256(f"numpy {np.__version__} scipy {version('scipy')} ".encode())
    root = Path(str(files("supple")))
    for package in packages:
        for file in sorted((root / package).rglob("*.py")):
            digest.update(f"{file.relative_to(root).as_posix()} ".encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()[:HASH_LENGTH]
