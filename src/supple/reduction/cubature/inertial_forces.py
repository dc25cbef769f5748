"""Inertial forces of vertices as columns for cubature to choose from, and their fits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.linalg

from supple.arrays import Floats, Ints
from supple.linalg.nnls import nonnegative_fit
from supple.reduction.cubature.samples import projected
from supple.reduction.regions.region import Region

__all__ = [
    "InertialProblem",
    "candidates",
    "correction",
    "fit_vertices",
    "normalised",
    "rows_of",
    "summed",
]


#: What keeps corrections small, relative to the trace of the samples' Gram matrix: the sum of
#: their squared singular values.
_RIDGE = 1e-7


def normalised(
    basis: tuple[Floats, ...], regions: Sequence[Region], forces: Floats
) -> tuple[Floats, Floats]:
    """Forces (n, 3, t) and their sum (r, t), both divided by its norm sample by sample (eq. 25).

    A sample without force (a rig without parameters) becomes zero and asks nothing.
    """
    total = projected(basis, regions, forces)
    norms = np.linalg.norm(total, axis=0)
    scale = np.where(norms > 0, 1 / np.where(norms > 0, norms, 1.0), 0.0)
    return forces * scale, total * scale


def candidates(regions: Sequence[Region]) -> Ints:
    """(k,) vertices in a region, ascending: the others' forces project to zero."""
    return np.unique(np.concatenate([region.vertices for region in regions]))


class InertialProblem:
    """A `CubatureProblem` of normalised forces (k, 3, t) with their sums (r, t) at each pose.

    The forces are those of `vertices`, the candidates: all that are in a region, `candidates`.
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
        """A_iᵀ ρ, (k,)."""
        basis = self.bases[pose]
        field = basis.reshape(-1, basis.shape[2]) @ residual
        return (self.forces[pose] * field.reshape(self.forces[pose].shape)).sum(axis=(1, 2))

    def columns(self, pose: int, chosen: Ints) -> Floats:
        """U_sᵀ f_s of the chosen vertices, (c, r·t)."""
        basis = self.bases[pose][chosen].transpose(0, 2, 1)
        return np.matmul(basis, self.forces[pose][chosen]).reshape(len(chosen), -1)


def rows_of(basis: tuple[Floats, ...], regions: Sequence[Region], vertices: Ints) -> Floats:
    """(k, 3, r) rows of a localised basis at ascending vertices."""
    rows = np.zeros((len(vertices), 3, sum(array.shape[2] for array in basis)))
    column = 0
    for array, region in zip(basis, regions, strict=True):
        _, here, there = np.intersect1d(
            vertices, region.vertices, assume_unique=True, return_indices=True
        )
        rows[here, :, column : column + array.shape[2]] = array[there]
        column += array.shape[2]
    return rows


def summed(blocks: Floats, forces: Floats) -> Floats:
    """Σ_s B_sᵀ f_s of blocks (c, 3, r) and forces (c, 3, t), as (r, t)."""
    return blocks.reshape(-1, blocks.shape[2]).T @ forces.reshape(-1, forces.shape[2])


def fit_vertices(rows: Floats, forces: Floats, target: Floats) -> Floats:
    """Non-negative weights (c,) of vertices with basis rows (c, 3, r), by chunks of samples."""
    c = len(rows)
    gram, right = np.zeros((c, c)), np.zeros(c)
    for first in range(0, target.shape[1], 32):
        chunk = slice(first, first + 32)
        columns = np.matmul(rows.transpose(0, 2, 1), forces[:, :, chunk]).reshape(c, -1)
        gram += columns @ columns.T
        right += columns @ target[:, chunk].ravel()
    return nonnegative_fit(gram, right)


def correction(rows: Floats, widths: Sequence[int], forces: Floats, residual: Floats) -> Floats:
    """Blocks (c, 3, r) that take up what weights leave of the samples, region by region.

    Ridge regression from the forces of the chosen vertices in a region to the residual of its
    columns; zero where a column's region does not reach.
    """
    blocks = np.zeros_like(rows)
    column = 0
    for width in widths:
        mine = slice(column, column + width)
        inside = np.flatnonzero((rows[:, :, mine] != 0).any(axis=(1, 2)))
        column += width
        if len(inside) == 0:
            continue
        X = forces[inside].reshape(3 * len(inside), -1)
        gram = X @ X.T
        gram[np.diag_indices_from(gram)] += max(_RIDGE * np.trace(gram), 1e-300)
        fitted = scipy.linalg.solve(gram, X @ residual[mine].T, assume_a="pos")
        blocks[inside, :, mine] = fitted.reshape(len(inside), 3, width)
    return blocks
