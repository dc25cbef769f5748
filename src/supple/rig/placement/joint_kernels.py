"""The loops of placements: joints of a pose, weights of example poses, sums of corrections."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Floats, Ints
from supple.compiled.jit import compiled, compiled_brief
from supple.maths.quaternions import exponential, multiply, to_matrix
from supple.rig.poses.pose_weights import evaluate_weights
from supple.rig.skeleton.skinning_kernels import RIGID, _to_duals

__all__ = [
    "BLOCK",
    "NEGLIGIBLE_WEIGHT",
    "add_carried",
    "add_sum",
    "add_times",
    "evaluate_sets",
    "rigid_duals",
    "skin_transforms",
]

#: Of either precision.
Table = NDArray[np.floating[Any]]
Number = float | np.floating[Any]

#: Vertices taken at a time.
BLOCK = 512
#: Corrections of a pose that counts less than this would be lost in rounding.
NEGLIGIBLE_WEIGHT = 1e-12


@compiled_brief
def skin_transforms(
    pose: Floats,
    entries: Ints,
    rest: Floats,
    inverse_bind: Floats,
    world: Floats,
    matrices: Floats,
) -> None:
    """From bound to posed, `matrices` (J, 4, 4), as `SkinnedRig.skin_matrices` has them.

    Parameters
    ----------
    pose
        (s,).
    entries
        (J, 10): parent of each joint or -1, then where in the pose its rotation vector, offset
        and logarithms of scale stand, -1 where they stay at rest.
    rest
        (J, 10): translation, rotation and scale at rest.
    inverse_bind
        (J, 4, 4).
    world
        (J + 1, 4, 4) room for the joints' transforms; the last is for the local ones.
    matrices
        Written.
    """
    count = len(entries)
    local = world[count]
    for joint in range(count):
        entry, own = entries[joint], rest[joint]
        # The rotation's room is the joint's own, which is written after.
        vector, turn = world[joint, 0], world[joint, 1]
        for axis in range(3):
            vector[axis] = pose[entry[1 + axis]] if entry[1 + axis] >= 0 else 0.0
        exponential(vector, turn)
        turned = world[joint, 2]
        multiply(own[3:7], turn, turned)
        to_matrix(turned, local)
        for axis in range(3):
            scale, offset = own[7 + axis], own[axis]
            if entry[7 + axis] >= 0:
                scale *= math.exp(pose[entry[7 + axis]])
            if entry[4 + axis] >= 0:
                offset += pose[entry[4 + axis]]
            for row in range(3):
                local[row, axis] *= scale
            local[axis, 3] = offset
        _times_parent(world, entry[0], local, world[joint])
        _times(world[joint], inverse_bind[joint], matrices[joint])


@compiled
def _times_parent(world: Floats, parent: int, local: Floats, out: Floats) -> None:
    """Parent's transform times the local one, both affine; the local one where there is none."""
    for row in range(3):
        for column in range(4):
            if parent < 0:
                out[row, column] = local[row, column]
                continue
            total = (
                world[parent, row, 0] * local[0, column]
                + world[parent, row, 1] * local[1, column]
                + world[parent, row, 2] * local[2, column]
            )
            out[row, column] = total + world[parent, row, 3] if column == 3 else total
    out[3, 0] = out[3, 1] = out[3, 2] = 0.0
    out[3, 3] = 1.0


@compiled
def _times(a: Floats, b: Floats, out: Floats) -> None:
    for row in range(4):
        for column in range(4):
            total = a[row, 0] * b[0, column]
            for m in range(1, 4):
                total += a[row, m] * b[m, column]
            out[row, column] = total


@compiled_brief
def rigid_duals(matrices: Floats, duals: Floats) -> bool:
    """Unit dual quaternions (J, 8) of rigid transforms; False if one of them is not rigid."""
    for joint in range(len(matrices)):
        m = matrices[joint]
        for i in range(3):
            for j in range(i, 3):
                gram = m[0, i] * m[0, j] + m[1, i] * m[1, j] + m[2, i] * m[2, j]
                if not abs(gram - (1.0 if i == j else 0.0)) < RIGID:
                    return False
        determinant = (
            m[0, 0] * (m[1, 1] * m[2, 2] - m[1, 2] * m[2, 1])
            - m[0, 1] * (m[1, 0] * m[2, 2] - m[1, 2] * m[2, 0])
            + m[0, 2] * (m[1, 0] * m[2, 1] - m[1, 1] * m[2, 0])
        )
        if not determinant > 0:
            return False
    _to_duals(matrices[:, :3, :3], matrices[:, :3, 3], duals)
    return True


@compiled_brief
def evaluate_sets(pose: Floats, packed: Floats, sizes: Ints, room: Floats, out: Floats) -> None:
    """Weights of sets of example poses at a pose, one after another, into the front of `out`.

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
        rooms = room[first : first + m], out[first : first + m]
        evaluate_weights(pose, scales, poses, matrix, constant, sizes[k, 1] == 1, *rooms)
        first += m


@compiled
def add_sum(table: Table, rows: Ints, coefficients: Floats, out: Table) -> None:
    """Add Σ c δ to `out` (3k,) in its precision, in pieces that stay in cache.

    Row i of `table` (m, 3k) is the δ of coefficient ``rows[i]``; others are zero.
    """
    for start in range(0, len(out), 3 * BLOCK):
        piece = out[start : start + 3 * BLOCK]
        for i in range(len(rows)):
            much = coefficients[rows[i]]
            if abs(much) >= NEGLIGIBLE_WEIGHT:
                add_times(out.dtype.type(much), table[i, start : start + 3 * BLOCK], piece)


@compiled
def add_times(much: Number, delta: Table, out: Table) -> None:
    """Add a multiple to `out`."""
    for i in range(len(out)):
        out[i] += much * delta[i]


@compiled
def add_carried(
    starts: NDArray[np.int32],
    columns: NDArray[np.int32],
    shares: Floats,
    moved: Floats,
    skinned: Floats,
    offsets: Floats,
    out: Floats,
) -> None:
    """Add to `out` (k, 3) what a chain adds to its skinning on the surface, S (Φ̄ − skinned − o).

    `starts`, `columns` and `shares` are the sparse rows of S, the other arrays (n̄, 3).
    """
    for i in range(len(out)):
        x = y = z = 0.0
        for entry in range(starts[i], starts[i + 1]):
            j, share = columns[entry], shares[entry]
            x += share * (moved[j, 0] - skinned[j, 0] - offsets[j, 0])
            y += share * (moved[j, 1] - skinned[j, 1] - offsets[j, 1])
            z += share * (moved[j, 2] - skinned[j, 2] - offsets[j, 2])
        out[i, 0] += x
        out[i, 1] += y
        out[i, 2] += z
