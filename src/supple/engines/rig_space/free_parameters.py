"""Free parameters: the rig controls that physics may move, and their springs."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, Literal

import numpy as np

from supple.anatomy.roles import joint_roles
from supple.arrays import Bools, Floats, Ints
from supple.checks import checked_number
from supple.engines.rig_space.model import RigSpaceModel
from supple.engines.rig_space.solvers.stage_problem import Springs
from supple.errors import SuppleError, warn
from supple.rig.character import Character
from supple.rig.jacobian import rig_jacobian
from supple.rig.protocol import Parameter, Rig
from supple.rig.skeleton.skinning import SkinnedCore, skinned_core

#: ``"auto"``, or names and patterns such as ``"tail*"``.
Free = Literal["auto"] | str | Sequence[str]
#: Displacement of the skin by a unit of a parameter, relative to the size, that counts as none.
NOTHING = 1e-6
#: Largest change over all motions of a parameter that counts as not keyed.
UNKEYED = 1e-5
#: Largest and smallest fraction of the skin that a loose chain of joints moves.
LARGEST_CHAIN, LEAST_CHAIN = 0.5, 0.005
#: Roles of joints that hang loose, and words in other names.
LOOSE = ("soft", "ear", "tail")
LOOSE_WORDS = re.compile("hair|braid|pony|mane|beard|whisker|antenna|tentacle|trunk|skirt|cloth")
#: Words in names of face shapes that muscles or bones move, not flesh: gaze, lids, brows, jaw,
#: visemes and whole expressions. Words of soft parts precede them: cheekSquint is a cheek.
MUSCLES = re.compile(
    "eye|look|blink|gaze|pupil|squint|brow|brw|jaw|tongue|teeth|nose|sneer|viseme|fcl_(all|ha|mth)"
    "|^(v_)?(sil|pp|ff|th|dd|kk|ch|ss|nn|rr|aa|ih|ou|ee|oh|[aeiou])$"
    "|^(joy|angry|anger|sorrow|fun|sad|happy|surprised?|relaxed|neutral)$"
)
SOFT_PARTS = re.compile(
    "cheek|jowl|lip|mouth|chin|bell(y|ies)|stomach|waist|breast|chest|fat|double"
)
#: Channels of a joint: endings of names.
ROTATIONS, OTHERS = (".rx", ".ry", ".rz"), (".tx", ".ty", ".tz", ".sx", ".sy", ".sz")
ANY_CHANNEL = (".*", ".r?", ".t?", ".s?", ".r*", ".t*", ".s*")
#: One number for all parameters, numbers by names and patterns, or an array (k,).
PerParameter = float | Mapping[str, float] | Floats
#: Smallest frequency in Hz of a joint on its springs, as muscles and bones hold a tail; smallest κ,
#: since twists of neighbours in a line nearly cancel; and largest angle in rad that physics adds.
JOINT_HERTZ, LEAST_FOLLOW, ANGLE_REACH = 5.0, 0.1, 1.2


def free_entries(character: Character, free: Free = "auto") -> Ints:
    """Return indices (k,) in the pose of the free parameters, ascending.

    Parameters
    ----------
    character
        Character whose motions determine the keyed parameters.
    free
        Names of parameters or joints, with ``*`` as a wildcard; a joint's name means its three
        angles. ``"auto"``: weights of shapes that no motion keys, except gaze, lids, jaw and speech
        (`MUSCLES`), and chains of joints (tails, ears, hair) without any key. Parameters that move
        no skin are never free.

    Raises
    ------
    SuppleError
        If a name is unknown, or nothing is free.
    """
    rig = character.rig
    moving = moving_entries(rig, character.surface.size)
    if isinstance(free, str) and free == "auto":
        entries = _unkeyed(character, moving)
        if not len(entries):
            raise SuppleError(
                f"{character.name}: every control that moves flesh is keyed, so nothing is free;"
                ' name what to move, such as "tail*"'
            )
        return entries
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
        raise SuppleError("the controls named in free move no skin; name others")
    return np.array(sorted(chosen), np.int64)


def entries_by_pattern(parameters: Sequence[Parameter], pattern: str) -> Ints:
    """Return indices of parameters that match a name or pattern; raise an error if none does."""
    if not isinstance(pattern, str):
        raise SuppleError(f"free names must be strings such as 'tail*', not {pattern!r}")
    lower = pattern.casefold()
    matches = [i for i, each in enumerate(parameters) if _matches(each.name.casefold(), lower)]
    if matches:
        return np.array(matches, np.int64)
    names = sorted({_joint_of(each.name) or each.name for each in parameters})
    names += [each.name for each in parameters]
    near = _nearest_pattern(lower, names)
    hint = f"it has {', '.join(names[:6])} and others"
    # A joint's name means its angles; with ".*" it means the channels of a joint without angles.
    for suggestion in () if near is None else (near, f"{near}.*"):
        if any(_matches(each.name.casefold(), suggestion.casefold()) for each in parameters):
            hint = f'did you mean "{suggestion}"?'
            break
    raise SuppleError(f'the rig has no parameter "{pattern}"; {hint}')


def _nearest_pattern(pattern: str, names: Sequence[str]) -> str | None:
    """Return the nearest name, or beginning (``Tail*`` for ``tial*``); None if none is near."""
    stem = pattern.split("*")[0]
    begins = bool(stem) and stem != pattern
    by_key = {(name[: len(stem)] if begins else name).casefold(): name for name in reversed(names)}
    near = difflib.get_close_matches(stem if begins else pattern, by_key, 1, 0.5)
    if not near:
        return None
    return by_key[near[0]][: len(stem)] + "*" if begins else by_key[near[0]]


def _matches(name: str, pattern: str) -> bool:
    """Return whether a pattern matches a parameter; without a channel it means a joint's angles."""
    joint = _joint_of(name)
    if joint is None or pattern.endswith((*ROTATIONS, *OTHERS, *ANY_CHANNEL)):
        return fnmatchcase(name, pattern)
    return name.endswith(ROTATIONS) and fnmatchcase(joint, pattern)


