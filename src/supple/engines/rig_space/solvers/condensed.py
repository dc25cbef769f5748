"""Our solver: condensed interior turned with the rig, Gauss–Newton on true positions, cubature."""

from __future__ import annotations

import math

import numpy as np
import scipy.linalg

from supple.arrays import Floats, Ints
from supple.engines.rig_space.model import RigSpaceModel
from supple.engines.rig_space.solvers.solver_stage import SolverReport, Springs, Stage, bounds_away
from supple.engines.rig_space.step_kernels import (
    TetTables,
    bounded_change,
    elastic_terms,
    inertial_terms,
    quadratic_terms,
)
from supple.linalg.upper_triangle import padded_identity
from supple.mesh.laplacian import hat_gradients
from supple.mesh.tets import TetMesh

__all__ = ["CondensedSolver", "SpringMatrices"]

#: Springs of all parameters towards the key, as a part of their mass over τ²: they hold those
#: that do nothing, or the same as another.
NULL_SPRING = 1e-8
#: Above this part of (tet, coordinate) pairs that are not zero, all are multiplied.
DENSE = 0.6
#: Stages that a Hessian of shapes is kept for; and a second change of more than this part of the
#: first is slow.
MOST_KEPT, SLOW = 8, 0.25
#: Lengths of a step that are tried, each a quarter of the one before.
MOST_SHORTER = 5


class SpringMatrices:
    """Constant matrices of H in the coordinates: springs, damping and added mass.

    Parameters
    ----------
    mass, stiffness, missed
        (K, K) at rest, and what tets and cubature miss of the stiffness.
    n_free
        Number of parameters, which come first.
    """

    def __init__(self, mass: Floats, stiffness: Floats, missed: Floats, n_free: int) -> None:
        self._mass, self._stiffness, self._missed, self._k = mass, stiffness, missed, n_free
        size = len(mass)
        self.springs, self.damping, self.inertia = np.zeros((3, size, size))
        scale = np.sqrt(np.maximum(np.diag(stiffness), 1e-300))
        even = stiffness / np.outer(scale, scale)
        #: Part of its own stiffness that every coordinate can do without.
        self._spare = max(0.0, 0.95 * float(scipy.linalg.eigvalsh(even)[0]))

    def set(self, given: Springs, tau: float) -> None:
        """Make the matrices of what animators set, for stages of this length."""
        k, size = self._k, len(self._mass)
        own, heavy = np.diag(self._stiffness), np.diag(self._mass)
        added = np.zeros(size)
        firm = given.firmness - 1
        added[:k] = np.where(firm > 0, firm, self._spare * np.maximum(firm, -1.0)) + given.follow
        null = NULL_SPRING * np.maximum(heavy, 1e-9 * heavy.max()) / tau**2
        self.springs[:] = given.stiffness * (self._missed + np.diag(added * own)) + np.diag(null)
        damp = np.ones(size)
        damp[:k] = np.sqrt(given.damping)
        held = np.diag(np.maximum(added, 0.0) * own)
        stiff = given.stiffness * (self._stiffness + held)
        self.damping[:] = given.alpha * self._mass + given.beta * stiff
        self.damping *= np.outer(damp, damp) / tau
        more = np.zeros(size)
        more[:k] = (given.mass - 1) * heavy[:k]
        self.inertia[:] = np.diag(more) / tau**2


