"""Regions of the skin by the joint with the largest weight, and their tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order
from scipy.spatial import cKDTree

from supple.anatomy.symmetry import Mirror
from supple.arrays import Bools, Floats, Ints
from supple.mesh.surface import SurfaceMesh
from supple.mesh.topology import components
from supple.rig.skeleton.joints import Skeleton

#: Regions smaller than this part of the skin's area belong to a neighbour.
LEAST_AREA = 1e-3
#: Vertices of different components touch within this fraction of the size: clothes, and the halves
#: of a body that was modelled in parts.
TOUCHING = 0.01
#: Weight above which skin follows one joint alone.
ALONE = 0.95
#: Factor of the length of borders between regions on one side.
ONE_SIDE = 2.0
#: Largest distance from the plane of a middle region without a twin.
MIDDLE = 0.03


@dataclass(frozen=True, eq=False)
class SkinRegions:
    """Regions of the skin by the strongest joint of each vertex. Lengths are relative to the size.

    `joints` (k,) is the joint of each region, `of_vertex` (n̄,) the region of each vertex, and
    `of_joint` (J,) the region that represents each joint. Regions have fractions of the skin's area
    `areas`, `lengths` along the longest axis, and `centres` (k, 3) in the bind pose; `total_area`
    is the skin's area divided by the square of the size. `rigid` is the fraction of a region's area
    that follows its joint alone.

    `radii`, `narrow` and `cores` are the median and the 30 % and 80 % quantiles of the thickness
    over the area: balls of the neighbours cover a short neck except for its middle, and mouths and
    ears make heads look thin.

    `sides` (k,) are −1, 0 in the middle, 1; all 0 for a body without two sides. `twins` (k,) are
    the regions on the other side, the region itself in the middle, −1 for none.

    `neighbours` are each region's in the tree, `borders` (k, k) the thickness where two regions
    meet, 0 where they do not, and `gates` (k, k, 3) the middle of their border, or of their
    centres. `carries` (k, k) is True if the row's joint is above the column's in the skeleton.
    """

    joints: Ints
    of_vertex: Ints
    of_joint: Ints
    areas: Floats
    radii: Floats
    narrow: Floats
    cores: Floats
    lengths: Floats
    rigid: Floats
    centres: Floats
    sides: Ints
    twins: Ints
    neighbours: tuple[tuple[int, ...], ...]
    borders: Floats
    gates: Floats
    carries: Bools
    total_area: float
    _points: tuple[Floats, ...]

    def __len__(self) -> int:
        return len(self.joints)

    @classmethod
    def of(
        cls,
        surface: SurfaceMesh,
        bound: Floats,
        weights: sp.csr_array,
        skeleton: Skeleton,
        thickness: Floats,
        area: Floats,
        mirror: Mirror | None,
    ) -> SkinRegions:
        """Make the regions of a skin with weights (n̄, J).

        `bound` (n̄, 3) is the skin in the bind pose at unit size, `thickness` (n̄,) is in metres.
        `area` (n̄,) is tiny for buried skin and objects in hands, which may be an entire region.
        """
        thick = thickness / max(surface.size, 1e-300)
        joints, of_vertex = np.unique(_larger_leaders(weights, area), return_inverse=True)
        count = len(joints)
        totals = np.maximum(np.bincount(of_vertex, area, minlength=count), 1e-300)
        alone = leading_joints(weights)[1] > ALONE
        centres = _means(bound, of_vertex, area, totals)
        members = [np.flatnonzero(of_vertex == region) for region in range(count)]
        radii, narrow, cores = (
            np.array([quantile(thick[rows], area[rows], part) for rows in members])
            for part in (0.5, 0.3, 0.8)
        )
        visible = [rows[area[rows] > 0.01 * area[rows].max()] for rows in members]
        points = tuple(bound[rows] for rows in visible)
        sides, twins = _sides(joints, of_vertex, area, totals, centres, mirror, bound)
        border = _Borders.of(surface, bound, of_vertex, thick, centres)
        tree = _tree(joints, skeleton.parents, border.lengths, centres, sides)
        return cls(
            joints,
            of_vertex,
            _regions_of_joints(joints, skeleton, surface.vertices, of_vertex, area, totals),
            totals / totals.sum(),
            radii,
            narrow,
            cores,
            np.array([extent(each) for each in points]),
            np.bincount(of_vertex, area * alone, count) / totals,
            centres,
            sides,
            twins,
            tree,
            border.thickness,
            border.gates,
            _is_ancestor(joints, skeleton.parents),
            float(area.sum()) / max(surface.size, 1e-300) ** 2,
            points,
        )

    def tip(self, region: int, gate: Floats) -> Floats:
        """Return the point of a region farthest from the border `gate` to its parent."""
        points = self._points[region]
        tip: Floats = points[np.argmax(np.linalg.norm(points - gate, axis=1))]
        return tip

    def central(self, likely: Sequence[bool] = ()) -> int:
        """Return the region whose removal leaves the smallest parts; of similar ones the thickest.

        `likely` (k,) masks candidates; all regions are candidates if none is marked.
        """
        order, above = self.rooted(0)
        below = self.areas.copy()
        for region in order[::-1]:
            if above[region] >= 0:
                below[above[region]] += below[region]
        worst = 1 - below
        for region in order[1:]:
            worst[above[region]] = max(worst[above[region]], below[region])
        may = np.array(likely if any(likely) else [True] * len(self), bool)
        if (may & (self.sides == 0)).any():  # one of a pair is no trunk
            may &= self.sides == 0
        # Among similar candidates the thickest is the trunk.
        worst[~may] += 10.0
        near = worst < worst.min() + 0.1
        centre = int(np.argmax(np.where(near, self.radii, -1.0)))
        for _ in range(3):  # a small region in the middle may be thinner than those beside it
            beside = [each for each in self.neighbours[centre] if may[each]]
            thickest = max(beside, key=lambda each: self.radii[each], default=centre)
            if self.radii[thickest] < 1.5 * self.radii[centre]:
                break
            centre = thickest
        return centre

    def rooted(self, root: int) -> tuple[Ints, Ints]:
        """Return the regions (k,) from `root` outwards, and the parent (k,) of each, or −1."""
        pairs = [(a, b) for a, near in enumerate(self.neighbours) for b in near]
        n = len(self)
        rows, columns = np.array(pairs, np.int64).reshape(-1, 2).T
        graph = sp.csr_array((np.ones(len(rows)), (rows, columns)), (n, n))
        order, before = breadth_first_order(graph, root, directed=False)
        return order.astype(np.int64), np.where(before < 0, -1, before).astype(np.int64)


def leading_joints(weights: sp.csr_array) -> tuple[Ints, Floats]:
    """Return the strongest joint (n̄,) of each vertex, the first of equals, and its weight."""
    table, n = sp.csr_array(weights), weights.shape[0]
    table.sort_indices()
    rows = np.repeat(np.arange(n), np.diff(table.indptr))
    most = np.zeros(n)
    np.maximum.at(most, rows, table.data)
    lead = np.zeros(n, np.int64)
    at = np.flatnonzero(table.data >= most[rows])[::-1]
    lead[rows[at]] = table.indices[at]
    return lead, most


def _larger_leaders(weights: sp.csr_array, area: Floats) -> Ints:
    """Return the strongest joint (n̄,) of each vertex, excluding joints of tiny regions."""
    lead = leading_joints(weights)[0]
    led = np.bincount(lead, area, weights.shape[1])
    small = led < LEAST_AREA * area.sum()
    if small.all() or not small[lead].any():
        return lead
    lost = np.flatnonzero(small[lead])
    rest = (weights[lost] @ sp.diags_array((~small).astype(float))).tocsr()
    kept, much = leading_joints(rest)
    lead[lost[much > 0]] = kept[much > 0]
    return lead


def quantile(values: Floats, weights: Floats, part: float) -> float:
    """Return the weighted quantile: the fraction `part` of the weights is at or below it."""
    order = np.argsort(values)
    sums = np.cumsum(weights[order])
    return float(values[order][min(np.searchsorted(sums, part * sums[-1]), len(order) - 1)])


def extent(points: Floats) -> float:
    """Return the extent of points (m, 3) along their first principal axis."""
    if len(points) < 2:
        return 0.0
    centred = points - points.mean(axis=0)
    axis = np.linalg.eigh(centred.T @ centred)[1][:, -1]
    return float(np.ptp(centred @ axis))


def _means(points: Floats, of_vertex: Ints, area: Floats, totals: Floats) -> Floats:
    """Return the mean (k, 3) of points (n̄, 3) over each region, weighted by area."""
    sums = [np.bincount(of_vertex, area * axis, len(totals)) for axis in points.T]
    return np.stack([each / totals for each in sums], 1)


def _sides(
    joints: Ints,
    of_vertex: Ints,
    area: Floats,
    totals: Floats,
    centres: Floats,
    mirror: Mirror | None,
    bound: Floats,
) -> tuple[Ints, Ints]:
    """Return the side (k,) of each region, −1, 0 or 1, and its twin (k,), −1 for none."""
    count = len(joints)
    if mirror is None:
        return np.zeros(count, np.int64), np.full(count, -1)
    region_of = {int(joint): region for region, joint in enumerate(joints)}
    twins = np.array([region_of.get(int(mirror.twins[joint]), -1) for joint in joints])
    across = mirror.sides(centres)
    sides = np.sign(across).astype(np.int64)
    middle = twins == np.arange(count)
    middle |= (twins < 0) & (np.abs(across) < MIDDLE)
    # Regions on both sides are in the middle, too.
    left = np.bincount(of_vertex, area * (mirror.sides(bound) > 0), count)
    middle |= (twins < 0) & (np.abs(left / totals - 0.5) < 0.25)
    return np.where(middle, 0, sides), twins


@dataclass(frozen=True, eq=False)
class _Borders:
    """Thickness, length (k, k) and middle (k, k, 3) of borders between regions."""

    thickness: Floats
    lengths: Floats
    gates: Floats

    @classmethod
    def of(
        cls, surface: SurfaceMesh, bound: Floats, of_vertex: Ints, thick: Floats, centres: Floats
    ) -> _Borders:
        count = len(centres)
        edges = surface.triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
        edges = edges[of_vertex[edges[:, 0]] != of_vertex[edges[:, 1]]]
        pairs = _touching_pairs(surface, of_vertex)
        ends = np.concatenate([edges, pairs])
        length = np.linalg.norm(np.diff(bound[ends], axis=1)[:, 0], axis=1)
        length[len(edges) :] = 1e-3
        a, b = of_vertex[ends].T
        keys = np.concatenate([a * count + b, b * count + a])
        twice = np.concatenate([length, length])

        def summed(values: Floats) -> Floats:
            both = np.concatenate([values, values])
            sums = np.bincount(keys, twice * both, count * count).astype(np.float64)
            return sums.reshape(count, count)

        total = summed(np.ones(len(ends)))
        middles = 0.5 * (bound[ends[:, 0]] + bound[ends[:, 1]])
        met = np.maximum(total, 1e-300)
        gates = np.stack([summed(axis) / met for axis in middles.T], axis=-1)
        apart = total <= 0
        gates[apart] = (0.5 * (centres[:, None] + centres[None]))[apart]
        mean = summed(0.5 * (thick[ends[:, 0]] + thick[ends[:, 1]])) / met
        return cls(np.where(apart, 0.0, mean), total, gates)


def _touching_pairs(surface: SurfaceMesh, of_vertex: Ints) -> Ints:
    """Return pairs (m, 2) of close vertices of different regions and components."""
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


def _is_ancestor(joints: Ints, parents: Ints) -> Bools:
    """Return whether regions are ancestors of others, (k, k): row above column in the skeleton."""
    region_of = {int(joint): region for region, joint in enumerate(joints)}
    carries = np.zeros((len(joints), len(joints)), bool)
    for region, joint in enumerate(joints):
        above = int(parents[joint])
        while above >= 0:
            if above in region_of:
                carries[region_of[above], region] = True
            above = int(parents[above])
    return carries


def _tree(
    joints: Ints, parents: Ints, lengths: Floats, centres: Floats, sides: Ints
) -> tuple[tuple[int, ...], ...]:
    """Return the neighbours of each region in a spanning tree.

    Links are taken in this order: parent and child that touch; parent and child in the middle of
    the body, such as neck and head, even if they do not touch; longest borders; other parents and
    children; nearest centres. The hierarchy alone is not reliable: feet are often children of IK
    targets below the root.
    """
    region_of = {int(joint): region for region, joint in enumerate(joints)}
    links: list[tuple[int, float, int, int]] = []
    for region, joint in enumerate(joints):
        above = int(parents[joint])
        while above >= 0 and above not in region_of:
            above = int(parents[above])
        if above >= 0:
            other = region_of[above]
            middle = sides[region] == sides[other] == 0
            rank = 0 if lengths[region, other] > 0 else 1 if middle else 3
            links.append((rank, -float(lengths[region, other]), region, other))
    a, b = np.nonzero(np.triu(lengths, 1))
    lengths = np.where(sides[:, None] == sides[None], ONE_SIDE, 1.0) * lengths
    links += [(2, -float(lengths[i, j]), int(i), int(j)) for i, j in zip(a, b, strict=True)]
    apart = np.linalg.norm(centres[:, None] - centres[None], axis=2)
    i, j = np.triu_indices(len(joints), 1)
    links += [(4, float(apart[p, q]), int(p), int(q)) for p, q in zip(i, j, strict=True)]
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


def _regions_of_joints(
    joints: Ints, skeleton: Skeleton, skin: Floats, of_vertex: Ints, area: Floats, totals: Floats
) -> Ints:
    """Return a region (J,) for each joint.

    A joint without a region has the region of the nearest joint above it, or else the nearest one.
    """
    regions = np.full(skeleton.n_joints, -1, np.int64)
    regions[joints] = np.arange(len(joints))
    for joint, above in enumerate(skeleton.parents):
        if regions[joint] < 0 and above >= 0:
            regions[joint] = regions[above]
    lost = np.flatnonzero(regions < 0)
    if len(lost):
        centres = _means(skin, of_vertex, area, totals)
        regions[lost] = cKDTree(centres).query(skeleton.rest_world()[lost, :3, 3])[1]
    return regions
