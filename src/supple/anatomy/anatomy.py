"""Anatomy of a character: what is bone, what is flesh, what is hard, what is apart."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from supple.anatomy.belly_and_back import back_side, share_by_side
from supple.anatomy.part_names import label_role
from supple.anatomy.roles import HARD, ROLES, RegionRole, region_roles
from supple.anatomy.skin_regions import LooseParts, SkinRegions, held_things, vertex_areas
from supple.anatomy.thickness import InscribedBalls
from supple.arrays import Bools, Floats, Ints
from supple.checks import checked_path, shown
from supple.errors import FormatError
from supple.mesh.surface import SurfaceMesh
from supple.rig.character import Character
from supple.rig.skeleton.skinning import SkinnedRig, skinned_rigs
from supple.saving import write_whole

__all__ = ["Anatomy", "RegionEntry", "anatomy_of", "read_entries", "write_entries"]


#: First key of a file, and the version that is written.
MARK, VERSION = "supple_anatomy", 1


FEELS = ("hard", "firm", "normal", "soft", "apart")


LARGEST_FILE, MOST_REGIONS = 4_000_000, 10_000


@dataclass(frozen=True)
class RegionEntry:
    """Describe one region.

    Attributes
    ----------
    role
        A name of `supple.anatomy.roles.ROLES`.
    share
        φ, 0 to 1: what lies deeper than φ times the thickness is bone.
    feel
        ``"hard"`` and ``"apart"`` hold it, ``"firm"`` and ``"soft"`` change how stiff it is.
    reasons
        Why, one line each.
    """

    role: str
    share: float
    feel: str = "normal"
    reasons: tuple[str, ...] = ()

    @property
    def acting_share(self) -> float:
        """φ as the feel has it: nothing of what is hard, and something of what is not."""
        if self.feel in ("hard", "apart"):
            return min(self.share, 0.5 * HARD)
        return max(self.share, HARD) if self.feel != "soft" else max(self.share, 0.9)


def write_entries(path: str | Path, name: str, entries: Mapping[str, RegionEntry]) -> None:
    """Write regions by joint, one a line, so that people find and change them."""
    lines = []
    for joint, each in entries.items():
        said = {
            "role": each.role,
            "share": round(each.share, 4),
            "feel": each.feel,
            "reasons": list(each.reasons),
        }
        lines.append(f"  {json.dumps(joint)}: {json.dumps(said, ensure_ascii=False)}")
    body = ",\n".join(lines)
    text = f'{{"{MARK}": {VERSION}, "character": {json.dumps(name)},\n"regions": {{\n{body}\n}}}}\n'
    write_whole(checked_path("the anatomy file", path), text.encode())


def read_entries(path: str | Path) -> dict[str, RegionEntry]:
    """Read regions by joint.

    Raises
    ------
    FormatError
        For a file that is none, in one line that names the file and the joint.
    """
    file = checked_path("the anatomy file", path)
    name = file.name or str(file)
    try:
        if file.stat().st_size > LARGEST_FILE:
            raise FormatError(f"{name}: is too large for an anatomy file")
        data = json.loads(file.read_bytes().decode("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        why = getattr(error, "strerror", None) or "it is not JSON"
        raise FormatError(f"{name}: cannot be read as an anatomy ({why.lower()})") from None
    if not isinstance(data, dict) or data.get(MARK) != VERSION:
        raise FormatError(f'{name}: is no anatomy file; it begins with {{"{MARK}": {VERSION}')
    regions = data.get("regions")
    if not isinstance(regions, dict) or len(regions) > MOST_REGIONS:
        raise FormatError(f'{name}: "regions" must have an entry for each joint')
    return {joint: _entry(name, joint, said) for joint, said in regions.items()}


def _entry(name: str, joint: str, said: Any) -> RegionEntry:
    where = f"{name}: region {shown(joint)}"
    if not isinstance(said, dict):
        raise FormatError(f"{where} must be an object with role, share and feel")
    for key in said:
        if key not in ("role", "share", "feel", "reasons"):
            raise FormatError(f"{where} has {shown(key)}; there are role, share, feel and reasons")
    role = _one_of(where, "role", said.get("role", "limb"), tuple(ROLES))
    feel = _one_of(where, "feel", said.get("feel", "normal"), FEELS)
    share = said.get("share", ROLES[role])
    number = isinstance(share, int | float) and not isinstance(share, bool)
    if not (number and math.isfinite(share) and 0 <= share <= 1):
        raise FormatError(f"{where} has share {shown(share)}; it is a number from 0 to 1")
    reasons = said.get("reasons", [])
    if not isinstance(reasons, list) or not all(isinstance(each, str) for each in reasons):
        raise FormatError(f"{where} has reasons that are no list of text")
    return RegionEntry(role, float(share), feel, tuple(reasons))


def _one_of(where: str, what: str, value: Any, known: tuple[str, ...]) -> str:
    if isinstance(value, str) and value in known:
        return value
    near = get_close_matches(str(value), known, 1)
    hint = f'did you mean "{near[0]}"?' if near else f"there are {', '.join(known)}"
    raise FormatError(f"{where} has {what} {shown(value)}; {hint}")


#: What Young's modulus is multiplied by for each feel.
FEEL_STIFFNESS = {"hard": 1.0, "firm": 4.0, "normal": 1.0, "soft": 0.4, "apart": 1.0}


#: Share of skin that follows a hard region most, however it is blended.
JUST_HARD = 0.95 * HARD


#: Skin of trunk and neck this thin, as a part of the trunk's radius, has no flesh: frills, fins,
#: ears without joints.
THIN = 0.1


#: Thickness of a limb beside the trunk it would belong to.
LIMB_RADIUS = 0.45


#: A rigid shell that is the trunk of a robot has little flesh, and that firm.
SHELL_SHARE, SHELL_FIRMNESS = 0.35, 4.0


#: An ear is thinner than this part of the head.
THICK_EAR = 0.5


#: A label counts where it names less than this part of the skin: a mesh called "head" may be all.
MOST_LABELLED = 0.5


@dataclass(frozen=True, eq=False, repr=False)
class Anatomy:
    """Maps on the skin of a character, each with its reasons.

    Attributes
    ----------
    name
        The character's.
    surface
        Its skin.
    entries
        By joint: role, flesh share, feel and reasons of the region that follows it.
    joints
        Names of the joints that have a region, in the order of `region`.
    region
        (n̄,) region of each vertex.
    part
        (n̄,) component of the surface of each vertex.
    role
        (n̄,) role of each vertex, a name of `ROLES`.
    share
        (n̄,) φ: what lies deeper than φ times the thickness is bone.
    firmness
        (n̄,) what Young's modulus is multiplied by.
    apart
        (n̄,) whether a vertex belongs to a part that rides on the rig.
    thickness
        (n̄,) R: radius of the largest inscribed ball that covers each vertex, in metres; what is
        carried, a fish's spikes, has that of its carrier.
    back
        (n̄,) 1 on the back, −1 on the belly, 0 where neither is known: see `back_side`.
    balls
        Inscribed balls: thickness and depth anywhere.
    """

    name: str
    surface: SurfaceMesh
    entries: Mapping[str, RegionEntry]
    joints: tuple[str, ...]
    region: Ints
    part: Ints
    role: tuple[str, ...]
    share: Floats
    firmness: Floats
    apart: Bools
    thickness: Floats
    back: Floats
    balls: InscribedBalls = field(repr=False)

    def __repr__(self) -> str:
        hard = float(vertex_areas(self.surface)[self.hard].sum() / self.surface.areas().sum())
        return f'Anatomy("{self.name}", {len(self.joints)} regions, {hard:.0%} hard)'

    @cached_property
    def hard(self) -> Bools:
        """(n̄,) where nothing moves."""
        # A back has little flesh and still is no part that is hard.
        return self.apart | ((self.share < HARD) & (self.back <= 0))

    @cached_property
    def riding(self) -> Bools:
        """(n̄,) vertices of components that are apart whole: they need no flesh to carry them."""
        stays = np.bincount(self.part[~self.apart], minlength=int(self.part.max()) + 1) > 0
        whole: Bools = ~stays[self.part]
        return whole & (not whole.all())

    @cached_property
    def trunk_radius(self) -> float:
        """Radius of the largest ball inscribed in the trunk, in metres.

        Of an arm or a hand alone it is what their trunk would have.
        """
        trunk = np.isin(self.role, ("trunk", "soft"))
        if trunk.any():
            return float(self.thickness[trunk].max(initial=1e-300))
        return float(self.thickness.max(initial=1e-300)) / LIMB_RADIUS

    def save(self, path: str | Path) -> None:
        """Write the regions as JSON that people can change: role, share and feel by joint."""
        write_entries(path, self.name, self.entries)

    @staticmethod
    def load(path: str | Path, character: Character) -> Anatomy:
        """Read regions from a file for this character, or another on the same rig."""
        return anatomy_of(character, entries=read_entries(path))


def anatomy_of(
    character: Character,
    *,
    entries: Mapping[str, RegionEntry] | None = None,
    use_names: bool = True,
) -> Anatomy:
    """Find what is bone, flesh, hard and apart in a character.

    Parameters
    ----------
    character
        Its skin, rig, and the names of its joints, materials and meshes. Motions do not matter.
    entries
        By joint, in place of what is found: see `Anatomy.load`.
    use_names
        Whether names count, or shape alone.
    """
    surface = character.surface
    balls = InscribedBalls(surface)
    skinned = skinned_rigs(character.rig)
    rig = skinned[0] if len(skinned) == 1 else None
    if rig is None or rig.n_vertices != len(surface.vertices):
        return _boneless(character, balls)
    counted = ~(held_things(surface, rig.weight_matrix()) | balls.buried(surface))
    thickness = balls.skin_thickness(surface)
    regions = SkinRegions.of(surface, rig, thickness, counted)
    roles = region_roles(regions, rig.skeleton.names, surface.size, use_names=use_names)
    found = _told(regions, rig, roles, entries or {})
    return _mapped(character, rig, regions, found, balls, thickness, use_names)


def _boneless(character: Character, balls: InscribedBalls) -> Anatomy:
    """A body that no skeleton moves: flesh all over."""
    n = len(character.surface.vertices)
    zeros, ones = np.zeros(n, np.int64), np.ones(n)
    return Anatomy(
        character.name,
        character.surface,
        {},
        (),
        zeros,
        zeros,
        ("soft",) * n,
        ones,
        ones,
        np.zeros(n, bool),
        balls.skin_thickness(character.surface),
        np.zeros(n),
        balls,
    )


def _told(
    regions: SkinRegions,
    rig: SkinnedRig,
    roles: list[RegionRole],
    entries: Mapping[str, RegionEntry],
) -> dict[str, RegionEntry]:
    """Entries of all regions: what is found, and what somebody said instead."""
    found = {}
    for joint, each in zip(regions.joints, roles, strict=True):
        name, share = rig.skeleton.names[joint], ROLES[each.role]
        feel = "hard" if share < HARD else "normal"
        said = entries.get(name)
        found[name] = RegionEntry(each.role, share, feel, tuple(each.reasons))
        if said is not None:
            found[name] = replace(said, reasons=(*said.reasons, "told"))
    return found


def _mapped(
    character: Character,
    rig: SkinnedRig,
    regions: SkinRegions,
    found: dict[str, RegionEntry],
    balls: InscribedBalls,
    thickness: Floats,
    use_names: bool,
) -> Anatomy:
    surface, listed = character.surface, list(found.values())
    weights = sp.csr_array(rig.weight_matrix())
    by_region = sp.csr_array(
        (np.ones(weights.shape[1]), (np.arange(weights.shape[1]), regions.of_joint)),
        (weights.shape[1], len(regions)),
    )
    follows = weights @ by_region
    roles = np.array([each.role for each in listed])
    shares = np.array([each.acting_share for each in listed])
    share = np.clip(np.asarray(follows @ shares), 0.0, 1.0)
    # A horn may follow the neck by half.
    share = np.where(shares[regions.of_vertex] < HARD, np.minimum(share, JUST_HARD), share)
    firmness = np.exp(follows @ np.log([FEEL_STIFFNESS[each.feel] for each in listed]))
    role = roles[regions.of_vertex].astype("<U16")
    apart = np.array([each.feel == "apart" for each in listed])[regions.of_vertex]
    _skull_below_ears(role, share, thickness)
    trunk = np.isin(roles, ("trunk", "soft"))
    parts = LooseParts.of(surface, weights, regions, trunk)
    thickness = thickness[parts.carrier]
    thick = float(thickness[np.isin(role, ("trunk", "soft"))].max(initial=0.0))
    thin = np.isin(role, ("trunk", "neck")) & (thickness < THIN * thick)
    share[thin], role[thin] = 0.0, "end"
    back = np.where(np.isin(role, ("trunk", "neck")), back_side(surface, role, thick), 0.0)
    share = np.where(back != 0, share_by_side(share, back), share)
    share[parts.shell] = np.minimum(share[parts.shell], SHELL_SHARE)
    firmness[parts.shell] *= SHELL_FIRMNESS
    for label, own in (character.labels if use_names else {}).items():
        said = label_role(label)
        if said is not None and _area_part(surface, own) < MOST_LABELLED:
            lower = own if ROLES[said] > HARD else own[share[own] > ROLES[said]]
            if said == "head":  # a cow's udder may have the material of its muzzle
                lower = lower[np.isin(role[lower], ("head", "neck", "ear"))]
            share[lower], role[lower] = ROLES[said], said
    carried = parts.carrier != np.arange(len(role))
    carried &= share >= HARD
    share[carried], role[carried] = share[parts.carrier[carried]], role[parts.carrier[carried]]
    share[parts.prop], role[parts.prop], apart = 0.0, "prop", apart | parts.prop
    return Anatomy(
        character.name,
        surface,
        found,
        tuple(found),
        regions.of_vertex,
        parts.of_vertex,
        tuple(role.tolist()),
        share,
        firmness,
        apart,
        thickness,
        back,
        balls,
    )


def _skull_below_ears(role: NDArray[np.str_], share: Floats, thickness: Floats) -> None:
    """Make head of what follows an ear's joint and is too thick for one: a husky's forehead."""
    head, ear = role == "head", role == "ear"
    if head.any() and ear.any():
        skull = ear & (thickness > THICK_EAR * np.median(thickness[head]))
        role[skull] = "head"
        share[skull] = np.minimum(share[skull], ROLES["head"])


def _area_part(surface: SurfaceMesh, vertices: Ints) -> float:
    areas: Any = vertex_areas(surface)
    return float(areas[vertices].sum() / max(areas.sum(), 1e-300))
