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

#: Skin may stick out that is thinner than this part of its region's core, which 90 % of the
#: region's area are not thicker than; balls of half that size make up the core.
THIN, CORE, QUANTILE = 0.4, 0.5, 0.9


#: Number of overlapping balls that represent a core.
MOST_BALLS = 1000


#: Least distance of an outgrowth from the core, in thicknesses of itself.
STICKS_OUT = 1.5


#: All of an outgrowth reaches this many times the core's radius from it: a man's ear 0.25 and a
#: nose 0.4, a rat's ear 0.9, a cow's 1.2.
REACH = 0.6


#: It has this part of the skin's area at least.
LEAST_AREA = 1e-3


#: Leaves have more skin than rods of their length and thickness by this factor: horns 0.9 to
#: 1.6, flippers 1.9, ears 2.6 to 3.7.
FLAT = 1.75


@dataclass(frozen=True, eq=False)
class Outgrowth:
    """One thin part that protrudes from a body.

    Attributes
    ----------
    vertices
        (m,) vertices of the skin.
    region
        Region of the outgrowth.
    flat
        Whether it is a flat leaf rather than a rod.
    side
        −1, 0 in the middle, 1.
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
    """Return the outgrowths of some regions of the skin.

    Parameters
    ----------
    surface, balls
        The skin, and the balls inscribed in it.
    thickness, area
        (n̄,) in metres, and the area of each vertex, 0 for ignored ones.
    regions, among
        Regions of the skin, and the ones to search.
    mirror, bound
        Mirror symmetry, and the skin in the bind pose.
    """
    reach, core = _beyond_cores(surface, balls, thickness, area, regions, among)
    reach, core = mirror.even(reach), mirror.even(core)
    out = (thickness < THIN * core) & (reach > STICKS_OUT * thickness) & (area > 0)
    sides = np.sign(mirror.sides(bound))
    found: list[Outgrowth] = []
    for own in _pieces(surface, out):
        much, mean = float(area[own].sum()), max(float(core[own].mean()), 1e-300)
        if much < LEAST_AREA * area.sum() or reach[own].max() < REACH * mean:
            continue
        around = surface.triangles[np.isin(surface.triangles, own).any(axis=1)]
        length = extent(surface.vertices[np.unique(around)])  # only the tip of a coarse ear is far
        rod = 2 * np.pi * length * float(np.average(thickness[own], weights=area[own]))
        region = int(np.bincount(regions.of_vertex[own], area[own]).argmax())
        side = int(float(sides[own].mean()) / 0.95)
        found.append(Outgrowth(own, region, much > FLAT * rod, side))
    return found


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
        own = np.flatnonzero((regions.of_vertex == region) & (area > 0))
        if not len(own):
            continue
        core[own] = quantile(thickness[own], area[own], QUANTILE)
        thin = own[thickness[own] < THIN * core[own]]
        inner = np.flatnonzero(radii >= CORE * core[own[0]])
        if len(thin) and len(inner):
            inner = inner[:: max(1, len(inner) // MOST_BALLS)]
            reach[thin] = _to_balls(surface.vertices[thin], centres[inner], radii[inner])
    return reach, core


def _to_balls(points: Floats, centres: Floats, radii: Floats) -> Floats:
    """Return the distance (m,) of points to the nearest of some balls."""
    found = np.empty(len(points))
    for first in range(0, len(points), 256):
        some = points[first : first + 256]
        away = np.linalg.norm(some[:, None] - centres[None], axis=2) - radii
        found[first : first + 256] = away.min(axis=1)
    return found


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
