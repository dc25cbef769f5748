"""Bones that turn about their joints: turns since rest, and how they change."""

from __future__ import annotations

import math
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.checks import owned_array
from supple.compiled.jit import compiled, compiled_fused
from supple.maths.small_matrices import times, times_transposed


class BoneChain:
    """Bones x = G_k X + t_k, each turned about its joint, the first one moved, too.

    Coordinates of a change, (3 + 3K,): a move of the first joint, then for each a small turn ω_j in
    the world's axes, by which all that hangs on joint j turns about it:
    R_j ← exp([G_pᵀω_j]×) R_j with R_j = G_pᵀG_j and p the parent.

    Parameters
    ----------
    parents
        (K,) parent of each bone, listed before it; -1 for the first, and for it alone.
    joints
        (K, 3) where they are at rest.
    """

    def __init__(self, parents: ArrayLike, joints: ArrayLike) -> None:
        self.parents: Ints = np.asarray(parents, np.int64)
        self.joints = owned_array("joints", joints, (len(self.parents), 3))
        K = len(self.parents)
        self.turns = np.tile(np.eye(3), (K, 1, 1))
        self.places = self.joints.copy()
        self.shifts = np.zeros((K, 3))
        #: (K, 3) how far keys slide each joint on its parent, in axes of the parent at rest.
        self.slides = np.zeros((K, 3))
        self._before = np.empty((K, 3, 3))

    @property
    def size(self) -> int:
        """Number of coordinates of a change."""
        return 3 + 3 * len(self.parents)

    def place(self, turns: ArrayLike, first: ArrayLike, slides: ArrayLike = 0.0) -> None:
        """Set turns (K, 3, 3) since rest, where the first joint is (3,), and slides (K, 3)."""
        self.turns[:] = turns
        self.places[0] = first
        self.slides[:] = slides
        self._place_joints()

    def _place_joints(self) -> None:
        rest = self.parents, self.joints, self.slides
        _follow(*rest, self.turns, self.places, self.shifts)

    def change(self, by: Floats) -> None:
        """Change the bones by coordinates (3 + 3K,)."""
        self._before[:] = self.turns
        _turn(self.parents, self._before, by, self.turns)
        self.places[0] += by[:3]
        self._place_joints()

    def place_first(self, turn: Floats, place: Floats) -> None:
        """Put the first bone somewhere, and all others with it."""
        relative = turn @ self.turns[0].T
        self.turns[:] = relative @ self.turns
        self.places[0] = place
        self._place_joints()

    def errors(self, other: BoneChain) -> Floats:
        """(K, 3) turns of each joint, in the world's axes, that lead from another chain to this.

        log(R_j R̂_jᵀ) of the turns on the parent, in its axes, turned to the world's.
        """
        found = np.empty((len(self.parents), 3))
        _write_errors(self.parents, self.turns, other.turns, found)
        return found

    def difference(self, other: BoneChain) -> Floats:
        """(3 + 3K,) the change that leads from this chain to another, nearly."""
        found = np.empty(self.size)
        found[:3] = other.places[0] - self.places[0]
        found[3:] = other.errors(self).ravel()
        return found

    def copy_to(self, other: BoneChain) -> None:
        """Put another chain of the same bones where this one is."""
        other.turns[:], other.places[:], other.shifts[:] = self.turns, self.places, self.shifts
        other.slides[:] = self.slides

    def fork(self) -> Self:
        """Return a twin that moves by itself."""
        twin = type(self)(self.parents, self.joints)
        self.copy_to(twin)
        return twin


@compiled_fused
def write_joint_turns(parents: Ints, turns: Floats, j: int, out: Floats) -> None:
    """R_j = G_pᵀ G_j, or G_j of a bone without a parent."""
    p = parents[j]
    for i in range(3):
        for k in range(3):
            if p < 0:
                out[i, k] = turns[j, i, k]
            else:
                out[i, k] = (
                    turns[p, 0, i] * turns[j, 0, k]
                    + turns[p, 1, i] * turns[j, 1, k]
                    + turns[p, 2, i] * turns[j, 2, k]
                )


