"""Checks of arguments; errors contain the argument's name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.arrays import Floats, Ints
from supple.errors import SuppleError


def shown(value: object, most: int = 60) -> str:
    """Return the beginning of a value's repr on one line, for error messages."""
    return " ".join(repr(value).split())[:most]


def checked_path(what: str, value: Any) -> Path:
    """Return `value` as a path; `what` is like "the .cub file"."""
    try:
        return Path(value)
    except TypeError:
        raise SuppleError(f"{what} must be a path, not {shown(value)}") from None


def plain_array(what: str, value: ArrayLike) -> NDArray[Any]:
    """Return `value` as an array of any type; refuse rows of different lengths."""
    try:
        return np.asarray(value)
    except (TypeError, ValueError, OverflowError):
        raise SuppleError(f"{what} must be an array, but its rows have different lengths") from None


def numbers(what: str, value: ArrayLike, expected: str = "numbers") -> Floats:
    """Return `value` as a float64 array of any shape; refuse text, complex numbers and dates.

    It is copied only if necessary.
    """
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "cUSMm":
            return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        pass
    raise SuppleError(f"{what} must be {expected}")


def checked_array(what: str, value: ArrayLike, shape: tuple[int, ...]) -> Floats:
    """Return `value` as contiguous, writable, finite float64 of this shape.

    It is copied only if necessary. Read-only arrays would make Numba compile kernels again.
    """
    array = np.require(numbers(what, value, f"numbers of shape {shape}"), None, ["C", "W"])
    if array.shape != shape:
        raise SuppleError(f"{what}: shape {array.shape}; expected {shape}")
    if not np.isfinite(array).all():
        row = int(np.argmin(np.isfinite(array))) // int(np.prod(shape[1:]))
        raise SuppleError(f"{what}: not finite at row {row}" if shape else f"{what}: not finite")
    return array


def owned_array(what: str, value: ArrayLike, shape: tuple[int, ...]) -> Floats:
    """Return a copy of a `checked_array`, so that later changes by the caller have no effect."""
    return checked_array(what, value, shape).copy()


def checked_number(what: str, value: Any) -> float:
    """Return `value` as a finite float."""
    return float(checked_array(what, value, ()))


def checked_whole_numbers(what: str, values: Iterable[int]) -> tuple[int, ...]:
    """Return `values` as a tuple of ints; refuse 1.5, nan and True."""
    try:
        listed = list(values)
    except TypeError:
        raise SuppleError(f"{what} must be a list of whole numbers") from None
    for number in listed:
        if isinstance(number, bool) or not isinstance(number, (int, np.integer)):
            raise SuppleError(f"{what} must be whole numbers, not {shown(number)}")
    return tuple(int(number) for number in listed)


def without_overflow(vectors: Floats) -> Floats:
    """Return vectors (…, k), each scaled by a power of two such that its largest entry is near 1.

    Squares then neither overflow nor underflow, and scaling by powers of two is exact.
    """
    _, exponents = np.frexp(np.abs(vectors).max(axis=-1, keepdims=True, initial=0.0))
    return np.ldexp(vectors, -exponents)


def checked_count(what: str, value: object, least: int = 1) -> int:
    """Return `value` as an int of at least `least`; `what` is like "the number of modes"."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        expected = {0: "non-negative whole number", 1: "positive whole number"}.get(
            least, f"whole number of at least {least}"
        )
        raise SuppleError(f"{what} must be a {expected}, not {shown(value)}")
    return int(value)


def checked_choice(what: str, value: object, known: Iterable[str]) -> str:
    """Return `value` if it is one of `known`; the error suggests the nearest name or lists all."""
    names = list(known)
    if isinstance(value, str) and value in names:
        return value
    near = difflib.get_close_matches(str(value), names, 1)
    hint = f'did you mean "{near[0]}"?' if near else f"there are {', '.join(names)}"
    raise SuppleError(f"no {what} {shown(value)}; {hint}")


def checked_indices(what: str, listed: ArrayLike, count: int) -> Ints:
    """Return `listed` as indices (k,) int64, which must be 0 to count − 1; refuse 1.5 and True.

    `what` is like "vertex".
    """
    try:
        indices = np.asarray(listed)
    except (TypeError, ValueError):
        indices = np.empty((0, 0))
    if indices.ndim != 1 or (indices.size and indices.dtype.kind not in "iu"):
        raise SuppleError(f"{what} must be a list of whole numbers, one index per entry")
    if indices.size and not (indices.min() >= 0 and indices.max() < count):
        worst = indices[(indices < 0) | (indices >= count)][0]
        advice = f"use 0 to {count - 1}" if count else "there are none"
        raise SuppleError(f"{what} {worst} does not exist; {advice}")
    return indices.astype(np.int64)


def checked_masses(mass: ArrayLike, n_vertices: int) -> Floats:
    """Return vertex masses (n,) as float64; refuse negative ones."""
    masses = checked_array("vertex masses", mass, (n_vertices,))
    if masses.min(initial=0.0) < 0:
        raise SuppleError(f"mass of vertex {int(masses.argmin())} is negative; use at least 0")
    return masses
