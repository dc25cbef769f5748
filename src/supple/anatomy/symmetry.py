"""Mirror symmetry of a body: the plane of its skin, and the joints on the other side."""

from __future__ import annotations

from dataclasses import dataclass

import igl
import numpy as np
import scipy.sparse as sp
from scipy.spatial import cKDTree

from supple.arrays import Floats, Ints
from supple.mesh.surface import SurfaceMesh
from supple.rig.skeleton.skinning import SkinnedRig

#: Largest distance of a counterpart from the mirror image of skin, relative to the size.
NEAR = 0.015
#: The same for counterparts that are vertices.
EXACT = 2e-3
#: Least part of the area with a counterpart for a body with two sides.
LEAST_COMMON = 0.75
#: Points of the skin that a plane is fitted to, and iterations of the fit.
PLACES, ROUNDS = 1200, 6
#: Least cosine of the mirrored skins of two twin joints.
OVERLAP = 0.5
#: Largest ratio of edge lengths in the bind pose and in the rest pose.
UNEVEN = 2.0


@dataclass(frozen=True, eq=False)
class BoundBody:
    """Skin (n̄, 3) and joints (J, 3) in the bind pose, at unit size.

    Arms are spread and legs side by side there; the rest pose may be the first frame of a walk.
    """

    vertices: Floats
    joints: Floats

    @classmethod
    def of(cls, surface: SurfaceMesh, rig: SkinnedRig) -> BoundBody:
        """Return the body in its bind pose, or at rest if the bind pose differs too much."""
        edges = surface.triangles[:, [0, 1]]
        places = rig.skeleton.rest_world()[:, :3, 3]
        rest = _sized(surface.vertices, places)
        with np.errstate(all="ignore"):
            sound = np.abs(np.linalg.det(rig.inverse_bind[:, :3, :3])) > 1e-30
            matrices = np.where(sound[:, None, None], rig.inverse_bind, np.eye(4))
            places = np.linalg.inv(matrices)[:, :3, 3]
        bound = _sized(rig.vertices, places)
        lengths = [
            np.linalg.norm(np.diff(body.vertices[edges], axis=1)[:, 0], axis=1)
            for body in (bound, rest)
        ]
        usable = (lengths[0] > 1e-9) & (lengths[1] > 1e-9)
        if not (usable.any() and sound.all()):
            return rest
        low, high = np.quantile(lengths[0][usable] / lengths[1][usable], [0.1, 0.9])
        return bound if high < UNEVEN * low else rest


def _sized(vertices: Floats, joints: Floats) -> BoundBody:
    size = max(float(np.linalg.norm(np.ptp(vertices, axis=0))), 1e-300)
    middle = vertices.mean(axis=0)
    return BoundBody((vertices - middle) / size, (joints - middle) / size)


