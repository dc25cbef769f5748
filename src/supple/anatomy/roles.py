"""Roles of skin regions: trunk, neck, head, limbs and their ends, tails, ears, from their shape.

The trunk is where the body is thick. Whatever hangs from it is paired (limbs) or not (a neck with
its head, a tail). Names are further evidence: hard if either says so; only names of soft parts,
tails, ears, fins and the trunk itself may soften what shape takes for hard.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from supple.anatomy.part_names import joint_name_role
from supple.anatomy.skin_regions import SkinRegions
from supple.arrays import Floats
from supple.rig.motion.joint_names import normalised_name

__all__ = ["HARD", "ROLES", "RegionRole", "region_roles", "shares_of"]

#: Flesh share φ of each role: what lies deeper than φ times the thickness is bone.
ROLES = {
    "prop": 0.0,
    "horn": 0.0,
    "hand": 0.0,
    "foot": 0.0,
    "end": 0.0,
    "head": 0.15,
    "fin": 0.4,
    "forearm": 0.45,
    "shin": 0.45,
    "ear": 0.5,
    "neck": 0.6,
    "limb": 0.65,
    "tail": 0.75,
    "trunk": 0.85,
    "soft": 1.0,
}
#: Below this share nothing moves.
HARD = 0.3
#: Names that may make softer than shape says.
SOFTENING = {"soft", "tail", "ear", "fin", "trunk", "neck"}
#: Names of upper limbs, wherever along the limb they are.
UPPER = r"upper|up(leg|arm)|thigh|shoulder|femur|humerus|^(front|back)leg$"
#: Roles that a name gives to all that hangs from it.
PASSED_ON = ("head", "hand", "foot", "prop", "horn", "ear", "fin", "tail")
#: Regions at least this part as thick as the central one belong to the trunk.
TRUNK = 0.6
#: One of a pair, a shoulder or a thigh, must be this part as thick.
PAIRED_TRUNK = 0.85
#: A head is at least this part as thick as the middle of the body and has this part of its skin,
#: which the tuft of a tail has not; and is not longer than so many times its thickness.
LEAST_HEAD, LEAST_HEAD_AREA, COMPACT = 0.2, 0.02, 9.0
#: Limbs are alike whose areas, thickness and length differ by less than this factor.
ALIKE = 1.3
#: A terminal region is a head where this part of its area follows one joint alone, and it is
#: this much thicker than what carries it.
RIGID, SWOLLEN = 0.2, 1.05
#: Or of this many times its area: 1.5 (horse) to 8 (bust of a man), and below 0.8 in tails.
GROWN = 1.3
#: Ears and horns are smaller than this part of the skin each.
SMALL_PAIR = 0.04
#: The outer part of a limb, by length, is forearm or shin.
OUTER = 0.5
#: A last region that is longer than this part of its limb is no hand.
LONG_END = 0.5


@dataclass
class RegionRole:
    """Role of one region, and why."""

    role: str = "limb"
    reasons: list[str] = field(default_factory=list)

    def say(self, role: str, reason: str) -> None:
        """Give it another role."""
        self.role = role
        self.reasons.append(reason)


def region_roles(
    regions: SkinRegions, names: Sequence[str], size: float, *, use_names: bool = True
) -> list[RegionRole]:
    """Roles of all regions.

    Parameters
    ----------
    regions, size
        Of the skin, and its size in metres.
    names
        Those of all joints.
    use_names
        Whether names count, or shape alone.
    """
    own = [names[joint] for joint in regions.joints]
    if len(regions) == 1:
        return [RegionRole("trunk", ["the only region"])]
    layout = _Layout(regions, own if use_names else [""] * len(own), size)
    roles = layout.roles()
    if use_names:
        for each, name in zip(roles, own, strict=True):
            _heed_name(each, name)
        layout.settle_named(roles)
        _heads_without_skin(regions, names, roles)
    _same_on_both_sides(roles, layout)
    _something_soft(roles, layout)
    return roles


def _heads_without_skin(
    regions: SkinRegions, names: Sequence[str], roles: list[RegionRole]
) -> None:
    """Call a region a head that a head's joint without skin of its own stands in."""
    called = [joint_name_role(names[joint]) for joint in regions.joints]
    ends = [region for region, near in enumerate(regions.neighbours) if len(near) == 1]
    for region in ends if "head" not in called else ():
        if called[region] == "neck":  # the last of a neck, where nothing is called a head
            roles[region].say("head", "the end of a neck")
    for joint, region in enumerate(regions.of_joint):
        said = joint_name_role(names[joint])
        if regions.joints[region] != joint and said == "head" and roles[region].role == "neck":
            roles[region].say("head", f'has the joint "{names[joint]}" in it')


