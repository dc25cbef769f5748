"""The poses at which a character is reduced: given, taken from motions, or chosen from them."""

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
from supple.rig.poses.farthest_poses import farthest_poses
from supple.rig.protocol import Rig, checked_pose

FrameReference = str | tuple[str, int]
Poses = int | str | ArrayLike | Mapping[str, ArrayLike] | Sequence[FrameReference]

#: Number of poses that ``"auto"`` begins with, the neutral one among them.
AUTO_POSES = 4
#: Name of the neutral pose when nobody named it; the second if the first is taken.
NEUTRAL, REST = "neutral", "rest pose"
#: Frames looked at, a second of motion.
RATE = 12.0
#: Shapes nearer than this part of the body's size are the same.
SAME = 1e-6
#: End of the error for frames of a character without motions.
_WITHOUT = "it has none: give poses as numbers"
#: Vertices that tell most poses apart; all are asked where these do not.
_VERTICES = 200


def resolve_poses(character: Character, poses: Poses) -> tuple[Floats, tuple[str, ...]]:
    """Return the poses (m, s) to reduce a character at, the neutral one first, and their names.

    Parameters
    ----------
    character
        Its rig says what a pose is; its motions have the frames.
    poses
        - a number: so many in all, the neutral one and others from the motions that are far
          from it and from each other (`supple.rig.farthest_poses`);
        - ``"auto"``: `AUTO_POSES`, to begin with;
        - (m, s) numbers, or a mapping from names to (s,) numbers;
        - frames of motions: ``"Run:12"`` or ``("Run", 12)``; `Character.motion` has the rules
          for names.

        The neutral pose is put first, and added where it is not given.

    Raises
    ------
    SuppleError
        If two poses give the same shape, or a pose or frame is none of this character's.

    Warns
    -----
    SuppleWarning
        If fewer poses differ than were asked for.
    """
    if isinstance(poses, str) and poses == "auto":
        return _chosen(character, AUTO_POSES)
    if isinstance(poses, Integral) and not isinstance(poses, bool):
        found = _chosen(character, int(poses))
        if len(found[0]) < poses:
            warn(
                f"{character.name}: {poses} poses asked for, and the motions have "
                f"{counted(len(found[0]), 'pose')} that differ, the neutral one included; "
                "going on with those"
            )
        return found
    rows, names = _given(character, poses)
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
    found = [_frame(character, reference) for reference in frames]
    names = tuple(f"{motion}:{frame}" for motion, frame in found)
    rows = [_motion_poses(character, motion)[frame] for motion, frame in found]
    return np.array(rows).reshape(len(rows), len(character.rig.parameters)), names


def mid_poses(poses: ArrayLike, parents: Sequence[int]) -> tuple[Ints, Floats]:
    """Return poses halfway along the edges of a tree of poses, where interpolation is tried.

    Parameters
    ----------
    poses
        (m, s).
    parents
        (m,) the pose each is aligned to; -1 for the root.

    Returns
    -------
    edges : (m - 1, 2) int array
        Parent and child.
    middles : (m - 1, s) array
    """
    given = np.atleast_2d(numbers("poses", poses))
    rows = checked_array("poses", given, given.shape)
    above = np.array(checked_whole_numbers("parents of poses", parents), np.int64)
    if above.shape != (len(rows),):
        raise SuppleError(f"{len(above)} parents for {len(rows)} poses")
    children = np.flatnonzero(above >= 0)
    own = above[children] == children
    if own.any() or (above >= len(rows)).any() or (above < -1).any() or (above == -1).sum() != 1:
        raise SuppleError("parents of poses are no tree; one is -1, the others are other poses")
    walk = above
    for _ in range(len(rows)):  # all the way up, unless there is a circle
        walk = np.where(walk >= 0, above[walk], -1)
    if (walk >= 0).any():
        raise SuppleError("parents of poses are no tree; they go round in a circle")
    edges = np.stack([above[children], children], axis=1)
    return edges, 0.5 * (rows[edges[:, 0]] + rows[edges[:, 1]])


def _chosen(character: Character, count: int) -> tuple[Floats, tuple[str, ...]]:
    if count < 1:
        raise SuppleError(f"{count} poses; at least 1 is needed, the neutral one")
    rig, blocks, names = character.rig, [np.empty((0, len(character.rig.parameters)))], []
    for name, motion in character.motions.items():
        keys = _sampled_keys(motion.n_frames, motion.duration)
        blocks.append(_motion_poses(character, name)[keys])
        names += [f"{name}:{key}" for key in keys]
    rows = np.concatenate(blocks)
    far = farthest_poses(rig, rows, count - 1) if len(rows) else np.empty(0, np.int64)
    return np.vstack([rig.rest_pose, rows[far]]), (NEUTRAL, *(names[k] for k in far))


