"""Corrections of placements: Σ c(p) δ with coefficients from pose weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from supple.arrays import Floats, Ints
from supple.compiled.jit import compiled, compiled_brief
from supple.compiled.program import KernelCall
from supple.rig.placement.placement import (
    DeformingPlacement,
    Forkable,
    Placement,
    Positions,
    copy_numbers,
    deform_calls,
    placement_calls,
    writable,
)
from supple.rig.poses.pose_weights import PoseWeights, evaluate_weights

#: Vertices of a block, whose sums stay in the nearest cache.
BLOCK = 512
#: Weights below this are skipped: they would be lost in rounding.
NEGLIGIBLE_WEIGHT = 1e-12


class PoseCorrections(NamedTuple):
    """Corrections of vertices at one set of example poses."""

    weights: PoseWeights
    """Weights of the example poses."""
    deltas: Floats
    """(m, k, 3) δ of each pose and vertex."""


class _Coefficients(Forkable):
    """Coefficients c(p): weights of several sets of example poses, and a 1 if `constant`."""

    def __init__(self, weights: Sequence[PoseWeights], constant: bool) -> None:
        self._constant = constant
        sizes = [[each.n_poses, each.normalise] for each in weights]
        self._sizes = np.array(sizes, np.int64).reshape(-1, 2)
        # One array, as each argument of a kernel costs a part of a microsecond.
        parts = [table.ravel() for each in weights for table in each.tables[:4]]
        self._packed = np.concatenate([np.empty(0), *parts])
        self._allocate()

    def _allocate(self) -> None:
        count = int(self._sizes[:, 0].sum())
        self._values, self._scratch = np.ones(count + self._constant), np.zeros(count)

    def at(self, pose: Floats) -> Floats:
        """Return c(p), (m,), in an array that the next call overwrites."""
        _evaluate_sets(pose, self._packed, self._sizes, self._scratch, self._values)
        return self._values

    def calls(self, pose: Floats) -> list[KernelCall]:
        """Return the calls that write c(p) to the array of `at`."""
        written = self._scratch, self._values
        arguments = pose, self._packed, self._sizes, *written
        return [KernelCall(_evaluate_sets, arguments, written)]

    @property
    def values(self) -> Floats:
        """Array of c(p)."""
        return self._values


@dataclass(frozen=True)
class Corrections:
    """Sum Σ c(p) δ over corrections of the vertices; `combined_corrections` makes it."""

    deltas: Positions
    """(m, k, 3) δ."""
    coefficients: _Coefficients
    """The m coefficients, as functions of the pose."""

    def __len__(self) -> int:
        return len(self.deltas)


def combined_corrections(
    n_points: int, sets: Sequence[PoseCorrections] = (), constant: Floats | None = None
) -> Corrections:
    """Combine corrections at sets of example poses, and constants (k, 3), into one sum.

    Sets with equal weights are summed in advance.
    """
    merged: list[PoseCorrections] = []
    for weights, deltas in sets:
        for place, other in enumerate(merged):
            if _equal(weights, other.weights):
                merged[place] = PoseCorrections(weights, other.deltas + deltas)
                break
        else:
            merged.append(PoseCorrections(weights, deltas))
    parts = [np.empty((0, n_points, 3)), *(each.deltas for each in merged)]
    if constant is not None and np.any(constant):
        parts.append(constant[None])
    has_constant = len(parts) > 1 + len(merged)
    coefficients = _Coefficients([each.weights for each in merged], has_constant)
    return Corrections(np.concatenate(parts), coefficients)


def _equal(a: PoseWeights, b: PoseWeights) -> bool:
    same = a.kind == b.kind and np.array_equal(a.poses, b.poses)
    return a is b or (same and np.array_equal(a.scales, b.scales))


class CorrectedPlacement(Forkable):
    """Any placement plus Σ c(p) δ; poses with weights below 1e-12 are skipped.

    With `single`, δ is stored in single precision; sums into float32 positions are then in single
    precision as well, with errors of about 1e-7 of the body's size.
    """

    _forked = ("_base", "_coefficients")

    def __init__(self, base: Placement, corrections: Corrections, single: bool = False) -> None:
        self._base, self._coefficients = base, corrections.coefficients.fork()
        used = np.flatnonzero(np.any(corrections.deltas, axis=(1, 2)))
        flat = corrections.deltas.reshape(len(corrections), 3 * base.n_points)[used]
        self._table = single_if_exact(flat, single)
        self._rows, self._single, self.n_points = used, single, base.n_points
        self._allocate()

    def _allocate(self) -> None:
        self._scratch = np.zeros((0 if self._single else self.n_points, 3))

    def place(self, pose: Floats, out: Positions) -> None:
        """Write the corrected positions (k, 3) at a pose."""
        target = self._target(out)
        self._base.place(pose, target)
        self._add(pose, target, out)

    def calls(self, pose: Floats, out: Positions) -> list[KernelCall]:
        """Return the calls of `place`."""
        target = self._target(out)
        return placement_calls(self._base, pose, target) + self._added(pose, target, out)

    def _added(self, pose: Floats, target: Positions, out: Positions) -> list[KernelCall]:
        flat = target.reshape(-1)
        arguments = self._table, self._rows, self._coefficients.values, flat
        calls = [*self._coefficients.calls(pose), KernelCall(add_sum, arguments, (flat,))]
        return calls if target is out else [*calls, KernelCall(copy_numbers, (target, out), (out,))]

    def _target(self, out: Positions) -> Positions:
        """Return the array to sum in: `out`, or float64 scratch memory that is rounded to `out`."""
        return out if self._single or out.dtype == np.float64 else self._scratch

    def _add(self, pose: Floats, target: Positions, out: Positions) -> None:
        values = self._coefficients.at(writable(pose))
        add_sum(self._table, self._rows, values, target.reshape(-1))
        if target is not out:
            np.copyto(out, target, casting="same_kind")


class _DeformingCorrectedPlacement(CorrectedPlacement):
    """A `CorrectedPlacement` over a placement that can move given points."""

    def deform(self, points: Floats, pose: Floats, out: Positions) -> None:
        """Move vertices from `points` (k, 3) and correct them."""
        target = self._target(out)
        self._base.deform(points, pose, target)  # type: ignore[attr-defined]
        self._add(pose, target, out)

    def deform_calls(self, points: Floats, pose: Floats, out: Positions) -> list[KernelCall]:
        """Return the calls of `deform`."""
        target = self._target(out)
        return deform_calls(self._base, points, pose, target) + self._added(pose, target, out)


def corrected_placement(
    base: Placement, corrections: Corrections, single: bool = False
) -> Placement:
    """Return `base` with corrections added, or itself if there are none."""
    if len(corrections) == 0:
        return base
    if isinstance(base, DeformingPlacement):
        return _DeformingCorrectedPlacement(base, corrections, single)
    return CorrectedPlacement(base, corrections, single)


def single_if_exact(table: Positions, single: bool) -> Positions:
    """Return a table as float32 if that is exact, or if `single` allows rounding.

    Models from files hold single precision; float32 tables halve the memory to read.
    """
    rounded = table.astype(np.float32)
    return rounded if single or np.array_equal(rounded, table) else table


@compiled_brief
def _evaluate_sets(pose: Floats, packed: Floats, sizes: Ints, scratch: Floats, out: Floats) -> None:
    """Write the weights of sets of example poses at a pose into the front of `out`.

    `packed` has the scales, scaled poses, matrix and constant of each set (`PoseWeights`),
    `sizes` (sets, 2) its number of poses and whether to normalise.
    """
    at, first, s = 0, 0, len(pose)
    for k in range(len(sizes)):
        m = sizes[k, 0]
        scales = packed[at : at + s]
        poses = packed[at + s : at + s + m * s].reshape(m, s)
        at += s + m * s
        matrix, constant = packed[at : at + m * m].reshape(m, m), packed[at + m * m :][:m]
        at += m * m + m
        spaces = scratch[first : first + m], out[first : first + m]
        evaluate_weights(pose, scales, poses, matrix, constant, sizes[k, 1] == 1, *spaces)
        first += m


@compiled
def add_sum(table: Positions, rows: Ints, coefficients: Floats, out: Positions) -> None:
    """Add Σ c δ to `out` (3k,) in its precision, in pieces that stay in cache.

    Row i of `table` (m, 3k) is the δ of coefficient ``rows[i]``; others are zero.
    """
    for start in range(0, len(out), 3 * BLOCK):
        piece = out[start : start + 3 * BLOCK]
        for i in range(len(rows)):
            coefficient = coefficients[rows[i]]
            if abs(coefficient) >= NEGLIGIBLE_WEIGHT:
                _add_times(out.dtype.type(coefficient), table[i, start : start + 3 * BLOCK], piece)


@compiled
def _add_times(coefficient: float, delta: Positions, out: Positions) -> None:
    for i in range(len(out)):
        out[i] += coefficient * delta[i]
