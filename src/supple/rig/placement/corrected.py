"""Placements of rigs with corrections: pose-space deformation and blend shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from supple.arrays import Floats
from supple.rig.deformers.blend_shapes import BlendShapeRig
from supple.rig.placement.joint_kernels import add_sum, evaluate_sets
from supple.rig.placement.placement import (
    CalledPlacement,
    DeformingPlacement,
    Placement,
    Positions,
    placement,
    writable,
)
from supple.rig.poses.pose_weights import PoseWeights
from supple.rig.protocol import Ints

__all__ = [
    "BlendShapePlacement",
    "Coefficients",
    "CorrectedPlacement",
    "PoseCorrections",
    "Sums",
    "blend_shape_placement",
    "corrected",
    "summed",
]


class PoseCorrections(NamedTuple):
    """Corrections of the vertices of a placement."""

    weights: PoseWeights
    """How much each example pose counts."""
    deltas: Floats
    """(m, k, 3)."""


class Coefficients:
    """Weights c(p) of several sets of example poses one after another, and a 1 at the end.

    Parameters
    ----------
    weights
        Of each set.
    constant
        Whether there is a 1 at the end.
    """

    def __init__(self, weights: Sequence[PoseWeights], constant: bool) -> None:
        self._constant = constant
        sizes = [[each.n_poses, each.normalise] for each in weights]
        self._sizes = np.array(sizes, np.int64).reshape(-1, 2)
        # One array: every one that is handed to a compiled loop costs a part of a microsecond.
        parts = [
            table.ravel()
            for each in weights
            for table in (each.scales, each.scaled_poses, each.matrix, each.constant)
        ]
        self._packed = np.concatenate([np.empty(0), *parts])
        self._make_room()

    def _make_room(self) -> None:
        count = int(self._sizes[:, 0].sum())
        self._values, self._room = np.ones(count + self._constant), np.empty(count)

    def at(self, pose: Floats) -> Floats:
        """c(p); the same array every time."""
        evaluate_sets(pose, self._packed, self._sizes, self._room, self._values)
        return self._values

    def fork(self) -> Coefficients:
        """The same weights with room of their own."""
        twin = object.__new__(Coefficients)
        twin.__dict__.update(self.__dict__)
        twin._make_room()
        return twin


@dataclass(frozen=True)
class Sums:
    """What is added to the positions of a placement, Σ c(p) δ; `summed` makes them."""

    deltas: Positions
    """(m, k, 3) δ."""
    coefficients: Coefficients
    """Their m coefficients."""

    def __len__(self) -> int:
        return len(self.deltas)


def summed(
    n_points: int, sets: Sequence[PoseCorrections] = (), constant: Floats | None = None
) -> Sums:
    """Corrections of sets of example poses, and constants, in one sum.

    Parameters
    ----------
    n_points
        k, how many vertices.
    sets
        Those with equal weights are added up beforehand.
    constant
        (k, 3) added at all poses.
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
    every = [each.weights for each in merged]
    return Sums(np.concatenate(parts), Coefficients(every, len(parts) > 1 + len(merged)))


def _equal(a: PoseWeights, b: PoseWeights) -> bool:
    same = a.kind == b.kind and np.array_equal(a.poses, b.poses)
    return a is b or (same and np.array_equal(a.scales, b.scales))


