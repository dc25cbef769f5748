"""Biovision ``.bvh`` files: a skeleton and its motion."""

from __future__ import annotations

import math
import re
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Floats
from supple.errors import FormatError
from supple.formats.file_bytes import as_floats, checked_count, read_text, reading
from supple.maths.rotations import exponential, inverse, multiply, rotate
from supple.rig.motion.joint_names import joint_roles
from supple.rig.motion.motion import Motion
from supple.rig.motion.motion_tracks import sampled_tracks
from supple.rig.motion.root_motion import split_root
from supple.rig.skeleton.joint_pose import JointPose
from supple.rig.skeleton.joints import Skeleton, unique_names

#: Common units: metres, decimetres (MakeHuman), 1/0.45 inch (CMU recordings), inches, centimetres,
#: millimetres. The format has no field for the unit.
UNITS = (1.0, 0.1, 0.0254 / 0.45, 0.0254, 0.01, 0.001)
#: Usual height of a captured body, in metres.
USUAL_SIZE = 1.7
#: Joints that move less than this fraction of the longest bone do not translate: files are rounded.
FIXED = 1e-5
#: Frames times joints: an hour of a person at 100 frames a second, about 3 GB while read.
LARGEST_MOTION = 25_000_000
#: Rotation from z up to y up.
Z_TO_Y = np.array([-math.sqrt(0.5), 0, 0, math.sqrt(0.5)])
POSITIONS = ("xposition", "yposition", "zposition")
ROTATIONS = ("xrotation", "yrotation", "zrotation")
LONGEST_NAME = 200


@dataclass(frozen=True, eq=False)
class EndSite:
    """End of a bone without a further joint: a joint, and an offset in metres from it."""

    joint: int
    offset: Floats


@dataclass(frozen=True, eq=False)
class BvhFile:
    """Content of a ``.bvh`` file, in metres with +Y up.

    Attributes
    ----------
    skeleton : Skeleton
        The file's offsets, with no joint rotated.
    joint_pose : JointPose
    motion : Motion
        The root joint's motion is in the root transforms, the rest in the poses.
    end_sites : tuple of EndSite
    metres_per_unit : float
        Guessed from the skeleton's size if not given.
    up : {"y", "z"}
        Upward axis of the file.
    """

    skeleton: Skeleton
    joint_pose: JointPose
    motion: Motion
    end_sites: tuple[EndSite, ...]
    metres_per_unit: float
    up: str


def read_bvh(
    path: str | Path,
    metres_per_unit: float | None = None,
    up: str | None = None,
    root: str | None = None,
) -> BvhFile:
    """Read a skeleton and its motion.

    Parameters
    ----------
    path : str or Path
        The ``.bvh`` file.
    metres_per_unit : float, optional
        Length of the file's unit. By default the common unit for which the skeleton's size is
        nearest to 1.7 m, which suits people only.
    up : {"y", "z"}, optional
        By default z if the hips are above the feet along z, else y.
    root : str, optional
        Joint whose motion becomes the root motion. By default the first that translates.

    Returns
    -------
    BvhFile

    Raises
    ------
    FormatError
        When the file is damaged.
    """
    path = Path(path)
    name = path.name
    if metres_per_unit is not None and not 0 < metres_per_unit < math.inf:
        raise FormatError(f"{name}: metres_per_unit is {metres_per_unit}; it must be positive")
    if up not in (None, "y", "z"):
        raise FormatError(f'{name}: up cannot be "{up}"; use y or z')
    text = read_text(path, (".bvh",))
    with reading(name):
        parts = re.split(r"^[ \t]*MOTION\b", text, maxsplit=1, flags=re.IGNORECASE | re.MULTILINE)
        head = re.match(r"\s*HIERARCHY\b", parts[0], flags=re.IGNORECASE)
        if not head or len(parts) < 2:
            missing = "MOTION" if head else "HIERARCHY"
            raise FormatError(f"{name}: has no {missing} part; it is damaged or not BVH")
        tree = _parse_hierarchy(name, parts[0][head.end() :])
        values, frame_time = _frames(name, parts[1], [len(c) for c in tree.channels])
        return _assembled(path, tree, values, frame_time, metres_per_unit, up, root)


