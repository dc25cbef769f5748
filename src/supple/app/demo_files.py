"""Folder and clock of a demonstration."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from supple.errors import SuppleError


@contextmanager
def demo_folder(output: Path) -> Iterator[None]:
    """Make a folder and try it before the work begins; remove it if nothing came of it."""
    if output.exists() and not output.is_dir():
        raise SuppleError(f"{output}: is a file; choose a folder with --output")
    made = [folder for folder in (output, *output.parents) if not folder.exists()]
    try:
        output.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=output):
            pass
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise SuppleError(
            f"{output}: cannot be written to ({why}); choose another --output"
        ) from None
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):  # one that is not empty stays
            for folder in made:
                folder.rmdir()
        raise


@dataclass
class DemoClock:
    """Clock of the demonstration's parts."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def __call__(self, part: str) -> Iterator[None]:
        began = perf_counter()
        yield
        self.seconds[part] = round(perf_counter() - began, 2)