class CorrectedPlacement:
    """Any placement plus Σ c(p) δ.

    Poses that count less than 1e-12 are left out.

    Parameters
    ----------
    base
        What is corrected.
    sums
        What is added.
    single
        Keep δ in single precision: half the memory to read. Into float32 positions the sum is
        then taken in single precision too, and is right to some 1e-7 of the body's size.
    """

    def __init__(self, base: Placement, sums: Sums, single: bool = False) -> None:
        self._base, self._coefficients = base, sums.coefficients.fork()
        used = np.flatnonzero(np.any(sums.deltas, axis=(1, 2)))
        flat = sums.deltas.reshape(len(sums), 3 * base.n_points)[used]
        # Half as much to read where single precision is all there is, as in a stored model.
        half = flat.astype(np.float32)
        self._table: Positions = half if single or np.array_equal(half, flat) else flat
        self._rows, self._single = used, single
        self._make_room()

    def _make_room(self) -> None:
        self._room = np.empty((0 if self._single else self.n_points, 3))

    @property
    def n_points(self) -> int:
        """How many vertices are placed."""
        return self._base.n_points

    def place(self, pose: Floats, out: Positions) -> None:
        """Where the vertices are at a pose, (k, 3)."""
        target = self._target(out)
        self._base.place(pose, target)
        self._add(pose, target, out)

    def _target(self, out: Positions) -> Positions:
        """Where to add up: double precision is rounded once, at the end."""
        return out if self._single or out.dtype == np.float64 else self._room

    def _add(self, pose: Floats, target: Positions, out: Positions) -> None:
        values = self._coefficients.at(writable(pose))
        add_sum(self._table, self._rows, values, target.reshape(-1))
        if target is not out:
            np.copyto(out, target, casting="same_kind")

    def fork(self) -> CorrectedPlacement:
        """The same tables with other room to work in."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._base, twin._coefficients = self._base.fork(), self._coefficients.fork()
        twin._make_room()
        return twin


class DeformingCorrectedPlacement(CorrectedPlacement):
    """A `CorrectedPlacement` of what can move given points."""

    def deform(self, points: Floats, pose: Floats, out: Positions) -> None:
        """Where the vertices go, were they at `points`."""
        target = self._target(out)
        self._base.deform(points, pose, target)  # type: ignore[attr-defined]
        self._add(pose, target, out)


def corrected(base: Placement, sums: Sums, single: bool = False) -> Placement:
    """`base` with sums added, or itself if there are none."""
    if len(sums) == 0:
        return base
    if isinstance(base, DeformingPlacement):
        return DeformingCorrectedPlacement(base, sums, single)
    return CorrectedPlacement(base, sums, single)


class BlendShapePlacement:
    """The placement of blend shapes: displaced rest points, moved by the rig behind.

    Parameters
    ----------
    base
        The placement of that rig.
    points
        (k, 3) rest points.
    deltas
        (b, k, 3) displacements at weight 1.
    split
        Where the weights begin in the pose.
    """

    def __init__(
        self, base: DeformingPlacement, points: Floats, deltas: Floats, split: int
    ) -> None:
        self._base, self._points, self._split = base, np.ascontiguousarray(points), split
        self._rows = np.flatnonzero(np.any(deltas, axis=(1, 2)))
        self._table = np.ascontiguousarray(deltas.reshape(len(deltas), -1)[self._rows])
        self._shaped = np.empty((base.n_points, 3))

    @property
    def n_points(self) -> int:
        """How many vertices are placed."""
        return self._base.n_points

    def place(self, pose: Floats, out: Positions) -> None:
        """Where the vertices are at a pose, (k, 3)."""
        self.deform(self._points, pose, out)

    def deform(self, points: Floats, pose: Floats, out: Positions) -> None:
        """Where the vertices go, were they at `points` before they are displaced."""
        own = writable(pose)
        np.copyto(self._shaped, points)
        add_sum(self._table, self._rows, own[self._split :], self._shaped.reshape(-1))
        self._base.deform(self._shaped, own[: self._split], out)

    def fork(self) -> BlendShapePlacement:
        """The same tables with other room to work in."""
        twin = object.__new__(BlendShapePlacement)
        twin.__dict__.update(self.__dict__)
        twin._base = self._base.fork()  # type: ignore[assignment]
        twin._shaped = np.empty_like(self._shaped)
        return twin


def blend_shape_placement(
    rig: BlendShapeRig, vertices: Ints | None = None, *, single: bool = False
) -> Placement:
    """The placement of blend shapes; the rig behind them is called if it has none that deforms."""
    base = placement(rig.base, vertices, single=single)
    if not isinstance(base, DeformingPlacement):
        return CalledPlacement(rig, vertices)
    rows = slice(None) if vertices is None else vertices
    split = len(rig.base.parameters)
    return BlendShapePlacement(base, rig.rest_points[rows], rig.deltas[:, rows], split)