def _motion_poses(character: Character, name: str) -> Floats:
    """Return poses (t, s) of a motion, which must be this rig's."""
    poses, wanted = character.motions[name].poses, len(character.rig.parameters)
    if poses.shape[1] != wanted:
        raise SuppleError(
            f'{character.name}: poses of motion "{name}" have {poses.shape[1]} entries, and the '
            f"rig {wanted} parameters; retarget it to this rig"
        )
    return poses


def _sampled_keys(n_frames: int, duration: float) -> Ints:
    """Return keys of a motion, about `RATE` a second, first and last among them."""
    count = min(n_frames, max(2, round(RATE * duration)))
    return np.unique(np.linspace(0, n_frames - 1, count).round().astype(np.int64))


def _given(character: Character, poses: Poses) -> tuple[list[Floats], tuple[str, ...]]:
    """Return poses as they were given, checked one by one, and their names."""
    if isinstance(poses, Mapping) and poses:
        names, rows = tuple(map(str, poses)), list(poses.values())
    elif _are_frames(poses):
        found, names = poses_from_frames(character, poses)  # type: ignore[arg-type]
        rows = list(found)
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
    """Return numbers that were given as poses, a row for each."""
    wanted = f"a number, frames of motions, or rows of {n_parameters} numbers"
    given = () if isinstance(poses, Mapping) else poses  # only one without entries comes here
    array = numbers("poses", given, wanted)  # type: ignore[arg-type]
    if array.ndim == 1:
        array = array[:, None] if n_parameters == 1 else array[None]
    if array.ndim != 2 or array.size == 0:
        raise SuppleError(f"poses must be {wanted}; 1 is the neutral pose alone")
    return array


def _are_frames(poses: object) -> bool:
    if isinstance(poses, str):
        return True
    if not isinstance(poses, Sequence) or len(poses) == 0:
        return False
    first = poses[0][:1] if isinstance(poses[0], tuple) else poses[:1]
    return len(first) == 1 and isinstance(first[0], str)


def _frame(character: Character, reference: object) -> tuple[str, int]:
    """Return the motion and the key that a reference means."""
    match reference:
        case (motion, key):
            pass
        case str():
            parts = re.fullmatch(r"(.*):\s*(-?\d{1,18})\s*", reference, re.DOTALL)
            if parts is None:
                known = matching_names(character.motions, reference)
                example = reference if known else next(iter(character.motions), "Run")
                raise SuppleError(
                    f'"{reference}" is no frame of a motion; write it like "{example}:0"'
                )
            motion, key = parts[1], int(parts[2])
        case _:
            raise SuppleError(f'{reference!r} is no frame of a motion; write it like "Run:12"')
    motion = one_name(character.motions, motion, character.name, _WITHOUT)
    (frame,) = checked_whole_numbers(f'frames of motion "{motion}"', [key])  # type: ignore[list-item]
    last = character.motions[motion].n_frames - 1
    if not 0 <= frame <= last:
        raise SuppleError(f'motion "{motion}" has no frame {frame}; they are 0 to {last}')
    return motion, frame


def _neutral_first(
    rig: Rig, rows: list[Floats], names: tuple[str, ...]
) -> tuple[Floats, tuple[str, ...]]:
    poses = [np.asarray(rig.rest_pose, np.float64), *rows]
    same = _same_shapes(rig, poses)
    # Row 0 is the neutral pose, which may be among those given, once.
    neutral = [other for one, other in same if one == 0]
    twice = next((list(pair) for pair in same if pair[0] > 0), neutral[:2])
    if len(twice) == 2:
        first, second = (names[k - 1] for k in twice)
        raise SuppleError(f'poses "{first}" and "{second}" give the same shape; drop one of them')
    others = [k for k in range(1, len(poses)) if k not in neutral]
    called = names[neutral[0] - 1] if neutral else NEUTRAL if NEUTRAL not in names else REST
    return np.array([poses[k] for k in (0, *others)]), (called, *(names[k - 1] for k in others))


def _same_shapes(rig: Rig, poses: Sequence[Floats]) -> list[tuple[int, int]]:
    """Return pairs of poses that put every vertex at the same place, whatever their numbers."""
    some = np.unique(np.linspace(0, rig.n_vertices - 1, min(rig.n_vertices, _VERTICES)).astype(int))
    shapes = np.array([rig(pose, some) for pose in poses])
    least = SAME * max(float(np.ptp(rig(rig.rest_pose), axis=0).max()), np.finfo(float).tiny)
    found = []
    for one, shape in enumerate(shapes):
        gaps = np.abs(shapes[one + 1 :] - shape).max(axis=(1, 2), initial=0.0)
        for near in np.flatnonzero(gaps <= least):
            other = one + 1 + int(near)
            if np.abs(rig(poses[one]) - rig(poses[other])).max() <= least:
                found.append((one, other))
    return found
