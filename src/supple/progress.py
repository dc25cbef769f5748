"""Name the types of callbacks that hear of progress, once for all modules."""

from __future__ import annotations

from collections.abc import Callable

#: Called with the part done, 0 to 1.
PartDone = Callable[[float], None]
#: Called with the part done, 0 to 1, and what is being done, for people.
Progress = Callable[[float, str], None]


def unreported(part: float, what: str = "") -> None:
    """Do nothing: the `PartDone` and the `Progress` of whoever asked for none."""
