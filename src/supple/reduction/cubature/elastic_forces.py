"""Reduced elastic forces of many samples at one pose, of all tets or a weighted few."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.arrays import Floats, Ints, Singles
from supple.checks import checked_array, checked_indices
from supple.compiled.jit import serialised_loops
from supple.elastic.body import ElasticBody
from supple.errors import MeshError, SuppleError
from supple.progress import Progress, unreported
from supple.reduction.cubature.force_kernels import (
    LINEAR,
    REMAINDER,
    WHOLE,
    element_dots,
    element_forces,
    element_norms,
    gather_at_vertices,
)
from supple.reduction.cubature.samples import checked_basis, dense_basis, displacements, projected
from supple.reduction.regions.region import Region

#: Memory of the element forces of one chunk, in bytes.
_CHUNK_BYTES = 64_000_000


@dataclass(frozen=True, eq=False)
class ForceBatch:
    """Forces of a few samples, columns of q: forces of the tets (e, 9, t) without first corners,
    and their projected sum (r, t).
    """

    samples: slice
    elements: Floats
    total: Floats


@dataclass(frozen=True, eq=False)
class PoseForces:
    """Elastic forces of some tets at one pose, with a rest shape (n, 3) and a localised basis.
    `tets` (e,) are by default all that touch a region, as forces of others project to zero. `part`
    is the part of the elements' forces: WHOLE, LINEAR or REMAINDER.
    """

    body: ElasticBody
    rest: Floats
    basis: tuple[Floats, ...]
    regions: tuple[Region, ...]
    tets: Ints
    part: int = WHOLE

    @classmethod
    def of(
        cls,
        body: ElasticBody,
        rest: ArrayLike,
        basis: Sequence[Floats],
        regions: Sequence[Region],
        *,
        tets: ArrayLike | None = None,
        name: str = "this pose",
    ) -> PoseForces:
        """Return a pose with checked fields; `name` is for error messages."""
        if not isinstance(body, ElasticBody):
            raise SuppleError(f"{name} needs an ElasticBody, not {type(body).__name__}")
        rest = checked_array(f"rest shape of {name}", rest, body.rest.shape)
        checked = checked_basis(f"basis of {name}", basis, regions, body.n_vertices)
        if tets is None:
            inside = np.zeros(body.n_vertices, bool)
            for region in regions:
                inside[region.vertices] = True
            chosen = np.flatnonzero(inside[body.mesh.tets].any(axis=1))
        else:
            chosen = _checked_tets(tets, body.n_tets)
        return cls(body, rest, checked, tuple(regions), chosen)

    @property
    def rank(self) -> int:
        """Number of columns r."""
        return sum(array.shape[2] for array in self.basis)

    @property
    def corners(self) -> Ints:
        """(e, 4) vertices of the tets."""
        return np.ascontiguousarray(self.body.mesh.tets[self.tets], np.int64)

    def only(self, tets: Ints) -> PoseForces:
        """Return the same pose with `tets` instead of its tets."""
        return replace(self, tets=tets)

    def of_part(self, part: int) -> PoseForces:
        """Return the same pose and tets with another part of their forces."""
        return replace(self, part=part)

    def batches(self, q: Floats, weights: Floats | None = None) -> Iterator[ForceBatch]:
        """Yield forces at reduced displacements q (r, t), a few samples at a time."""
        corners = self.corners
        parameters = self.body.material.element_parameters(self.body.n_tets)[self.tets]
        around = _around_vertices(corners, self.body.n_vertices)
        step = max(1, min(32, _CHUNK_BYTES // (72 * max(1, len(corners)))))
        for first in range(0, q.shape[1], step):
            chunk = slice(first, min(first + step, q.shape[1]))
            shifts = displacements(self.basis, self.regions, self.body.n_vertices, q[:, chunk])
            elements = np.empty((len(corners), 9, shifts.shape[2]))
            with serialised_loops():
                volume = element_forces(
                    self.body.material.code,
                    self.rest,
                    shifts,
                    corners,
                    np.ascontiguousarray(parameters),
                    self.part,
                    elements,
                )
            if not volume > 0:
                raise MeshError(f"the rest shape inverts or flattens a tet (volume {volume:.3g})")
            if weights is not None:
                elements *= weights[:, None, None]
            at_vertices = np.empty_like(shifts)
            with serialised_loops():
                gather_at_vertices(elements, *around, at_vertices)
            yield ForceBatch(chunk, elements, projected(self.basis, self.regions, at_vertices))

    def reduced(self, q: Floats, weights: Floats | None = None) -> Floats:
        """Return the weighted force f̃ (r, t) of the tets (xu2016 eq. 21)."""
        return np.concatenate([batch.total for batch in self.batches(q, weights)], axis=1)

    def stiffness(self, weights: Floats | None = None) -> Floats:
        """Return the weighted stiffness K̃ (r, r) of the tets at rest (xu2016 eq. 22)."""
        reduced = self.of_part(LINEAR).reduced(np.eye(self.rank), weights)
        return (reduced + reduced.T) / 2


def force_norms(total: Floats, first: int = 0, where: str = "") -> Floats:
    """Return ‖f̃‖ (t,) of samples' forces (r, t), by which rows are divided (xu2016 eq. 18).
    `first` is the number of the first sample, and `where` precedes it in error messages.
    """
    norms = np.linalg.norm(total, axis=0)
    wrong = ~(np.isfinite(norms) & (norms > 0))
    if wrong.any():
        bad = int(np.argmax(wrong))
        what = "has no elastic force" if norms[bad] == 0 else "has a force that is not finite"
        advice = "larger" if norms[bad] == 0 else "smaller"
        raise SuppleError(f"{where}sample {first + bad} {what}; use {advice} samples")
    return norms


def _checked_tets(tets: ArrayLike, n_tets: int) -> Ints:
    listed = checked_indices("cubature tet", tets, n_tets)
    if len(listed) == 0:
        raise SuppleError("there are no cubature tets")
    return listed


def _around_vertices(corners: Ints, n_vertices: int) -> tuple[Ints, Ints]:
    """Return starts (n + 1,) and a list of the tets around each vertex, as 4e + corner."""
    flat = corners.ravel()
    order = np.argsort(flat, kind="stable")
    return np.searchsorted(flat[order], np.arange(n_vertices + 1)), order


# Elastic forces as columns for cubature, which are not all formed at once.


#: Largest memory of the mixed forces of all poses, in bytes; large meshes have fewer mixtures.
_MOST_BYTES = 700_000_000


def reduced_columns(
    basis: Sequence[Floats],
    regions: Sequence[Region],
    corners: Ints,
    forces: NDArray,
) -> Floats:
    """Return U_eᵀ f_e of tets with these corners (c, 4), as (c, r·t): columns of xu2016 eq. 17.

    `forces` (c, 9, t) are without forces of first corners.
    """
    n_vertices = int(max(corners.max(), *(region.vertices[-1] for region in regions))) + 1
    parts = []
    row = np.full(n_vertices, -1)
    for array, region in zip(basis, regions, strict=True):
        row[:] = -1
        row[region.vertices] = np.arange(len(region.vertices))
        padded = np.concatenate(
            [array, np.zeros_like(array[:1])]
        )  # row −1 is outside of the region
        at = padded[row[corners]]
        edges = (at[:, 1:] - at[:, :1]).reshape(len(corners), 9, -1)
        parts.append(np.matmul(edges.transpose(0, 2, 1), forces))
    return np.concatenate(parts, axis=1).reshape(len(corners), -1)


class ElasticProblem:
    """Mixtures of normalised element forces at all poses (eq. 18), as a `CubatureProblem`.

    A mixture is the sum of all samples with random signs. It is linear in the forces, so it
    preserves every sum of columns, and a few dozen mixtures preserve their lengths to a few
    percent; so tets are chosen on all samples at the cost of a few. Forces are in single precision:
    1e-7 is far below the errors of cubature, about a percent.

    There are `mixtures` per pose; fewer if they need more than 0.7 GB. `samples` are reduced
    displacements (r, t), and `seed` is for the signs. With `stiffnesses` (r, r) at rest, columns
    are forces without their linear part. `totals` (r, t) are target forces, if they are not the
    sums of the tets' forces at the samples.
    """

    def __init__(
        self,
        poses: Sequence[PoseForces],
        samples: Sequence[Floats],
        mixtures: int,
        seed: int,
        stiffnesses: Sequence[Floats] | None = None,
        totals: Sequence[Floats] | None = None,
        progress: Progress = unreported,
    ) -> None:
        self.poses = poses
        self.places = poses[0].corners
        fitting = _MOST_BYTES // (36 * len(self.places) * len(poses))
        self._mixtures = max(2, min(mixtures, fitting))
        self.targets: list[Floats] = []
        self.forces: list[Singles] = []
        #: Forces of all samples (r, t), including the linear part.
        self.totals: list[Floats] = []
        self.norms = np.empty((len(poses), len(self.places)))
        for i, (pose, q) in enumerate(zip(poses, samples, strict=True)):
            progress(0.5 * i / len(poses), f"elastic forces of pose {i}")
            linear = None if stiffnesses is None else stiffnesses[i] @ q
            random = np.random.default_rng([seed, i, 2])
            sums = None if totals is None else totals[i]
            forces, target, total = self._mixed(pose, q, linear, sums, random, i)
            with serialised_loops():
                element_norms(forces, self._basis(i), self.places, self.norms[i])
            self.forces.append(forces)
            self.targets.append(target)
            self.totals.append(total)

    def _basis(self, pose: int) -> Singles:
        """Return the basis (n, 3, r) of one pose; all would need more memory than the forces."""
        at = self.poses[pose]
        return dense_basis(at.basis, at.regions, at.body.n_vertices, np.float32)

    def _mixed(
        self,
        pose: PoseForces,
        q: Floats,
        linear: Floats | None,
        sums: Floats | None,
        random: np.random.Generator,
        i: int,
    ) -> tuple[Singles, Floats, Floats]:
        """Return forces (e, 9, t′) and sums (r, t′) of mixtures, and sums (r, t) of all samples."""
        signs = random.choice([-1.0, 1.0], (q.shape[1], self._mixtures))
        signs /= np.sqrt(self._mixtures)
        forces = np.zeros((9 * len(pose.tets), self._mixtures), np.float32)
        target = np.zeros((pose.rank, self._mixtures))
        full_forces = np.empty(q.shape)
        for batch in pose.of_part(WHOLE if linear is None else REMAINDER).batches(q):
            remainder = batch.total
            if sums is not None:
                remainder = sums[:, batch.samples]
                remainder = remainder if linear is None else remainder - linear[:, batch.samples]
            total = remainder if linear is None else remainder + linear[:, batch.samples]
            full_forces[:, batch.samples] = total
            norms = force_norms(total, batch.samples.start, f"pose {i}: ")
            mixing = signs[batch.samples] / norms[:, None]
            target += remainder @ mixing
            forces += batch.elements.reshape(len(forces), -1) @ mixing
        return forces.reshape(len(pose.tets), 9, -1), target, full_forces

    def correlations(self, pose: int, residual: Floats) -> Floats:
        """Return inner products (e,) of every tet's column with `residual` (r, t′) at a pose."""
        basis = self._basis(pose)
        n, _, r = basis.shape
        field = basis.reshape(3 * n, r) @ residual.astype(np.float32)
        dots = np.empty(len(self.places))
        with serialised_loops():
            element_dots(self.forces[pose], field.reshape(n, 3, -1), self.places, dots)
        return dots

    def columns(self, pose: int, chosen: Ints) -> Floats:
        """Return the columns U_eᵀ f_e (c, r·t′) of the chosen tets, with mixed forces f_e."""
        at = self.poses[pose]
        return reduced_columns(at.basis, at.regions, self.places[chosen], self.forces[pose][chosen])
