"""Derivative of linear blend skinning with respect to the channels of its joints."""

from __future__ import annotations

import numpy as np

from supple.arrays import Floats, Ints, ShortInts
from supple.compiled.jit import compiled, compiled_fused
from supple.rig.placement.placement import Positions
from supple.rig.skeleton.skin_placement import Skin
from supple.rig.skeleton.skinning_kernels import multiply_all

ROTATION, TRANSLATION, SCALE = range(3)
#: Below this angle, series are used.
SMALL = 1e-4


class SkinJacobian:
    """Jacobian of a linearly skinned surface with respect to channels of its joints.

    Rotating joint j by dω moves the vertices below it by L [J(ω) dω]ₓ L⁻¹ (x − o), with L the
    linear part of its world rotation and o its position. The weight of a vertex is the sum over
    joint j and all joints below it. `entries` (k,) are indices of the parameters in the pose.
    """

    affine, straight = False, True

    def __init__(self, rig: Skin, entries: Ints, vertices: Ints | None = None) -> None:
        rows = slice(None) if vertices is None else vertices
        self._joint_pose, self._inverse_bind = rig.joint_pose, rig.inverse_bind
        self._points = np.ascontiguousarray(rig.vertices[rows])
        self._joints = np.ascontiguousarray(rig.joints[rows])
        self._weights = np.ascontiguousarray(rig.weights[rows])
        skeleton, table = rig.joint_pose.skeleton, rig.joint_pose.entries()
        channels = {int(at): (j, c) for j, row in enumerate(table) for c, at in enumerate(row)}
        self._moved = np.array([channels[int(entry)][0] for entry in entries], np.int64)
        self._channel = np.array([channels[int(entry)][1] for entry in entries], np.int64)
        below = np.eye(skeleton.n_joints, dtype=bool)
        for joint, parent in enumerate(skeleton.parents):
            if parent >= 0:  # parents precede their children
                below[:, joint] |= below[:, parent]
        self._parents = np.asarray(skeleton.parents, np.int64)
        self._starts, self._columns = _moving_parameters(
            self._joints, self._weights, below[self._moved]
        )
        self._below = np.ascontiguousarray(below[self._moved])
        count = len(self._moved)
        self._linear, self._origin = np.empty((count, 3, 3)), np.empty((count, 3))
        self._matrices = np.empty((skeleton.n_joints, 4, 4))
        self._part = np.empty((self._joints.shape[1], 3))

    def evaluate(self, pose: Floats, out: Floats) -> None:
        """Write ∂x/∂p (m, 3, k) at a pose."""
        self.evaluate_points(self._points, pose, out)

    def evaluate_points(self, points: Floats, pose: Floats, out: Floats) -> None:
        """Write ∂x/∂p (m, 3, k) for vertices that are bound at `points` (m, 3)."""
        out[...] = 0.0
        matrices, world, locals_ = self.transforms(pose)
        frames = (self._channel, self._linear, self._origin)
        rest = self._joint_pose.skeleton.rotations
        _generators(world, *locals_, rest, self._parents, self._moved, *frames)
        influences = (points, self._joints, self._weights, matrices, self._below)
        _skin_rows(*influences, *frames, self._starts, self._columns, self._part, out)

    def write_slopes(self, points: Floats, pose: Floats, out: Positions) -> None:
        """Write ∂x/∂X (m, 3, 3), the blend of the joints' linear parts."""
        blend_frames(self._joints, self._weights, self.transforms(pose)[0], out)

    def transforms(self, pose: Floats) -> tuple[Floats, Floats, tuple[Floats, Floats, Floats]]:
        """Return skinning matrices, world matrices (J, 4, 4), and local transforms at a pose."""
        world = self._joint_pose.matrices(pose)
        multiply_all(world, self._inverse_bind, self._matrices)
        return self._matrices, world, self._joint_pose.unpack(pose)


def _moving_parameters(joints: ShortInts, weights: Floats, below: np.ndarray) -> tuple[Ints, Ints]:
    """Return the parameters that move each vertex, as starts (m + 1,) and columns."""
    touched = np.zeros((len(joints), len(below)), bool)
    for slot in range(joints.shape[1]):
        touched |= below[:, joints[:, slot]].T & (weights[:, slot] > 0)[:, None]
    rows, columns = np.nonzero(touched)
    starts = np.searchsorted(rows, np.arange(len(joints) + 1))
    return starts.astype(np.int64), columns.astype(np.int64)


