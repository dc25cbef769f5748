"""A penalty on tets that are about to invert."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.elastic.pattern import BlockPattern
from supple.mesh import TetMesh

__all__ = ["VolumeGuard", "volume_ratios"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def volume_ratios(mesh: TetMesh, positions: ArrayLike) -> Floats:
    """Volume of each tet at `positions`, as a part of its volume in the mesh."""
    return TetMesh(positions, mesh.tets).volumes() / mesh.volumes()


class VolumeGuard:
    """Σ ½ κ V (J₀ − J)² over the tets whose volume ratio J has fallen below J₀.

    Unlike stiffer elasticity it lets tets bend, stretch and slide as before, and acts on none
    that keep their volume: the larger κ, the nearer to the best of those fits that keep J ≥ J₀.

    Parameters
    ----------
    mesh
        The tets at rest.
    pattern
        Where its matrix has its entries.
    kept
        J₀.
    """

    def __init__(self, mesh: TetMesh, pattern: BlockPattern, kept: float) -> None:
        self._tets, self._volumes, self._kept = mesh.tets, mesh.volumes(), kept
        self._start, self._slots = pattern.start, pattern.slots(mesh.tets)

    def _missing(self, x: Floats, stiffness: float) -> tuple[Ints, Floats, Floats, Floats]:
        """Tets guarded, how far each is below J₀, ∂J/∂x of each, (k, 4, 3), and their κ V."""
        a, b, c, d = (x[self._tets[:, k]] for k in range(4))
        ratios = np.einsum("ij,ij->i", b - a, np.cross(c - a, d - a)) / (6 * self._volumes)
        low = np.flatnonzero(ratios < self._kept)
        u, v, w = ((corner - a)[low] for corner in (b, c, d))
        slopes = np.empty((len(low), 4, 3))
        slopes[:, 1], slopes[:, 2], slopes[:, 3] = np.cross(v, w), np.cross(w, u), np.cross(u, v)
        slopes[:, 0] = -slopes[:, 1:].sum(axis=1)
        slopes /= 6 * self._volumes[low, None, None]
        return low, self._kept - ratios[low], slopes, stiffness * self._volumes[low]

    def energy(self, x: Floats, stiffness: float) -> float:
        """The penalty at positions x, with this κ."""
        _, missing, _, weight = self._missing(x, stiffness)
        return 0.5 * float(weight @ missing**2)

    def add_derivatives(
        self, x: Floats, stiffness: float, gradient: Floats, values: Floats
    ) -> None:
        """Add the gradient, and to a matrix's values the part κ V ∂J∂Jᵀ of the Hessian.

        The part left out is indefinite and vanishes as the constraint comes to hold.
        """
        low, missing, slopes, weight = self._missing(x, stiffness)
        pull = (weight * missing)[:, None, None] * slopes
        np.subtract.at(gradient, self._tets[low].ravel(), pull.reshape(-1, 3))
        blocks = np.einsum("e,eai,ebj->eabij", weight, slopes, slopes)
        first, degree = self._start[:-1][self._tets[low]], np.diff(self._start)[self._tets[low]]
        slot = self._slots[low].reshape(-1, 4, 4).astype(np.int64)
        axis = np.arange(3)
        rows = 9 * first[:, :, None] + 3 * degree[:, :, None] * axis
        where = rows[:, :, None, :, None] + (3 * slot[:, :, :, None] + axis)[:, :, :, None, :]
        np.add.at(values, where.ravel(), blocks.ravel())
