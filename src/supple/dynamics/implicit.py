"""Nonlinear equation inside an implicit step, and Newton's method for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from supple.arrays import Floats
from supple.elastic.body import ElasticBody, HexBody
from supple.elastic.equilibrium import line_search
from supple.errors import SolverError
from supple.linalg.cholesky import SparseCholesky
from supple.linalg.sparse import PrincipalSubmatrix

#: A factorised matrix is reused in the next iteration of a step while changes shrink at least by
#: this factor.
SHRINKS = 0.25


@dataclass
class StepReport:
    """Report of one step.

    Attributes
    ----------
    iterations
        Newton iterations.
    converged
        Whether the last iteration moved no vertex by more than the tolerance; with a single
        iteration this is rare.
    seconds
        Computing time in s of ``assembly``, ``factorise`` and ``solve``.
    time
        Seconds since the reset, at the end of the step.
    limits
        Names of the limits that were applied, for characters ``"rest"``, ``"acceleration"`` and
        ``"teleport"``; see `PoseSpaceStep`.
    """

    iterations: int = 0
    converged: bool = False
    seconds: dict[str, float] = field(
        default_factory=lambda: {"assembly": 0.0, "factorise": 0.0, "solve": 0.0}
    )
    time: float = 0.0
    limits: tuple[str, ...] = ()

    @property
    def readings(self) -> dict[str, Any]:
        """Results of the step: Newton ``"iterations"``, and whether they ``"converged"``."""
        return {"iterations": self.iterations, "converged": self.converged}

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        """Add the time of the ``with`` block to ``seconds[part]``."""
        began = perf_counter()
        try:
            yield
        finally:
            self.seconds[part] += perf_counter() - began


@dataclass
class StageProblem:
    """Equation M (w − v) + τ (D w + f(Φ + u + τw) − f_ext) = 0 for the velocity w. Its left side is
    the gradient of `potential`, because D = αM + βK is taken at the state the step starts from:
    ½(w−v)ᵀM(w−v) + ½τ wᵀDw + W − f_extᵀ(u + τw).
    """

    body: ElasticBody | HexBody
    mass: sp.csr_array
    alpha: float
    u: Floats
    v: Floats
    tau: float
    rest: Floats
    external: Floats
    #: βK at the start of the step; None without stiffness damping.
    damping: sp.csr_array | None = None

    def positions(self, w: Floats) -> Floats:
        """Return the positions Φ + u + τw, (n, 3), for a velocity w."""
        return self.rest + self.u + self.tau * w

    def damp(self, w: Floats) -> Floats:
        """Return the damping force D w, (n, 3), of a velocity w."""
        force = self.alpha * (self.mass @ w.reshape(-1))
        if self.damping is not None:
            force += self.damping @ w.reshape(-1)
        return force.reshape(w.shape)

    def gradient(self, w: Floats) -> Floats:
        """Return M (w − v) + τ (D w + f − f_ext), (n, 3)."""
        inertia = (self.mass @ (w - self.v).reshape(-1)).reshape(w.shape)
        force = self.body.force(self.positions(w), self.rest)
        return inertia + self.tau * (self.damp(w) + force - self.external)

    def potential(self, w: Floats) -> float:
        """Return ½(w−v)ᵀM(w−v) + ½τ wᵀDw + W − f_extᵀ(u + τw), which the step minimises."""
        change = (w - self.v).reshape(-1)
        return (
            0.5 * float(change @ (self.mass @ change))
            + 0.5 * self.tau * float(np.vdot(w, self.damp(w)))
            + self.body.energy(self.positions(w), self.rest)
            - float(np.vdot(self.external, self.u + self.tau * w))
        )

    def potential_along(self, w: Floats, change: Floats, length: float) -> float:
        """Return `potential` at w + length · change; inf or nan where it overflows."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self.potential(w + length * change)


