"""Snapshot basis for all poses: mass-PCA of the motions of the shaken body, in the flesh's frames.

In frames that rotate with the rig, flesh moves similarly at every pose. So the motions of all poses
have one mass-PCA. The basis of a pose is its vectors, rotated, and projected to displacements that
contacts allow.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from supple.arrays import Floats
from supple.errors import SuppleError
from supple.linalg.cholesky import SparseCholesky
from supple.linalg.sparse import symmetrised
from supple.mesh.tets import TetMesh
from supple.reduction.mass_pca import mass_pca
from supple.reduction.null_space import NullSpace
from supple.reduction.regions.region import Region
from supple.reduction.shaking import Shaking
from supple.rig.tets.vertex_frames import pose_rotations, rotate_basis, unrotate_basis

#: Part of a column below which it depends on the others up to rounding.
_DEPENDENT = 1e-8


def shaken_shapes(
    mesh: TetMesh,
    rests: Sequence[Floats],
    shakings: Sequence[Shaking],
    region: Region,
    mass: Floats,
    count: int,
) -> Floats:
    """Return the `count` shapes (n, 3, r) nearest to all motions, in the frames of the first pose.

    Parameters
    ----------
    mesh, rests
        Tets and (n, 3) rest shapes of the poses, the neutral one first.
    shakings
        Motions of the shaken body at each pose.
    region, mass
        Region that moves, and masses (n,) of all vertices.
    count
        Number of shapes.
    """
    turned = [
        unrotate_basis(quaternions, shaking.displacements.astype(np.float64))[region.vertices]
        for quaternions, shaking in zip(_rotations(mesh, rests), shakings, strict=True)
    ]
    together = np.concatenate(turned, axis=2)
    rows = len(region.vertices)
    vectors, _ = mass_pca(together.reshape(3 * rows, -1), mass[region.vertices], count)
    shapes = np.zeros((len(mesh.vertices), 3, count))
    shapes[region.vertices] = vectors.reshape(rows, 3, count)
    return shapes


def turned_shapes(
    mesh: TetMesh, rest: Floats, shapes: Floats, region: Region, mass: Floats, allowed: NullSpace
) -> Floats:
    """Return a mass-orthonormal basis (k, 3, r) of a pose: shapes, rotated with its flesh.

    Parameters
    ----------
    mesh, rest
        Tets at the neutral pose, and rest shape (n, 3) of this pose.
    shapes
        (n, 3, r) in the neutral pose's frames.
    region, mass
        Region that moves, and masses (n,).
    allowed
        Displacements of the region that contacts allow here.
    """
    quaternions = _rotations(mesh, [mesh.vertices, rest])[1]
    vectors = rotate_basis(quaternions, shapes)[region.vertices].reshape(
        3 * len(region.vertices), -1
    )
    inertia = np.repeat(mass[region.vertices], 3)[:, None]
    if allowed.rank:
        vectors = _nearest_allowed(vectors, inertia, allowed)
    frame, triangle = np.linalg.qr(np.sqrt(inertia) * vectors)
    lengths = np.abs(np.diagonal(triangle))
    if not lengths.min() > _DEPENDENT * lengths.max():
        raise SuppleError("contacts leave the basis fewer directions; use fewer modes")
    frame *= np.where(np.diagonal(triangle) < 0, -1.0, 1.0)
    basis = np.divide(frame, np.sqrt(inertia), out=np.zeros_like(frame), where=inertia > 0)
    return basis.reshape(len(region.vertices), 3, -1)


def _rotations(mesh: TetMesh, rests: Sequence[Floats]) -> Floats:
    """Return vertex rotations (m, n, 4) from the first shape."""
    return pose_rotations(mesh, rests, np.minimum(np.arange(len(rests)) - 1, 0))


def _nearest_allowed(vectors: Floats, inertia: Floats, allowed: NullSpace) -> Floats:
    """Return Z (ZᵀMZ)⁻¹ ZᵀM u, the nearest allowed displacements by mass."""
    space = allowed.matrix
    heavy = np.maximum(inertia[:, 0], 1e-12 * inertia.max())  # unreferenced vertices have no mass
    weighed = sp.csr_array(space.T @ sp.diags_array(heavy))
    matrix = symmetrised(sp.csr_array(weighed @ space))
    solved = SparseCholesky(matrix).factorise(matrix).solve(weighed @ vectors)
    return np.asarray(space @ solved)
