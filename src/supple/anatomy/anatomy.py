"""Anatomy of a character: what is bone, what is flesh, what is hard, what is apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from supple.anatomy.belly_and_back import back_side, share_by_side
from supple.anatomy.body_layout import region_roles
from supple.anatomy.loose_parts import Components, LooseParts
from supple.anatomy.outgrowths import Outgrowth, outgrowths, paired_regions
from supple.anatomy.part_names import joint_name_role, label_role
from supple.anatomy.region_entries import (
    FEEL_STIFFNESS,
    RegionEntry,
    entries_for,
    write_entries,
)
from supple.anatomy.roles import HARD, ROLES, RegionRole
from supple.anatomy.skin_regions import SkinRegions, vertex_areas
from supple.anatomy.symmetry import BoundBody, Mirror
from supple.anatomy.thickness import InscribedBalls
from supple.arrays import Bools, Floats, Ints
from supple.mesh.surface import SurfaceMesh
from supple.rig.character import Character
from supple.rig.motion.joint_names import normalised_name
from supple.rig.skeleton.skinning import SkinnedRig, skinned_rigs

__all__ = ["Anatomy", "anatomy_of"]


#: Share of skin that follows a hard region most, however it is blended.
JUST_HARD = 0.95 * HARD


#: Skin follows a joint without a region with this weight at least.
LEADS = 0.4


#: Thickness of a limb beside the trunk it would belong to.
LIMB_RADIUS = 0.45


#: A rigid shell that is the trunk of a robot has little flesh, and that firm.
SHELL_SHARE, SHELL_FIRMNESS = 0.35, 4.0


#: An ear is thinner than this part of the head.
THICK_EAR = 0.5


#: Reason of an entry whose bone somebody changed: it goes before names and shapes of its skin.
TOLD = "told"


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
    follows
        (n̄, k) how much each vertex follows each region, by its skin weights; None without joints.
    mirrored
        Joints that have a region on the other side, and which.
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
    follows: sp.csr_array | None = field(default=None, repr=False)
    mirrored: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f'Anatomy("{self.name}", {len(self.joints)} regions, {self.hard_part:.0%} hard)'

    @cached_property
    def hard(self) -> Bools:
        """(n̄,) where nothing moves."""
        # A back has little flesh and still is no part that is hard.
        return self.apart | ((self.share < HARD) & (self.back <= 0))

    @cached_property
    def hard_part(self) -> float:
        """Part of the skin's area where nothing moves."""
        return _area_part(self.surface, np.flatnonzero(self.hard))

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
        """Read regions from a file for this character, or another on the same rig.

        Warns
        -----
        SuppleWarning
            In a line that names joints which the character has not.
        """
        return anatomy_of(character, entries=entries_for(character, path))


