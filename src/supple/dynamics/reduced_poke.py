"""Forces on the skin, carried to the reduced coordinates: a poke."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from supple.compiled import compiled
from supple.dynamics.reduced_surface import pull_back
from supple.dynamics.runtime_model import SurfaceTables

__all__ = ["add_skin_forces"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@compiled
def add_skin_forces(
    tables: SurfaceTables,
    weights: Floats,
    vertices: Ints,
    forces: Floats,
    root: Floats,
    out: Floats,
) -> None:
    """Add Ũᵀ Rᵀ Aᵀ f to `out`, forces (k, 3) on skin vertices (k,) being given in the world."""
    for k in range(len(vertices)):
        f, v = forces[k], vertices[k]
        p = root[0, 0] * f[0] + root[1, 0] * f[1] + root[2, 0] * f[2]
        q = root[0, 1] * f[0] + root[1, 1] * f[1] + root[2, 1] * f[2]
        r = root[0, 2] * f[0] + root[1, 2] * f[1] + root[2, 2] * f[2]
        for slot in range(4):
            carrier, share = tables.carriers[v, slot], tables.shares[v, slot]
            if share == 0:
                continue
            x, y, z = _into_frame(tables, weights, carrier, p, q, r)
            pull_back(tables, weights, carrier, share * x, share * y, share * z, out)


@compiled
def _into_frame(
    tables: SurfaceTables, weights: Floats, carrier: int, p: float, q: float, r: float
) -> tuple[float, float, float]:
    """A vector as the carrier's frame sees it: turned back by the blended rotation."""
    if tables.turns.shape[1] == 0 or 4 * carrier >= tables.turns.shape[1]:
        return p, q, r
    x, y, z, w = 0.0, 0.0, 0.0, 0.0
    strongest, total = 0, 0.0
    for pose in range(len(weights)):
        share = weights[pose]
        total += abs(share)
        if abs(share) > abs(weights[strongest]):
            strongest = pose
        x += share * tables.turns[pose, 4 * carrier]
        y += share * tables.turns[pose, 4 * carrier + 1]
        z += share * tables.turns[pose, 4 * carrier + 2]
        w += share * tables.turns[pose, 4 * carrier + 3]
    squared = x * x + y * y + z * z + w * w
    if not squared > (1e-6 * total) ** 2:
        at = tables.turns[strongest]
        x, y, z, w = at[4 * carrier], at[4 * carrier + 1], at[4 * carrier + 2], at[4 * carrier + 3]
        squared = x * x + y * y + z * z + w * w
    # v + w t − q × t … with the conjugate: the inverse rotation.
    s = 2 / squared
    tx, ty, tz = z * q - y * r, x * r - z * p, y * p - x * q
    return (
        p + s * (w * tx + z * ty - y * tz),
        q + s * (w * ty + x * tz - z * tx),
        r + s * (w * tz + y * tx - x * ty),
    )
