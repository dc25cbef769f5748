"""The equation inside an implicit step of a reduced body, and Newton's method for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from supple.dynamics.stage import StepReport
from supple.dynamics.subspace import Subspace, solve_definite, with_ridge
from supple.elastic.equilibrium import line_search
from supple.errors import SolverError

__all__ = ["SubspaceStage"]

Floats = NDArray[np.float64]


@dataclass
class SubspaceStage:
    """M̃ (w − v) + τ (D̃ w + f̃(q + τw) − f̃_ext) = 0, to be solved for the velocity w.

    As `StageProblem`, with D̃ = αM̃ + βK̃ where Newton starts from.

    Attributes
    ----------
    elastic, moving
        Subspaces that elastic forces are evaluated in, and that the body moves in: one and the
        same but for neutral-pose dynamics.
    mass, external
        (r, r) M̃, and (r,) f̃_ext.
    alpha, beta
        Rayleigh damping.
    iterations, tolerance, psd
        Of Newton's method: most of them, the movement in m that ends them, and whether the first
        one's stiffness, which damping is made of, is projected.
    report
        Where time and iterations are added.
    """

    elastic: Subspace
    moving: Subspace
    mass: Floats
    external: Floats
    alpha: float
    beta: float
    iterations: int
    tolerance: float
    psd: bool
    report: StepReport

    def solve(self, q: Floats, v: Floats, tau: float, start: Floats) -> tuple[Floats, Floats]:
        """Displacement and velocity at the end of the stage; Newton begins at velocity `start`."""
        w = start
        stiffness = self._stiffness(q + tau * w, self.psd)
        damping = self.alpha * self.mass + self.beta * stiffness
        for count in range(self.iterations):
            if count:
                stiffness = self._stiffness(q + tau * w, False)
            with self.report.timed("assembly"):
                force = self.elastic.force(q + tau * w)
            gradient = self.mass @ (w - v) + tau * (damping @ w + force - self.external)
            change = self._change(gradient, damping, stiffness, q + tau * w, tau)
            if self.iterations > 1:
                change = change * self._length(q, v, w, change, gradient, damping, tau)
            w = w + change
            self.report.iterations += 1
            moved = float(np.abs(self.moving.displacement(tau * change)).max())
            self.report.converged = moved <= self.tolerance
            if self.report.converged:
                break
        return q + tau * w, w

    def _stiffness(self, q: Floats, psd: bool) -> Floats:
        with self.report.timed("assembly"):
            self.elastic.assemble(q, psd)
        with self.report.timed("projection"):
            return self.elastic.projected()

    def _change(
        self, gradient: Floats, damping: Floats, stiffness: Floats, at: Floats, tau: float
    ) -> Floats:
        """Newton's, with stiffness projected only where the system is not positive definite."""
        system = self.mass + tau * damping
        with self.report.timed("solve"):
            change = solve_definite(system + tau**2 * stiffness, -gradient)
        if change is None:
            stiffness = self._stiffness(at, True)
            change = solve_definite(with_ridge(system + tau**2 * stiffness), -gradient)
        if change is None:
            raise SolverError("the reduced system is not positive definite; is dt too large?")
        return change

    def _length(
        self,
        q: Floats,
        v: Floats,
        w: Floats,
        change: Floats,
        gradient: Floats,
        damping: Floats,
        tau: float,
    ) -> float:
        """How much of a change lowers what the step minimises."""

        def potential(length: float) -> float:
            at = w + length * change
            return (
                0.5 * float((at - v) @ self.mass @ (at - v))
                + 0.5 * tau * float(at @ damping @ at)
                + self.elastic.energy(q + tau * at)
                - float(self.external @ (q + tau * at))
            )

        with self.report.timed("assembly"), np.errstate(over="ignore", invalid="ignore"):
            length, _ = line_search(potential, potential(0.0), float(gradient @ change))
        if length == 0.0 and self.elastic.is_minute(tau * change):
            return 1.0  # where nothing moves, energies differ by their rounding
        if length == 0.0:
            raise SolverError("no step lowers the energy any more; use a smaller dt")
        return length