def _frames(file: str, text: str, widths: list[int]) -> tuple[Floats, float]:
    """Return the numbers of all frames, (t, channels), and the seconds between frames."""
    head = re.match(r"\s*Frames\s*:\s*(\S+)\s+Frame\s*Time\s*:\s*(\S+)", text, flags=re.IGNORECASE)
    if not head:
        raise FormatError(f'{file}: MOTION does not begin with "Frames:" and "Frame Time:"')
    width = sum(widths)
    n_characters = len(text) - head.end()
    count = checked_count(file, head[1], "frames", 2 * max(width, 1), n_characters + 1)
    seconds = float(as_floats(file, [head[2]], "frame time")[0])
    if not 1e-6 <= seconds <= 1e6:
        raise FormatError(f"{file}: its frame time is {head[2][:40]}; use 1e-6 to 1e6 s")
    if count == 0 or width == 0:
        raise FormatError(f"{file}: has no {'frames' if count == 0 else 'channels'}, so no motion")
    if count * len(widths) > LARGEST_MOTION:
        raise FormatError(
            f"{file}: has {count} frames of {len(widths)} joints, too many to read;"
            f" split the motion"
        )
    numbers = text[head.end() :].split()
    if len(numbers) != count * width:
        raise FormatError(
            f"{file}: declares {count} frames of {width} numbers but has {len(numbers)} numbers;"
            f" it is damaged or cut off"
        )
    values = as_floats(file, numbers, "frames").reshape(count, width)
    invalid = ~np.isfinite(values) | (np.abs(values) > 1e12)
    if invalid.any():
        frame, channel = np.argwhere(invalid)[0]
        raise FormatError(
            f"{file}: number {channel} of frame {frame} is {values[frame, channel]};"
            f" use finite numbers up to 1e12"
        )
    return values, seconds


def _assembled(
    path: Path,
    tree: _Hierarchy,
    values: Floats,
    frame_time: float,
    unit: float | None,
    up: str | None,
    root: str | None,
) -> BvhFile:
    offsets = np.array(tree.offsets, dtype=np.float64)
    ends = np.array([offset for _, offset in tree.ends], dtype=np.float64).reshape(-1, 3)
    translations, rotations, translating = _local_motion(tree, offsets, values)
    names = unique_names(tree.names)
    raw = Skeleton(names, tree.parents, offsets)
    up = up or _guessed_up(raw)
    unit = unit or _guessed_unit(raw, np.array([joint for joint, _ in tree.ends], int), ends)
    axis_rotation = Z_TO_Y if up == "z" else np.array([0.0, 0, 0, 1])
    offsets, translations, ends = (
        unit * rotate(axis_rotation, a) for a in (offsets, translations, ends)
    )
    rotations = multiply(multiply(axis_rotation, rotations), inverse(axis_rotation))
    skeleton = Skeleton(names, tree.parents, offsets)
    root_joints = np.flatnonzero(skeleton.parents < 0)
    if root is not None:
        root_joint = skeleton.joint(root)
    else:
        root_joint = int(np.argmax(translating) if translating.any() else root_joints[0])
    roots, translations, rotations = split_root(skeleton, translations, rotations, joint=root_joint)
    # After the split, other joints without a parent translate; the root joint does not.
    translating[root_joints] = True
    translating[root_joint] &= skeleton.parents[root_joint] >= 0
    joint_pose = JointPose(skeleton, translating=[int(j) for j in np.flatnonzero(translating)])
    times = frame_time * np.arange(len(values))
    poses = joint_pose.pack(translations, rotations)
    tracks = sampled_tracks(joint_pose, times, poses, roots, root_joint)
    motion = Motion(times, poses, roots, path.stem, tracks=tracks)
    sites = [EndSite(joint, ends[index]) for index, (joint, _) in enumerate(tree.ends)]
    return BvhFile(skeleton, joint_pose, motion, tuple(sites), unit, up)


