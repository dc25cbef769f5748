"""Weights of example poses at a pose (METHOD: xu2016 §3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.checks import checked_array, numbers, owned_array
from supple.compiled.jit import compiled
from supple.errors import SuppleError
from supple.rig.protocol import LARGEST_VALUE, Rig, checked_pose
from supple.rig.stored.field_reader import DOUBLE, Field
from supple.rig.stored.schema import Array, Cost, Value

KINDS = ("normalised", "affine")
#: Angle, in radians, above which a rotation vector counts as large.
FAR = 2.5
#: Poses nearer than this fraction of the largest distance count as equal.
SAME = 1e-8
#: Least scale of a parameter, relative to the largest.
SCALE_FLOOR = 1e-3
DIFFERENCE_STEP = 1e-4
#: Largest scaled value, so that sums of squares are finite.
LARGEST_SCALED = 1e100


class PoseWeights:
    """Weights of m example poses: weight i is 1 at pose i and 0 at the others; the sum is 1.

    They are sums of biharmonic kernels φ(r) = r of the distance in a scaled parameter space.

    Parameters
    ----------
    poses : (m, s) array
        Example poses, all different.
    scales : (s,) array, optional
        Weight of a unit of each parameter in the metric; see `parameter_scales`. 1 by default.
        Negative for the three entries of a large rotation vector: their distance is the shorter of
        both directions of rotation, and continuous where the vector jumps; see `turning_scales`.
    kind : {"normalised", "affine"}
        "normalised" divides Φ⁻¹ [‖p − p_j‖] by its sum, as xu2016 do. "affine" adds a constant
        to the kernel's span so that the sum is 1 by itself. They agree at and, on a line,
        between the poses. Far from all poses, normalised weights tend to one constant; affine
        weights tend to a constant for each direction, and on a line they keep their values at
        the last pose.
    names : sequence of str, optional
        Names of the poses, for messages.

    Attributes
    ----------
    scaled_poses, scales, matrix, constant, normalise
        Arguments of `evaluate_weights`; `tables` has them in its order.

    Notes
    -----
    The sum cannot vanish: Φ has one positive eigenvalue, and the smallest sum that optimisation
    over poses found is that at the middle of a regular simplex, √(m / 2(m − 1)) > 0.7 for m > 1.
    Weights are continuous and have a kink at each pose, as r has.

    Examples
    --------
    >>> weights = PoseWeights([[0.0], [1.0]])
    >>> weights([0.25])
    array([0.75, 0.25])
    """

    def __init__(
        self,
        poses: ArrayLike,
        scales: ArrayLike | None = None,
        *,
        kind: str = "normalised",
        names: Sequence[str] | None = None,
    ) -> None:
        if kind not in KINDS:
            raise SuppleError(f'pose weights of kind "{kind}"; use one of {", ".join(KINDS)}')
        shape = numbers("example poses", poses).shape
        if len(shape) != 2 or 0 in shape:
            raise SuppleError(f"example poses of shape {shape}; expected (poses, parameters)")
        self.poses = owned_array("example poses", poses, shape)
        units = np.ones(shape[1]) if scales is None else scales
        self.scales = owned_array("pose scales", units, (shape[1],))
        bad = _wrong_scale(self.scales)
        if bad >= 0:
            raise SuppleError(f"pose scale {bad} must be positive, or in a negative triple")
        self.names = tuple(names) if names is not None else tuple(map(str, range(shape[0])))
        if len(self.names) != shape[0]:
            raise SuppleError(f"{len(self.names)} names for {shape[0]} poses; give one per pose")
        self.kind = kind
        self.normalise = kind == "normalised"
        for pose, example in zip(self.poses, self.names, strict=True):
            self._refuse_huge(f'example pose "{example}"', pose)
        self.scaled_poses = self.poses * self.scales
        self.matrix, self.constant = self._solve()
        self.tables = (self.scales, self.scaled_poses, self.matrix, self.constant, self.normalise)

    def __repr__(self) -> str:
        return f"PoseWeights({self.n_poses} poses, {len(self.scales)} parameters, {self.kind})"

    @property
    def n_poses(self) -> int:
        """Number of example poses."""
        return len(self.poses)

    def _refuse_huge(self, what: str, pose: Floats) -> None:
        # Otherwise distances overflow, and weights are not numbers.
        most = LARGEST_SCALED / np.abs(self.scales)
        usable = (np.abs(pose) <= LARGEST_VALUE) & (np.abs(pose) <= most)
        if not usable.all():
            entry = int(np.argmin(usable))
            value = f"{pose[entry]:.3g}, scaled by {self.scales[entry]:.3g}"
            raise SuppleError(f"{what}: entry {entry} is {value}, which is too large")

    def distances(self) -> Floats:
        """Return the distances between the example poses in the scaled space, (m, m)."""
        if (self.scales > 0).all():
            return np.linalg.norm(self.scaled_poses[:, None] - self.scaled_poses[None], axis=2)
        distances = np.empty((self.n_poses, self.n_poses))
        for pose, row in zip(self.poses, distances, strict=True):
            pose_distances(pose, self.scales, self.scaled_poses, row)
        return 0.5 * (distances + distances.T)  # equal up to rounding

    def _solve(self) -> tuple[np.ndarray, np.ndarray]:
        count = self.n_poses
        if count == 1:
            return np.zeros((1, 1)), np.ones(1)
        distances = self.distances()
        size = distances.max()
        apart = np.where(np.eye(count, dtype=bool), np.inf, distances)
        i, j = np.unravel_index(int(np.argmin(apart)), apart.shape)
        if not apart[i, j] > SAME * size:
            pair = f'"{self.names[i]}" and "{self.names[j]}"'
            raise SuppleError(f"example poses {pair} are the same; drop one of them")
        # Scaled by the size, so that the border of ones is as large as the rest.
        if self.normalise:
            return np.linalg.inv(distances / size) / size, np.zeros(count)
        bordered = np.ones((count + 1, count + 1))
        bordered[:count, :count] = distances / size
        bordered[count, count] = 0
        inverse = np.linalg.inv(bordered)[:count]
        return np.ascontiguousarray(inverse[:, :count] / size), inverse[:, count].copy()

    def weights(self, pose: ArrayLike) -> Floats:
        """Return the weights of the example poses at `pose`, (m,)."""
        values = checked_array("pose", pose, self.scales.shape)
        self._refuse_huge("pose", values)
        out = np.empty(self.n_poses)
        evaluate_weights(values, *self.tables, np.empty(self.n_poses), out)
        return out

    __call__ = weights

    def slopes(self, pose: Floats, entries: Ints) -> Floats:
        """Return ∂w/∂p (m, k) with respect to the parameters `entries` (k,).

        w is C d + c, normalised by its sum if `normalise`, with C `matrix`, c `constant` and d_j =
        ‖p − p_j‖ in the pose metric. The slope of d_j at p_j, where it has a kink, counts as zero.
        """
        if (self.scales < 0).any():
            return self._differences(pose, entries)
        differences = pose * self.scales - self.scaled_poses
        distances = np.sqrt((differences**2).sum(axis=1))
        safe = np.where(distances > 0, distances, 1.0)
        slopes = differences[:, entries] * self.scales[entries] / safe[:, None]
        slopes[distances == 0] = 0.0
        raw, change = self.matrix @ distances + self.constant, self.matrix @ slopes
        if not self.normalise:
            return np.asarray(change)
        total = raw.sum()
        return np.asarray((change - np.outer(raw / total, change.sum(axis=0))) / total)

    def _differences(self, pose: Floats, entries: Ints) -> Floats:
        """Return ∂w/∂p (m, k) by central differences, for metrics with large rotations."""
        slopes, step = np.empty((self.n_poses, len(entries))), 1e-6
        for column, entry in enumerate(entries):
            ahead, behind = pose.copy(), pose.copy()
            ahead[entry] += step
            behind[entry] -= step
            slopes[:, column] = (self(ahead) - self(behind)) / (2 * step)
        return slopes

    stored_fields: ClassVar[tuple[Field, ...]] = (
        Array("poses", DOUBLE, ("poses", "parameters")),
        Cost(
            "distances between example poses",
            lambda sizes: sizes["poses"] ** 2 * sizes["parameters"],
        ),
        Array("scales", DOUBLE, ("parameters",)),
        Value("kind", "text"),
        Value("names", "texts", lambda weights: [str(name) for name in weights.names]),
    )


def _wrong_scale(scales: Floats) -> int:
    """Return the index of the first zero scale, or negative scale outside a triple; -1 for none."""
    at = 0
    while at < len(scales):
        three = scales[at : at + 3]
        if scales[at] > 0:
            at += 1
        elif len(three) == 3 and (three < 0).all():
            at += 3
        else:
            return at
    return -1


@compiled
def pose_distances(pose: Floats, scales: Floats, scaled_poses: Floats, out: Floats) -> None:
    """Write distances (m,) of a pose from example poses; see `PoseWeights` for the scales."""
    count = len(pose)
    for j in range(len(scaled_poses)):
        squared = 0.0
        for k in range(count):
            squared += (pose[k] * scales[k] - scaled_poses[j, k]) ** 2
        k = 0
        while k < count:
            if scales[k] < 0:
                example = scaled_poses[j, k : k + 3]
                squared -= _saved(pose[k : k + 3], scales[k : k + 3], example)
                k += 3
            else:
                k += 1
        out[j] = math.sqrt(max(squared, 0.0))


@compiled
def _saved(vector: Floats, scales: Floats, example: Floats) -> float:
    """Return by how much equivalent rotation vectors reduce the squared distance of two rotations.

    Vectors that differ by full turns about their axis are the same rotation. The shortest vectors
    are compared, and one of the two may be replaced by its opposite equivalent.
    """
    one, two = 0.0, 0.0
    for i in range(3):
        one += vector[i] ** 2
        two += (example[i] / scales[i]) ** 2
    one, two = math.sqrt(one), math.sqrt(two)
    if not one + two > math.pi:
        return 0.0
    first, first_other = _shortest(one)
    second, second_other = _shortest(two)
    given, near, other, another = 0.0, 0.0, 0.0, 0.0
    for i in range(3):
        scaled = vector[i] * scales[i]
        given += (scaled - example[i]) ** 2
        near += (first * scaled - second * example[i]) ** 2
        other += (first_other * scaled - second * example[i]) ** 2
        another += (first * scaled - second_other * example[i]) ** 2
    return given - min(near, min(other, another))


@compiled
def _shortest(angle: float) -> tuple[float, float]:
    """Return factors from a rotation vector to the shortest, and to the one of opposite sign."""
    if not angle > 0:
        return 1.0, 1.0
    short = angle - 2 * math.pi * round(angle / (2 * math.pi))
    other = short - 2 * math.pi if short > 0 else short + 2 * math.pi
    return short / angle, other / angle


@compiled
def evaluate_weights(
    pose: Floats,
    scales: Floats,
    scaled_poses: Floats,
    matrix: Floats,
    constant: Floats,
    normalise: bool,
    distances: Floats,
    out: Floats,
) -> None:
    """Write weights (m,) at a pose into `out`; `distances` (m,) is scratch."""
    count = len(scaled_poses)
    pose_distances(pose, scales, scaled_poses, distances)
    total = 0.0
    for i in range(count):
        out[i] = constant[i]
        for j in range(count):
            out[i] += matrix[i, j] * distances[j]
        total += out[i]
    if normalise:
        for i in range(count):
            out[i] /= total


def parameter_scales(
    rig: Rig, pose: ArrayLike | None = None, *, masses: ArrayLike | None = None
) -> Floats:
    """Return the motion of the surface (s,) per unit of each parameter, root mean square in metres.

    Parameters
    ----------
    rig : Rig
        Evaluated twice for each parameter.
    pose : (s,) array, optional
        Pose at which differences are taken; the rest pose by default.
    masses : (n,) array, optional
        Weight of each vertex, not negative; equal by default.

    Returns
    -------
    (s,) array
        Scales by central differences, at least a thousandth of the largest, so that poses which
        differ only in weak parameters have a distance; all are 1 if nothing moves.
    """
    centre = checked_pose(rig.parameters, rig.rest_pose if pose is None else pose)
    share = np.ones(rig.n_vertices) if masses is None else masses
    share = checked_array("vertex masses", share, (rig.n_vertices,))
    if not (share.min() >= 0 and share.sum() > 0):
        raise SuppleError("vertex masses must not be negative, and not all zero")
    share = share / share.sum()
    scales = np.empty(len(centre))
    for k in range(len(centre)):
        step = np.zeros_like(centre)
        step[k] = DIFFERENCE_STEP
        derivative = (rig(centre + step) - rig(centre - step)) / (2 * DIFFERENCE_STEP)
        scales[k] = math.sqrt(share @ (derivative**2).sum(axis=1))
    largest = scales.max(initial=0.0)
    return np.maximum(scales, SCALE_FLOOR * largest) if largest > 0 else np.ones_like(scales)


def turning_scales(rig: Rig, scales: Floats, poses: Floats) -> Floats:
    """Return `scales` (s,), negative for rotation vectors longer than `FAR` at any pose (m, s).

    Rotation vectors are three parameters in a row that a `JointPose` names ".rx", ".ry", ".rz".
    """
    names, signed = [parameter.name for parameter in rig.parameters], np.abs(scales)
    for k in range(len(names) - 2):
        joint = names[k].removesuffix(".rx")
        if names[k : k + 3] == [f"{joint}.r{axis}" for axis in "xyz"]:
            far = np.linalg.norm(poses[:, k : k + 3], axis=1).max(initial=0) > FAR
            signed[k : k + 3] *= -1 if far else 1
    return signed
