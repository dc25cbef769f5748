"""Root motion: the rigid motion of a character, separated from its joints."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats
from supple.checks import checked_array, numbers
from supple.errors import SuppleError
from supple.maths.rotations import from_matrix, inverse, multiply, rotate, to_matrix
from supple.rig.skeleton.joints import Skeleton


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
        raise SuppleError(
            f"joint {joint} does not exist; there are transforms of {shape[1]} joints"
        )
    followed, followed_rest = (
        (transforms, rest_transforms)
        if len(shape) == 3
        else (transforms[:, joint], rest_transforms[joint])
    )
    rotations = (
        _nearest_rotations(followed[:, :3, :3]) @ _nearest_rotations(followed_rest[:3, :3]).T
    )
    mirrored = np.linalg.det(rotations) < 0
    if mirrored.any():
        raise SuppleError(f"frame {int(np.argmax(mirrored))} is mirrored: it has no rigid root")
    roots = _rigid(rotations, followed[:, :3, 3] - rotations @ followed_rest[:3, 3])
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
        Local transforms over time; by default those of the rest pose.
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
    local_translations, local_rotations, local_scales = _local_arrays(
        skeleton, translations, rotations, scales
    )
    roots = _joint_roots(
        skeleton, local_translations, local_rotations, local_scales, skeleton.joint(joint)
    )
    shape = (len(roots), skeleton.n_joints)
    new_translations = np.broadcast_to(local_translations, (*shape, 3)).copy()
    new_rotations = np.broadcast_to(local_rotations, (*shape, 4)).copy()
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
) -> list[Floats]:
    pairs = [
        (translations, skeleton.translations),
        (rotations, skeleton.rotations),
        (scales, skeleton.scales),
    ]
    arrays = [numbers("joint transforms", rest if a is None else a) for a, rest in pairs]
    for array, (_, rest) in zip(arrays, pairs, strict=True):
        if array.shape[-2:] != rest.shape or array.ndim > 3:
            expected_shape = ("t", *rest.shape)
            raise SuppleError(f"joint transforms of shape {array.shape}; expected {expected_shape}")
    if max(array.ndim for array in arrays) != 3:
        raise SuppleError("root motion needs transforms over time: give (t, J, …) arrays")
    if not all(np.isfinite(array).all() for array in arrays):
        raise SuppleError("joint transforms to split are not all finite")
    is_zero = ~arrays[1].any(axis=-1)
    if is_zero.any():
        name = skeleton.names[int(np.argwhere(is_zero)[0][-1])]
        raise SuppleError(f'joint "{name}": a rotation is a zero quaternion')
    return arrays


def _joint_roots(
    skeleton: Skeleton, translations: Floats, rotations: Floats, scales: Floats, joint: int
) -> Floats:
    """Return the rigid motion (t, 4, 4) of one joint relative to its rest."""
    chain = [joint]
    while (parent := int(skeleton.parents[chain[-1]])) >= 0:
        chain.append(parent)
    chain.reverse()
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
    """Return orthogonal polar factors; those of mirrored transforms are mirrored."""
    left, sizes, right = np.linalg.svd(matrices)
    if not (sizes[..., -1] > 1e-9 * sizes[..., 0]).all() or not (sizes[..., 0] > 0).all():
        raise SuppleError("a joint of zero scale has no rotation; use split_root instead")
    return left @ right
