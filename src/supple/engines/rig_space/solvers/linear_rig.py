"""The paper's solver: a rig linearised within a step, and interiors that follow it.

Keys enter exactly: s ≈ Φ(p_s⁺, p_f) + J Δp_f. Jacobians are new in each step, or deferred.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol

import numpy as np
import scipy.sparse as sp

from supple.arrays import Floats
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
from supple.engines.rig_space.volumetric_skinning import volumetric_skinning
from supple.linalg.cholesky import SparseCholesky
from supple.linalg.sparse import PrincipalSubmatrix

#: Newton iterations of the interior, and the change that ends them as a part of the size.
MOST_ITERATIONS, TOLERANCE = 12, 1e-6
#: Energy in J/kg of the rig's nonlinearity in a step above which the Jacobian is renewed.
MOST_ENERGY = 1e-4
#: Newton iterations a step, and the change that ends them as a part of the size.
MOST_ITERATIONS, TOLERANCE = 10, 1e-6


class Interior(Protocol):
    """Method that places interior vertices, given the others."""

    def settle(self, x: Floats, key: Floats) -> None:
        """Place interior vertices of x (n, 3), from their current positions as initial guess."""

    def columns(self, x: Floats, key: Floats, jacobian: Floats) -> Floats:
        """Return ∂x/∂p (n, 3, k) with the interior following, from that of the rig."""


class StaticInterior:
    """Interior in static equilibrium, q = argmin W(s, q) (hahn2013 eq. 5)."""

    def __init__(self, model: RigSpaceModel) -> None:
        self._body, self._size = model.body, model.mesh.size
        self._free = (3 * model.interior[:, None] + np.arange(3)).ravel()
        self._matrix = self._body.pattern.zeros()
        if len(self._free):
            self._part = PrincipalSubmatrix(self._matrix, self._free)
            self._solver = SparseCholesky(self._part.pattern, block=3)

    def _factorise(self, x: Floats, key: Floats) -> None:
        stiffness = self._body.stiffness(x, key, psd=True, out=self._matrix)
        data = self._part.take(stiffness.data).copy()
        self._solver.factorise(data)

    def settle(self, x: Floats, key: Floats) -> None:
        """Place interior vertices of x (n, 3) in equilibrium, by Newton's method."""
        if not len(self._free):
            return
        flat, energy = x.reshape(-1), self._body.energy(x, key)
        for _ in range(MOST_ITERATIONS):
            force = self._body.force(x, key).reshape(-1)[self._free]
            self._factorise(x, key)
            change, before, length = self._solver.solve(-force), flat[self._free].copy(), 1.0
            for _ in range(8):
                flat[self._free] = before + length * change
                trial = self._body.energy(x, key)
                if trial <= energy * (1 + 1e-12) + 1e-300:
                    break
                length *= 0.5
            energy = trial
            if length * np.abs(change).max() < TOLERANCE * self._size:
                break

    def columns(self, x: Floats, key: Floats, jacobian: Floats) -> Floats:
        """Return Y = [∂s/∂p; −K_QQ⁻¹ K_QS ∂s/∂p]."""
        columns = jacobian.copy()
        if len(self._free):
            self._factorise(x, key)
            flat = columns.reshape(-1, columns.shape[2])
            flat[self._free] = 0.0
            pull = np.ascontiguousarray((self._matrix @ flat)[self._free])
            flat[self._free] = -self._solver.solve(pull)
        return columns


class SkinnedInterior:
    """Interior skinned to the surface, q = W s, by Algorithm 1.

    `offset` adds the error of W at rest. The paper does not: its rest shape may have inverted tets,
    as neighbours need not surround the vertex that they carry.
    """

    def __init__(self, model: RigSpaceModel, *, offset: bool = False) -> None:
        skin = volumetric_skinning(model)
        self._surface, self._interior, self._weights = skin.surface, skin.interior, skin.weights
        rest = model.mesh.vertices
        missed = rest[self._interior] - self._weights @ rest[self._surface]
        self._offset = missed if offset else np.zeros_like(missed)

    def settle(self, x: Floats, key: Floats) -> None:
        """Place interior vertices of x (n, 3) at W s."""
        x[self._interior] = self._weights @ x[self._surface] + self._offset

    def columns(self, x: Floats, key: Floats, jacobian: Floats) -> Floats:
        """Return Y = [∂s/∂p; W ∂s/∂p]."""
        columns = jacobian.copy()
        flat = columns.reshape(len(columns), -1)
        flat[self._interior] = self._weights @ flat[self._surface]
        return columns


