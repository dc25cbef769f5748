"""Placements of skinned rigs and their corrections in one pass, sorted by joints."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Floats
from supple.rig.deformers.pose_space_deformation import PoseSpaceDeformation
from supple.rig.placement.block_kernels import BLOCK, ROOMS, place_blocks
from supple.rig.placement.corrected import PoseCorrections, Sums, corrected, summed
from supple.rig.placement.placement import (
    CalledPlacement,
    DeformingPlacement,
    Placement,
    Positions,
    placement,
    writable,
)
from supple.rig.placement.skinned import SkinnedPlacement, SkinTransforms
from supple.rig.protocol import Ints, Rig
from supple.rig.skeleton.skinning import SkinnedRig

__all__ = ["BlockPlacement", "pose_space_placement", "skinned_placement", "uncorrected"]


#: With fewer vertices to a set of joints, on average, blocks are not worth their beginnings.
LEAST_MEAN = 32
#: Blocks are multiples of this.
LANES = 8
#: What is smaller, as a part of the body, does not show in single precision.
INVISIBLE = 1e-9
NO_MATRICES, NO_DUALS = np.empty((0, 4, 4)), np.empty((0, 8))


class Blocks(NamedTuple):
    """What `place_blocks` reads."""

    table: Positions
    blocks: Ints
    joints: Ints
    active: NDArray[np.bool_]
    ranks: NDArray[np.uint32]

    def deltas(self) -> Positions:
        """The corrections that stand in the table, (m, k, 3)."""
        count = self.active.shape[1]
        out = np.empty((count, len(self.ranks), 3), self.table.dtype)
        block, place = np.divmod(self.ranks, 3 * BLOCK)
        for own, (start, n, slots) in enumerate(self.blocks):
            begin, inside = start + (3 + slots) * n, block == own
            rows = self.table[begin : begin + 3 * count * n].reshape(count, 3, n)
            out[:, inside] = rows[:, :, place[inside]].transpose(0, 2, 1)
        return out


class Following(NamedTuple):
    """Vertices by the joints they follow."""

    joints: Ints
    """(k, most), J where there is none, those last; ascending but for a leading heaviest."""
    weights: Floats
    """(k, most)."""
    order: Ints
    """The vertices, those that follow the same joints next to each other."""
    starts: Ints
    """(g + 1,) where others begin in `order`."""


def _following(rig: SkinnedRig, vertices: Ints | None) -> Following:
    rows = slice(None) if vertices is None else vertices
    weights = rig.weights[rows]
    joints = np.where(weights > 0, rig.joints[rows], rig.skeleton.n_joints).astype(np.int64)
    # Dual quaternions take their signs from the heaviest joint, which stands first.
    ranks = joints.copy()
    if rig.method != "linear":
        ranks[:, 0] = -1
    sorting = np.argsort(ranks, axis=1, kind="stable")
    joints = np.take_along_axis(joints, sorting, axis=1)
    weights = np.take_along_axis(weights, sorting, axis=1)
    order = np.lexsort(joints.T[::-1])
    changes = (joints[order][1:] != joints[order][:-1]).any(axis=1)
    starts = np.concatenate([[0], 1 + np.flatnonzero(changes), [len(order)]])
    return Following(joints, weights, order, starts)


def _blocks(points: Floats, follow: Following, sums: Sums, none: int, single: bool) -> Blocks:
    """Tables of `place_blocks`; a joint numbered `none` is none."""
    least = INVISIBLE * np.abs(points).max(initial=0.0) if single else 0.0
    pieces, joints, active, at = [], [], [], 0
    blocks: list[tuple[int, int, int]] = []
    ranks = np.empty(len(points), np.uint32)
    for begin, end in pairwise(follow.starts):
        own = follow.joints[follow.order[begin]]
        slots = int(np.count_nonzero(own < none))
        for first in range(begin, end, BLOCK):
            which = follow.order[first : min(first + BLOCK, end)]
            # The last again, to fill vectors: what remained would be moved one by one.
            which = np.pad(which, (0, -len(which) % LANES), mode="edge")
            deltas = sums.deltas[:, which].transpose(0, 2, 1)
            weights = follow.weights[which, :slots].T
            rows = np.concatenate([points[which].T, weights, deltas.reshape(-1, len(which))])
            pieces.append(rows.ravel().astype(np.float32 if single else np.float64))
            ranks[which] = 3 * BLOCK * len(blocks) + np.arange(len(which))
            blocks.append((at, len(which), slots))
            joints.append(np.where(own < none, own, 0))
            active.append((np.abs(deltas) > least).any(axis=(1, 2)))
            at += rows.size
    return Blocks(
        np.concatenate(pieces),
        np.array(blocks),
        np.array(joints),
        np.array(active),
        ranks,
    )


class BlockPlacement:
    """A skinned rig and Σ c(p) δ in one pass over vertices that are sorted by joints.

    Parameters
    ----------
    rig
        A `SkinnedRig`.
    vertices
        Which of its vertices; None for all.
    sums
        What is added.
    follow
        The vertices by their joints.
    single
        Single precision throughout: some 1e-7 of the larger of the bound and the posed body,
        measured from the origin. Otherwise double, as the rig itself.
    """

    def __init__(
        self, rig: SkinnedRig, vertices: Ints | None, sums: Sums, follow: Following, single: bool
    ) -> None:
        self._rig, self._vertices, self._single = rig, vertices, single
        self._linear = rig.method == "linear"
        points = rig.vertices if vertices is None else rig.vertices[vertices]
        self._blocks = _blocks(points, follow, sums, rig.skeleton.n_joints, single)
        self._transforms, self._coefficients = SkinTransforms(rig), sums.coefficients.fork()
        self._make_room()

    def _make_room(self) -> None:
        kind = self._blocks.table.dtype
        self._room = np.empty(ROOMS * BLOCK, kind)
        self._placed = np.empty(len(self._blocks.blocks) * 3 * BLOCK, kind)
        self._plain: DeformingPlacement | None = None

    @property
    def n_points(self) -> int:
        """How many vertices are placed."""
        return len(self._blocks.ranks)

    def place(self, pose: Floats, out: Positions) -> None:
        """Where the vertices are at a pose, (k, 3)."""
        own, transforms = writable(pose), self._transforms
        if self._linear:
            transforms.update(own)
            matrices, duals = transforms.matrices, NO_DUALS
        else:
            transforms.update_duals(own)
            matrices = transforms.stretches if transforms.stretched else NO_MATRICES
            duals = transforms.duals
        values = self._coefficients.at(own)
        place_blocks(*self._blocks, matrices, duals, values, self._room, self._placed, out)

    def deform(self, points: Floats, pose: Floats, out: Positions) -> None:
        """Where the vertices go, had they been bound at `points`; not in blocks."""
        if self._plain is None:
            base = SkinnedPlacement(self._rig, self._vertices)
            sums = Sums(self._blocks.deltas(), self._coefficients)
            self._plain = corrected(base, sums, self._single)  # type: ignore[assignment]
        self._plain.deform(points, pose, out)  # type: ignore[union-attr]

    def fork(self) -> BlockPlacement:
        """The same tables with other room to work in."""
        twin = object.__new__(BlockPlacement)
        twin.__dict__.update(self.__dict__)
        twin._transforms = self._transforms.fork()
        twin._coefficients = self._coefficients.fork()
        twin._make_room()
        return twin


def skinned_placement(
    rig: SkinnedRig,
    vertices: Ints | None = None,
    sums: Sums | None = None,
    *,
    single: bool = False,
) -> Placement:
    """The placement of a skinned rig and of what is added to it: in blocks if that is worth it."""
    count = rig.n_vertices if vertices is None else len(vertices)
    added = summed(count) if sums is None else sums
    if count:
        follow = _following(rig, vertices)
        if count >= LEAST_MEAN * (len(follow.starts) - 1):
            return BlockPlacement(rig, vertices, added, follow, single)
    return corrected(SkinnedPlacement(rig, vertices), added, single)


def uncorrected(rig: Rig, vertices: Ints | None) -> tuple[Rig, list[PoseCorrections]]:
    """The rig below a pile of pose-space deformations, and their corrections of the vertices."""
    rows, found = slice(None) if vertices is None else vertices, []
    while type(rig) is PoseSpaceDeformation:  # a subclass may do something else
        found.append(PoseCorrections(rig.pose_weights, rig.corrections[:, rows]))
        rig = rig.base
    return rig, found


def pose_space_placement(
    rig: PoseSpaceDeformation, vertices: Ints | None = None, *, single: bool = False
) -> Placement:
    """The placement of corrections over any rig, Φ̄(p) + Σ w_i(p) δ̄_i (xu2016 §3)."""
    base, sets = uncorrected(rig, vertices)
    if base is rig:
        return CalledPlacement(rig, vertices)
    sums = summed(rig.n_vertices if vertices is None else len(vertices), sets)
    if type(base) is SkinnedRig:
        return skinned_placement(base, vertices, sums, single=single)
    return corrected(placement(base, vertices, single=single), sums, single)
