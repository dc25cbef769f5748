"""Skinned rigs: linear blend and dual quaternion skinning over a skeleton.

`skinned_core` and `skinned_rigs` return the skinned rigs below other rigs, such as blend shapes,
corrections and chains.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from supple.arrays import Floats, Ints, ShortInts
from supple.checks import checked_array, owned_array
from supple.errors import SuppleError
from supple.rig.inverse_skinning import differenced_matrices
from supple.rig.jacobian import Jacobian
from supple.rig.placement.placement import Placement
from supple.rig.placement.pose_corrections import PoseCorrections, combined_corrections
from supple.rig.protocol import (
    Parameter,
    Rig,
    TetTransfer,
    checked_cloud,
    checked_points,
    checked_pose,
    checked_subset,
    rest_values,
)
from supple.rig.skeleton.joint_pose import JointPose
from supple.rig.skeleton.joints import Skeleton
from supple.rig.skeleton.skin_jacobian import SkinJacobian
from supple.rig.skeleton.skin_placement import skinned_placement
from supple.rig.skeleton.skinning_kernels import (
    dual_quaternions,
    multiply_all,
    skin_dual,
    skin_linear,
    turn_over,
)
from supple.rig.stored.field_reader import DOUBLE, SINGLE, Field
from supple.rig.stored.schema import Array, PartOf, Value, Weights

METHODS = ("linear", "dual-quaternion")
NO_SUBSET = np.empty(0, dtype=np.int64)


class LinearBlend(NamedTuple):
    """Joints and weights of vertices, and transforms of joints at a pose, for linear skinning."""

    joints: ShortInts
    """(n, k) joints of each vertex."""
    weights: Floats
    """(n, k) skinning weights, in the order of `joints`."""
    matrices: Floats
    """(J, 4, 4) transforms from bound to posed positions."""


class SkinnedRig:
    """A surface that follows the joints of a skeleton.

    Parameters
    ----------
    joint_pose : JointPose
        Meaning of the pose vector.
    vertices : (n, 3) array
        Positions in the bind pose, in metres.
    joints : (n, k) int array
        Joints of each vertex.
    weights : (n, k) array
        Their weights, not negative; normalised to sum 1.
    inverse_bind : (J, 4, 4) array
        Transforms from the space of `vertices` to the space of each joint.
    method : {"linear", "dual-quaternion"}
        Dual quaternions keep the volume of twisted joints. Joint scale and shear are blended
        linearly first and the rigid parts after, as UsdSkel does, so that a scaled joint scales.
    unweighted_joint : str or int, optional
        Joint of vertices without any weight; by default they are an error.

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
        self.n_vertices = len(self.vertices)
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
        """Skeleton of the joints."""
        return self.joint_pose.skeleton

    @property
    def rest_points(self) -> Floats:
        """Bound positions, which `deform` replaces."""
        return self.vertices

    def __call__(
        self, pose: ArrayLike, vertices: ArrayLike | None = None, *, out: Floats | None = None
    ) -> Floats:
        """Return positions of all vertices, or of the listed vertices; in `out` if given."""
        subset = checked_subset(vertices, self.n_vertices)
        points = self.vertices if subset is None else self.vertices[subset]
        return self._run(points, subset, pose, out)

    def deform(
        self,
        points: ArrayLike,
        pose: ArrayLike,
        vertices: ArrayLike | None = None,
        *,
        out: Floats | None = None,
    ) -> Floats:
        """Return positions of the vertices if they are bound at `points`."""
        subset = checked_subset(vertices, self.n_vertices)
        return self._run(checked_points(points, subset, self.n_vertices), subset, pose, out)

    def with_influences(
        self, points: ArrayLike, joints: ArrayLike, weights: ArrayLike
    ) -> SkinnedRig:
        """Return a rig of the same skeleton on other points (m, 3) with influences (m, k)."""
        return SkinnedRig(self.joint_pose, points, joints, weights, self.inverse_bind, self.method)

    def bound_at_rest(self, points: ArrayLike, joints: ArrayLike, weights: ArrayLike) -> SkinnedRig:
        """Return a rig of the same skeleton whose vertices are at `points` in the rest pose.

        Files often bind a skeleton in another pose than its rest pose.
        """
        guess = self.with_influences(points, joints, weights)
        return self.with_influences(_bound_positions(guess), joints, weights)

    def placement(self, vertices: Ints | None = None, *, single: bool = False) -> Placement:
        """Return a placement of the listed vertices, or of all; see `Placement`."""
        return skinned_placement(self, vertices, single=single)

    def corrected_placement(
        self, vertices: Ints | None, sets: Sequence[PoseCorrections], *, single: bool = False
    ) -> Placement:
        """Return a placement that adds corrections of the listed vertices, or of all."""
        count = self.n_vertices if vertices is None else len(vertices)
        sums = combined_corrections(count, sets)
        return skinned_placement(self, vertices, sums, single=single)

    def jacobian(self, entries: Ints, vertices: Ints | None = None) -> Jacobian | None:
        """Return the analytic Jacobian of linear skinning; None for dual quaternions."""
        return SkinJacobian(self, entries, vertices) if self.method == "linear" else None

    def on_tets(self, transfer: TetTransfer) -> SkinnedRig:
        """Return the skinned rig of the tet vertices, with weights extended from the surface."""
        return self.bound_at_rest(transfer.vertices, *transfer.influences(self))

    def linear_blend(self, pose: ArrayLike) -> LinearBlend | None:
        """Return joints, weights and matrices at a pose; None for dual quaternions."""
        if self.method != "linear":
            return None
        return LinearBlend(self.joints, self.weights, self.skin_matrices(pose))

    def offset_matrices(self, points: Floats, pose: Floats) -> Floats:
        """Return derivatives ∂x/∂X (n, 3, 3) of the positions by the bound positions `points`."""
        blend = self.linear_blend(pose)
        if blend is None:
            return differenced_matrices(self, points, pose, 1.0)
        linear = blend.matrices[:, :3, :3].reshape(-1, 9)
        total = self.weights[:, :1] * linear[self.joints[:, 0]]
        for slot in range(1, self.joints.shape[1]):
            total += self.weights[:, slot : slot + 1] * linear[self.joints[:, slot]]
        return total.reshape(-1, 3, 3)

    stored_fields: ClassVar[tuple[Field, ...]] = (
        PartOf("joint_pose", JointPose, lambda pose: {"joints": pose.skeleton.n_joints}),
        Array("vertices", SINGLE, ("n", 3)),
        Weights("influence", "n", "joints", lambda rig: rig.weight_matrix()),
        Array("inverse_bind", DOUBLE, ("joints", 4, 4)),
        Value("method", "text"),
    )

    @classmethod
    def restored(cls, influence: csr_array, **fields: Any) -> SkinnedRig:
        """Make the rig from its stored fields."""
        counts = np.diff(influence.indptr)
        used = np.arange(counts.max()) < counts[:, None]
        joints, weights = np.zeros(used.shape, np.int32), np.zeros(used.shape)
        joints[used], weights[used] = influence.indices, influence.data
        return cls(joints=joints, weights=weights, **fields)

    def skin_matrices(self, pose: ArrayLike) -> Floats:
        """Return each joint's transform (J, 4, 4) from bound to posed positions."""
        world = self.joint_pose.matrices(checked_pose(self.parameters, pose))
        matrices = np.empty_like(world)
        multiply_all(world, self.inverse_bind, matrices)
        return matrices

    def weight_matrix(self) -> csr_array:
        """Return the weights as a CSR array (n, J); entries of a joint listed twice are summed."""
        n, k = self.joints.shape
        ends = np.arange(0, n * k + 1, k)
        entries = (self.weights.reshape(-1).copy(), self.joints.reshape(-1).copy(), ends)
        matrix = csr_array(entries, shape=(n, self.skeleton.n_joints))
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        return matrix

    def _run(
        self, points: Floats, subset: Ints | None, pose: ArrayLike, out: Floats | None
    ) -> Floats:
        matrices = self.skin_matrices(pose)
        result = _checked_out(out, len(points))
        if len(points) == 0:
            return result
        influences = (points, self.joints, self.weights, NO_SUBSET if subset is None else subset)
        if self.method == "linear":
            # The kernel reads columns of the transforms as contiguous rows of four.
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
    """Return joints (n, k) and weights (n, k), checked; weights are normalised to sum 1.

    Rows are sorted, the heaviest joint first. Vertices without weight follow `unweighted_joint`;
    if it is None they are an error.
    """
    follow = np.asarray(joints)
    if follow.ndim != 2 or follow.shape[0] != count or follow.shape[1] == 0:
        raise SuppleError(f"influences of shape {follow.shape}; expected ({count}, k)")
    if follow.dtype.kind not in "iu":
        raise SuppleError("joints of skinned vertices must be indices")
    given = checked_array("skinning weights", weights, follow.shape)
    if (given < 0).any():
        negative = int(np.argmin(given.min(axis=1)))
        raise SuppleError(f"vertex {negative} has a negative weight; clamp it")
    used = given > 0
    outside = used & ((follow < 0) | (follow >= skeleton.n_joints))
    if outside.any():
        vertex, slot = np.argwhere(outside)[0]
        which = f"vertex {vertex} follows joint {follow[vertex, slot]}"
        raise SuppleError(f"{which}; the skeleton has {skeleton.n_joints}")
    # Entries without weight may hold any index, which must not be looked up.
    follow = np.where(used, follow, 0)
    idle = ~used.any(axis=1)
    if idle.any():
        if unweighted_joint is None:
            what = f"{idle.sum():,} vertices follow no joint (first {int(np.argmax(idle))})"
            raise SuppleError(f"{what}; give them weights or an unweighted_joint")
        follow[idle, 0] = unweighted_joint
        given = given.copy()
        given[idle, 0] = 1
    # Divided by the largest first, so that sums neither overflow nor vanish.
    # Normalised rows keep their bits.
    sums_to_1 = given / given.max(axis=1, keepdims=True)
    sums_to_1 = sums_to_1 / sums_to_1.sum(axis=1, keepdims=True)
    close = np.isclose(sums_to_1, given, rtol=1e-15 * given.shape[1], atol=0)
    normalised = np.where(close.all(axis=1, keepdims=True), given, sums_to_1)
    order = np.argsort(-normalised, axis=1, kind="stable")
    follow, normalised = (np.take_along_axis(a, order, axis=1) for a in (follow, normalised))
    # Columns of zeros are removed: they cost as much as others.
    most = int(np.count_nonzero(normalised, axis=1).max())
    follow = np.ascontiguousarray(follow[:, :most], dtype=np.int32)
    return follow, np.ascontiguousarray(normalised[:, :most])


