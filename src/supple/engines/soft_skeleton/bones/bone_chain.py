"""Bones that rotate about their joints: rotations since rest, and their changes."""

from __future__ import annotations

import math
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.checks import owned_array
from supple.compiled.jit import compiled, compiled_fused
from supple.maths.small_matrices import straighten, times, times_transposed, write_exponential


class BoneChain:
    """Bones x = G_k X + t_k that rotate about their joints; the first one translates as well.

    A change has (3 + 3K,) coordinates: a translation of the first joint, then for each joint j a
    small rotation ω_j in world axes of everything below it: R_j ← exp([G_pᵀω_j]×) R_j with R_j =
    G_pᵀG_j and p the parent. Parents precede their children; only the first bone has none (-1).
    `joints` (K, 3) are positions at rest.
    """

    def __init__(self, parents: ArrayLike, joints: ArrayLike) -> None:
        self.parents: Ints = np.asarray(parents, np.int64)
        self.joints = owned_array("joints", joints, (len(self.parents), 3))
        K = len(self.parents)
        self.rotations = np.tile(np.eye(3), (K, 1, 1))
        self.positions = self.joints.copy()
        self.translations = np.zeros((K, 3))
        #: (K, 3) animated changes of the joints' offsets, in axes of the parent at rest.
        self.slides = np.zeros((K, 3))
        self._before = np.empty((K, 3, 3))

    @property
    def size(self) -> int:
        """Number of coordinates of a change."""
        return 3 + 3 * len(self.parents)

    def place(self, rotations: ArrayLike, first: ArrayLike, slides: ArrayLike = 0.0) -> None:
        """Set rotations (K, 3, 3) since rest, the first joint's position (3,), and `slides`."""
        self.rotations[:] = rotations
        self.positions[0] = first
        self.slides[:] = slides
        self._place_joints()

    def _place_joints(self) -> None:
        rest = self.parents, self.joints, self.slides
        _follow(*rest, self.rotations, self.positions, self.translations)

    def change(self, by: Floats) -> None:
        """Change the bones by coordinates (3 + 3K,)."""
        self._before[:] = self.rotations
        _rotate(self.parents, self._before, by, self.rotations)
        self.positions[0] += by[:3]
        self._place_joints()

    def place_first(self, turn: Floats, place: Floats) -> None:
        """Set rotation (3, 3) and joint (3,) of the first bone, and move the others with it."""
        relative = turn @ self.rotations[0].T
        self.rotations[:] = relative @ self.rotations
        self.positions[0] = place
        self._place_joints()

    def errors(self, other: BoneChain) -> Floats:
        """Return rotation vectors (K, 3) of joints, in world axes, from another chain to this one.

        log(R_j R̂_jᵀ) of the rotations relative to the parent, transformed to world axes.
        """
        vectors = np.empty((len(self.parents), 3))
        _write_errors(self.parents, self.rotations, other.rotations, vectors)
        return vectors

    def difference(self, other: BoneChain) -> Floats:
        """Return the change (3 + 3K,), to first order, from this chain to another."""
        change = np.empty(self.size)
        change[:3] = other.positions[0] - self.positions[0]
        change[3:] = other.errors(self).ravel()
        return change

    def copy_to(self, other: BoneChain) -> None:
        """Copy the state to another chain of the same bones."""
        other.rotations[:], other.positions[:] = self.rotations, self.positions
        other.translations[:], other.slides[:] = self.translations, self.slides

    def packed(self) -> Floats:
        """Return rotations, positions, translations and slides side by side, (K, 18)."""
        vectors = self.positions, self.translations, self.slides
        return np.concatenate([self.rotations.reshape(-1, 9), *vectors], axis=1)

    def unpack(self, packed: Floats) -> None:
        """Set the state from an array (K, 18) that `packed` returned."""
        self.rotations[:] = packed[:, :9].reshape(-1, 3, 3)
        self.positions[:], self.translations[:] = packed[:, 9:12], packed[:, 12:15]
        self.slides[:] = packed[:, 15:]

    def fork(self) -> Self:
        """Return an independent copy."""
        twin = type(self)(self.parents, self.joints)
        self.copy_to(twin)
        return twin


