"""Rig-space physics (Hahn et al. 2012): free parameters and all interior vertices unknown.

The reference of hahn2013 (RSP): every interior vertex is an unknown, and Newton's method continues
until convergence.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
import scipy.sparse as sp

from supple.arrays import Floats, Ints
from supple.elastic.equilibrium import line_search
from supple.engines.rig_space.flesh_rig import FleshRig
from supple.engines.rig_space.model import RigSpaceModel
from supple.engines.rig_space.solvers.bounded_change import BoundedSystem
from supple.engines.rig_space.solvers.condensed import SpringMatrices
from supple.engines.rig_space.solvers.stage_problem import (
    SolverReport,
    Springs,
    StageProblem,
    bounds_away,
)
from supple.linalg.cholesky import SparseCholesky

#: Newton ends if an iteration moves nothing farther than this fraction of the body's size.
TOLERANCE = 1e-7
MOST_ITERATIONS = 25


class RigSpacePhysics:
    """Newton's method on free parameters and interior vertices, iterated until convergence.

    Coordinates are offsets of the free parameters, and displacements of the interior vertices from
    the rig, in frames that rotate with it: x = Φ(p) + R z. `differences` selects Jacobians by
    finite differences, as in the papers.
    """

    def __init__(
        self, model: RigSpaceModel, *, iterations: int = 0, differences: bool = False
    ) -> None:
        self._rig = FleshRig(model.tet_rig, model.entries, model.held, differences=differences)
        self._rotations, self._body = model.rotations.fork(), model.body
        self._entries, self._k = model.entries, len(model.entries)
        self.vertices = np.arange(len(model.mesh.vertices))
        self._interior = model.interior
        self._unknowns = (3 * self._interior[:, None] + np.arange(3)).ravel()
        self.size = self._k + len(self._unknowns)
        self._masses = np.repeat(self._body.vertex_masses(), 3)
        self.x = np.empty_like(self._rig.key)
        self._matrix = self._body.pattern.zeros()
        mass, stiffness = (m[: self._k, : self._k] for m in _rest_matrices(model))
        self._matrices = SpringMatrices(mass, stiffness, model.skin, self._k)
        self._set_rest(model)
        self._length = TOLERANCE * model.mesh.size
        self._settings: tuple[Springs, float] | None = None
        self._cholesky: tuple[SparseCholesky, Ints] | None = None

    def _set_rest(self, model: RigSpaceModel) -> None:
        """Store M and K at rest, for damping, of parameters and interior."""
        rest, rig = np.asarray(model.rig.rest_pose, np.float64), self._rig
        rig.set_key(rest)
        rig.move(np.zeros(self._k))
        columns = rig.jacobian.reshape(-1, self._k).copy()
        mass, stiffness = sp.diags_array(self._masses), self._body.stiffness(self._body.rest).copy()
        self._rest = []
        for matrix in (mass.tocsr(), stiffness):
            pulled = matrix @ columns
            inner = matrix[self._unknowns][:, self._unknowns].tocsr()
            self._rest.append((columns.T @ pulled, pulled[self._unknowns], inner))

    @property
    def key(self) -> Floats:
        """(n, 3) flesh at the key pose."""
        return self._rig.key

    def place(self, pose: Floats, c: Floats) -> None:
        """Set `x` at a key pose and coordinates (K,)."""
        self._rig.set_key(pose)
        self._turn(c)
        self._move(c, jacobian=False)

    def state_arrays(self) -> dict[str, Floats]:
        """Return the arrays that later stages depend on, by name."""
        return {"rotations": self._rotations.matrices}

    def set_state(self, state: Mapping[str, Floats], pose: Floats) -> None:
        """Set the arrays that `state_arrays` returned, at a key pose."""
        self._rig.set_key(pose)
        self._rotations.matrices[:] = state["rotations"]

    def _turn(self, c: Floats) -> None:
        self._rig.move(c[: self._k], jacobian=False)
        self._rotations.follow(self._rig.positions)

    def _move(self, c: Floats, *, jacobian: bool = True) -> None:
        self._rig.move(c[: self._k], jacobian=jacobian)
        self.x[:] = self._rig.positions
        interior = c[self._k :].reshape(-1, 3)
        self.x[self._interior] += np.einsum("vij,vj->vi", self._frames, interior)

    @property
    def _frames(self) -> Floats:
        return self._rotations.matrices

    def begin(self, stage: StageProblem) -> None:
        """Set the key pose of a stage, and the rotations at its initial guess."""
        if self._settings is None or self._settings != (stage.springs, stage.tau):
            self._matrices.set(stage.springs, stage.tau)
            springs = stage.springs
            parts = (springs.alpha / stage.tau, springs.beta * springs.stiffness / stage.tau)
            damp = np.sqrt(springs.damping)
            pp, qp, qq = (parts[0] * m + parts[1] * s for m, s in zip(*self._rest, strict=True))
            self._damping = np.outer(damp, damp) * pp, qp * damp, sp.csr_array(qq)
            self._settings = stage.springs, stage.tau
        self._rig.set_key(stage.pose)
        self._turn(stage.guess)
        rotations = sp.bsr_array(
            (self._frames, np.arange(len(self._interior)), np.arange(len(self._interior) + 1))
        )
        self._turning = sp.csr_array(rotations)

    def value(self, stage: StageProblem, c: Floats, *, jacobian: bool = False) -> float:
        """Return H(c), in J."""
        self._move(c, jacobian=jacobian)
        k, away = self._k, (self.x - stage.target).reshape(-1)
        total = 0.5 / stage.tau**2 * float(away @ (self._masses * away))
        total += stage.springs.stiffness * self._body.energy(self.x, self.key)
        total -= float(np.vdot(stage.load, self.x)) + float(stage.push @ c[:k])
        d, p = c - stage.start, c[:k]
        pp, qp, qq = self._damping
        damped = pp @ d[:k] + qp.T @ d[k:], qp @ d[:k] + qq @ d[k:]
        total += 0.5 * float(d[:k] @ damped[0] + d[k:] @ damped[1])
        extra = p - stage.guess[:k]
        total += 0.5 * float(p @ self._matrices.springs @ p)
        return total + 0.5 * float(extra @ self._matrices.inertia @ extra)

    def derivatives(
        self, stage: StageProblem, c: Floats
    ) -> tuple[Floats, Floats, Floats, sp.csr_array]:
        """Return the gradient (K,) and the Hessian's blocks H_pp, H_qp and H_qq at c."""
        self._move(c)
        k, tau, u = self._k, stage.tau, self._unknowns
        away = (self.x - stage.target).reshape(-1)
        force = self._masses * away / tau**2 - stage.load.reshape(-1)
        stiff = stage.springs.stiffness
        force += stiff * self._body.force(self.x, self.key).reshape(-1)
        system = self._body.stiffness(self.x, self.key, psd=True, out=self._matrix).copy()
        system.data *= stiff
        system = sp.csr_array(system + sp.diags_array(self._masses / tau**2))
        J = self._rig.jacobian.reshape(-1, k)
        pulled = system @ J
        d, p = c - stage.start, c[:k]
        pp, qp, qq = self._damping
        springs, inertia = self._matrices.springs, self._matrices.inertia
        gradient = np.empty(self.size)
        gradient[:k] = J.T @ force + pp @ d[:k] + qp.T @ d[k:] - stage.push
        gradient[:k] += springs @ p + inertia @ (p - stage.guess[:k])
        gradient[k:] = self._turning.T @ force[u] + qp @ d[:k] + qq @ d[k:]
        inner = self._turning.T @ (system[u][:, u] @ self._turning) + qq
        return (
            gradient,
            J.T @ pulled + pp + springs + inertia,
            self._turning.T @ pulled[u] + qp,
            sp.csr_array(inner),
        )

    def advance(self, stage: StageProblem, c: Floats) -> SolverReport:
        """Minimise H over a stage; write the coordinates (K,) and set `x`."""
        self.begin(stage)
        k, (lower, upper) = self._k, bounds_away(stage, self._entries, self._k)
        c[:] = stage.guess
        np.clip(c[:k], lower, upper, out=c[:k])
        limits: tuple[str, ...] = ("solver",)
        count = 0
        while count < MOST_ITERATIONS:
            count += 1
            change = self._change(stage, c, lower, upper)
            if change is None:
                break
            slope = float(self._gradient @ change)
            energy = self.value(stage, c)
            along = partial(self._value_along, stage, c, change)
            length, _ = line_search(along, energy, slope)
            c += length * change
            if length == 0.0 or self._moved(length * change) < self._length:
                limits = ()
                break
        self._move(c, jacobian=False)
        return SolverReport({"iterations": count, "jacobians": count}, limits)

    def _value_along(self, stage: StageProblem, c: Floats, change: Floats, part: float) -> float:
        return self.value(stage, c + part * change)

    def _moved(self, change: Floats) -> float:
        surface = np.abs(self._rig.jacobian @ change[: self._k]).max(initial=0.0)
        return max(surface, float(np.abs(change[self._k :]).max(initial=0.0)))

    def _change(
        self, stage: StageProblem, c: Floats, lower: Floats, upper: Floats
    ) -> Floats | None:
        """Solve for Newton's change: interior first, then parameters within their bounds."""
        gradient, pp, qp, qq = self.derivatives(stage, c)
        self._gradient, k = gradient, self._k
        right = np.column_stack([gradient[k:], qp])
        solved = self._solved(qq, np.ascontiguousarray(right)) if len(right) else right
        reduced = pp - qp.T @ solved[:, 1:]
        slope = gradient[:k] - qp.T @ solved[:, 0]
        symmetric = np.ascontiguousarray(0.5 * (reduced + reduced.T))
        system = BoundedSystem(k)
        if not system.solve(slope, symmetric, c[:k].copy(), lower, upper):
            return None
        parameters = system.change
        return np.concatenate([parameters, -solved[:, 0] - solved[:, 1:] @ parameters])

    def _solved(self, matrix: sp.csr_array, right: Floats) -> Floats:
        matrix.sort_indices()
        if self._cholesky is None or not np.array_equal(self._cholesky[1], matrix.indices):
            self._cholesky = SparseCholesky(matrix, block=3), matrix.indices.copy()
        return self._cholesky[0].factorise(matrix).solve(right)


def _rest_matrices(model: RigSpaceModel) -> tuple[Floats, Floats]:
    return model.condensed.mass, model.condensed.stiffness
