"""Skinned rigs: linear blend and dual quaternion skinning over a skeleton.

Other rigs (blend shapes, corrections, chains) are often built on one: `skinned_core` and
`skinned_rigs` find it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from supple.arrays import Floats, Ints, ShortInts
from supple.checks import checked_array, owned_array
from supple.errors import SuppleError
from supple.rig.placement.placement import Placement
from supple.rig.protocol import (
    Parameter,
    Rig,
    checked_cloud,
    checked_points,
    checked_pose,
    checked_subset,
    rest_values,
)
from supple.rig.skeleton.joint_pose import JointPose
from supple.rig.skeleton.joints import Skeleton
from supple.rig.skeleton.skin_placement import skinned_placement
from supple.rig.skeleton.skinning_kernels import (
    dual_quaternions,
    multiply_all,
    skin_dual,
    skin_linear,
    turn_over,
)

METHODS = ("linear", "dual-quaternion")
NO_SUBSET = np.empty(0, dtype=np.int64)


class SkinnedRig:
    """A surface that follows the joints of a skeleton.

    Parameters
    ----------
    joint_pose : JointPose
        What the pose vector means.
    vertices : (n, 3) array
        Positions when the skeleton was bound, in metres.
    joints : (n, k) int array
        Joints each vertex follows.
    weights : (n, k) array
        How much, not negative; normalised to sum 1.
    inverse_bind : (J, 4, 4) array
        From the bound surface's space to each joint's.
    method : {"linear", "dual-quaternion"}
        Dual quaternions keep the volume of twisted joints. Joint scale and shear are blended
        linearly first and the rigid parts after, as UsdSkel does, so that a scaled joint scales.
    unweighted_joint : str or int, optional
        The joint that vertices without any weight follow; without it they are an error.

    Notes
    -----
    A vertex gets the same bits whether it is evaluated alone or with all others, and whether its
    position comes from `vertices` or through `deform`.
    """

    def __init__(
        self,
        joint_pose: JointPose,
        vertices: ArrayLike,
        joints: ArrayLike,
        weights: ArrayLike,
        inverse_bind: ArrayLike,
        method: str = "linear",
        *,
        unweighted_joint: str | int | None = None,
    ) -> None:
        if method not in METHODS:
            raise SuppleError(f'skinning method "{method}"; use one of {", ".join(METHODS)}')
        self.joint_pose = joint_pose
        self.method = method
        self.vertices = checked_cloud("skinned vertices", vertices)
        spare = None if unweighted_joint is None else self.skeleton.joint(unweighted_joint)
        self.joints, self.weights = checked_influences(
            joints, weights, self.n_vertices, self.skeleton, unweighted_joint=spare
        )
        shape = (self.skeleton.n_joints, 4, 4)
        self.inverse_bind = owned_array("inverse bind matrices", inverse_bind, shape)
        self.parameters: tuple[Parameter, ...] = joint_pose.parameters
        self.rest_pose = rest_values(self.parameters)

    def __repr__(self) -> str:
        size = f"{self.n_vertices:,} vertices, {self.skeleton.n_joints} joints"
        return f"SkinnedRig({size}, {self.method})"

    @property
    def skeleton(self) -> Skeleton:
        """The joints."""
        return self.joint_pose.skeleton

    @property
    def n_vertices(self) -> int:
        """Number of vertices."""
        return len(self.vertices)

    @property
    def rest_points(self) -> Floats:
        """The bound positions, which `deform` replaces."""
        return self.vertices

    def __call__(
        self, pose: ArrayLike, vertices: ArrayLike | None = None, *, out: Floats | None = None
    ) -> Floats:
        """Return positions of all vertices or of the listed ones, written to `out` where given."""
        subset = checked_subset(vertices, self.n_vertices)
        rows = NO_SUBSET if subset is None else subset
        count = self.n_vertices if subset is None else len(subset)
        return self._run(self.vertices, rows, rows, pose, count, out)

    def deform(
        self,
        points: ArrayLike,
        pose: ArrayLike,
        vertices: ArrayLike | None = None,
        *,
        out: Floats | None = None,
    ) -> Floats:
        """Return positions of the vertices had they been bound at `points`."""
        subset = checked_subset(vertices, self.n_vertices)
        given = checked_points(points, subset, self.n_vertices)
        rows = NO_SUBSET if subset is None else subset
        return self._run(given, NO_SUBSET, rows, pose, len(given), out)

    def with_influences(
        self, points: ArrayLike, joints: ArrayLike, weights: ArrayLike
    ) -> SkinnedRig:
        """Return a rig of the same skeleton on other points (m, 3) with influences (m, k)."""
        return SkinnedRig(self.joint_pose, points, joints, weights, self.inverse_bind, self.method)

    def placement(self, vertices: Ints | None = None, *, single: bool = False) -> Placement:
        """Return a placement of the listed vertices, or of all; see `Placement`."""
        return skinned_placement(self, vertices, single=single)

    def skin_matrices(self, pose: ArrayLike) -> Floats:
        """Return transforms (J, 4, 4) from bound to posed, of vertices that follow one joint."""
        world = self.joint_pose.matrices(checked_pose(self.parameters, pose))
        matrices = np.empty_like(world)
        multiply_all(world, self.inverse_bind, matrices)
        return matrices

    def weight_matrix(self) -> csr_array:
        """Return the weights as a sparse (n, J) CSR array; those of a joint listed twice add up."""
        n, k = self.joints.shape
        ends = np.arange(0, n * k + 1, k)
        entries = (self.weights.reshape(-1).copy(), self.joints.reshape(-1).copy(), ends)
        matrix = csr_array(entries, shape=(n, self.skeleton.n_joints))
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        return matrix

    def _run(
        self,
        points: Floats,
        point_rows: Ints,
        rows: Ints,
        pose: ArrayLike,
        count: int,
        out: Floats | None,
    ) -> Floats:
        matrices = self.skin_matrices(pose)
        result = _checked_out(out, count)
        if count == 0:
            return result
        influences = (points, point_rows, self.joints, self.weights, rows)
        if self.method == "linear":
            # Columns of the transforms as rows of four: one vector instruction each.
            turn_over(matrices)
            skin_linear(*influences, matrices, result)
        else:
            skin_dual(*influences, *dual_quaternions(matrices), result)
        return result


def _checked_out(out: Floats | None, count: int) -> Floats:
    if out is None:
        return np.empty((count, 3))
    fits = isinstance(out, np.ndarray) and out.shape == (count, 3) and out.dtype == np.float64
    if not (fits and out.flags.c_contiguous and out.flags.writeable):
        raise SuppleError(f"out must be a contiguous, writable float64 array, {(count, 3)}")
    return out


def checked_influences(
    joints: ArrayLike,
    weights: ArrayLike,
    count: int,
    skeleton: Skeleton,
    *,
    unweighted_joint: int | None = None,
) -> tuple[ShortInts, Floats]:
    """Check influences: joints in range, weights that sum to 1, the heaviest first in every row."""
    follow = np.asarray(joints)
    if follow.ndim != 2 or follow.shape[0] != count or follow.shape[1] == 0:
        raise SuppleError(f"influences of shape {follow.shape}; expected ({count}, k)")
    if follow.dtype.kind not in "iu":
        raise SuppleError("the joints that vertices follow must be indices")
    much = checked_array("skinning weights", weights, follow.shape)
    if (much < 0).any():
        raise SuppleError(
            f"vertex {int(np.argmin(much.min(axis=1)))} has a negative weight; clamp it"
        )
    used = much > 0
    outside = used & ((follow < 0) | (follow >= skeleton.n_joints))
    if outside.any():
        vertex, slot = np.argwhere(outside)[0]
        which = f"vertex {vertex} follows joint {follow[vertex, slot]}"
        raise SuppleError(f"{which}; the skeleton has {skeleton.n_joints}")
    # What has no weight may name any joint; it must not be looked up.
    follow = np.where(used, follow, 0)
    idle = ~used.any(axis=1)
    if idle.any():
        if unweighted_joint is None:
            what = f"{idle.sum():,} vertices follow no joint (first {int(np.argmax(idle))})"
            raise SuppleError(f"{what}; give them weights or an unweighted_joint")
        follow[idle, 0] = unweighted_joint
        much = much.copy()
        much[idle, 0] = 1
    # Divided by the largest first: sums of huge or tiny weights must not overflow or vanish.
    # Rows that are normalised already keep their bits.
    even = much / much.max(axis=1, keepdims=True)
    even = even / even.sum(axis=1, keepdims=True)
    done = np.isclose(even, much, rtol=1e-15 * much.shape[1], atol=0).all(axis=1, keepdims=True)
    much = np.where(done, much, even)
    order = np.argsort(-much, axis=1, kind="stable")
    follow, much = (np.take_along_axis(table, order, axis=1) for table in (follow, much))
    # Columns that hold only zeros cost as much as others.
    most = int(np.count_nonzero(much, axis=1).max())
    return (
        np.ascontiguousarray(follow[:, :most], dtype=np.int32),
        np.ascontiguousarray(much[:, :most]),
    )


class SkinnedCore(NamedTuple):
    """The skinned rig inside of a chain of rigs."""

    rig: SkinnedRig
    entries: slice
    """Place of its parameters in the chain's pose."""


