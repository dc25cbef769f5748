"""Loose parts of a surface: which components follow one joint, and what carries them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.spatial import cKDTree

from supple.anatomy.skin_regions import SkinRegions, vertex_areas
from supple.arrays import Bools, Ints
from supple.mesh.surface import SurfaceMesh

__all__ = ["LooseParts", "held_things"]

#: A component follows one joint that has this much of the weight at each of its vertices.
FOLLOWS = 0.99
#: Components larger than this part of the skin's area are body where they belong to the trunk.
BODY = 0.1
#: Small components this near to the rest, as parts of its area and size, are carried by it: eyes,
#: teeth, buttons, a fish's spikes.
SMALL, NEAR = 0.02, 0.02


def held_things(surface: SurfaceMesh, weights: sp.csr_array) -> Bools:
    """(n̄,) components that follow one joint which skin of another component follows as well.

    What a hand holds must not make it look unlike the other one.
    """
    part, lead, single = _single_joints(surface, weights)
    area = vertex_areas(surface)
    own = np.bincount(part, area)
    loose = single[part]
    skin = np.bincount(lead[~loose], area[~loose], weights.shape[1])
    return loose & (skin[lead] > 0.1 * own[part])


def _single_joints(surface: SurfaceMesh, weights: sp.csr_array) -> tuple[Ints, Ints, Bools]:
    """Component and leading joint of each vertex, and whether each component has one joint."""
    part = np.zeros(len(surface.vertices), np.int64)
    part[surface.triangles] = surface.components()[:, None]
    lead = np.asarray(weights.argmax(axis=1)).ravel().astype(np.int64)
    alone = np.asarray(weights.max(axis=1).todense()).ravel() >= FOLLOWS
    count = int(part.max()) + 1
    single = np.bincount(part[~alone], minlength=count) == 0
    first = lead[np.unique(part, return_index=True)[1]]
    single &= np.bincount(part[lead != first[part]], minlength=count) == 0
    return part, lead, single


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
    shell
        (n̄,) whether a vertex belongs to a trunk that follows one joint: a robot's.
    """

    of_vertex: Ints
    prop: Bools
    carrier: Ints
    shell: Bools

    @classmethod
    def of(
        cls, surface: SurfaceMesh, weights: sp.csr_array, regions: SkinRegions, trunk: Bools
    ) -> LooseParts:
        """Parts of a surface with skin weights (n̄, J); `trunk` (k,) regions may be one part."""
        n = len(surface.vertices)
        part, _, single = _single_joints(surface, weights)
        prop, carrier, shell = np.zeros(n, bool), np.arange(n), np.zeros(n, bool)
        if len(single) == 1:
            return cls(part, prop, carrier, shell)
        area = vertex_areas(surface)
        share = np.bincount(part, area) / max(float(area.sum()), 1e-300)
        for component in np.argsort(share, kind="stable"):
            own = np.flatnonzero(part == component)
            body = trunk[regions.of_vertex[own]].any() and share[component] > BODY
            if not single[component]:
                continue
            if body or share[component] > 0.5:
                shell[own] = True
                continue
            others = np.flatnonzero(part != component)
            away, near = cKDTree(surface.vertices[others]).query(surface.vertices[own])
            if share[component] < SMALL and np.median(away) < NEAR * surface.size:
                carrier[own] = others[near]
            else:
                prop[own] = True
        return cls(part, prop, carrier, shell)
