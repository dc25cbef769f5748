"""Affine transforms (4, 4) of whole arrays, taken apart: translation · rotation · scale."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from supple.arrays import Floats, Ints
from supple.maths.rotations import from_matrix

#: How far from orthogonal the columns of a similarity may be: rounding of float32.
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
    """Return the factor of a similarity without a mirror, (4, 4); None for other transforms."""
    linear = matrix[:3, :3]
    determinant = np.linalg.det(linear)
    if not (np.isfinite(determinant) and determinant > 0):
        return None
    factor = float(np.cbrt(determinant))
    square = linear.T @ linear / factor**2
    return factor if np.abs(square - np.eye(3)).max() < ORTHOGONAL else None


def decompose(matrices: Floats) -> tuple[LocalTransforms, Floats]:
    """Take transforms (…, 4, 4) apart, M ≈ T R S, and measure how sheared each is, (…).

    Mirrors become a negative x scale. Of a sheared transform the nearest rotation is taken. The
    shear is max |QᵀQ - I| with Q the columns made unit; columns without length do not count.
    """
    linear = matrices[..., :3, :3]
    scales = np.linalg.norm(linear, axis=-2)
    scales[..., 0] *= np.where(np.linalg.det(linear) < 0, -1, 1)
    flat = np.abs(scales) < FLAT
    turns = np.where(flat[..., None, :], 0.0, linear / np.where(flat, 1, scales)[..., None, :])
    square = np.swapaxes(turns, -1, -2) @ turns
    shear = np.abs(square - np.eye(3) * ~flat[..., None]).max(axis=(-1, -2))
    left, _, right = np.linalg.svd(turns)
    left[..., :, 2] *= np.linalg.det(left @ right)[..., None]
    places = matrices[..., :3, 3].copy()
    return LocalTransforms(places, from_matrix(left @ right), scales), shear


def relative_to_parents(world: Floats, parents: Ints) -> Floats:
    """Return local transforms (…, J, 4, 4) of those in the world; parents (J,), -1 for none."""
    local = world.copy()
    child = parents >= 0
    local[..., child, :, :] = np.linalg.solve(
        world[..., parents[child], :, :], world[..., child, :, :]
    )
    return local
