"""Names from files, as a list on the page can show them."""

from __future__ import annotations

from collections.abc import Iterable

from supple.app.drawing import label

__all__ = ["labels"]

LONGEST = 56


def labels(names: Iterable[str]) -> list[str]:
    r"""Each on one line, none too long, and no two alike.

    Examples
    --------
    >>> labels(["run", "run", "line\nbreak", ""])
    ['run', 'run (2)', 'line?break', '(no name)']
    """
    shown: list[str] = []
    taken: set[str] = set()
    for name in names:
        plain = label(name, LONGEST).strip() or "(no name)"
        own, number = plain, 1
        while own in taken:
            number += 1
            own = f"{plain} ({number})"
        taken.add(own)
        shown.append(own)
    return shown
