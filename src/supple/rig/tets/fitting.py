"""Fit of the tets to the surface of a pose (xu2016 eq. 3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.checks import checked_array
from supple.compiled.jit import compiled
from supple.elastic.assembly import BlockPattern
from supple.elastic.body import ElasticBody
from supple.elastic.equilibrium import line_search
from supple.elastic.material import Material
from supple.errors import SuppleError
from supple.linalg.cholesky import SparseCholesky
from supple.linalg.krylov import ConjugateGradients
from supple.mesh.tets import TetMesh
from supple.rig.tets.surface_samples import SurfaceSamples, typical_edge

#: Default of γ. A smaller one follows the surface more closely, but its corrections are so
#: crumpled that more tets invert at poses between: in 174 frames of four characters (6,000 tets
#: and 6 poses each) about 30 tets, and 130 at γ = 0.1 with volumes guarded below 0.3.
GAMMA = 0.4
POISSON = 0.3
#: Tets that keep less than this fraction of their volume count as inverted: they would be too stiff
#: as a rest shape.
LEAST_VOLUME = 0.1
#: Fraction of their volume below which tets are guarded, and stiffness of the guard.
GUARDED_VOLUME = 0.5
GUARD = 30.0
#: Newton's method ends if the predicted decrease is below this fraction of the objective, or if no
#: coordinate moves by more than this fraction of an edge. With a tenth of these, fits took 1.5
#: times as many iterations and moved by a thousandth of an edge, like the error of the solver.
TOLERANCE, STEP = 1e-4, 1e-3
#: Most iterations of Newton's method in one minimisation.
MOST_NEWTON = 60
#: Relative residual of conjugate gradients, and iterations before the matrix is factorised instead.
LEFT, MOST_ITERATIONS = 1e-2, 100
#: While tets are inverted, the guard of all tets is multiplied by this factor, at most this many
#: times: a stronger guard of a few would invert their neighbours. Then γ is multiplied likewise.
STRONGER, MOST_STRENGTHENED = 10.0, 2
RISE, MOST_RISES = 10.0, 2
#: Number of steps in which a surface is followed from the neutral pose.
STEPS = 8


@dataclass(frozen=True, eq=False)
class PoseFit:
    """Tets fitted to one pose, positions (n, 3).

    `energies` has, for each round of repair, the objective at the start and after every Newton
    iteration, never increasing; rounds have different objectives. `inverted_before` and `inverted`
    are numbers of inverted tets at the start and at the end (0 unless repair failed), `gamma` is γ
    of the last round. `surface_error` and `largest_error` are distances in metres of the embedded
    surface from the rig's: root mean square over the area, and largest.
    """

    positions: Floats
    energies: tuple[Floats, ...]
    inverted_before: Ints
    inverted: Ints
    gamma: float
    surface_error: float
    largest_error: float

    @property
    def iterations(self) -> int:
        """Newton iterations of all rounds."""
        return sum(len(energies) - 1 for energies in self.energies)


class PoseFitter:
    """Fitter of tets to the rig's surface, pose by pose.

    Minimises ½∫‖A x − Φ̄(p)‖² over the surface + γ ℓ E(x), with E the stable neo-Hookean energy
    from the neutral shape for a Young's modulus of 1, and ℓ the tets' edge length, so that γ is a
    number independent of size and resolution. The penalty of a `VolumeGuard` is added, which is
    zero for tets that keep half of their volume.

    Newton's method with line search. A row of A has entries of one tet only, so that AᵀMA has the
    pattern of the stiffness. The surface constrains vertices about as strongly as their neighbours
    do, so that conjugate gradients take some 10 iterations at any size: a fit of 128,000 tets costs
    a tenth of a fit by factorisations. If they take too many, as for unconstrained parts, the
    matrix is factorised.

    `mesh` are the tets at the neutral pose, `samples` the surface in them. A small γ follows the
    surface closely, a large one keeps the tets in shape.
    """

    def __init__(self, mesh: TetMesh, samples: SurfaceSamples, gamma: float = GAMMA) -> None:
        if not (np.isfinite(gamma) and gamma > 0):
            raise SuppleError(f"the fit's gamma is {gamma}; it must be a positive number")
        self.mesh, self.samples, self.gamma = mesh, samples, float(gamma)
        self.edge = typical_edge(mesh)
        self._body = self._elastic(self.gamma)
        self._pattern = self._body.pattern
        weighted = samples.of_tets.T @ sp.diags_array(samples.area)
        self._surface_part = kronecker_in(self._pattern, sp.csr_array(weighted @ samples.of_tets))
        self._guard = VolumeGuard(mesh, self._pattern, GUARDED_VOLUME)
        self._gradients = ConjugateGradients(self._pattern.zeros())

    @cached_property
    def _factor(self) -> SparseCholesky:
        return SparseCholesky(self._pattern.zeros(), block=3)

    def fit(
        self,
        target: ArrayLike,
        start: ArrayLike,
        *,
        path: Callable[[float], ArrayLike] | None = None,
    ) -> PoseFit:
        """Fit to surface positions `target` (n̄, 3), starting from tet positions `start` (n, 3).

        If tets are inverted, their guard is strengthened and the fit repeated; then the surface is
        followed from the neutral pose along `path`, since tets are more easily kept valid than
        repaired; then γ is raised. `path` maps a fraction from neutral, 0, to `target`, 1, to a
        surface (n̄, 3), by default on the straight line.
        """
        shape = (self.samples.of_surface.shape[1], 3)
        goal = checked_array("surface to fit", target, shape)
        first = checked_array("start of the fit", start, self.mesh.vertices.shape)
        run = _Run(self, self.samples.of_surface @ goal)
        x, gamma = run.directly(first), self.gamma
        for _ in range(MOST_RISES + 1):
            if not len(self._inverted(x)):
                break
            followed = run.along(path, gamma)
            if followed is not None:
                x = followed
                break
            gamma *= RISE
        before = np.flatnonzero(volume_ratios(self.mesh, first) <= 0)
        errors = self._errors(x, run.goal)
        return PoseFit(x, tuple(run.energies), before, self._inverted(x), gamma, *errors)

    def _errors(self, x: Floats, goal: Floats) -> tuple[float, float]:
        distances = np.linalg.norm(self.samples.of_tets @ x - goal, axis=1)
        area = self.samples.area
        return float(np.sqrt(area @ distances**2 / area.sum())), float(
            distances[area > 0].max(initial=0.0)
        )

    def _elastic(self, gamma: float) -> ElasticBody:
        material = Material("neo-hookean", young=gamma * self.edge, poisson=POISSON)
        return ElasticBody(self.mesh, material)

    def _inverted(self, x: Floats) -> Ints:
        return np.flatnonzero(volume_ratios(self.mesh, x) < LEAST_VOLUME)

    def _objective(self, body: ElasticBody, guard: float, goal: Floats, x: Floats) -> float:
        residual = self.samples.of_tets @ x - goal
        surface = 0.5 * float(self.samples.area @ np.einsum("ij,ij->i", residual, residual))
        return surface + body.energy(x) + self._guard.energy(x, guard)

    def _derivatives(
        self, body: ElasticBody, guard: float, goal: Floats, x: Floats
    ) -> tuple[Floats, Floats]:
        """Return the gradient (n, 3), and values of a positive definite matrix near the Hessian."""
        residual = self.samples.of_tets @ x - goal
        gradient = self.samples.of_tets.T @ (self.samples.area[:, None] * residual) + body.force(x)
        values = body.stiffness(x, psd=True).data + self._surface_part
        self._guard.add_derivatives(x, guard, gradient, values)
        # Motions without samples or strain, such as rigid ones of loose parts, stay bounded.
        diagonal = self._gradients.diagonal
        values[diagonal] += 1e-9 * values[diagonal].mean()
        return gradient, values

    def _newton_step(self, gradient: Floats, values: Floats) -> Floats:
        right = -gradient.ravel()
        step = self._gradients.solve(values, right, LEFT, MOST_ITERATIONS)
        if step is None:
            step = self._factor.factorise(values).solve(right)
        return step.reshape(gradient.shape)

    def _minimise(
        self, body: ElasticBody, guard: float, goal: Floats, x: Floats
    ) -> tuple[Floats, Floats]:
        objective = partial(self._objective, body, guard, goal)
        energies = [objective(x)]
        for _ in range(MOST_NEWTON):
            gradient, values = self._derivatives(body, guard, goal, x)
            step = self._newton_step(gradient, values)
            slope = float(np.vdot(gradient, step))
            along = partial(_along, objective, x, step)
            length, energy = line_search(along, energies[-1], slope)
            if length == 0.0:  # rounding: the energy cannot be lowered any more
                break
            x = x + length * step
            energies.append(energy)
            if length * np.abs(step).max() < STEP * self.edge or -slope < TOLERANCE * energy:
                break
        return x, np.array(energies)


class _Run:
    """Fit of one pose: its goal, and the energies of its iterations."""

    def __init__(self, fitter: PoseFitter, goal: Floats) -> None:
        self.fitter, self.goal = fitter, goal
        self.energies: list[Floats] = []

    def directly(self, x: Floats) -> Floats:
        """Fit to the goal; strengthen the guard while tets are inverted."""
        for power in range(MOST_STRENGTHENED + 1):
            x = self._fitted(self.fitter._body, STRONGER**power * GUARD, self.goal, x)
            if not len(self.fitter._inverted(x)):
                break
        return x

    def along(self, path: Callable[[float], ArrayLike] | None, gamma: float) -> Floats | None:
        """Fit step by step from the neutral pose to the goal; None if tets get inverted."""
        body, x = self.fitter._elastic(gamma), self.fitter.mesh.vertices
        step, power = 1, 0
        while step <= STEPS:
            goal = self._between(path, step / STEPS)
            y = self._fitted(body, STRONGER**power * GUARD, goal, x)
            if not len(self.fitter._inverted(y)):
                step, x = step + 1, y
            elif power == MOST_STRENGTHENED:
                return None
            else:
                power += 1
        return x

    def _between(self, path: Callable[[float], ArrayLike] | None, part: float) -> Floats:
        samples = self.fitter.samples
        if part == 1:
            return self.goal
        if path is None:
            neutral = samples.of_tets @ self.fitter.mesh.vertices
            return neutral + part * (self.goal - neutral)
        shape = (samples.of_surface.shape[1], 3)
        return samples.of_surface @ checked_array("surface on the way", path(part), shape)

    def _fitted(self, body: ElasticBody, guard: float, goal: Floats, x: Floats) -> Floats:
        x, energies = self.fitter._minimise(body, guard * self.fitter.edge, goal, x)
        self.energies.append(energies)
        return x


def _along(objective: Callable[[Floats], float], x: Floats, step: Floats, length: float) -> float:
    return objective(x + length * step)


class VolumeGuard:
    """Σ ½ κ V (J₀ − J)² over the tets whose volume ratio J is below J₀ = `kept`.

    Unlike stiffer elasticity it does not resist bending, stretching and sliding, and does not act
    on tets that keep their volume. For large κ the fit approaches the best fit with J ≥ J₀.
    """

    def __init__(self, mesh: TetMesh, pattern: BlockPattern, kept: float) -> None:
        self._tets, self._volumes, self._kept = mesh.tets, mesh.volumes(), kept
        self._start, self._slots = pattern.start, pattern.slots(mesh.tets)

    def _missing(self, x: Floats, stiffness: float) -> tuple[Ints, Floats, Floats, Floats]:
        """Return the tets guarded, how far each is below J₀, ∂J/∂x (k, 4, 3), and their κ V."""
        ratios = _volumes(x, self._tets) / self._volumes
        low = np.flatnonzero(ratios < self._kept)
        corners = x[self._tets[low]]
        u, v, w = (corners[:, k] - corners[:, 0] for k in (1, 2, 3))
        slopes = np.empty((len(low), 4, 3))
        slopes[:, 1], slopes[:, 2], slopes[:, 3] = np.cross(v, w), np.cross(w, u), np.cross(u, v)
        slopes[:, 0] = -slopes[:, 1:].sum(axis=1)
        slopes /= 6 * self._volumes[low, None, None]
        return low, self._kept - ratios[low], slopes, stiffness * self._volumes[low]

    def energy(self, x: Floats, stiffness: float) -> float:
        """Return the penalty at positions x, with this κ."""
        _, missing, _, weight = self._missing(x, stiffness)
        return 0.5 * float(weight @ missing**2)

    def add_derivatives(
        self, x: Floats, stiffness: float, gradient: Floats, values: Floats
    ) -> None:
        """Add the gradient, and to a matrix's values the part κ V ∂J∂Jᵀ of the Hessian.

        The remaining part is indefinite, and vanishes as the constraint is satisfied.
        """
        low, missing, slopes, weight = self._missing(x, stiffness)
        pull = (weight * missing)[:, None, None] * slopes
        np.subtract.at(gradient, self._tets[low].ravel(), pull.reshape(-1, 3))
        blocks = np.einsum("e,eai,ebj->eabij", weight, slopes, slopes)
        first, degree = self._start[:-1][self._tets[low]], np.diff(self._start)[self._tets[low]]
        slot = self._slots[low].reshape(-1, 4, 4).astype(np.int64)
        axis = np.arange(3)
        rows = 9 * first[:, :, None] + 3 * degree[:, :, None] * axis
        where = rows[:, :, None, :, None] + (3 * slot[:, :, :, None] + axis)[:, :, :, None, :]
        np.add.at(values, where.ravel(), blocks.ravel())


def volume_ratios(mesh: TetMesh, positions: ArrayLike) -> Floats:
    """Return the volume of each tet at `positions`, as a fraction of its volume in the mesh."""
    x = checked_array("positions", positions, mesh.vertices.shape)
    return _volumes(x, mesh.tets) / _volumes(mesh.vertices, mesh.tets)


@compiled
def _volumes(x: Floats, tets: Ints) -> Floats:
    """Return the signed volumes (m,), compiled for evaluation at every frame."""
    out = np.empty(len(tets))
    for t in range(len(tets)):
        a, b, c, d = x[tets[t, 0]], x[tets[t, 1]], x[tets[t, 2]], x[tets[t, 3]]
        ux, uy, uz = b[0] - a[0], b[1] - a[1], b[2] - a[2]
        vx, vy, vz = c[0] - a[0], c[1] - a[1], c[2] - a[2]
        wx, wy, wz = d[0] - a[0], d[1] - a[1], d[2] - a[2]
        along = ux * (vy * wz - vz * wy) + uy * (vz * wx - vx * wz) + uz * (vx * wy - vy * wx)
        out[t] = along / 6
    return out


def kronecker_in(pattern: BlockPattern, scalar: sp.csr_array) -> Floats:
    """Return values of scalar ⊗ I₃ in the CSR order of a pattern that has these entries."""
    start, neighbours, n = pattern.start, pattern.neighbours, pattern.n_vertices
    row = np.repeat(np.arange(n), np.diff(start))
    entries = scalar.tocoo()
    keys = entries.row.astype(np.int64) * n + entries.col
    at = np.searchsorted(row * n + neighbours, keys)
    values = np.zeros(len(neighbours))
    values[at] = entries.data
    out = np.zeros(9 * len(neighbours))
    # Vertex v's three rows lie one after the other, three columns to a neighbour.
    degree, within = np.diff(start)[row], np.arange(len(neighbours)) - start[row]
    for axis in range(3):
        out[9 * start[row] + 3 * degree * axis + 3 * within + axis] = values
    return out
