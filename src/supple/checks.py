"""Checks of what callers hand in, with errors that name it."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.errors import SuppleError

__all__ = ["checked_array"]


def checked_array(what: str, value: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """`value` as contiguous float64 of this shape, all finite; the same array if it already is."""
    try:
        array = np.ascontiguousarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise SuppleError(f"{what} must be numbers of shape {shape}") from None
    if array.shape != shape:
        raise SuppleError(f"{what}: shape {array.shape}; expected {shape}")
    if not np.isfinite(array).all():
        where = np.unravel_index(int(np.argmin(np.isfinite(array))), shape)
        raise SuppleError(f"{what}: not finite at row {where[0]}")
    return array