@compiled
def _turn(parents: Ints, before: Floats, by: Floats, turns: Floats) -> None:
    """G_j = G_p' exp([G_pᵀω_j]×) G_pᵀ G_j, with G_p' the parent's new turn."""
    small, own, relative = np.empty((3, 3)), np.empty((3, 3)), np.empty(3)
    for j in range(len(parents)):
        p = parents[j]
        for i in range(3):
            if p < 0:
                relative[i] = by[3 + i]
            else:
                relative[i] = 0.0
                for k in range(3):
                    relative[i] += before[p, k, i] * by[3 + 3 * j + k]
        write_exponential(relative, small)
        if p < 0:
            times(small, before[j], turns[j])
            straighten(turns[j], own)
            continue
        for i in range(3):
            for k in range(3):
                own[i, k] = 0.0
                for m in range(3):
                    own[i, k] += before[p, m, i] * before[j, m, k]
        times(small, own, turns[j])
        own[:] = turns[j]
        times(turns[p], own, turns[j])
        straighten(turns[j], own)


@compiled_fused
def straighten(R: Floats, scratch: Floats) -> None:
    """Make R a rotation again but for rounding: R ← R (3 − RᵀR) / 2.

    A bone's turn is a product of all above it, and of what they were: rounding grew tenfold with
    every change of a chain of twelve.
    """
    for i in range(3):
        for k in range(3):
            inner = R[0, i] * R[0, k] + R[1, i] * R[1, k] + R[2, i] * R[2, k]
            scratch[i, k] = (1.5 if i == k else 0.0) - 0.5 * inner
    for i in range(3):
        a, b, c = R[i, 0], R[i, 1], R[i, 2]
        for k in range(3):
            R[i, k] = a * scratch[0, k] + b * scratch[1, k] + c * scratch[2, k]


@compiled_fused
def write_exponential(vector: Floats, out: Floats) -> None:
    """exp([v]×) by Rodrigues' formula."""
    x, y, z = vector[0], vector[1], vector[2]
    square = x * x + y * y + z * z
    if square < 1e-8:
        sine, versine = 1.0 - square / 6.0, 0.5 - square / 24.0
    else:
        angle = math.sqrt(square)
        sine, versine = math.sin(angle) / angle, (1.0 - math.cos(angle)) / square
    out[0, 0] = 1.0 - versine * (y * y + z * z)
    out[1, 1] = 1.0 - versine * (x * x + z * z)
    out[2, 2] = 1.0 - versine * (x * x + y * y)
    out[0, 1], out[1, 0] = versine * x * y - sine * z, versine * x * y + sine * z
    out[0, 2], out[2, 0] = versine * x * z + sine * y, versine * x * z - sine * y
    out[1, 2], out[2, 1] = versine * y * z - sine * x, versine * y * z + sine * x


@compiled
def _follow(
    parents: Ints, joints: Floats, slides: Floats, turns: Floats, places: Floats, shifts: Floats
) -> None:
    """Set joints o_j = G_p (J_j + slide) + t_p, and shifts t_j = o_j − G_j J_j."""
    for j in range(len(parents)):
        p = parents[j]
        for i in range(3):
            if p >= 0:
                places[j, i] = shifts[p, i]
                for k in range(3):
                    places[j, i] += turns[p, i, k] * (joints[j, k] + slides[j, k])
            shifts[j, i] = places[j, i]
            for k in range(3):
                shifts[j, i] -= turns[j, i, k] * joints[j, k]


@compiled
def _write_errors(parents: Ints, turns: Floats, others: Floats, out: Floats) -> None:
    own, wanted, both = np.empty((3, 3)), np.empty((3, 3)), np.empty((3, 3))
    for j in range(len(parents)):
        p = parents[j]
        write_joint_turns(parents, turns, j, own)
        write_joint_turns(parents, others, j, wanted)
        times_transposed(own, wanted, both)
        x, y, z = both[2, 1] - both[1, 2], both[0, 2] - both[2, 0], both[1, 0] - both[0, 1]
        sine = 0.5 * math.sqrt(x * x + y * y + z * z)
        cosine = 0.5 * (both[0, 0] + both[1, 1] + both[2, 2] - 1.0)
        angle = math.atan2(sine, cosine)
        scale = 0.5 * (angle / sine if sine > 1e-9 else 1.0)
        x, y, z = scale * x, scale * y, scale * z
        for i in range(3):
            if p < 0:
                out[j, 0], out[j, 1], out[j, 2] = x, y, z
            else:
                out[j, i] = turns[p, i, 0] * x + turns[p, i, 1] * y + turns[p, i, 2] * z
