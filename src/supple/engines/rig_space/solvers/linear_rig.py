"""The paper's solver: a rig that is linear within a step, Jacobians new each step or deferred.

Scripted parameters enter exactly: s ≈ Φ(p_s⁺, p_f) + J Δp_f.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
import scipy.sparse as sp

from supple.arrays import Floats
from supple.engines.rig_space.flesh_rig import FleshRig
from supple.engines.rig_space.model import RigSpaceModel
from supple.engines.rig_space.solvers.bounded_change import BoundedSystem
from supple.engines.rig_space.solvers.condensed import SpringMatrices
from supple.engines.rig_space.solvers.interiors import Interior, SkinnedInterior, StaticInterior
from supple.engines.rig_space.solvers.solver_stage import SolverReport, Springs, Stage, bounds_away

#: Energy of the rig's nonlinearity in a step above which a Jacobian is made anew, in J/kg.
MOST_ENERGY = 1e-4
#: Newton iterations a step, and the change that ends them as a part of the size.
MOST_ITERATIONS, TOLERANCE = 10, 1e-6


class LinearRigSolver:
    """Newton's method on the free parameters, with a linear rig and an interior that follows.

    Parameters
    ----------
    model
        The model.
    iterations
        Not used: Newton goes on to the end.
    interior
        ``"static"`` (IV1), ``"skinned"`` (IV2), ``"skinned-offset"``: that with the rest right.
    deferred
        Keep Jacobians while the rig is nearly linear (JE2), or not (JE1). A step whose result
        shows too large an error is taken again with a new one.
    predictor
        Look whether it will be where parameters are heading, which saves most of those:
        ``"ahead"`` by p̃ = 2p_n − p_{n−1}; ``"printed"`` by p_n + (p_n − p_{n−1})/h, which is what
        the paper has, and a hundred steps too far; None does not.
    differences
        Jacobians by finite differences, as the paper has them.
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
        own = model.condensed.mass[:k, :k].copy(), model.condensed.stiffness[:k, :k].copy()
        self._matrices = SpringMatrices(*own, model.skin, k)
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

    def advance(self, stage: Stage, c: Floats) -> SolverReport:
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

    def _will_bend(self, stage: Stage, start: Floats) -> bool:
        """Tell whether the rig will be too far from linear where parameters are heading."""
        if self._predictor is None:
            return False
        way = self._last - self._last_but_one
        if self._predictor == "printed":
            way /= stage.tau
        return self._bent(stage, start, self._last + way) > self._most

    def _bent(self, stage: Stage, start: Floats, c: Floats) -> float:
        """ΔE = 1/(2h²) dᵀMd of surface vertices, d from the linear rig to the true (eq. 7)."""
        assert self._jacobian is not None
        linear = start + self._jacobian @ (c - self._last)
        self._rig.move(c, jacobian=False)
        away = (linear - self._rig.positions)[self._outer].ravel()
        mass = self._masses.reshape(-1, 3)[self._outer].ravel()
        return 0.5 / stage.tau**2 * float(away @ (mass * away))

    def _solved(self, stage: Stage, start: Floats, counts: dict[str, int]) -> Floats:
        """Return the parameters that minimise H with the rig as it is linear from `start`."""
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
            length, from_here = 1.0, c.copy()
            for _ in range(6):
                c = from_here + length * change
                self._place_linear(start, c)
                found = self._value(stage, c)
                if found <= energy + 1e-12 * abs(energy):
                    break
                length *= 0.5
            energy = found
            if length * np.abs(columns @ change).max() < self._length:
                break
        return c

    def _place_linear(self, start: Floats, c: Floats) -> None:
        assert self._jacobian is not None
        moved = start + self._jacobian @ (c - self._last)
        self.x[self._outer] = moved[self._outer]
        self._interior.settle(self.x, self.key)

    def _value(self, stage: Stage, c: Floats) -> float:
        """H(c), in J."""
        away = (self.x - stage.target).reshape(-1)
        total = 0.5 / stage.tau**2 * float(away @ (self._masses * away))
        total += stage.springs.stiffness * self._body.energy(self.x, self.key)
        total -= float(np.vdot(stage.load, self.x)) + float(stage.push @ c)
        d, extra, m = c - stage.start, c - stage.guess, self._matrices
        total += 0.5 * float(c @ m.springs @ c + d @ m.damping @ d + extra @ m.inertia @ extra)
        return total

    def _derivatives(self, stage: Stage, c: Floats, columns: Floats) -> tuple[Floats, Floats]:
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
