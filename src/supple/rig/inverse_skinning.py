"""Skinning undone: where a vertex must be bound for a pose to bring it to a wanted place.

Files play soft tissue as shapes added to the bound positions, before skinning. A skinned vertex is
an affine function of its bound position, x = M b + t, with one 3 × 3 matrix for each vertex and
pose; an offset d of the bound position moves it by M d. Where joints twist against each other the
blended M flattens (the candy wrapper), and an exact offset along a flattened direction would be
huge: right at this frame, and a spike between frames and in the next. The same holds where a joint
is scaled to almost nothing. There the offset is kept small instead, and some of the wanted movement
is given up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.arrays import Floats
from supple.checks import checked_array
from supple.errors import SuppleError
from supple.rig.deformers.blend_shapes import BlendShapeRig
from supple.rig.deformers.pose_blend_shapes import PoseBlendShapeRig
from supple.rig.protocol import Deformer, Rig, checked_pose
from supple.rig.skeleton.skinning import SkinnedRig

#: Directions that a matrix shrinks to less than this part of the vertex's usual stretch are taken
#: back only partly; each is tried in turn where what is given up matters.
FLOORS = (0.2, 0.05, 0.0125)
#: Iterations, and the change as part of the size that ends them, for rigs that are not affine.
MOST_ITERATIONS, SETTLED = 8, 1e-7
#: Part of the size by which points are moved to see how a rig that is not affine moves them.
PROBE = 1e-5
#: A stretch below this is none: its square must not be zero.
NOTHING = 1e-30


def offset_matrices(rig: Rig, pose: ArrayLike) -> Floats:
    """Return the matrix by which an offset of its bound position moves each vertex at a pose.

    Parameters
    ----------
    rig
        Exact for skinned rigs, with or without (pose) blend shapes; by differences for others that
        move given points.
    pose
        (s,)

    Returns
    -------
    (n, 3, 3) array

    Raises
    ------
    SuppleError
        If the rig has no bound positions: a function of the pose alone.
    """
    base, points, values = without_shapes(rig, pose)
    if isinstance(base, SkinnedRig):
        if base.method == "linear":
            return _blended(base, base.skin_matrices(values)[:, :3, :3].reshape(-1, 9))
        return _differences(base, points, values, 1.0)
    return _differences(base, points, values, PROBE * _extent(points))


def offsets_before_skinning(
    rig: Rig,
    pose: ArrayLike,
    wanted: ArrayLike,
    *,
    present: ArrayLike | None = None,
    matrices: ArrayLike | None = None,
    tolerance: float | None = None,
    stretch: ArrayLike | None = None,
) -> Floats:
    """Find offsets of the bound positions whose skinned result is as wanted.

    Parameters
    ----------
    rig, pose
        As for `offset_matrices`.
    wanted
        (n, 3) positions in the rig's space, without the root's motion.
    present
        (n, 3) what the rig gives at the pose, where it is known already.
    matrices
        (n, 3, 3) `offset_matrices` at the pose, where they are known already.
    tolerance
        Metres that a vertex may miss where its matrix is nearly singular, before larger offsets
        are taken; a thousandth of the size without.
    stretch
        (n,) how much matrices stretch each vertex where they do not shrink it, such as
        `largest_stretch` of a motion; that of the rest pose without.

    Returns
    -------
    (n, 3) array
        In the space of bound positions, metres.
    """
    count = rig.n_vertices
    goal = checked_array("wanted positions", wanted, (count, 3))
    now = rig(pose) if present is None else checked_array("positions", present, (count, 3))
    base, points, values = without_shapes(rig, pose)
    size = _extent(goal)
    allowed = 1e-3 * size if tolerance is None else float(tolerance)
    slopes = offset_matrices(rig, pose) if matrices is None else np.asarray(matrices, np.float64)
    if stretch is None:
        usual = np.maximum(_stretch(offset_matrices(rig, rig.rest_pose)), _stretch(slopes))
    else:
        usual = np.asarray(stretch, np.float64)
    offsets = undone(slopes, goal - now, allowed, usual)
    if isinstance(base, SkinnedRig):
        return offsets
    for _ in range(MOST_ITERATIONS):
        left = goal - base.deform(points + offsets, values)
        if not np.abs(left).max() > SETTLED * size:
            break
        slopes = _differences(base, points + offsets, values, PROBE * size)
        offsets = offsets + undone(slopes, left, allowed, usual)
    return offsets


def largest_stretch(rig: Rig, matrices: Iterable[NDArray[np.floating]]) -> Floats:
    """Return the largest stretch of vertices, (n,), at rest and by the matrices of a motion.

    Parameters
    ----------
    rig
        Whose rest it is.
    matrices
        (n, 3, 3) each.
    """
    largest = _stretch(offset_matrices(rig, rig.rest_pose))
    for frame in matrices:
        np.maximum(largest, _stretch(frame), out=largest)
    return largest


class OffsetMatrices(Sequence[Floats]):
    """The matrices of a whole motion, (t, n, 3, 3), made one pose at a time.

    All of them together would be three times the motion's positions.
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
        found = offset_matrices(self._rig, self._poses[index])
        return found if self._vertices is None else found[self._vertices]


