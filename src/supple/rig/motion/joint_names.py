"""Body parts from joint names, and matching of the joints of two skeletons."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from supple.errors import SuppleError
from supple.rig.skeleton.joints import Skeleton

SIDES = {"left": "L", "l": "L", "lf": "L", "right": "R", "r": "R", "rt": "R"}
#: Prefixes and suffixes of rigging tools, which do not name a joint.
NOISE = re.compile(
    "mixamo(rig)?|bip(ed)?|valve(biped)?|armature|character|skel(eton)?|rig|def|org|mch|jnt|joint"
    "|bone|bn|cc|base|ctrl|bind|sk|j|b|c|m"
)
#: Names of each body part, in order of preference.
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
#: Roles on the body's centre line, and roles that a chain of joints may have.
MIDDLE = {"hips", "spine", "neck", "head"}
CHAINS = ("spine", "neck")


def normalised_name(name: str) -> tuple[str, str]:
    """Return the side ("L", "R" or "") and the normalised name of a joint.

    >>> normalised_name("mixamorig:LeftForeArm"), normalised_name("lower_arm.R")
    (('L', 'forearm'), ('R', 'lowerarm'))
    >>> normalised_name("Bip01 L UpperArm"), normalised_name("upperarm01.L")
    (('L', 'upperarm'), ('L', 'upperarm1'))
    """
    base_name = re.split(r"[:|/]", name)[-1]
    tokens = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", base_name)
    side = ""
    parts: list[str] = []
    is_part = False
    for token in (token.lower() for token in tokens):
        prefixed = re.fullmatch(r"(left|right)(.+)", token)
        if prefixed and not side:
            side, token = SIDES[prefixed[1]], prefixed[2]
        if token in SIDES and not side:
            side = SIDES[token]
        elif token.isdigit():
            if is_part and int(token) > 0:
                parts.append(str(int(token)))
        else:
            # A number after a tool's prefix ("Bip01") is part of that prefix.
            is_part = not NOISE.fullmatch(token)
            parts += [token] if is_part else []
    return side, "".join(parts)


def joint_roles(skeleton: Skeleton) -> dict[tuple[str, str], list[int]]:
    """Return the joints of each (side, role), topmost first; several for chains."""
    named: dict[tuple[str, str], list[int]] = {}
    for joint, name in enumerate(skeleton.names):
        side, base_name = normalised_name(name)
        named.setdefault((side, base_name.rstrip("0123456789")), []).append(joint)

    def order(joint: int) -> tuple[bool, int, int]:
        # Helper joints such as "__UpLeg_L" sort after the joint itself.
        return skeleton.names[joint].startswith("_"), len(skeleton.ancestors(joint)), joint

    roles: dict[tuple[str, str], list[int]] = {}
    taken: set[int] = set()
    for side in ("", "L", "R"):
        for role, aliases in _roles_by_preference(side):
            if (side, role) in roles and role not in CHAINS:
                continue
            for alias in aliases:
                joints = [joint for joint in named.get((side, alias), []) if joint not in taken]
                if joints:
                    joints.sort(key=order)
                    joints = joints if role in CHAINS else joints[:1]
                    roles.setdefault((side, role), []).extend(joints)
                    taken.update(joints)
    for key in roles:
        roles[key].sort(key=order)
    if ("", "hips") not in roles:
        hips = _common_ancestor(skeleton, roles)
        if hips is not None and hips not in taken:
            roles["", "hips"] = [hips]
    return roles


def _roles_by_preference(side: str) -> Iterable[tuple[str, tuple[str, ...]]]:
    """Yield each role of a side with one alias at a time, preferred aliases first."""
    roles = {role: names for role, names in ALIASES.items() if (role in MIDDLE) == (side == "")}
    for rank in range(max(map(len, roles.values()))):
        for role, names in roles.items():
            if rank < len(names):
                yield role, names[rank : rank + 1]


def _common_ancestor(skeleton: Skeleton, roles: Mapping[tuple[str, str], list[int]]) -> int | None:
    """Return the lowest joint above both thighs, or None."""
    if ("L", "thigh") not in roles or ("R", "thigh") not in roles:
        return None
    left, right = (skeleton.ancestors(roles[side, "thigh"][0]) for side in ("L", "R"))
    return next((joint for joint in left if joint in right), None)


def match_joints(
    source: Skeleton, target: Skeleton, names: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Match each joint of the target with the joint of the source that moves it.

    Parameters
    ----------
    source, target : Skeleton
        Skeleton of the motion, and skeleton that it is transferred to.
    names : mapping of str to str, optional
        Source joint of each listed target joint; it takes precedence over matching by name.

    Returns
    -------
    dict of str to str
        Source joint of each matched target joint, in the target's order.
    """
    given_matches = {target.joint(new): source.joint(old) for new, old in (names or {}).items()}
    matches = dict(given_matches)
    target_roles, source_roles = joint_roles(target), joint_roles(source)
    for key, joints in target_roles.items():
        source_joints = source_roles.get(key, [])
        for index, joint in enumerate(joints if source_joints else []):
            # The ends of chains of unequal length correspond: chest to chest.
            fraction = index / (len(joints) - 1) if len(joints) > 1 else 1.0
            matches.setdefault(joint, source_joints[round(fraction * (len(source_joints) - 1))])
    used = {joint for joints in source_roles.values() for joint in joints} | set(matches.values())
    unmatched_sources: dict[tuple[str, str], int] = {}
    for joint, name in enumerate(source.names):
        if joint not in used and normalised_name(name)[1]:
            unmatched_sources.setdefault(normalised_name(name), joint)
    for joint, name in enumerate(target.names):
        if joint not in matches and normalised_name(name) in unmatched_sources:
            matches[joint] = unmatched_sources[normalised_name(name)]
    _check_match_count(source, target, matches, bool(given_matches))
    return {target.names[joint]: source.names[matches[joint]] for joint in sorted(matches)}


def _check_match_count(
    source: Skeleton, target: Skeleton, matches: Mapping[int, int], has_names: bool
) -> None:
    needed = 1 if has_names else min(5, source.n_joints, target.n_joints)
    if len(matches) < needed:
        counts = f"{len(matches)} of the target's {target.n_joints} joints have a match among"
        example = f'names={{"{target.names[0]}": "{source.names[0]}"}}'
        raise SuppleError(
            f"only {counts} the source's {source.n_joints}; name them, as in {example}"
        )
