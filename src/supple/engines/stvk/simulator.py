"""The simulator of a Saint Venant–Kirchhoff body in its basis: thousands of steps a second."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from supple.arrays import Floats, Singles
from supple.checks import checked_array, checked_count, numbers, shown
from supple.engines.stvk.cubic_model import CubicModel
from supple.engines.stvk.model import StvkModel
from supple.engines.stvk.setup import (
    acceleration_by,
    check_trace,
    checked_dtype,
    checked_out,
    coefficient_arrays,
    finite_weight,
    first_acceleration,
    iteration_counts,
    step_settings,
    surface_arrays,
    tolerance,
)
from supple.engines.stvk.stvk_step import ACCELERATION, POSITION, STATE_ROWS, VELOCITY, advance
from supple.errors import SolverError, SuppleError
from supple.linalg.upper_triangle import padded_identity

__all__ = ["StvkReadings", "StvkSimulator", "StvkStep"]


# ----------------------------------------------------------------------------
# What the simulators of Saint Venant–Kirchhoff bodies, held and free, are set to and say.


class StvkReadings:
    """Options and readings of a simulator, whose state begins with the rows of q and q̇."""

    _state: Floats
    _steps: int

    def _take_options(
        self,
        dt: float,
        integrator: str,
        iterations: int,
        dtype: DTypeLike,
        alpha: float,
        beta: float,
    ) -> None:
        self._settings = step_settings(dt, integrator, alpha, beta)
        self._counts = iteration_counts(iterations)
        self._dtype: np.dtype[Any] = checked_dtype(dtype)
        self._integrator = integrator
        self._dt, self._alpha, self._beta = self._settings[[0, 2, 3]].tolist()

    @property
    def dt(self) -> float:
        """Time step in s."""
        return self._dt

    @property
    def integrator(self) -> str:
        """``"newmark"`` or ``"backward-euler"``."""
        return self._integrator

    @property
    def alpha(self) -> float:
        """Damping by mass, in 1/s."""
        return self._alpha

    @property
    def beta(self) -> float:
        """Damping by stiffness, in s."""
        return self._beta

    @property
    def iterations(self) -> int:
        """How often at most elastic forces are linearised in a step."""
        return int(self._counts[0])

    @property
    def time(self) -> float:
        """Seconds since the reset."""
        return self._steps * self._dt

    @property
    def q(self) -> Floats:
        """Reduced displacement, of a free body in its own frame, (r,): a copy."""
        return self._state[POSITION].copy()

    @property
    def velocity(self) -> Floats:
        """Its velocity, (r,)."""
        return self._state[VELOCITY].copy()

    @property
    def shifted_steps(self) -> int:
        """Steps since `reset` whose system was not positive definite."""
        return int(self._counts[1])

    @property
    def unconverged_steps(self) -> int:
        """Steps since `reset` whose last iteration moved something: of single ones, most."""
        return int(self._counts[2])


Forces = ArrayLike | Mapping[int, ArrayLike]


class StvkStep(NamedTuple):
    """What a step did."""

    time: float
    """Seconds since the reset."""
    limits: tuple[str, ...]
    """``"stiffness"`` where the system was not positive definite, and was made so."""
    readings: Mapping[str, Any] = MappingProxyType({})
    """Figures of the step; none."""


class StvkSimulator(StvkReadings):
    """Steps M̃ q̈ + D̃ q̇ + f̃(q) = f̃_ext with D̃ = αM̃ + βK̃(q) (barbic2005 §3.3).

    The same inputs give the same bits, and a step allocates nothing but what it returns.

    Parameters
    ----------
    model
        What to step: a `StvkModel`, or a `CubicModel` as `supple.formats.read_vega` makes.
    dt
        Time step in s.
    integrator
        ``"newmark"`` (β = ¼, γ = ½: second order, keeps energy of what steps resolve) or
        ``"backward-euler"`` (loses energy, of what is fast most).
    iterations
        Most Newton iterations of a step, up to 1000. One is the paper's choice for real time;
        several end as soon as they change nothing.
    dtype
        Of the coefficients: float64, or float32 for half the time and seven digits.
    alpha, beta
        Rayleigh damping, in 1/s and s.
    gravity
        In m/s²; by default none, as the shape at rest is one that hangs already.

    Notes
    -----
    A stiffness that is not positive definite, as of a body that is squeezed, can make βK̃ feed
    energy in; where it makes the system indefinite, the step is solved as if the body were
    heavier (`shifted_steps`). Iterations that end early (`unconverged_steps`: of single ones
    most) are not bound to what is said of energy: a body deformed far that is let go in steps of
    a hundredth of a second can gain many times its own, with either integrator. A smaller `dt`
    is the cure, and cheaper than iterations.

    Examples
    --------
    >>> import numpy as np
    >>> from supple.elastic import Material
    >>> from supple.engines.stvk.model import StvkModel
    >>> from supple.scenes import beam
    >>> mesh = beam(cells=(6, 2, 2))
    >>> wall = np.flatnonzero(mesh.vertices[:, 0] == 0)
    >>> model = StvkModel.build(mesh, Material("stvk", young=1e5), modes=6, fixed=wall)
    >>> simulator = StvkSimulator(model, dt=1 / 1000)
    >>> tip = int(simulator.surface()[:, 0].argmax())
    >>> simulator.step({tip: [0.0, -1.0, 0.0]}).limits
    ()
    >>> simulator.run(1000).shape
    (1000, 6)
    """

    def __init__(
        self,
        model: StvkModel | CubicModel,
        dt: float = 1 / 1000,
        *,
        integrator: str = "newmark",
        iterations: int = 1,
        dtype: DTypeLike = np.float64,
        alpha: float = 0.0,
        beta: float = 0.0,
        gravity: ArrayLike = (0.0, 0.0, 0.0),
    ) -> None:
        if not isinstance(model, StvkModel | CubicModel):
            raise SuppleError(f"a StvkSimulator needs a StvkModel, not {shown(model)}")
        self._take_options(dt, integrator, iterations, dtype, alpha, beta)
        self._gravity = checked_array("gravity", gravity, (3,)).copy()
        self._state, self._steps = np.zeros((STATE_ROWS, model.modes)), 0
        self._set_model(model)

    def _set_model(self, model: StvkModel | CubicModel) -> None:
        """Lay out a model's coefficients as a step reads them; or refuse, and change nothing."""
        r, arrays = model.modes, coefficient_arrays(model, self._dtype)
        weight = finite_weight(model, self._gravity)
        at, moving = self._state[[POSITION, VELOCITY]]
        acceleration = first_acceleration(model, weight, self._settings, at, moving)
        self.model, self._settings[4] = model, tolerance(model)
        self._arguments: tuple[Any, ...] = (
            *(self._settings, self._counts),
            *arrays,
            *(self._state, padded_identity(r)),
        )
        self._surface_rest, self._surface_basis = surface_arrays(model)
        self._acting, self._no_trace = np.empty((1, r)), np.empty((0, r))
        self._set_weight(weight, acceleration)

    def _set_weight(self, weight: Floats, acceleration: Floats) -> None:
        self._weight, self._constant = weight, weight.reshape(1, -1).copy()
        self._state[ACCELERATION] = acceleration

    def set_material(
        self,
        group: int = 0,
        *,
        young: float | None = None,
        poisson: float | None = None,
        density: float | None = None,
    ) -> None:
        """Change the material of a group while the body moves; see `StvkModel.with_material`.

        It goes on from where it is, as fast, as if it had been let go there.
        """
        changed = self.model.with_material(group, young=young, poisson=poisson, density=density)
        self._set_model(changed)

    def reset(self, q: ArrayLike | None = None, velocity: ArrayLike | None = None) -> None:
        """Start anew: by default undeformed and at rest."""
        r = self.model.modes
        at = np.zeros(r) if q is None else checked_array("q", q, (r,))
        moving = np.zeros(r) if velocity is None else checked_array("velocity", velocity, (r,))
        begun = first_acceleration(self.model, self._weight, self._settings, at, moving)
        self._state[:] = 0.0
        self._state[[POSITION, VELOCITY, ACCELERATION]] = at, moving, begun
        self._counts[1:], self._steps = 0, 0

    @property
    def gravity(self) -> Floats:
        """In m/s², (3,): a copy; another can be set while the body moves."""
        return self._gravity.copy()

    @gravity.setter
    def gravity(self, gravity: ArrayLike) -> None:
        pull = checked_array("gravity", gravity, (3,)).copy()
        weight = finite_weight(self.model, pull)
        gained = acceleration_by(self.model, weight - self._weight)
        self._gravity = pull
        self._set_weight(weight, self._state[ACCELERATION] + gained)

    @property
    def weight(self) -> Floats:
        """UᵀM g, (r,), not to be written to: another array after each change of what is in it."""
        return self._weight

    @property
    def acceleration(self) -> Floats:
        """Its acceleration, (r,)."""
        return self._state[ACCELERATION].copy()

    @property
    def kernel_arguments(self) -> tuple[Any, ...]:
        """What `advance` reads and writes, for compiled loops around it; see `count_steps`."""
        return self._arguments

    def count_steps(self, made: int) -> None:
        """Let time go on by steps that a loop of one's own has made."""
        self._steps += made

    def step(self, forces: Forces | None = None) -> StvkStep:
        """Advance by one time step.

        Parameters
        ----------
        forces
            In N: a mapping of surface vertices to (3,), or (n̄, 3); or (r,) as reduced already.

        Raises
        ------
        SuppleError
            If they are not numbers, or there is no finite state after them; the state is then
            as it was.
        """
        acting = self._constant if forces is None else self._external(forces)
        before = self._counts[1]
        if advance(1, acting, self._no_trace, *self._arguments) != 1:
            checked_array("forces", acting[0], self._weight.shape)
            self._diverged(0)
        self._steps += 1
        limits = () if self._counts[1] == before else ("stiffness",)
        return StvkStep(self._steps * self._dt, limits)

    def run(self, steps: int | ArrayLike) -> Floats:
        """Make many steps in one compiled call.

        Parameters
        ----------
        steps
            How many without forces; or (t, r) reduced forces, one for each step.

        Returns
        -------
        (t, r) array
            q after each step; `StvkModel.surface_at` shows one.

        Raises
        ------
        SuppleError
            If the motion has no finite end; the state is then as before the first step.
        """
        r = self.model.modes
        if isinstance(steps, int | np.integer):
            count, acting = checked_count("the number of steps", steps, 0), self._constant
        else:
            given = numbers("forces", steps)
            if given.ndim != 2 or given.shape[1] != r:
                raise SuppleError(f"forces of shape {given.shape}; expected (steps, {r})")
            count = len(given)
            acting = checked_array("forces", given, given.shape) + self._weight
        check_trace(count, r)
        trace = np.empty((count, r))
        begun, counted = self._state.copy(), self._counts.copy()
        made = advance(count, acting, trace, *self._arguments) if count else 0
        if made != count:
            self._state[:], self._counts[:] = begun, counted
            self._diverged(made)
        self._steps += count
        return trace

    def surface(self, out: Singles | None = None) -> Singles:
        """What is seen, (n̄, 3) float32: a new array, or `out`."""
        out = checked_out(out, self.model.surface.vertices.shape)
        flat = out.reshape(-1)
        np.dot(self._surface_basis, self._state[POSITION].astype(np.float32), out=flat)
        flat += self._surface_rest
        return out

    def energies(self) -> dict[str, float]:
        """Kinetic and elastic energy, that of weight (none at rest), and their sum, in J."""
        q, velocity = self._state[[POSITION, VELOCITY]]
        found = {
            "kinetic": 0.5 * float(velocity @ self.model.mass @ velocity),
            "elastic": self.model.energy(q),
            "gravity": 0.0 - float(self._weight @ q),  # and not −0
        }
        return found | {"total": sum(found.values())}

    def _external(self, forces: Forces) -> Floats:
        """Reduced forces and weight, (1, r); what is not finite among numbers, the step finds."""
        given, shape = forces, self._weight.shape
        if not (type(forces) is np.ndarray and forces.shape == shape):  # at a kilohertz it is
            if not isinstance(forces, Mapping):
                given = numbers("forces", forces)
            if isinstance(given, Mapping) or np.shape(given) != shape:
                given = self.model.reduced_force(given)
        try:
            np.add(given, self._weight, out=self._acting[0])  # type: ignore[arg-type]
        except TypeError:
            raise SuppleError(f"forces must be {shape[0]} numbers") from None
        return self._acting

    def _diverged(self, made: int) -> None:
        self._arguments = (*self._arguments[:-1], padded_identity(self.model.modes))
        raise SolverError(
            f"the simulation diverges at {self.time + made * self.dt:.3f} s; use a smaller dt, "
            "smaller forces or more damping"
        )
