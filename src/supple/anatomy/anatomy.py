"""Anatomy of a character: bone, flesh, hard and separate parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from supple.anatomy.layers import find_layers, layer_entries
from supple.anatomy.region_entries import EDITED, RegionEntry, entries_for, write_entries
from supple.anatomy.region_roles import region_roles
from supple.anatomy.roles import HARD, ROLES, RegionRole
from supple.anatomy.skin_maps import MeasuredSkin, SkinMaps
from supple.anatomy.skin_regions import SkinRegions
from supple.anatomy.thickness import InscribedBalls
from supple.arrays import Bools, Floats, Ints
from supple.errors import warn
from supple.mesh.surface import SurfaceMesh
from supple.rig.character import Character
from supple.rig.motion.joint_names import normalised_name
from supple.rig.skeleton.skinning import skinned_rigs

#: Thickness of a limb relative to that of its trunk.
LIMB_RADIUS = 0.45
#: Flesh share of a body without joints. With the share of a trunk, 0.85, a shaken head animated by
#: blend shapes lagged behind the rig by 13 % of its size.
BONELESS = 0.5


@dataclass(frozen=True, eq=False, repr=False)
class Anatomy:
    """Maps on the skin of a character, with reasons.

    Attributes
    ----------
    name
        Name of the character.
    surface
        Skin of the character.
    entries
        Role, flesh share, feel and reasons of each region, by name of its joint.
    joints
        Names of the joints that have a region, in the order of `region`.
    region
        (n̄,) region of each vertex.
    part
        (n̄,) component of the surface of each vertex.
    role
        (n̄,) role of each vertex, a name of `ROLES`.
    share
        (n̄,) φ: flesh deeper than φ times the thickness is bone.
    firmness
        (n̄,) factor of Young's modulus.
    apart
        (n̄,) whether a vertex belongs to a part that follows the rig without flesh.
    thickness
        (n̄,) R: radius of the largest inscribed ball that covers each vertex, in metres. Small
        attached parts, such as a fish's spikes, have the thickness of the part below.
    back
        (n̄,) 1 on the back, −1 on the belly, 0 elsewhere; see `back_side`.
    balls
        Inscribed balls, for thickness and depth at any point.
    follows
        (n̄, k) skin weights of each vertex by region; None without joints.
    mirrored
        Name of the joint on the other side, by name of joint.
    skin
        Measurements before roles were assigned; None without joints.
    layers
        Feel and reasons of the pieces that lie over other skin, by name of their mesh or material.
    followed
        (n̄, 3) points whose displacement the vertices take; None if they all take their own.
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
    layers: Mapping[str, RegionEntry] = field(default_factory=dict)
    followed: Floats | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        return f'Anatomy("{self.name}", {len(self.joints)} regions, {self.hard_part:.0%} hard)'

    @cached_property
    def hard(self) -> Bools:
        """Mask (n̄,) of hard skin, which follows the rig without deforming."""
        # A back has little flesh, but is not a hard part.
        return self.apart | ((self.share < HARD) & (self.back <= 0))

    @cached_property
    def hard_part(self) -> float:
        """Fraction of the skin's area that is hard."""
        areas = self.surface.vertex_areas()
        return float(areas[np.flatnonzero(self.hard)].sum() / max(areas.sum(), 1e-300))

    @cached_property
    def riding(self) -> Bools:
        """Mask (n̄,) of components that follow the rig completely.

        If all components do, the mask omits the largest.
        """
        stays = np.bincount(self.part[~self.apart], minlength=int(self.part.max()) + 1) > 0
        if not stays.any():
            stays[np.bincount(self.part, self.surface.vertex_areas()).argmax()] = True
        riding: Bools = ~stays[self.part]
        return riding

    @property
    def given(self) -> dict[str, RegionEntry]:
        """Entries of all regions, and of layers that the user has changed."""
        layers = {name: each for name, each in self.layers.items() if EDITED in each.reasons}
        return {**self.entries, **layers}

    @cached_property
    def trunk_radius(self) -> float:
        """Radius of the largest ball inscribed in the trunk, in metres.

        It is estimated from the thickness if the body has no trunk, such as an arm or a hand alone.
        """
        trunk = np.isin(self.role, ("trunk", "soft"))
        if trunk.any():
            return float(self.thickness[trunk].max(initial=1e-300))
        return float(self.thickness.max(initial=1e-300)) / LIMB_RADIUS

    def save(self, path: str | Path, feel: Mapping[str, Any] | None = None) -> None:
        """Write role, share, feel and reasons of the regions as editable JSON, by joint.

        `feel` is that of all flesh, as `read_feel` returns it.
        """
        write_entries(path, self.name, {**self.entries, **layer_entries(self.layers)}, feel)

    @staticmethod
    def load(path: str | Path, character: Character) -> Anatomy:
        """Read regions from a file for this character, or another on the same rig.

        Warns
        -----
        SuppleWarning
            If the file names joints that the character does not have.
        """
        return anatomy_of(character, entries=entries_for(character, path))


