"""The simulator of a Saint Venant–Kirchhoff body that nothing holds: it flies, turns, deforms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from supple.arrays import Floats, Singles
from supple.checks import checked_array, checked_count
from supple.dynamics.root_frame import checked_root
from supple.engines.stvk.free import free_solve as rows
from supple.engines.stvk.free.free_kernels import fly
from supple.engines.stvk.free.free_setup import free_moments, roots_of, surface_loads
from supple.engines.stvk.free.free_solve import SUM_ROWS, evaluate_turning, moment_arrays
from supple.engines.stvk.model import StvkModel
from supple.engines.stvk.rigid_integrals import RigidMoments
from supple.engines.stvk.setup import check_trace, checked_out, coefficient_arrays, tolerance
from supple.engines.stvk.simulator import StvkReadings, StvkStep
from supple.engines.stvk.stvk_step import MASS, padded_pairs
from supple.errors import SolverError, SuppleError
from supple.linalg.upper_triangle import padded_identity
from supple.maths.quaternions import to_matrix
from supple.maths.rotations import from_matrix

__all__ = ["FreeStvkRun", "FreeStvkSimulator", "FreeStvkState"]


# ----------------------------------------------------------------------------
# What a free Saint Venant–Kirchhoff body's state says: where it is, its momenta and energies.


class FreeStvkState(StvkReadings):
    """The readings of `FreeStvkSimulator`, which makes all that is here."""

    model: StvkModel
    _gravity: Floats
    _moments: RigidMoments
    _spin: Floats
    _surface_rest: Singles
    _surface_basis: Singles
    _local: Singles

    @property
    def root(self) -> Floats:
        """Rigid transform (4, 4) from the mesh's frame to the world: x = root (X + U q)."""
        flight = np.concatenate([self._spin[rows.CENTRE, :3], self._spin[rows.TURN]])
        return roots_of(flight[None], self._state[rows.POSITION][None], self._moments)[0]

    @property
    def gravity(self) -> Floats:
        """In m/s², (3,): a copy; another can be set while the body flies."""
        return self._gravity.copy()

    @gravity.setter
    def gravity(self, gravity: ArrayLike) -> None:
        self._gravity[:] = checked_array("gravity", gravity, (3,))

    @property
    def mass(self) -> float:
        """In kg."""
        return self._moments.mass

    @property
    def centre(self) -> Floats:
        """Mass centre in the world, (3,)."""
        return self._spin[rows.CENTRE, :3].copy()

    @property
    def linear_velocity(self) -> Floats:
        """Its velocity, (3,) in m/s."""
        return self._spin[rows.LINEAR, :3] / self._moments.mass

    @property
    def angular_velocity(self) -> Floats:
        """That of the root in the world, (3,) in rad/s."""
        return self._turn() @ self._spin[rows.OMEGA, :3]

    @property
    def linear_momentum(self) -> Floats:
        """Of the whole body, (3,) in kg m/s."""
        return self._spin[rows.LINEAR, :3].copy()

    @property
    def angular_momentum(self) -> Floats:
        """Of the whole body about the world's origin, (3,) in kg m²/s."""
        own = self._spin[rows.ANGULAR, :3]
        return own + np.cross(self._spin[rows.CENTRE, :3], self._spin[rows.LINEAR, :3])

    def energies(self) -> dict[str, float]:
        """Kinetic energy of all motion, elastic energy, that of height, and their sum, in J."""
        moments, q, v = self._moments, self._state[rows.POSITION], self._state[rows.VELOCITY]
        linear, omega = self._spin[rows.LINEAR, :3], self._spin[rows.OMEGA, :3]
        kinetic = linear @ linear / (2 * moments.mass) + v @ moments.shape_mass @ v / 2
        kinetic += omega @ (moments.inertia_at(q) @ omega / 2 + moments.coupling_at(q) @ v)
        found = {
            "kinetic": float(kinetic),
            "elastic": self.model.energy(q),
            "gravity": -moments.mass * float(self._gravity @ self._spin[rows.CENTRE, :3]),
        }
        return found | {"total": sum(found.values())}

    def surface(self, out: Singles | None = None) -> Singles:
        """What is seen, in the world, (n̄, 3) float32: a new array, or `out`."""
        out = checked_out(out, self._surface_rest.shape)
        q = self._state[rows.POSITION].astype(np.float32)
        np.dot(self._surface_basis, q, out=self._local.reshape(-1))
        self._local += self._surface_rest
        np.dot(self._local, self._turn().T.astype(np.float32), out=out)
        out += self._spin[rows.CENTRE, :3].astype(np.float32)
        return out

    def _turn(self) -> Floats:
        """R, (3, 3)."""
        turn = np.empty((3, 3))
        to_matrix(self._spin[rows.TURN], turn)
        return turn


Forces = ArrayLike | Mapping[int, ArrayLike]


class FreeStvkRun(NamedTuple):
    """What many steps left."""

    q: Floats
    """(t, r) after each step."""
    roots: Floats
    """(t, 4, 4) likewise: vertices are at root (X + U q)."""


