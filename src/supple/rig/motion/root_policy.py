"""Joints of a file as pose and root: which of them is the root, and what a pose has entries for.

Readers of glTF and of USD follow the same policy, so that a character has
the same parameters and motions whichever file it came from:

1. Joints are what skins list, what in a clip moves them or meshes without a skin from above, what
   such meshes below a joint hang on, and one called "world" for meshes that nothing moves. All
   other nodes above or between (armatures, changes of axes) are no joints: their transforms are
   part of the joints below them. Readers see to that.
2. The root is the rigid motion of the topmost joint that moves in any clip (`RootPolicy`).
3. A pose turns every joint; it moves and scales those that leave their rest in any clip, once the
   root is taken out (`pose_of_motions`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Floats, Ints
from supple.maths.rotations import (
    from_matrix,
    inverse,
    logarithm,
    multiply,
    rotate,
    to_matrix,
)
from supple.rig.skeleton.joint_pose import JointPose
from supple.rig.skeleton.joints import Skeleton

#: Local transforms over time: translations (t, J, 3), rotations (t, J, 4), scales (t, J, 3).
Locals = tuple[Floats, Floats, Floats]
#: Name of the joint that meshes follow which nothing moves.
WORLD = "world"
#: What leaves rest, or changes, by less than this part of the character's size, or of a turn, is
#: noise of float32 keys; of a scale, of files that keep scales in half precision or as products.
STILL, STILL_SCALE = 1e-6, 1e-5
#: Parts of the surface: more than this that never moves, and there is no root motion; nor with
#: less than that which follows the topmost moving joint.
MOST_ANCHORED, LEAST_LED = 0.1, 0.5
#: Radians beyond which a joint that carries the whole character turns it far.
FAR = 2.5


def varying_joints(skeleton: Skeleton, samples: Sequence[Locals], size: float) -> NDArray[np.bool_]:
    """Return which joints change their place or rotation during any clip, (J,)."""
    varies = np.zeros(skeleton.n_joints, dtype=bool)
    above, most = _stretch_above(skeleton), STILL * max(size, 1e-9)
    for moves, turns, _ in samples:
        # Quaternions of either sign are one rotation.
        near = np.where(np.sum(turns * turns[:1], axis=-1, keepdims=True) < 0, -turns, turns)
        varies |= np.ptp(moves, axis=0).max(axis=1) * above > most
        varies |= np.ptp(near, axis=0).max(axis=1) > STILL
    return varies


def pose_of_motions(skeleton: Skeleton, samples: Sequence[Locals], size: float) -> JointPose:
    """Make a pose with entries for joints that leave their rest place or scale in any clip."""
    translating, scaled = np.zeros((2, skeleton.n_joints), dtype=bool)
    above, most = _stretch_above(skeleton), STILL * max(size, 1e-9)
    least = STILL_SCALE * np.abs(skeleton.scales).max(axis=1)
    for moves, _, scales in samples:
        off = np.abs(moves - skeleton.translations).max(axis=(0, 2), initial=0)
        translating |= off * above > most
        scaled |= np.abs(scales - skeleton.scales).max(axis=(0, 2), initial=0) > least
    return JointPose(skeleton, np.flatnonzero(translating), np.flatnonzero(scaled))


def _stretch_above(skeleton: Skeleton) -> Floats:
    """Return how many metres a metre of each joint's translation is in the world, at rest."""
    stretch = np.abs(skeleton.rest_world()[:, :3, :3]).max(axis=(1, 2), initial=0)
    return np.where(skeleton.parents >= 0, stretch[skeleton.parents], 1.0)