def anatomy_of(
    character: Character,
    *,
    entries: Mapping[str, RegionEntry] | None = None,
    use_names: bool = True,
    like: Anatomy | None = None,
) -> Anatomy:
    """Compute the anatomy of a character.

    Parameters
    ----------
    character
        Skin, rig, and names of joints, materials and meshes are used; motions are not.
    entries
        Entries by joint, and of layers by mesh or material, that replace computed entries; see
        `Anatomy.load`.
    use_names
        Whether names are used as evidence, or shape alone.
    like
        Anatomy of the same character, whose measurements are reused.
    """
    surface = character.surface
    balls = InscribedBalls(surface) if like is None else like.balls
    skinned = skinned_rigs(character.rig)
    rig = skinned[0] if len(skinned) == 1 else None
    if rig is None or rig.n_vertices != len(surface.vertices) or not np.ptp(rig.joints[:, 0]):
        if entries:
            warn(f"{character.name}: no joints bend its skin; the entries of joints are ignored")
        return _painted(_boneless(character, balls), character.painted)
    skin = like.skin if like is not None else None
    skin = MeasuredSkin.of(surface, rig, balls) if skin is None else skin
    all_entries = _all_entries(skin, region_roles(skin, use_names), entries or {})
    maps = SkinMaps.of(skin, all_entries, character.labels, use_names=use_names)
    anatomy = Anatomy(
        character.name,
        surface,
        all_entries,
        tuple(all_entries),
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
        _mirrored(skin.regions, tuple(all_entries)),
        skin,
    )
    return _layered(_painted(anatomy, character.painted), character, entries or {})


def _layered(anatomy: Anatomy, character: Character, entries: Mapping[str, RegionEntry]) -> Anatomy:
    """Return the anatomy with its layers, and with pieces apart or soft as entries say."""
    assert anatomy.skin is not None
    layers = find_layers(
        anatomy.skin,
        skinned_rigs(character.rig)[0].skeleton.parents,
        ~anatomy.hard,
        anatomy.role,
        character.labels,
        layer_entries(entries),
        tuple(np.array(anatomy.joints)[anatomy.region].tolist()),
    )
    if not layers.entries:
        return anatomy
    role = np.where(layers.apart, "prop", np.where(layers.loose, "soft", anatomy.role))
    share = np.where(layers.apart, 0.0, np.where(layers.loose, ROLES["soft"], anatomy.share))
    return replace(
        anatomy,
        role=tuple(role.tolist()),
        share=share,
        apart=(anatomy.apart | layers.apart) & ~layers.loose,
        layers=layers.entries,
        followed=layers.followed,
    )


def _boneless(character: Character, balls: InscribedBalls) -> Anatomy:
    """Return the anatomy of a body without joints: flesh around a core that follows the rig."""
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


def _all_entries(
    skin: MeasuredSkin, roles: list[RegionRole], entries: Mapping[str, RegionEntry]
) -> dict[str, RegionEntry]:
    """Return the entries of all regions; entries of the user replace computed entries."""
    merged = {}
    for joint, computed in zip(skin.regions.joints, roles, strict=True):
        name, feel = skin.names[joint], "hard" if computed.share < HARD else "normal"
        entry = entries.get(name)
        merged[name] = RegionEntry(computed.role, computed.share, feel, tuple(computed.reasons))
        if entry is not None and not entry.alike(merged[name]):
            reasons = (reason for reason in entry.reasons if reason != EDITED)
            merged[name] = replace(entry, reasons=(*reasons, EDITED))
    return merged


def _mirrored(regions: SkinRegions, joints: tuple[str, ...]) -> dict[str, str]:
    """Return names of joints on the other side by name of joint, paired by name or position."""
    named: dict[tuple[str, str], list[str]] = {}
    for joint in joints:
        named.setdefault(normalised_name(joint), []).append(joint)
    twins = {}
    for (side, plain), same in named.items():
        others = named.get(({"L": "R", "R": "L"}.get(side, "-"), plain), [])
        if len(same) == len(others) == 1:
            twins[same[0]] = others[0]
    for joint, twin in zip(joints, regions.twins, strict=True):
        other = joints[twin] if twin >= 0 else joint
        if other != joint and joint not in twins and other not in twins.values():
            twins[joint] = other
    return {joint: other for joint, other in twins.items() if twins.get(other) == joint}


def _painted(anatomy: Anatomy, maps: Mapping[str, Floats]) -> Anatomy:
    """Return the anatomy with share φ(1 − rigid), or the painted `flesh` where that is larger."""
    if not ("rigid" in maps or "flesh" in maps):
        return anatomy
    none = np.zeros(len(anatomy.share))
    share = anatomy.share * (1 - maps.get("rigid", none))
    share = np.maximum(share, maps.get("flesh", none))
    # A back that is painted rigid is hard; other backs only have little flesh.
    lower = (share < HARD) & (share < anatomy.share)
    return replace(anatomy, share=share, back=np.where(lower, 0.0, anatomy.back))
