"""Frames that follow the rotations of the rest shape, also between poses.

Blended rotations of the poses are right where one joint rotates, but in a mix of four poses they
are off by tens of degrees, and a wrongly rotated basis locks. The rest shape itself is known at the
cubature's vertices: polar decomposition gives the rotations A(p) of some cubature tets from the
neutral pose, and blending gives rotations B(p). Blended frames of vertices near these tets are
multiplied by A Bᵀ, which is the identity at the poses.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from supple.arrays import Floats, Ints, Singles
from supple.compiled.jit import compiled_fused
from supple.compiled.simd_rows import multiply_quaternion_rows
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.rig.skeleton.skinning_kernels import to_quaternion

#: Largest number of tets whose rotations are computed, spread over the body.
MOST_TETS = 96
#: Number of tets that influence a vertex.
NEIGHBOURS = 4
#: Part of its volume at the neutral pose below which the rotation of a tet is ignored.
LEAST_FRAME_VOLUME = 0.05


class FrameTables(NamedTuple):
    """Tets whose rotations correct the blended frames, read only."""

    corners: Ints
    """(t, 4) rows of the cubature's vertices."""
    inverses: Floats
    """(t, 3, 3) inverses of the tets' edges at the neutral pose, as columns."""
    quaternions: Singles
    """(m, 4t) quaternions of the tets at the poses, with signs that match those of the vertices."""
    near: NDArray[np.int32]
    near_shares: Singles
    """(k, 4) tets that influence each of the cubature's vertices, and their weights."""
    carrier_near: NDArray[np.int32]
    carrier_shares: Singles
    """(b, 4) tets that influence each carrier of the skin, and their weights."""


def no_frame_tables(n_poses: int) -> FrameTables:
    """Return tables without tets: frames are then blended only."""
    none = np.zeros((0, 4), np.int32), np.zeros((0, 4), np.float32)
    quaternions = np.zeros((n_poses, 0), np.float32)
    return FrameTables(np.zeros((0, 4), np.int64), np.zeros((0, 3, 3)), quaternions, *none, *none)


def frame_tables(
    model: PoseSpaceModel, corners: Ints, vertices: NDArray, carriers: NDArray
) -> FrameTables:
    """Choose tets of a model and tabulate their rotations at its poses.

    `corners` (c, 4) are rows of the cubature's `vertices` (k,); `carriers` (b,) are tet
    vertices in which the skin is embedded.
    """
    chosen = spread_out(model.mesh.vertices[vertices][corners].mean(axis=1), MOST_TETS)
    corners = corners[chosen]
    neutral = model.tet_rig(model.poses[0], vertices)
    inverses: Floats = np.linalg.inv(_edges(neutral[corners])).astype(np.float64)
    rows = np.searchsorted(model.rotation_vertices, vertices[corners])
    rows = np.minimum(rows, len(model.rotation_vertices) - 1)
    matched = model.rotation_vertices[rows] == vertices[corners]
    quaternions, matrix = np.zeros((model.n_poses, len(corners), 4)), np.empty((3, 3))
    sound = np.ones(len(corners), bool)
    for i, pose in enumerate(model.poses):
        points = model.tet_rig(pose, vertices)
        for t in range(len(corners)):
            sound[t] &= _rotation_of(points, corners, inverses, t, matrix, quaternions[i, t])
        alike = (model.rotations[i, rows] * matched[..., None]).sum(axis=1)  # type: ignore[index]
        quaternions[i][(quaternions[i] * alike).sum(axis=1) < 0] *= -1
    if not sound.any():
        return no_frame_tables(model.n_poses)
    corners, inverses = corners[sound], np.ascontiguousarray(inverses[sound])
    flat = np.ascontiguousarray(quaternions[:, sound].reshape(model.n_poses, -1), np.float32)
    near = _neighbours(model, vertices[corners], vertices)
    carried = _neighbours(model, vertices[corners], carriers)
    return FrameTables(np.ascontiguousarray(corners), inverses, flat, *near, *carried)


def spread_out(points: Floats, most: int) -> Ints:
    """Return indices of up to `most` points (k, 3), chosen by farthest-point sampling."""
    if len(points) <= most:
        return np.arange(len(points))
    chosen = [int(np.argmin(points.sum(axis=1)))]
    gaps = np.linalg.norm(points - points[chosen[0]], axis=1)
    while len(chosen) < most:
        chosen.append(int(np.argmax(gaps)))
        gaps = np.minimum(gaps, np.linalg.norm(points - points[chosen[-1]], axis=1))
    return np.sort(np.array(chosen))


def _neighbours(
    model: PoseSpaceModel, tets: NDArray, targets: NDArray
) -> tuple[NDArray[np.int32], Singles]:
    """Return the `tets` (t, 4) that influence each of the vertices `targets`, and their weights.

    Both are (k, 4). Squared distances are summed over the poses, because a hand that is near the
    hip at one pose is far from it at others.
    """
    shapes = [model.tet_rig(pose) for pose in model.poses]
    middles = np.concatenate([x[tets].mean(axis=1) for x in shapes], axis=1)
    places = np.concatenate([x[targets] for x in shapes], axis=1)
    count = min(NEIGHBOURS, len(middles))
    distance, nearest = cKDTree(middles).query(places, k=range(1, count + 1))
    shares = 1 / np.maximum(distance, 1e-3 * float(model.surface.size)) ** 2
    shares /= shares.sum(axis=1, keepdims=True)
    missing = ((0, 0), (0, NEIGHBOURS - count))
    return (np.pad(nearest, missing).astype(np.int32), np.pad(shares, missing).astype(np.float32))


