"""The unreduced simulator: every vertex free, the truth that reduced ones are compared with.

M ü + D u̇ + f(Φ + u, Φ) = f_ext − M Φ̈, with u the displacement away from the current rest
shape Φ (xu2016 §4.2) and D = αM + βK. Fixed vertices follow the rest shape.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.checks import checked_array
from supple.dynamics.integrators import INTEGRATORS, advance
from supple.dynamics.stage import ImplicitSolver, StageProblem, StepReport
from supple.elastic.body import ElasticBody
from supple.elastic.equilibrium import free_unknowns
from supple.errors import SolverError, SuppleError

__all__ = ["FullSimulator"]

Floats = NDArray[np.float64]
Forces = ArrayLike | Mapping[int, ArrayLike]


class FullSimulator:
    """Steps an elastic body through time.

    Parameters
    ----------
    body
        What to simulate.
    dt
        Time step in s.
    fixed
        Vertices that follow the rest shape.
    integrator
        ``"backward-euler"`` (loses energy, never gains it), ``"newmark"`` (keeps energy) or
        ``"midpoint"`` (keeps linear and angular momentum to rounding).
    newton
        Most Newton iterations per step. One is the papers' choice for real time; for truth
        give 20, which end as soon as `tolerance` is reached.
    tolerance
        Newton ends when an iteration moves no vertex farther than this fraction of the
        body's size.
    alpha, beta
        Rayleigh damping D = αM + βK, in 1/s and s.
    gravity
        In m/s².
    psd
        Project element stiffness to positive semi-definite in every iteration. By default only
        an iteration whose matrix is not positive definite does, and Newton stays quadratic.
    lumped
        Diagonal mass matrix, rather than the consistent one.

    Attributes
    ----------
    unconverged_steps
        Steps since `reset` whose last Newton iteration still moved a vertex by more than the
        tolerance. What is to serve as truth should have none.

    Notes
    -----
    Φ̈ is taken from the last three rest shapes, as in the papers, so with a rest shape that
    accelerates all three integrators are of first order; with one that rests, Newmark and
    midpoint are of second. Simulators in several threads may share a body.

    Examples
    --------
    >>> from supple.elastic import ElasticBody
    >>> from supple.scenes import beam
    >>> simulator = FullSimulator(ElasticBody(beam(cells=(4, 1, 1))), fixed=[0, 1, 2, 3])
    >>> simulator.step().iterations
    1
    >>> bool(simulator.positions[-1, 1] < simulator.body.rest[-1, 1])  # it falls
    True
    """

    def __init__(
        self,
        body: ElasticBody,
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
        if integrator not in INTEGRATORS:
            raise SuppleError(f"no integrator {integrator!r}; there are {', '.join(INTEGRATORS)}")
        numbers = {"dt": dt, "alpha": alpha, "beta": beta, "tolerance": tolerance}
        for name, value in numbers.items():
            numbers[name] = float(checked_array(name, value, ()))
            if numbers[name] < 0 or (name == "dt" and not 1e-12 <= numbers[name] <= 1e9):
                raise SuppleError(f"{name} must be a positive number, not {value}")
        if newton != int(newton) or newton < 1:
            raise SuppleError(f"newton must be a whole number of at least 1, not {newton}")
        self.body, self.dt, self.integrator = body, numbers["dt"], integrator
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

    def reset(
        self,
        *,
        rest: ArrayLike | None = None,
        rest_before: ArrayLike | None = None,
        positions: ArrayLike | None = None,
        velocities: ArrayLike | None = None,
    ) -> None:
        """Start anew: by default in the rest shape, moving as it does.

        Parameters
        ----------
        rest
            Current rest shape, (n, 3); by default the mesh.
        rest_before
            Rest shape one step earlier, which tells how fast it moves; by default it does not.
        positions, velocities
            (n, 3), of the free vertices; fixed ones follow the rest shape regardless.
        """
        shape = self.body.rest.shape
        now = checked_array("rest shape", self.body.rest if rest is None else rest, shape).copy()
        before = checked_array(
            "earlier rest shape", now if rest_before is None else rest_before, shape
        )
        self.body.energy(now, now)  # refuses a rest shape with inverted tets
        carried = (now - before) / self.dt
        x = checked_array("positions", now if positions is None else positions, shape)
        v = checked_array("velocities", carried if velocities is None else velocities, shape)
        u, v = self._only_free(x - now), self._only_free(v - carried)
        a = np.zeros(shape)
        if self.integrator == "newmark":  # the only one that looks back at accelerations
            a = self._solver.acceleration(self._problem(u, v, self.dt, now, self._external(None)))
        # Only now, when nothing can fail any more, does the state change.
        self.rest, self._rest_before = now, before.copy()
        self._u, self._v, self._a = u, v, a
        self.time, self.unconverged_steps = 0.0, 0

    @property
    def positions(self) -> Floats:
        """Current positions, (n, 3)."""
        return self.rest + self._u

    @property
    def velocities(self) -> Floats:
        """Current velocities, (n, 3), that of the rest shape included."""
        return self._v + (self.rest - self._rest_before) / self.dt

    @property
    def accelerations(self) -> Floats:
        """Latest accelerations relative to the rest shape, (n, 3), which Newmark builds on."""
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
            When the state would no longer be finite; it is then left as it was.
        """
        shape = self.body.rest.shape
        new_rest = self.rest if rest is None else checked_array("rest shape", rest, shape).copy()
        external = self._external(forces)
        moved = new_rest - 2 * self.rest + self._rest_before
        external -= (self.mass @ moved.reshape(-1)).reshape(shape) / self.dt**2
        stage_rest = 0.5 * (new_rest + self.rest) if self.integrator == "midpoint" else new_rest
        report = StepReport()

        def stage(u: Floats, v: Floats, tau: float) -> tuple[Floats, Floats]:
            problem = self._problem(u, v, tau, stage_rest, external)
            # Starting where nothing has moved makes a single iteration the papers' step:
            # (M + hD + h²K) v⁺ = M v + h (f_ext − f).
            velocity = self._solver.solve(problem, (self._u - u) / tau, report)
            return u + tau * velocity, velocity

        u, v, a = advance(self.integrator, stage, self._u, self._v, self._a, self.dt)
        if not (np.isfinite(u).all() and np.isfinite(v).all()):
            raise SolverError(
                f"the simulation diverges at {self.time:.3f} s; use a smaller dt, smaller forces "
                "or more Newton iterations"
            )
        self._u, self._v, self._a = u, v, a
        self._rest_before, self.rest = self.rest, new_rest
        self.unconverged_steps += not report.converged
        self.time += self.dt
        return report

    def energies(self) -> dict[str, float]:
        """Kinetic, elastic and gravitational energy, and their sum, in J."""
        velocities, positions = self.velocities.reshape(-1), self.positions
        parts = {
            "kinetic": 0.5 * float(velocities @ (self.mass @ velocities)),
            "elastic": self.body.energy(positions, self.rest),
            "gravity": -float(np.vdot(self._weight(), positions)),
        }
        return parts | {"total": sum(parts.values())}

    def momentum(self) -> tuple[Floats, Floats]:
        """Linear momentum, and angular momentum about the origin."""
        momenta = (self.mass @ self.velocities.reshape(-1)).reshape(-1, 3)
        return momenta.sum(axis=0), np.cross(self.positions, momenta).sum(axis=0)

    def _problem(
        self, u: Floats, v: Floats, tau: float, rest: Floats, external: Floats
    ) -> StageProblem:
        return StageProblem(self.body, self.mass, self._solver.alpha, u, v, tau, rest, external)

    def _weight(self) -> Floats:
        everywhere = np.tile(self.gravity, self.body.n_vertices)
        return (self.mass @ everywhere).reshape(-1, 3)

    def _external(self, forces: Forces | None) -> Floats:
        external = self._weight()
        if forces is None:
            return external
        if isinstance(forces, Mapping):
            for vertex, force in forces.items():
                if not (isinstance(vertex, int | np.integer) and 0 <= vertex < len(external)):
                    raise SuppleError(
                        f"force on vertex {vertex}, which is not there; the body has vertices "
                        f"0 to {len(external) - 1}"
                    )
                external[vertex] += checked_array(f"force on vertex {vertex}", force, (3,))
            return external
        return external + checked_array("forces", forces, external.shape)

    def _only_free(self, field: Floats) -> Floats:
        kept = np.zeros(field.size)
        kept[self._free] = field.reshape(-1)[self._free]
        return kept.reshape(field.shape)
