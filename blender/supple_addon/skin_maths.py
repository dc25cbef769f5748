# SPDX-FileCopyrightText: The Supple developers
# SPDX-License-Identifier: GPL-3.0-or-later
"""Linear skinning and its inverse, on arrays; without bpy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["Skin", "compose", "few_shapes", "local_transforms", "quaternions"]

#: Frames whose blended matrices are in memory at once.
CHUNK = 16
#: Scale of a bone below which it counts as zero.
FLAT = 1e-6


def quaternions(rotations: np.ndarray) -> np.ndarray:
    """Return quaternions (…, 4) as x, y, z, w of rotations (…, 3, 3)."""
    m = np.moveaxis(rotations.reshape(-1, 3, 3), 0, -1)
    xx, yy, zz = m[0, 0], m[1, 1], m[2, 2]
    x, y, z = m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1]
    xy, xz, yz = m[0, 1] + m[1, 0], m[0, 2] + m[2, 0], m[1, 2] + m[2, 1]
    # 4 q qᵀ, whose columns are multiples of q; the longest is the most accurate.
    outer = np.array(
        [
            [1 + xx - yy - zz, xy, xz, x],
            [xy, 1 - xx + yy - zz, yz, y],
            [xz, yz, 1 - xx - yy + zz, z],
            [x, y, z, 1 + xx + yy + zz],
        ]
    )
    longest = np.argmax(np.einsum("iik->ik", outer), axis=0)
    result = outer[:, longest, np.arange(len(longest))].T
    result /= np.linalg.norm(result, axis=1, keepdims=True)
    return result.reshape(*rotations.shape[:-2], 4)


def compose(places: np.ndarray, turns: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Return matrices (…, 4, 4) of translations (…, 3), quaternions (…, 4), scales (…, 3)."""
    x, y, z, w = np.moveaxis(turns, -1, 0)
    rotation = np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )
    matrices = np.zeros((*places.shape[:-1], 4, 4))
    matrices[..., :3, :3] = np.moveaxis(rotation, (0, 1), (-2, -1)) * scales[..., None, :]
    matrices[..., :3, 3] = places
    matrices[..., 3, 3] = 1
    return matrices