@dataclass(frozen=True, eq=False)
class Mirror:
    """Counterparts of the skin and the joints on the other side of a body.

    `counterpart` (n̄, n̄) has interpolation weights at the mirror image of each vertex, and empty
    rows for vertices without skin there. `twins` (J,) are the joints on the other side, the joint
    itself in the middle, −1 for none. `stand_ins` (J,) are the strongest joints at the mirror image
    of each joint's skin, the joint itself if there is none. The plane is normal · x = offset in the
    bind pose, at unit size.
    """

    counterpart: sp.csr_array
    twins: Ints
    stand_ins: Ints
    normal: Floats
    offset: float

    @classmethod
    def of(
        cls, body: BoundBody, triangles: Ints, area: Floats, weights: sp.csr_array, parents: Ints
    ) -> Mirror | None:
        """Return the symmetry of a body with areas (n̄,) and skin weights (n̄, J).

        Return None for a body without two sides. Joints on both sides should have the same depth in
        the hierarchy `parents` (J,).
        """
        best_mirror, best = None, LEAST_COMMON
        skin = _Skin(body.vertices, triangles, area)
        for normal, offset in skin.planes():
            mirror = cls._at(skin, normal, offset, body.joints, weights, parents)
            paired = weights @ (mirror.twins >= 0).astype(float)
            score = float((mirror.has * paired) @ area) / max(float(area.sum()), 1e-300)
            if score > best + 1e-3:
                best_mirror, best = mirror, score
        return best_mirror

    @classmethod
    def _at(
        cls,
        skin: _Skin,
        normal: Floats,
        offset: float,
        joints: Floats,
        weights: sp.csr_array,
        parents: Ints,
    ) -> Mirror:
        counterpart = skin.counterpart(normal, offset)
        weighed = sp.diags_array(skin.area) @ weights
        # Overlap of each joint's skin with the mirror image of another's.
        shared = (weighed.T @ (counterpart @ weights)).toarray()
        norms = np.sqrt(np.maximum((weighed.multiply(weights)).sum(axis=0), 1e-300))
        likeness = 0.5 * (shared + shared.T) / (norms[:, None] * norms[None])
        distances = np.linalg.norm(
            _mirrored(joints, normal, offset)[:, None] - joints[None], axis=2
        )
        likeness += np.where(likeness > 0, OVERLAP * np.exp(-((distances / NEAR) ** 2)), 0.0)
        depth = np.zeros(len(parents), np.int64)
        for child, above in enumerate(parents):
            depth[child] = depth[above] + 1 if above >= 0 else 0
        likeness[depth[:, None] != depth[None]] *= 0.1  # two sides have the same hierarchy
        best, joint = likeness.argmax(axis=1), np.arange(len(parents))
        mutual = (best[best] == joint) & (likeness.max(axis=1) > OVERLAP)
        twins = np.where(mutual, best, -1)
        stand_ins = np.where(likeness.max(axis=1) > 0, best, joint)
        return cls(counterpart, twins.astype(np.int64), stand_ins.astype(np.int64), normal, offset)

    @property
    def has(self) -> Floats:
        """Values (n̄,): 1 where the skin has a counterpart, else 0."""
        return (np.asarray(self.counterpart.sum(axis=1)).ravel() > 0).astype(np.float64)

    def even_weights(self, weights: sp.csr_array) -> sp.csr_array:
        """Return skin weights (n̄, J) averaged with those of stand-in joints on the other side."""
        count = weights.shape[1]
        swap = sp.csr_array((np.ones(count), (np.arange(count), self.stand_ins)), (count, count))
        there, part = self.counterpart @ weights @ swap, 0.5 * self.has
        mean = sp.diags_array(1 - part) @ weights + sp.diags_array(part) @ there
        return sp.csr_array(mean)

    def mean(self, values: Floats) -> Floats:
        """Return the mean (n̄,) of values at each vertex and at its counterpart."""
        return values + 0.5 * self.has * (self.counterpart @ values - values)

    def even(self, values: Floats) -> Floats:
        """Return the maximum (n̄,) of values at each vertex and at its counterpart."""
        return np.maximum(values, self.counterpart @ values)

    def sides(self, bound: Floats) -> Floats:
        """Return the signed distance of points `bound` from the plane, both at unit size."""
        distances: Floats = bound @ self.normal - self.offset
        return distances


