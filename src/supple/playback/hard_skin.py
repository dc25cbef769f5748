"""Hard skin of a bake: which parts follow the rig without flesh, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from supple.anatomy.anatomy import Anatomy, anatomy_of
from supple.anatomy.region_entries import EDITED, RegionEntry
from supple.anatomy.roles import HARD, ROLES, label_role
from supple.anatomy.skin_maps import MOST_LABELLED
from supple.arrays import Bools, Floats
from supple.engines.common.flesh_fields import FleshFields
from supple.playback.bake_model import GivenAnatomy
from supple.rig.character import Character
from supple.rig.skeleton.skinning import skinned_rigs
from supple.rig.stored_rigs import GIVEN, stored_rig
from supple.user_cache import Arrays, cached, content_hash, running_cache

#: Weight of fixed tet vertices from which a vertex of the skin is hard.
FIXED = 0.95
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
_HARD_PARTS = running_cache(".hard.npz", 100)


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


def hard_skin(character: Character, model: Any, anatomy: GivenAnatomy) -> HardSkin | None:
    """Return the hard skin of a model; None if neither the model nor an anatomy determines it.

    Skin is hard if its tet vertices are fixed. The anatomy gives names and reasons of parts.
    """
    fixed = _fixed_skin(model)
    parts = None if anatomy is None else _kept_parts(character, anatomy)
    if fixed is None and parts is None:
        return None
    areas = character.surface.vertex_areas()
    areas = areas / max(float(areas.sum()), 1e-300)
    if parts is None:
        assert fixed is not None
        return HardSkin(fixed, float(areas[fixed].sum()))
    of_vertex, names, reasons = parts["of_vertex"], parts["names"], parts["reasons"]
    hard = of_vertex >= 0 if fixed is None else fixed
    shares = np.bincount(of_vertex[hard] + 1, areas[hard], len(names) + 1)
    listed = [
        HardPart(str(name), float(share), str(why))
        for name, why, share in zip((THIN, *names), (SOLID, *reasons), shares, strict=True)
        if share >= LEAST_PART
    ]
    listed.sort(key=lambda each: -each.share)
    return HardSkin(hard, float(areas[hard].sum()), tuple(listed))


def _fixed_skin(model: Any) -> Bools | None:
    """Return the mask (n̄,) of skin on fixed tet vertices; None for engines without them."""
    if not isinstance(model, FleshFields):
        return None
    fixed = np.zeros(len(model.mesh.vertices), bool)
    fixed[model.fixed] = True
    weights: Floats = np.abs(model.embedding_weights)
    on_bone = (weights * fixed[model.embedding_vertices]).sum(axis=1)
    mask: Bools = on_bone >= FIXED * weights.sum(axis=1)
    return mask


def _kept_parts(character: Character, anatomy: GivenAnatomy) -> Arrays | None:
    """Return `_parts` of an anatomy from the cache, or compute them; None for several skeletons."""
    if len(skinned_rigs(character.rig)) > 1:
        return None
    if isinstance(anatomy, Anatomy):
        return _parts(anatomy, character)
    entries = anatomy if isinstance(anatomy, Mapping) else {}
    header, arrays = stored_rig(character.rig)
    black_box = any(part["kind"] == GIVEN for part in header["parts"])
    mesh, others = character.surface, (character.labels, character.painted, dict(entries))
    content = None
    if not black_box:
        content = content_hash(mesh.vertices, mesh.triangles, header, arrays, *others)
    made: Arrays = cached(
        _HARD_PARTS,
        "parts",
        lambda: _parts(anatomy_of(character, entries=entries), character),
        content,
    ).value
    return made


def _parts(anatomy: Anatomy, character: Character) -> Arrays:
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
    """Return names of joints, the largest area first."""
    names = [name for name in sorted(joints, key=lambda each: -joints[each]) if name]
    more = f" and {len(names) - MOST_JOINTS} more" if len(names) > MOST_JOINTS else ""
    return ", ".join(name[:LONGEST_NAME] for name in names[:MOST_JOINTS]) + more
