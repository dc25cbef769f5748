"""Restoration of inverted flesh: constants, and detection of flesh that stays inverted.

Materials push inverted tets back, but a reduced body can be in equilibrium while inverted, or so
soft that it takes seconds to return. Flesh that has been inverted for `PATIENCE` is scaled towards
its rest shape, with the time constant `RETURN`, until its tets are well oriented. This takes less
than a tenth of a second. Other steps do not change.

Flesh that a load holds inverted is not restored. Inverting flesh takes about the energy ∫E dV over
the inverted part, with E Young's modulus. So a load holds flesh if its work on
the displacements is more than `HOLDS` times that. Loads that are small, or act where flesh has
hardly moved, do less.
"""

from __future__ import annotations

import math

import numpy as np

from supple.arrays import Bools, Floats, Ints
from supple.compiled.jit import compiled_fused
from supple.mesh.tets import TetMesh

#: Seconds for which flesh may be inverted, and the time constant in s of its restoration.
PATIENCE, RETURN = 0.02, 0.0125
#: Least det F of all tets at which the restoration ends, and its longest duration in s.
RESTORED, LONGEST = 0.7, 0.1
#: Work of a load that holds flesh inverted, relative to ∫E dV of the inverted part. In presses
#: through bodies it was 0.5 and more.
HOLDS = 0.2
#: Seconds between two checks of flesh that was not inverted.
SELDOM = 0.02
#: Part of the volume that must be inverted: a single tet is left to its material.
INVERTED_PART = 0.01
#: Largest number of tets that are watched.
MOST_WATCHED = 256


class InversionWatch:
    """Timer that detects flesh that stays inverted; `energy` is ∫E dV of all flesh in J."""

    def __init__(self, energy: float) -> None:
        #: Seconds for which flesh has been inverted, or restored; whether it is being restored
        #: (1 or 0); and seconds since `update`.
        self.state = np.zeros(3)
        self._kept, self._energy = np.zeros(3), energy

    def reset(self) -> None:
        """Reset the timer."""
        self.state[:] = 0.0

    def keep(self) -> None:
        """Store the state for `restore`."""
        self._kept[:] = self.state

    def restore(self) -> None:
        """Set the state that `keep` stored."""
        self.state[:] = self._kept

    def is_due(self, h: float) -> bool:
        """Return whether to call `update` after a step of h: seldom unless flesh was inverted."""
        self.state[2] += h
        return self.state[2] > SELDOM or self.state[0] > 0.0 or self.state[1] > 0.0

    def is_held(self, inverted: float, work: float) -> bool:
        """Return whether loads with this `work` in J hold the `inverted` part of the volume."""
        return work > HOLDS * self._energy * inverted

    def update(self, inverted: float, lowest: float, work: float, h: float) -> tuple[bool, float]:
        """Return whether flesh is inverted after a step of h, and the factor on its coordinates.

        The factor is below 1 while the flesh is being restored, otherwise 1. `inverted` is the
        inverted part of the volume, `lowest` the least det F, and `work` that of loads in J, which
        may hold flesh inverted, see `is_held`; they do not end a restoration that has begun.
        """
        is_inverted, self.state[2] = inverted > INVERTED_PART, 0.0
        if self.state[1]:
            self.state[0] += h
            if lowest >= RESTORED or self.state[0] > LONGEST:
                self.reset()
        elif is_inverted and not self.is_held(inverted, work):
            self.state[0] += h
            if self.state[0] > PATIENCE:
                self.state[:2] = 0.0, 1.0
        else:
            self.state[0] = max(0.0, self.state[0] - 0.5 * h)
        restoring = self.state[1] > 0.0
        return is_inverted or restoring, math.exp(-h / RETURN) if restoring else 1.0


class WatchedTets:
    """Tets whose orientation is watched, by vertices of a solver."""

    def __init__(self, corners: Ints, volumes: Floats) -> None:
        self._corners = np.ascontiguousarray(corners, np.int64)
        self._volumes, self._found = np.ascontiguousarray(volumes, np.float64), np.zeros(2)

    @classmethod
    def of(cls, mesh: TetMesh, moving: Bools, vertices: Ints) -> WatchedTets:
        """Return up to `MOST_WATCHED` of the tets `moving` (T,), with corners in `vertices`."""
        listed = np.flatnonzero(moving)
        count = min(len(listed), MOST_WATCHED)
        chosen = listed[np.arange(count) * len(listed) // max(count, 1)]
        corners = np.searchsorted(vertices, mesh.tets[chosen])
        return cls(corners, TetMesh(mesh.vertices, mesh.tets[chosen]).volumes())

    def ratios(self, x: Floats, rest: Floats) -> tuple[float, float]:
        """Return the inverted part of the volume, and the least ratio of volumes."""
        volume_ratios(self._corners, x, rest, self._volumes, self._found)
        return float(self._found[0]), float(self._found[1])


@compiled_fused
def volume_ratios(tets: Ints, x: Floats, rest: Floats, volumes: Floats, out: Floats) -> None:
    """Write the inverted part of the volume, and the least ratio of volumes, to `out` (2,).

    `x` and `rest` (n, 3) are deformed and undeformed positions, `volumes` (t,) the volumes that
    tets represent. Tets that are flat or inverted at rest are left out.
    """
    total, inverted, lowest = 0.0, 0.0, math.inf
    for e in range(len(tets)):
        before = _six_volumes(rest, tets[e])
        if not before > 0.0:
            continue
        ratio = _six_volumes(x, tets[e]) / before
        total += volumes[e]
        if ratio <= 0.0:
            inverted += volumes[e]
        lowest = min(lowest, ratio)
    out[0] = inverted / total if total > 0.0 else 0.0
    out[1] = lowest


@compiled_fused
def _six_volumes(x, corners):  # type: ignore[no-untyped-def]
    """Return six times the signed volume of a tet."""
    o = x[corners[0]]
    a, b, c = x[corners[1]], x[corners[2]], x[corners[3]]
    ax, ay, az = a[0] - o[0], a[1] - o[1], a[2] - o[2]
    bx, by, bz = b[0] - o[0], b[1] - o[1], b[2] - o[2]
    cx, cy, cz = c[0] - o[0], c[1] - o[1], c[2] - o[2]
    return ax * (by * cz - bz * cy) + ay * (bz * cx - bx * cz) + az * (bx * cy - by * cx)
