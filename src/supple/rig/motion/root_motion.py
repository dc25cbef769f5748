"""Root motion: the rigid way of a character through the world, taken out of its joints."""

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
    """Split world transforms into rigid root transforms and what remains.

    Parameters
    ----------
    world : (t, 4, 4) or (t, J, 4, 4) array
        The animated transforms of one joint or of all.
    rest : (4, 4) or (J, 4, 4) array, optional
        The same at rest; the identity when not given. There the root is the identity.
    joint : int
        The joint whose motion is the root's, when all are given.

    Returns
    -------
    roots : (t, 4, 4) array
        Rigid; the chosen joint's rotation and place relative to rest.
    remainder : array shaped as `world`
        ``world = roots @ remainder``. Scale stays here.
    """
    shape = numbers("joint transforms", world).shape
    if len(shape) not in (3, 4) or shape[-2:] != (4, 4) or 0 in shape:
        raise SuppleError(f"joint transforms of shape {shape}; expected (t, 4, 4) or (t, J, 4, 4)")
    moved = checked_array("joint transforms", world, shape)
    calm = np.broadcast_to(np.eye(4), shape[1:]) if rest is None else rest
    calm = checked_array("rest transforms", calm, shape[1:])
    if len(shape) == 4 and not 0 <= joint < shape[1]:
        raise SuppleError(f"joint {joint} does not exist; transforms of {shape[1]} are given")
    chosen, start = (moved, calm) if len(shape) == 3 else (moved[:, joint], calm[joint])
    turns = _nearest_rotations(chosen[:, :3, :3]) @ _nearest_rotations(start[:3, :3]).T
    mirrored = np.linalg.det(turns) < 0
    if mirrored.any():
        raise SuppleError(f"frame {int(np.argmax(mirrored))} is mirrored: no rigid root moves so")
    roots = _rigid(turns, chosen[:, :3, 3] - turns @ start[:3, 3])
    undo = np.linalg.inv(roots)
    return roots, (undo if len(shape) == 3 else undo[:, None]) @ moved


def split_root(
    skeleton: Skeleton,
    translations: ArrayLike | None = None,
    rotations: ArrayLike | None = None,
    scales: ArrayLike | None = None,
    joint: str | int = 0,
) -> tuple[Floats, Floats, Floats]:
    """Take the motion of one joint out of a skeleton's animation.

    Parameters
    ----------
    skeleton : Skeleton
        Whose joints are animated.
    translations, rotations, scales : (t, J, 3), (t, J, 4), (t, J, 3) arrays, optional
        Local transforms over time; what is left out is as in the rest pose.
    joint : str or int
        Usually the hips or the topmost joint.

    Returns
    -------
    roots : (t, 4, 4) array
        Rigid; the identity when the joint is where it rests.
    translations, rotations : (t, J, 3), (t, J, 4) arrays
        Local transforms without the root's; only joints without a parent have changed, and
        the chosen joint now keeps its rest place. Scales are as they were.
    """
    moves, turns, sizes = _local_arrays(skeleton, translations, rotations, scales)
    roots = _joint_roots(skeleton, moves, turns, sizes, skeleton.joint(joint))
    shape = (len(roots), skeleton.n_joints)
    moved = np.broadcast_to(moves, (*shape, 3)).copy()
    spun = np.broadcast_to(turns, (*shape, 4)).copy()
    rotation = roots[:, :3, :3]
    back = inverse(from_matrix(rotation))[:, None]
    tops = np.flatnonzero(skeleton.parents < 0)
    moved[:, tops] = rotate(back, moved[:, tops] - roots[:, None, :3, 3])
    spun[:, tops] = multiply(back, spun[:, tops])
    return roots, moved, spun


def _local_arrays(
    skeleton: Skeleton,
    translations: ArrayLike | None,
    rotations: ArrayLike | None,
    scales: ArrayLike | None,
) -> list[Floats]:
    given = [
        (translations, skeleton.translations),
        (rotations, skeleton.rotations),
        (scales, skeleton.scales),
    ]
    arrays = [numbers("joint transforms", rest if a is None else a) for a, rest in given]
    for array, (_, rest) in zip(arrays, given, strict=True):
        if array.shape[-2:] != rest.shape or array.ndim > 3:
            wanted = ("t", *rest.shape)
            raise SuppleError(f"joint transforms of shape {array.shape}; expected {wanted}")
    if max(array.ndim for array in arrays) != 3:
        raise SuppleError("root motion is split from transforms over time: give (t, J, …) arrays")
    if not all(np.isfinite(array).all() for array in arrays):
        raise SuppleError("joint transforms to split are not all finite")
    still = ~arrays[1].any(axis=-1)
    if still.any():
        name = skeleton.names[int(np.argwhere(still)[0][-1])]
        raise SuppleError(f'joint "{name}": a rotation is a zero quaternion')
    return arrays


def _joint_roots(
    skeleton: Skeleton, moves: Floats, turns: Floats, sizes: Floats, joint: int
) -> Floats:
    """Return the rigid motion of one joint relative to its rest."""
    chain = [joint]
    while (parent := int(skeleton.parents[chain[-1]])) >= 0:
        chain.append(parent)
    chain.reverse()
    # Only the joints above it matter: a long motion's matrices of all would take gigabytes.
    above = Skeleton(
        [skeleton.names[j] for j in chain],
        np.arange(-1, len(chain) - 1),
        skeleton.translations[chain],
        skeleton.rotations[chain],
        skeleton.scales[chain],
    )
    moves, turns, sizes = (a[..., chain, :] for a in (moves, turns, sizes))
    places = above.world(moves, turns, sizes)[:, -1, :3, 3]
    # Without scales, rotations stay rotations: no shear, and none lost where a scale is zero.
    ones = np.ones((len(places), len(chain), 3))
    turned = above.world(moves, turns, ones)[:, -1, :3, :3]
    rotation = turned @ above.world(scales=ones[0])[-1, :3, :3].T
    return _rigid(rotation, places - rotation @ above.rest_world()[-1, :3, 3])


def _rigid(rotations: Floats, translations: Floats) -> Floats:
    # Through quaternions, so that rounding leaves them orthonormal.
    roots = np.zeros((len(rotations), 4, 4))
    roots[:, :3, :3] = to_matrix(from_matrix(rotations))
    roots[:, :3, 3] = translations
    roots[:, 3, 3] = 1
    return roots


def _nearest_rotations(matrices: Floats) -> Floats:
    """Return orthogonal polar factors; of a mirrored transform the mirrored one."""
    left, sizes, right = np.linalg.svd(matrices)
    if not (sizes[..., -1] > 1e-9 * sizes[..., 0]).all() or not (sizes[..., 0] > 0).all():
        raise SuppleError("a joint scaled to nothing has no rotation; use split_root instead")
    return left @ right
