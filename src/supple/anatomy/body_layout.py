"""Layout of a body: trunk, neck, head, limbs and their ends, tails and ears, from their shape.

Regions in the middle of a body are trunk where they are thick or have limbs. Pairs of chains from
the trunk are limbs, ears or horns; single chains are a neck with its head, or a tail.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from supple.anatomy.roles import RegionRole
from supple.anatomy.skin_regions import SkinRegions
from supple.arrays import Floats, Ints
from supple.rig.motion.joint_names import normalised_name

#: Regions whose thickness is at least this fraction of the central one's belong to the trunk.
TRUNK = 0.6
#: The same for one of a pair, such as a shoulder or a thigh.
PAIRED_TRUNK = 0.85
#: The same for regions with limbs.
CARRYING_TRUNK = 0.4
#: Largest ratio of the areas, thicknesses and lengths of two similar limbs.
ALIKE = 1.3
#: Bounds of a head: least thickness relative to the middle of the body; least fraction of the skin,
#: which excludes the tuft of a tail; and largest length relative to its thickness.
LEAST_HEAD, LEAST_HEAD_AREA, COMPACT = 0.2, 0.02, 8.5
#: Evidence for a head: the fraction of its area that follows one joint alone; its thickness and
#: area relative to the region that carries it. Areas are 1.5 (horse) to 8 (bust of a man) times as
#: large, below 0.8 in tails.
RIGID, SWOLLEN, GROWN = 0.2, 1.05, 1.3
#: Largest thickness of a tail's end relative to its root: with three or more regions, and with two.
TAPERED, TAPERED_SOON = 0.5, 0.25
#: Least evidence for a head; the second applies to bodies with limbs and no other candidate.
SURE, LIKELY = 3, 2
#: Upper bounds of an ear or a horn: fraction of the skin, and thickness of the tip relative to the
#: region that carries it.
SMALL_PAIR, THIN_TIP = 0.025, 0.2
#: Fractions of a limb's length: beyond the elbow or knee; beyond the wrist or ankle; and of the
#: longest last region that is a hand or foot.
OUTER, END, LONG_END = 0.66, 0.33, 0.5
#: A branch of a limb with at least this fraction of the longest reach ends in a hand or foot.
FAR = 0.8
#: Limbs with this many times the skin of a rod of their length and thickness are wings or fins.
FLAT = 3.0
#: A hand has this many fingers, whose thickness and length differ by less than this factor.
FINGERS, LIKE_FINGERS = 4, 3.0
#: Largest fraction of the skin that the stump of a hand without a body has.
MOST_STUMP = 0.35
#: Flesh share of the thick and the thin parts of a hand or a head without a body.
PALM, FINGER = 0.5, 0.4


class BodyLayout:
    """Tree of regions, rooted at the trunk; finds the role of each region.

    `names` (k,) are the joints' names, "" for ignored names, and `name_roles` the roles they
    indicate. `small` (k,) counts small components on each region, such as eyes; `ears` are the
    regions with paired outgrowths. `above` (k,) is the parent of each region, `below` are its
    children, and `weight` (k,) is the part of the skin's area in its subtree.
    """

    def __init__(
        self,
        regions: SkinRegions,
        names: Sequence[str],
        name_roles: Sequence[str | None],
        small: Ints,
        ears: Collection[int],
    ) -> None:
        self.regions, self.names, self.small, self.ears = regions, names, small, set(ears)
        self.name_roles = name_roles
        self.name_sides = [normalised_name(name)[0] for name in names]
        self._root_at(regions.central([role == "trunk" for role in self.name_roles]))
        while (inner := self._towards_limbs()) is not None:
            self._root_at(inner)
        self.trunk = self._trunk()

    def _root_at(self, root: int) -> None:
        """Root the tree of all regions at `root`; set parents, children, areas, sides and limbs."""
        regions = self.regions
        self.root = root
        self.order, self.above = regions.rooted(root)
        self.below: list[list[int]] = [[] for _ in range(len(regions))]
        for region in self.order[1:]:
            self.below[self.above[region]].append(int(region))
        self.weight = regions.areas.copy()
        for region in self.order[:0:-1]:
            self.weight[self.above[region]] += self.weight[region]
        self.sided = [self._is_sided(region) for region in range(len(regions))]
        self.limbs = [int(region) for region in self.order if self._begins_limb(int(region))]

    def _towards_limbs(self) -> int | None:
        """Return the root's child with all large limbs in its subtree; None if there is none."""
        large = {each for each in self.limbs if self.weight[each] > SMALL_PAIR}
        if not large or self.sided[self.root] or not large.isdisjoint(self.below[self.root]):
            return None
        for each in self.below[self.root]:
            if large <= set(self.subtree(each)) and not self.sided[each]:
                return each
        return None

    def _is_sided(self, region: int) -> bool:
        """Return whether a region is one of a pair, by position, name or a similar region."""
        if self.regions.sides[region] or self.name_sides[region]:
            return True
        if self.regions.twins[region] == region or (self.regions.twins >= 0).any():
            return False
        beside = self.below[self.above[region]] if region != self.root else []
        return any(self.like(region, other) for other in beside if other != region)

    def like(self, one: int, other: int) -> bool:
        """Return whether two regions are similar in area of the subtree, thickness and length."""
        measures = (self.weight, self.regions.radii, self.regions.lengths)
        pairs = [(values[one], values[other]) for values in measures]
        return all(max(a, b) <= ALIKE * min(a, b) for a, b in pairs)

    def _begins_limb(self, region: int) -> bool:
        """Return whether a region begins an arm or a leg, rather than an ear or a horn."""
        if region == self.root or not self.sided[region] or self.sided[self.above[region]]:
            return False
        radii = self.regions.radii
        tip = min(radii[each] for each in self.subtree(region))
        small = self.weight[region] < SMALL_PAIR
        return not (small and tip < THIN_TIP * radii[self.above[region]])

    def _trunk(self) -> set[int]:
        r, middle = self.regions, self.regions.radii[self.root]
        trunk = {self.root}
        carrying = {int(self.above[limb]) for limb in self.limbs}
        for region in self.order[1:]:
            above = int(self.above[region])
            border = r.borders[region, above] >= TRUNK * middle
            paired = r.sides[region] or self.name_sides[region]
            least = (PAIRED_TRUNK if paired else TRUNK) * middle
            thick = r.narrow[region] >= least and border
            carries = not self.sided[region] and not carrying.isdisjoint(self.subtree(int(region)))
            thick |= carries and border and r.radii[region] >= CARRYING_TRUNK * middle
            role = self.name_roles[region]
            if above in trunk and (role == "trunk" or (role is None and thick)):
                trunk.add(int(region))
        # Remove regions whose twin or parent is not in the trunk.
        for region in self.order[1:]:
            twin, above = int(r.twins[region]), int(self.above[region])
            if (twin >= 0 and twin not in trunk) or above not in trunk:
                trunk.discard(int(region))
        return trunk

    def subtree(self, region: int) -> list[int]:
        """Return a region and all regions below it, parents first."""
        regions = [region]
        for each in regions:  # grows while it is traversed
            regions += self.below[each]
        return regions

    def chain(self, region: int) -> list[int]:
        """Return the chain from a region outwards, along the largest children."""
        chain = [region]
        while self.below[chain[-1]]:
            chain.append(max(self.below[chain[-1]], key=lambda each: self.weight[each]))
        return chain

    def sided_pairs(self) -> set[tuple[int, int]]:
        """Return pairs of left and right regions, by position, or names and depth in the tree."""
        pairs = {
            (min(one, int(other)), max(one, int(other)))
            for one, other in enumerate(self.regions.twins)
            if other >= 0 and other != one
        }
        depth = np.zeros(len(self.regions), np.int64)
        for region in self.order[1:]:
            depth[region] = depth[self.above[region]] + 1
        named: dict[tuple[str, int], list[int]] = {}
        for region, name in enumerate(self.names):
            if self.name_sides[region]:
                plain = normalised_name(name)[1]
                named.setdefault((plain, int(depth[region])), []).append(region)
        for pair in named.values():
            sides = {self.name_sides[each] for each in pair}
            if len(pair) == 2 and sides == {"L", "R"}:
                pairs.add((pair[0], pair[1]))
        return pairs

    def roles(self) -> list[RegionRole]:
        """Return the roles of regions by shape; the names only distinguish left and right."""
        roles = [RegionRole() for _ in range(len(self.regions))]
        for region in self.trunk:
            part = self.regions.radii[region] / self.regions.radii[self.root]
            roles[region].assign("trunk", f"{part:.2f} times as thick as the middle of the body")
        hanging = [each for trunk in self.trunk for each in self.below[trunk]]
        for region in hanging:
            if region not in self.trunk:
                (self._limb if self.sided[region] else self._tail)(region, roles)
        if self._is_hand():
            for each in roles:
                each.assign("hand", "without a body, with fingers")
            return roles
        for head in self._heads():
            self._head(head, roles)
        return roles

    def leave_flesh(self, roles: list[RegionRole]) -> None:
        """Set shares of flesh for a hand or a head without a body; 0 at a hand's stump."""
        for region, each in enumerate(roles):
            each.own_share = PALM if region in self.trunk else FINGER
        fingers = self._fingers()
        if len(fingers) < FINGERS:
            return
        tips = np.mean([self.regions.tip(each, self._gate(each)) for each in fingers], axis=0)
        distances = np.linalg.norm(self.regions.centres - tips, axis=1)
        stump = max(self.trunk, key=lambda each: distances[each])
        if roles[stump].role == "hand" and self.regions.areas[stump] < MOST_STUMP:
            roles[stump].own_share = 0.0
            roles[stump].reasons.append("where it was cut off")

    def _fingers(self) -> list[int]:
        """Return the last regions of chains of two or more regions outside the trunk."""
        leaves = [region for region, below in enumerate(self.below) if not below]
        inner = self.trunk
        return [each for each in leaves if not inner & {each, int(self.above[each])}]

    def _is_hand(self) -> bool:
        """Return whether a body without two sides is a hand: its limbs are similar fingers."""
        fingers = self._fingers()
        if self.regions.sides.any() or len(fingers) < FINGERS:
            return False
        outer = [each for each in range(len(self.regions)) if each not in self.trunk]
        thick = self.regions.radii[np.array(fingers)]
        long = [float(self._reach(self._outside_trunk(each)[::-1])[0]) for each in fingers]
        slender = self.regions.radii[np.array(outer)].max() < self.regions.radii[self.root]
        alike = thick.max() < LIKE_FINGERS * thick.min() and max(long) < LIKE_FINGERS * min(long)
        return bool(slender and alike)

    def _outside_trunk(self, region: int) -> list[int]:
        """Return the path from a region inwards to the trunk, without regions of the trunk."""
        path = []
        while region >= 0 and region not in self.trunk:
            path.append(region)
            region = int(self.above[region])
        return path

    def _gate(self, region: int) -> Floats:
        gate: Floats = self.regions.gates[region, max(int(self.above[region]), 0)]
        return gate

    def _limb(self, region: int, roles: list[RegionRole]) -> None:
        """Assign roles along an arm, a leg or a wing."""
        limb = self.subtree(region)
        for each in limb:
            roles[each].assign("limb", "one of a pair that hangs from the trunk")
        leaves = {each: self._path(region, each) for each in limb if not self.below[each]}
        reach = {leaf: self._reach(path) for leaf, path in leaves.items()}
        longest = max(float(each[0]) for each in reach.values())
        if self._is_flat(limb, longest):
            for each in limb:
                roles[each].assign("fin", "flat, and one of a pair")
            return
        for leaf, path in leaves.items():
            if reach[leaf][0] >= FAR * longest:
                self._end(path, reach[leaf] / max(float(reach[leaf][0]), 1e-300), roles)

    def _path(self, first: int, leaf: int) -> list[int]:
        """Return the regions of a limb, from its start, which may lie above `first`, to `leaf`."""
        inwards = [leaf]
        while inwards[-1] != first:
            inwards.append(int(self.above[inwards[-1]]))
        above = int(self.above[first])
        while above >= 0 and self.sided[above]:
            inwards.append(above)
            above = int(self.above[above])
        r, path = self.regions, inwards[::-1]
        for at in range(len(path) - 1, 0, -1):
            # The limb begins where the path crosses sides, or runs against the hierarchy.
            crosses = r.sides[path[at - 1]] != r.sides[leaf]
            if crosses or r.carries[path[at], path[at - 1]]:
                return path[at:]
        return path

    def _reach(self, path: Sequence[int]) -> Floats:
        """Return distances (m,) along a path, from each region's inner border to the last tip."""
        r = self.regions
        places = [self._gate(each) for each in path]
        places.append(r.tip(path[-1], places[-1]))
        steps = np.linalg.norm(np.diff(np.array(places), axis=0), axis=1)
        distances: Floats = np.cumsum(steps[::-1])[::-1]
        return distances

    def _is_flat(self, limb: Sequence[int], length: float) -> bool:
        r = self.regions
        areas = r.areas[np.asarray(limb)]
        thick = float(np.average(r.radii[np.asarray(limb)], weights=areas))
        return float(areas.sum()) * r.total_area > FLAT * 2 * np.pi * thick * max(length, 1e-9)

    def _end(self, path: Sequence[int], left: Floats, roles: list[RegionRole]) -> None:
        """Assign roles to the outer regions of a limb.

        `left` (m,) is the fraction of the limb's length beyond the start of each region.
        """
        r = self.regions
        if any(r.carries[path[-1], each] for each in path[:-1]):
            return  # a hip below its own thigh
        palms = [
            each
            for each in path
            if sum(not r.carries[below, each] for below in self.below[each]) >= 3
        ]
        for at, each in enumerate(path):
            if left[at] < OUTER and each not in self.trunk:
                roles[each].assign("forearm", "the outer half of a limb")
        if palms:
            for each in self.subtree(palms[0]):
                roles[each].assign("end", "a palm with fingers")
            return
        if left[-1] > LONG_END:
            roles[path[-1]].assign("forearm", "the last of a limb, and long")
            return
        for at, each in enumerate(path):
            if each not in self.trunk and (left[at] < END or at == len(path) - 1):
                roles[each].assign("end", "the end of a limb")

    def _tail(self, region: int, roles: list[RegionRole]) -> None:
        """Assign roles to a single chain without a head: a tail, or an end."""
        chain, r = self.chain(region), self.regions
        role = "tail" if len(chain) >= 3 else "end"
        why = f"an unpaired chain of {len(chain)}"
        narrow = r.radii[region] < TRUNK * r.radii[int(self.above[region])]
        thick = r.radii[region] >= 0.5 * TRUNK * r.radii[self.root]
        if len(chain) < 3 and thick and not (narrow and r.rigid[region] > 0.5):
            role, why = "trunk", "unpaired, short and thick"
        for each in self.subtree(region):
            roles[each].assign(role, why)
        for each in set(self.limbs) & set(self.subtree(region)):
            self._limb(each, roles)

    def _heads(self) -> list[int]:
        """Return a list of the first region of the head, by evidence; empty if there is none."""
        evidence = enumerate(map(self._head_evidence, range(len(self.regions))))
        scores = {region: len(each) for region, each in evidence if each is not None}
        if not scores:
            return []
        # Among regions of equal evidence take the largest, then the last in its chain.
        best = max(scores, key=lambda each: (scores[each], self.regions.areas[each]))
        best = max(
            (each for each in self.subtree(best) if scores.get(each, -1) >= scores[best]),
            key=lambda each: -self.weight[each],
        )
        below = self.subtree(best)
        apart = [each for each in scores if each not in below and best not in self.subtree(each)]
        second = max((scores[each] for each in apart), default=-9)
        likely = self.limbs and scores[best] >= LIKELY and scores[best] > second
        if not (scores[best] >= SURE or likely):
            return []
        for inner in self._outside_trunk(int(self.above[best])):
            if scores.get(inner, 0) >= LIKELY and self._has_pairs(inner):
                best = inner  # horns on the back of a head
        return [best]

    def _has_pairs(self, region: int) -> bool:
        small = [each for each in self.below[region] if each not in self.limbs]
        return any(self.sided[each] for each in small)

    def _head_evidence(self, region: int) -> list[str] | None:
        """Return evidence that a region is a head, strong evidence repeated; None if ruled out."""
        r = self.regions
        limbs = set(self.limbs) & set(self.subtree(region))
        if region == self.root or self.sided[region]:
            return None
        if any(self.weight[each] > SMALL_PAIR for each in limbs):
            return None
        if r.carries[region, self.root] or self.weight[region] < LEAST_HEAD_AREA:
            return None  # it carries the body, or is too small
        before = int(self.above[region])
        thick = r.cores[region] >= LEAST_HEAD * r.cores[self.root]
        compact = thick and r.lengths[region] < COMPACT * r.cores[region]
        middle = [each for each in self.below[region] if not self.sided[each]]
        weak = {
            "follows one joint": r.rigid[region] >= RIGID,
            "thicker than what carries it": r.radii[region] > SWOLLEN * r.radii[before],
            "larger than what carries it": r.areas[region] > GROWN * r.areas[before],
            "compact": compact,
        }
        evidence = [why for why, holds in weak.items() if holds]
        if self._tapers(region):
            evidence = evidence[2:]
        strong = {
            "has ears or horns": self._has_pairs(region) or region in self.ears,
            "has a jaw or tongue": len(middle) >= 2,
            "has eyes or teeth": self.small[region] >= 2,
        }
        return evidence + [why for why, holds in strong.items() if holds for _ in range(2)]

    def _tapers(self, region: int) -> bool:
        """Return whether a chain becomes steadily thinner from the trunk to its end."""
        path = [self.chain(region)[-1]]
        while self.above[path[-1]] >= 0 and path[-1] not in self.trunk:
            path.append(int(self.above[path[-1]]))
        radii = self.regions.cores[np.asarray(path[::-1])]
        if len(path) < 3 or not (np.diff(radii) < 0.05 * radii[0]).all():
            return False
        tapered = TAPERED if len(path) > 3 else TAPERED_SOON
        return float(radii[-1]) < tapered * float(radii[1])

    def _head(self, head: int, roles: list[RegionRole]) -> None:
        """Assign roles to a head, its neck and its ears."""
        why = ", ".join(dict.fromkeys(self._head_evidence(head) or ()))
        for each in self.subtree(head):
            roles[each].assign("head", why if each == head else "hangs from a head")
        for each in self._outside_trunk(int(self.above[head])):
            roles[each].assign("neck", "leads to a head")
        r = self.regions
        around = {*self.below[head], *self.below[int(self.above[head])]}
        for each in around:
            beside = each in self.below[head] or r.borders[each, head] > 0
            if beside and self.sided[each] and self.weight[each] < SMALL_PAIR:
                tip = min(r.radii[one] for one in self.subtree(each))
                slender = len(self.chain(each)) >= 2 and tip < 0.5 * r.radii[head]
                for one in self.subtree(each):
                    roles[one].assign("ear" if slender else "head", "a pair on a head")
