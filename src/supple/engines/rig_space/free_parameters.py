"""Free parameters: which of a rig's own controls physics may move."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Literal

import numpy as np

from supple.anatomy.part_names import joint_name_role
from supple.arrays import Bools, Floats, Ints
from supple.errors import SuppleError, warn
from supple.rig.character import Character
from supple.rig.jacobian import rig_jacobian
from supple.rig.protocol import Parameter, Rig
from supple.rig.skeleton.skinning import SkinnedCore, skinned_core

#: "auto", or names and patterns such as ``"tail*"``.
Free = Literal["auto"] | str | Sequence[str]
#: Parameters whose unit moves no vertex farther than this part of the body's size move nothing.
NOTHING = 1e-6
#: Parameters that change less than this over all motions are not keyed.
UNKEYED = 1e-5
#: A chain of joints that moves more than this part of the skin is the body itself, and one that
#: moves less than that part nothing to see.
LARGEST_CHAIN, LEAST_CHAIN = 0.5, 0.005
#: Roles of joints that hang loose, and words of others.
LOOSE = ("soft", "ear", "tail")
LOOSE_WORDS = re.compile("hair|braid|pony|mane|beard|whisker|antenna|tentacle|trunk|skirt|cloth")
#: Channels of a joint, as names end.
ROTATIONS, OTHERS = (".rx", ".ry", ".rz"), (".tx", ".ty", ".tz", ".sx", ".sy", ".sz")
ANY_CHANNEL = (".*", ".r?", ".t?", ".s?", ".r*", ".t*", ".s*")


def free_entries(character: Character, free: Free = "auto") -> Ints:
    """Return places (k,) in the pose of the parameters that are free, ascending.

    Parameters
    ----------
    character
        Its motions tell what is keyed.
    free
        Names of parameters or joints, with ``*`` for anything; a joint's name means its three
        angles. ``"auto"``: weights of shapes that no motion keys, and chains of joints (tails,
        ears, hair) of which no motion keys any. What moves no skin is never free.

    Raises
    ------
    SuppleError
        If a name is none, or nothing is free.
    """
    rig = character.rig
    moving = moving_entries(rig, character.surface.size)
    if isinstance(free, str) and free == "auto":
        found = _unkeyed(character, moving)
        if not len(found):
            raise SuppleError(
                f"{character.name}: every control that moves flesh is keyed, so nothing is free;"
                ' name what to move, such as "tail*"'
            )
        return found
    patterns = [free] if isinstance(free, str) else list(free)
    if not patterns:
        raise SuppleError("no parameter is free; name some, such as ['tail*', 'belly*']")
    chosen: set[int] = set()
    for pattern in patterns:
        matched = entries_by_pattern(rig.parameters, pattern)
        idle = [int(entry) for entry in matched if not moving[entry]]
        if idle and len(idle) == len(matched):
            warn(f'free: "{pattern}" moves no skin, and is left out')
        chosen |= {int(entry) for entry in matched if moving[entry]}
    if not chosen:
        raise SuppleError("what is named free moves no skin; name controls that do")
    return np.array(sorted(chosen), np.int64)


def entries_by_pattern(parameters: Sequence[Parameter], pattern: str) -> Ints:
    """Return places of the parameters that a name or pattern means; an error for none."""
    if not isinstance(pattern, str):
        raise SuppleError(f"free names are texts such as 'tail*', not {pattern!r}")
    wanted = pattern.casefold()
    found = [i for i, each in enumerate(parameters) if _matches(each.name.casefold(), wanted)]
    if found:
        return np.array(found, np.int64)
    names = sorted({_joint_of(each.name) or each.name for each in parameters})
    names += [each.name for each in parameters]
    near = _nearest_pattern(wanted, names)
    hint = f'did you mean "{near}"?' if near else f"it has {', '.join(names[:6])} and others"
    raise SuppleError(f'the rig has no parameter "{pattern}"; {hint}')


def _nearest_pattern(wanted: str, names: Sequence[str]) -> str | None:
    """Return the name that is meant, or for a pattern ``tial*`` the beginning, ``Tail*``."""
    stem = wanted.split("*")[0]
    begins = bool(stem) and stem != wanted
    known = {(name[: len(stem)] if begins else name).casefold(): name for name in reversed(names)}
    near = difflib.get_close_matches(stem if begins else wanted, known, 1, 0.5)
    if not near:
        return None
    return known[near[0]][: len(stem)] + "*" if begins else known[near[0]]


def _matches(name: str, pattern: str) -> bool:
    """Return whether a pattern means a parameter; one without a channel means a joint's angles."""
    joint = _joint_of(name)
    if joint is None or pattern.endswith((*ROTATIONS, *OTHERS, *ANY_CHANNEL)):
        return fnmatchcase(name, pattern)
    return name.endswith(ROTATIONS) and fnmatchcase(joint, pattern)


