"""Outgrowths of a body without joints of their own: ears, horns, frills, fins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from supple.anatomy.skin_regions import SkinRegions, extent, quantile
from supple.anatomy.symmetry import Mirror
from supple.anatomy.thickness import InscribedBalls
from supple.arrays import Bools, Floats, Ints
from supple.mesh.surface import SurfaceMesh

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

    `thickness` (n̄,) is in metres, `area` (n̄,) is 0 for ignored vertices, and `bound` is the skin
    in the bind pose.
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
    """Return distances (n̄,) of thin skin from the core of its region, and the core's radius."""
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
    """Return the distance (m,) of points to the nearest of some balls."""
    nearest = np.empty(len(points))
    for first in range(0, len(points), 256):
        block = points[first : first + 256]
        distances = np.linalg.norm(block[:, None] - centres[None], axis=2) - radii
        nearest[first : first + 256] = distances.min(axis=1)
    return nearest


def _pieces(surface: SurfaceMesh, chosen: Bools) -> list[Ints]:
    """Return connected components of some vertices, across seams."""
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
