"""Root motion: the rigid motion of a character, separated from its joints.

`RootPolicy` and `pose_of_motions` are the policy of characters read from files. Readers of glTF and
of USD share it, so that a character has the same parameters and motions in either format:

1. Joints are the nodes that skins list, animated nodes above them or above meshes without a skin,
   parents of such meshes below a joint, and a joint "world" for meshes that do not move. Other
   nodes (armatures, changes of axes) are not joints: readers multiply their transforms into the
   transforms of joints below them.
2. The root is the rigid motion of the topmost joint that moves in any clip (`RootPolicy`).
3. A pose has a rotation for every joint, and a translation and a scale for joints whose values
   leave the rest in any clip after the root motion is removed (`pose_of_motions`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.arrays import Floats, Ints
from supple.checks import checked_array, numbers
from supple.errors import SuppleError
from supple.maths.rotations import from_matrix, inverse, logarithm, multiply, rotate, to_matrix
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
#: Angle, in radians, above which the rotation of a joint above all flesh is root motion.
FAR = 2.5


def extract_root(
    world: ArrayLike, rest: ArrayLike | None = None, joint: int = 0
) -> tuple[Floats, Floats]:
    """Split world transforms into rigid root transforms and the remainder.

    Parameters
    ----------
    world : (t, 4, 4) or (t, J, 4, 4) array
        Animated transforms of one joint or of all joints.
    rest : (4, 4) or (J, 4, 4) array, optional
        Transforms at rest, where the root is the identity; by default the identity.
    joint : int
        Joint whose motion is the root's, if `world` has all joints.

    Returns
    -------
    roots : (t, 4, 4) array
        Rigid: rotation and position of the chosen joint relative to rest.
    remainder : array shaped as `world`
        ``world = roots @ remainder``; it contains the scale.
    """
    shape = numbers("joint transforms", world).shape
    if len(shape) not in (3, 4) or shape[-2:] != (4, 4) or 0 in shape:
        raise SuppleError(f"joint transforms of shape {shape}; expected (t, 4, 4) or (t, J, 4, 4)")
    transforms = checked_array("joint transforms", world, shape)
    rest_transforms = np.broadcast_to(np.eye(4), shape[1:]) if rest is None else rest
    rest_transforms = checked_array("rest transforms", rest_transforms, shape[1:])
    if len(shape) == 4 and not 0 <= joint < shape[1]:
        raise SuppleError(f"joint {joint} does not exist; there are {shape[1]} joints")
    followed, at_rest = transforms, rest_transforms
    if len(shape) == 4:
        followed, at_rest = transforms[:, joint], rest_transforms[joint]
    rotations = _nearest_rotations(followed[:, :3, :3]) @ _nearest_rotations(at_rest[:3, :3]).T
    mirrored = np.linalg.det(rotations) < 0
    if mirrored.any():
        raise SuppleError(f"frame {int(np.argmax(mirrored))} is mirrored: it has no rigid root")
    roots = _rigid(rotations, followed[:, :3, 3] - rotations @ at_rest[:3, 3])
    inverse_roots = np.linalg.inv(roots)
    return roots, (inverse_roots if len(shape) == 3 else inverse_roots[:, None]) @ transforms


def split_root(
    skeleton: Skeleton,
    translations: ArrayLike | None = None,
    rotations: ArrayLike | None = None,
    scales: ArrayLike | None = None,
    joint: str | int = 0,
) -> tuple[Floats, Floats, Floats]:
    """Separate the motion of one joint from a skeleton's animation.

    Parameters
    ----------
    skeleton : Skeleton
        Animated skeleton.
    translations, rotations, scales : (t, J, 3), (t, J, 4), (t, J, 3) arrays, optional
        Local transforms over time; by default the rest pose's.
    joint : str or int
        Usually the hips or the topmost joint.

    Returns
    -------
    roots : (t, 4, 4) array
        Rigid; the identity where the joint is at rest.
    translations, rotations : (t, J, 3), (t, J, 4) arrays
        Local transforms without the root motion. Only joints without a parent change, and
        the chosen joint stays at its rest position. Scales do not change.
    """
    local = _local_arrays(skeleton, translations, rotations, scales)
    roots = _joint_roots(skeleton, *local, skeleton.joint(joint))
    shape = (len(roots), skeleton.n_joints)
    new_translations = np.broadcast_to(local[0], (*shape, 3)).copy()
    new_rotations = np.broadcast_to(local[1], (*shape, 4)).copy()
    rotation = roots[:, :3, :3]
    inverse_rotation = inverse(from_matrix(rotation))[:, None]
    topmost = np.flatnonzero(skeleton.parents < 0)
    new_translations[:, topmost] = rotate(
        inverse_rotation, new_translations[:, topmost] - roots[:, None, :3, 3]
    )
    new_rotations[:, topmost] = multiply(inverse_rotation, new_rotations[:, topmost])
    return roots, new_translations, new_rotations


def _local_arrays(
    skeleton: Skeleton,
    translations: ArrayLike | None,
    rotations: ArrayLike | None,
    scales: ArrayLike | None,
) -> Locals:
    pairs = [
        (translations, skeleton.translations),
        (rotations, skeleton.rotations),
        (scales, skeleton.scales),
    ]
    arrays = [numbers("joint transforms", rest if a is None else a) for a, rest in pairs]
    for array, (_, rest) in zip(arrays, pairs, strict=True):
        if array.shape[-2:] != rest.shape or array.ndim > 3:
            expected = ("t", *rest.shape)
            raise SuppleError(f"joint transforms of shape {array.shape}; expected {expected}")
    if max(array.ndim for array in arrays) != 3:
        raise SuppleError("root motion needs transforms over time: give (t, J, …) arrays")
    if not all(np.isfinite(array).all() for array in arrays):
        raise SuppleError("joint transforms to split are not all finite")
    is_zero = ~arrays[1].any(axis=-1)
    if is_zero.any():
        name = skeleton.names[int(np.argwhere(is_zero)[0][-1])]
        raise SuppleError(f'joint "{name}": a rotation is a zero quaternion')
    t, r, s = arrays
    return t, r, s


def _joint_roots(
    skeleton: Skeleton, translations: Floats, rotations: Floats, scales: Floats, joint: int
) -> Floats:
    """Return the rigid motion (t, 4, 4) of one joint relative to its rest."""
    chain = [*skeleton.ancestors(joint)[::-1], joint]
    # Only its ancestors: matrices of all joints of a long motion would take gigabytes.
    chain_skeleton = Skeleton(
        [skeleton.names[j] for j in chain],
        np.arange(-1, len(chain) - 1),
        skeleton.translations[chain],
        skeleton.rotations[chain],
        skeleton.scales[chain],
    )
    translations, rotations, scales = (a[..., chain, :] for a in (translations, rotations, scales))
    positions = chain_skeleton.world(translations, rotations, scales)[:, -1, :3, 3]
    # Scales are left out: they would shear rotations, and a zero scale would lose them.
    ones = np.ones((len(positions), len(chain), 3))
    unscaled = chain_skeleton.world(translations, rotations, ones)[:, -1, :3, :3]
    rotation = unscaled @ chain_skeleton.world(scales=ones[0])[-1, :3, :3].T
    return _rigid(rotation, positions - rotation @ chain_skeleton.rest_world()[-1, :3, 3])


def _rigid(rotations: Floats, translations: Floats) -> Floats:
    # Conversion to quaternions and back makes them orthonormal up to rounding.
    roots = np.zeros((len(rotations), 4, 4))
    roots[:, :3, :3] = to_matrix(from_matrix(rotations))
    roots[:, :3, 3] = translations
    roots[:, 3, 3] = 1
    return roots


def _nearest_rotations(matrices: Floats) -> Floats:
    """Return orthogonal polar factors; mirrored transforms have mirrored factors."""
    left, sizes, right = np.linalg.svd(matrices)
    if not (sizes[..., -1] > 1e-9 * sizes[..., 0]).all() or not (sizes[..., 0] > 0).all():
        raise SuppleError("a joint of zero scale has no rotation; use split_root instead")
    return left @ right


def varying_joints(skeleton: Skeleton, samples: Sequence[Locals], size: float) -> NDArray[np.bool_]:
    """Return which joints (J,) change their position or rotation during any clip."""
    varies = np.zeros(skeleton.n_joints, dtype=bool)
    scale, noise = _scale_above(skeleton), STILL * max(size, 1e-9)
    for translations, rotations, _ in samples:
        # Quaternions q and -q are the same rotation.
        flipped = np.sum(rotations * rotations[:1], axis=-1, keepdims=True) < 0
        aligned = np.where(flipped, -rotations, rotations)
        varies |= np.ptp(translations, axis=0).max(axis=1) * scale > noise
        varies |= np.ptp(aligned, axis=0).max(axis=1) > STILL
    return varies


def pose_of_motions(skeleton: Skeleton, samples: Sequence[Locals], size: float) -> JointPose:
    """Return a pose with translations and scales of joints that leave their rest in any clip."""
    translating, scaled = np.zeros((2, skeleton.n_joints), dtype=bool)
    scale, noise = _scale_above(skeleton), STILL * max(size, 1e-9)
    scale_noise = STILL_SCALE * np.abs(skeleton.scales).max(axis=1)
    for translations, _, scales in samples:
        deviation = np.abs(translations - skeleton.translations).max(axis=(0, 2), initial=0)
        translating |= deviation * scale > noise
        scaled |= np.abs(scales - skeleton.scales).max(axis=(0, 2), initial=0) > scale_noise
    return JointPose(skeleton, np.flatnonzero(translating), np.flatnonzero(scaled))


def _scale_above(skeleton: Skeleton) -> Floats:
    """Return the scale (J,) from each joint's local translation to the world, at rest."""
    scale = np.abs(skeleton.rest_world()[:, :3, :3]).max(axis=(1, 2), initial=0)
    return np.where(skeleton.parents >= 0, scale[skeleton.parents], 1.0)