class ImplicitSolver:
    """Newton's method on the `free` unknowns, with one symbolic factorisation for all steps.
    `newton` limits iterations; they end when no vertex moves by more than `tolerance`, m. With
    `psd` element stiffness is projected always, not only when the system is not positive definite.
    """

    def __init__(
        self,
        body: ElasticBody | HexBody,
        mass: sp.csr_array,
        free: NDArray[np.int64],
        *,
        alpha: float,
        beta: float,
        newton: int,
        tolerance: float,
        psd: bool,
    ) -> None:
        self.body, self.mass, self.free = body, mass, free
        self.alpha, self.beta = alpha, beta
        #: Body whose stiffness damps, times β; by default `body`.
        self.damping_body: ElasticBody | None = None
        self.newton, self.tolerance, self.psd = newton, tolerance, psd
        self._matrix = body.pattern.zeros()  # not the body's: threads may share it
        self._mass_values = _values_in(self._matrix, mass)
        self._values, self._term = np.empty((2, self._matrix.nnz))  # reused
        self._part = PrincipalSubmatrix(self._matrix, free)
        self._cholesky = SparseCholesky(self._part.pattern, block=3)

    def solve(self, problem: StageProblem, start: Floats, report: StepReport) -> Floats:
        """Return the velocity at the end of the stage; Newton's method begins at velocity `start`.
        A factorised matrix is kept for the next iteration while changes shrink to a quarter.
        """
        self._set_damping(problem, problem.positions(start), report)
        w, energy, before, anew = start, None, np.inf, True
        for iteration in range(self.newton):
            how = anew, iteration == 0
            change, length, energy = self._iterate(problem, w, energy, how, report)
            report.converged = self._is_small(problem, change)
            # Where changes are below the rounding of the energy, the iteration has converged.
            if length == 0.0 and not report.converged:
                raise SolverError(
                    "no Newton step lowers the energy; use a smaller dt, or smaller forces"
                )
            w = w + length * change
            report.iterations += 1
            if report.converged:
                break
            size = float(np.abs(change).max())
            anew, before = length < 1 or size > SHRINKS * before, size
        return w

    def _is_small(self, problem: StageProblem, change: Floats) -> bool:
        return bool(np.abs(change).max() * problem.tau <= self.tolerance)

    def _iterate(
        self,
        problem: StageProblem,
        w: Floats,
        energy: float | None,
        how: tuple[bool, bool],
        report: StepReport,
    ) -> tuple[Floats, float, float | None]:
        """Return the Newton step in velocity, the step length along it, and the energy there.

        `how` are two flags: whether the matrix is assembled again, and whether `_set_damping` has
        assembled it at w. A kept matrix that gives no descent is replaced by the exact one, and
        that by a projected one.
        """
        anew, assembled = how
        with report.timed("assembly"):
            gradient = problem.gradient(w)
        change, made = np.zeros_like(w), (True,) if self.psd else (False, True)
        for psd in made if anew else (None, *made):
            if psd is not None and not self._factorise(problem, w, psd, assembled, report):
                continue
            with report.timed("solve"):
                change = self._scattered(self._cholesky.solve(-gradient.reshape(-1)[self.free]))
            if self.newton == 1 or self._is_small(problem, change):
                return change, 1.0, energy
            with report.timed("assembly"):
                energy = problem.potential(w) if energy is None else energy
                along = partial(problem.potential_along, w, change)
                length, energy_there = line_search(along, energy, float(np.vdot(gradient, change)))
            if length > 0:
                return change, length, energy_there
        return change, 0.0, energy

    def acceleration(self, problem: StageProblem) -> Floats:
        """Return accelerations M⁻¹ (f_ext − f − Dv), (n, 3), at the start of the stage."""
        x = problem.rest + problem.u
        self._set_damping(problem, x, StepReport())
        force = problem.external - self.body.force(x, problem.rest) - problem.damp(problem.v)
        self._cholesky.factorise(self._part.take(self._mass_values))
        return self._scattered(self._cholesky.solve(force.reshape(-1)[self.free]))

    def _set_damping(self, problem: StageProblem, x: Floats, report: StepReport) -> None:
        if self.beta > 0:  # projected, so that damping never adds energy
            with report.timed("assembly"):
                body = self.damping_body or self.body
                stiffness = body.stiffness(x, problem.rest, psd=True, out=self._matrix)
                problem.damping = self.beta * stiffness

    def _factorise(
        self, problem: StageProblem, w: Floats, psd: bool, assembled: bool, report: StepReport
    ) -> bool:
        """Factorise the system at a velocity; return False if it is not positive definite."""
        with report.timed("assembly"):
            system = self._system(problem, w, psd, assembled)
        if not np.isfinite(system).all():
            raise SolverError("forces are no longer finite; use a smaller dt")
        with report.timed("factorise"):
            try:
                self._cholesky.factorise(system)
            except SolverError:
                if psd:
                    raise SolverError(
                        "the system is not positive definite; use a smaller dt, or a mesh without "
                        "flat elements"
                    ) from None
                return False
        return True

    def _system(self, problem: StageProblem, w: Floats, psd: bool, assembled: bool) -> Floats:
        """Return the values of M + τD + τ²K among the free unknowns."""
        stiffness = self._matrix
        # `_set_damping` has just assembled the projected stiffness at the same positions.
        same = assembled and self.newton > 1 and self.damping_body is None
        if not (same and problem.damping is not None):
            x = problem.positions(w)
            stiffness = self.body.stiffness(x, problem.rest, psd=psd, out=self._matrix)
        values, term = self._values, self._term
        np.multiply(self._mass_values, 1 + problem.tau * self.alpha, out=values)
        values += np.multiply(stiffness.data, problem.tau**2, out=term)
        if problem.damping is not None:
            values += np.multiply(problem.damping.data, problem.tau, out=term)
        return self._part.take(values)

    def _scattered(self, free_values: Floats) -> Floats:
        """Return a field (n, 3) with these values at the free unknowns, zero elsewhere."""
        field = np.zeros(3 * self.body.n_vertices)
        field[self.free] = free_values
        return field.reshape(-1, 3)


def _values_in(pattern: sp.csr_array, matrix: sp.csr_array) -> Floats:
    """Return the values of `matrix` at the entries of `pattern`, which has all its entries."""

    def keys(a: sp.csr_array) -> NDArray[np.int64]:
        rows = np.repeat(np.arange(a.shape[0], dtype=np.int64), np.diff(a.indptr))
        return rows * a.shape[1] + a.indices

    values = np.zeros(pattern.nnz)
    values[np.searchsorted(keys(pattern), keys(matrix))] = matrix.data
    return values