class LinearRigSolver:
    """Newton's method on the free parameters, with a linearised rig, iterated until convergence.

    The interior is ``"static"`` (IV1), ``"skinned"`` (IV2), or ``"skinned-offset"``: IV2 with a
    correct rest shape. With `deferred`, Jacobians are kept while the rig is nearly linear (JE2); a
    step with too large an error is repeated with a new one. The predictor of the nonlinearity saves
    most of these repetitions: ``"ahead"`` by p̃ = 2p_n − p_{n−1}; ``"printed"`` by p_n + (p_n −
    p_{n−1})/h as in the paper, which is a hundred steps too far; None for none. `differences`
    selects Jacobians by finite differences, as in the paper.
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
    ) -> None:
        self._rig = FleshRig(model.tet_rig, model.entries, model.held, differences=differences)
        self._body, self._entries = model.body, model.entries
        self.vertices = np.arange(len(model.mesh.vertices))
        self.size = len(model.entries)
        self._deferred, self._predictor = deferred, predictor
        self._interior: Interior = (
            StaticInterior(model)
            if interior == "static"
            else SkinnedInterior(model, offset=interior == "skinned-offset")
        )
        self._outer = np.ones(len(model.mesh.vertices), bool)
        self._outer[model.interior] = False
        self._inner = model.interior
        self._masses = np.repeat(self._body.vertex_masses(), 3)
        self._most = MOST_ENERGY * float(self._masses.sum() / 3)
        self._length = TOLERANCE * model.mesh.size
        k = self.size
        rest = model.condensed.mass[:k, :k].copy(), model.condensed.stiffness[:k, :k].copy()
        self._matrices = SpringMatrices(*rest, model.skin, k)
        self._settings: tuple[Springs, float] | None = None
        self.x = model.mesh.vertices.copy()
        self._jacobian: Floats | None = None
        self._last, self._last_but_one = np.zeros((2, k))

    @property
    def key(self) -> Floats:
        """(n, 3) flesh at the key pose."""
        return self._rig.key

    def place(self, pose: Floats, c: Floats) -> None:
        """Set `x` at a key pose and coordinates (k,)."""
        self._rig.set_key(pose)
        self._rig.move(c, jacobian=False)
        self.x[:] = self._rig.positions
        self._interior.settle(self.x, self.key)
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
        if self._settings is None or self._settings != (stage.springs, stage.tau):
            self._matrices.set(stage.springs, stage.tau)
            self._settings = stage.springs, stage.tau
        before = self.x[self._inner] - self.key[self._inner]
        self._rig.set_key(stage.pose)
        counts = {"iterations": 0, "jacobians": 0, "rollbacks": 0}
        self._rig.move(self._last, jacobian=False)
        start = self._rig.positions.copy()
        start[self._inner] = self.key[self._inner] + before
        if self._jacobian is None or not self._deferred or self._will_bend(stage, start):
            self._renew(counts)
        c[:] = self._solved(stage, start, counts)
        if self._deferred and not counts["jacobians"] and self._bent(stage, start, c) > self._most:
            counts["rollbacks"] = 1
            self._renew(counts)
            c[:] = self._solved(stage, start, counts)
        self._rig.move(c, jacobian=False)
        inner = self.x[self._inner].copy()
        self.x[:] = self._rig.positions
        self.x[self._inner] = inner
        self._interior.settle(self.x, self.key)
        self._last_but_one[:], self._last[:] = self._last, c
        return SolverReport(counts)

    def _renew(self, counts: dict[str, int]) -> None:
        self._rig.move(self._last)
        self._jacobian = self._rig.jacobian.copy()
        counts["jacobians"] += 1

    def _will_bend(self, stage: StageProblem, start: Floats) -> bool:
        """Return whether the rig will be too nonlinear at the predicted parameters."""
        if self._predictor is None:
            return False
        change = self._last - self._last_but_one
        if self._predictor == "printed":
            change /= stage.tau
        return self._bent(stage, start, self._last + change) > self._most

    def _bent(self, stage: StageProblem, start: Floats, c: Floats) -> float:
        """Return ΔE = 1/(2h²) dᵀMd of surface vertices, with d the linearisation error (eq. 7)."""
        assert self._jacobian is not None
        linear = start + self._jacobian @ (c - self._last)
        self._rig.move(c, jacobian=False)
        away = (linear - self._rig.positions)[self._outer].ravel()
        mass = self._masses.reshape(-1, 3)[self._outer].ravel()
        return 0.5 / stage.tau**2 * float(away @ (mass * away))

    def _solved(self, stage: StageProblem, start: Floats, counts: dict[str, int]) -> Floats:
        """Return the parameters that minimise H with the rig linearised at `start`."""
        assert self._jacobian is not None
        lower, upper = bounds_away(stage, self._entries, self.size)
        c, system = self._last.copy(), BoundedSystem(self.size)
        np.clip(c, lower, upper, out=c)
        J, x = self._jacobian, self.x
        x[self._inner] = start[self._inner]
        self._place_linear(start, c)
        energy = self._value(stage, c)
        for _ in range(MOST_ITERATIONS):
            counts["iterations"] += 1
            columns = self._interior.columns(x, self.key, J)
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
        moved = start + self._jacobian @ (c - self._last)
        self.x[self._outer] = moved[self._outer]
        self._interior.settle(self.x, self.key)

    def _value(self, stage: StageProblem, c: Floats) -> float:
        """Return H(c), in J."""
        away = (self.x - stage.target).reshape(-1)
        total = 0.5 / stage.tau**2 * float(away @ (self._masses * away))
        total += stage.springs.stiffness * self._body.energy(self.x, self.key)
        total -= float(np.vdot(stage.load, self.x)) + float(stage.push @ c)
        d, extra, m = c - stage.start, c - stage.guess, self._matrices
        total += 0.5 * float(c @ m.springs @ c + d @ m.damping @ d + extra @ m.inertia @ extra)
        return total

    def _derivatives(
        self, stage: StageProblem, c: Floats, columns: Floats
    ) -> tuple[Floats, Floats]:
        away = (self.x - stage.target).reshape(-1)
        stiff, rate = stage.springs.stiffness, 1 / stage.tau**2
        force = rate * self._masses * away - stage.load.reshape(-1)
        force += stiff * self._body.force(self.x, self.key).reshape(-1)
        Y, m = columns.reshape(-1, self.size), self._matrices
        system: sp.csr_array = self._body.stiffness(self.x, self.key, psd=True)
        hessian = stiff * (Y.T @ (system @ Y)) + rate * (Y.T @ (self._masses[:, None] * Y))
        hessian += m.springs + m.damping + m.inertia
        gradient = Y.T @ force - stage.push + m.springs @ c
        gradient += m.damping @ (c - stage.start) + m.inertia @ (c - stage.guess)
        return gradient, np.ascontiguousarray(0.5 * (hessian + hessian.T))
