"""Choice of the root joint and of the pose parameters of a character read from a file.

Readers of glTF and of USD use the same policy, so that a character has the same parameters and
motions in either format:

1. Joints are the nodes that skins list, animated nodes above them or above meshes without a skin,
   parents of such meshes below a joint, and a joint "world" for meshes that do not move. Other
   nodes (armatures, changes of axes) are not joints: readers multiply their transforms into those
   of the joints below them.
2. The root is the rigid motion of the topmost joint that moves in any clip (`RootPolicy`).
3. A pose has a rotation for every joint, and a translation and a scale for joints whose values
   leave the rest in any clip after the root motion is removed (`pose_of_motions`).
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
#: Name of the joint of meshes that do not move.
WORLD = "world"
#: Largest noise of float32 keys, relative to the character's size or to a unit quaternion, and
#: of scales, which files may store in half precision or as products.
STILL, STILL_SCALE = 1e-6, 1e-5
#: There is no root motion if more than the first fraction of the surface never moves, or less than
#: the second follows the topmost moving joint.
MOST_ANCHORED, LEAST_LED = 0.1, 0.5
#: Rotation, in radians, beyond which that of a joint above all flesh is root motion.
FAR = 2.5


def varying_joints(skeleton: Skeleton, samples: Sequence[Locals], size: float) -> NDArray[np.bool_]:
    """Return which joints (J,) change their position or rotation during any clip."""
    varies = np.zeros(skeleton.n_joints, dtype=bool)
    stretch, noise = _stretch_above(skeleton), STILL * max(size, 1e-9)
    for translations, rotations, _ in samples:
        # Quaternions q and -q are the same rotation.
        aligned = np.where(
            np.sum(rotations * rotations[:1], axis=-1, keepdims=True) < 0, -rotations, rotations
        )
        varies |= np.ptp(translations, axis=0).max(axis=1) * stretch > noise
        varies |= np.ptp(aligned, axis=0).max(axis=1) > STILL
    return varies


def pose_of_motions(skeleton: Skeleton, samples: Sequence[Locals], size: float) -> JointPose:
    """Return a pose with translations and scales of joints that leave their rest in any clip."""
    translating, scaled = np.zeros((2, skeleton.n_joints), dtype=bool)
    stretch, noise = _stretch_above(skeleton), STILL * max(size, 1e-9)
    scale_noise = STILL_SCALE * np.abs(skeleton.scales).max(axis=1)
    for translations, _, scales in samples:
        deviation = np.abs(translations - skeleton.translations).max(axis=(0, 2), initial=0)
        translating |= deviation * stretch > noise
        scaled |= np.abs(scales - skeleton.scales).max(axis=(0, 2), initial=0) > scale_noise
    return JointPose(skeleton, np.flatnonzero(translating), np.flatnonzero(scaled))


def _stretch_above(skeleton: Skeleton) -> Floats:
    """Return the scale (J,) from each joint's local translation to the world, at rest."""
    stretch = np.abs(skeleton.rest_world()[:, :3, :3]).max(axis=(1, 2), initial=0)
    return np.where(skeleton.parents >= 0, stretch[skeleton.parents], 1.0)


