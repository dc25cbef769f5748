"""Inertial forces of vertices: training accelerations, columns for cubature, fits.

Accelerations are of the rig, and of the body as a whole (xu2016 §5.4).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.linalg

from supple.arrays import Floats, Ints
from supple.errors import SuppleError
from supple.reduction.cubature.samples import projected
from supple.reduction.regions.region import Region
from supple.rig.protocol import Rig

#: Largest change of a rotation and, for a human of this height, of a translation (xu2016 §5.4).
ANGLE = np.deg2rad(1.0)
SHIFT = 1e-3
HUMAN = 1.7
# Step of a dimensionless parameter with which its displacement is measured.
_PROBE = 1e-3
#: Ridge of the fit of corrections, relative to the trace of the samples' Gram matrix.
_RIDGE = 1e-7


def perturbation_sizes(rig: Rig, pose: Floats) -> Floats:
    """Return the largest change of each parameter, (s,), in training accelerations: 1° for
    rotations, 1 mm for translations of a character of human size, scaled with the body;
    dimensionless parameters change such that the largest displacement is the same.
    """
    start = rig(pose)
    shift = SHIFT * float(np.linalg.norm(np.ptp(start, axis=0))) / HUMAN
    sizes = np.empty(len(rig.parameters))
    for k, parameter in enumerate(rig.parameters):
        if parameter.unit == "rad":
            sizes[k] = ANGLE
        elif parameter.unit == "m":
            sizes[k] = shift
        else:
            probed_pose = pose.copy()
            probed_pose[k] += _PROBE
            distance = float(np.linalg.norm(rig(probed_pose) - start, axis=1).max())
            sizes[k] = min(1.0, shift * _PROBE / distance) if distance > 0 else 0.0
    return sizes


def pose_accelerations(
    rig: Rig, pose: Floats, count: int, random: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return second and first differences (n, 3, count) of consecutive random poses (eq. 24).
    Frames are a unit of time apart, as samples are normalised later.
    """
    sizes = perturbation_sizes(rig, pose)
    changes = random.uniform(-1.0, 1.0, (count + 2, len(sizes))) * sizes
    frames = np.stack([rig(pose + change) for change in changes], axis=2)
    if not np.isfinite(frames).all():
        raise SuppleError("the rig is not finite near a pose; check its parameters")
    accelerations = frames[:, :, 2:] - 2 * frames[:, :, 1:-1] + frames[:, :, :-2]
    return accelerations, (frames[:, :, 2:] - frames[:, :, :-2]) / 2


def root_accelerations(rest: Floats, velocities: Floats, random: np.random.Generator) -> Floats:
    """Draw accelerations (n, 3, t) in the frame of a moving root: b + α×x + ω×(ω×x) + 2ω×v.
    One for each of the rig's velocities (n, 3, t). Uniform, angular and centrifugal parts have
    equal sizes on average; the Coriolis part is an eighth of them, as v of a whole body is small.
    """
    middle = (rest.min(axis=0) + rest.max(axis=0)) / 2
    arm = (rest - middle) / max(float(np.linalg.norm(np.ptp(rest, axis=0))) / 2, 1e-300)
    speed = np.linalg.norm(velocities, axis=1).max(axis=0)
    out = np.empty_like(velocities)
    for t in range(velocities.shape[2]):
        linear, angular, spin = random.standard_normal((3, 3))
        v = velocities[:, :, t] / (16 * speed[t]) if speed[t] > 0 else velocities[:, :, t]
        out[:, :, t] = linear + np.cross(angular, arm)
        out[:, :, t] += np.cross(spin, np.cross(spin, arm)) + 2 * np.cross(spin, v)
    return out


def normalised(
    basis: tuple[Floats, ...], regions: Sequence[Region], forces: Floats
) -> tuple[Floats, Floats]:
    """Divide forces (n, 3, t) and their sum (r, t) by its norm, sample by sample (eq. 25).
    A sample without force (of a rig without parameters) becomes zero.
    """
    total = projected(basis, regions, forces)
    norms = np.linalg.norm(total, axis=0)
    scale = np.where(norms > 0, 1 / np.where(norms > 0, norms, 1.0), 0.0)
    return forces * scale, total * scale


def candidates(regions: Sequence[Region]) -> Ints:
    """Return the vertices (k,) in any region, ascending; forces of others project to zero."""
    return np.unique(np.concatenate([region.vertices for region in regions]))