def decompose(matrices: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return translation, quaternion and scale of matrices (…, 4, 4), without their shear."""
    linear = matrices[..., :3, :3]
    scales = np.linalg.norm(linear, axis=-2)
    scales[..., 0] *= np.where(np.linalg.det(linear) < 0, -1.0, 1.0)
    flat = np.abs(scales) < FLAT
    columns = linear / np.where(flat, 1.0, scales)[..., None, :]
    columns = np.where(flat[..., None, :], np.eye(3), columns)
    left, _, right = np.linalg.svd(columns)
    left[..., -1] *= np.linalg.det(left @ right)[..., None]
    return matrices[..., :3, 3], quaternions(left @ right), np.where(flat, 0.0, scales)


def local_transforms(
    poses: np.ndarray, rest: np.ndarray, parents: Sequence[int]
) -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray], np.ndarray]:
    """Return translations, quaternions and scales of bones relative to their parents.

    `poses` (t, j, 4, 4) are in the armature's space, parents before children; `rest` (j, 4, 4)
    replaces those of bones whose parent has no size; `parents` has −1 for none. Also return the
    bones (t, j, 4, 4) composed from these, which have no shear: a child is relative to its composed
    parent.
    """
    count, bones = poses.shape[:2]
    places, turns = np.zeros((count, bones, 3)), np.zeros((count, bones, 4))
    scales = np.ones((count, bones, 3))
    composed = np.zeros_like(poses)
    for bone, parent in enumerate(parents):
        local = poses[:, bone]
        above = composed[:, parent] if parent >= 0 else None
        if above is not None:
            flat = np.abs(np.linalg.det(above[:, :3, :3])) < FLAT**3
            local = np.linalg.inv(np.where(flat[:, None, None], np.eye(4), above)) @ local
            local[flat] = np.linalg.inv(rest[parent]) @ rest[bone]
        places[:, bone], turns[:, bone], scales[:, bone] = decompose(local)
        composed[:, bone] = compose(places[:, bone], turns[:, bone], scales[:, bone])
        if above is not None:
            composed[:, bone] = above @ composed[:, bone]
    steps = np.einsum("tjk,tjk->tj", turns[1:], turns[:-1])
    signs = np.cumprod(np.where(steps < 0, -1.0, 1.0), axis=0)
    turns[1:] *= signs[..., None]
    return (places, turns, scales), composed


class Skin:
    """Weights (n, j) of vertices on bones."""

    def __init__(self, weights: np.ndarray) -> None:
        self.weights = np.asarray(weights, np.float32)

    def blended(self, moved: np.ndarray) -> np.ndarray:
        """Return matrices (t, n, 3, 4) of vertices for those (t, j, 4, 4) of bones."""
        flat = moved[:, :, :3].transpose(1, 0, 2, 3).reshape(moved.shape[1], -1).astype(np.float32)
        blended = (self.weights @ flat).reshape(-1, len(moved), 3, 4)
        return blended.transpose(1, 0, 2, 3)

    def posed(self, moved: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Return skinned points (t, n, 3); `points` are (n, 3) or (t, n, 3)."""
        result = np.empty((len(moved), len(self.weights), 3), np.float32)
        if points.ndim == 2:  # one product: (n, 4 j) by (4 j, 3 t)
            along = np.column_stack([points, np.ones(len(points))]).astype(np.float32)
            spread = (self.weights[:, :, None] * along[:, None]).reshape(len(points), -1)
            bones = moved[:, :, :3].transpose(1, 3, 0, 2).reshape(spread.shape[1], -1)
            for start in range(0, len(moved), CHUNK):
                part = bones[:, 3 * start : 3 * (start + CHUNK)].astype(np.float32)
                posed = (spread @ part).reshape(len(points), -1, 3)
                result[start : start + CHUNK] = posed.transpose(1, 0, 2)
            return result
        for start in range(0, len(moved), CHUNK):
            part = slice(start, start + CHUNK)
            matrices = self.blended(moved[part])
            result[part] = (matrices[..., :3] * points[part][..., None, :]).sum(axis=-1)
            result[part] += matrices[..., 3]
        return result

    def unposed(self, moved: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Return offsets (t, n, 3) before skinning from those after it; 0 where bones are flat."""
        result = np.empty_like(offsets)
        for start in range(0, len(moved), CHUNK):
            part = slice(start, start + CHUNK)
            linear = self.blended(moved[part])[..., :3].astype(np.float64)
            size = np.linalg.norm(linear, axis=(-2, -1))
            flat = np.abs(np.linalg.det(linear)) < 1e-4 * np.maximum(size, FLAT) ** 3
            linear[flat] = np.eye(3)
            solved = np.linalg.solve(linear, offsets[part][..., None])[..., 0]
            solved[flat] = 0
            result[part] = solved
        return result


def few_shapes(offsets: np.ndarray, within: float) -> tuple[np.ndarray, np.ndarray]:
    """Approximate offsets (t, n, 3) to `within`: return few shapes (k, n, 3), values (t, k)."""
    frames = np.asarray(offsets, np.float32).reshape(len(offsets), -1)
    squares, vectors = np.linalg.eigh((frames @ frames.T).astype(np.float64))
    values = vectors[:, ::-1] * np.sqrt(np.maximum(squares[::-1], 0))
    residual, shapes, kept = frames.copy(), [], []
    for column in values.T:
        farthest = np.sqrt((residual.reshape(len(residual), -1, 3) ** 2).sum(axis=2).max())
        length = float(np.abs(column).max())
        if farthest <= within or length <= 1e-9 * within:
            break
        kept.append(column / length)
        shapes.append(residual.T @ (kept[-1] / (kept[-1] @ kept[-1])))
        residual -= np.outer(kept[-1], shapes[-1]).astype(np.float32)
    count = len(shapes)
    stacked = np.array(shapes, np.float32).reshape(count, *offsets.shape[1:])
    return stacked, np.array(kept).reshape(count, len(frames)).T
