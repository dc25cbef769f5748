"""Inverse skinning: offsets of bound positions whose skinned result is a given surface.

Files play soft tissue as shapes that are added to the bound positions, before skinning. A skinned
vertex is an affine function of its bound position, x = M b + t, with one 3 × 3 matrix for each
vertex and pose. An offset d of the bound position moves it by M d. Where joints twist against each
other the blended M is nearly singular (the candy wrapper), and the exact offset along a flattened
direction would be huge: exact at this frame, but a spike between frames. The same holds for joints
scaled to almost zero. Such offsets are kept small, at the cost of a part of the displacement.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array, csr_array

from supple.arrays import Floats, Ints, Singles
from supple.checks import checked_array
from supple.compiled.jit import compiled
from supple.errors import SuppleError
from supple.rig.protocol import Deformer, Rig, checked_pose, optional_method

#: Singular values below this fraction of the vertex's usual stretch are inverted only in part; the
#: next floor is tried where the loss exceeds the tolerance.
FLOORS = (0.2, 0.05, 0.0125)
#: Most iterations for rigs that are not affine, and the residual that ends them, relative to the
#: size.
MOST_ITERATIONS, SETTLED = 8, 1e-7
#: Step of differences for rigs that are not affine, relative to the size.
PROBE = 1e-5
#: Lower bound of a stretch, so that its square is not zero.
NOTHING = 1e-30
#: For `SkinTransfer`: singular values below this fraction of the mean are hardly inverted; and a
#: constant added to squared ones, so that joints scaled to zero give finite results.
TRANSFER_FLOOR, LEAST = 0.05, 1e-12


def offset_matrices(rig: Rig, pose: ArrayLike) -> Floats:
    """Return the derivatives (n, 3, 3) of vertices at a pose by their bound positions.

    They are exact for rigs with a method ``offset_matrices``, such as skins, with or without (pose)
    blend shapes. They are central differences for other rigs that move given points. A rig without
    bound positions, a function of the pose alone, is refused.
    """
    base, points, values = without_shapes(rig, pose)
    exact = optional_method(base, "offset_matrices")
    if exact is not None:
        matrices = exact(points, values)
        if np.shape(matrices) != (len(points), 3, 3):
            shapes = f"shape {np.shape(matrices)}; expected {(len(points), 3, 3)}"
            raise SuppleError(f"offset_matrices of a {type(base).__name__}: {shapes}")
        return matrices
    return differenced_matrices(base, points, values, PROBE * _extent(points))


def offsets_before_skinning(
    rig: Rig,
    pose: ArrayLike,
    target: ArrayLike,
    *,
    present: ArrayLike | None = None,
    matrices: ArrayLike | None = None,
    tolerance: float | None = None,
    stretch: ArrayLike | None = None,
) -> Floats:
    """Compute offsets (n, 3) of the bound positions whose skinned result is the surface `target`.

    `target` and `present`, the rig's positions at the pose, are (n, 3) in the rig's space
    without root motion. `tolerance` is the largest error of a vertex, in metres, where its matrix
    (n, 3, 3) is nearly singular, by default a thousandth of the size; larger values give smaller
    offsets. `stretch` (n,) is the usual stretch of each vertex, such as `largest_stretch` of a
    motion, by default the rest pose's. `present` and `matrices` are computed if None.
    """
    count = rig.n_vertices
    goal = checked_array("target positions", target, (count, 3))
    now = rig(pose) if present is None else checked_array("positions", present, (count, 3))
    base, points, values = without_shapes(rig, pose)
    size = _extent(goal)
    allowed = 1e-3 * size if tolerance is None else float(tolerance)
    slopes = offset_matrices(rig, pose) if matrices is None else np.asarray(matrices, np.float64)
    if stretch is None:
        usual = np.maximum(_stretch(offset_matrices(rig, rig.rest_pose)), _stretch(slopes))
    else:
        usual = np.asarray(stretch, np.float64)
    offsets = inverted_moves(slopes, goal - now, allowed, usual)
    if optional_method(base, "offset_matrices") is not None:
        return offsets
    for _ in range(MOST_ITERATIONS):
        residual = goal - base.deform(points + offsets, values)
        if not np.abs(residual).max() > SETTLED * size:
            break
        slopes = differenced_matrices(base, points + offsets, values, PROBE * size)
        offsets = offsets + inverted_moves(slopes, residual, allowed, usual)
    return offsets


def largest_stretch(rig: Rig, matrices: Iterable[NDArray[np.floating]]) -> Floats:
    """Return each vertex's largest stretch (n,), at rest and in frames of `offset_matrices`."""
    largest = _stretch(offset_matrices(rig, rig.rest_pose))
    for frame in matrices:
        np.maximum(largest, _stretch(frame), out=largest)
    return largest


