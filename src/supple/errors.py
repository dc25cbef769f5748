"""Errors and warnings of Supple.

A message says what, where and what to do, in one line:
``rat.glb: mesh "Body" has 16 non-manifold edges (first at vertex 312); continuing``.
"""

from __future__ import annotations

import warnings

__all__ = ["FormatError", "MeshError", "SolverError", "SuppleError", "SuppleWarning", "warn"]


class SuppleError(Exception):
    """Something asked of Supple cannot be done; the message says why and what to do."""


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
    warnings.warn(message, SuppleWarning, stacklevel=3)