class CondensedSolver:
    """Two Gauss–Newton iterations on x(c), with cubature of the energy.

    Parameters
    ----------
    model
        The model.
    iterations
        Gauss–Newton iterations a stage.
    exact
        Sum over all tets, without cubature: for tests.
    """

    def __init__(self, model: RigSpaceModel, *, iterations: int = 2, exact: bool = False) -> None:
        self.iterations = iterations
        body, self.vertices = model.body, model.active
        self._flesh = model.flesh(self.vertices)
        self.size, self._k = self._flesh.size, len(model.entries)
        self._entries = model.entries
        cubature, count = model.cubature, len(model.mesh.tets)
        whole = exact or len(cubature.tets) == count
        chosen = np.flatnonzero(model.moving_tets) if whole else cubature.tets
        weights = np.ones(len(chosen)) if whole else cubature.weights
        missed = np.zeros((self.size, self.size)) if exact else cubature.missed.copy()
        missed[: self._k, : self._k] += model.skin
        self._kind = body.material.code
        self._tables = _tet_tables(model, chosen, weights)
        self._matrices = SpringMatrices(
            model.condensed.mass, model.condensed.stiffness, missed, self._k
        )
        self._rest_mass = model.condensed.mass
        self._masses, n = body.vertex_masses()[self.vertices], len(self.vertices)
        rows = 9 if len(self._tables.starts) > 1 else 9 * len(chosen)
        self._strains, self._stresses = np.empty((2, rows, self.size))
        self._forces, self._pull = np.empty(rows), np.empty(3 * n)
        # Where the rig is affine the mass hardly changes, as it is of flesh that turns.
        self._whole = not self._flesh.rig.affine
        self._heavy = np.empty((3 * n if self._whole else 1, self.size))
        self._gradient, self._change, self._trial, self._line = np.empty((4, self.size))
        self._hessian = np.empty((self.size, self.size))
        self._factor, self._held = padded_identity(self.size), np.zeros(self.size, bool)
        self._centre = np.zeros(self.size)
        self._settings: tuple[Springs, float] | None = None
        self._kept = 0  # stages for which the Hessian is still good

    @property
    def x(self) -> Floats:
        """(n, 3) flesh in the root's frame, where the last call left it."""
        return self._flesh.x

    @property
    def key(self) -> Floats:
        """(n, 3) flesh at the key pose."""
        return self._flesh.key

    def place(self, pose: Floats, c: Floats) -> None:
        """Set `x` at a key pose and coordinates (K,)."""
        self._flesh.set_key(pose)
        self._flesh.turn(c)
        self._flesh.move(c, columns=False)
        self._kept = 0

    def begin(self, stage: Stage) -> None:
        """Go to the key pose of a stage, and turn the flesh as it will be at its guess."""
        if self._settings is None or self._settings != (stage.springs, stage.tau):
            self._matrices.set(stage.springs, stage.tau)
            self._settings = stage.springs, stage.tau
            self._kept = 0
        self._flesh.set_key(stage.pose)
        self._flesh.turn(stage.guess)

    def value(self, stage: Stage, c: Floats, wanted: int = 2) -> float:
        """H(c), in J.

        Parameters
        ----------
        stage, c
            Stage of time, and coordinates (K,).
        wanted
            1 sets `gradient`, 2 the `hessian`, too, and 3 one of projected tets.
        """
        flesh, matrices = self._flesh, self._matrices
        flesh.move(c, columns=wanted > 0)
        gradient, hessian = self._gradient, self._hessian
        gradient[:] = 0.0
        if wanted >= 2:
            hessian[:] = 0.0
        target = gradient, hessian, wanted
        total = elastic_terms(
            self._kind,
            stage.springs.stiffness,
            self._tables,
            flesh.x,
            flesh.key,
            flesh.Y,
            self._strains,
            self._stresses,
            self._forces,
            self._line,
            *target,
        )
        places = self._masses, stage.tau, flesh.x, stage.target, stage.load, flesh.Y
        some = flesh.starts, flesh.columns
        total += inertial_terms(*places, *some, self._pull, self._heavy, *target, self._whole)
        if not self._whole and wanted >= 2:
            hessian += self._rest_mass / stage.tau**2
        total += quadratic_terms(matrices.springs, self._centre, c, *target)
        total += quadratic_terms(matrices.damping, stage.start, c, *target)
        if np.any(stage.springs.mass != 1):
            total += quadratic_terms(matrices.inertia, stage.guess, c, *target)
        if stage.contact is not None:
            total += self._add_contact(*stage.contact, c - stage.guess, wanted)
        total -= float(stage.push @ c[: self._k])
        gradient[: self._k] -= stage.push
        return total

    def _add_contact(self, matrix: Floats, pull: Floats, away: Floats, wanted: int) -> float:
        k = self._k
        own, back = away[:k], matrix @ away[:k]
        self._gradient[:k] += back - pull
        if wanted >= 2:
            self._hessian[:k, :k] += matrix
        return float(own @ (0.5 * back - pull))

    @property
    def gradient(self) -> Floats:
        """(K,) ∂H/∂c where it was last evaluated."""
        return self._gradient

    @property
    def hessian(self) -> Floats:
        """(K, K) Gauss–Newton Hessian there."""
        return self._hessian

    def advance(self, stage: Stage, c: Floats) -> SolverReport:
        """Minimise H over a stage; write the coordinates (K,) and set `x`."""
        self.begin(stage)
        lower, upper = bounds_away(stage, self._entries, self.size)
        np.clip(stage.guess, lower, upper, out=c)
        limits: tuple[str, ...] = ()
        energy, done, first = self._begun(stage, c), 0, 0.0
        for done in range(1, self.iterations + 1):
            if not (math.isfinite(energy) and self._solved(stage, c, lower, upper)):
                limits, self._kept = ("solver",), 0
                break
            moved = float(np.abs(self._change).max())
            first = moved if done == 1 else first
            if done > 1 and moved > SLOW * first:
                self._kept = 0
            energy = self._go(stage, c, energy, last=done == self.iterations)
        if limits:
            self._flesh.move(c, columns=False)
        return SolverReport({"iterations": done}, limits)

    def _begun(self, stage: Stage, c: Floats) -> float:
        """H(c) with its gradient, and a Hessian that is new or good enough.

        That of shapes hardly changes from step to step: flesh turns, and they turn with it. It is
        kept for a while, unless the last steps were slow to converge.
        """
        lasting = self._flesh.rig.affine and stage.contact is None
        self._kept = self._kept - 1 if lasting else 0
        if self._kept > 0:
            return self.value(stage, c, 1)
        self._kept = MOST_KEPT if lasting else 0
        return self.value(stage, c)

    def _solved(self, stage: Stage, c: Floats, lower: Floats, upper: Floats) -> bool:
        """Solve for the change that minimises the quadratic model between bounds.

        Where it has no minimum, tets are projected: that costs twice as much, and is rare.
        """
        bounds, scratch = (c, lower, upper), (self._factor, self._held)
        if bounded_change(self._gradient, self._hessian, *bounds, *scratch, self._change):
            return True
        self.value(stage, c, 3)
        return bounded_change(self._gradient, self._hessian, *bounds, *scratch, self._change)

    def _go(self, stage: Stage, c: Floats, energy: float, last: bool) -> float:
        """Change c, by less where that would raise H, and set `x`; return H there.

        Its gradient is taken too, but for the last change. After a whole change the Hessian is
        near enough to what it was: it is kept, at a third of the cost of another.
        """
        length, trial = 1.0, self._trial
        for _ in range(MOST_SHORTER):
            np.multiply(self._change, length, out=trial)
            trial += c
            found = self.value(stage, trial, 0 if last else 1)
            if found <= energy + 1e-9 * abs(energy):
                c[:] = trial
                break
            length *= 0.25
        else:  # no change lowers H
            length, found = 0.0, self.value(stage, c, 0)
        if length < 1:
            self._kept = 0
            if not last:
                found = self.value(stage, c)
        return found


def _tet_tables(model: RigSpaceModel, chosen: Ints, weights: Floats) -> TetTables:
    mesh = model.mesh
    part = TetMesh(mesh.vertices, mesh.tets[chosen])
    constants = model.material.element_parameters(len(mesh.tets))
    return TetTables(
        np.searchsorted(model.active, part.tets),
        np.ascontiguousarray(weights, np.float64),
        np.ascontiguousarray(constants[chosen]),
        np.ascontiguousarray(hat_gradients(part)),
        part.volumes(),
        *_tet_columns(model, chosen),
    )


def _tet_columns(model: RigSpaceModel, chosen: Ints) -> tuple[Ints, Ints]:
    """Return starts and columns of `TetTables`: none where most tets have most coordinates."""
    reached = model.reached[model.mesh.tets[chosen]].any(axis=1)
    if reached.mean() > DENSE:
        return np.zeros(1, np.int64), np.zeros(0, np.int64)
    rows, columns = np.nonzero(reached)
    return np.searchsorted(rows, np.arange(len(chosen) + 1)), columns