@compiled_fused
def write_joint_rotation(parents: Ints, rotations: Floats, j: int, out: Floats) -> None:
    """Write R_j = G_pᵀ G_j of bone j and its parent p, or G_j for a bone without a parent."""
    p = parents[j]
    for i in range(3):
        for k in range(3):
            if p < 0:
                out[i, k] = rotations[j, i, k]
            else:
                out[i, k] = (
                    rotations[p, 0, i] * rotations[j, 0, k]
                    + rotations[p, 1, i] * rotations[j, 1, k]
                    + rotations[p, 2, i] * rotations[j, 2, k]
                )


@compiled
def _rotate(parents: Ints, before: Floats, by: Floats, rotations: Floats) -> None:
    """Write G_j = G_p' exp([G_pᵀω_j]×) G_pᵀ G_j, with G_p' the parent's new rotation."""
    small, product, local = np.empty((3, 3)), np.empty((3, 3)), np.empty(3)
    for j in range(len(parents)):
        p = parents[j]
        for i in range(3):
            if p < 0:
                local[i] = by[3 + i]
            else:
                local[i] = 0.0
                for k in range(3):
                    local[i] += before[p, k, i] * by[3 + 3 * j + k]
        write_exponential(local, small)
        if p < 0:
            times(small, before[j], rotations[j])
            straighten(rotations[j], product)
            continue
        for i in range(3):
            for k in range(3):
                product[i, k] = 0.0
                for m in range(3):
                    product[i, k] += before[p, m, i] * before[j, m, k]
        times(small, product, rotations[j])
        product[:] = rotations[j]
        times(rotations[p], product, rotations[j])
        straighten(rotations[j], product)


@compiled
def _follow(
    parents: Ints,
    joints: Floats,
    slides: Floats,
    rotations: Floats,
    positions: Floats,
    translations: Floats,
) -> None:
    """Write joints o_j = G_p (J_j + slide_j) + t_p below parents p, and t_j = o_j − G_j J_j."""
    for j in range(len(parents)):
        p = parents[j]
        for i in range(3):
            if p >= 0:
                positions[j, i] = translations[p, i]
                for k in range(3):
                    positions[j, i] += rotations[p, i, k] * (joints[j, k] + slides[j, k])
            translations[j, i] = positions[j, i]
            for k in range(3):
                translations[j, i] -= rotations[j, i, k] * joints[j, k]


@compiled
def _write_errors(parents: Ints, rotations: Floats, others: Floats, out: Floats) -> None:
    """Write the vectors log(R_j R̂_jᵀ) (K, 3) of all joints in world axes, R̂_j those of `others`."""
    rotation, other, relative = np.empty((3, 3)), np.empty((3, 3)), np.empty((3, 3))
    for j in range(len(parents)):
        p = parents[j]
        write_joint_rotation(parents, rotations, j, rotation)
        write_joint_rotation(parents, others, j, other)
        times_transposed(rotation, other, relative)
        x, y = relative[2, 1] - relative[1, 2], relative[0, 2] - relative[2, 0]
        z = relative[1, 0] - relative[0, 1]
        sine = 0.5 * math.sqrt(x * x + y * y + z * z)
        cosine = 0.5 * (relative[0, 0] + relative[1, 1] + relative[2, 2] - 1.0)
        angle = math.atan2(sine, cosine)
        scale = 0.5 * (angle / sine if sine > 1e-9 else 1.0)
        x, y, z = scale * x, scale * y, scale * z
        for i in range(3):
            if p < 0:
                out[j, 0], out[j, 1], out[j, 2] = x, y, z
            else:
                out[j, i] = rotations[p, i, 0] * x + rotations[p, i, 1] * y + rotations[p, i, 2] * z
