"""Atomic writing of files: a file is complete or absent."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, Any

from supple.errors import FormatError

try:
    import fcntl
except ImportError:  # Windows does not remove open files
    fcntl = None  # type: ignore[assignment]

#: Names of incomplete files, and their age in seconds after which they count as abandoned.
_PART, _ABANDONED = re.compile(r"\.[0-9a-z_]{8,16}\.part"), 3600.0


def write_whole(path: str | Path, data: bytes) -> None:
    """Write a file atomically: to a temporary file, which is then renamed."""
    write_chunks(path, [data])


def write_chunks(
    path: str | Path, chunks: Iterable[bytes], into: Callable[[IO[bytes]], Any] | None = None
) -> int:
    """Write a file atomically from chunks; return its size in bytes.

    `into` writes to the open file after the chunks.
    """
    path = Path(path)
    temporary: str | None = None
    try:
        # A unique name, as threads, processes and machines may write the same file at once.
        name = os.path.join(path.parent, f".{secrets.token_hex(8)}.part")
        handle, temporary = _new_file(name), name
        with os.fdopen(handle, "wb") as file:
            _locked(file.fileno())
            for chunk in chunks:
                file.write(chunk)
            if into is not None:
                into(file)
            file.flush()
            os.fsync(file.fileno())
            size = os.fstat(file.fileno()).st_size
        os.replace(temporary, path)
        temporary = None
        remove_abandoned(path.parent)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise FormatError(
            f"{path.name}: cannot be written to {path.parent} ({reason.lower()})"
        ) from error
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
    return size


def _new_file(name: str) -> int:
    """Create a file with default permissions, and return its descriptor.

    The system applies the umask; reading the umask would require changing it for all threads.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
    for flag in ("O_BINARY", "O_CLOEXEC", "O_NOFOLLOW"):
        flags |= getattr(os, flag, 0)
    return os.open(name, flags, 0o666)


def _locked(handle: int) -> bool | None:
    """Lock an open file; return whether that succeeded, or None on a disk without locks.

    Without `fcntl` (Windows) nothing is locked, and the result is True.
    """
    if fcntl is not None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a disk without locks
            return None
    return True


def remove_abandoned(folder: Path, seconds: float = _ABANDONED) -> None:
    """Remove temporary files of killed writers from a folder.

    Files must be older than `seconds` and unlocked; on a disk without locks, older than an hour.
    """
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if _PART.fullmatch(entry.name) is None:
                continue
            with contextlib.suppress(OSError):
                # The absolute difference, as a clock may have jumped.
                age = abs(time.time() - entry.stat(follow_symlinks=False).st_mtime)
                if age < seconds:
                    continue
                handle = os.open(entry.path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
                try:
                    unused = _locked(handle)
                    if unused or (unused is None and age >= _ABANDONED):
                        os.unlink(entry.path)
                finally:
                    os.close(handle)
