"""Types of progress callbacks."""

from __future__ import annotations

from collections.abc import Callable

#: Function of the fraction done.
PartDone = Callable[[float], None]
#: Function of the fraction done and a description of the current work.
Progress = Callable[[float, str], None]


def unreported(part: float, what: str = "") -> None:
    """Do nothing; the default `PartDone` and `Progress`."""
