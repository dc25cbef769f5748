"""Forces on the skin, as callers give them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.checks import checked_array
from supple.errors import SuppleError

__all__ = ["skin_forces"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def skin_forces(forces: Mapping[int, ArrayLike], n_vertices: int) -> tuple[Ints, Floats]:
    """Vertices (k,) and forces (k, 3) of a mapping of skin vertices to forces (3,) in N.

    Raises
    ------
    SuppleError
        For a vertex that is not there or a force that is none.
    """
    if not isinstance(forces, Mapping):
        raise SuppleError("forces must be a mapping of vertices of the skin to forces (3,)")
    for vertex in forces:
        whole = isinstance(vertex, int | np.integer) and not isinstance(vertex, bool)
        if not (whole and 0 <= vertex < n_vertices):
            raise SuppleError(
                f"force on vertex {vertex}, which is not there; the skin has vertices "
                f"0 to {n_vertices - 1}"
            )
    acting = [checked_array(f"force on vertex {vertex}", f, (3,)) for vertex, f in forces.items()]
    return np.array(list(forces), np.int64), np.array(acting, np.float64).reshape(-1, 3)
