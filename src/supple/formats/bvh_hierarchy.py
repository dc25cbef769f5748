"""The HIERARCHY part of a BVH file: joints, offsets and channels."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from supple.errors import FormatError
from supple.formats.source import as_floats, checked_count

__all__: list[str] = []

POSITIONS = ("xposition", "yposition", "zposition")
ROTATIONS = ("xrotation", "yrotation", "zrotation")
LONGEST_NAME = 200


@dataclass
class Hierarchy:
    """Joints as the file lists them.

    Attributes
    ----------
    names, parents, offsets : lists with one entry for each joint
    channels : list of list of str
        Lower-case channel names of each joint, in the order of the numbers of a frame.
    ends : list of (int, (3,) array)
        Joint and offset of each End Site.
    """

    names: list[str] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    offsets: list[np.ndarray | None] = field(default_factory=list)
    channels: list[list[str]] = field(default_factory=list)
    ends: list[tuple[int, np.ndarray]] = field(default_factory=list)


def parse_hierarchy(file: str, text: str) -> Hierarchy:
    """Read the words between HIERARCHY and MOTION; nesting is held in a list, not the stack."""
    words = deque(text.replace("{", " { ").replace("}", " } ").split())
    tree = Hierarchy()
    open_blocks: list[int] = []  # joints, or -1 in an End Site
    while words:
        word = words.popleft().lower()
        if word == "}":
            if not open_blocks:
                raise FormatError(f'{file}: has a "}}" too many after {_last(tree)}')
            open_blocks.pop()
        elif word in ("root", "joint"):
            if (word == "root") != (not open_blocks) or open_blocks[-1:] == [-1]:
                raise FormatError(
                    f"{file}: has a {word.upper()} in the wrong place after {_last(tree)}"
                )
            _open_joint(file, words, tree, open_blocks)
        elif word == "end":
            _open_end(file, words, tree, open_blocks)
        elif word == "offset":
            _read_offset(file, words, tree, open_blocks)
        elif word == "channels":
            _read_channels(file, words, tree, open_blocks)
        else:
            raise FormatError(
                f'{file}: "{word[:40]}" after {_last(tree)} is not part of a hierarchy'
            )
    if open_blocks:
        raise FormatError(f'{file}: {len(open_blocks)} "}}" are missing; it is damaged or cut off')
    if not tree.names:
        raise FormatError(f"{file}: has no joints")
    for name, offset in zip(tree.names, tree.offsets, strict=True):
        if offset is None:
            raise FormatError(f'{file}: joint "{name}" has no OFFSET')
    return tree


def _last(tree: Hierarchy) -> str:
    return f'joint "{tree.names[-1]}"' if tree.names else "the beginning"


def _until_brace(file: str, words: deque[str], what: str) -> str:
    taken: list[str] = []
    while words and words[0] != "{":
        taken.append(words.popleft())
        if len(taken) > LONGEST_NAME:
            break
    if not words or words[0] != "{":
        raise FormatError(f'{file}: {what} "{" ".join(taken)[:40]}" is not followed by a "{{"')
    words.popleft()
    return " ".join(taken)


def _open_joint(file: str, words: deque[str], tree: Hierarchy, open_blocks: list[int]) -> None:
    name = _until_brace(file, words, "joint")
    tree.parents.append(open_blocks[-1] if open_blocks else -1)
    open_blocks.append(len(tree.names))
    tree.names.append(name or f"joint {len(tree.names)}")
    tree.offsets.append(None)
    tree.channels.append([])


def _open_end(file: str, words: deque[str], tree: Hierarchy, open_blocks: list[int]) -> None:
    _until_brace(file, words, "End Site")
    if not open_blocks or open_blocks[-1] < 0:
        raise FormatError(f"{file}: has an End Site in the wrong place after {_last(tree)}")
    tree.ends.append((open_blocks[-1], np.zeros(3)))
    open_blocks.append(-1)


def _read_offset(file: str, words: deque[str], tree: Hierarchy, open_blocks: list[int]) -> None:
    where = f"OFFSET of {_last(tree)}"
    offset = as_floats(file, list(_take(file, words, 3, where)), where)
    if not np.isfinite(offset).all() or np.abs(offset).max() > 1e12:
        raise FormatError(f"{file}: the {where} is {offset}, not a place")
    if not open_blocks:
        raise FormatError(f"{file}: has an OFFSET outside of any joint")
    if open_blocks[-1] < 0:
        tree.ends[-1] = (tree.ends[-1][0], offset)
    else:
        tree.offsets[open_blocks[-1]] = offset


def _read_channels(file: str, words: deque[str], tree: Hierarchy, open_blocks: list[int]) -> None:
    where = f"CHANNELS of {_last(tree)}"
    count = checked_count(file, next(iter(_take(file, words, 1, where))), "channels", 1, len(words))
    names = [word.lower() for word in _take(file, words, count, where)]
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
        raise FormatError(f"{file}: the {where} are {len(names)}; a joint has 12 at most")
    if open_blocks[-1] >= 0:
        if tree.channels[open_blocks[-1]]:
            raise FormatError(f"{file}: has {where} twice")
        tree.channels[open_blocks[-1]] = names


def _take(file: str, words: deque[str], count: int, what: str) -> Iterable[str]:
    if len(words) < count:
        raise FormatError(f"{file}: is cut off in the {what}")
    return [words.popleft() for _ in range(count)]
