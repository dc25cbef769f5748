"""Regions of the skin that follow each joint most, the tree they make up, and loose parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order
from scipy.spatial import cKDTree

from supple.arrays import Bools, Floats, Ints
from supple.mesh.surface import SurfaceMesh
from supple.mesh.topology import components
from supple.rig.skeleton.skinning import SkinnedRig

__all__ = ["LooseParts", "SkinRegions", "held_things", "vertex_areas"]


#: Regions smaller than this part of the skin's area belong to a neighbour.
LEAST_AREA = 1e-3


#: Vertices of different components touch within this part of the size: clothes, and the halves of
#: a body that was modelled in parts.
TOUCHING = 0.01


#: Regions are left and right of each other whose centres mirror each other to this part of the
#: size, and whose areas differ by less than this factor.
MIRRORED, ALIKE_AREA = 0.04, 1.6


#: Skin with more than this weight follows one joint alone.
ALONE = 0.95


@dataclass(frozen=True, eq=False)
class SkinRegions:
    """Divide the skin by the joint that each vertex follows most.

    Attributes
    ----------
    joints
        (k,) the joint of each region.
    of_vertex
        (n̄,) region of each vertex.
    of_joint
        (J,) region that stands for each joint.
    areas, radii, lengths
        (k,) part of the skin's area, median thickness, and extent along the longest axis.
    narrow
        (k,) thickness that 30 % of the area fall short of: a short neck is covered by balls of
        its neighbours but for its middle.
    rigid
        (k,) part of the region's area that follows its joint alone.
    centres
        (k, 3).
    neighbours
        For each region those that are next to it in the tree.
    borders
        (k, k) thickness where two regions meet, 0 where they do not.
    """

    joints: Ints
    of_vertex: Ints
    of_joint: Ints
    areas: Floats
    radii: Floats
    narrow: Floats
    lengths: Floats
    rigid: Floats
    centres: Floats
    neighbours: tuple[tuple[int, ...], ...]
    borders: Floats

    def __len__(self) -> int:
        return len(self.joints)

    @classmethod
    def of(
        cls, surface: SurfaceMesh, rig: SkinnedRig, thickness: Floats, counted: Bools
    ) -> SkinRegions:
        """Divide a skinned surface.

        Parameters
        ----------
        surface, rig
            The skin and what moves it.
        thickness
            (n̄,) R at each vertex.
        counted
            (n̄,) vertices whose area counts: not what is buried, nor what hands hold.
        """
        weights = sp.csr_array(rig.weight_matrix())
        # What does not count still has a region, and a region may have nothing else.
        area = np.where(counted, 1.0, 1e-3) * vertex_areas(surface)
        lead = _leading_joints(weights, area)
        joints, of_vertex = np.unique(lead, return_inverse=True)
        count = len(joints)
        totals = np.maximum(np.bincount(of_vertex, area, minlength=count), 1e-300)
        alone = np.asarray(weights.max(axis=1).todense()).ravel() > ALONE
        centres = np.stack(
            [np.bincount(of_vertex, area * axis, count) / totals for axis in surface.vertices.T], 1
        )
        members = [np.flatnonzero(of_vertex == region) for region in range(count)]
        radii, narrow = (
            np.array([_quantile(thickness[own], area[own], part) for own in members])
            for part in (0.5, 0.3)
        )
        members = [own[counted[own]] if counted[own].any() else own for own in members]
        lengths = np.array([_extent(surface.vertices[own]) for own in members])
        borders, lengths_of_borders = _borders(surface, of_vertex, thickness, count)
        parents = rig.skeleton.parents
        tree = _tree(joints, parents, lengths_of_borders, centres)
        of_joint = _regions_of_joints(joints, parents, centres, rig)
        return cls(
            joints,
            of_vertex,
            of_joint,
            totals / totals.sum(),
            radii,
            narrow,
            lengths,
            np.bincount(of_vertex, area * alone, count) / totals,
            centres,
            tree,
            borders,
        )

    def central(self, likely: Sequence[bool] = ()) -> int:
        """Return the region whose removal leaves the smallest largest rest, of those likely."""
        order, above = self._walk(0)
        below = self.areas.copy()
        for region in order[::-1]:
            if above[region] >= 0:
                below[above[region]] += below[region]
        worst = np.array(
            [
                max([1 - below[r], *(below[n] for n in self.neighbours[r] if above[n] == r)])
                for r in range(len(self))
            ]
        )
        if not any(likely):
            likely = [True] * len(self)
        # Of regions that divide the body as evenly the thickest is the trunk.
        worst[~np.array(likely, bool)] += 10.0
        near = worst < worst.min() + 0.1
        found = int(np.argmax(np.where(near, self.radii, -1.0)))
        for _ in range(3):  # a small region in the middle may be thinner than those beside it
            beside = [each for each in self.neighbours[found] if likely[each]]
            thickest = max(beside, key=lambda each: self.radii[each], default=found)
            if self.radii[thickest] < 1.5 * self.radii[found]:
                break
            found = thickest
        return found

    def rooted(self, root: int) -> tuple[Ints, Ints]:
        """(k,) regions from the root outwards, and the one before each, −1 for the root."""
        return self._walk(root)

    def twins(self, size: float) -> Ints:
        """(k,) the region on the other side of each, itself in the middle, −1 for none.

        The plane is normal to a principal axis of the regions: one of them always is normal to
        the plane of a body that has one, however it is turned.
        """
        weights = self.areas / self.areas.sum()
        middle = weights @ self.centres
        centred = self.centres - middle
        axes = np.linalg.eigh((centred * weights[:, None]).T @ centred)[1].T
        found = [self._mirrored(centred, axis, size) for axis in axes]
        own = np.arange(len(self))
        paired = [float(weights[(twin >= 0) & (twin != own)].sum()) for twin in found]
        # Bodies such as snakes have no pairs; then the thinnest axis will do.
        whole = [float(weights[twin >= 0].sum()) for twin in found]
        return found[int(np.argmax(np.array(paired) + np.array(whole)))]

    def _mirrored(self, centred: Floats, axis: Floats, size: float) -> Ints:
        across = centred @ axis
        apart = np.linalg.norm(
            centred[:, None] - (centred - 2 * across[:, None] * axis)[None], axis=2
        )
        ratio = self.areas[:, None] / self.areas[None]
        apart[(ratio > ALIKE_AREA) | (ratio < 1 / ALIKE_AREA)] = np.inf
        nearest = apart.argmin(axis=0)
        own = np.arange(len(self))
        mutual = (nearest[nearest] == own) & (apart[nearest, own] < MIRRORED * size)
        return np.where(mutual, nearest, -1)

    def _walk(self, root: int) -> tuple[Ints, Ints]:
        pairs = [(a, b) for a, near in enumerate(self.neighbours) for b in near]
        n = len(self)
        rows, columns = np.array(pairs, np.int64).reshape(-1, 2).T
        graph = sp.csr_array((np.ones(len(rows)), (rows, columns)), (n, n))
        order, before = breadth_first_order(graph, root, directed=False)
        return order.astype(np.int64), np.where(before < 0, -1, before).astype(np.int64)


def vertex_areas(surface: SurfaceMesh) -> Floats:
    """(n̄,) a third of the triangles around each vertex."""
    thirds = np.repeat(surface.areas() / 3, 3)
    total = np.bincount(surface.triangles.ravel(), thirds, len(surface.vertices))
    return total.astype(np.float64)


def _leading_joints(weights: sp.csr_array, area: Floats) -> Ints:
    """(n̄,) the joint each vertex follows most; those that lead hardly anything lead nothing."""
    lead = np.asarray(weights.argmax(axis=1)).ravel().astype(np.int64)
    led = np.bincount(lead, area, weights.shape[1])
    small = led < LEAST_AREA * area.sum()
    if small.all() or not small[lead].any():
        return lead
    lost = np.flatnonzero(small[lead])
    rest = (weights[lost] @ sp.diags_array((~small).astype(float))).tocsr()
    kept = np.asarray(rest.argmax(axis=1)).ravel().astype(np.int64)
    found = np.asarray(rest.max(axis=1).todense()).ravel() > 0
    lead[lost[found]] = kept[found]
    return lead


def _quantile(values: Floats, weights: Floats, part: float) -> float:
    order = np.argsort(values)
    sums = np.cumsum(weights[order])
    return float(values[order][min(np.searchsorted(sums, part * sums[-1]), len(order) - 1)])


def _extent(points: Floats) -> float:
    """Extent along the longest principal axis, which turns with the points."""
    if len(points) < 2:
        return 0.0
    centred = points - points.mean(axis=0)
    axis = np.linalg.eigh(centred.T @ centred)[1][:, -1]
    return float(np.ptp(centred @ axis))


def _borders(
    surface: SurfaceMesh, of_vertex: Ints, thickness: Floats, count: int
) -> tuple[Floats, Floats]:
    """Thickness and length (k, k) of borders between regions."""
    edges = surface.triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
    edges = edges[of_vertex[edges[:, 0]] != of_vertex[edges[:, 1]]]
    lengths = np.linalg.norm(np.diff(surface.vertices[edges], axis=1)[:, 0], axis=1)
    pairs = _touching_pairs(surface, of_vertex)
    ends = np.concatenate([edges, pairs])
    length = np.concatenate([lengths, np.full(len(pairs), 1e-3 * surface.size)])
    a, b = of_vertex[ends].T
    thick = 0.5 * (thickness[ends[:, 0]] + thickness[ends[:, 1]])
    total, weighted = np.zeros((count, count)), np.zeros((count, count))
    for one, other in ((a, b), (b, a)):
        np.add.at(total, (one, other), length)
        np.add.at(weighted, (one, other), length * thick)
    return np.divide(weighted, total, out=np.zeros_like(total), where=total > 0), total


def _touching_pairs(surface: SurfaceMesh, of_vertex: Ints) -> Ints:
    """Vertices (m, 2) of different regions and components that lie beside each other."""
    part = np.zeros(len(surface.vertices), np.int64)
    part[surface.triangles] = components(surface.triangles, len(surface.vertices))[:, None]
    if not part.any():
        return np.empty((0, 2), np.int64)
    tree = cKDTree(surface.vertices)
    _, near = tree.query(surface.vertices, k=8, distance_upper_bound=TOUCHING * surface.size)
    here = np.repeat(np.arange(len(near)), near.shape[1])
    there = near.ravel()
    real = there < len(near)
    here, there = here[real], there[real]
    across = (part[here] != part[there]) & (of_vertex[here] != of_vertex[there])
    return np.column_stack([here[across], there[across]])


def _tree(
    joints: Ints, parents: Ints, lengths: Floats, centres: Floats
) -> tuple[tuple[int, ...], ...]:
    """Neighbours in a tree: the hierarchy where regions touch, else the longest borders.

    Feet that are moved by targets of inverse kinematics hang below the root in many skeletons.
    """
    region_of = {int(joint): region for region, joint in enumerate(joints)}
    links: list[tuple[int, float, int, int]] = []
    for region, joint in enumerate(joints):
        above = int(parents[joint])
        while above >= 0 and above not in region_of:
            above = int(parents[above])
        if above >= 0:
            other = region_of[above]
            rank = 0 if lengths[region, other] > 0 else 2
            links.append((rank, -float(lengths[region, other]), region, other))
    a, b = np.nonzero(np.triu(lengths, 1))
    links += [(1, -float(lengths[i, j]), int(i), int(j)) for i, j in zip(a, b, strict=True)]
    apart = np.linalg.norm(centres[:, None] - centres[None], axis=2)
    i, j = np.triu_indices(len(joints), 1)
    links += [(3, float(apart[p, q]), int(p), int(q)) for p, q in zip(i, j, strict=True)]
    group = list(range(len(joints)))

    def top(region: int) -> int:
        while group[region] != region:
            region = group[region]
        return region

    near: list[list[int]] = [[] for _ in joints]
    for _, _, one, other in sorted(links):
        p, q = top(one), top(other)
        if p != q:
            group[p] = q
            near[one].append(other)
            near[other].append(one)
    return tuple(tuple(each) for each in near)


def _regions_of_joints(joints: Ints, parents: Ints, centres: Floats, rig: SkinnedRig) -> Ints:
    """(J,) a joint's own region, that of the nearest joint above it, or the nearest region."""
    found = np.full(rig.skeleton.n_joints, -1, np.int64)
    found[joints] = np.arange(len(joints))
    for joint, above in enumerate(parents):
        if found[joint] < 0 and above >= 0:
            found[joint] = found[above]
    lost = np.flatnonzero(found < 0)
    if len(lost):
        places = rig.skeleton.rest_world()[lost, :3, 3]
        found[lost] = cKDTree(centres).query(places)[1]
    return found


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
