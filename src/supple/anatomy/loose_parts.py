"""Parts of a skin without joints of their own: components on one joint, shells, and outgrowths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from supple.anatomy.skin_regions import SkinRegions, extent, leading_joints, quantile
from supple.anatomy.symmetry import Mirror
from supple.anatomy.thickness import InscribedBalls
from supple.arrays import Bools, Floats, Ints
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh

#: Set of tets whose skin follows the rig without flesh.
RIDING = "rides on the rig"
#: Least weight of one joint at all vertices of a component that follows it.
FOLLOWS = 0.99
#: Components larger than this fraction of the skin's area belong to the body if on the trunk.
BODY = 0.1
#: Largest area of a small component, and largest distance at which it is attached to another one,
#: relative to the skin's area and size: eyes, teeth, buttons, a fish's spikes.
SMALL, NEAR = 0.02, 0.02
#: Components up to this fraction of the area may be eyes.
LARGE_EYE = 0.05
#: Least part of a component of a machine that follows one joint, in weight, or each of its joints
#: alone, in area, for it to be rigid: a seam or a stray weight does not make it flesh.
ALMOST = 0.9
#: A machine has at least this fraction of its area in rigid components, on this many joints.
MACHINE, MACHINE_JOINTS = 0.75, 4


@dataclass(frozen=True, eq=False)
class Components:
    """Connected components of a skin.

    `of_vertex` (n̄,) is the component of each vertex, and `lead` (n̄,) the joint with the largest
    weight at the vertex. `single` (c,) masks components that follow one joint alone, and `rigid`
    (c,) those that hardly bend. `main` (c,) is the joint that most of a component follows, −1 if
    less than `ALMOST` does. `shares` (c,) are fractions of the skin's area.
    """

    of_vertex: Ints
    lead: Ints
    single: Bools
    rigid: Bools
    main: Ints
    shares: Floats

    @classmethod
    def of(cls, surface: SurfaceMesh, weights: sp.csr_array) -> Components:
        """Return the components of a surface with skin weights (n̄, J)."""
        part = np.zeros(len(surface.vertices), np.int64)
        part[surface.triangles] = surface.components()[:, None]
        lead, weight = leading_joints(weights)
        count = int(part.max()) + 1
        single = np.bincount(part[weight < FOLLOWS], minlength=count) == 0
        first = lead[np.unique(part, return_index=True)[1]]
        single &= np.bincount(part[lead != first[part]], minlength=count) == 0
        area = surface.vertex_areas()
        areas = np.maximum(np.bincount(part, area), 1e-300)
        shares = areas / max(float(area.sum()), 1e-300)
        entries = (area, (part, np.arange(len(part))))
        main, most = leading_joints(sp.csr_array(sp.csr_array(entries) @ weights))
        alone = np.bincount(part, area * (weight >= FOLLOWS)) / areas
        main = np.where(single | (most >= ALMOST * areas), main, -1)
        return cls(part, lead, single, (main >= 0) | (alone >= ALMOST), main, shares)

    def even(self, counterpart: sp.csr_array, area: Floats) -> Components:
        """Return the components; those whose mirror image is mostly rigid become rigid.

        `counterpart` (n̄, n̄) is that of a `Mirror`, `area` (n̄,) that of the vertices.
        """
        there = area * (counterpart @ self.rigid[self.of_vertex].astype(float))
        half = 0.5 * np.bincount(self.of_vertex, area)
        return replace(self, rigid=self.rigid | (np.bincount(self.of_vertex, there) > half))

    @property
    def loose(self) -> Bools:
        """Mask (n̄,) of components that follow one joint each; all False if all components do."""
        loose: Bools = self.single[self.of_vertex]
        return loose & (not loose.all())

    def flesh(self, area: Floats) -> Floats:
        """Return `area` (n̄,), 0 at loose components unless these are half of the area."""
        flesh = np.where(self.loose, 0.0, area)
        return flesh if flesh.sum() > 0.5 * area.sum() else area

    def held(self, area: Floats) -> Bools:
        """Return the mask (n̄,) of rigid components, such as objects in a hand.

        A component counts if its joint also moves other skin of more than a tenth of its area.
        Callers reduce its weight, so that an object in one hand does not hide the hands' symmetry.
        """
        areas = np.bincount(self.of_vertex, area)
        loose = self.single[self.of_vertex]
        count = int(self.lead.max()) + 1
        skin = np.bincount(self.lead[~loose], area[~loose], count)
        held: Bools = loose & (skin[self.lead] > 0.1 * areas[self.of_vertex])
        return held

    def small_on(self, regions: SkinRegions) -> Ints:
        """Return the number (k,) of small components on each region, such as eyes and teeth."""
        counts = np.zeros(len(regions), np.int64)
        if len(self.shares) == 1:
            return counts
        for part in np.flatnonzero(self.shares < LARGE_EYE):
            counts[np.bincount(regions.of_vertex[self.of_vertex == part]).argmax()] += 1
        return counts

    @property
    def machine(self) -> bool:
        """Whether components on one joint each make up most of the skin, as in a robot."""
        whole = self.main >= 0
        enough = len(np.unique(self.main[whole])) >= MACHINE_JOINTS
        return enough and float(self.shares[whole].sum()) > MACHINE

    def rigid_regions(self, regions: SkinRegions) -> Bools | None:
        """Return the mask (k,) of a machine's rigid regions; None for other bodies."""
        if not self.machine:
            return None
        count = len(regions)
        bends = np.bincount(regions.of_vertex, ~self.rigid[self.of_vertex], count)
        rigid: Bools = bends < 0.5 * np.bincount(regions.of_vertex, minlength=count)
        return rigid