class OffsetMatrices(Sequence[Floats]):
    """Sequence of the offset matrices (n, 3, 3) of a motion, each computed when it is read.

    Together they would take three times the memory of the motion's positions.
    """

    def __init__(self, rig: Rig, poses: ArrayLike, vertices: NDArray[np.int64] | None = None):
        self._rig, self._vertices = rig, vertices
        self._poses = np.asarray(poses, np.float64)

    def __len__(self) -> int:
        return len(self._poses)

    @overload
    def __getitem__(self, index: int) -> Floats: ...
    @overload
    def __getitem__(self, index: slice) -> OffsetMatrices: ...
    def __getitem__(self, index: int | slice) -> Floats | OffsetMatrices:
        if isinstance(index, slice):
            return OffsetMatrices(self._rig, self._poses[index], self._vertices)
        matrices = offset_matrices(self._rig, self._poses[index])
        return matrices if self._vertices is None else matrices[self._vertices]


def without_shapes(rig: Rig, pose: ArrayLike) -> tuple[Deformer, Floats, Floats]:
    """Return the rig below blend shapes, the points displaced by these, and its part of the pose.

    Rigs that only displace the points of their base have a method
    ``without_shapes(points, pose)``, which returns the same three for one level.
    """
    values = checked_pose(rig.parameters, pose)
    if not isinstance(rig, Deformer):
        advice = "save its motion as positions (.npz, .pc2, .mdd)"
        raise SuppleError(f"a {type(rig).__name__} has no bound positions to offset; {advice}")
    base: Deformer = rig
    points = np.asarray(base.rest_points, np.float64)
    while (peel := optional_method(base, "without_shapes")) is not None:
        base, points, values = peel(points, values)
    return base, points, values


def differenced_matrices(rig: Deformer, points: Floats, pose: Floats, step: float) -> Floats:
    """Return ∂x/∂X (n, 3, 3) of a deformer at `points` X (n, 3) by central differences."""
    columns = []
    for axis in range(3):
        ahead, behind = points.copy(), points.copy()
        ahead[:, axis] += step
        behind[:, axis] -= step
        columns.append((rig.deform(ahead, pose) - rig.deform(behind, pose)) / (2 * step))
    return np.stack(columns, axis=2)


def inverted_moves(
    matrices: Floats, moves: Floats, allowed: float, stretch: Floats | None = None
) -> Floats:
    """Compute offsets d (n, 3) with M d near `moves` (n, 3); small where M is nearly singular.

    Singular values of M (n, 3, 3) are compared with `stretch`, (n,); by default with the stretch of
    M itself. `allowed` is the error in metres above which less damping is tried.
    """
    usual = _stretch(matrices) if stretch is None else stretch
    # Rows of the adjugate: most matrices are far from singular and need no decomposition.
    rows = np.cross(matrices[:, :, [1, 2, 0]], matrices[:, :, [2, 0, 1]], axis=1)
    determinants = np.einsum("ni,ni->n", matrices[:, :, 0], rows[:, :, 0])
    # A lower bound of the smallest singular value: above the floor, M is simply inverted.
    sound = usual * np.linalg.norm(rows, axis=(1, 2)) * FLOORS[0] < np.abs(determinants)
    offsets = np.empty_like(moves)
    inverse = rows[sound] / determinants[sound, None, None]
    offsets[sound] = np.einsum("nij,ni->nj", inverse, moves[sound])
    if not sound.all():
        offsets[~sound] = _damped_offsets(matrices[~sound], moves[~sound], allowed, usual[~sound])
    return offsets


