"""Maps on the skin: role, flesh share and firmness of each vertex, from its regions' entries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from supple.anatomy.loose_parts import Components, LooseParts, Outgrowth, outgrowths
from supple.anatomy.region_entries import EDITED, FEEL_STIFFNESS, RegionEntry
from supple.anatomy.roles import HARD, ROLES, joint_roles, label_role
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
#: Least number of vertices of an outgrowth; fewer are only the tip of a coarse one.
LEAST_VERTICES = 4
#: Weight of buried skin and of objects in a hand.
HIDDEN = 1e-3


@dataclass(frozen=True, eq=False)
class MeasuredSkin:
    """Measurements of a skin, before roles are assigned.

    `name_roles` (J,) are the roles that the joints' `names` indicate, None for no role. Skin
    weights (n̄, J) and thickness (n̄,) in metres are symmetric. `mirror` is None for bodies without
    two sides.
    """

    surface: SurfaceMesh
    names: tuple[str, ...]
    name_roles: list[str | None]
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
            pieces = pieces.even(mirror.counterpart, area)
        hidden = pieces.held(area) | balls.buried(surface)
        counted = np.where(hidden, HIDDEN, 1.0) * area
        regions = SkinRegions.of(
            surface, body.vertices, weights, rig.skeleton, thickness, counted, mirror
        )
        grown: list[Outgrowth] = []
        if mirror is not None:
            middle = np.flatnonzero(regions.sides == 0).tolist()
            visible_area = np.where(hidden | pieces.loose, 0.0, area)
            grown = outgrowths(
                surface, balls, thickness, visible_area, regions, middle, mirror, body.vertices
            )
        names = tuple(rig.skeleton.names)
        roles = joint_roles(names, parents.tolist())
        return cls(surface, names, roles, weights, pieces, regions, grown, thickness, mirror)

    def follows(self) -> sp.csr_array:
        """Return the skin weights (n̄, k) of each vertex, summed over the joints of each region."""
        count = self.weights.shape[1]
        entries = (np.ones(count), (np.arange(count), self.regions.of_joint))
        return sp.csr_array(self.weights @ sp.csr_array(entries, (count, len(self.regions))))


#: Length of the held part at a cut, in thicknesses of the body; flesh fades in over as much.
STUMP = 0.5


@dataclass(eq=False)
class SkinMaps:
    """Role, flesh share, firmness, thickness, separation and back of each vertex; see `Anatomy`.

    `edited` (n̄,) masks vertices where a user's entry takes precedence over shape and names.
    """

    role: NDArray[np.str_]
    share: Floats
    firmness: Floats
    apart: Bools
    thickness: Floats
    back: Floats
    edited: Bools

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
            np.array([EDITED in each.reasons for each in listed])[regions.of_vertex],
        )
        by_joint = shares[regions.of_joint]
        if use_names and not skin.pieces.machine:
            maps._apply_joints_without_regions(skin, entries, by_joint)
        share = np.clip(np.asarray(skin.weights @ by_joint), 0.0, 1.0)
        # A horn may follow the neck by half.
        hard = shares[regions.of_vertex] < HARD
        maps.share = np.where(hard, np.minimum(share, JUST_HARD), share)
        parts = LooseParts.of(skin.surface, skin.pieces, regions, _trunk(roles))
        if not skin.pieces.machine:
            maps._skull_below_ears()
            maps._apply_outgrowths(skin.outgrowths)
            maps.thickness = maps.thickness[parts.carrier]
            maps._belly_and_back(skin)
            maps._hold_stump(skin)
        maps._apply_parts(skin, parts, labels if use_names else {})
        return maps

    def _apply_joints_without_regions(
        self, skin: MeasuredSkin, entries: Mapping[str, RegionEntry], shares: Floats
    ) -> None:
        """Harden the skin of joints that have no region and whose names have hard roles."""
        for joint, (name, role) in enumerate(zip(skin.names, skin.name_roles, strict=True)):
            if name in entries or role is None or ROLES[role] >= HARD:
                continue
            weights = skin.weights[:, [joint]].toarray().ravel()
            if not self.edited[weights > 0].any():
                shares[joint] = min(shares[joint], ROLES[role])
                self.role[weights >= LEADS] = role

    def _skull_below_ears(self) -> None:
        """Change the role ear to head where the skin is too thick for an ear."""
        head, ear = self.role == "head", (self.role == "ear") & ~self.edited
        if head.any() and ear.any():
            skull = ear & (self.thickness > THICK_EAR * np.median(self.thickness[head]))
            self.set_role(np.flatnonzero(skull), "head")

    def _apply_outgrowths(self, grown: list[Outgrowth]) -> None:
        """Assign the roles ear, horn, head and fin to outgrowths that have no joints."""
        for each in grown:
            if len(each.vertices) < LEAST_VERTICES:
                continue
            vertices = each.vertices[~self.edited[each.vertices]]
            upper = vertices[np.isin(self.role[vertices], ("head", "neck"))]
            self.set_role(upper, "head" if each.side == 0 else "ear" if each.flat else "horn")
            if each.flat or each.side:  # a rod in the middle is a tail
                self.set_role(vertices[np.isin(self.role[vertices], ("trunk", "tail"))], "fin")

    def _belly_and_back(self, skin: MeasuredSkin) -> None:
        thick = float(self.thickness[_trunk(self.role)].max(initial=0.0))
        sided = np.isin(self.role, ("trunk", "neck")) & ~(self.edited & (self.share < HARD))
        back = back_side(skin.surface, self.role, thick)
        if skin.mirror is not None:  # a rest pose may be a stride
            back = skin.mirror.mean(back)
        self.back = np.where(sided, back, 0.0)
        self.share = np.where(self.back != 0, share_by_side(self.share, self.back), self.share)

    def _hold_stump(self, skin: MeasuredSkin) -> None:
        """Reduce the flesh share to 0 at the cut end of an arm or a leg without a body."""
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
        near = members & ~self.edited
        self.share[near] *= kept[near]

    def _apply_parts(
        self, skin: MeasuredSkin, parts: LooseParts, labels: Mapping[str, Ints]
    ) -> None:
        """Change share and firmness of shells; assign roles to props, attached parts and labels."""
        self.share[parts.shell] = np.minimum(self.share[parts.shell], SHELL_SHARE)
        if skin.pieces.machine:  # a part that bends is flesh as a whole, whatever its regions are
            self.share[parts.shell & ~self.edited] = SHELL_SHARE
        self.firmness[parts.shell] *= SHELL_FIRMNESS
        area = skin.surface.vertex_areas()
        for label, vertices in labels.items():
            role = label_role(label)
            if role is None or area[vertices].sum() >= MOST_LABELLED * area.sum():
                continue
            if ROLES[role] <= HARD:
                vertices = vertices[self.share[vertices] > ROLES[role]]
            vertices = vertices[~self.edited[vertices]]  # a user's entry takes precedence
            if role == "head":  # a cow's udder may have the material of its muzzle
                vertices = vertices[np.isin(self.role[vertices], ("head", "neck", "ear"))]
            self.set_role(vertices, role)
        carried = (parts.carrier != np.arange(len(self.role))) & (self.share >= HARD)
        for values in (self.share, self.role):
            values[carried] = values[parts.carrier[carried]]
        prop = parts.prop & ~(self.edited & (self.share >= HARD))
        self.set_role(np.flatnonzero(prop), "prop")
        self.apart = self.apart | prop

    def set_role(self, vertices: Ints, role: str) -> None:
        """Set the role of some vertices, and its flesh share."""
        self.role[vertices], self.share[vertices] = role, ROLES[role]


def _trunk(roles: NDArray[np.str_]) -> Bools:
    return np.isin(roles, ("trunk", "soft"))


# Belly and back of bodies that stand on limbs: the spine runs along the back, flesh hangs below.
# Skeletons of game animals often run through the belly, or along the middle. With bone there, a
# cow's withers swung by 7.6 % of its size while its belly did not move.


#: Roles along the middle of a body, and of the limbs it stands on.
MIDDLE = ("trunk", "soft", "neck", "head", "tail")
LIMBS = ("limb", "forearm", "shin", "hand", "foot", "end")
#: Distance of the limbs' middle from the body's axis, in trunk radii, from which they indicate the
#: belly; at twice that the evidence is full. A standing human's limbs are along the axis.
BESIDE = 0.5
#: Triangles near a vertex whose normals are averaged, so that coarse backs are smooth.
NEAR = 16
#: Share of flesh at the middle of the back, relative to that of the flanks.
BACK = 0.15


def back_side(surface: SurfaceMesh, role: NDArray[np.str_], radius: float) -> Floats:
    """Return (n̄,) 1 on the back, −1 on the belly, 0 on the flanks and if the shape is ambiguous.

    `role` (n̄,) is the role of each vertex; `radius`, in metres, is the radius of the largest
    ball inscribed in the trunk.
    """
    area = surface.vertex_areas()
    middle, limbs = np.isin(role, MIDDLE), np.isin(role, LIMBS)
    none = np.zeros(len(role))
    if not (area[middle].sum() > 0 and area[limbs].sum() > 0):
        return none
    centre = np.average(surface.vertices[middle], axis=0, weights=area[middle])
    centred = surface.vertices[middle] - centre
    axis = np.linalg.eigh((centred * area[middle, None]).T @ centred)[1][:, -1]
    trunk = np.isin(role, ("trunk", "soft"))
    if area[trunk].sum() > 0:
        centre = np.average(surface.vertices[trunk], axis=0, weights=area[trunk])
    below = np.average(surface.vertices[limbs], axis=0, weights=area[limbs]) - centre
    below -= (below @ axis) * axis
    distance = float(np.linalg.norm(below))
    certain = np.clip(distance / (BESIDE * radius) - 1, 0.0, 1.0)
    if certain == 0:
        return none
    facing: Floats = _normals(surface) @ (-below / distance)
    return certain * facing


def share_by_side(share: Floats, back: Floats) -> Floats:
    """Return flesh shares (n̄,), reduced on the back and raised to 1 on the belly."""
    dorsal, ventral = np.clip(2 * back - 0.6, 0.0, 1.0), np.maximum(-back, 0.0)
    return share * (1 - (1 - BACK) * dorsal) + (1 - share) * ventral


def _normals(surface: SurfaceMesh) -> Floats:
    """Return unit normals (n̄, 3), averaged over the triangles near each vertex."""
    areas, triangles = surface.areas(), surface.triangles
    tree = cKDTree(surface.vertices[triangles].mean(axis=1))
    _, near = tree.query(surface.vertices, k=range(1, min(NEAR, len(triangles)) + 1))
    summed: Floats = np.einsum("kn,kni->ki", areas[near], surface.normals()[near])
    return summed / np.maximum(np.linalg.norm(summed, axis=1, keepdims=True), 1e-300)