class RootPolicy:
    """Joint that the root follows, and joints at which its motion is removed.

    The root follows the topmost joint that moves in any clip; of several, the one that carries most
    of the surface. A character with large still parts (a tail wagging on a plinth) has no root
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

        `weight` (J,) is the amount of surface that follows each joint, and `size` is the size of
        the character in metres.
        """
        parents, varies = skeleton.parents, varying_joints(skeleton, samples, size)
        load = weight.copy()
        above_moving = np.zeros(skeleton.n_joints, dtype=bool)
        for joint in range(skeleton.n_joints - 1, -1, -1):
            if parents[joint] >= 0:
                load[parents[joint]] += load[joint]
                above_moving[parents[joint]] |= above_moving[joint] | varies[joint]
        below_moving = skeleton.below(varies)
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
            ancestors = {*carriers.tolist(), *skeleton.ancestors(leader)}
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
            vectors = (
                logarithm(multiply(rest, rotations[:, joint])) for _, rotations, _ in samples
            )
            if max(np.linalg.norm(clip, axis=1).max(initial=0) for clip in vectors) > FAR:
                lowest = joint
        return lowest

    @staticmethod
    def _leader(
        topmost_moving: NDArray[np.bool_], load: Floats, weight: Floats, still: NDArray[np.bool_]
    ) -> int:
        """Return the joint that the root follows; -1 if too little of the surface follows it."""
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
        is_top = np.zeros(skeleton.n_joints, dtype=bool)
        is_top[[anchors[top] for top in tops]] = True
        return np.flatnonzero(is_top & ~skeleton.below(is_top)).tolist()

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