class RootPolicy:
    """Joint that the root follows, and joints at which its motion is removed.

    The root follows the topmost joint that moves in any clip; of several, the one that carries most
    of the surface. A character of which much never moves (a tail wagging on a plinth) has no root
    motion. The motion is removed at `tops`: each joint with weight has exactly one of them at or
    above it. They are as low as possible, so that the followed joint is at rest and no joint above
    it is rotated back instead.

    `joint` is -1 for no root motion. `carriers` are joints above `joint` whose motion is part of
    the root's; in a pose they are at rest.
    """

    def __init__(self, skeleton: Skeleton, joint: int, tops: Ints, carriers: Ints) -> None:
        self.skeleton, self.joint, self.tops, self.carriers = skeleton, joint, tops, carriers

    @classmethod
    def chosen(
        cls, skeleton: Skeleton, samples: Sequence[Locals], weight: Floats, size: float
    ) -> RootPolicy:
        """Choose the joints from the local transforms of each clip at its keys.

        `weight` (J,) is the amount of surface that follows each joint, `size` the character's in
        metres.
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
        topmost_moving = varies & ~below_moving
        leader = cls._leader(topmost_moving, load, weight, ~(varies | below_moving))
        # Joints above a topmost moving joint do not change, unless vertices follow them.
        free = above_moving & ~varies & ~below_moving & (weight == 0)
        tops = [
            joint
            for joint, parent in enumerate(parents.tolist())
            if not free[joint] and (parent < 0 or free[parent])
        ]
        followed = cls._turning_joint(skeleton, leader, samples, load)
        carriers = np.empty(0, np.int64)
        if followed != leader:
            carriers = skeleton.path(leader, followed)[:-1]
            ancestors, joint = set(carriers.tolist()), leader
            while (joint := int(parents[joint])) >= 0:
                ancestors.add(joint)
            tops = [*(joint for joint in tops if joint not in ancestors), followed]
        tops = cls._tops_in_rigid_space(skeleton, tops, samples) if followed >= 0 else tops
        kept = set(tops)
        if followed != leader and followed not in kept:  # the scale of its parents is not uniform
            return cls(skeleton, leader, np.array(sorted(kept)), np.empty(0, np.int64))
        return cls(skeleton, followed, np.array(tops, dtype=np.int64), carriers)

    @staticmethod
    def _turning_joint(
        skeleton: Skeleton, leader: int, samples: Sequence[Locals], load: Floats
    ) -> int:
        """Return the lowest joint below the leader that rotates the whole character by over `FAR`.

        A full turn of the hips below a root joint is root motion. Otherwise return the leader.
        """
        lowest, joint = leader, leader
        while joint >= 0:
            children = np.flatnonzero(skeleton.parents == joint)
            joint = int(children[np.argmax(load[children])]) if len(children) else -1
            if joint < 0 or load[joint] < load[leader]:
                break
            rest = inverse(skeleton.rotations[joint])
            rotation_vectors = (
                logarithm(multiply(rest, rotations[:, joint])) for _, rotations, _ in samples
            )
            if (
                max(np.linalg.norm(vectors, axis=1).max(initial=0) for vectors in rotation_vectors)
                > FAR
            ):
                lowest = joint
        return lowest

    @staticmethod
    def _leader(
        topmost_moving: NDArray[np.bool_], load: Floats, weight: Floats, still: NDArray[np.bool_]
    ) -> int:
        """Return the joint that the root follows, or -1 if too much of the surface does not."""
        if not topmost_moving.any():
            return -1
        leader = int(np.argmax(np.where(topmost_moving, load, -1)))
        total = weight.sum()
        anchored = weight[still].sum() > MOST_ANCHORED * total
        return -1 if anchored or load[leader] < LEAST_LED * total else leader

    def split(self, local: Locals) -> tuple[Locals, Floats]:
        """Return local transforms without the root's motion, and the root, (t, 4, 4)."""
        translations, rotations, scales = local
        count = len(translations)
        roots = np.repeat(np.eye(4)[None], count, axis=0)
        if self.joint < 0:
            return local, roots
        world = self.skeleton.world(translations, rotations, scales)
        ones = np.ones_like(scales)
        # Scales are left out: they would shear rotations, and a zero scale would lose them.
        unscaled = self.skeleton.world(translations, rotations, ones)[:, self.joint, :3, :3]
        rest_values = self.skeleton.world(scales=ones[0])[self.joint, :3, :3]
        rotation = from_matrix(unscaled @ rest_values.T)
        roots[:, :3, :3] = to_matrix(rotation)
        rest = self.skeleton.rest_world()[self.joint, :3, 3]
        roots[:, :3, 3] = world[:, self.joint, :3, 3] - rotate(rotation, rest)
        translations, rotations, scales = translations.copy(), rotations.copy(), scales.copy()
        for joint in self.tops.tolist():
            self._undo(joint, roots, rotation, world, translations, rotations)
        skeleton = self.skeleton
        for values, rest_values in zip(
            (translations, rotations, scales),
            (skeleton.translations, skeleton.rotations, skeleton.scales),
            strict=True,
        ):
            values[:, self.carriers] = rest_values[self.carriers]
        return (translations, rotations, scales), roots

    @staticmethod
    def _tops_in_rigid_space(
        skeleton: Skeleton, tops: list[int], samples: Sequence[Locals]
    ) -> list[int]:
        """Return `tops`, replaced by ancestors where the parent's scale is not uniform."""
        parents, uniform = skeleton.parents.tolist(), np.ones(skeleton.n_joints, dtype=bool)
        for local in samples:
            uniform &= _are_similarities(skeleton.world(*local)[:, :, :3, :3])
        anchors: list[int] = []
        for joint, parent in enumerate(parents):
            anchors.append(joint if parent < 0 or uniform[parent] else anchors[parent])
        moved_tops = {anchors[top] for top in tops}
        below: list[bool] = []
        for parent in parents:
            below.append(parent >= 0 and (parent in moved_tops or below[parent]))
        return sorted(joint for joint in moved_tops if not below[joint])

    def _undo(
        self,
        joint: int,
        roots: Floats,
        rotation: Floats,
        world: Floats,
        translations: Floats,
        rotations: Floats,
    ) -> None:
        """Replace L by P⁻¹ G⁻¹ P L, with G the root and P the world transform of the parent.

        If the parent is a carrier, whose rest is P₀, replace L by P₀⁻¹ G⁻¹ P L.
        """
        parent = int(self.skeleton.parents[joint])
        inverse_rotation, shift = inverse(rotation), roots[:, :3, 3]
        if parent < 0:
            translations[:, joint] = rotate(inverse_rotation, translations[:, joint] - shift)
            rotations[:, joint] = multiply(inverse_rotation, rotations[:, joint])
            return
        linear, position = world[:, parent, :3, :3], world[:, parent, :3, 3]
        frame = from_matrix(linear / np.cbrt(np.linalg.det(linear))[:, None, None])
        world_position = np.einsum("tij,tj->ti", linear, translations[:, joint]) + position
        new_frame = frame
        if parent in self.carriers:
            rest = self.skeleton.rest_world()[parent]
            linear, position = rest[None, :3, :3], rest[:3, 3]
            new_frame = from_matrix(rest[:3, :3] / np.cbrt(np.linalg.det(rest[:3, :3])))
        shifted = (rotate(inverse_rotation, world_position - shift) - position)[:, :, None]
        translations[:, joint] = np.linalg.solve(linear, shifted)[:, :, 0]
        correction = multiply(multiply(inverse(new_frame), inverse_rotation), frame)
        rotations[:, joint] = multiply(correction, rotations[:, joint])


def _are_similarities(linear: Floats) -> NDArray[np.bool_]:
    """Return which joints (J,) have a uniform scale and no shear at all times of (t, J, 3, 3)."""
    gram = np.einsum("tjki,tjkl->tjil", linear, linear)
    size = np.trace(gram, axis1=2, axis2=3) / 3
    deviation = np.abs(gram - size[:, :, None, None] * np.eye(3)).max(axis=(2, 3))
    return ((deviation <= 1e-6 * size) & (np.linalg.det(linear) > 0)).all(axis=0)
