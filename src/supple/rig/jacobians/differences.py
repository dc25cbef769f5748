"""Jacobians of rigs: the protocol, and differences through placements for any rig."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from supple.arrays import Floats, Ints
from supple.rig.placement.placement import placement
from supple.rig.protocol import Rig

#: Step of central differences: their error is of order 1e-10 of what the parameter does.
STEP = 1e-5


@runtime_checkable
class Jacobian(Protocol):
    """Derivative ∂Φ/∂p of some vertices of a rig by some of its parameters."""

    @property
    def affine(self) -> bool:
        """True if it does not change with these parameters, whatever the others are."""

    def evaluate(self, pose: Floats, out: Floats) -> None:
        """Write the derivative at a pose (s,) that has been checked into `out` (m, 3, k)."""


class DifferencedJacobian:
    """Jacobian by central differences: two placements for each parameter.

    Parameters
    ----------
    rig
        Any rig.
    entries
        (k,) places of the parameters in the pose.
    vertices
        Indices of the vertices; None for all.
    """

    affine = False

    def __init__(self, rig: Rig, entries: Ints, vertices: Ints | None = None) -> None:
        self._placement = placement(rig, vertices)
        self._entries = np.asarray(entries, np.int64)
        self._pose = np.array(rig.rest_pose, np.float64)
        self._ahead, self._behind = np.empty((2, self._placement.n_points, 3))

    def evaluate(self, pose: Floats, out: Floats) -> None:
        """Write the differences (m, 3, k) at a pose."""
        own = self._pose
        own[:] = pose
        for column, entry in enumerate(self._entries):
            here = own[entry]
            own[entry] = here + STEP
            self._placement.place(own, self._ahead)
            own[entry] = here - STEP
            self._placement.place(own, self._behind)
            own[entry] = here
            np.subtract(self._ahead, self._behind, out=self._ahead)
            np.multiply(self._ahead, 0.5 / STEP, out=out[:, :, column])
