"""Signs of eigenvectors and the like, chosen the same way everywhere."""

from __future__ import annotations

import numpy as np

from supple.arrays import Floats

#: Entries that symmetry makes equal differ by rounding: as large as the largest within this.
ALIKE = 1e-6


def column_signs(columns: Floats) -> Floats:
    """Return ±1 for each column, which makes the first of its largest entries positive."""
    size = np.abs(columns)
    first = np.argmax(size >= (1 - ALIKE) * size.max(axis=0), axis=0)
    return np.where(np.take_along_axis(columns, first[None], 0)[0] < 0, -1.0, 1.0)


def with_fixed_signs(columns: Floats) -> Floats:
    """Return the columns with the first of their largest entries made positive."""
    return columns * column_signs(columns)