class InertialProblem:
    """`CubatureProblem` of normalised forces (k, 3, t) with their sums (r, t) at each pose.
    The forces act on `vertices`, all vertices in a region.
    """

    def __init__(
        self,
        bases: Sequence[tuple[Floats, ...]],
        regions: Sequence[Region],
        forces: Sequence[Floats],
        targets: Sequence[Floats],
    ) -> None:
        self.vertices = candidates(regions)
        self.places = np.arange(len(self.vertices))[:, None]
        self.bases, self.forces, self.targets = [], [], []
        self.norms = np.empty((len(bases), len(self.vertices)))
        for i, basis in enumerate(bases):
            self.bases.append(rows_of(basis, regions, self.vertices))
            self.forces.append(forces[i])
            self.targets.append(targets[i])
            squares = np.matmul(self.forces[i], self.forces[i].transpose(0, 2, 1))
            mixed = np.matmul(self.bases[i], self.bases[i].transpose(0, 2, 1))
            self.norms[i] = (squares * mixed).sum(axis=(1, 2))

    def correlations(self, pose: int, residual: Floats) -> Floats:
        """Return inner products (k,) of every vertex's column with `residual` (r, t) at a pose."""
        basis = self.bases[pose]
        field = basis.reshape(-1, basis.shape[2]) @ residual
        return (self.forces[pose] * field.reshape(self.forces[pose].shape)).sum(axis=(1, 2))

    def columns(self, pose: int, chosen: Ints) -> Floats:
        """Return U_sᵀ f_s of the chosen vertices, (c, r·t)."""
        basis = self.bases[pose][chosen].transpose(0, 2, 1)
        return np.matmul(basis, self.forces[pose][chosen]).reshape(len(chosen), -1)


def rows_of(basis: tuple[Floats, ...], regions: Sequence[Region], vertices: Ints) -> Floats:
    """Return the rows (k, 3, r) of a localised basis at ascending vertices."""
    rows = np.zeros((len(vertices), 3, sum(array.shape[2] for array in basis)))
    column = 0
    for array, region in zip(basis, regions, strict=True):
        _, rows_at, basis_at = np.intersect1d(
            vertices, region.vertices, assume_unique=True, return_indices=True
        )
        rows[rows_at, :, column : column + array.shape[2]] = array[basis_at]
        column += array.shape[2]
    return rows


def summed(blocks: Floats, forces: Floats) -> Floats:
    """Return Σ_s B_sᵀ f_s of blocks (c, 3, r) and forces (c, 3, t), as (r, t)."""
    return blocks.reshape(-1, blocks.shape[2]).T @ forces.reshape(-1, forces.shape[2])


def vertex_equations(rows: Floats, forces: Floats, target: Floats) -> tuple[Floats, Floats]:
    """Return normal equations (c, c) and (c,) of weights of vertices with basis rows (c, 3, r).

    Samples are summed in chunks.
    """
    c = len(rows)
    gram, right = np.zeros((c, c)), np.zeros(c)
    for first in range(0, target.shape[1], 32):
        chunk = slice(first, first + 32)
        columns = np.matmul(rows.transpose(0, 2, 1), forces[:, :, chunk]).reshape(c, -1)
        gram += columns @ columns.T
        right += columns @ target[:, chunk].ravel()
    return gram, right


def correction(rows: Floats, widths: Sequence[int], forces: Floats, residual: Floats) -> Floats:
    """Fit blocks (c, 3, r) to the residual of weights, region by region: ridge regression from the
    forces of the chosen vertices in a region to the residual of its columns; zero outside of a
    column's region.
    """
    blocks = np.zeros_like(rows)
    column = 0
    for width in widths:
        part = slice(column, column + width)
        inside = np.flatnonzero((rows[:, :, part] != 0).any(axis=(1, 2)))
        column += width
        if len(inside) == 0:
            continue
        X = forces[inside].reshape(3 * len(inside), -1)
        gram = X @ X.T
        gram[np.diag_indices_from(gram)] += max(_RIDGE * np.trace(gram), 1e-300)
        fitted = scipy.linalg.solve(gram, X @ residual[part].T, assume_a="pos")
        blocks[inside, :, part] = fitted.reshape(len(inside), 3, width)
    return blocks
