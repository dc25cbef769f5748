"""Errors and warnings of Supple.

A message states on one line what is wrong, where, and what to do:
``rat.glb: mesh "Body" has 16 non-manifold edges (first at vertex 312); continuing``.
"""

from __future__ import annotations

import warnings

#: Longest message: texts from files may be very long.
LONGEST_LINE = 1000


def one_line(text: str) -> str:
    """Return a text from any source as one printable line of at most `LONGEST_LINE` characters.

    >>> one_line(f"no joint {chr(27)}[2J")
    'no joint ?[2J'
    """
    if len(text) > LONGEST_LINE:
        text = text[: LONGEST_LINE - 2] + " …"
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


class SuppleError(Exception):
    """Request that Supple cannot fulfil; the message states why and what to do."""

    def __init__(self, message: str = "") -> None:
        super().__init__(one_line(message))


class FormatError(SuppleError):
    """File that cannot be read or written: damaged, missing, or in another format."""


class MeshError(SuppleError):
    """Mesh that violates a requirement."""


class SolverError(SuppleError):
    """Failure of a numerical method."""


class SuppleWarning(UserWarning):
    """Problem of the input that does not stop the work."""


def warn(message: str) -> None:
    """Issue a `SuppleWarning`; the command line prints it on one line."""
    warnings.warn(one_line(message), SuppleWarning, stacklevel=3)