class RootPolicy:
    """The joint whose motion is the root's, and the joints that it is taken out at.

    `RootPolicy.chosen` chooses them. The root follows the topmost joint that moves in any clip; of
    several, the one most of the surface follows. A character with much that never moves (a tail
    wagging on a plinth) has no root motion. Undoing it must reach every vertex: it happens at
    `tops`, joints of which each joint with weight has exactly one above or at it, as low as can be,
    so that the joint the root follows is left at rest, and nothing above is turned back instead.

    Parameters
    ----------
    skeleton : Skeleton
        All that moves the surface.
    joint : int
        Joint that the root follows; -1 for no root motion.
    tops : (k,) int array
        Joints that the root's motion is taken out at.
    carriers : (c,) int array
        Joints above the one that the root follows, whose motion is part of the root's: in a pose
        they are at rest.
    """

    def __init__(self, skeleton: Skeleton, joint: int, tops: Ints, carriers: Ints) -> None:
        self.skeleton, self.joint, self.tops, self.carriers = skeleton, joint, tops, carriers

    @classmethod
    def chosen(
        cls, skeleton: Skeleton, samples: Sequence[Locals], weight: Floats, size: float
    ) -> RootPolicy:
        """Choose the joints.

        Parameters
        ----------
        skeleton : Skeleton
            All that moves the surface.
        samples : sequence of Locals
            Local transforms of each clip at its keys.
        weight : (J,) array
            How much of the surface follows each joint.
        size : float
            Of the character, in metres.
        """
        parents, varies = skeleton.parents, varying_joints(skeleton, samples, size)
        load = weight.copy()
        above_moving = np.zeros(skeleton.n_joints, dtype=bool)
        for joint in range(skeleton.n_joints - 1, -1, -1):
            if parents[joint] >= 0:
                load[parents[joint]] += load[joint]
                above_moving[parents[joint]] |= above_moving[joint] | varies[joint]
        below_moving = np.zeros(skeleton.n_joints, dtype=bool)
        for joint in range(skeleton.n_joints):
            parent = parents[joint]
            below_moving[joint] = parent >= 0 and (below_moving[parent] or varies[parent])
        first = varies & ~below_moving
        leader = cls._leader(first, load, weight, ~(varies | below_moving))
        # What is above a topmost mover stays as it is, unless vertices follow it.
        free = above_moving & ~varies & ~below_moving & (weight == 0)
        tops = [
            joint
            for joint, parent in enumerate(parents.tolist())
            if not free[joint] and (parent < 0 or free[parent])
        ]
        lower = cls._turning_joint(skeleton, leader, samples, load)
        carriers = np.empty(0, np.int64)
        if lower != leader:
            carriers = skeleton.path(leader, lower)[:-1]
            above, joint = set(carriers.tolist()), leader
            while (joint := int(parents[joint])) >= 0:
                above.add(joint)
            tops = [*(joint for joint in tops if joint not in above), lower]
        tops = cls._tops_in_rigid_space(skeleton, tops, samples) if lower >= 0 else tops
        kept = set(tops)
        if lower != leader and lower not in kept:  # its parents are not scaled evenly
            return cls(skeleton, leader, np.array(sorted(kept)), np.empty(0, np.int64))
        return cls(skeleton, lower, np.array(tops, dtype=np.int64), carriers)

    @staticmethod
    def _turning_joint(
        skeleton: Skeleton, leader: int, samples: Sequence[Locals], load: Floats
    ) -> int:
        """Return the lowest joint below the leader that turns the whole character far.

        A full turn of the hips below a root joint is no pose but the character's way. The leader
        itself where there is none.
        """
        found, joint = leader, leader
        while joint >= 0:
            below = np.flatnonzero(skeleton.parents == joint)
            joint = int(below[np.argmax(load[below])]) if len(below) else -1
            if joint < 0 or load[joint] < load[leader]:
                break
            rest = inverse(skeleton.rotations[joint])
            turned = (logarithm(multiply(rest, turns[:, joint])) for _, turns, _ in samples)
            if max(np.linalg.norm(each, axis=1).max(initial=0) for each in turned) > FAR:
                found = joint
        return found

    @staticmethod
    def _leader(
        first: NDArray[np.bool_], load: Floats, weight: Floats, still: NDArray[np.bool_]
    ) -> int:
        """Return the joint whose motion is the character's, or -1 if too much stays behind it."""
        if not first.any():
            return -1
        leader = int(np.argmax(np.where(first, load, -1)))
        total = weight.sum()
        anchored = weight[still].sum() > MOST_ANCHORED * total
        return -1 if anchored or load[leader] < LEAST_LED * total else leader

    def split(self, local: Locals) -> tuple[Locals, Floats]:
        """Return local transforms without the root's motion, and the root, (t, 4, 4)."""
        moves, turns, scales = local
        count = len(moves)
        roots = np.repeat(np.eye(4)[None], count, axis=0)
        if self.joint < 0:
            return local, roots
        world = self.skeleton.world(moves, turns, scales)
        ones = np.ones_like(scales)
        # Without scales, rotations stay rotations: no shear, none lost where a scale is zero.
        turned = self.skeleton.world(moves, turns, ones)[:, self.joint, :3, :3]
        calm = self.skeleton.world(scales=ones[0])[self.joint, :3, :3]
        rotation = from_matrix(turned @ calm.T)
        roots[:, :3, :3] = to_matrix(rotation)
        rest = self.skeleton.rest_world()[self.joint, :3, 3]
        roots[:, :3, 3] = world[:, self.joint, :3, 3] - rotate(rotation, rest)
        moves, turns, scales = moves.copy(), turns.copy(), scales.copy()
        for joint in self.tops.tolist():
            self._undo(joint, roots, rotation, world, moves, turns)
        still = self.skeleton
        for values, calm in zip(
            (moves, turns, scales), (still.translations, still.rotations, still.scales), strict=True
        ):
            values[:, self.carriers] = calm[self.carriers]
        return (moves, turns, scales), roots

    @staticmethod
    def _tops_in_rigid_space(
        skeleton: Skeleton, tops: list[int], samples: Sequence[Locals]
    ) -> list[int]:
        """Return `tops`, or joints above them where their parents are not scaled evenly."""
        parents, even = skeleton.parents.tolist(), np.ones(skeleton.n_joints, dtype=bool)
        for local in samples:
            even &= _are_similarities(skeleton.world(*local)[:, :, :3, :3])
        anchors: list[int] = []
        for joint, parent in enumerate(parents):
            anchors.append(joint if parent < 0 or even[parent] else anchors[parent])
        found = {anchors[top] for top in tops}
        below: list[bool] = []
        for parent in parents:
            below.append(parent >= 0 and (parent in found or below[parent]))
        return sorted(joint for joint in found if not below[joint])

    def _undo(
        self,
        joint: int,
        roots: Floats,
        rotation: Floats,
        world: Floats,
        moves: Floats,
        turns: Floats,
    ) -> None:
        """Replace L by P⁻¹ G⁻¹ P L, with G the root and P the world transform of the parent.

        Below a carrier, which goes to its rest P₀, by P₀⁻¹ G⁻¹ P L.
        """
        parent = int(self.skeleton.parents[joint])
        back, shift = inverse(rotation), roots[:, :3, 3]
        if parent < 0:
            moves[:, joint] = rotate(back, moves[:, joint] - shift)
            turns[:, joint] = multiply(back, turns[:, joint])
            return
        linear, place = world[:, parent, :3, :3], world[:, parent, :3, 3]
        frame = from_matrix(linear / np.cbrt(np.linalg.det(linear))[:, None, None])
        there = np.einsum("tij,tj->ti", linear, moves[:, joint]) + place
        calm = frame
        if parent in self.carriers:
            rest = self.skeleton.rest_world()[parent]
            linear, place = rest[None, :3, :3], rest[:3, 3]
            calm = from_matrix(rest[:3, :3] / np.cbrt(np.linalg.det(rest[:3, :3])))
        shifted = (rotate(back, there - shift) - place)[:, :, None]
        moves[:, joint] = np.linalg.solve(linear, shifted)[:, :, 0]
        spun = multiply(multiply(inverse(calm), back), frame)
        turns[:, joint] = multiply(spun, turns[:, joint])


def _are_similarities(linear: Floats) -> NDArray[np.bool_]:
    """Return which joints, (J,), turn and scale evenly at all times of (t, J, 3, 3)."""
    gram = np.einsum("tjki,tjkl->tjil", linear, linear)
    size = np.trace(gram, axis1=2, axis2=3) / 3
    off = np.abs(gram - size[:, :, None, None] * np.eye(3)).max(axis=(2, 3))
    return ((off <= 1e-6 * size) & (np.linalg.det(linear) > 0)).all(axis=0)