def without_shapes(rig: Rig, pose: ArrayLike) -> tuple[Deformer, Floats, Floats]:
    """Return the rig below blend shapes, the points that they give it, and its part of the pose."""
    values = checked_pose(rig.parameters, pose)
    if not isinstance(rig, Deformer):
        raise SuppleError(
            f"a {type(rig).__name__} places vertices by the pose alone and has no bound positions"
            f" to offset; save its motion as whole positions (.npz, .pc2, .mdd)"
        )
    base: Deformer = rig
    points = np.asarray(base.rest_points, np.float64)
    while isinstance(base, (BlendShapeRig, PoseBlendShapeRig)):
        if isinstance(base, PoseBlendShapeRig):
            points, base = base.shaped(points, values), base.base
            continue
        split = len(base.base.parameters)
        points = base.shaped(points, values[split:])
        base, values = base.base, values[:split]
    return base, points, values


def _blended(rig: SkinnedRig, matrices: Floats) -> Floats:
    total = rig.weights[:, :1] * matrices[rig.joints[:, 0]]
    for slot in range(1, rig.joints.shape[1]):
        total += rig.weights[:, slot : slot + 1] * matrices[rig.joints[:, slot]]
    return total.reshape(-1, 3, 3)


def _differences(rig: Deformer, points: Floats, pose: Floats, step: float) -> Floats:
    columns = []
    for axis in range(3):
        ahead, behind = points.copy(), points.copy()
        ahead[:, axis] += step
        behind[:, axis] -= step
        columns.append((rig.deform(ahead, pose) - rig.deform(behind, pose)) / (2 * step))
    return np.stack(columns, axis=2)


def undone(
    matrices: Floats, moves: Floats, allowed: float, stretch: Floats | None = None
) -> Floats:
    """Find offsets d with M d near the moves; small where M is nearly singular, or nearly nothing.

    Beside a `stretch`, (n,), that is; without one, M is measured by itself.
    """
    usual = _stretch(matrices) if stretch is None else stretch
    # Rows of the adjugate, which needs no decomposition: most matrices are far from singular.
    rows = np.cross(matrices[:, :, [1, 2, 0]], matrices[:, :, [2, 0, 1]], axis=1)
    determinants = np.einsum("ni,ni->n", matrices[:, :, 0], rows[:, :, 0])
    # Bounds the least singular value from below, so the floor changes nothing above.
    sound = usual * np.linalg.norm(rows, axis=(1, 2)) * FLOORS[0] < np.abs(determinants)
    offsets = np.empty_like(moves)
    inverse = rows[sound] / determinants[sound, None, None]
    offsets[sound] = np.einsum("nij,ni->nj", inverse, moves[sound])
    if not sound.all():
        offsets[~sound] = _small_undone(matrices[~sound], moves[~sound], allowed, usual[~sound])
    return offsets


def _small_undone(matrices: Floats, moves: Floats, allowed: float, usual: Floats) -> Floats:
    """Find offsets where inverting might make them large.

    A singular value s is inverted as s / max(s, f)² with a floor f relative to the usual: 1 / s
    above it, and below it falling to nothing, so that an offset does not jump where a direction is
    turned over.
    """
    left, sizes, right = np.linalg.svd(matrices)
    along = np.einsum("nji,nj->ni", left, moves)
    whole = np.maximum(usual, NOTHING)[:, None]
    gains = np.zeros_like(sizes)
    open_rows = np.ones(len(sizes), dtype=bool)
    for floor in FLOORS:
        gains[open_rows] = (sizes / np.maximum(sizes, floor * whole) ** 2)[open_rows]
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
