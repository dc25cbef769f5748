"""Unreduced simulation of an elastic body: all vertices are unknowns.

M ü + D u̇ + f(Φ + u, Φ) = f_ext − M Φ̈, with u the displacement away from the current rest
shape Φ (xu2016 §4.2) and D = αM + βK. Fixed vertices follow the rest shape.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats
from supple.checks import checked_array, shown
from supple.dynamics.character_inputs import vertex_forces
from supple.dynamics.implicit import ImplicitSolver, StageProblem, StepReport
from supple.dynamics.integrators import StepStart, integrator_named
from supple.elastic.body import ElasticBody, HexBody
from supple.elastic.equilibrium import free_unknowns
from supple.errors import SolverError, SuppleError

Forces = ArrayLike | Mapping[int, ArrayLike]


class FullBodySimulator:
    """Simulator of all vertices of an elastic body; `supple.FullSimulator` makes one of a body.

    Parameters
    ----------
    body
        Tets or hexahedra, and their material.
    dt
        Time step in s.
    fixed
        Vertices that follow the rest shape.
    integrator
        ``"backward-euler"`` (loses energy), ``"newmark"`` (keeps energy),
        ``"midpoint"`` (keeps linear and angular momentum to rounding) or ``"bdf2"`` (second
        order, and damps motion that the step cannot resolve); any row of
        `supple.dynamics.integrators.INTEGRATORS`.
    newton
        Largest number of Newton iterations per step. One is the papers' choice for real time, and
        does not bound the energy; for reference solutions use 20, which end at `tolerance`.
    tolerance
        Newton's method ends when an iteration moves no vertex by more than this fraction of the
        body's size.
    alpha, beta
        Rayleigh damping D = αM + βK, in 1/s and s.
    gravity
        In m/s².
    psd
        Project element stiffness to positive semi-definite in every iteration. By default this is
        done only if the matrix is not positive definite, so that convergence is quadratic.
    lumped
        Diagonal mass matrix, rather than the consistent one.

    Attributes
    ----------
    unconverged_steps
        Steps since `reset` whose last Newton iteration still moved a vertex by more than the
        tolerance. A reference solution should have none.

    Notes
    -----
    Φ̈ is the difference of the last three rest shapes, as in the papers: with an accelerating rest
    shape all integrators are of first order; with one at rest, Newmark, midpoint and BDF2 are of
    second order. Simulators in several threads may share a body.

    Examples
    --------
    >>> from supple.elastic import ElasticBody
    >>> from supple.scenes import beam
    >>> simulator = FullBodySimulator(ElasticBody(beam(cells=(4, 1, 1))), fixed=[0, 1, 2, 3])
    >>> simulator.step().iterations
    1
    >>> bool(simulator.positions[-1, 1] < simulator.body.rest[-1, 1])  # it falls
    True
    """

    #: Steps of time between two poses; see `FullCharacterSimulator`.
    substeps = 1

    def __init__(
        self,
        body: ElasticBody | HexBody,
        dt: float = 1 / 90,
        *,
        fixed: ArrayLike = (),
        integrator: str = "backward-euler",
        newton: int = 1,
        tolerance: float = 1e-9,
        alpha: float = 0.0,
        beta: float = 0.0,
        gravity: ArrayLike = (0.0, -9.81, 0.0),
        psd: bool = False,
        lumped: bool = True,
    ) -> None:
        if not isinstance(body, ElasticBody | HexBody):
            raise SuppleError(
                "a FullSimulator needs an ElasticBody, a HexBody or a character's model, "
                f"not {shown(body)}"
            )
        self._method = integrator_named(integrator)
        numbers = {"alpha": alpha, "beta": beta, "tolerance": tolerance}
        for name, value in numbers.items():
            numbers[name] = float(checked_array(name, value, ()))
            if numbers[name] < 0:
                raise SuppleError(f"{name} must be at least 0, not {value}")
        if newton != int(newton) or newton < 1:
            raise SuppleError(f"newton must be a whole number of at least 1, not {newton}")
        self.body, self._dt = body, _checked_step(dt)
        self.mass = body.mass(lumped)
        self.gravity = checked_array("gravity", gravity, (3,))
        self._free = free_unknowns(body, fixed)
        self._solver = ImplicitSolver(
            body,
            self.mass,
            self._free,
            alpha=numbers["alpha"],
            beta=numbers["beta"],
            newton=int(newton),
            tolerance=numbers["tolerance"] * body.mesh.size,
            psd=psd,
        )
        self.reset()

    @property
    def dt(self) -> float:
        """Seconds of a step, or from one pose to the next; to be set before `reset`."""
        return self._dt

    @dt.setter
    def dt(self, dt: float) -> None:
        self._dt = _checked_step(dt)

    @property
    def _h(self) -> float:
        """Seconds of a sub-step."""
        return self._dt / self.substeps

    def reset(
        self,
        *,
        rest: ArrayLike | None = None,
        rest_before: ArrayLike | None = None,
        positions: ArrayLike | None = None,
        velocities: ArrayLike | None = None,
    ) -> None:
        """Restart, by default in the rest shape with its velocity.

        Parameters
        ----------
        rest
            Current rest shape, (n, 3); by default the mesh.
        rest_before
            Rest shape one step earlier, which gives its velocity; by default the velocity is zero.
        positions, velocities
            (n, 3), used at the free vertices; fixed vertices follow the rest shape.
        """
        shape = self.body.rest.shape
        now = checked_array("rest shape", self.body.rest if rest is None else rest, shape).copy()
        before = checked_array(
            "earlier rest shape", now if rest_before is None else rest_before, shape
        )
        self.body.energy(now, now)  # refuses a rest shape with inverted tets
        carried = (now - before) / self._h
        x = checked_array("positions", now if positions is None else positions, shape)
        v = checked_array("velocities", carried if velocities is None else velocities, shape)
        u, v = self._only_free(x - now), self._only_free(v - carried)
        a = np.zeros(shape)
        if self._method.uses_acceleration:
            a = self._solver.acceleration(self._problem(u, v, self._h, now, self._external(None)))
        # The state changes only here, after everything that can fail.
        self.rest, self._rest_before = now, before.copy()
        self._u, self._v, self._a = u, v, a
        self._before: tuple[Floats, Floats] | None = None
        self.time, self.unconverged_steps = 0.0, 0

    @property
    def integrator(self) -> str:
        """Name of the integrator, a row of `INTEGRATORS`."""
        return self._method.name

    @property
    def damping(self) -> tuple[float, float]:
        """Rayleigh damping α in 1/s and β in s; may be set between steps."""
        return self._solver.alpha, self._solver.beta

    @damping.setter
    def damping(self, constants: tuple[float, float]) -> None:
        alpha, beta = checked_array("damping", constants, (2,)).tolist()
        if min(alpha, beta) < 0:
            raise SuppleError(f"damping is {min(alpha, beta):g}; it must not be negative")
        self._solver.alpha, self._solver.beta = alpha, beta

    @property
    def positions(self) -> Floats:
        """Current positions, (n, 3)."""
        return self.rest + self._u

    @property
    def velocities(self) -> Floats:
        """Current velocities, (n, 3), with the velocity of the rest shape."""
        return self._v + (self.rest - self._rest_before) / self._h

    @property
    def accelerations(self) -> Floats:
        """Accelerations relative to the rest shape in the last step, (n, 3)."""
        return self._a.copy()

    def step(self, rest: ArrayLike | None = None, forces: Forces | None = None) -> StepReport:
        """Advance by one time step.

        Parameters
        ----------
        rest
            Rest shape at the end of the step, (n, 3); by default it stays.
        forces
            External forces in N: (n, 3), or a mapping of vertices to forces.

        Raises
        ------
        SolverError
            When the state would no longer be finite; it is then unchanged.
        """
        shape = self.body.rest.shape
        new_rest = self.rest if rest is None else checked_array("rest shape", rest, shape).copy()
        delta2 = new_rest - 2 * self.rest + self._rest_before
        return self._advance(new_rest, self._external(forces), delta2)

    def _advance(self, new_rest: Floats, external: Floats, delta2: Floats) -> StepReport:
        """Make one step of `_h`; `delta2` is h²Φ̈, the second difference of rest shapes."""
        external = external - (self.mass @ delta2.reshape(-1)).reshape(delta2.shape) / self._h**2
        stage_rest = self._in_step(self.rest, new_rest)
        report = StepReport()

        def stage(u: Floats, v: Floats, tau: float) -> tuple[Floats, Floats]:
            problem = self._problem(u, v, tau, stage_rest, external)
            # A start at the last positions makes a single iteration the papers' step:
            # (M + hD + h²K) v⁺ = M v + h (f_ext − f).
            # Several iterations need fewer from an extrapolated velocity.
            guess = (self._u - u) / tau if self._solver.newton == 1 else self._v + tau * self._a
            velocity = self._solver.solve(problem, guess, report)
            return u + tau * velocity, velocity

        start = StepStart(self._u, self._v, self._a, self._before)
        u, v, a = self._method.step(stage, start, self._h)
        if not (np.isfinite(u).all() and np.isfinite(v).all()):
            raise SolverError(
                f"the simulation diverges at {self.time:.3f} s; use a smaller dt, smaller forces "
                "or more Newton iterations"
            )
        self._before = (self._u, self._v) if self._method.looks_back else None
        self._u, self._v, self._a = u, v, a
        self._rest_before, self.rest = self.rest, new_rest
        self.unconverged_steps += not report.converged
        self.time += self._h
        report.time = self.time
        return report

    def energies(self) -> dict[str, float]:
        """Return kinetic, elastic and gravitational energy, and their sum, in J."""
        velocities, positions = self.velocities.reshape(-1), self.positions
        parts = {
            "kinetic": 0.5 * float(velocities @ (self.mass @ velocities)),
            "elastic": self.body.energy(positions, self.rest),
            "gravity": -float(np.vdot(self._weight(), positions)),
        }
        return parts | {"total": sum(parts.values())}

    def momentum(self) -> tuple[Floats, Floats]:
        """Return linear momentum in kg m/s and angular momentum about the origin in kg m²/s."""
        momenta = (self.mass @ self.velocities.reshape(-1)).reshape(-1, 3)
        return momenta.sum(axis=0), np.cross(self.positions, momenta).sum(axis=0)

    def _problem(
        self, u: Floats, v: Floats, tau: float, rest: Floats, external: Floats
    ) -> StageProblem:
        return StageProblem(self.body, self.mass, self._solver.alpha, u, v, tau, rest, external)

    def _weight(self) -> Floats:
        accelerations = np.tile(self.gravity, self.body.n_vertices)
        return (self.mass @ accelerations).reshape(-1, 3)

    def _external(self, forces: Forces | None) -> Floats:
        external = self._weight()
        if forces is None:
            return external
        if isinstance(forces, Mapping):
            vertices, acting = vertex_forces(forces, len(external), "the body")
            external[vertices] += acting
            return external
        return external + checked_array("forces", forces, external.shape)

    def _in_step(self, start: Floats, end: Floats) -> Floats:
        """Return a field at the time within the step at which the integrator evaluates it."""
        part = self._method.forces_at
        return end if part == 1 else (1 - part) * start + part * end

    def _only_free(self, field: Floats) -> Floats:
        values = np.zeros(field.size)
        values[self._free] = field.reshape(-1)[self._free]
        return values.reshape(field.shape)


def _checked_step(dt: float) -> float:
    step = float(checked_array("dt", dt, ()))
    if not 1e-12 <= step <= 1e9:
        raise SuppleError(f"dt must be a positive number, not {dt}")
    return step