def _edges(corners: Floats) -> Floats:
    return np.swapaxes(corners[:, 1:] - corners[:, :1], 1, 2)


@compiled_fused
def _rotation_of(
    points: Floats, corners: Ints, inverses: Floats, t: int, m: Floats, out: Floats
) -> bool:
    """Write the quaternion of tet t's rotation from the neutral pose; return whether it has one.

    A flat or inverted tet has none. `m` (3, 3) is scratch.
    """
    a, b, c, d = corners[t, 0], corners[t, 1], corners[t, 2], corners[t, 3]
    for i in range(3):
        origin = points[a, i]
        p, q, r = points[b, i] - origin, points[c, i] - origin, points[d, i] - origin
        for j in range(3):
            m[i, j] = p * inverses[t, 0, j] + q * inverses[t, 1, j] + r * inverses[t, 2, j]
    if not _polar(m):
        return False
    to_quaternion(m, out)
    return True


@compiled_fused
def _polar(m: Floats) -> bool:
    """Replace a matrix by the nearest rotation, by Newton's iteration (Higham 1986).

    Returns False if its determinant is below `LEAST_FRAME_VOLUME`.
    """
    for iteration in range(12):
        c00 = m[1, 1] * m[2, 2] - m[1, 2] * m[2, 1]
        c01 = m[1, 2] * m[2, 0] - m[1, 0] * m[2, 2]
        c02 = m[1, 0] * m[2, 1] - m[1, 1] * m[2, 0]
        c10 = m[0, 2] * m[2, 1] - m[0, 1] * m[2, 2]
        c11 = m[0, 0] * m[2, 2] - m[0, 2] * m[2, 0]
        c12 = m[0, 1] * m[2, 0] - m[0, 0] * m[2, 1]
        c20 = m[0, 1] * m[1, 2] - m[0, 2] * m[1, 1]
        c21 = m[0, 2] * m[1, 0] - m[0, 0] * m[1, 2]
        c22 = m[0, 0] * m[1, 1] - m[0, 1] * m[1, 0]
        volume = m[0, 0] * c00 + m[0, 1] * c01 + m[0, 2] * c02
        if not (volume > LEAST_FRAME_VOLUME if iteration == 0 else volume > 0):
            return False
        half = 0.5 / volume
        change = 0.0
        change = max(change, _halve(m, 0, 0, c00 * half))
        change = max(change, _halve(m, 0, 1, c01 * half))
        change = max(change, _halve(m, 0, 2, c02 * half))
        change = max(change, _halve(m, 1, 0, c10 * half))
        change = max(change, _halve(m, 1, 1, c11 * half))
        change = max(change, _halve(m, 1, 2, c12 * half))
        change = max(change, _halve(m, 2, 0, c20 * half))
        change = max(change, _halve(m, 2, 1, c21 * half))
        change = max(change, _halve(m, 2, 2, c22 * half))
        if change < 1e-5:  # the next change, by quadratic convergence, is below float32's rounding
            return True
    return True


@compiled_fused
def _halve(m: Floats, i: int, j: int, other: float) -> float:
    before = m[i, j]
    m[i, j] = 0.5 * before + other
    return abs(m[i, j] - before)


@compiled_fused
def write_tet_rotations(tables, points, blend):  # type: ignore[no-untyped-def]
    """Write each tet's rotation A Bᵀ to `blend.tet_rotations`, as quaternions.

    A is its rotation from the neutral pose and B the blended one. A tet without A or B has the
    identity.
    """
    blended, matrix, rotation = blend.tet_quaternions, blend.matrix, blend.quaternion
    out = blend.tet_rotations
    for t in range(len(tables.corners)):
        x, y, z, w = blended[4 * t], blended[4 * t + 1], blended[4 * t + 2], blended[4 * t + 3]
        squared = x * x + y * y + z * z + w * w
        rotates = squared > 1e-12 and _rotation_of(
            points, tables.corners, tables.inverses, t, matrix, rotation
        )
        if not rotates:
            out[t, 0], out[t, 1], out[t, 2], out[t, 3] = 0.0, 0.0, 0.0, 1.0
            continue
        scale = 1 / math.sqrt(squared)
        a, b, c, d = rotation[0], rotation[1], rotation[2], rotation[3]
        if a * x + b * y + c * z + d * w < 0:
            scale = -scale
        x, y, z, w = -x * scale, -y * scale, -z * scale, w * scale
        out[t, 0] = d * x + a * w + b * z - c * y
        out[t, 1] = d * y + b * w + c * x - a * z
        out[t, 2] = d * z + c * w + a * y - b * x
        out[t, 3] = d * w - a * x - b * y - c * z


@compiled_fused
def rotate_by_tets(
    rotations: Singles, neighbours: NDArray[np.int32], shares: Singles, quaternions: Singles
) -> None:
    """Multiply blended quaternions (4k,) by weighted sums of tets' rotations (t, 4), in place.

    Quaternions may have any length, before and after.
    """
    near, weights = neighbours.reshape(neighbours.size), shares.reshape(shares.size)
    rows = rotations.reshape(rotations.size)
    multiply_quaternion_rows(rows, near, weights, quaternions, len(neighbours))