class FreeStvkSimulator(FreeStvkState):
    """Steps a body at x = c + R (X + U q) through c, R and q, all coupled (barbic2005 App. D).

    Linear and angular momentum change by what acts and by nothing else, to rounding: not by
    damping, nor by an iteration that ends early. `supple.engines.stvk.free.free_kernels` has the
    equations, of which none is simplified.

    Parameters
    ----------
    model
        Built without fixed vertices, in a basis without rigid motions.
    dt
        Time step in s; in one the body should turn by much less than a radian.
    integrator
        Of the deformation: ``"newmark"`` (second order; energy wanders by as much, and does not
        drift) or ``"backward-euler"`` (loses energy of deformation). The rigid motion is of second
        order with both.
    iterations
        How often at most elastic forces are linearised in a step. What is said of energy is said
        of iterations that come to an end (`unconverged_steps` is 0): with one, a body that is
        deformed far loses or gains some.
    dtype
        Of the coefficients: float64, or float32 for half the time and seven digits.
    alpha, beta
        Rayleigh damping of the deformation, in 1/s and s. Rigid motion is not damped.
    gravity
        In m/s².

    Examples
    --------
    >>> import numpy as np
    >>> from supple.elastic import Material
    >>> from supple.engines.stvk.model import StvkModel
    >>> from supple.scenes import beam
    >>> model = StvkModel.build(beam(cells=(6, 2, 2)), Material("stvk", young=1e5), modes=6)
    >>> simulator = FreeStvkSimulator(model, dt=1 / 1000, gravity=(0, -9.81, 0))
    >>> simulator.reset(linear=[1.0, 5.0, 0.0], angular=[0.0, 0.0, 8.0])
    >>> simulator.run(500).roots.shape
    (500, 4, 4)
    >>> simulator.energies()["elastic"] > 0  # it stretches as it turns
    True
    """

    def __init__(
        self,
        model: StvkModel,
        dt: float = 1 / 1000,
        *,
        integrator: str = "newmark",
        iterations: int = 1,
        dtype: DTypeLike = np.float64,
        alpha: float = 0.0,
        beta: float = 0.0,
        gravity: ArrayLike = (0.0, 0.0, 0.0),
    ) -> None:
        self._take_options(dt, integrator, iterations, dtype, alpha, beta)
        self._gravity = checked_array("gravity", gravity, (3,)).copy()
        self._set_model(model)
        self.reset()

    def _set_model(self, model: StvkModel) -> None:
        """Lay out a model's coefficients as a step reads them; the state is left to `reset`."""
        moments = free_moments(model)
        r, (blocks, linear, terms, given) = model.modes, coefficient_arrays(model, self._dtype)
        packed = np.zeros((rows.PACKED_ROWS, padded_pairs(r)))
        packed[: len(given)] = given
        packed[MASS, : r * (r + 1) // 2] = moments.shape_mass[np.triu_indices(r)]
        self.model, self._moments = model, moments
        self._settings[4] = tolerance(model)
        self._state, self._spin = np.zeros((rows.STATE_ROWS, r)), np.zeros((rows.SPIN_ROWS, 4))
        self._turning = *moment_arrays(moments), np.zeros((SUM_ROWS, r)), np.zeros(6)
        arms = model.surface.vertices - moments.centre
        self._system = padded_identity(r)
        self._arguments: tuple[Any, ...] = (
            *(self._gravity, arms, model.surface_basis, moments.drift, moments.mass),
            *(self._settings, self._counts, blocks, linear, terms, packed),
            *(self._state, self._system, *self._turning, self._spin),
        )
        basis = model.surface_basis - moments.drift
        self._surface_basis = basis.astype(np.float32).reshape(-1, r)
        self._surface_rest = arms.astype(np.float32)
        self._local = np.empty_like(self._surface_rest)
        self._none = np.empty((1, 0, 3)), np.empty(0, np.int64)
        self._no_trace = np.empty((0, r)), np.empty((0, 7))

    def set_material(
        self,
        group: int = 0,
        *,
        young: float | None = None,
        poisson: float | None = None,
        density: float | None = None,
    ) -> None:
        """Change the material of a group while the body moves; see `StvkModel.with_material`.

        All of it stays where it is, and as fast: with another density momenta change.
        """
        changed = self.model.with_material(group, young=young, poisson=poisson, density=density)
        root, angular, q, velocity = self.root, self.angular_velocity, self.q, self.velocity
        linear, before = self._spin[rows.LINEAR, :3] / self._moments.mass, self._moments
        counts, steps, was = self._counts.copy(), self._steps, dict(vars(self))
        try:
            self._set_model(changed)
            along = self._moments.centre_at(q) - before.centre_at(q)
            drifting = (self._moments.drift - before.drift) @ velocity
            linear += np.cross(angular, root[:3, :3] @ along) + root[:3, :3] @ drifting
            self.reset(q, velocity, root, linear, angular)
        except SuppleError:
            vars(self).update(was)
            raise
        self._counts[:], self._steps = counts, steps

    def reset(
        self,
        q: ArrayLike | None = None,
        velocity: ArrayLike | None = None,
        root: ArrayLike | None = None,
        linear: ArrayLike = (0.0, 0.0, 0.0),
        angular: ArrayLike = (0.0, 0.0, 0.0),
    ) -> None:
        """Start anew: by default where the mesh is, undeformed and at rest.

        Parameters
        ----------
        q, velocity
            (r,) deformation and how it changes.
        root
            (4, 4) rigid transform from the mesh's frame to the world.
        linear
            (3,) velocity of the mass centre, in m/s.
        angular
            (3,) angular velocity of the root in the world, in rad/s.
        """
        r, moments = self.model.modes, self._moments
        at = np.zeros(r) if q is None else checked_array("q", q, (r,))
        moving = np.zeros(r) if velocity is None else checked_array("velocity", velocity, (r,))
        place, fast = checked_root(root), checked_array("linear", linear, (3,))
        turn = place[:3, :3]
        omega = turn.T @ checked_array("angular", angular, (3,))
        with np.errstate(over="ignore", invalid="ignore"):
            coupling, inertia = moments.coupling_at(at), moments.inertia_at(at)
            spin = turn @ (inertia @ omega + coupling @ moving)
            momentum = coupling.T @ omega + moments.shape_mass @ moving
            pull = self._pull(at, moving, omega)
            centre = place[:3, 3] + turn @ moments.centre_at(at)
            total = np.concatenate([spin, momentum, pull, centre, moments.mass * fast])
        if not np.isfinite(total).all():
            raise SolverError("forces there are beyond all numbers; begin nearer to rest, slower")
        self._state[:], self._spin[:] = 0.0, 0.0
        self._state[[rows.POSITION, rows.VELOCITY]] = at, moving
        self._state[[rows.PULL, rows.MOMENTUM]] = pull, momentum
        self._spin[[rows.CENTRE, rows.LINEAR], :3] = centre, moments.mass * fast
        self._spin[[rows.ANGULAR, rows.OMEGA], :3] = spin, omega
        self._spin[rows.TURN] = from_matrix(turn)
        self._evaluate_turning()
        self._counts[1:] = 0
        self._steps = 0

    def _evaluate_turning(self) -> None:
        state = self._state
        evaluate_turning(state[rows.POSITION], state[rows.VELOCITY], *self._turning)

    def _pull(self, q: Floats, v: Floats, omega: Floats) -> Floats:
        """ṗ without what acts from outside."""
        moments = self._moments
        _, linear, quadratic = moments.inertia_terms
        slopes = linear + 2 * quadratic @ q
        outward = 0.5 * np.einsum("a,b,abj->j", omega, omega, slopes)
        outward += np.einsum("a,aij,j->i", omega, moments.coupling_terms[1], v)
        damped = self.alpha * (moments.deforming_mass_at(q) @ v)
        damped += self.beta * (self.model.stiffness(q) @ v)
        return outward - self.model.force(q) - damped

    def step(self, forces: Forces | None = None) -> StvkStep:
        """Advance by one time step.

        Parameters
        ----------
        forces
            In N, in the world: a mapping of surface vertices to (3,), or (n̄, 3). They act
            throughout the step where their vertices are expected in the middle of it.

        Raises
        ------
        SuppleError
            If they are not numbers, or there is no finite state after them; the state is then
            as it was.
        """
        loads = self._none if forces is None else surface_loads(self.model, forces, None)
        before = self._counts[1]
        if fly(1, *loads, *self._no_trace, *self._arguments) != 1:
            self._diverged(0)
        self._steps += 1
        limits = () if self._counts[1] == before else ("stiffness",)
        return StvkStep(self._steps * self.dt, limits)

    def run(self, steps: int, forces: Forces | None = None) -> FreeStvkRun:
        """Make many steps in one compiled call.

        Parameters
        ----------
        steps
            How many.
        forces
            As for `step`, in all of them; or for each its own: a mapping of vertices to
            (steps, 3), or (steps, n̄, 3).

        Raises
        ------
        SuppleError
            If the motion has no finite end; the state is then as before the first step.
        """
        count, r = checked_count("the number of steps", steps, 0), self.model.modes
        check_trace(count, r + 23)
        loads = self._none if forces is None else surface_loads(self.model, forces, count)
        trace, flight = np.empty((count, r)), np.empty((count, 7))
        kept = [self._state, self._spin, self._counts]
        begun = [array.copy() for array in kept]
        made = fly(count, *loads, trace, flight, *self._arguments) if count else 0
        if made != count:
            for array, was in zip(kept, begun, strict=True):
                array[:] = was
            self._diverged(made)
        self._steps += count
        return FreeStvkRun(trace, roots_of(flight, trace, self._moments))

    def _diverged(self, made: int) -> None:
        self._system[:] = padded_identity(self.model.modes)  # it may hold what is no number
        self._evaluate_turning()
        raise SolverError(
            f"the simulation diverges at {self.time + made * self.dt:.3f} s; use a smaller dt (a "
            "step must turn the body by less than a radian), smaller forces or more damping"
        )