def _damped_offsets(matrices: Floats, moves: Floats, allowed: float, usual: Floats) -> Floats:
    """Compute offsets where plain inversion might make them large.

    A singular value s is inverted as s / max(s, f)² with a floor f relative to the usual stretch:
    1 / s above the floor, and falling to zero below it, so that offsets stay continuous where a
    direction flips.
    """
    left, sizes, right = np.linalg.svd(matrices)
    along = np.einsum("nji,nj->ni", left, moves)
    stretch = np.maximum(usual, NOTHING)[:, None]
    gains = np.zeros_like(sizes)
    open_rows = np.ones(len(sizes), dtype=bool)
    for floor in FLOORS:
        gains[open_rows] = (sizes / np.maximum(sizes, floor * stretch) ** 2)[open_rows]
        open_rows = np.linalg.norm((1 - gains * sizes) * along, axis=1) > allowed
        if not open_rows.any():
            break
    return np.einsum("nji,nj->ni", right, gains * along)


def _stretch(matrices: NDArray[np.floating]) -> Floats:
    """Return the stretch (n,) of matrices: the root mean square of their singular values."""
    flat = np.asarray(matrices, np.float64).reshape(len(matrices), 9)
    return np.sqrt(np.einsum("ni,ni->n", flat, flat) / 3)


def _extent(points: Floats) -> float:
    return max(float(np.linalg.norm(np.ptp(points, axis=0))), 1e-9)


class SkinTransfer:
    """Function that moves a deformed skin from one pose of its rig to another.

    A skinned vertex is an affine function of its bound position, x = M b + t. Flesh offsets it by
    u = M d; at another pose the same d moves it by M′ d, so that u becomes u + (M′ − M) d. Where M
    is nearly singular d is kept small. For rigs without bound positions u rotates with the surface
    around the vertex. `triangles` (m, 3) are the surface.
    """

    def __init__(self, rig: Rig, triangles: Ints) -> None:
        self._rig, self._triangles = rig, triangles

    def __call__(
        self, skin: Singles, pose: Floats, root: Floats, new_pose: Floats, new_root: Floats
    ) -> None:
        """Move the skin (n̄, 3) in the world, in place, from a pose and root to another."""
        if np.array_equal(pose, new_pose) and np.array_equal(root, new_root):
            return
        if isinstance(self._rig, Deformer):
            base, points, values = without_shapes(self._rig, pose)
            _, new_points, new_values = without_shapes(self._rig, new_pose)
            blend = optional_method(base, "linear_blend")
            skinning = None if blend is None else blend(values)
            if blend is not None and skinning is not None:
                joints, weights, matrices = skinning
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
            floor = TRANSFER_FLOOR**2 * np.trace(squared, axis1=1, axis2=2) / 3 + LEAST
            pulled = first.transpose(0, 2, 1) @ offsets[:, :, None]
            bound = np.linalg.solve(squared + floor[:, None, None] * np.eye(3), pulled)
            offsets += ((second - first) @ bound)[:, :, 0]
        else:
            offsets = np.einsum("nij,nj->ni", self._rotations(before, after), offsets)
        skin[...] = (after + offsets) @ new_root[:3, :3].T + new_root[:3, 3]

    @cached_property
    def _edges(self) -> tuple[csr_array, Ints, Ints]:
        """Sparse matrix (n̄, e) that sums values of directed edges at their start vertices.

        It is followed by the start and the end vertices (e,) of the edges.
        """
        corners = self._triangles
        start = np.concatenate([corners, corners], axis=1).ravel()
        end = np.concatenate([np.roll(corners, -1, 1), np.roll(corners, 1, 1)], axis=1).ravel()
        shape = (self._rig.n_vertices, len(start))
        entries = (np.ones(len(start)), (start, np.arange(len(start))))
        return coo_array(entries, shape).tocsr(), start, end

    def _rotations(self, before: Floats, after: Floats) -> Floats:
        """Return rotations (n̄, 3, 3) of the surface around each vertex from `before` to `after`."""
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
    """Move skin in place from skinning matrices (J, 4, 4) to new ones; see `SkinTransfer`."""
    first, second = np.empty((3, 4)), np.empty((3, 4))
    offset, pulled, bound, position = np.empty(3), np.empty(3), np.empty(3), np.empty(3)
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
        floor = TRANSFER_FLOOR * TRANSFER_FLOOR * trace / 3 + LEAST
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
            position[i] = x
        for i in range(3):
            skin[vertex, i] = (
                new_root[i, 0] * position[0]
                + new_root[i, 1] * position[1]
                + new_root[i, 2] * position[2]
                + new_root[i, 3]
            )