class _Skin:
    """Surface of unit size with sample points, to fit a mirror plane."""

    def __init__(self, vertices: Floats, triangles: Ints, area: Floats) -> None:
        self.vertices = np.ascontiguousarray(vertices)
        self.triangles = np.ascontiguousarray(triangles)
        self.area = area
        self.tree = igl.AABB()
        self.tree.init(self.vertices, self.triangles)
        ends = np.cumsum(area)
        count = min(PLACES, 4 * len(area))
        sums = (np.arange(count) + 0.5) / count * ends[-1]
        self.places = self.vertices[np.minimum(np.searchsorted(ends, sums), len(area) - 1)]

    def planes(self) -> list[tuple[Floats, float]]:
        """Return planes that mirror most of the skin, the best first.

        Initial normals are the principal axes and the coordinate axes.
        """
        centred = self.places - self.places.mean(axis=0)
        principal = np.linalg.eigh(centred.T @ centred)[1].T
        scored: list[tuple[float, float, Floats, float]] = []
        for axis in (*principal, *np.eye(3)):
            if any(off < 0.1 * NEAR and abs(float(n @ axis)) > 0.95 for off, _, n, _ in scored):
                continue  # the same plane again
            plane = self.fitted(axis)
            if plane is not None:
                distances = self.nearest(_mirrored(self.places, *plane))[1]
                off = float(np.minimum(distances, 2 * NEAR).mean())
                scored.append((off, float((distances < NEAR).mean()), *plane))
        planes: list[tuple[Floats, float]] = []
        smallest = min((each[0] for each in scored), default=0.0)
        for off, common, normal, offset in sorted(scored, key=lambda each: each[0]):
            new = all(abs(float(normal @ other)) < 0.95 for other, _ in planes)
            if new and common > LEAST_COMMON and off < smallest + 0.4 * NEAR:
                planes.append(self.polished(normal, offset))
        return planes

    def fitted(self, normal: Floats) -> tuple[Floats, float] | None:
        """Return the plane (normal, offset) near a normal that mirrors the sample points best.

        Points are paired with the skin nearest to their mirror images, iteratively. Return None if
        too few are near.
        """
        offset = float(self.places.mean(axis=0) @ normal)
        for round_ in range(ROUNDS):
            there, distances, _ = self.nearest(_mirrored(self.places, normal, offset))
            if round_ < 2:
                near = distances <= max(np.quantile(distances, 0.5), NEAR)
            else:
                near = distances < 2 * NEAR
            if near.sum() < 8:
                return None
            plane = _between(self.places[near], there[near], normal)
            if abs(float(plane[0] @ normal)) < 0.8:
                break
            normal, offset = plane
        return normal, offset

    def polished(self, normal: Floats, offset: float) -> tuple[Floats, float]:
        """Return the plane refined on vertices whose mirror images are vertices."""
        tree = cKDTree(self.vertices)
        for _ in range(3):
            distances, there = tree.query(_mirrored(self.vertices, normal, offset))
            near = distances < EXACT
            if near.mean() < 0.5:
                break
            normal, offset = _between(self.vertices[near], self.vertices[there[near]], normal)
        return normal, offset

    def nearest(self, points: Floats) -> tuple[Floats, Floats, Ints]:
        """Return the nearest points of the skin, their distances, and their triangles."""
        squared, triangle, there = self.tree.squared_distance(
            self.vertices, self.triangles, np.ascontiguousarray(points)
        )
        return there, np.sqrt(np.maximum(squared, 0.0)), triangle

    def counterpart(self, normal: Floats, offset: float) -> sp.csr_array:
        """Return interpolation weights (n̄, n̄) at mirror images of vertices; empty rows if far."""
        place, distances, triangle = self.nearest(_mirrored(self.vertices, normal, offset))
        rows = np.flatnonzero(distances < NEAR)
        corners = self.triangles[triangle[rows]]
        a, b, c = (np.ascontiguousarray(self.vertices[corners[:, k]]) for k in range(3))
        shares = igl.barycentric_coordinates(place[rows], a, b, c)
        shares = np.clip(np.nan_to_num(shares, nan=1 / 3), 0, 1)
        shares /= np.maximum(shares.sum(axis=1, keepdims=True), 1e-300)
        n = len(self.vertices)
        return sp.csr_array((shares.ravel(), (np.repeat(rows, 3), corners.ravel())), (n, n))


def _between(points: Floats, others: Floats, normal: Floats) -> tuple[Floats, float]:
    """Return the plane (normal, offset) near `normal` that best mirrors `points` to `others`."""
    middle = 0.5 * (points.mean(axis=0) + others.mean(axis=0))
    cross = (points - middle).T @ (others - middle)
    # The normal of the best reflection is an eigenvector.
    vectors = np.linalg.eigh(cross + cross.T)[1]
    best: Floats = vectors[:, int(np.argmax(np.abs(vectors.T @ normal)))]
    return best, float(middle @ best)


def _mirrored(points: Floats, normal: Floats, offset: float) -> Floats:
    images: Floats = points - 2 * (points @ normal - offset)[:, None] * normal
    return images
