"""Bases in sixteen bits: steps of a power of two, one for each column of each pose.

Bases are the largest part of a model. A step is at most 2⁻¹⁴ of the column's largest entry, so the
error of an entry is at most 3·10⁻⁵ of it; on a beam of 24 × 4 × 4 bricks that changes the reduced
frequencies by at most 10⁻⁴, and rounding to half precision by 3·10⁻³. Steps are powers of two, so
that float32 represents all entries exactly and rounding is idempotent.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Singles
from supple.errors import SuppleError

Shorts = NDArray[np.int16]

#: Range of exponents for which all steps are float32 numbers.
LOWEST, HIGHEST = -126, 100


def packed_basis(basis: NDArray) -> tuple[Shorts, Shorts]:
    """Return a basis (m, k, 3, r) as steps (m, k, 3, r) of 2^exponents (m, r)."""
    exact = np.asarray(basis, np.float64)
    peaks = np.abs(exact).max(axis=(1, 2), initial=0.0)
    parts, powers = np.frexp(peaks)
    # Fifteen bits for the peak; twice the step where it would round up to sixteen.
    exponents = powers - 15 + (np.rint(parts * 2**15) == 2**15)
    exponents = np.clip(np.where(peaks > 0, exponents, LOWEST), LOWEST, HIGHEST)
    steps = np.rint(np.ldexp(exact, -exponents[:, None, None, :]))
    return steps.astype(np.int16), exponents.astype(np.int16)


def unpacked_basis(what: str, steps: Shorts, exponents: Shorts) -> Singles:
    """Return the basis (m, k, 3, r) of packed steps and exponents."""
    if exponents.size and not (exponents.min() >= LOWEST and exponents.max() <= HIGHEST):
        raise SuppleError(f"{what}: its steps are too small or too large")
    whole = steps.astype(np.float32)
    return np.ldexp(whole, exponents[:, None, None, :].astype(np.int32))


def rounded_basis(basis: NDArray) -> Singles:
    """Return a basis after packing and unpacking."""
    return unpacked_basis("basis", *packed_basis(basis))
