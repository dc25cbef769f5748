"""Writing files that are whole or not there."""

from __future__ import annotations

import os
from pathlib import Path

from supple.errors import FormatError

__all__: list[str] = []


def write_whole(path: str | Path, data: bytes) -> None:
    """Write beside, then rename: a reader never meets half a file."""
    path = Path(path)
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with beside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        raise FormatError(f"{path.name}: cannot be written ({error})") from error
    finally:
        beside.unlink(missing_ok=True)
