"""Transfer of a deformed skin between poses of a rig: bound offsets stay the same."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.sparse import coo_array, csr_array

from supple.arrays import Floats, Ints, Singles
from supple.compiled.jit import compiled
from supple.rig.inverse_skinning import offset_matrices, without_shapes
from supple.rig.protocol import Deformer, Rig, optional_method

#: Singular values below this part of the mean are hardly inverted.
FLOOR = 0.05
#: Added to squared stretches, so that joints scaled to zero give finite results.
LEAST = 1e-12


class SkinTransfer:
    """Function that moves a deformed skin from one pose of its rig to another.

    A skinned vertex is an affine function of its bound position, x = M b + t. Flesh offsets it by
    u = M d; at another pose the same d moves it by M′ d, so that u becomes u + (M′ − M) d. Where M
    is nearly singular d is kept small. For rigs without bound positions u rotates with the surface
    around the vertex.

    Parameters
    ----------
    rig
        Rig of the skin.
    triangles
        (m, 3) its surface.
    """

    def __init__(self, rig: Rig, triangles: Ints) -> None:
        self._rig, self._triangles = rig, triangles

    def __call__(
        self, skin: Singles, pose: Floats, root: Floats, new_pose: Floats, new_root: Floats
    ) -> None:
        """Move the skin (n̄, 3) in the world, in place, from a pose and root to new ones."""
        if np.array_equal(pose, new_pose) and np.array_equal(root, new_root):
            return
        if isinstance(self._rig, Deformer):
            base, points, values = without_shapes(self._rig, pose)
            _, new_points, new_values = without_shapes(self._rig, new_pose)
            blend = optional_method(base, "linear_blend")
            now = None if blend is None else blend(values)
            if blend is not None and now is not None:
                joints, weights, matrices = now
                frames = (matrices, blend(new_values).matrices, root, new_root)
                _transfer(skin, joints, weights, points, new_points, *frames)
                return
        self._transfer_by_matrices(skin, pose, root, new_pose, new_root)

    def _transfer_by_matrices(
        self, skin: Singles, pose: Floats, root: Floats, new_pose: Floats, new_root: Floats
    ) -> None:
        before, after = self._rig(pose), self._rig(new_pose)
        offsets = (skin.astype(np.float64) - root[:3, 3]) @ root[:3, :3] - before
        if isinstance(self._rig, Deformer):
            first, second = (offset_matrices(self._rig, each) for each in (pose, new_pose))
            squared = first.transpose(0, 2, 1) @ first
            floor = FLOOR**2 * np.trace(squared, axis1=1, axis2=2) / 3 + LEAST
            pulled = first.transpose(0, 2, 1) @ offsets[:, :, None]
            bound = np.linalg.solve(squared + floor[:, None, None] * np.eye(3), pulled)
            offsets += ((second - first) @ bound)[:, :, 0]
        else:
            offsets = np.einsum("nij,nj->ni", self._rotations(before, after), offsets)
        skin[...] = (after + offsets) @ new_root[:3, :3].T + new_root[:3, 3]

    @cached_property
    def _edges(self) -> tuple[csr_array, Ints, Ints]:
        """Return the sum over each vertex's edges, and the ends of the edges."""
        corners = self._triangles
        start = np.concatenate([corners, corners], axis=1).ravel()
        end = np.concatenate([np.roll(corners, -1, 1), np.roll(corners, 1, 1)], axis=1).ravel()
        shape = (self._rig.n_vertices, len(start))
        entries = (np.ones(len(start)), (start, np.arange(len(start))))
        return coo_array(entries, shape).tocsr(), start, end

    def _rotations(self, before: Floats, after: Floats) -> Floats:
        """Return rotations (n̄, 3, 3) of the surface around each vertex."""
        total, start, end = self._edges
        one, two = (points[end] - points[start] for points in (before, after))
        outer = (two[:, :, None] * one[:, None, :]).reshape(-1, 9)
        left, sizes, right = np.linalg.svd((total @ outer).reshape(-1, 3, 3))
        left[:, :, 2] *= np.sign(np.linalg.det(left @ right))[:, None]
        rotations = left @ right
        # A single edge or point determines no rotation.
        rotations[~(sizes[:, 1] > 1e-9 * np.maximum(sizes[:, 0], 1e-300))] = np.eye(3)
        return rotations


@compiled
def _transfer(
    skin: Singles,
    joints: Ints,
    weights: Floats,
    points: Floats,
    new_points: Floats,
    matrices: Floats,
    new_matrices: Floats,
    root: Floats,
    new_root: Floats,
) -> None:
    """Move skin from skinning matrices (J, 4, 4) to new ones; see `SkinTransfer`."""
    first, second = np.empty((3, 4)), np.empty((3, 4))
    offset, pulled, bound, moved = np.empty(3), np.empty(3), np.empty(3), np.empty(3)
    for vertex in range(len(skin)):
        first[:], second[:] = 0.0, 0.0
        for slot in range(joints.shape[1]):
            weight, joint = weights[vertex, slot], joints[vertex, slot]
            if weight != 0:
                for i in range(3):
                    for j in range(4):
                        first[i, j] += weight * matrices[joint, i, j]
                        second[i, j] += weight * new_matrices[joint, i, j]
        trace = 0.0
        for i in range(3):
            x = 0.0
            for j in range(3):
                x += root[j, i] * (skin[vertex, j] - root[j, 3])
                trace += first[j, i] ** 2
            x -= first[i, 3]
            for j in range(3):
                x -= first[i, j] * points[vertex, j]
            offset[i] = x
        for i in range(3):
            pulled[i] = first[0, i] * offset[0] + first[1, i] * offset[1] + first[2, i] * offset[2]
        # (MᵀM + floor) d = Mᵀ u by the adjugate of a symmetric matrix.
        floor = FLOOR * FLOOR * trace / 3 + LEAST
        a = first[0, 0] ** 2 + first[1, 0] ** 2 + first[2, 0] ** 2 + floor
        b = first[0, 0] * first[0, 1] + first[1, 0] * first[1, 1] + first[2, 0] * first[2, 1]
        c = first[0, 0] * first[0, 2] + first[1, 0] * first[1, 2] + first[2, 0] * first[2, 2]
        d = first[0, 1] ** 2 + first[1, 1] ** 2 + first[2, 1] ** 2 + floor
        e = first[0, 1] * first[0, 2] + first[1, 1] * first[1, 2] + first[2, 1] * first[2, 2]
        f = first[0, 2] ** 2 + first[1, 2] ** 2 + first[2, 2] ** 2 + floor
        aa, ab, ac = d * f - e * e, c * e - b * f, b * e - c * d
        dd, de, ff = a * f - c * c, b * c - a * e, a * d - b * b
        determinant = a * aa + b * ab + c * ac
        bound[0] = (aa * pulled[0] + ab * pulled[1] + ac * pulled[2]) / determinant
        bound[1] = (ab * pulled[0] + dd * pulled[1] + de * pulled[2]) / determinant
        bound[2] = (ac * pulled[0] + de * pulled[1] + ff * pulled[2]) / determinant
        for i in range(3):
            x = second[i, 3] + offset[i]
            for j in range(3):
                x += second[i, j] * new_points[vertex, j]
                x += (second[i, j] - first[i, j]) * bound[j]
            moved[i] = x
        for i in range(3):
            skin[vertex, i] = (
                new_root[i, 0] * moved[0]
                + new_root[i, 1] * moved[1]
                + new_root[i, 2] * moved[2]
                + new_root[i, 3]
            )
