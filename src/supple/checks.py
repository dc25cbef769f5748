"""Checks of what callers hand in, with errors that name it."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.errors import SuppleError

__all__ = ["checked_array"]


def checked_array(what: str, value: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """`value` as contiguous, writable float64 of this shape, all finite.

    The same array if it already is all that; Numba would compile anew for read-only ones.
    """
    try:
        array = np.require(value, np.float64, ["C", "W"])
    except (TypeError, ValueError, OverflowError):
        raise SuppleError(f"{what} must be numbers of shape {shape}") from None
    if array.shape != shape:
        raise SuppleError(f"{what}: shape {array.shape}; expected {shape}")
    if not np.isfinite(array).all():
        row = int(np.argmin(np.isfinite(array))) // int(np.prod(shape[1:]))
        raise SuppleError(f"{what}: not finite at row {row}" if shape else f"{what}: not finite")
    return array
