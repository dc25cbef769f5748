"""Roles of regions of the skin: the body's layout, and names of joints as further evidence.

A region is hard if either indicates it. Only names of soft parts, tails, ears, fins and the trunk
override a hard shape.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import numpy as np

from supple.anatomy.body_layout import PALM, BodyLayout
from supple.anatomy.part_names import joint_name_role
from supple.anatomy.roles import HARD, ROLES, RegionRole
from supple.anatomy.skin_regions import SkinRegions
from supple.arrays import Bools, Ints
from supple.rig.motion.joint_names import normalised_name

#: Roles by name that override a harder role by shape.
SOFTENING = {"soft", "tail", "ear", "fin", "trunk", "neck"}
#: Names of upper limbs, at any position along the limb.
UPPER = r"upper|up(leg|arm)|thigh|shoulder|femur|humerus|^(front|back)leg$"
#: Least part of soft skin of a body: a hand or a head alone has flesh, too.
LEAST_SOFT = 0.02
#: Roles that a name gives to all regions below.
PASSED_ON = ("head", "hand", "foot", "prop", "horn", "ear", "fin", "tail")


def region_roles(
    regions: SkinRegions,
    names: Sequence[str],
    *,
    use_names: bool = True,
    small_parts: Ints | None = None,
    ears: Collection[int] = (),
    rigid: Bools | None = None,
) -> list[RegionRole]:
    """Return the roles of all regions, from shape and, with `use_names`, the names of all joints.

    `small_parts` (k,) counts small loose components of each region, such as eyes and teeth; `ears`
    are regions with ears or horns without joints. `rigid` (k,) masks the rigid regions of a
    machine, whose other regions are rubber.
    """
    if rigid is not None:
        kinds = (("forearm", "bends, on a machine"), ("prop", "a rigid piece of a machine"))
        return [RegionRole(role, [why]) for role, why in (kinds[int(each)] for each in rigid)]
    region_names = [names[joint] for joint in regions.joints]
    if len(regions) == 1:
        named_role = joint_name_role(region_names[0]) if use_names else None
        if named_role is not None and ROLES[named_role] < HARD:
            return [RegionRole(named_role, [f'the only region, called "{region_names[0]}"'], PALM)]
        return [RegionRole("trunk", ["the only region"])]
    small = np.zeros(len(regions), np.int64) if small_parts is None else small_parts
    unnamed = [""] * len(regions)
    layout = BodyLayout(regions, region_names if use_names else unnamed, small, ears)
    roles = layout.roles()
    if use_names:
        for each, name in zip(roles, region_names, strict=True):
            _apply_name(each, name)
        _inherit_named_roles(layout, roles)
        _heads_without_skin(regions, names, roles)
    _same_on_both_sides(roles, layout)
    if sum(regions.areas[k] for k, each in enumerate(roles) if each.share >= HARD) < LEAST_SOFT:
        for each in roles:
            each.reasons.append("all of the body would be hard otherwise")
        BodyLayout(regions, unnamed, small, ears).leave_flesh(roles)
    return roles


def _heads_without_skin(
    regions: SkinRegions, names: Sequence[str], roles: list[RegionRole]
) -> None:
    """Make a region a head if it contains a head's joint without skin."""
    called = [joint_name_role(names[joint]) for joint in regions.joints]
    ends = [region for region, near in enumerate(regions.neighbours) if len(near) == 1]
    for region in ends if "head" not in called else ():
        if called[region] == "neck":  # the last region of a neck if nothing is named head
            roles[region].say("head", "the end of a neck")
    for joint, region in enumerate(regions.of_joint):
        named_head = regions.joints[region] != joint and joint_name_role(names[joint]) == "head"
        if named_head and roles[region].role == "neck":
            roles[region].say("head", f'contains the joint "{names[joint]}"')


def _apply_name(each: RegionRole, name: str) -> None:
    """Replace the role by shape where the joint's name takes precedence."""
    shape, plain = each.role, normalised_name(name)[1]
    role = joint_name_role(name)
    if role is None and re.match(r"trunk|proboscis", plain) and shape != "trunk":
        role = "tail"  # an elephant's trunk
    if role is None:
        return
    upper = role == "limb" and shape in ("forearm", "shin", "end") and re.search(UPPER, plain)
    if upper or (role in ("forearm", "shin") and shape == "end"):
        replaces = True
    elif role in SOFTENING and ROLES[role] > ROLES[shape]:
        # A helmet on a joint named neck is a head, and Rigify's head is the last spine.
        replaces = not (shape == "head" and re.match("neck|spine", plain))
    else:
        replaces = role != shape and (ROLES[role] <= ROLES[shape] or ROLES[role] < HARD)
    if replaces:
        each.say(role, f'called "{name}"')


def _inherit_named_roles(layout: BodyLayout, roles: list[RegionRole]) -> None:
    """Give unnamed regions below a named head, hand or ear its role."""
    for region in layout.order[1:]:
        above = int(layout.above[region])
        carrier, each = roles[above].role, roles[region]
        named = carrier in PASSED_ON and layout.called[above] == carrier
        if named and layout.called[region] is None and carrier != each.role:
            each.say(carrier, f'hangs from "{layout.names[above]}"')


def _same_on_both_sides(roles: list[RegionRole], layout: BodyLayout) -> None:
    """Give left and right the same role: the harder one."""
    for one, other in sorted(layout.sided_pairs()):
        if roles[one].role != roles[other].role:
            soft, hard = sorted((one, other), key=lambda each: -ROLES[roles[each].role])
            roles[soft].say(roles[hard].role, "as on the other side")
