"""Inertial cubature at one pose: its samples, their mixtures, and the fit (xu2016 §5.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from supple.reduction.cubature_accelerations import pose_accelerations, root_accelerations
from supple.reduction.cubature_inertia import (
    candidates,
    correction,
    fit_vertices,
    normalised,
    rows_of,
    summed,
)
from supple.reduction.region import Region
from supple.rig.protocol import Rig

__all__ = ["Draw", "Mixed", "fit_pose", "mixed_forces", "relative_error"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
#: Normalised forces (n, 3, t) and their projected sums (r, t).
Forces = tuple[NDArray[np.float32], Floats]


@dataclass(frozen=True)
class Draw:
    """Where samples of one pose come from."""

    rig: Rig
    pose: Floats
    mass: Floats
    basis: tuple[Floats, ...]
    regions: Sequence[Region]
    seed: int
    index: int

    def forces(self, count: int, *fresh: int) -> tuple[Forces, Forces]:
        """Normalised forces m_s a_s and their sums: of the rig's motion, and of the root's."""
        random = np.random.default_rng([self.seed, self.index, *fresh])
        own, velocities = pose_accelerations(self.rig, self.pose, count, random)
        whole = root_accelerations(self.rig(self.pose), velocities, random)
        return self._normalised(own), self._normalised(whole)

    def _normalised(self, accelerations: Floats) -> Forces:
        accelerations *= self.mass[:, None, None]
        forces, sums = normalised(self.basis, self.regions, accelerations)
        return forces.astype(np.float32), sums


class Mixed(NamedTuple):
    """Both kinds of forces of one pose, mixed: candidates' (k, 3, t′) and their sum (r, t′)."""

    forces: Floats
    target: Floats
    #: The forces themselves, where there is room for those of all poses.
    drawn: tuple[Forces, Forces] | None


def mixed_forces(draw: Draw, samples: int, mixtures: int, keep: bool) -> Mixed:
    kinds = draw.forces(samples)
    random = np.random.default_rng([draw.seed, draw.index, 3])
    inside = candidates(draw.regions)
    forces = np.zeros((3 * len(inside), mixtures))
    target = np.zeros((len(kinds[0][1]), mixtures))
    for own, sums in kinds:
        signs = random.choice([-1.0, 1.0], (sums.shape[1], mixtures)) / np.sqrt(mixtures)
        forces += own[inside].reshape(-1, len(signs)) @ signs.astype(np.float32)
        target += sums @ signs
    return Mixed(forces.reshape(-1, 3, mixtures), target, kinds if keep else None)


def fit_pose(
    draw: Draw, drawn: tuple[Forces, Forces], vertices: Ints, corrected: bool
) -> tuple[Floats, Floats, list[float]]:
    """Weights, corrections and errors (train, fresh, root) at one pose."""
    rows = rows_of(draw.basis, draw.regions, vertices)
    forces = np.concatenate([kind[0][vertices] for kind in drawn], axis=2).astype(np.float64)
    target = np.concatenate([kind[1] for kind in drawn], axis=1)
    weights = fit_vertices(rows, forces, target)
    blocks = weights[:, None, None] * rows
    added = np.zeros_like(blocks)
    if corrected:
        widths = [array.shape[2] for array in draw.basis]
        added = correction(rows, widths, forces, target - summed(blocks, forces))
    samples = drawn[0][1].shape[1]
    errors = [
        relative_error(total, summed(blocks + added, force[vertices].astype(np.float64)))
        for force, total in (drawn[0], *draw.forces(max(10, samples // 6), 1))
    ]
    return weights, added, errors


def relative_error(target: Floats, sums: Floats) -> float:
    """Root mean square over samples with force of the error; targets are normalised."""
    samples = max(1, int((target != 0).any(axis=0).sum()))
    return float(np.linalg.norm(sums - target) / np.sqrt(samples))
