"""Roles of regions: the body's layout, and names of joints as further evidence.

A region is hard if either indicates it. Only names of soft parts, tails, ears, fins and the trunk
override a hard shape. Names that the shape contradicts do not count.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from supple.anatomy.body_layout import PALM, SMALL_PAIR, BodyLayout
from supple.anatomy.loose_parts import paired_regions
from supple.anatomy.roles import HARD, ROLES, RegionRole
from supple.anatomy.skin_maps import MeasuredSkin
from supple.rig.motion.joint_names import normalised_name

#: Roles by name that override a harder role by shape.
SOFTENING = {"soft", "tail", "ear", "fin", "trunk", "neck"}
#: Names of upper limbs, at any position along the limb.
UPPER = r"upper|up(leg|arm)|thigh|shoulder|femur|humerus|^(front|back)leg$"
#: Least fraction of a body's skin that is soft: a hand or a head alone has flesh, too.
LEAST_SOFT = 0.02
#: Roles that a named region passes on to all regions below it.
PASSED_ON = ("head", "hand", "foot", "prop", "horn", "ear", "fin", "tail")


#: Share of flesh of bending parts of a jointed figure, before `SkinMaps` bounds it.
BENDS = 0.45
#: Name roles that contradict the middle of a body with limbs, and those of a limb's parts.
NO_MIDDLE = ("hand", "foot", "forearm", "shin", "limb", "ear", "horn", "head")
ENDS = ("hand", "foot")
LIMB_PARTS = ("limb", "forearm", "shin")
#: Part of the named regions whose names the shape contradicts, from which no name counts.
MOST_DOUBTED = 1 / 3


def region_roles(skin: MeasuredSkin, use_names: bool) -> list[RegionRole]:
    """Return the roles of all regions, from shape and, with `use_names`, joints' names."""
    regions = skin.regions
    names = [skin.names[joint] for joint in regions.joints]
    named = [skin.name_roles[joint] if use_names else None for joint in regions.joints]
    if len(regions) == 1:
        if named[0] is not None and ROLES[named[0]] < HARD:
            return [RegionRole(named[0], [f'the only region, called "{names[0]}"'], PALM)]
        return [RegionRole("trunk", ["the only region"])]
    small, ears = skin.pieces.small_on(regions), paired_regions(skin.outgrowths)
    shape = BodyLayout(regions, [""] * len(regions), [None] * len(regions), small, ears)
    layout, doubts = shape, {}
    if use_names:
        doubts = _doubted_names(shape, names, named)
        believed = ["" if region in doubts else name for region, name in enumerate(names)]
        named = [None if region in doubts else role for region, role in enumerate(named)]
        layout = BodyLayout(regions, believed, named, small, ears)
    rigid = skin.pieces.rigid_regions(regions)
    if rigid is not None:
        return [_piece(*each) for each in zip(names, named, rigid.tolist(), strict=True)]
    roles = layout.roles()
    if use_names:
        for region, each in enumerate(roles):
            each.reasons[:0] = [doubts[region]] if region in doubts else []
            if region not in doubts:
                _apply_name(each, names[region], named[region])
        _inherit_named_roles(layout, roles)
        _heads_without_skin(skin, named, roles)
    _same_on_both_sides(roles, layout)
    if sum(regions.areas[k] for k, each in enumerate(roles) if each.share >= HARD) < LEAST_SOFT:
        for each in roles:
            each.reasons.append("all of the body would be hard otherwise")
        shape.leave_flesh(roles)
    return roles


def _piece(name: str, named: str | None, rigid: bool) -> RegionRole:
    """Return the role of a region of a jointed figure, in which rigid pieces are hard."""
    share = 0.0 if rigid else BENDS
    why = "a rigid piece of a jointed figure" if rigid else "bends, on a jointed figure"
    if named is not None:
        return RegionRole(named, [f'called "{name}"', why], share)
    return RegionRole("prop" if rigid else "limb", [why], share)


