"""What bodies of tets and of hexahedra are given: positions, rest shapes, arrays to fill."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.checks import checked_array
from supple.errors import SuppleError

__all__ = ["BodyArguments"]

Floats = NDArray[np.float64]


class BodyArguments:
    """Checks of arrays (n, 3); a body has a `rest` shape."""

    rest: Floats

    def _positions(self, x: ArrayLike, rest: ArrayLike | None) -> tuple[Floats, Floats]:
        positions = checked_array("positions", x, self.rest.shape)
        if rest is None:
            return positions, self.rest
        return positions, checked_array("rest shape", rest, self.rest.shape)

    def _checked_out(self, out: Floats, x: Floats, rest: Floats) -> Floats:
        good = isinstance(out, np.ndarray) and out.dtype == np.float64
        if not (good and out.shape == self.rest.shape and out.flags.c_contiguous):
            raise SuppleError(f"out must be a contiguous float64 array of shape {self.rest.shape}")
        if np.shares_memory(out, x) or np.shares_memory(out, rest):
            raise SuppleError("out must not be the positions or the rest shape")
        return out
