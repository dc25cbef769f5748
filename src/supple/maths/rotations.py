"""Arrays of rotations as unit quaternions (x, y, z, w), curves through them, affine transforms.

`supple.maths.quaternions` has kernels for single rotations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.transform import Rotation, RotationSpline

from supple.arrays import Floats, Ints
from supple.errors import SuppleError
from supple.maths.curves import graded_times

#: Largest angle in radians between keys of a spline, whose fixed-point iteration then converges;
#: keys on the shortest arc are inserted between keys that are farther apart.
LARGEST_STEP = 2.0


def multiply(a: ArrayLike, b: ArrayLike) -> Floats:
    """Return the products a b of quaternions, which rotate by b first; leading axes broadcast."""
    ax, ay, az, aw = np.moveaxis(np.asarray(a, dtype=np.float64), -1, 0)
    bx, by, bz, bw = np.moveaxis(np.asarray(b, dtype=np.float64), -1, 0)
    return np.stack(
        [
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
            aw * bw - ax * bx - ay * by - az * bz,
        ],
        axis=-1,
    )


def inverse(quaternions: ArrayLike) -> Floats:
    """Invert unit quaternions."""
    return np.asarray(quaternions, dtype=np.float64) * np.array([-1.0, -1, -1, 1])


def rotate(quaternions: ArrayLike, vectors: ArrayLike) -> Floats:
    """Rotate vectors (…, 3) by unit quaternions (…, 4)."""
    q = np.asarray(quaternions, dtype=np.float64)
    v = np.asarray(vectors, dtype=np.float64)
    twice = 2 * np.cross(q[..., :3], v)
    return v + q[..., 3:] * twice + np.cross(q[..., :3], twice)


def exponential(vectors: ArrayLike) -> Floats:
    """Return unit quaternions (…, 4) of rotation vectors (…, 3)."""
    v = np.asarray(vectors, dtype=np.float64)
    half = 0.5 * np.linalg.norm(v, axis=-1, keepdims=True)
    # NumPy's sinc(x) is sin(πx)/(πx): sin(a/2)/a without a quotient of zeros.
    return np.concatenate([0.5 * np.sinc(half / np.pi) * v, np.cos(half)], axis=-1)


def logarithm(quaternions: ArrayLike) -> Floats:
    """Return the shortest rotation vectors (…, 3) of unit quaternions (…, 4).

    >>> logarithm(exponential([0.0, 0.5, 0.0]))
    array([0. , 0.5, 0. ])
    """
    q = np.asarray(quaternions, dtype=np.float64)
    q = np.where(q[..., 3:] < 0, -q, q)
    sine = np.linalg.norm(q[..., :3], axis=-1, keepdims=True)
    angle = 2 * np.arctan2(sine, q[..., 3:])
    return q[..., :3] * np.divide(angle, sine, out=np.full_like(sine, 2.0), where=sine > 1e-12)


def nearest_vectors(vectors: ArrayLike, near: ArrayLike) -> Floats:
    """Return rotation vectors (…, 3) of the same rotations that are nearest to `near`, (…, 3).

    >>> nearest_vectors([-3.0, 0.0, 0.0], [3.0, 0.0, 0.0])[0].round(4)
    np.float64(3.2832)
    """
    v, other = np.asarray(vectors, dtype=np.float64), np.asarray(near, dtype=np.float64)
    angle = np.linalg.norm(v, axis=-1, keepdims=True)
    length = np.linalg.norm(other, axis=-1, keepdims=True)
    none = angle < 1e-9
    # The identity is any number of full turns about any axis: use the axis of `near`.
    axis = np.where(none, other / np.maximum(length, 1e-300), v / np.maximum(angle, 1e-300))
    along = np.sum(axis * other, axis=-1, keepdims=True)
    full_turns = 2 * np.pi * np.round((along - angle) / (2 * np.pi))
    return np.where(full_turns == 0, v, axis * (np.where(none, 0.0, angle) + full_turns))


def slerp(a: ArrayLike, b: ArrayLike, fraction: ArrayLike) -> Floats:
    """Interpolate unit quaternions (…, 4) along the shorter arc, at constant speed: from `a` at a
    `fraction` (…) of 0 to `b` at 1.
    """
    start, end = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    u = np.asarray(fraction, dtype=np.float64)[..., None]
    cosine = np.sum(start * end, axis=-1, keepdims=True)
    end = np.where(cosine < 0, -end, end)
    # Half the angle from the chord: exact for small angles, where the cosine is not.
    angle = 2 * np.arcsin(np.clip(np.linalg.norm(end - start, axis=-1, keepdims=True) / 2, 0, 1))
    sine = np.sin(angle)
    straight = sine < 1e-9
    sine = np.where(straight, 1, sine)
    left = np.where(straight, 1 - u, np.sin((1 - u) * angle) / sine)
    right = np.where(straight, u, np.sin(u * angle) / sine)
    between = left * start + right * end
    return between / np.linalg.norm(between, axis=-1, keepdims=True)


def between(a: ArrayLike, b: ArrayLike) -> Floats:
    """Return quaternions of the smallest rotations from directions `a` to `b`, (…, 3)."""
    u = np.asarray(a, dtype=np.float64)
    v = np.asarray(b, dtype=np.float64)
    cross, dot = np.cross(u, v), np.sum(u * v, axis=-1, keepdims=True)
    lengths = np.linalg.norm(u, axis=-1, keepdims=True) * np.linalg.norm(v, axis=-1, keepdims=True)
    q = np.concatenate([cross, lengths + dot], axis=-1)
    # Opposite directions: half a turn about any perpendicular axis.
    across = np.cross(u, np.eye(3)[np.argmin(np.abs(u), axis=-1)])
    opposite = np.linalg.norm(q, axis=-1, keepdims=True) <= 1e-12 * lengths
    q = np.where(opposite, np.concatenate([across, np.zeros_like(dot)], axis=-1), q)
    size = np.linalg.norm(q, axis=-1, keepdims=True)
    return np.where(size > 0, q / np.where(size > 0, size, 1), [0.0, 0, 0, 1])


def to_matrix(quaternions: ArrayLike) -> Floats:
    """Return rotation matrices (…, 3, 3) of unit quaternions."""
    q = np.asarray(quaternions, dtype=np.float64)
    return Rotation.from_quat(q.reshape(-1, 4)).as_matrix().reshape(*q.shape[:-1], 3, 3)


def from_matrix(matrices: ArrayLike) -> Floats:
    """Return unit quaternions of rotation matrices (…, 3, 3)."""
    m = np.asarray(matrices, dtype=np.float64)
    return Rotation.from_matrix(m.reshape(-1, 3, 3)).as_quat().reshape(*m.shape[:-2], 4)


def continuous(quaternions: ArrayLike) -> Floats:
    """Choose signs of quaternions (t, …, 4) such that each is near its predecessor."""
    q = np.array(quaternions, dtype=np.float64)
    flips = np.sum(q[1:] * q[:-1], axis=-1) < 0
    # A sign is reversed after an odd number of flips.
    q[1:][np.cumsum(flips, axis=0) % 2 == 1] *= -1
    return q


class RotationCurve:
    """C² curve of rotations through unit quaternions (t, 4) at strictly increasing times (t,); it
    takes the shorter arc between two.

    SciPy's `RotationSpline` has continuous angular velocity and acceleration, but its end
    velocities are the means of the first and last step, as if the acceleration were zero there. Two
    extrapolated keys beyond each end move that error out of the range. Keys are inserted on the
    shortest arc where keys are more than 2 rad apart or next to a gap more than four times longer.
    """

    def __init__(self, times: ArrayLike, quaternions: ArrayLike) -> None:
        self.times = np.asarray(times, dtype=np.float64)
        keys = np.asarray(quaternions, dtype=np.float64)
        if keys.shape != (len(self.times), 4) or not np.linalg.norm(keys, axis=1).all():
            raise SuppleError(f"keys {keys.shape}; give {len(self.times)} non-zero quaternions")
        keys = keys / np.linalg.norm(keys, axis=1, keepdims=True)
        self._only = keys[0]
        self._spline = None
        if len(keys) > 1:
            dense = _in_small_steps(graded_times(self.times), self.times, keys)
            filled = _on_arc(self.times, keys, dense)
            self._spline = RotationSpline(*_extrapolated(dense, filled))

    def __call__(self, times: ArrayLike) -> Floats:
        """Return unit quaternions (…, 4) at these times."""
        where = np.asarray(times, dtype=np.float64)
        if self._spline is None:
            return np.broadcast_to(self._only, (*where.shape, 4)).copy()
        return self._spline(where.ravel()).as_quat().reshape(*where.shape, 4)

    def velocity(self, times: ArrayLike) -> Floats:
        """Return angular velocities (…, 3) in the rotating frame, rad/s."""
        return self._derivative(times, 1)

    def acceleration(self, times: ArrayLike) -> Floats:
        """Return angular accelerations (…, 3) in the rotating frame, rad/s²."""
        return self._derivative(times, 2)

    def _derivative(self, times: ArrayLike, order: int) -> Floats:
        where = np.asarray(times, dtype=np.float64)
        if self._spline is None:
            return np.zeros((*where.shape, 3))
        return self._spline(where.ravel(), order).reshape(*where.shape, 3)


def _on_arc(times: Floats, keys: Floats, at: Floats) -> Floats:
    """Return rotations at the times `at`, on the shortest arc between two keys."""
    before = np.clip(np.searchsorted(times, at, side="right") - 1, 0, len(times) - 2)
    part = ((at - times[before]) / np.diff(times)[before])[:, None]
    # Not by `slerp`, whose rounding would change keys at their own times.
    step = logarithm(multiply(inverse(keys[before]), keys[before + 1]))
    return multiply(keys[before], exponential(part * step))


def _in_small_steps(dense: Floats, times: Floats, keys: Floats) -> Floats:
    filled = _on_arc(times, keys, dense)
    angles = np.linalg.norm(logarithm(multiply(inverse(filled[:-1]), filled[1:])), axis=1)
    pieces = np.maximum(1, np.ceil(angles / LARGEST_STEP)).astype(int)
    starts = np.repeat(dense[:-1], pieces)
    within = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    part = within / np.repeat(pieces, pieces)
    return np.append(starts + part * np.repeat(np.diff(dense), pieces), dense[-1])


def _extrapolated(times: Floats, keys: Floats) -> tuple[Floats, Rotation]:
    """Return times and rotations with two more keys before the first and after the last."""
    for _ in range(2):
        first, last = _next_key(times[::-1], keys[::-1]), _next_key(times, keys)
        times = np.concatenate([[first[0]], times, [last[0]]])
        keys = np.concatenate([[first[1]], keys, [last[1]]])
    return times, Rotation.from_quat(keys)


def _next_key(times: Floats, keys: Floats) -> tuple[float, Floats]:
    """Return the key after the last one at constant angular acceleration."""
    ends, near = keys[-3:], times[-3:]
    gaps = np.diff(near)
    rates = logarithm(multiply(inverse(ends[:-1]), ends[1:])) / gaps[:, None]
    rate = rates[-1]
    if len(rates) > 1:
        rate = rate + (rates[1] - rates[0]) * gaps[1] / (0.5 * (gaps[0] + gaps[1]))
    step = rate * gaps[-1]
    step = step * min(1.0, LARGEST_STEP / max(float(np.linalg.norm(step)), 1e-300))
    return float(times[-1] + gaps[-1]), multiply(keys[-1], exponential(step))


#: Deviation from orthogonality of a similarity's columns: float32 rounding.
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
    """Return the factor of a similarity (4, 4) without reflection; None for other transforms."""
    linear = matrix[:3, :3]
    determinant = np.linalg.det(linear)
    if not (np.isfinite(determinant) and determinant > 0):
        return None
    factor = float(np.cbrt(determinant))
    square = linear.T @ linear / factor**2
    return factor if np.abs(square - np.eye(3)).max() < ORTHOGONAL else None


def decompose(matrices: Floats) -> tuple[LocalTransforms, Floats]:
    """Decompose transforms (…, 4, 4), M ≈ T R S; return them and the shear (…) of each.
    A reflection becomes a negative x scale. A sheared transform gets the nearest rotation. The
    shear is max |QᵀQ - I| with Q the normalised columns; columns of length zero do not count.
    """
    linear = matrices[..., :3, :3]
    scales = np.linalg.norm(linear, axis=-2)
    scales[..., 0] *= np.where(np.linalg.det(linear) < 0, -1, 1)
    flat = np.abs(scales) < FLAT
    columns = np.where(flat[..., None, :], 0.0, linear / np.where(flat, 1, scales)[..., None, :])
    square = np.swapaxes(columns, -1, -2) @ columns
    shear = np.abs(square - np.eye(3) * ~flat[..., None]).max(axis=(-1, -2))
    left, _, right = np.linalg.svd(columns)
    left[..., :, 2] *= np.linalg.det(left @ right)[..., None]
    translations = matrices[..., :3, 3].copy()
    return LocalTransforms(translations, from_matrix(left @ right), scales), shear


def relative_to_parents(world: Floats, parents: Ints) -> Floats:
    """Return local transforms (…, J, 4, 4) of world transforms; parents (J,) are -1 for roots."""
    local = world.copy()
    child = parents >= 0
    local[..., child, :, :] = np.linalg.solve(
        world[..., parents[child], :, :], world[..., child, :, :]
    )
    return local