def _local_motion(
    tree: _Hierarchy, offsets: Floats, values: Floats
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Return translations (t, J, 3), rotations (t, J, 4), and a mask (J,) of translating joints."""
    translations = np.tile(offsets, (len(values), 1, 1))
    rotations = np.tile([0.0, 0, 0, 1], (len(values), len(offsets), 1))
    has_channel = np.zeros((len(offsets), 3), dtype=bool)
    column = 0
    for joint, channels in enumerate(tree.channels):
        for index, channel in enumerate(channels, column):
            if channel in POSITIONS:
                axis = POSITIONS.index(channel)
                has_channel[joint, axis] = True
                translations[:, joint, axis] = values[:, index]
            else:
                axis_vector = np.eye(3)[ROTATIONS.index(channel)]
                rotation = exponential(np.deg2rad(values[:, index, None]) * axis_vector)
                # Zrotation Xrotation Yrotation means Rz · Rx · Ry.
                rotations[:, joint] = multiply(rotations[:, joint], rotation)
        column += len(channels)
    _add_offsets(translations, offsets, has_channel, np.array(tree.parents) < 0)
    distances = np.abs(translations - offsets).max(axis=(0, 2))
    return translations, rotations, distances > FIXED * np.abs(offsets).max(initial=0)


def _add_offsets(
    translations: Floats,
    offsets: Floats,
    has_channel: NDArray[np.bool_],
    is_root: NDArray[np.bool_],
) -> None:
    """Add rest offsets to position channels that exclude them.

    The format defines position channels relative to the offset; many programs write the sum. The
    interpretation that keeps joints nearer to their rest positions is chosen, judged by joints with
    a parent where these have position channels.
    """
    candidates = has_channel.any(axis=1) & ~is_root & offsets.any(axis=1)
    joints = np.flatnonzero(candidates if candidates.any() else is_root)
    as_relative = np.where(has_channel[joints], translations[:, joints], 0)
    as_sum = np.where(has_channel[joints], translations[:, joints] - offsets[joints], 0)
    distances = [np.median(np.linalg.norm(a, axis=-1), axis=0).sum() for a in (as_relative, as_sum)]
    if distances[0] <= distances[1]:
        translations += np.where(has_channel, offsets, 0)


def _guessed_up(skeleton: Skeleton) -> str:
    roles, positions = joint_roles(skeleton), skeleton.rest_world()[:, :3, 3]
    feet = [roles[side, "foot"][0] for side in ("L", "R") if (side, "foot") in roles]
    if not feet or ("", "hips") not in roles:
        return "y"
    upward = positions[roles["", "hips"][0]] - positions[feet].mean(axis=0)
    return "z" if upward[2] > 2 * abs(upward[1]) else "y"


def _guessed_unit(skeleton: Skeleton, joints: NDArray[np.int64], ends: Floats) -> float:
    positions = skeleton.rest_world()[:, :3, 3]
    size = float(np.ptp(np.concatenate([positions, positions[joints] + ends]), axis=0).max())
    if size == 0:
        return 1.0
    return min(UNITS, key=lambda unit: abs(math.log(unit * size / USUAL_SIZE)))


# The HIERARCHY part: joints, offsets and channels.


@dataclass
class _Hierarchy:
    """Joints in the file's order.

    `channels` has lower-case names in the order of the numbers of a frame; `ends` has joint and
    offset of each End Site.
    """

    names: list[str] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    offsets: list[np.ndarray | None] = field(default_factory=list)
    channels: list[list[str]] = field(default_factory=list)
    ends: list[tuple[int, np.ndarray]] = field(default_factory=list)


def _parse_hierarchy(file: str, text: str) -> _Hierarchy:
    """Parse the text between HIERARCHY and MOTION, without recursion."""
    tokens = deque(text.replace("{", " { ").replace("}", " } ").split())
    tree = _Hierarchy()
    open_blocks: list[int] = []  # joints, or -1 in an End Site
    while tokens:
        token = tokens.popleft().lower()
        if token == "}":
            if not open_blocks:
                raise FormatError(f'{file}: has an extra "}}" after {_last(tree)}')
            open_blocks.pop()
        elif token in ("root", "joint"):
            if (token == "root") != (not open_blocks) or open_blocks[-1:] == [-1]:
                raise FormatError(
                    f"{file}: has a {token.upper()} in the wrong place after {_last(tree)}"
                )
            _open_joint(file, tokens, tree, open_blocks)
        elif token == "end":
            _open_end(file, tokens, tree, open_blocks)
        elif token == "offset":
            _read_offset(file, tokens, tree, open_blocks)
        elif token == "channels":
            _read_channels(file, tokens, tree, open_blocks)
        else:
            raise FormatError(
                f'{file}: "{token[:40]}" after {_last(tree)} is not part of a hierarchy'
            )
    if open_blocks:
        raise FormatError(f'{file}: {len(open_blocks)} "}}" are missing; it is damaged or cut off')
    if not tree.names:
        raise FormatError(f"{file}: has no joints")
    for name, offset in zip(tree.names, tree.offsets, strict=True):
        if offset is None:
            raise FormatError(f'{file}: joint "{name}" has no OFFSET')
    return tree


def _last(tree: _Hierarchy) -> str:
    return f'joint "{tree.names[-1]}"' if tree.names else "the beginning"


def _until_brace(file: str, tokens: deque[str], what: str) -> str:
    """Remove all words up to the next "{" and that brace; return the words as one text."""
    parts: list[str] = []
    while tokens and tokens[0] != "{" and len(parts) <= LONGEST_NAME:
        parts.append(tokens.popleft())
    name = " ".join(parts)
    if not tokens or tokens[0] != "{":
        raise FormatError(f'{file}: {what} "{name[:40]}" is not followed by a "{{"')
    tokens.popleft()
    return name


def _open_joint(file: str, tokens: deque[str], tree: _Hierarchy, open_blocks: list[int]) -> None:
    name = _until_brace(file, tokens, "joint")
    tree.parents.append(open_blocks[-1] if open_blocks else -1)
    open_blocks.append(len(tree.names))
    tree.names.append(name or f"joint {len(tree.names)}")
    tree.offsets.append(None)
    tree.channels.append([])


def _open_end(file: str, tokens: deque[str], tree: _Hierarchy, open_blocks: list[int]) -> None:
    _until_brace(file, tokens, "End Site")
    if not open_blocks or open_blocks[-1] < 0:
        raise FormatError(f"{file}: has an End Site in the wrong place after {_last(tree)}")
    tree.ends.append((open_blocks[-1], np.zeros(3)))
    open_blocks.append(-1)


def _read_offset(file: str, tokens: deque[str], tree: _Hierarchy, open_blocks: list[int]) -> None:
    where = f"OFFSET of {_last(tree)}"
    offset = as_floats(file, _take(file, tokens, 3, where), where)
    if not np.isfinite(offset).all() or np.abs(offset).max() > 1e12:
        raise FormatError(f"{file}: the {where} is {offset}, which is not finite")
    if not open_blocks:
        raise FormatError(f"{file}: has an OFFSET outside of any joint")
    if open_blocks[-1] < 0:
        tree.ends[-1] = (tree.ends[-1][0], offset)
    else:
        tree.offsets[open_blocks[-1]] = offset


def _read_channels(file: str, tokens: deque[str], tree: _Hierarchy, open_blocks: list[int]) -> None:
    where = f"CHANNELS of {_last(tree)}"
    count = checked_count(file, _take(file, tokens, 1, where)[0], "channels", 1, len(tokens))
    names = [name.lower() for name in _take(file, tokens, count, where)]
    for name in names:
        if name not in POSITIONS + ROTATIONS:
            raise FormatError(
                f'{file}: "{name[:40]}" among the {where} is not a channel;'
                f" use Xposition … Zposition, Xrotation … Zrotation"
            )
        if name in POSITIONS and names.count(name) > 1:
            raise FormatError(f'{file}: the {where} have "{name}" twice')
    if not open_blocks or (open_blocks[-1] < 0 and names):
        raise FormatError(f"{file}: has {where} in the wrong place")
    if len(names) > 12:
        raise FormatError(f"{file}: has {len(names)} {where}; a joint has at most 12")
    if open_blocks[-1] >= 0:
        if tree.channels[open_blocks[-1]]:
            raise FormatError(f"{file}: has {where} twice")
        tree.channels[open_blocks[-1]] = names


def _take(file: str, tokens: deque[str], count: int, what: str) -> list[str]:
    if len(tokens) < count:
        raise FormatError(f"{file}: is cut off in the {what}")
    return [tokens.popleft() for _ in range(count)]