@dataclass(frozen=True, eq=False)
class LooseParts:
    """Props, small attached parts and shells of a surface, by vertex (n̄,).

    `prop` masks components that follow one joint rigidly. `shell` masks large components
    of the trunk, and the parts of machines that bend. `carrier` is, for vertices of a small
    attached part, the nearest vertex of another component; for others the vertex itself.
    """

    prop: Bools
    carrier: Ints
    shell: Bools

    @classmethod
    def of(
        cls, surface: SurfaceMesh, pieces: Components, regions: SkinRegions, trunk: Bools
    ) -> LooseParts:
        """Return the parts of a surface; `trunk` (k,) masks the regions of the trunk."""
        n = len(surface.vertices)
        prop, carrier, shell = np.zeros(n, bool), np.arange(n), np.zeros(n, bool)
        if len(pieces.shares) == 1:
            return cls(prop, carrier, shell)
        if pieces.machine:
            prop = pieces.rigid[pieces.of_vertex]
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
    """Return the mesh without the tets of the set `RIDING`; all vertices are kept."""
    riding = mesh.sets.get(RIDING, np.empty(0, np.int64))
    return TetMesh(mesh.vertices, np.delete(mesh.tets, riding, axis=0)) if len(riding) else mesh


# Outgrowths: ears, horns, frills, fins.


#: Largest thickness of an outgrowth relative to the core of its region, the same for balls of the
#: core, and the quantile of the thickness over the region's area that is the core's radius.
THIN, CORE, QUANTILE = 0.4, 0.5, 0.9
#: Number of overlapping balls that represent a core.
MOST_BALLS = 1000
#: Least distance of an outgrowth from the core, in thicknesses of itself.
STICKS_OUT = 1.5
#: Least reach of an outgrowth from the core, in radii of the core: a man's ear has 0.25 and a nose
#: 0.4, a rat's ear 0.9, a cow's 1.2.
REACH = 0.6
#: Least area of an outgrowth, relative to the skin.
LEAST_AREA = 1e-3
#: Leaves have more skin than rods of their length and thickness by this factor: horns 0.9 to
#: 1.6, flippers 1.9, ears 2.6 to 3.7.
FLAT = 1.75


@dataclass(frozen=True, eq=False)
class Outgrowth:
    """Thin part that protrudes from a body: vertices (m,) of the skin, and their region.

    `flat` is True for leaves, False for rods; `side` is −1, 0 in the middle, or 1.
    """

    vertices: Ints
    region: int
    flat: bool
    side: int