@compiled
def _generators(
    world: Floats,
    translations: Floats,
    rotations: Floats,
    scales: Floats,
    rest: Floats,
    parents: Ints,
    moved: Ints,
    channel: Ints,
    linear: Floats,
    origin: Floats,
) -> None:
    """Write D (k, 3, 3) and o (k, 3): a channel moves vertices below its joint by D (x − o).

    For a translation the first column of D is the movement itself.
    """
    generator = np.empty((3, 3))
    for i in range(len(moved)):
        joint, axis, kind = moved[i], channel[i] % 3, channel[i] // 3
        parent = parents[joint]
        above = np.eye(3) if parent < 0 else world[parent, :3, :3].copy()
        origin[i] = world[joint, :3, 3]
        if kind == TRANSLATION:
            linear[i] = 0.0
            linear[i, :, 0] = above[:, axis]
            continue
        # World rotation without the scale of the joint itself.
        rotation = world[joint, :3, :3] / scales[joint]
        generator[:] = 0.0
        if kind == SCALE:
            generator[axis, axis] = 1.0
        else:
            right_jacobian_column(rotations[joint], rest[joint], axis, generator)
        linear[i] = rotation @ generator @ np.linalg.inv(rotation)


@compiled
def right_jacobian_column(q: Floats, rest: Floats, axis: int, out: Floats) -> None:
    """Write [J(ω) e]ₓ (3, 3), with e the unit vector along `axis` and exp ω = rest⁻¹ q.

    J = 1 − (1 − cos θ)/θ² [ω]ₓ + (θ − sin θ)/θ³ [ω]ₓ², with θ = |ω|.
    """
    x = rest[3] * q[0] - rest[0] * q[3] - (rest[1] * q[2] - rest[2] * q[1])
    y = rest[3] * q[1] - rest[1] * q[3] - (rest[2] * q[0] - rest[0] * q[2])
    z = rest[3] * q[2] - rest[2] * q[3] - (rest[0] * q[1] - rest[1] * q[0])
    w = rest[3] * q[3] + rest[0] * q[0] + rest[1] * q[1] + rest[2] * q[2]
    sine = np.sqrt(x * x + y * y + z * z)
    angle = 2.0 * np.arctan2(sine, w)
    scale = angle / sine if sine > 1e-12 else 2.0
    omega = np.array([x * scale, y * scale, z * scale])
    square = (omega * omega).sum()
    if square < SMALL * SMALL:
        one, two = 0.5 - square / 24.0, 1 / 6.0 - square / 120.0
    else:
        one = (1 - np.cos(angle)) / square
        two = (1 - np.sin(angle) / angle) / square
    e = np.zeros(3)
    e[axis] = 1.0
    once = np.cross(omega, e)
    a = e - one * once + two * np.cross(omega, once)
    out[0, 1], out[0, 2], out[1, 2] = -a[2], a[1], -a[0]
    out[1, 0], out[2, 0], out[2, 1] = a[2], -a[1], a[0]


@compiled_fused
def _skin_rows(
    points: Floats,
    joints: ShortInts,
    weights: Floats,
    matrices: Floats,
    below: np.ndarray,
    channel: Ints,
    linear: Floats,
    origin: Floats,
    starts: Ints,
    columns: Ints,
    part: Floats,
    out: Floats,
) -> None:
    """Write ∂x/∂p (m, 3, k) of vertices that follow a moving joint; `part` is scratch memory."""
    slots = joints.shape[1]
    for v in range(len(points)):
        if starts[v] == starts[v + 1]:
            continue
        for s in range(slots):
            m, w = matrices[joints[v, s]], weights[v, s]
            for i in range(3):
                part[s, i] = w * (
                    m[i, 0] * points[v, 0]
                    + m[i, 1] * points[v, 1]
                    + m[i, 2] * points[v, 2]
                    + m[i, 3]
                )
        for at in range(starts[v], starts[v + 1]):
            k = columns[at]
            x = y = z = weight = 0.0
            for s in range(slots):
                if weights[v, s] > 0 and below[k, joints[v, s]]:
                    x, y, z = x + part[s, 0], y + part[s, 1], z + part[s, 2]
                    weight += weights[v, s]
            x -= weight * origin[k, 0]
            y -= weight * origin[k, 1]
            z -= weight * origin[k, 2]
            if channel[k] // 3 == TRANSLATION:
                x, y, z = weight, 0.0, 0.0
            d = linear[k]
            for i in range(3):
                out[v, i, k] = d[i, 0] * x + d[i, 1] * y + d[i, 2] * z


@compiled
def blend_frames(joints: ShortInts, weights: Floats, matrices: Floats, out: Positions) -> None:
    """Write the blend Σ w M (m, 3, 3) of the joints' linear parts M for each vertex."""
    for v in range(len(out)):
        a = out[v]
        a[:] = 0.0
        for s in range(joints.shape[1]):
            m, w = matrices[joints[v, s]], weights[v, s]
            for i in range(3):
                for j in range(3):
                    a[i, j] += w * m[i, j]
