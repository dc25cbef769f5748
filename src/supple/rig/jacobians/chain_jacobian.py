"""Derivatives of rigs in a row: ∂x/∂p of each, taken on by the slopes ∂x/∂X of those behind."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from supple.arrays import Floats, Ints
from supple.compiled.jit import compiled_fused
from supple.rig.jacobians.differences import STEP, Jacobian
from supple.rig.placement.placement import DeformingPlacement, Placement, Positions


class LinkJacobian(Protocol):
    """Derivatives of a rig that moves given points."""

    affine: bool
    """True if it does not change with these parameters, whatever the others are."""
    straight: bool
    """True if positions are affine in the points: slopes do not change with these."""

    def evaluate_points(self, points: Floats, pose: Floats, out: Floats) -> None:
        """Write ∂x/∂p (m, 3, k) for vertices that are at `points` (m, 3) before."""

    def write_slopes(self, points: Floats, pose: Floats, out: Positions) -> None:
        """Write ∂x/∂X (m, 3, 3) there."""


class DifferencedLink:
    """Derivatives of any rig that moves points, by central differences.

    All points move at a time, so that slopes cost six placements whatever the number of points.

    Parameters
    ----------
    placed
        Placement of the rig.
    entries
        (k,) places of the parameters in its pose.
    """

    affine = straight = False

    def __init__(self, placed: DeformingPlacement, entries: Ints) -> None:
        self._placed, self._entries = placed, entries
        self._points, self._ahead, self._behind = np.empty((3, placed.n_points, 3))

    def evaluate_points(self, points: Floats, pose: Floats, out: Floats) -> None:
        """Write ∂x/∂p (m, 3, k)."""
        own = pose.copy()
        for column, entry in enumerate(self._entries):
            for side, target in ((STEP, self._ahead), (-STEP, self._behind)):
                own[entry] = pose[entry] + side
                self._placed.deform(points, own, target)
            own[entry] = pose[entry]
            np.subtract(self._ahead, self._behind, out=self._ahead)
            np.multiply(self._ahead, 0.5 / STEP, out=out[:, :, column])

    def write_slopes(self, points: Floats, pose: Floats, out: Positions) -> None:
        """Write ∂x/∂X (m, 3, 3)."""
        step = STEP * max(float(np.ptp(points, axis=0).max(initial=0.0)), 1e-9)
        for axis in range(3):
            for side, target in ((step, self._ahead), (-step, self._behind)):
                np.copyto(self._points, points)
                self._points[:, axis] += side
                self._placed.deform(self._points, pose, target)
            np.subtract(self._ahead, self._behind, out=self._ahead)
            np.multiply(self._ahead, 0.5 / step, out=out[:, :, axis])


class ChainJacobian:
    """Jacobian of rigs of which each moves the points that the one before has placed.

    Parameters
    ----------
    first
        Jacobian of the first rig.
    links
        Those of the others.
    placements
        Of all rigs; those after the first can move given points.
    ends
        Start of each rig's part of the pose, and the end of the last.
    entries
        (k,) places of the parameters in the pose.
    """

    def __init__(
        self,
        first: Jacobian,
        links: Sequence[LinkJacobian],
        placements: Sequence[Placement],
        ends: Ints,
        entries: Ints,
    ) -> None:
        self._first, self._links, self._placements = first, links, placements
        self._parts = [slice(int(a), int(b)) for a, b in itertools.pairwise(ends)]
        owner = np.searchsorted(ends, entries, side="right") - 1
        self._columns = [np.flatnonzero(owner == rig) for rig in range(len(placements))]
        count = placements[0].n_points
        self._own = [np.empty((count, 3, len(columns))) for columns in self._columns]
        self._points, self._slopes = np.empty((count, 3)), np.empty((count, 3, 3))
        self._total = np.empty((count, 3, 3))
        self._mover = int(owner.max(initial=0))
        alone = len(np.unique(owner)) <= 1
        moving: Any = (first, *links)[self._mover]
        behind = links[self._mover :]
        self.affine = alone and moving.affine and all(link.straight for link in behind)
        #: (m, 3, k) δ of an affine chain that moves vertices by A δ, or None.
        self.deltas: Floats | None = getattr(moving, "deltas", None) if self.affine else None

    def evaluate(self, pose: Floats, out: Floats) -> None:
        """Write ∂x/∂p (m, 3, k) at a pose."""
        points, parts = self._points, [pose[part].copy() for part in self._parts]
        out[...] = 0.0
        if len(self._columns[0]):
            self._first.evaluate(parts[0], self._own[0])
            out[:, :, self._columns[0]] = self._own[0]
        self._placements[0].place(parts[0], points)
        begun = len(self._columns[0]) > 0
        for k, link in enumerate(self._links, start=1):
            if begun:
                link.write_slopes(points, parts[k], self._slopes)
                _turn_columns(self._slopes, out)
            if len(self._columns[k]):
                link.evaluate_points(points, parts[k], self._own[k])
                out[:, :, self._columns[k]] = self._own[k]
                begun = True
            self._placements[k].deform(points, parts[k], points)  # type: ignore[attr-defined]

    def write_frames(self, pose: Floats, out: Positions) -> None:
        """Write A (m, 3, 3) of every vertex at a pose, where there are `deltas`."""
        points, parts = self._points, [pose[part].copy() for part in self._parts]
        moving: Any = (self._first, *self._links)[self._mover]
        moving.write_frames(parts[self._mover], self._total)
        for k, link in enumerate(self._links, start=1):
            if k > self._mover:  # straight ones: where points are does not matter
                link.write_slopes(points, parts[k], self._slopes)
                _turn_columns(self._slopes, self._total)
        np.copyto(out, self._total, casting="same_kind")


@compiled_fused
def _turn_columns(slopes: Floats, out: Floats) -> None:
    """Multiply columns (m, 3, k) by slopes (m, 3, 3)."""
    for v in range(len(out)):
        s, columns = slopes[v], out[v]
        for k in range(out.shape[2]):
            x, y, z = columns[0, k], columns[1, k], columns[2, k]
            for i in range(3):
                columns[i, k] = s[i, 0] * x + s[i, 1] * y + s[i, 2] * z
