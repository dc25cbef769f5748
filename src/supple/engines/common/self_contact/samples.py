"""Samples of the skin for contact with itself, their patches, and pairs that cannot touch.

Samples are skin vertices, evenly spread. The normal of a sample is that of a triangle of samples
around it, so that a step places the samples alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from supple.arrays import Bools, Floats, Ints, Singles
from supple.compiled.jit import compiled
from supple.mesh.surface import SurfaceMesh

#: Largest number of samples, and of samples in a patch.
MOST_SAMPLES, PATCH = 1024, 4
#: Radius of the neighbourhood that represents the opposite skin, in distances between samples.
REACH = 1.6
#: Samples that are neighbours along the skin, in steps from sample to adjacent sample.
NEIGHBOURS = 2
#: Steps from sample to adjacent sample within which samples must face each other at a known pose.
AROUND = 8
#: Cosine between normals below which two samples face each other, and margin at known poses.
FACING, MARGIN = -0.2, 0.2
#: Depth in sizes of samples behind each other at all known poses, from which they are opposite
#: sides of the same part, and their largest distance, in distances between adjacent samples.
THICKNESS, CLOSE = 0.006, 8.0
#: Cosine between a sample's normal and the skin's below which another triangle is sought.
ALIGNED = 0.8
#: Factor on the radius of patches at the known poses, for other poses.
LARGER = 1.2


class SkinSamples(NamedTuple):
    """Samples of the skin, ordered by patch; read only."""

    vertices: Ints
    """(s,) skin vertices."""
    corners: Ints
    """(s, 3) samples around each sample, counter-clockwise seen from outside."""
    areas: Floats
    """(s,) area of the skin that each sample represents, in m²."""
    starts: Ints
    """(p + 1,) first sample of each patch, which is its most central one."""
    radius: Singles
    """(p,) radius in m of each patch around its first sample."""
    thickness: Singles
    """(p,) largest distance in m of a sample from the tangent plane of its patch's first one."""
    excluded: NDArray[np.uint8]
    """(s, s) whether two samples cannot touch: neighbours along the skin, opposite sides of the
    same part, and samples that no flesh moves."""
    facing: NDArray[np.uint8]
    """(p, p) whether some samples of two patches can touch."""
    reach: float
    """Radius in m of the neighbourhood that represents the opposite skin."""
    size: float
    """Size of the body in m."""


def skin_samples(
    surface: SurfaceMesh, shapes: Sequence[Floats], moved: Bools, most: int = MOST_SAMPLES
) -> SkinSamples:
    """Return samples of a skin with positions `shapes` (n̄, 3) at some poses, the first at rest.

    Flesh moves the vertices `moved` (n̄,) relative to the rig.
    """
    rest = np.ascontiguousarray(shapes[0], np.float64)
    triangles = np.asarray(surface.triangles, np.int64)
    used = np.unique(triangles)
    areas = surface.vertex_areas()
    spacing = float(np.sqrt(areas.sum() / min(most, len(used))))
    normals = _normals(rest, triangles)
    features = np.hstack([rest, 0.5 * spacing * normals])
    chosen = used[_spread(np.ascontiguousarray(features[used]), min(most, len(used)))]
    owner = cKDTree(features[chosen]).query(features)[1]
    order, starts = _patches(chosen, shapes, spacing * normals)
    chosen = chosen[order]
    owner = np.argsort(order)[owner]
    weights: Floats = np.bincount(owner[used], areas[used], len(chosen)).astype(np.float64)
    corners = _supports(rest[chosen], normals[chosen])
    placed = [np.asarray(shape, np.float64)[chosen] for shape in shapes]
    radius, thickness = _patch_bounds(placed, corners, starts)
    excluded = _excluded(surface, owner, placed, [_support_normals(x, corners) for x in placed])
    still = ~moved[chosen]
    excluded |= still[:, None] & still
    patch = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    blocks = np.zeros((len(starts) - 1,) * 2, np.int64)
    np.add.at(blocks, (patch[:, None], patch), ~excluded)
    return SkinSamples(
        chosen.astype(np.int64),
        corners,
        weights,
        starts,
        radius,
        thickness,
        excluded.astype(np.uint8),
        (blocks > 0).astype(np.uint8),
        REACH * spacing,
        float(surface.size),
    )


def _normals(points: Floats, triangles: Ints) -> Floats:
    corners = points[triangles]
    faces = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    # Vertices at the same place, as at seams, share a normal.
    _, place = np.unique(points, axis=0, return_inverse=True)
    place = place.reshape(-1)
    total = np.zeros((place.max() + 1, 3))
    np.add.at(total, place[triangles].ravel(), np.repeat(faces, 3, axis=0))
    total = total[place]
    lengths = np.linalg.norm(total, axis=1, keepdims=True)
    return np.divide(total, lengths, out=np.zeros_like(total), where=lengths > 0)


@compiled
def _spread(points: Floats, count: int) -> Ints:
    """Return indices of points by farthest-point sampling, from the first."""
    order, nearest, last = np.zeros(count, np.int64), np.full(len(points), np.inf), 0
    for k in range(count):
        order[k] = last
        here, best = last, -1.0
        for i in range(len(points)):
            squared = 0.0
            for j in range(points.shape[1]):
                squared += (points[i, j] - points[here, j]) ** 2
            nearest[i] = min(nearest[i], squared)
            if nearest[i] > best:
                best, last = nearest[i], i
    return order


