"""Meshes of a stage as one welded surface, with influences and blend shapes."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from supple.arrays import Floats, Ints
from supple.errors import FormatError, MeshError
from supple.formats.usd.read.joint_forest import Branch, JointForest
from supple.formats.welding import padded, weld
from supple.maths.rotations import scaling
from supple.mesh.topology import counted, fan_triangles
from supple.rig.skeleton.joints import unique_names

#: Deviation of a sum of weights from one that is rounding.
WEIGHT_ROUNDING = 1e-2
#: Ear clipping is quadratic in the corners: polygons beyond these limits become fans.
MOST_CORNERS = 256
MOST_POLYGONS = 20_000
#: Most bytes of all displacements of all shapes.
MOST_BYTES = 2 * 2**30


@dataclass
class BlendShapes:
    """Shapes of all meshes; shapes of one name and one skeleton's animation are merged.

    An in-between is a separate shape, ``smile@0.5``, since a rig is linear in its weights. A motion
    sets the two shapes next to the animated weight, as USD does. `keys` have the path of the
    skeleton, the name and the weights of the levels; `offsets` have the indices of key and level,
    points, and offsets in metres.
    """

    keys: list[tuple[str | None, str, tuple[float, ...]]] = field(default_factory=list)
    offsets: list[tuple[int, int, Ints, Floats]] = field(default_factory=list)

    def add(self, mesh: dict[str, Any], first_vertex: int, linear: Floats) -> None:
        """Add shapes of a mesh with points from `first_vertex`; `linear` (3, 3) maps to metres."""
        for shape in mesh["shapes"]:
            order = np.argsort(shape["weights"])
            key = (mesh["driver"], shape["name"], tuple(float(w) for w in shape["weights"][order]))
            if key not in self.keys:
                self.keys.append(key)
            for level, source in enumerate(order):
                offsets = shape["offsets"][source] @ linear.T
                points = first_vertex + shape["points"]
                self.offsets.append((self.keys.index(key), level, points, offsets))

    def names(self) -> tuple[str, ...]:
        """Return a name for each level of each shape."""
        return unique_names(
            name if weight == 1 else f"{name}@{weight:g}"
            for _, name, weights in self.keys
            for weight in weights
        )

    def deltas(self, n_vertices: int) -> Floats:
        """Return the displacements of all shapes, (b, n, 3), in metres."""
        counts = [len(weights) for _, _, weights in self.keys]
        if sum(counts) * n_vertices * 24 > MOST_BYTES:
            number = f"{sum(counts)} blend shapes of {n_vertices} points"
            raise FormatError(f"has {number}, too many for memory; remove some")
        starts = np.cumsum([0, *counts])
        deltas = np.zeros((sum(counts), n_vertices, 3))
        for key, level, points, offsets in self.offsets:
            # A point listed twice moves twice, as in USD.
            np.add.at(deltas[starts[key] + level], points, offsets)
        return deltas

    def weights(self, animations: dict[str, dict[str, Any] | None], count: int) -> Floats:
        """Return weights over time, (t, b), from the animation of each skeleton."""
        columns = [np.zeros((count, 0))]
        for driver, name, levels in self.keys:
            animation = animations.get(driver) if driver is not None else None
            value = np.zeros(count)
            if animation and animation["weights"] is not None and name in animation["shapes"]:
                value = animation["weights"][:, animation["shapes"].index(name)]
            columns.append(_level_weights(value, np.array(levels)))
        return np.concatenate(columns, axis=1)


@dataclass
class SkinnedSurface:
    """Bound positions (n, 3), triangles, influences (n, k) and shapes (b, n, 3) of all meshes.

    For each mesh, `welded` has the vertex of each point, -1 for points of no face, and `corners`
    (m, 3) the indices of each triangle's corners among the corners of the file's faces. `dual`
    selects dual-quaternion skinning.
    """

    vertices: Floats
    triangles: Ints
    joints: Ints
    weights: Floats
    deltas: Floats
    shapes: BlendShapes
    welded: list[Ints]
    dual: bool
    corners: list[Ints]


@dataclass
class _Part:
    to_metres: Floats
    vertices: Floats
    triangles: Ints
    joints: Ints
    weights: Floats
    dual: bool
    corners: Ints


def read_meshes(stage: dict[str, Any], forest: JointForest, to_supple: Floats) -> SkinnedSurface:
    """Merge all meshes; vertices at the same position that move alike become one."""
    by_number = {branch.number: branch for branch in forest.branches}
    number_of = {skeleton["path"]: i for i, skeleton in enumerate(stage["skeletons"])}
    shapes, parts, first = BlendShapes(), [], 0
    for mesh in stage["meshes"]:
        if mesh["skin"] is None:
            part = _rigid_part(mesh, forest, by_number, to_supple)
        else:
            branch = by_number[number_of[mesh["skin"]["skeleton"]]]
            part = _skinned_part(mesh, branch, forest)
        shapes.add(mesh, first, part.to_metres[:3, :3])
        parts.append(part)
        first += len(part.vertices)
    return _welded(parts, shapes, forest)


def _rigid_part(
    mesh: dict[str, Any], forest: JointForest, by_number: dict[int, Branch], to_supple: Floats
) -> _Part:
    number, transform = forest.attached[mesh["frame"]]
    branch = by_number[number] if number >= 0 else None
    base = to_supple if branch is None else scaling(branch.unit)
    to_metres = base @ transform @ mesh["offset"]
    joint = forest.static if branch is None else forest.holders[mesh["holder"]]
    n = len(mesh["points"])
    joints, weights = np.full((n, 1), joint), np.ones((n, 1))
    return _part(mesh, to_metres, joints, weights, False)


def _skinned_part(mesh: dict[str, Any], branch: Branch, forest: JointForest) -> _Part:
    skin = mesh["skin"]
    to_metres = scaling(branch.unit) @ skin["bind"]
    row_of = np.empty(len(branch.order), dtype=np.int64)
    row_of[branch.order] = np.arange(len(branch.order))
    joints = branch.first + row_of[skin["joints"]]
    weights = _checked_weights(mesh["path"], skin["weights"], forest)
    unweighted = ~(weights.sum(axis=1) > 0)
    joints[unweighted, 0], weights[unweighted, 0] = branch.first, 1.0
    n = len(mesh["points"])
    joints, weights = (np.broadcast_to(a, (n, a.shape[1])) for a in (joints, weights))
    return _part(mesh, to_metres, joints, weights, skin["dual"])


def _checked_weights(path: str, weights: Floats, forest: JointForest) -> Floats:
    total = np.maximum(weights, 0).sum(axis=1)
    unequal = (total > 0) & (np.abs(total - 1) > WEIGHT_ROUNDING)
    checks = [
        ((weights < 0).any(axis=1), "negative joint weights", "set to zero"),
        (total <= 0, "no joint weights", "they follow the first joint"),
        (unequal, "joint weights that do not sum to one", "they are normalised"),
    ]
    for wrong, what, consequence in checks:
        if wrong.any():
            points = f"{counted(int(wrong.sum()), 'point')} with {what}"
            first = f"(first {int(np.argmax(wrong))})"
            forest.notes.append(f"mesh {path} has {points} {first}; {consequence}")
    return np.maximum(weights, 0)


def _part(
    mesh: dict[str, Any], to_metres: Floats, joints: Ints, weights: Floats, dual: bool
) -> _Part:
    vertices = mesh["points"] @ to_metres[:3, :3].T + to_metres[:3, 3]
    counts = mesh["counts"]
    is_face = np.ones(len(counts), dtype=bool)
    is_face[mesh["holes"][(mesh["holes"] >= 0) & (mesh["holes"] < len(counts))]] = False
    corner_indices = np.flatnonzero(np.repeat(is_face, counts))
    points = mesh["points"][mesh["corners"][corner_indices]]
    corners = corner_indices[_triangulate(points, counts[is_face])]
    # A mirrored transform inverts the faces.
    if mesh["left_handed"] != (np.linalg.det(to_metres[:3, :3]) < 0):
        corners = corners[:, ::-1]
    triangles = mesh["corners"][corners]
    blended = bool(((weights > 0).sum(axis=1) > 1).any())
    return _Part(to_metres, vertices, triangles, joints, weights, dual and blended, corners)


def _welded(parts: list[_Part], shapes: BlendShapes, forest: JointForest) -> SkinnedSurface:
    width = max(part.joints.shape[1] for part in parts)
    starts = np.cumsum([0, *(len(part.vertices) for part in parts)])
    vertices = np.concatenate([part.vertices for part in parts])
    pads = [((0, 0), (0, width - part.joints.shape[1])) for part in parts]
    joints = np.concatenate([np.pad(p.joints, pad) for p, pad in zip(parts, pads, strict=True)])
    weights = np.concatenate([np.pad(p.weights, pad) for p, pad in zip(parts, pads, strict=True)])
    weights = weights / weights.sum(axis=1, keepdims=True)
    pairs = zip(parts, starts[:-1], strict=True)
    triangles = np.concatenate([part.triangles + start for part, start in pairs])
    if len(triangles) == 0:
        raise MeshError("has no face of three corners or more")
    used = np.zeros(len(vertices), dtype=bool)
    used[triangles] = True
    used_vertices = np.flatnonzero(used)
    influences = _sparse(joints[used_vertices], weights[used_vertices], len(forest.names))
    deltas = shapes.deltas(len(vertices))[:, used_vertices]
    size = float(np.linalg.norm(np.ptp(vertices[used_vertices], axis=0)))
    new_index = np.full(len(vertices), -1)
    new_index[used_vertices] = weld(vertices[used_vertices], influences, deltas, size)
    first = np.unique(new_index[used_vertices], return_index=True)[1]
    joints, weights = padded(influences[first])
    return SkinnedSurface(
        vertices[used_vertices[first]],
        new_index[triangles],
        joints,
        weights,
        np.ascontiguousarray(deltas[:, first]),
        shapes,
        [new_index[a:b] for a, b in pairwise(starts)],
        _one_method(parts, forest),
        [part.corners for part in parts],
    )


def _sparse(joints: Ints, weights: Floats, n_joints: int) -> csr_array:
    n, k = joints.shape
    matrix = csr_array((weights.ravel(), joints.ravel(), np.arange(0, n * k + 1, k)), (n, n_joints))
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix


def _one_method(parts: list[_Part], forest: JointForest) -> bool:
    """Return whether dual quaternions are used; if meshes differ, the method of most points."""
    blended = [part for part in parts if ((part.weights > 0).sum(axis=1) > 1).any()]
    dual = sum(len(part.vertices) for part in blended if part.dual)
    linear = sum(len(part.vertices) for part in blended if not part.dual)
    if dual and linear:
        chosen = "dual quaternion" if dual > linear else "linear blending"
        forest.notes.append(f"its meshes use two skinning methods; {chosen} is used for all")
    return dual > linear


def _level_weights(value: Floats, levels: Floats) -> Floats:
    """Return the weight of each level's shape, (t, l), for the blend weight `value` (t,).

    Linear between neighbouring levels, with no displacement at zero, and extrapolated linearly.

    >>> _level_weights(np.array([0.25, 0.75]), np.array([0.5, 1.0]))
    array([[0.5, 0. ],
           [0.5, 0.5]])
    """
    nodes = np.unique([0.0, *levels])
    left = np.clip(np.searchsorted(nodes, value, side="right") - 1, 0, len(nodes) - 2)
    part = (value - nodes[left]) / (nodes[left + 1] - nodes[left])
    rows = np.arange(len(value))
    weights = np.zeros((len(value), len(nodes)))
    weights[rows, left] = 1 - part
    weights[rows, left + 1] = part
    return weights[:, np.searchsorted(nodes, levels)]


# Triangulation of polygons, also concave ones.


def _triangulate(points: Floats, counts: Ints) -> Ints:
    """Return triangles (m, 3) of polygons with corners `points` (c, 3), in their orientation.

    A polygon with one reflex corner becomes a fan from that corner, since such a fan lies inside
    the polygon. Several reflex corners require ear clipping.
    """
    starts = np.cumsum(counts) - counts
    polygon = np.repeat(np.arange(len(counts)), counts)
    index_in_polygon = np.arange(len(points)) - starts[polygon]

    def shifted(steps: Any) -> Ints:
        """Return each corner's neighbour `steps` further around its polygon."""
        corner: Ints = starts[polygon] + (index_in_polygon + steps) % np.maximum(counts[polygon], 1)
        return corner

    before, after = points[shifted(-1)], points[shifted(1)]
    # Newell's normal: sum of cross products of neighbours, relative to the first corner.
    base = points[starts[polygon]] if len(points) else points
    normals = np.zeros((len(counts), 3))
    np.add.at(normals, polygon, np.cross(points - base, after - base))
    crosses = np.cross(points - before, after - points)
    along = np.einsum("ij,ij->i", crosses, normals[polygon])
    size = np.einsum("ij,ij->i", normals, normals)[polygon]
    reflex = (along < -1e-9 * size) & (counts[polygon] > 3)
    n_reflex = np.bincount(polygon, reflex, minlength=len(counts)).astype(np.int64)
    shift = np.zeros(len(counts), dtype=np.int64)
    shift[polygon[reflex]] = index_in_polygon[reflex]
    shift[n_reflex != 1] = 0
    triangles = fan_triangles(counts, shifted(shift[polygon]))
    difficult = np.flatnonzero((n_reflex > 1) & (counts <= MOST_CORNERS))[:MOST_POLYGONS]
    ends = np.cumsum(np.maximum(counts - 2, 0))
    for i in difficult:
        ears = _cut_ears(points[starts[i] : starts[i] + counts[i]], normals[i])
        triangles[ends[i] - len(ears) : ends[i]] = starts[i] + ears
    return triangles


