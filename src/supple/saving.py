"""Writing files that are whole or not there."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, Any

from supple.errors import FormatError


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
        name = os.path.join(path.parent, f".{secrets.token_hex(8)}.part")
        handle, beside = _opened(name), name
        with os.fdopen(handle, "wb") as file:
            for chunk in chunks:
                file.write(chunk)
            if into is not None:
                into(file)
            file.flush()
            os.fsync(file.fileno())
            size = os.fstat(file.fileno()).st_size
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


def _opened(name: str) -> int:
    """Open a new file with the rights of new files: the system takes the umask off them.

    Nobody else has to read the umask, which is only to be had by changing it for all threads.
    """
    how = os.O_RDWR | os.O_CREAT | os.O_EXCL
    for flag in ("O_BINARY", "O_CLOEXEC", "O_NOFOLLOW"):
        how |= getattr(os, flag, 0)
    return os.open(name, how, 0o666)
