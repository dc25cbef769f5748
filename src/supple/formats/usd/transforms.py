"""Transforms of a stage as Supple has them: metres, +Y up, translation · rotation · scale."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial.transform import Rotation

from supple.arrays import Floats

__all__ = ["LocalTransforms", "decompose", "scaling", "uniform_scale", "upright"]


#: How far columns may be from orthogonal before a transform is called sheared: float32.
SHEAR = 1e-5


@dataclass
class LocalTransforms:
    """Translations (…, 3), quaternions (…, 4) and scales (…, 3)."""

    translations: Floats
    rotations: Floats
    scales: Floats

    def copies(self, count: int) -> LocalTransforms:
        """The same for each of `count` times."""
        parts = (self.translations, self.rotations, self.scales)
        return LocalTransforms(*(np.repeat(part[None], count, axis=0) for part in parts))


def upright(axis: str, unit: float) -> Floats:
    """From the stage's space to metres with +Y up."""
    turn = np.diag([unit, unit, unit, 1.0])
    if axis == "Z":
        turn = turn @ np.array([[1.0, 0, 0, 0], [0, 0, 1, 0], [0, -1, 0, 0], [0, 0, 0, 1]])
    return turn


def scaling(factor: float) -> Floats:
    """Uniform scale about the origin."""
    return np.diag([factor, factor, factor, 1.0])


def uniform_scale(matrix: Floats) -> float | None:
    """The factor by which a transform scales, when it is a similarity without a mirror."""
    linear = matrix[:3, :3]
    determinant = np.linalg.det(linear)
    if not (np.isfinite(determinant) and determinant > 0):
        return None
    factor = float(np.cbrt(determinant))
    square = linear.T @ linear / factor**2
    return factor if np.abs(square - np.eye(3)).max() < SHEAR else None


def decompose(matrices: Floats) -> tuple[LocalTransforms, Floats]:
    """Translation, rotation and scale of transforms, and how sheared each is, (…).

    Mirrors become a negative x scale. Of a sheared transform the nearest rotation is taken.
    """
    linear = matrices[..., :3, :3]
    scales = np.linalg.norm(linear, axis=-2)
    scales[..., 0] *= np.where(np.linalg.det(linear) < 0, -1, 1)
    flat = np.abs(scales) < 1e-30
    turns = np.where(flat[..., None, :], 0.0, linear / np.where(flat, 1, scales)[..., None, :])
    square = np.swapaxes(turns, -1, -2) @ turns
    shear = np.abs(square - np.eye(3) * ~flat[..., None]).max(axis=(-1, -2))
    left, _, right = np.linalg.svd(turns)
    left[..., :, 2] *= np.linalg.det(left @ right)[..., None]
    nearest = left @ right
    quaternions = Rotation.from_matrix(nearest.reshape(-1, 3, 3)).as_quat()
    places = matrices[..., :3, 3].copy()
    rotations = quaternions.reshape(*places.shape[:-1], 4)
    return LocalTransforms(places, rotations, scales), shear