def _something_soft(roles: list[RegionRole], layout: _Layout) -> None:
    """Leave flesh to a body of hard parts only: a hand by itself, a head."""
    areas = layout.regions.areas
    soft = sum(areas[k] for k, each in enumerate(roles) if ROLES[each.role] >= HARD)
    if soft >= 0.02:
        return
    for region, each in enumerate(roles):
        thick = region in layout.trunk
        each.say("limb" if thick else "forearm", "all of the body would be hard otherwise")


def _heed_name(each: RegionRole, name: str) -> None:
    shape, plain = each.role, normalised_name(name)[1]
    said = joint_name_role(name)
    if said is None and re.match(r"trunk|proboscis", plain) and shape != "trunk":
        said = "tail"  # an elephant's
    if said is None:
        return
    if said == "limb" and shape in ("forearm", "shin", "end") and re.search(UPPER, plain):
        each.say(said, f'called "{name}"')
        return
    if said in SOFTENING and ROLES[said] > ROLES[shape]:
        # A helmet on a joint called neck is a head all the same.
        if not (said == "neck" and shape == "head"):
            each.say(said, f'called "{name}"')
    elif said != shape and (ROLES[said] <= ROLES[shape] or ROLES[said] < HARD):
        each.say(said, f'called "{name}"')