def _bound_positions(rig: SkinnedRig) -> Floats:
    """Return bound positions (n, 3) that the rest pose moves to the rig's vertices."""
    goal, bound = rig.vertices, rig.vertices
    matrices = np.einsum(
        "vk,vkij->vij", rig.weights, rig.skin_matrices(rig.rest_pose)[rig.joints, :3, :3]
    )
    sound = np.abs(np.linalg.det(matrices)) > 1e-6 * np.abs(matrices).max(axis=(1, 2)) ** 3
    matrices[~sound] = np.eye(3)
    for _ in range(4):  # one iteration is enough where skinning is linear
        missing = goal - rig.deform(bound, rig.rest_pose)
        if np.abs(missing).max(initial=0.0) <= 1e-12 * np.abs(goal).max(initial=1.0):
            break
        bound = bound + np.linalg.solve(matrices, missing[:, :, None])[:, :, 0]
    return bound


class SkinnedCore(NamedTuple):
    """The only skinned rig below another rig."""

    rig: SkinnedRig
    entries: slice
    """Range of its parameters in the pose of the other rig."""


def skinned_core(rig: Rig) -> SkinnedCore | None:
    """Return the skinned rig below a rig if there is exactly one, else None.

    Blend shapes and pose-space corrections begin with the parameters of their `base`; the pose of
    a chain is that of its `rigs`, one after another. Rigs with other parameters, such as handles,
    have no core.
    """
    if isinstance(rig, SkinnedRig):
        return SkinnedCore(rig, slice(0, len(rig.parameters)))
    base = getattr(rig, "base", None)
    if isinstance(base, Rig):
        first = tuple(rig.parameters[: len(base.parameters)])
        return skinned_core(base) if first == tuple(base.parameters) else None
    cores, start = [], 0
    for link in getattr(rig, "rigs", ()):
        inner = skinned_core(link)
        if inner is not None:
            entries = slice(start + inner.entries.start, start + inner.entries.stop)
            cores.append(SkinnedCore(inner.rig, entries))
        start += len(link.parameters)
    return cores[0] if len(cores) == 1 else None


def skinned_rigs(rig: Rig) -> list[SkinnedRig]:
    """Return all skinned rigs below a rig, in their order, whatever their parameters."""
    if isinstance(rig, SkinnedRig):
        return [rig]
    base = getattr(rig, "base", None)
    links = [base] if isinstance(base, Rig) else getattr(rig, "rigs", ())
    return [skinned for link in links for skinned in skinned_rigs(link)]
