"""Maps on the skin: role, flesh share and firmness of each vertex, from its regions' entries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from supple.anatomy.belly_and_back import back_side, share_by_side
from supple.anatomy.loose_parts import Components, LooseParts
from supple.anatomy.outgrowths import Outgrowth, outgrowths
from supple.anatomy.part_names import joint_name_role, label_role
from supple.anatomy.region_entries import FEEL_STIFFNESS, TOLD, RegionEntry
from supple.anatomy.roles import HARD, ROLES
from supple.anatomy.skin_regions import SkinRegions
from supple.anatomy.symmetry import BoundBody, Mirror
from supple.anatomy.thickness import InscribedBalls
from supple.arrays import Bools, Floats, Ints
from supple.mesh.surface import SurfaceMesh
from supple.rig.skeleton.skinning import SkinnedRig

#: Largest flesh share of skin that follows a hard region most.
JUST_HARD = 0.95 * HARD


#: Least weight with which skin follows a joint without a region.
LEADS = 0.4


#: Flesh share and firmness of a rigid shell that is a trunk.
SHELL_SHARE, SHELL_FIRMNESS = 0.35, 4.0


#: An ear is thinner than this part of the head.
THICK_EAR = 0.5


#: Largest part of the skin that a label may name: a mesh named "head" may be the whole body.
MOST_LABELLED = 0.5


#: Least vertices of an outgrowth; fewer are only the tip of a coarse one.
LEAST_VERTICES = 4


#: Weight of buried skin and of objects in a hand.
HIDDEN = 1e-3


@dataclass(frozen=True, eq=False)
class MeasuredSkin:
    """Measurements of a skin, before roles are assigned.

    Skin weights (n̄, J) and thickness (n̄,) in metres are symmetric. `mirror` is None for bodies
    without two sides.
    """

    surface: SurfaceMesh
    names: tuple[str, ...]
    weights: sp.csr_array
    pieces: Components
    regions: SkinRegions
    outgrowths: list[Outgrowth]
    thickness: Floats
    mirror: Mirror | None

    @classmethod
    def of(cls, surface: SurfaceMesh, rig: SkinnedRig, balls: InscribedBalls) -> MeasuredSkin:
        """Measure the skin of a rig."""
        weights, area = sp.csr_array(rig.weight_matrix()), surface.vertex_areas()
        pieces = Components.of(surface, weights)
        body, parents = BoundBody.of(surface, rig), rig.skeleton.parents
        mirror = Mirror.of(body, surface.triangles, pieces.flesh(area), weights, parents)
        thickness = balls.skin_thickness(surface)
        if mirror is not None:
            weights, thickness = mirror.even_weights(weights), mirror.even(thickness)
        hidden = pieces.held(area) | balls.buried(surface)
        counted = np.where(hidden, HIDDEN, 1.0) * area
        regions = SkinRegions.of(
            surface, body.vertices, weights, rig.skeleton, thickness, counted, mirror
        )
        grown: list[Outgrowth] = []
        if mirror is not None:
            middle = np.flatnonzero(regions.sides == 0).tolist()
            seen = np.where(hidden | pieces.loose, 0.0, area)
            grown = outgrowths(
                surface, balls, thickness, seen, regions, middle, mirror, body.vertices
            )
        names = tuple(rig.skeleton.names)
        return cls(surface, names, weights, pieces, regions, grown, thickness, mirror)

    def follows(self) -> sp.csr_array:
        """Return the weight (n̄, k) of each region at each vertex."""
        count = self.weights.shape[1]
        entries = (np.ones(count), (np.arange(count), self.regions.of_joint))
        return sp.csr_array(self.weights @ sp.csr_array(entries, (count, len(self.regions))))


#: Length of the held part at a cut, in thicknesses of the body; flesh fades in over as much.
STUMP = 0.5


@dataclass(eq=False)
class SkinMaps:
    """Role, flesh share, firmness, thickness, separation and back of each vertex; see `Anatomy`.

    `told` (n̄,) masks vertices where a user's entry takes precedence over shape and names.
    """

    role: NDArray[np.str_]
    share: Floats
    firmness: Floats
    apart: Bools
    thickness: Floats
    back: Floats
    told: Bools

    @classmethod
    def of(
        cls,
        skin: MeasuredSkin,
        entries: Mapping[str, RegionEntry],
        labels: Mapping[str, Ints],
        *,
        use_names: bool,
    ) -> SkinMaps:
        """Make the maps from entries of regions, in their order, and labels of vertices."""
        regions, listed = skin.regions, list(entries.values())
        shares = np.array([each.acting_share for each in listed])
        roles = np.array([each.role for each in listed])
        feels = np.log([FEEL_STIFFNESS[each.feel] for each in listed])
        maps = cls(
            roles[regions.of_vertex].astype("<U16"),
            np.empty(0),
            np.exp(skin.weights @ feels[regions.of_joint]),
            np.array([each.feel == "apart" for each in listed])[regions.of_vertex],
            skin.thickness.copy(),
            np.zeros(len(regions.of_vertex)),
            np.array([TOLD in each.reasons for each in listed])[regions.of_vertex],
        )
        by_joint = shares[regions.of_joint]
        if use_names:
            maps._apply_joints_without_regions(skin, entries, by_joint)
        share = np.clip(np.asarray(skin.weights @ by_joint), 0.0, 1.0)
        # A horn may follow the neck by half.
        hard = shares[regions.of_vertex] < HARD
        maps.share = np.where(hard, np.minimum(share, JUST_HARD), share)
        maps._skull_below_ears()
        maps._apply_outgrowths(skin.outgrowths)
        parts = LooseParts.of(skin.surface, skin.pieces, regions, _trunk(roles))
        maps.thickness = maps.thickness[parts.carrier]
        maps._belly_and_back(skin)
        maps._hold_stump(skin)
        maps._apply_parts(skin.surface, parts, labels if use_names else {})
        return maps

    def _apply_joints_without_regions(
        self, skin: MeasuredSkin, entries: Mapping[str, RegionEntry], shares: Floats
    ) -> None:
        """Make hands and feet hard whose joints lead no region."""
        for joint, name in enumerate(skin.names):
            role = joint_name_role(name)
            if name in entries or role is None or ROLES[role] >= HARD:
                continue
            weights = skin.weights[:, [joint]].toarray().ravel()
            if not self.told[weights > 0].any():
                shares[joint] = min(shares[joint], ROLES[role])
                self.role[weights >= LEADS] = role

    def _skull_below_ears(self) -> None:
        """Set the role head where skin of an ear's joint is too thick, as a husky's forehead."""
        head, ear = self.role == "head", (self.role == "ear") & ~self.told
        if head.any() and ear.any():
            skull = ear & (self.thickness > THICK_EAR * np.median(self.thickness[head]))
            self.say(np.flatnonzero(skull), "head")

    def _apply_outgrowths(self, grown: list[Outgrowth]) -> None:
        """Assign roles to outgrowths of heads, necks and trunks without joints."""
        for each in grown:
            if len(each.vertices) < LEAST_VERTICES:
                continue
            vertices = each.vertices[~self.told[each.vertices]]
            upper = vertices[np.isin(self.role[vertices], ("head", "neck"))]
            self.say(upper, "head" if each.side == 0 else "ear" if each.flat else "horn")
            if each.flat or each.side:  # a rod in the middle is a tail
                self.say(vertices[np.isin(self.role[vertices], ("trunk", "tail"))], "fin")

    def _belly_and_back(self, skin: MeasuredSkin) -> None:
        thick = float(self.thickness[_trunk(self.role)].max(initial=0.0))
        sided = np.isin(self.role, ("trunk", "neck")) & ~(self.told & (self.share < HARD))
        back = back_side(skin.surface, self.role, thick)
        if skin.mirror is not None:  # a rest pose may be a stride
            back = skin.mirror.mean(back)
        self.back = np.where(sided, back, 0.0)
        self.share = np.where(self.back != 0, share_by_side(self.share, self.back), self.share)

    def _hold_stump(self, skin: MeasuredSkin) -> None:
        """Hold an arm or a leg alone at its cut."""
        regions = skin.regions
        limb = np.isin(self.role, ("limb", "forearm", "shin"))
        ends = [
            region
            for region, near in enumerate(regions.neighbours)
            if len(near) == 1 and limb[regions.of_vertex == region].all()
        ]
        if not ends or np.isin(self.role, ("trunk", "soft", "head", "tail")).any():
            return
        stump = max(ends, key=lambda region: float(regions.radii[region]))
        members, places = regions.of_vertex == stump, skin.surface.vertices
        outwards = places[members].mean(axis=0) - places[~members].mean(axis=0)
        outwards /= max(float(np.linalg.norm(outwards)), 1e-300)
        reach = places @ outwards
        # The thickness of the body there, as no ball fits into the edge of the cut.
        thick = float(self.thickness[members].max(initial=0.0))
        inwards = (reach[members].max() - reach) / max(thick, 1e-300)
        kept = np.clip(inwards - STUMP, 0.0, 1.0)
        near = members & ~self.told
        self.share[near] *= kept[near]

    def _apply_parts(
        self, surface: SurfaceMesh, parts: LooseParts, labels: Mapping[str, Ints]
    ) -> None:
        """Assign roles to shells, props, small attached parts, and labelled vertices."""
        self.share[parts.shell] = np.minimum(self.share[parts.shell], SHELL_SHARE)
        self.firmness[parts.shell] *= SHELL_FIRMNESS
        area = surface.vertex_areas()
        for label, vertices in labels.items():
            role = label_role(label)
            if role is None or area[vertices].sum() >= MOST_LABELLED * area.sum():
                continue
            if ROLES[role] <= HARD:
                vertices = vertices[self.share[vertices] > ROLES[role]]
            vertices = vertices[~self.told[vertices]]  # a user's entry takes precedence
            if role == "head":  # a cow's udder may have the material of its muzzle
                vertices = vertices[np.isin(self.role[vertices], ("head", "neck", "ear"))]
            self.say(vertices, role)
        carried = (parts.carrier != np.arange(len(self.role))) & (self.share >= HARD)
        for values in (self.share, self.role):
            values[carried] = values[parts.carrier[carried]]
        self.say(np.flatnonzero(parts.prop), "prop")
        self.apart = self.apart | parts.prop

    def say(self, vertices: Ints, role: str) -> None:
        """Set the role of some vertices, and its flesh share."""
        self.role[vertices], self.share[vertices] = role, ROLES[role]


def _trunk(roles: NDArray[np.str_]) -> Bools:
    return np.isin(roles, ("trunk", "soft"))