def _joint_of(name: str) -> str | None:
    return name[:-3] if name.endswith((*ROTATIONS, *OTHERS)) else None


def moving_entries(rig: Rig, size: float) -> Bools:
    """(s,) which parameters move the skin, by their derivative at rest."""
    count = len(rig.parameters)
    jacobian = np.empty((rig.n_vertices, 3, 1))
    found = np.zeros(count, bool)
    rest = np.array(rig.rest_pose, np.float64)
    # One at a time: all columns of a large skin would not fit.
    for entry in range(count):
        rig_jacobian(rig, np.array([entry])).evaluate(rest, jacobian)
        found[entry] = np.abs(jacobian).max() > NOTHING * size
    return found


def _unkeyed(character: Character, moving: Bools) -> Ints:
    """Return what no motion keys and moves flesh: shapes, and whole chains of joints."""
    rig, motions = character.rig, list(character.motions.values())
    change = np.zeros(len(rig.parameters))
    for motion in motions:
        change = np.maximum(change, np.ptp(motion.poses, axis=0))
    keyed = change > UNKEYED
    core = skinned_core(rig)
    jointed = np.zeros(len(keyed), bool)
    if core is not None:
        jointed[core.entries] = True
    free = moving & ~keyed & ~jointed
    if core is not None and motions:  # without a motion nothing says which joints are posed
        free |= moving & _loose_joints(core, keyed)
    return np.flatnonzero(free)


def _loose_joints(core: SkinnedCore, keyed: Bools) -> Bools:
    """(s,) angles of joints that are not keyed, nor any below them, and that are no body."""
    skeleton, found = core.rig.skeleton, np.zeros(len(keyed), bool)
    entries = core.rig.joint_pose.entries()
    own = keyed[core.entries]
    posed = np.array([own[row[row >= 0]].any() for row in entries])
    weight = np.asarray(core.rig.weight_matrix().sum(axis=0)).ravel() / core.rig.n_vertices
    busy, hangs = posed.copy(), weight.copy()
    for joint in range(skeleton.n_joints - 1, -1, -1):  # children come after their parents
        parent = skeleton.parents[joint]
        if parent >= 0:
            busy[parent] |= busy[joint]
            hangs[parent] += hangs[joint]
    roles = [joint_name_role(name) for name in skeleton.names]
    for joint in range(skeleton.n_joints):
        parent = skeleton.parents[joint]
        if busy[joint] or parent < 0 or hangs[joint] > LARGEST_CHAIN:
            continue
        # Bones of hands, feet and horns hang loose in many files, and are no flesh. The end of a
        # tail that is keyed belongs to it.
        role, top = roles[joint], joint
        while not busy[skeleton.parents[top]] and roles[skeleton.parents[top]] in (role, None):
            top = skeleton.parents[top]
        above = skeleton.parents[top]
        if role is None and not busy[above]:
            role = roles[above]
        if role not in LOOSE and not _is_loose_word(skeleton.names[joint]):
            continue
        if hangs[top] < LEAST_CHAIN or (posed[above] and role is not None and roles[above] == role):
            continue
        rows = entries[joint, :3]
        found[core.entries.start + rows[rows >= 0]] = True
    return found


def _is_loose_word(name: str) -> bool:
    return LOOSE_WORDS.search(name.casefold()) is not None


def values_by_parameter(
    what: str,
    given: float | Mapping[str, float] | Floats | None,
    parameters: Sequence[Parameter],
    usual: float | Floats,
    least: float = 0.0,
) -> Floats:
    """(k,) a number for each free parameter: one for all, or by names and patterns.

    Parameters
    ----------
    what
        Name of the option, for messages.
    given
        One number, one for each, or numbers by pattern, of which later ones count more; None for
        the usual.
    parameters
        The free ones.
    usual, least
        For those not named, and the least that is allowed.
    """
    values = np.zeros(len(parameters)) + usual
    if isinstance(given, Mapping):
        for pattern, value in given.items():
            values[entries_by_pattern(parameters, pattern)] = value
    elif given is not None:
        try:
            values[:] = np.asarray(given, np.float64)
        except (TypeError, ValueError):
            raise SuppleError(f"{what} is {given!r}; give a number, or numbers by name") from None
    if not (np.isfinite(values).all() and values.min(initial=least) >= least):
        raise SuppleError(f"{what} must be finite numbers, at least {least:g}")
    return values
