"""Errors and warnings of Supple.

A message says what, where and what to do, in one line:
``rat.glb: mesh "Body" has 16 non-manifold edges (first at vertex 312); continuing``.
"""

from __future__ import annotations

import warnings

#: Nobody reads on; what a file has put into a message may be without end.
LONGEST_LINE = 1000


def one_line(text: str) -> str:
    """Return a text on one line that is safe to print: files put their words into messages.

    >>> one_line(f"no joint {chr(27)}[2J")
    'no joint ?[2J'
    """
    if len(text) > LONGEST_LINE:
        text = text[: LONGEST_LINE - 2] + " …"
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


class SuppleError(Exception):
    """Something asked of Supple cannot be done; the message says why and what to do."""

    def __init__(self, message: str = "") -> None:
        super().__init__(one_line(message))


class FormatError(SuppleError):
    """A file is not what its name says, or is damaged."""


class MeshError(SuppleError):
    """A mesh breaks a rule that what follows depends on."""


class SolverError(SuppleError):
    """A numerical solution was not found."""


class SuppleWarning(UserWarning):
    """Something is wrong with the input, and work goes on."""


def warn(message: str) -> None:
    """Warn with `SuppleWarning`; the command line prints it as one line."""
    warnings.warn(one_line(message), SuppleWarning, stacklevel=3)