def _joint_of(name: str) -> str | None:
    return name[:-3] if name.endswith((*ROTATIONS, *OTHERS)) else None


def moving_entries(rig: Rig, size: float) -> Bools:
    """Return a mask (s,) of parameters that move the skin at rest; `size` is the body's in m."""
    count = len(rig.parameters)
    jacobian = np.empty((rig.n_vertices, 3, 1))
    moving = np.zeros(count, bool)
    rest = np.array(rig.rest_pose, np.float64)
    # One at a time to save memory.
    for entry in range(count):
        rig_jacobian(rig, np.array([entry])).evaluate(rest, jacobian)
        moving[entry] = np.abs(jacobian).max() > NOTHING * size
    return moving


def _unkeyed(character: Character, moving: Bools) -> Ints:
    """Return indices of moving parameters that no motion keys: shapes, and whole chains."""
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
    free &= np.array([_may_hang(parameter.name) for parameter in rig.parameters], bool)
    if core is not None and motions:  # posed joints are unknown without motions
        free |= moving & _loose_joints(core, keyed)
    return np.flatnonzero(free)


def is_soft_part(name: str) -> bool:
    """Return whether a shape's name is that of a soft part, such as a cheek or a belly."""
    return SOFT_PARTS.search(_shape_name(name)) is not None


def _may_hang(name: str) -> bool:
    """Return whether a shape may be of flesh, by its name."""
    return is_soft_part(name) or not MUSCLES.search(_shape_name(name))


def _shape_name(name: str) -> str:
    return name.rpartition(".")[2].casefold()


