"""Names of joints: body parts by name, and matching of two skeletons."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import numpy as np

from supple.errors import SuppleError
from supple.rig.skeleton.joints import Skeleton

SIDES = {"left": "L", "l": "L", "lf": "L", "right": "R", "r": "R", "rt": "R"}
#: Words that name the rigging tool, not the joint.
NOISE = re.compile(
    "mixamo(rig)?|bip(ed)?|valve(biped)?|armature|character|skel(eton)?|rig|def|org|mch|jnt|joint"
    "|bone|bn|cc|base|ctrl|bind|sk|j|b|c|m"
)
#: Names of each body part; a later one counts only if no earlier one is present.
ALIASES = {
    "hips": ("hips", "pelvis", "hip"),
    "spine": ("spine", "chest", "upperchest", "lowerback", "torso", "abdomen", "waist", "back"),
    "neck": ("neck",),
    "head": ("head", "skull"),
    "clavicle": ("clavicle", "collar", "collarbone", "shoulder"),
    "upperarm": ("upperarm", "uparm", "humerus", "arm", "shoulder"),
    "forearm": ("forearm", "lowerarm", "loarm", "lowarm", "elbow", "radius"),
    "hand": ("hand", "wrist"),
    "thigh": ("thigh", "upperleg", "upleg", "femur", "leg", "hip"),
    "shin": ("shin", "calf", "lowerleg", "loleg", "lowleg", "knee", "tibia", "leg"),
    "foot": ("foot", "ankle"),
    "toe": ("toe", "toebase", "toes", "ball"),
}
#: Roles without a side, and roles that may be chains.
MIDDLE = {"hips", "spine", "neck", "head"}
CHAINS = ("spine", "neck")


def normalised_name(name: str) -> tuple[str, str]:
    """Return the side ("L", "R" or "") and the normalised name of a joint.

    >>> normalised_name("mixamorig:LeftForeArm"), normalised_name("lower_arm.R")
    (('L', 'forearm'), ('R', 'lowerarm'))
    >>> normalised_name("Bip01 L UpperArm"), normalised_name("upperarm01.L")
    (('L', 'upperarm'), ('L', 'upperarm1'))
    """
    plain = re.split(r"[:|/]", name)[-1]
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", plain)
    side = ""
    kept: list[str] = []
    counts = False
    for word in (word.lower() for word in words):
        whole = re.fullmatch(r"(left|right)(.+)", word)
        if whole and not side:
            side, word = SIDES[whole[1]], whole[2]
        if word in SIDES and not side:
            side = SIDES[word]
        elif word.isdigit():
            if counts and int(word) > 0:
                kept.append(str(int(word)))
        else:
            # A number right after a tool's word ("Bip01") belongs to it.
            counts = not NOISE.fullmatch(word)
            kept += [word] if counts else []
    return side, "".join(kept)


def joint_roles(skeleton: Skeleton) -> dict[tuple[str, str], list[int]]:
    """Return the joints of each (side, role), topmost first; several for chains."""
    named: dict[tuple[str, str], list[int]] = {}
    for joint, name in enumerate(skeleton.names):
        side, plain = normalised_name(name)
        named.setdefault((side, plain.rstrip("0123456789")), []).append(joint)
    depth = _depths(skeleton)

    def order(joint: int) -> tuple[bool, int, int]:
        # Helpers such as "__UpLeg_L" precede their joint.
        return skeleton.names[joint].startswith("_"), int(depth[joint]), joint

    roles: dict[tuple[str, str], list[int]] = {}
    taken: set[int] = set()
    for side in ("", "L", "R"):
        for role, aliases in _by_plainness(side):
            if (side, role) in roles and role not in CHAINS:
                continue
            for alias in aliases:
                found = [joint for joint in named.get((side, alias), []) if joint not in taken]
                if found:
                    found.sort(key=order)
                    found = found if role in CHAINS else found[:1]
                    roles.setdefault((side, role), []).extend(found)
                    taken.update(found)
    for key in roles:
        roles[key].sort(key=order)
    if ("", "hips") not in roles:
        hips = _common_ancestor(skeleton, roles)
        if hips is not None and hips not in taken:
            roles["", "hips"] = [hips]
    return roles


def _by_plainness(side: str) -> Iterable[tuple[str, tuple[str, ...]]]:
    """Yield roles with their aliases, in order of preference."""
    roles = {role: names for role, names in ALIASES.items() if (role in MIDDLE) == (side == "")}
    for rank in range(max(map(len, roles.values()))):
        for role, names in roles.items():
            if rank < len(names):
                yield role, names[rank : rank + 1]


def _depths(skeleton: Skeleton) -> np.ndarray:
    depth = np.zeros(skeleton.n_joints, dtype=int)
    for joint, parent in enumerate(skeleton.parents):
        depth[joint] = depth[parent] + 1 if parent >= 0 else 0
    return depth


def _common_ancestor(skeleton: Skeleton, roles: Mapping[tuple[str, str], list[int]]) -> int | None:
    """Return the lowest joint above both legs."""
    if ("L", "thigh") not in roles or ("R", "thigh") not in roles:
        return None
    above = []
    for side in ("L", "R"):
        joint, path = int(skeleton.parents[roles[side, "thigh"][0]]), []
        while joint >= 0:
            path.append(joint)
            joint = int(skeleton.parents[joint])
        above.append(path)
    return next((joint for joint in above[0] if joint in set(above[1])), None)


def match_joints(
    source: Skeleton, target: Skeleton, names: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Match each joint of the target with the joint of the source that moves it.

    Parameters
    ----------
    source, target : Skeleton
        Skeleton of the motion, and skeleton that it is transferred to.
    names : mapping of str to str, optional
        Source joints of some target joints; they take precedence over matching by name.

    Returns
    -------
    dict of str to str
        Source joint of each matched target joint, in the target's order.
    """
    known = {target.joint(new): source.joint(old) for new, old in (names or {}).items()}
    found = dict(known)
    ours, theirs = joint_roles(target), joint_roles(source)
    for key, joints in ours.items():
        others = theirs.get(key, [])
        for place, joint in enumerate(joints if others else []):
            # Ends of chains of unequal length match: the chest drives the chest.
            share = place / (len(joints) - 1) if len(joints) > 1 else 1.0
            found.setdefault(joint, others[round(share * (len(others) - 1))])
    used = {joint for joints in theirs.values() for joint in joints} | set(found.values())
    plain: dict[tuple[str, str], int] = {}
    for joint, name in enumerate(source.names):
        if joint not in used and normalised_name(name)[1]:
            plain.setdefault(normalised_name(name), joint)
    for joint, name in enumerate(target.names):
        if joint not in found and normalised_name(name) in plain:
            found[joint] = plain[normalised_name(name)]
    _refuse_too_few(source, target, found, bool(known))
    return {target.names[joint]: source.names[found[joint]] for joint in sorted(found)}


def _refuse_too_few(
    source: Skeleton, target: Skeleton, found: Mapping[int, int], told: bool
) -> None:
    needed = 1 if told else min(5, source.n_joints, target.n_joints)
    if len(found) < needed:
        raise SuppleError(
            f"only {len(found)} of the target's {target.n_joints} joints have a match among the"
            f" source's {source.n_joints}; name them, as in"
            f' names={{"{target.names[0]}": "{source.names[0]}"}}'
        )