def skinned_core(rig: Rig) -> SkinnedCore | None:
    """Return the skinned rig that a chain of rigs is built on, if there is one and only one.

    Blend shapes and pose-space corrections list the parameters of their `base` first; the
    `rigs` of a chain have theirs one after another. A rig that poses its base otherwise, as a
    handle does, has none: its pose is not the skeleton's.
    """
    if isinstance(rig, SkinnedRig):
        return SkinnedCore(rig, slice(0, len(rig.parameters)))
    base = getattr(rig, "base", None)
    if isinstance(base, Rig):
        first = tuple(rig.parameters[: len(base.parameters)])
        return skinned_core(base) if first == tuple(base.parameters) else None
    found, at = [], 0
    for link in getattr(rig, "rigs", ()):
        inner = skinned_core(link)
        if inner is not None:
            where = slice(at + inner.entries.start, at + inner.entries.stop)
            found.append(SkinnedCore(inner.rig, where))
        at += len(link.parameters)
    return found[0] if len(found) == 1 else None


def skinned_rigs(rig: Rig) -> list[SkinnedRig]:
    """List the skinned rigs that a rig is built on, however it poses them."""
    if isinstance(rig, SkinnedRig):
        return [rig]
    base = getattr(rig, "base", None)
    links = [base] if isinstance(base, Rig) else getattr(rig, "rigs", ())
    return [skinned for link in links for skinned in skinned_rigs(link)]
