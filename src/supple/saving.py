"""Writing files that are whole or not there."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, Any

from supple.errors import FormatError

__all__: list[str] = []


def write_whole(path: str | Path, data: bytes) -> None:
    """Write beside, then rename: a reader never meets half a file."""
    write_chunks(path, [data])


def write_chunks(
    path: str | Path, chunks: Iterable[bytes], into: Callable[[IO[bytes]], Any] | None = None
) -> int:
    """Write a file piece by piece, beside, then rename; how many bytes it has.

    `into` writes to the open file after the pieces.
    """
    path = Path(path)
    beside: str | None = None
    try:
        # A name of its own: threads, processes and machines may write the same file at once.
        handle, beside = tempfile.mkstemp(prefix=".", suffix=".part", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            for chunk in chunks:
                file.write(chunk)
            if into is not None:
                into(file)
            file.flush()
            os.fsync(file.fileno())
            size = os.fstat(file.fileno()).st_size
        os.chmod(beside, 0o666 & ~_umask())
        os.replace(beside, path)
        beside = None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise FormatError(
            f"{path.name}: cannot be written to {path.parent} ({why.lower()})"
        ) from error
    finally:
        if beside is not None:
            with contextlib.suppress(OSError):
                os.unlink(beside)
    return size


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
