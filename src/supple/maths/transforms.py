"""Arrays of affine transforms (4, 4), decomposed into translation, rotation and scale."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from supple.arrays import Floats, Ints
from supple.maths.rotations import from_matrix

#: Deviation from orthogonality of a similarity's columns: float32 rounding.
ORTHOGONAL = 1e-5
#: Columns shorter than this have no direction.
FLAT = 1e-30


@dataclass
class LocalTransforms:
    """Translations (…, 3), quaternions (…, 4) and scales (…, 3)."""

    translations: Floats
    rotations: Floats
    scales: Floats

    def copies(self, count: int) -> LocalTransforms:
        """Repeat the transforms `count` times along a new first axis."""
        parts = (self.translations, self.rotations, self.scales)
        return LocalTransforms(*(np.repeat(part[None], count, axis=0) for part in parts))


def scaling(factor: float) -> Floats:
    """Return the matrix (4, 4) of a uniform scale about the origin."""
    return np.diag([factor, factor, factor, 1.0])


def uniform_scale(matrix: Floats) -> float | None:
    """Return the factor of a similarity (4, 4) without reflection; None for other transforms."""
    linear = matrix[:3, :3]
    determinant = np.linalg.det(linear)
    if not (np.isfinite(determinant) and determinant > 0):
        return None
    factor = float(np.cbrt(determinant))
    square = linear.T @ linear / factor**2
    return factor if np.abs(square - np.eye(3)).max() < ORTHOGONAL else None


def decompose(matrices: Floats) -> tuple[LocalTransforms, Floats]:
    """Decompose transforms (…, 4, 4), M ≈ T R S; return them and the shear (…) of each.

    A reflection becomes a negative x scale. A sheared transform gets the nearest rotation. The
    shear is max |QᵀQ - I| with Q the normalised columns; columns of length zero do not count.
    """
    linear = matrices[..., :3, :3]
    scales = np.linalg.norm(linear, axis=-2)
    scales[..., 0] *= np.where(np.linalg.det(linear) < 0, -1, 1)
    flat = np.abs(scales) < FLAT
    columns = np.where(flat[..., None, :], 0.0, linear / np.where(flat, 1, scales)[..., None, :])
    square = np.swapaxes(columns, -1, -2) @ columns
    shear = np.abs(square - np.eye(3) * ~flat[..., None]).max(axis=(-1, -2))
    left, _, right = np.linalg.svd(columns)
    left[..., :, 2] *= np.linalg.det(left @ right)[..., None]
    translations = matrices[..., :3, 3].copy()
    return LocalTransforms(translations, from_matrix(left @ right), scales), shear


def relative_to_parents(world: Floats, parents: Ints) -> Floats:
    """Return local transforms (…, J, 4, 4) of world transforms; parents (J,) are -1 for roots."""
    local = world.copy()
    child = parents >= 0
    local[..., child, :, :] = np.linalg.solve(
        world[..., parents[child], :, :], world[..., child, :, :]
    )
    return local
