"""Forces on the skin, carried to the reduced coordinates: a poke."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from supple.compiled import compiled
from supple.dynamics.reduced_surface import pull_back
from supple.dynamics.runtime_model import SurfaceTables

__all__ = ["add_skin_forces"]

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Ints = NDArray[np.int64]


@compiled
def add_skin_forces(
    tables: SurfaceTables,
    weights: Floats,
    frames: Singles,
    vertices: Ints,
    forces: Floats,
    root: Floats,
    out: Floats,
) -> None:
    """Add Ũᵀ Rᵀ Aᵀ f to `out`, forces (k, 3) on skin vertices (k,) being given in the world.

    `frames` are those of the carriers, (b, 9), or none in the world.
    """
    for k in range(len(vertices)):
        f, v = forces[k], vertices[k]
        p = root[0, 0] * f[0] + root[1, 0] * f[1] + root[2, 0] * f[2]
        q = root[0, 1] * f[0] + root[1, 1] * f[1] + root[2, 1] * f[2]
        r = root[0, 2] * f[0] + root[1, 2] * f[1] + root[2, 2] * f[2]
        for slot in range(4):
            carrier, share = tables.carriers[v, slot], tables.shares[v, slot]
            if share == 0:
                continue
            x, y, z = p, q, r
            if carrier < len(frames):
                t = frames[carrier]
                x = t[0] * p + t[3] * q + t[6] * r
                y = t[1] * p + t[4] * q + t[7] * r
                z = t[2] * p + t[5] * q + t[8] * r
            pull_back(tables, weights, carrier, share * x, share * y, share * z, out)
