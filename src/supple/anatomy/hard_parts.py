"""Hard parts of an anatomy, with reasons, in words; and the warning if most of the skin is hard."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.anatomy.anatomy import Anatomy
from supple.anatomy.loose_parts import Components
from supple.anatomy.region_entries import EDITED, RegionEntry
from supple.anatomy.roles import HARD, ROLES, label_role
from supple.anatomy.skin_maps import MOST_LABELLED
from supple.arrays import Bools
from supple.rig.character import Character
from supple.rig.skeleton.skinning import skinned_rigs
from supple.user_cache import Arrays

#: Least fraction of the skin of a part that is listed, and the most parts and joints of one.
LEAST_PART, MOST_PARTS, MOST_JOINTS = 0.005, 4, 3
#: Longest name from a file in a line.
LONGEST_NAME = 40
#: Parts by role.
PARTS = {"foot": "feet", "hand": "hands", "horn": "horns", "end": "ends of limbs"}
#: Reasons of hard parts.
NAMED, SHAPED, PIECE, PAINTED = "named so", "by shape", "rigid pieces", "painted rigid"
BY_FILE, SOLID = "in the anatomy file", "no flesh fits"
#: Part of hard skin that the anatomy does not make hard.
THIN = "thin parts"
#: Fraction of hard skin above which it is a reason for flesh that hardly moves.
MOSTLY_HARD = 0.5
#: What to do if hard skin should move.
SOFTER = "make parts soft in an anatomy file, or use anatomy none"


@dataclass(frozen=True)
class HardPart:
    """Part of the skin that follows the rig: its name, its fraction of the area, and the reason."""

    part: str
    share: float
    why: str


@dataclass(frozen=True, eq=False)
class HardSkin:
    """Hard skin of a character: mask (n̄,), fraction of the area, and parts, largest first."""

    mask: Bools
    share: float
    parts: tuple[HardPart, ...] = ()

    def figures(self) -> dict[str, Any]:
        """Return the figures for the report of a bake."""
        rows = [vars(each) | {"share": round(each.share, 4)} for each in self.parts]
        return {"hard": round(self.share, 4), "hard_parts": rows}

    def text(self) -> str:
        """Return share and parts as a clause."""
        figures = self.figures()
        parts = hard_parts_text(figures)
        return f"{hard_share_text(figures)} is held hard" + (f": {parts}" if parts else "")


def hard_share_text(figures: Mapping[str, Any]) -> str:
    """Return the share of hard skin in a report in words."""
    return f"{100 * figures['hard']:.0f} % of the skin"


def hard_parts_text(figures: Mapping[str, Any]) -> str:
    """Return the hard parts in a report in words, with reasons; "" without parts."""
    listed = figures.get("hard_parts") or []
    named = ", ".join(f"{each['part']} ({each['why']})" for each in listed[:MOST_PARTS])
    return named + (f" and {len(listed) - MOST_PARTS} more" if len(listed) > MOST_PARTS else "")


def hard_warning(anatomy: Anatomy, character: Character) -> str | None:
    """Return a warning if most of the skin is hard though the user did not ask for it, or None."""
    if anatomy.hard_part <= MOSTLY_HARD:
        return None
    parts, areas = hard_parts(anatomy, character), anatomy.surface.vertex_areas()
    shares = np.bincount(parts["of_vertex"] + 1, areas / areas.sum(), len(parts["names"]) + 1)
    shares[0] = 0.0  # the skin that is not hard
    chosen_by_user = np.isin(parts["reasons"], (BY_FILE, PAINTED))
    if anatomy.hard_part - float(shares[1:][chosen_by_user].sum()) <= MOSTLY_HARD:
        return None
    hard = HardSkin(anatomy.hard, anatomy.hard_part, tuple(listed_parts(parts, shares)))
    return f"{character.name}: {hard.text()}; it follows the rig. If it should move, {SOFTER}"


def jointed_warning(character: Character) -> str | None:
    """Return a warning for a machine or a jointed figure, without detecting its anatomy, or None.

    Only joints and pieces are compared, which takes milliseconds.
    """
    skinned = skinned_rigs(character.rig)
    if len(skinned) != 1 or skinned[0].n_vertices != len(character.surface.vertices):
        return None
    pieces = Components.of(character.surface, skinned[0].weight_matrix())
    if not pieces.machine:
        return None
    count, share = int(pieces.rigid.sum()), float(pieces.shares[pieces.rigid].sum())
    what = f"{100 * share:.0f} % of the skin is held hard: {count:,} rigid pieces of one joint each"
    return f"{character.name}: {what}; it follows the rig. If it should move, {SOFTER}"


def listed_parts(parts: Arrays, shares: NDArray[Any]) -> list[HardPart]:
    """Return parts with their fractions of the area, largest first, without small ones."""
    rows = zip((THIN, *parts["names"]), (SOLID, *parts["reasons"]), shares, strict=True)
    listed = [HardPart(str(name), float(share), str(why)) for name, why, share in rows]
    listed.sort(key=lambda each: -each.share)
    return [each for each in listed if each.share >= LEAST_PART]


def hard_parts(anatomy: Anatomy, character: Character) -> Arrays:
    """Return hard parts of an anatomy: ``of_vertex`` (n̄,), −1 elsewhere, ``names``, ``reasons``."""
    hard = np.flatnonzero(anatomy.hard)
    labels, painted = _labelled(character, anatomy), character.painted.get("rigid")
    keys: dict[tuple[str, str], int] = {}
    of_vertex = np.full(len(anatomy.role), -1)
    joints: list[dict[str, float]] = []
    areas = anatomy.surface.vertex_areas()
    for vertex in hard.tolist():
        joint = anatomy.joints[anatomy.region[vertex]] if anatomy.joints else ""
        role, entry = anatomy.role[vertex], anatomy.entries.get(joint)
        by_region = entry is not None and entry.acting_share < HARD
        if by_region and entry is not None and EDITED in entry.reasons:
            key = ("", BY_FILE)
        elif vertex in labels:
            key = (labels[vertex], NAMED)
        elif anatomy.apart[vertex]:
            key = ("", PIECE)
        elif by_region and entry is not None:
            key = (PARTS.get(role, role), _why(entry))
        elif painted is not None and painted[vertex] > 0:
            key = ("", PAINTED)
        else:
            key = (PARTS.get(role, role), SHAPED)
        number = keys.setdefault(key, len(keys))
        if number == len(joints):
            joints.append({})
        joints[number][joint] = joints[number].get(joint, 0.0) + float(areas[vertex])
        of_vertex[vertex] = number
    names = [part or _listed(joints[number]) or "parts" for (part, _), number in keys.items()]
    reasons = [why for _, why in keys]
    return {
        "of_vertex": of_vertex,
        "names": np.array(names, dtype="U"),
        "reasons": np.array(reasons, dtype="U"),
    }


def _labelled(character: Character, anatomy: Anatomy) -> dict[int, str]:
    """Return names of meshes and materials that make skin hard, by vertex."""
    names: dict[int, str] = {}
    areas = anatomy.surface.vertex_areas()
    for label, vertices in character.labels.items():
        role = label_role(label)
        if role is None or ROLES[role] >= HARD:
            continue
        if areas[vertices].sum() >= MOST_LABELLED * areas.sum():
            continue
        name = (label.partition(":")[2] or label)[:LONGEST_NAME]
        named = (each for each in vertices.tolist() if anatomy.role[each] == role)
        names |= dict.fromkeys(named, name)
    return names


def _why(entry: RegionEntry) -> str:
    """Return the reason of a hard region: the last evidence that changed its role."""
    reasons = [each for each in entry.reasons if each != EDITED]
    last = reasons[-1] if reasons else ""
    if "rigid piece" in last:
        return PIECE
    named = last.startswith(("called ", "contains the joint", "the only region, called"))
    return NAMED if named else SHAPED


def _listed(joints: Mapping[str, float]) -> str:
    """Return names of joints, those with the largest area first."""
    names = [name for name in sorted(joints, key=lambda each: -joints[each]) if name]
    more = f" and {len(names) - MOST_JOINTS} more" if len(names) > MOST_JOINTS else ""
    return ", ".join(name[:LONGEST_NAME] for name in names[:MOST_JOINTS]) + more