def _cut_ears(ring: Floats, normal: Floats) -> Ints:
    """Triangulate a polygon by ear clipping; without an ear (self-intersection) clip any corner."""
    axis = int(np.argmax(np.abs(normal)))
    flat = np.delete(ring, axis, axis=1) * [1.0, 1.0 if normal[axis] > 0 else -1.0]
    if axis == 1:
        flat = flat * [1.0, -1.0]
    remaining = list(range(len(ring)))
    triangles = []
    while len(remaining) > 3:
        ear = next((k for k in range(len(remaining)) if _is_ear(flat, remaining, k)), 0)
        after = remaining[(ear + 1) % len(remaining)]
        triangles.append([remaining[ear - 1], remaining[ear], after])
        del remaining[ear]
    return np.array([*triangles, remaining], dtype=np.int64)


def _is_ear(flat: Floats, remaining: list[int], k: int) -> bool:
    a, b, c = flat[remaining[k - 1]], flat[remaining[k]], flat[remaining[(k + 1) % len(remaining)]]
    if _signed_area(a, b, c) <= 0:
        return False
    rest = flat[remaining]
    sides = [_signed_area(a, b, rest), _signed_area(b, c, rest), _signed_area(c, a, rest)]
    inside = (sides[0] >= 0) & (sides[1] >= 0) & (sides[2] >= 0)
    inside[[k - 1, k, (k + 1) % len(remaining)]] = False
    # A repeated corner (a bridge to a hole) is not inside.
    at_corner = (rest[:, None] == np.stack([a, b, c])).all(axis=2).any(axis=1)
    return not (inside & ~at_corner).any()


def _signed_area(a: Floats, b: Floats, c: Floats) -> Floats:
    """Return twice the signed area of the triangle; `c` may be many points."""
    return (b[0] - a[0]) * (c[..., 1] - a[1]) - (b[1] - a[1]) * (c[..., 0] - a[0])