class _Layout:
    """Regions rooted at the trunk, with what hangs from it."""

    def __init__(self, regions: SkinRegions, names: Sequence[str], size: float) -> None:
        self.regions, self.names, self.twins = regions, names, regions.twins(size)
        self.called = [joint_name_role(name) for name in names]
        self.root = regions.central([called == "trunk" for called in self.called])
        self.order, self.above = regions.rooted(self.root)
        self.below: list[list[int]] = [[] for _ in range(len(regions))]
        for region in self.order:
            if self.above[region] >= 0:
                self.below[self.above[region]].append(int(region))
        self.weight = regions.areas.copy()
        for region in self.order[::-1]:
            if self.above[region] >= 0:
                self.weight[self.above[region]] += self.weight[region]
        self.sides = [normalised_name(name)[0] for name in names]
        self.trunk = self._trunk()

    def _trunk(self) -> set[int]:
        r, middle = self.regions, self.regions.radii[self.root]
        found = {self.root}
        for region in self.order:
            above = int(self.above[region])
            sided = self.twins[region] not in (-1, region) or bool(self.sides[region])
            least = (PAIRED_TRUNK if sided else TRUNK) * middle
            thick = r.narrow[region] >= least and r.borders[region, max(above, 0)] >= TRUNK * middle
            called = self.called[region]
            if above in found and (called == "trunk" or (called is None and thick)):
                found.add(int(region))
        # Both of a pair or none, and nothing that hangs from what is none.
        for region in self.order:
            twin, above = int(self.twins[region]), int(self.above[region])
            if region != self.root and ((twin >= 0 and twin not in found) or above not in found):
                found.discard(int(region))
        return found

    def subtree(self, region: int) -> list[int]:
        """The region and all that hangs from it."""
        found, at = [region], 0
        while at < len(found):
            found += self.below[found[at]]
            at += 1
        return found

    def chain(self, region: int) -> list[int]:
        """From a region outwards along what is largest."""
        found = [region]
        while self.below[found[-1]]:
            found.append(max(self.below[found[-1]], key=lambda each: self.weight[each]))
        return found

    def like(self, one: int, other: int) -> bool:
        """Return whether two regions look like left and right."""
        r = self.regions
        pairs = (
            (self.weight[one], self.weight[other]),
            (r.radii[one], r.radii[other]),
            (r.lengths[one], r.lengths[other]),
        )
        return all(max(a, b) <= ALIKE * min(a, b) for a, b in pairs)

    def paired(self, region: int, others: Sequence[int]) -> bool:
        """Return whether one of the others, or a name, makes a pair with a region."""
        if self.sides[region] or self.twins[region] not in (-1, region):
            return True
        if self.twins[region] == region:
            return False
        return any(self.like(region, other) for other in others if other != region)

    def sided_pairs(self) -> set[tuple[int, int]]:
        """Pairs of left and right: by place, and by names and depth in the tree."""
        found = {
            (min(one, int(other)), max(one, int(other)))
            for one, other in enumerate(self.twins)
            if other >= 0 and other != one
        }
        depth = np.zeros(len(self.regions), np.int64)
        for region in self.order[1:]:
            depth[region] = depth[self.above[region]] + 1
        named: dict[tuple[str, int], list[int]] = {}
        for region, name in enumerate(self.names):
            if self.sides[region]:
                plain = normalised_name(name)[1]
                named.setdefault((plain, int(depth[region])), []).append(region)
        for pair in named.values():
            if len(pair) == 2 and {self.sides[pair[0]], self.sides[pair[1]]} == {"L", "R"}:
                found.add((pair[0], pair[1]))
        return found

    def roles(self) -> list[RegionRole]:
        """Roles by shape alone, but for left and right in names."""
        roles = [RegionRole() for _ in range(len(self.regions))]
        for region in self.trunk:
            part = self.regions.radii[region] / self.regions.radii[self.root]
            roles[region].say("trunk", f"{part:.2f} as thick as the middle of the body")
        hanging = [
            region
            for trunk in self.trunk
            for region in self.below[trunk]
            if region not in self.trunk
        ]
        middle = [region for region in hanging if not self.paired(region, hanging)]
        for region in set(hanging) - set(middle):
            self._limb(region, roles)
        self._trunk_ends(roles)
        headless = not any(each.role == "head" for each in roles)
        headless &= all(self._head_of(self.chain(region)) is None for region in middle)
        for region in middle:
            self._middle(region, roles, headless)
        return roles

    def _limb(self, region: int, roles: list[RegionRole]) -> None:
        chain = self.chain(region)
        palm = next((at for at, each in enumerate(chain) if len(self.below[each]) >= 3), None)
        steps = np.cumsum(self._steps(chain))
        last = len(chain) - 1 if palm is None else palm
        reach = max(float(steps[last]), 1e-300)
        for each in self.subtree(region):
            roles[each].say("limb", "one of a pair that hangs from the trunk")
        for at, each in enumerate(chain[:last]):
            if steps[at] > OUTER * reach and at:
                roles[each].say("forearm", "the outer half of a limb")
        end = chain[last]
        long = palm is None and self.regions.lengths[end] > LONG_END * (
            reach + 0.5 * self.regions.lengths[end]
        )
        if long:
            roles[end].say("forearm", "the last of a limb, and long")
            return
        for each in self.subtree(end):
            roles[each].say("end", "the end of a limb" if palm is None else "a palm with fingers")

    def _steps(self, chain: Sequence[int]) -> Floats:
        centres = self.regions.centres[np.asarray(chain, np.int64)]
        return np.concatenate([[0.0], np.linalg.norm(np.diff(centres, axis=0), axis=1)])

    def _middle(self, region: int, roles: list[RegionRole], blunt: bool) -> None:
        """A neck with its head, a tail, or an end."""
        chain, r = self.chain(region), self.regions
        head = self._head_of(chain, blunt)
        if head is not None:
            for each in chain[:head]:
                roles[each].say("neck", "leads to a head")
            for each in self.subtree(chain[head]):
                roles[each].say("head", "unpaired, rigid and thicker than what carries it")
            self._ears(chain[head], roles)
            return
        role = "tail" if len(chain) >= 3 else "end"
        why = f"an unpaired chain of {len(chain)}"
        if len(chain) < 3 and r.radii[region] >= 0.5 * TRUNK * r.radii[self.root]:
            role, why = "trunk", "unpaired, short and thick"
        for each in self.subtree(region):
            roles[each].say(role, why)

    def _head_of(self, chain: Sequence[int], blunt: bool = False) -> int | None:
        """Place of the head in a chain: rigid, and larger or thicker than what carries it.

        A tail ends thin and small. Where a body has no such head, a `blunt` end is one.
        """
        r = self.regions
        for at, region in enumerate(chain):
            before = int(self.above[region])
            thick = r.radii[region] >= LEAST_HEAD * r.radii[self.root]
            compact = r.lengths[region] < COMPACT * r.radii[region]
            if not (r.rigid[region] >= RIGID and r.areas[region] >= LEAST_HEAD_AREA):
                continue
            swells = at > 0 and r.radii[region] > SWOLLEN * r.radii[before]
            grows = r.areas[region] > GROWN * r.areas[before]
            ends = at == len(chain) - 1 and r.radii[region] > 0.6 * r.radii[chain[0]]
            if self._pairs_below(region) or (thick and compact and (swells or grows)):
                return at
            if blunt and thick and ends:
                return at
        return None

    def _pairs_below(self, region: int) -> bool:
        below = self.below[region]
        return len(below) >= 2 and any(self.paired(each, below) for each in below)

    def _ears(self, head: int, roles: list[RegionRole]) -> None:
        """Thin chains of two or more joints that hang from a head in pairs."""
        for each in self.below[head]:
            thin = self.regions.radii[each] < 0.5 * self.regions.radii[head]
            if thin and len(self.chain(each)) >= 2 and self.paired(each, self.below[head]):
                for one in self.subtree(each):
                    roles[one].say("ear", "a thin pair of chains on a head")

    def _trunk_ends(self, roles: list[RegionRole]) -> None:
        """Heads that are as thick as the trunk: unpaired, terminal and rigid."""
        r = self.regions
        leaves = [each for each in self.trunk if not (set(self.below[each]) & self.trunk)]
        for each in leaves:
            alone = each != self.root and not any(
                len(self.chain(below)) >= 2 and not self._small_pair(below, each)
                for below in self.below[each]
            )
            if alone and r.rigid[each] >= RIGID and not self.paired(each, leaves):
                roles[each].say("head", "the rigid end of the trunk, unpaired")
                for below in self.below[each]:
                    for one in self.subtree(below):
                        roles[one].say("head", "hangs from a head")
                self._ears(each, roles)

    def _small_pair(self, region: int, carrier: int) -> bool:
        """Return whether a region is one of two ears or horns rather than of two legs."""
        return self.weight[region] < SMALL_PAIR and self.paired(region, self.below[carrier])

    def settle_named(self, roles: list[RegionRole]) -> None:
        """Let what hangs from a named head, hand or ear and has no name of its own be one too."""
        for region in self.order[1:]:
            above = int(self.above[region])
            carrier, each = roles[above].role, roles[region]
            named = carrier in PASSED_ON and self.called[above] == carrier
            if named and self.called[region] is None and carrier != each.role:
                each.say(carrier, f'hangs from "{self.names[above]}"')


def _same_on_both_sides(roles: list[RegionRole], layout: _Layout) -> None:
    """Give left and right the same role: the harder one."""
    for one, other in sorted(layout.sided_pairs()):
        if roles[one].role != roles[other].role:
            soft, hard = sorted((one, other), key=lambda each: -ROLES[roles[each].role])
            roles[soft].say(roles[hard].role, "as on the other side")


def shares_of(roles: Sequence[RegionRole]) -> Floats:
    """(k,) flesh share of each region."""
    return np.array([ROLES[each.role] for each in roles])