def _loose_joints(core: SkinnedCore, keyed: Bools) -> Bools:
    """Return a mask (s,) of angles of loose joints, which like their descendants are not keyed."""
    skeleton, loose = core.rig.skeleton, np.zeros(len(keyed), bool)
    entries = core.rig.joint_pose.entries()
    joint_keyed = keyed[core.entries]
    posed = np.array([joint_keyed[row[row >= 0]].any() for row in entries])
    weight = np.asarray(core.rig.weight_matrix().sum(axis=0)).ravel() / core.rig.n_vertices
    busy, hangs = posed.copy(), weight.copy()
    for joint in range(skeleton.n_joints - 1, -1, -1):  # children come after their parents
        parent = skeleton.parents[joint]
        if parent >= 0:
            busy[parent] |= busy[joint]
            hangs[parent] += hangs[joint]
    roles = joint_roles(skeleton.names, skeleton.parents.tolist())
    for joint in range(skeleton.n_joints):
        parent = skeleton.parents[joint]
        if busy[joint] or parent < 0 or hangs[joint] > LARGEST_CHAIN:
            continue
        # Unkeyed bones of hands, feet and horns are not flesh. The end of a keyed tail belongs to
        # the tail.
        role, top = roles[joint], joint
        while not busy[skeleton.parents[top]] and roles[skeleton.parents[top]] in (role, None):
            top = skeleton.parents[top]
        above = skeleton.parents[top]
        if role is None and not busy[above]:
            role = roles[above]
        if role not in LOOSE and not LOOSE_WORDS.search(skeleton.names[joint].casefold()):
            continue
        if hangs[top] < LEAST_CHAIN or (posed[above] and role is not None and roles[above] == role):
            continue
        rows = entries[joint, :3]
        loose[core.entries.start + rows[rows >= 0]] = True
    return loose


def values_by_parameter(
    what: str,
    given: PerParameter | None,
    parameters: Sequence[Parameter],
    usual: float | Floats,
    least: float = 0.0,
) -> Floats:
    """Return a number for each free parameter, (k,): one for all, or by names and patterns.

    Of several patterns that match, the last one counts; None means the default `usual`. `what` is
    the name of the option in messages.
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


def usual_springs(model: RigSpaceModel, alpha: float, beta: float) -> Springs:
    """Return the default springs: κ > 0 for angles of joints, 0 for others; damping αM + βK."""
    for name, value in (("alpha", alpha), ("beta", beta)):
        if checked_number(name, value) < 0:
            raise SuppleError(f"{name} is {value:g}; it must not be negative")
    angles = np.array([parameter.unit == "rad" for parameter in model.free_parameters])
    return Springs(
        float(alpha),
        float(beta),
        1.0,
        follow=np.where(angles, joint_springs(model), 0.0),
        firmness=np.ones(len(angles)),
        damping=np.ones(len(angles)),
        mass=np.ones(len(angles)),
        lower=model.lower,
        upper=model.upper,
        reach=np.where(angles, ANGLE_REACH, np.inf),
    )


def tuned_springs(
    springs: Springs, model: RigSpaceModel, values_by_field: Mapping[str, PerParameter | None]
) -> Springs:
    """Return springs with new `follow`, `firmness`, `damping` or `mass`; None for no change."""
    least = {"mass": 1.0}
    changed: dict[str, Any] = {
        name: values_by_parameter(
            name, value, model.free_parameters, getattr(springs, name), least.get(name, 0.0)
        )
        for name, value in values_by_field.items()
        if value is not None
    }
    return replace(springs, **changed)


def joint_springs(model: RigSpaceModel) -> Floats:
    """Return κ (k,) with which each angle alone would swing at `JOINT_HERTZ` or more.

    All angles of a joint have the spring of its heaviest angle. With weaker springs, the end of a
    husky's tail twisted by 17° and back within four frames.
    """
    k = len(model.entries)
    mass, stiffness = np.diag(model.condensed.mass)[:k], np.diag(model.condensed.stiffness)[:k]
    joints = np.array([parameter.name.rpartition(".r")[0] for parameter in model.free_parameters])
    heaviest = np.array([mass[joints == joint].max() for joint in joints])
    target = (2 * np.pi * JOINT_HERTZ) ** 2 * heaviest
    return np.maximum(target / np.maximum(stiffness, 1e-300) - 1, LEAST_FOLLOW)
