"""Bytes of a file and the numbers in them, with errors that name the file.

All readers start here. Files come from anywhere, so every declared count is compared with the bytes
of the file before it is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from supple.errors import FormatError, MeshError, SuppleError, warn
from supple.mesh.topology import Defect

# A mesh of ten million tets takes about a gigabyte as text.
LARGEST_FILE = 2 * 2**30


def read_bytes(path: str | Path, suffixes: Sequence[str]) -> bytes:
    """Return the content of a file with one of the suffixes; FormatError if empty or too large."""
    path = Path(path)
    name = path.name or str(path)
    if path.suffix.lower() not in suffixes:
        raise FormatError(
            f'{name}: cannot read "{path.suffix}" files; use one of {", ".join(suffixes)}'
        )
    try:
        if not path.exists():
            raise FormatError(f"{name}: there is no such file in {path.parent}")
        if not path.is_file():
            raise FormatError(f"{name}: is not a file")
        size = path.stat().st_size
        if size > LARGEST_FILE:
            raise FormatError(
                f"{name}: has {size / 2**30:.1f} GiB, more than the limit of"
                f" {LARGEST_FILE / 2**30:.0f} GiB; simplify it"
            )
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        raise FormatError(f"{name}: cannot be opened ({error})") from error
    if not data.strip():
        raise FormatError(f"{name}: is empty")
    return data


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Turn exceptions inside the context into FormatErrors that begin with the file's name.

    MeshErrors get the name as a prefix; other SuppleErrors pass unchanged.
    """
    try:
        yield
    except MeshError as error:
        message = str(error)
        named = message if message.startswith(f"{name}: ") else f"{name}: {message}"
        raise MeshError(named) from error
    except SuppleError:
        raise
    except MemoryError as error:
        raise FormatError(f"{name}: needs more memory than is available; simplify it") from error
    except (Exception, SystemExit) as error:
        # Readers of other libraries raise exceptions of any type; one calls exit().
        why = "".join(c if c.isprintable() else "?" for c in str(error))[:200]
        raise FormatError(
            f"{name}: is damaged and cannot be read ({type(error).__name__}: {why}); save it again"
        ) from error


def warn_of_defects(name: str, defects: list[Defect]) -> None:
    """Warn of each defect that remains in a mesh."""
    for defect in defects:
        warn(f"{name}: {defect.message}; continuing")


def read_text(path: str | Path, suffixes: Sequence[str]) -> str:
    """Return the text of a file that has one of the suffixes; see `read_bytes`."""
    return as_text(Path(path).name, read_bytes(path, suffixes))


def as_text(name: str, data: bytes) -> str:
    """Decode a text format; invalid bytes in names and comments are replaced."""
    if b"\0" in data:
        raise FormatError(f"{name}: is binary, but its format is text; save it again as text")
    return data.decode("utf-8-sig", errors="replace")


def checked_count(name: str, text: object, what: str, least_bytes: int, available: int) -> int:
    """Return a declared count; FormatError if items of `least_bytes` exceed `available` bytes."""
    try:
        count = int(str(text))
    except ValueError as error:
        raise FormatError(f'{name}: "{str(text)[:40]}" is not a number of {what}') from error
    if count < 0:
        raise FormatError(f"{name}: declares {count} {what}, a negative number; it is damaged")
    if count * least_bytes > available:
        raise FormatError(
            f"{name}: declares {count} {what}, more than its {available} bytes can hold;"
            f" it is damaged or cut off"
        )
    return count


def as_floats(name: str, words: Sequence[str], where: str) -> np.ndarray:
    """Convert words to float64; `where` names their place in errors."""
    try:
        return np.array(words, dtype=np.float64)
    except ValueError:
        bad = next(word for word in words if not _is_number(word))
        raise FormatError(f'{name}: "{bad[:40]}" among the {where} is not a number') from None


def as_integers(name: str, numbers: np.ndarray, where: str) -> np.ndarray:
    """Convert floats that must be whole numbers to int64."""
    is_integer = (np.abs(numbers) < 2**53) & (np.floor(numbers) == numbers)
    if not is_integer.all():
        bad = numbers.ravel()[np.argmin(is_integer)]
        raise FormatError(f"{name}: {bad:g} among the {where} is not a whole number")
    return numbers.astype(np.int64)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