def outgrowths(
    surface: SurfaceMesh,
    balls: InscribedBalls,
    thickness: Floats,
    area: Floats,
    regions: SkinRegions,
    among: Sequence[int],
    mirror: Mirror,
    bound: Floats,
) -> list[Outgrowth]:
    """Return the outgrowths of the regions `among` of the skin.

    `thickness` (n̄,) is in metres, `area` (n̄,) is 0 for ignored vertices, and `bound` (n̄, 3) is
    the skin in the bind pose at unit size.
    """
    reach, core = _beyond_cores(surface, balls, thickness, area, regions, among)
    reach, core = mirror.even(reach), mirror.even(core)
    out = (thickness < THIN * core) & (reach > STICKS_OUT * thickness) & (area > 0)
    sides = np.sign(mirror.sides(bound))
    grown: list[Outgrowth] = []
    for piece in _pieces(surface, out):
        piece_area, mean = float(area[piece].sum()), max(float(core[piece].mean()), 1e-300)
        if piece_area < LEAST_AREA * area.sum() or reach[piece].max() < REACH * mean:
            continue
        around = surface.triangles[np.isin(surface.triangles, piece).any(axis=1)]
        length = extent(surface.vertices[np.unique(around)])  # only the tip of a coarse ear is far
        rod = 2 * np.pi * length * float(np.average(thickness[piece], weights=area[piece]))
        region = int(np.bincount(regions.of_vertex[piece], area[piece]).argmax())
        side = int(float(sides[piece].mean()) / 0.95)
        grown.append(Outgrowth(piece, region, piece_area > FLAT * rod, side))
    return grown


def paired_regions(grown: Sequence[Outgrowth]) -> set[int]:
    """Return the regions with outgrowths on both sides, such as ears and horns."""
    return {
        one.region
        for one in grown
        for other in grown
        if one.region == other.region and one.side * other.side < 0
    }


def _beyond_cores(
    surface: SurfaceMesh,
    balls: InscribedBalls,
    thickness: Floats,
    area: Floats,
    regions: SkinRegions,
    among: Sequence[int],
) -> tuple[Floats, Floats]:
    """Return distances (n̄,) in m of thin skin from its region's core, and the core's radius."""
    n = len(surface.vertices)
    reach, core = np.zeros(n), np.zeros(n)
    centres, radii = balls.centres, balls.radii
    for region in among:
        members = np.flatnonzero((regions.of_vertex == region) & (area > 0))
        if not len(members):
            continue
        core[members] = quantile(thickness[members], area[members], QUANTILE)
        thin = members[thickness[members] < THIN * core[members]]
        inner = np.flatnonzero(radii >= CORE * core[members[0]])
        if len(thin) and len(inner):
            inner = inner[:: max(1, len(inner) // MOST_BALLS)]
            reach[thin] = _to_balls(surface.vertices[thin], centres[inner], radii[inner])
    return reach, core


def _to_balls(points: Floats, centres: Floats, radii: Floats) -> Floats:
    """Return the distance (m,) of each point to the nearest ball, negative inside."""
    nearest = np.empty(len(points))
    for first in range(0, len(points), 256):
        block = points[first : first + 256]
        distances = np.linalg.norm(block[:, None] - centres[None], axis=2) - radii
        nearest[first : first + 256] = distances.min(axis=1)
    return nearest


def _pieces(surface: SurfaceMesh, chosen: Bools) -> list[Ints]:
    """Return the vertices of each connected component of the mask `chosen` (n̄,), across seams."""
    if not chosen.any():
        return []
    _, at = surface.welded()
    count = int(at.max()) + 1
    inside = np.zeros(count, bool)
    inside[at[chosen]] = True
    edges = at[surface.triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)]
    edges = edges[inside[edges].all(axis=1)]
    graph = sp.csr_array((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), (count, count))
    _, piece = connected_components(graph, directed=False)
    piece = piece[at]
    return [np.flatnonzero(chosen & (piece == each)) for each in np.unique(piece[chosen])]