def _patches(chosen: Ints, shapes: Sequence[Floats], normals: Floats) -> tuple[Ints, Ints]:
    """Return the order of samples by patch, and the first of each: alike at all poses."""
    places = [np.asarray(shape, np.float64)[chosen] for shape in shapes]
    features = np.hstack([*(each / np.sqrt(len(places)) for each in places), normals[chosen]])
    groups = _split(features, np.arange(len(chosen)))
    for k, group in enumerate(groups):
        apart = ((features[group] - features[group].mean(axis=0)) ** 2).sum(axis=1)
        groups[k] = np.roll(group, -int(apart.argmin()))
    starts = np.cumsum([0, *map(len, groups)]).astype(np.int64)
    return np.concatenate(groups), starts


def _split(features: Floats, members: Ints) -> list[Ints]:
    """Return parts of at most `PATCH` members, halved along the longest principal axis."""
    if len(members) <= PATCH:
        return [members]
    part = features[members] - features[members].mean(axis=0)
    along = part @ np.linalg.eigh(part.T @ part)[1][:, -1]
    ranked = members[np.argsort(along, kind="stable")]
    half = len(members) // 2
    return _split(features, ranked[:half]) + _split(features, ranked[half:])


def _supports(points: Floats, normals: Floats) -> Ints:
    """Return three samples around each sample (s, 3), counter-clockwise around its normal."""
    count = min(17, len(points))
    near = cKDTree(points).query(points, k=range(1, count + 1))[1]
    out = np.zeros((len(points), 3), np.int64)
    for s, normal in enumerate(normals):
        others = near[s][near[s] != s]
        alike = others[normals[others] @ normal > 0.3]
        others = alike if len(alike) >= 3 else others
        offsets = points[others] - points[s]
        first = offsets[0] - (offsets[0] @ normal) * normal
        first /= max(float(np.linalg.norm(first)), 1e-30)
        second = np.cross(normal, first)
        angles = np.arctan2(offsets @ second, offsets @ first)
        lengths = np.linalg.norm(offsets, axis=1)
        for k, goal in enumerate((0.0, 2 * np.pi / 3, -2 * np.pi / 3)):
            aside = 1 - np.cos(angles - goal)
            out[s, k] = others[np.argmin(lengths * (1 + 4 * aside))]
    unlike = (_support_normals(points, out) * normals).sum(axis=1) < ALIGNED
    for s in np.flatnonzero(
        unlike
    ).tolist():  # at sharp edges and corners: the triangle that fits best
        triples = np.array(list(permutations(near[s][:9], 3)))
        fits = _support_normals(points, triples) @ normals[s]
        out[s] = triples[fits.argmax()]
    return out


def _patch_bounds(placed: list[Floats], corners: Ints, starts: Ints) -> tuple[Singles, Singles]:
    """Return the radius and the thickness of each patch, the largest at the known poses."""
    patch = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    radius, thickness = np.zeros(len(starts) - 1), np.zeros(len(starts) - 1)
    for points in placed:
        offsets = points - points[starts[:-1]][patch]
        normals = _support_normals(points, corners)[starts[:-1]][patch]
        np.maximum.at(radius, patch, np.linalg.norm(offsets, axis=1))
        np.maximum.at(thickness, patch, np.abs((offsets * normals).sum(axis=1)))
    return (LARGER * radius).astype(np.float32), (LARGER * thickness).astype(np.float32)


def _support_normals(points: Floats, corners: Ints) -> Floats:
    """Return the unit normals (s, 3) of the triangles around the samples."""
    a, b, c = (points[corners[:, k]] for k in range(3))
    normals = np.cross(b - a, c - a)
    unit: Floats = normals / np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-30)
    return unit


def _excluded(
    surface: SurfaceMesh, owner: Ints, placed: list[Floats], normals: list[Floats]
) -> Bools:
    """Return pairs of samples (s, s) that cannot touch, from their positions at some poses.

    These are neighbours along the skin; samples less than `AROUND` steps apart that face each other
    at no pose; and near samples, each behind the other at all poses, as around a limb.
    """
    count = len(placed[0])
    welded, place = surface.welded()
    first = np.zeros(len(welded.vertices), np.int64)
    first[place] = owner
    ends = welded.triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
    ends = np.concatenate([first[ends], np.stack([first[place], owner], axis=1)])
    both = np.concatenate([ends, ends[:, ::-1], np.repeat(np.arange(count), 2).reshape(-1, 2)])
    step = sp.csr_array((np.ones(len(both), np.float32), both.T), (count, count))
    step.data[:] = 1
    near = around = step
    for k in range(AROUND - 1):
        around = around @ step
        around.data[:] = 1
        near = around if k == NEIGHBOURS - 2 else near
    excluded, around = near.toarray() > 0, around.toarray() > 0
    faces, apart = np.zeros_like(excluded), np.zeros_like(excluded)
    for points, n in zip(placed, normals, strict=True):
        faces |= n @ n.T < FACING + MARGIN
        level = (points * n).sum(axis=1)
        behind = points @ n.T - level  # of sample a (row) relative to the plane of b
        apart |= np.maximum(behind, behind.T) >= -THICKNESS * surface.size
    excluded |= around & ~faces
    close = cKDTree(placed[0])
    reach = CLOSE * np.sqrt(surface.vertex_areas().sum() / count)
    pairs = close.query_pairs(reach, output_type="ndarray")
    thin = np.zeros_like(excluded)
    thin[pairs[:, 0], pairs[:, 1]] = thin[pairs[:, 1], pairs[:, 0]] = True
    return excluded | (~apart & thin)
