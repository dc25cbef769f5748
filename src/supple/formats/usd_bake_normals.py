"""Normals of baked frames."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from supple.rig.baked_motion import BakedMotion

__all__ = ["normal_shapes", "vertex_normals"]

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Ints = NDArray[np.int64]


def vertex_normals(baked: BakedMotion) -> Singles:
    """(t, n̄, 3) unit normals in the world, each the mean of its faces' by their areas."""
    around = _faces_around(baked)
    return np.stack([_normals(baked, frame, around) for frame in baked.frames]).astype(np.float32)


def normal_shapes(
    baked: BakedMotion, present: Singles, matrices: Singles, rows: Ints, weights: Singles
) -> Singles:
    """(b, n, 3) offsets of bound normals that go with the shapes' weights, (t, b).

    What is wanted is the difference between the frame's normals and those of the surface as the
    stage has it, both brought back before skinning: n → Mᵀ n. So edges that are hard stay hard.
    """
    around = _faces_around(baked)
    wanted = np.empty((baked.n_frames, 3 * len(rows)), np.float32)
    for k in range(baked.n_frames):
        now = baked.frames[k].astype(np.float64)
        now[rows] = present[k][rows]
        turned = [
            _unit(np.einsum("nji,nj->ni", matrices[k][rows], _normals(baked, points, around)[rows]))
            for points in (baked.frames[k], now)
        ]
        wanted[k] = (turned[0] - turned[1]).ravel()
    found = np.linalg.lstsq(weights.astype(np.float64), wanted.astype(np.float64), rcond=1e-6)[0]
    return found.reshape(weights.shape[1], len(rows), 3).astype(np.float32)


def _faces_around(baked: BakedMotion) -> csr_array:
    """(n̄, f) which faces are at which vertex."""
    triangles = baked.character.surface.triangles
    faces = np.repeat(np.arange(len(triangles)), 3)
    shape = (len(baked.character.surface.vertices), len(triangles))
    return csr_array((np.ones(len(faces)), (triangles.ravel(), faces)), shape=shape)


def _normals(baked: BakedMotion, points: NDArray[np.floating], around: csr_array) -> Floats:
    corners = points.astype(np.float64)[baked.character.surface.triangles]
    areas = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    return _unit(around @ areas)


def _unit(vectors: Floats) -> Floats:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)
