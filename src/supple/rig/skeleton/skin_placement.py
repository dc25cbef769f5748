"""Placements of skinned vertices: from a pose to joint transforms, and from these to vertices.

There are two. `BlockPlacement` moves vertices in blocks that follow the same joints, and adds
corrections in the same pass; where few vertices share their joints, `SkinnedPlacement` moves them
one by one.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Bools, Floats, Ints, ShortInts
from supple.compiled.program import KernelCall
from supple.errors import SuppleError
from supple.rig.placement.placement import (
    DeformingPlacement,
    Forkable,
    Placement,
    Positions,
    deform_calls,
    writable,
)
from supple.rig.placement.pose_corrections import (
    Corrections,
    combined_corrections,
    corrected_placement,
)
from supple.rig.skeleton.block_kernels import (
    BLOCK,
    SCRATCH_ROWS,
    place_blocks,
    place_blocks_if_stretched,
)
from supple.rig.skeleton.joint_pose import JointPose, PartialJointPose
from supple.rig.skeleton.skinning_kernels import (
    decompose_transforms,
    dual_quaternions,
    multiply_all,
    rigid_duals,
    skin_dual,
    skin_dual_if_stretched,
    skin_linear,
    skin_transforms,
    turn_over,
)

#: Least mean number of vertices per set of joints for which blocks are faster.
LEAST_MEAN = 32
#: Block sizes are multiples of this.
LANES = 8
#: Corrections smaller than this fraction of the body do not show in single precision.
INVISIBLE = 1e-9
NO_SUBSET = np.empty(0, dtype=np.int64)
NO_MATRICES, NO_DUALS = np.empty((0, 4, 4)), np.empty((0, 8))


class Skin(Protocol):
    """Vertices bound to the joints of a skeleton, as a `SkinnedRig` holds them."""

    joint_pose: JointPose
    vertices: Floats
    joints: ShortInts
    weights: Floats
    inverse_bind: Floats
    method: str


def skinned_placement(
    skin: Skin,
    vertices: Ints | None = None,
    corrections: Corrections | None = None,
    *,
    single: bool = False,
) -> Placement:
    """Return a placement of skinned vertices plus corrections, in blocks if that is faster."""
    count = len(skin.vertices) if vertices is None else len(vertices)
    added = combined_corrections(count) if corrections is None else corrections
    if count:
        groups = _joint_groups(skin, vertices)
        if count >= LEAST_MEAN * (len(groups.starts) - 1):
            return BlockPlacement(skin, vertices, added, groups, single)
    return corrected_placement(SkinnedPlacement(skin, vertices), added, single)


class _SkinTransforms(Forkable):
    """Transforms that the joints of a skin apply to its vertices, for successive poses.

    `matrices` (J, 4, 4) are from bound to posed, after `update`; `duals` (J, 8) their rigid parts,
    after `update_duals`; `stretches` (J, 4, 4) apply before `duals`, if `stretched`. Stretched
    joints under dual quaternions are decomposed by NumPy, which allocates.
    """

    def __init__(self, skin: Skin) -> None:
        self._joint_pose, self._inverse_bind = skin.joint_pose, skin.inverse_bind
        self._tables = _joint_tables(skin.joint_pose)
        self._allocate()

    def _allocate(self) -> None:
        count = len(self._inverse_bind)
        self.matrices = np.zeros((count, 4, 4))
        self.duals = np.zeros((count, 8))
        self.stretches = np.zeros((count, 4, 4))
        self.stretched = False
        self._world = np.zeros((count + 1, 4, 4))

    def update(self, pose: Floats) -> None:
        """Set `matrices` for a pose."""
        bind = self._inverse_bind
        if self._tables is None:
            world = np.ascontiguousarray(self._joint_pose.matrices(pose))
            multiply_all(world, bind, self.matrices)
        else:
            skin_transforms(pose, *self._tables, bind, self._world, self.matrices)

    def update_duals(self, pose: Floats) -> None:
        """Set `matrices`, `duals`, `stretches` and `stretched` for a pose."""
        self.update(pose)
        self.stretched = not rigid_duals(self.matrices, self.duals)
        if self.stretched:
            self.duals, self.stretches[:, :3, :3], _ = dual_quaternions(self.matrices)

    def calls(self, pose: Floats) -> list[KernelCall]:
        """Return the calls of `update`."""
        if self._tables is None:
            name = type(self._joint_pose).__name__
            raise SuppleError(f"only Python can evaluate the rig, which has a {name}")
        written = self._world, self.matrices
        arguments = pose, *self._tables, self._inverse_bind, *written
        return [KernelCall(skin_transforms, arguments, written)]

    def dual_calls(self, pose: Floats, stretched: Ints) -> list[KernelCall]:
        """Return the calls of `update_duals`; `stretched` (1,) becomes 1 if any joint stretches."""
        written = self.duals, self.stretches, stretched, np.zeros((5, 3, 3))
        arguments = self.matrices, *written
        return [*self.calls(pose), KernelCall(decompose_transforms, arguments, written)]


def _joint_tables(joint_pose: JointPose) -> tuple[Ints, Floats] | None:
    """Return `entries` and `rest` of `skin_transforms`; None for other subclasses of `JointPose`.

    Such a subclass may define its pose differently; only its `matrices` are valid then.
    """
    if type(joint_pose) not in (JointPose, PartialJointPose):
        return None
    skeleton = joint_pose.skeleton
    entries = np.column_stack([skeleton.parents, joint_pose.entries()])
    rest = np.hstack([skeleton.translations, skeleton.rotations, skeleton.scales])
    return entries, np.ascontiguousarray(rest)


class SkinnedPlacement(Forkable):
    """Placement of skinned vertices one by one, in double precision as the rig."""

    _forked = ("_transforms",)

    def __init__(self, skin: Skin, vertices: Ints | None) -> None:
        rows = slice(None) if vertices is None else vertices
        self._points = np.ascontiguousarray(skin.vertices[rows])
        self._joints = np.ascontiguousarray(skin.joints[rows])
        self._weights = np.ascontiguousarray(skin.weights[rows])
        self._linear = skin.method == "linear"
        self._transforms = _SkinTransforms(skin)
        self.n_points = len(self._points)

    def place(self, pose: Floats, out: Positions) -> None:
        """Write the skinned positions (k, 3) at a pose."""
        self.deform(self._points, pose, out)

    def deform(self, points: Floats, pose: Floats, out: Positions) -> None:
        """Write the positions of the vertices if they are bound at `points`."""
        values, transforms = writable(pose), self._transforms
        influences = (points, self._joints, self._weights, NO_SUBSET)
        if self._linear:
            transforms.update(values)
            turn_over(transforms.matrices)
            skin_linear(*influences, transforms.matrices, out)
            return
        transforms.update_duals(values)
        duals = (transforms.duals, transforms.stretches, transforms.stretched)
        skin_dual(*influences, *duals, out)

    def calls(self, pose: Floats, out: Positions) -> list[KernelCall]:
        """Return the calls of `place`."""
        return self.deform_calls(self._points, pose, out)

    def deform_calls(self, points: Floats, pose: Floats, out: Positions) -> list[KernelCall]:
        """Return the calls of `deform`."""
        transforms = self._transforms
        influences = points, self._joints, self._weights, NO_SUBSET
        if self._linear:
            columns = transforms.matrices
            return [
                *transforms.calls(pose),
                KernelCall(turn_over, (columns,), (columns,)),
                KernelCall(skin_linear, (*influences, columns, out), (out,)),
            ]
        stretched = np.zeros(1, np.int64)
        arguments = *influences, transforms.duals, transforms.stretches, stretched, out
        return [
            *transforms.dual_calls(pose, stretched),
            KernelCall(skin_dual_if_stretched, arguments, (out,)),
        ]


class _JointGroups(NamedTuple):
    """Vertices grouped by their joints."""

    joints: Ints
    """(k, most) ascending, padded with J; for dual quaternions the heaviest first."""
    weights: Floats
    """(k, most) skinning weights, in the order of `joints`."""
    order: Ints
    """The vertices, a group after the other."""
    starts: Ints
    """(g + 1,) start of each group in `order`, and the end of the last."""


def _joint_groups(skin: Skin, vertices: Ints | None) -> _JointGroups:
    rows = slice(None) if vertices is None else vertices
    weights = skin.weights[rows]
    joints = np.where(weights > 0, skin.joints[rows], len(skin.inverse_bind)).astype(np.int64)
    # Dual quaternions take their signs from the heaviest joint, which stands first.
    ranks = joints.copy()
    if skin.method != "linear":
        ranks[:, 0] = -1
    sorting = np.argsort(ranks, axis=1, kind="stable")
    joints = np.take_along_axis(joints, sorting, axis=1)
    weights = np.take_along_axis(weights, sorting, axis=1)
    order = np.lexsort(joints.T[::-1])
    changes = (joints[order][1:] != joints[order][:-1]).any(axis=1)
    starts = np.concatenate([[0], 1 + np.flatnonzero(changes), [len(order)]])
    return _JointGroups(joints, weights, order, starts)


class _Blocks(NamedTuple):
    """Tables that `place_blocks` reads."""

    table: Positions
    blocks: Ints
    joints: Ints
    active: Bools
    ranks: NDArray[np.uint32]

    def deltas(self) -> Positions:
        """Return the corrections in the table, (m, k, 3)."""
        count = self.active.shape[1]
        out = np.empty((count, len(self.ranks), 3), self.table.dtype)
        block, place = np.divmod(self.ranks, 3 * BLOCK)
        for number, (start, n, slots) in enumerate(self.blocks):
            begin, inside = start + (3 + slots) * n, block == number
            rows = self.table[begin : begin + 3 * count * n].reshape(count, 3, n)
            out[:, inside] = rows[:, :, place[inside]].transpose(0, 2, 1)
        return out


def _blocks(
    points: Floats, groups: _JointGroups, added: Corrections, no_joint: int, single: bool
) -> _Blocks:
    """Return the tables of `place_blocks`; the index `no_joint` pads rows of `groups.joints`."""
    least = INVISIBLE * np.abs(points).max(initial=0.0) if single else 0.0
    pieces, joints, active, at = [], [], [], 0
    blocks: list[tuple[int, int, int]] = []
    ranks = np.empty(len(points), np.uint32)
    for begin, end in pairwise(groups.starts):
        group_joints = groups.joints[groups.order[begin]]
        slots = int(np.count_nonzero(group_joints < no_joint))
        for first in range(begin, end, BLOCK):
            which = groups.order[first : min(first + BLOCK, end)]
            # Padded with the last vertex to full vectors; a remainder would be moved one by one.
            which = np.pad(which, (0, -len(which) % LANES), mode="edge")
            deltas = added.deltas[:, which].transpose(0, 2, 1)
            weights = groups.weights[which, :slots].T
            rows = np.concatenate([points[which].T, weights, deltas.reshape(-1, len(which))])
            pieces.append(rows.ravel().astype(np.float32 if single else np.float64))
            ranks[which] = 3 * BLOCK * len(blocks) + np.arange(len(which))
            blocks.append((at, len(which), slots))
            joints.append(np.where(group_joints < no_joint, group_joints, 0))
            active.append((np.abs(deltas) > least).any(axis=(1, 2)))
            at += rows.size
    tables = (np.array(blocks), np.array(joints), np.array(active))
    return _Blocks(np.concatenate(pieces), *tables, ranks)


class BlockPlacement(Forkable):
    """Skinned vertices and Σ c(p) δ in one pass over vertices sorted by joints, `groups`.

    With `single`, all arithmetic is in single precision, with errors of about 1e-7 of the larger of
    the bound and the posed body, measured from the origin; otherwise in double, as the rig.
    """

    _forked = ("_transforms", "_coefficients")

    def __init__(
        self,
        skin: Skin,
        vertices: Ints | None,
        corrections: Corrections,
        groups: _JointGroups,
        single: bool,
    ) -> None:
        self._skin, self._vertices, self._single = skin, vertices, single
        self._linear = skin.method == "linear"
        points = skin.vertices if vertices is None else skin.vertices[vertices]
        self._blocks = _blocks(points, groups, corrections, len(skin.inverse_bind), single)
        self._transforms = _SkinTransforms(skin)
        self._coefficients = corrections.coefficients.fork()
        self.n_points = len(points)
        self._allocate()

    def _allocate(self) -> None:
        kind = self._blocks.table.dtype
        self._scratch = np.zeros(SCRATCH_ROWS * BLOCK, kind)
        self._placed = np.zeros(len(self._blocks.blocks) * 3 * BLOCK, kind)
        self._one_by_one: DeformingPlacement | None = None

    def place(self, pose: Floats, out: Positions) -> None:
        """Write the skinned and corrected positions (k, 3) at a pose."""
        pose, transforms = writable(pose), self._transforms
        if self._linear:
            transforms.update(pose)
            matrices, duals = transforms.matrices, NO_DUALS
        else:
            transforms.update_duals(pose)
            matrices = transforms.stretches if transforms.stretched else NO_MATRICES
            duals = transforms.duals
        values = self._coefficients.at(pose)
        place_blocks(*self._blocks, matrices, duals, values, self._scratch, self._placed, out)

    def deform(self, points: Floats, pose: Floats, out: Positions) -> None:
        """Write the positions of the vertices if they are bound at `points`, one by one."""
        self._singly().deform(points, pose, out)

    def _singly(self) -> DeformingPlacement:
        if self._one_by_one is None:
            base = SkinnedPlacement(self._skin, self._vertices)
            corrections = Corrections(self._blocks.deltas(), self._coefficients)
            self._one_by_one = corrected_placement(base, corrections, self._single)  # type: ignore[assignment]
        return self._one_by_one  # type: ignore[return-value]

    def calls(self, pose: Floats, out: Positions) -> list[KernelCall]:
        """Return the calls of `place`."""
        transforms, blocks = self._transforms, self._blocks
        coefficients, written = self._coefficients, (self._scratch, self._placed, out)
        if self._linear:
            arguments = *blocks, transforms.matrices, NO_DUALS, coefficients.values, *written
            return [
                *transforms.calls(pose),
                *coefficients.calls(pose),
                KernelCall(place_blocks, arguments, written),
            ]
        stretched = np.zeros(1, np.int64)
        moved = transforms.stretches, transforms.duals, stretched, coefficients.values
        return [
            *transforms.dual_calls(pose, stretched),
            *coefficients.calls(pose),
            KernelCall(place_blocks_if_stretched, (*blocks, *moved, *written), written),
        ]

    def deform_calls(self, points: Floats, pose: Floats, out: Positions) -> list[KernelCall]:
        """Return the calls of `deform`."""
        return deform_calls(self._singly(), points, pose, out)
