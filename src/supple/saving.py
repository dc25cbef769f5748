"""Writing files that are whole or not there."""

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
except ImportError:  # Windows removes no file that is open
    fcntl = None  # type: ignore[assignment]

#: Names of files that are not whole yet, and seconds after which nobody writes to one any more.
_PART, _ABANDONED = re.compile(r"\.[0-9a-z_]{8,16}\.part"), 3600.0


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
            _locked(file.fileno())
            for chunk in chunks:
                file.write(chunk)
            if into is not None:
                into(file)
            file.flush()
            os.fsync(file.fileno())
            size = os.fstat(file.fileno()).st_size
        os.replace(beside, path)
        beside = None
        remove_abandoned(path.parent)
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


def _locked(handle: int) -> bool | None:
    """Lock a file as long as it is open: whether nobody else had it; None where none can be had."""
    if fcntl is not None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a disk that knows no locks: age alone tells
            return None
    return True


def remove_abandoned(folder: Path, seconds: float = _ABANDONED) -> None:
    """Remove what writers have left in a folder that were killed before they could.

    Only files that are this old and that nobody holds; on a disk without locks those of an hour.
    """
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if _PART.fullmatch(entry.name) is None:
                continue
            with contextlib.suppress(OSError):
                # Both ways: a clock may have jumped.
                age = abs(time.time() - entry.stat(follow_symlinks=False).st_mtime)
                if age < seconds:
                    continue
                handle = os.open(entry.path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
                try:
                    free = _locked(handle)
                    if free or (free is None and age >= _ABANDONED):
                        os.unlink(entry.path)
                finally:
                    os.close(handle)
