"""Elastic forces as columns for cubature to choose from, never all formed at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from supple.compiled import taking_turns
from supple.reduction.cubature_forces import PoseForces, force_norms
from supple.reduction.elastic_kernels import REMAINDER, WHOLE, element_dots, element_norms
from supple.reduction.region import Region
from supple.reduction.samples import dense_basis

__all__ = ["ElasticProblem", "reduced_columns"]

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Ints = NDArray[np.int64]

#: Mixed forces of all poses held at once, in bytes; fewer mixtures are made of large meshes.
_MOST_BYTES = 700_000_000


def reduced_columns(
    basis: Sequence[NDArray[np.float64]],
    regions: Sequence[Region],
    corners: Ints,
    forces: NDArray,
) -> Floats:
    """U_eᵀ f_e of tets with these corners (c, 4), as (c, r·t): columns of eq. 17."""
    n_vertices = int(max(corners.max(), *(region.vertices[-1] for region in regions))) + 1
    parts = []
    row = np.full(n_vertices, -1)
    for array, region in zip(basis, regions, strict=True):
        row[:] = -1
        row[region.vertices] = np.arange(len(region.vertices))
        padded = np.concatenate([array, np.zeros_like(array[:1])])  # row −1: outside, at rest
        at = padded[row[corners]]
        edges = (at[:, 1:] - at[:, :1]).reshape(len(corners), 9, -1)
        parts.append(np.matmul(edges.transpose(0, 2, 1), forces))
    return np.concatenate(parts, axis=1).reshape(len(corners), -1)


class ElasticProblem:
    """Normalised element forces at all poses, mixed (eq. 18), as a `CubatureProblem`.

    A mixture is the sum of all samples with random signs. Being linear in the forces, it keeps
    every sum of columns, and a few dozen mixtures keep their lengths to some percent; so tets
    are chosen on what all samples say, at the cost of few. Stored in single precision: 1e-7 is
    far below the errors of a percent that cubature makes.

    Parameters
    ----------
    poses, samples
        The poses and the reduced displacements (r, t) at each.
    mixtures
        How many to make for each pose; fewer where memory would pass 0.7 GB.
    seed
        Of the signs.
    stiffnesses
        (r, r) at rest, when columns are what is left of forces without their linear part.
    """

    def __init__(
        self,
        poses: Sequence[PoseForces],
        samples: Sequence[Floats],
        mixtures: int,
        seed: int,
        stiffnesses: Sequence[Floats] | None = None,
        tell: Callable[[float, str], None] = lambda part, what: None,
    ) -> None:
        self.poses = poses
        self.places = poses[0].corners
        fitting = _MOST_BYTES // (36 * len(self.places) * len(poses))
        self._mixtures = max(2, min(mixtures, fitting))
        self.targets: list[Floats] = []
        self.forces: list[Singles] = []
        #: Forces of all samples (r, t), linear part and all.
        self.totals: list[Floats] = []
        self.norms = np.empty((len(poses), len(self.places)))
        for i, (pose, q) in enumerate(zip(poses, samples, strict=True)):
            tell(0.5 * i / len(poses), f"elastic forces of pose {i}")
            linear = None if stiffnesses is None else stiffnesses[i] @ q
            random = np.random.default_rng([seed, i, 2])
            forces, target, total = self._mixed(pose, q, linear, random, i)
            with taking_turns():
                element_norms(forces, self._basis(i), self.places, self.norms[i])
            self.forces.append(forces)
            self.targets.append(target)
            self.totals.append(total)

    def _basis(self, pose: int) -> Singles:
        """(n, 3, r), of one pose at a time: of all they would take more room than the forces."""
        here = self.poses[pose]
        return dense_basis(here.basis, here.regions, here.body.n_vertices, np.float32)

    def _mixed(
        self,
        pose: PoseForces,
        q: Floats,
        linear: Floats | None,
        random: np.random.Generator,
        i: int,
    ) -> tuple[Singles, Floats, Floats]:
        """Forces (e, 9, t′) of mixtures, what they add up to (r, t′), and all samples' (r, t)."""
        signs = random.choice([-1.0, 1.0], (q.shape[1], self._mixtures))
        signs /= np.sqrt(self._mixtures)
        forces = np.zeros((9 * len(pose.tets), self._mixtures), np.float32)
        target = np.zeros((pose.rank, self._mixtures))
        whole = np.empty(q.shape)
        for batch in pose.of_part(WHOLE if linear is None else REMAINDER).batches(q):
            total = batch.total
            if linear is not None:
                total = total + linear[:, batch.samples]
            whole[:, batch.samples] = total
            norms = force_norms(total, batch.samples.start, f"pose {i}: ")
            mixing = signs[batch.samples] / norms[:, None]
            target += batch.total @ mixing
            forces += batch.elements.reshape(len(forces), -1) @ mixing
        return forces.reshape(len(pose.tets), 9, -1), target, whole

    def correlations(self, pose: int, residual: Floats) -> Floats:
        """A_iᵀ ρ: the field U ρ, dotted with every tet's forces at its corners."""
        basis = self._basis(pose)
        n, _, r = basis.shape
        field = basis.reshape(3 * n, r) @ residual.astype(np.float32)
        dots = np.empty(len(self.places))
        with taking_turns():
            element_dots(self.forces[pose], field.reshape(n, 3, -1), self.places, dots)
        return dots

    def columns(self, pose: int, chosen: Ints) -> Floats:
        """U_eᵀ f_e of the chosen tets, (c, r·t′)."""
        here = self.poses[pose]
        return reduced_columns(
            here.basis, here.regions, self.places[chosen], self.forces[pose][chosen]
        )
