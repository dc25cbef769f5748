"""Checks of arguments, with errors that name them."""

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
    """Return the beginning of a value's repr on one line, for errors to quote."""
    return " ".join(repr(value).split())[:most]


def checked_path(what: str, value: Any) -> Path:
    """Return `value` as a path; `what` is like "the .cub file"."""
    try:
        return Path(value)
    except TypeError:
        raise SuppleError(f"{what} must be given by its path, not {shown(value)}") from None


def plain_array(what: str, value: ArrayLike) -> NDArray[Any]:
    """Return `value` as an array of whatever it holds; refuse lists of different lengths."""
    try:
        return np.asarray(value)
    except (TypeError, ValueError, OverflowError):
        raise SuppleError(f"{what} must be one list; rows of different lengths are none") from None


def numbers(what: str, value: ArrayLike, wanted: str = "numbers") -> Floats:
    """Return `value` as float64 of any shape, the same array if it is; refuse text and complex."""
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "cUSMm":
            return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        pass
    raise SuppleError(f"{what} must be {wanted}")


def checked_array(what: str, value: ArrayLike, shape: tuple[int, ...]) -> Floats:
    """Return `value` as contiguous, writable float64 of this shape, all finite.

    The same array if it already is all that; Numba would compile anew for read-only ones.
    """
    array = np.require(numbers(what, value, f"numbers of shape {shape}"), None, ["C", "W"])
    if array.shape != shape:
        raise SuppleError(f"{what}: shape {array.shape}; expected {shape}")
    if not np.isfinite(array).all():
        row = int(np.argmin(np.isfinite(array))) // int(np.prod(shape[1:]))
        raise SuppleError(f"{what}: not finite at row {row}" if shape else f"{what}: not finite")
    return array


def owned_array(what: str, value: ArrayLike, shape: tuple[int, ...]) -> Floats:
    """Return a copy of a `checked_array`, to be kept: the caller may change the original."""
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
    for each in listed:
        if isinstance(each, bool) or not isinstance(each, (int, np.integer)):
            raise SuppleError(f"{what} must be whole numbers; {shown(each)} is none")
    return tuple(int(each) for each in listed)


def without_overflow(vectors: Floats) -> Floats:
    """Scale vectors along the last axis by powers of two, to a largest entry near 1.

    The square of 1e200 is no number, that of 1e-200 is zero; a power of two keeps all digits.
    """
    _, exponents = np.frexp(np.abs(vectors).max(axis=-1, keepdims=True, initial=0.0))
    return np.ldexp(vectors, -exponents)


def checked_count(what: str, value: object, least: int = 1) -> int:
    """Return `value` as an int of at least `least`; `what` is like "the number of modes"."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        wanted = {0: "whole number, not negative", 1: "positive whole number"}.get(
            least, f"whole number of at least {least}"
        )
        raise SuppleError(f"{what} must be a {wanted}, not {shown(value)}")
    return int(value)


def checked_choice(what: str, value: object, known: Iterable[str]) -> str:
    """Return one of the known names; refuse others, with the nearest or all of them."""
    names = list(known)
    if isinstance(value, str) and value in names:
        return value
    near = difflib.get_close_matches(str(value), names, 1)
    hint = f'did you mean "{near[0]}"?' if near else f"there are {', '.join(names)}"
    raise SuppleError(f"no {what} {shown(value)}; {hint}")


def checked_indices(what: str, listed: ArrayLike, count: int) -> Ints:
    """Return whole numbers from 0 to count − 1 in the order given; `what` is like "vertex".

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
    """Check masses of vertices (n,), none negative."""
    masses = checked_array("vertex masses", mass, (n_vertices,))
    if masses.min(initial=0.0) < 0:
        raise SuppleError(f"mass of vertex {int(masses.argmin())} is negative")
    return masses
