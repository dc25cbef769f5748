"""Anatomy of a character: what is bone, what is flesh, what is hard, what is apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from supple.anatomy.outgrowths import paired_regions
from supple.anatomy.region_entries import TOLD, RegionEntry, entries_for, write_entries
from supple.anatomy.region_roles import region_roles
from supple.anatomy.roles import HARD, RegionRole
from supple.anatomy.skin_maps import MeasuredSkin, SkinMaps
from supple.anatomy.skin_regions import SkinRegions
from supple.anatomy.thickness import InscribedBalls
from supple.arrays import Bools, Floats, Ints
from supple.errors import warn
from supple.mesh.surface import SurfaceMesh
from supple.rig.character import Character
from supple.rig.motion.joint_names import normalised_name
from supple.rig.skeleton.skinning import skinned_rigs

#: Thickness of a limb beside the trunk it would belong to.
LIMB_RADIUS = 0.45


#: Flesh share of a body without joints. It may be a head: with a trunk's, 0.85, one of blend shapes
#: alone lagged behind its shaking by 13 % of its size, crown and all.
BONELESS = 0.5


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
    skin
        What was measured before roles were given; None without joints.
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
    skin: MeasuredSkin | None = field(default=None, repr=False)

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
        Anatomy of the same character, whose skin need not be measured again.
    """
    surface = character.surface
    balls = InscribedBalls(surface) if like is None else like.balls
    skinned = skinned_rigs(character.rig)
    rig = skinned[0] if len(skinned) == 1 else None
    one = rig is None or rig.n_vertices != len(surface.vertices) or not np.ptp(rig.joints[:, 0])
    if rig is None or one:
        if entries:
            warn(
                f"{character.name}: no joints bend its skin, so what is said of joints is left out"
            )
        return _painted(_boneless(character, balls), character.painted)
    skin = like.skin if like is not None else None
    skin = MeasuredSkin.of(surface, rig, balls) if skin is None else skin
    roles = region_roles(
        skin.regions,
        skin.names,
        use_names=use_names,
        small_parts=skin.pieces.small_on(skin.regions),
        ears=paired_regions(skin.outgrowths),
        rigid=skin.pieces.rigid_regions(skin.regions),
    )
    found = _told(skin, roles, entries or {})
    maps = SkinMaps.of(skin, found, character.labels, use_names=use_names)
    anatomy = Anatomy(
        character.name,
        surface,
        found,
        tuple(found),
        skin.regions.of_vertex,
        skin.pieces.of_vertex,
        tuple(maps.role.tolist()),
        maps.share,
        maps.firmness,
        maps.apart,
        maps.thickness,
        maps.back,
        balls,
        skin.follows(),
        _mirrored(skin.regions, tuple(found)),
        skin,
    )
    return _painted(anatomy, character.painted)


def _boneless(character: Character, balls: InscribedBalls) -> Anatomy:
    """A body that no joints bend: flesh all over, on a core that follows the rig."""
    n = len(character.surface.vertices)
    zeros, ones = np.zeros(n, np.int64), np.ones(n)
    return Anatomy(
        character.name,
        character.surface,
        {},
        (),
        zeros,
        zeros,
        ("trunk",) * n,
        BONELESS * ones,
        ones,
        np.zeros(n, bool),
        balls.skin_thickness(character.surface),
        np.zeros(n),
        balls,
    )


def _told(
    skin: MeasuredSkin, roles: list[RegionRole], entries: Mapping[str, RegionEntry]
) -> dict[str, RegionEntry]:
    """Entries of all regions: what is found, and what somebody said instead."""
    found = {}
    for joint, each in zip(skin.regions.joints, roles, strict=True):
        name, feel = skin.names[joint], "hard" if each.share < HARD else "normal"
        said = entries.get(name)
        found[name] = RegionEntry(each.role, each.share, feel, tuple(each.reasons))
        if said is not None and not said.alike(found[name]):
            reasons = (each for each in said.reasons if each != TOLD)
            found[name] = replace(said, reasons=(*reasons, TOLD))
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


def _area_part(surface: SurfaceMesh, vertices: Ints) -> float:
    areas: Any = surface.vertex_areas()
    return float(areas[vertices].sum() / max(areas.sum(), 1e-300))
