"""Selection of the poses at which a character is reduced: as numbers, frames, or automatic."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.checks import checked_array, checked_whole_numbers, numbers
from supple.errors import SuppleError, warn
from supple.mesh.topology import counted
from supple.rig.character import Character
from supple.rig.motion.motion_names import matching_names, one_name
from supple.rig.poses.example_poses import farthest_poses
from supple.rig.protocol import Rig, checked_pose

FrameReference = str | tuple[str, int]
Poses = int | str | ArrayLike | Mapping[str, ArrayLike] | Sequence[FrameReference]

#: Number of poses with which ``"auto"`` begins, the neutral one included.
AUTO_POSES = 4
#: Default names of the neutral pose; the second is used if a pose has the first.
NEUTRAL, REST = "neutral", "rest pose"
#: Sampled frames per second of motion.
RATE = 12.0
#: Largest distance of equal shapes, as a fraction of the body's size.
SAME = 1e-6
#: End of the message about frames of a character without motions.
_NO_MOTIONS = "it has none: give poses as numbers"
#: Number of vertices that are compared first; all vertices are compared where these agree.
_VERTICES = 200


def resolve_poses(character: Character, poses: Poses) -> tuple[Floats, tuple[str, ...]]:
    """Return the poses (m, s) to reduce a character at, the neutral one first, and their names.

    Parameters
    ----------
    character
        Character with a rig and motions.
    poses
        - a number: number of poses, the neutral one and others from the motions that are far from
          it and from each other (`supple.rig.farthest_poses`);
        - ``"auto"``: `AUTO_POSES`;
        - (m, s) numbers, or a mapping from names to (s,) numbers;
        - frames of motions: ``"Run:12"`` or ``("Run", 12)``; `Character.motion` documents names.

        The neutral pose becomes the first, and is added if it is missing.

    Raises
    ------
    SuppleError
        If two poses give the same shape, or a pose or frame does not exist.

    Warns
    -----
    SuppleWarning
        If the motions have fewer different poses than requested.
    """
    if isinstance(poses, str) and poses == "auto":
        return _chosen_poses(character, AUTO_POSES)
    if isinstance(poses, Integral) and not isinstance(poses, bool):
        chosen = _chosen_poses(character, int(poses))
        if len(chosen[0]) < poses:
            warn(
                f"{character.name}: {poses} poses requested, but the motions have "
                f"{counted(len(chosen[0]), 'pose')} that differ, the neutral one included; "
                "building with these poses"
            )
        return chosen
    rows, names = _explicit_poses(character, poses)
    return _neutral_first(character.rig, rows, names)


def poses_from_frames(
    character: Character, frames: Iterable[FrameReference]
) -> tuple[Floats, tuple[str, ...]]:
    """Return poses (k, s) at frames of the character's motions, and names such as ``"Run:12"``.

    Parameters
    ----------
    character
        Character with the motions.
    frames
        ``"Run:12"`` or ``("Run", 12)``: a motion and one of its keys, counted from 0.
    """
    if isinstance(frames, str):
        frames = [frames]
    references = [_frame(character, reference) for reference in frames]
    names = tuple(f"{motion}:{frame}" for motion, frame in references)
    rows = [motion_poses(character, motion)[frame] for motion, frame in references]
    return np.array(rows).reshape(len(rows), len(character.rig.parameters)), names


def mid_poses(poses: ArrayLike, parents: Sequence[int]) -> tuple[Ints, Floats]:
    """Return poses halfway along the edges of a tree of poses.

    Parameters
    ----------
    poses
        (m, s).
    parents
        (m,) parent of each pose; -1 for the root.

    Returns
    -------
    edges : (m - 1, 2) int array
        Parent and child.
    middles : (m - 1, s) array
    """
    array = np.atleast_2d(numbers("poses", poses))
    rows = checked_array("poses", array, array.shape)
    tree = np.array(checked_whole_numbers("parents of poses", parents), np.int64)
    if tree.shape != (len(rows),):
        raise SuppleError(f"{len(tree)} parents for {len(rows)} poses; give one per pose")
    children = np.flatnonzero(tree >= 0)
    loops = tree[children] == children
    if loops.any() or (tree >= len(rows)).any() or (tree < -1).any() or (tree == -1).sum() != 1:
        raise SuppleError("parents of poses are not a tree; use indices of poses, and -1 once")
    walk = tree
    for _ in range(len(rows)):  # up to the root, unless there is a cycle
        walk = np.where(walk >= 0, tree[walk], -1)
    if (walk >= 0).any():
        raise SuppleError("parents of poses are not a tree; they have a cycle")
    edges = np.stack([tree[children], children], axis=1)
    return edges, 0.5 * (rows[edges[:, 0]] + rows[edges[:, 1]])


def _chosen_poses(character: Character, count: int) -> tuple[Floats, tuple[str, ...]]:
    """Return up to `count` poses, the neutral one and others from the motions, and their names."""
    if count < 1:
        raise SuppleError(f"{count} poses; at least 1 is needed, the neutral one")
    rig, blocks, names = character.rig, [np.empty((0, len(character.rig.parameters)))], []
    for name, motion in character.motions.items():
        keys = _sampled_keys(motion.n_frames, motion.duration)
        blocks.append(motion_poses(character, name)[keys])
        names += [f"{name}:{key}" for key in keys]
    rows = np.concatenate(blocks)
    far = farthest_poses(rig, rows, count - 1) if len(rows) else np.empty(0, np.int64)
    return np.vstack([rig.rest_pose, rows[far]]), (NEUTRAL, *(names[k] for k in far))


def motion_poses(character: Character, name: str) -> Floats:
    """Return poses (t, s) of a motion, checked to fit the rig."""
    poses, count = character.motions[name].poses, len(character.rig.parameters)
    if poses.shape[1] != count:
        raise SuppleError(
            f'{character.name}: poses of motion "{name}" have {poses.shape[1]} entries, but the '
            f"rig has {counted(count, 'parameter')}; retarget it to this rig"
        )
    return poses


def _sampled_keys(n_frames: int, duration: float) -> Ints:
    """Return keys of a motion, about `RATE` per second, first and last included."""
    count = min(n_frames, max(2, round(RATE * duration)))
    return np.unique(np.linspace(0, n_frames - 1, count).round().astype(np.int64))


def _explicit_poses(character: Character, poses: Poses) -> tuple[list[Floats], tuple[str, ...]]:
    """Return explicit poses, checked, and their names."""
    if isinstance(poses, Mapping) and poses:
        names, rows = tuple(map(str, poses)), list(poses.values())
    elif _are_frames(poses):
        frames, names = poses_from_frames(character, poses)  # type: ignore[arg-type]
        rows = list(frames)
    else:
        rows = list(_pose_rows(poses, len(character.rig.parameters)))
        names = tuple(f"pose {k}" for k in range(len(rows)))
    checked = []
    for name, row in zip(names, rows, strict=True):
        try:
            checked.append(checked_pose(character.rig.parameters, row))
        except SuppleError as error:
            raise SuppleError(f'pose "{name}": {str(error).removeprefix("pose: ")}') from None
    return checked, names


def _pose_rows(poses: object, n_parameters: int) -> Floats:
    """Return explicit poses as rows of an array."""
    expected = f"a number, frames of motions, or rows of {n_parameters} numbers"
    values = () if isinstance(poses, Mapping) else poses  # an empty mapping
    array = numbers("poses", values, expected)  # type: ignore[arg-type]
    if array.ndim == 1:
        array = array[:, None] if n_parameters == 1 else array[None]
    if array.ndim != 2 or array.size == 0:
        raise SuppleError(f"poses must be {expected}; 1 is the neutral pose alone")
    return array


def _are_frames(poses: object) -> bool:
    if isinstance(poses, str):
        return True
    if not isinstance(poses, Sequence) or len(poses) == 0:
        return False
    first = poses[0][:1] if isinstance(poses[0], tuple) else poses[:1]
    return len(first) == 1 and isinstance(first[0], str)


def _frame(character: Character, reference: object) -> tuple[str, int]:
    """Return motion and key of a reference such as ``"Run:12"``."""
    match reference:
        case (motion, key):
            pass
        case str():
            parts = re.fullmatch(r"(.*):\s*(-?\d{1,18})\s*", reference, re.DOTALL)
            if parts is None:
                matches = matching_names(character.motions, reference)
                example = reference if matches else next(iter(character.motions), "Run")
                raise SuppleError(
                    f'"{reference}" is not a frame of a motion; write it like "{example}:0"'
                )
            motion, key = parts[1], int(parts[2])
        case _:
            raise SuppleError(f'{reference!r} is not a frame of a motion; write it like "Run:12"')
    motion = one_name(character.motions, motion, character.name, _NO_MOTIONS)
    (frame,) = checked_whole_numbers(f'frames of motion "{motion}"', [key])  # type: ignore[list-item]
    last = character.motions[motion].n_frames - 1
    if not 0 <= frame <= last:
        raise SuppleError(f'motion "{motion}" has no frame {frame}; its frames are 0 to {last}')
    return motion, frame


def _neutral_first(
    rig: Rig, rows: list[Floats], names: tuple[str, ...]
) -> tuple[Floats, tuple[str, ...]]:
    poses = [np.asarray(rig.rest_pose, np.float64), *rows]
    same = _same_shapes(rig, poses)
    # Row 0 is the neutral pose, which may occur once among the others.
    neutral = [other for one, other in same if one == 0]
    twice = next((list(pair) for pair in same if pair[0] > 0), neutral[:2])
    if len(twice) == 2:
        first, second = (names[k - 1] for k in twice)
        raise SuppleError(f'poses "{first}" and "{second}" give the same shape; remove one of them')
    others = [k for k in range(1, len(poses)) if k not in neutral]
    name = names[neutral[0] - 1] if neutral else NEUTRAL if NEUTRAL not in names else REST
    return np.array([poses[k] for k in (0, *others)]), (name, *(names[k - 1] for k in others))


def _same_shapes(rig: Rig, poses: Sequence[Floats]) -> list[tuple[int, int]]:
    """Return pairs of indices of poses that place all vertices equally, the lower index first."""
    some = np.unique(np.linspace(0, rig.n_vertices - 1, min(rig.n_vertices, _VERTICES)).astype(int))
    shapes = np.array([rig(pose, some) for pose in poses])
    tolerance = SAME * max(float(np.ptp(rig(rig.rest_pose), axis=0).max()), np.finfo(float).tiny)
    pairs = []
    for one, shape in enumerate(shapes):
        gaps = np.abs(shapes[one + 1 :] - shape).max(axis=(1, 2), initial=0.0)
        for near in np.flatnonzero(gaps <= tolerance):
            other = one + 1 + int(near)
            if np.abs(rig(poses[one]) - rig(poses[other])).max() <= tolerance:
                pairs.append((one, other))
    return pairs
