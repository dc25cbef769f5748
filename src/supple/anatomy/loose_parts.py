"""Loose parts of a surface: which components follow one joint, and what carries them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.spatial import cKDTree

from supple.anatomy.skin_regions import SkinRegions, vertex_areas
from supple.arrays import Bools, Ints
from supple.mesh.surface import SurfaceMesh

__all__ = ["LooseParts"]

#: A component follows one joint that has this much of the weight at each of its vertices.
FOLLOWS = 0.99
#: Components larger than this part of the skin's area are body where they belong to the trunk.
BODY = 0.1
#: Small components this near to the rest, as parts of its area and size, are carried by it: eyes,
#: teeth, buttons, a fish's spikes.
SMALL, NEAR = 0.02, 0.02


@dataclass(frozen=True, eq=False)
class LooseParts:
    """Tell bodies, props and what is carried apart.

    Attributes
    ----------
    of_vertex
        (n̄,) component of the surface.
    prop
        (n̄,) whether a vertex belongs to a component that follows one joint and rides on it.
    carrier
        (n̄,) the vertex of another component that carries a vertex, itself for most.
    """

    of_vertex: Ints
    prop: Bools
    carrier: Ints

    @classmethod
    def of(
        cls, surface: SurfaceMesh, weights: sp.csr_array, regions: SkinRegions, trunk: Bools
    ) -> LooseParts:
        """Parts of a surface with skin weights (n̄, J); `trunk` (k,) regions may be one part."""
        n = len(surface.vertices)
        part = np.zeros(n, np.int64)
        part[surface.triangles] = surface.components()[:, None]
        count = int(part.max()) + 1
        prop, carrier = np.zeros(n, bool), np.arange(n)
        if count == 1:
            return cls(part, prop, carrier)
        area = vertex_areas(surface)
        share = np.bincount(part, area, count) / max(float(area.sum()), 1e-300)
        alone = np.asarray(weights.max(axis=1).todense()).ravel() >= FOLLOWS
        lead = np.asarray(weights.argmax(axis=1)).ravel()
        for component in np.argsort(share, kind="stable"):
            own = np.flatnonzero(part == component)
            one = alone[own].all() and np.ptp(lead[own]) == 0
            body = trunk[regions.of_vertex[own]].any() and share[component] > BODY
            if not one or body or share[component] > 0.5:
                continue
            others = np.flatnonzero(part != component)
            away, near = cKDTree(surface.vertices[others]).query(surface.vertices[own])
            if share[component] < SMALL and np.median(away) < NEAR * surface.size:
                carrier[own] = others[near]
            else:
                prop[own] = True
        return cls(part, prop, carrier)
