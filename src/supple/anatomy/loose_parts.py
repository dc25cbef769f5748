"""Loose parts of a skin: components that follow one joint, small attached parts, and shells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.spatial import cKDTree

from supple.anatomy.skin_regions import SkinRegions, leading_joints
from supple.arrays import Bools, Floats, Ints
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh

#: Set of tets whose skin follows the rig without flesh.
RIDING = "rides on the rig"


#: Least weight of one joint at all vertices of a component that follows it.
FOLLOWS = 0.99


#: Components larger than this part of the skin's area are body where they belong to the trunk.
BODY = 0.1


#: Small components this near to the rest, as parts of its area and size, are carried by it: eyes,
#: teeth, buttons, a fish's spikes.
SMALL, NEAR = 0.02, 0.02


#: Components up to this part of the area may be eyes.
LARGE_EYE = 0.05


#: A machine has at least this part of its area in rigid components, on so many joints.
MACHINE, MACHINE_JOINTS = 0.75, 4


@dataclass(frozen=True, eq=False)
class Components:
    """Connected components of a skin.

    `of_vertex` (n̄,) is the component of each vertex and `lead` (n̄,) its joint with the largest
    weight; `single` (c,) masks components that follow one joint alone, and `shares` (c,) are their
    parts of the skin's area.
    """

    of_vertex: Ints
    lead: Ints
    single: Bools
    shares: Floats

    @classmethod
    def of(cls, surface: SurfaceMesh, weights: sp.csr_array) -> Components:
        """Return the components of a surface with skin weights (n̄, J)."""
        part = np.zeros(len(surface.vertices), np.int64)
        part[surface.triangles] = surface.components()[:, None]
        lead, most = leading_joints(weights)
        alone = most >= FOLLOWS
        count = int(part.max()) + 1
        single = np.bincount(part[~alone], minlength=count) == 0
        first = lead[np.unique(part, return_index=True)[1]]
        single &= np.bincount(part[lead != first[part]], minlength=count) == 0
        area = surface.vertex_areas()
        shares = np.bincount(part, area) / max(float(area.sum()), 1e-300)
        return cls(part, lead, single, shares)

    @property
    def loose(self) -> Bools:
        """Return the mask (n̄,) of components with one joint, unless these are the whole body."""
        loose: Bools = self.single[self.of_vertex]
        return loose & (not loose.all())

    def flesh(self, area: Floats) -> Floats:
        """Return areas (n̄,), 0 for loose components unless they are most of the body."""
        flesh = np.where(self.loose, 0.0, area)
        return flesh if flesh.sum() > 0.5 * area.sum() else area

    def held(self, area: Floats) -> Bools:
        """Return the mask (n̄,) of rigid components on joints that other skin follows, too.

        An object in one hand must not make the hands look different.
        """
        areas = np.bincount(self.of_vertex, area)
        loose = self.single[self.of_vertex]
        count = int(self.lead.max()) + 1
        skin = np.bincount(self.lead[~loose], area[~loose], count)
        held: Bools = loose & (skin[self.lead] > 0.1 * areas[self.of_vertex])
        return held

    def small_on(self, regions: SkinRegions) -> Ints:
        """Return the number (k,) of small components of each region, such as eyes and teeth."""
        counts = np.zeros(len(regions), np.int64)
        if len(self.shares) == 1:
            return counts
        for part in np.flatnonzero(self.shares < LARGE_EYE):
            counts[np.bincount(regions.of_vertex[self.of_vertex == part]).argmax()] += 1
        return counts

    @property
    def machine(self) -> bool:
        """Return whether most components are rigid, on several joints, as of a robot."""
        rigid = float(self.shares[self.single].sum())
        joints = np.unique(self.lead[self.single[self.of_vertex]])
        return rigid > MACHINE and len(joints) >= MACHINE_JOINTS

    def rigid_regions(self, regions: SkinRegions) -> Bools | None:
        """Return the mask (k,) of a machine's rigid regions; None for other bodies."""
        if not self.machine:
            return None
        count = len(regions)
        bends = np.bincount(regions.of_vertex, ~self.single[self.of_vertex], count)
        rigid: Bools = bends < 0.5 * np.bincount(regions.of_vertex, minlength=count)
        return rigid


@dataclass(frozen=True, eq=False)
class LooseParts:
    """Props, small attached parts and shells of a surface, by vertex (n̄,).

    `prop` masks components that follow one joint rigidly, `shell` trunks that follow one joint and
    parts of machines that bend. `carrier` is the vertex of another component to which a small part
    is attached, otherwise the vertex itself.
    """

    prop: Bools
    carrier: Ints
    shell: Bools

    @classmethod
    def of(
        cls, surface: SurfaceMesh, pieces: Components, regions: SkinRegions, trunk: Bools
    ) -> LooseParts:
        """Return the parts of a surface; `trunk` (k,) are regions that may be one part."""
        n = len(surface.vertices)
        prop, carrier, shell = np.zeros(n, bool), np.arange(n), np.zeros(n, bool)
        if len(pieces.shares) == 1:
            return cls(prop, carrier, shell)
        if pieces.machine:
            prop = pieces.single[pieces.of_vertex]
            return cls(prop, carrier, ~prop)
        for piece in np.argsort(pieces.shares, kind="stable"):
            if not pieces.single[piece]:
                continue
            members = np.flatnonzero(pieces.of_vertex == piece)
            share = pieces.shares[piece]
            if share > 0.5 or (trunk[regions.of_vertex[members]].any() and share > BODY):
                shell[members] = True
                continue
            others = np.flatnonzero(pieces.of_vertex != piece)
            away, near = cKDTree(surface.vertices[others]).query(surface.vertices[members])
            if share < SMALL and np.median(away) < NEAR * surface.size:
                carrier[members] = others[near]
            else:
                prop[members] = True
        return cls(prop, carrier, shell)


def flesh_tets(mesh: TetMesh) -> TetMesh:
    """Return the mesh without tets that follow the rig, with all vertices."""
    riding = mesh.sets.get(RIDING, np.empty(0, np.int64))
    return TetMesh(mesh.vertices, np.delete(mesh.tets, riding, axis=0)) if len(riding) else mesh
