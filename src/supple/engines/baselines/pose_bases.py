"""Bases as functions of the pose: callables from a pose (s,) to U (3n, r) on the whole mesh."""

from __future__ import annotations

import numpy as np

from supple.arrays import Floats, Ints
from supple.checks import numbers
from supple.compiled.jit import compiled
from supple.engines.pose_space.alignment import Variant
from supple.engines.pose_space.build.reduced_poses import OfPose, ReducedPoses
from supple.reduction.cubature.samples import dense_basis
from supple.reduction.mass_pca import mass_pca
from supple.rig.tets.vertex_frames import blended_rotations, pose_rotations, rotate_basis


def interpolated(poses: ReducedPoses, variant: Variant = "frames") -> OfPose:
    """Return the function of the aligned, blended basis (xu2016 §5.2); see `align` for variants."""
    aligned, count = poses.aligned(variant), len(poses.mesh.vertices)
    # (m, n, 3, r) on the whole mesh, so that evaluations are fast.
    stacked = np.stack([dense_basis(parts, poses.regions, count) for parts in aligned.bases])
    rotations = aligned.rotations

    def basis(pose: Floats) -> Floats:
        weights = poses.weights(pose)
        i, j = np.triu_indices(len(weights))
        mass = np.tensordot(weights[i] * weights[j], aligned.products, 1)
        scales = 1 / np.sqrt(np.maximum(np.diagonal(mass), 1e-300))
        used = np.flatnonzero(weights)
        frames = np.empty((0, 4)) if rotations is None else blended_rotations(rotations, weights)
        out = np.empty(stacked.shape[1:])
        _blend(stacked, used, weights, frames, scales, out)
        return out.reshape(3 * count, -1)

    return basis


@compiled
def _blend(
    bases: Floats, used: Ints, weights: Floats, frames: Floats, scales: Floats, out: Floats
) -> None:
    """Write R(p) Σ wᵢ Ũᵢ ϒ to `out` (n, 3, r); R is the identity if `frames` is empty."""
    for v in range(out.shape[0]):
        x, y, z = out[v, 0], out[v, 1], out[v, 2]
        x[:] = 0.0
        y[:] = 0.0
        z[:] = 0.0
        for i in used:
            w, a, b, c = weights[i], bases[i, v, 0], bases[i, v, 1], bases[i, v, 2]
            for k in range(len(scales)):
                x[k] += w * a[k]
                y[k] += w * b[k]
                z[k] += w * c[k]
        if len(frames) == 0:
            for k in range(len(scales)):
                x[k] *= scales[k]
                y[k] *= scales[k]
                z[k] *= scales[k]
            continue
        p, q, r, s = frames[v, 0], frames[v, 1], frames[v, 2], frames[v, 3]
        xx, xy, xz = 1 - 2 * (q * q + r * r), 2 * (p * q - r * s), 2 * (p * r + q * s)
        yx, yy, yz = 2 * (p * q + r * s), 1 - 2 * (p * p + r * r), 2 * (q * r - p * s)
        zx, zy, zz = 2 * (p * r - q * s), 2 * (q * r + p * s), 1 - 2 * (p * p + q * q)
        for k in range(len(scales)):
            a0, b0, c0 = scales[k] * x[k], scales[k] * y[k], scales[k] * z[k]
            x[k] = xx * a0 + xy * b0 + xz * c0
            y[k] = yx * a0 + yy * b0 + yz * c0
            z[k] = zx * a0 + zy * b0 + zz * c0


def naive(poses: ReducedPoses) -> OfPose:
    """Return the function of a naive blend: unaligned columns by stiffness (xu2016 fig. 6)."""
    sorted_columns = np.stack([_softest_first(poses, at) for at in range(len(poses.models))])
    mass = np.repeat(poses.mass, 3)

    def basis(pose: Floats) -> Floats:
        blend = np.tensordot(poses.weights(pose), sorted_columns, 1)
        lengths = np.sqrt(mass @ blend**2)
        return blend / np.where(lengths > 0, lengths, 1.0)

    return basis


def _softest_first(poses: ReducedPoses, at: int) -> Floats:
    """Return a pose's basis (3n, r); columns are the modes of each region, ascending in λ."""
    model = poses.models[at]
    pairs = zip(model.bases, model.stiffnesses, strict=True)
    parts = [vectors @ np.linalg.eigh(stiffness)[1] for vectors, stiffness in pairs]
    count = len(poses.mesh.vertices)
    basis = dense_basis(parts, poses.regions, count).reshape(3 * count, -1)
    # Signs nearer to the neutral pose's columns favour naive blending.
    if at > 0:
        products = np.repeat(poses.mass, 3) @ (_softest_first(poses, 0) * basis)
        basis *= np.where(products < 0, -1.0, 1.0)
    return basis


def neutral(poses: ReducedPoses) -> OfPose:
    """Return a function that returns the neutral pose's basis at every pose."""
    basis = poses.basis(0)
    return lambda pose: basis


def warped(poses: ReducedPoses) -> OfPose:
    """Return a function that rotates the neutral basis vertex by vertex (xu2016 fig. 4a)."""
    neutral_basis = poses.basis(0).reshape(len(poses.mesh.vertices), 3, -1)
    shape = poses.models[0].rest
    last: dict[bytes, Floats] = {}  # computed once for consecutive equal poses

    def basis(pose: Floats) -> Floats:
        key = numbers("pose", pose).tobytes()
        if key not in last:
            rotations = pose_rotations(poses.mesh, [shape, poses.rest(pose)], [-1, 0])[1]
            last.clear()
            last[key] = rotate_basis(rotations, neutral_basis).reshape(3 * len(shape), -1)
        return last[key]

    return basis


def pose_independent(
    poses: ReducedPoses, count: int, *, frames: bool = True, soft_first: bool = True
) -> OfPose:
    """Return the function of one basis for all poses: mass-PCA of their bases (xu2016 fig. 14).

    The basis has `count` vectors. With `frames`, the bases are combined in the frames of the
    neutral pose and the result is rotated to the pose. With `soft_first`, columns are weighted by
    (λ₁/λ)^½, so that the PCA keeps soft columns.
    """
    aligned = poses.aligned("frames")
    n, rotations = len(poses.mesh.vertices), aligned.rotations
    assert rotations is not None
    parts = []
    for at in range(len(poses.models)):
        columns, softness = _soft_columns(poses, at)
        if frames:
            columns = rotate_basis(rotations[at] * [-1, -1, -1, 1], columns.reshape(n, 3, -1))
        parts.append(columns.reshape(3 * n, -1) * (softness if soft_first else 1.0))
    vectors = mass_pca(np.hstack(parts), poses.mass, count)[0]
    if not frames:
        return lambda pose: vectors
    by_vertex = vectors.reshape(n, 3, count)

    def basis(pose: Floats) -> Floats:
        blend = blended_rotations(rotations, poses.weights(pose))
        return rotate_basis(blend, by_vertex).reshape(3 * n, count)

    return basis


def _soft_columns(poses: ReducedPoses, at: int) -> tuple[Floats, Floats]:
    """Return the modes (3n, r) of a pose within its basis, and (λ₁/λ)^½ (r,) of each."""
    stiffnesses = poses.models[at].stiffnesses
    stiffness = np.concatenate([np.linalg.eigvalsh(matrix) for matrix in stiffnesses])
    return _softest_first(poses, at), np.sqrt(stiffness.min() / stiffness)