def anatomy_of(
    character: Character,
    *,
    entries: Mapping[str, RegionEntry] | None = None,
    use_names: bool = True,
    like: Anatomy | None = None,
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
    like
        Anatomy of the same surface, whose inscribed balls need not be found again.
    """
    surface = character.surface
    balls = InscribedBalls(surface) if like is None else like.balls
    skinned = skinned_rigs(character.rig)
    rig = skinned[0] if len(skinned) == 1 else None
    if rig is None or rig.n_vertices != len(surface.vertices):
        return _boneless(character, balls)
    skin = _Skin.of(surface, rig, balls)
    roles = region_roles(
        skin.regions,
        rig.skeleton.names,
        use_names=use_names,
        small_parts=skin.pieces.small_on(skin.regions),
        ears=paired_regions(skin.outgrowths),
    )
    found = _told(skin.regions, rig, roles, entries or {})
    anatomy = _mapped(character, skin, found, balls, use_names)
    anatomy = replace(anatomy, mirrored=_mirrored(skin.regions, tuple(found)))
    return _painted(anatomy, character.painted)


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
        name, share = rig.skeleton.names[joint], each.share
        feel = "hard" if share < HARD else "normal"
        said = entries.get(name)
        found[name] = RegionEntry(each.role, share, feel, tuple(each.reasons))
        if said is not None and not said.alike(found[name]):
            reasons = (each for each in said.reasons if not each.startswith(TOLD))
            why = f"{TOLD} {said.feel}" if said.same_bone(found[name]) else TOLD
            found[name] = replace(said, reasons=(*reasons, why))
    return found


def _mirrored(regions: SkinRegions, joints: tuple[str, ...]) -> dict[str, str]:
    """Joints and those on the other side: by their names, or by place where names do not say."""
    named: dict[tuple[str, str], list[str]] = {}
    for joint in joints:
        named.setdefault(normalised_name(joint), []).append(joint)
    found = {}
    for (side, plain), own in named.items():
        others = named.get(({"L": "R", "R": "L"}.get(side, "-"), plain), [])
        if len(own) == len(others) == 1:
            found[own[0]] = others[0]
    for joint, twin in zip(joints, regions.twins, strict=True):
        other = joints[twin] if twin >= 0 else joint
        if other != joint and joint not in found and other not in found.values():
            found[joint] = other
    return {joint: other for joint, other in found.items() if found.get(other) == joint}


def _painted(anatomy: Anatomy, maps: Mapping[str, Floats]) -> Anatomy:
    """Heed what is painted on the skin: φ(1 − rigid), and at least `flesh`."""
    if not ("rigid" in maps or "flesh" in maps):
        return anatomy
    none = np.zeros(len(anatomy.share))
    share = anatomy.share * (1 - maps.get("rigid", none))
    share = np.maximum(share, maps.get("flesh", none))
    # A back that is painted rigid is hard, though others have little flesh and are not.
    lower = (share < HARD) & (share < anatomy.share)
    return replace(anatomy, share=share, back=np.where(lower, 0.0, anatomy.back))


@dataclass(frozen=True, eq=False)
class _Skin:
    """What is measured on a skin before roles are given.

    Attributes
    ----------
    names, weights
        Of the joints, and (n̄, J) how much skin follows each, even on both sides.
    pieces, regions, outgrowths
        What the skin consists of.
    thickness
        (n̄,) R, even on both sides.
    """

    names: tuple[str, ...]
    weights: sp.csr_array
    pieces: Components
    regions: SkinRegions
    outgrowths: list[Outgrowth]
    thickness: Floats

    @classmethod
    def of(cls, surface: SurfaceMesh, rig: SkinnedRig, balls: InscribedBalls) -> _Skin:
        weights, area = sp.csr_array(rig.weight_matrix()), vertex_areas(surface)
        pieces = Components.of(surface, weights)
        body = BoundBody.of(surface, rig)
        whole = np.where(pieces.loose, 0.0, area)
        if whole.sum() < 0.5 * area.sum():
            whole = area
        mirror = Mirror.of(body, surface.triangles, whole, weights, rig.skeleton.parents)
        thickness = balls.skin_thickness(surface)
        if mirror is not None:
            weights, thickness = mirror.even_weights(weights), mirror.even(thickness)
        hidden = pieces.held(area) | balls.buried(surface)
        counted = np.where(hidden, 1e-3, 1.0) * area
        regions = SkinRegions.of(
            surface, body.vertices, weights, rig.skeleton, thickness, counted, mirror
        )
        grown: list[Outgrowth] = []
        if mirror is not None:
            middle = np.flatnonzero(regions.sides == 0).tolist()
            seen = np.where(hidden | pieces.loose, 0.0, area)
            sides = mirror.sides(body.vertices)
            grown = outgrowths(surface, balls, thickness, seen, regions, middle, sides)
        return cls(rig.skeleton.names, weights, pieces, regions, grown, thickness)

    def by_region(self) -> sp.csr_array:
        """(n̄, k) how much skin follows each region."""
        joints, of_joint = np.arange(self.weights.shape[1]), self.regions.of_joint
        shape = (len(joints), len(self.regions))
        return sp.csr_array(
            self.weights @ sp.csr_array((np.ones(len(joints)), (joints, of_joint)), shape)
        )


def _mapped(
    character: Character,
    skin: _Skin,
    found: dict[str, RegionEntry],
    balls: InscribedBalls,
    use_names: bool,
) -> Anatomy:
    surface, regions, listed = character.surface, skin.regions, list(found.values())
    roles = np.array([each.role for each in listed])
    shares = np.array([each.acting_share for each in listed])
    role = roles[regions.of_vertex].astype("<U16")
    by_joint = shares[regions.of_joint]
    if use_names:
        _heed_joints_without_regions(skin, found, by_joint, role)
    share = np.clip(np.asarray(skin.weights @ by_joint), 0.0, 1.0)
    # A horn may follow the neck by half.
    share = np.where(shares[regions.of_vertex] < HARD, np.minimum(share, JUST_HARD), share)
    feels = np.log([FEEL_STIFFNESS[each.feel] for each in listed])
    follows = skin.by_region()
    firmness = np.exp(follows @ feels)
    apart = np.array([each.feel == "apart" for each in listed])[regions.of_vertex]
    _skull_below_ears(role, share, skin.thickness)
    _heed_outgrowths(skin.outgrowths, listed, role, share)
    parts = LooseParts.of(surface, skin.pieces, regions, np.isin(roles, ("trunk", "soft")))
    thickness = skin.thickness[parts.carrier]
    share[parts.shell] = np.minimum(share[parts.shell], SHELL_SHARE)
    firmness[parts.shell] *= SHELL_FIRMNESS
    told = np.array([TOLD in each.reasons for each in listed])[regions.of_vertex]
    if use_names:
        _heed_labels(character, role, share, told)
    carried = parts.carrier != np.arange(len(role))
    carried &= share >= HARD
    share[carried], role[carried] = share[parts.carrier[carried]], role[parts.carrier[carried]]
    thick = float(thickness[np.isin(role, ("trunk", "soft"))].max(initial=0.0))
    sided = np.isin(role, ("trunk", "neck")) & ~(told & (share < HARD))
    back = np.where(sided, back_side(surface, role, thick), 0.0)
    share = np.where(back != 0, share_by_side(share, back), share)
    share[parts.prop], role[parts.prop], apart = 0.0, "prop", apart | parts.prop
    return Anatomy(
        character.name,
        surface,
        found,
        tuple(found),
        regions.of_vertex,
        skin.pieces.of_vertex,
        tuple(role.tolist()),
        share,
        firmness,
        apart,
        thickness,
        back,
        balls,
        follows,
    )


def _heed_joints_without_regions(
    skin: _Skin, found: Mapping[str, RegionEntry], shares: Floats, role: NDArray[np.str_]
) -> None:
    """Let joints called hands and feet be hard though they lead no skin of their own."""
    for joint, name in enumerate(skin.names):
        said = joint_name_role(name)
        if name in found or said is None or ROLES[said] >= HARD:
            continue
        shares[joint] = min(shares[joint], ROLES[said])
        much = skin.weights[:, [joint]].toarray().ravel()
        role[much >= LEADS] = said


def _heed_outgrowths(
    grown: list[Outgrowth], listed: list[RegionEntry], role: NDArray[np.str_], share: Floats
) -> None:
    """Give what sticks out of heads, necks and trunks without a joint of its own its role."""
    for each in grown:
        carrier = listed[each.region].role
        upper = carrier in ("head", "neck", "ear")
        if TOLD in listed[each.region].reasons or not (upper or carrier in ("trunk", "tail")):
            continue
        said = "fin"
        if upper:
            said = "head" if each.side == 0 else "ear" if each.flat else "horn"
        role[each.vertices], share[each.vertices] = said, ROLES[said]


def _heed_labels(character: Character, role: NDArray[np.str_], share: Floats, told: Bools) -> None:
    """Give what a material or a mesh names its role, but for skin that people know better."""
    for label, own in character.labels.items():
        said = label_role(label)
        if said is None or _area_part(character.surface, own) >= MOST_LABELLED:
            continue
        lower = own if ROLES[said] > HARD else own[share[own] > ROLES[said]]
        lower = lower[~told[lower]]
        if said == "head":  # a cow's udder may have the material of its muzzle
            lower = lower[np.isin(role[lower], ("head", "neck", "ear"))]
        share[lower], role[lower] = ROLES[said], said


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
