"""List of what Python calls among compiled functions, for what: it can be compiled beforehand.

A line of `kernels.txt` has how much it is (100 kB of machine code), the jobs that need it, the
function and the types of its arguments. `tests/compiled/record_kernels.py` writes the file anew. A
line that does not fit any more is passed over: what is called is compiled in any case.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from supple.compiled.type_text import parsed, spelled, thing_at


@dataclass(frozen=True)
class Kernel:
    """Function that Python calls, for types of arguments."""

    weight: float
    jobs: tuple[str, ...]
    place: str
    arguments: str

    def found(self) -> tuple[Any, tuple[Any, ...]] | None:
        """Return its dispatcher and the types of its arguments; None if they are gone."""
        try:
            return thing_at(self.place), tuple(parsed(f"Tuple({self.arguments})"))
        except Exception:  # a class or a function that was renamed, say
            return None


def line_of(weight: float, jobs: Iterable[str], place: str, args: tuple[Any, ...]) -> str:
    """Return a line of the list; ValueError for types that have no text."""
    arguments = ", ".join(map(spelled, args))
    return f"{weight:.2f} {','.join(sorted(jobs))} {place} {arguments}"


@cache
def _all() -> tuple[Kernel, ...]:
    return tuple(_lines(files("supple.compiled").joinpath("kernels.txt").read_text("utf-8")))


def _lines(text: str) -> Iterator[Kernel]:
    for line in text.splitlines():
        if line and not line.startswith("#"):
            weight, names, place, *arguments = line.split(" ", 3)
            yield Kernel(float(weight), tuple(names.split(",")), place, "".join(arguments))


def jobs() -> tuple[str, ...]:
    """List what kernels are known for."""
    return tuple(sorted({job for kernel in _all() for job in kernel.jobs}))


def kernels_for(job: str | None = None) -> list[Kernel]:
    """List the kernels of a job, or all, those first that take longest to compile."""
    chosen = [each for each in _all() if job is None or job in each.jobs]
    return sorted(chosen, key=lambda each: -each.weight)