def _doubted_names(
    shape: BodyLayout, names: Sequence[str], named: Sequence[str | None]
) -> dict[int, str]:
    """Return reasons, by region, why a region's shape takes precedence over its name.

    `named` (k,) are the roles by name. The shape contradicts the name of a region that is one of a
    pair and is called spine, is in the middle of the body and is called a part of a limb, is called
    hand and lies between the trunk and a forearm, or differs in name from its twin. If the shape
    contradicts many names, no name counts.
    """
    r, reasons = shape.regions, {}
    for region, role in enumerate(named):
        if role is None:
            continue
        twin, sided = int(r.twins[region]), normalised_name(names[region])[0]
        middle, paired = twin == region, twin >= 0 and r.sides[region] != 0
        limbs = [each for each in shape.limbs if shape.above[each] == region]
        large = sum(shape.weight[each] > SMALL_PAIR and r.twins[each] >= 0 for each in limbs)
        if role == "trunk" and not sided and paired and region not in shape.trunk:
            reasons[region] = "it is one of a pair outside the trunk"
        elif role in NO_MIDDLE and region == shape.root and not r.sides[region] and large >= 2:
            reasons[region] = "it is the middle of a body with limbs"
        elif role in (*LIMB_PARTS, *ENDS) and sided and middle and shape.limbs:
            reasons[region] = "it is in the middle, not on one side"
        elif paired and named[twin] not in (None, role, "prop") and role != "prop":
            reasons[region] = f'the same part on the other side is called "{names[twin]}"'
    for limb in shape.limbs:
        inside = shape.subtree(limb)
        ends = [each for each in inside if named[each] in ENDS]
        inner = {k for k in inside if _is_inner(names[k], named[k])}
        if any(not inner.isdisjoint(shape.subtree(each)) for each in ends):
            reasons |= dict.fromkeys(inside, "the names of its limb are in another order")
    all_named = [region for region, role in enumerate(named) if role is not None]
    if len(reasons) > MOST_DOUBTED * len(all_named):
        reasons = dict.fromkeys(all_named, "the names fit another body")
    return {
        region: f'the shape decides, not the name "{names[region]}" ({named[region]}): {why}'
        for region, why in reasons.items()
        if named[region] is not None
    }


def _is_inner(name: str, role: str | None) -> bool:
    """Return whether a name means the upper or the lower part of a limb."""
    upper = role == "limb" and re.search(UPPER, normalised_name(name)[1])
    return role in ("forearm", "shin") or bool(upper)


def _heads_without_skin(
    skin: MeasuredSkin, name_roles: Sequence[str | None], roles: list[RegionRole]
) -> None:
    """Make a neck a head if it contains a joint named head that has no region.

    If no region is named head, regions named neck at the end of the tree become heads.
    """
    regions = skin.regions
    ends = [region for region, near in enumerate(regions.neighbours) if len(near) == 1]
    for region in ends if "head" not in name_roles else ():
        if name_roles[region] == "neck":  # the last region of a neck if nothing is named head
            roles[region].assign("head", "the end of a neck")
    for joint, region in enumerate(regions.of_joint):
        named_head = regions.joints[region] != joint and skin.name_roles[joint] == "head"
        if named_head and roles[region].role == "neck":
            roles[region].assign("head", f'contains the joint "{skin.names[joint]}"')


def _apply_name(each: RegionRole, name: str, role: str | None) -> None:
    """Replace a region's role, found from its shape, where that of its name takes precedence."""
    shape, plain = each.role, normalised_name(name)[1]
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
        each.assign(role, f'called "{name}"')


def _inherit_named_roles(layout: BodyLayout, roles: list[RegionRole]) -> None:
    """Give regions without a known name the role of the named head, hand or ear above them."""
    for region in layout.order[1:]:
        above = int(layout.above[region])
        carrier, each = roles[above].role, roles[region]
        named = carrier in PASSED_ON and layout.name_roles[above] == carrier
        if named and layout.name_roles[region] is None and carrier != each.role:
            each.assign(carrier, f'hangs from "{layout.names[above]}"')


def _same_on_both_sides(roles: list[RegionRole], layout: BodyLayout) -> None:
    """Give left and right the same role: the harder one."""
    for one, other in sorted(layout.sided_pairs()):
        if roles[one].role != roles[other].role:
            soft, hard = sorted((one, other), key=lambda each: -ROLES[roles[each].role])
            roles[soft].assign(roles[hard].role, "as on the other side")
