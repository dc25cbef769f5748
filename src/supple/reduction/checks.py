"""Checks of numbers that many functions of the reduction take."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.checks import checked_array, shown
from supple.errors import SuppleError

__all__ = ["checked_count", "checked_indices", "checked_masses"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def checked_count(what: str, value: object, least: int = 1) -> int:
    """`value` as an int, at least `least`; "the number of modes" is what `what` looks like."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        wanted = {0: "whole number, not negative", 1: "positive whole number"}.get(
            least, f"whole number of at least {least}"
        )
        raise SuppleError(f"{what} must be a {wanted}, not {shown(value)}")
    return int(value)


def checked_indices(what: str, listed: ArrayLike, count: int) -> Ints:
    """Whole numbers from 0 to count − 1, as many and in the order given; "vertex" is a `what`.

    Neither 1.5 nor True is one.
    """
    try:
        given = np.asarray(listed)
    except (TypeError, ValueError):
        given = np.empty((0, 0))
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise SuppleError(f"each {what} must be given by its number, in one list")
    if given.size and not (given.min() >= 0 and given.max() < count):
        worst = given[(given < 0) | (given >= count)][0]
        raise SuppleError(f"{what} {worst} is not there; there are {count}")
    return given.astype(np.int64)


def checked_masses(mass: ArrayLike, n_vertices: int) -> Floats:
    """(n,) masses of vertices, none negative."""
    masses = checked_array("vertex masses", mass, (n_vertices,))
    if masses.min(initial=0.0) < 0:
        raise SuppleError(f"mass of vertex {int(masses.argmin())} is negative")
    return masses
