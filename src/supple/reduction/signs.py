"""Signs of vectors that are only known up to them, chosen the same way everywhere."""

from __future__ import annotations

import numpy as np

from supple.arrays import Floats

__all__ = ["column_signs", "with_fixed_signs"]


#: Entries that symmetry makes equal differ by rounding: as large as the largest within this.
ALIKE = 1e-6


def column_signs(columns: Floats) -> Floats:
    """±1 for each column, so that the first of its largest entries becomes positive."""
    size = np.abs(columns)
    first = np.argmax(size >= (1 - ALIKE) * size.max(axis=0), axis=0)
    return np.where(np.take_along_axis(columns, first[None], 0)[0] < 0, -1.0, 1.0)


def with_fixed_signs(columns: Floats) -> Floats:
    """The columns with the first of their largest entries made positive."""
    return columns * column_signs(columns)
