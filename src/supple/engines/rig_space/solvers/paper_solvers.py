"""The papers' solvers: rig-space physics (Hahn et al. 2012), and a linearised rig (hahn2013)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Literal

import numpy as np
import scipy.sparse as sp

from supple.arrays import Floats, Ints
from supple.elastic.equilibrium import line_search
from supple.engines.rig_space.flesh_rig import FleshRig
from supple.engines.rig_space.model import RigSpaceModel
from supple.engines.rig_space.solvers.condensed import SpringMatrices
from supple.engines.rig_space.solvers.deferred import MOST_ENERGY
from supple.engines.rig_space.solvers.stage_problem import (
    BoundedSystem,
    SolverReport,
    Springs,
    StageProblem,
    bounds_away,
)
from supple.engines.rig_space.volumetric_skinning import Interior, SkinnedInterior, StaticInterior
from supple.errors import SuppleError
from supple.linalg.cholesky import SparseCholesky
from supple.rig.jacobian import second_differences

#: Newton iterations of a step of rig-space physics, and the change that ends them, as a fraction of
#: the body's size.
PHYSICS_ITERATIONS, PHYSICS_TOLERANCE = 25, 1e-7
#: Newton iterations of a step with a linearised rig, and the change that ends them, likewise.
LINEAR_ITERATIONS, LINEAR_TOLERANCE = 10, 1e-6


class PaperSolver:
    """Base of the papers' solvers: the rig on all tet vertices, without cubature.

    `differences` selects Jacobians by finite differences, as in the papers.
    """

    size: int

    def __init__(self, model: RigSpaceModel, differences: bool) -> None:
        self._rig = FleshRig(model.tet_rig, model.entries, model.held, differences=differences)
        self._body, self._entries, self._k = model.posed_body, model.entries, len(model.entries)
        self.vertices, self._interior = np.arange(len(model.mesh.vertices)), model.interior
        self.x = model.mesh.vertices.copy()
        self._masses = np.repeat(self._body.vertex_masses(), 3)
        k, rest = self._k, model.condensed
        matrices = rest.mass[:k, :k].copy(), rest.stiffness[:k, :k].copy()
        self._matrices = SpringMatrices(*matrices, model.skin, k)
        self._settings: tuple[Springs, float] | None = None

    @property
    def key(self) -> Floats:
        """(n, 3) flesh at the key pose."""
        return self._rig.key

    def _set_springs(self, stage: StageProblem) -> bool:
        """Set the constant matrices of a stage; return whether they changed."""
        if self._settings is not None and self._settings == (stage.springs, stage.tau):
            return False
        self._matrices.set(stage.springs, stage.tau)
        self._settings = stage.springs, stage.tau
        return True

    def _flesh_value(self, stage: StageProblem, p: Floats) -> float:
        """Return the terms of H in J: inertia, elasticity and loads, at `x` and parameters (k,)."""
        difference = (self.x - stage.target).reshape(-1)
        total = 0.5 / stage.tau**2 * float(difference @ (self._masses * difference))
        total += stage.springs.stiffness * self._body.energy(self.x, self.key)
        return total - (float(np.vdot(stage.load, self.x)) + float(stage.push @ p))


class RigSpacePhysics(PaperSolver):
    """Newton's method on free parameters and all interior vertices: the reference of hahn2013, RSP.

    Coordinates are offsets of the free parameters, and displacements of the interior vertices from
    the rig, in frames that rotate with it: x = Φ(p) + R z. Iterations end at convergence. With
    `second` the Hessian has the rig's second derivatives, too.
    """

    def __init__(
        self,
        model: RigSpaceModel,
        *,
        iterations: int = 0,
        differences: bool = False,
        second: bool = False,
        deferral: float | None = None,
    ) -> None:
        if deferral:
            raise SuppleError("rsp keeps no Jacobian; leave out deferral, or use another solver")
        super().__init__(model, differences)
        self._second = second
        self._rotations = model.rotations.fork()
        self._unknowns = (3 * self._interior[:, None] + np.arange(3)).ravel()
        self.size = self._k + len(self._unknowns)
        self._matrix = self._body.pattern.zeros()
        self._set_rest(model)
        self._length = PHYSICS_TOLERANCE * model.mesh.size
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
        self.x[self._interior] += np.einsum("vij,vj->vi", self._rotations.matrices, interior)

    def begin(self, stage: StageProblem) -> None:
        """Set the key pose of a stage, and the rotations at its initial guess."""
        if self._set_springs(stage):
            springs = stage.springs
            parts = (springs.alpha / stage.tau, springs.beta * springs.stiffness / stage.tau)
            damp = np.sqrt(springs.damping)
            pp, qp, qq = (parts[0] * m + parts[1] * s for m, s in zip(*self._rest, strict=True))
            self._damping = np.outer(damp, damp) * pp, qp * damp, sp.csr_array(qq)
        self._rig.set_key(stage.pose)
        self._turn(stage.guess)
        count = len(self._interior)
        blocks = self._rotations.matrices, np.arange(count), np.arange(count + 1)
        self._turning = sp.csr_array(sp.bsr_array(blocks))

    def value(self, stage: StageProblem, c: Floats, *, jacobian: bool = False) -> float:
        """Return H(c), in J."""
        self._move(c, jacobian=jacobian)
        k = self._k
        d, p = c - stage.start, c[:k]
        total = self._flesh_value(stage, p)
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
        difference = (self.x - stage.target).reshape(-1)
        force = self._masses * difference / tau**2 - stage.load.reshape(-1)
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
        curved = self._second_terms(c[:k], force.reshape(-1, 3)) if self._second else 0.0
        return (
            gradient,
            J.T @ pulled + pp + springs + inertia + curved,
            self._turning.T @ pulled[u] + qp,
            sp.csr_array(inner),
        )

    def _second_terms(self, p: Floats, force: Floats) -> Floats:
        """Return Σ f ∂²Φ/∂p∂p (k, k) of forces f (n, 3), without negative eigenvalues."""

        def work(there: Floats) -> float:
            self._rig.move(there, jacobian=False)
            return float(np.vdot(force, self._rig.positions))

        values, vectors = np.linalg.eigh(second_differences(work, p))
        self._rig.move(p, jacobian=False)
        return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)

    def advance(self, stage: StageProblem, c: Floats) -> SolverReport:
        """Minimise H over a stage; write the coordinates (K,) and set `x`."""
        self.begin(stage)
        k, (lower, upper) = self._k, bounds_away(stage, self._entries, self._k)
        c[:] = stage.guess
        np.clip(c[:k], lower, upper, out=c[:k])
        limits: tuple[str, ...] = ("solver",)
        count = 0
        while count < PHYSICS_ITERATIONS:
            count += 1
            change = self._change(stage, c, lower, upper)
            if change is None:
                break
            slope, energy = float(self._gradient @ change), self.value(stage, c)
            length, _ = line_search(partial(self._value_along, stage, c, change), energy, slope)
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
        """Return the Newton step (K,) with parameters within bounds; None if the solve fails."""
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


class LinearRigSolver(PaperSolver):
    """Newton's method on the free parameters, with a rig linearised within a step.

    Keys enter exactly: s ≈ Φ(p_s⁺, p_f) + J Δp_f. Iterations end at convergence. The interior is
    ``"static"`` (IV1), ``"skinned"`` (IV2), or ``"skinned-offset"``: IV2 with a correct rest shape.
    With `deferred`, Jacobians are kept while the rig is nearly linear (JE2); a step with an error
    above `deferral`, in J/kg, is repeated with a new Jacobian. The predictor of the nonlinearity
    saves most of these repetitions: ``"ahead"`` by p̃ = 2p_n − p_{n−1}; ``"printed"`` by
    p_n + (p_n − p_{n−1})/h as in the paper, which is a hundred steps too far; None for none.
    """

    def __init__(
        self,
        model: RigSpaceModel,
        *,
        iterations: int = 0,
        interior: str = "static",
        deferred: bool = False,
        predictor: Literal["ahead", "printed"] | None = "ahead",
        differences: bool = False,
        deferral: float | None = None,
    ) -> None:
        if deferral and not deferred:
            raise SuppleError("this solver keeps no Jacobian; leave out deferral, or use a je2 one")
        super().__init__(model, differences)
        self.size = self._k
        self._deferred, self._predictor = deferred, predictor
        self._method: Interior = (
            StaticInterior(model)
            if interior == "static"
            else SkinnedInterior(model, offset=interior == "skinned-offset")
        )
        self._outer = np.ones(len(model.mesh.vertices), bool)
        self._outer[model.interior] = False
        self._most = MOST_ENERGY if deferral is None else deferral
        self._most *= float(self._masses.sum() / 3)
        self._length = LINEAR_TOLERANCE * model.mesh.size
        self._jacobian: Floats | None = None
        self._last, self._last_but_one = np.zeros((2, self.size))

    def place(self, pose: Floats, c: Floats) -> None:
        """Set `x` at a key pose and coordinates (k,)."""
        self._rig.set_key(pose)
        self._rig.move(c, jacobian=False)
        self.x[:] = self._rig.positions
        self._method.settle(self.x, self.key)
        self._last[:] = self._last_but_one[:] = c

    def state_arrays(self) -> dict[str, Floats]:
        """Return the arrays that later stages depend on, by name."""
        none = np.zeros((*self.x.shape, self.size))
        return {
            "x": self.x,
            "last": np.stack([self._last, self._last_but_one]),
            "jacobian": none if self._jacobian is None else self._jacobian,
            "has_jacobian": np.array(float(self._jacobian is not None)),
        }

    def set_state(self, state: Mapping[str, Floats], pose: Floats) -> None:
        """Set the arrays that `state_arrays` returned, at a key pose."""
        self._rig.set_key(pose)
        self.x[:] = state["x"]
        self._last[:], self._last_but_one[:] = state["last"]
        self._jacobian = state["jacobian"] if state["has_jacobian"] else None

    def advance(self, stage: StageProblem, c: Floats) -> SolverReport:
        """Minimise H over a stage; write the coordinates (k,) and set `x`."""
        self._set_springs(stage)
        before = self.x[self._interior] - self.key[self._interior]
        self._rig.set_key(stage.pose)
        counts = {"iterations": 0, "jacobians": 0, "rollbacks": 0}
        self._rig.move(self._last, jacobian=False)
        start = self._rig.positions.copy()
        start[self._interior] = self.key[self._interior] + before
        if (
            self._jacobian is None
            or not self._deferred
            or self._predicts_nonlinearity(stage, start)
        ):
            self._renew_jacobian(counts)
        c[:] = self._solved(stage, start, counts)
        if (
            self._deferred
            and not counts["jacobians"]
            and self._nonlinear_energy(stage, start, c) > self._most
        ):
            counts["rollbacks"] = 1
            self._renew_jacobian(counts)
            c[:] = self._solved(stage, start, counts)
        self._rig.move(c, jacobian=False)
        inner = self.x[self._interior].copy()
        self.x[:] = self._rig.positions
        self.x[self._interior] = inner
        self._method.settle(self.x, self.key)
        self._last_but_one[:], self._last[:] = self._last, c
        return SolverReport(counts)

    def _renew_jacobian(self, counts: dict[str, int]) -> None:
        self._rig.move(self._last)
        self._jacobian = self._rig.jacobian.copy()
        counts["jacobians"] += 1

    def _predicts_nonlinearity(self, stage: StageProblem, start: Floats) -> bool:
        """Return whether the rig will be too nonlinear at the predicted parameters."""
        if self._predictor is None:
            return False
        change = self._last - self._last_but_one
        if self._predictor == "printed":
            change /= stage.tau
        return self._nonlinear_energy(stage, start, self._last + change) > self._most

    def _nonlinear_energy(self, stage: StageProblem, start: Floats, c: Floats) -> float:
        """Return ΔE = 1/(2h²) dᵀMd of surface vertices, with d the linearisation error (eq. 7)."""
        assert self._jacobian is not None
        linear = start + self._jacobian @ (c - self._last)
        self._rig.move(c, jacobian=False)
        difference = (linear - self._rig.positions)[self._outer].ravel()
        mass = self._masses.reshape(-1, 3)[self._outer].ravel()
        return 0.5 / stage.tau**2 * float(difference @ (mass * difference))

    def _solved(self, stage: StageProblem, start: Floats, counts: dict[str, int]) -> Floats:
        """Return the parameters that minimise H with the rig linearised at `start`."""
        assert self._jacobian is not None
        lower, upper = bounds_away(stage, self._entries, self.size)
        c, system = self._last.copy(), BoundedSystem(self.size)
        np.clip(c, lower, upper, out=c)
        J, x = self._jacobian, self.x
        x[self._interior] = start[self._interior]
        self._place_linear(start, c)
        energy = self._value(stage, c)
        for _ in range(LINEAR_ITERATIONS):
            counts["iterations"] += 1
            columns = self._method.columns(x, self.key, J)
            gradient, hessian = self._derivatives(stage, c, columns)
            system.renew()
            if not system.solve(gradient, hessian, c, lower, upper):
                break
            change = system.change
            length, previous = 1.0, c.copy()
            for _ in range(6):
                c = previous + length * change
                self._place_linear(start, c)
                trial = self._value(stage, c)
                if trial <= energy + 1e-12 * abs(energy):
                    break
                length *= 0.5
            energy = trial
            if length * np.abs(columns @ change).max() < self._length:
                break
        return c

    def _place_linear(self, start: Floats, c: Floats) -> None:
        assert self._jacobian is not None
        positions = start + self._jacobian @ (c - self._last)
        self.x[self._outer] = positions[self._outer]
        self._method.settle(self.x, self.key)

    def _value(self, stage: StageProblem, c: Floats) -> float:
        """Return H(c), in J."""
        total = self._flesh_value(stage, c)
        d, extra, m = c - stage.start, c - stage.guess, self._matrices
        total += 0.5 * float(c @ m.springs @ c + d @ m.damping @ d + extra @ m.inertia @ extra)
        return total

    def _derivatives(
        self, stage: StageProblem, c: Floats, columns: Floats
    ) -> tuple[Floats, Floats]:
        difference = (self.x - stage.target).reshape(-1)
        stiff, rate = stage.springs.stiffness, 1 / stage.tau**2
        force = rate * self._masses * difference - stage.load.reshape(-1)
        force += stiff * self._body.force(self.x, self.key).reshape(-1)
        Y, m = columns.reshape(-1, self.size), self._matrices
        system: sp.csr_array = self._body.stiffness(self.x, self.key, psd=True)
        hessian = stiff * (Y.T @ (system @ Y)) + rate * (Y.T @ (self._masses[:, None] * Y))
        hessian += m.springs + m.damping + m.inertia
        gradient = Y.T @ force - stage.push + m.springs @ c
        gradient += m.damping @ (c - stage.start) + m.inertia @ (c - stage.guess)
        return gradient, np.ascontiguousarray(0.5 * (hessian + hessian.T))
